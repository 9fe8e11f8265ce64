//! Siblings that look alike, so that a picture shows them once: the fourteen cores of a package, the packages of a
//! machine.

use super::{Level, NodeId, Topology};
use std::collections::HashMap;

/// Neighbours that look alike, from left to right.
pub struct Run {
    /// The siblings; never empty.
    pub nodes: Vec<NodeId>,
}

/// What makes two subtrees look alike.
#[derive(PartialEq, Eq, Hash)]
struct Looks {
    level: Level,
    cost: u64,
    size_bytes: u64,
    /// Of a PU: allowed, kind of core, speed in millionths.
    pu: Option<(bool, u32, u64)>,
    /// The looks of the children and how many in a row have them.
    children: Vec<(usize, usize)>,
}

/// The tree with a number for what each node looks like.
pub struct Runs<'a> {
    topology: &'a Topology,
    looks: Vec<usize>,
}

impl<'a> Runs<'a> {
    /// Compares all subtrees, from the PUs up.
    pub fn new(topology: &'a Topology) -> Self {
        let mut numbers: HashMap<Looks, usize> = HashMap::new();
        let mut looks = vec![0; topology.nodes.len()];
        for id in (0..topology.nodes.len()).rev() {
            let node = &topology.nodes[id];
            let mut children: Vec<(usize, usize)> = Vec::new();
            for &child in &node.children {
                match children.last_mut() {
                    Some((last, count)) if *last == looks[child] => *count += 1,
                    _ => children.push((looks[child], 1)),
                }
            }
            let pu = &topology.pus[node.pus.start];
            let pu = (pu.allowed, pu.core_kind, (pu.capacity * 1e6) as u64);
            let pu = (node.level == Level::Pu).then_some(pu);
            let new = numbers.len();
            let own = Looks { level: node.level, cost: node.cost, size_bytes: node.size_bytes, pu, children };
            looks[id] = *numbers.entry(own).or_insert(new);
        }
        Self { topology, looks }
    }

    /// The children of a node, neighbours that look alike together.
    pub fn below(&self, node: NodeId) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for &child in &self.topology.nodes[node].children {
            match runs.last_mut() {
                Some(run) if self.looks[run.nodes[0]] == self.looks[child] => run.nodes.push(child),
                _ => runs.push(Run { nodes: vec![child] }),
            }
        }
        runs
    }

    /// The node and those below it while there is only one: a package, its NUMA node and its L3 are one place.
    pub fn chain(&self, node: NodeId) -> Vec<NodeId> {
        let only = |&node: &NodeId| match self.topology.nodes[node].children[..] {
            [child] => Some(child),
            _ => None,
        };
        std::iter::successors(Some(node), only).collect()
    }
}
