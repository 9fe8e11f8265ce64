//! The fast twin against the plain estimator, the search against brute force, and the contract.

use super::*;
use cohabit_model::Matrix;
use cohabit_model::Pattern;
use cohabit_model::pattern::Messages;
use cohabit_model::profile::{Kind, Meta, Profile};
use cohabit_model::trace::{Does, Message, Operation, Trace};
use cohabit_network::Phase;
use proptest::prelude::*;

/// Hosts of two cores on two subnets, with ports that depend on the message's length, latency and a limited switch.
fn cluster(hosts: usize) -> Topology {
    let half = hosts / 2;
    let text = format!(
        "[[host]]\nnames = 'n[1-{hosts}]'\ntopology = 'core:2 pu:1'\nmax_bandwidth = 900
[[switch]]\nname = 'a'\nmembers = 'n[1-{half}]'\nmax_bandwidth = 350
[[switch]]\nname = 'b'\nmembers = 'n[{}-{hosts}]'
[[switch]]\nname = 'top'\nmembers = ['a', 'b']
[[port]]\nbandwidth = {{ 1 = 20, 100 = 100 }}\nlatency_ns = 1e7\nmax_bandwidth = 150
[[port]]\nof = ['a', 'b']\nbandwidth = 100
[[port]]\nlevel = 'pu'\nout = 1000\nin = 800\n",
        half + 1
    );
    Topology::parse_text(&text).unwrap()
}

/// Source, destination, length, count.
type Row = (usize, usize, u32, u64);

fn pattern(tasks: usize, rows: &[Row]) -> Pattern {
    let messages =
        rows.iter().filter(|row| row.0 < tasks && row.1 < tasks).map(|&(source, destination, length, count)| {
            Messages { source, destination, length: f64::from(length), count }
        });
    Pattern { tasks, messages: messages.collect(), ..Pattern::default() }
}

fn bytes(pattern: &Pattern) -> Matrix {
    let entries = pattern.messages.iter().map(|m| (m.source as u32, m.destination as u32, m.length as u64 * m.count));
    Matrix::from_triplets(pattern.tasks, entries)
}

fn rows(tasks: usize, most: usize) -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0..tasks, 0..tasks, 1..2000u32, 1..20u64), 0..most)
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.max(1e-9), "{found} for {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_is_kept_up_to_date_is_what_the_estimator_says(
        first in rows(10, 30),
        second in rows(10, 30),
        placed in prop::collection::vec(0..12usize, 10),
        moves in prop::collection::vec((0..10usize, 0..10usize, 0..12usize), 1..20),
    ) {
        let topology = cluster(6);
        let hct = topology.hct().unwrap();
        let phases = [Phase::new(1.0, pattern(10, &first)), Phase::new(2.5, pattern(10, &second))];
        let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
        let mut placement = placed;
        let element = |pu: usize| topology.pus[pu].node;
        let routes = Routes::new(&hct);
        let elements: Vec<usize> = placement.iter().map(|&pu| element(pu)).collect();
        let mut loads = Loads::new(&routes, &phases, &elements);
        assert_near(loads.seconds(), time.total(&topology, &placement).unwrap().seconds);
        for (a, b, pu) in moves {
            if a == b {
                placement[a] = pu;
                loads.place(&[(a, element(pu))]);
            } else {
                placement.swap(a, b);
                loads.place(&[(a, element(placement[a])), (b, element(placement[b]))]);
            }
            assert_near(loads.seconds(), time.total(&topology, &placement).unwrap().seconds);
        }
        // Rounding on the way may leave the fourth root of next to nothing.
        let (norm, before) = (time.total(&topology, &placement).unwrap().norm_s, loads.norm());
        let largest = 2.5 * first.iter().chain(&second).map(|row| f64::from(row.2) * row.3 as f64).sum::<f64>();
        prop_assert!((before - norm).abs() <= 1e-4 * largest, "{} for {}", before, norm);
        loads.refresh();
        assert_near(loads.norm(), norm);
        let (smooth, seconds) = (loads.smooth(), loads.seconds());
        prop_assert!(smooth >= seconds * (1.0 - 1e-9) && smooth <= 1.5 * seconds, "{} for {}", smooth, seconds);
    }

    #[test]
    fn never_slower_than_the_other_mappings_and_by_the_rules(
        rows in rows(14, 40),
        tasks in 1..14usize,
        pin in prop::option::of((0..14usize, 0..8usize)),
        forbidden in prop::collection::vec(0..8usize, 0..2),
        seed in any::<u64>(),
    ) {
        let topology = cluster(4);
        let hct = topology.hct().unwrap();
        let phases = [Phase::new(1.0, pattern(tasks, &rows))];
        let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
        let weight = bytes(&phases[0].pattern);
        let pins: Vec<_> = pin.into_iter().filter(|&(task, pu)| task < tasks && !forbidden.contains(&pu)).collect();
        let options = Options { seed, pins, forbidden, steps: Some(20), ..Options::default() };
        let problem = crate::testing::problem(&weight, &topology, &options);
        let found = least(&problem, &time).unwrap();
        let seconds = time.total(&topology, &found).unwrap().seconds;
        for name in ["best", "packed", "scatter"] {
            let other = mapper(name).unwrap().map(&problem).unwrap();
            prop_assert!(seconds <= (1.0 + SAME) * time.total(&topology, &other).unwrap().seconds, "{}", name);
        }
        prop_assert_eq!(&least(&problem, &time).unwrap(), &found);
        crate::contract::judge_placement("makespan", &problem, &found);
    }
}

proptest! {
    // The same cases every time: a search that is not exhaustive may miss one in many.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(40)
    })]

    #[test]
    fn small_problems_are_solved(rows in rows(6, 16), seed in any::<u64>()) {
        let topology = cluster(4);
        let hct = topology.hct().unwrap();
        let phases = [Phase::new(1.0, pattern(6, &rows))];
        let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
        let weight = bytes(&phases[0].pattern);
        let options = Options { seed, ..Options::default() };
        let found = least(&crate::testing::problem(&weight, &topology, &options), &time).unwrap();
        let mut least_s = f64::INFINITY;
        each_placement(&mut Vec::new(), 6, 8, &mut |placement| {
            least_s = least_s.min(time.total(&topology, placement).unwrap().seconds);
        });
        prop_assert!(time.total(&topology, &found).unwrap().seconds <= least_s * (1.0 + SAME) * (1.0 + 1e-9));
    }
}

/// Calls `see` with every choice of different PUs.
fn each_placement(placement: &mut Vec<usize>, tasks: usize, pus: usize, see: &mut impl FnMut(&[usize])) {
    if placement.len() == tasks {
        return see(placement);
    }
    for pu in (0..pus).filter(|pu| !placement.contains(pu)).collect::<Vec<_>>() {
        placement.push(pu);
        each_placement(placement, tasks, pus, see);
        placement.pop();
    }
}

#[test]
fn time_sees_what_distances_do_not() {
    // Three hosts of one core, the first with a slow port: J takes any two for the pair.
    let text = "[[host]]\nnames = 'n[1-3]'\ntopology = 'core:1 pu:1'\n[[port]]\nof = 'n1'\nbandwidth = 1
[[port]]\nof = 'n[2-3]'\nbandwidth = 10\n";
    let topology = Topology::parse_text(text).unwrap();
    let hct = topology.hct().unwrap();
    let phases = [Phase::new(1.0, pattern(2, &[(0, 1, 100, 1)]))];
    let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
    let (weight, options) = (bytes(&phases[0].pattern), Options::default());
    let problem = crate::testing::problem(&weight, &topology, &options);
    let seconds = |placement: &[usize]| time.total(&topology, placement).unwrap().seconds;
    assert_eq!(seconds(&mapper("best").unwrap().map(&problem).unwrap()), 100.0);
    assert_eq!(seconds(&least(&problem, &time).unwrap()), 10.0);
}

#[test]
fn of_mappings_that_take_as_long_it_is_one_with_less_full_ports() {
    // On four hosts of two cores: the port of task 0's host decides, and waits as long wherever the other three are.
    let topology = cluster(4);
    let hct = topology.hct().unwrap();
    let phases = [Phase::new(
        1.0,
        pattern(6, &[(0, 1, 1000, 9), (0, 2, 1000, 9), (3, 4, 100, 1), (4, 5, 100, 1), (5, 3, 100, 1)]),
    )];
    let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
    let (weight, options) = (bytes(&phases[0].pattern), Options::default());
    let problem = crate::testing::problem(&weight, &topology, &options);
    let found = least(&problem, &time).unwrap();
    let found = time.total(&topology, &found).unwrap();
    let mut least = Total { seconds: f64::INFINITY, norm_s: f64::INFINITY };
    let mut fullest_s: f64 = 0.0;
    each_placement(&mut Vec::new(), 6, 8, &mut |placement| {
        let judged = time.total(&topology, placement).unwrap();
        if judged.seconds < least.seconds * (1.0 - 1e-9) {
            (least, fullest_s) = (judged, judged.norm_s);
        } else if judged.seconds <= least.seconds * (1.0 + 1e-9) {
            least.norm_s = least.norm_s.min(judged.norm_s);
            fullest_s = fullest_s.max(judged.norm_s);
        }
    });
    assert!(fullest_s > least.norm_s * (1.0 + 2.0 * SAME), "all are alike: {fullest_s} {least:?}");
    assert!(found.seconds <= least.seconds * (1.0 + SAME), "{found:?} {least:?}");
    assert!(found.norm_s <= least.norm_s * (1.0 + SAME), "{found:?} {least:?}");
}

#[test]
fn the_phase_that_comes_more_often_decides() {
    // Two hosts of two cores: only one of task 0's partners can be beside it.
    let text = "[[host]]\nnames = 'n[1-2]'\ntopology = 'core:2 pu:1'\n[[port]]\nbandwidth = 10\n";
    let topology = Topology::parse_text(text).unwrap();
    let hct = topology.hct().unwrap();
    for (weights, beside, seconds) in [((3.0, 1.0), 1, 10.0), ((1.0, 3.0), 2, 10.0), ((0.5, 1.0), 2, 5.0)] {
        let phases = [
            Phase::new(weights.0, pattern(4, &[(0, 1, 100, 1)])),
            Phase::new(weights.1, pattern(4, &[(0, 2, 100, 1)])),
        ];
        let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
        let (weight, options) = (Matrix::from_triplets(4, [(0, 1, 100), (0, 2, 100)]), Options::default());
        let found = least(&crate::testing::problem(&weight, &topology, &options), &time).unwrap();
        assert_eq!(found[0] / 2, found[beside] / 2, "{weights:?}: {found:?}");
        assert_eq!(time.total(&topology, &found).unwrap().seconds, seconds);
        let mut least_s = f64::INFINITY;
        each_placement(&mut Vec::new(), 4, 4, &mut |placement| {
            least_s = least_s.min(time.total(&topology, placement).unwrap().seconds);
        });
        assert_eq!(least_s, seconds);
    }
}

#[test]
fn where_nothing_is_sent_there_is_a_mapping_too() {
    let topology = cluster(4);
    let hct = topology.hct().unwrap();
    let options = Options::default();
    for tasks in [0, 1, 3, 20] {
        let weight = Matrix::zero(tasks);
        let problem = crate::testing::problem(&weight, &topology, &options);
        let phases = [Phase::new(1.0, pattern(tasks, &[]))];
        assert_eq!(least(&problem, &Time { hct: &hct, traffic: &phases.to_vec().into() }).unwrap().len(), tasks);
        assert_eq!(least(&problem, &Time { hct: &hct, traffic: &Traffic::default() }).unwrap().len(), tasks);
    }
}

#[test]
fn messages_are_followed_where_their_order_is_known() {
    // All send to all, beginning with task 0: every mapping of 16 tasks on 16 PUs has the same loads but on the trunk.
    let tasks = 16;
    let topology = cluster(8);
    let hct = topology.hct().unwrap();
    let pairs = |source: usize| (0..tasks).filter(move |&other| other != source).map(move |other| (source, other));
    let rows: Vec<Row> = (0..tasks).flat_map(pairs).map(|(source, other)| (source, other, 2000, 1)).collect();
    let order = (0..tasks).flat_map(|_| 0..tasks as u32 - 1).collect();
    let unordered = pattern(tasks, &rows);
    let phases = [Phase::new(1.0, Pattern { order, ..unordered.clone() })];
    let plain = [Phase::new(1.0, unordered)];
    let weight = bytes(&phases[0].pattern);
    let options = Options { steps: Some(800), ..Options::default() };
    let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
    let time = Time { hct: &hct, traffic: &phases.to_vec().into() };
    let seconds = |placement: &[usize]| time.total(&topology, placement).unwrap().seconds;
    let found = least(&problem, &time).unwrap();
    let blind = least(&problem, &Time { hct: &hct, traffic: &plain.to_vec().into() }).unwrap();
    let linear: Vec<usize> = (0..tasks).collect();
    assert!(seconds(&found) < 0.97 * seconds(&linear).min(seconds(&blind)));
    assert_eq!(found, least(&problem, &time).unwrap(), "the same steps, the same mapping");
    let mut places = found.clone();
    places.sort_unstable();
    assert_eq!(places, linear);
}

#[test]
fn who_waits_for_an_answer_comes_near() {
    // Each task sends as much to the one beside it, all at once, as to the one four further on, who answers each
    // message before the next.
    const ROUNDS: u32 = 20;
    let topology = cluster(8);
    let hct = topology.hct().unwrap();
    let mut trace = Trace { messages: Vec::new(), operations: vec![Vec::new(); 8] };
    let mut message = |source: u32, destination: u32| {
        trace.messages.push(Message { source, destination, bytes: 100 });
        trace.messages.len() as u32 - 1
    };
    let mut does = |task: u32, does: Does, message: u32| {
        trace.operations[task as usize].push(Operation { does, message });
    };
    for task in 0..8 {
        (0..ROUNDS).for_each(|_| does(task, Does::Send, message(task, task ^ 1)));
    }
    for task in 0..4 {
        for _ in 0..ROUNDS {
            for (source, destination) in [(task, task + 4), (task + 4, task)] {
                let number = message(source, destination);
                does(destination, Does::Post, number);
                does(source, Does::Send, number);
                does(destination, Does::Wait, number);
            }
        }
    }
    trace.check().unwrap();
    let rows: Vec<Row> =
        trace.messages.iter().map(|sent| (sent.source as usize, sent.destination as usize, 100, 1)).collect();
    let phases = vec![Phase::new(1.0, pattern(8, &rows))];
    let weight = bytes(&phases[0].pattern);
    let profile = Profile {
        trace: Some(trace),
        ..Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), Matrix::zero(8), weight.clone())
    };
    let traffic = Traffic { phases, replay: Replay::of(&profile) };
    let time = Time { hct: &hct, traffic: &traffic };
    let seconds = |placement: &[usize]| time.total(&topology, placement).unwrap().seconds;
    // Whatever the seed: no change of one task helps before all are near.
    for seed in 0..5 {
        let options = Options { steps: Some(2000), seed, ..Options::default() };
        let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
        let found = least(&problem, &time).unwrap();
        assert!((0..4).all(|task| topology.host_of(found[task]) == topology.host_of(found[task + 4])), "{found:?}");
        assert!(seconds(&found) < 0.8 * seconds(&(0..8).collect::<Vec<_>>()));
    }
}

#[test]
fn a_mapping_is_judged_once_and_not_beyond_what_is_allowed() {
    let (topology, weight) = (cluster(4), Matrix::zero(2));
    let hct = topology.hct().unwrap();
    let order = vec![0];
    let phases = vec![Phase::new(1.0, Pattern { order, ..pattern(2, &[(0, 1, 100, 1)]) })];
    let traffic: Traffic = phases.into();
    let time = Time { hct: &hct, traffic: &traffic };
    let options = Options::default();
    let problem = crate::testing::problem(&weight, &topology, &options);
    let mut judge = Judge::new(&problem, &time);
    let most = judge.affords();
    assert!(judge.follows() && most > 2);
    let near = judge.total(&[0, 1]).unwrap();
    assert_eq!((judge.total(&[0, 1]).unwrap(), judge.affords()), (near, most - 1));
    judge.spend(f64::INFINITY);
    // What is known and what has to be known costs nothing and whatever it costs.
    let known = vec![vec![0, 1], vec![0, 2]];
    assert_eq!(judge.priced(&known).unwrap(), [(near, vec![0, 1])]);
    assert!(judge.total(&[0, 2]).unwrap().seconds > near.seconds && judge.priced(&known).unwrap().len() == 2);
    let patient = Options { budget: Some(std::time::Duration::from_secs(1)), ..Options::default() };
    let problem = crate::testing::problem(&weight, &topology, &patient);
    assert_eq!(Judge::new(&problem, &time).affords(), usize::MAX);
}
