//! Where there is time for one division of a sparse problem and no more: the division is then METIS's. One of our own would be as
//! good on average, but for a given problem either may be better by a tenth and more, and with the time of METIS nobody should
//! get less than METIS's (benches/mapping.md).

use super::clock::Clock;
use super::prepare::Prepared;
use crate::Problem;
use crate::graph::Graph;
use crate::slots::Slots;

/// Slots from so many to so many: fewer, and dense problems, are divided by tabu search, which is soon better; with more, a division
/// of our own is better.
const FEW: usize = 65;
const MANY: usize = 1_100;
/// What METIS takes for a task, and for each other that it talks with, in nanoseconds, about, and what all before it takes for a
/// task, on one machine; and the greatest difference, in tenths, that is made for a slower one.
const TASK: u128 = 3_000;
const ARC: u128 = 240;
const BEFORE: u128 = 800;
const SLOWEST: u128 = 16;
/// Times as much time, in tenths, that is not much more.
const HURRY: u128 = 20;
/// The same from so many slots on, where a division of our own is better on average, and wanted if there is time for it.
const SEVERAL: usize = 301;
const HURRY_OF_SEVERAL: u128 = 13;

/// METIS's mapping, where that is all there is time for.
#[cfg(feature = "metis")]
pub fn partitioned(
    problem: &Problem,
    slots: &Slots,
    prepared: &Prepared,
    graph: &Graph,
    clock: &Clock,
) -> Option<Vec<usize>> {
    let levels = prepared.levels.as_ref()?;
    let arcs: usize = (0..slots.tasks()).map(|task| prepared.net.row(task).len()).sum();
    let elapsed = problem.options.budget.map_or(0, |budget| budget.as_nanos().saturating_sub(clock.left()));
    let slowness = (10 * elapsed / (BEFORE * slots.len() as u128)).clamp(10, SLOWEST);
    let time = (TASK * slots.len() as u128 + ARC * arcs as u128) * slowness / 10;
    let suits = (FEW..=MANY).contains(&slots.len()) && arcs < super::evolve::DENSE.others * slots.tasks();
    let hurry = if slots.len() < SEVERAL { HURRY } else { HURRY_OF_SEVERAL };
    let hurries = suits && !clock.counts() && clock.left() * 10 < hurry * time;
    hurries.then(|| crate::mappers::metis::partitioned(problem, slots, graph, levels).ok()).flatten()
}

/// The same without the library.
#[cfg(not(feature = "metis"))]
pub fn partitioned(_: &Problem, _: &Slots, _: &Prepared, _: &Graph, _: &Clock) -> Option<Vec<usize>> {
    None
}

#[cfg(all(test, feature = "metis"))]
mod tests {
    use super::super::testing::talking;
    use super::*;
    use crate::options::TimeSource;
    use crate::random::Random;
    use crate::testing::tree;
    use crate::{Options, mapper};
    use cohabit_model::cost::distance_cost;
    use std::cell::Cell;
    use std::time::Duration;

    /// Whether METIS's mapping is taken.
    fn hurries(tasks: usize, pairs: usize, options: &Options) -> bool {
        let (weight, topology) = (talking(tasks, pairs, &mut Random::new(1)), tree(&[tasks / 16, 2, 8], &[100, 10, 1]));
        let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options };
        let (slots, graph) = (Slots::new(&problem).unwrap(), Graph::new(&weight));
        let prepared = Prepared::new(&problem, &slots, &graph).unwrap();
        partitioned(&problem, &slots, &prepared, &graph, &Clock::new(options, 500)).is_some()
    }

    #[test]
    fn metis_is_for_those_in_a_hurry() {
        let stands = Some(TimeSource(|| Duration::ZERO));
        let within =
            |ms| Options { budget: Some(Duration::from_millis(ms)), time_source: stands, ..Options::default() };
        assert!(hurries(256, 700, &within(1)));
        assert!(!hurries(256, 700, &within(10)));
        // By steps the same mapping is found on a machine of any speed.
        assert!(!hurries(256, 700, &Options { steps: Some(1), ..Options::default() }));
        // Other mappings are better.
        assert!(!hurries(256, 5000, &within(1)) && !hurries(64, 200, &within(1)) && !hurries(2048, 6000, &within(1)));
        // With more tasks it has to be a greater hurry.
        assert!(hurries(512, 1400, &within(2)) && !hurries(512, 1400, &within(4)) && hurries(256, 700, &within(2)));
    }

    #[test]
    fn on_a_slow_machine_one_is_sooner_in_a_hurry() {
        thread_local!(static READ: Cell<bool> = const { Cell::new(false) });
        // It stands until it is read, and then 0.7 ms later.
        let jumps = Some(TimeSource(|| Duration::from_micros(if READ.replace(true) { 700 } else { 0 })));
        let options = Options { budget: Some(Duration::from_millis(4)), time_source: jumps, ..Options::default() };
        assert!(hurries(512, 1400, &options));
        // All of it is as slow as the machine is taken to be at most.
        READ.set(false);
        assert!(!hurries(512, 1400, &Options { budget: Some(Duration::from_millis(7)), ..options }));
    }

    #[test]
    fn nobody_in_a_hurry_gets_less_than_metis_would_give() {
        let topology = tree(&[8, 2, 16], &[100, 10, 1]);
        let options = Options { budget: Some(Duration::from_micros(500)), ..Options::default() };
        for seed in 0..5 {
            let weight = talking(256, 700, &mut Random::new(seed));
            let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
            let cost = |name| distance_cost(&weight, &topology, &mapper(name).unwrap().map(&problem).unwrap());
            assert!(cost("best") <= cost("metis"), "{seed}");
        }
    }
}
