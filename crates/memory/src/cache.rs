//! The tags of one cache: which lines it holds, and what may be done with them. TLBs are the same with pages for lines.
//!
//! A set is a run of words, a line a word: its number and three bits. With LRU the words lie in the order of use, the
//! last used first, so that most hits are in the first word.

use crate::machine::Replacement;
use crate::replacement::{Random, tree_touch, tree_victim};

/// The core may write it: nobody else has it.
pub(crate) const WRITABLE: u64 = 1;
/// It was written here, and nowhere further out.
pub(crate) const DIRTY: u64 = 2;
/// There is a line.
const VALID: u64 = 4;
/// Bits of a word that are no line number.
const BITS: u32 = 3;

/// A line and its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub line: u64,
    pub bits: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Cache {
    sets: u64,
    /// `sets - 1` where that is a mask, else 0.
    mask: u64,
    ways: usize,
    /// `ways - 1` where that is a mask, else 0.
    way_mask: usize,
    replacement: Replacement,
    words: Vec<u64>,
    trees: Vec<u64>,
    random: Random,
}

impl Cache {
    pub fn new(sets: u64, ways: usize, replacement: Replacement) -> Self {
        let trees = if replacement == Replacement::TreePlru { sets as usize } else { 0 };
        Self {
            sets,
            mask: if sets.is_power_of_two() { sets - 1 } else { 0 },
            ways,
            way_mask: if ways.is_power_of_two() { ways - 1 } else { 0 },
            replacement,
            words: vec![0; sets as usize * ways],
            trees: vec![0; trees],
            random: Random::default(),
        }
    }

    fn set(&self, line: u64) -> usize {
        let set = if self.mask > 0 || self.sets == 1 { line & self.mask } else { line % self.sets };
        set as usize
    }

    /// The first place of a place's set.
    #[inline]
    fn first(&self, place: usize) -> usize {
        if self.way_mask > 0 { place & !self.way_mask } else { place - place % self.ways }
    }

    /// Where the line is.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        let first = self.set(line) * self.ways;
        let wanted = line << BITS | VALID;
        let words = &self.words[first..first + self.ways];
        words.iter().position(|&word| word & !(WRITABLE | DIRTY) == wanted).map(|way| first + way)
    }

    /// The bits of the line at a place that [`Cache::find`] or [`Cache::touch`] gave.
    #[inline]
    pub fn bits(&self, place: usize) -> u64 {
        self.words[place] & (WRITABLE | DIRTY)
    }

    /// Sets bits of the line at a place.
    #[inline]
    pub fn set_bits(&mut self, place: usize, bits: u64) {
        self.words[place] |= bits;
    }

    /// Clears bits of the line at a place.
    #[inline]
    pub fn clear_bits(&mut self, place: usize, bits: u64) {
        self.words[place] &= !bits;
    }

    /// Notes a use of the line at a place; where it is from now on.
    #[inline]
    pub fn touch(&mut self, place: usize) -> usize {
        match self.replacement {
            Replacement::Lru => {
                let first = self.first(place);
                if place > first {
                    let word = self.words[place];
                    self.words.copy_within(first..place, first + 1);
                    self.words[first] = word;
                }
                first
            }
            Replacement::TreePlru => {
                let (set, way) = (place / self.ways, place % self.ways);
                tree_touch(&mut self.trees[set], way, self.ways);
                place
            }
            Replacement::Random => place,
        }
    }

    /// Puts a line in that is not there, used at this moment; what had to go.
    pub fn insert(&mut self, line: u64, bits: u64) -> Option<Entry> {
        let set = self.set(line);
        let first = set * self.ways;
        let words = &mut self.words[first..first + self.ways];
        let word = line << BITS | VALID | bits;
        let old = match self.replacement {
            Replacement::Lru => {
                let last = self.ways - 1;
                let old = words[last];
                words.copy_within(..last, 1);
                words[0] = word;
                old
            }
            _ => {
                let free = words.iter().position(|&word| word == 0);
                let way = free.unwrap_or_else(|| match self.replacement {
                    Replacement::Random => self.random.way(self.ways),
                    _ => tree_victim(self.trees[set], self.ways),
                });
                let old = std::mem::replace(&mut words[way], word);
                self.touch(first + way);
                old
            }
        };
        (old != 0).then_some(Entry { line: old >> BITS, bits: old & (WRITABLE | DIRTY) })
    }

    /// Takes a line out; its bits.
    pub fn remove(&mut self, line: u64) -> Option<u64> {
        let place = self.find(line)?;
        let bits = self.bits(place);
        self.words[place] = 0;
        if self.replacement == Replacement::Lru {
            // Free words are the last of a set.
            let end = self.first(place) + self.ways;
            self.words.copy_within(place + 1..end, place);
            self.words[end - 1] = 0;
        }
        Some(bits)
    }

    /// All lines that it holds.
    #[cfg(test)]
    pub fn lines(&self) -> impl Iterator<Item = Entry> + '_ {
        let entry = |&word: &u64| Entry { line: word >> BITS, bits: word & (WRITABLE | DIRTY) };
        self.words.iter().filter(|&&word| word != 0).map(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses lines one after another; what each pushed out.
    fn use_all(cache: &mut Cache, lines: &[u64]) -> Vec<Option<u64>> {
        let mut gone = Vec::new();
        for &line in lines {
            gone.push(match cache.find(line) {
                Some(place) => {
                    cache.touch(place);
                    None
                }
                None => cache.insert(line, 0).map(|entry| entry.line),
            });
        }
        gone
    }

    #[test]
    fn who_goes_by_hand() {
        use Replacement::{Lru, TreePlru};
        let walk = [0, 1, 2, 3, 0, 4, 1, 5];
        for (replacement, gone) in [
            // After 0 1 2 3 0: 1 is the oldest; then 2 (for 1); then 3.
            (Lru, [None, None, None, None, None, Some(1), Some(2), Some(3)]),
            // The tree points at way 2 after the second 0; at way 1 after 4 went there; way 1 holds 1, which is used:
            // then 3.
            (TreePlru, [None, None, None, None, None, Some(2), None, Some(3)]),
        ] {
            assert_eq!(use_all(&mut Cache::new(1, 4, replacement), &walk), gone, "{replacement:?}");
        }
    }

    #[test]
    fn any_number_of_sets() {
        for sets in [1, 3, 12_288, 28_672] {
            let mut cache = Cache::new(sets, 2, Replacement::Lru);
            // Three lines of one set: the first goes. A line of the next set disturbs nobody; of a single set, 6 comes
            // twice.
            let lines = [5, 5 + sets, 6, 5 + 2 * sets];
            let wanted = [None, None, None, Some(5)];
            assert_eq!(use_all(&mut cache, &lines), wanted, "{sets} sets");
        }
    }

    #[test]
    fn what_is_taken_out_leaves_room() {
        for replacement in [Replacement::Lru, Replacement::TreePlru, Replacement::Random] {
            let mut cache = Cache::new(1, 3, replacement);
            use_all(&mut cache, &[7, 8, 9]);
            let place = cache.find(8).unwrap();
            cache.set_bits(place, DIRTY);
            assert_eq!(cache.remove(8), Some(DIRTY));
            assert_eq!(cache.remove(8), None);
            assert_eq!(use_all(&mut cache, &[10, 7, 9]), [None; 3]);
            assert_eq!(cache.lines().count(), 3);
        }
    }
}
