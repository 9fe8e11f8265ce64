//! What communication goes through on a machine with several memories: caches that tasks share, memory controllers, links.
//!
//! A message between tasks under one last-level cache passes that cache. Any other is read from the memory of the node that
//! wrote it (first touch puts pages there), passes that node's controller, the links of all nodes on the way, each in its
//! direction, and the reader's cache. Where a node has no shared cache, what stays in it passes its controller.

use crate::mappers::deloc::memory_node_ids;
use cohabit_model::hct::{Bandwidth, Direction, MemorySpeeds};
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Hct, Topology};

/// How fast things are, in bytes/s; infinity where something never is in the way.
///
/// Only their proportions matter to which mapping is the better one. Where a cluster file does not say (`[[memory]]`, which
/// `cohabit measure` writes), controllers and links are those of a Skylake with DDR4 by the Mess benchmark (101 GB/s local,
/// 35 GB/s remote); those of a core's port and of a shared cache are assumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speeds {
    /// A task at its port, in each direction.
    pub port: f64,
    /// A link of a NUMA node, in each direction.
    pub link: f64,
    /// A memory controller.
    pub controller: f64,
    /// A shared cache.
    pub cache: f64,
}

impl Speeds {
    /// With what is known of a host's memory instead.
    fn with(self, known: &MemorySpeeds) -> Self {
        Self {
            port: known.task.unwrap_or(self.port),
            link: known.remote.unwrap_or(self.link),
            controller: known.node.unwrap_or(self.controller),
            cache: known.cache.unwrap_or(self.cache),
        }
    }

    /// With the fastest port that a PU has: what tasks take there bounds every placement.
    pub(super) fn of_tasks(self, hct: Option<&Hct>) -> Self {
        let pus = hct.into_iter().flat_map(|hct| {
            let pus = (0..hct.elements()).filter(|&element| hct.is_processing(element));
            pus.map(|pu| self.with(hct.memory(pu)).port)
        });
        Self { port: pus.reduce(f64::max).unwrap_or(self.port), ..self }
    }
}

impl Default for Speeds {
    fn default() -> Self {
        Self { port: 12e9, link: 35e9, controller: 101e9, cache: 350e9 }
    }
}

/// Resources that take equally long.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Seconds a byte.
    Flat(f64),
    /// By the message's length, and seconds a message.
    Port(Bandwidth, f64),
}

impl Kind {
    pub fn seconds(&self, length: f64, count: f64) -> f64 {
        match self {
            Self::Flat(seconds_per_byte) => length * count * seconds_per_byte,
            Self::Port(bandwidth, latency_s) => {
                count * (bandwidth.at(length).map_or(0.0, |rate| length / rate) + latency_s)
            }
        }
    }
}

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// What leaves a node of the topology, or comes into it.
    Link(NodeId, Direction),
    /// The memory of a node.
    Controller(NodeId),
    /// A cache that tasks share.
    Cache(NodeId),
}

/// All resources of a machine.
pub(super) struct Resources {
    pub all: Vec<(Resource, u32)>,
    pub kinds: Vec<Kind>,
    parents: Vec<u32>,
    depth: Vec<u32>,
    out: Vec<Option<u32>>,
    inwards: Vec<Option<u32>>,
    /// Of each node of a PU.
    memory: Vec<u32>,
    cache: Vec<Option<u32>>,
    controller: Vec<u32>,
}

impl Resources {
    pub fn new(topology: &Topology, hct: Option<&Hct>, speeds: &Speeds) -> Self {
        let count = topology.nodes.len();
        let memory_of = |node: NodeId| hct.map(|hct| *hct.memory(node)).unwrap_or_default();
        let mut resources = Self {
            all: Vec::new(),
            kinds: Vec::new(),
            parents: topology.nodes.iter().map(|node| node.parent.unwrap_or(0) as u32).collect(),
            depth: vec![0; count],
            out: vec![None; count],
            inwards: vec![None; count],
            memory: vec![0; count],
            cache: vec![None; count],
            controller: vec![0; count],
        };
        for node in 1..count {
            resources.depth[node] = resources.depth[resources.parents[node] as usize] + 1;
        }
        let memories = memories(topology);
        for &memory in &memories {
            resources.controller[memory] = resources
                .add(Resource::Controller(memory), Kind::Flat(speeds.with(&memory_of(memory)).controller.recip()));
            for pu in topology.nodes[memory].pus.clone() {
                resources.memory[topology.pus[pu].node] = memory as u32;
            }
            // Links of the node and of what is above it; the root has none, and no node has two.
            let above = topology.ancestors(memory).filter(|&node| node != 0);
            for node in above.collect::<Vec<_>>() {
                for direction in [Direction::Out, Direction::In] {
                    // What is known of a host's memory is of its inside, not of its own port.
                    let remote = topology.nodes[node].parent.and_then(|parent| memory_of(parent).remote);
                    let kind = match (remote, hct.filter(|hct| hct.port(node).limit(direction).is_some())) {
                        (None, Some(hct)) => {
                            Kind::Port(hct.port(node).towards(direction).clone(), hct.port(node).latency_s)
                        }
                        (known, _) => Kind::Flat(known.unwrap_or(speeds.link).recip()),
                    };
                    let own = if direction == Direction::Out { &resources.out } else { &resources.inwards };
                    if own[node].is_none() {
                        let link = Some(resources.add(Resource::Link(node, direction), kind));
                        *(if direction == Direction::Out {
                            &mut resources.out[node]
                        } else {
                            &mut resources.inwards[node]
                        }) = link;
                    }
                }
            }
        }
        for pu in &topology.pus {
            let memory = resources.memory[pu.node] as usize;
            let within = topology
                .ancestors(pu.node)
                .take_while(|&node| depth_of(&resources.depth, node) >= resources.depth[memory]);
            let shared = within
                .filter(|&node| topology.nodes[node].level.is_cache() && topology.nodes[node].pus.len() > 1)
                .last();
            if let Some(cache) = shared {
                if resources.cache[cache].is_none() {
                    resources.cache[cache] = Some(
                        resources.add(Resource::Cache(cache), Kind::Flat(speeds.with(&memory_of(cache)).cache.recip())),
                    );
                }
                resources.cache[pu.node] = resources.cache[cache];
            }
        }
        resources
    }

    fn add(&mut self, resource: Resource, kind: Kind) -> u32 {
        let known = self.kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        self.all.push((resource, known as u32));
        self.all.len() as u32 - 1
    }

    /// Calls `visit` with each resource that a message passes from one PU's node to another's.
    #[inline]
    pub fn along(&self, from: NodeId, to: NodeId, mut visit: impl FnMut(usize)) {
        if from == to {
            return;
        }
        let (own, other) = (self.cache[from], self.cache[to]);
        if let (true, Some(cache)) = (own == other, own) {
            return visit(cache as usize);
        }
        let (mut up, mut down) = (self.memory[from] as usize, self.memory[to] as usize);
        visit(self.controller[up] as usize);
        if let Some(cache) = other {
            visit(cache as usize);
        }
        while up != down {
            if self.depth[up] >= self.depth[down] {
                self.out[up].into_iter().for_each(|link| visit(link as usize));
                up = self.parents[up] as usize;
            } else {
                self.inwards[down].into_iter().for_each(|link| visit(link as usize));
                down = self.parents[down] as usize;
            }
        }
    }
}

fn depth_of(depth: &[u32], node: NodeId) -> u32 {
    depth[node]
}

/// The nodes with memories of their own: NUMA nodes; of a cluster without these its hosts.
fn memories(topology: &Topology) -> Vec<NodeId> {
    let found = memory_node_ids(topology);
    let hosts: Vec<NodeId> = topology.hosts().map(|host| host.0).collect();
    let is_numa = found.iter().all(|&node| topology.nodes[node].level == Level::Numa);
    if is_numa || hosts.is_empty() { found } else { hosts }
}
