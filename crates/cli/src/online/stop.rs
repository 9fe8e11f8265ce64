//! Ctrl-C and its like end a session in order: everything is put back first.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

/// A flag that becomes true when this process is asked to end. For commands that run no program.
pub fn until_signalled() -> &'static AtomicBool {
    extern "C" fn asked(_: i32) {
        STOP.store(true, Ordering::SeqCst);
    }
    // Without SA_RESTART: a sleep ends at once.
    let action = SigAction::new(SigHandler::Handler(asked), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: the handler sets a flag and does nothing else.
        let _ = unsafe { sigaction(signal, &action) };
    }
    &STOP
}
