//! The mapping whose communication is estimated to be over first: a makespan over ports and switches (IBM report,
//! section 5 and docs/estimator.md), where J is a sum over pairs.
//!
//! It starts from mappings that are good otherwise ([`least`] is given them) and moves tasks that the last port or
//! switch waits for ([`search`]), with what every port carries kept up to date ([`loads`]). What is returned is judged
//! by the plain estimator, and among those that take next to as long by how full all ports are: never slower than any
//! of the starts by more than that. Where the order of messages is known, which the loads of ports say nothing of, the
//! best are made better by following the messages (`cohabit_network::replay`, and for want of a trace `queues`), which
//! takes a thousand times as long a mapping.

mod judge;
pub(crate) mod loads;
pub(crate) mod routes;
pub(crate) mod search;

#[cfg(test)]
mod tests;

use crate::load::settled;
use crate::mappers::best::clock::Clock;
use crate::partial_mapping::PartialMapping;
use crate::random::Random;
use crate::slots::Slots;
use crate::stay::moves;
use crate::{Options, Problem, mapper};
use cohabit_model::Hct;
use cohabit_model::cost::distance_cost;
use cohabit_model::{Result, Topology};
use cohabit_network::estimator::SAME;
use cohabit_network::run::total;
use cohabit_network::{Replay, Total, Traffic, queues};
use judge::Judge;
use loads::Loads;
use routes::Routes;
use search::Search;
use std::collections::HashSet;

/// How long messages take: what a mapping is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Time<'a> {
    /// Ports and switches; element k is node k of the problem's topology ([`Topology::hct`]).
    pub hct: &'a Hct,
    /// What is sent.
    pub traffic: &'a Traffic,
}

impl Time<'_> {
    /// What the run is estimated to take.
    ///
    /// # Errors
    /// See [`total`].
    pub fn total(&self, topology: &Topology, placement: &[usize]) -> Result<Total> {
        let elements: Vec<usize> = placement.iter().map(|&pu| topology.pus[pu].node).collect();
        total(self.hct, self.traffic, &elements)
    }

    /// Whether the order of messages is known, so that the estimate follows them.
    pub(crate) fn knows_order(&self) -> bool {
        self.work() > 0.0
    }

    /// How many pieces of messages that takes following; 0 where their order is not known.
    fn work(&self) -> f64 {
        self.traffic.replay.as_ref().map_or_else(|| queues::work(&self.traffic.phases), Replay::work)
    }
}

/// A PU for every task, so that the estimated time is small: at most that of `packed`, of `scatter`, and of `best`,
/// whose search for a small J comes first, and [`SAME`] of it.
///
/// # Errors
/// As `best` and [`total`].
pub fn least(problem: &Problem, time: &Time) -> Result<Vec<usize>> {
    // Half the time for the starts, half for what follows.
    let options = Options { budget: problem.options.budget.map(|budget| budget / 2), ..problem.options.clone() };
    let problem = &Problem { options: &options, ..*problem };
    let slots = Slots::new(problem)?;
    let starts = starts(problem)?;
    let mut clock = Clock::new(&options, 500 + 4 * slots.len() as u64);
    let mut candidates = starts.clone();
    let mut judge = Judge::new(problem, time);
    if slots.tasks() > 1 {
        let routes = Routes::new(time.hct);
        let random = Random::new(problem.options.seed);
        let judged = starts.iter().map(|start| Ok((judge.total(start)?.seconds, start)));
        let mut judged = judged.collect::<Result<Vec<_>>>()?;
        judged.sort_by(|a, b| a.0.total_cmp(&b.0));
        judged.dedup_by(|a, b| a.1 == b.1);
        // One share is for following messages.
        let count = judged.len() + usize::from(judge.follows());
        for (number, (_, start)) in judged.into_iter().enumerate() {
            let Some(slot_of) = slots_of(&slots, start) else { continue };
            let loads = Loads::new(&routes, &time.traffic.phases, &elements(problem, &slots, &slot_of));
            let mut search = Search::new(problem, &slots, loads, slot_of, random.fork(number as u64));
            let mut clock = clock.share(number, count);
            let found = search.run(&mut clock.most(4));
            candidates.push(settled(problem, &slots, &found)?);
            candidates.push(settled(problem, &slots, &search.thin(&found, &mut clock))?);
        }
    }
    if slots.tasks() > 1 {
        candidates.extend(followed(problem, time, &slots, &candidates, &mut judge, &mut clock)?);
    } else {
        // There is nothing to wait for.
        starts.iter().try_for_each(|start| judge.total(start).map(drop))?;
    }
    let mut near = judge.priced(&candidates)?;
    // Of those that take as long, those with which all ports are least full; of these the one with the smallest J, and
    // then the one that moves fewest tasks.
    keep_least(&mut near, |total| total.seconds);
    keep_least(&mut near, |total| total.norm_s);
    let rest = |placement: &[usize]| {
        let distance = distance_cost(problem.weight, problem.topology, placement);
        (distance, moves(&problem.options.present, placement))
    };
    let best = near.into_iter().min_by(|a, b| rest(&a.1).cmp(&rest(&b.1)).then(a.0.seconds.total_cmp(&b.0.seconds)));
    Ok(best.map(|best| best.1).unwrap_or_default())
}

/// So many of the nearest placements are searched further by following messages.
const STARTS: usize = 3;

/// A mapping in which messages wait for others less than in the best of these, where the order of messages is known.
fn followed(
    problem: &Problem,
    time: &Time,
    slots: &Slots,
    candidates: &[Vec<usize>],
    judge: &mut Judge,
    clock: &mut Clock,
) -> Result<Option<Vec<usize>>> {
    if !judge.follows() {
        return Ok(None);
    }
    let mut priced = judge.priced(candidates)?;
    priced.sort_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
    // A search by single changes ends where no change of one task helps, so the nearest ones begin it, each with its
    // share.
    let mut seen = HashSet::new();
    priced.retain(|(_, placement)| seen.insert(placement.clone()));
    let starts: Vec<Vec<usize>> =
        priced.iter().filter_map(|(_, placement)| slots_of(slots, placement)).take(STARTS).collect();
    let routes = Routes::new(time.hct);
    let mut best: Option<(f64, Vec<usize>)> = None;
    for (number, start) in starts.iter().enumerate() {
        let loads = Loads::new(&routes, &time.traffic.phases, &elements(problem, slots, start));
        let random = Random::new(problem.options.seed).fork((priced.len() + number) as u64);
        let mut search = Search::new(problem, slots, loads, start.clone(), random);
        let trials = judge.affords() / (starts.len() - number);
        let mut clock = clock.share(number, starts.len());
        let mut seconds = |slot_of: &[usize]| Ok(judge.total(&slots.pus_of(slot_of))?.seconds);
        let found = search.judged(start, trials, &mut clock, &mut seconds)?;
        let found_s = seconds(&found)?;
        if best.as_ref().is_none_or(|best| found_s < best.0) {
            best = Some((found_s, found));
        }
    }
    let Some((_, found)) = best else { return Ok(None) };
    let found = settled(problem, slots, &found)?;
    // What a balance of loads has changed is not known yet.
    judge.total(&found)?;
    Ok(Some(found))
}

/// Keeps what is the same as the least.
fn keep_least(placements: &mut Vec<(Total, Vec<usize>)>, of: impl Fn(&Total) -> f64) {
    let least = placements.iter().map(|placement| of(&placement.0)).fold(f64::INFINITY, f64::min);
    placements.retain(|placement| of(&placement.0) <= least * (1.0 + SAME));
}

/// Mappings that are good or usual. The greedy mapper of the report refuses large machines.
fn starts(problem: &Problem) -> Result<Vec<Vec<usize>>> {
    let mut starts = Vec::new();
    for name in ["best", "packed", "scatter"] {
        starts.push(mapper(name)?.map(problem)?);
    }
    starts.extend(mapper("hct-greedy")?.map(problem).ok());
    Ok(starts)
}

/// The element that each task is on.
pub(crate) fn elements(problem: &Problem, slots: &Slots, slot_of: &[usize]) -> Vec<usize> {
    slot_of.iter().map(|&slot| problem.topology.pus[slots.pu[slot]].node).collect()
}

/// Slots that amount to a placement; none where it is no choice of slots (one that a balance of loads has changed).
pub(crate) fn slots_of(slots: &Slots, placement: &[usize]) -> Option<Vec<usize>> {
    let mut partial = PartialMapping::new(slots);
    for task in partial.waiting() {
        let slot = partial.first_of(slots.of_pus(&(placement[task]..placement[task] + 1)))?;
        partial.take(slot, task);
    }
    Some(partial.finish())
}
