//! What a way of looking at programs may take of them: a share of the time that the followed tasks run, so that it
//! costs no more, however the program and the machine are.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What all ways of looking at programs may take of them, in percent, if nothing else is asked for. Of each way it is
/// said what its share is where this is all.
pub const OVERHEAD_PERCENT: f64 = 1.0;

/// Time that may be taken, by how long the followed tasks have run.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    share: f64,
    /// Running time for which the share is had at once, and may be saved up while little is taken.
    saved: Duration,
    /// How long the tasks had run when last asked.
    ran: Option<Duration>,
    /// Seconds taken beyond what was allowed; less than none where some are left.
    debt: f64,
}

impl Allowance {
    /// A share of the running time, of which that of the time `saved` is there from the start.
    pub fn new(share: f64, saved: Duration) -> Self {
        Self { share, saved, ran: None, debt: -share * saved.as_secs_f64() }
    }

    /// Something has been taken.
    pub fn take(&mut self, time: Duration) {
        self.debt += time.as_secs_f64();
    }

    /// Seconds that have been taken beyond what is allowed, less than none where some are left. `ran` is how long the
    /// followed tasks have run, counted from any moment.
    pub fn debt(&mut self, ran: Duration) -> f64 {
        let before = self.ran.replace(ran).unwrap_or(ran);
        let allowed = |time: Duration| self.share * time.as_secs_f64();
        self.debt = (self.debt - allowed(ran.saturating_sub(before))).max(-allowed(self.saved));
        self.debt
    }

    /// Another share from now on; what is owed stays.
    pub fn set_share(&mut self, share: f64) {
        self.share = share;
    }
}

/// CPU time of this thread so far.
pub fn own_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_held_to_the_share() {
        let second = Duration::from_secs(1);
        let mut allowance = Allowance::new(0.01, 5 * second);
        let (mut taken, mut goes) = (Duration::ZERO, 0);
        for time in 0..1000 {
            if allowance.debt(2 * second * time) <= 0.0 {
                allowance.take(Duration::from_millis(150));
                taken += Duration::from_millis(150);
                goes += 1;
            }
        }
        // 1 % of 2,000 s, and what may be had at first.
        assert!(taken > 19 * second && taken < 21 * second, "{taken:?} in {goes}");
        // A program that ran for hours before, and what was not taken while nothing was to be seen, are saved up for 5
        // s.
        assert_eq!(allowance.debt(Duration::from_secs(50_000)), -0.05);
        allowance.set_share(0.001);
        assert_eq!(allowance.debt(Duration::from_secs(50_000)), -0.005);
        allowance.take(second);
        assert!((allowance.debt(Duration::from_secs(50_100)) - 0.895).abs() < 1e-9);
    }

    #[test]
    fn what_was_there_before_is_not_counted() {
        let mut allowance = Allowance::new(0.5, Duration::ZERO);
        allowance.take(Duration::from_secs(1));
        assert_eq!(allowance.debt(Duration::from_secs(1000)), 1.0);
        assert_eq!(allowance.debt(Duration::from_secs(1001)), 0.5);
    }
}
