//! What MPI ranks send one another, as pairs of tasks.

use super::Log;
use cohabit_observe::mpi;
use cohabit_online::evidence::{Evidence, Kind};
use cohabit_online::faults::TaskEvent;
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

/// How often what ranks have counted is read, at most.
const EVERY: Duration = Duration::from_millis(200);
/// What a message counts beside its bytes: a small one that comes from far away takes longer too, by some 0.4 us or
/// more.
const BYTES_OF_A_MESSAGE: u64 = 4096;
const PRELOAD: &str = "LD_PRELOAD";

/// Reads them, and tells whose they are.
pub struct Messages {
    source: mpi::Messages,
    /// The main thread's task of each process that there was: a rank may end before it is known to be one.
    main_threads: HashMap<i32, u32>,
    /// Those of ranks.
    tasks: HashMap<i32, u32>,
    /// When it is to be read again.
    due: Duration,
    /// So far, between ranks that are followed.
    pub sums: mpi::Amount,
}

impl Messages {
    /// Gets ready for a command; none where it starts no ranks, or they cannot be counted, which is said.
    pub fn start(command: &[OsString], log: &mut Log) -> Option<Self> {
        match mpi::Messages::start(command) {
            Ok(source) => {
                let (due, sums) = (Duration::ZERO, mpi::Amount::default());
                let (main_threads, tasks) = (HashMap::new(), HashMap::new());
                source.map(|source| Self { source, main_threads, tasks, due, sums })
            }
            Err(error) => {
                let text = format!("messages of MPI ranks are not counted: {}", error.cause);
                log.tell(Duration::ZERO, "warning", text, Vec::new());
                None
            }
        }
    }

    /// Adds what ranks need to the environment of a program.
    pub fn add_to(&self, environment: &mut Vec<(String, OsString)>) {
        let (library, parts) = self.source.environment();
        let mut preload = OsString::from(library);
        let place = environment.iter().position(|(name, _)| name == PRELOAD);
        let others = place.map(|place| environment.remove(place).1).or_else(|| std::env::var_os(PRELOAD));
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        environment.extend([(PRELOAD.to_owned(), preload), parts]);
    }

    /// Who has started.
    pub fn see(&mut self, events: &[TaskEvent]) {
        for event in events {
            if let TaskEvent::Started { task, tid, process, .. } = *event {
                if tid == process {
                    self.main_threads.insert(process, task);
                }
            }
        }
    }

    /// The next reading is the last: it is not put off.
    pub fn come_to_an_end(&mut self) {
        self.due = Duration::ZERO;
    }

    /// Whether all that goes between two processes is known from this.
    pub fn know(&self, a: i32, b: i32) -> bool {
        a != b && self.tasks.contains_key(&a) && self.tasks.contains_key(&b)
    }

    /// What has been sent since it was last read, nothing where that is not long ago; and whether ranks are known that
    /// were not.
    pub fn take(&mut self, now: Duration, log: &mut Log) -> (Vec<Evidence>, bool) {
        if now < self.due {
            return (Vec::new(), false);
        }
        let before = self.tasks.len();
        self.due = now + EVERY;
        let (ranks, sent) = self.source.read();
        let known = ranks.into_iter().filter_map(|process| Some((process, *self.main_threads.get(&process)?)));
        self.tasks.extend(known);
        if before == 0 && !self.tasks.is_empty() {
            log.tell(now, "source", "messages of MPI ranks: counted by a library in them".to_owned(), Vec::new());
        }
        let mut seen = Vec::new();
        for sent in sent {
            let task = |process| self.tasks.get(&process).copied();
            let Some((a, b)) = task(sent.processes.0).zip(task(sent.processes.1)) else { continue };
            let mpi::Amount { messages, bytes } = sent.amount;
            self.sums.add(sent.amount);
            let bytes = bytes.saturating_add(messages.saturating_mul(BYTES_OF_A_MESSAGE));
            seen.push(Evidence::of(Kind::Passed, (a, b), bytes, now));
        }
        (seen, self.tasks.len() > before)
    }
}
