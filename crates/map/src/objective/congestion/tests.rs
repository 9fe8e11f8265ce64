//! Reductions to other objectives by construction, the loads against their definition, and the search against all placements.

use super::loads::Loads;
use super::resources::{Resources, Speeds};
use super::*;
use crate::objective::map_for;
use crate::testing::{periods_of, problem, slow_cost, tree};
use cohabit_model::hct::{Direction, Port};
use cohabit_model::pattern::Messages;
use cohabit_model::topology::Level;
use cohabit_model::{Hct, Matrix, Pattern, Period, Topology};
use cohabit_network::estimate;
use proptest::prelude::*;
use std::collections::BTreeMap;

const NEVER: f64 = f64::INFINITY;

fn period(number: u64, bytes: Matrix) -> Period {
    Period { number, spans: std::iter::once(number..number + 1).collect(), messages: bytes.clone(), bytes }
}

fn cost(topology: &Topology, speeds: &Speeds, periods: &[Period], placement: &[usize]) -> f64 {
    let nodes: Vec<usize> = placement.iter().map(|&pu| topology.pus[pu].node).collect();
    let weight = Matrix::zero(placement.len());
    Loads::new(Resources::new(topology, None, speeds), speeds, &weight, periods, &nodes).cost()
}

/// NUMA nodes with a shared cache each.
fn machine(nodes: usize, cores: usize) -> Topology {
    Topology::load(&format!("numa:{nodes} l3:1 core:{cores} pu:1")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Where each message is a part of its own, a part takes as long as the slowest thing on the way: with a cache of 1/10 and
    /// links of 1/100 bytes/s that is J of distances 10 and 100.
    #[test]
    fn one_by_one_it_is_the_distance_cost(
        rows in prop::collection::vec((0_u32..6, 0_u32..6, 1_u64..50), 1..12),
        placement in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let topology = machine(2, 3);
        let mut plain = tree(&[2, 3], &[100, 10]);
        plain.pus.iter_mut().for_each(|pu| pu.capacity = 1.0);
        let speeds = Speeds { port: NEVER, link: 0.01, controller: NEVER, cache: 0.1 };
        let own = |(number, &row): (usize, &(u32, u32, u64))| period(number as u64, Matrix::from_triplets(6, [row]));
        let periods: Vec<Period> = rows.iter().enumerate().map(own).collect();
        let all = Matrix::from_triplets(6, rows);
        let expected = slow_cost(&all, &plain, &placement) as f64;
        let found = cost(&topology, &speeds, &periods, &placement);
        prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} {expected}");
    }

    /// Where tasks' ports are all there is, it is the IBM report's estimate of a switch with a port a task.
    #[test]
    fn of_ports_alone_it_is_the_estimate(rows in prop::collection::vec((0_usize..6, 0_usize..6, 1_u64..50), 1..20)) {
        let mut hct = Hct::new(None).unwrap();
        let elements: Vec<usize> =
            (0..6).map(|_| hct.add_processing(0, Port::flat(7.0).unwrap()).unwrap()).collect();
        let mut sums: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        rows.iter().filter(|row| row.0 != row.1).for_each(|row| *sums.entry((row.0, row.1)).or_default() += row.2);
        let messages = sums.iter().map(|(&(source, destination), &bytes)| Messages {
            source,
            destination,
            length: bytes as f64,
            count: 1,
        });
        let pattern = Pattern { tasks: 6, messages: messages.collect(), ..Pattern::default() };
        let expected = estimate(&hct, &pattern, &elements).unwrap().seconds;
        let bytes = Matrix::from_triplets(6, sums.iter().map(|(&(a, b), &bytes)| (a as u32, b as u32, bytes)));
        let speeds = Speeds { port: 7.0, link: NEVER, controller: NEVER, cache: NEVER };
        let found = cost(&machine(2, 3), &speeds, &[period(0, bytes)], &[0, 1, 2, 3, 4, 5]);
        prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} {expected}");
    }

    /// Loads that are kept up to date are those of the placement, by the definition.
    #[test]
    fn loads_are_those_of_the_definition(
        entries in prop::collection::vec((0_u32..8, 0_u32..8, 1_u64..90), 1..30),
        placement in prop::collection::vec(0_usize..8, 8),
        moves in prop::collection::vec((0_usize..8, 0_usize..8), 0..12),
    ) {
        let topology = machine(4, 2);
        let speeds = Speeds { port: 30.0, link: 3.0, controller: 5.0, cache: 20.0 };
        let periods = periods_of(&Matrix::from_triplets(8, entries));
        let nodes: Vec<usize> = placement.iter().map(|&pu| topology.pus[pu].node).collect();
        let resources = Resources::new(&topology, None, &speeds);
        let mut loads = Loads::new(resources, &speeds, &Matrix::zero(8), &periods, &nodes);
        let mut now = placement;
        for (task, pu) in moves {
            now[task] = pu;
            loads.place(&[(task, topology.pus[pu].node)]);
        }
        let expected = slowly(&topology, &speeds, &periods, &now);
        prop_assert!((loads.cost() - expected).abs() <= 1e-9 * expected.max(1.0), "{} {expected}", loads.cost());
    }
}

/// Every part by itself, every resource a name in a map.
fn slowly(topology: &Topology, speeds: &Speeds, periods: &[Period], placement: &[usize]) -> f64 {
    let numa = |task: usize| topology.ancestor(placement[task], Level::Numa).unwrap();
    let part = |period: &Period| {
        let mut seconds: BTreeMap<(&str, usize), f64> = BTreeMap::new();
        for (a, b, bytes) in period.bytes.iter().filter(|&(a, b, _)| a != b) {
            let (a, b, bytes) = (a as usize, b as usize, bytes as f64);
            let mut add = |name, number, speed: f64| *seconds.entry((name, number)).or_default() += bytes / speed;
            add("out of task", a, speeds.port);
            add("into task", b, speeds.port);
            match (placement[a] == placement[b], numa(a) == numa(b)) {
                (true, _) => {}
                (_, true) => add("cache", numa(a), speeds.cache),
                (_, false) => {
                    add("memory", numa(a), speeds.controller);
                    add("out", numa(a), speeds.link);
                    add("in", numa(b), speeds.link);
                    add("cache", numa(b), speeds.cache);
                }
            }
        }
        seconds.into_values().fold(0.0, f64::max)
    };
    periods.iter().map(part).sum()
}

#[test]
fn of_concurrent_pairs_on_one_node_and_on_two_it_takes_two() {
    let topology = machine(2, 4);
    let speeds = Speeds { port: NEVER, ..Speeds::default() };
    let at_once = [period(0, Matrix::from_triplets(4, [(0, 1, 100), (2, 3, 100)]))];
    let (packed, spread) = ([0, 1, 2, 3], [0, 1, 4, 5]);
    assert!(cost(&topology, &speeds, &at_once, &spread) < cost(&topology, &speeds, &at_once, &packed));
    // One after the other it is the same to them.
    let in_turn = [(0, 1, 100), (2, 3, 100)].map(|row| period(u64::from(row.0), Matrix::from_triplets(4, [row])));
    assert_eq!(cost(&topology, &speeds, &in_turn, &spread), cost(&topology, &speeds, &in_turn, &packed));
    // And it is what Algorithm 1 does.
    let (weight, options) = (at_once[0].bytes.clone(), Options::default());
    let problem = Problem { periods: &at_once, ..problem(&weight, &topology, &options) };
    assert_eq!(mapper("deloc").unwrap().map(&problem).unwrap(), spread);
    let case = Case { problem: &problem, network: None };
    let found = map_for(&case, mapper("best").unwrap(), &Congestion).unwrap();
    let node = |task: usize| found[task] / 4;
    assert!(node(0) == node(1) && node(2) == node(3) && node(0) != node(2), "{found:?}");
}

#[test]
fn the_search_finds_the_least_of_all_placements() {
    let topology = machine(2, 3);
    let mut random = Random::new(4);
    for seed in 0..6 {
        let entries = (0..12).map(|_| (random.below(6) as u32, random.below(6) as u32, 1 + random.below(40) as u64));
        let weight = Matrix::from_triplets(6, entries.collect::<Vec<_>>());
        let periods = periods_of(&weight);
        let options = Options { seed, ..Options::default() };
        let problem = Problem { periods: &periods, ..problem(&weight, &topology, &options) };
        let case = Case { problem: &problem, network: None };
        let found = map_for(&case, mapper("best").unwrap(), &Congestion).unwrap();
        let cost = |placement: &[usize]| Congestion.cost(&case, placement).unwrap();
        assert_eq!(found, map_for(&case, mapper("best").unwrap(), &Congestion).unwrap(), "same seed, same mapping");
        let mut least = f64::INFINITY;
        permutations(&mut vec![0, 1, 2, 3, 4, 5], 0, &mut |placement| least = least.min(cost(placement)));
        assert!(cost(&found) <= least * (1.0 + 2.0 * SAME), "{} {least}", cost(&found));
        assert!(Congestion.bound(&case).unwrap().unwrap() <= least * (1.0 + 1e-9));
    }
}

fn permutations(items: &mut Vec<usize>, from: usize, visit: &mut impl FnMut(&[usize])) {
    if from == items.len() {
        return visit(items);
    }
    for other in from..items.len() {
        items.swap(from, other);
        permutations(items, from + 1, visit);
        items.swap(from, other);
    }
}

#[test]
fn resources_are_those_of_the_machine() {
    let topology = machine(2, 2);
    let resources = Resources::new(&topology, None, &Speeds::default());
    let count = |is: fn(&Resource) -> bool| resources.all.iter().filter(|one| is(&one.0)).count();
    assert_eq!(count(|one| matches!(one, Resource::Controller(_))), 2);
    assert_eq!(count(|one| matches!(one, Resource::Cache(_))), 2);
    assert_eq!(count(|one| matches!(one, Resource::Link(_, Direction::In))), 2);
    assert_eq!(resources.kinds.len(), 3);
}
