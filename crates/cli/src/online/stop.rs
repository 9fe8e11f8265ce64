//! Ctrl-C and its like end a session in order: everything is put back first.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// The first signal that asked.
static BY: AtomicI32 = AtomicI32::new(0);

/// What ends a process that does not catch it (signal(7)), beside the real-time signals: batch systems warn with any of
/// these before they kill. Not those that say that cohabit itself does what cannot be gone on from (SIGSEGV and the
/// like), nor SIGXFSZ, after which it goes on.
const ASKING: [i32; 16] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGPIPE,
    libc::SIGABRT,
    libc::SIGTRAP,
];

/// The signal that has asked this process to end, if one has.
pub fn asked_by() -> Option<i32> {
    Some(BY.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
}

/// A flag that becomes true when this process is asked to end, from now on until it has ended: who asks twice does not
/// stop it from putting everything back. Signals that are ignored (nohup) stay so. Where a program is run, those that
/// come while it runs are its own, and the others are for this.
pub fn until_signalled() -> &'static AtomicBool {
    for signal in ASKING.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
        catch(signal);
    }
    &STOP
}

/// Has a signal ask, unless it is ignored.
fn catch(signal: i32) {
    extern "C" fn asked(signal: i32) {
        let _ = BY.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        STOP.store(true, Ordering::SeqCst);
    }
    // Without SA_RESTART: a sleep ends at once.
    let action: libc::sigaction = SigAction::new(SigHandler::Handler(asked), SaFlags::empty(), SigSet::empty()).into();
    // SAFETY: the structures are whole, and the handler uses atomics and does nothing else.
    unsafe {
        let mut former: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, &action, &mut former) == 0 && former.sa_sigaction == libc::SIG_IGN {
            libc::sigaction(signal, &former, std::ptr::null_mut());
        }
    }
}
