//! A mapping for each phase of a run, where moving tasks pays for itself.
//!
//! Every phase is mapped by itself, its tasks coming from the one mapping: as if moves cost nothing, and at their
//! price, so that only those move whom it serves. Of all these and the one mapping [`choice`] finds those with which
//! phases and moves take least together. Having the one mapping in every phase is among the choices, so that what is
//! found is never estimated to take more.

mod choice;

pub use choice::Costs;

use crate::makespan::slots_of;
use crate::objective::{Case, Changing, Objective, map_for};
use crate::slots::Slots;
use crate::stay::nearest;
use crate::{Mapper, Options, Problem};
use cohabit_model::mapping::Weight;
use cohabit_model::{Error, Matrix, Period, Result};
use std::collections::BTreeMap;

/// Phases at most.
pub const MOST_PHASES: usize = 64;
/// Costs are whole numbers of these, so that sums are exact.
const UNITS_PER_SECOND: f64 = 1e12;

/// Mappings of the phases of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PerPhase {
    /// The mappings that phases have, the one for the whole run first: indices into
    /// [`Topology::pus`](cohabit_model::Topology::pus) by task.
    pub placements: Vec<Vec<usize>>,
    /// Which of them each phase has.
    pub of_phase: Vec<usize>,
    /// How often the mapping changes in the run.
    pub changes: u64,
    /// How many tasks move at all these changes together.
    pub moves: u64,
    /// What all phases take so.
    pub phase_s: f64,
    /// What all moves take.
    pub move_s: f64,
    /// What all phases take with the one mapping.
    pub single_s: f64,
    /// What they would take if each had what serves it best and moves cost nothing.
    pub free_s: f64,
    /// What each phase takes in all with each of the placements, `[phase][placement]`.
    pub takes_s: Vec<Vec<f64>>,
    /// What a change from one of the placements to another takes, `[from][to]`.
    pub moves_s: Vec<Vec<f64>>,
}

impl PerPhase {
    /// Whether every phase has the one mapping.
    pub fn is_single(&self) -> bool {
        self.of_phase.iter().all(|&mapping| mapping == 0)
    }
}

/// The phases of a run: [`Problem::periods`] of the case.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// The order in which they come: places in these.
    pub order: &'a [usize],
    /// Those that no mapping serves better than another, whatever costs say: nobody moves for them.
    pub indifferent: &'a [bool],
}

/// A mapping for each of the phases.
///
/// `single` is the one mapping for the whole run, with which it begins; `weight` is what the problem's matrix counts.
///
/// # Errors
/// Too many phases, an objective that knows nothing of changes, and as the mapper.
pub fn per_phase(
    case: &Case,
    (mapper, objective): (&dyn Mapper, &dyn Objective),
    weight: Weight,
    Sequence { order, indifferent }: Sequence,
    single: &[usize],
) -> Result<PerPhase> {
    let phases = case.problem.periods;
    if phases.len() > MOST_PHASES {
        let cause = format!("the run has {} phases: mappings are made for at most {MOST_PHASES}", phases.len());
        return Err(Error::new(cause).remedy("number phases by what the program does in them, not by iteration"));
    }
    let lines = if weight == Weight::Bytes { 1.0 / crate::objective::LINE_BYTES } else { 1.0 };
    let changing = objective.changing(case.problem.topology, lines).ok_or_else(|| {
        Error::new(format!("the objective {} is of runs with one mapping", objective.name()))
            .remedy("leave --per-phase out, or take --objective distance or congestion")
    })?;
    let parts: Vec<Part> = phases.iter().map(|period| Part::new(case, weight, period, phases)).collect();
    let mut candidates = vec![single.to_vec()];
    for (phase, part) in parts.iter().enumerate().filter(|(phase, _)| !indifferent[*phase]) {
        let entries = order.iter().filter(|&&at| at == phase).count().max(1) as f64;
        for placement in part.mappings(case, (mapper, objective), &changing, entries, single)? {
            if !candidates.contains(&placement) {
                candidates.push(placement);
            }
        }
    }
    let mut costs = costs(case, objective, &changing, &parts, &candidates)?;
    for (row, _) in costs.phases.iter_mut().zip(indifferent).filter(|(_, indifferent)| **indifferent) {
        let single = row[0];
        row.fill(single);
    }
    costs.along(order);
    Ok(chosen(&costs, candidates, &changing, order))
}

/// What each phase and each change costs, in [`UNITS_PER_SECOND`].
fn costs(
    case: &Case,
    objective: &dyn Objective,
    changing: &Changing,
    parts: &[Part],
    candidates: &[Vec<usize>],
) -> Result<Costs> {
    let units = |seconds: f64| (seconds * UNITS_PER_SECOND).round() as u128;
    let of = |part: &Part, placement: &Vec<usize>| {
        part.on(case, case.problem.options, |case| objective.cost(case, placement))
    };
    let row = |part: &Part| {
        candidates.iter().map(|one| Ok(units(of(part, one)? * changing.seconds_per_cost))).collect::<Result<Vec<_>>>()
    };
    let phases = parts.iter().map(row).collect::<Result<Vec<_>>>()?;
    let price = |a: &Vec<usize>, b: &Vec<usize>| units(changing.price(moved(a, b)));
    let prices: Vec<Vec<u128>> = candidates.iter().map(|a| candidates.iter().map(|b| price(a, b)).collect()).collect();
    Ok(Costs { phases, changes: BTreeMap::new(), prices })
}

/// What was chosen, with those mappings only that a phase has.
fn chosen(costs: &Costs, candidates: Vec<Vec<usize>>, changing: &Changing, order: &[usize]) -> PerPhase {
    let choice = costs.least();
    let seconds = |units: u128| units as f64 / UNITS_PER_SECOND;
    let (mut changes, mut moves, mut move_s) = (0, 0, 0.0);
    let mut present = 0;
    for &phase in order {
        let count = moved(&candidates[present], &candidates[choice[phase]]);
        changes += u64::from(count > 0);
        moves += count as u64;
        move_s += changing.price(count);
        present = choice[phase];
    }
    // Entering the first phase is among its costs.
    let own = |phase: usize, mapping: usize| {
        let entering = if order.first() == Some(&phase) { costs.prices[0][mapping] } else { 0 };
        costs.phases[phase][mapping] - entering
    };
    let phases = 0..choice.len();
    let sum = |mapping_of: &dyn Fn(usize) -> usize| phases.clone().map(|phase| own(phase, mapping_of(phase))).sum();
    let free = phases.clone().filter_map(|phase| (0..candidates.len()).map(|mapping| own(phase, mapping)).min()).sum();
    let mut used = vec![0];
    let mut of_phase = Vec::new();
    for &mapping in &choice {
        let at = used.iter().position(|&other| other == mapping).unwrap_or_else(|| {
            used.push(mapping);
            used.len() - 1
        });
        of_phase.push(at);
    }
    let takes = |phase: usize| used.iter().map(|&mapping| seconds(own(phase, mapping))).collect();
    let price = |from: usize| used.iter().map(|&to| seconds(costs.prices[from][to])).collect();
    PerPhase {
        takes_s: phases.clone().map(takes).collect(),
        moves_s: used.iter().map(|&from| price(from)).collect(),
        phase_s: seconds(sum(&|phase| choice[phase])),
        single_s: seconds(sum(&|_| 0)),
        free_s: seconds(free),
        placements: used.into_iter().map(|mapping| candidates[mapping].clone()).collect(),
        of_phase,
        changes,
        moves,
        move_s,
    }
}

/// How many tasks are elsewhere.
fn moved(before: &[usize], after: &[usize]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

/// A phase as a problem of its own.
struct Part<'a> {
    weight: &'a Matrix,
    /// Its share of what tasks do in all phases, by time.
    load: Vec<u64>,
    period: &'a Period,
}

impl<'a> Part<'a> {
    fn new(case: &Case, weight: Weight, period: &'a Period, all: &[Period]) -> Self {
        let windows = |period: &Period| period.spans.iter().map(|span| span.end - span.start).sum::<u64>() as f64;
        let share = windows(period) / all.iter().map(windows).sum::<f64>().max(1.0);
        let load = case.problem.load.iter().map(|&load| (load as f64 * share).round() as u64).collect();
        Self { weight: if weight == Weight::Bytes { &period.bytes } else { &period.messages }, load, period }
    }

    /// Something of this phase alone.
    fn on<T>(&self, case: &Case, options: &Options, work: impl FnOnce(&Case) -> T) -> T {
        let periods = std::slice::from_ref(self.period);
        let problem = Problem { weight: self.weight, load: &self.load, periods, options, ..*case.problem };
        work(&Case { problem: &problem, ..*case })
    }

    /// What serves this phase, where its tasks are where `single` has them: as if moves cost nothing, and at the price
    /// of as many moves there and back as the phase has entries.
    fn mappings(
        &self,
        case: &Case,
        (mapper, objective): (&dyn Mapper, &dyn Objective),
        changing: &Changing,
        entries: f64,
        single: &[usize],
    ) -> Result<Vec<Vec<usize>>> {
        let price = changing.price(1) * 2.0 * entries / changing.seconds_per_cost;
        // Mappers take no larger price than this, and nobody moves for it.
        let price = if price.is_finite() { price.min(f64::from(u32::MAX)) as u64 } else { u64::from(u32::MAX) };
        let present = single.iter().copied().map(Some).collect();
        let options = Options { present, ..case.problem.options.clone() };
        let mut found: Vec<Vec<usize>> = Vec::new();
        for move_cost in [0, price].into_iter().take(1 + usize::from(changing.adds_up)) {
            let options = Options { move_cost, ..options.clone() };
            let placement = self.on(case, &options, |case| {
                let placement = map_for(case, mapper, objective)?;
                near(case, objective, placement)
            })?;
            found.push(placement);
        }
        Ok(found)
    }
}

/// The nearest to where tasks are of the mappings that differ only in which of several like parts has which tasks.
fn near(case: &Case, objective: &dyn Objective, placement: Vec<usize>) -> Result<Vec<usize>> {
    let slots = Slots::new(case.problem)?;
    let Some(slot_of) = slots_of(&slots, &placement) else { return Ok(placement) };
    let nearer: Vec<usize> = nearest(case.problem, &slots, &slot_of).into_iter().map(|slot| slots.pu[slot]).collect();
    let same = objective.cost(case, &nearer)? <= objective.cost(case, &placement)?;
    Ok(if same { nearer } else { placement })
}

#[cfg(test)]
mod tests;
