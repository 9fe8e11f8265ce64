//! The private directory that the parts of a run are written to, and what is read back from it.

use super::image::Image;
use cohabit_model::file::cannot_read;
use cohabit_model::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Shared memory: parts are written through a mapping, and so never to a disk.
const MEMORY: &str = "/dev/shm";
/// Room that shared memory has to have to be preferred: containers are often given 64 MB of it.
const ROOM_BYTES: u64 = 1 << 30;

/// A directory for one run, removed with all that is in it when dropped.
pub struct Directory(TempDir);

impl Directory {
    /// Makes one: in shared memory where that has room, else where temporary files go (`TMPDIR`).
    ///
    /// # Errors
    /// No place could be written to.
    pub fn create() -> Result<Self> {
        let place =
            if room_bytes(Path::new(MEMORY)) >= ROOM_BYTES { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
        // The path travels through DynamoRIO's options, which have their own idea of quotes and of separators.
        if place.as_os_str().as_encoded_bytes().iter().any(|byte| b"\"'`;\\ \t\n".contains(byte)) {
            return Err(Error::new(format!("{}: the name holds a space, a quote or a semicolon", place.display()))
                .remedy("set TMPDIR to a directory with a plain name"));
        }
        let made = tempfile::Builder::new().prefix("cohabit-").tempdir_in(&place);
        let directory = made.map_err(|error| {
            Error::new(format!("no temporary directory in {}: {error}", place.display()))
                .remedy("set TMPDIR to a directory that can be written to")
        })?;
        // DynamoRIO looks for its configuration below this one and makes no directories on the way to it.
        fs::create_dir(directory.path().join("configuration"))?;
        Ok(Self(directory))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where DynamoRIO's configuration goes.
    pub fn configuration(&self) -> PathBuf {
        self.path().join("configuration")
    }

    /// The images of the run, in no order; and what could not be read, a sentence each.
    ///
    /// # Errors
    /// The directory itself cannot be read.
    pub fn images(&self) -> Result<(Vec<Image>, Vec<String>)> {
        let (mut images, mut notes) = (Vec::new(), Vec::new());
        for path in self.parts().map_err(|error| cannot_read(self.path(), &error))? {
            match File::open(&path).map_err(Error::from).and_then(|file| Image::read(&file)) {
                Ok(Some(image)) => images.push(image),
                Ok(None) => notes.push("a process ended before it could be followed".to_owned()),
                Err(error) => notes.push(format!("the counts of a process are lost: {}", error.cause)),
            }
        }
        Ok((images, notes))
    }

    fn parts(&self) -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.path())?.map(|entry| Ok(entry?.path()));
        let is_part = |path: &PathBuf| path.extension() == Some(OsStr::new("part"));
        entries.filter(|path| path.as_ref().map_or(true, is_part)).collect()
    }

    /// Leaves the directory, without the parts in it, to processes that outlive the run: they would be stopped if their
    /// children found no place for parts of their own. What they have open stays theirs until they end.
    pub fn leave(self) -> PathBuf {
        for path in self.parts().unwrap_or_default() {
            let _ = fs::remove_file(path);
        }
        self.0.keep()
    }
}

/// What an ordinary user may still write there; 0 where nothing can be told.
fn room_bytes(path: &Path) -> u64 {
    match nix::sys::statvfs::statvfs(path) {
        Ok(found) => found.blocks_available().saturating_mul(found.fragment_size()),
        Err(_) => 0,
    }
}
