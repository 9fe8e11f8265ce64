//! Sees each thread before its first instruction: ptrace(2), attached by PTRACE_SEIZE.
//!
//! The threads run undisturbed but for stops at clone, fork, exec and signals. Signals are delivered as they came, and
//! group-stops are left to last until SIGCONT (PTRACE_LISTEN), so that job control works as it does without us.
//!
//! The tracer is a thread of its own. It goes on when the plan has been carried out, since what a placed thread starts
//! inherits its PUs, and ends where that becomes too much (`SPARE_STOPS`): the kernel then lets every traced
//! thread go at once, without stopping any. If all of cohabit dies, the same happens and the program runs on.
//! A process that a planned one starts, and that cannot be of the plan, is let go before its first instruction.

use super::job_control::JobControl;
use super::placement::Placement;
use super::sys::{self, Wait};
use super::{lock, procfs};
use cohabit_model::command::gained_privilege;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

/// What the traced threads stop at.
pub(crate) const OPTIONS: i32 =
    libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACEEXEC;

/// Stops that are answered after the plan has been carried out; a stop takes some ten microseconds.
const SPARE_STOPS: u32 = 10_000;

/// How tracing came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceEnd {
    /// Every planned thread has been placed. The command runs.
    PlanComplete,
    /// The command has ended, with this wait status.
    CommandEnded(i32),
}

/// The calling thread as tracer of everything that comes from the command.
pub(crate) struct Tracer<'a> {
    command: i32,
    placement: &'a Mutex<Placement>,
    jobs: &'a JobControl,
    /// New threads that have stopped, by what signal, and whose creator's report is still to come.
    arrived: HashMap<i32, i32>,
    /// New threads that their creators have reported and that are still to stop.
    awaited: HashSet<i32>,
    /// Those of them that are to be let go.
    dismissed: HashSet<i32>,
}

impl<'a> Tracer<'a> {
    /// The calling thread must have seized `command` with [`OPTIONS`].
    pub(crate) fn new(command: i32, placement: &'a Mutex<Placement>, jobs: &'a JobControl) -> Self {
        Self { command, placement, jobs, arrived: HashMap::new(), awaited: HashSet::new(), dismissed: HashSet::new() }
    }

    /// Follows the program until the command has ended, or it would cost too much.
    pub(crate) fn follow(&mut self) -> io::Result<TraceEnd> {
        let mut spare = SPARE_STOPS;
        loop {
            if sys::await_any(self.command)? {
                // The main thread's affinity can be read until the command is collected.
                lock(self.placement).check_repinned();
            }
            let (tid, change) = sys::wait(-1, libc::__WALL | libc::__WNOTHREAD)?;
            match change {
                Wait::Ended(status) if tid == self.command => return Ok(TraceEnd::CommandEnded(status)),
                Wait::Ended(_) => self.ended(tid),
                Wait::Stopped { signal, event } => self.stopped(tid, signal, event),
            }
            if lock(self.placement).census.is_complete() {
                spare -= 1;
                if spare == 0 {
                    return Ok(TraceEnd::PlanComplete);
                }
            }
        }
    }

    /// Errors of requests are ignored here and below: they say that the thread has been killed, which wait reports.
    fn stopped(&mut self, tid: i32, signal: i32, event: i32) {
        match event {
            0 => {
                let _ = sys::resume(tid, signal);
            }
            libc::PTRACE_EVENT_STOP => self.trapped(tid, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                if let Ok(new) = sys::event_message(tid) {
                    self.created(tid, new);
                }
                let _ = sys::resume(tid, 0);
            }
            libc::PTRACE_EVENT_EXEC => {
                let former = sys::event_message(tid).unwrap_or(tid);
                let mut placement = lock(self.placement);
                placement.executed(former, tid);
                placement.deprived.extend(deprived(tid));
                drop(placement);
                let _ = sys::resume(tid, 0);
            }
            _ => {
                let _ = sys::resume(tid, 0);
            }
        }
    }

    /// The first stop of a new thread, or the begin or end of a group-stop.
    fn trapped(&mut self, tid: i32, signal: i32) {
        let known = lock(self.placement).census.thread(tid).is_some();
        if !known {
            self.arrived.insert(tid, signal);
            return;
        }
        self.awaited.remove(&tid);
        if self.dismissed.remove(&tid) {
            self.dismiss(tid);
            return;
        }
        let stops = is_stop(signal);
        let_go(tid, signal);
        if stops && tid == self.command {
            self.jobs.stop_along(signal, || !sys::has_change(tid));
        }
    }

    /// Thread `creator` has created `new`, which cannot run before its first stop has been answered.
    fn created(&mut self, creator: i32, new: i32) {
        let mut placement = lock(self.placement);
        let mut dismissed = false;
        match placement.census.pid_of(creator) {
            Some(pid) if procfs::is_thread_of(pid, new) => placement.thread_started(Some(creator), pid, new),
            _ => {
                placement.process_started(Some(creator), new);
                dismissed = placement.census.is_nobody(new) && !placement.census.expects_processes(creator);
            }
        }
        drop(placement);
        match self.arrived.remove(&new) {
            Some(_) if dismissed => self.dismiss(new),
            Some(signal) => let_go(new, signal),
            None => {
                self.awaited.insert(new);
                if dismissed {
                    self.dismissed.insert(new);
                }
            }
        }
    }

    /// Traces a new process no more: nothing of the plan can come from it, and it keeps all its rights.
    fn dismiss(&mut self, pid: i32) {
        let _ = sys::detach(pid);
        lock(self.placement).forget(pid);
    }

    fn ended(&mut self, tid: i32) {
        self.arrived.remove(&tid);
        self.awaited.remove(&tid);
        self.dismissed.remove(&tid);
        lock(self.placement).ended(tid);
        self.release_orphans();
    }

    /// A creator that is killed never reports what it has created: nobody else would let those threads go.
    fn release_orphans(&mut self) {
        let mut orphans: Vec<i32> = self.arrived.keys().copied().collect();
        orphans.sort_unstable();
        for tid in orphans {
            let mut placement = lock(self.placement);
            let has_creator = procfs::process_and_parent(tid).is_some_and(|(pid, parent)| {
                let creator = if pid == tid { parent } else { pid };
                placement.census.knows_process(creator)
            });
            if !has_creator {
                placement.process_started(None, tid);
                drop(placement);
                let_go(tid, self.arrived.remove(&tid).unwrap_or(libc::SIGTRAP));
            }
        }
    }
}

/// The program that a thread has just executed, when it is meant to run with other rights: traced by anyone but root,
/// it does not get them.
fn deprived(tid: i32) -> Option<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return None;
    }
    std::fs::read_link(format!("/proc/{tid}/exe")).ok().filter(|path| gained_privilege(path).is_some())
}

fn is_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

/// Answers a PTRACE_EVENT_STOP: a group-stop lasts, anything else is over.
fn let_go(tid: i32, signal: i32) {
    let _ = if is_stop(signal) { sys::listen(tid) } else { sys::resume(tid, 0) };
}
