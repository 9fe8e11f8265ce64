//! Whether a move hurt: the program's progress before it and after it.
//!
//! Instructions retired, or what the program itself counts, are progress. Without either, what the scheduler tells is
//! all there is: time spent running and waiting for a PU.

use std::collections::VecDeque;
use std::time::Duration;

/// How long samples are kept.
const KEPT: Duration = Duration::from_secs(10);
/// Progress may fall by this much before a move is called a bad one: runs vary.
const TOLERATED_LOSS: f64 = 0.05;
/// Without a count of progress: how much more of its time the program may wait, or run less.
const TOLERATED_WAIT: f64 = 0.10;

/// Sums over all tasks, since following began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// When, since following began.
    pub time: Duration,
    /// Instructions, or units of the program's own; none where nobody counts.
    pub done: Option<f64>,
    /// Time that tasks ran.
    pub ran: Duration,
    /// Time that tasks could have run and waited for a PU.
    pub waited: Duration,
}

/// The samples of the last seconds.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    samples: VecDeque<Sample>,
}

/// What came of a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    /// Progress after, over progress before.
    Progress(f64),
    /// No count of progress: share of time waiting, before and after.
    Waiting(f64, f64),
    /// Not enough samples on one side.
    Unknown,
}

impl Effect {
    /// Whether the move is to be undone.
    pub fn hurts(self) -> bool {
        match self {
            Effect::Progress(ratio) => ratio < 1.0 - TOLERATED_LOSS,
            Effect::Waiting(before, after) => after > before + TOLERATED_WAIT,
            Effect::Unknown => false,
        }
    }
}

impl Progress {
    /// Adds a sample, later than all before it.
    pub fn add(&mut self, sample: Sample) {
        while self.samples.front().is_some_and(|first| first.time + KEPT < sample.time) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Compares the time before a move with the time after it, up to the last sample.
    pub fn effect(&self, moved: Duration, settled: Duration) -> Effect {
        let before = self.samples.iter().filter(|sample| sample.time <= moved);
        let after = self.samples.iter().filter(|sample| sample.time >= moved + settled);
        let ends = |mut samples: Box<dyn Iterator<Item = &Sample> + '_>| {
            let first = *samples.next()?;
            samples.last().map(|last| (first, *last)).filter(|(first, last)| last.time > first.time)
        };
        let (Some(before), Some(after)) = (ends(Box::new(before)), ends(Box::new(after))) else {
            return Effect::Unknown;
        };
        match (rate(before), rate(after)) {
            (Some(before), Some(after)) if before > 0.0 => Effect::Progress(after / before),
            _ => Effect::Waiting(waiting(before), waiting(after)),
        }
    }
}

/// Progress per second.
fn rate((first, last): (Sample, Sample)) -> Option<f64> {
    Some((last.done? - first.done?) / (last.time - first.time).as_secs_f64())
}

/// Of the time that tasks wanted to run, the share that they waited.
fn waiting((first, last): (Sample, Sample)) -> f64 {
    let ran = last.ran.saturating_sub(first.ran).as_secs_f64();
    let waited = last.waited.saturating_sub(first.waited).as_secs_f64();
    if ran + waited > 0.0 { waited / (ran + waited) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Samples a second apart; progress and waiting in each second.
    fn progress(done: Option<&[f64]>, waited: &[f64]) -> Progress {
        let mut progress = Progress::default();
        let (mut total, mut ran, mut waits) = (0.0, 0.0, 0.0);
        for second in 0..=waited.len() {
            progress.add(Sample {
                time: second as u32 * SECOND,
                done: done.map(|_| total),
                ran: Duration::from_secs_f64(ran),
                waited: Duration::from_secs_f64(waits),
            });
            if second < waited.len() {
                total += done.map_or(0.0, |done| done[second]);
                waits += waited[second];
                ran += 1.0 - waited[second];
            }
        }
        progress
    }

    #[test]
    fn a_move_that_hurts_is_seen() {
        let still = [0.0; 6];
        for (what, progress, hurts) in [
            ("faster", progress(Some(&[10.0, 10.0, 10.0, 12.0, 12.0, 12.0]), &still), false),
            ("as before", progress(Some(&[10.0, 10.0, 10.0, 9.9, 9.7, 9.9]), &still), false),
            ("slower", progress(Some(&[10.0, 10.0, 10.0, 9.0, 9.0, 9.0]), &still), true),
            ("waits more", progress(None, &[0.1, 0.1, 0.1, 0.5, 0.5, 0.5]), true),
            ("waits as before", progress(None, &[0.1, 0.1, 0.1, 0.15, 0.15, 0.15]), false),
        ] {
            let effect = progress.effect(3 * SECOND, Duration::ZERO);
            assert_eq!(effect.hurts(), hurts, "{what}: {effect:?}");
        }
    }

    #[test]
    fn too_little_says_nothing() {
        let short = progress(Some(&[1.0]), &[0.0]);
        assert_eq!(short.effect(SECOND, Duration::ZERO), Effect::Unknown);
        assert_eq!(Progress::default().effect(SECOND, Duration::ZERO), Effect::Unknown);
    }
}
