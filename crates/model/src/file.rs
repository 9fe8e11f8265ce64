//! Files written whole or not at all: what a reader finds under a name is the old content or the new, never a part.
//!
//! A temporary file in the same directory is filled, brought to the disk with fsync and renamed over the name; then the
//! directory is brought to the disk too (the order rename(2) and fsync(2) ask for).

use crate::{Error, Result, private};
use nix::errno::Errno;
use nix::fcntl::Flock;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes `content` to `path`, whole or not at all. On any error what was there before is untouched, and no temporary
/// file stays behind. A symbolic link stays one: what it points to is replaced. What is there but is no plain file (a
/// pipe, a terminal, `/dev/stdout`) is written to and not replaced.
///
/// # Errors
/// The path with the system's reason: no such directory, no permission, disk full.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let write = private::resolve(path).and_then(|destination| match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => write_through(path, content),
        Ok(existing) => replace(destination, content, Some(existing.permissions())),
        Err(_) => replace(destination, content, None),
    });
    write.map_err(|error| cannot_write(path, &error))
}

fn replace(destination: PathBuf, content: &[u8], permissions: Option<fs::Permissions>) -> std::io::Result<()> {
    let mut temporary = Temporary::beside(&destination)?;
    temporary.file.write_all(content)?;
    if let Some(permissions) = permissions {
        temporary.file.set_permissions(permissions)?;
    }
    temporary.file.sync_all()?;
    fs::rename(&temporary.path, &destination)?;
    File::open(directory(&destination))?.sync_all()
}

fn write_through(path: &Path, content: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(content)
}

/// The whole of a text file, refused when it is longer than `limit` bytes or not UTF-8.
///
/// # Errors
/// The path with what is wrong with it.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    read_text_of(file, path, limit)
}

pub(crate) fn read_text_of(file: File, path: &Path, limit: u64) -> Result<String> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
    if bytes.len() as u64 > limit {
        return Err(Error::new(format!("longer than {limit} bytes, more than such a file can need")).at(path.display()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        Error::new(format!("not text: byte {place} is not UTF-8")).at(path.display())
    })
}

/// The error for a path that cannot be read, with the system's reason.
pub fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("cannot read {}: {error}", path.display())).remedy("check the path and its permissions")
}

/// The error for a path that cannot be written, with the system's reason.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        std::io::ErrorKind::StorageFull => "free some space there, or write to another disk",
        std::io::ErrorKind::NotFound => "make the directory first, or write elsewhere",
        _ => "check the path and its permissions, or write elsewhere",
    };
    Error::new(format!("cannot write {}: {error}", path.display())).remedy(remedy)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is removed when dropped; after the rename there is nothing left to remove.
struct Temporary {
    file: File,
    path: PathBuf,
    /// None where files cannot be locked: nobody takes it for abandoned then either.
    _lock: Option<Flock<File>>,
}

impl Temporary {
    /// Locked as long as it is there, so that others know that it is in use. What was abandoned beside it is removed first.
    fn beside(destination: &Path) -> std::io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if destination.file_name().is_none() {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it names no file"));
        }
        remove_abandoned_once(directory(destination));
        loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            // Short, whatever the file is called: its own name may be as long as names can be.
            let name = format!("{TEMPORARY}{}-{number}.tmp", std::process::id());
            let path = directory(destination).join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let lock = private::try_lock(file.try_clone()?);
                    // Another may have taken it for abandoned until it was locked.
                    let is_taken = matches!(lock, Err(Errno::EAGAIN)) || file.metadata()?.nlink() == 0;
                    let temporary = Self { file, path, _lock: lock.ok() };
                    if !is_taken {
                        return Ok(temporary);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What the names of temporary files begin with, and of whatever else is left beside outputs where cohabit is killed.
const TEMPORARY: &str = ".cohabit-";

/// Removes the temporary files that cohabits which were killed have left in a folder; these.
pub fn remove_abandoned(folder: &Path) -> Vec<PathBuf> {
    private::remove_abandoned(folder, TEMPORARY, &|_| false)
}

/// Once in a process: a ledger is written often.
fn remove_abandoned_once(folder: &Path) {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if DONE.lock().is_ok_and(|mut done| done.insert(folder.to_owned())) {
        remove_abandoned(folder);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn put(path: &Path, content: &str) -> Result<()> {
        write_whole(path, content.as_bytes())
    }

    #[test]
    fn replaces_the_content_and_keeps_the_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        put(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        put(&path, "new").unwrap();
        assert_eq!(read_text(&path, 3).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::create_dir(&path).unwrap();
        assert!(put(&path, "new").unwrap_err().cause.contains("directory"));
        assert!(put(&directory.path().join("a/.."), "new").is_err());
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in [".cohabit-7-0.tmp", ".cohabit-8-0.tmp", ".other.tmp"] {
            fs::write(at(name), "half").unwrap();
        }
        let in_use = private::try_lock(private::lock_file(&at(".cohabit-8-0.tmp")).unwrap()).unwrap();
        put(&at("a"), "new").unwrap();
        assert_eq!(names(directory.path()), [".cohabit-8-0.tmp", ".other.tmp", "a"]);
        drop(in_use);
        assert_eq!(remove_abandoned(directory.path()), [at(".cohabit-8-0.tmp")]);
    }

    #[test]
    fn a_name_as_long_as_names_can_be_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("n".repeat(255));
        put(&path, "new").unwrap();
        assert_eq!(read_text(&path, 3).unwrap(), "new");
    }

    #[test]
    fn a_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        put(&target, "old").unwrap();
        symlink("target", &link).unwrap();
        put(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read_text(&target, 100).unwrap(), "new");
    }

    #[test]
    fn devices_are_written_to_and_not_replaced() {
        let error = put(Path::new("/dev/full"), "x").unwrap_err();
        assert!(error.cause.contains("/dev/full") && error.remedy.unwrap().contains("space"), "{}", error.cause);
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        put(Path::new("/dev/null"), "x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = put(&directory.path().join("none/a"), "x").unwrap_err();
        assert!(error.cause.contains("none/a"), "{}", error.cause);
    }

    #[test]
    fn reading_says_what_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, b"ab\xff").unwrap();
        assert!(read_text(&path, 100).unwrap_err().cause.contains("byte 2"));
        assert!(read_text(&path, 2).unwrap_err().cause.contains("longer than 2 bytes"));
        assert!(read_text(&directory.path().join("none"), 2).unwrap_err().cause.contains("none"));
    }
}
