//! A fully associative LRU cache, and a set of lines: what misses are told apart by.

use crate::hash::Numbers;

const NONE: u32 = u32::MAX;

/// One line, between the one used before it and the one used after it.
#[derive(Debug, Clone, Copy)]
struct Node {
    line: u64,
    newer: u32,
    older: u32,
}

/// Which lines a fully associative LRU cache would hold.
#[derive(Debug, Clone)]
pub(crate) struct Shadow {
    capacity: usize,
    places: Numbers<u32>,
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
    free: Vec<u32>,
}

impl Shadow {
    /// An empty one of so many lines.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, places: Numbers::default(), nodes: Vec::new(), newest: NONE, oldest: NONE, free: Vec::new() }
    }

    pub fn has(&self, line: u64) -> bool {
        self.places.contains_key(&line)
    }

    /// The line is used: it is the newest, and the oldest makes room where it was not there.
    pub fn touch(&mut self, line: u64) {
        if self.newest != NONE && self.nodes[self.newest as usize].line == line {
            return;
        }
        let place = match self.places.get(&line) {
            Some(&place) => {
                self.unlink(place);
                place
            }
            None => {
                if self.places.len() == self.capacity {
                    let oldest = self.nodes[self.oldest as usize].line;
                    self.remove(oldest);
                }
                let node = Node { line, newer: NONE, older: NONE };
                let place = self.free.pop().unwrap_or_else(|| {
                    self.nodes.push(node);
                    self.nodes.len() as u32 - 1
                });
                self.nodes[place as usize] = node;
                self.places.insert(line, place);
                place
            }
        };
        self.nodes[place as usize].older = self.newest;
        self.nodes[place as usize].newer = NONE;
        match self.newest {
            NONE => self.oldest = place,
            newest => self.nodes[newest as usize].newer = place,
        }
        self.newest = place;
    }

    /// The line is taken out; whether it was there.
    pub fn remove(&mut self, line: u64) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let Some(place) = self.places.remove(&line) else { return false };
        self.unlink(place);
        self.free.push(place);
        true
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }
}

/// A set of lines, 64 a word.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineSet(Numbers<u64>);

impl LineSet {
    /// Whether it was there before.
    pub fn insert(&mut self, line: u64) -> bool {
        let word = self.0.entry(line >> 6).or_default();
        let was = *word >> (line & 63) & 1 == 1;
        *word |= 1 << (line & 63);
        was
    }

    /// Whether it was there.
    pub fn remove(&mut self, line: u64) -> bool {
        let Some(word) = self.0.get_mut(&(line >> 6)) else { return false };
        let was = *word >> (line & 63) & 1 == 1;
        *word &= !(1 << (line & 63));
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::spread;
    use std::collections::BTreeSet;

    /// Beside a list in the order of use.
    #[test]
    fn the_oldest_makes_room() {
        for capacity in [1, 2, 7] {
            let (mut shadow, mut list) = (Shadow::new(capacity), Vec::new());
            for step in 0..5_000 {
                let draw = spread(step);
                let line = draw % 12;
                assert_eq!(shadow.has(line), list.contains(&line), "step {step}");
                let was = list.contains(&line);
                list.retain(|&other| other != line);
                if draw >> 60 < 3 {
                    assert_eq!(shadow.remove(line), was, "step {step}");
                    continue;
                }
                shadow.touch(line);
                list.push(line);
                if list.len() > capacity {
                    list.remove(0);
                }
                assert!(shadow.nodes.len() <= capacity);
            }
        }
    }

    #[test]
    fn a_set_is_a_set() {
        let (mut set, mut wanted) = (LineSet::default(), BTreeSet::new());
        for step in 0..5_000 {
            let draw = spread(step);
            let line = draw % 300;
            match draw >> 63 {
                0 => assert_eq!(set.insert(line), !wanted.insert(line)),
                _ => assert_eq!(set.remove(line), wanted.remove(&line)),
            }
        }
    }
}
