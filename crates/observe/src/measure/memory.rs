//! What memory gives: bytes/s that pinned threads read of a NUMA node's memory, from its own PUs and from another
//! node's, all at once and one alone, and of what lies in a cache that they share. Several threads at once: a
//! controller and a link are only full then.

use super::busy::{Busy, Disturbance};
use super::exchange::cpu_seconds;
use super::pages::{Pages, available_bytes};
use cohabit_host::affinity::CpuMask;
use cohabit_model::hct::MemorySpeeds;
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Error, Result, Topology};
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Times each figure is measured; the fastest counts.
const REPEATS: usize = 3;
/// How much more than all caches hold is read in turns, so that nothing is there still when its turn comes again.
const BEYOND_CACHES: u64 = 2;
/// Bytes that are read of memory, at least.
const LEAST: u64 = 64 << 20;
/// Bytes of what lies in a cache, at most: enough for no private cache to hold them.
const MOST_CACHED: u64 = 64 << 20;
/// Words between two looks at the clock's flag: 64 KiB.
const CHUNK: usize = 8 << 10;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Whose memory: `NUMA node 0`, `L3`, `memory`.
    pub of: String,
    /// Whose PUs read it.
    pub by: String,
    /// Threads at once, each on a PU of its own.
    pub threads: usize,
    /// Bytes/s, of all together.
    pub bandwidth: f64,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// In the order in which they were measured.
    pub readings: Vec<Reading>,
    /// The lowest of each kind.
    pub speeds: MemorySpeeds,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

impl Memory {
    fn add(&mut self, reading: Reading, kind: fn(&mut MemorySpeeds) -> &mut Option<f64>) {
        let lowest = kind(&mut self.speeds);
        *lowest = Some(lowest.map_or(reading.bandwidth, |known| known.min(reading.bandwidth)));
        self.readings.push(reading);
    }
}

/// Measures the memory of the PUs of a topology, all of which may be used.
///
/// # Errors
/// A PU that threads may not run on, memory that cannot be had.
pub(super) fn measure_memory(topology: &Topology, time: Duration, busy: &mut Busy) -> Result<Memory> {
    let nodes = numa_nodes(topology);
    let mut found = Memory::default();
    let name = |at: usize| match nodes[..] {
        [_] => "memory".to_owned(),
        _ => format!("NUMA node {}", topology.nodes[nodes[at]].os_index.unwrap_or(at as u32)),
    };
    let pus = |at: usize| os_indices(topology, nodes[at]);
    for at in 0..nodes.len() {
        let cached: u64 = caches(topology, nodes[at]);
        let bytes = (BEYOND_CACHES * cached).max(LEAST);
        if available_bytes().is_some_and(|available| available / 2 < bytes) {
            found.notes.push(format!(
                "{}: not measured: it takes {} MiB, twice what its caches hold, and half of what is available is less",
                name(at),
                bytes >> 20
            ));
            continue;
        }
        let node = topology.nodes[nodes[at]].os_index.filter(|_| nodes.len() > 1);
        let pages = match Pages::new(bytes, node) {
            Ok(pages) => pages,
            Err(error) => {
                // A cpuset may leave a node's PUs and not its memory.
                found.notes.push(format!(
                    "{}: not measured: {} MiB of it cannot be had: {error}",
                    name(at),
                    bytes >> 20
                ));
                continue;
            }
        };
        let mut read = |by: String, pus: &[u32]| {
            let bandwidth = rate(pages.words(), Shares::Apart, pus, time, busy)?;
            Ok::<_, Error>(Reading { of: name(at), by, threads: pus.len(), bandwidth })
        };
        let own = if nodes.len() > 1 { "its own PUs".to_owned() } else { "all PUs".to_owned() };
        found.add(read("one PU".to_owned(), &pus(at)[..1])?, |speeds| &mut speeds.task);
        found.add(read(own, &pus(at))?, |speeds| &mut speeds.node);
        for other in others(at, nodes.len()) {
            found.add(read(format!("those of {}", name(other)), &pus(other))?, |speeds| &mut speeds.remote);
        }
    }
    if let Some(cache) = shared_cache(topology) {
        let bytes = (topology.nodes[cache].size_bytes / 2).min(MOST_CACHED);
        let pages = Pages::new(bytes, None).map_err(|error| Error::new(format!("{bytes} bytes of memory: {error}")))?;
        let pus = os_indices(topology, cache);
        let bandwidth = rate(pages.words(), Shares::Together, &pus, time, busy)?;
        let of = format!("an {}", topology.nodes[cache].level);
        let reading = Reading { of, by: "all PUs below it".to_owned(), threads: pus.len(), bandwidth };
        found.add(reading, |speeds| &mut speeds.cache);
    }
    Ok(found)
}

/// The nodes with memory of their own; where the topology has none, its root.
fn numa_nodes(topology: &Topology) -> Vec<NodeId> {
    let found: Vec<NodeId> =
        topology.nodes_at(Level::Numa).filter(|&node| !topology.nodes[node].pus.is_empty()).collect();
    if found.is_empty() { vec![0] } else { found }
}

/// Whose PUs read a node's memory beside its own: those of the next node, and of the one half way round.
fn others(at: usize, count: usize) -> Vec<usize> {
    let mut found = vec![(at + 1) % count, (at + count / 2) % count];
    found.sort_unstable();
    found.dedup();
    found.retain(|&other| other != at);
    found
}

fn os_indices(topology: &Topology, node: NodeId) -> Vec<u32> {
    topology.pus[topology.nodes[node].pus.clone()].iter().map(|pu| pu.os_index).collect()
}

/// Bytes that the caches next to memory hold, below a node.
fn caches(topology: &Topology, node: NodeId) -> u64 {
    let is_within = |cache: NodeId| {
        let (inner, outer) = (&topology.nodes[cache].pus, &topology.nodes[node].pus);
        inner.start < outer.end && outer.start < inner.end
    };
    let of_level = |level: Level| {
        topology.nodes_at(level).filter(|&cache| is_within(cache)).map(|cache| topology.nodes[cache].size_bytes).sum()
    };
    [Level::L5, Level::L4, Level::L3, Level::L2, Level::L1].into_iter().map(of_level).max().unwrap_or(0)
}

/// The first of the caches next to memory that several cores share, if its size is known.
fn shared_cache(topology: &Topology) -> Option<NodeId> {
    let levels = [Level::L5, Level::L4, Level::L3, Level::L2];
    let first = levels.into_iter().find_map(|level| topology.nodes_at(level).next())?;
    let cores = topology.below(first).filter(|&node| topology.nodes[node].level == Level::Core).count();
    (cores > 1 && topology.nodes[first].size_bytes > 0).then_some(first)
}

/// Who reads what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shares {
    /// Each thread a part of its own.
    Apart,
    /// Each thread all of it, beginning elsewhere.
    Together,
}

/// Bytes/s that threads on these PUs read of the words, all at once.
fn rate(words: &[u64], shares: Shares, pus: &[u32], time: Duration, busy: &mut Busy) -> Result<f64> {
    let mut begin = vec![0; pus.len()];
    let mut runs = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let found = run(words, shares, pus, &mut begin, time).map_err(|error| {
            Error::new(format!("cannot measure memory from PU {}: {error}", pus[0]))
                .remedy("see 'cohabit topology' for the PUs that may be used")
        })?;
        runs.push(found);
    }
    runs.sort_by(|a, b| b.0.total_cmp(&a.0));
    busy.add(Disturbance { lost: runs[0].1, spread: runs[0].0 / runs[REPEATS - 1].0 });
    Ok(runs[0].0)
}

/// Bytes/s of all threads together, and of the time the part in which the thread that ran least did not run. `begin` is
/// where each thread goes on: what it has read is in a cache still.
fn run(words: &[u64], shares: Shares, pus: &[u32], begin: &mut [usize], time: Duration) -> io::Result<(f64, f64)> {
    let (start, is_over) = (Barrier::new(pus.len() + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (&pu, at)) in pus.iter().zip(&mut *begin).enumerate() {
            let part = words.len() / pus.len();
            let own = match shares {
                Shares::Apart => &words[number * part..(number + 1) * part],
                Shares::Together => words,
            };
            let (start, is_over, from) = (&start, &is_over, *at);
            let first = if shares == Shares::Together { number * part } else { 0 };
            let thread = std::thread::Builder::new().name("cohabit-measure".to_owned());
            let spawned = thread.spawn_scoped(scope, move || {
                // Whoever cannot be pinned takes part all the same: the others wait for it.
                let pinned = CpuMask::single(pu).apply(0);
                let mut at = if from == 0 { first } else { from };
                if shares == Shares::Together {
                    std::hint::black_box(sum(own));
                }
                start.wait();
                let (began, ran, mut read) = (Instant::now(), cpu_seconds(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    let chunk = &own[at..own.len().min(at + CHUNK)];
                    std::hint::black_box(sum(chunk));
                    read += size_of_val(chunk);
                    at = if at + CHUNK >= own.len() { 0 } else { at + CHUNK };
                }
                let (took, ran) = (began.elapsed().as_secs_f64(), cpu_seconds() - ran);
                pinned.map(|()| (read as f64 / took, (1.0 - ran / took).clamp(0.0, 1.0), at))
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Those that wait at the barrier are let go by whoever is missing there.
                    is_over.store(true, Ordering::Relaxed);
                    (threads.len()..=pus.len()).for_each(|_| {
                        scope.spawn(|| start.wait());
                    });
                    return Err(error);
                }
            }
        }
        start.wait();
        std::thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread broke down"))));
        let ends = ends.collect::<io::Result<Vec<(f64, f64, usize)>>>()?;
        begin.iter_mut().zip(&ends).for_each(|(begin, end)| *begin = end.2);
        Ok((ends.iter().map(|end| end.0).sum(), ends.iter().map(|end| end.1).fold(0.0, f64::max)))
    })
}

/// Several sums at once, so that no addition waits for the one before.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 16];
    for chunk in words.chunks_exact(16) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_next_to_memory_are_counted_whole() {
        let shape = |text: &str, level: Level, size_bytes: u64| {
            let mut topology = Topology::load(text).unwrap();
            topology.nodes.iter_mut().filter(|node| node.level == level).for_each(|node| node.size_bytes = size_bytes);
            let nodes = numa_nodes(&topology);
            (
                nodes.len(),
                nodes.iter().map(|&node| caches(&topology, node)).collect::<Vec<_>>(),
                shared_cache(&topology),
            )
        };
        let (count, bytes, shared) = shape("pack:2 [numa] l3:2 l2:4 core:1 pu:2", Level::L3, 8 << 20);
        assert_eq!((count, bytes, shared.is_some()), (2, vec![16 << 20; 2], true));
        assert_eq!(shape("core:4 pu:1", Level::L3, 1), (1, vec![0], None));
        // Of unknown size it cannot be filled.
        assert_eq!(shape("l3:1 core:4 pu:1", Level::L2, 1).2, None);
        // An L3 for each core is nobody's to share.
        assert_eq!(shape("l3:2 core:1 pu:2", Level::L3, 8 << 20).2, None);
    }

    #[test]
    fn each_nodes_memory_is_read_from_the_next_and_from_far() {
        assert_eq!([others(0, 1), others(0, 2), others(1, 2)], [vec![], vec![1], vec![0]]);
        assert_eq!([others(0, 4), others(3, 4), others(2, 3)], [vec![1, 2], vec![0, 1], vec![0]]);
    }

    /// Figures depend on the machine and the moment; that all is read, and in turns, does not.
    #[test]
    fn threads_read_their_parts_in_turns() {
        let live = Topology::load("live").unwrap().allowed_only().unwrap();
        let pus: Vec<u32> = live.pus.iter().map(|pu| pu.os_index).take(2).collect();
        let words = vec![1_u64; 3 * CHUNK + 16];
        let mut begin = vec![0; pus.len()];
        for shares in [Shares::Apart, Shares::Together] {
            let (rate, lost) = run(&words, shares, &pus, &mut begin, Duration::from_millis(1)).unwrap();
            assert!(rate > 0.0 && rate.is_finite() && (0.0..=1.0).contains(&lost));
            assert!(begin.iter().all(|&at| at < words.len()));
        }
        assert_eq!(sum(&words), words.len() as u64);
    }
}
