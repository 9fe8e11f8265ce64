//! What the stages ask of a topology: the core of a PU, which PUs are allowed, where the tree branches, whether there
//! is any distance to save.

use super::{Level, NodeId, Topology};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// A level at which the tree branches: where two PUs can part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branching {
    /// What its nodes are.
    pub level: Level,
    /// How many of its kind are around a group or switch: 0 for the outermost, 1 for one in it; 0 for all other levels.
    pub nesting: usize,
    /// How many of its nodes branch.
    pub nodes: usize,
    /// Children of each of its nodes, where that is the same for all of them.
    pub arity: Option<usize>,
    /// Distance of two PUs that part there; the largest where its nodes differ.
    pub cost: u64,
}

/// Which nodes count as one level: those of one kind, and of groups and switches those as deep among their kind.
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
    /// The longest distance of two PUs; 0 where all are one.
    pub fn farthest(&self) -> u64 {
        match &self.matrix {
            Some(distances) => distances.iter().copied().max().unwrap_or(0),
            None => self.nodes.iter().map(|node| node.cost).max().unwrap_or(0),
        }
    }

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

    /// The child of the topmost branching node that holds the PU (an index into `pus`): the part of the machine it is
    /// in. The PU's own node where nothing branches. In a cluster, its host.
    pub fn part_of(&self, pu: usize) -> NodeId {
        if let Some(host) = self.ancestor(pu, Level::Machine).filter(|host| self.names.contains_key(host)) {
            return host;
        }
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

    /// The node and all below it, parents first.
    pub fn below(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.nodes[node].pus.end;
        // Nodes are in preorder: what is below a node follows it.
        let inside = move |&id: &NodeId| id == node || self.nodes[id].pus.start < end;
        (node..self.nodes.len()).take_while(inside)
    }

    /// The hosts of a cluster with their names, from left to right; none where the topology is one machine's.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeId, &str)> + '_ {
        let hosts = self.names.iter().filter(|&(&node, _)| self.nodes[node].level == Level::Machine);
        hosts.map(|(&node, name)| (node, name.as_str()))
    }

    /// The host of a PU (an index into `pus`); none where the topology is one machine's.
    pub fn host_of(&self, pu: usize) -> Option<&str> {
        self.names.get(&self.ancestor(pu, Level::Machine)?).map(String::as_str)
    }

    /// Index into `pus` of the PU that a user names: by its OS index, in a cluster with its host before it
    /// (`node01:3`).
    ///
    /// # Errors
    /// Where it is no such name, or there is no such PU.
    pub fn pu_named(&self, text: &str) -> Result<usize> {
        let remedy = "'cohabit topology' lists the PUs and their OS indices";
        let (host, number) = text.rsplit_once(':').unwrap_or(("", text));
        let Ok(os_index) = number.trim().parse() else {
            return Err(Error::new(format!("{text:?} is no PU")).remedy("write its OS index, as in 17 or node01:17"));
        };
        if host.is_empty() && !self.names.is_empty() {
            let first = self.hosts().next().map_or("node01", |(_, name)| name);
            return Err(Error::new(format!("PU {text} of which host?")).remedy(format!("write {first}:{text}")));
        }
        match self.pu_on(host, os_index) {
            Some(pu) if host.is_empty() || !self.names.is_empty() => Ok(pu),
            _ => Err(Error::new(format!("no PU {text} here")).remedy(remedy)),
        }
    }

    /// Index into `pus` of the PU with this OS index on this host of a cluster; one machine's PUs are on every host.
    pub fn pu_on(&self, host: &str, os_index: u32) -> Option<usize> {
        if self.names.is_empty() {
            return self.pu_index(os_index);
        }
        let (node, _) = self.hosts().find(|(_, name)| *name == host)?;
        self.nodes[node].pus.clone().find(|&pu| self.pus[pu].os_index == os_index)
    }

    /// The nodes of a level, from left to right.
    pub fn nodes_at(&self, level: Level) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len()).filter(move |&node| self.nodes[node].level == level)
    }

    /// The PUs (indices into `pus`) that the cpuset lets this process use, ascending.
    pub fn allowed(&self) -> Vec<usize> {
        (0..self.pus.len()).filter(|&pu| self.pus[pu].allowed).collect()
    }

    /// The topology without the PUs that are not allowed, nor the nodes that hold no other. OS indices and distances
    /// stay; `text` stays that of the whole machine.
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
        let names = self.names.iter().filter_map(|(&node, name)| Some((renamed[node]?, name.clone()))).collect();
        Ok(Self { nodes, pus: kept.iter().map(pu).collect(), matrix, names, text: self.text.clone() })
    }

    /// The levels at which the tree branches, from the root down: what `--level-costs` gives a cost each. In a tree
    /// that is not symmetric a level is listed where any of its nodes branches.
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

    /// Children of a node at each level that branches, from the root down (`[2, 14, 2]`), where the tree is symmetric:
    /// its PUs then number their product. None where it is not.
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
        // How many groups and switches are around each node, itself counted.
        let mut around = vec![(0usize, 0usize); self.nodes.len()];
        let mut keys = Vec::with_capacity(self.nodes.len());
        for (id, node) in self.nodes.iter().enumerate() {
            let (groups, switches) = node.parent.map_or((0, 0), |parent| around[parent]);
            // Several memories on the same PUs are NUMA nodes in each other, but only the inner one can branch.
            let nesting = match node.level {
                Level::Group => groups,
                Level::Switch => switches,
                _ => 0,
            };
            let is = |level: Level| usize::from(node.level == level);
            around[id] = (groups + is(Level::Group), switches + is(Level::Switch));
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
