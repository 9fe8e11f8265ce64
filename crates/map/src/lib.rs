//! Where each task should run: a [`Mapper`] a file, a row each in [`MAPPERS`].
//!
//! Pure and seeded: same problem, options and seed, same mapping. Nothing here starts a process or prints.

pub mod affinity;
pub mod bottom_up;
pub mod bound;
pub mod graph;
pub mod levels;
pub mod load;
pub mod mappers;
pub mod random;
pub mod seating;
pub mod shapes;
pub mod slots;
pub mod stay;
pub mod usable;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod testing;

pub use bound::lower_bound;
pub use mappers::{MAPPERS, mapper};
pub use stay::moves;

use cohabit_model::{Matrix, Result, Topology};
use std::time::Duration;

/// What a mapper is given: a weighted graph of tasks, a topology, and what the user asked for.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// What J counts, `[source][destination]`.
    pub weight: &'a Matrix,
    /// Work of each task (bytes accessed, say), empty where unknown: how more tasks than PUs are balanced.
    pub load: &'a [u64],
    /// Where the tasks may go.
    pub topology: &'a Topology,
    /// What the user asked for.
    pub options: &'a Options,
}

/// What the user asked of a mapper.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Seed of whatever is random.
    pub seed: u64,
    /// Tasks that must go to a PU: (task, index into [`Topology::pus`]).
    pub pins: Vec<(usize, usize)>,
    /// PUs (indices into [`Topology::pus`]) that must stay empty, besides those the cpuset forbids.
    pub forbidden: Vec<usize>,
    /// Let two tasks share a core while another core is free.
    pub share_cores: bool,
    /// Wall time for the mappers that get better with time. What they return then depends on the machine's speed.
    pub budget: Option<Duration>,
    /// Steps of the search for the mappers that get better with time: reproducible. With neither this nor `budget`
    /// they take a number of steps that suits the size of the problem.
    pub steps: Option<u64>,
    /// Where the tasks are now (an index into [`Topology::pus`] a task, none where unknown); empty where they do not run.
    pub present: Vec<Option<usize>>,
    /// What moving one task away from its present PU costs, in units of J.
    pub move_cost: u64,
    /// Threads to search with, where more than one is asked for; 0 is 1.
    pub threads: usize,
}

/// An algorithm that maps tasks to PUs.
pub trait Mapper: Sync {
    /// The name `--mapper` takes.
    fn name(&self) -> &'static str;
    /// One line for `cohabit mappers` and the documentation.
    fn about(&self) -> &'static str;
    /// Where the algorithm was published.
    fn source(&self) -> &'static str;
    /// A PU for every task: indices into [`Topology::pus`].
    ///
    /// # Errors
    /// Where no PU is left to use, a pin is impossible, or the algorithm's library is missing.
    fn map(&self, problem: &Problem) -> Result<Vec<usize>>;
}
