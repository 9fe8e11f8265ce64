//! The few system calls that `nix` cannot make here: its signals end before the real-time ones, which the C library
//! itself uses, and it has no PTRACE_LISTEN.

use std::io;

/// What `waitpid(2)` tells of a process or thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It ended: the raw wait status.
    Ended(i32),
    /// It stopped: the signal, and the `PTRACE_EVENT_` number or 0.
    Stopped { signal: i32, event: i32 },
}

impl Wait {
    fn of(status: i32) -> Self {
        if libc::WIFSTOPPED(status) {
            Self::Stopped { signal: libc::WSTOPSIG(status), event: status >> 16 }
        } else {
            Self::Ended(status)
        }
    }
}

/// `waitpid(2)`, begun again after signals.
pub(crate) fn wait(pid: i32, options: i32) -> io::Result<(i32, Wait)> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one int.
        let pid = unsafe { libc::waitpid(pid, &mut status, options) };
        if pid >= 0 {
            return Ok((pid, Wait::of(status)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// `waitid(2)` that leaves the change for [`wait`] to collect; the `CLD_` code, or 0 where nothing has changed.
fn peek(pid: i32, options: i32) -> io::Result<i32> {
    peek_at(libc::P_PID, pid, options).map(|(_, code)| code)
}

/// Waits until any traced thread has something to report, without collecting it; whether that is the end of process
/// `pid`.
pub(crate) fn await_any(pid: i32) -> io::Result<bool> {
    let (found, code) = peek_at(libc::P_ALL, 0, libc::__WALL | libc::__WNOTHREAD)?;
    Ok(found == pid && matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED))
}

/// The process or thread that has changed, and the `CLD_` code; 0 and 0 where nothing has.
fn peek_at(which: libc::idtype_t, pid: i32, options: i32) -> io::Result<(i32, i32)> {
    loop {
        // SAFETY: siginfo_t is plain data, for which zeroes are a value; the kernel fills it.
        let (result, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = options | libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
            (libc::waitid(which, pid as libc::id_t, &mut info, options), info)
        };
        if result == 0 {
            // SAFETY: the kernel has filled in a child's change, or left zeroes.
            return Ok((unsafe { info.si_pid() }, info.si_code));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits until the child has ended or stopped, without collecting it; whether it has ended.
pub(crate) fn await_change(pid: i32) -> io::Result<bool> {
    Ok(!matches!(peek(pid, 0)?, libc::CLD_STOPPED | libc::CLD_TRAPPED))
}

/// Whether a traced thread has something to report.
pub(crate) fn has_change(tid: i32) -> bool {
    peek(tid, libc::WNOHANG | libc::__WALL).is_ok_and(|code| code != 0)
}

/// A ptrace request whose address is 0.
fn ptrace(request: libc::c_uint, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: the requests made here take `data` by value, or as the address of a c_ulong that outlives the call.
    let result = unsafe { libc::ptrace(request, tid, 0usize, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Traces the thread without stopping it; what it creates is traced with the same options.
pub(crate) fn seize(tid: i32, options: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, options as usize)
}

/// Lets a stopped thread run on, and delivers the signal (0: none).
pub(crate) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, tid, signal as usize)
}

/// Traces a stopped thread no more; it goes on, or stays in a group-stop.
pub(crate) fn detach(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, tid, 0)
}

/// Whether a thread is scheduled by SCHED_DEADLINE; not where that cannot be known.
pub(crate) fn is_deadline(tid: i32) -> bool {
    // SAFETY: takes a number, gives a number.
    let policy = unsafe { libc::sched_getscheduler(tid) };
    policy >= 0 && policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_DEADLINE
}

/// Leaves a thread in its group-stop until SIGCONT, as it would be without us.
pub(crate) fn listen(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, tid, 0)
}

/// The number that goes with a `PTRACE_EVENT_` stop: of the new thread, or the former one of exec.
pub(crate) fn event_message(tid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, &raw mut message as usize)?;
    Ok(message as i32)
}

/// The calling thread's id.
pub(crate) fn own_tid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}
