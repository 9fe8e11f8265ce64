//! The machine that is simulated: a topology and a parameter file, checked and in the engine's units.

mod build;
pub mod file;
pub mod given;
mod vary;

use crate::clock::Time;
use cohabit_access::{Dependences, PARTS_OF_A_CYCLE};
use cohabit_model::topology::Topology;
use cohabit_model::{Error, Result};
pub use file::{Contents, Protocol, Replacement, Search, Write};
use std::path::Path;
pub use vary::Parameter;

/// Cores of the largest machine.
pub const MAX_CORES: usize = 1024;

/// A machine, ready to be simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// What it is, in a line.
    pub about: String,
    /// Its tree; PUs are numbered as in [`Topology::pus`], cores from left to right.
    pub topology: Topology,
    /// The core of each PU.
    pub core_of_pu: Vec<usize>,
    /// How many cores there are.
    pub cores: usize,
    /// What a core does.
    pub core: Core,
    /// The caches, the nearest to the core first.
    pub levels: Vec<Level>,
    /// How many of these are a core's own.
    pub private_levels: usize,
    /// Bytes of a line, as a power of two.
    pub line_bits: u32,
    /// States of a line.
    pub protocol: Protocol,
    /// Who is asked for it.
    pub search: Search,
    /// From cache to cache, `[core * cores + core]`.
    pub transfer: Vec<Time>,
    /// Translation; none: free.
    pub tlb: Option<Tlb>,
    /// Memory.
    pub memory: Memory,
    /// What joins parts of the machine with the rest.
    pub links: Vec<Link>,
    /// 10^9 bytes/s of the bus, where there is one.
    pub bus_gb_s: Option<f64>,
    /// Tiles, where the last caches are in a mesh.
    pub mesh: Option<Mesh>,
    /// What the operating system adds.
    pub system: System,
}

/// What a core does.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// A cycle.
    pub cycle: Time,
    /// An instruction, by the number of the core's PUs that run one: `[0]` is for none and is as `[1]`.
    pub instruction: Vec<Time>,
    /// Instructions begun behind a load that is not there yet.
    pub window: u64,
    /// Lines under way at a time.
    pub fill_buffers: usize,
    /// Whether instructions wait for those that make what they need.
    pub dependences: bool,
}

/// A level of caches.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// 1 is nearest to the core.
    pub number: u8,
    /// Sets of each cache.
    pub sets: u64,
    /// Lines of a set.
    pub ways: usize,
    /// From an instruction that loads to one that uses.
    pub latency: Time,
    /// Which line of a full set goes.
    pub replacement: Replacement,
    /// What it holds of what the caches below hold.
    pub contents: Contents,
    /// When the next level sees what is written.
    pub write: Write,
    /// Which cache of the level each core uses.
    pub cache_of_core: Vec<usize>,
    /// How many caches there are.
    pub caches: usize,
}

/// Translation of addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Tlb {
    /// Bytes of a page, as a power of two.
    pub page_bits: u32,
    /// Of loads and stores.
    pub data: TlbLevel,
    /// Of instructions.
    pub code: Option<TlbLevel>,
    /// Asked by both.
    pub second: Option<TlbLevel>,
    /// To walk the page table.
    pub walk: Time,
}

/// One TLB of each core.
#[derive(Debug, Clone, PartialEq)]
pub struct TlbLevel {
    /// Sets.
    pub sets: u64,
    /// Pages of a set.
    pub ways: usize,
    /// To find a page here.
    pub latency: Time,
}

/// Memory and its controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// How many nodes have memory.
    pub nodes: usize,
    /// The node near each core.
    pub node_of_core: Vec<usize>,
    /// Idle latency, `[core * nodes + node]`.
    pub latency: Vec<Time>,
    /// Controllers of a node.
    pub controllers: usize,
    /// 10^9 bytes/s of one of them.
    pub gb_s: f64,
    /// Points (share in use, more latency) of a measured curve.
    pub curve: Vec<(f64, Time)>,
}

/// What joins each node of a level of the tree with the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name in reports.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// Which of them each core is behind; none where it is behind none.
    pub of_core: Vec<Option<usize>>,
    /// Which of them each memory node is behind.
    pub of_node: Vec<Option<usize>>,
    /// 10^9 bytes/s in each direction.
    pub gb_s: f64,
}

/// Tiles in rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    /// Tiles of a row.
    pub columns: usize,
    /// How many tiles there are: one for each last cache.
    pub tiles: usize,
    /// From a tile to the next.
    pub hop: Time,
}

/// What the operating system adds.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// How long a task keeps its PU while others want it.
    pub slice: Time,
    /// To change from a task to another.
    pub switch: Time,
    /// To give a page that is touched for the first time.
    pub fault: Time,
    /// How often pages of a process are unmapped for sampling ([`crate::Placement::AutoNuma`]).
    pub numa_scan_period: Time,
    /// How much of them at a time.
    pub numa_scan_bytes: u64,
    /// To take a hint fault.
    pub numa_fault: Time,
    /// To move a page, beside copying it.
    pub numa_migrate: Time,
}

impl Machine {
    /// The machine that a user names: one of [`given::MACHINES`], or a machine file.
    ///
    /// # Errors
    /// Where there is none, or what it describes is no machine.
    pub fn load(name: &str) -> Result<Self> {
        if let Some(given) = given::MACHINES.iter().find(|given| given.name == name) {
            return Self::parse(given.text, None).map_err(|error| error.at(name));
        }
        let path = Path::new(name);
        let names: Vec<_> = given::MACHINES.iter().map(|given| given.name).collect();
        let forms = format!("give a machine file (.toml), or one of {}", names.join(", "));
        let bytes = std::fs::read(path).map_err(|error| Error::from(error).at(name).remedy(forms.clone()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::new(format!("{name}: not a text file (UTF-8)")).remedy(forms))?;
        Self::parse(&text, path.parent()).map_err(|error| error.at(name))
    }

    /// The machine of a file's text; a topology that is a file is looked for in `folder`.
    ///
    /// # Errors
    /// Where it is no machine file, or what it describes is no machine.
    pub fn parse(text: &str, folder: Option<&Path>) -> Result<Self> {
        build::build(&file::MachineFile::parse(text)?, folder)
    }

    /// The last cache that a core uses: caches with the same number are kept the same by what they have in common,
    /// caches with different ones by the protocol.
    pub fn domain(&self, core: usize) -> usize {
        self.levels[self.levels.len() - 1].cache_of_core[core]
    }

    /// What is to be asked of recordings for it to be known how long instructions wait for one another; none: nothing.
    pub fn dependences(&self) -> Option<Dependences> {
        let cycles = self.levels[0].latency as f64 / self.core.cycle.max(1) as f64;
        let load = (cycles * PARTS_OF_A_CYCLE as f64).round() as u64;
        self.core.dependences.then_some(Dependences { window: self.core.window, load })
    }

    /// Bytes of a page, as a power of two: 4 KiB where the machine has no TLB.
    pub fn page_bits(&self) -> u32 {
        self.tlb.as_ref().map_or(12, |tlb| tlb.page_bits)
    }

    /// The same machine with last caches that are `factor` times smaller, in whole sets; never smaller than twice what
    /// the caches below each of them hold.
    #[must_use]
    pub fn with_last_caches_smaller_by(&self, factor: f64) -> Self {
        let mut machine = self.clone();
        let Some((last, below)) = machine.levels.split_last_mut() else { return machine };
        let lines = |level: &Level| level.sets * level.ways as u64;
        let least: u64 = below.iter().map(|level| lines(level) * (level.caches / last.caches).max(1) as u64).sum();
        let least = (2 * least).div_ceil(last.ways as u64);
        last.sets = ((last.sets as f64 / factor) as u64).max(least.min(last.sets)).max(1);
        machine
    }

    /// Bytes of each last cache.
    pub fn last_cache_bytes(&self) -> u64 {
        self.levels.last().map_or(0, |last| (last.sets * last.ways as u64) << self.line_bits)
    }

    /// How many last caches there are.
    pub fn domains(&self) -> usize {
        self.levels[self.levels.len() - 1].caches
    }

    /// From a cache of one core to one of another.
    pub fn transfer(&self, from: usize, to: usize) -> Time {
        self.transfer[from * self.cores + to]
    }
}
