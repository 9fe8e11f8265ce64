//! Which of the places where tasks were seen are worth watching: those that others are likely to use.
//!
//! A task that is seen at an address uses it; who else does is what a watchpoint shows, exactly (Sasongko et al.,
//! ComDetective, SC 2019, where a PMU names the addresses). Most of what tasks use is theirs alone. So a place is drawn
//! by how likely it is that anybody else comes to it: of samples near it, how many were of others, and of the places
//! that were watched in its region, at how many others came by.
//!
//! Where sightings are few, as in programs that mostly compute in registers, any place of the regions in which several
//! tasks were seen is taken besides, by the same chance: of a region that others were found to come to at most four
//! times as often as of one that is not known yet, or the first pairs that were found would be found again and again.

use crate::sampling::Sighting;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bytes of a region, in which places are taken to be alike.
const REGION: u64 = 256 << 10;
/// Regions that are known at a time.
const MOST_REGIONS: usize = 1 << 13;
/// What is left of what is known of regions after a second: programs go on to other memory.
const FADES: f64 = 0.8;
const FADE_EVERY: Duration = Duration::from_millis(100);
/// Sightings that are kept, and for how long they are taken for true.
const MOST: usize = 64;
const FRESH: Duration = Duration::from_secs(1);
/// A line that is used all the time, a barrier's or a lock's, is seen again and again, and says the same each time: so
/// often it is watched.
const LINE_EVERY: Duration = Duration::from_millis(500);
const LINE: u64 = 64;
/// How long a region in which several tasks were seen is taken for one that they use.
const IN_USE: Duration = Duration::from_secs(4);
/// What may be watched at a time (Intel's manual, volume 3, "Breakpoint Field Recognition").
const WORD: u64 = 8;

/// The latest sightings, and how places of their regions did.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    sightings: VecDeque<(Duration, i32, Sighting)>,
    regions: BTreeMap<(i32, u64), Region>,
    faded: Duration,
    /// Lines that were watched just now, the last ones last.
    lines: VecDeque<(Duration, (i32, u64))>,
}

/// What is known of a region.
#[derive(Debug, Clone, Copy, Default)]
struct Region {
    /// Places that were watched, and those of them that others used.
    watched: f64,
    used: f64,
    /// A task that was seen in it, and when another one was, last.
    task: Option<u32>,
    shared_at: Option<Duration>,
}

impl Region {
    /// Whether several tasks were seen there lately.
    fn is_in_use(&self, now: Duration) -> bool {
        self.shared_at.is_some_and(|at| now < at + IN_USE)
    }

    /// The square of the chance that a place of it is used by several tasks, by Laplace's rule of succession, of what
    /// was watched there and of `near` samples of which so many were of `others`. Squared, since much of what tasks use
    /// is their own, and what is seen of it is most.
    fn chance(&self, (near, others): (u32, u32)) -> f64 {
        ((1.0 + f64::from(others) + 2.0 * self.used) / (2.0 + f64::from(near) + 2.0 * self.watched)).powi(2)
    }
}

/// A place that was drawn: of which process, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draw {
    /// Where a task was seen.
    Seen(i32, Sighting),
    /// Anywhere in a region in which several tasks were seen.
    Near(i32, u64),
}

impl Draw {
    /// The process, and the address.
    pub(super) fn place(&self) -> (i32, u64) {
        match *self {
            Self::Seen(process, sighting) => (process, sighting.address),
            Self::Near(process, address) => (process, address),
        }
    }
}

impl Chosen {
    /// A task of a process was seen.
    pub(super) fn add(&mut self, now: Duration, process: i32, sighting: Sighting) {
        if self.sightings.len() == MOST {
            self.sightings.pop_front();
        }
        self.sightings.push_back((now, process, sighting));
        let region = self.region(process, sighting.address);
        if region.task.replace(sighting.task).is_some_and(|before| before != sighting.task) {
            region.shared_at = Some(now);
        }
    }

    fn region(&mut self, process: i32, address: u64) -> &mut Region {
        let key = (process, address / REGION);
        if self.regions.len() >= MOST_REGIONS && !self.regions.contains_key(&key) {
            self.regions.clear();
        }
        self.regions.entry(key).or_default()
    }

    /// Draws a sighting, and takes it out; where there is none left, any place of a region that is in use.
    pub(super) fn draw(&mut self, now: Duration, random: &mut fastrand::Rng) -> Option<Draw> {
        while self.lines.front().is_some_and(|&(at, _)| now >= at + LINE_EVERY) {
            self.lines.pop_front();
        }
        let lines = &self.lines;
        let is_known = |line: (i32, u64)| lines.iter().any(|&(_, known)| known == line);
        self.sightings.retain(|&(at, process, seen)| now < at + FRESH && !is_known((process, seen.address / LINE)));
        if self.sightings.is_empty() {
            let in_use = || self.regions.iter().filter(|(_, region)| region.is_in_use(now));
            let at = drawn(in_use().map(|(_, region)| region.chance((0, 0))), random)?;
            let (&(process, region), _) = in_use().nth(at)?;
            return Some(Draw::Near(process, region * REGION + random.u64(0..REGION / WORD) * WORD));
        }
        let chances = self.sightings.iter().map(|&(_, process, seen)| {
            self.regions.get(&(process, seen.address / REGION)).copied().unwrap_or_default().chance(seen.near)
        });
        let (_, process, sighting) = self.sightings.remove(drawn(chances, random)?)?;
        self.lines.push_back((now, (process, sighting.address / LINE)));
        Some(Draw::Seen(process, sighting))
    }

    /// Forgets what was seen of a process that is gone.
    pub(super) fn forget(&mut self, process: i32) {
        self.sightings.retain(|kept| kept.1 != process);
        self.regions.retain(|kept, _| kept.0 != process);
    }

    /// A place was watched, and others used it or not.
    pub(super) fn learn(&mut self, now: Duration, (process, address): (i32, u64), is_used: bool) {
        let elapsed = now.saturating_sub(self.faded);
        if elapsed >= FADE_EVERY {
            let left = FADES.powf(elapsed.as_secs_f64());
            self.faded = now;
            for known in self.regions.values_mut() {
                (known.watched, known.used) = (known.watched * left, known.used * left);
            }
        }
        let known = self.region(process, address);
        (known.watched, known.used) = (known.watched + 1.0, known.used + f64::from(u8::from(is_used)));
    }
}

/// Which of several is drawn, by what each counts; none where there are none.
fn drawn(chances: impl Iterator<Item = f64>, random: &mut fastrand::Rng) -> Option<usize> {
    let chances: Vec<f64> = chances.collect();
    let mut at = random.f64() * chances.iter().sum::<f64>();
    let drawn = chances.iter().position(|chance| {
        at -= chance;
        at < 0.0
    });
    drawn.or(chances.len().checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(task: u32, address: u64, near: (u32, u32)) -> Sighting {
        Sighting { task, address, writes: true, updates: false, near }
    }

    #[test]
    fn places_that_others_use_are_drawn_most() {
        let (mut chosen, mut random) = (Chosen::default(), fastrand::Rng::with_seed(1));
        let second = Duration::from_secs(1);
        // Of two regions one is used by others, which samples do not show yet.
        for _ in 0..8 {
            chosen.learn(second, (7, 5 * REGION), true);
            chosen.learn(second, (7, 9 * REGION), false);
        }
        let mut drawn = [0; 2];
        for _ in 0..1000 {
            chosen.sightings.clear();
            chosen.lines.clear();
            for region in [5, 9] {
                (0..10).for_each(|line| chosen.add(second, 7, at(3, region * REGION + 64 * line, (0, 0))));
            }
            let Some(Draw::Seen(7, sighting)) = chosen.draw(second, &mut random) else { panic!("one task only") };
            drawn[usize::from(sighting.address / REGION == 9)] += 1;
        }
        assert!(drawn[0] > 10 * drawn[1], "{drawn:?}");
        // Neighbours tell, too, and what was known fades.
        let of = |chosen: &Chosen, region| chosen.regions.get(&(7, region)).copied().unwrap_or_default();
        assert!(of(&chosen, 1).chance((4, 4)) > 4.0 * of(&chosen, 1).chance((4, 0)));
        let before = of(&chosen, 9).chance((0, 0));
        chosen.learn(20 * second, (7, 0), false);
        assert!(of(&chosen, 9).chance((0, 0)) > 3.0 * before);
    }

    #[test]
    fn regions_that_several_use_are_drawn_from_and_those_known_to_be_shared_a_few_times_as_often() {
        let (mut chosen, mut random) = (Chosen::default(), fastrand::Rng::with_seed(1));
        let zero = Duration::ZERO;
        // The second is one task's own; the third is known to be shared, the fourth not to be.
        for (region, tasks) in [(1, [3, 4]), (2, [5, 5]), (3, [3, 4]), (4, [3, 4])] {
            tasks.into_iter().for_each(|task| chosen.add(zero, 7, at(task, region * REGION, (0, 0))));
        }
        chosen.sightings.clear();
        (0..1000).for_each(|_| chosen.learn(zero, (7, 3 * REGION), true));
        (0..10).for_each(|_| chosen.learn(zero, (7, 4 * REGION), false));
        let mut times = [0; 5];
        for _ in 0..2000 {
            let Some(Draw::Near(7, address)) = chosen.draw(zero, &mut random) else { panic!("no sightings are left") };
            assert_eq!(address % WORD, 0);
            times[(address / REGION) as usize] += 1;
        }
        assert_eq!(times[0] + times[2], 0);
        let often = f64::from(times[3]) / f64::from(times[1]);
        assert!((3.0..5.0).contains(&often) && times[1] > 10 * times[4], "{times:?}");
        // What was seen comes first, and it is not for ever.
        (0..50).for_each(|line| chosen.add(zero, 7, at(5, 2 * REGION + line * 64, (0, 0))));
        assert!((0..50).all(|_| matches!(chosen.draw(zero, &mut random), Some(Draw::Seen(..)))));
        assert!(matches!(chosen.draw(zero, &mut random), Some(Draw::Near(..))));
        assert_eq!(chosen.draw(IN_USE, &mut random), None);
    }

    #[test]
    fn a_line_that_is_seen_all_the_time_is_watched_now_and_then() {
        let (mut chosen, mut random) = (Chosen::default(), fastrand::Rng::with_seed(1));
        let mut watched = 0;
        for at_ms in 0..2000 {
            let now = Duration::from_millis(at_ms);
            (0..2).for_each(|word| chosen.add(now, 7, at(3, 64 * 1000 + word * 8, (0, 0))));
            watched += usize::from(chosen.draw(now, &mut random).is_some());
        }
        assert_eq!(watched, 4);
        // Another process has another line there.
        chosen.add(Duration::from_secs(2), 8, at(4, 64 * 1000, (0, 0)));
        assert!(chosen.draw(Duration::from_secs(2), &mut random).is_some());
    }

    #[test]
    fn what_is_known_is_bounded_grows_old_and_goes_with_its_process() {
        let (mut chosen, mut random) = (Chosen::default(), fastrand::Rng::with_seed(1));
        (0..1000).for_each(|line| chosen.add(Duration::ZERO, 7, at(3, line * 64, (0, 0))));
        assert_eq!(chosen.sightings.len(), MOST);
        assert!(chosen.draw(FRESH / 2, &mut random).is_some() && chosen.sightings.len() == MOST - 1);
        assert_eq!(chosen.draw(FRESH, &mut random), None);
        (0..3 * MOST_REGIONS as u64).for_each(|region| chosen.learn(FRESH, (7, region * REGION), false));
        assert!(chosen.regions.len() <= MOST_REGIONS);
        [3, 4].into_iter().for_each(|task| chosen.add(FRESH, 7, at(task, 0, (0, 0))));
        chosen.forget(7);
        assert_eq!((chosen.draw(FRESH, &mut random), chosen.regions.len()), (None, 0));
    }
}
