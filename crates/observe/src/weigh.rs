//! Events of three kinds as one count: pairs that hint faults have shown, who use memory one after the other, pairs that
//! write protection has shown, who write to it one after the other, and pairs that watchpoints have shown, who use the same
//! memory at the same time.
//!
//! What is wanted is who shares, readers included, and in proportion to how much. Hint faults show readers, but come at the kernel's
//! rate, seldom, and each pass shows a moment. Write protection comes at ours, and shows no readers. So events of writers
//! count in full while there are few others, and later as much as half of what the others are in all: as they are many, they say
//! what little the others do not, and whatever is wrong with them, who only reads above all, stays small. Watchpoints are the
//! fairest sample, of places drawn at random, and a small one: faults count in full while it is, and later as much as it does.
//! (docs/benchmarks-online.md: correlations with the exact profile for shares from 0 to 2.)

use std::collections::BTreeMap;
use std::time::Duration;

/// Events of writers, over those of users, once these are enough.
const WRITERS: f64 = 0.5;
/// Events of faults, over those of watchpoints, once these are enough.
const FAULTS: f64 = 1.0;
/// Enough events of the better kind: of users beside writers, and of watchpoints beside faults, whose events come many at a time and
/// show one moment.
const ENOUGH_USED: f64 = 200.0;
const ENOUGH_WATCHED: f64 = 50.0;
/// What is left after a second of what the weights are reckoned from.
const FADES: f64 = 0.95;
/// Pairs whose fractions are kept.
const MOST_PAIRS: usize = 1 << 20;

/// Events between two tasks since the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The smaller number first.
    pub pair: (u32, u32),
    /// From hint faults and first touches.
    pub used: u64,
    /// From write protection.
    pub written: u64,
    /// From watchpoints.
    pub watched: u64,
}

impl Seen {
    /// Nothing yet between two tasks.
    pub fn of(a: u32, b: u32) -> Self {
        Self { pair: (a.min(b), a.max(b)), used: 0, written: 0, watched: 0 }
    }

    /// Events of all kinds.
    pub fn events(&self) -> u64 {
        self.used + self.written + self.watched
    }

    /// Adds what else was seen of the pair.
    pub fn add(&mut self, more: &Self) {
        self.used += more.used;
        self.written += more.written;
        self.watched += more.watched;
    }
}

/// Makes one count of all.
#[derive(Debug, Default)]
pub struct Scales {
    used: f64,
    written: f64,
    /// Of faults in all, as they are weighed among themselves.
    faults: f64,
    watched: f64,
    weighed_at: Duration,
    /// What is left over of events that did not make a whole one, so that none is lost.
    fractions: BTreeMap<(u32, u32), f64>,
}

impl Scales {
    /// The events of each pair that has any, weighed. `now` is since any moment.
    pub fn weigh(&mut self, now: Duration, seen: &[Seen]) -> Vec<(u32, u32, u64)> {
        let left = FADES.powf(now.saturating_sub(self.weighed_at).as_secs_f64());
        self.weighed_at = now;
        let sum = |of: fn(&Seen) -> u64| seen.iter().map(|seen| of(seen) as f64).sum::<f64>();
        self.used = self.used * left + sum(|seen| seen.used);
        self.written = self.written * left + sum(|seen| seen.written);
        self.watched = self.watched * left + sum(|seen| seen.watched);
        let of_writers = weight((self.used, ENOUGH_USED), self.written, WRITERS);
        self.faults = self.faults * left + sum(|seen| seen.used) + of_writers * sum(|seen| seen.written);
        let of_faults = weight((self.watched, ENOUGH_WATCHED), self.faults, FAULTS);
        if self.fractions.len() > MOST_PAIRS {
            self.fractions.clear();
        }
        let mut pairs = Vec::with_capacity(seen.len());
        for seen in seen {
            let mut events = seen.watched;
            let faults = of_faults * (seen.used as f64 + of_writers * seen.written as f64);
            if faults > 0.0 {
                let fraction = self.fractions.entry(seen.pair).or_default();
                *fraction += faults;
                let whole = fraction.floor();
                *fraction -= whole;
                events += whole as u64;
            }
            if events > 0 {
                pairs.push((seen.pair.0, seen.pair.1, events));
            }
        }
        pairs
    }
}

/// What an event of the lesser kind counts, beside so many of the better one, of which so many are enough, and of its own, where it
/// is to come to a share of the better one in all.
fn weight((better, enough): (f64, f64), lesser: f64, share: f64) -> f64 {
    let at_last = if lesser > 0.0 { (share * better / lesser).min(1.0) } else { 1.0 };
    at_last.powf((better / enough).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What two pairs have after as many seconds, one of which hint faults show, the other write protection.
    fn after(seconds: u32, used: u64, written: u64) -> (u64, u64) {
        let mut scales = Scales::default();
        let mut sums = (0, 0);
        for second in 0..seconds {
            let seen = [Seen { used, ..Seen::of(0, 1) }, Seen { written, ..Seen::of(2, 0) }];
            for (_, other, events) in scales.weigh(SECOND * second, &seen) {
                *(if other == 1 { &mut sums.0 } else { &mut sums.1 }) += events;
            }
        }
        sums
    }

    #[test]
    fn writers_count_in_full_while_they_are_alone_or_few() {
        assert_eq!(after(10, 0, 1000), (0, 10_000));
        assert_eq!(after(10, 1000, 400), (10_000, 4_000));
    }

    #[test]
    fn writers_come_to_half_of_the_users() {
        let (users, writers) = after(100, 100, 10_000);
        assert_eq!(users, 10_000);
        // Those of the first two seconds are counted in full or in part.
        assert!((4_800..=16_000).contains(&writers), "{writers}");
        let (_, later) = after(101, 100, 10_000);
        assert!((later - writers).abs_diff(50) <= 1, "{later} {writers}");
    }

    #[test]
    fn faults_come_to_as_much_as_watchpoints_show() {
        let weighed = |watched: u64, seconds: u32| {
            let mut scales = Scales::default();
            let mut sums = (0, 0);
            for second in 0..seconds {
                let seen = [
                    Seen { watched, ..Seen::of(0, 1) },
                    Seen { used: 1000, written: 100_000, ..Seen::of(0, 2) },
                    Seen { watched: 0, ..Seen::of(0, 3) },
                ];
                for (_, other, events) in scales.weigh(SECOND * second, &seen) {
                    *(if other == 1 { &mut sums.0 } else { &mut sums.1 }) += events;
                }
            }
            sums
        };
        // Where watchpoints show nothing, faults are all there is: users, and half as much for writers.
        let (none, faults) = weighed(0, 101);
        assert_eq!(none, 0);
        assert!(faults - weighed(0, 100).1 <= 1_501, "{faults}");
        let (watched, faults) = weighed(100, 101);
        assert_eq!(watched, 10_100);
        assert!((faults - weighed(100, 100).1).abs_diff(100) <= 1, "{faults}");
    }

    #[test]
    fn many_faults_do_not_drown_some_watchpoints() {
        let in_all = |watched: f64| 6_000.0 * weight((watched, ENOUGH_WATCHED), 6_000.0, FAULTS);
        assert!((in_all(0.0), in_all(ENOUGH_WATCHED)) == (6_000.0, ENOUGH_WATCHED));
        assert!(in_all(0.5 * ENOUGH_WATCHED) < 400.0 && in_all(0.9 * ENOUGH_WATCHED) < 80.0);
        // Few faults are never more than they are.
        assert_eq!(weight((10.0, ENOUGH_WATCHED), 5.0, FAULTS), 1.0);
    }

    #[test]
    fn fractions_add_up() {
        let mut scales = Scales::default();
        let mut sum = 0;
        scales.weigh(Duration::ZERO, &[Seen { used: 1000, ..Seen::of(8, 9) }]);
        scales.weigh(Duration::ZERO, &[Seen { written: 5_000, ..Seen::of(8, 9) }]);
        for _ in 0..1000 {
            for (_, _, events) in scales.weigh(Duration::ZERO, &[Seen { written: 1, ..Seen::of(2, 3) }]) {
                assert_eq!(events, 1);
                sum += events;
            }
        }
        // A tenth each, a little less as they become more.
        assert!((85..=100).contains(&sum), "{sum}");
    }
}
