//! A PU for every task.

use crate::Task;
use serde::{Deserialize, Serialize};

/// The format number in every mapping file.
pub const FORMAT: u64 = 1;

/// Which matrix J counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Communication events (the default for threads).
    Messages,
    /// Bytes (the default for MPI ranks).
    Bytes,
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
    /// OS indices of all PUs that serve as well, as a list (`0-3,8`): J does not rise while every task keeps to its own.
    /// Empty: `pu` alone.
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
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
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
