//! What a program says of its own progress (native/include/cohabit_progress.h): two counters in a page that its processes
//! map. The page is a memfd, opened through /proc, so that no file is left behind.

use cohabit_model::{Error, Result};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::OsString;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names the file to the program.
const VARIABLE: &str = "COHABIT_PROGRESS";
/// As /proc/PID/maps has it.
pub(super) const PROGRESS_FILE: &str = "/memfd:cohabit-progress";
const BYTES: NonZeroUsize = NonZeroUsize::new(4096).expect("more than nothing");

/// The counters.
pub struct ProgressPage {
    file: File,
    memory: NonNull<libc::c_void>,
}

// SAFETY: the mapping is this object's alone in this process, and is read through atomics.
unsafe impl Send for ProgressPage {}

impl ProgressPage {
    /// A page with nothing done yet.
    ///
    /// # Errors
    /// Where no memory can be had.
    pub fn new() -> Result<Self> {
        let failed = |error: std::io::Error| Error::new(format!("a page for the program's progress: {error}"));
        // SAFETY: a string that ends with a zero byte.
        let fd = unsafe { libc::memfd_create(c"cohabit-progress".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
        // SAFETY: a descriptor that nobody else has.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(BYTES.get() as u64).map_err(failed)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, which is not touched but through this object.
        let memory = unsafe { mmap(None, BYTES, protection, MapFlags::MAP_SHARED, &file, 0) };
        Ok(Self { memory: memory.map_err(|errno| failed(errno.into()))?, file })
    }

    /// What a program's environment needs to find it.
    pub fn environment(&self) -> (&'static str, OsString) {
        (VARIABLE, format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into())
    }

    /// Units of work, and how often they were reported; none where the program has said nothing yet.
    pub fn read(&self) -> Option<(u64, u64)> {
        let counter = |index: usize| {
            // SAFETY: within the mapping, aligned, and changed by others as an atomic is.
            unsafe { &*self.memory.as_ptr().cast::<AtomicU64>().add(index) }.load(Ordering::Relaxed)
        };
        Some((counter(0), counter(1))).filter(|&(_, reports)| reports > 0)
    }
}

impl Drop for ProgressPage {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.memory, BYTES.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn what_is_written_through_the_name_is_read() {
        let page = ProgressPage::new().unwrap();
        assert_eq!(page.read(), None);
        let (name, path) = page.environment();
        assert_eq!(name, "COHABIT_PROGRESS");
        let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[700u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat()).unwrap();
        assert_eq!(page.read(), Some((700, 7)));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains(PROGRESS_FILE));
    }
}
