//! Where each task should run: a [`Mapper`] a file, a row each in [`MAPPERS`].
//!
//! Pure and seeded: same problem, options and seed, same mapping. Nothing here starts a process or prints.

pub mod affinity;
pub mod blocks;
pub mod bottom_up;
pub mod bound;
pub mod graph;
pub mod grid;
pub mod levels;
pub mod load;
pub mod makespan;
pub mod mappers;
pub mod objective;
pub mod options;
pub mod partial_mapping;
pub mod per_phase;
pub mod random;
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
pub use objective::{OBJECTIVES, objective};
pub use options::Options;
pub use stay::moves;

use cohabit_model::{Matrix, Period, Result, Topology};

/// What a mapper is given: a weighted graph of tasks, a topology, and what the user asked for.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// What J counts, `[source][destination]`.
    pub weight: &'a Matrix,
    /// Work of each task (bytes accessed, say), empty where unknown: how more tasks than PUs are balanced.
    pub load: &'a [u64],
    /// What is exchanged at the same time: parts of the run ([`cohabit_model::timeline`]); empty where that is not
    /// known.
    pub periods: &'a [Period],
    /// Where the tasks may go.
    pub topology: &'a Topology,
    /// What the user asked for.
    pub options: &'a Options,
}

/// A search for a placement that makes an objective small.
pub type SearchFor = fn(&objective::Case, &dyn objective::Objective) -> Result<Vec<usize>>;

/// An algorithm that maps tasks to PUs.
pub trait Mapper: Sync {
    /// The name `--mapper` takes.
    fn name(&self) -> &'static str;
    /// One line for `cohabit mappers` and the documentation.
    fn about(&self) -> &'static str;
    /// Where the algorithm was published.
    fn source(&self) -> &'static str;
    /// Whether it needs [`Problem::periods`].
    fn needs_periods(&self) -> bool {
        false
    }
    /// Why no objective but J's may be asked of it (`--objective`); none where every one may.
    fn only_distance(&self) -> Option<&'static str>;
    /// The objectives that may be asked of it.
    fn objectives(&self) -> Vec<&'static str> {
        let knows = |name: &&str| self.only_distance().is_none() || *name == "distance";
        OBJECTIVES.iter().map(|objective| objective.name()).filter(knows).collect()
    }
    /// Its own search for any objective but J; none where the objective's search goes on from what it maps.
    fn search_for(&self) -> Option<SearchFor> {
        None
    }
    /// Whether it searches for as long as it may: `steps`, `budget` and `threads` of [`Options`] mean something to it.
    fn searches(&self) -> bool {
        false
    }
    /// A PU for every task: indices into [`Topology::pus`].
    ///
    /// # Errors
    /// Where no PU is left to use, a pin is impossible, or the algorithm's library is missing.
    fn map(&self, problem: &Problem) -> Result<Vec<usize>>;
}
