//! Files written whole or not at all: what a reader finds under a name is the old content or the new, never a part.
//!
//! A temporary file in the same directory is filled, brought to the disk with fsync and renamed over the name; then the
//! directory is brought to the disk too (the order rename(2) and fsync(2) ask for).

use crate::{Error, Result, private};
use nix::errno::Errno;
use nix::fcntl::Flock;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes `content` to `path`, whole or not at all. On any error what was there before is untouched, and no temporary
/// file stays behind. A symbolic link stays one: what it points to is replaced. What is there but is no plain file (a
/// pipe, a terminal) is written to and not replaced, and so is what this process has open under that name
/// (`/dev/stdout`, whatever it is: of a file that it is appended to, nothing is lost).
///
/// # Errors
/// The path with the system's reason: no such directory, no permission, disk full.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let write = private::resolve(path).and_then(|destination| match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => write_through(path, content),
        Ok(existing) if is_open(path, &existing) => write_behind(path, &existing, content),
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

/// Whether it is a descriptor of this process by its name, or the file that its output goes to.
fn is_open(path: &Path, existing: &fs::Metadata) -> bool {
    const MOST_LINKS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(folder) = fs::canonicalize(directory(&at)) else { break };
        if folder.starts_with("/proc") && folder.ends_with("fd") {
            return true;
        }
        let Ok(target) = fs::read_link(&at) else { break };
        at = folder.join(target);
    }
    output_to(existing).is_some()
}

/// Standard output or standard error, where that is this file.
fn output_to(existing: &fs::Metadata) -> Option<File> {
    let outputs = [std::io::stdout().as_fd().try_clone_to_owned(), std::io::stderr().as_fd().try_clone_to_owned()];
    let is_it = |output: &File| {
        output.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (existing.dev(), existing.ino()))
    };
    outputs.into_iter().flatten().map(File::from).find(is_it)
}

/// Writes behind what is there, and behind what this process has written there.
fn write_behind(path: &Path, existing: &fs::Metadata, content: &[u8]) -> std::io::Result<()> {
    std::io::stdout().flush()?;
    match output_to(existing) {
        Some(mut output) => output.write_all(content),
        None => OpenOptions::new().append(true).open(path)?.write_all(content),
    }
}

/// Makes sure, before hours of work, that a file can be written at `path` when they are over: by making the temporary
/// file that will be used then, or where there is something that is no plain file, by asking whether it may be written
/// to.
///
/// # Errors
/// As [`write_whole`] would fail.
pub fn check_writable(path: &Path) -> Result<()> {
    let check = || match fs::metadata(path) {
        Ok(existing) if existing.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(existing) if !existing.is_file() => Ok(nix::unistd::access(path, nix::unistd::AccessFlags::W_OK)?),
        Ok(existing) if is_open(path, &existing) => Ok(nix::unistd::access(path, nix::unistd::AccessFlags::W_OK)?),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Temporary::beside(&fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())).map(drop),
    };
    check().map_err(|error| cannot_write(path, &error))
}

/// What some editors put before UTF-8: a byte order mark.
const MARK: &str = "\u{feff}";
/// Bytes that are read at a time, and that [`read_text_within`]'s limit goes by.
pub const BEGINNING: usize = 1 << 20;

/// The whole of a text file, without a byte order mark; refused when it is longer than `limit` bytes or not UTF-8.
///
/// # Errors
/// The path with what is wrong with it.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    read_text_within(path, |_| limit)
}

/// The same of a file that is open: `path` is what errors call it.
///
/// # Errors
/// The path with what is wrong with it.
pub(crate) fn read_text_of(file: &File, path: &Path, limit: u64) -> Result<String> {
    read_open_within(file, path, |_| limit)
}

/// The same with a limit that its beginning says, up to [`BEGINNING`] bytes of it. What is no text is refused as soon
/// as it is met, so that of an endless file no more is read than the limit.
///
/// # Errors
/// The path with what is wrong with it.
pub fn read_text_within(path: &Path, limit: impl Fn(&str) -> u64) -> Result<String> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    read_open_within(&file, path, limit)
}

fn read_open_within(file: &File, path: &Path, limit: impl Fn(&str) -> u64) -> Result<String> {
    let (mut bytes, mut valid) = (Vec::new(), 0);
    let mut most = None;
    loop {
        let now = file.take(BEGINNING as u64).read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
        valid = valid_up_to(&bytes, valid, now == 0).map_err(|error| error.at(path.display()))?;
        let most = *most.get_or_insert_with(|| limit(std::str::from_utf8(&bytes[..valid]).unwrap_or_default()));
        if bytes.len() as u64 > most {
            let cause = format!("longer than {most} bytes, more than such a file can need");
            return Err(Error::new(cause).at(path.display()));
        }
        if now == 0 {
            break;
        }
    }
    if bytes.starts_with(MARK.as_bytes()) {
        bytes.drain(..MARK.len());
    }
    String::from_utf8(bytes).map_err(|_| Error::new("not text").at(path.display()))
}

/// How many of the bytes are text, those before `valid` being known to be; some of the last letter may be still to
/// come.
fn valid_up_to(bytes: &[u8], valid: usize, is_whole: bool) -> Result<usize> {
    if valid == 0 && (bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")) {
        return Err(Error::new("not text as it is read here: it is UTF-16").remedy("save it as UTF-8"));
    }
    let new = &bytes[valid..];
    if let Some(at) = new.iter().position(|&byte| byte == 0) {
        return Err(Error::new(format!("not text: byte {} is 0", valid + at)));
    }
    match std::str::from_utf8(new) {
        Ok(_) => Ok(bytes.len()),
        Err(error) if error.error_len().is_none() && !is_whole => Ok(valid + error.valid_up_to()),
        Err(error) => Err(Error::new(format!("not text: byte {} is not UTF-8", valid + error.valid_up_to()))),
    }
}

/// The error for a path that cannot be read, with the system's reason.
pub fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("cannot read {}: {error}", path.display())).remedy("check the path and its permissions")
}

/// The error for a path that cannot be written, with the system's reason.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull => "free some space there, or write to another disk",
        _ if error.raw_os_error() == Some(libc::ENAMETOOLONG) => "give it a shorter name",
        _ if error.raw_os_error() == Some(libc::EMFILE) => "raise the number of open files: ulimit -n",
        ErrorKind::NotFound => "make the directory first, or write elsewhere",
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
    /// Locked as long as it is there, so that others know that it is in use. What was abandoned beside it is removed
    /// first.
    fn beside(destination: &Path) -> std::io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        if destination.file_name().is_none() {
            return Err(std::io::Error::new(ErrorKind::InvalidInput, "it names no file"));
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
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
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

/// What a deserialiser says of a text, in a line and without the names of Rust's types.
pub fn in_words(message: &str) -> String {
    const TYPES: [(&str, &str); 12] = [
        ("u8", "a whole number"),
        ("u16", "a whole number"),
        ("u32", "a whole number"),
        ("u64", "a whole number"),
        ("usize", "a whole number"),
        ("i64", "a whole number"),
        ("f64", "a number"),
        ("a map", "a table"),
        ("a sequence", "an array"),
        ("a boolean", "true or false"),
        ("a borrowed string", "a string"),
        ("a tuple of size 2", "an array of two numbers"),
    ];
    let line = message.lines().map(str::trim).collect::<Vec<_>>().join(", ");
    let Some((before, expected)) = line.split_once("expected ") else { return line };
    let known = TYPES.iter().find(|(name, _)| *name == expected).map(|(_, words)| *words);
    let words = known.or(expected.starts_with("struct ").then_some("a table"));
    format!("{before}expected {}", words.unwrap_or(expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
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
    fn what_was_expected_is_no_type_of_rust() {
        for (message, expected) in [
            ("invalid type: string \"x\", expected u64\n", "invalid type: string \"x\", expected a whole number"),
            ("invalid type: integer `5`, expected struct CoreTable", "invalid type: integer `5`, expected a table"),
            ("unknown field `a`, expected `b` or `c`", "unknown field `a`, expected `b` or `c`"),
            ("missing field `about`", "missing field `about`"),
        ] {
            assert_eq!(in_words(message), expected);
        }
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
    fn what_is_open_here_is_written_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        put(&path, "old ").unwrap();
        let open = File::options().append(true).open(&path).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let name = format!("/proc/self/fd/{}", open.as_raw_fd());
        let link = directory.path().join("link");
        symlink(&name, &link).unwrap();
        for name in [name.into(), format!("/dev/fd/{}", open.as_raw_fd()).into(), link] {
            check_writable(&name).unwrap();
            put(&name, "new ").unwrap();
        }
        assert_eq!(read_text(&path, 100).unwrap(), "old new new new ");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        put(&path, "whole").unwrap();
        assert_eq!(read_text(&path, 100).unwrap(), "whole");
    }

    #[test]
    fn every_name_that_a_folder_takes_is_written() {
        use std::os::unix::ffi::OsStringExt;
        let directory = tempfile::tempdir().unwrap();
        let names =
            [vec![b'n'; 241], vec![b'n'; 255], "é".repeat(127).into_bytes(), vec![0xff; 255], b"a\xffb\n".to_vec()];
        for name in names {
            let path = directory.path().join(std::ffi::OsString::from_vec(name));
            check_writable(&path).unwrap();
            assert!(!path.exists(), "it is only made when there is something to write");
            put(&path, "new").unwrap();
            check_writable(&path).unwrap();
            assert_eq!(read_text(&path, 3).unwrap(), "new");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 5, "no temporary file is left");
    }

    #[test]
    fn what_could_not_be_written_is_refused_before() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("none/a");
        for (path, said) in [
            (directory.path(), "is a directory"),
            (&missing, "No such file"),
            (&directory.path().join("n".repeat(256)), "File name too long"),
            (&directory.path().join("a/.."), "it names no file"),
            (Path::new(""), "cannot write"),
        ] {
            let error = check_writable(path).unwrap_err();
            assert!(error.cause.to_lowercase().contains(&said.to_lowercase()), "{path:?}: {}", error.cause);
        }
        check_writable(Path::new("/dev/null")).unwrap();
        check_writable(Path::new("/dev/full")).unwrap();
    }

    #[test]
    fn an_endless_file_is_read_up_to_its_limit() {
        let error = read_text(Path::new("/dev/zero"), u64::MAX).unwrap_err();
        assert_eq!(error.cause, "/dev/zero: not text: byte 0 is 0");
        assert!(read_text(Path::new("/dev/urandom"), u64::MAX).unwrap_err().cause.contains("not text"));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "1 2\n".repeat(BEGINNING)).unwrap();
        let limit = |beginning: &str| {
            assert_eq!(beginning.len(), BEGINNING);
            2 << 20
        };
        assert!(read_text_within(&path, limit).unwrap_err().cause.contains("longer than 2097152 bytes"));
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
        fs::write(&path, "abc").unwrap();
        assert!(read_text(&path, 2).unwrap_err().cause.contains("longer than 2 bytes"));
        fs::write(&path, "a\u{e9}".repeat(BEGINNING)).unwrap();
        assert_eq!(read_text(&path, 4 << 20).unwrap().chars().count(), 2 * BEGINNING, "letters across two reads");
        for (bytes, said) in
            [(&b"ab\xc3"[..], "byte 2 is not UTF-8"), (b"a\0b", "byte 1 is 0"), (b"\xff\xfea\0", "UTF-16")]
        {
            fs::write(&path, bytes).unwrap();
            assert!(read_text(&path, 100).unwrap_err().cause.contains(said), "{said}");
        }
        assert!(read_text(&directory.path().join("none"), 2).unwrap_err().cause.contains("none"));
    }
}
