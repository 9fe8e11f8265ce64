//! Perf events (perf_event_open(2)) of a program that is about to be started, inherited by all that it starts.

use super::Usage;
use cohabit_host::perf_event::{CACHE, HARDWARE, SOFTWARE, of_children, scaled_count};
use std::fs::File;
use std::io;

/// Reads of a cache (PERF_COUNT_HW_CACHE_OP_READ is 0) that missed it.
const READ_MISS: u64 = 1 << 16;
const LAST_LEVEL: u64 = 2;
/// What another node's memory serves.
const NODE: u64 = 6;
/// Name, type, and number of each. Moves between PUs happen in the kernel, the others are counted outside it.
const EVENTS: [(&str, u32, u64); 6] = [
    ("migrations", SOFTWARE, 4),
    ("instructions", HARDWARE, 1),
    ("cycles", HARDWARE, 0),
    ("cache_misses", HARDWARE, 3),
    ("last_level_load_misses", CACHE, LAST_LEVEL | READ_MISS),
    ("remote_loads", CACHE, NODE | READ_MISS),
];

/// Those that are counted, and why the others are not.
#[derive(Debug)]
pub(super) struct Events(Vec<(&'static str, Result<File, String>)>);

/// The names of all, counted or not.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    EVENTS.iter().map(|event| event.0)
}

impl Events {
    /// Of what the calling thread, or one that it makes, starts from now on. The events are this thread's, where they
    /// never begin to count, since it executes nothing; its children's begin with their `execve`.
    pub(super) fn open() -> Self {
        let open = |&(name, kind, config): &(&'static str, u32, u64)| {
            (name, of_children(kind, config, kind == SOFTWARE).map_err(|error| reason(kind, &error)))
        };
        Self(EVENTS.iter().map(open).collect())
    }

    /// What was counted.
    pub(super) fn tell(&mut self, usage: &mut Usage) {
        for (name, event) in &mut self.0 {
            let counted = match event {
                Ok(event) => scaled_count(event).ok_or_else(|| "the processor had no counter free for it".to_owned()),
                Err(reason) => Err(reason.clone()),
            };
            match counted {
                Ok(value) => drop(usage.counts.insert((*name).to_owned(), value)),
                Err(reason) => drop(usage.not_known.insert((*name).to_owned(), reason)),
            }
        }
    }
}

fn reason(kind: u32, error: &io::Error) -> String {
    match (error.raw_os_error(), kind) {
        (Some(libc::EACCES | libc::EPERM), SOFTWARE) => {
            "not permitted: root, or sysctl kernel.perf_event_paranoid=1 (a container: --cap-add=PERFMON)".to_owned()
        }
        (Some(libc::EACCES | libc::EPERM), _) => {
            "not permitted: root, or sysctl kernel.perf_event_paranoid=2 (a container: --cap-add=PERFMON)".to_owned()
        }
        (Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV), _) => "this processor does not count it here".to_owned(),
        (Some(libc::ENOSYS), _) => "this kernel was built without perf events".to_owned(),
        _ => error.to_string(),
    }
}
