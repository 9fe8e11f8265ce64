//! What communication goes through on a machine with several memories: caches that tasks share, memory controllers,
//! links.
//!
//! A message between tasks under one last-level cache passes that cache. Any other is read from the memory of the node
//! that wrote it (first touch puts pages there), passes that node's controller, the links of all nodes on the way, each
//! in its direction, and the reader's cache. Where a node has no shared cache, what stays in it passes its controller.
//! And whoever reads waits for it, the longer the farther away the writer is.

use crate::mappers::deloc::memory_node_ids;
use crate::objective::LINE_BYTES;
use cohabit_model::hct::{Bandwidth, Direction, MemorySpeeds};
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Hct, Topology};

/// How fast things are, in bytes/s; infinity where something never is in the way.
///
/// Only their proportions matter to which mapping is the better one. Where a cluster file does not say (`[[memory]]`,
/// which `cohabit measure` writes), controllers and links are those of a Skylake with DDR4 by the Mess benchmark (101
/// GB/s local, 35 GB/s remote); those of tasks and of a shared cache are assumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speeds {
    /// What a task reads from the memory of its own node, all latency included; from farther away it reads the less, as
    /// the distance is larger. Its work, the accesses that nobody else takes part in, goes as fast.
    pub task: f64,
    /// A task's port in a network, in each direction, wherever it is.
    pub port: f64,
    /// A link of a NUMA node, in each direction.
    pub link: f64,
    /// A memory controller.
    pub controller: f64,
    /// A shared cache.
    pub cache: f64,
}

impl Speeds {
    /// Nothing is ever in the way.
    pub const NONE: Self = Self {
        task: f64::INFINITY,
        port: f64::INFINITY,
        link: f64::INFINITY,
        controller: f64::INFINITY,
        cache: f64::INFINITY,
    };

    /// With what is known of a host's memory instead.
    fn with(self, known: &MemorySpeeds) -> Self {
        Self {
            task: known.task.unwrap_or(self.task),
            link: known.remote.unwrap_or(self.link),
            controller: known.node.unwrap_or(self.controller),
            cache: known.cache.unwrap_or(self.cache),
            ..self
        }
    }

    /// With the fastest that a PU is known to be: the least that tasks take is below every placement's.
    pub(super) fn of_tasks(self, hct: Option<&Hct>) -> Self {
        let pus = hct.into_iter().flat_map(|hct| {
            let pus = (0..hct.elements()).filter(|&element| hct.is_processing(element));
            pus.map(|pu| {
                let limits =
                    [Direction::Out, Direction::In].map(|way| hct.port(pu).limit(way).unwrap_or(f64::INFINITY));
                (self.with(hct.memory(pu)).task, limits[0].max(limits[1]))
            })
        });
        match pus.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))) {
            Some((task, port)) => Self { task, port, ..self },
            None => self,
        }
    }
}

impl Default for Speeds {
    fn default() -> Self {
        Self { task: 12e9, port: f64::INFINITY, link: 35e9, controller: 101e9, cache: 350e9 }
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

/// What `count` messages move inside a machine, where caches move whole lines ([`LINE_BYTES`]).
pub(super) fn moved(bytes: f64, count: f64) -> f64 {
    bytes.max(LINE_BYTES * count)
}

impl Kind {
    /// Of so many bytes in `count` messages; where no message is counted, all is one.
    pub fn seconds(&self, bytes: f64, count: f64) -> f64 {
        match self {
            Self::Flat(seconds_per_byte) => moved(bytes, count) * seconds_per_byte,
            Self::Port(bandwidth, latency_s) => {
                let count = count.max(1.0);
                let length = bytes / count;
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
    core: Vec<u32>,
    /// The distance across a NUMA node, whose memory a task reads at its full speed; where no NUMA node is known,
    /// across the machine.
    pub own_distance: f64,
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
            core: (0..count as u32).collect(),
            own_distance: own_distance(topology),
        };
        for pu in &topology.pus {
            let core = topology.ancestors(pu.node).find(|&node| topology.nodes[node].level == Level::Core);
            resources.core[pu.node] = core.unwrap_or(pu.node) as u32;
        }
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

    /// The core of a PU's node, as a node; the PU where no core is known.
    #[inline]
    pub fn core(&self, pu: NodeId) -> NodeId {
        self.core[pu] as NodeId
    }

    /// The controller of the memory at a PU's node.
    pub fn controller(&self, pu: NodeId) -> usize {
        self.controller[self.memory[pu] as usize] as usize
    }

    /// The shared cache of a PU's node.
    pub fn cache(&self, pu: NodeId) -> Option<usize> {
        self.cache[pu].map(|cache| cache as usize)
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

/// The largest distance inside a NUMA node; where none is known, inside a host. At least 1.
fn own_distance(topology: &Topology) -> f64 {
    let is_numa = |&node: &NodeId| topology.nodes[node].level == Level::Numa;
    let host = || topology.hosts().map(|host| host.0).next().unwrap_or(0);
    let node = (0..topology.nodes.len()).find(is_numa).unwrap_or_else(host);
    let cost = match topology.matrix {
        None => topology.nodes[node].cost,
        Some(_) => {
            let pus = topology.nodes[node].pus.clone();
            let first = pus.start;
            pus.map(|pu| topology.distance(first, pu)).max().unwrap_or(0)
        }
    };
    cost.max(1) as f64
}

/// The nodes with memories of their own: NUMA nodes; of a cluster without these its hosts.
fn memories(topology: &Topology) -> Vec<NodeId> {
    let found = memory_node_ids(topology);
    let hosts: Vec<NodeId> = topology.hosts().map(|host| host.0).collect();
    let is_numa = found.iter().all(|&node| topology.nodes[node].level == Level::Numa);
    if is_numa || hosts.is_empty() { found } else { hosts }
}
