//! The best mapping for any objective: every placement that the rules allow, one after the other, until one costs no
//! more than the objective's bound. A placement differs from the one before it in few tasks, so that its cost is kept
//! up to date ([`State`]) where the objective's states cost what placements do; where they do not, every placement is
//! judged by itself. Nothing is known of how an objective goes on from some of the tasks, nor whether parts of the tree
//! that look alike cost alike, so that no branch is cut.

use super::{Limits, to_place, unproven};
use crate::Mapper;
use crate::load::Balance;
use crate::mappers::complace::Complace;
use crate::objective::{Case, Objective, State};
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use cohabit_model::Result;
use cohabit_model::topology::NodeId;

/// Placements after which the search is given up: some seconds.
const MOST_PLACEMENTS: u64 = 2_000_000;

/// Placements after which the sums of a state are made again: additions have left them a little wrong.
const REFRESHED: u64 = 1_024;

/// The placement that costs least of all.
///
/// # Errors
/// There are too many placements, or what the objective needs is not there.
pub fn least(case: &Case, objective: &dyn Objective) -> Result<Vec<usize>> {
    let problem = case.problem;
    let balance = Balance::new(problem)?;
    let slots = match &balance {
        Some(balance) => balance.slots(problem)?,
        None => Slots::new(problem)?,
    };
    let first = Complace.map(problem)?;
    let cost = objective.cost(case, &first)?;
    let state = if objective.states_are_exact(case) { Some(objective.state(case, &first)?) } else { None };
    let mut search = Enumeration {
        case,
        objective,
        slots: &slots,
        partial: PartialMapping::new(&slots),
        limits: Limits::new(problem, &slots, balance.as_ref()),
        order: (0..slots.tasks()).filter(|&task| slots.pinned[task].is_none()).collect(),
        state,
        bound: objective.bound(case)?.unwrap_or(f64::NEG_INFINITY),
        placement: first.clone(),
        best: (cost, first),
        seen: 0,
    };
    if !search.place(0)? {
        let cause = format!(
            "{} tasks can be placed in more than {MOST_PLACEMENTS} ways, and for {} the mapper `exact` tries them all",
            to_place(problem),
            objective.name()
        );
        return Err(unproven(cause));
    }
    Ok(search.best.1)
}

/// A search through all placements.
struct Enumeration<'a, 'b> {
    case: &'b Case<'a>,
    objective: &'b dyn Objective,
    slots: &'b Slots,
    partial: PartialMapping<'b>,
    limits: Option<Limits<'b>>,
    /// The tasks to place, in order.
    order: Vec<usize>,
    state: Option<Box<dyn State + 'b>>,
    /// No placement costs less.
    bound: f64,
    /// Where tasks are at the moment; those that are yet to place, where they were.
    placement: Vec<usize>,
    /// The least cost so far, and its placement.
    best: (f64, Vec<usize>),
    seen: u64,
}

impl Enumeration<'_, '_> {
    /// Places the tasks from the `depth`-th on in every way; false where the search is given up.
    fn place(&mut self, depth: usize) -> Result<bool> {
        let Some(&task) = self.order.get(depth) else { return self.judge() };
        let mut before = None;
        for slot in 0..self.slots.len() {
            let pu = self.slots.pu[slot];
            // The slots of a PU are alike.
            if before == Some(pu)
                || !self.partial.may_take(slot)
                || self.limits.as_ref().is_some_and(|limits| !limits.fits(task, pu))
            {
                continue;
            }
            before = Some(pu);
            self.partial.take(slot, task);
            self.limits.iter_mut().for_each(|limits| limits.add(task, pu));
            self.go(task, pu);
            let goes_on = self.place(depth + 1)?;
            self.limits.iter_mut().for_each(|limits| limits.remove(task, pu));
            self.partial.give_back(task);
            if !goes_on {
                return Ok(false);
            }
            if self.best.0 <= self.bound {
                break;
            }
        }
        Ok(true)
    }

    /// Puts a task on a PU.
    fn go(&mut self, task: usize, pu: usize) {
        if std::mem::replace(&mut self.placement[task], pu) != pu {
            let node: NodeId = self.case.problem.topology.pus[pu].node;
            self.state.iter_mut().for_each(|state| state.place(&[(task, node)]));
        }
    }

    /// Keeps the placement at hand if it costs less than all before; false where there were too many.
    fn judge(&mut self) -> Result<bool> {
        if self.seen == MOST_PLACEMENTS {
            return Ok(false);
        }
        self.seen += 1;
        let cost = match &mut self.state {
            Some(state) => {
                if self.seen % REFRESHED == 0 {
                    state.refresh();
                }
                state.cost()
            }
            None => self.objective.cost(self.case, &self.placement)?,
        };
        // What differs by less is rounding.
        if cost < self.best.0 - 1e-12 * self.best.0.abs() {
            self.best = (cost, self.placement.clone());
        }
        Ok(true)
    }
}
