//! What `cohabit profile` tells on standard error: what runs and where its profile goes, on a terminal how long that
//! has taken so far (`cohabit record` tells that too), and at the end what was found and what to type next.

use crate::output::{is_quiet, is_verbose, note};
use crate::picture::text::{clean, grouped, short};
use crate::show::coverage_lines;
use crate::words::tasks_of;
use cohabit_model::Profile;
use cohabit_observe::begin::{OnBegin, SoFar};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When it is first told how long a run has taken.
const FIRST: Duration = Duration::from_secs(2);
/// How long it is told no more, at most.
const LONGEST: Duration = Duration::from_secs(300);

/// What is told of one run.
pub struct Narration {
    begun: Arc<Mutex<Option<Begun>>>,
}

struct Begun {
    at: Instant,
    /// Ends when the sender is dropped.
    telling: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Narration {
    /// Of a run that has not begun, and what is to be called when it does: `how` it is observed, as in `runs under the
    /// profiler`, and what its tasks are called, one and several.
    pub fn new(command: &str, how: &str, noun: [&'static str; 2], output: &Path) -> (Self, OnBegin) {
        let begun = Arc::new(Mutex::new(None));
        let line = format!("{} {how}; its profile goes to {}", clean(command), clean(&output.display().to_string()));
        let kept = Arc::clone(&begun);
        let on_begin = OnBegin::call(move |so_far| {
            note(&line);
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Begun::now(so_far, noun));
        });
        (Self { begun }, on_begin)
    }

    /// Of a run of which only the time that it has taken so far is told.
    pub fn of_time(noun: [&'static str; 2]) -> (Self, OnBegin) {
        let begun = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&begun);
        let on_begin = OnBegin::call(move |so_far| {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Begun::now(so_far, noun));
        });
        (Self { begun }, on_begin)
    }

    /// The run is over, and its profile written; what there was under that name before is now `kept`.
    pub fn end(self, output: &Path, kept: Option<&Path>, profile: &Profile) {
        let took = self.stop().unwrap_or_default();
        note(&end_line(output, kept, profile, took));
        if is_verbose() {
            note(&coverage_lines(&profile.meta.coverage, true));
        }
    }

    /// How long it took, where it began.
    fn stop(&self) -> Option<Duration> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let took = begun.at.elapsed();
        if let Some((done, thread)) = begun.telling {
            drop(done);
            // A line of progress that panicked is no reason to fail.
            thread.join().unwrap_or_default();
        }
        Some(took)
    }
}

impl Drop for Narration {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Begun {
    fn now(so_far: SoFar, noun: [&'static str; 2]) -> Self {
        let at = Instant::now();
        let telling = (std::io::stderr().is_terminal() && !is_quiet()).then(|| {
            let (done, until_done) = channel();
            (done, std::thread::spawn(move || tell(at, &so_far, noun, &until_done)))
        });
        Self { at, telling }
    }
}

/// Tells how far a run is, ever less often. These are whole lines: one that is drawn over would be torn by what the
/// program writes to the same terminal.
fn tell(began: Instant, so_far: &SoFar, noun: [&str; 2], until_done: &Receiver<()>) {
    let mut next = FIRST;
    while until_done.recv_timeout(next.saturating_sub(began.elapsed())) == Err(RecvTimeoutError::Timeout) {
        if terminal_takes_lines() {
            note(&so_far_line(began.elapsed(), so_far.tasks(), noun));
        }
        next = after(next);
    }
}

/// `20 s so far, 7 threads`; only the time where no task was seen (ranks on other hosts are not).
fn so_far_line(took: Duration, tasks: usize, [one, several]: [&str; 2]) -> String {
    match tasks {
        0 => format!("{} so far", time(took)),
        1 => format!("{} so far, 1 {one}", time(took)),
        _ => format!("{} so far, {} {several}", time(took), grouped(tasks as u128)),
    }
}

/// When it is told again, after it was told at this time.
fn after(told: Duration) -> Duration {
    told + told.min(LONGEST)
}

/// Whether a line on this terminal disturbs nobody: cohabit is in the foreground, and the program does not draw on it.
fn terminal_takes_lines() -> bool {
    use nix::sys::termios::{LocalFlags, tcgetattr};
    let stderr = std::io::stderr();
    let in_foreground = nix::unistd::tcgetpgrp(&stderr).is_ok_and(|group| group == nix::unistd::getpgrp());
    in_foreground && tcgetattr(&stderr).is_ok_and(|settings| settings.local_flags.contains(LocalFlags::ICANON))
}

/// `p.npz: 7 threads, 1.23M messages in 12 s; next: cohabit show p.npz`.
fn end_line(output: &Path, kept: Option<&Path>, profile: &Profile, took: Duration) -> String {
    let name = clean(&output.display().to_string());
    let tasks = tasks_of(profile.meta.kind, profile.tasks());
    let messages = profile.messages.total();
    let messages = format!("{} message{}", short(messages), if messages == 1 { "" } else { "s" });
    let exact = if profile.meta.coverage.exact { "" } else { ", not exact" };
    let kept = kept.map(|kept| format!(" (the one before is {} now)", clean(&kept.display().to_string())));
    format!(
        "{name}: {tasks}, {messages}{exact} in {}{}; next: cohabit show {}",
        time(took),
        kept.unwrap_or_default(),
        as_typed(&name)
    )
}

/// A time for people who wait: `0.3 s`, `75 s`, `12 min 5 s`, `2 h 10 min`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A word as a shell takes it.
fn as_typed(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./,:=+@%".contains(letter);
    match !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        true => word.to_owned(),
        false if word.starts_with('-') => as_typed(&format!("./{word}")),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;
    use cohabit_model::profile::{Kind, Meta};

    #[test]
    fn times_are_read_at_a_glance() {
        for (ms, expected) in [
            (0, "0.0 s"),
            (340, "0.3 s"),
            (9_900, "9.9 s"),
            (75_200, "75 s"),
            (125_000, "2 min 5 s"),
            (7_800_000, "2 h 10 min"),
        ] {
            assert_eq!(time(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn progress_is_told_ever_less_often_but_never_stops() {
        let mut times = vec![FIRST.as_secs()];
        while times.len() < 10 {
            times.push(after(Duration::from_secs(times[times.len() - 1])).as_secs());
        }
        assert_eq!(times, [2, 4, 8, 16, 32, 64, 128, 256, 512, 812]);
    }

    #[test]
    fn progress_names_what_was_seen() {
        for (tasks, expected) in [(0, "20 s so far"), (1, "20 s so far, 1 rank"), (1024, "20 s so far, 1,024 ranks")] {
            assert_eq!(so_far_line(Duration::from_secs(20), tasks, ["rank", "ranks"]), expected);
        }
    }

    #[test]
    fn names_are_typed_as_a_shell_takes_them() {
        for (name, expected) in [
            ("p.npz", "p.npz"),
            ("/tmp/a b.npz", "'/tmp/a b.npz'"),
            ("it's.npz", r"'it'\''s.npz'"),
            ("-o.npz", "./-o.npz"),
            ("$(x).npz", "'$(x).npz'"),
        ] {
            assert_eq!(as_typed(name), expected);
        }
    }

    #[test]
    fn the_end_says_what_was_found_and_what_to_type() {
        let tasks = Matrix::from_triplets(2, [(0, 1, 1500)]);
        let mut profile = Profile::new(Meta::new(Kind::Threads, "dbi", Vec::new()), tasks.clone(), tasks);
        let (path, took) = (Path::new("p.npz"), Duration::from_secs(12));
        assert_eq!(
            end_line(path, None, &profile, took),
            "p.npz: 2 threads, 1.50k messages in 12 s; next: cohabit show p.npz"
        );
        profile.meta.coverage.exact = false;
        profile.meta.kind = Kind::Ranks;
        assert_eq!(
            end_line(path, Some(Path::new("p-1.npz")), &profile, took),
            "p.npz: 2 MPI ranks, 1.50k messages, not exact in 12 s (the one before is p-1.npz now); next: cohabit show p.npz"
        );
    }
}
