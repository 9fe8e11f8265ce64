//! The run from fork to the end: one thread attends to the command's events, the caller's looks at /proc now and then.

use super::job_control::JobControl;
use super::outcome::{Method, Status};
use super::phases::PhasePage;
use super::placement::Placement;
use super::plan::LaunchPlan;
use super::program::Program;
use super::spawn::Gated;
use super::sys::{self, Wait};
use super::trace::{self, TraceEnd, Tracer};
use super::watch::{self, Pace};
use super::{BeforeStart, MapAgain, failed, lock, procfs};
use cohabit_model::Error;
use cohabit_model::command::CommandError;
use nix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

/// Everything that a launch needs while it runs.
#[derive(Clone, Copy)]
pub(crate) struct Supervisor<'a> {
    pub(crate) program: &'a Program,
    pub(crate) placement: &'a Mutex<Placement>,
    pub(crate) jobs: &'a JobControl,
    pub(crate) watch_only: bool,
    pub(crate) before_start: Option<&'a BeforeStart>,
    pub(crate) environment: &'a [(String, OsString)],
    pub(crate) map_again: Option<&'a MapAgain>,
    pub(crate) phases: Option<&'a PhasePage>,
}

/// How the run ended.
pub(crate) struct End {
    pub(crate) status: Status,
    pub(crate) method: Method,
    pub(crate) notes: Vec<String>,
}

/// What the attending threads report.
enum Event {
    /// The command is about to start, and how its threads will be noticed.
    Started { method: Method, note: Option<String> },
    /// The tracer has done its work and ends: thread `tracer`.
    Detached { tracer: i32, child: Gated },
    /// The command has ended, and its child side of the start can say whether it ever began.
    Ended { status: i32, child: Gated },
    /// The command could not be started or waited for.
    Failed(CommandError),
}

impl Supervisor<'_> {
    /// Runs the command to its end.
    pub(crate) fn run(self, plan: &LaunchPlan) -> Result<End, CommandError> {
        // What one thread starts would inherit its PUs: even a single one is traced.
        let needs_starts = !plan.tasks.is_empty();
        let (sender, events) = channel();
        let (hand_over, handed_over) = channel();
        thread::scope(|scope| {
            // All threads are there before the command is: once it runs, nothing may fail for want of a thread.
            let later = sender.clone();
            let attend = move || {
                if let Ok(child) = handed_over.recv() {
                    let _ = later.send(self.attend(child).unwrap_or_else(Event::Failed));
                }
            };
            named(scope, attend).map_err(|error| failed("starting a thread", &error))?;
            let start = move || {
                let event = self.start_and_trace(needs_starts, &sender);
                let _ = sender.send(event.unwrap_or_else(Event::Failed));
            };
            if let Some(page) = self.phases {
                named(scope, move || page.follow(self.placement))
                    .map_err(|error| failed("starting a thread", &error))?;
            }
            let end = named(scope, start)
                .map_err(|error| failed("starting a thread", &error))
                .and_then(|()| self.look_after(hand_over, &events, !plan.tasks.is_empty()));
            if let Some(page) = self.phases {
                page.end();
            }
            end
        })
    }

    /// The caller's part: looks at the threads until the command has ended, and hands it over from the tracer to the
    /// thread that waits for it.
    fn look_after(
        self,
        hand_over: Sender<Gated>,
        events: &Receiver<Event>,
        wants_look: bool,
    ) -> Result<End, CommandError> {
        let (mut method, mut notes) = (Method::NotNeeded, Vec::new());
        let mut pace = Pace::new();
        // The tracer finds threads by itself; until it is known whether there is one, nobody else looks.
        let mut traced = true;
        loop {
            match events.recv_timeout(pace.interval()) {
                Ok(Event::Started { method: chosen, note }) => {
                    (method, traced) = (chosen, chosen == Method::Ptrace);
                    notes.extend(note);
                }
                Ok(Event::Detached { tracer, child }) => {
                    await_thread_end(tracer);
                    (traced, pace) = (false, Pace::new());
                    let _ = hand_over.send(child);
                }
                Ok(Event::Ended { status, child }) => {
                    return match child.exec_error() {
                        Some(errno) => Err(self.program.refusal(errno)),
                        None => Ok(End { status: Status::from_wait(status), method, notes }),
                    };
                }
                Ok(Event::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) if wants_look => {
                    let before = cpu_time();
                    let found = self.look(traced);
                    pace.looked(cpu_time().saturating_sub(before), found);
                }
                Err(RecvTimeoutError::Timeout) => pace.looked(Duration::ZERO, false),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CommandError::Failed(Error::new("lost sight of the command")));
                }
            }
        }
    }

    /// One look at the threads; whether any are new. The tracer finds new ones by itself.
    fn look(self, traced: bool) -> bool {
        let mut placement = lock(self.placement);
        placement.check_repinned();
        let found = !traced && watch::look(&mut placement);
        let settled = placement.wants_mapping();
        drop(placement);
        if let (Some(tasks), Some(MapAgain(map))) = (settled, self.map_again) {
            // It may take a while, and the program goes on meanwhile.
            if let Some(masks) = map(&tasks) {
                lock(self.placement).mapped_again(&tasks, masks);
            }
        }
        found
    }

    /// The first attending thread: forks, traces if it may, and follows the plan.
    fn start_and_trace(self, needs_starts: bool, events: &Sender<Event>) -> Result<Event, CommandError> {
        let mut child =
            Gated::new(self.program, self.environment).map_err(|error| failed("starting the command", &error))?;
        let pid = child.pid;
        self.jobs.pass_to(Some(pid));
        let (method, note) = self.choose_method(pid, needs_starts);
        match method {
            Method::ProcWatcher => lock(self.placement).process_found(None, pid),
            Method::Ptrace | Method::NotNeeded => lock(self.placement).process_started(None, pid),
        }
        let _ = events.send(Event::Started { method, note });
        if let Some(BeforeStart(prepare)) = self.before_start {
            prepare(pid);
        }
        child.open();
        if method != Method::Ptrace {
            return self.attend(child);
        }
        let mut tracer = Tracer::new(pid, self.placement, self.jobs);
        match tracer.follow() {
            Ok(TraceEnd::CommandEnded(status)) => {
                self.jobs.pass_to(None);
                Ok(Event::Ended { status, child })
            }
            // Without anything left to trace the command is waited for like any other.
            Ok(TraceEnd::PlanComplete) | Err(_) => Ok(Event::Detached { tracer: sys::own_tid(), child }),
        }
    }

    fn choose_method(self, pid: i32, needs_starts: bool) -> (Method, Option<String>) {
        if !needs_starts {
            return (Method::NotNeeded, None);
        }
        let refused = match self.watch_only {
            true => None,
            false => match sys::seize(pid, trace::OPTIONS) {
                Ok(()) => return (Method::Ptrace, None),
                Err(error) => Some(error),
            },
        };
        let cause =
            refused.map(|error| format!("tracing is not permitted here (ptrace: {error}): ")).unwrap_or_default();
        let note = format!(
            "{cause}threads were found by looking at /proc: they may have run elsewhere for a moment, and short ones were not seen"
        );
        (Method::ProcWatcher, Some(note))
    }

    /// Waits for the end of a command that is not traced (any more), and stops when it stops.
    fn attend(self, child: Gated) -> Result<Event, CommandError> {
        let pid = child.pid;
        let waiting = |error: std::io::Error| failed("waiting for the command", &error);
        loop {
            let ended = sys::await_change(pid).map_err(waiting)?;
            if ended {
                // The main thread's affinity can be read until the command is collected, its pid used till then.
                lock(self.placement).check_repinned();
                self.jobs.pass_to(None);
            }
            match sys::wait(pid, libc::WUNTRACED).map_err(waiting)?.1 {
                Wait::Ended(status) => return Ok(Event::Ended { status, child }),
                Wait::Stopped { signal, .. } => self.jobs.stop_along(signal, || procfs::is_stopped(pid)),
            }
        }
    }
}

fn named<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> std::io::Result<()> {
    thread::Builder::new().name("cohabit-attend".to_owned()).spawn_scoped(scope, work).map(drop)
}

/// The CPU time of the calling thread: unlike the time that passes, what a look takes of the machine, however busy it
/// is.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The kernel lets traced threads go while the tracer ends; until then, waiting for the command would be tracing it.
fn await_thread_end(tid: i32) {
    while procfs::is_thread_of(std::process::id() as i32, tid) {
        thread::sleep(Duration::from_micros(50));
    }
}
