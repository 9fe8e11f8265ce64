//! Who has a line: one record for each line that any cache holds. What a directory or a bus would find out, at once.
//!
//! Memory is bounded by the machine: a line that no cache holds any more has no record.

use crate::clock::Time;
use crate::hash::spread;

/// Nobody.
pub(crate) const NONE: u32 = u32::MAX;

/// What all caches together know of a line, besides who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub number: u64,
    /// When the last to take it has it.
    pub ready: Time,
    /// The core that may write it; none where several may read it, or where only shared caches have it.
    pub writer: u32,
    /// The domain that alone has it (states M and E of a last cache).
    pub exclusive: u32,
    /// The domain that gives it to whoever asks (M, E, O and F); none: memory does.
    pub supplier: u32,
}

/// The records, found by line number.
///
/// Bits of a record: one for each core whose own caches hold the line, then one for each shared cache that does; and as
/// many again for those that lost it to a write of others since it was last in no cache.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Open addressing: index of a record plus 1, or 0.
    table: Vec<u32>,
    used: usize,
    records: Vec<Line>,
    bits: Vec<u64>,
    words: usize,
    free: Vec<u32>,
}

impl Lines {
    /// For `holders` cores and shared caches.
    pub fn new(holders: usize) -> Self {
        let words = holders.div_ceil(64);
        Self { table: vec![0; 1 << 12], used: 0, records: Vec::new(), bits: Vec::new(), words, free: Vec::new() }
    }

    fn home(&self, number: u64) -> usize {
        spread(number) as usize & (self.table.len() - 1)
    }

    /// The record of a line, where any cache has it.
    pub fn find(&self, number: u64) -> Option<u32> {
        let mut place = self.home(number);
        loop {
            match self.table[place] {
                0 => return None,
                record if self.records[record as usize - 1].number == number => return Some(record - 1),
                _ => place = (place + 1) & (self.table.len() - 1),
            }
        }
    }

    /// The record of a line, a new one where no cache has it.
    pub fn find_or_add(&mut self, number: u64) -> u32 {
        if let Some(found) = self.find(number) {
            return found;
        }
        if (self.used + 1) * 2 > self.table.len() {
            self.grow();
        }
        let line = Line { number, ready: 0, writer: NONE, exclusive: NONE, supplier: NONE };
        let record = match self.free.pop() {
            Some(record) => {
                self.records[record as usize] = line;
                let first = record as usize * 2 * self.words;
                self.bits[first..first + 2 * self.words].fill(0);
                record
            }
            None => {
                self.records.push(line);
                self.bits.resize(self.bits.len() + 2 * self.words, 0);
                self.records.len() as u32 - 1
            }
        };
        self.enter(number, record);
        self.used += 1;
        record
    }

    fn enter(&mut self, number: u64, record: u32) {
        let mut place = self.home(number);
        while self.table[place] != 0 {
            place = (place + 1) & (self.table.len() - 1);
        }
        self.table[place] = record + 1;
    }

    fn grow(&mut self) {
        let larger = vec![0; self.table.len() * 2];
        let old = std::mem::replace(&mut self.table, larger);
        for record in old.into_iter().filter(|&record| record != 0) {
            self.enter(self.records[record as usize - 1].number, record - 1);
        }
    }

    /// Forgets a line that no cache holds.
    pub fn forget(&mut self, record: u32) {
        let number = self.records[record as usize].number;
        let end = self.table.len() - 1;
        let mut hole = self.home(number);
        while self.table[hole] != record + 1 {
            hole = (hole + 1) & end;
        }
        // Knuth, 6.4, algorithm R: what a search would no longer reach moves into the hole.
        let mut next = hole;
        loop {
            self.table[hole] = 0;
            loop {
                next = (next + 1) & end;
                if self.table[next] == 0 {
                    self.free.push(record);
                    self.used -= 1;
                    return;
                }
                let home = self.home(self.records[self.table[next] as usize - 1].number);
                if next.wrapping_sub(home) & end >= next.wrapping_sub(hole) & end {
                    break;
                }
            }
            self.table[hole] = self.table[next];
            hole = next;
        }
    }

    pub fn get(&self, record: u32) -> &Line {
        &self.records[record as usize]
    }

    pub fn get_mut(&mut self, record: u32) -> &mut Line {
        &mut self.records[record as usize]
    }

    fn bit(&self, record: u32, holder: usize) -> (usize, u64) {
        (record as usize * 2 * self.words + holder / 64, 1 << (holder % 64))
    }

    #[cfg(test)]
    pub fn holds(&self, record: u32, holder: usize) -> bool {
        let (word, bit) = self.bit(record, holder);
        self.bits[word] & bit != 0
    }

    pub fn set(&mut self, record: u32, holder: usize) {
        let (word, bit) = self.bit(record, holder);
        self.bits[word] |= bit;
        self.bits[word + self.words] &= !bit;
    }

    pub fn clear(&mut self, record: u32, holder: usize) {
        let (word, bit) = self.bit(record, holder);
        self.bits[word] &= !bit;
    }

    /// The holder lost the line to a write of others.
    pub fn lose(&mut self, record: u32, holder: usize) {
        let (word, bit) = self.bit(record, holder);
        self.bits[word] &= !bit;
        self.bits[word + self.words] |= bit;
    }

    /// The holder has the line again, whatever it did with it before.
    pub fn regain(&mut self, record: u32, holder: usize) {
        let (word, bit) = self.bit(record, holder);
        self.bits[word + self.words] &= !bit;
    }

    /// Whether it lost the line so, and has not had it since.
    pub fn has_lost(&self, record: u32, holder: usize) -> bool {
        let (word, bit) = self.bit(record, holder);
        self.bits[word + self.words] & bit != 0
    }

    /// All that hold the line, ascending.
    pub fn holders(&self, record: u32) -> impl Iterator<Item = usize> + '_ {
        let first = record as usize * 2 * self.words;
        let ones = |(index, &word): (usize, &u64)| {
            let next = |&rest: &u64| Some(rest & (rest - 1)).filter(|&rest| rest != 0);
            let start = Some(word).filter(|&word| word != 0);
            std::iter::successors(start, next).map(move |rest| index * 64 + rest.trailing_zeros() as usize)
        };
        self.bits[first..first + self.words].iter().enumerate().flat_map(ones)
    }

    pub fn is_held(&self, record: u32) -> bool {
        let first = record as usize * 2 * self.words;
        self.bits[first..first + self.words].iter().any(|&word| word != 0)
    }

    /// How many records there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn records_come_and_go() {
        let mut lines = Lines::new(70);
        let mut wanted = BTreeMap::new();
        let mut state = 1u64;
        for step in 0..20_000 {
            state = spread(state.wrapping_add(step));
            let number = state % 3_000;
            let holder = (state >> 40) as usize % 70;
            if state >> 60 < 9 {
                let record = lines.find_or_add(number);
                lines.set(record, holder);
                lines.get_mut(record).ready = step;
                wanted.insert(number, (holder, step));
            } else if wanted.remove(&number).is_some() {
                lines.forget(lines.find(number).unwrap());
            }
        }
        assert_eq!(lines.len(), wanted.len());
        for number in 0..3_000 {
            let found =
                lines.find(number).map(|record| (lines.get(record).ready, lines.holds(record, wanted[&number].0)));
            assert_eq!(found, wanted.get(&number).map(|&(_, step)| (step, true)), "line {number}");
        }
    }

    #[test]
    fn holders_are_told_in_order() {
        let mut lines = Lines::new(200);
        let record = lines.find_or_add(5);
        assert!(!lines.is_held(record));
        [3, 64, 199, 0].into_iter().for_each(|holder| lines.set(record, holder));
        assert_eq!(lines.holders(record).collect::<Vec<_>>(), [0, 3, 64, 199]);
        lines.lose(record, 64);
        lines.clear(record, 3);
        assert_eq!(lines.holders(record).collect::<Vec<_>>(), [0, 199]);
        assert!(lines.has_lost(record, 64) && !lines.has_lost(record, 3));
    }
}
