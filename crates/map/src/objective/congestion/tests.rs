//! Reductions to other objectives by construction, the loads against their definition, and the search against all
//! placements.

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

/// Bytes of a message: a line, as caches move it.
const LINE: u64 = 64;

/// A part of the run in which each pair exchanges so many messages, of a line each.
fn period(number: u64, messages: Matrix) -> Period {
    let rows = messages.iter().map(|(a, b, count)| (a, b, count * LINE)).collect::<Vec<_>>();
    let bytes = Matrix::from_triplets(messages.tasks(), rows);
    Period { number, spans: std::iter::once(number..number + 1).collect(), messages, bytes }
}

fn loads<'a>(topology: &'a Topology, speeds: &Speeds, periods: &[Period], own: Own, placement: &[usize]) -> Loads<'a> {
    let nodes: Vec<usize> = placement.iter().map(|&pu| topology.pus[pu].node).collect();
    let weight = Matrix::zero(placement.len());
    Loads::new(topology, Resources::new(topology, None, speeds), speeds, &weight, periods, own, &nodes)
}

fn cost(topology: &Topology, speeds: &Speeds, periods: &[Period], placement: &[usize]) -> f64 {
    loads(topology, speeds, periods, Own::default(), placement).cost()
}

/// NUMA nodes with a shared cache each.
fn machine(nodes: usize, cores: usize) -> Topology {
    Topology::load(&format!("numa:{nodes} l3:1 core:{cores} pu:1")).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Where each message is a part of its own, a part takes as long as the slowest thing on the way: with a cache of
    /// 1/10 and links of 1/100 lines/s that is J of distances 10 and 100.
    #[test]
    fn one_by_one_it_is_the_distance_cost(
        rows in prop::collection::vec((0_u32..6, 0_u32..6, 1_u64..50), 1..12),
        placement in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let topology = machine(2, 3);
        let plain = tree(&[2, 3], &[100, 10]);
        let speeds = Speeds { link: 0.01 * LINE as f64, cache: 0.1 * LINE as f64, ..Speeds::NONE };
        let own = |(number, &row): (usize, &(u32, u32, u64))| period(number as u64, Matrix::from_triplets(6, [row]));
        let periods: Vec<Period> = rows.iter().enumerate().map(own).collect();
        let all = Matrix::from_triplets(6, rows);
        let expected = slow_cost(&all, &plain, &placement) as f64;
        let found = cost(&topology, &speeds, &periods, &placement);
        prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} {expected}");
    }

    /// Where no bandwidth limits, what a task waits for a message is the distance that it comes: one by one J of the
    /// topology's own distances.
    #[test]
    fn one_by_one_waiting_is_the_distance_cost(
        rows in prop::collection::vec((0_u32..6, 0_u32..6, 1_u64..50), 1..12),
        placement in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let topology = Topology::load("numa:2 l3:1 core:3 pu:2").unwrap();
        let numa = topology.nodes.iter().find(|node| node.level == Level::Numa).unwrap().cost;
        let speeds = Speeds { task: (LINE / numa) as f64, ..Speeds::NONE };
        let own = |(number, &row): (usize, &(u32, u32, u64))| period(number as u64, Matrix::from_triplets(6, [row]));
        let periods: Vec<Period> = rows.iter().enumerate().map(own).collect();
        let all = Matrix::from_triplets(6, rows);
        let expected = slow_cost(&all, &topology, &placement[..6]) as f64 * LINE as f64 / speeds.task / numa as f64;
        let loads = loads(&topology, &speeds, &periods, Own::default(), &placement[..6]);
        prop_assert!((loads.cost() - expected).abs() <= 1e-9 * expected.max(1.0), "{} {expected}", loads.cost());
        prop_assert!((loads.waiting() - expected).abs() <= 1e-9 * expected.max(1.0));
    }

    /// Where tasks' ports are all there is, it is the IBM report's estimate of a switch with a port a task.
    #[test]
    fn of_ports_alone_it_is_the_estimate(rows in prop::collection::vec((0_usize..6, 0_usize..6, 1_u64..50), 1..20)) {
        let mut hct = Hct::new(None).unwrap();
        let elements: Vec<usize> =
            (0..6).map(|_| hct.add_processing(0, Port::flat(7.0).unwrap()).unwrap()).collect();
        let mut sums: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        rows.iter().filter(|row| row.0 != row.1).for_each(|row| *sums.entry((row.0, row.1)).or_default() += row.2);
        let messages = sums.iter().map(|(&(source, destination), &count)| Messages {
            source,
            destination,
            length: (count * LINE) as f64,
            count: 1,
        });
        let pattern = Pattern { tasks: 6, messages: messages.collect(), ..Pattern::default() };
        let expected = estimate(&hct, &pattern, &elements).unwrap().seconds;
        let messages = Matrix::from_triplets(6, sums.iter().map(|(&(a, b), &count)| (a as u32, b as u32, count)));
        let speeds = Speeds { port: 7.0, ..Speeds::NONE };
        let found = cost(&machine(2, 3), &speeds, &[period(0, messages)], &[0, 1, 2, 3, 4, 5]);
        prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} {expected}");
    }

    /// Loads that are kept up to date are those of the placement, by the definition.
    #[test]
    fn loads_are_those_of_the_definition(
        entries in prop::collection::vec((0_u32..8, 0_u32..8, 1_u64..90), 1..30),
        placement in prop::collection::vec(0_usize..16, 8),
        moves in prop::collection::vec(((0_usize..8, 0_usize..16), (0_usize..8, 0_usize..16)), 0..12),
        accessed in prop::collection::vec(0_u64..9000, 8),
        memory in prop::collection::vec(0_u64..9000, 8),
    ) {
        let topology = Topology::load("numa:4 l3:1 core:2 pu:2").unwrap();
        let speeds = Speeds { task: 40.0, port: 30.0, link: 3.0, controller: 5.0, cache: 20.0 };
        let periods: Vec<Period> =
            periods_of(&Matrix::from_triplets(8, entries)).into_iter().map(|one| period(one.number, one.messages)).collect();
        let own = Own { accessed: &accessed, memory: &memory };
        let mut loads = loads(&topology, &speeds, &periods, own, &placement);
        let mut now = placement;
        for (one, other) in moves {
            let moves: Vec<(usize, usize)> = if one.0 == other.0 { vec![one] } else { vec![one, other] };
            moves.iter().for_each(|&(task, pu)| now[task] = pu);
            loads.place(&moves.iter().map(|&(task, pu)| (task, topology.pus[pu].node)).collect::<Vec<_>>());
        }
        let expected = slowly(&topology, &speeds, &periods, own, &now);
        prop_assert!((loads.cost() - expected).abs() <= 1e-9 * expected.max(1.0), "{} {expected}", loads.cost());
        let again = self::loads(&topology, &speeds, &periods, own, &now);
        prop_assert_eq!(loads.waiting(), again.waiting());
        loads.refresh();
        prop_assert!((loads.full() - again.full()).abs() <= 1e-9 * again.full());
        prop_assert!(loads.floor() <= loads.cost() * (1.0 + 1e-9));
    }
}

/// Every part by itself, every resource a name in a map.
fn slowly(topology: &Topology, speeds: &Speeds, periods: &[Period], own: Own, placement: &[usize]) -> f64 {
    let numa = |task: usize| topology.ancestor(placement[task], Level::Numa).unwrap();
    let core = |task: usize| topology.ancestor(placement[task], Level::Core).unwrap();
    let share = 1.0 / periods.len() as f64;
    let work = |task: usize| share * own.accessed[task].max(own.memory[task]) as f64 / speeds.task;
    let part = |period: &Period| {
        let mut seconds: BTreeMap<(&str, usize), f64> = BTreeMap::new();
        for task in 0..placement.len() {
            let mut add = |name, number, value: f64| *seconds.entry((name, number)).or_default() += value;
            add("task", task, (0..placement.len()).map(work).sum::<f64>() / placement.len() as f64);
            add("memory", numa(task), share * own.memory[task] as f64 / speeds.controller);
            for other in (0..placement.len()).filter(|&other| other != task && core(other) == core(task)) {
                let both = work(task).min(work(other));
                add("task", task, both * if placement[other] == placement[task] { 1.0 } else { 0.6 });
            }
        }
        for (a, b, bytes) in period.bytes.iter().filter(|&(a, b, _)| a != b) {
            let (a, b, bytes) = (a as usize, b as usize, bytes as f64);
            let mut add = |name, number, speed: f64| *seconds.entry((name, number)).or_default() += bytes / speed;
            add("out of task", a, speeds.port);
            add("into task", b, speeds.port);
            let far = topology.distance(placement[a], placement[b]) as f64 / topology.nodes[numa(b)].cost as f64;
            add("task", b, speeds.task / far);
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
    // Where caches are what limits.
    let speeds = Speeds { cache: 1e9, ..Speeds::default() };
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
    let case = Case { problem: &problem, network: None, memory: &[] };
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
        let case = Case { problem: &problem, network: None, memory: &[] };
        let found = map_for(&case, mapper("best").unwrap(), &Congestion).unwrap();
        let cost = |placement: &[usize]| Congestion.cost(&case, placement).unwrap();
        assert_eq!(found, map_for(&case, mapper("best").unwrap(), &Congestion).unwrap(), "same seed, same mapping");
        let mut least = f64::INFINITY;
        permutations(&mut vec![0, 1, 2, 3, 4, 5], 0, &mut |placement| least = least.min(cost(placement)));
        assert!(cost(&found) <= least * (1.0 + GUESS) * (1.0 + SAME), "{} {least}", cost(&found));
        // And where it is not the least, it is nearer than that.
        let mut near = f64::INFINITY;
        permutations(&mut vec![0, 1, 2, 3, 4, 5], 0, &mut |placement| {
            if cost(placement) <= least * (1.0 + 1e-9) {
                near = near.min(state(&case, placement).waiting());
            }
        });
        assert!(
            cost(&found) <= least * (1.0 + 2.0 * SAME) || state(&case, &found).waiting() <= near * (1.0 + 2.0 * SAME)
        );
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
