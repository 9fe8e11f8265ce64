//! Signals while a program runs: as a shell's `time` does, this process outlives what the terminal sends to both, and
//! passes on what is sent to it alone. Ctrl-Z stops both, since both are in one process group.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

const PASSED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// Whether handlers are installed: a process has one set of them.
static OWNED: AtomicBool = AtomicBool::new(false);
static TARGET: Target = Target::new();

/// Whom signals are passed on to, by handlers. Those that come before it is there it gets as soon as it is.
pub struct Target {
    /// The process, 0 for none.
    pid: AtomicI32,
    /// Signals that came before it was there, a bit for each.
    early: AtomicU64,
}

impl Target {
    /// Nobody yet.
    #[allow(clippy::new_without_default)] // for statics
    pub const fn new() -> Self {
        Self { pid: AtomicI32::new(0), early: AtomicU64::new(0) }
    }

    /// Names the process, which gets those of the `passed` signals that came before.
    pub fn name(&self, pid: i32, passed: impl Iterator<Item = Signal>) {
        self.pid.store(pid, SeqCst);
        let early = self.early.swap(0, SeqCst);
        passed.filter(|signal| early & bit(*signal as i32) != 0).for_each(|signal| self.send(signal as i32));
    }

    /// Nobody again: it has ended.
    pub fn forget(&self) {
        self.pid.store(0, SeqCst);
        self.early.store(0, SeqCst);
    }

    /// Passes a signal on, unless the terminal has sent it to the process as well. As a handler may: atomics and
    /// kill(2).
    ///
    /// # Safety
    /// `info` is what the kernel gave the handler.
    pub unsafe fn pass(&self, signal: i32, info: *const libc::siginfo_t) {
        let target = self.pid.load(SeqCst);
        // SAFETY: codes up to 0 say that a process sent the signal, and so that the number of one is there.
        let from_another_process = unsafe { (*info).si_code <= 0 && (*info).si_pid() != target };
        if target == 0 {
            // From the terminal, too: the process is not there to have got it.
            self.early.fetch_or(bit(signal), SeqCst);
            // Named by another thread just now, it may have got those before this one.
            if self.pid.load(SeqCst) != 0 && self.early.fetch_and(!bit(signal), SeqCst) & bit(signal) != 0 {
                self.send(signal);
            }
        } else if from_another_process {
            self.send(signal);
        }
    }

    /// Sends a signal, if there is somebody. As a handler may: errno is kept.
    pub fn send(&self, signal: i32) {
        let pid = self.pid.load(SeqCst);
        if pid > 0 {
            // SAFETY: passes two integers; a pid above 0 is one process. The thread's own errno.
            unsafe {
                let errno = *libc::__errno_location();
                libc::kill(pid, signal);
                *libc::__errno_location() = errno;
            }
        }
    }
}

fn bit(signal: i32) -> u64 {
    1 << signal
}

/// Passes signals on while it lives; puts the former handlers back when dropped.
pub struct Passing {
    former: Vec<(Signal, SigAction)>,
}

impl Passing {
    /// Installs the handlers, unless another run of this process has. Signals that are ignored (`nohup`) stay so.
    pub fn install() -> Self {
        let mut passing = Self { former: Vec::new() };
        if OWNED.swap(true, SeqCst) {
            return passing;
        }
        let action = SigAction::new(SigHandler::SigAction(pass), SaFlags::SA_RESTART, SigSet::empty());
        for signal in PASSED {
            // SAFETY: the handler only uses atomics and kill(2), which a handler may.
            let Ok(former) = (unsafe { sigaction(signal, &action) }) else { continue };
            if matches!(former.handler(), SigHandler::SigIgn) {
                // SAFETY: puts back what was there.
                let _ = unsafe { sigaction(signal, &former) };
            } else {
                passing.former.push((signal, former));
            }
        }
        passing
    }

    /// Names the program.
    pub fn to(&self, pid: u32) {
        if self.former.is_empty() {
            return;
        }
        TARGET.name(pid as i32, self.former.iter().map(|former| former.0));
    }
}

impl Drop for Passing {
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

extern "C" fn pass(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's.
    unsafe { TARGET.pass(signal, info) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_signal_that_comes_before_the_program_is_there_is_passed_on_to_it() {
        let passing = Passing::install();
        assert!(!passing.former.is_empty(), "no other test here passes signals on");
        nix::sys::signal::raise(Signal::SIGUSR2).unwrap();
        let mut program = Command::new("sleep").arg("60").spawn().unwrap();
        passing.to(program.id());
        assert_eq!(program.wait().unwrap().signal(), Some(Signal::SIGUSR2 as i32));
    }
}
