//! Congestion: what is exchanged at the same time waits for what it shares. A part of the run lasts as long as its busiest
//! resource ([`Resource`]: a task at its port, a shared cache, a memory controller, a link in one direction) has to do, and the
//! run as long as all its parts together.
//!
//! It is J where every message is a part of its own and tasks are as fast as they like, and the IBM report's estimate where
//! tasks' ports are the only resources. Parts are the problem's periods; without them the whole run is one.

mod loads;
mod resources;
#[cfg(test)]
mod tests;

pub use resources::{Resource, Speeds};

use super::{Case, Objective, State};
use crate::load::settled;
use crate::makespan::search::Search;
use crate::makespan::{elements, seats};
use crate::mappers::best::clock::Clock;
use crate::mappers::deloc::memory_nodes;
use crate::random::Random;
use crate::slots::Slots;
use crate::{Mapper, Options, Problem, mapper};
use cohabit_model::Result;
use cohabit_model::cost::distance_cost;
use cohabit_network::estimator::SAME;
use loads::Loads;
use resources::Resources;

/// The objective `congestion`.
pub struct Congestion;

/// Mappers whose results a search begins from, beside the one asked for.
const STARTS: [&str; 6] = ["packed", "scatter", "balance", "deloc", "complace", "treematch"];

impl Objective for Congestion {
    fn name(&self) -> &'static str {
        "congestion"
    }

    fn about(&self) -> &'static str {
        "the time that the busiest memory, link, cache or task needs, in each part of the run"
    }

    fn unit(&self) -> &'static str {
        "seconds"
    }

    fn asks_for_periods(&self) -> bool {
        true
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

fn state(case: &Case, placement: &[usize]) -> Loads {
    let (problem, hct) = (case.problem, case.network.map(|network| network.hct));
    let speeds = Speeds::default().of_tasks(hct);
    let nodes: Vec<usize> = placement.iter().map(|&pu| problem.topology.pus[pu].node).collect();
    let resources = Resources::new(problem.topology, hct, &speeds);
    Loads::new(resources, &speeds, problem.weight, problem.periods, &nodes)
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

/// The best that is found from the mapper's result and those of [`STARTS`], never worse than any of these.
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
        let Some(slot_of) = seats(&slots, start) else { continue };
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
    // Of those that take as long the one whose resources are least full, and then the one with the smallest J.
    let mut near: Vec<(f64, f64, Vec<usize>)> = candidates
        .into_iter()
        .map(|placement| {
            let loads = state(case, &placement);
            (loads.cost(), loads.norm(), placement)
        })
        .collect();
    for of in [|one: &(f64, f64, Vec<usize>)| one.0, |one: &(f64, f64, Vec<usize>)| one.1] {
        let least = near.iter().map(of).fold(f64::INFINITY, f64::min);
        near.retain(|one| of(one) <= least * (1.0 + SAME));
    }
    let best = near.into_iter().min_by_key(|one| distance_cost(problem.weight, problem.topology, &one.2));
    Ok(best.map(|best| best.2).unwrap_or_default())
}
