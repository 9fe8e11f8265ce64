//! Signals while a program runs: as a shell's `time` does, this process outlives what the terminal sends to both, and
//! passes on what is sent to it alone. Ctrl-Z stops both, since both are in one process group.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

const PASSED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// Whether handlers are installed: a process has one set of them.
static OWNED: AtomicBool = AtomicBool::new(false);
/// The program, 0 for none.
static TARGET: AtomicI32 = AtomicI32::new(0);

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
        if !self.former.is_empty() {
            TARGET.store(pid as i32, SeqCst);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.former.is_empty() {
            return;
        }
        TARGET.store(0, SeqCst);
        for (signal, former) in &self.former {
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(*signal, former) };
        }
        OWNED.store(false, SeqCst);
    }
}

extern "C" fn pass(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let target = TARGET.load(SeqCst);
    // SAFETY: the kernel passes a valid siginfo_t, and codes up to 0 say that a process sent the signal.
    let from_another_process = unsafe { (*info).si_code <= 0 && (*info).si_pid() != target };
    if target > 0 && from_another_process {
        // SAFETY: the thread's own errno is kept; the call takes two integers.
        unsafe {
            let errno = *libc::__errno_location();
            libc::kill(target, signal);
            *libc::__errno_location() = errno;
        }
    }
}
