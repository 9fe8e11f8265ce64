//! Which line of a full set goes, where that is not simply the last of a list ([`crate::machine::Replacement`]).

/// Tree-PLRU of one set: bit `n` of the tree belongs to node `n` (the root is 1, below `n` are `2n` and `2n + 1`), and
/// is set where the less recently used half is the upper one.
pub(crate) fn tree_touch(tree: &mut u64, way: usize, ways: usize) {
    let leaves = ways.next_power_of_two();
    let mut node = leaves + way;
    while node > 1 {
        let parent = node / 2;
        if node % 2 == 0 {
            *tree |= 1 << parent;
        } else {
            *tree &= !(1 << parent);
        }
        node = parent;
    }
}

/// The way that the tree points at; ways that are not there are never followed.
pub(crate) fn tree_victim(tree: u64, ways: usize) -> usize {
    let leaves = ways.next_power_of_two();
    let (mut node, mut first, mut width) = (1, 0, leaves);
    while node < leaves {
        width /= 2;
        let upper = tree >> node & 1 == 1 && first + width < ways;
        if upper {
            first += width;
        }
        node = 2 * node + usize::from(upper);
    }
    first
}

/// The generator behind random replacement (Marsaglia's xorshift64), the same in each cache and each run.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Random {
    /// One of `ways`.
    pub(crate) fn way(&mut self, ways: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % ways as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hennessy and Patterson's example for 4 ways: after 0, 1, 2, 3 the victim is 0; after another use of 0, it is 2.
    #[test]
    fn the_tree_points_away_from_what_was_used() {
        let mut tree = 0;
        for (way, victim) in [(0, 2), (1, 2), (2, 0), (3, 0), (0, 2), (2, 1), (1, 3)] {
            tree_touch(&mut tree, way, 4);
            assert_eq!(tree_victim(tree, 4), victim, "after {way}");
        }
    }

    #[test]
    fn ways_that_are_not_there_are_not_followed() {
        for ways in 1..=12 {
            let (mut tree, mut seen) = (0, vec![false; ways]);
            for _ in 0..64 {
                let victim = tree_victim(tree, ways);
                seen[victim] = true;
                tree_touch(&mut tree, victim, ways);
            }
            assert!(seen.iter().all(|&seen| seen), "{ways} ways");
        }
    }
}
