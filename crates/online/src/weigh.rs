//! Events of five kinds as one count: pairs that hint faults have shown, who use memory one after the other, pairs that
//! write protection has shown, who write to it one after the other, pairs that watchpoints have shown, who use the same
//! memory at the same time, pairs that samples have shown, who were seen near one another in memory, and pairs of which one copies
//! from or to the other's process, or sends messages to it.
//!
//! What is wanted is who shares, readers included, and in proportion to how much. Hint faults show readers, but come at the kernel's
//! rate, seldom, and each pass shows a moment. Write protection comes at ours, and shows no readers. So events of writers
//! count in full while there are few others, and later as much as half of what the others are in all: as they are many, they say
//! what little the others do not, and whatever is wrong with them, who only reads above all, stays small.
//!
//! Faults show well with whom a task shares, and less well how much it does: a page faults in whichever task comes to it first, and
//! that is more often one that ran when pages were marked. So what a task has more or less of them than the others is taken back, as far
//! as a factor of 1.4 goes. Watchpoints are the fairest sample, of places drawn at random, and a small one; samples are many, in
//! proportion to the time that is spent in memory. Faults count in full while there are next to none of these, and later, however many
//! they are, as much as 20 such events for each task, or 0.15 times those of samples if that is more.
//!
//! What is copied or sent is known exactly. A mebibyte counts as an event: between its cost, some 40 us where it comes from far away, and what
//! the others stand for, an event of faults 10 us and one of samples 400.
//! (benches/online.md: correlations with the exact profile for these numbers and others.)

use std::collections::BTreeMap;
use std::time::Duration;

/// Events of writers, over those of users, once these are enough.
const WRITERS: f64 = 0.5;
/// Events of faults for each task that has any, once those of watchpoints and samples are enough, or for each event of
/// samples, whichever is more.
const FAULTS_OF_A_TASK: f64 = 20.0;
const FAULTS_OF_A_SAMPLE: f64 = 0.15;
/// How much more or less of its faults may count because a task has less or more of them than the others, where it is usual to have
/// as many as the second number; with as few as the first nothing tells more from less.
const EVENED_OUT: f64 = 1.4;
const TELLING: (f64, f64) = (20.0, 100.0);
/// Enough events of the better kind: of users beside writers, and of watchpoints, samples and bytes, which show all alike, beside faults,
/// whose events come many at a time and show one moment.
const ENOUGH_USED: f64 = 200.0;
const ENOUGH_DRAWN: f64 = 50.0;
/// Bytes that are an event.
const EVENT: f64 = (1 << 20) as f64;
/// What is left after a second of what the weights are reckoned from.
const FADES: f64 = 0.95;
/// Faults of a task that are as good as none.
const FORGOTTEN: f64 = 1e-3;
/// What a whole event may lack by rounding.
const ROUNDING: f64 = 1e-6;
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
    /// From samples.
    pub sampled: u64,
    /// Bytes that one copied from or to the other's process, or sent to it.
    pub bytes: u64,
    /// From samples too, and not among the events: how often the two met lately, which is less exact, and shows a change sooner.
    pub met: u64,
}

impl Seen {
    /// Nothing yet between two tasks.
    pub fn of(a: u32, b: u32) -> Self {
        Self { pair: (a.min(b), a.max(b)), used: 0, written: 0, watched: 0, sampled: 0, bytes: 0, met: 0 }
    }

    /// Events of all kinds, whole ones.
    pub fn events(&self) -> u64 {
        self.used + self.written + self.watched + self.sampled + (self.bytes as f64 / EVENT) as u64
    }

    /// Adds what else was seen of the pair.
    pub fn add(&mut self, more: &Self) {
        self.used += more.used;
        self.written += more.written;
        self.watched += more.watched;
        self.sampled += more.sampled;
        self.bytes += more.bytes;
        self.met += more.met;
    }
}

/// Makes one count of all.
#[derive(Debug, Default)]
pub struct Scales {
    used: f64,
    written: f64,
    /// Of faults of each task, as they are weighed among themselves.
    faults: BTreeMap<u32, f64>,
    watched: f64,
    sampled: f64,
    passed: f64,
    weighed_at: Duration,
    /// What is left over of events that did not make a whole one, so that none is lost.
    fractions: BTreeMap<(u32, u32), f64>,
}

impl Scales {
    /// The events of each pair that has any, weighed. `now` is since any moment.
    pub fn weigh(&mut self, now: Duration, seen: &[Seen]) -> Vec<(u32, u32, u64)> {
        if seen.is_empty() {
            return Vec::new();
        }
        let left = FADES.powf(now.saturating_sub(self.weighed_at).as_secs_f64());
        self.weighed_at = now;
        let sum = |of: fn(&Seen) -> u64| seen.iter().map(|seen| of(seen) as f64).sum::<f64>();
        self.used = self.used * left + sum(|seen| seen.used);
        self.written = self.written * left + sum(|seen| seen.written);
        self.watched = self.watched * left + sum(|seen| seen.watched);
        self.sampled = self.sampled * left + sum(|seen| seen.sampled);
        self.passed = self.passed * left + sum(|seen| seen.bytes) / EVENT;
        let of_writers = weight((self.used, ENOUGH_USED), self.written, WRITERS * self.used);
        let faults_in = |seen: &Seen| seen.used as f64 + of_writers * seen.written as f64;
        self.count_faults(left, seen.iter().map(|seen| (seen.pair, faults_in(seen))));
        let faults = Faults::of(&self.faults);
        let at_last = (FAULTS_OF_A_TASK * faults.tasks).max(FAULTS_OF_A_SAMPLE * (self.sampled + self.passed));
        let of_faults = weight((self.watched + self.sampled + self.passed, ENOUGH_DRAWN), faults.all / 2.0, at_last);
        if self.fractions.len() > MOST_PAIRS {
            self.fractions.clear();
        }
        let mut pairs = Vec::with_capacity(seen.len());
        for seen in seen {
            let mut events = seen.watched + seen.sampled;
            let even = |task| faults.usual_over(self.faults.get(&task).copied());
            let faults = of_faults * faults_in(seen) * even(seen.pair.0) * even(seen.pair.1);
            let parts = faults + seen.bytes as f64 / EVENT;
            if parts > 0.0 {
                let fraction = self.fractions.entry(seen.pair).or_default();
                *fraction += parts;
                let whole = (*fraction + ROUNDING).floor();
                *fraction -= whole;
                events += whole as u64;
            }
            if events > 0 {
                pairs.push((seen.pair.0, seen.pair.1, events));
            }
        }
        pairs
    }

    /// Forgets the tasks of which it is not so: where tasks come and go they would be many soon.
    pub fn retain(&mut self, lives: impl Fn(u32) -> bool) {
        self.faults.retain(|&task, _| lives(task));
        self.fractions.retain(|&(a, b), _| lives(a) && lives(b));
    }

    /// Adds to the faults of each task; of what was there, `left` is left.
    fn count_faults(&mut self, left: f64, seen: impl Iterator<Item = ((u32, u32), f64)>) {
        self.faults.retain(|_, faults| {
            *faults *= left;
            *faults > FORGOTTEN
        });
        for ((a, b), faults) in seen.filter(|seen| seen.1 > 0.0) {
            *self.faults.entry(a).or_default() += faults;
            *self.faults.entry(b).or_default() += faults;
        }
    }
}

/// How faults are spread over tasks.
struct Faults {
    /// Of all tasks, so that each event counts for two.
    all: f64,
    /// Of a task, as most events see it: tasks with next to none do not change it.
    usual: f64,
    /// Tasks, those that have few in part.
    tasks: f64,
}

impl Faults {
    fn of(tasks: &BTreeMap<u32, f64>) -> Self {
        let all: f64 = tasks.values().sum();
        let usual = tasks.values().map(|faults| faults * faults).sum::<f64>() / all.max(f64::MIN_POSITIVE);
        Self { all, usual, tasks: if usual > 0.0 { all / usual } else { 0.0 } }
    }

    /// How many times its faults a task would have that has as many as is usual, within bounds.
    fn usual_over(&self, faults: Option<f64>) -> f64 {
        let tells = ((self.usual - TELLING.0) / (TELLING.1 - TELLING.0)).clamp(0.0, 1.0);
        let faults = faults.filter(|&faults| faults > 0.0);
        faults.map_or(1.0, |faults| (self.usual / faults).clamp(1.0 / EVENED_OUT, EVENED_OUT).powf(tells))
    }
}

/// What an event of the lesser kind counts, beside so many of the better one, of which so many are enough, and of its own, where it
/// is to come to `at_last` in all.
fn weight((better, enough): (f64, f64), lesser: f64, at_last: f64) -> f64 {
    let at_last = if lesser > 0.0 { (at_last / lesser).min(1.0) } else { 1.0 };
    at_last.powf((better / enough).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What a pair has after as many seconds, of which hint faults show so many events a second, and write protection so many.
    fn after(seconds: u32, used: u64, written: u64) -> u64 {
        let mut scales = Scales::default();
        let seen = [Seen { used, written, ..Seen::of(0, 1) }];
        (0..seconds).flat_map(|second| scales.weigh(SECOND * second, &seen)).map(|pair| pair.2).sum()
    }

    #[test]
    fn writers_count_in_full_while_they_are_alone_or_few() {
        assert_eq!(after(10, 0, 1000), 10_000);
        assert_eq!(after(10, 1000, 400), 14_000);
    }

    #[test]
    fn writers_come_to_half_of_the_users() {
        let both = after(100, 100, 10_000);
        // Those of the first two seconds are counted in full or in part.
        assert!((14_800..=26_000).contains(&both), "{both}");
        let later = after(101, 100, 10_000);
        assert!((later - both).abs_diff(150) <= 1, "{later} {both}");
    }

    #[test]
    fn faults_come_to_a_number_for_each_task_where_watchpoints_show_enough() {
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
        // Two tasks have 40 in the time that counts, of which a twentieth is forgotten in a second.
        assert!((faults - weighed(100, 100).1).abs_diff(2) <= 1, "{faults}");
        // In one go, as for a profile.
        let seen = [Seen { watched: 60, ..Seen::of(0, 1) }, Seen { used: 5_000, ..Seen::of(0, 2) }];
        assert_eq!(Scales::default().weigh(SECOND, &seen), [(0, 1, 60), (0, 2, 40)]);
    }

    #[test]
    fn faults_come_to_a_share_of_what_many_samples_show() {
        let weighed = |sampled| {
            let seen = [Seen { sampled, ..Seen::of(0, 1) }, Seen { used: 50_000, ..Seen::of(0, 2) }];
            Scales::default().weigh(SECOND, &seen)
        };
        // Of few, to 20 for each task.
        assert_eq!(weighed(100), [(0, 1, 100), (0, 2, 40)]);
        assert_eq!(weighed(4_000), [(0, 1, 4_000), (0, 2, 600)]);
        let few = [Seen { sampled: 4_000, ..Seen::of(0, 1) }, Seen { used: 12, ..Seen::of(0, 2) }];
        assert_eq!(Scales::default().weigh(SECOND, &few), [(0, 1, 4_000), (0, 2, 12)]);
    }

    #[test]
    fn few_watchpoints_change_little() {
        let in_all = |watched: f64| 6_000.0 * weight((watched, ENOUGH_DRAWN), 6_000.0, 100.0);
        assert!((in_all(0.0), in_all(ENOUGH_DRAWN).round()) == (6_000.0, 100.0));
        assert!(in_all(0.05 * ENOUGH_DRAWN) > 4_500.0 && in_all(0.5 * ENOUGH_DRAWN) < 800.0);
        // Few faults are never more than they are.
        assert_eq!(weight((10.0, ENOUGH_DRAWN), 5.0, 100.0), 1.0);
    }

    #[test]
    fn what_tasks_have_more_or_less_than_others_is_evened_out_within_bounds() {
        // Tasks that meet with every other alike, and fault so many times as often as others do.
        let often = [1.0, 1.0, 1.2, 0.8, 1.0, 1.0];
        let pairs = |often: &[f64]| {
            let all = (0..often.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            let seen = |(a, b)| Seen { used: (1_000.0 * often[a] * often[b]) as u64, ..Seen::of(a as u32, b as u32) };
            let seen: Vec<Seen> = all.map(seen).collect();
            Scales::default().weigh(SECOND, &seen).into_iter().map(|pair| ((pair.0, pair.1), pair.2)).collect()
        };
        let weighed: BTreeMap<(u32, u32), u64> = pairs(&often);
        let (least, most) = (weighed.values().min().unwrap(), weighed.values().max().unwrap());
        assert!((most - least) * 12 < *most, "{weighed:?}");
        // Before it was 800 to 1,200. One that has next to nothing does not come to what the others have.
        let weighed: BTreeMap<(u32, u32), u64> = pairs(&[1.0, 1.0, 1.0, 0.01]);
        assert!(weighed[&(0, 3)] <= 14 && weighed[&(0, 1)].abs_diff(1_000) < 30, "{weighed:?}");
        // Few faults are counted as they come.
        let few = [Seen { used: 12, ..Seen::of(0, 1) }, Seen { used: 5, ..Seen::of(1, 2) }];
        assert_eq!(Scales::default().weigh(SECOND, &few), [(0, 1, 12), (1, 2, 5)]);
    }

    #[test]
    fn a_mebibyte_is_an_event() {
        let mut scales = Scales::default();
        let sent = |bytes| [Seen { bytes, sampled: 1, ..Seen::of(0, 1) }];
        let weighed: Vec<u64> =
            [3 << 20, 700 << 10, 700 << 10, 10].map(|bytes| scales.weigh(SECOND, &sent(bytes))[0].2).into();
        assert_eq!(weighed, [4, 1, 2, 1]);
        // Faults show less of the same.
        let seen = [Seen { bytes: 4_000 << 20, ..Seen::of(0, 1) }, Seen { used: 50_000, ..Seen::of(0, 2) }];
        assert_eq!(Scales::default().weigh(SECOND, &seen), [(0, 1, 4_000), (0, 2, 600)]);
    }

    #[test]
    fn tasks_that_are_gone_are_forgotten() {
        let mut scales = Scales::default();
        let seen = |task| [Seen { used: 100, sampled: 1, ..Seen::of(0, task) }];
        for task in 1..=100 {
            scales.weigh(SECOND, &seen(task));
        }
        assert_eq!((scales.faults.len(), scales.fractions.len()), (101, 100));
        scales.retain(|task| task == 0 || task > 97);
        assert_eq!((scales.faults.len(), scales.fractions.len()), (4, 3));
        // The others count as before.
        assert!(scales.faults[&0] > 9_999.0);
        // And what nothing is seen of changes nothing.
        let faded = scales.weighed_at;
        assert_eq!(scales.weigh(SECOND * 2, &[]), []);
        assert_eq!(scales.weighed_at, faded);
    }

    #[test]
    fn fractions_add_up() {
        let mut scales = Scales::default();
        let mut sum = 0;
        scales.weigh(Duration::ZERO, &[Seen { used: 1000, ..Seen::of(8, 9) }]);
        scales.weigh(Duration::ZERO, &[Seen { written: 5_000, ..Seen::of(8, 9) }]);
        for _ in 0..1000 {
            for (_, _, events) in scales.weigh(Duration::ZERO, &[Seen { written: 1, ..Seen::of(8, 9) }]) {
                assert_eq!(events, 1);
                sum += events;
            }
        }
        // A tenth each, a little less as they become more.
        assert!((85..=100).contains(&sum), "{sum}");
    }
}
