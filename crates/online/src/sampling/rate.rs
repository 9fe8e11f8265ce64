//! How often samples are taken, and whether they tell anything.

use super::Sums;
use crate::allowance::OVERHEAD_PERCENT;
use std::time::Duration;

/// How much time there is at least from one sample on a PU to the next where detection may take 1 % of what the tasks
/// run, at the timer's own interrupts. These come 100 to 1,000 times a second, mostly 250.
const BETWEEN: Duration = Duration::from_micros(1900);
/// And where each sample is an interrupt of its own, which takes up to 20 us on a virtual machine (benches/online.md).
const BETWEEN_INTERRUPTS: Duration = Duration::from_millis(8);
/// And where the timer is set for a sample after a switch, which adds an interrupt and no more.
const BETWEEN_SWITCHES: Duration = Duration::from_millis(4);
/// On many PUs it is more: what is found out of a sample takes some microseconds, and 20,000 a second are enough.
const FOR_EACH_PU: Duration = Duration::from_micros(50);

/// What brings samples about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The interrupts that the kernel's timer makes anyway.
    Timer,
    /// Interrupts of their own.
    Clock,
    /// Interrupts of the timer that are set after switches.
    Switch,
}

/// How much time there is at least from one sample on a PU to the next, where detection may take so many percent of
/// what the tasks run; more than none.
pub fn between(by: By, overhead_percent: f64) -> Duration {
    let pus = std::thread::available_parallelism().map_or(1, usize::from);
    let at_least = match by {
        By::Timer => BETWEEN,
        By::Clock => BETWEEN_INTERRUPTS,
        By::Switch => BETWEEN_SWITCHES,
    };
    let between = at_least.max(FOR_EACH_PU * u32::try_from(pus).unwrap_or(u32::MAX));
    between.mul_f64((OVERHEAD_PERCENT / overhead_percent).clamp(1e-3, 1e3))
}

/// Whether samples show what a program does: not where its tasks wait for one another nearly all the time, in the
/// kernel or in loops, or where what they run cannot be read.
#[derive(Debug)]
pub struct Telling {
    /// Of running time, how much there is from one look to the next.
    every: Duration,
    /// When it was last looked at: how long the tasks had run, and how many samples had shown an access.
    since: (Duration, u64),
    are_taken: bool,
    tells: bool,
}

/// Samples with an access, in a second of it, that tell: a tenth of 250, or a quarter of 100.
const TELLING: f64 = 25.0;

impl Telling {
    /// For a source that samples, or does not, to be looked at every so much running time. One that does is trusted at
    /// first.
    pub fn new(samples: bool, every: Duration) -> Self {
        Self { every, since: (Duration::ZERO, 0), are_taken: samples, tells: samples }
    }

    /// Looks again. `ran` is how long the tasks have run, `telling` how many samples showed an access.
    pub fn look(&mut self, ran: Duration, telling: u64) {
        let time = ran.saturating_sub(self.since.0);
        if time >= self.every {
            self.tells = telling.saturating_sub(self.since.1) as f64 >= TELLING * time.as_secs_f64();
            self.since = (ran, telling);
        }
    }

    /// Whether there are any at all.
    pub fn are_taken(&self) -> bool {
        self.are_taken
    }

    /// Whether they do.
    pub fn tells(&self) -> bool {
        self.tells
    }
}

/// Whether samples after switches are worth their interrupts beside those that come at regular times: where tasks wait
/// for one another in the kernel, they go on with what others have left for them. So they are tried, and tried again
/// now and then.
#[derive(Debug, Default)]
pub struct Switches {
    /// What there was when they were last looked at.
    since: Sums,
    is_worth: bool,
    /// When they are tried again, in running time, where they are not.
    again_at: Duration,
}

/// So many samples after switches say whether more are worth it.
const TRIED: u64 = 50;
/// They have to find tasks near others so many times as often as the others do, or they are not tried again before the
/// tasks have run so long.
const AS_OFTEN: f64 = 2.0;
const AGAIN: Duration = Duration::from_secs(8);

impl Switches {
    /// Looks again. `ran` is how long the tasks have run.
    pub fn look(&mut self, ran: Duration, sums: &Sums) {
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let taken = sums.after_switches.saturating_sub(self.since.after_switches);
        if taken < TRIED {
            return;
        }
        let meeting = since(sums.meeting_after_switches, self.since.meeting_after_switches) / taken as f64;
        let regularly = since(sums.meeting, self.since.meeting) / since(sums.samples, self.since.samples).max(1.0);
        self.is_worth = meeting > 0.0 && meeting >= AS_OFTEN * regularly;
        if !self.is_worth {
            self.again_at = ran + AGAIN;
        }
        self.since = *sums;
    }

    /// Whether they are to be taken.
    pub fn are_wanted(&self, ran: Duration) -> bool {
        self.is_worth || ran >= self.again_at
    }

    /// Whether they have been found to be worth it.
    pub fn are_worth(&self) -> bool {
        self.is_worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_as_often_as_they_may() {
        assert!(between(By::Timer, 1.0) >= BETWEEN && between(By::Clock, 1.0) >= BETWEEN_INTERRUPTS);
        assert_eq!(between(By::Timer, 10.0), between(By::Timer, 1.0) / 10);
        // As good as never.
        assert!(between(By::Clock, 0.0) >= Duration::from_secs(8));
    }

    #[test]
    fn what_waits_is_not_told_by_samples() {
        let second = Duration::from_secs(1);
        assert!(!Telling::new(false, 2 * second).tells());
        let mut telling = Telling::new(true, 2 * second);
        let mut look = |ran: u32, samples| {
            telling.look(second * ran, samples);
            telling.tells()
        };
        assert!(look(1, 0) && !look(2, 49) && !look(3, 1000) && look(4, 1000) && look(6, 1050) && !look(8, 1099));
        // Without a sampler there are never any.
        let mut without = Telling::new(false, 2 * second);
        without.look(second * 100, 0);
        assert!(!without.tells());
    }

    #[test]
    fn samples_after_switches_are_tried_and_kept_where_they_show_more() {
        let (second, mut switches) = (Duration::from_secs(1), Switches::default());
        let mut sums = Sums::default();
        let mut look = |ran: u32, (regular, of_them), (after, of_these)| {
            (sums.samples, sums.meeting) = (sums.samples + regular, sums.meeting + of_them);
            sums.after_switches += after;
            sums.meeting_after_switches += of_these;
            switches.look(second * ran, &sums);
            (switches.are_wanted(second * ran), switches.are_worth())
        };
        assert_eq!(look(0, (0, 0), (0, 0)), (true, false));
        // Too few to say; then a third of them meet, and a tenth of the others.
        assert_eq!(look(1, (200, 20), (30, 10)), (true, false));
        assert_eq!(look(2, (200, 20), (30, 10)), (true, true));
        // What counts is what came since: half as many more are not enough; and none at all.
        assert_eq!(look(3, (200, 60), (60, 27)), (false, false));
        assert_eq!((look(10, (200, 0), (0, 0)).0, look(11, (200, 0), (0, 0)).0), (false, true));
        assert_eq!(look(12, (0, 0), (60, 0)), (false, false));
    }
}
