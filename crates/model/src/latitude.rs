//! How much room a mapping leaves each task: the widest part of the machine in which it may move without J rising.
//!
//! A thread that is confined to one PU waits there for whatever else runs on it while other PUs idle. Where it is
//! confined only as far as the distance cost needs it, the scheduler can still dodge.

use crate::topology::NodeId;
use crate::{Matrix, Topology};
use std::collections::HashSet;

/// For each task the node of the tree among whose allowed PUs it may move: as long as every task keeps to its own and
/// no two are on one PU that were not before, J is at most what it is by `placement`.
///
/// All allowed PUs of such a node are of one core kind. A task in `fixed` has its PU's node, and so have all of them
/// where distances are no tree's.
///
/// # Panics
/// If `placement` does not have one entry a task, or names a PU the topology lacks.
pub fn latitude(weight: &Matrix, topology: &Topology, placement: &[usize], fixed: &HashSet<usize>) -> Vec<NodeId> {
    assert_eq!(placement.len(), weight.tasks(), "one PU for every task");
    let own = |pu: usize| topology.pus[pu].node;
    if topology.matrix.is_some() {
        return placement.iter().map(|&pu| own(pu)).collect();
    }
    let widest = widest(topology);
    let mut too_wide = mixed_kinds(topology);
    for (source, destination, value) in weight.iter() {
        let (a, b) = (placement[source as usize], placement[destination as usize]);
        if source == destination || value == 0 {
            continue;
        }
        let distance = topology.distance(a, b);
        // All above a node that is too wide are so too: the walk ends at the first.
        let mut above = topology.ancestors(topology.common(a, b));
        if let Some(node) = above.find(|&node| too_wide[node] || widest[node] > distance) {
            too_wide[node] = true;
        }
    }
    let room = |(task, &pu): (usize, &usize)| {
        let above = topology.ancestors(own(pu)).take_while(|&node| !too_wide[node]);
        if fixed.contains(&task) { own(pu) } else { above.last().unwrap_or(own(pu)) }
    };
    placement.iter().enumerate().map(room).collect()
}

/// Of each node the distance of those two allowed PUs in it that are farthest from one another.
fn widest(topology: &Topology) -> Vec<u64> {
    let mut widest = vec![0u64; topology.nodes.len()];
    let mut holds: Vec<bool> = vec![false; topology.nodes.len()];
    for id in (0..topology.nodes.len()).rev() {
        let node = &topology.nodes[id];
        let held: Vec<usize> = node.children.iter().copied().filter(|&child| holds[child]).collect();
        let own = if held.len() > 1 { node.cost } else { 0 };
        holds[id] = !held.is_empty() || node.children.is_empty() && topology.pus[node.pus.start].allowed;
        widest[id] = held.into_iter().map(|child| widest[child]).fold(own, u64::max);
    }
    widest
}

/// The nodes whose allowed PUs are of cores of different kinds: how fast a task is there depends on where.
fn mixed_kinds(topology: &Topology) -> Vec<bool> {
    let kind = |pu: usize| (topology.pus[pu].core_kind, topology.pus[pu].capacity.to_bits());
    let is_mixed = |node: &crate::topology::Node| {
        let mut kinds = node.pus.clone().filter(|&pu| topology.pus[pu].allowed).map(kind);
        let first = kinds.next();
        kinds.any(|kind| Some(kind) != first)
    };
    topology.nodes.iter().map(is_mixed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::distance_cost;
    use proptest::prelude::*;

    /// The allowed PUs that each task may move among.
    fn rooms(weight: &Matrix, topology: &Topology, placement: &[usize], fixed: &[usize]) -> Vec<Vec<usize>> {
        let allowed = |pu: &usize| topology.pus[*pu].allowed;
        let pus = |node: NodeId| topology.nodes[node].pus.clone().filter(allowed).collect();
        latitude(weight, topology, placement, &fixed.iter().copied().collect()).into_iter().map(pus).collect()
    }

    fn pairs(pairs: &[(u32, u32)], tasks: usize) -> Matrix {
        Matrix::from_triplets(tasks, pairs.iter().map(|&(a, b)| (a, b, 5)))
    }

    #[test]
    fn a_task_may_move_as_far_as_j_allows() {
        let two_pairs = pairs(&[(0, 1), (2, 3)], 4);
        for (machine, weight, placement, fixed, expected) in [
            // Each pair has an L3 of its own, and any of its PUs will do.
            ("l3:2 core:4 pu:1", &two_pairs, vec![0, 1, 4, 5], vec![], vec![0..4, 0..4, 4..8, 4..8]),
            // The last pair is as far apart as can be: its tasks may go anywhere, but for where the first must keep
            // together.
            ("l3:2 core:4 pu:1", &two_pairs, vec![0, 1, 3, 5], vec![], vec![0..4, 0..4, 0..4, 4..8]),
            ("l3:2 core:4 pu:1", &two_pairs, vec![0, 4, 1, 5], vec![], vec![0..8, 0..8, 0..8, 0..8]),
            // On one core, the pair must stay there.
            ("l3:2 core:2 pu:2", &two_pairs, vec![0, 1, 4, 6], vec![], vec![0..2, 0..2, 4..8, 4..8]),
            ("core:4 pu:1", &two_pairs, vec![0, 1, 2, 3], vec![], vec![0..4, 0..4, 0..4, 0..4]),
            ("core:4 pu:1", &two_pairs, vec![0, 1, 2, 3], vec![2], vec![0..4, 0..4, 2..3, 0..4]),
            // Two that take turns on a PU are closer than any others.
            ("core:2 pu:1", &two_pairs, vec![0, 0, 1, 1], vec![], vec![0..1, 0..1, 1..2, 1..2]),
        ] {
            let topology = Topology::load(machine).unwrap();
            let expected: Vec<Vec<usize>> = expected.into_iter().map(Iterator::collect).collect();
            assert_eq!(rooms(weight, &topology, &placement, &fixed), expected, "{machine} {placement:?}");
        }
    }

    #[test]
    fn what_is_not_allowed_and_slower_cores_are_left_out() {
        let mut topology = Topology::load("l3:2 core:2 pu:1").unwrap();
        let weight = pairs(&[(0, 1)], 2);
        topology.pus[3].allowed = false;
        assert_eq!(rooms(&weight, &topology, &[0, 2], &[]), [[0, 1, 2], [0, 1, 2]]);
        topology.pus[0].core_kind = 1;
        assert_eq!(rooms(&weight, &topology, &[0, 2], &[]), [[0], [2]]);
    }

    proptest! {
        /// Wherever the tasks go within their room, no two on a PU, J is no higher.
        #[test]
        fn j_never_rises(
            order in Just((0usize..16).collect::<Vec<_>>()).prop_shuffle(),
            entries in proptest::collection::vec((0u32..8, 0u32..8, 1u64..9), 0..12),
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 8),
            machine in proptest::sample::select(vec!["pack:2 l3:2 core:4 pu:1", "pack:2 l3:2 core:2 pu:2", "core:8 pu:2"]),
        ) {
            let topology = Topology::load(machine).unwrap();
            let entries = entries.into_iter().filter(|(a, b, _)| a != b);
            let weight = Matrix::from_triplets(8, entries);
            let placement = &order[..8];
            let rooms = rooms(&weight, &topology, placement, &[]);
            let mut moved = placement.to_vec();
            for (task, pick) in picks.iter().enumerate() {
                prop_assert!(rooms[task].contains(&placement[task]));
                let free: Vec<usize> = rooms[task].iter().copied().filter(|pu| !moved.contains(pu)).collect();
                if !free.is_empty() {
                    moved[task] = free[pick.index(free.len())];
                }
            }
            prop_assert!(distance_cost(&weight, &topology, &moved) <= distance_cost(&weight, &topology, placement));
        }
    }
}
