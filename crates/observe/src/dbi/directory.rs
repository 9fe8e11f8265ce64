//! The private directory that the parts of a run are written to, and what is read back from it.

use super::abi;
use super::image::Image;
use cohabit_model::file::cannot_read;
use cohabit_model::{Error, Result, private};
use nix::fcntl::Flock;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Shared memory: parts are written through a mapping, and so never to a disk.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "cohabit-";
/// Room that shared memory has to have to be preferred: containers are often given 64 MB of it.
const ROOM_BYTES: u64 = 1 << 30;

/// Made for DynamoRIO in every such directory, and in no other.
const CONFIGURATION: &str = "configuration";

/// What the processes of a run know together of the memory that they share (`native/dbi/common.c`).
const COMMON: &str = "common";

/// A directory for one run, removed with all that is in it when dropped.
pub struct Directory {
    directory: TempDir,
    _lock: Flock<File>,
}

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
        remove_stale(&place);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place);
        let directory = made.map_err(|error| {
            Error::new(format!("no temporary directory in {}: {error}", place.display()))
                .remedy("set TMPDIR to a directory that can be written to")
        })?;
        // DynamoRIO looks for its configuration below this one and makes no directories on the way to it.
        fs::create_dir(directory.path().join(CONFIGURATION))?;
        let lock = lock(directory.path())?;
        Ok(Self { directory, _lock: lock })
    }

    /// Makes the file in which the profiler keeps the state of memory that processes share. It is sparse; where the
    /// file system, or ulimit -f, allows no files so large there is none, and each process is counted by itself, which
    /// the profile then says.
    pub fn make_common(&self) {
        // A file beyond the limit (ulimit -f) would be answered with a signal.
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_FSIZE);
        if limit.is_ok_and(|(soft, _)| soft < abi::COHABIT_COMMON_BYTES) {
            return;
        }
        let path = self.path().join(COMMON);
        let made = File::create(&path).and_then(|file| file.set_len(abi::COHABIT_COMMON_BYTES));
        if made.is_err() {
            let _ = fs::remove_file(path);
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where DynamoRIO's configuration goes.
    pub fn configuration(&self) -> PathBuf {
        self.path().join(CONFIGURATION)
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

    /// Whether the profiler has begun to count in some process: its part has a head.
    pub fn has_begun(&self) -> bool {
        use std::os::unix::fs::FileExt;
        let mut magic = [0; size_of::<u64>()];
        let mut begins = |path: PathBuf| {
            let read = File::open(path).and_then(|part| part.read_exact_at(&mut magic, 0));
            read.is_ok() && u64::from_le_bytes(magic) == abi::COHABIT_PART_MAGIC
        };
        self.parts().is_ok_and(|parts| parts.into_iter().any(&mut begins))
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
        self.directory.keep()
    }
}

/// Removes what runs left behind whose cohabit was killed, once no process of theirs is left. What belongs to others,
/// or is no directory of a run (as the ledger of `cohabit run` is none), stays.
fn remove_stale(place: &Path) -> Vec<PathBuf> {
    private::remove_abandoned(place, PREFIX, &|path| !path.join(CONFIGURATION).is_dir() || in_use(path))
}

/// Removes what killed runs have left wherever such directories may be; these.
pub fn remove_abandoned() -> Vec<PathBuf> {
    let places = BTreeSet::from([PathBuf::from(MEMORY), std::env::temp_dir()]);
    places.iter().flat_map(|place| remove_stale(place)).collect()
}

/// Whether a process has a part mapped that lies, or lay, in the directory.
fn in_use(directory: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let within = [directory.as_os_str().as_encoded_bytes(), b"/"].concat();
    processes.flatten().any(|process| {
        let maps = fs::read(process.path().join("maps")).unwrap_or_default();
        maps.windows(within.len()).any(|bytes| bytes == within)
    })
}

/// Locks a new directory for as long as this process lives. Under its name the lock is held from the first moment:
/// another run might take the directory for a stale one.
pub(crate) fn lock(directory: &Path) -> Result<Flock<File>> {
    let new = directory.join("lock.new");
    let lock = File::create(&new)
        .map_err(Error::from)
        .and_then(|file| private::try_lock(file).map_err(|errno| Error::new(format!("{}: {errno}", new.display()))))?;
    fs::rename(&new, directory.join(private::LOCK))?;
    Ok(lock)
}

/// What an ordinary user may still write there; 0 where nothing can be told.
fn room_bytes(path: &Path) -> u64 {
    match nix::sys::statvfs::statvfs(path) {
        Ok(found) => found.blocks_available().saturating_mul(found.fragment_size()),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().expect("a place");
        let make = |name: &str, lock: bool| {
            let path = place.path().join(name);
            fs::create_dir_all(path.join(CONFIGURATION)).expect("a directory");
            if lock {
                File::create(path.join(private::LOCK)).expect("a lock");
            }
            path
        };
        let stale = make("cohabit-stale", true);
        let [held, foreign, unlocked] = [make("cohabit-held", true), make("other", true), make("cohabit-data", false)];
        let lock = private::try_lock(File::open(held.join(private::LOCK)).expect("a lock"));
        // The ledger of another cohabit; a pipe that nobody answers.
        let ledger = make("cohabit-1000", true);
        fs::remove_dir(ledger.join(CONFIGURATION)).expect("the directory made above");
        let piped = make("cohabit-x", false);
        nix::unistd::mkfifo(&piped.join(private::LOCK), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let mapped = make("cohabit-mapped", true);
        let part = mapped.join("1.part");
        fs::write(&part, [0; 4096]).expect("a part");
        let file = File::open(&part).expect("a part");
        // SAFETY: a new private mapping of a file of this size, unmapped below and never read.
        let mapping = unsafe {
            use std::os::fd::AsRawFd;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        assert_ne!(mapping, libc::MAP_FAILED);
        remove_stale(place.path());
        assert!(!stale.exists());
        for kept in [&held, &foreign, &unlocked, &mapped, &ledger, &piped] {
            assert!(kept.exists(), "{}", kept.display());
        }
        // SAFETY: the mapping made above.
        unsafe { libc::munmap(mapping, 4096) };
        drop(lock);
        remove_stale(place.path());
        assert!(!held.exists() && !mapped.exists());
    }
}
