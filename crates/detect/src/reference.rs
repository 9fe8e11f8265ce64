//! The slow and obvious detector: "communication", "invalidation" and "sharing" as ARCHITECTURE.md and docs/profiler.md
//! define them, spelled out with a map and a set. It is the twin that the inline detector in native/dbi is compared
//! with, never the one that users run.
//!
//! Communication is COMPROF's (section III): a write, then the first read of that value by each other task.

use crate::transfers::{PARTS, whole};
use cohabit_access::Access;
use cohabit_model::{Matrix, profile::SeriesRow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// What is known of one block since it was last written (or cleared).
#[derive(Debug, Default)]
struct Block {
    /// The task whose value the block holds; none while nobody has written it.
    writer: Option<u32>,
    /// The tasks other than the writer that have read it since: each holds a copy.
    readers: BTreeSet<u32>,
}

/// Counts of (source, destination).
type Pairs = BTreeMap<(u32, u32), u64>;

/// What one task did.
#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    loads: u64,
    stores: u64,
    accessed_bytes: u64,
}

/// Feeds on accesses in the order they happened; see the file's head.
#[derive(Debug)]
pub struct ReferenceDetector {
    block_bytes: u64,
    window_ns: u64,
    blocks: HashMap<u64, Block>,
    /// Who touched each block in each window: key (bin, block number).
    touched: HashMap<(u64, u64), BTreeSet<u32>>,
    messages: Pairs,
    bytes: Pairs,
    invalidations: Pairs,
    /// In [`PARTS`].
    transfers: Pairs,
    sharing: Pairs,
    series: BTreeMap<(u64, u32, u32), (u64, u64)>,
    totals: Vec<Totals>,
}

/// What the detector found. Every matrix is `[source][destination]`, every vector by task.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceCounts {
    /// First reads of each written value: writer -> reader.
    pub messages: Matrix,
    /// Sizes of the reads counted in `messages`, each as far as it lay in the block.
    pub bytes: Matrix,
    /// Copies made stale: writer -> holder.
    pub invalidations: Matrix,
    /// The reads counted in `messages`, each shared out among all that held the value then: holder -> reader.
    pub transfers: Matrix,
    /// Blocks both tasks touched within one window, summed over windows. Symmetric, with an empty diagonal.
    pub sharing: Matrix,
    /// `messages` and `bytes` by the window of the read, sorted.
    pub series: Vec<SeriesRow>,
    /// Loads of each task; an access that reads and writes is one load and one store.
    pub loads: Vec<u64>,
    /// Stores of each task.
    pub stores: Vec<u64>,
    /// Bytes each task loaded and stored (MemV).
    pub accessed_bytes: Vec<u64>,
}

impl ReferenceDetector {
    /// A detector that has seen nothing.
    ///
    /// # Panics
    /// If `block_bytes` or `window_ns` is 0.
    pub fn new(block_bytes: u64, window_ns: u64) -> Self {
        assert!(block_bytes > 0 && window_ns > 0, "blocks and windows have a size");
        Self {
            block_bytes,
            window_ns,
            blocks: HashMap::new(),
            touched: HashMap::new(),
            messages: Pairs::new(),
            bytes: Pairs::new(),
            invalidations: Pairs::new(),
            transfers: Pairs::new(),
            sharing: Pairs::new(),
            series: BTreeMap::new(),
            totals: Vec::new(),
        }
    }

    /// Takes the next access. One that crosses blocks touches each of them, with the bytes that lie there.
    pub fn access(&mut self, access: &Access) {
        if access.size_bytes == 0 {
            return;
        }
        self.count_totals(access);
        let bin = access.time_ns / self.window_ns;
        let last_byte = access.address.saturating_add(u64::from(access.size_bytes) - 1);
        for block in access.address / self.block_bytes..=last_byte / self.block_bytes {
            let first_of_block = block * self.block_bytes;
            let last_of_block = first_of_block.saturating_add(self.block_bytes - 1);
            let bytes_here = last_byte.min(last_of_block) - access.address.max(first_of_block) + 1;
            self.touched.entry((bin, block)).or_default().insert(access.task);
            if access.kind.reads() {
                self.read(access.task, block, bytes_here, bin);
            }
            if access.kind.writes() {
                self.write(access.task, block);
            }
        }
    }

    /// Forgets the memory in `range`, because it was unmapped or mapped anew: whoever uses the addresses next finds
    /// them as if nobody had touched them. Blocks that lie partly in it are forgotten whole.
    pub fn clear(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let cleared = range.start / self.block_bytes..=(range.end - 1) / self.block_bytes;
        self.blocks.retain(|block, _| !cleared.contains(block));
        let (gone, kept) = std::mem::take(&mut self.touched).into_iter().partition(|((_, b), _)| cleared.contains(b));
        self.touched = kept;
        count_sharing(&mut self.sharing, &gone);
    }

    /// The counts so far, as matrices of at least `tasks` tasks: more if accesses named more.
    pub fn finish(mut self, tasks: usize) -> ReferenceCounts {
        count_sharing(&mut self.sharing, &self.touched);
        let tasks = tasks.max(self.totals.len());
        self.totals.resize(tasks, Totals::default());
        let matrix = |pairs: Pairs| Matrix::from_triplets(tasks, pairs.into_iter().map(|((s, d), n)| (s, d, n)));
        let row =
            |((bin, source, destination), (messages, bytes))| SeriesRow { bin, source, destination, messages, bytes };
        ReferenceCounts {
            messages: matrix(self.messages),
            bytes: matrix(self.bytes),
            invalidations: matrix(self.invalidations),
            transfers: whole(&matrix(self.transfers)),
            sharing: matrix(self.sharing),
            series: self.series.into_iter().map(row).collect(),
            loads: self.totals.iter().map(|task| task.loads).collect(),
            stores: self.totals.iter().map(|task| task.stores).collect(),
            accessed_bytes: self.totals.iter().map(|task| task.accessed_bytes).collect(),
        }
    }

    fn count_totals(&mut self, access: &Access) {
        let task = access.task as usize;
        if self.totals.len() <= task {
            self.totals.resize(task + 1, Totals::default());
        }
        let totals = &mut self.totals[task];
        let (loads, stores) = (u64::from(access.kind.reads()), u64::from(access.kind.writes()));
        totals.loads += loads;
        totals.stores += stores;
        totals.accessed_bytes += (loads + stores) * u64::from(access.size_bytes);
    }

    fn read(&mut self, reader: u32, block: u64, bytes: u64, bin: u64) {
        let state = self.blocks.entry(block).or_default();
        if state.writer == Some(reader) || !state.readers.insert(reader) {
            return;
        }
        let Some(writer) = state.writer else { return };
        *self.messages.entry((writer, reader)).or_default() += 1;
        // The reader is among the readers already; the writer is no reader of its own value.
        let holders = state.readers.iter().copied().filter(|&holder| holder != reader).chain([writer]);
        let share = PARTS / state.readers.len() as u64;
        for holder in holders {
            *self.transfers.entry((holder, reader)).or_default() += share;
        }
        *self.bytes.entry((writer, reader)).or_default() += bytes;
        let cell = self.series.entry((bin, writer, reader)).or_default();
        cell.0 += 1;
        cell.1 += bytes;
    }

    fn write(&mut self, writer: u32, block: u64) {
        let state = self.blocks.entry(block).or_default();
        for &holder in state.readers.iter().filter(|&&holder| holder != writer) {
            *self.invalidations.entry((writer, holder)).or_default() += 1;
        }
        *state = Block { writer: Some(writer), readers: BTreeSet::new() };
    }
}

/// Adds one, both ways, for every pair of tasks that touched the same block in the same window.
fn count_sharing(sharing: &mut Pairs, touched: &HashMap<(u64, u64), BTreeSet<u32>>) {
    for tasks in touched.values() {
        for &a in tasks {
            for &b in tasks.iter().filter(|&&b| b != a) {
                *sharing.entry((a, b)).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
