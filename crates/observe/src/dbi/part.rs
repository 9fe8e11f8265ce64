//! Reads records out of a part (`native/abi.h`): bounds are checked, nothing is trusted.
//!
//! Parts are read piece by piece and not mapped: one may be cut short by a full disk, or still be written to by a
//! process that outlived the run.

use super::abi;
use cohabit_model::{Error, Result};
use std::fs::File;
use std::mem::size_of;
use std::os::unix::fs::FileExt;

/// Where the bytes of a part come from.
pub trait Source {
    /// Fills `buffer` from `offset` on, wholly or not at all.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
    /// How many bytes there are.
    fn bytes(&self) -> std::io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn bytes(&self) -> std::io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

#[cfg(test)]
impl Source for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let found = usize::try_from(offset).ok().and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(found.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn bytes(&self) -> std::io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// A record of `abi.h`.
///
/// # Safety
/// Any bytes are a value: integers and arrays of them, without padding that matters and without pointers.
pub unsafe trait Record: Copy {}

// SAFETY: structures of integers, generated from the header.
unsafe impl Record for abi::cohabit_part_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_task_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_directory_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_cell_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_series_page_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_shape_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_module_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_hot_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_object_t {}
// SAFETY: as above.
unsafe impl Record for abi::cohabit_phase_t {}
// SAFETY: an integer.
unsafe impl Record for u64 {}

/// A part whose head has been read.
pub struct Part<'a, S: Source + ?Sized> {
    source: &'a S,
    /// The head, as it was when the part was opened.
    pub head: abi::cohabit_part_t,
    used: u64,
    unread: u64,
    buffer: Vec<u8>,
}

impl<'a, S: Source + ?Sized> Part<'a, S> {
    /// Opens a part; none where its process ended before there was anything in it.
    ///
    /// # Errors
    /// It cannot be read, is of another version, or no part at all.
    pub fn open(source: &'a S) -> Result<Option<Self>> {
        let bytes = source.bytes()?;
        let mut magic = [0; size_of::<u64>()];
        if bytes >= magic.len() as u64 {
            source.read_at(&mut magic, 0)?;
        }
        match u64::from_le_bytes(magic) {
            0 => return Ok(None),
            abi::COHABIT_PART_MAGIC => {}
            _ => return Err(Error::new("not a record of the profiler's")),
        }
        // SAFETY: any bytes are a head, zeroes too.
        let head = unsafe { std::mem::zeroed() };
        let mut part = Self { source, head, used: bytes, unread: bytes, buffer: Vec::new() };
        part.head = part.record(0)?;
        if part.head.version != abi::COHABIT_PART_VERSION {
            let cause =
                format!("version {} of the profiler's records, not {}", part.head.version, abi::COHABIT_PART_VERSION);
            return Err(Error::new(cause).remedy("run `make`: the client and cohabit are of different builds"));
        }
        if part.head.used > bytes {
            return Err(Error::new(format!("cut short: {} bytes of {}", bytes, part.head.used)));
        }
        part.used = part.head.used;
        Ok(Some(part))
    }

    /// The record at `offset`.
    ///
    /// # Errors
    /// It lies outside the part, or more has been read than the part holds: then records overlap or form a circle.
    pub fn record<T: Record>(&mut self, offset: u64) -> Result<T> {
        self.fill(offset, 1, size_of::<T>())?;
        Ok(get(&self.buffer))
    }

    /// `count` records from `offset` on.
    ///
    /// # Errors
    /// As for one.
    pub fn records<T: Record>(&mut self, offset: u64, count: usize) -> Result<Vec<T>> {
        self.fill(offset, count, size_of::<T>())?;
        Ok(self.buffer.chunks_exact(size_of::<T>()).map(get).collect())
    }

    fn fill(&mut self, offset: u64, count: usize, size: usize) -> Result<()> {
        let length = count.checked_mul(size).filter(|&length| length as u64 <= self.used);
        let inside = length.filter(|&length| offset.checked_add(length as u64).is_some_and(|end| end <= self.used));
        let Some(length) = inside else {
            return Err(Error::new(format!("damaged: a record at {offset} of {} bytes", self.used)));
        };
        // Every record has one owner, so nothing is read twice: this bounds time and memory, whatever the offsets say.
        self.unread = self.unread.checked_sub(length as u64).ok_or_else(|| Error::new("damaged: records overlap"))?;
        self.buffer.resize(length, 0);
        self.source.read_at(&mut self.buffer, offset)?;
        Ok(())
    }
}

fn get<T: Record>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>(), "a record's own bytes");
    // SAFETY: as many bytes as the record has, and any bytes are a record (the trait's promise).
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

/// Text that ends at the first zero byte.
pub fn text(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
