//! Starts the command in two steps: first a process that waits, which can be traced and placed, then the program in it.

use super::program::{Program, SHELL};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

/// A child that waits to become the program.
pub(crate) struct Gated {
    pub(crate) pid: i32,
    /// Ours to the child: a byte opens the gate; the child answers with the errno of an execve that failed.
    channel: UnixStream,
}

impl Gated {
    /// Forks. The child is in our process group, with our streams, limits and affinity, and with our environment but
    /// for the variables that are named here.
    pub(crate) fn new(program: &Program, variables: &[(String, OsString)]) -> io::Result<Self> {
        let environment = environment(variables);
        let environment = pointers(&environment);
        let arguments = pointers(&program.arguments);
        let shell_arguments = program.shell_arguments.as_deref().map(pointers);
        // Both ends are closed on exec.
        let (ours, theirs) = UnixStream::pair()?;
        let mut before = SigSet::empty();
        // A signal between fork and exec is to meet the dispositions of the program, not our handlers.
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), Some(&mut before))?;
        // SAFETY: the child makes system calls on memory prepared here and nothing else, so that it does not matter
        // which locks other threads held.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: in the forked child, with both strings and arrays prepared above.
            unsafe {
                libc::close(ours.as_raw_fd());
                prepare_signals(&before);
                await_gate(theirs.as_raw_fd());
                libc::execve(program.c_path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
                let mut errno = *libc::__errno_location();
                if let (libc::ENOEXEC, Some(arguments)) = (errno, &shell_arguments) {
                    libc::execve(SHELL.as_ptr(), arguments.as_ptr(), environment.as_ptr());
                    errno = *libc::__errno_location();
                }
                libc::write(theirs.as_raw_fd(), (&raw const errno).cast(), size_of::<i32>());
                libc::_exit(127);
            }
        }
        let error = io::Error::last_os_error();
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
        if pid < 0 { Err(error) } else { Ok(Self { pid, channel: ours }) }
    }

    /// Lets the child go on to the program.
    pub(crate) fn open(&mut self) {
        // A child that was killed meanwhile is found by wait.
        let _ = self.channel.write_all(&[1]);
    }

    /// After the child has ended: why the program did not start, if it did not.
    pub(crate) fn exec_error(mut self) -> Option<i32> {
        let mut bytes = [0; size_of::<i32>()];
        self.channel.set_nonblocking(true).ok()?;
        self.channel.read_exact(&mut bytes).ok()?;
        Some(i32::from_ne_bytes(bytes))
    }
}

/// Our environment with these variables instead of those of the same names.
fn environment(variables: &[(String, OsString)]) -> Vec<CString> {
    let ours = std::env::vars_os().filter(|(name, _)| !variables.iter().any(|(other, _)| name == other.as_str()));
    let theirs = variables.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    let assignment = |(name, value): (OsString, OsString)| {
        // Neither holds a zero byte: they come from such strings.
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    ours.chain(theirs).filter_map(assignment).collect()
}

/// The null-terminated array that execve takes; valid as long as the strings are.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let strings = strings.iter().map(|string| CStr::as_ptr(string));
    strings.chain([std::ptr::null()]).collect()
}

/// Every handler of ours back to the default, then `mask` as it was before us. Ignored signals stay ignored, all but
/// SIGPIPE, which the Rust runtime ignores on its own account.
///
/// # Safety
/// Only for a forked child before exec.
unsafe fn prepare_signals(mask: &SigSet) {
    // SAFETY: sigaction structures are plain data; the kernel refuses numbers that are no signals or not ours to set.
    unsafe {
        for signal in 1..=64 {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) != 0 {
                continue;
            }
            if action.sa_sigaction != libc::SIG_IGN || signal == libc::SIGPIPE {
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
        libc::sigprocmask(libc::SIG_SETMASK, mask.as_ref(), std::ptr::null_mut());
    }
}

/// Waits for the byte; ends the child when cohabit is gone instead.
///
/// # Safety
/// Only for a forked child before exec.
unsafe fn await_gate(channel: i32) {
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte into a byte; errno is the thread's own.
        let (count, errno) = unsafe { (libc::read(channel, (&raw mut byte).cast(), 1), *libc::__errno_location()) };
        match count {
            1 => return,
            -1 if errno == libc::EINTR => {}
            // SAFETY: does not return.
            _ => unsafe { libc::_exit(125) },
        }
    }
}
