//! How long to watch a place: long enough that all who share it have come by, and no longer, since time is what is
//! scarce.
//!
//! A program that comes by a hundred times a second has shown all in a few milliseconds; another takes a second. So
//! lengths are tried, and the one that shows the most pairs for the time until the next window is taken mostly.

use std::time::Duration;

/// The lengths.
pub(super) const LENGTHS: [Duration; 7] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(12),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];
/// So many times as long as it takes on average for all tasks of a PU to have had their turns, a window is at least:
/// turns are not equally long.
const ROUNDS: u32 = 2;
/// Of so many windows one has a length beside the best.
const TRIES: u32 = 5;
/// What is left after each window of what is known.
const FADES: f64 = 0.98;

/// What each length has shown lately.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Lengths {
    shown: [Shown; LENGTHS.len()],
    /// What the last window took.
    takes: Takes,
}

/// How much time goes by from the beginning of a window to that of the next: what it takes however long it is, in
/// seconds, and for each second of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Takes {
    pub(super) once: f64,
    pub(super) each_second: f64,
}

impl Default for Takes {
    fn default() -> Self {
        Self { once: 0.0, each_second: 1.0 }
    }
}

impl Takes {
    fn seconds(&self, length: Duration) -> f64 {
        self.once + self.each_second * length.as_secs_f64()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Shown {
    pairs: f64,
    /// Places, and those at which anybody met.
    places: f64,
    met: f64,
    seconds: f64,
}

impl Lengths {
    /// One to take, where so many tasks take turns on a PU, each of which has it so long on average: an index of
    /// [`LENGTHS`]. None shorter than it takes for all to have had theirs: else a window would say who ran, and not who
    /// shares.
    pub(super) fn choose(&self, tasks: usize, turn: Duration, random: &mut fastrand::Rng) -> usize {
        let all = turn * (ROUNDS * u32::try_from(tasks).unwrap_or(u32::MAX / ROUNDS));
        let first = LENGTHS.partition_point(|&length| length < all).min(LENGTHS.len() - 1);
        // As if one window more had shown half a pair, so that one that has shown nothing is not given up at once, and
        // short ones, which cost less, are tried first. Pairs count the less the fewer of the places have shown any:
        // where most who share a place have not come by, a window says who ran soonest, and not who shares.
        let rate = |index: &usize| {
            let Shown { pairs, places, met, seconds } = self.shown[*index];
            let meets = (met + 0.5) / (places + 1.0);
            meets * (pairs + 0.5) / (seconds + self.takes.seconds(LENGTHS[*index]))
        };
        let best = (first..LENGTHS.len()).rev().max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(first);
        match random.u32(0..2 * TRIES) {
            // Two steps as well: the next one may be too short still.
            0 => (best + random.usize(1..=2)).min(LENGTHS.len() - 1),
            1 => best.saturating_sub(1).max(first),
            _ => best,
        }
    }

    /// So many pairs were shown in a window of this length, at so many of its places, and it takes so much.
    pub(super) fn learn(&mut self, length: usize, pairs: u64, (met, places): (u64, u64), takes: Takes) {
        for Shown { pairs, places, met, seconds } in &mut self.shown {
            [pairs, places, met, seconds].into_iter().for_each(|sum| *sum *= FADES);
        }
        self.takes = takes;
        let shown = &mut self.shown[length];
        shown.pairs += pairs as f64;
        shown.places += places as f64;
        shown.met += met as f64;
        shown.seconds += takes.seconds(LENGTHS[length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: usize = LENGTHS.len() - 1;

    /// How often each length is taken, of 500 times, where a task has its PU for so many milliseconds, and one window
    /// of each shows so many pairs.
    fn taken((tasks, turn): (usize, u64), takes: Takes, shows: impl Fn(usize) -> u64) -> [usize; LENGTHS.len()] {
        let (mut lengths, mut random) = (Lengths::default(), fastrand::Rng::with_seed(1));
        let mut taken = [0; LENGTHS.len()];
        for _ in 0..500 {
            let length = lengths.choose(tasks, Duration::from_millis(turn), &mut random);
            let pairs = shows(length);
            lengths.learn(length, pairs, (pairs.min(3), 3), takes);
            taken[length] += 1;
        }
        taken
    }

    /// Where tasks are switched seldom, and a hundred thousand times a second.
    const SELDOM: Takes = Takes { once: 0.05, each_second: 1.0 };
    const OFTEN: Takes = Takes { once: 0.05, each_second: 25.0 };

    #[test]
    fn the_length_that_shows_the_most_is_taken_mostly() {
        // A quick program: nothing is gained by waiting.
        let quick = taken((0, 5), OFTEN, |_| 4);
        assert!(quick[0] > 380 && quick[1] > 20, "{quick:?}");
        // Three take turns of 4 ms.
        assert_eq!(taken((3, 4), OFTEN, |_| 4)[..3], [0; 3]);
        assert_eq!(taken((1000, 5), OFTEN, |_| 4)[LAST], 500);
        // A slow one: where windows take about as much however long they are, and where long ones take much.
        let slow = |takes| taken((0, 5), takes, |length| u64::from(length == LAST) * 4);
        let (seldom, often) = (slow(SELDOM), slow(OFTEN));
        assert!(seldom[LAST] > 350 && seldom[LAST - 1] > 20 && often[LAST] > 50, "{seldom:?} {often:?}");
        // Short ones show a part of those who share a place, and take least.
        let some = taken((0, 5), Takes { once: 0.08, each_second: 2.0 }, |length| [1, 1, 2, 2, 3, 3, 3][length]);
        assert!(some[4] > 250, "{some:?}");
        // Where nothing is shown, all are tried, those that take less more often.
        let none = taken((0, 5), OFTEN, |_| 0);
        assert!(none[0] > 100 && none[LAST] < none[0] && none[LAST] > 2, "{none:?}");
    }

    #[test]
    fn a_program_that_changes_is_learned_anew() {
        let (mut lengths, mut random) = (Lengths::default(), fastrand::Rng::with_seed(1));
        (0..500).for_each(|_| lengths.learn(0, 9, (3, 3), SELDOM));
        let mut changed = 0;
        for _ in 0..1000 {
            let length = lengths.choose(0, Duration::ZERO, &mut random);
            let pairs = if length == LAST { 9 } else { 0 };
            lengths.learn(length, pairs, (pairs / 3, 3), SELDOM);
            changed += usize::from(length == LAST);
        }
        assert!(changed > 400, "{changed}");
    }
}
