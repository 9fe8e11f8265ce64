//! The largest of many changing numbers, found by scanning: for the few hundred vertices of a typical cut nothing is
//! faster. Larger sets keep the largest number of each block.

/// Numbers of which the largest is asked for again and again; the least `i32` stands for none.
#[derive(Debug, Clone)]
pub struct Gains {
    values: Vec<i32>,
    /// The largest of each block; empty where there are few.
    tops: Vec<i32>,
}

/// No number.
pub const NONE: i32 = i32::MIN;

/// Numbers a block.
const BLOCK: usize = 128;

/// Up to this many numbers there are no blocks.
const FEW: usize = 512;

impl Gains {
    /// As many numbers, all none.
    pub fn new(count: usize) -> Self {
        let blocks = if count > FEW { count.div_ceil(BLOCK) } else { 0 };
        Self { values: vec![NONE; count], tops: vec![NONE; blocks] }
    }

    /// These numbers.
    #[inline(always)]
    pub fn of(values: Vec<i32>) -> Self {
        let tops = if values.len() > FEW { values.chunks(BLOCK).map(largest).collect() } else { Vec::new() };
        Self { values, tops }
    }

    /// Adds to one of them.
    #[inline(always)]
    pub fn add(&mut self, at: usize, more: i32) {
        if self.tops.is_empty() {
            self.values[at] += more;
        } else {
            self.set(at, self.values[at] + more);
        }
    }

    /// One of them.
    #[inline(always)]
    pub fn get(&self, at: usize) -> i32 {
        self.values[at]
    }

    /// Sets one of them.
    #[inline(always)]
    pub fn set(&mut self, at: usize, value: i32) {
        let before = std::mem::replace(&mut self.values[at], value);
        if let Some(top) = self.tops.get_mut(at / BLOCK) {
            if value >= *top {
                *top = value;
            } else if before == *top {
                let start = at / BLOCK * BLOCK;
                let end = (start + BLOCK).min(self.values.len());
                *top = largest(&self.values[start..end]);
            }
        }
    }

    /// The place of the largest and its value.
    #[inline(always)]
    pub fn largest(&self) -> Option<(usize, i32)> {
        if self.tops.is_empty() {
            return place_of(&self.values, largest(&self.values), 0);
        }
        let most = largest(&self.tops);
        let (block, _) = place_of(&self.tops, most, 0)?;
        let start = block * BLOCK;
        let end = (start + BLOCK).min(self.values.len());
        place_of(&self.values[start..end], most, start)
    }
}

#[inline(always)]
fn place_of(values: &[i32], most: i32, start: usize) -> Option<(usize, i32)> {
    if most == NONE {
        return None;
    }
    // Sixteen at a time: the compiler turns each into a few vector comparisons.
    let chunk =
        values.chunks(16).position(|chunk| chunk.iter().fold(false, |found, &value| found | (value == most)))?;
    let within = values[chunk * 16..].iter().position(|&value| value == most)?;
    Some((start + chunk * 16 + within, most))
}

#[inline(always)]
fn largest(values: &[i32]) -> i32 {
    let mut lanes = [NONE; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &value)| *lane = (*lane).max(value));
    }
    lanes.iter().chain(rest).copied().fold(NONE, i32::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_largest_is_found_in_few_and_many() {
        for count in [1, 15, 16, 17, 200, 600, 5_000] {
            let mut gains = Gains::new(count);
            assert_eq!(gains.largest(), None);
            let mut random = Random::new(count as u64);
            for _ in 0..500 {
                let value = if random.below(4) == 0 { NONE } else { random.below(100) as i32 - 50 };
                gains.set(random.below(count), value);
                let most = (0..count).map(|at| gains.get(at)).max().filter(|&most| most != NONE);
                assert_eq!(gains.largest().map(|found| found.1), most, "{count}");
                assert!(gains.largest().is_none_or(|(at, value)| gains.get(at) == value));
            }
        }
    }
}
