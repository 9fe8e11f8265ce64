//! How long to watch a place: long enough that all who share it have come by, and no longer, since time is what is scarce.
//!
//! A program that comes by a hundred times a second has shown all in a few milliseconds; another takes a second. So lengths are tried,
//! and the one that shows the most pairs for the time until the next window is taken mostly.

use std::time::Duration;

/// The lengths.
pub(super) const LENGTHS: [Duration; 4] =
    [Duration::from_millis(25), Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];
/// How long a task that takes turns with others on a PU has it, about, before it is another's.
const TURN: Duration = Duration::from_millis(5);
/// Of so many windows one has a length beside the best.
const TRIES: u32 = 5;
/// What is left after each window of what is known.
const FADES: f64 = 0.98;

/// What each length has shown lately.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Lengths {
    shown: [Shown; LENGTHS.len()],
    /// How many times its length was the time from one window to the next, last.
    apart: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Shown {
    pairs: f64,
    seconds: f64,
}

impl Lengths {
    /// One to take, where so many tasks take turns on a PU: an index of [`LENGTHS`]. None shorter than it takes for all to have
    /// had theirs: else a window would say who ran, and not who shares.
    pub(super) fn choose(&self, turns: usize, random: &mut fastrand::Rng) -> usize {
        let all = TURN * u32::try_from(turns).unwrap_or(u32::MAX);
        let first = LENGTHS.partition_point(|&length| length < all).min(LENGTHS.len() - 1);
        // As if one window more had shown half a pair, so that one that has shown nothing is not given up at once, and short ones,
        // which cost less, are tried first.
        let rate = |index: &usize| {
            let Shown { pairs, seconds } = self.shown[*index];
            (pairs + 0.5) / (seconds + self.apart.max(1.0) * LENGTHS[*index].as_secs_f64())
        };
        let best = (first..LENGTHS.len()).rev().max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(first);
        match random.u32(0..2 * TRIES) {
            0 => (best + 1).min(LENGTHS.len() - 1),
            1 => best.saturating_sub(1).max(first),
            _ => best,
        }
    }

    /// So many pairs were shown in a window of this length, and so much time goes by from its beginning to the next.
    pub(super) fn learn(&mut self, length: usize, pairs: u64, time: Duration) {
        for Shown { pairs, seconds } in &mut self.shown {
            *pairs *= FADES;
            *seconds *= FADES;
        }
        self.apart = time.as_secs_f64() / LENGTHS[length].as_secs_f64();
        let shown = &mut self.shown[length];
        shown.pairs += pairs as f64;
        shown.seconds += time.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each length is taken, of 500 times, where one window of each shows so many pairs and costs so much time.
    fn taken(turns: usize, shows: impl Fn(usize) -> (u64, u64)) -> [usize; LENGTHS.len()] {
        let (mut lengths, mut random) = (Lengths::default(), fastrand::Rng::with_seed(1));
        let mut taken = [0; LENGTHS.len()];
        for _ in 0..500 {
            let length = lengths.choose(turns, &mut random);
            let (pairs, milliseconds) = shows(length);
            lengths.learn(length, pairs, Duration::from_millis(milliseconds));
            taken[length] += 1;
        }
        taken
    }

    #[test]
    fn the_length_that_shows_the_most_is_taken_mostly() {
        // A quick program: nothing is gained by waiting.
        let quick = taken(0, |length| (4, 30 << length));
        assert!(quick[0] > 380 && quick[1] > 20, "{quick:?}");
        assert_eq!(taken(6, |length| (4, 30 << length))[0], 0);
        assert_eq!(taken(1000, |length| (4, 30 << length)), [0, 0, 0, 500]);
        // A slow one, for which watching takes more time than there is anyway.
        let slow = taken(0, |length| (u64::from(length == 3) * 4, 300));
        assert!(slow[3] > 380 && slow[2] > 20, "{slow:?}");
        // Where nothing is shown, all are tried, those that cost less more often.
        let none = taken(0, |length| (0, 100 << length));
        assert!(none.is_sorted_by(|a, b| a > b) && none[3] > 20, "{none:?}");
    }

    #[test]
    fn a_program_that_changes_is_learned_anew() {
        let (mut lengths, mut random) = (Lengths::default(), fastrand::Rng::with_seed(1));
        (0..500).for_each(|_| lengths.learn(0, 9, LENGTHS[0]));
        let mut changed = 0;
        for _ in 0..1000 {
            let length = lengths.choose(0, &mut random);
            lengths.learn(length, if length == 3 { 9 } else { 0 }, LENGTHS[length]);
            changed += usize::from(length == 3);
        }
        assert!(changed > 500, "{changed}");
    }
}
