//! The machine as a tree: machine > package > NUMA node > L3 > L2 > core > PU (any may be missing), and above it
//! switches and hosts for a cluster. hwloc keeps NUMA nodes beside its main tree: ours puts them in it.
//!
//! [`Topology::load`] reads what a user names: the live machine (through libhwloc), hwloc's XML files, synthetic
//! strings ([`synthetic`]), cluster files ([`cluster`]), matrices of distances ([`matrix`]). Where distances come from
//! is in [`costs`].

mod builder;
pub mod cluster;
pub mod costs;
mod cpukinds;
mod cpuset;
#[cfg(feature = "hwloc")]
mod hwloc;
pub mod label;
mod load;
pub mod matrix;
mod numa;
mod queries;
pub mod runs;
pub mod synthetic;
mod xml;

pub use queries::Branching;

use std::collections::BTreeMap;
use std::fmt;

/// What a node of the tree is. Ordered from the outermost to the innermost, as they usually lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A network switch (clusters).
    Switch,
    /// A host; the root of a single machine.
    Machine,
    /// A processor package (socket).
    Package,
    /// A die within a package.
    Die,
    /// A group hwloc found in distances or firmware tables.
    Group,
    /// A NUMA node: memory and the PUs near it.
    Numa,
    /// A level-5 cache and the PUs that share it.
    L5,
    /// A level-4 cache and the PUs that share it.
    L4,
    /// A level-3 cache and the PUs that share it.
    L3,
    /// A level-2 cache and the PUs that share it.
    L2,
    /// A level-1 data cache and the PUs that share it.
    L1,
    /// A core.
    Core,
    /// A hardware thread.
    Pu,
}

impl Level {
    /// The name in hwloc's and this project's words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Machine => "machine",
            Self::Package => "package",
            Self::Die => "die",
            Self::Group => "group",
            Self::Numa => "NUMA node",
            Self::L5 => "L5",
            Self::L4 => "L4",
            Self::L3 => "L3",
            Self::L2 => "L2",
            Self::L1 => "L1d",
            Self::Core => "core",
            Self::Pu => "PU",
        }
    }

    /// The word for places inside a host in cluster files; none for hosts and switches, which have names there.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Self::Switch | Self::Machine => None,
            Self::Numa => Some("numa"),
            Self::L5 => Some("l5"),
            Self::L4 => Some("l4"),
            Self::L3 => Some("l3"),
            Self::L2 => Some("l2"),
            Self::L1 => Some("l1"),
            Self::Pu => Some("pu"),
            Self::Package | Self::Die | Self::Group | Self::Core => Some(self.name()),
        }
    }

    /// Whether it is a cache.
    pub fn is_cache(self) -> bool {
        matches!(self, Self::L5 | Self::L4 | Self::L3 | Self::L2 | Self::L1)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Index of a node in [`Topology::nodes`].
pub type NodeId = usize;

/// One node of the tree. Its PUs are contiguous in [`Topology::pus`].
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub level: Level,
    /// The operating system's (P#) number, where it has one.
    pub os_index: Option<u32>,
    /// The node above; none for the root.
    pub parent: Option<NodeId>,
    /// The nodes below, in logical order.
    pub children: Vec<NodeId>,
    /// Indices into [`Topology::pus`].
    pub pus: std::ops::Range<usize>,
    /// Distance between two PUs whose lowest common level is this node; 0 for a PU.
    pub cost: u64,
    /// Cache size or memory in bytes, where known; else 0.
    pub size_bytes: u64,
}

/// One PU, in the tree's order from left to right.
#[derive(Debug, Clone, PartialEq)]
pub struct Pu {
    /// The operating system's number of it (hwloc P#), on its host: what affinity masks take.
    pub os_index: u32,
    /// Its node.
    pub node: NodeId,
    /// Whether this process's cpuset or cgroup lets it run there.
    pub allowed: bool,
    /// hwloc's core kind, 0 the slowest and most sparing (E cores); 0 where all cores are alike.
    pub core_kind: u32,
    /// Speed of its core relative to the fastest kind: 1 there, and where all cores are alike.
    pub capacity: f64,
}

/// A machine or cluster as a tree with distances. Node 0 is the root.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// All nodes, each parent before its children.
    pub nodes: Vec<Node>,
    /// All PUs, in the tree's order.
    pub pus: Vec<Pu>,
    /// Distances that are no tree's (hwloc's NUMA matrix, a matrix file), `[pu][pu]` by index into `pus`, row by row;
    /// none where the tree's costs hold.
    pub matrix: Option<Vec<u64>>,
    /// Names of the hosts and switches of a cluster; empty for one machine.
    pub names: BTreeMap<NodeId, String>,
    /// The text it was made from: hwloc XML, a synthetic string, a cluster file, or `matrix:` and CSV lines.
    /// [`Topology::parse_text`] gives the same topology again.
    pub text: String,
}

impl Topology {
    /// Distance between two PUs, given by index into `pus`: the matrix where there is one, else the cost of the lowest
    /// level they share; 0 on the same PU.
    pub fn distance(&self, a: usize, b: usize) -> u64 {
        if a == b {
            return 0;
        }
        match &self.matrix {
            Some(matrix) => matrix[a * self.pus.len() + b],
            None => self.nodes[self.common(a, b)].cost,
        }
    }

    /// The lowest node that holds both PUs (indices into `pus`).
    pub fn common(&self, a: usize, b: usize) -> NodeId {
        let mut node = self.pus[a].node;
        while !self.nodes[node].pus.contains(&b) {
            node = self.nodes[node].parent.expect("the root holds every PU");
        }
        node
    }

    /// Index into `pus` of the PU with this OS index; in a cluster there may be one on each host: [`Topology::pu_on`].
    pub fn pu_index(&self, os_index: u32) -> Option<usize> {
        // Most machines, and all large synthetic ones, number their PUs in the tree's order.
        let guess = os_index as usize;
        if self.pus.get(guess).is_some_and(|pu| pu.os_index == os_index) {
            return Some(guess);
        }
        self.pus.iter().position(|pu| pu.os_index == os_index)
    }
}
