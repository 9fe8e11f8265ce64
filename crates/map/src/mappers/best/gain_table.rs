//! The largest of many changing numbers, found by scanning: for the few hundred vertices of a typical cut nothing is
//! faster. Larger sets keep the largest number of each block.

/// Rows of numbers of which the largest of a row is asked for again and again; the least `i32` stands for none.
#[derive(Debug, Clone)]
pub struct GainTable {
    values: Vec<i32>,
    /// The largest of each block; empty where there are few.
    tops: Vec<i32>,
    /// Places from row to row.
    stride: usize,
}

/// No number.
pub const NONE: i32 = i32::MIN;

/// Numbers that are compared at a time: the compiler makes two vectors of them.
const LANES: usize = 16;

/// Numbers a block.
const BLOCK: usize = 128;

/// Up to this many numbers a row there are no blocks.
const FEW: usize = 512;

impl GainTable {
    /// Rows of as many numbers, all none.
    #[inline(always)]
    pub fn new(rows: usize, count: usize) -> Self {
        let stride = count.next_multiple_of(if count > FEW { BLOCK } else { LANES });
        let blocks = if count > FEW { rows * stride / BLOCK } else { 0 };
        Self { values: vec![NONE; rows * stride], tops: vec![NONE; blocks], stride }
    }

    /// Whether there are so few that all of them are soon copied.
    #[inline(always)]
    pub fn are_few(&self) -> bool {
        self.tops.is_empty()
    }

    /// Becomes a copy of as many others, where they are few.
    #[inline(always)]
    pub fn copy_from(&mut self, others: &Self) {
        self.values.copy_from_slice(&others.values);
    }

    /// The place of a number of a row.
    #[inline(always)]
    pub fn place(&self, row: usize, at: usize) -> usize {
        row * self.stride + at
    }

    /// Adds to the number at a place.
    #[inline(always)]
    pub fn add(&mut self, place: usize, more: i32) {
        if self.are_few() {
            self.values[place] += more;
        } else {
            self.set(place, self.values[place] + more);
        }
    }

    /// The number at a place.
    #[inline(always)]
    pub fn get(&self, place: usize) -> i32 {
        self.values[place]
    }

    /// Sets the number at a place.
    #[inline(always)]
    pub fn set(&mut self, place: usize, value: i32) {
        let before = std::mem::replace(&mut self.values[place], value);
        if let Some(top) = self.tops.get_mut(place / BLOCK) {
            if value >= *top {
                *top = value;
            } else if before == *top {
                let start = place / BLOCK * BLOCK;
                *top = largest(&self.values[start..start + BLOCK]).0;
            }
        }
    }

    /// Which number of a row is the largest, the first of them, and that number.
    #[inline(always)]
    pub fn largest(&self, row: usize) -> Option<(usize, i32)> {
        let row = row * self.stride..(row + 1) * self.stride;
        let (most, at) = if self.are_few() {
            largest(&self.values[row])
        } else {
            let tops = &self.tops[row.start / BLOCK..row.end / BLOCK];
            let most = tops.iter().copied().fold(NONE, i32::max);
            let block = tops.iter().position(|&top| top == most)?;
            let start = row.start + block * BLOCK;
            let (most, at) = largest(&self.values[start..start + BLOCK]);
            (most, block * BLOCK + at)
        };
        (most != NONE).then_some((at, most))
    }
}

/// The largest of some numbers, which fill all lanes, and the first place of it.
#[inline(always)]
fn largest(values: &[i32]) -> (i32, usize) {
    let mut most = [NONE; LANES];
    for chunk in values.chunks_exact(LANES) {
        most.iter_mut().zip(chunk).for_each(|(most, &value)| *most = (*most).max(value));
    }
    let all = most.into_iter().fold(NONE, i32::max);
    for (number, chunk) in values.chunks_exact(LANES).enumerate() {
        // A bit a lane: a vector is compared at once.
        let is_it = |bits, (lane, &value): (usize, &i32)| bits | u32::from(value == all) << lane;
        let lanes = chunk.iter().enumerate().fold(0, is_it);
        if lanes != 0 {
            return (all, number * LANES + lanes.trailing_zeros() as usize);
        }
    }
    (all, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_largest_is_found_in_few_and_many() {
        for count in [1, 15, 16, 17, 200, 600, 5_000] {
            let mut gains = GainTable::new(2, count);
            assert_eq!((gains.largest(0), gains.largest(1)), (None, None));
            let mut random = Random::new(count as u64);
            for _ in 0..500 {
                let value = if random.below(4) == 0 { NONE } else { random.below(100) as i32 - 50 };
                gains.set(gains.place(random.below(2), random.below(count)), value);
                for row in 0..2 {
                    let all: Vec<i32> = (0..count).map(|at| gains.get(gains.place(row, at))).collect();
                    let most = all.iter().copied().max().filter(|&most| most != NONE);
                    let first = most.and_then(|most| all.iter().position(|&value| value == most));
                    assert_eq!(gains.largest(row), first.zip(most), "{count}");
                }
            }
        }
    }
}
