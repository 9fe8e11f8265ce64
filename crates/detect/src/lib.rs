//! Who communicates with whom, out of what tasks do to memory: a file a detector, a row each in [`DETECTORS`].
//!
//! Each is fed the same [`Event`]s, whatever they come from, and ends in a matrix `[source][destination]`. `compare`
//! holds their matrices against exact communication and exact sharing.

mod cdsm;
pub mod communication;
pub mod compare;
mod counters;
mod deloc;
mod exact;
mod hashing;
mod holders;
mod lru;
pub mod reference;
mod sharing;
mod tlb;
mod transfers;
pub mod work;

#[cfg(test)]
mod contract;

use cohabit_access::order::Event;
use cohabit_model::Matrix;

/// What a detector is told before the first event. Times are counts of accesses of the whole run, there being no other
/// clock in an access stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Tasks there are. Each has a core, a TLB and a page table of its own.
    pub tasks: usize,
    /// Bytes of a block: a power of two.
    pub block_bytes: u64,
    /// Accesses of all tasks together that make a window, for what is counted by window.
    pub window_accesses: u64,
    /// Cycles that an access takes, the instructions around it counted in: what turns the papers' intervals into
    /// accesses.
    pub cycles_per_access: f64,
    /// By how much the papers' intervals are divided, the runs that can be recorded being shorter than theirs.
    pub time_scale: f64,
    /// The TLB of each core.
    pub tlb: Tlb,
    /// The caches that each core has for itself, as one.
    pub cache: Cache,
    /// Beside each detector, one that sees one stretch of accesses in so many (`compare`).
    pub sampled: Option<u64>,
}

/// Size of a cache, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// Bytes in all.
    pub bytes: u64,
    /// Blocks of a set.
    pub ways: usize,
}

/// Size of a TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlb {
    /// Entries in all.
    pub entries: usize,
    /// Entries of a set.
    pub ways: usize,
    /// log2 of a page's bytes.
    pub page_shift: u32,
}

impl Setting {
    /// The papers' own values for so many tasks: lines of 64 bytes, and the TLB of 64 entries in 4 ways with pages of 4
    /// KiB (TLB 2012, VI-A). The cache is the L2 of COMPLACE's
    /// machine (Broadwell: 256 KiB in 8 ways). Four cycles an access are our inference.
    pub fn new(tasks: usize) -> Self {
        Self {
            tasks,
            block_bytes: 64,
            window_accesses: 1 << 20,
            cycles_per_access: 4.0,
            time_scale: 1.0,
            tlb: Tlb { entries: 64, ways: 4, page_shift: 12 },
            cache: Cache { bytes: 256 << 10, ways: 8 },
            sampled: None,
        }
    }

    /// Cycles of the run in which all tasks together make one access: they run at the same time.
    fn run_cycles_per_access(&self) -> f64 {
        self.cycles_per_access / self.tasks.max(1) as f64
    }
}

/// What a detector found.
#[derive(Debug, Clone, PartialEq)]
pub struct Detected {
    /// How often each pair was seen, `[source][destination]`; the detector's row says whether it is symmetric.
    pub matrix: Matrix,
    /// Occasions to look that it used: accesses, faults, misses searched for.
    pub looked: u64,
    /// Occasions that there were.
    pub occasions: u64,
    /// Cycles that looking takes by the paper's own figures, over those of the run; none where the paper has no figure.
    pub overhead: Option<f64>,
}

/// Makes a matrix of events.
pub trait Detector {
    /// Takes the next event.
    fn take(&mut self, event: &Event);
    /// What was found.
    fn finish(self: Box<Self>) -> Detected;
}

/// A row of the table.
pub struct Row {
    /// What users call it.
    pub name: &'static str,
    /// What it counts, in a line.
    pub about: &'static str,
    /// Where it comes from: paper and section.
    pub source: &'static str,
    /// What it can see.
    pub sees: &'static str,
    /// Whether its matrix is symmetric.
    pub symmetric: bool,
    /// Whether it looks at every access.
    pub complete: bool,
    /// Makes one.
    pub make: fn(&Setting) -> Box<dyn Detector>,
}

/// All detectors of access streams.
pub static DETECTORS: &[Row] = &[
    exact::ROW,
    transfers::ROW,
    holders::ROW,
    deloc::ROW,
    sharing::ROW,
    cdsm::ROW,
    tlb::SOFTWARE,
    tlb::SOFTWARE_ALL,
    tlb::HARDWARE,
    counters::OTHER_CACHE,
    counters::OTHER_CACHE_ALL,
    counters::SLOW_LOADS,
    counters::SLOW_LOADS_ALL,
];

/// The detector of this name.
pub fn named(name: &str) -> Option<&'static Row> {
    DETECTORS.iter().find(|row| row.name == name)
}

/// Counts of (source, destination), dense: detectors have as many tasks as a run.
#[derive(Debug, Clone)]
struct Counts {
    tasks: usize,
    cells: Vec<u64>,
}

impl Counts {
    fn new(tasks: usize) -> Self {
        Self { tasks, cells: vec![0; tasks * tasks] }
    }

    fn add(&mut self, source: u32, destination: u32) {
        self.add_times(source, destination, 1);
    }

    fn add_times(&mut self, source: u32, destination: u32, times: u64) {
        self.cells[source as usize * self.tasks + destination as usize] += times;
    }

    /// So many events of a pair that has no direction.
    fn add_pair(&mut self, a: u32, b: u32, times: u64) {
        self.add_times(a, b, times);
        self.add_times(b, a, times);
    }

    fn matrix(&self) -> Matrix {
        let cell = |(at, &count): (usize, &u64)| ((at / self.tasks) as u32, (at % self.tasks) as u32, count);
        let found = self.cells.iter().enumerate().filter(|(_, count)| **count > 0).map(cell);
        Matrix::from_triplets(self.tasks, found)
    }
}
