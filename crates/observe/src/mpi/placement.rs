//! Runs a launcher and reads back where its ranks are: host and affinity as they were when MPI_Init returned, and how
//! each rank ended. Nothing is counted, so that it costs nothing after MPI_Init.

use super::launcher::{Additions, recognise};
use super::{abi, files, install};
use crate::dbi::directory::Directory;
use cohabit_model::Result;
use cohabit_model::command::CommandError;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// How a rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It reached MPI_Finalize.
    Finalized,
    /// It called MPI_Abort.
    Aborted,
    /// Neither: killed, crashed, or left by exit.
    Otherwise,
}

/// Where a rank was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// The name of its host.
    pub host: String,
    /// The PUs (OS indices) that it was allowed, ascending; of the first 1,024.
    pub affinity: Vec<u32>,
    /// How it ended.
    pub ended: Ended,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The launcher's.
    pub status: ExitStatus,
    /// The ranks of the first world that are known of, by rank.
    pub ranks: Vec<Placed>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Runs `command`, a launcher, with these variables; `shared` is a folder that its hosts share.
///
/// # Errors
/// [`CommandError::NotFound`] and [`CommandError::CannotRun`] where the launcher is not there, [`CommandError::Failed`] where there is no
/// place for what is read back.
pub fn run(
    command: &[OsString],
    variables: &[(String, OsString)],
    shared: &Path,
    pass_signals: bool,
) -> Result<Ran, CommandError> {
    let parts = Directory::create()?;
    let shared = super::launch::shared_folder(shared)?;
    let mut notes = Vec::new();
    let library = recognise(command).and_then(|found| Ok((found.launcher, install::library(found.family)?)));
    let (words, environment) = match library {
        Ok((launcher, library)) => {
            let gathered = shared.path().join(format!("run.{}", files::GATHERED));
            let variables = vec![
                ("COHABIT_MPI_PARTS".to_owned(), parts.path().into()),
                ("COHABIT_MPI_GATHERED".to_owned(), gathered.into()),
                ("COHABIT_MPI_PLACEMENT".to_owned(), "1".into()),
            ];
            Additions { library, variables, parameters: Vec::new() }.apply(launcher, command)
        }
        Err(failure) => {
            notes.push(format!("where the ranks are is not read back: {}", failure.error().cause));
            (command.to_vec(), Vec::new())
        }
    };
    let mut launcher = Command::new(&words[0]);
    launcher.args(&words[1..]).envs(environment).envs(variables.iter().map(|(name, value)| (name, value)));
    let status = super::launch::run(&mut launcher, pass_signals)?;
    let found = files::read_all(&[shared.path(), parts.path()])?;
    notes.extend(found.notes.iter().cloned());
    let first = found.ranks.iter().filter(|rank| rank.head.job == 0);
    let mut ranks: Vec<Placed> = first
        .map(|rank| Placed {
            rank: rank.head.rank,
            host: rank.host(),
            affinity: pus(&rank.head.cpus),
            ended: match rank.head.end {
                abi::COHABIT_MPI_END_FINALIZED => Ended::Finalized,
                abi::COHABIT_MPI_END_ABORTED => Ended::Aborted,
                _ => Ended::Otherwise,
            },
        })
        .collect();
    ranks.sort_by_key(|rank| rank.rank);
    Ok(Ran { status, ranks, notes })
}

fn pus(mask: &[u64]) -> Vec<u32> {
    (0..mask.len() as u32 * 64).filter(|&pu| mask[pu as usize / 64] >> (pu % 64) & 1 == 1).collect()
}
