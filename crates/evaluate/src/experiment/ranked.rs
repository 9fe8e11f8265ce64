//! All placements of a few tasks that differ, in the order of their distance cost.
//!
//! Two placements are the same where the machine's symmetry takes one to the other. Of each class there is one in
//! which, at every node of the tree, the children that have tasks come in the order of their lowest tasks.

use cohabit_model::cost::distance_cost;
use cohabit_model::topology::NodeId;
use cohabit_model::{Error, Matrix, Result, Topology};

/// Tasks at most, and placements at most that are looked at.
const MOST_TASKS: usize = 8;
const MOST_PLACEMENTS: usize = 200_000;

/// The `most` distinct placements with the least J, one task a PU at most; and how many distinct ones there are.
///
/// # Errors
/// More than 8 tasks, or than PUs; a machine whose parts are not alike, or with too many distinct placements.
pub fn ranked(weight: &Matrix, topology: &Topology, most: usize) -> Result<(Vec<Vec<usize>>, usize)> {
    let tasks = weight.tasks();
    let too_many = |what: &str| Err(Error::new(format!("{what}: not all distinct placements can be looked at")));
    if tasks > MOST_TASKS || tasks > topology.pus.len() {
        return too_many(&format!("{tasks} tasks, {} PUs", topology.pus.len()));
    }
    if !is_even(topology) {
        return too_many("parts of the machine differ");
    }
    let mut all = Vec::new();
    place(topology, tasks, &mut Vec::new(), &mut all)?;
    let count = all.len();
    let mut all: Vec<(u128, Vec<usize>)> =
        all.into_iter().map(|placement| (distance_cost(weight, topology, &placement), placement)).collect();
    all.sort();
    all.truncate(most);
    Ok((all.into_iter().map(|(_, placement)| placement).collect(), count))
}

/// Whether the children of each node are alike.
fn is_even(topology: &Topology) -> bool {
    fn shape(topology: &Topology, node: NodeId) -> Option<Vec<usize>> {
        let children = &topology.nodes[node].children;
        let mut shapes = children.iter().map(|&child| shape(topology, child));
        let Some(first) = shapes.next() else { return Some(Vec::new()) };
        let first = first?;
        if shapes.any(|other| other.as_ref() != Some(&first)) {
            return None;
        }
        Some(std::iter::once(children.len()).chain(first).collect())
    }
    topology.matrix.is_none() && shape(topology, 0).is_some()
}

fn place(topology: &Topology, tasks: usize, placed: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) -> Result<()> {
    if placed.len() == tasks {
        if all.len() == MOST_PLACEMENTS {
            return Err(Error::new(format!("more than {MOST_PLACEMENTS} distinct placements")));
        }
        all.push(placed.clone());
        return Ok(());
    }
    let mut open = Vec::new();
    descend(topology, 0, placed, &mut open);
    for pu in open {
        placed.push(pu);
        place(topology, tasks, placed, all)?;
        placed.pop();
    }
    Ok(())
}

/// The PUs below a node where the next task may go: in a child that has tasks, or in the first that has none.
fn descend(topology: &Topology, node: NodeId, placed: &[usize], open: &mut Vec<usize>) {
    let tree = &topology.nodes[node];
    let taken = |node: NodeId| placed.iter().filter(|&pu| topology.nodes[node].pus.contains(pu)).count();
    if tree.children.is_empty() {
        if taken(node) == 0 {
            open.push(tree.pus.start);
        }
        return;
    }
    let mut fresh = false;
    for &child in &tree.children {
        match taken(child) {
            0 if fresh => {}
            0 => {
                fresh = true;
                descend(topology, child, placed, open);
            }
            n if n < topology.nodes[child].pus.len() => descend(topology, child, placed, open),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The distances between all pairs of tasks: what two placements have in common where symmetry takes one to the
    /// other (such small trees have no two classes with the same distances).
    fn distances(topology: &Topology, placement: &[usize]) -> Vec<NodeId> {
        let depth = |mut node: NodeId| {
            let mut depth = 0;
            while let Some(parent) = topology.nodes[node].parent {
                (node, depth) = (parent, depth + 1);
            }
            depth
        };
        let pairs = (0..placement.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        pairs.map(|(a, b)| depth(topology.common(placement[a], placement[b]))).collect()
    }

    #[test]
    fn each_class_of_placements_comes_once() {
        for (text, tasks) in [("pack:2 core:2 pu:1", 4), ("pack:2 core:2 pu:2", 4), ("pack:3 core:2 pu:1", 3)] {
            let topology = Topology::parse_text(text).unwrap();
            let (found, count) = ranked(&Matrix::zero(tasks), &topology, usize::MAX).unwrap();
            assert_eq!(found.len(), count);
            let classes: BTreeSet<_> = found.iter().map(|placement| distances(&topology, placement)).collect();
            assert_eq!(classes.len(), count, "{text}: no class twice");
            // Slow and obvious: all placements.
            let pus = topology.pus.len();
            let all = (0..pus.pow(tasks as u32))
                .map(|n| (0..tasks).map(|task| n / pus.pow(task as u32) % pus).collect::<Vec<_>>());
            let distinct = all.filter(|placement| placement.iter().collect::<BTreeSet<_>>().len() == tasks);
            let wanted: BTreeSet<_> = distinct.map(|placement| distances(&topology, &placement)).collect();
            assert_eq!(classes, wanted, "{text}");
        }
    }

    #[test]
    fn harpertown_has_315_and_the_least_j_is_first() {
        let topology = Topology::parse_text("pack:2 l2:2 core:2 pu:1").unwrap();
        let weight = Matrix::from_triplets(8, (0..4).map(|task| (task, task + 4, 10)));
        let (found, count) = ranked(&weight, &topology, 3).unwrap();
        assert_eq!((count, found.len()), (315, 3));
        let cost = |placement: &[usize]| distance_cost(&weight, &topology, placement);
        assert!(found.windows(2).all(|pair| cost(&pair[0]) <= cost(&pair[1])));
        assert!((0..4).all(|task| found[0][task] / 2 == found[0][task + 4] / 2));
        assert!(ranked(&Matrix::zero(9), &topology, 1).is_err());
    }
}
