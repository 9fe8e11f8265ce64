//! Loads that each need what the one before loaded: a cycle through lines in an order that nobody can foresee, so that
//! a load takes as long as whatever serves it (lmbench, `lat_mem_rd`).

use super::super::busy::{Busy, Disturbance};
use super::super::exchange::cpu_seconds;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of a line, where none is told.
pub(super) const LINE: usize = 64;
/// Times each figure is measured; the fastest counts: whatever disturbs it makes it longer.
const REPEATS: u32 = 7;

/// Times all of it is done again, at other moments: what other machines on the same host do lasts longer than a figure.
pub(super) const ROUNDS: usize = 3;

/// Keeps the lesser of two times for each number: both curves are of the same numbers.
pub(super) fn keep_least(kept: &mut [(u64, f64)], again: &[(u64, f64)]) {
    kept.iter_mut().zip(again).for_each(|(kept, again)| kept.1 = kept.1.min(again.1));
}

/// Numbers as if by chance, the same in each run (xorshift, Marsaglia 2003).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Words that lead from one to the next, once through all of `places` (indices of words) and around. The places in the
/// order of the cycle.
pub(super) fn lay_cycle(words: &mut [u64], places: &[usize], random: &mut Random) -> Vec<usize> {
    let mut order = places.to_vec();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last + 1));
    }
    for (index, &place) in order.iter().enumerate() {
        words[place] = order[(index + 1) % order.len()] as u64;
    }
    order
}

/// The first word of each line of the first so many bytes.
pub(super) fn lines_of(bytes: usize) -> Vec<usize> {
    (0..bytes / LINE).map(|line| line * LINE / size_of::<u64>()).collect()
}

/// Follows the cycle that begins at `at`.
#[inline(never)]
pub(super) fn follow(words: &[u64], mut at: usize, steps: u64) -> usize {
    for _ in 0..steps {
        at = words[at] as usize;
    }
    at
}

/// The same in `K` places at a time; a step is one of each.
#[inline(never)]
pub(super) fn follow_several<const K: usize>(words: &[u64], mut at: [usize; K], steps: u64) -> [usize; K] {
    for _ in 0..steps {
        for one in &mut at {
            *one = words[*one] as usize;
        }
    }
    at
}

/// Seconds a step of `run`, which is told how many to do: the fastest of several times `time` divided by their number.
pub(super) fn seconds_a_step(time: Duration, busy: &mut Busy, mut run: impl FnMut(u64)) -> f64 {
    let wanted = time.as_secs_f64() / f64::from(REPEATS);
    let mut steps = 64;
    let mut took = once(steps, &mut run).0;
    while took < wanted && steps < 1 << 40 {
        let more = wanted / took.max(1e-9) * 1.2;
        steps = (steps as f64 * more.clamp(2.0, 100.0)) as u64;
        took = once(steps, &mut run).0;
    }
    let mut runs: Vec<(f64, f64)> = (0..REPEATS).map(|_| once(steps, &mut run)).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (fastest, lost) = runs[0];
    busy.add(Disturbance { lost, spread: runs[runs.len() / 2].0 / fastest });
    fastest / steps as f64
}

/// Seconds that it took, and the part of them in which this thread did not run.
fn once(steps: u64, run: &mut impl FnMut(u64)) -> (f64, f64) {
    let (began, ran) = (Instant::now(), cpu_seconds());
    run(steps);
    let (took, ran) = (began.elapsed().as_secs_f64(), cpu_seconds() - ran);
    (took, (1.0 - ran / took).clamp(0.0, 1.0))
}

/// Seconds a load of a cycle through the places takes.
pub(super) fn load_seconds(words: &mut [u64], places: &[usize], time: Duration, busy: &mut Busy) -> f64 {
    lay_cycle(words, places, &mut Random::new());
    let mut at = follow(words, places[0], places.len() as u64);
    seconds_a_step(time, busy, |steps| at = black_box(follow(words, at, steps)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_goes_through_all_places_and_comes_back() {
        for count in [1, 2, 3, 64, 1000] {
            let mut words = vec![u64::MAX; 8 * count];
            let places = lines_of(64 * count);
            let order = lay_cycle(&mut words, &places, &mut Random::new());
            assert_eq!(follow(&words, order[0], 1), order[1 % count]);
            let mut seen: Vec<usize> = Vec::new();
            let mut at = places[0];
            for _ in 0..count {
                seen.push(at);
                at = follow(&words, at, 1);
            }
            assert_eq!(at, places[0]);
            seen.sort_unstable();
            assert_eq!(seen, places);
            let others: [usize; 3] = follow_several(&words, [places[0], places[count / 2], places[0]], count as u64);
            assert_eq!(others, [places[0], places[count / 2], places[0]]);
        }
    }
}
