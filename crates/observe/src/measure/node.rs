//! A node: messages between PUs that part at each level of its tree, and the latency between every two PUs.

use super::exchange::measure;
use super::memory::{Memory, measure_memory};
use super::{Busy, Options, SHARED, Series, Way};
use cohabit_model::topology::cluster::{ClusterFile, HostTable, MemoryTable, Names, PlaceTable};
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Error, Result, Topology};
use std::cell::Cell;
use std::time::Duration;

/// PUs of the largest matrix of latencies: some 32,000 pairs.
const MOST_PUS: usize = 256;
/// Pairs at once, at most.
const MOST_PAIRS: usize = 64;
/// Bytes of the messages in the matrix: a cache line.
const LINE_BYTES: u64 = 64;

/// What was found on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// By the level whose places the PUs are in: one way, both ways, and several pairs at once where there are several.
    pub levels: Vec<AtLevel>,
    /// OS indices of the PUs of the matrix.
    pub pus: Vec<u32>,
    /// Seconds of a cache line one way between two PUs, row by row; 0 on the diagonal. Empty for too many PUs.
    pub latency_s: Vec<f64>,
    /// How fast memory is read.
    pub memory: Memory,
    /// Whether other work disturbed the measurement.
    pub busy: Busy,
}

/// Messages between neighbouring places of a level, which are the children of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct AtLevel {
    /// What the places are.
    pub level: Level,
    /// One pair, one way.
    pub one_way: Series,
    /// One pair, both ways.
    pub both_ways: Series,
    /// As many pairs as the two places have PUs, both ways.
    pub several: Option<Series>,
    /// The place they are in: what all messages between them go through.
    pub through: Level,
    /// As many pairs as all places have PUs, both ways, where those are more.
    pub all: Option<Series>,
}

/// What a latency of the matrix takes, a message length of a series, and memory, in shares of the whole, about.
const OF_LATENCY: usize = 1;
const OF_LENGTH: usize = 4;
const OF_MEMORY: usize = 16;

/// Measures the machine this runs on, between the PUs that may be used. `told` is called with how much is done, and of
/// how much.
///
/// # Errors
/// Fewer than two PUs, or one that threads may not run on.
pub fn measure_node(live: &Topology, options: &Options, told: &dyn Fn(usize, usize)) -> Result<Node> {
    let topology = live.allowed_only()?;
    if topology.pus.len() < 2 {
        return Err(Error::new("there is only one PU to use, and messages need two").remedy("widen the affinity mask"));
    }
    let (mut levels, mut busy): (Vec<AtLevel>, _) = (Vec::new(), Busy::begin());
    let pus: Vec<u32> = topology.pus.iter().map(|pu| pu.os_index).collect();
    let has_matrix = pus.len() <= MOST_PUS;
    let partings = partings(&topology);
    let series: usize = partings.iter().map(|&(node, _)| series_of(&topology, node)).sum();
    let of_matrix = if has_matrix { OF_LATENCY * pus.len() * (pus.len() - 1) / 2 } else { 0 };
    let (all, so_far) = (OF_LENGTH * options.lengths.len() * series + of_matrix + OF_MEMORY, Cell::new(0));
    let done = |part: usize| {
        so_far.set(so_far.get() + part);
        told(so_far.get(), all);
    };
    for (node, level) in partings {
        levels.push(at_level(&topology, node, level, options, &mut busy, &done)?);
    }
    let latency_s = if has_matrix { matrix(&pus, options.time / 4, &mut busy, &done)? } else { Vec::new() };
    let memory = measure_memory(&topology, options.time, &mut busy)?;
    done(OF_MEMORY);
    busy.end();
    Ok(Node { levels, pus, latency_s, memory, busy })
}

/// The first node that branches into places of each level, from the root down, with that level.
pub(super) fn partings(topology: &Topology) -> Vec<(NodeId, Level)> {
    let branching = (0..topology.nodes.len()).filter(|&node| topology.nodes[node].children.len() > 1);
    let mut found: Vec<(NodeId, Level)> = Vec::new();
    for node in branching {
        let level = topology.nodes[topology.nodes[node].children[0]].level;
        if found.iter().all(|(_, known)| *known != level) {
            found.push((node, level));
        }
    }
    found
}

/// All pairs of neighbouring places, and those of the first two.
fn pairs_of(topology: &Topology, node: NodeId) -> [Vec<(u32, u32)>; 2] {
    let places = &topology.nodes[node].children;
    [pairs_across(topology, places), pairs_across(topology, &places[..2])]
}

/// How many series are measured at a level.
fn series_of(topology: &Topology, node: NodeId) -> usize {
    let [all, pairs] = pairs_of(topology, node);
    2 + usize::from(pairs.len() > 1) + usize::from(all.len() > pairs.len())
}

fn at_level(
    topology: &Topology,
    node: NodeId,
    level: Level,
    options: &Options,
    busy: &mut Busy,
    done: &dyn Fn(usize),
) -> Result<AtLevel> {
    let [all, pairs] = pairs_of(topology, node);
    let between = format!("{level}s");
    let mut series = |between: &str, pairs: &[(u32, u32)], way| {
        let point = |&length: &u64| {
            let point = figure(pairs, length, way, options.time, busy);
            done(OF_LENGTH);
            point
        };
        let points = options.lengths.iter().map(point).collect::<Result<_>>()?;
        Ok::<_, Error>(Series { between: between.to_owned(), way, pairs: pairs.len(), points })
    };
    let several = (pairs.len() > 1).then(|| series(&between, &pairs, Way::BothWays));
    let all = (all.len() > pairs.len()).then(|| series(&format!("all {between}"), &all, Way::BothWays));
    Ok(AtLevel {
        level,
        one_way: series(&between, &pairs[..1], Way::OneWay)?,
        both_ways: series(&between, &pairs[..1], Way::BothWays)?,
        several: several.transpose()?,
        through: topology.nodes[node].level,
        all: all.transpose()?,
    })
}

/// PUs of neighbouring places, each with one of the other: the first place with the second, the third with the fourth.
fn pairs_across(topology: &Topology, places: &[NodeId]) -> Vec<(u32, u32)> {
    let pus = |place: NodeId| topology.pus[topology.nodes[place].pus.clone()].iter().map(|pu| pu.os_index);
    let pairs = places.chunks_exact(2).flat_map(|two| pus(two[0]).zip(pus(two[1])));
    pairs.take(MOST_PAIRS).collect()
}

fn figure(pairs: &[(u32, u32)], length: u64, way: Way, time: Duration, busy: &mut Busy) -> Result<super::Point> {
    measure(pairs, length, way, time, busy).map_err(|error| {
        Error::new(format!("cannot measure between PUs {} and {}: {error}", pairs[0].0, pairs[0].1))
            .remedy("see 'cohabit topology' for the PUs that may be used")
    })
}

fn matrix(pus: &[u32], time: Duration, busy: &mut Busy, done: &dyn Fn(usize)) -> Result<Vec<f64>> {
    let count = pus.len();
    let mut latency_s = vec![0.0; count * count];
    for a in 0..count {
        for b in a + 1..count {
            let seconds = figure(&[(pus[a], pus[b])], LINE_BYTES, Way::OneWay, time, busy)?.slowest();
            (latency_s[a * count + b], latency_s[b * count + a]) = (seconds, seconds);
            done(OF_LATENCY);
        }
    }
    Ok(latency_s)
}

impl Node {
    /// A cluster file of this one host.
    pub fn cluster(&self, name: &str, live: &Topology) -> ClusterFile {
        let mut host = HostTable { names: Some(Names::one(name)), topology: live.text.clone(), max_bandwidth: None };
        let port =
            |at: &AtLevel| Some(at.one_way.port(None, Some(at.level.key()?), at.several.as_ref(), Series::highest));
        let mut place = Vec::new();
        for (through, rate) in self.levels.iter().filter_map(|at| Some((at.through, at.bound()?))) {
            match through.key() {
                Some(key) => place.push(PlaceTable::measured(key, rate)),
                None => host.limit(rate),
            }
        }
        let ports = self.levels.iter().filter_map(port).collect();
        let memory = match self.memory.speeds.all().iter().any(Option::is_some) {
            true => vec![MemoryTable::measured(&self.memory.speeds)],
            false => Vec::new(),
        };
        ClusterFile { place, memory, ..ClusterFile::new(vec![host], Vec::new(), ports) }
    }
}

impl AtLevel {
    /// Bytes/s through the place that they are in, in all, where it bounds what all its pairs get at once: each message
    /// of either direction goes through it once.
    fn bound(&self) -> Option<f64> {
        let together = self.all.as_ref().or(self.several.as_ref())?;
        let alone = self.both_ways.highest() * together.pairs as f64;
        (together.highest() < SHARED * alone).then(|| 2.0 * together.highest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_that_branches_is_measured_once() {
        let shape = |text: &str| {
            let topology = Topology::load(text).unwrap();
            partings(&topology).into_iter().map(|(_, level)| level).collect::<Vec<_>>()
        };
        assert_eq!(shape("pack:2 l3:2 core:4 pu:2"), [Level::Package, Level::L3, Level::Core, Level::Pu]);
        assert_eq!(shape("pack:1 l3:1 core:4 pu:1"), [Level::Core]);
        assert_eq!(shape("pu:1"), []);
    }

    #[test]
    fn all_places_are_paired_with_a_neighbour() {
        let pairs = |text: &str| {
            let topology = Topology::load(text).unwrap();
            let (node, _) = partings(&topology)[0];
            pairs_across(&topology, &topology.nodes[node].children)
        };
        assert_eq!(pairs("pack:4 core:2 pu:1"), [(0, 2), (1, 3), (4, 6), (5, 7)]);
        assert_eq!(pairs("pack:3 core:2 pu:1"), [(0, 2), (1, 3)]);
        assert_eq!(pairs("pack:2 core:200 pu:1").len(), MOST_PAIRS);
    }

    /// Eight cores below an L3: alone a pair gets 10 GB/s each way; what all four get says whether the cache bounds
    /// them.
    #[test]
    fn what_all_pairs_lose_bounds_the_place_they_are_in() {
        let series = |pairs: usize, rate: f64| {
            let points = vec![super::super::Point { length: 1000, seconds: vec![1000.0 / rate; pairs] }];
            Series { between: String::new(), way: Way::BothWays, pairs, points }
        };
        let node = |text: &str, all: f64| {
            let topology = Topology::load(text).unwrap();
            let (node, level) = partings(&topology)[0];
            let through = topology.nodes[node].level;
            let all = Some(series(4, all));
            let at =
                AtLevel { level, one_way: series(1, 10e9), both_ways: series(1, 10e9), several: None, through, all };
            let node = Node {
                levels: vec![at],
                pus: Vec::new(),
                latency_s: Vec::new(),
                memory: Memory::default(),
                busy: Busy::default(),
            };
            (node.cluster("here", &topology), through)
        };
        let bounds = |file: &ClusterFile, through: Level| {
            let topology = Topology::parse_text(&file.to_toml()).unwrap();
            let hct = topology.hct().unwrap();
            topology.nodes_at(through).map(|node| hct.max_bandwidth(node)).collect::<Vec<_>>()
        };
        let (file, through) = node("l3:1 core:8 pu:1", 5e9);
        assert_eq!((bounds(&file, through), file.place.len()), (vec![Some(40e9)], 1));
        let (file, through) = node("core:8 pu:1", 5e9);
        assert_eq!((bounds(&file, through), file.place.len()), (vec![Some(40e9)], 0));
        let (file, through) = node("l3:1 core:8 pu:1", 9e9);
        assert_eq!(bounds(&file, through), [None]);
    }

    /// Figures depend on the machine and the moment; that there are some, and that they are times, does not.
    #[test]
    fn this_machine_is_measured_and_its_file_reads_back() {
        let live = Topology::load("live").unwrap();
        if live.allowed().len() < 2 {
            println!("skipped: there is only one PU to use");
            return;
        }
        let affinity = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let options = Options { lengths: vec![64, 4096], time: Duration::from_micros(100) };
        let parts = std::cell::RefCell::new(Vec::new());
        let node = measure_node(&live, &options, &|done, all| parts.borrow_mut().push((done, all))).unwrap();
        let (done, all) = *parts.borrow().last().unwrap();
        assert_eq!(done, all, "what is said to be there to do is done in the end");
        assert_eq!(nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap(), affinity);
        assert!(!node.levels.is_empty());
        for at in &node.levels {
            let all = [Some(&at.one_way), Some(&at.both_ways), at.several.as_ref(), at.all.as_ref()];
            for series in all.into_iter().flatten() {
                assert_eq!(series.points.iter().map(|point| point.length).collect::<Vec<_>>(), options.lengths);
                let positive = |point: &super::super::Point| {
                    point.seconds.len() == series.pairs && point.seconds.iter().all(|&s| s > 0.0 && s.is_finite())
                };
                assert!(series.points.iter().all(positive), "{series:?}");
            }
        }
        let count = node.pus.len();
        let is_plausible = |at: usize| (node.latency_s[at] > 0.0) != (at / count == at % count);
        assert!(node.latency_s.len() == count * count && (0..count * count).all(is_plausible));
        let memory = &node.memory;
        assert!(memory.readings.iter().all(|one| one.bandwidth > 0.0 && one.bandwidth.is_finite() && one.threads > 0));
        assert!(memory.readings.len() >= 2 || !memory.notes.is_empty(), "{memory:?}");
        let text = node.cluster("here", &live).to_toml();
        let topology = Topology::parse_text(&text).unwrap();
        assert_eq!(topology.pus.len(), live.pus.len());
        let hct = topology.hct().unwrap();
        let close = |(a, b): (Option<f64>, Option<f64>)| a.zip(b).map_or(a == b, |(a, b)| (a / b - 1.0).abs() < 1e-3);
        assert!(hct.memory(topology.pus[0].node).all().into_iter().zip(memory.speeds.all()).all(close));
        let limited = topology.nodes.iter().enumerate().skip(1).filter(|(id, _)| hct.port(*id).out.at(64.0).is_some());
        assert!(limited.count() >= 2);
    }
}
