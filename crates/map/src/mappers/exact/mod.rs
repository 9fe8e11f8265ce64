//! Branch and bound: the best mapping there is, with proof.
//!
//! Tasks are placed in an order in which each communicates as much as can be with those before it. A branch is cut
//! where the bound reaches the best mapping known: every task yet to place pays at least for its cheapest slot, its
//! partners that are not placed either coming as near as slots allow, the heaviest nearest (the bound of Gilmore 1962
//! and Lawler 1963 without its assignment problem). Empty parts of the tree that look the same are tried once
//! ([`Shapes`]). For other objectives than J's every placement is tried ([`enumeration`]).

mod enumeration;

use crate::load::Balance;
use crate::mappers::complace::Complace;
use crate::partial_mapping::PartialMapping;
use crate::shapes::{Shapes, narrowed};
use crate::slots::Slots;
use crate::{Mapper, Problem, SearchFor};
use cohabit_model::{Error, Result, cost};
use std::collections::BTreeSet;

/// The mapper `exact`.
pub struct Exact;

/// More tasks than this to place are refused at once: the proof would not end.
const MOST_TASKS: usize = 24;

/// More slots than this have no tables.
const MOST_SLOTS: usize = 4_096;

/// Branches between two questions whether to go on.
const LOOK: u64 = 64;

/// Branches after which the search is given up.
pub const MOST_BRANCHES: u64 = 20_000_000;

impl Mapper for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn about(&self) -> &'static str {
        "the best mapping with proof, for a dozen tasks (fewer for other objectives than distance): branch and bound"
    }

    fn source(&self) -> &'static str {
        "Gilmore 1962 and Lawler 1963, bounds of the quadratic assignment problem"
    }

    fn only_distance(&self) -> Option<&'static str> {
        None
    }

    fn search_for(&self) -> Option<SearchFor> {
        Some(enumeration::least)
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let to_place = to_place(problem);
        if to_place > MOST_TASKS {
            return Err(unproven(format!("the mapper `exact` is for up to {MOST_TASKS} tasks, not {to_place}")));
        }
        match improved(problem, Complace.map(problem)?, MOST_BRANCHES, &|| true)? {
            (best, true) => Ok(best),
            _ => Err(unproven(format!("no proof that a mapping is the best after {MOST_BRANCHES} branches"))),
        }
    }
}

/// The number of tasks that are not pinned.
pub fn to_place(problem: &Problem) -> usize {
    let pins: BTreeSet<usize> = problem.options.pins.iter().map(|pin| pin.0).collect();
    problem.weight.tasks().saturating_sub(pins.len())
}

/// The best placement that is found in so many branches, and as long as `goes_on`, which is asked now and then; and
/// whether there is none better. A placement to begin with is given.
///
/// # Errors
/// See [`Slots::new`].
pub fn improved(
    problem: &Problem,
    first: Vec<usize>,
    branches: u64,
    goes_on: &dyn Fn() -> bool,
) -> Result<(Vec<usize>, bool)> {
    let balance = Balance::new(problem)?;
    let slots = match &balance {
        Some(balance) => balance.slots(problem)?,
        None => narrowed(problem.topology, Slots::new(problem)?),
    };
    if slots.len() > MOST_SLOTS {
        return Ok((first, false));
    }
    let mut search = Search::new(problem, &slots, balance.as_ref(), &first);
    search.left = branches;
    search.goes_on = goes_on;
    let is_proven = search.place(0, 0);
    Ok((search.best, is_proven))
}

fn unproven(cause: String) -> Error {
    Error::new(cause).remedy("take the mapper `best`: it says how far it may be from the optimum")
}

struct Search<'a> {
    slots: &'a Slots,
    partial: PartialMapping<'a>,
    shapes: Option<Shapes>,
    limits: Option<Limits<'a>>,
    /// Weight from task to task.
    directed: Vec<Vec<u128>>,
    /// Weight of each pair of tasks, both directions.
    weight: Vec<Vec<u128>>,
    /// For each task the others, the heaviest partner first.
    partners: Vec<Vec<usize>>,
    /// Distance from slot to slot; matrices need not be symmetric.
    distance: Vec<Vec<u128>>,
    /// For each slot the others, the nearest first.
    nearest: Vec<Vec<usize>>,
    /// The tasks to place, in order.
    order: Vec<usize>,
    /// The best placement known, and its J.
    best: Vec<usize>,
    best_cost: u128,
    /// Branches that are left.
    left: u64,
    goes_on: &'a dyn Fn() -> bool,
}

/// The work of each PU, where loads are known.
struct Limits<'a> {
    balance: &'a Balance,
    work: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(problem: &Problem<'a>, slots: &'a Slots, balance: Option<&'a Balance>, first: &[usize]) -> Self {
        let tasks = slots.tasks();
        let directed = square(tasks, |a, b| u128::from(problem.weight.get(a, b)));
        let weight = square(tasks, |a, b| directed[a][b] + directed[b][a]);
        let between = |a: usize, b: usize| u128::from(problem.topology.distance(slots.pu[a], slots.pu[b]));
        let distance = square(slots.len(), between);
        let mut partners = ascending(&weight);
        partners.iter_mut().for_each(|row| row.reverse());
        Self {
            slots,
            partial: PartialMapping::new(slots),
            shapes: Shapes::new(problem.topology, slots),
            limits: Limits::new(problem, slots, balance),
            partners,
            nearest: ascending(&square(slots.len(), |a, b| distance[a][b].min(distance[b][a]))),
            order: order_of_placing(&weight, &slots.pinned),
            directed,
            weight,
            distance,
            best: first.to_vec(),
            best_cost: cost::distance_cost(problem.weight, problem.topology, first),
            left: MOST_BRANCHES,
            goes_on: &|| true,
        }
    }

    /// Places the tasks from the `depth`-th on, those before having cost `spent`; false where the search is given up.
    fn place(&mut self, depth: usize, spent: u128) -> bool {
        if self.left == 0 || (self.left % LOOK == 0 && !(self.goes_on)()) {
            return false;
        }
        self.left -= 1;
        let Some(&task) = self.order.get(depth) else {
            self.keep();
            return true;
        };
        for (price, slot) in self.choices(task) {
            let spent = spent.saturating_add(price);
            if spent >= self.best_cost {
                break;
            }
            self.partial.take(slot, task);
            let pu = self.slots.pu[slot];
            if let Some(limits) = &mut self.limits {
                limits.add(task, pu);
            }
            let goes_on = self.bound(depth + 1, spent) >= self.best_cost || self.place(depth + 1, spent);
            if let Some(limits) = &mut self.limits {
                limits.remove(task, pu);
            }
            self.partial.give_back(task);
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn keep(&mut self) {
        let slot_of = |task: usize| self.partial.slot_of(task).expect("every task is placed");
        let slot: Vec<usize> = (0..self.best.len()).map(slot_of).collect();
        let pair = |(a, b): (usize, usize)| self.pay((a, slot[a]), (b, slot[b]));
        self.best_cost = sum((0..slot.len()).flat_map(|a| (0..a).map(move |b| (a, b))).map(pair));
        self.best = self.slots.pus_of(&slot);
    }

    /// The slots worth trying for a task, each with what it adds to J, the cheapest first.
    fn choices(&self, task: usize) -> Vec<(u128, usize)> {
        let fits = |slot: &usize| {
            self.partial.may_take(*slot)
                && self.limits.as_ref().is_none_or(|limits| limits.fits(task, self.slots.pu[*slot]))
        };
        let open = (0..self.slots.len()).filter(fits);
        let different: Vec<usize> = match &self.shapes {
            Some(shapes) => shapes.different(open, |slot| self.partial.is_empty(slot)),
            None => open.collect(),
        };
        let mut choices: Vec<_> = different.into_iter().map(|slot| (self.price(task, slot), slot)).collect();
        choices.sort_unstable();
        choices
    }

    /// What two tasks pay to each other, each given with its slot.
    fn pay(&self, a: (usize, usize), b: (usize, usize)) -> u128 {
        let out = self.directed[a.0][b.0].saturating_mul(self.distance[a.1][b.1]);
        out.saturating_add(self.directed[b.0][a.0].saturating_mul(self.distance[b.1][a.1]))
    }

    /// What a task pays on a slot to the tasks that are placed.
    fn price(&self, task: usize, slot: usize) -> u128 {
        let placed = |other: usize| self.partial.slot_of(other).map_or(0, |at| self.pay((task, slot), (other, at)));
        sum((0..self.weight.len()).map(placed))
    }

    /// No way to place the tasks from the `depth`-th on makes J less than this.
    fn bound(&self, depth: usize, spent: u128) -> u128 {
        let empty: Vec<usize> = (0..self.slots.len()).filter(|&slot| self.partial.may_take(slot)).collect();
        let least = |&task: &usize| {
            let twice =
                |&slot: &usize| self.price(task, slot).saturating_mul(2).saturating_add(self.nearest_first(task, slot));
            empty.iter().map(twice).min().unwrap_or(0)
        };
        spent.saturating_add(sum(self.order[depth..].iter().map(least)).div_ceil(2))
    }

    /// What a task on a slot pays at least to the tasks yet to place: the heaviest on the nearest slot, and so on.
    fn nearest_first(&self, task: usize, slot: usize) -> u128 {
        let row = &self.weight[task];
        let waiting = self.partners[task].iter().filter(|&&other| self.partial.slot_of(other).is_none());
        let waiting = waiting.map(|&other| row[other]).take_while(|&weight| weight > 0);
        let empty = self.nearest[slot].iter().filter(|&&other| self.partial.is_empty(other));
        sum(waiting
            .zip(empty)
            .map(|(weight, &other)| weight.saturating_mul(self.distance[slot][other].min(self.distance[other][slot]))))
    }
}

impl<'a> Limits<'a> {
    /// The work of pinned tasks; none where loads are not known.
    fn new(problem: &Problem<'a>, slots: &Slots, balance: Option<&'a Balance>) -> Option<Self> {
        let work = vec![0.0; problem.topology.pus.len()];
        let mut limits = Self { balance: balance?, work };
        for (task, pin) in slots.pinned.iter().enumerate() {
            pin.iter().for_each(|&slot| limits.add(task, slots.pu[slot]));
        }
        Some(limits)
    }

    fn add(&mut self, task: usize, pu: usize) {
        self.work[pu] += self.balance.work_of(task, pu);
    }

    fn remove(&mut self, task: usize, pu: usize) {
        self.work[pu] -= self.balance.work_of(task, pu);
    }

    fn fits(&self, task: usize, pu: usize) -> bool {
        self.work[pu] + self.balance.work_of(task, pu) <= self.balance.limit
    }
}

/// A sum that ends at the greatest number there is: weights and distances may both be near 2^64.
fn sum(values: impl Iterator<Item = u128>) -> u128 {
    values.fold(0, u128::saturating_add)
}

fn square(size: usize, value: impl Fn(usize, usize) -> u128) -> Vec<Vec<u128>> {
    (0..size).map(|a| (0..size).map(|b| if a == b { 0 } else { value(a, b) }).collect()).collect()
}

/// For each row the other indices, by rising value.
fn ascending(rows: &[Vec<u128>]) -> Vec<Vec<usize>> {
    let others = |(index, row): (usize, &Vec<u128>)| {
        let mut others: Vec<usize> = (0..row.len()).filter(|&other| other != index).collect();
        others.sort_by_key(|&other| row[other]);
        others
    };
    rows.iter().enumerate().map(others).collect()
}

/// The tasks without a pin, each next the one that communicates most with those before (at first: with all).
fn order_of_placing(weight: &[Vec<u128>], pinned: &[Option<usize>]) -> Vec<usize> {
    let mut waiting: Vec<usize> = (0..pinned.len()).filter(|&task| pinned[task].is_none()).collect();
    let mut before: Vec<usize> = (0..pinned.len()).filter(|&task| pinned[task].is_some()).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let volume = |task: usize| -> (u128, u128) {
            (before.iter().map(|&other| weight[task][other]).sum(), weight[task].iter().sum())
        };
        let at = (0..waiting.len()).max_by_key(|&at| (volume(waiting[at]), std::cmp::Reverse(at)));
        let task = waiting.remove(at.expect("a task is waiting"));
        order.push(task);
        before.push(task);
    }
    order
}
