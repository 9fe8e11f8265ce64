//! Runs a launcher with its ranks observed.

use super::callers::{self, Called};
use super::launcher::{Additions, may_start_processes, recognise, srun_without_pmix};
use super::{abi, files, install, merge, monitoring};
use crate::begin::OnBegin;
use crate::dbi::Outcome;
use crate::dbi::directory::{Directory, lock};
use cohabit_host::signals::Passing;
use cohabit_model::command::CommandError;
use cohabit_model::launcher::{Family, Recognised};
use cohabit_model::{Error, file};
use nix::fcntl::Flock;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What to look at, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Width of a bin of the time series.
    pub window: Duration,
    /// Follow the call sites of messages.
    pub sites: bool,
    /// Let Open MPI's monitoring component count what collectives really send.
    pub monitoring: bool,
    /// A folder that the ranks' hosts share, for what those on other hosts leave: that of the profile.
    pub shared: PathBuf,
    /// See `dbi::Options`.
    pub pass_signals: bool,
    /// See `dbi::Options`.
    pub on_begin: OnBegin,
}

/// Rows of a rank's series before its windows are doubled.
const SERIES_BOUND: u64 = 1 << 20;

/// A command made ready for its ranks to be observed.
pub(crate) struct Prepared {
    /// The command line to run.
    pub words: Vec<OsString>,
    /// What it finds in its environment beside what it inherits.
    pub environment: Vec<(OsString, OsString)>,
    parts: Directory,
    shared: Shared,
    /// Why ranks may not start.
    doubt: Option<&'static str>,
}

/// Finds the library and the places for what ranks leave.
pub(crate) fn prepare(command: &[OsString], options: &Options) -> Result<Prepared, CommandError> {
    let recognised = recognise(command)?;
    let library = install::library(recognised.family)?;
    let parts = Directory::create()?;
    let shared = Shared::create(&options.shared)?;
    let additions = Additions {
        library,
        variables: variables(parts.path(), shared.path(), options)?,
        parameters: parameters(&recognised, command, shared.path(), options),
    };
    let (words, environment) = additions.apply_in(recognised.launcher, command, shared.path())?;
    let doubt = srun_without_pmix(&recognised, command, |name| std::env::var_os(name));
    Ok(Prepared { words, environment, parts, shared, doubt })
}

/// A command made ready for the profiler alone: the library marks where its ranks start MPI, and does nothing else.
pub(crate) struct Marked {
    pub words: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    _place: tempfile::TempDir,
}

/// Finds the library.
pub(crate) fn mark(command: &[OsString]) -> Result<Marked, CommandError> {
    let recognised = recognise(command)?;
    let library = install::library(recognised.family)?;
    let place = tempfile::tempdir().map_err(Error::from)?;
    let additions = Additions { library, variables: Vec::new(), parameters: Vec::new() };
    let (words, environment) = additions.apply_in(recognised.launcher, command, place.path())?;
    Ok(Marked { words, environment, _place: place })
}

/// The profile of what the ranks left, once the command has ended, and which threads called.
pub(crate) fn collect(
    prepared: &Prepared,
    command: &[OsString],
    status: ExitStatus,
) -> Result<(Outcome, Vec<Called>), CommandError> {
    let found = files::read_all(&[prepared.shared.path(), prepared.parts.path()])?;
    if found.ranks.is_empty() {
        let launcher = prepared.words[0].to_string_lossy();
        let error = Error::new(format!("no MPI rank was observed; {launcher} ended with {status}"));
        let remedy = "the lines above may say why; the ranks must call MPI_Init and be linked with MPI dynamically";
        return Err(error.remedy(prepared.doubt.unwrap_or(remedy)).into());
    }
    let mut notes = found.notes.clone();
    notes.extend(ended_early(&found));
    notes.extend(not_observed(&found));
    let run = merge::Run {
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        monitored: monitoring::read(prepared.shared.path()),
    };
    let called = callers::called(&found.ranks);
    Ok((Outcome { profile: merge::merge(found, &run)?, status, notes, recorded_accesses: 0 }, called))
}

/// How several ranks come not to reach MPI_Finalize: which of it happened to whom, nobody knows.
pub const LEFT_WITHOUT: &str = "killed, crashed, ended by the launcher, or left without it";

/// A line for a run that one of its ranks has ended.
fn ended_early(found: &files::Found) -> Option<String> {
    let ended = |end: u32| found.ranks.iter().filter(move |rank| rank.head.end == end);
    let kept = "what ranks sent until then is in the profile";
    if let Some(rank) = ended(abi::COHABIT_MPI_END_ABORTED).next() {
        return Some(format!("rank {} on {} called MPI_Abort; {kept}", rank.head.rank, rank.host()));
    }
    match ended(abi::COHABIT_MPI_END_RUNNING).count() {
        0 => None,
        1 => ended(abi::COHABIT_MPI_END_RUNNING)
            .next()
            .map(|rank| format!("rank {} on {} ended without MPI_Finalize; {kept}", rank.head.rank, rank.host())),
        count => Some(format!("{count} ranks ended without MPI_Finalize: {LEFT_WITHOUT}; {kept}")),
    }
}

/// A line for ranks of the first world that left nothing.
fn not_observed(found: &files::Found) -> Option<String> {
    let first: Vec<_> = found.ranks.iter().map(|rank| &rank.head).filter(|head| head.job == 0).collect();
    let size = first.iter().map(|head| head.size).max()?;
    let seen: HashSet<u32> = first.iter().map(|head| head.rank).collect();
    let missing: Vec<u32> = (0..size).filter(|rank| !seen.contains(rank)).collect();
    if missing.is_empty() {
        return None;
    }
    let some: Vec<String> = missing.iter().take(8).map(u32::to_string).collect();
    let more = if missing.len() > some.len() { ", ..." } else { "" };
    let were = if missing.len() == 1 { "was" } else { "were" };
    Some(format!(
        "{} of {size} ranks {were} not observed ({}{more}): the library was not in them, or what they left is on a host whose files are not \
         seen here (static and setuid programs, and scripts that clear the environment, load no library)",
        missing.len(),
        some.join(", ")
    ))
}

/// Runs `command`, a launcher or one rank's program, to its end and says which rank sent what to which.
///
/// # Errors
/// [`CommandError::NotFound`] and [`CommandError::CannotRun`] for a launcher that is not there or not known,
/// [`CommandError::Failed`] where there is no library for its MPI, or no rank was seen.
pub fn profile(command: &[OsString], options: &Options) -> Result<Outcome, CommandError> {
    // From the first moment: who is asked to end before the launcher is there still removes the folders.
    let passing = options.pass_signals.then(Passing::install);
    let prepared = prepare(command, options)?;
    let mut launcher = Command::new(&prepared.words[0]);
    launcher.args(&prepared.words[1..]).envs(prepared.environment.iter().cloned());
    options.on_begin.now(prepared.parts.path());
    let status = run(&mut launcher, passing.as_ref())?;
    Ok(collect(&prepared, command, status)?.0)
}

/// A folder beside the profile, for the time of a run.
pub(super) struct Shared {
    folder: tempfile::TempDir,
    _lock: Option<Flock<File>>,
}

impl Shared {
    /// Makes one. What killed runs have left there is removed first.
    pub(super) fn create(place: &Path) -> Result<Self, Error> {
        let place = std::path::absolute(if place.as_os_str().is_empty() { Path::new(".") } else { place })?;
        file::remove_abandoned(&place);
        let made = tempfile::Builder::new().prefix(".cohabit-mpi-").tempdir_in(&place);
        let folder = made.map_err(|error| {
            Error::new(format!("{}: {error}", place.display()))
                .remedy("name a profile in a folder that can be written to, with -o")
        })?;
        // Where files cannot be locked, nobody takes it for abandoned either.
        let lock = lock(folder.path()).ok();
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn variables(parts: &Path, shared: &Path, options: &Options) -> Result<Vec<(String, OsString)>, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut variables = files::variables(parts, shared)?.to_vec();
    variables.extend([
        ("COHABIT_MPI_ZERO_NS".into(), now.as_nanos().to_string().into()),
        ("COHABIT_MPI_WINDOW_NS".into(), options.window.as_nanos().to_string().into()),
        ("COHABIT_MPI_ROUNDS".into(), "1".into()),
        ("COHABIT_MPI_TRACE".into(), "1".into()),
        ("COHABIT_MPI_VISITS".into(), "1".into()),
        ("COHABIT_MPI_SERIES_BOUND".into(), SERIES_BOUND.to_string().into()),
    ]);
    if options.sites {
        variables.push(("COHABIT_MPI_SITES".into(), "1".into()));
    }
    Ok(variables)
}

/// Open MPI's monitoring of messages: 2 tells the library's own from the program's, 3 writes a file a rank.
fn parameters(
    recognised: &Recognised,
    command: &[OsString],
    shared: &Path,
    options: &Options,
) -> Vec<(&'static str, OsString)> {
    // Monitoring ends programs that start others (4.1.4): it is left out where that cannot be ruled out.
    if recognised.family != Family::OpenMpi || !options.monitoring || may_start_processes(command) {
        return Vec::new();
    }
    vec![
        ("pml_monitoring_enable", "2".into()),
        ("pml_monitoring_enable_output", "3".into()),
        ("pml_monitoring_filename", shared.join("monitoring").into()),
    ]
}

pub(super) fn run(launcher: &mut Command, passing: Option<&Passing>) -> Result<ExitStatus, Error> {
    let name = launcher.get_program().to_string_lossy().into_owned();
    let mut child = launcher.spawn().map_err(|error| Error::new(format!("{name}: {error}")))?;
    if let Some(passing) = passing {
        passing.to(child.id());
    }
    Ok(child.wait()?)
}
