//! When a search ends: after a number of steps, which is reproducible, or when its wall time is over, which is not.
//! The one place of the mappers that reads a clock.

use crate::Options;
use std::time::Instant;

/// What is left of a search.
#[derive(Debug, Clone)]
pub struct Clock {
    steps: u64,
    end: Option<Instant>,
}

impl Clock {
    /// The clock that the options ask for; `usual` steps where they ask for nothing. It runs from now.
    pub fn new(options: &Options, usual: u64) -> Self {
        let end = options.budget.and_then(|budget| Instant::now().checked_add(budget));
        let steps = match (options.steps, options.budget) {
            (Some(steps), _) => steps,
            (None, Some(_)) => u64::MAX,
            (None, None) => usual,
        };
        Self { steps, end }
    }

    /// Takes a step, if there is one left.
    #[inline]
    pub fn step(&mut self) -> bool {
        let goes_on = self.steps > 0 && self.end.is_none_or(|end| Instant::now() < end);
        self.steps = self.steps.saturating_sub(1);
        goes_on
    }

    /// Whether the wall time is over.
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The clock of one of `count` parts of the work, `done` of which are over.
    pub fn share(&mut self, done: usize, count: usize) -> Self {
        let left = (count - done).max(1);
        let steps = if self.steps == u64::MAX { u64::MAX } else { self.steps / left as u64 };
        self.steps -= if steps == u64::MAX { 0 } else { steps };
        let now = Instant::now();
        Self { steps, end: self.end.map(|end| now + end.saturating_duration_since(now) / left as u32) }
    }

    /// Whether little wall time is left for each of `count` things: less than `ns` nanoseconds.
    pub fn is_short(&self, count: usize, ns: u128) -> bool {
        self.end.is_some_and(|end| {
            end.saturating_duration_since(Instant::now()).as_nanos() < ns.saturating_mul(count as u128)
        })
    }
}
