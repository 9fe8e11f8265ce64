//! Runs a launcher and reads back where its ranks are: host and affinity as they were when MPI_Init returned, and how
//! each rank ended. Nothing is counted, so that it costs nothing after MPI_Init. Threads of ranks are put on their PUs
//! by the library in the rank (`native/mpi/threads.c`), whatever host that is on, and read back too; so are ranks that
//! move from phase to phase (`follow`).

use super::follow::{self, Followed, Phase};
use super::launcher::{Additions, recognise, srun_without_pmix};
use super::{abi, files, install};
use crate::dbi::directory::Directory;
use cohabit_host::signals::Passing;
use cohabit_model::command::CommandError;
use cohabit_model::{Error, Result};
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
    /// The PUs of its threads, where these were to be placed: none of one that was not started. Read when the thread
    /// started, and again in MPI_Finalize.
    pub threads: Vec<Option<Vec<u32>>>,
    /// How many threads the program has made in it then, the first included.
    pub threads_made: u32,
    /// What became of the phases that it was to follow.
    pub phases: Vec<Followed>,
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

/// Runs `command`, a launcher, with these variables; `shared` is a folder that its hosts share. `threads` are the PUs
/// of the threads of each rank, in the order in which the program makes them; empty where ranks have one thread. `phases`
/// are those in which ranks are elsewhere, of ranks with one thread.
///
/// # Errors
/// [`CommandError::NotFound`] and [`CommandError::CannotRun`] where the launcher is not there, [`CommandError::Failed`]
/// where there is no place for what is read back, or phases cannot be followed.
pub fn run(
    command: &[OsString],
    variables: &[(String, OsString)],
    threads: &[Vec<u32>],
    phases: &[Phase],
    shared: &Path,
    pass_signals: bool,
) -> Result<Ran, CommandError> {
    let passing = pass_signals.then(Passing::install);
    let parts = Directory::create()?;
    let shared = super::launch::Shared::create(shared)?;
    let mut notes = Vec::new();
    let recognised = recognise(command);
    let doubt =
        recognised.as_ref().ok().and_then(|found| srun_without_pmix(found, command, |name| std::env::var_os(name)));
    let library = recognised.and_then(|found| Ok((found.launcher, install::library(found.family)?)));
    let (words, environment) = match library {
        Ok((launcher, library)) => {
            let mut variables = files::variables(parts.path(), shared.path())?.to_vec();
            variables.push(("COHABIT_MPI_PLACEMENT".to_owned(), "1".into()));
            if threads.iter().any(|pus| pus.len() > 1) {
                let file = shared.path().join("threads");
                std::fs::write(&file, lines(threads)).map_err(Error::from)?;
                variables.push(("COHABIT_MPI_THREADS".to_owned(), file.into()));
            }
            if !phases.is_empty() {
                follow::check(phases, command)?;
                let file = shared.path().join("phases");
                std::fs::write(&file, follow::text(phases)).map_err(Error::from)?;
                variables.push(("COHABIT_MPI_PHASES".to_owned(), file.into()));
            }
            Additions { library, variables, parameters: Vec::new() }.apply_in(launcher, command, shared.path())?
        }
        Err(failure) if !phases.is_empty() => return Err(failure),
        Err(failure) => {
            notes.push(format!("where the ranks are is not read back: {}", failure.error().cause));
            if threads.iter().any(|pus| pus.len() > 1) {
                notes.push("ranks are on the PUs of their threads, which thread on which is left to the system".into());
            }
            (command.to_vec(), Vec::new())
        }
    };
    let mut launcher = Command::new(&words[0]);
    launcher.args(&words[1..]).envs(environment).envs(variables.iter().map(|(name, value)| (name, value)));
    let status = super::launch::run(&mut launcher, passing.as_ref())?;
    let found = files::read_all(&[shared.path(), parts.path()])?;
    notes.extend(found.notes.iter().cloned());
    notes.extend(doubt.filter(|_| found.ranks.is_empty()).map(str::to_owned));
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
            threads: rank.threads.iter().map(|thread| (thread.tid != 0).then(|| pus(&thread.cpus))).collect(),
            threads_made: rank.head.threads_made,
            phases: follow::followed(rank),
        })
        .collect();
    ranks.sort_by_key(|rank| rank.rank);
    Ok(Ran { status, ranks, notes })
}

/// A line for each rank.
fn lines(threads: &[Vec<u32>]) -> String {
    let line = |pus: &Vec<u32>| pus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ") + "\n";
    threads.iter().map(line).collect()
}

pub(super) fn pus(mask: &[u64]) -> Vec<u32> {
    (0..mask.len() as u32 * 64).filter(|&pu| mask[pu as usize / 64] >> (pu % 64) & 1 == 1).collect()
}
