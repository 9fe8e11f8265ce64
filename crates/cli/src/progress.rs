//! Progress of whatever takes more than two seconds: on standard error, and only where that is a terminal.

use crate::output::is_quiet;
use cohabit_formats::npz;
use cohabit_model::{Error, Mapping, Profile, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is quicker says nothing.
const QUIET: Duration = Duration::from_secs(2);

/// A line that appears once two seconds have passed, and goes when this is dropped.
pub struct Progress {
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Does `work` under a line of progress that says `what` is done.
pub fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let _shown_until_dropped = Progress::of(what);
    work()
}

/// Reads a profile, under a line of progress.
///
/// # Errors
/// As [`cohabit_formats::npz::read_profile`].
pub fn read_profile(path: &Path) -> Result<Profile> {
    during("reading the profile", || npz::read_profile(path))
}

/// Reads a mapping; a profile in its place is told to be one.
///
/// # Errors
/// As [`Mapping::read`].
pub fn read_mapping(path: &Path) -> Result<Mapping> {
    if begins_like_a_zip(path) {
        let cause = format!("{}: a profile, not a mapping", path.display());
        return Err(Error::new(cause).remedy("map it first, and give what that writes: cohabit map p.npz -o m.json"));
    }
    Mapping::read(path)
}

/// Whether a file is a zip, as profiles are.
fn begins_like_a_zip(path: &Path) -> bool {
    let mut begin = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"PK\x03\x04"
}

/// A line whose text changes, for measurements: it appears at once, and goes when this is dropped.
pub struct Line(Option<ProgressBar>);

impl Line {
    /// An empty one, where standard error is a terminal.
    pub fn new() -> Self {
        let is_shown = std::io::stderr().is_terminal() && !is_quiet();
        Self(is_shown.then(|| {
            let line = ProgressBar::new_spinner();
            line.set_style(ProgressStyle::default_spinner().template("{msg}").expect("a valid template"));
            line
        }))
    }

    /// Says what is done. Nothing is drawn between: what is measured is not to be disturbed.
    pub fn say(&self, text: &str) {
        if let Some(line) = &self.0 {
            line.set_message(format!("cohabit: {text}"));
            line.tick();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}

impl Progress {
    fn of(what: &str) -> Self {
        if !std::io::stderr().is_terminal() || is_quiet() {
            return Self { shown: None };
        }
        let (done, until_done) = channel();
        let message = format!("cohabit: {what}");
        let thread = std::thread::spawn(move || {
            if until_done.recv_timeout(QUIET) == Err(RecvTimeoutError::Timeout) {
                let line = ProgressBar::new_spinner().with_message(message);
                line.set_style(
                    ProgressStyle::default_spinner().template("{msg} {elapsed} {spinner}").expect("a valid template"),
                );
                line.enable_steady_tick(Duration::from_millis(200));
                // Returns with an error, when the sender is dropped.
                until_done.recv().unwrap_or_default();
                line.finish_and_clear();
            }
        });
        Self { shown: Some((done, thread)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.shown.take() {
            drop(done);
            // A line of progress that panicked is no reason to fail.
            thread.join().unwrap_or_default();
        }
    }
}
