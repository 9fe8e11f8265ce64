//! One cache: sets of copies, and who makes room.

use cohabit_memory::machine::Replacement;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) line: u64,
    pub(super) dirty: bool,
    /// Of a write-through L1: it was written there.
    pub(super) written: bool,
    pub(super) version: u64,
    pub(super) used: u64,
}

pub struct Cache {
    sets: u64,
    replacement: Replacement,
    places: Vec<Vec<Option<Copy>>>,
    trees: Vec<Tree>,
    random: u64,
    clock: u64,
    /// What a fully associative LRU cache of as many lines would hold, the newest last.
    pub(super) full: Vec<u64>,
    pub fills: u64,
    pub evictions: u64,
    pub invalidations: u64,
    pub back_invalidations: u64,
}

/// A binary tree over `ways` places: which half was used less recently.
#[derive(Clone)]
struct Tree {
    upper_is_older: bool,
    halves: Option<Box<(Tree, Tree)>>,
    first: usize,
    places: usize,
}

impl Tree {
    fn new(first: usize, places: usize) -> Self {
        let half = places / 2;
        let halves = (places > 1).then(|| Box::new((Self::new(first, half), Self::new(first + half, half))));
        Self { upper_is_older: false, halves, first, places }
    }

    fn touch(&mut self, way: usize) {
        if let Some(halves) = &mut self.halves {
            let upper = way >= self.first + self.places / 2;
            self.upper_is_older = !upper;
            if upper { halves.1.touch(way) } else { halves.0.touch(way) }
        }
    }

    fn victim(&self, ways: usize) -> usize {
        match &self.halves {
            None => self.first,
            Some(halves) if self.upper_is_older && halves.1.first < ways => halves.1.victim(ways),
            Some(halves) => halves.0.victim(ways),
        }
    }
}

impl Cache {
    pub(super) fn new(sets: u64, ways: usize, replacement: Replacement) -> Self {
        Self {
            sets,
            replacement,
            places: vec![vec![None; ways]; sets as usize],
            trees: vec![Tree::new(0, ways.next_power_of_two()); sets as usize],
            random: 0x9e37_79b9_7f4a_7c15,
            clock: 0,
            full: Vec::new(),
            fills: 0,
            evictions: 0,
            invalidations: 0,
            back_invalidations: 0,
        }
    }

    pub(super) fn get(&mut self, line: u64) -> Option<&mut Copy> {
        let set = (line % self.sets) as usize;
        self.places[set].iter_mut().flatten().find(|copy| copy.line == line)
    }

    pub(super) fn has(&self, line: u64) -> bool {
        self.places[(line % self.sets) as usize].iter().flatten().any(|copy| copy.line == line)
    }

    pub(super) fn touch(&mut self, line: u64) {
        self.clock += 1;
        let now = self.clock;
        let set = (line % self.sets) as usize;
        let way = self.places[set].iter().position(|copy| copy.is_some_and(|copy| copy.line == line)).unwrap();
        self.places[set][way].as_mut().unwrap().used = now;
        self.trees[set].touch(way);
        self.full.retain(|&other| other != line);
        self.full.push(line);
        if self.full.len() > self.places.len() * self.places[0].len() {
            self.full.remove(0);
        }
    }

    pub(super) fn put(&mut self, copy: Copy) -> Option<Copy> {
        assert!(!self.has(copy.line));
        self.fills += 1;
        let set = (copy.line % self.sets) as usize;
        let ways = self.places[set].len();
        let way = match self.places[set].iter().position(Option::is_none) {
            Some(free) => free,
            None => match self.replacement {
                Replacement::Lru => (0..ways).min_by_key(|&way| self.places[set][way].unwrap().used).unwrap(),
                Replacement::TreePlru => self.trees[set].victim(ways),
                Replacement::Random => {
                    self.random ^= self.random << 13;
                    self.random ^= self.random >> 7;
                    self.random ^= self.random << 17;
                    (self.random % ways as u64) as usize
                }
            },
        };
        let old = self.places[set][way].replace(copy);
        self.evictions += u64::from(old.is_some());
        self.touch(copy.line);
        old
    }

    pub(super) fn take(&mut self, line: u64) -> Option<Copy> {
        let set = (line % self.sets) as usize;
        let place = self.places[set].iter_mut().find(|copy| copy.is_some_and(|copy| copy.line == line))?;
        place.take()
    }

    /// The line goes to another cache, and would from a fully associative one.
    pub(super) fn give(&mut self, line: u64) -> Option<Copy> {
        self.full.retain(|&other| other != line);
        self.take(line)
    }
}
