//! A PU for every task, or one for every task in each phase of the run.

use crate::calls::CallPlace;
use crate::timeline::{By, groups};
use crate::{Matrix, Task};
use serde::{Deserialize, Serialize};

/// The format number of a mapping file.
pub const FORMAT: u64 = 1;
/// The format number of one that changes from phase to phase ([`Mapping::phases`]).
pub const PHASED_FORMAT: u64 = 2;

/// Which matrix J counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Communication events.
    Messages,
    /// Bytes (the default for MPI ranks).
    Bytes,
    /// Communication events, each shared out among all that hold the value (the default for threads where it is known).
    Transfers,
}

/// A task with the PU it is to run on. Enough to find the task again in another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// [`Task::id`] in the profile the mapping was made from.
    pub task: u32,
    /// [`Task::name`].
    #[serde(default)]
    pub name: String,
    /// [`Task::host`].
    #[serde(default)]
    pub host: String,
    /// [`Task::process`].
    #[serde(default)]
    pub process: u32,
    /// [`Task::rank`].
    #[serde(default)]
    pub rank: Option<u32>,
    /// [`Task::spawn_index`].
    #[serde(default)]
    pub spawn_index: u32,
    /// [`Task::parent`].
    #[serde(default)]
    pub parent: Option<u32>,
    /// OS index of the PU (hwloc P#).
    pub pu: u32,
    /// OS indices of all PUs that serve as well, as a list (`0-3,8`): J does not rise while every task keeps to its
    /// own. Empty: `pu` alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pus: String,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// What a mapping is expected to cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The distance cost J.
    pub distance: u128,
    /// No mapping costs less than this.
    #[serde(default)]
    pub lower_bound: Option<u128>,
    /// Predicted communication time in ns, where the estimator has a model.
    #[serde(default)]
    pub predicted_ns: Option<f64>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// A mapping file: JSON, format 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    /// [`FORMAT`].
    pub format: u64,
    /// Name of the mapper.
    pub mapper: String,
    /// Its seed.
    #[serde(default)]
    pub seed: u64,
    /// Which matrix J counts.
    pub weight: Weight,
    /// What was minimised (`distance`).
    #[serde(default)]
    pub objective: String,
    /// Cost of each branching level, from the root down; empty where the topology's own distances were used.
    #[serde(default)]
    pub level_costs: Vec<u64>,
    /// The topology as text (hwloc XML or a synthetic string), so that the file stands alone.
    pub topology: String,
    /// The executable of each process, by [`Placed::process`]; empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Why no placement is better than another, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_gain: Option<String>,
    /// Where each task goes, by task id.
    pub tasks: Vec<Placed>,
    /// What it costs.
    pub cost: Cost,
    /// Where tasks go in each phase of the run; in format 2 only, and always there. `tasks` is then where they begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// A mapping for each phase of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// By what phases are told apart, and so how a run knows them again.
    pub by: By,
    /// One a phase, by ascending number. In a phase that is not among them tasks stay where they are.
    pub mappings: Vec<PhaseMapping>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// Where tasks go in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseMapping {
    /// The phase's number ([`crate::Period::number`]).
    pub number: u64,
    /// Every task of [`Mapping::tasks`], in that order.
    pub tasks: Vec<Seat>,
    /// The call sites of MPI at which it begins, where phases are told apart by these ([`By::Calls`]); else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begins_at: Vec<CallPlace>,
    /// What a run knows it again by that nothing announces ([`By::Recurring`] and [`By::Clusters`], of all phases or of
    /// none).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recognised_by: Option<Signature>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// What a phase is known again by, and what it is worth to be where it has its tasks. Mappings are counted so: the one
/// for the whole run ([`Mapping::tasks`]), then those of all phases in the order of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// How long the phase lasts when it comes, on the mean, by the clock of the profile; none where that has none.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// The pairs of tasks that exchange most in it, the smaller number first, and each one's share of all that is
    /// exchanged; the heaviest first.
    pub pairs: Vec<(u32, u32, f64)>,
    /// What the phase is estimated to take, each time that it comes, in seconds, with each of the mappings.
    pub takes_s: Vec<f64>,
    /// What it is taken to cost to come to this phase's mapping from each of them, in seconds.
    pub moves_s: Vec<f64>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

impl Signature {
    /// Of what is exchanged, the part that its pairs hold.
    const HELD: f64 = 0.99;
    /// Its pairs, at most.
    const MOST_PAIRS: usize = 1 << 16;

    /// The pairs of a phase in which this is exchanged: as many of the heaviest as hold 99 %, and 65,536 at most.
    pub fn pairs_of(exchanged: &Matrix) -> Vec<(u32, u32, f64)> {
        let groups = groups([exchanged]);
        let Some(group) = groups.first() else { return Vec::new() };
        let (all, mut held) = (group.total as f64, 0.0);
        let needed = group.pairs.iter().take_while(|pair| {
            let is_needed = held < Self::HELD * all;
            held += pair.2 as f64;
            is_needed
        });
        // To nine digits: more would say nothing.
        let share = |events: u64| (events as f64 / all * 1e9).round() / 1e9;
        let pairs = needed.map(|&(a, b, events)| (a, b, share(events))).filter(|pair| pair.2 > 0.0);
        pairs.take(Self::MOST_PAIRS).collect()
    }
}

/// Where a task goes in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// [`Placed::task`].
    pub task: u32,
    /// [`Placed::pu`].
    pub pu: u32,
    /// [`Placed::pus`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pus: String,
}

impl Placed {
    /// `task` on the PU with OS index `pu`.
    pub fn new(task: &Task, pu: u32) -> Self {
        Self {
            task: task.id,
            name: task.name.clone(),
            host: task.host.clone(),
            process: task.process,
            rank: task.rank,
            spawn_index: task.spawn_index,
            parent: task.parent,
            pu,
            pus: String::new(),
            unknown: Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_known_by_the_pairs_that_hold_nearly_all() {
        let exchanged =
            Matrix::from_triplets(5, [(0, 1, 500), (1, 0, 100), (3, 2, 395), (4, 0, 3), (4, 1, 2), (1, 1, 9)]);
        assert_eq!(Signature::pairs_of(&exchanged), [(0, 1, 0.6), (2, 3, 0.395)]);
        assert_eq!(Signature::pairs_of(&Matrix::from_triplets(2, [(0, 0, 4)])), []);
        // All alike: as many as it takes.
        let alike = Matrix::from_triplets(20, (0..20).flat_map(|a| (0..a).map(move |b| (a, b, 1_u64))));
        assert_eq!(Signature::pairs_of(&alike).len(), 189);
    }
}
