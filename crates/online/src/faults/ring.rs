//! The ring that perf events are written to (perf_event_open(2), "MMAP layout"), and the records in it.

use crate::sampling::Registers;
use cohabit_host::perf_event::REGISTER_COUNT;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
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
    Lost { count: u64 },
}

impl Record {
    /// When it happened.
    pub(crate) fn time(&self) -> u64 {
        match *self {
            Record::Fork { time, .. } | Record::Exit { time, .. } => time,
            Record::Exec { time, .. } | Record::Fault { time, .. } | Record::Sample { time, .. } => time,
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

/// One ring.
pub(crate) struct Ring {
    event: File,
    memory: NonNull<libc::c_void>,
}

impl Ring {
    /// The ring of this event.
    pub(crate) fn new(event: File) -> io::Result<Self> {
        let length = NonZeroUsize::new((1 + DATA_PAGES) * PAGE).expect("more than nothing");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, which is not touched but through this object.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &event, 0) }?;
        Ok(Self { event, memory })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page of the mapping, aligned, and changed by the kernel as an atomic is.
        unsafe { &*self.memory.as_ptr().cast::<u8>().add(offset).cast::<AtomicU64>() }
    }

    /// Appends what was written since the last call.
    pub(crate) fn read(&mut self, records: &mut Vec<Record>) {
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
