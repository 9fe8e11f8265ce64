//! What the user asked of a mapper.

use std::time::Duration;

/// What the user asked of a mapper.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Seed of whatever is random.
    pub seed: u64,
    /// Tasks that must go to a PU: (task, index into [`Topology::pus`](cohabit_model::Topology::pus)).
    pub pins: Vec<(usize, usize)>,
    /// PUs (indices into `Topology::pus`) that must stay empty, besides those the cpuset forbids.
    pub forbidden: Vec<usize>,
    /// Let two tasks share a core while another core is free.
    pub share_cores: bool,
    /// Wall time for the mappers that get better with time. What they return then depends on the machine's speed.
    pub budget: Option<Duration>,
    /// Steps of the search for the mappers that get better with time: reproducible. With neither this nor `budget`
    /// they take a number of steps that suits the size of the problem.
    pub steps: Option<u64>,
    /// Where the tasks are now (an index into `Topology::pus` a task, none where unknown); empty where they do not run.
    pub present: Vec<Option<usize>>,
    /// What moving one task away from its present PU costs, in units of J.
    pub move_cost: u64,
    /// Threads to search with, where more than one is asked for; 0 is 1.
    pub threads: usize,
    /// What `budget` is measured with; wall time where nothing is said.
    pub time_source: Option<TimeSource>,
}

/// A clock: the time since some moment in the past. Benchmarks on a busy machine measure `budget` in CPU time with one.
#[derive(Debug, Clone, Copy)]
pub struct TimeSource(pub fn() -> Duration);

impl PartialEq for TimeSource {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}
