//! The rings that perf events are written to (perf_event_open(2), "MMAP layout"), one a PU, and the records in them.

use crate::sampling::{DataSource, Registers};
use cohabit_host::perf_event::REGISTER_COUNT;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
/// Pages of records: a power of two. With the page before them this is what an ordinary user may lock for each PU.
const DATA_PAGES: usize = 64;
/// Where in the first page the kernel's and our own positions are (`data_head`, `data_tail`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Records longer than this are none of those that are asked for.
const LONGEST: usize = 256;

/// Of a sample without registers, which is a page fault's.
const FAULT_BYTES: usize = 32;
/// And of one that has its period and where the data came from, a PMU's. None with registers is as long.
const ACCESS_BYTES: usize = 48;
/// What was interrupted (PERF_RECORD_MISC_CPUMODE_MASK), and that it was a program (PERF_RECORD_MISC_USER).
const MODE: u16 = 7;
const IN_PROGRAM: u16 = 2;
/// PERF_SAMPLE_REGS_ABI_64.
const ALL_REGISTERS: i32 = 2;

/// What the rings tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    Fork { time: u64, tid: i32, process: i32, parent: i32 },
    Exit { time: u64, tid: i32 },
    Exec { time: u64, process: i32 },
    Fault { time: u64, tid: i32, instruction: u64, address: u64 },
    Sample { time: u64, tid: i32, registers: Registers },
    Access { time: u64, tid: i32, address: u64, source: DataSource },
    Lost { count: u64 },
}

impl Record {
    /// When it happened.
    pub(crate) fn time(&self) -> u64 {
        match *self {
            Record::Fork { time, .. } | Record::Exit { time, .. } => time,
            Record::Exec { time, .. } | Record::Fault { time, .. } => time,
            Record::Sample { time, .. } | Record::Access { time, .. } => time,
            Record::Lost { .. } => 0,
        }
    }

    /// A record without its header: type and flags as in the header.
    fn parse(kind: u32, flags: u16, body: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?) as i32);
        let long = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
        match kind {
            2 => Some(Record::Lost { count: long(8)? }),
            // The time is last, after a name of any length.
            3 if flags & 1 << 13 != 0 => {
                Some(Record::Exec { process: word(0)?, time: long(body.len().checked_sub(8)?)? })
            }
            4 => Some(Record::Exit { tid: word(8)?, time: long(16)? }),
            7 => Some(Record::Fork { process: word(0)?, tid: word(8)?, parent: word(12)?, time: long(16)? }),
            9 if body.len() == FAULT_BYTES => {
                Some(Record::Fault { instruction: long(0)?, tid: word(12)?, time: long(16)?, address: long(24)? })
            }
            // Nobody shares what the kernel does for a program.
            9 if body.len() == ACCESS_BYTES && flags & MODE != IN_PROGRAM => None,
            9 if body.len() == ACCESS_BYTES => Some(Record::Access {
                tid: word(12)?,
                time: long(16)?,
                address: long(24)?,
                source: DataSource(long(40)?),
            }),
            // With what the registers are: none, those of 32 bits, or all.
            9 if word(FAULT_BYTES)? == ALL_REGISTERS => {
                let mut given = [0; REGISTER_COUNT];
                for (index, value) in given.iter_mut().enumerate() {
                    *value = long(FAULT_BYTES + 8 + 8 * index)?;
                }
                Some(Record::Sample { tid: word(12)?, time: long(16)?, registers: registers(&given) })
            }
            _ => None,
        }
    }
}

/// Registers by number, of those that are in the order of their bits (asm/perf_regs.h).
fn registers(given: &[u64; REGISTER_COUNT]) -> Registers {
    let &[ax, bx, cx, dx, si, di, bp, sp, instruction, r8, r9, r10, r11, r12, r13, r14, r15] = given;
    Registers { instruction, general: [ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15] }
}

/// The rings of all PUs, each of which all events on its PU write to.
#[derive(Default)]
pub(crate) struct Rings {
    of_pus: BTreeMap<u32, Ring>,
    /// The events that have no ring of their own, and what leads others.
    events: Vec<File>,
}

impl Rings {
    /// Has an event on a PU write to the PU's ring, which is made of the first that comes.
    pub(crate) fn add(&mut self, pu: u32, event: File) -> io::Result<()> {
        match self.of_pus.get(&pu) {
            Some(ring) => {
                ring.take_output_of(&event)?;
                self.events.push(event);
            }
            None => drop(self.of_pus.insert(pu, Ring::new(event)?)),
        }
        Ok(())
    }

    /// Keeps a file open as long as the others.
    pub(crate) fn keep(&mut self, event: File) {
        self.events.push(event);
    }

    /// How many files are open.
    pub(crate) fn files(&self) -> usize {
        self.of_pus.len() + self.events.len()
    }

    /// What was written since the last call, in the order in which it happened.
    pub(crate) fn read(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        self.of_pus.values_mut().for_each(|ring| ring.read(&mut records));
        records.sort_by_key(Record::time);
        records
    }
}

/// One ring.
struct Ring {
    event: File,
    memory: NonNull<libc::c_void>,
}

impl Ring {
    /// The ring of this event.
    fn new(event: File) -> io::Result<Self> {
        let length = NonZeroUsize::new((1 + DATA_PAGES) * PAGE).expect("more than nothing");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, which is not touched but through this object.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &event, 0) }?;
        Ok(Self { event, memory })
    }

    fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Lets another event write here.
    fn take_output_of(&self, event: &File) -> io::Result<()> {
        const SET_OUTPUT: libc::c_ulong = 0x2405;
        // SAFETY: two descriptors that are open.
        let result = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, self.descriptor()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page of the mapping, aligned, and changed by the kernel as an atomic is.
        unsafe { &*self.memory.as_ptr().cast::<u8>().add(offset).cast::<AtomicU64>() }
    }

    /// Appends what was written since the last call.
    fn read(&mut self, records: &mut Vec<Record>) {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        while head - tail >= 8 {
            let header = self.bytes::<8>(tail);
            let kind = u32::from_ne_bytes(header[..4].try_into().expect("four"));
            let flags = u16::from_ne_bytes(header[4..6].try_into().expect("two"));
            let size = u64::from(u16::from_ne_bytes(header[6..].try_into().expect("two")));
            if size < 8 || size > head - tail {
                break;
            }
            let body = self.bytes::<LONGEST>(tail + 8);
            let length = (size as usize - 8).min(LONGEST);
            records.extend(Record::parse(kind, flags, &body[..length]));
            tail += size;
        }
        self.position(TAIL).store(tail, Ordering::Release);
    }

    /// Bytes from a position on, over the ring's end to its beginning.
    fn bytes<const N: usize>(&self, position: u64) -> [u8; N] {
        let data = DATA_PAGES * PAGE;
        std::array::from_fn(|index| {
            let at = PAGE + (position as usize + index) % data;
            // SAFETY: within the mapping; the kernel does not write between tail and head.
            unsafe { self.memory.as_ptr().cast::<u8>().add(at).read_volatile() }
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.memory, (1 + DATA_PAGES) * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn records_are_taken_apart() {
        let access = vec![7, 0, 10, 11, 97, 0, 0x1000, 1, 5, 0, 0x68_1001, 0x42];
        let source = DataSource(0x42_0068_1001);
        let measured = Record::Access { time: 97, tid: 11, address: 0x1_0000_1000, source };
        for (kind, flags, words, expected) in [
            (2, 0, vec![1, 0, 5, 0], Some(Record::Lost { count: 5 })),
            (3, 1 << 13, vec![10, 10, 0x61, 0, 10, 10, 96, 0], Some(Record::Exec { time: 96, process: 10 })),
            (3, 1 << 13, vec![10], None),
            (3, 0, vec![10, 10, 0x61, 0, 10, 10, 96, 0], None),
            (4, 0, vec![10, 1, 11, 1, 99, 0], Some(Record::Exit { time: 99, tid: 11 })),
            (7, 0, vec![10, 1, 11, 2, 98, 0], Some(Record::Fork { time: 98, tid: 11, process: 10, parent: 2 })),
            (
                9,
                2,
                vec![7, 0, 10, 11, 97, 0, 0x1000, 1],
                Some(Record::Fault { time: 97, tid: 11, instruction: 7, address: 0x1_0000_1000 }),
            ),
            (9, 2, vec![7, 0, 10], None),
            // Interrupted in a program of 32 bits, or in no program.
            (9, 2, [vec![7, 0, 10, 11, 97, 0, 0, 0, 1, 0], vec![0; 34]].concat(), None),
            (9, 2, vec![7, 0, 10, 11, 97, 0, 0, 0, 0, 0], None),
            (12, 0, vec![], None),
            // A PMU's: instruction, process and thread, time, address, period, data source; in a program, in the kernel
            // (whatever else the header says of it), in a guest, and cut short.
            (9, 2, access.clone(), Some(measured)),
            (9, 2 | 1 << 14, access.clone(), Some(measured)),
            (9, 1, access.clone(), None),
            (9, 5, access.clone(), None),
            (9, 2, access[..10].to_vec(), None),
        ] {
            assert_eq!(Record::parse(kind, flags, &body(&words)), expected, "{kind}");
        }
    }

    #[test]
    fn registers_come_by_their_numbers() {
        // Each has its place in the order of bits as its value: ax, bx, cx, dx, si, di, bp, sp, ip, r8 to r15.
        let mut words = vec![7, 0, 10, 11, 97, 0, 0, 0, 2, 0];
        words.extend((0..REGISTER_COUNT as u32).flat_map(|place| [place, 0]));
        let general = [0, 2, 3, 1, 7, 6, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16];
        let expected = Record::Sample { time: 97, tid: 11, registers: Registers { instruction: 8, general } };
        assert_eq!(Record::parse(9, 2, &body(&words)), Some(expected));
        assert_eq!(Record::parse(9, 2, &body(&words[..words.len() - 2])), None);
    }
}
