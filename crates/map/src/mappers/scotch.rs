//! Dual recursive bipartitioning of tasks and machine with the Scotch library (Pellegrini, "Static mapping by dual
//! recursive bipartitioning of process and architecture graphs", SHPCC 1994), with its default strategy.
//!
//! The slots become a `tleaf` architecture, of which only those there are may be used; empty slots are tasks without
//! communication. Scotch may overfill a slot where its balance allows; what is too many moves to the nearest free slot.

#[cfg(feature = "scotch")]
mod library;

use crate::{Mapper, Problem};
use cohabit_model::Result;

/// The mapper `scotch`.
pub struct Scotch;

impl Mapper for Scotch {
    fn name(&self) -> &'static str {
        "scotch"
    }

    fn about(&self) -> &'static str {
        "dual recursive bipartitioning with the Scotch library"
    }

    fn source(&self) -> &'static str {
        "Pellegrini, SHPCC 1994; libscotch"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("the library's own objective is J")
    }

    #[cfg(feature = "scotch")]
    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        use crate::{load::settled, slots::Slots};
        let slots = Slots::new(problem)?;
        let wished = bipartition(problem, &slots)?;
        settled(problem, &slots, &crate::partial_mapping::nearest_to(problem.topology, &slots, &wished))
    }

    #[cfg(not(feature = "scotch"))]
    fn map(&self, _: &Problem) -> Result<Vec<usize>> {
        Err(cohabit_model::Error::new("this build has no mapper `scotch`: it was built without libscotch")
            .remedy("install libscotch-dev and build with the feature `scotch`, or take another mapper"))
    }
}

/// The slot that Scotch gives each task, perhaps one to several.
#[cfg(feature = "scotch")]
fn bipartition(problem: &Problem, slots: &crate::slots::Slots) -> Result<Vec<usize>> {
    use crate::{graph::Graph, levels::Levels};
    use cohabit_model::Error;
    let tasks = slots.tasks();
    if slots.len() <= 1 {
        return Ok(vec![0; tasks]);
    }
    let Some(levels) = Levels::new(problem.topology, slots) else {
        return Err(Error::new("the mapper `scotch` needs a tree whose costs fall towards the PUs")
            .remedy("take the mapper `best` or `exact` for arbitrary distances"));
    };
    let architecture = library::Architecture::new(&levels)?;
    let mut fixed: Vec<Option<usize>> = slots.pinned.clone();
    fixed.resize(slots.len(), None);
    let placed = library::map(&Graph::new(problem.weight), &fixed, &architecture, problem.options.seed)?;
    Ok(placed[..tasks].to_vec())
}
