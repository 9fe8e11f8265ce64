//! Congestion: what is exchanged at the same time waits for what it shares. A part of the run lasts as long as the
//! busiest of all has to do: a resource ([`Resource`]: a shared cache, a memory controller, a link in one direction),
//! whose load goes over its bandwidth, or a task, which does its work and waits for what it reads of others, the longer
//! the farther away these are. The run takes as long as all its parts together.
//!
//! So where nothing is near its capacity only nearness counts, of the tasks that the others wait for; where something
//! is saturated, what goes through it counts. What comes from memory loads controllers where that is known
//! ([`Case::memory`]); where it is not, it is taken to be no load. Between placements that take about the same time the
//! nearer one is taken, and between those of the same nearness the one that shares out all accesses more evenly.
//!
//! It is J where every message is a part of its own and no bandwidth limits, and the IBM report's estimate where tasks'
//! ports are the only resources. Parts are the problem's periods; without them the whole run is one.

mod loads;
mod resources;
#[cfg(test)]
mod tests;

pub use resources::{Resource, Speeds};

use super::distance::NEARLY;
use super::{Case, Changing, Objective, State};
use crate::load::settled;
use crate::makespan::search::Search;
use crate::makespan::{elements, slots_of};
use crate::mappers::best::clock::Clock;
use crate::mappers::deloc::memory_nodes;
use crate::random::Random;
use crate::slots::Slots;
use crate::{Mapper, Options, Problem, mapper};
use cohabit_model::{Result, Topology};
use cohabit_network::estimator::SAME;
use loads::{Loads, Own};
use resources::Resources;

/// Differences up to this part of the time are not taken for gains: the estimate is right to a tenth at best, as
/// simulators of whole machines are (docs/simulator.md). So nearness decides among these.
const GUESS: f64 = 0.1;

/// Resources that differ in how full they are by this part are as full.
const AS_FULL: f64 = 0.01;

/// The objective `congestion`.
pub struct Congestion;

/// Mappers whose results a search begins from, beside the one asked for.
const STARTS: [&str; 6] = ["packed", "scatter", "balance", "deloc", "complace", "treematch"];

impl Objective for Congestion {
    fn name(&self) -> &'static str {
        "congestion"
    }

    fn about(&self) -> &'static str {
        "the time that the busiest task, cache, memory or link needs, in each part of the run"
    }

    fn unit(&self) -> &'static str {
        "seconds"
    }

    fn asks_for_periods(&self) -> bool {
        true
    }

    fn changing(&self, _: &Topology, _: f64) -> Option<Changing> {
        Some(Changing { seconds_per_cost: 1.0, adds_up: false })
    }

    fn cost(&self, case: &Case, placement: &[usize]) -> Result<f64> {
        Ok(state(case, placement).cost())
    }

    fn bound(&self, case: &Case) -> Result<Option<f64>> {
        Ok(Some(state(case, &vec![0; case.problem.weight.tasks()]).floor()))
    }

    fn state<'a>(&self, case: &'a Case, placement: &[usize]) -> Result<Box<dyn State + 'a>> {
        Ok(Box::new(state(case, placement)))
    }

    fn least(&self, case: &Case, mapper: &dyn Mapper) -> Result<Vec<usize>> {
        least(case, mapper)
    }
}

fn state<'a>(case: &Case<'a>, placement: &[usize]) -> Loads<'a> {
    let (problem, hct) = (case.problem, case.network.map(|network| network.hct));
    let speeds = Speeds::default().of_tasks(hct);
    let nodes: Vec<usize> = placement.iter().map(|&pu| problem.topology.pus[pu].node).collect();
    let resources = Resources::new(problem.topology, hct, &speeds);
    let own = Own { accessed: problem.load, memory: case.memory };
    Loads::new(problem.topology, resources, &speeds, problem.weight, problem.periods, own, &nodes)
}

/// What is traded: near each other, or apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trade {
    /// The cost.
    pub seconds: f64,
    /// The part of what J counts that goes from one memory node to another.
    pub remote: f64,
    /// The part of it that is read from the busiest memory node.
    pub busiest: f64,
}

/// What a placement trades against what.
pub fn trade(case: &Case, placement: &[usize]) -> Trade {
    let (topology, weight) = (case.problem.topology, case.problem.weight);
    let nodes = memory_nodes(topology);
    let node = |task: u32| nodes.iter().position(|pus| pus.contains(&placement[task as usize]));
    let (mut remote, mut from) = (0.0, vec![0.0; nodes.len()]);
    for (a, b, value) in weight.iter().filter(|&(a, b, _)| a != b) {
        let own = node(a);
        remote += if own == node(b) { 0.0 } else { value as f64 };
        own.into_iter().for_each(|node| from[node] += value as f64);
    }
    let all = from.iter().sum::<f64>().max(1.0);
    let busiest = from.into_iter().fold(0.0, f64::max);
    Trade { seconds: state(case, placement).cost(), remote: remote / all, busiest: busiest / all }
}

/// The best that is found from the mapper's result and those of [`STARTS`]: by [`GUESS`] at most above any of these,
/// and then nearer.
fn least(case: &Case, own: &dyn Mapper) -> Result<Vec<usize>> {
    // Half the time for the starts, half for what follows.
    let problem = case.problem;
    let options = Options { budget: problem.options.budget.map(|budget| budget / 2), ..problem.options.clone() };
    let problem = &Problem { options: &options, ..*problem };
    let case = &Case { problem, ..*case };
    let slots = Slots::new(problem)?;
    let mut starts = vec![own.map(problem)?];
    for name in STARTS {
        // One that refuses (too many PUs, no series) is none.
        starts.extend(mapper(name)?.map(problem).ok());
    }
    if slots.tasks() < 2 {
        return Ok(starts.swap_remove(0));
    }
    let mut judged: Vec<(f64, Vec<usize>)> =
        starts.into_iter().map(|start| (state(case, &start).cost(), start)).collect();
    judged.sort_by(|a, b| a.0.total_cmp(&b.0));
    judged.dedup_by(|a, b| a.1 == b.1);
    let mut clock = Clock::new(&options, 500 + 4 * slots.len() as u64);
    let mut candidates: Vec<Vec<usize>> = judged.iter().map(|judged| judged.1.clone()).collect();
    let random = Random::new(options.seed);
    for (number, (_, start)) in judged.iter().enumerate() {
        let Some(slot_of) = slots_of(&slots, start) else { continue };
        let mut loads = state(case, start);
        for (task, node) in elements(problem, &slots, &slot_of).into_iter().enumerate() {
            loads.place(&[(task, node)]);
        }
        loads.refresh();
        let mut search = Search::new(problem, &slots, loads, slot_of, random.fork(number as u64));
        let mut clock = clock.share(number, judged.len());
        let found = search.run(&mut clock.most(4));
        candidates.push(settled(problem, &slots, &found)?);
        candidates.push(settled(problem, &slots, &search.thin(&found, &mut clock))?);
    }
    // Of those that may well take as long the nearest, of these the one whose resources are least full.
    let mut left: Vec<(Loads, Vec<usize>)> =
        candidates.into_iter().map(|placement| (state(case, &placement), placement)).collect();
    keep_least(&mut left, Loads::cost, GUESS);
    let packed = mapper("packed")?.map(problem)?;
    let packed = left.iter().find(|one| one.1 == packed).map(|one| (one.0.waiting(), one.0.full(), packed));
    keep_least(&mut left, Loads::waiting, SAME);
    let best = left.into_iter().min_by(|a, b| a.0.full().total_cmp(&b.0.full()));
    Ok(match (best, packed) {
        // Differences so small say nothing of time, and tasks of neighbouring numbers often use the same memory.
        (Some((best, _)), Some((waiting, full, packed)))
            if waiting <= best.waiting() * (1.0 + NEARLY) && full <= best.full() * (1.0 + AS_FULL) =>
        {
            packed
        }
        (best, _) => best.map(|best| best.1).unwrap_or_default(),
    })
}

/// Keeps the placements of which something is no more than `slack` (a share) above the least.
fn keep_least<'a>(left: &mut Vec<(Loads<'a>, Vec<usize>)>, of: fn(&Loads<'a>) -> f64, slack: f64) {
    let least = left.iter().map(|one| of(&one.0)).fold(f64::INFINITY, f64::min);
    left.retain(|one| of(&one.0) <= least * (1.0 + slack));
}
