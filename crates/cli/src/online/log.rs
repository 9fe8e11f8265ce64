//! What an online session did and why, for people as it happens and for programs at the end.

use crate::output::note;
use serde::Serialize;
use std::time::Duration;

/// Entries that are kept.
const MOST: usize = 10_000;

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Milliseconds since following began.
    pub time_ms: u64,
    /// What kind of thing: `source`, `setting`, `changed`, `kept`, `moved`, `would-move`, `proved`, `undone`,
    /// `warning`, `restored`.
    pub what: &'static str,
    /// In words.
    pub text: String,
    /// Tasks that moved, each with its PU (OS index; none: let go).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<(u32, Option<u32>)>,
}

/// The log of a session.
#[derive(Debug, Default)]
pub struct Log {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// Entries that found no room.
    pub dropped: u64,
    /// Whether entries are told on standard error as they come.
    pub silent: bool,
    last_kept: String,
}

impl Log {
    /// An empty log.
    pub fn new(silent: bool) -> Self {
        Self { silent, ..Self::default() }
    }

    /// Adds an entry and tells it.
    pub fn tell(&mut self, time: Duration, what: &'static str, text: String, moves: Vec<(u32, Option<u32>)>) {
        self.add(time, what, text, moves, true);
    }

    /// Adds an entry, and tells it if that is wanted.
    pub fn record(&mut self, time: Duration, what: &'static str, text: String, tell: bool) {
        self.add(time, what, text, Vec::new(), tell);
    }

    /// Adds a decision to leave things as they are: told where it is another one than before, or always.
    pub fn keep(&mut self, time: Duration, reason: &'static str, text: String, tell_all: bool) {
        let changed = self.last_kept != reason;
        reason.clone_into(&mut self.last_kept);
        if changed || tell_all {
            self.add(time, "kept", text, Vec::new(), tell_all);
        }
    }

    /// The next decision to leave things as they are is told again.
    pub fn forget_kept(&mut self) {
        self.last_kept.clear();
    }

    fn add(&mut self, time: Duration, what: &'static str, text: String, moves: Vec<(u32, Option<u32>)>, tell: bool) {
        if tell && !self.silent {
            note(&format!("{:.2} s: {text}", time.as_secs_f64()));
        }
        if self.entries.len() == MOST {
            self.dropped += 1;
            return;
        }
        self.entries.push(Entry { time_ms: time.as_millis() as u64, what, text, moves });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_kept_once() {
        let mut log = Log::new(true);
        for reason in ["few", "few", "holds", "holds", "few"] {
            log.keep(Duration::ZERO, reason, reason.to_owned(), false);
        }
        let texts: Vec<&str> = log.entries.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, ["few", "holds", "few"]);
    }

    #[test]
    fn a_log_is_bounded() {
        let mut log = Log::new(true);
        (0..MOST + 5).for_each(|_| log.tell(Duration::ZERO, "moved", String::new(), Vec::new()));
        assert_eq!((log.entries.len(), log.dropped), (MOST, 5));
    }
}
