//! What a core holds of pages or lines: sets of so many ways, the one used longest ago going first (LRU).

use std::ops::RangeInclusive;

/// Sets of keys, the one used last first.
#[derive(Debug, Clone)]
pub struct Lru {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

/// What a touch of a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    Hit,
    /// It came in, and another went.
    Miss {
        gone: Option<u64>,
    },
}

impl Lru {
    /// Nothing yet, of so many entries in sets of so many ways.
    pub fn new(entries: usize, ways: usize) -> Self {
        let ways = ways.max(1);
        Self { sets: vec![Vec::with_capacity(ways); (entries / ways).max(1)], ways }
    }

    pub fn touch(&mut self, key: u64) -> Touch {
        let at = self.set(key);
        let set = &mut self.sets[at];
        if let Some(at) = set.iter().position(|&other| other == key) {
            set[..=at].rotate_right(1);
            return Touch::Hit;
        }
        let gone = if set.len() >= self.ways { set.pop() } else { None };
        set.insert(0, key);
        Touch::Miss { gone }
    }

    pub fn remove(&mut self, key: u64) {
        let at = self.set(key);
        self.sets[at].retain(|&other| other != key);
    }

    /// Takes out all that are in a range.
    pub fn remove_range(&mut self, keys: &RangeInclusive<u64>, mut gone: impl FnMut(u64)) {
        for set in &mut self.sets {
            set.iter().filter(|key| keys.contains(key)).for_each(|&key| gone(key));
            set.retain(|key| !keys.contains(key));
        }
    }

    #[cfg(test)]
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.sets.iter().flatten().copied()
    }

    fn set(&self, key: u64) -> usize {
        (key % self.sets.len() as u64) as usize
    }
}
