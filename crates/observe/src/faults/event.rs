//! Perf events of threads that are followed (perf_event_open(2)): page faults with their addresses, and instructions.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// The part of `struct perf_event_attr` (linux/perf_event.h, PERF_ATTR_SIZE_VER5) that is used.
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
    rest: [u64; 8],
}

const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
const SOFTWARE: u32 = 1;
const PAGE_FAULTS: u64 = 2;
/// PERF_SAMPLE_IP | TID | TIME | ADDR.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const COMM: u64 = 1 << 9;
const TASK: u64 = 1 << 13;
const COMM_EXEC: u64 = 1 << 24;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Page faults of one thread, and of all that it creates, on one PU (-1: on all), each a record.
pub(super) fn page_faults(tid: i32, pu: i32) -> io::Result<File> {
    let attributes = Attributes {
        kind: SOFTWARE,
        config: PAGE_FAULTS,
        sample_period: 1,
        sample_type: SAMPLE_TYPE,
        flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | COMM | TASK | COMM_EXEC,
        ..Attributes::default()
    };
    open(attributes, tid, pu)
}

fn open(attributes: Attributes, tid: i32, pu: i32) -> io::Result<File> {
    let attributes = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
    // SAFETY: the attributes are plain integers of the size that they name, and live through the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, tid, pu, -1, CLOSE_ON_EXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that nobody else has.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// Instructions that programs have retired, those of all that they start included, where the machine has a PMU and this
/// user may read it.
#[derive(Debug, Default)]
pub struct Instructions {
    events: Vec<File>,
}

impl Instructions {
    /// Counts those of a thread, and of all that it creates, from now on. Whether that is possible.
    pub fn follow(&mut self, tid: i32) -> bool {
        self.count(HARDWARE, INSTRUCTIONS, tid)
    }

    fn count(&mut self, kind: u32, config: u64, tid: i32) -> bool {
        let flags = INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        let event = open(Attributes { kind, config, flags, ..Attributes::default() }, tid, -1);
        self.events.extend(event.ok());
        !self.events.is_empty()
    }

    /// How many there have been; none where nothing is counted.
    pub fn total(&mut self) -> Option<f64> {
        let mut total = None;
        for event in &mut self.events {
            let mut value = [0; 8];
            if event.read(&mut value).is_ok_and(|length| length == value.len()) {
                *total.get_or_insert(0.0) += u64::from_ne_bytes(value) as f64;
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_do_is_counted() {
        let mut instructions = Instructions::default();
        // As many machines have no PMU, and a container may forbid events: page faults are counted in the same way.
        let tid = nix::unistd::gettid().as_raw();
        if !instructions.count(SOFTWARE, PAGE_FAULTS, tid) {
            println!("skipped: what_children_do_is_counted: no perf events");
            return;
        }
        let before = instructions.total().unwrap();
        let thread = std::thread::spawn(|| std::hint::black_box(vec![1u8; 16 << 20]).len());
        assert_eq!(thread.join().unwrap(), 16 << 20);
        assert!(instructions.total().unwrap() > before);
        let mut instructions = Instructions::default();
        assert_eq!(instructions.follow(tid), instructions.total().is_some());
        assert!(!Instructions::default().follow(i32::MAX));
    }
}
