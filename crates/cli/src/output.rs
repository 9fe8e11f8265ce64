//! Everything cohabit writes to the terminal: results to standard output, errors and notes to standard error.

use anstyle::{AnsiColor, Style};
use cohabit_model::{Error, Result};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// `--quiet`.
static QUIET: AtomicBool = AtomicBool::new(false);
/// `--verbose`.
static VERBOSE: AtomicBool = AtomicBool::new(false);
/// `--color`.
static COLOUR: Mutex<clap::ColorChoice> = Mutex::new(clap::ColorChoice::Auto);

/// `--quiet`, `--verbose` and `--color`, which every command takes.
pub fn configure(quiet: bool, verbose: bool, colour: clap::ColorChoice) {
    QUIET.store(quiet, Ordering::Relaxed);
    VERBOSE.store(verbose, Ordering::Relaxed);
    *colour_choice() = colour;
}

/// Whether nothing but errors is to be told.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether every step and decision is to be told, and all listed that is only counted otherwise.
pub fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Whether what goes to standard output may be coloured.
pub fn stdout_is_coloured() -> bool {
    is_coloured(std::io::stdout().is_terminal())
}

/// Whether colours were asked for, whatever the terminal says of itself.
pub fn colours_are_forced() -> bool {
    *colour_choice() == clap::ColorChoice::Always
}

/// As `--color` says; else where there is a terminal and NO_COLOR (<https://no-color.org>) is unset or empty.
fn is_coloured(is_terminal: bool) -> bool {
    match *colour_choice() {
        clap::ColorChoice::Always => true,
        clap::ColorChoice::Never => false,
        clap::ColorChoice::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// A thread that panicked has left it whole.
fn colour_choice() -> MutexGuard<'static, clap::ColorChoice> {
    COLOUR.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes a result to standard output, whole.
///
/// # Errors
/// Where it cannot be written (a full disk behind it, say).
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Error::new(format!("cannot write to standard output: {error}")))
}

/// Writes clap's help to standard output, with its styles where a terminal shows them.
///
/// # Errors
/// As [`print`].
pub fn print_styled(text: &clap::builder::StyledStr) -> Result<()> {
    print(&if stdout_is_coloured() { text.ansi().to_string() } else { text.to_string() })
}

/// Tells an error: one line with the cause, one with the remedy.
pub fn error(error: &Error) {
    let bold =
        if is_coloured(std::io::stderr().is_terminal()) { AnsiColor::Red.on_default().bold() } else { Style::new() };
    let mut lines = format!("{bold}cohabit:{bold:#} {}\n", one_line(&error.cause));
    if let Some(remedy) = &error.remedy {
        lines.push_str(&format!("  {}\n", one_line(remedy)));
    }
    write_stderr(&lines);
}

/// Tells something worth knowing that is no error, unless `--quiet`; each line is marked as cohabit's own.
pub fn note(text: &str) {
    if is_quiet() {
        return;
    }
    let lines: String = text.lines().flat_map(|line| ["cohabit: ", line, "\n"]).collect();
    write_stderr(&lines);
}

/// Makes a write to a pipe that nobody reads end cohabit, as it ends `cat` (Rust ignores the signal at the start).
pub fn die_of_closed_pipes() {
    // SAFETY: sets the disposition of a signal for which there is no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Makes a write beyond the allowed size of files (ulimit -f) fail, so that it is told, instead of ending cohabit
/// without a word. A handler that does nothing, which programs that are started do not inherit: they are ended as ever.
pub fn outlive_file_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: sets a disposition before any other thread exists; the handler touches nothing.
    unsafe {
        if libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) == libc::SIG_IGN {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// A standard error that is closed or full is no reason to fail: there is nobody left to tell.
fn write_stderr(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap_or_default();
}

/// Control characters (a file name may hold them) must not reach the terminal, nor break a line in two.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_error_stays_on_its_line() {
        assert_eq!(super::one_line("a\nb\x1b[31m"), "a b [31m");
    }
}
