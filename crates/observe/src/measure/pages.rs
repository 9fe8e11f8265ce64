//! Memory on a NUMA node (mbind(2)), in pages of either size, and how much of it can be had.

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// MPOL_BIND of set_mempolicy(2).
const BIND: libc::c_int = 2;

/// A page of the smaller size.
pub(super) const PAGE: usize = 4096;

/// Memory of this process alone.
pub(super) struct Pages {
    begin: NonNull<c_void>,
    words: usize,
}

impl Pages {
    /// So many bytes, rounded up to pages, on a NUMA node by the operating system's number, or wherever this thread's
    /// are; huge pages, where the kernel grants them.
    ///
    /// # Errors
    /// Memory that cannot be had, or not there.
    pub fn new(bytes: u64, node: Option<u32>) -> io::Result<Self> {
        let mut pages = Self::untouched(bytes, MmapAdvise::MADV_HUGEPAGE)?;
        if let Some(node) = node {
            bind(pages.begin, pages.words * size_of::<u64>(), node)?;
        }
        pages.words_mut().fill(1);
        Ok(pages)
    }

    /// The same in pages of 4 KiB.
    ///
    /// # Errors
    /// Memory that cannot be had.
    pub fn small(bytes: u64) -> io::Result<Self> {
        let mut pages = Self::untouched(bytes, MmapAdvise::MADV_NOHUGEPAGE)?;
        pages.words_mut().fill(1);
        Ok(pages)
    }

    /// Memory that nobody has touched, so that it is not there yet: it is when it is written.
    ///
    /// # Errors
    /// Addresses that cannot be had.
    pub fn untouched(bytes: u64, pages: MmapAdvise) -> io::Result<Self> {
        /// A huge page begins at a multiple of its size.
        const HUGE: usize = 2 << 20;
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let length = usize::try_from(bytes).ok().and_then(|bytes| bytes.max(1).checked_next_multiple_of(PAGE));
        let length = length.ok_or_else(too_much)?;
        let slack = if length < HUGE { 0 } else { HUGE };
        let mapped = length.checked_add(slack).and_then(NonZeroUsize::new).ok_or_else(too_much)?;
        // SAFETY: new memory, which nobody else knows of.
        let begin = unsafe {
            mmap_anonymous(None, mapped, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)?
        };
        // What is before the first huge page, and what is too much behind it, goes back at once.
        let before = if slack == 0 { 0 } else { begin.as_ptr().align_offset(HUGE) };
        // SAFETY: within what was mapped: `before` is less than the slack.
        let (first, end) = unsafe { (begin.byte_add(before), begin.byte_add(before + length)) };
        for (from, bytes) in [(begin, before), (end, slack - before)] {
            if bytes > 0 {
                // SAFETY: ours, whole pages, and never used.
                unsafe { munmap(from, bytes)? };
            }
        }
        // SAFETY: the memory is ours.
        let _ = unsafe { madvise(first, length, pages) };
        Ok(Self { begin: first, words: length / size_of::<u64>() })
    }

    /// All of it.
    pub fn words(&self) -> &[u64] {
        // SAFETY: mapped in `untouched`, zeroes until it is written, unmapped in `drop`.
        unsafe { std::slice::from_raw_parts(self.begin.as_ptr().cast::<u64>(), self.words) }
    }

    /// All of it, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as many words as were mapped, aligned to pages, and nobody else's.
        unsafe { std::slice::from_raw_parts_mut(self.begin.as_ptr().cast::<u64>(), self.words) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, whose slices cannot live longer.
        let _ = unsafe { munmap(self.begin, self.words * size_of::<u64>()) };
    }
}

fn bind(begin: NonNull<c_void>, length: usize, node: u32) -> io::Result<()> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask: Vec<libc::c_ulong> = vec![0; node as usize / BITS + 1];
    mask[node as usize / BITS] = 1 << (node as usize % BITS);
    // The kernel takes one bit less than it is told.
    let bits = mask.len() * BITS + 1;
    // SAFETY: the memory is ours, and the kernel reads the given number of bits of the vector.
    match unsafe { libc::syscall(libc::SYS_mbind, begin.as_ptr(), length, BIND, mask.as_ptr(), bits, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that can be had without anything being swapped out or killed: of the machine, and of the control groups this
/// process is in. None where the kernel does not tell.
pub(super) fn available_bytes() -> Option<u64> {
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    of_machine.into_iter().chain(of_groups(&groups, Path::new("/sys/fs/cgroup"))).min()
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the process's control group and those above it leave (cgroups(7), both versions).
fn of_groups(groups: &str, root: &Path) -> Option<u64> {
    let found = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/").trim_start_matches('/'));
        let (root, limit, used) = match controllers.split(',').any(|name| name == "memory") {
            true => (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
            false => (root.to_owned(), "memory.max", "memory.current"),
        };
        let of = move |group: PathBuf| {
            let number = |file: &str| std::fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
            Some(number(limit)?.saturating_sub(number(used)?))
        };
        let group = root.join(path);
        let all: Vec<PathBuf> =
            group.ancestors().take_while(|group| group.starts_with(&root)).map(Path::to_owned).collect();
        all.into_iter().filter_map(of)
    });
    found.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_there_and_hold_what_was_asked_for() {
        let pages = Pages::new(10_000, None).unwrap();
        assert_eq!((pages.words().len(), pages.words().iter().sum::<u64>()), (3 * 512, 3 * 512));
        let here = Path::new("/sys/devices/system/node/node0").exists();
        if here && available_bytes().is_some_and(|bytes| bytes > 1 << 20) {
            assert_eq!(Pages::new(4096, Some(0)).unwrap().words().len(), 512);
        }
        assert!(Pages::new(u64::MAX, None).is_err());
    }

    #[test]
    fn the_tightest_group_counts() {
        assert_eq!(meminfo("MemTotal: 9 kB\nMemAvailable:    5 kB\n"), Some(5 << 10));
        assert_eq!(meminfo("MemTotal: 9 kB\n"), None);
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/memory.current", "400\n");
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "1\n");
        assert_eq!(of_groups("0::/a/b\n", root.path()), Some(600));
        write("memory/job/memory.limit_in_bytes", "500\n");
        write("memory/job/memory.usage_in_bytes", "600\n");
        assert_eq!(of_groups("4:cpu:/x\n3:memory:/job\n0::/\n", root.path()), Some(0));
        assert_eq!(of_groups("0::/\n", root.path()), None);
    }
}
