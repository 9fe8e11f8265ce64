//! Loops that read the same places again and again, and whether they wait for others. They do where others write what they read; a bound, a
//! constant, or a flag that nobody sets is read as often by a loop that goes on until it has done its part.
//!
//! That others write is seen by a sample of one at it, or by the value being another one than before: the loops themselves write nothing.

use std::collections::HashMap;

/// Places of memories: of which memory, and where in it.
type Place = (u64, u64);
/// Loops that are remembered whose places nobody has been seen to write.
const MOST: usize = 1024;
/// What of an address is looked at and taken for one place: a word.
const WORD: u64 = 8;

/// A loop, by the places that it reads.
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
    loops: HashMap<Vec<Place>, Loop>,
    of_place: HashMap<Place, Vec<Vec<Place>>>,
}

impl Waits {
    /// A sample has found a task in a loop that reads these places, of which `value` tells what is there. How many samples are known to
    /// have found a task waiting that were not known before.
    pub(super) fn reads(&mut self, task: u32, places: &[Place], value: impl Fn(usize) -> Option<u64>) -> u64 {
        let mut key: Vec<Place> = places.iter().map(|&(memory, at)| (memory, at / WORD)).collect();
        key.sort_unstable();
        key.dedup();
        if self.loops.len() >= MOST && !self.loops.contains_key(&key) {
            self.loops.retain(|_, known| known.waits);
            self.of_place.clear();
        }
        let values = || (0..places.len()).map(&value).collect::<Vec<_>>();
        let Some(known) = self.loops.get_mut(&key) else {
            for &place in &key {
                self.of_place.entry(place).or_default().push(key.clone());
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
    pub(super) fn writes(&mut self, task: u32, (memory, at): Place) -> u64 {
        let Some(keys) = self.of_place.get(&(memory, at / WORD)) else { return 0 };
        let mut found = 0;
        for key in keys {
            let known = self.loops.get_mut(key).filter(|known| !known.waits && known.task != task);
            if let Some(known) = known {
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

    #[test]
    fn a_loop_waits_where_others_write_what_it_reads() {
        let flag = [(7, 0x1000)];
        let mut waits = Waits::default();
        let mut reads = |value: Option<u64>| waits.reads(3, &flag, |_| value);
        // A bound, a constant, a flag that nobody sets: for ever; and what cannot be read says nothing.
        assert!((0..1000).all(|_| reads(Some(600)) == 0) && reads(None) == 0 && reads(Some(600)) == 0);
        // All that were taken for work until now.
        assert_eq!((reads(Some(601)), reads(Some(601)), reads(Some(0))), (1003, 1, 1));
    }

    #[test]
    fn who_is_sampled_at_writing_there_is_waited_for() {
        let mut waits = Waits::default();
        // A flag, and a bound that both loops read.
        let places = [(7, 0x1000), (7, 0x2000)];
        assert_eq!(waits.reads(3, &places, |_| Some(1)), 0);
        assert_eq!(waits.reads(4, &places[1..], |_| Some(1)), 0);
        // Elsewhere; in another memory; by itself; and then by another.
        assert_eq!(waits.writes(5, (7, 0x1008)) + waits.writes(5, (8, 0x1000)) + waits.writes(3, (7, 0x1000)), 0);
        assert_eq!((waits.writes(5, (7, 0x1004)), waits.writes(5, (7, 0x1000))), (1, 0));
        assert_eq!(waits.reads(3, &places, |_| Some(1)), 1);
        assert_eq!(waits.reads(4, &places[1..], |_| Some(1)), 0);
    }

    #[test]
    fn loops_are_bounded() {
        let mut waits = Waits::default();
        for at in 0..3 * MOST as u64 {
            waits.reads(0, &[(1, at * WORD)], |_| Some(0));
        }
        assert!(waits.loops.len() <= MOST && waits.of_place.len() <= MOST);
    }
}
