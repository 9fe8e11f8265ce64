//! Ctrl-C and its like end a session in order: everything is put back first.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);
/// The first signal that asked.
static BY: AtomicI32 = AtomicI32::new(0);

/// The signal that has asked this process to end, if one has.
pub fn asked_by() -> Option<i32> {
    Some(BY.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
}

/// A flag that becomes true when this process is asked to end, from now on until it has ended: who asks twice does not
/// stop it from putting everything back. Signals that are ignored (nohup) stay so. Where a program is run, those that
/// come while it runs are its own, and the others are for this.
pub fn until_signalled() -> &'static AtomicBool {
    extern "C" fn asked(signal: i32) {
        let _ = BY.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        STOP.store(true, Ordering::SeqCst);
    }
    // Without SA_RESTART: a sleep ends at once.
    let action = SigAction::new(SigHandler::Handler(asked), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the handler uses atomics and does nothing else.
        let Ok(former) = (unsafe { sigaction(signal, &action) }) else { continue };
        if matches!(former.handler(), SigHandler::SigIgn) {
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(signal, &former) };
        }
    }
    &STOP
}
