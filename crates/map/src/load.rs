//! More tasks than PUs, and the work of each is known: no PU may get more of it than a good balance allows.
//!
//! The measure is the longest-processing-time rule (Graham, "Bounds on multiprocessing timing anomalies", 1969): tasks
//! by falling load, each to the PU that is done first. A mapping may exceed its busiest PU by a tenth; what exceeds
//! more is repaired with the moves that cost least, and where these do not suffice the rule's own assignment is taken.

use crate::Problem;
use crate::graph::Graph;
use crate::slots::Slots;
use crate::usable::{Usable, speed};
use cohabit_model::Result;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The balance that loads ask for: which PUs there are, how fast, and how much work (load over speed) each may get.
#[derive(Debug, Clone)]
pub struct Balance {
    usable: Usable,
    /// Speed of every PU of the topology.
    speeds: Vec<f64>,
    /// The rule's own assignment: a PU a task.
    fallback: Vec<usize>,
    /// Load over speed that no PU may exceed.
    pub limit: f64,
}

impl Balance {
    /// The balance of a problem; none where loads are unknown or every task has a PU of its own.
    ///
    /// # Errors
    /// See [`Usable::new`].
    pub fn new(problem: &Problem) -> Result<Option<Self>> {
        if problem.load.is_empty() {
            return Ok(None);
        }
        let usable = Usable::new(problem)?;
        if !usable.crowded() {
            return Ok(None);
        }
        let speeds: Vec<f64> = (0..problem.topology.pus.len()).map(|pu| speed(problem.topology, pu)).collect();
        let fallback = longest_first(problem.load, &usable, &speeds);
        let mut balance = Self { usable, speeds, fallback, limit: 0.0 };
        balance.limit = balance.work(problem.load, &balance.fallback).into_iter().fold(0.0, f64::max) * 1.1;
        Ok(Some(balance))
    }

    /// Load over speed of every PU of the topology under a placement.
    pub fn work(&self, load: &[u64], placement: &[usize]) -> Vec<f64> {
        let mut work = vec![0.0; self.speeds.len()];
        for (&pu, &load) in placement.iter().zip(load) {
            work[pu] += load as f64 / self.speeds[pu];
        }
        work
    }

    /// Work that a task of some load adds to a PU.
    pub fn work_of(&self, load: u64, pu: usize) -> f64 {
        load as f64 / self.speeds[pu]
    }

    /// The placement with its overloaded PUs relieved, each by the moves that cost least for the load that they take
    /// away.
    pub fn repaired(&self, problem: &Problem, mut placement: Vec<usize>) -> Vec<usize> {
        let graph = Graph::new(problem.weight);
        let mut work = self.work(problem.load, &placement);
        let mut tasks_of: Vec<Vec<usize>> = vec![Vec::new(); work.len()];
        placement.iter().enumerate().for_each(|(task, &pu)| tasks_of[pu].push(task));
        for pu in (0..work.len()).rev().filter(|&pu| work[pu] > self.limit).collect::<Vec<_>>() {
            let cheapest =
                |placement: &[usize], work: &[f64], task| self.cheapest(problem, &graph, placement, work, task);
            // What a move would cost becomes less only when a neighbour has moved: then it is looked at again.
            let mut moves: BinaryHeap<Move> =
                tasks_of[pu].iter().filter_map(|&task| cheapest(&placement, &work, task)).collect();
            while work[pu] > self.limit {
                let Some(found) = moves.pop() else { return self.fallback.clone() };
                let Move { task, .. } = found;
                if placement[task] != pu {
                    continue;
                }
                let Some(now) = cheapest(&placement, &work, task) else { continue };
                if now < found {
                    moves.push(now);
                    continue;
                }
                let load = problem.load[task] as f64;
                work[pu] -= load / self.speeds[pu];
                work[now.target] += load / self.speeds[now.target];
                placement[task] = now.target;
                let left = graph.row(task).map(|(other, _)| other).filter(|&other| placement[other] == pu);
                moves.extend(left.filter_map(|other| cheapest(&placement, &work, other)));
            }
        }
        placement
    }

    /// The move of a task to a PU with room that costs least for the load it takes away.
    fn cheapest(
        &self,
        problem: &Problem,
        graph: &Graph,
        placement: &[usize],
        work: &[f64],
        task: usize,
    ) -> Option<Move> {
        if self.usable.pin[task].is_some() || problem.load[task] == 0 {
            return None;
        }
        let load = problem.load[task] as f64;
        let cost_at = |pu: usize| -> f64 {
            graph.row(task).map(|(other, w)| w as f64 * problem.topology.distance(pu, placement[other]) as f64).sum()
        };
        let here = cost_at(placement[task]);
        let targets = self.usable.pus.iter().filter(|&&pu| work[pu] + load / self.speeds[pu] <= self.limit);
        targets.map(|&target| Move { price: (cost_at(target) - here) / load, task, target }).max()
    }
}

/// A task that may go to another PU, and what that costs. The cheapest is the greatest, and of those alike the first.
#[derive(Debug, Clone, Copy)]
struct Move {
    price: f64,
    task: usize,
    target: usize,
}

impl Ord for Move {
    fn cmp(&self, other: &Self) -> Ordering {
        other.price.total_cmp(&self.price).then((other.task, other.target).cmp(&(self.task, self.target)))
    }
}

impl PartialOrd for Move {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Move {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Move {}

/// The PUs of a choice of slots, with the loads balanced where they are known: how every mapper ends.
///
/// # Errors
/// See [`Usable::new`].
pub fn settled(problem: &Problem, slots: &Slots, slot_of: &[usize]) -> Result<Vec<usize>> {
    let placement = slots.pus_of(slot_of);
    Ok(match Balance::new(problem)? {
        Some(balance) => balance.repaired(problem, placement),
        None => placement,
    })
}

/// Pinned tasks where they must be, the others by falling load to the PU with the least work.
fn longest_first(load: &[u64], usable: &Usable, speeds: &[f64]) -> Vec<usize> {
    let mut work = vec![0.0; speeds.len()];
    let mut placement = vec![0; load.len()];
    let mut waiting = Vec::new();
    for (task, pin) in usable.pin.iter().enumerate() {
        match *pin {
            Some(pu) => {
                work[pu] += load[task] as f64 / speeds[pu];
                placement[task] = pu;
            }
            None => waiting.push(task),
        }
    }
    waiting.sort_by_key(|&task| (Reverse(load[task]), task));
    // Work is never negative, and the bits of such floats are ordered as they are.
    let key = |work: f64, pu: usize| Reverse((work.to_bits(), pu));
    let mut queue: BinaryHeap<_> = usable.pus.iter().map(|&pu| key(work[pu], pu)).collect();
    for task in waiting {
        let Reverse((_, pu)) = queue.pop().expect("there is a usable PU");
        work[pu] += load[task] as f64 / speeds[pu];
        placement[task] = pu;
        queue.push(key(work[pu], pu));
    }
    placement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{problem, tree};
    use crate::{MAPPERS, Options};
    use cohabit_model::Matrix;
    use proptest::prelude::*;

    #[test]
    fn a_heavy_task_gets_a_pu_of_its_own() {
        let topology = tree(&[3], &[]);
        let weight = Matrix::from_triplets(7, [(0, 1, 1_000), (0, 2, 1_000), (1, 2, 10)]);
        let options = Options::default();
        let problem = Problem { load: &[100, 10, 10, 10, 10, 10, 10], ..problem(&weight, &topology, &options) };
        let balance = Balance::new(&problem).unwrap().unwrap();
        assert!((balance.limit - 110.0).abs() < 1e-6, "{}", balance.limit);
        for mapper in MAPPERS.iter().filter(|mapper| mapper.map(&problem).is_ok()) {
            let work = balance.work(problem.load, &mapper.map(&problem).unwrap());
            assert!(work.iter().all(|&work| work <= balance.limit), "{}: {work:?}", mapper.name());
        }
    }

    /// The repair by its definition: every move looked at again after each.
    fn slowly_repaired(balance: &Balance, problem: &Problem, mut placement: Vec<usize>) -> Vec<usize> {
        let graph = Graph::new(problem.weight);
        for pu in (0..balance.speeds.len()).rev() {
            while balance.work(problem.load, &placement)[pu] > balance.limit {
                let work = balance.work(problem.load, &placement);
                let own = (0..placement.len()).filter(|&task| placement[task] == pu);
                let moves = own.filter_map(|task| balance.cheapest(problem, &graph, &placement, &work, task));
                let Some(found) = moves.max() else { return balance.fallback.clone() };
                placement[found.task] = found.target;
            }
        }
        placement
    }

    proptest! {
        #[test]
        fn the_cheapest_moves_relieve_a_pu(
            entries in prop::collection::vec((0_u32..24, 0_u32..24, 1_u64..9), 0..90),
            load in prop::collection::vec(1_u64..40, 24),
        ) {
            let topology = tree(&[2, 3], &[100, 10]);
            let (weight, options) = (Matrix::from_triplets(24, entries), Options::default());
            let problem = Problem { load: &load, ..problem(&weight, &topology, &options) };
            let balance = Balance::new(&problem).unwrap().unwrap();
            let packed: Vec<usize> = (0..24).map(|task| task / 4).collect();
            prop_assert_eq!(balance.repaired(&problem, packed.clone()), slowly_repaired(&balance, &problem, packed));
        }
    }

    #[test]
    fn slow_pus_get_less() {
        let mut topology = tree(&[2], &[]);
        topology.pus[0].capacity = 0.5;
        let (weight, options) = (Matrix::zero(6), Options::default());
        let problem = Problem { load: &[10; 6], ..problem(&weight, &topology, &options) };
        let balance = Balance::new(&problem).unwrap().unwrap();
        assert_eq!(balance.work(problem.load, &balance.fallback), [40.0, 40.0]);
    }
}
