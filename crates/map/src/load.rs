//! More tasks than PUs, and the work of each is known: no PU may get more of it than a good balance allows.
//!
//! The measure is the longest-processing-time rule (Graham, "Bounds on multiprocessing timing anomalies", 1969): tasks
//! by falling load, each to the PU that is done first. A mapping may exceed its busiest PU by a tenth; what exceeds
//! more is repaired with the moves that cost least, and where these do not suffice the rule's own assignment is taken.
//!
//! Loads are of the whole run, and say nothing of when a task works. The task that has most often works while the others
//! do not, as a thread that prepares data and then waits for its workers: it counts no more than what others set the
//! pace with. Of less than two tasks a PU each PU gets as many as it would if nothing were known of loads: none is left
//! idle while another has two.

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
    /// What each task counts.
    load: Vec<u64>,
    /// How many tasks each PU of the topology may have.
    room: Vec<usize>,
    /// Whether PUs have as many tasks as without loads.
    is_even: bool,
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
        let is_even = usable.tasks() < 2 * usable.pus.len();
        let mut room = vec![if is_even { 0 } else { usize::MAX }; speeds.len()];
        if is_even {
            Slots::of(&usable, problem).pu.into_iter().for_each(|pu| room[pu] += 1);
        }
        let load = problem.load.to_vec();
        let mut balance = Self { usable, speeds, load, room, is_even, fallback: Vec::new(), limit: 0.0 };
        balance.fallback = balance.longest_first();
        balance.count_heaviest_less();
        balance.fallback = balance.longest_first();
        balance.limit = balance.work(&balance.fallback).into_iter().fold(0.0, f64::max) * 1.1;
        Ok(Some(balance))
    }

    /// The slots for a search that keeps to the limit.
    ///
    /// # Errors
    /// See [`Usable::new`].
    pub fn slots(&self, problem: &Problem) -> Result<Slots> {
        if self.is_even { Slots::new(problem) } else { Slots::unlimited(problem) }
    }

    /// The task that has most counts as the next one, or as much as the busiest of the other PUs has to do.
    fn count_heaviest_less(&mut self) {
        let Some(heaviest) = (0..self.load.len()).max_by_key(|&task| (self.load[task], Reverse(task))) else { return };
        let others = (0..self.load.len()).filter(|&task| task != heaviest);
        let next = others.map(|task| self.load[task]).max().unwrap_or(0);
        let mut work = self.work(&self.fallback);
        work[self.fallback[heaviest]] = 0.0;
        let others = if self.is_even { 0.0 } else { work.into_iter().fold(0.0, f64::max) };
        self.load[heaviest] = self.load[heaviest].min(next.max(others as u64));
    }

    /// Load over speed of every PU of the topology under a placement.
    pub fn work(&self, placement: &[usize]) -> Vec<f64> {
        let mut work = vec![0.0; self.speeds.len()];
        for (task, &pu) in placement.iter().enumerate() {
            work[pu] += self.work_of(task, pu);
        }
        work
    }

    /// Work that a task adds to a PU.
    pub fn work_of(&self, task: usize, pu: usize) -> f64 {
        self.load[task] as f64 / self.speeds[pu]
    }

    /// Pinned tasks where they must be, the others by falling load to the PU with the least work that has room.
    fn longest_first(&self) -> Vec<usize> {
        let mut work = vec![0.0; self.speeds.len()];
        let mut count = vec![0; self.speeds.len()];
        let mut placement = vec![0; self.load.len()];
        let mut waiting = Vec::new();
        for (task, pin) in self.usable.pin.iter().enumerate() {
            match *pin {
                Some(pu) => {
                    work[pu] += self.work_of(task, pu);
                    count[pu] += 1;
                    placement[task] = pu;
                }
                None => waiting.push(task),
            }
        }
        waiting.sort_by_key(|&task| (Reverse(self.load[task]), task));
        // Work is never negative, and the bits of such floats are ordered as they are.
        let key = |work: f64, count: usize, pu: usize| Reverse((work.to_bits(), count, pu));
        let free = self.usable.pus.iter().filter(|&&pu| count[pu] < self.room[pu]);
        let mut queue: BinaryHeap<_> = free.map(|&pu| key(work[pu], count[pu], pu)).collect();
        for task in waiting {
            // Pinned tasks may have taken so much that the rest finds no room: then it goes where others are.
            let Reverse((_, _, pu)) = queue.pop().unwrap_or(key(0.0, 0, self.usable.pus[0]));
            work[pu] += self.work_of(task, pu);
            count[pu] += 1;
            placement[task] = pu;
            if count[pu] < self.room[pu] {
                queue.push(key(work[pu], count[pu], pu));
            }
        }
        placement
    }

    /// The placement with its overloaded PUs relieved, each by the moves that cost least for the load that they take
    /// away.
    pub fn repaired(&self, problem: &Problem, mut placement: Vec<usize>) -> Vec<usize> {
        let graph = Graph::new(problem.weight);
        let mut work = self.work(&placement);
        let mut count = vec![0_usize; work.len()];
        placement.iter().for_each(|&pu| count[pu] += 1);
        let mut tasks_of: Vec<Vec<usize>> = vec![Vec::new(); work.len()];
        placement.iter().enumerate().for_each(|(task, &pu)| tasks_of[pu].push(task));
        for pu in (0..work.len()).rev().filter(|&pu| work[pu] > self.limit).collect::<Vec<_>>() {
            let cheapest = |placement: &[usize], work: &[f64], count: &[usize], task| {
                self.cheapest(problem, &graph, placement, (work, count), task)
            };
            // What a move would cost becomes less only when a neighbour has moved: then it is looked at again.
            let mut moves: BinaryHeap<Move> =
                tasks_of[pu].iter().filter_map(|&task| cheapest(&placement, &work, &count, task)).collect();
            while work[pu] > self.limit {
                let Some(found) = moves.pop() else { return self.fallback.clone() };
                let Move { task, .. } = found;
                if placement[task] != pu {
                    continue;
                }
                let Some(now) = cheapest(&placement, &work, &count, task) else { continue };
                if now < found {
                    moves.push(now);
                    continue;
                }
                work[pu] -= self.work_of(task, pu);
                work[now.target] += self.work_of(task, now.target);
                (count[pu], count[now.target]) = (count[pu] - 1, count[now.target] + 1);
                placement[task] = now.target;
                let left = graph.row(task).map(|(other, _)| other).filter(|&other| placement[other] == pu);
                moves.extend(left.filter_map(|other| cheapest(&placement, &work, &count, other)));
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
        (work, count): (&[f64], &[usize]),
        task: usize,
    ) -> Option<Move> {
        if self.usable.pin[task].is_some() || self.load[task] == 0 {
            return None;
        }
        let load = self.load[task] as f64;
        let cost_at = |pu: usize| -> f64 {
            graph.row(task).map(|(other, w)| w as f64 * problem.topology.distance(pu, placement[other]) as f64).sum()
        };
        let here = cost_at(placement[task]);
        let fits = |pu: usize| count[pu] < self.room[pu] && work[pu] + self.work_of(task, pu) <= self.limit;
        let targets = self.usable.pus.iter().filter(|&&pu| fits(pu));
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
        // It counts as much as three others.
        assert!((balance.limit - 33.0).abs() < 1e-6, "{}", balance.limit);
        for mapper in MAPPERS.iter().filter(|mapper| mapper.map(&problem).is_ok()) {
            let work = balance.work(&mapper.map(&problem).unwrap());
            assert!(work.iter().all(|&work| work <= balance.limit), "{}: {work:?}", mapper.name());
        }
    }

    /// The repair by its definition: every move looked at again after each.
    fn slowly_repaired(balance: &Balance, problem: &Problem, mut placement: Vec<usize>) -> Vec<usize> {
        let graph = Graph::new(problem.weight);
        for pu in (0..balance.speeds.len()).rev() {
            while balance.work(&placement)[pu] > balance.limit {
                let work = balance.work(&placement);
                let mut count = vec![0; work.len()];
                placement.iter().for_each(|&pu| count[pu] += 1);
                let own = (0..placement.len()).filter(|&task| placement[task] == pu);
                let moves = own.filter_map(|task| balance.cheapest(problem, &graph, &placement, (&work, &count), task));
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
        assert_eq!(balance.work(&balance.fallback), [40.0, 40.0]);
    }
    /// A thread that fills a table and then waits for one worker a PU: what it has done is no reason for workers to take
    /// turns while PUs are idle.
    #[test]
    fn workers_are_not_stacked_for_a_thread_that_did_more() {
        let topology = tree(&[2, 2, 2], &[1000, 100, 10]);
        let weight = Matrix::from_triplets(9, (1..9).map(|worker| (0, worker, 100)));
        let options = Options::default();
        for of_main in [5, 10, 29, 1000] {
            let mut load = vec![10; 9];
            load[0] = of_main;
            let problem = Problem { load: &load, ..problem(&weight, &topology, &options) };
            for mapper in MAPPERS.iter().filter(|mapper| mapper.map(&problem).is_ok()) {
                let mut count = [0; 8];
                mapper.map(&problem).unwrap().into_iter().for_each(|pu| count[pu] += 1);
                assert!(count.iter().all(|count| (1..=2).contains(count)), "{} {of_main}: {count:?}", mapper.name());
            }
        }
    }

    /// Workers with helpers that hardly do anything: no two workers take turns.
    #[test]
    fn helpers_do_not_take_a_workers_place() {
        let topology = tree(&[2, 2], &[100, 10]);
        let weight = Matrix::from_triplets(7, [(0, 1, 1000), (2, 3, 1000), (4, 5, 1)]);
        let options = Options::default();
        let problem = Problem { load: &[100, 100, 100, 100, 1, 1, 1], ..problem(&weight, &topology, &options) };
        for mapper in MAPPERS.iter().filter(|mapper| mapper.map(&problem).is_ok()) {
            let placement = mapper.map(&problem).unwrap();
            let mut workers = placement[..4].to_vec();
            workers.sort_unstable();
            assert_eq!(workers, [0, 1, 2, 3], "{}: {placement:?}", mapper.name());
        }
    }
}
