//! Signals and stops pass between the terminal, cohabit and the command as if cohabit were not there.
//!
//! Both are in one process group. What the terminal sends (Ctrl-C, Ctrl-\, Ctrl-Z) the command gets by itself: cohabit
//! only has to outlive it, and to stop when the command stops, so that the shell takes the terminal back. What
//! somebody sends to cohabit alone is passed on. A signal sent by `kill` to the whole group therefore reaches the
//! command twice, which is what `timeout --foreground` does too.

use cohabit_host::signals::Target;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// What is passed on. Those without a handler here (SIGSEGV and the like) mean cohabit itself.
const PASSED: [Signal; 18] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
    Signal::SIGTERM,
    Signal::SIGWINCH,
    Signal::SIGIO,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCONT,
];

/// How long the command is given to be continued by the same signal to the group as we were.
const CONTINUED_WITHIN_MS: u32 = 50;

/// Whether a launch has its handlers installed: a process has one set of them.
static OWNED: AtomicBool = AtomicBool::new(false);
/// The command.
static TARGET: Target = Target::new();
/// Somebody asked for a stop since the last one.
static STOP_ASKED: AtomicBool = AtomicBool::new(false);
/// We were continued since the last stop.
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// Passes signals on while it lives; puts the former handlers back when dropped.
pub(crate) struct JobControl {
    former: Vec<(Signal, SigAction)>,
}

impl JobControl {
    /// Changes nothing: signals take their own way.
    pub(crate) fn absent() -> Self {
        Self { former: Vec::new() }
    }

    /// Installs the handlers; none when another launch of this process has them. Ignored signals (`nohup`) stay
    /// ignored, by us and by the command.
    pub(crate) fn install() -> Option<Self> {
        if OWNED.swap(true, SeqCst) {
            return None;
        }
        STOP_ASKED.store(false, SeqCst);
        TARGET.forget();
        let passing = passing_action();
        let mut former = Vec::new();
        for signal in PASSED {
            // SAFETY: the handler does only what is safe in a handler, see there.
            let Ok(old) = (unsafe { sigaction(signal, &passing) }) else { continue };
            if matches!(old.handler(), SigHandler::SigIgn) {
                // SAFETY: puts back what was there.
                let _ = unsafe { sigaction(signal, &old) };
            } else {
                former.push((signal, old));
            }
        }
        Some(Self { former })
    }

    /// Names the command that signals are passed to; none once it has ended.
    pub(crate) fn pass_to(&self, command: Option<i32>) {
        if self.former.is_empty() {
            return;
        }
        match command {
            Some(pid) => TARGET.name(pid, self.former.iter().map(|former| former.0)),
            None => TARGET.forget(),
        }
    }

    /// The command has stopped: stops this process as well where that is the terminal's doing, and comes back when
    /// both go on. Should only cohabit have been continued, the command `is_still_stopped` and is continued too.
    ///
    /// A plain SIGSTOP to the command does not stop cohabit: nobody might think of continuing it.
    pub(crate) fn stop_along(&self, signal: i32, is_still_stopped: impl Fn() -> bool) {
        let asked = STOP_ASKED.swap(false, SeqCst);
        let signal = match Signal::try_from(signal) {
            Ok(Signal::SIGSTOP) if asked => Signal::SIGTSTP,
            Ok(signal @ (Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU)) => signal,
            _ => return,
        };
        if !self.former.iter().any(|&(installed, _)| installed == signal) {
            return;
        }
        CONTINUED.store(false, SeqCst);
        let stopping = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler. Raised in this thread, the signal stops the process before `raise` returns.
        let _ = unsafe { sigaction(signal, &stopping) };
        let _ = nix::sys::signal::raise(signal);
        // SAFETY: as at installation.
        let _ = unsafe { sigaction(signal, &passing_action()) };
        if !CONTINUED.load(SeqCst) {
            return;
        }
        for _ in 0..CONTINUED_WITHIN_MS {
            if !is_still_stopped() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        TARGET.send(libc::SIGCONT);
    }
}

impl Drop for JobControl {
    fn drop(&mut self) {
        if self.former.is_empty() {
            return;
        }
        TARGET.forget();
        for (signal, former) in &self.former {
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(*signal, former) };
        }
        OWNED.store(false, SeqCst);
    }
}

fn passing_action() -> SigAction {
    SigAction::new(SigHandler::SigAction(pass), SaFlags::SA_RESTART, SigSet::empty())
}

/// The handler: atomics and what [`Target::pass`] does, both allowed in one.
extern "C" fn pass(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    match signal {
        libc::SIGTSTP => STOP_ASKED.store(true, SeqCst),
        libc::SIGCONT => return CONTINUED.store(true, SeqCst),
        _ => {}
    }
    // SAFETY: the kernel's.
    unsafe { TARGET.pass(signal, info) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_signal_that_comes_before_the_command_is_there_is_passed_on_to_it() {
        let jobs = JobControl::install().expect("no other test here passes signals on");
        nix::sys::signal::raise(Signal::SIGUSR2).unwrap();
        let mut command = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        jobs.pass_to(Some(command.id() as i32));
        assert_eq!(command.wait().unwrap().signal(), Some(Signal::SIGUSR2 as i32));
    }
}
