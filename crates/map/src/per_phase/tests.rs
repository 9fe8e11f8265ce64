use super::*;
use crate::testing::tree;
use crate::{mapper, objective};
use cohabit_model::Topology;
use cohabit_model::cost::MOVE;

/// Pairs of eight tasks that exchange `messages` each, task t with `partner(t)`.
fn pairs(number: u64, messages: u64, partner: impl Fn(u32) -> u32) -> Period {
    let messages = Matrix::from_triplets(8, (0..8).map(|task| (task, partner(task), messages)));
    let bytes = messages.clone();
    Period { number, spans: std::iter::once(number..number + 1).collect(), messages, bytes }
}

fn near_pairs(number: u64, messages: u64) -> Period {
    pairs(number, messages, |task| task ^ 1)
}

fn far_pairs(number: u64, messages: u64) -> Period {
    pairs(number, messages, |task| (task + 4) % 8)
}

fn topology() -> Topology {
    tree(&[4, 2], &[100, 1])
}

fn found(periods: &[Period], order: &[usize], objective_name: &str) -> PerPhase {
    found_but(periods, order, objective_name, &vec![false; periods.len()])
}

fn found_but(periods: &[Period], order: &[usize], objective_name: &str, indifferent: &[bool]) -> PerPhase {
    let topology = topology();
    let weight = Matrix::from_triplets(8, periods.iter().flat_map(|period| period.messages.iter().collect::<Vec<_>>()));
    let options = Options { steps: Some(50), ..Options::default() };
    let problem = Problem { weight: &weight, load: &[], periods, topology: &topology, options: &options };
    let case = Case { problem: &problem, network: None, memory: &[] };
    let asked = (mapper("best").unwrap(), objective(objective_name).unwrap());
    let single = map_for(&case, asked.0, asked.1).unwrap();
    let found = per_phase(&case, asked, Weight::Messages, Sequence { order, indifferent }, &single).unwrap();
    // What is said of it is what it is, and never above the one mapping's.
    assert!(found.phase_s + found.move_s <= found.single_s * (1.0 + 1e-9), "{found:?}");
    assert!(found.free_s <= found.phase_s && found.placements[0] == single, "{found:?}");
    let sums = [&found.of_phase, &vec![0; periods.len()]]
        .map(|choice| -> f64 { found.takes_s.iter().zip(choice).map(|(takes, &placement)| takes[placement]).sum() });
    assert!((sums[0] - found.phase_s).abs() < 1e-9 && (sums[1] - found.single_s).abs() < 1e-9, "{found:?}");
    assert!((0..found.placements.len()).all(|at| found.moves_s[at][at] == 0.0), "{found:?}");
    for (period, &mapping) in periods.iter().zip(&found.of_phase) {
        let problem = Problem { weight: &period.messages, ..problem };
        crate::contract::judge_placement("best", &problem, &found.placements[mapping]);
    }
    found
}

#[test]
fn phases_that_differ_and_last_have_mappings_of_their_own() {
    // A message over the longest distance is 100 ns: near pairs all away from each other take 8 x 1,000,000 x 100 ns.
    for (order, changes) in [(vec![0, 1], 1), (vec![0, 1, 0, 1, 0], 4)] {
        let found = found(&[near_pairs(0, 1_000_000), far_pairs(1, 1_000_000)], &order, "distance");
        assert_ne!(found.of_phase[0], found.of_phase[1]);
        assert_eq!(found.changes, changes + u64::from(found.of_phase[0] != 0));
        assert!((found.phase_s - 2.0 * 8.0 * 1e6 * 1e-9).abs() < 1e-9, "{found:?}");
        assert!((found.move_s - found.moves as f64 * MOVE.as_secs_f64()).abs() < 1e-9);
        assert_eq!(found.placements.len(), 2);
    }
}

/// 4 ms are saved by moves at 500 us: once it is worth that, and not a hundred times.
#[test]
fn what_does_not_pay_for_its_moves_is_not_done() {
    let periods = [near_pairs(0, 1_000_000), far_pairs(1, 10_000)];
    let once = found(&periods, &[0, 1], "distance");
    assert!(!once.is_single(), "{once:?}");
    let often: Vec<usize> = (0..200).map(|at| at % 2).collect();
    let often = found(&periods, &often, "distance");
    assert!(often.is_single() && often.moves == 0 && often.free_s < often.single_s, "{often:?}");
}

#[test]
fn phases_that_are_alike_have_the_one_mapping() {
    for name in ["distance", "congestion"] {
        let found = found(&[near_pairs(3, 500_000), near_pairs(5, 2_000_000)], &[0, 1, 0], name);
        assert!(found.is_single() && found.placements.len() == 1, "{found:?}");
        assert_eq!((found.changes, found.moves, found.phase_s), (0, 0, found.single_s));
    }
}

#[test]
fn congestion_changes_too_and_time_is_refused() {
    let found = found(&[near_pairs(0, 10_000_000), far_pairs(1, 10_000_000)], &[0, 1], "congestion");
    assert!(!found.is_single() && found.phase_s + found.move_s < found.single_s, "{found:?}");
    let (topology, options, weight) = (topology(), Options::default(), Matrix::zero(8));
    let periods = [near_pairs(0, 1)];
    let problem = Problem { weight: &weight, load: &[], periods: &periods, topology: &topology, options: &options };
    let case = Case { problem: &problem, network: None, memory: &[] };
    let asked = (mapper("best").unwrap(), objective("time").unwrap());
    let one = Sequence { order: &[0], indifferent: &[false] };
    let error = per_phase(&case, asked, Weight::Messages, one, &[0; 8]).unwrap_err();
    assert!(error.cause.contains("one mapping") && error.remedy.is_some());
    let many = vec![near_pairs(0, 1); MOST_PHASES + 1];
    let case = Case { problem: &Problem { periods: &many, ..problem }, ..case };
    let asked = (asked.0, objective("distance").unwrap());
    assert!(per_phase(&case, asked, Weight::Messages, one, &[0; 8]).unwrap_err().cause.contains("65 phases"));
}

#[test]
fn nobody_moves_for_phases_that_nothing_serves() {
    let periods = [near_pairs(0, 1_000_000), far_pairs(1, 1_000_000)];
    for indifferent in [[true, true], [false, true]] {
        let found = found_but(&periods, &[0, 1, 0], "distance", &indifferent);
        assert_eq!(
            (found.of_phase[1], found.changes),
            (found.of_phase[0], u64::from(found.of_phase[0] != 0)),
            "{found:?}"
        );
        assert!(!indifferent[0] || found.is_single());
    }
}
