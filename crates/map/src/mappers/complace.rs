//! The greedy mapping of COMPLACE: Algorithm 2 (section IV-A) of "COMPROF and COMPLACE".
//!
//! The heaviest communication between a mapped and an unmapped task is taken next, and its unmapped end goes to the
//! nearest free PU. Where the paper says "any", the first in order is taken. The paper's gaps (fewer tasks than PUs on
//! SMT cores, more tasks than PUs) are closed by [`Slots`].

use crate::graph::Graph;
use crate::load::settled;
use crate::partial_mapping::{Nearest, PartialMapping};
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::{Result, Topology};
use std::collections::BinaryHeap;

/// The mapper `complace`.
pub struct Complace;

impl Mapper for Complace {
    fn name(&self) -> &'static str {
        "complace"
    }

    fn about(&self) -> &'static str {
        "greedy: along the heaviest communication to the nearest free PU"
    }

    fn source(&self) -> &'static str {
        "COMPROF and COMPLACE, section IV-A, Algorithm 2"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("greedy: places tasks by their heaviest edges")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let placed = greedy(&Graph::new(problem.weight), problem.topology, &slots);
        settled(problem, &slots, &placed)
    }
}

/// Algorithm 2: the slot of every task.
pub fn greedy(graph: &Graph, topology: &Topology, slots: &Slots) -> Vec<usize> {
    let mut partial = PartialMapping::new(slots);
    let mut nearest = Nearest::new(topology, slots);
    let mut pending = Pending::new(graph);
    for (task, pin) in slots.pinned.iter().enumerate() {
        if pin.is_some() {
            pending.add(task, &partial);
        }
    }
    let mut starts = 0..graph.tasks();
    // A slot that may not be taken now never may.
    let mut free = 0;
    loop {
        while let Some((start, end)) = pending.take(&partial) {
            let start = partial.slot_of(start).expect("edges are pending from mapped tasks");
            let slot = nearest.to(start, &partial).expect("there is a slot for every task");
            partial.take(slot, end);
            pending.add(end, &partial);
        }
        let Some(task) = starts.find(|&task| partial.slot_of(task).is_none()) else { break };
        free = partial.first_of(free..slots.len()).expect("there is a slot for every task");
        partial.take(free, task);
        pending.add(task, &partial);
    }
    partial.finish()
}

/// The edges from mapped tasks to others, of which the heaviest is asked for, and of those alike the one of the
/// smallest numbers.
struct Pending<'a> {
    graph: &'a Graph,
    /// Weight, and in one number, the complements of the two tasks.
    edges: BinaryHeap<(u64, u64)>,
    /// The best edge to each task so far: no other will be taken.
    best: Vec<(u64, u64)>,
}

impl<'a> Pending<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self { graph, edges: BinaryHeap::new(), best: vec![(0, 0); graph.tasks()] }
    }

    /// The edges of a task that has been mapped.
    fn add(&mut self, task: usize, partial: &PartialMapping) {
        for (other, weight) in self.graph.row(task) {
            let edge = (weight, !((task as u64) << 32 | other as u64));
            if edge > self.best[other] && partial.slot_of(other).is_none() {
                self.best[other] = edge;
                self.edges.push(edge);
            }
        }
    }

    /// The heaviest edge to a task that is not mapped: from which, and which.
    fn take(&mut self, partial: &PartialMapping) -> Option<(usize, usize)> {
        let ends = |(_, ends): (u64, u64)| ((!ends >> 32) as usize, !ends as u32 as usize);
        std::iter::from_fn(|| self.edges.pop()).map(ends).find(|&(_, end)| partial.slot_of(end).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};
    use cohabit_model::Matrix;

    fn check(entries: &[(u32, u32, u64)], tasks: usize, options: &Options, expected: &[usize]) {
        let (topology, weight) = (tree(&[2, 2, 2], &[]), Matrix::from_triplets(tasks, entries.iter().copied()));
        assert_eq!(Complace.map(&problem(&weight, &topology, options)).unwrap(), expected, "{entries:?}");
    }

    #[test]
    fn the_heaviest_edge_goes_to_the_nearest_pu() {
        let chain: Vec<_> = (0..7).map(|task| (task, task + 1, 10 - u64::from(task))).collect();
        check(&chain, 8, &Options::default(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        // 0 communicates most with 4, then 4 with 1; the third partner no longer fits beside them.
        let star = [(0, 4, 9), (4, 1, 8), (0, 2, 7), (3, 5, 6), (6, 7, 5)];
        check(&star, 8, &Options::default(), &[0, 2, 3, 4, 1, 5, 6, 7]);
    }

    #[test]
    fn the_gaps_of_the_paper_are_closed() {
        // Fewer tasks than cores: on cores of their own, unless sharing is asked for.
        check(&[(0, 1, 5), (1, 2, 3)], 3, &Options::default(), &[0, 2, 4]);
        check(&[(0, 1, 5), (1, 2, 3)], 3, &Options { share_cores: true, ..Options::default() }, &[0, 1, 2]);
        // One task more than cores: the heaviest pair shares.
        check(&[(0, 1, 5), (1, 2, 3)], 5, &Options::default(), &[0, 1, 2, 4, 6]);
        // More tasks than PUs: partners first share a PU.
        let pairs: Vec<_> = (0..8).map(|task| (task, task + 8, 1)).collect();
        check(&pairs, 16, &Options::default(), &[0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
        // A pinned task draws its partner.
        let pinned = Options { pins: vec![(2, 6)], ..Options::default() };
        check(&[(0, 1, 5), (1, 2, 3)], 3, &pinned, &[0, 4, 6]);
    }
}
