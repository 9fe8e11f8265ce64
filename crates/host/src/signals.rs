//! Signals while a program runs: as a shell's `time` does, this process outlives what the terminal sends to both, and
//! passes on what is sent to it alone. Ctrl-Z stops both, since both are in one process group.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

const PASSED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// Whether handlers are installed: a process has one set of them.
static OWNED: AtomicBool = AtomicBool::new(false);
/// The program, 0 for none.
static TARGET: AtomicI32 = AtomicI32::new(0);
/// Signals that came before the program was there, a bit for each: it gets them as soon as it is.
static EARLY: AtomicU64 = AtomicU64::new(0);

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
        TARGET.store(pid as i32, SeqCst);
        let early = EARLY.swap(0, SeqCst);
        for (signal, _) in self.former.iter().filter(|(signal, _)| early & bit(*signal as i32) != 0) {
            // One that has ended in the meantime needs none.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), *signal);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.former.is_empty() {
            return;
        }
        TARGET.store(0, SeqCst);
        EARLY.store(0, SeqCst);
        for (signal, former) in &self.former {
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(*signal, former) };
        }
        OWNED.store(false, SeqCst);
    }
}

fn bit(signal: i32) -> u64 {
    1 << signal
}

extern "C" fn pass(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let target = TARGET.load(SeqCst);
    // SAFETY: the kernel passes a valid siginfo_t, and codes up to 0 say that a process sent the signal.
    let from_another_process = unsafe { (*info).si_code <= 0 && (*info).si_pid() != target };
    if target == 0 {
        // From the terminal, too: the program is not there to have got it.
        EARLY.fetch_or(bit(signal), SeqCst);
        // Named by another thread just now, it may have got those before this one.
        let target = TARGET.load(SeqCst);
        if target != 0 && EARLY.fetch_and(!bit(signal), SeqCst) & bit(signal) != 0 {
            send(target, signal);
        }
    } else if from_another_process {
        send(target, signal);
    }
}

fn send(target: i32, signal: i32) {
    // SAFETY: the thread's own errno is kept; the call takes two integers.
    unsafe {
        let errno = *libc::__errno_location();
        libc::kill(target, signal);
        *libc::__errno_location() = errno;
    }
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
