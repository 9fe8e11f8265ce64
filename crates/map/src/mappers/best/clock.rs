//! When a search ends: after a number of steps, which is reproducible, or when its time is over, which is not.
//! The one place of the mappers that reads a clock.

use crate::Options;
use crate::options::TimeSource;
use std::time::{Duration, Instant};

/// What is left of a search.
#[derive(Debug, Clone)]
pub struct Clock {
    steps: u64,
    time: Option<Time>,
}

/// A stretch of time on a clock.
#[derive(Debug, Clone, Copy)]
struct Time {
    end: Duration,
    began: Instant,
    source: Option<TimeSource>,
}

impl Time {
    fn now(&self) -> Duration {
        self.source.map_or_else(|| self.began.elapsed(), |source| (source.0)())
    }
}

impl Clock {
    /// The clock that the options ask for; `usual` steps where they ask for nothing. It runs from now.
    pub fn new(options: &Options, usual: u64) -> Self {
        let (source, began) = (options.time_source, Instant::now());
        let time = options.budget.map(|budget| {
            let start = source.map_or(Duration::ZERO, |source| (source.0)());
            Time { end: start.saturating_add(budget), began, source }
        });
        let steps = match (options.steps, options.budget) {
            (Some(steps), _) => steps,
            (None, Some(_)) => u64::MAX,
            (None, None) => usual,
        };
        Self { steps, time }
    }

    /// Takes a step, if there is one left.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.steps(1)
    }

    /// Takes so many steps, or what is left of them, if any is.
    #[inline]
    pub fn steps(&mut self, count: u64) -> bool {
        let goes_on = self.steps > 0 && !self.is_over();
        self.steps = self.steps.saturating_sub(count);
        goes_on
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.time.is_some_and(|time| time.now() >= time.end)
    }

    /// Whether steps are counted, and not time.
    pub fn counts(&self) -> bool {
        self.time.is_none()
    }

    /// Time in nanoseconds or steps that are left.
    pub fn left(&self) -> u128 {
        self.time.map_or(u128::from(self.steps), |time| time.end.saturating_sub(time.now()).as_nanos())
    }

    /// A clock with the steps of `own` of `count` parts of the work, and all of the time.
    pub fn steps_of(&self, own: usize, count: usize) -> Self {
        let steps = match self.steps {
            u64::MAX => u64::MAX,
            steps => steps / count.max(1) as u64 * own as u64,
        };
        Self { steps, time: self.time }
    }

    /// The clock of all of what is left but one of `parts` parts.
    pub fn most(&mut self, parts: u32) -> Self {
        let kept = if self.steps == u64::MAX { u64::MAX } else { self.steps / u64::from(parts) };
        let steps = if kept == u64::MAX { u64::MAX } else { self.steps - kept };
        self.steps = kept;
        let time = self.time.map(|time| Time { end: time.end - time.end.saturating_sub(time.now()) / parts, ..time });
        Self { steps, time }
    }

    /// The clock of one of `count` parts of the work, `done` of which are over.
    pub fn share(&mut self, done: usize, count: usize) -> Self {
        let left = (count - done).max(1);
        let steps = if self.steps == u64::MAX { u64::MAX } else { self.steps / left as u64 };
        self.steps -= if steps == u64::MAX { 0 } else { steps };
        let time = self.time.map(|time| {
            let now = time.now();
            Time { end: now + time.end.saturating_sub(now) / left as u32, ..time }
        });
        Self { steps, time }
    }
}
