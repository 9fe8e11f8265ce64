//! Distances between NUMA nodes as the firmware states them (ACPI's SLIT, which hwloc hands on): put into the tree
//! where they are the tree's, else into a matrix of all PUs.

use super::{Level, NodeId, Topology, costs, matrix};
use crate::{Error, Result};
use std::collections::HashMap;

/// A square of latencies between NUMA nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumaDistances {
    /// OS indices of the nodes.
    pub os_indices: Vec<u32>,
    /// `[from][to]`, row by row, on any scale; the diagonal is a node's distance to itself.
    pub values: Vec<u64>,
}

/// What a node's distance to itself is in a SLIT, and so in [`costs`].
const LOCAL: u128 = 10;

impl NumaDistances {
    /// Gives PUs in different NUMA nodes these distances, scaled so that 10 is local. Two nodes are never closer than
    /// what is inside one. Where a PU's node is not in the square, or there are not two nodes, the topology keeps its
    /// own.
    ///
    /// # Errors
    /// Where a matrix is needed and would be larger than [`matrix::MAX_PUS`] allows.
    pub fn apply(&self, topology: &mut Topology) -> Result<()> {
        let Some(rows) = self.rows(topology) else { return Ok(()) };
        let local = self.local();
        let distance = |a: usize, b: usize| {
            let inside = topology.nodes[rows[a].node].cost.max(topology.nodes[rows[b].node].cost);
            let value = self.values[rows[a].row * self.os_indices.len() + rows[b].row];
            scaled(value, local).max(inside)
        };
        let mut pairs: Vec<Pair> = Vec::new();
        for a in 0..rows.len() {
            for b in (0..rows.len()).filter(|&b| b != a) {
                let node = topology.common(rows[a].first_pu, rows[b].first_pu);
                pairs.push(Pair { a, b, node, distance: distance(a, b) });
            }
        }
        let same = put_into_tree(topology, &pairs);
        if !same {
            fill_matrix(topology, &rows, &pairs)?;
        }
        Ok(())
    }

    /// The NUMA nodes that hold PUs, each with its row; none where a PU has no node or a node no row, or for one node
    /// only.
    fn rows(&self, topology: &Topology) -> Option<Vec<Row>> {
        let row_of: HashMap<u32, usize> = self.os_indices.iter().enumerate().map(|(row, &os)| (os, row)).collect();
        let mut rows: Vec<Row> = Vec::new();
        for pu in 0..topology.pus.len() {
            // The innermost: with several memories on the same PUs that is the default one.
            let node = topology.ancestor(pu, Level::Numa)?;
            if rows.last().is_none_or(|row| row.node != node) {
                let row = *row_of.get(&topology.nodes[node].os_index?)?;
                rows.push(Row { node, row, first_pu: pu });
            }
        }
        (rows.len() > 1).then_some(rows)
    }

    /// The least distance of a node to itself.
    fn local(&self) -> u64 {
        let nodes = self.os_indices.len();
        (0..nodes).map(|node| self.values[node * nodes + node]).min().unwrap_or(0)
    }
}

/// The value on the scale where `local` is 10; as it is where the scale has no local distance.
fn scaled(value: u64, local: u64) -> u64 {
    if local == 0 {
        return value.min(costs::MAX_DISTANCE);
    }
    let scaled = (u128::from(value) * LOCAL + u128::from(local) / 2) / u128::from(local);
    u64::try_from(scaled).unwrap_or(u64::MAX).min(costs::MAX_DISTANCE)
}

/// A NUMA node of the tree, its row in the square, and its first PU.
struct Row {
    node: NodeId,
    row: usize,
    first_pu: usize,
}

/// Two NUMA nodes (indices of [`Row`]s), the tree's node where they part, and their distance.
struct Pair {
    a: usize,
    b: usize,
    node: NodeId,
    distance: u64,
}

/// Sets the costs of the nodes at which NUMA nodes part, and says whether the tree then holds all distances exactly.
/// Where it does not, each such node costs the mean of its pairs, so that what looks at the tree only is nearly right.
fn put_into_tree(topology: &mut Topology, pairs: &[Pair]) -> bool {
    let mut sums: HashMap<NodeId, (u128, u128)> = HashMap::new();
    for pair in pairs {
        let (sum, count) = sums.entry(pair.node).or_default();
        (*sum, *count) = (*sum + u128::from(pair.distance), *count + 1);
    }
    for id in (0..topology.nodes.len()).rev() {
        // A distance is below 2^32, so the mean of some is, too.
        let Some((sum, count)) = sums.get(&id) else { continue };
        topology.nodes[id].cost = ((sum + count / 2) / count) as u64;
    }
    let exact = pairs.iter().all(|pair| topology.nodes[pair.node].cost == pair.distance);
    let grows = restore_growth(topology, &sums);
    exact && grows
}

/// Makes costs grow (weakly) towards the root again; false where a cost from the square had to be raised for it.
fn restore_growth(topology: &mut Topology, fixed: &HashMap<NodeId, (u128, u128)>) -> bool {
    let mut kept = true;
    let parts = |topology: &Topology, id: usize| topology.nodes[id].children.len() > 1;
    let mut below = vec![0u64; topology.nodes.len()];
    for id in (0..topology.nodes.len()).rev() {
        let highest = topology.nodes[id].children.iter().map(|&child| below[child]).max().unwrap_or(0);
        if fixed.contains_key(&id) && topology.nodes[id].cost < highest {
            topology.nodes[id].cost = highest;
            kept = false;
        }
        below[id] = if parts(topology, id) { topology.nodes[id].cost.max(highest) } else { highest };
    }
    // Nodes with one child are no pair's lowest common node: their cost only has to lie between their neighbours'.
    for id in 1..topology.nodes.len() {
        let above = topology.nodes[id].parent.map_or(u64::MAX, |parent| topology.nodes[parent].cost);
        if !parts(topology, id) {
            topology.nodes[id].cost = topology.nodes[id].cost.min(above);
        }
    }
    kept
}

/// Writes the distances of all pairs of PUs into `topology.matrix`: within a NUMA node those of the tree.
fn fill_matrix(topology: &mut Topology, rows: &[Row], pairs: &[Pair]) -> Result<()> {
    let pus = topology.pus.len();
    if pus > matrix::MAX_PUS {
        return Err(Error::new(format!(
            "NUMA distances that are no tree's, on {pus} PUs; at most {}",
            matrix::MAX_PUS
        ))
        .remedy("take them out of the file: hwloc-annotate IN.xml OUT.xml -- root -- none --clear-distances"));
    }
    let mut distances = vec![0; pus * pus];
    for row in rows {
        let inside = topology.nodes[row.node].pus.clone();
        for a in inside.clone() {
            inside.clone().for_each(|b| distances[a * pus + b] = topology.distance(a, b));
        }
    }
    for pair in pairs {
        let (from, to) = (&topology.nodes[rows[pair.a].node].pus, &topology.nodes[rows[pair.b].node].pus);
        for a in from.clone() {
            distances[a * pus + to.start..a * pus + to.end].fill(pair.distance);
        }
    }
    topology.matrix = Some(distances);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, values: &[u64]) -> Topology {
        let mut topology = Topology::load(text).unwrap();
        let os_indices = topology.nodes_at(Level::Numa).filter_map(|node| topology.nodes[node].os_index).collect();
        NumaDistances { os_indices, values: values.to_vec() }.apply(&mut topology).unwrap();
        topology
    }

    #[test]
    fn distances_of_a_tree_go_into_the_tree() {
        let slit = [10, 12, 32, 32, 12, 10, 32, 32, 32, 32, 10, 12, 32, 32, 12, 10];
        let topology = apply("pack:2 numa:2 core:2 pu:1", &slit);
        assert_eq!(topology.matrix, None);
        assert_eq!([1, 2, 4, 6].map(|other| topology.distance(0, other)), [10, 12, 32, 32]);
    }

    #[test]
    fn other_scales_become_the_slits_and_nothing_is_closer_than_local() {
        let topology = apply("numa:2 core:2 pu:1", &[100, 215, 215, 100]);
        assert_eq!((topology.distance(0, 2), topology.matrix), (22, None));
        assert_eq!(apply("numa:2 core:2 pu:1", &[10, 10, 10, 10]).distance(0, 2), 10);
        assert_eq!(apply("numa:2 core:2 pu:1", &[10, 3, 3, 10]).distance(0, 2), 10);
        assert_eq!(apply("numa:2 core:2 pu:1", &[1, u64::MAX, u64::MAX, 1]).distance(0, 2), costs::MAX_DISTANCE);
        assert_eq!(apply("numa:2 core:2 pu:1", &[0, 21, 21, 0]).distance(0, 2), 21);
    }

    #[test]
    fn a_ring_of_nodes_is_no_tree() {
        let ring = [10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10];
        let topology = apply("numa:4 core:2 pu:2", &ring);
        assert_eq!([1, 2, 4, 8, 12].map(|other| topology.distance(0, other)), [1, 10, 16, 22, 16]);
        assert_eq!(topology.nodes[0].cost, 18);
        assert!(topology.has_symmetric_distances() && topology.matrix.is_some());
        let oneway = [10, 16, 22, 10];
        assert!(!apply("numa:2 core:2 pu:2", &oneway).has_symmetric_distances());
    }

    #[test]
    fn a_square_against_the_tree_is_no_tree() {
        // Nodes of one package further from each other than from those of the other.
        let slit = [10, 30, 20, 20, 30, 10, 20, 20, 20, 20, 10, 30, 20, 20, 30, 10];
        let topology = apply("pack:2 numa:2 pu:1", &slit);
        assert_eq!([1, 2, 3].map(|other| topology.distance(0, other)), [30, 20, 20]);
        assert!(topology.nodes[0].cost >= topology.nodes[1].cost);
    }

    #[test]
    fn an_incomplete_square_changes_nothing() {
        let mut topology = Topology::load("numa:3 core:2 pu:1").unwrap();
        let before = topology.clone();
        NumaDistances { os_indices: vec![0, 1], values: vec![10, 30, 30, 10] }.apply(&mut topology).unwrap();
        assert_eq!(topology, before);
    }
}
