//! Affinity masks of any width: `sched_getaffinity(2)` and `sched_setaffinity(2)`, which act on one thread each.
//!
//! The C library's `cpu_set_t` ends at 1,024 PUs and the machines this is for do not, so masks are vectors here.

use crate::cpuset;
use std::fmt;
use std::io;

/// What the kernel counts mask bits in.
type Word = libc::c_ulong;

/// No kernel is built for more PUs than this.
const MOST_PUS: usize = 1 << 19;

/// A set of PUs, by OS index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CpuMask {
    /// Without zero words at the end, so that equal sets compare equal.
    words: Vec<Word>,
}

impl CpuMask {
    /// The set of one PU.
    pub fn single(pu: u32) -> Self {
        Self::from_pus([pu])
    }

    /// The set of all PUs that a machine can have: what is confined to it is confined to nothing.
    fn every() -> Self {
        Self { words: vec![Word::MAX; MOST_PUS / Word::BITS as usize] }
    }

    /// The set of these PUs (OS indices).
    pub fn from_pus(pus: impl IntoIterator<Item = u32>) -> Self {
        let mut words = Vec::new();
        for pu in pus {
            let (word, bit) = (pu as usize / Word::BITS as usize, pu % Word::BITS);
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << bit;
        }
        Self { words }
    }

    /// The set that a list (`0-3,8`) names; none where it is no list.
    pub fn parse(list: &str) -> Option<Self> {
        let mut pus = Vec::new();
        for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last as usize >= MOST_PUS {
                return None;
            }
            pus.extend(first..=last);
        }
        Some(Self::from_pus(pus))
    }

    /// The affinity of a thread (0: the calling one).
    ///
    /// # Errors
    /// ESRCH when there is no such thread.
    pub fn of_thread(tid: i32) -> io::Result<Self> {
        let mut words: Vec<Word> = vec![0; 1024 / Word::BITS as usize];
        loop {
            // SAFETY: the kernel writes at most the given number of bytes into the vector.
            let written = unsafe {
                libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(words.as_slice()), words.as_mut_ptr())
            };
            if written >= 0 {
                words.truncate(words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1));
                return Ok(Self { words });
            }
            let error = io::Error::last_os_error();
            // EINVAL: the kernel knows more PUs than the vector has bits.
            if error.raw_os_error() != Some(libc::EINVAL) || words.len() * Word::BITS as usize >= MOST_PUS {
                return Err(error);
            }
            words.resize(words.len() * 2, 0);
        }
    }

    /// Makes this the affinity of a thread (0: the calling one).
    ///
    /// # Errors
    /// ESRCH when there is no such thread, EINVAL when none of the PUs is allowed to it, EPERM for another user's.
    pub fn apply(&self, tid: i32) -> io::Result<()> {
        // SAFETY: the kernel reads the given number of bytes from the vector.
        let result = unsafe {
            libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(self.words.as_slice()), self.words.as_ptr())
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the set holds this PU (OS index).
    pub fn contains(&self, pu: u32) -> bool {
        let word = self.words.get(pu as usize / Word::BITS as usize).copied().unwrap_or(0);
        (word >> (pu % Word::BITS)) & 1 == 1
    }

    /// The PU (OS index) that is all of the set; none where there are more, or none.
    pub fn only(&self) -> Option<u32> {
        let mut words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        let (index, word) = words.next()?;
        (words.next().is_none() && word.is_power_of_two()).then(|| index as u32 * Word::BITS + word.trailing_zeros())
    }

    /// The PUs of the set (OS indices), ascending.
    pub fn pus(&self) -> Vec<u32> {
        (0..self.words.len() as u32 * Word::BITS).filter(|&pu| self.contains(pu)).collect()
    }
}

/// As the kernel writes lists: `0-3,8`.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut pus = self.pus().into_iter().peekable();
        while let Some(first) = pus.next() {
            let mut last = first;
            while pus.peek() == Some(&(last + 1)) {
                last = pus.next().expect("peeked");
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// What a thread may use when nobody confines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The PUs.
    pub pus: CpuMask,
    /// Whether these are all that its cpuset has.
    pub is_all: bool,
}

impl Allowed {
    /// What a thread may use now (0: the calling one).
    ///
    /// # Errors
    /// As [`CpuMask::of_thread`].
    pub fn of_thread(tid: i32) -> io::Result<Self> {
        let pus = CpuMask::of_thread(tid)?;
        let is_all = cpuset::of_thread(tid).is_some_and(|allowed| allowed == pus);
        Ok(Self { pus, is_all })
    }

    /// Gives a thread that back (0: the calling one). The kernel remembers to which PUs a thread was confined, and holds
    /// it to these when its cpuset changes (since Linux 6.2): one that had all of its cpuset is confined to nothing, so
    /// that it goes on having that. So is one whose cpuset has none of its PUs any more.
    ///
    /// # Errors
    /// As [`CpuMask::apply`].
    pub fn apply(&self, tid: i32) -> io::Result<()> {
        if self.is_all {
            return CpuMask::every().apply(tid);
        }
        self.pus.apply(tid).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => CpuMask::every().apply(tid),
            _ => Err(error),
        })
    }
}

/// Whether this process may run on the PU with this OS index: its cpuset, its cgroup and its own affinity allow it.
pub fn pu_allowed(pu: u32) -> bool {
    CpuMask::of_thread(0).is_ok_and(|mask| mask.contains(pu))
}

#[cfg(test)]
mod tests {
    use super::{Allowed, CpuMask, pu_allowed};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn written_as_the_kernel_writes_lists() {
        for (pus, text) in
            [(vec![], ""), (vec![0], "0"), (vec![0, 1, 2, 8], "0-2,8"), (vec![63, 64, 4095], "63-64,4095")]
        {
            assert_eq!(CpuMask::from_pus(pus).to_string(), text);
        }
    }

    #[test]
    fn what_is_applied_is_read_back() {
        let own = CpuMask::of_thread(0).unwrap();
        for pu in own.pus() {
            assert!(pu_allowed(pu));
            std::thread::spawn(move || {
                CpuMask::single(pu).apply(0).unwrap();
                assert_eq!(CpuMask::of_thread(0).unwrap(), CpuMask::single(pu));
            })
            .join()
            .unwrap();
        }
        std::thread::spawn({
            let own = own.clone();
            move || {
                let before = Allowed::of_thread(0).unwrap();
                CpuMask::single(own.pus()[0]).apply(0).unwrap();
                before.apply(0).unwrap();
                assert_eq!(CpuMask::of_thread(0).unwrap(), own);
                // What it had is no longer there.
                let gone = CpuMask::single(own.pus().last().unwrap() + 100_000);
                Allowed { pus: gone, is_all: false }.apply(0).unwrap();
                assert!(own.pus().into_iter().all(pu_allowed));
            }
        })
        .join()
        .unwrap();
        let absent = CpuMask::single(own.pus().last().unwrap() + 100_000);
        assert_eq!(absent.apply(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(CpuMask::of_thread(0).unwrap(), own);
    }

    proptest! {
        #[test]
        fn a_mask_holds_exactly_its_pus(
            pus in prop_oneof![
                proptest::collection::btree_set(0u32..5000, 0..40),
                proptest::collection::btree_set(0u32..5000, 1..3),
            ],
        ) {
            let mask = CpuMask::from_pus(pus.iter().copied());
            prop_assert_eq!(mask.pus().into_iter().collect::<BTreeSet<_>>(), pus.clone());
            prop_assert_eq!(mask.only(), pus.first().copied().filter(|_| pus.len() == 1));
            prop_assert_eq!(CpuMask::parse(&mask.to_string()), Some(mask.clone()));
            prop_assert_eq!(mask == CpuMask::from_pus(pus.iter().rev().copied()), true);
        }
    }
}
