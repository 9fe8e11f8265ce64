//! A zip of arrays that may have been made by anybody: what it declares is bounded before anything is unpacked.
//!
//! Three bounds: one member's size, the sum of all members' sizes (which also holds where members overlap in the
//! file), and the size a member can have at most for the bytes it occupies (deflate cannot shrink more than 1,032
//! times). Memory then grows only with data that is really there.

use super::npy::{Entry, Header};
use cohabit_model::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;

/// Largest array, unpacked: 64 million counts.
pub const MEMBER_LIMIT_BYTES: u64 = 512 << 20;
/// Largest sum of arrays, unpacked: twice what a profile at all its limits holds.
pub const TOTAL_LIMIT_BYTES: u64 = 2 << 30;
const MEMBERS_LIMIT: usize = 10_000;
const DEFLATE_RATIO: u64 = 1032;

/// An open `.npz` file whose members are within the bounds.
pub struct Archive {
    zip: ZipArchive<BufReader<File>>,
}

/// A member being read: its header, and its elements still to come.
pub struct Array<'a> {
    /// Type and shape.
    pub header: Header,
    /// The elements.
    pub data: Box<dyn Read + 'a>,
}

impl Archive {
    /// Opens `path` and checks what it declares.
    ///
    /// # Errors
    /// When it cannot be read, is no zip (cut short, for one), or declares more than the bounds allow.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| cohabit_model::file::cannot_read(path, &error))?;
        let damaged = |error| {
            Error::new(format!("not a .npz file, or cut short: {error}"))
                .remedy("make it again; files of other tools are read by `cohabit import`")
        };
        let mut archive = Self { zip: ZipArchive::new(BufReader::new(file)).map_err(damaged)? };
        archive.check_sizes()?;
        Ok(archive)
    }

    fn check_sizes(&mut self) -> Result<()> {
        if self.zip.len() > MEMBERS_LIMIT {
            return Err(Error::new(format!("{} members; at most {MEMBERS_LIMIT} are read", self.zip.len())));
        }
        let mut total: u64 = 0;
        for index in 0..self.zip.len() {
            let member = self.zip.by_index_raw(index).map_err(|error| damaged(index, &error))?;
            let (size, packed) = (member.size(), member.compressed_size());
            let place = |cause: String| Error::new(cause).at(member.name());
            if size > MEMBER_LIMIT_BYTES {
                return Err(place(format!("declares {size} bytes; at most {MEMBER_LIMIT_BYTES} are read")));
            }
            if size > packed.saturating_mul(DEFLATE_RATIO) {
                return Err(place(format!("declares {size} bytes, but {packed} packed bytes cannot hold as many")));
            }
            total += size;
        }
        if total > TOTAL_LIMIT_BYTES {
            return Err(Error::new(format!("declares {total} bytes in all; at most {TOTAL_LIMIT_BYTES} are read")));
        }
        Ok(())
    }

    /// The names of its arrays, without `.npy`, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.zip.file_names().filter_map(|name| name.strip_suffix(".npy")).map(String::from).collect();
        names.sort();
        names
    }

    /// Whether there is an array of this name.
    pub fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(&member_name(name)).is_some()
    }

    /// Starts reading an array.
    ///
    /// # Errors
    /// When there is none of this name, it cannot be unpacked, its header is bad, or its size is not what its shape
    /// says.
    pub fn array(&mut self, name: &str) -> Result<Array<'_>> {
        let member = self.zip.by_name(&member_name(name)).map_err(|error| damaged(name, &error))?;
        let declared = member.size();
        let mut data = member.take(declared + 1);
        let header = Header::read(&mut data).map_err(|error| error.at(name))?;
        if header.data_bytes() > declared {
            let cause =
                format!("its shape {:?} needs {} bytes, but it holds {declared}", header.shape, header.data_bytes());
            return Err(Error::new(cause).at(name));
        }
        Ok(Array { header, data: Box::new(data) })
    }

    /// A member as it is: header and elements.
    ///
    /// # Errors
    /// When it cannot be unpacked.
    pub fn raw(&mut self, name: &str) -> Result<Vec<u8>> {
        let member = self.zip.by_name(&member_name(name)).map_err(|error| damaged(name, &error))?;
        let mut bytes = Vec::new();
        let declared = member.size();
        member.take(declared + 1).read_to_end(&mut bytes).map_err(|error| damaged(name, &error))?;
        Ok(bytes)
    }

    /// All elements of a one-dimensional array as counts.
    ///
    /// # Errors
    /// As [`Archive::array`]; also when it has another shape or holds what is no count.
    pub fn counts(&mut self, name: &str) -> Result<Vec<u64>> {
        let Array { header, mut data } = self.array(name)?;
        if header.shape.len() != 1 {
            return Err(Error::new(format!("its shape is {:?}, expected one dimension", header.shape)).at(name));
        }
        header.counts(&mut data).map_err(|error| error.at(name))
    }

    /// The entries of a square matrix that are not zero: (row, column, value), and how many rows there are.
    ///
    /// # Errors
    /// As [`Archive::array`]; also when it is not square, not `expected` rows where that is known, or holds what is no
    /// count.
    pub fn square(&mut self, name: &str, expected: Option<usize>) -> Result<(usize, Vec<Entry>)> {
        let Array { header, mut data } = self.array(name)?;
        header.read_square(&mut data, expected).map_err(|error| error.at(name))
    }
}

fn member_name(name: &str) -> String {
    format!("{name}.npy")
}

fn damaged(place: impl std::fmt::Display, error: &dyn std::fmt::Display) -> Error {
    Error::new(format!("damaged: {error}")).at(place)
}
