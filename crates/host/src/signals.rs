//! Signals while a program runs: as a shell's `time` does, this process outlives what the terminal sends to both, and
//! passes on what is sent to it alone. Ctrl-Z stops both, since both are in one process group.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PASSED: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2];

/// What the kernel calls.
type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Whether handlers are installed: a process has one set of them.
static OWNED: AtomicBool = AtomicBool::new(false);
static TARGET: Target = Target::new();
/// Whether a signal has come since handlers were installed.
static CAME: AtomicBool = AtomicBool::new(false);
/// Until when signals are still those that the program was sent, in ns of the monotonic clock; 0: there was none.
static MEANT_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Whoever signals a program twice (timeout(1) does, and an impatient hand) does so within this time.
const REPEATED: Duration = Duration::from_secs(1);

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

/// Passes signals on while it lives; puts the former handlers back when dropped. Where a signal has come that may have
/// ended the program, another within a second is still meant for that, and would end this process before it has written
/// what the program leaves: until then it is dropped, and from then on each does what it does by default.
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
        MEANT_UNTIL.store(0, SeqCst);
        CAME.store(false, SeqCst);
        let action = SigAction::new(SigHandler::SigAction(pass), SaFlags::SA_RESTART, SigSet::empty());
        for signal in PASSED {
            // SAFETY: the handler only uses atomics and kill(2), which a handler may.
            let Ok(former) = (unsafe { sigaction(signal, &action) }) else { continue };
            // Of a run before this one.
            let is_ours =
                matches!(former.handler(), SigHandler::SigAction(of) if std::ptr::fn_addr_eq(of, pass as Handler));
            let former = if is_ours { by_default() } else { former };
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
        if CAME.load(SeqCst) {
            MEANT_UNTIL.store(now_ns() + REPEATED.as_nanos() as u64, SeqCst);
        }
        TARGET.forget();
        for (signal, former) in &self.former {
            if CAME.load(SeqCst) && matches!(former.handler(), SigHandler::SigDfl) {
                continue;
            }
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(*signal, former) };
        }
        OWNED.store(false, SeqCst);
    }
}

/// What a signal does where nobody has said otherwise.
fn by_default() -> SigAction {
    SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty())
}

fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

extern "C" fn pass(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CAME.store(true, SeqCst);
    match MEANT_UNTIL.load(SeqCst) {
        0 => {}
        until if now_ns() < until => return,
        _ => {
            // It comes again when this handler returns.
            // SAFETY: sigaction(2) and raise(3), which a handler may call.
            unsafe {
                let errno = *libc::__errno_location();
                if let Ok(signal) = Signal::try_from(signal) {
                    let _ = sigaction(signal, &by_default());
                }
                libc::raise(signal);
                *libc::__errno_location() = errno;
            }
            return;
        }
    }
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

        // It is sent again: that this process does not end is the test.
        drop(passing);
        nix::sys::signal::raise(Signal::SIGUSR2).unwrap();
        // Much later it means this process.
        MEANT_UNTIL.store(1, SeqCst);
        // SAFETY: the child calls nothing but raise(3) and _exit(2).
        let child = match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                // SAFETY: both may be called after fork.
                unsafe {
                    libc::raise(libc::SIGUSR2);
                    libc::_exit(0)
                }
            }
            nix::unistd::ForkResult::Parent { child } => child,
        };
        let status = nix::sys::wait::waitpid(child, None).unwrap();
        assert!(matches!(status, nix::sys::wait::WaitStatus::Signaled(_, Signal::SIGUSR2, _)), "{status:?}");
        // Another run begins as the first did, and without a signal all is as it was before.
        MEANT_UNTIL.store(0, SeqCst);
        drop(Passing::install());
        // SAFETY: asks alone.
        let now = unsafe { sigaction(Signal::SIGUSR1, &by_default()) }.unwrap();
        assert!(matches!(now.handler(), SigHandler::SigDfl));
    }
}
