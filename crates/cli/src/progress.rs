//! Progress of whatever takes more than two seconds: on standard error, and only where that is a terminal.

use crate::output::{is_quiet, is_verbose, note};
use cohabit_formats::npz;
use cohabit_model::{Error, Mapping, Profile, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is quicker says nothing.
const QUIET: Duration = Duration::from_secs(2);
/// How often a line is told again how far the work is.
const OFTEN: Duration = Duration::from_millis(500);

/// A line that appears once two seconds have passed, and goes when this is dropped.
pub struct Progress {
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Does `work` under a line of progress that says `what` is done; with `--verbose` a note says afterwards how long it
/// took.
pub fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (shown, began) = (Progress::of(what, None), Instant::now());
    let done = work();
    drop(shown);
    if is_verbose() {
        note(&format!("{what}: {:.2} s", began.elapsed().as_secs_f64()));
    }
    done
}

/// The same where it is known how many parts the work has: `work` says each that is done, and the line how long the
/// others take.
pub fn counted<T>(what: &str, work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> T) -> T {
    let parts = Arc::new(Parts::default());
    let shown = Progress::of(what, Some(Arc::clone(&parts)));
    let began = Instant::now();
    let done = work(&|done, all| {
        parts.done.store(done, Ordering::Relaxed);
        parts.all.store(all, Ordering::Relaxed);
    });
    drop(shown);
    if is_verbose() {
        note(&format!("{what}: {:.2} s", began.elapsed().as_secs_f64()));
    }
    done
}

/// How far work is.
#[derive(Debug, Default)]
struct Parts {
    done: AtomicUsize,
    all: AtomicUsize,
}

impl Parts {
    /// `measuring, 17 %, about 12 s left`; only what it is before the first part is done.
    fn line(&self, what: &str, took: Duration) -> String {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        match done {
            0 => what.to_owned(),
            done if done >= all => format!("{what}, 100 %"),
            done => {
                let left = took.as_secs_f64() / done as f64 * (all - done) as f64;
                format!("{what}, {} %, about {left:.0} s left", 100 * done / all)
            }
        }
    }
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
/// As [`Mapping::read`], and a mapping that changes from phase to phase.
pub fn read_mapping(path: &Path) -> Result<Mapping> {
    read_phased_mapping(path)?.unphased("this command").map_err(|error| error.at(path.display()))
}

/// Reads a mapping, which may change from phase to phase.
///
/// # Errors
/// As [`Mapping::read`].
pub fn read_phased_mapping(path: &Path) -> Result<Mapping> {
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
    fn of(what: &str, parts: Option<Arc<Parts>>) -> Self {
        if !std::io::stderr().is_terminal() || is_quiet() {
            return Self { shown: None };
        }
        let (done, until_done) = channel();
        let message = format!("cohabit: {what}");
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            if until_done.recv_timeout(QUIET) == Err(RecvTimeoutError::Timeout) {
                let line = ProgressBar::new_spinner().with_message(message.clone());
                line.set_style(
                    ProgressStyle::default_spinner().template("{msg} {elapsed} {spinner}").expect("a valid template"),
                );
                line.enable_steady_tick(Duration::from_millis(200));
                // Ends when the sender is dropped.
                while until_done.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                    if let Some(parts) = &parts {
                        line.set_message(parts.line(&message, began.elapsed()));
                    }
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_that_of_the_parts_that_are_left() {
        let parts = Parts::default();
        let line = |done: usize, all: usize| {
            parts.done.store(done, Ordering::Relaxed);
            parts.all.store(all, Ordering::Relaxed);
            parts.line("measuring", Duration::from_secs(10))
        };
        assert_eq!(line(0, 0), "measuring");
        assert_eq!(line(2, 8), "measuring, 25 %, about 30 s left");
        assert_eq!(line(8, 8), "measuring, 100 %");
    }
}
