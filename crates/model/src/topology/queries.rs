//! What the stages ask of a topology: the core of a PU, which PUs are allowed, where the tree branches, whether there is
//! any distance to save.

use super::{Level, NodeId, Topology};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// A level at which the tree branches: where two PUs can part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branching {
    /// What its nodes are.
    pub level: Level,
    /// How many groups are around it: 0 for the outermost group, 1 for one in it; 0 for all other levels.
    pub nesting: usize,
    /// How many of its nodes branch.
    pub nodes: usize,
    /// Children of each of its nodes, where that is the same for all of them.
    pub arity: Option<usize>,
    /// Distance of two PUs that part there; the largest where its nodes differ.
    pub cost: u64,
}

/// Which nodes count as one level: those of one kind, and of groups those as deep among groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LevelKey {
    pub level: Level,
    pub nesting: usize,
}

impl fmt::Display for LevelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nesting {
            0 => write!(f, "{}", self.level),
            nesting => write!(f, "{} {nesting}", self.level),
        }
    }
}

impl Topology {
    /// The node and all above it, up to the root.
    pub fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(node), |&node| self.nodes[node].parent)
    }

    /// The lowest node of `level` that holds the PU (an index into `pus`), where there is one.
    pub fn ancestor(&self, pu: usize, level: Level) -> Option<NodeId> {
        self.ancestors(self.pus[pu].node).find(|&node| self.nodes[node].level == level)
    }

    /// The core of the PU (an index into `pus`); the PU's own node where the topology has no cores.
    pub fn core_of(&self, pu: usize) -> NodeId {
        self.ancestor(pu, Level::Core).unwrap_or(self.pus[pu].node)
    }

    /// The child of the topmost branching node that holds the PU (an index into `pus`): the part of the machine it is in.
    /// The PU's own node where nothing branches.
    pub fn part_of(&self, pu: usize) -> NodeId {
        let mut node = 0;
        loop {
            let children = &self.nodes[node].children;
            let branches = children.len() > 1;
            match children.iter().find(|&&child| self.nodes[child].pus.contains(&pu)) {
                Some(&child) if branches => return child,
                Some(&child) => node = child,
                None => return node,
            }
        }
    }

    /// The nodes of a level, from left to right.
    pub fn nodes_at(&self, level: Level) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len()).filter(move |&node| self.nodes[node].level == level)
    }

    /// The PUs (indices into `pus`) that the cpuset lets this process use, ascending.
    pub fn allowed(&self) -> Vec<usize> {
        (0..self.pus.len()).filter(|&pu| self.pus[pu].allowed).collect()
    }

    /// The topology without the PUs that are not allowed, nor the nodes that hold no other. OS indices and distances stay;
    /// `text` stays that of the whole machine.
    ///
    /// # Errors
    /// Where no PU is allowed.
    pub fn allowed_only(&self) -> Result<Self> {
        let kept = self.allowed();
        if kept.is_empty() {
            return Err(Error::new("the topology allows no PU").remedy("widen the cpuset or the cgroup's cpuset.cpus"));
        }
        // `before[i]` allowed PUs come before PU i: old ranges become new ones.
        let mut before = Vec::with_capacity(self.pus.len() + 1);
        before.push(0);
        before.extend(self.pus.iter().scan(0, |sum, pu| {
            *sum += usize::from(pu.allowed);
            Some(*sum)
        }));
        let mut renamed: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut nodes: Vec<super::Node> = Vec::new();
        for (id, node) in self.nodes.iter().enumerate() {
            let pus = before[node.pus.start]..before[node.pus.end];
            if pus.is_empty() {
                continue;
            }
            let parent = node.parent.and_then(|parent| renamed[parent]);
            let new = nodes.len();
            if let Some(parent) = parent {
                nodes[parent].children.push(new);
            }
            renamed[id] = Some(new);
            nodes.push(super::Node { parent, children: Vec::new(), pus, ..node.clone() });
        }
        let pu = |&old: &usize| super::Pu { node: renamed[self.pus[old].node].unwrap_or(0), ..self.pus[old].clone() };
        let row = |&a: &usize| kept.iter().map(move |&b| self.distance(a, b));
        let matrix = self.matrix.as_ref().map(|_| kept.iter().flat_map(row).collect());
        Ok(Self { nodes, pus: kept.iter().map(pu).collect(), matrix, text: self.text.clone() })
    }

    /// The levels at which the tree branches, from the root down: what `--level-costs` gives a cost each. In a tree that is
    /// not symmetric a level is listed where any of its nodes branches.
    pub fn branching(&self) -> Vec<Branching> {
        let keys = self.keys();
        let describe = |key: LevelKey| {
            let all: Vec<_> = (0..self.nodes.len()).filter(|&id| keys[id] == key).map(|id| &self.nodes[id]).collect();
            let arity = all[0].children.len();
            let uniform = all.iter().all(|node| node.children.len() == arity);
            let branching = all.iter().filter(|node| node.children.len() > 1);
            Branching {
                level: key.level,
                nesting: key.nesting,
                nodes: branching.clone().count(),
                arity: uniform.then_some(arity),
                cost: branching.map(|node| node.cost).max().unwrap_or(0),
            }
        };
        self.branching_keys().into_iter().map(describe).collect()
    }

    /// Children of a node at each level that branches, from the root down (`[2, 14, 2]`), where the tree is symmetric: its
    /// PUs then number their product. None where it is not.
    pub fn arities(&self) -> Option<Vec<usize>> {
        let branching = self.branching();
        let arities: Vec<_> = branching.iter().filter_map(|level| level.arity).collect();
        let product = arities.iter().try_fold(1usize, |product, &arity| product.checked_mul(arity));
        (arities.len() == branching.len() && product == Some(self.pus.len())).then_some(arities)
    }

    /// The distance of every two allowed PUs, where it is the same for all: then no mapping is better than another.
    /// 0 where fewer than two PUs are allowed.
    pub fn only_distance(&self) -> Option<u64> {
        let allowed = self.allowed();
        let mut distances: Box<dyn Iterator<Item = u64>> = match &self.matrix {
            Some(_) => Box::new(allowed.iter().flat_map(|&a| {
                let others = allowed.iter().filter(move |&&b| a != b);
                others.map(move |&b| self.distance(a, b))
            })),
            None => Box::new(self.parting_nodes().into_iter().map(|node| self.nodes[node].cost)),
        };
        let Some(first) = distances.next() else { return Some(0) };
        distances.all(|distance| distance == first).then_some(first)
    }

    /// Whether the distance from a to b is that from b to a, for all PUs: always so where the tree's costs hold.
    pub fn has_symmetric_distances(&self) -> bool {
        let n = self.pus.len();
        let symmetric = |matrix: &Vec<u64>| (0..n).all(|a| (0..a).all(|b| matrix[a * n + b] == matrix[b * n + a]));
        self.matrix.as_ref().is_none_or(symmetric)
    }

    /// The nodes at which two allowed PUs part.
    fn parting_nodes(&self) -> Vec<NodeId> {
        let mut holds = vec![false; self.nodes.len()];
        let mut parting = Vec::new();
        for id in (0..self.nodes.len()).rev() {
            let node = &self.nodes[id];
            let children = node.children.iter().filter(|&&child| holds[child]).count();
            holds[id] = children > 0 || node.level == Level::Pu && self.pus[node.pus.start].allowed;
            if children > 1 {
                parting.push(id);
            }
        }
        parting
    }

    /// The level of every node.
    pub(super) fn keys(&self) -> Vec<LevelKey> {
        let mut groups = vec![0usize; self.nodes.len()];
        let mut keys = Vec::with_capacity(self.nodes.len());
        for (id, node) in self.nodes.iter().enumerate() {
            let around = node.parent.map_or(0, |parent| groups[parent]);
            // Several memories on the same PUs are NUMA nodes in each other, but only the inner one can branch.
            let nesting = if matches!(node.level, Level::Group | Level::Switch) { around } else { 0 };
            groups[id] = around + usize::from(matches!(node.level, Level::Group | Level::Switch));
            keys.push(LevelKey { level: node.level, nesting });
        }
        keys
    }

    /// The levels at which any node branches, from the root down.
    pub(super) fn branching_keys(&self) -> Vec<LevelKey> {
        let keys = self.keys();
        let mut depth = vec![0usize; self.nodes.len()];
        let mut deepest: BTreeMap<LevelKey, usize> = BTreeMap::new();
        for (id, node) in self.nodes.iter().enumerate() {
            depth[id] = node.parent.map_or(0, |parent| depth[parent] + 1);
            if node.children.len() > 1 {
                let entry = deepest.entry(keys[id]).or_default();
                *entry = depth[id].max(*entry);
            }
        }
        // A level lies below another where some node of it does; in every real machine that order is one.
        let mut levels: Vec<_> = deepest.into_iter().collect();
        levels.sort_by_key(|&(key, depth)| (depth, key));
        levels.into_iter().map(|(key, _)| key).collect()
    }
}
