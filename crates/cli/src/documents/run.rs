//! What a run that was watched and moved left (`cohabit run --json` without a profile, `attach`, `top`): who was moved
//! when.

use cohabit_model::{Error, Result};
use serde::Deserialize;
use std::path::Path;

/// The document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Run {
    /// The command that left it.
    pub command: String,
    /// How long it was watched.
    #[serde(default)]
    pub seconds: f64,
    /// The tasks that were followed.
    #[serde(default)]
    pub task_list: Vec<Followed>,
    /// What happened.
    #[serde(default)]
    pub log: Vec<Entry>,
    /// Entries that found no room.
    #[serde(default)]
    pub log_entries_dropped: u64,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Followed {
    /// Its number in the log.
    pub task: u32,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Entry {
    /// Since following began.
    pub time_ms: u64,
    /// What kind of thing.
    pub what: String,
    /// In words.
    pub text: String,
    /// Tasks that moved, each with its PU; none: let go.
    #[serde(default)]
    pub moves: Vec<(u32, Option<u32>)>,
}

impl Run {
    /// Reads one.
    ///
    /// # Errors
    /// Where it is none, or of a run that was not watched.
    pub fn read(path: &Path) -> Result<Self> {
        let found: Self = super::read(path, &["run", "attach", "top"])?;
        match found.log.is_empty() {
            true => Err(Error::new(format!("{}: a run that was not watched: it has no log", path.display()))
                .remedy("run it without a profile and a mapping: cohabit run --json FILE -- ./program")),
            false => Ok(found),
        }
    }
}
