//! A PU for every task, or one for every task in each phase of the run.

use crate::Task;
use crate::calls::CallPlace;
use crate::timeline::By;
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseMapping {
    /// The phase's number ([`crate::Period::number`]).
    pub number: u64,
    /// Every task of [`Mapping::tasks`], in that order.
    pub tasks: Vec<Seat>,
    /// The call sites of MPI at which it begins, where phases are told apart by these ([`By::Calls`]); else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begins_at: Vec<CallPlace>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
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
