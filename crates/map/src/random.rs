//! The random numbers of the mappers: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014).
//!
//! Kept here, and not taken from a library, because the sequence is part of the contract: same seed, same mapping, in
//! every later version too.

/// A seeded sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        // One step apart the raw states of seeds 0, 1, 2 ... would give nearly the same first numbers.
        let mut random = Self(seed ^ 0x51_7c_c1_b7_27_22_0a_95);
        random.draw();
        random
    }

    /// Another sequence, of the same seed and a number.
    pub fn fork(&self, number: u64) -> Self {
        Self::new(self.0 ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// The next 64 bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.draw()) * bound as u128) >> 64) as usize
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_is_fixed() {
        let mut random = Random::new(1);
        assert_eq!([random.draw(), random.draw()], [5_314_527_719_426_144_128, 12_375_712_763_030_709_143]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 5];
        (0..1_000).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|&count| count > 150), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<_> = (0..50).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
