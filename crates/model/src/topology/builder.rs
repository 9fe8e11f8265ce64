//! Builds a tree from the root down and keeps its invariants: node 0 is the root, each parent comes before its
//! children, the PUs of a node are contiguous, every node but a PU has at least one child, OS indices are unique.

use super::{Level, Node, NodeId, Pu, Topology, costs};
use crate::{Error, Result};
use std::collections::HashSet;

/// A tree that grows in preorder: [`Builder::enter`] goes one level down, [`Builder::leave`] up again.
#[derive(Debug, Default)]
pub(super) struct Builder {
    nodes: Vec<Node>,
    pus: Vec<Pu>,
    open: Vec<NodeId>,
}

impl Builder {
    /// One for so many nodes, of which so many are PUs.
    pub fn with_capacity(nodes: usize, pus: usize) -> Self {
        Self { nodes: Vec::with_capacity(nodes), pus: Vec::with_capacity(pus), open: Vec::new() }
    }

    /// Opens a node below the innermost open one; the first is the root.
    pub fn enter(&mut self, level: Level, os_index: Option<u32>, size_bytes: u64) -> NodeId {
        let id = self.nodes.len();
        let parent = self.open.last().copied();
        if let Some(parent) = parent {
            self.nodes[parent].children.push(id);
        }
        let pus = self.pus.len()..self.pus.len();
        self.nodes.push(Node { level, os_index, parent, children: Vec::new(), pus, cost: 0, size_bytes });
        self.open.push(id);
        id
    }

    /// Closes the innermost open node. One without PUs (a package whose PUs are all offline) is taken out again.
    pub fn leave(&mut self) {
        let Some(id) = self.open.pop() else { return };
        self.nodes[id].pus.end = self.pus.len();
        if self.nodes[id].pus.is_empty() {
            // It holds no node either, those having been taken out before: it is the last.
            self.nodes.truncate(id);
            if let Some(&parent) = self.open.last() {
                self.nodes[parent].children.pop();
            }
        }
    }

    /// Adds a PU below the innermost open node; `pu.node` is set here.
    pub fn pu(&mut self, mut pu: Pu) {
        pu.node = self.enter(Level::Pu, Some(pu.os_index), 0);
        self.pus.push(pu);
        self.leave();
    }

    /// Adds a node of another topology, and all below it, below the innermost open node.
    pub fn graft(&mut self, other: &Topology, node: NodeId) {
        let Node { level, os_index, size_bytes, ref children, ref pus, .. } = other.nodes[node];
        if level == Level::Pu {
            return self.pu(other.pus[pus.start].clone());
        }
        self.enter(level, os_index, size_bytes);
        children.iter().for_each(|&child| self.graft(other, child));
        self.leave();
    }

    /// The finished topology of several hosts, each of which has been checked before, with no distances yet.
    ///
    /// # Errors
    /// Where it has no PU.
    pub fn finish_hosts(mut self, text: String) -> Result<Topology> {
        while !self.open.is_empty() {
            self.leave();
        }
        if self.pus.is_empty() {
            return Err(Error::new("the topology has no PU"));
        }
        Ok(Topology { nodes: self.nodes, pus: self.pus, matrix: None, names: Default::default(), text })
    }

    /// The finished topology of one machine, with the default distances of [`costs`].
    ///
    /// # Errors
    /// Where it has no PU, or two with the same OS index.
    pub fn finish(self, text: String) -> Result<Topology> {
        let mut topology = self.finish_hosts(text)?;
        let mut seen = HashSet::with_capacity(topology.pus.len());
        if let Some(twice) = topology.pus.iter().find(|pu| !seen.insert(pu.os_index)) {
            return Err(Error::new(format!("the topology has two PUs with OS index {}", twice.os_index)));
        }
        costs::set_defaults(&mut topology);
        Ok(topology)
    }
}

impl Pu {
    /// A PU on a machine whose cores are all alike, free to run on. [`Builder::pu`] gives it its node.
    pub(super) fn plain(os_index: u32) -> Self {
        Self { os_index, node: 0, allowed: true, core_kind: 0, capacity: 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_pus_are_taken_out() {
        let mut builder = Builder::default();
        builder.enter(Level::Machine, None, 0);
        builder.enter(Level::Package, Some(0), 0);
        builder.enter(Level::Core, Some(0), 0);
        builder.leave();
        builder.leave();
        builder.enter(Level::Package, Some(1), 0);
        builder.pu(Pu::plain(7));
        let topology = builder.finish(String::new()).unwrap();
        let levels: Vec<_> = topology.nodes.iter().map(|node| (node.level, node.os_index)).collect();
        assert_eq!(levels, [(Level::Machine, None), (Level::Package, Some(1)), (Level::Pu, Some(7))]);
        assert_eq!((&topology.nodes[0].children, &topology.nodes[1].children), (&vec![1], &vec![2]));
    }

    #[test]
    fn impossible_trees_are_refused() {
        let empty = Builder::default().finish(String::new());
        assert_eq!(empty.unwrap_err().cause, "the topology has no PU");
        let mut twins = Builder::default();
        twins.enter(Level::Machine, None, 0);
        twins.pu(Pu::plain(3));
        twins.pu(Pu::plain(3));
        assert_eq!(twins.finish(String::new()).unwrap_err().cause, "the topology has two PUs with OS index 3");
    }
}
