//! DeLoc's mapper Balance: communication spread evenly over the NUMA nodes (section IV of the paper: "iteratively maps
//! the unmapped task with the largest amount of communication to the NUMA node that currently has the smallest
//! amount").
//!
//! Where the topology names no NUMA nodes, the children of the root stand for them.

use crate::graph::Graph;
use crate::load::settled;
use crate::mappers::deloc::memory_nodes;
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::Result;
use std::cmp::Reverse;
use std::ops::Range;

/// The mapper `balance`.
pub struct Balance;

impl Mapper for Balance {
    fn name(&self) -> &'static str {
        "balance"
    }

    fn about(&self) -> &'static str {
        "communication evenly over the NUMA nodes: the task that communicates most to the node with least"
    }

    fn source(&self) -> &'static str {
        "DeLoc, section IV"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("looks at loads only")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let graph = Graph::new(problem.weight);
        let volume: Vec<u128> =
            (0..graph.tasks()).map(|task| graph.row(task).map(|(_, weight)| u128::from(weight)).sum()).collect();
        let nodes: Vec<Range<usize>> = memory_nodes(problem.topology).iter().map(|pus| slots.of_pus(pus)).collect();
        let mut sums: Vec<u128> = nodes
            .iter()
            .map(|node| {
                (0..volume.len())
                    .filter(|&task| slots.pinned[task].is_some_and(|slot| node.contains(&slot)))
                    .map(|task| volume[task])
                    .sum()
            })
            .collect();
        let mut partial = PartialMapping::new(&slots);
        let mut waiting = partial.waiting();
        waiting.sort_by_key(|&task| (Reverse(volume[task]), task));
        for task in waiting {
            let open = (0..nodes.len()).filter_map(|node| Some((node, partial.first_of(nodes[node].clone())?)));
            let (node, slot) =
                open.min_by_key(|&(node, _)| (sums[node], node)).expect("there is a slot for every task");
            partial.take(slot, task);
            sums[node] += volume[task];
        }
        settled(problem, &slots, &partial.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};
    use cohabit_model::Matrix;

    #[test]
    fn communicating_tasks_are_spread() {
        let topology = tree(&[2, 2], &[]);
        let weight = Matrix::from_triplets(4, [(0, 1, 9), (2, 3, 4)]);
        // 0 and 1 communicate most, so each gets a node; then 2 and 3.
        assert_eq!(Balance.map(&problem(&weight, &topology, &Options::default())).unwrap(), [0, 2, 1, 3]);
    }
}
