//! Which places are watched: addresses drawn from all memory that several tasks may use, and where other processes have
//! the same memory.

use crate::faults::mappings::{Range, armable, byte_of, bytes, find, shared};
use cohabit_host::perf_event::WATCHED_BYTES;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How long what was read of a process's memory is taken for true.
const FRESH: Duration = Duration::from_secs(1);
/// Draws of an address that is in memory.
const DRAWS: u32 = 64;
const PAGE_BYTES: u64 = 4096;

/// Eight bytes of memory: their address in each process that has them.
pub(super) type Place = BTreeMap<i32, u64>;

/// The memory of the processes that are followed.
#[derive(Debug, Default)]
pub(super) struct Memories {
    known: BTreeMap<i32, Memory>,
}

/// The memory of a process that can be shared.
#[derive(Debug)]
struct Memory {
    /// By its threads.
    own: Vec<(u64, u64)>,
    /// With other processes, ascending.
    shared: Vec<Range>,
    pagemap: Option<File>,
    has_threads: bool,
    read_at: Duration,
}

impl Memory {
    fn read(process: i32, has_threads: bool, now: Duration) -> Self {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let shared = shared(&maps);
        let is_own = |&(start, _): &(u64, u64)| find(&shared, start).is_none();
        let own = armable(&maps, has_threads).into_iter().filter(is_own).collect();
        let pagemap = File::open(format!("/proc/{process}/pagemap")).ok();
        Self { own, shared, pagemap, has_threads, read_at: now }
    }

    /// Whether the page of an address is in memory (Documentation/admin-guide/mm/pagemap.rst).
    fn has(&self, address: u64) -> bool {
        const PRESENT: u64 = 1 << 63;
        let Some(pagemap) = &self.pagemap else { return false };
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, address / PAGE_BYTES * 8).is_ok() && u64::from_ne_bytes(entry) & PRESENT != 0
    }
}

impl Memories {
    /// Any place that a process may share, with its own threads or with others of `processes` (each with how many tasks
    /// it has). None where there is none, or nothing of it is in memory.
    pub(super) fn draw(
        &mut self,
        now: Duration,
        process: i32,
        processes: &BTreeMap<i32, usize>,
        random: &mut fastrand::Rng,
    ) -> Option<Place> {
        self.forget_old(now, processes);
        let memory = self.of(now, process, processes);
        let shared: Vec<(u64, u64)> = memory.shared.iter().map(|range| (range.start, range.end)).collect();
        // What processes share is mostly little, and there to be shared.
        let takes_shared = memory.own.is_empty() || !shared.is_empty() && random.bool();
        let ranges = if takes_shared { &shared } else { &memory.own };
        let Some(address) = draw(ranges, |address| memory.has(address), random) else {
            // There may be more soon: programs take their memory when they begin.
            self.known.remove(&process);
            return None;
        };
        self.at(now, process, address, processes)
    }

    /// The eight bytes that an address of a process is in, wherever `processes` have them.
    pub(super) fn at(
        &mut self,
        now: Duration,
        process: i32,
        address: u64,
        processes: &BTreeMap<i32, usize>,
    ) -> Option<Place> {
        self.forget_old(now, processes);
        let address = address / WATCHED_BYTES * WATCHED_BYTES;
        let memory = self.of(now, process, processes);
        let Some(&range) = find(&memory.shared, address) else { return Some(Place::from([(process, address)])) };
        let offset = address - range.start + range.offset;
        let there = |process: i32| {
            let same = self.of(now, process, processes).shared.iter().find(|other| {
                other.object == range.object
                    && (other.offset..other.offset + (other.end - other.start)).contains(&offset)
            })?;
            Some((process, same.start + (offset - same.offset)))
        };
        Some(processes.keys().copied().filter_map(there).collect())
    }

    fn forget_old(&mut self, now: Duration, processes: &BTreeMap<i32, usize>) {
        self.known.retain(|process, memory| {
            let tasks = processes.get(process).copied().unwrap_or(0);
            tasks > 0 && (tasks > 1) == memory.has_threads && now < memory.read_at + FRESH
        });
    }

    fn of(&mut self, now: Duration, process: i32, processes: &BTreeMap<i32, usize>) -> &Memory {
        let has_threads = processes.get(&process).is_some_and(|&tasks| tasks > 1);
        self.known.entry(process).or_insert_with(|| Memory::read(process, has_threads, now))
    }
}

/// An address in `ranges` that is in memory, where one is found soon.
fn draw(ranges: &[(u64, u64)], is_there: impl Fn(u64) -> bool, random: &mut fastrand::Rng) -> Option<u64> {
    let bytes = bytes(ranges);
    let any =
        |_| byte_of(ranges, random.u64(0..bytes.max(1))).map(|(address, _)| address / WATCHED_BYTES * WATCHED_BYTES);
    (0..DRAWS).filter_map(any).find(|&address| is_there(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_that_is_there_is_drawn() {
        let mut random = fastrand::Rng::with_seed(1);
        let ranges = [(0x1000, 0x2000), (0x7000, 0xa000)];
        let drawn: Vec<u64> = (0..4000).filter_map(|_| draw(&ranges, |at| at < 0x8000, &mut random)).collect();
        assert!(drawn.len() == 4000 && drawn.iter().all(|at| at % 8 == 0));
        let first = drawn.iter().filter(|&&at| at < 0x2000).count();
        assert!((1800..2200).contains(&first) && drawn.iter().all(|at| ranges[0].0 <= *at && *at < 0x8000), "{first}");
        assert_eq!(draw(&ranges, |_| false, &mut random), None);
        assert_eq!(draw(&[], |_| true, &mut random), None);
    }

    #[test]
    fn places_are_in_the_memory_of_their_process() {
        let process = std::process::id() as i32;
        let mut random = fastrand::Rng::with_seed(1);
        let mut memories = Memories::default();
        // More than all else that a test's threads may share.
        let large = std::hint::black_box(vec![1u8; 64 << 20]);
        let bytes = large.as_ptr() as u64..large.as_ptr() as u64 + large.len() as u64;
        let processes = BTreeMap::from([(process, 2), (i32::MAX, 1)]);
        let mut draw = |of| memories.draw(Duration::ZERO, of, &processes, &mut random);
        let drawn: Vec<Place> = (0..100).filter_map(|_| draw(process)).collect();
        assert!(drawn.iter().filter(|place| bytes.contains(&place[&process])).count() > 10);
        assert_eq!(draw(i32::MAX), None);
    }
}
