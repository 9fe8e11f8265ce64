//! The machine this runs on, measured for a machine file (docs/machines.md): what its cores, caches, TLBs and memory
//! take, so that programs can be simulated on it.

mod caches;
mod chase;
mod core;
mod system;
mod tlb;
mod transfers;

use super::busy::Busy;
use super::memory::{Memory, measure_memory};
use super::node::partings;
use super::pages::{Pages, available_bytes};
pub use caches::Cache;
use chase::{LINE, ROUNDS, lines_of, load_seconds};
use cohabit_host::affinity::CpuMask;
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Error, Result, Topology};
use std::io;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
pub use tlb::Tlbs;

/// Of what lies in memory and in no cache, bytes at least and at most.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=512 << 20;
/// Pairs of NUMA nodes that are measured, at most.
const MOST_NODES: usize = 16;

/// What was found; ns throughout.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Cycles a ns; none where nothing tells.
    pub frequency_ghz: Option<f64>,
    /// The data caches of the first PU, the nearest first, and what a load takes that one of them serves; none where it
    /// cannot be told from the next.
    pub caches: Vec<(Cache, Option<f64>)>,
    /// Instructions begun behind a load that is not there yet; none where nothing tells.
    pub window: Option<u64>,
    /// Lines of a core under way at a time.
    pub fill_buffers: Option<u64>,
    /// TLBs of data; none where none was seen.
    pub tlbs: Option<Tlbs>,
    /// What a load takes of a line that another core has written, by the lowest level that holds both.
    pub transfers_ns: Vec<(Level, f64)>,
    /// What a load takes from memory that is otherwise idle, by the lowest level that holds both PU and memory.
    pub memory_ns: Vec<(Level, f64)>,
    /// How fast memory is read.
    pub memory: Memory,
    /// The first touch of a page of 4 KiB.
    pub fault_ns: f64,
    /// From one task to another on a PU.
    pub switch_ns: f64,
    /// Whether other work disturbed the measurement.
    pub busy: Busy,
}

/// Measures the machine on the PUs that may be used, each figure for `time` at least. `told` is called with how much is
/// done, and of how much.
///
/// # Errors
/// A PU that threads may not run on, memory that cannot be had.
pub fn measure_machine(live: &Topology, time: Duration, told: &(dyn Fn(usize, usize) + Sync)) -> Result<Measured> {
    let topology = live.allowed_only()?;
    let pu = topology.pus[0].os_index;
    let mut measured = on_pu(pu, || of_core(pu, time, told))?;
    for (node, _) in partings(&topology) {
        let Some((writer, reader)) = two_cores(&topology, node) else { continue };
        let mut ns = f64::INFINITY;
        for _ in 0..ROUNDS {
            let seconds = transfers::transfer_seconds(writer, reader, time, &mut measured.busy);
            ns = ns.min(seconds.map_err(|error| cannot(writer, &error))? * 1e9);
        }
        let level = topology.nodes[node].level;
        match measured.transfers_ns.iter_mut().find(|(known, _)| *known == level) {
            Some((_, known)) => *known = known.max(ns),
            None => measured.transfers_ns.push((level, ns)),
        }
    }
    told(PARTS - 3, PARTS);
    measured.memory_ns = memory_ns(&topology, time, &mut measured.busy)?;
    told(PARTS - 2, PARTS);
    measured.memory = measure_memory(&topology, time, &mut measured.busy)?;
    told(PARTS - 1, PARTS);
    measured.fault_ns = system::fault_seconds(&mut measured.busy).map_err(|error| cannot(pu, &error))? * 1e9;
    measured.switch_ns =
        system::switch_seconds(pu, time, &mut measured.busy).map_err(|error| cannot(pu, &error))? * 1e9;
    measured.busy.end();
    told(PARTS, PARTS);
    Ok(measured)
}

/// In how many parts it is told how much is done.
const PARTS: usize = 8;

/// What `run` finds on a PU: a thread of its own is pinned there, so that nobody else's affinity is touched.
fn on_pu<T: Send>(pu: u32, run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            CpuMask::single(pu).apply(0).map_err(|error| cannot(pu, &error))?;
            run()
        });
        thread.join().unwrap_or_else(|_| Err(Error::new("a thread broke down")))
    })
}

/// What a thread ended with.
fn joined<T>(thread: ScopedJoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread broke down")))
}

fn cannot(pu: u32, error: &io::Error) -> Error {
    Error::new(format!("cannot measure on PU {pu}: {error}"))
        .remedy("see 'cohabit topology' for the PUs that may be used")
}

/// What one core does by itself, on the calling thread, which is pinned to it.
fn of_core(pu: u32, time: Duration, told: &dyn Fn(usize, usize)) -> Result<Measured> {
    let mut busy = Busy::begin();
    let failed = |error: io::Error| cannot(pu, &error);
    let frequency_ghz = (0..ROUNDS).filter_map(|_| core::frequency_ghz(time, &mut busy)).reduce(f64::max);
    told(1, PARTS);
    let known = caches::of_pu(pu);
    let mut caches: Vec<(Cache, Option<f64>)> = known.iter().map(|cache| (cache.clone(), None)).collect();
    for _ in 0..ROUNDS {
        for index in 0..caches.len() {
            let inner = index.checked_sub(1).map(|inner| known[inner].size_bytes);
            let Some(bytes) = bytes_within(inner, known[index].size_bytes) else { continue };
            let mut pages = Pages::new(bytes, None).map_err(failed)?;
            let ns = load_seconds(pages.words_mut(), &lines_of(bytes as usize), time, &mut busy) * 1e9;
            let kept = &mut caches[index].1;
            *kept = Some(kept.map_or(ns, |kept| kept.min(ns)));
        }
    }
    told(2, PARTS);
    let (mut window, mut fill_buffers) = (None, None);
    let last = known.last().map_or(0, |cache| cache.size_bytes);
    if let Some(bytes) = beyond_caches(last) {
        let pages = |bytes| Pages::new(bytes, None).map_err(failed);
        let mut memory = core::Memory { pages: pages(bytes)?, others: pages(2 * last)? };
        fill_buffers = Some(core::fill_buffers(&mut memory, time, &mut busy));
        told(3, PARTS);
        window = core::window(&mut memory, time, &mut busy);
    }
    told(4, PARTS);
    let cycle_ns = 1.0 / frequency_ghz.unwrap_or(2.0);
    // Some forty figures, for a part of the time each.
    let tlbs = tlb::measure(time / 4, cycle_ns, &mut busy).map_err(failed)?;
    told(5, PARTS);
    Ok(Measured {
        frequency_ghz,
        caches,
        window,
        fill_buffers,
        tlbs,
        transfers_ns: Vec::new(),
        memory_ns: Vec::new(),
        memory: Memory::default(),
        fault_ns: 0.0,
        switch_ns: 0.0,
        busy,
    })
}

/// Bytes that lie in a cache and are too many for the one before it; none where it is not twice as large.
fn bytes_within(inner: Option<u64>, size: u64) -> Option<u64> {
    let bytes = match inner {
        None => size / 2,
        // Half way on a scale of logarithms: of a cycle through twice as much as it holds a cache serves nothing.
        Some(inner) => ((inner as f64 * size as f64).sqrt() as u64).clamp(2 * inner, (size / 2).max(2 * inner)),
    };
    (bytes <= size && bytes >= 4 * LINE as u64).then_some(bytes / LINE as u64 * LINE as u64)
}

/// Bytes that no cache holds; none where there is not so much memory.
fn beyond_caches(last: u64) -> Option<u64> {
    let bytes = last.saturating_mul(4).clamp(*MEMORY.start(), (*MEMORY.end()).max(2 * last));
    available_bytes().is_none_or(|available| available / 2 >= bytes).then_some(bytes)
}

/// PUs of two cores that part at a node: one of each of its first two places. None where the places are PUs of a core.
fn two_cores(topology: &Topology, node: NodeId) -> Option<(u32, u32)> {
    let places = &topology.nodes[node].children;
    let first = |place: NodeId| topology.nodes[place].pus.start;
    let (a, b) = (first(*places.first()?), first(*places.get(1)?));
    let apart = topology.core_of(a) != topology.core_of(b);
    apart.then(|| (topology.pus[a].os_index, topology.pus[b].os_index))
}

/// What loads take from the first node's memory, on a PU of its own and on one of each other, by the level that holds
/// both; of several the longest.
fn memory_ns(topology: &Topology, time: Duration, busy: &mut Busy) -> Result<Vec<(Level, f64)>> {
    let mut nodes: Vec<NodeId> =
        topology.nodes_at(Level::Numa).filter(|&node| !topology.nodes[node].pus.is_empty()).collect();
    if nodes.is_empty() {
        nodes.push(0);
    }
    let last = caches::of_pu(topology.pus[0].os_index).last().map_or(0, |cache| cache.size_bytes);
    let Some(bytes) = beyond_caches(last) else { return Ok(Vec::new()) };
    let home = nodes[0];
    let os_index = topology.nodes[home].os_index.filter(|_| nodes.len() > 1);
    let mut pages = match Pages::new(bytes, os_index) {
        Ok(pages) => pages,
        // A cpuset may leave a node's PUs and not its memory.
        Err(_) => return Ok(Vec::new()),
    };
    let places = lines_of(bytes as usize);
    let mut found: Vec<(Level, f64)> = Vec::new();
    for &node in nodes.iter().take(MOST_NODES) {
        let (own, there) = (topology.nodes[home].pus.start, topology.nodes[node].pus.start);
        let level = match node == home {
            true => topology.nodes[home].level,
            false => topology.nodes[topology.common(own, there)].level,
        };
        let pu = topology.pus[there].os_index;
        let words = pages.words_mut();
        let least = |_| load_seconds(words, &places, time, busy);
        let seconds = on_pu(pu, || Ok((0..ROUNDS).map(least).fold(f64::INFINITY, f64::min)))?;
        let ns = seconds * 1e9;
        match found.iter_mut().find(|(known, _)| *known == level) {
            Some((_, known)) => *known = known.max(ns),
            None => found.push((level, ns)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_in_a_cache_lies_in_it_and_not_in_the_one_before() {
        assert_eq!(bytes_within(None, 32 << 10), Some(16 << 10));
        assert_eq!(bytes_within(Some(32 << 10), 512 << 10), Some(128 << 10));
        assert_eq!(bytes_within(Some(512 << 10), 32 << 20), Some(4 << 20));
        assert_eq!(bytes_within(Some(32 << 10), 64 << 10), Some(64 << 10));
        assert_eq!(bytes_within(Some(32 << 10), 48 << 10), None, "it cannot be told apart");
        assert!(beyond_caches(32 << 20).is_none_or(|bytes| bytes == 128 << 20));
        assert!(beyond_caches(1 << 30).is_none_or(|bytes| bytes >= 2 << 30));
    }

    /// Figures depend on the machine and the moment; that there are some, and that nobody's affinity changes, does not.
    #[test]
    fn this_machine_is_measured() {
        let live = Topology::load("live").unwrap();
        let affinity = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let parts = std::sync::Mutex::new(Vec::new());
        let told = |done, all| parts.lock().unwrap().push((done, all));
        let found = measure_machine(&live, Duration::from_micros(200), &told).unwrap();
        assert_eq!(nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap(), affinity);
        assert_eq!(parts.lock().unwrap().last(), Some(&(PARTS, PARTS)));
        let times = found.caches.iter().filter_map(|(_, ns)| *ns);
        let times = times.chain(found.transfers_ns.iter().chain(&found.memory_ns).map(|(_, ns)| *ns));
        assert!(times.chain([found.fault_ns]).all(|ns| ns > 0.0 && ns < 1e6), "{found:?}");
        assert!(found.fill_buffers.is_none_or(|buffers| buffers >= 1));
    }
}
