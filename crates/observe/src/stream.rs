//! Reads access streams: what the exact profiler records with [`Options::record`](crate::dbi::Options::record), one
//! file for each program image, every access in the order in which the detector took it (`native/abi.h`,
//! `cohabit_stream_t`).

use crate::dbi::abi;
use cohabit_access::{Access, AccessKind};
use cohabit_model::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read};
use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::path::{Path, PathBuf};

const HEAD_BYTES: usize = size_of::<abi::cohabit_stream_t>();
const RECORD_BYTES: usize = size_of::<abi::cohabit_access_t>();
const TASK_MASK: u32 = (1 << abi::COHABIT_ACCESS_KIND_SHIFT) - 1;

/// Where the addresses of memory that processes share begin.
pub const COMMON: u64 = abi::COHABIT_COMMON_ADDRESS;

/// One record of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A task read or wrote memory. Tasks are numbered within the image, in the order of their creation. Addresses from
    /// [`COMMON`] on are memory shared between processes, and the same in the streams of all of them.
    Access(Access),
    /// The memory at these addresses starts as if nobody had touched it. Whole blocks.
    Clear(Range<u64>),
    /// The program said that only communication through this range, and those it named before, is of interest.
    Only(Range<u64>),
}

/// A stream being read: an iterator over its events.
#[derive(Debug)]
pub struct Stream<R = BufReader<File>> {
    from: R,
    name: PathBuf,
    left: u64,
    /// Time-stamp counter when the image came under observation.
    pub start_ticks: u64,
    /// Time-stamp counter of the event read last: it puts the events of a run's processes into one order.
    pub ticks: u64,
    ticks_per_second: u64,
    /// Process id of the program.
    pub pid: u32,
    /// Block size of the detector it was recorded beside, in bytes; only clears depend on it.
    pub block_bytes: u64,
    /// Events for which there was no room on the disk; all come after the last one that is there.
    pub lost: u64,
}

impl Stream {
    /// Opens a stream file.
    ///
    /// # Errors
    /// It cannot be read, is no stream, or of another version.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        Self::read(BufReader::with_capacity(1 << 20, file), path)
    }
}

impl<R: Read> Stream<R> {
    /// Reads the head of a stream; `name` is what errors call it.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub fn read(mut from: R, name: &Path) -> Result<Self> {
        let refused = |why: String| {
            Error::new(format!("{}: {why}", name.display())).remedy("record it again with this version of cohabit")
        };
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head).map_err(|error| refused(format!("no access stream: {error}")))?;
        let long = |offset| long_at(&head, offset);
        if long(offset_of!(abi::cohabit_stream_t, magic)) != abi::COHABIT_STREAM_MAGIC {
            return Err(refused("no access stream".to_owned()));
        }
        let version = word_at(&head, offset_of!(abi::cohabit_stream_t, version));
        if version != abi::COHABIT_STREAM_VERSION {
            return Err(refused(format!("an access stream of version {version}")));
        }
        let ticks_per_second = long(offset_of!(abi::cohabit_stream_t, ticks_per_second));
        let block_bytes = long(offset_of!(abi::cohabit_stream_t, block_bytes));
        if ticks_per_second == 0 || !block_bytes.is_power_of_two() {
            return Err(refused(format!("damaged: blocks of {block_bytes} bytes, {ticks_per_second} ticks a second")));
        }
        Ok(Self {
            from,
            name: name.to_owned(),
            left: long(offset_of!(abi::cohabit_stream_t, count)),
            start_ticks: long(offset_of!(abi::cohabit_stream_t, start_ticks)),
            ticks: 0,
            ticks_per_second,
            pid: word_at(&head, offset_of!(abi::cohabit_stream_t, pid)),
            block_bytes,
            lost: long(offset_of!(abi::cohabit_stream_t, lost)),
        })
    }

    fn event(&self, record: &[u8; RECORD_BYTES]) -> Result<Event> {
        let kind_and_task = word_at(record, offset_of!(abi::cohabit_access_t, kind_and_task));
        let address = long_at(record, offset_of!(abi::cohabit_access_t, address));
        let size = word_at(record, offset_of!(abi::cohabit_access_t, size));
        let kind = match kind_and_task >> abi::COHABIT_ACCESS_KIND_SHIFT {
            abi::COHABIT_ACCESS_READ => AccessKind::Read,
            abi::COHABIT_ACCESS_WRITE => AccessKind::Write,
            abi::COHABIT_ACCESS_READ_WRITE => AccessKind::ReadWrite,
            abi::COHABIT_ACCESS_CLEAR => return Ok(Event::Clear(self.cleared(address, size))),
            abi::COHABIT_ACCESS_ONLY => return Ok(Event::Only(address..address.saturating_add(size.into()))),
            other => return Err(self.damaged(&format!("a record of kind {other}"))),
        };
        let ticks = long_at(record, offset_of!(abi::cohabit_access_t, ticks)).saturating_sub(self.start_ticks);
        let time_ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        let time_ns = u64::try_from(time_ns).unwrap_or(u64::MAX);
        Ok(Event::Access(Access { time_ns, ..Access::new(kind_and_task & TASK_MASK, kind, address, size) }))
    }

    fn cleared(&self, address: u64, blocks: u32) -> Range<u64> {
        match blocks {
            0 => 0..u64::MAX,
            _ => address..address.saturating_add(u64::from(blocks).saturating_mul(self.block_bytes)),
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::new(format!("{}: damaged: {what}", self.name.display())).remedy("record it again")
    }
}

impl<R: Read> Iterator for Stream<R> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut record = [0; RECORD_BYTES];
        let event = match self.from.read_exact(&mut record) {
            Ok(()) => {
                self.ticks = long_at(&record, offset_of!(abi::cohabit_access_t, ticks));
                self.event(&record)
            }
            Err(error) => Err(self.damaged(&format!("{} records are missing: {error}", self.left + 1))),
        };
        if event.is_err() {
            self.left = 0;
        }
        Some(event)
    }
}

fn word_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn long_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
