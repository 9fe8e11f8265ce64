//! Perf events (perf_event_open(2)) of a program that is about to be started, inherited by all that it starts.

use super::Usage;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// `struct perf_event_attr` (linux/perf_event.h) as far as PERF_ATTR_SIZE_VER0.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
/// Reads of a cache (PERF_COUNT_HW_CACHE_OP_READ is 0) that missed it.
const READ_MISS: u64 = 1 << 16;
const LAST_LEVEL: u64 = 2;
/// What another node's memory serves.
const NODE: u64 = 6;
/// PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING: there may be fewer counters than events.
const WITH_TIMES: u64 = 3;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

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
    /// Of what the calling thread, or one that it makes, starts from now on. The events are this thread's, where they never begin
    /// to count, since it executes nothing; its children's begin with their `execve`.
    pub(super) fn open() -> Self {
        let open = |&(name, kind, config): &(&'static str, u32, u64)| {
            let kernel = if kind == SOFTWARE { 0 } else { EXCLUDE_KERNEL };
            (name, open(kind, config, kernel).map_err(|error| reason(kind, &error)))
        };
        Self(EVENTS.iter().map(open).collect())
    }

    /// What was counted.
    pub(super) fn tell(&mut self, usage: &mut Usage) {
        for (name, event) in &mut self.0 {
            let counted = match event {
                Ok(event) => value(event).ok_or_else(|| "the processor had no counter free for it".to_owned()),
                Err(reason) => Err(reason.clone()),
            };
            match counted {
                Ok(value) => drop(usage.counts.insert((*name).to_owned(), value)),
                Err(reason) => drop(usage.not_known.insert((*name).to_owned(), reason)),
            }
        }
    }
}

fn open(kind: u32, config: u64, flags: u64) -> io::Result<File> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: WITH_TIMES,
        flags: flags | DISABLED | INHERIT | ENABLE_ON_EXEC | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    // SAFETY: the structure is of the size that it names, and lives through the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, CLOSE_ON_EXEC) };
    match fd < 0 {
        true => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor that nobody else has.
        false => Ok(unsafe { File::from_raw_fd(fd as i32) }),
    }
}

/// The count, for the whole time where it was counted for a part of it only.
fn value(event: &mut File) -> Option<f64> {
    let mut bytes = [0; 24];
    event.read_exact(&mut bytes).ok()?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let [count, enabled, running] = [word(0), word(8), word(16)];
    match (enabled, running) {
        // What never ran counted nothing.
        (0, _) => Some(0.0),
        (_, 0) => None,
        _ => Some(count as f64 * (enabled as f64 / running as f64)),
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
