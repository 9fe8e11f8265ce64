//! The folder of one comparison for what goes with it: mappings, and what the program writes.

use cohabit_model::{Error, Result, private};
use nix::fcntl::Flock;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "cohabit-compare-";

/// Removed with all that is in it when this is dropped; where cohabit is killed, by the next one.
pub struct Folder {
    folder: TempDir,
    _lock: Option<Flock<File>>,
}

impl Folder {
    /// Makes one where temporary files go (`TMPDIR`).
    ///
    /// # Errors
    /// Where none can be made.
    pub fn create() -> Result<Self> {
        let place = std::env::temp_dir();
        private::remove_abandoned(&place, PREFIX, &|_| false);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place).map_err(|error| {
            Error::new(format!("no temporary folder in {}: {error}", place.display()))
                .remedy("set TMPDIR to a folder that can be written to")
        })?;
        // Locked before it has its name. Where files cannot be locked, nobody takes the folder for abandoned either.
        let new = folder.path().join("lock.new");
        let lock = File::create(&new).ok().and_then(|file| private::try_lock(file).ok());
        std::fs::rename(&new, folder.path().join(private::LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// What cohabit said last in a file, without its name; none where it said nothing. What follows in its own lines is the
/// remedy.
pub fn last_cause(path: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    text.lines().rev().find_map(|line| line.strip_prefix("cohabit: ")).map(str::to_owned)
}

/// The last line of a file that is not empty, shortened; none where there is none.
pub fn last_line(path: &Path) -> Option<String> {
    const LONGEST: usize = 200;
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(LONGEST).collect())
}
