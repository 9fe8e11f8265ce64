//! Loops that read the same places again and again, and whether they wait for others. They do where others write what
//! they read; a bound, a constant, or a flag that nobody sets is read as often by a loop that goes on until it has done
//! its part.
//!
//! That others write is seen by a sample of one at it, or by the value being another one than before: the loops
//! themselves write nothing.

use std::collections::HashMap;

/// Loops that are remembered whose places nobody has been seen to write.
const MOST: usize = 1024;
/// By which places are found that overlap.
const WORD: u64 = 8;
/// An access is no longer (AVX-512).
const LONGEST: u64 = 64;

/// Bytes of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span {
    memory: u64,
    at: u64,
    bytes: u64,
}

impl Span {
    /// So many bytes at a place: of which memory, and where in it.
    pub(super) fn of((memory, at): (u64, u64), bytes: u64) -> Self {
        Self { memory, at, bytes: bytes.clamp(1, LONGEST) }
    }

    fn words(self) -> impl Iterator<Item = (u64, u64)> {
        (self.at / WORD..=(self.at + self.bytes - 1) / WORD).map(move |word| (self.memory, word))
    }

    fn overlaps(self, other: Self) -> bool {
        self.memory == other.memory && self.at < other.at + other.bytes && other.at < self.at + self.bytes
    }
}

/// A loop, by what it reads.
#[derive(Debug)]
struct Loop {
    /// Samples that found a task in it.
    samples: u64,
    /// A task that was in it.
    task: u32,
    /// What was in its places.
    values: Vec<Option<u64>>,
    /// Whether others write there.
    waits: bool,
}

/// The loops that were seen.
#[derive(Debug, Default)]
pub(super) struct Waits {
    loops: HashMap<Vec<Span>, Loop>,
    /// By words that they read.
    of_word: HashMap<(u64, u64), Vec<Vec<Span>>>,
}

impl Waits {
    /// A sample has found a task in a loop that reads these places, in this order and perhaps several times, of which
    /// `value` tells what is there. How many samples are known to have found a task waiting that were not known before.
    pub(super) fn reads(&mut self, task: u32, places: Vec<Span>, value: impl Fn(usize) -> Option<u64>) -> u64 {
        let mut first: Vec<(Span, usize)> = places.into_iter().zip(0..).collect();
        first.sort_unstable();
        first.dedup_by_key(|(span, _)| *span);
        let (key, indices): (Vec<Span>, Vec<usize>) = first.into_iter().unzip();
        let values = || indices.iter().map(|&at| value(at)).collect::<Vec<_>>();
        if self.loops.len() >= MOST && !self.loops.contains_key(&key) {
            self.loops.clear();
            self.of_word.clear();
        }
        let Some(known) = self.loops.get_mut(&key) else {
            for word in key.iter().flat_map(|span| span.words()) {
                self.of_word.entry(word).or_default().push(key.clone());
            }
            self.loops.insert(key, Loop { samples: 1, task, values: values(), waits: false });
            return 0;
        };
        known.samples += 1;
        if known.waits {
            return 1;
        }
        let now = values();
        let differs = |(before, now): (&Option<u64>, &Option<u64>)| before.is_some() && now.is_some() && before != now;
        known.waits = known.values.iter().zip(&now).any(differs);
        if known.waits { known.samples } else { 0 }
    }

    /// A sample has found a task at writing to a place. What is known by it, as of [`Self::reads`].
    pub(super) fn writes(&mut self, task: u32, place: Span) -> u64 {
        let mut found = 0;
        for key in place.words().filter_map(|word| self.of_word.get(&word)).flatten() {
            if !key.iter().any(|span| span.overlaps(place)) {
                continue;
            }
            if let Some(known) = self.loops.get_mut(key).filter(|known| !known.waits && known.task != task) {
                known.waits = true;
                found += known.samples;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(memory: u64, at: u64) -> Span {
        Span::of((memory, at), 4)
    }

    #[test]
    fn a_loop_waits_where_others_write_what_it_reads() {
        let mut waits = Waits::default();
        // Twice in a round.
        let mut reads = |value: Option<u64>| waits.reads(3, vec![int(7, 0x1000), int(7, 0x1000)], |_| value);
        // A bound, a constant, a flag that nobody sets: for ever; and what cannot be read says nothing.
        assert!((0..1000).all(|_| reads(Some(600)) == 0) && reads(None) == 0 && reads(Some(600)) == 0);
        // All that were taken for work until now.
        assert_eq!((reads(Some(601)), reads(Some(601)), reads(Some(0))), (1003, 1, 1));
    }

    #[test]
    fn who_is_sampled_at_writing_there_is_waited_for() {
        let mut waits = Waits::default();
        // A flag, and a bound that both loops read.
        let (flag, bound) = (int(7, 0x1000), int(7, 0x2000));
        assert_eq!(waits.reads(3, vec![flag, bound], |_| Some(1)), 0);
        assert_eq!(waits.reads(4, vec![bound], |_| Some(1)), 0);
        // Beside it; in another memory; by itself; and then by another.
        let elsewhere = [(5, int(7, 0x1004)), (5, int(7, 0xffc)), (5, int(8, 0x1000)), (3, flag)];
        assert!(elsewhere.into_iter().all(|(task, place)| waits.writes(task, place) == 0));
        let vector = Span::of((7, 0xff0), 32);
        assert_eq!((waits.writes(5, vector), waits.writes(5, flag)), (1, 0));
        assert_eq!(waits.reads(3, vec![flag, bound], |_| Some(1)), 1);
        assert_eq!(waits.reads(4, vec![bound], |_| Some(1)), 0);
    }

    #[test]
    fn loops_are_bounded() {
        let mut waits = Waits::default();
        for at in 0..3 * MOST as u64 {
            waits.reads(0, vec![int(1, at * WORD)], |_| Some(0));
        }
        assert!(waits.loops.len() <= MOST && waits.of_word.len() <= MOST);
    }
}
