//! How cohabit ends: its own exit statuses are those of timeout(1) and env(1), and a program's own passes through.

use cohabit_model::Error;
use cohabit_model::command::CommandError;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// Failure, where no program runs.
pub const FAILURE: u8 = 1;
/// Wrong usage, where no program runs.
pub const USAGE: u8 = 2;
/// cohabit itself failed, where a program runs: the program's own statuses stay apart from it.
pub const COHABIT_FAILED: u8 = 125;
/// The program is there and cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// There is no such program.
pub const NOT_FOUND: u8 = 127;

/// How a command ended when nothing went wrong with cohabit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It did what it was asked to.
    Done,
    /// The program it ran exited with this status.
    Exited(u8),
    /// The program it ran was killed by this signal.
    Killed(i32),
}

/// What went wrong, and whose doing it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the user is told.
    pub error: Error,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Usage,
    Failed,
    CannotRun,
    NotFound,
    Killed(i32),
}

impl Failure {
    /// The command line is wrong.
    pub fn usage(error: Error) -> Self {
        Self { error, kind: Kind::Usage }
    }

    /// The exit status to end with.
    pub fn status(&self, runs_program: bool) -> u8 {
        match self.kind {
            Kind::CannotRun => CANNOT_RUN,
            Kind::NotFound => NOT_FOUND,
            Kind::Killed(signal) => u8::try_from(128 + signal).unwrap_or(COHABIT_FAILED),
            Kind::Usage | Kind::Failed if runs_program => COHABIT_FAILED,
            Kind::Usage => USAGE,
            Kind::Failed => FAILURE,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, kind: Kind::Failed }
    }
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NotFound(error) => Self { error, kind: Kind::NotFound },
            CommandError::CannotRun(error) => Self { error, kind: Kind::CannotRun },
            CommandError::Failed(error) => error.into(),
            CommandError::Killed(signal, error) => Self { error, kind: Kind::Killed(signal) },
        }
    }
}

impl End {
    /// As a program that was waited for ended.
    pub fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            // A status is a byte: waitpid(2) gives no more of it.
            (Some(code), _) => End::Exited((code & 0xff) as u8),
            (None, signal) => End::Killed(signal.unwrap_or(libc::SIGKILL)),
        }
    }

    /// Ends cohabit as the program ended: with its status, or killed by its signal.
    pub fn exit(self) -> ExitCode {
        match self {
            End::Done => ExitCode::SUCCESS,
            End::Exited(status) => ExitCode::from(status),
            End::Killed(signal) => die_of(signal),
        }
    }
}

/// Dies of the signal that the program died of, so that a shell sees the same; without a second core dump.
fn die_of(signal: i32) -> ExitCode {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on this process; `set` lives through the calls that take its address.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
    // The signal did not kill (one that is ignored by default): what a shell reports for a signalled program.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(COHABIT_FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_timeout_and_env() {
        let error = || Error::new("x");
        let rows = [
            (Failure::usage(error()), 2, 125),
            (Failure::from(error()), 1, 125),
            (Failure::from(CommandError::CannotRun(error())), 126, 126),
            (Failure::from(CommandError::NotFound(error())), 127, 127),
            (Failure::from(CommandError::Killed(libc::SIGTERM, error())), 143, 143),
        ];
        for (failure, alone, with_program) in rows {
            assert_eq!((failure.status(false), failure.status(true)), (alone, with_program), "{failure:?}");
        }
    }
}
