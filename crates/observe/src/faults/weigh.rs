//! Events of two kinds as one count: pairs that hint faults have shown, who use memory one after the other, and pairs that
//! write protection has shown, who write to it one after the other.
//!
//! What is wanted is who shares, readers included, and that hint faults show; but they come at the kernel's rate, seldom, and
//! each pass shows a moment. Write protection comes at ours. So events of writers count in full while there are few
//! others, and later as much as half of what the others are in all: as they are many, they say what little the others do not, and
//! whatever is wrong with them, who only reads above all, stays small. (docs/benchmarks-online.md: correlations with the
//! exact profile for shares from 0 to 2.)

use std::collections::BTreeMap;
use std::time::Duration;

/// Events of writers, over those of users, once these are enough.
const SHARE: f64 = 0.5;
/// Enough events of users.
const ENOUGH: f64 = 200.0;
/// What is left after a second of what the weight is reckoned from.
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
}

/// Makes one count of both.
#[derive(Debug, Default)]
pub struct Scales {
    used: f64,
    written: f64,
    weighed_at: Duration,
    /// What is left over of events that did not make a whole one, so that none is lost.
    fractions: BTreeMap<(u32, u32), f64>,
}

impl Scales {
    /// The events of each pair that has any, weighed. `now` is since any moment.
    pub fn weigh(&mut self, now: Duration, seen: &[Seen]) -> Vec<(u32, u32, u64)> {
        let left = FADES.powf(now.saturating_sub(self.weighed_at).as_secs_f64());
        self.weighed_at = now;
        self.used = self.used * left + seen.iter().map(|seen| seen.used as f64).sum::<f64>();
        self.written = self.written * left + seen.iter().map(|seen| seen.written as f64).sum::<f64>();
        let weight = self.weight();
        if self.fractions.len() > MOST_PAIRS {
            self.fractions.clear();
        }
        let mut pairs = Vec::with_capacity(seen.len());
        for &Seen { pair, used, written } in seen {
            let mut events = used;
            if written > 0 {
                let fraction = self.fractions.entry(pair).or_default();
                *fraction += weight * written as f64;
                let whole = fraction.floor();
                *fraction -= whole;
                events += whole as u64;
            }
            if events > 0 {
                pairs.push((pair.0, pair.1, events));
            }
        }
        pairs
    }

    /// What an event of writers counts.
    fn weight(&self) -> f64 {
        let at_last = if self.written > 0.0 { (SHARE * self.used / self.written).min(1.0) } else { 1.0 };
        1.0 - (self.used / ENOUGH).min(1.0) * (1.0 - at_last)
    }
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
            let seen = [Seen { pair: (0, 1), used, written: 0 }, Seen { pair: (0, 2), used: 0, written }];
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
    fn fractions_add_up() {
        let mut scales = Scales::default();
        let mut sum = 0;
        scales.weigh(Duration::ZERO, &[Seen { pair: (8, 9), used: 1000, written: 0 }]);
        scales.weigh(Duration::ZERO, &[Seen { pair: (8, 9), used: 0, written: 5_000 }]);
        for _ in 0..1000 {
            for (_, _, events) in scales.weigh(Duration::ZERO, &[Seen { pair: (2, 3), used: 0, written: 1 }]) {
                assert_eq!(events, 1);
                sum += events;
            }
        }
        // A tenth each, a little less as they become more.
        assert!((85..=100).contains(&sum), "{sum}");
    }
}
