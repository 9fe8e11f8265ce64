//! More tasks than PUs, and the work of each is known: no PU may get more of it than a good balance allows.
//!
//! The measure is the longest-processing-time rule (Graham, "Bounds on multiprocessing timing anomalies", 1969): tasks by
//! falling load, each to the PU that is done first. A mapping may exceed its busiest PU by a tenth; what exceeds more is
//! repaired with the moves that cost least, and where these do not suffice the rule's own assignment is taken.

use crate::Problem;
use crate::graph::Graph;
use crate::slots::Slots;
use crate::usable::{Usable, speed};
use cohabit_model::Result;
use std::cmp::Reverse;
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

    /// The placement with its overloaded PUs relieved.
    pub fn repaired(&self, problem: &Problem, mut placement: Vec<usize>) -> Vec<usize> {
        let graph = Graph::new(problem.weight);
        let mut work = self.work(problem.load, &placement);
        let mut tasks_of: Vec<Vec<usize>> = vec![Vec::new(); work.len()];
        placement.iter().enumerate().for_each(|(task, &pu)| tasks_of[pu].push(task));
        let mut over: Vec<usize> = (0..work.len()).filter(|&pu| work[pu] > self.limit).collect();
        while let Some(pu) = over.pop() {
            while work[pu] > self.limit {
                let Some((task, target)) = self.relief(problem, &graph, &placement, &work, &tasks_of[pu]) else {
                    return self.fallback.clone();
                };
                let load = problem.load[task] as f64;
                work[pu] -= load / self.speeds[pu];
                work[target] += load / self.speeds[target];
                tasks_of[pu].retain(|&other| other != task);
                tasks_of[target].push(task);
                placement[task] = target;
            }
        }
        placement
    }

    /// The move of one of `tasks` to a PU with room that costs least for the load it takes away.
    fn relief(
        &self,
        problem: &Problem,
        graph: &Graph,
        placement: &[usize],
        work: &[f64],
        tasks: &[usize],
    ) -> Option<(usize, usize)> {
        let cost_at = |task: usize, pu: usize| -> f64 {
            graph.row(task).map(|(other, w)| w as f64 * problem.topology.distance(pu, placement[other]) as f64).sum()
        };
        let mut best = None;
        for &task in tasks.iter().filter(|&&task| self.usable.pin[task].is_none() && problem.load[task] > 0) {
            let load = problem.load[task] as f64;
            let here = cost_at(task, placement[task]);
            for &pu in self.usable.pus.iter().filter(|&&pu| work[pu] + load / self.speeds[pu] <= self.limit) {
                let price = (cost_at(task, pu) - here) / load;
                if best.is_none_or(|(least, _, _)| price < least) {
                    best = Some((price, task, pu));
                }
            }
        }
        best.map(|(_, task, pu)| (task, pu))
    }
}

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
