//! Starts a program with each thread on its PU (`cohabit run`).
//!
//! The parts: [`plan`] says which thread goes where, `census` recognises the threads that start, `placement` sets and
//! reads their affinity. Starts are noticed by `trace` (ptrace, before the first instruction) or by `watch` (/proc,
//! a moment later). `phases` moves them where another phase begins: the program announces it, or it is recognised.
//! `spawn` and
//! `job_control` make the command run as if it had been started directly.

mod census;
mod crowding;
mod environment;
mod job_control;
mod outcome;
pub mod phases;
mod placement;
pub mod plan;
mod procfs;
mod program;
mod spawn;
mod supervise;
mod sys;
mod trace;
mod watch;

pub use outcome::{Method, Outcome, PlacedReport, Refusal, Repinned, Status, UnknownThread};

use cohabit_host::affinity::{Allowed, CpuMask};
use cohabit_model::Error;
use cohabit_model::command::CommandError;
use job_control::JobControl;
use phases::{Conductor, PhasePage};
use placement::Placement;
use plan::{Identify, LaunchPlan};
use program::Program;
use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use supervise::Supervisor;

/// How a launch is to be done.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Watch /proc even where tracing would work (under a debugger, or for programs that check whether they are
    /// traced).
    pub watch_only: bool,
    /// Signals that this process gets are passed to the command, and it stops with the command. What a command line
    /// tool wants; it installs signal handlers for the time of the launch.
    pub pass_signals: bool,
    /// The main thread of a process with several planned threads has only its PU from the first instruction on,
    /// instead of from the start of its second thread on. Runtimes that size themselves by the main thread's affinity
    /// (OpenMP, C++, Go, Rust) then see one processor.
    pub hold_main_from_start: bool,
    /// Called with the command's process id before its first instruction; the command waits until this returns.
    pub before_start: Option<BeforeStart>,
    /// Variables of the command's environment, instead of ours of the same names.
    pub environment: Vec<(String, OsString)>,
    /// Maps those tasks that run where they are fewer than planned; without it they are left to the system then.
    pub map_again: Option<MapAgain>,
    /// Who says which phase of the plan the program is in, where it is not the program.
    pub conductor: Option<Conductor>,
}

/// What maps tasks again.
type Map = dyn Fn(&[u32]) -> Option<Vec<CpuMask>> + Send + Sync;

/// From the ids of the tasks that run to the PUs that each is confined to; none where that cannot be said.
#[derive(Clone)]
pub struct MapAgain(pub Arc<Map>);

impl fmt::Debug for MapAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapAgain")
    }
}

/// What is to be done when the command's process is there and has not begun.
#[derive(Clone)]
pub struct BeforeStart(pub Arc<dyn Fn(i32) + Send + Sync>);

impl fmt::Debug for BeforeStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeStart")
    }
}

/// Runs `command` with its threads where `plan` says, and returns when it has ended.
///
/// The command inherits streams, environment, limits and process group. Only affinities of its threads are changed.
/// One launch at a time in a process can pass signals; another at the same time says in its notes that it does not.
///
/// # Errors
/// [`CommandError::NotFound`] and [`CommandError::CannotRun`] for a command that did not start,
/// [`CommandError::Failed`] for anything else, such as a PU that is not allowed here; the command has then not been
/// started.
pub fn launch(command: &[OsString], plan: &LaunchPlan, options: &Options) -> Result<Outcome, CommandError> {
    let program = Program::find(command)?;
    let original = Allowed::of_thread(0).map_err(|error| failed("the affinity of cohabit", &error))?;
    plan.check().and_then(|()| plan.check_allowed(&original.pus)).map_err(CommandError::Failed)?;

    let mut notes = if plan.tasks.is_empty() { Vec::new() } else { environment::notes(|name| std::env::var_os(name)) };
    let watch_only = options.watch_only || must_not_trace(&program, plan, &mut notes);
    let mut plan = plan.clone();
    if watch_only && plan.identify == Identify::Tree {
        plan.identify = Identify::Order;
        notes.push("/proc does not tell which thread created which: threads are identified by their order".to_owned());
    }
    let jobs = match options.pass_signals.then(JobControl::install) {
        None => JobControl::absent(),
        Some(Some(jobs)) => jobs,
        Some(None) => {
            notes.push("another launch of this process passes signals on: this one does not".to_owned());
            JobControl::absent()
        }
    };
    let placement = Arc::new(Mutex::new(Placement::new(&plan, original, options.hold_main_from_start)));
    let phases = PhasePage::of(&plan, options.conductor.as_ref()).map_err(CommandError::Failed)?;
    let environment: Vec<(String, OsString)> =
        options.environment.iter().cloned().chain(phases.as_ref().map(PhasePage::environment)).collect();
    let supervisor = Supervisor {
        program: &program,
        placement: &placement,
        jobs: &jobs,
        watch_only,
        before_start: options.before_start.as_ref(),
        environment: &environment,
        map_again: options.map_again.as_ref(),
        phases: phases.as_ref(),
    };
    let conduct = |placement| options.conductor.as_ref().map(|conductor| conductor.take(placement));
    conduct(Some(Arc::clone(&placement)));
    let end = supervisor.run(&plan);
    conduct(None);
    let end = end?;
    drop(jobs);
    notes.extend(end.notes);
    let placement = Arc::into_inner(placement).expect("the conductor has let go of it");
    let placement = placement.into_inner().unwrap_or_else(PoisonError::into_inner);
    let announced = phases.map(|page| page.announced());
    Ok(Outcome::new(end.status, end.method, placement, announced, notes))
}

/// Whether the program would not get the rights it is meant to have if it were traced.
fn must_not_trace(program: &Program, plan: &LaunchPlan, notes: &mut Vec<String>) -> bool {
    let must_not = !plan.tasks.is_empty() && program.gains_privileges();
    if must_not {
        let path = program.path.display();
        notes.push(format!(
            "{path} runs with other rights than its caller's (setuid), which tracing would take from it"
        ));
    }
    must_not
}

fn failed(what: &str, error: &std::io::Error) -> CommandError {
    let failed = Error::new(format!("{what}: {error}"));
    CommandError::Failed(match error.raw_os_error() {
        Some(libc::EMFILE) => failed.remedy("raise the number of open files: ulimit -n"),
        _ => failed,
    })
}

/// A thread that panicked leaves nothing half done behind this lock that would matter to an account.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
