//! Where parts are: in the directory that ranks write them to, and in the folder that those of other hosts are copied
//! into.

use super::abi;
use super::part::{self, Rank};
use cohabit_model::file::cannot_read;
use cohabit_model::{Error, Result};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{BufReader, Read};
use std::mem::size_of;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The ending of a part file's name.
pub const PART: &str = "mpi-part";
/// Ranks leave their parts where they are if they find this file beside them: this host's, since whoever started them
/// reads them there.
const HERE: &str = "read-here";

/// What ranks are told of where their parts go: `parts` is made on each host, `shared` is for those of other hosts.
///
/// # Errors
/// Nothing can be written to `parts`.
pub fn variables(parts: &Path, shared: &Path) -> Result<[(String, OsString); 3]> {
    let here = parts.join(HERE);
    std::fs::write(&here, "").map_err(|error| Error::new(format!("{}: {error}", here.display())))?;
    Ok([
        ("COHABIT_MPI_PARTS".into(), parts.into()),
        ("COHABIT_MPI_HERE".into(), here.into()),
        ("COHABIT_MPI_SHARED".into(), shared.into()),
    ])
}

/// What was found: the ranks, and a sentence for each part that could not be read.
#[derive(Default)]
pub struct Found {
    /// The ranks, each once, in no order.
    pub ranks: Vec<Rank>,
    /// What was lost.
    pub notes: Vec<String>,
}

impl Found {
    fn add(&mut self, read: Result<Option<Rank>>) {
        match read {
            Ok(Some(rank)) => self.ranks.push(rank),
            Ok(None) => self.notes.push("a rank ended before anything was known of it".into()),
            Err(error) => self.notes.push(format!("the counts of a rank are lost: {}", error.cause)),
        }
    }

    /// Leaves one of several parts of the same rank.
    fn unique(mut self) -> Self {
        self.ranks.sort_by_key(|rank| (rank.head.job, rank.head.rank, rank.head.pid));
        self.ranks.dedup_by_key(|rank| (rank.head.job, rank.head.rank, rank.head.pid));
        self
    }
}

/// Reads a part, or all of a directory.
///
/// # Errors
/// The path cannot be read, or holds nothing of an MPI run.
pub fn read(path: &Path) -> Result<Found> {
    read_all(&[path])
}

/// Reads several, the first ones being believed where a rank is in more than one.
///
/// # Errors
/// As for [`read`].
pub fn read_all(paths: &[&Path]) -> Result<Found> {
    let mut found = Found::default();
    for path in paths {
        if path.is_dir() { read_folder(path, &mut found)? } else { read_file(path, &mut found)? }
    }
    Ok(found.unique())
}

fn read_folder(path: &Path, found: &mut Found) -> Result<()> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| cannot_read(path, &error))? {
        let file = path.join(entry?.file_name());
        if file.file_name().unwrap_or_default().to_string_lossy().ends_with(&format!(".{PART}")) {
            files.push(file);
        }
    }
    files.sort();
    files.iter().try_for_each(|file| read_file(file, found))
}

fn read_file(path: &Path, found: &mut Found) -> Result<()> {
    let cannot = |error| cannot_read(path, &error);
    let file = File::open(path).map_err(cannot)?;
    let mut left = held_bytes(&file.metadata().map_err(cannot)?);
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut magic = [0; 8];
    if left < 8 || input.read_exact(&mut magic).is_err() {
        found.add(Ok(None));
        return Ok(());
    }
    left -= 8;
    match next(&mut input, &mut left, &magic).map_err(cannot)? {
        Some(bytes) => found.add(part::read(&bytes)),
        None if magic == [0; 8] => found.add(Ok(None)),
        None => {
            let cause = format!("{}: no part of an MPI rank", path.display());
            return Err(Error::new(cause).remedy("name a part, or a directory with parts"));
        }
    }
    Ok(())
}

/// How much a file really holds: one that is mostly holes may be of any length, and whoever reads it all runs out of
/// memory. No file system packs what ranks leave as much as this.
fn held_bytes(metadata: &Metadata) -> u64 {
    const LEAST: u64 = 64 << 20;
    const PACKED: u64 = 256;
    const BLOCK: u64 = 512;
    metadata.len().min(metadata.blocks().saturating_mul(BLOCK * PACKED).max(LEAST))
}

/// The bytes of the part that begins with `start` and goes on in the input; none where none does.
fn next(input: &mut impl Read, left: &mut u64, start: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    let head_bytes = size_of::<abi::cohabit_mpi_part_t>();
    let more = head_bytes - start.len();
    if *left < more as u64 {
        return Ok(None);
    }
    let mut bytes = start.to_vec();
    bytes.resize(head_bytes, 0);
    input.read_exact(&mut bytes[start.len()..])?;
    *left -= more as u64;
    // A part of another version is read as far as its head: what is wrong is said by who reads it.
    let Ok(head) = part::head(&bytes) else { return Ok(Some(bytes)) };
    let Some(head) = head else { return Ok(None) };
    let rest = head.used.saturating_sub(head_bytes as u64).min(*left);
    // As many bytes as the file really has, whatever the head says.
    let before = bytes.len();
    bytes.resize(before + rest as usize, 0);
    input.read_exact(&mut bytes[before..])?;
    *left -= rest;
    Ok(Some(bytes))
}
