//! A page that is shared with programs: they find it by a variable of their environment that names a file, and map it.
//! It is a memfd, opened through /proc, so that no file is left behind.

use cohabit_model::{Error, Result};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

const BYTES: NonZeroUsize = NonZeroUsize::new(4096).expect("more than nothing");
const WORDS: usize = BYTES.get() / size_of::<u64>();

/// A page of 64-bit words, all 0 at first.
#[derive(Debug)]
pub struct SharedPage {
    file: File,
    memory: NonNull<libc::c_void>,
}

// SAFETY: the mapping is this object's alone in this process, and is read and written through atomics.
unsafe impl Send for SharedPage {}
// SAFETY: the same.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// A page; `name` is what /proc/PID/maps calls it (`/memfd:NAME`).
    ///
    /// # Errors
    /// Where no memory can be had.
    pub fn new(name: &CStr) -> Result<Self> {
        let failed = |error: std::io::Error| Error::new(format!("a page to share with the program: {error}"));
        // SAFETY: a string that ends with a zero byte.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
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

    /// The file that a program finds it by, while this process lives.
    pub fn path(&self) -> OsString {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// A word of it.
    ///
    /// # Panics
    /// Where there is no such word: there are 512.
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS, "word {index} of a page");
        // SAFETY: within the mapping, aligned, and changed by others as an atomic is.
        unsafe { &*self.memory.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// The low half of a word, by which futex(2) waits.
    fn low_half(&self, index: usize) -> &AtomicU32 {
        let low = 2 * index + usize::from(cfg!(target_endian = "big"));
        assert!(index < WORDS, "word {index} of a page");
        // SAFETY: within the mapping, aligned, and changed by others as an atomic is.
        unsafe { &*self.memory.as_ptr().cast::<AtomicU32>().add(low) }
    }

    /// Waits until somebody wakes whoever waits for a word, if the word is still `seen`, but no longer than `longest`.
    pub fn wait(&self, index: usize, seen: u64, longest: Duration) {
        let timeout = libc::timespec {
            tv_sec: longest.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(longest.subsec_nanos() as i32),
        };
        // SAFETY: an aligned word of memory that lives as long as this call, and a timespec; nothing else is read.
        unsafe {
            let word = std::ptr::from_ref(self.low_half(index));
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen as u32, &raw const timeout);
        }
    }

    /// Wakes whoever waits for a word.
    pub fn wake(&self, index: usize) {
        // SAFETY: an aligned word of memory that lives as long as this call.
        unsafe {
            let word = std::ptr::from_ref(self.low_half(index));
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX);
        }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.memory, BYTES.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_written_through_the_name_is_read() {
        let page = SharedPage::new(c"cohabit-test").unwrap();
        let mut file = std::fs::OpenOptions::new().write(true).open(page.path()).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[700u64.to_ne_bytes(), 7u64.to_ne_bytes()].concat()).unwrap();
        assert_eq!([0, 1, 2].map(|word| page.word(word).load(Ordering::Relaxed)), [700, 7, 0]);
        assert!(std::fs::read_to_string("/proc/self/maps").unwrap().contains("/memfd:cohabit-test"));
    }

    /// Whoever waits for a change that has come already does not wait, and who waits is woken.
    #[test]
    fn changes_are_waited_for() {
        let page = SharedPage::new(c"cohabit-test").unwrap();
        page.word(3).store(1, Ordering::SeqCst);
        page.wait(3, 0, Duration::from_secs(3600));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while page.word(3).load(Ordering::SeqCst) == 1 {
                    page.wait(3, 1, Duration::from_secs(3600));
                }
            });
            page.word(3).store(2, Ordering::SeqCst);
            page.wake(3);
            waits.join().unwrap();
        });
    }
}
