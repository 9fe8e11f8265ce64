//! Whether a move hurt: the program's progress before it and after it.
//!
//! What the program itself counts is progress; instructions retired stand for it where there is a PMU. Without either,
//! what the scheduler tells is all there is: time spent running and waiting for a PU.

use std::collections::VecDeque;
use std::time::Duration;

/// Fewer reports of a program on either side of a move say nothing.
const LEAST_REPORTS: f64 = 4.0;
/// The time before a move that the time after it can be compared with; and how long to wait for reports that are rarer.
const KNOWN: Duration = Duration::from_secs(1);
const TOO_RARE: Duration = Duration::from_secs(5);
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
    /// What the program says it has done; none where it says nothing.
    pub reported: Option<Reported>,
    /// Instructions retired; none where nobody counts.
    pub instructions: Option<f64>,
    /// Time that tasks ran.
    pub ran: Duration,
    /// Time that tasks could have run and waited for a PU.
    pub waited: Duration,
}

/// What a program has said of its progress.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reported {
    /// Units of its own.
    pub units: f64,
    /// How often it has said so.
    pub reports: f64,
}

/// The samples of the last seconds.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    samples: VecDeque<Sample>,
}

/// What came of a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effect {
    /// Progress after, over progress before, and how much of that may be for want of reports.
    Progress(f64, f64),
    /// No count of progress: share of time waiting, before and after.
    Waiting(f64, f64),
    /// Not enough samples on one side.
    Unknown,
}

impl Effect {
    /// Whether the move is to be undone.
    pub fn hurts(self) -> bool {
        match self {
            Effect::Progress(ratio, uncertain) => ratio < 1.0 - TOLERATED_LOSS - uncertain,
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

    /// Whether what came of a move now could be told: there was time enough without it, and, where the program reports,
    /// there were reports enough, or they are too rare to be waited for.
    pub fn is_known(&self) -> bool {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return false };
        let mut reported = self.samples.iter().filter_map(|sample| sample.reported);
        let first_reported = reported.next();
        let reports = first_reported.zip(reported.next_back().or(first_reported)).map(|(a, b)| b.reports - a.reports);
        let time = last.time - first.time;
        time >= KNOWN && (reports.is_none_or(|reports| reports >= LEAST_REPORTS) || time >= TOO_RARE)
    }

    /// Compares the time before a move with the time after it, up to the last sample.
    pub fn effect(&self, moved: Duration, settled: Duration) -> Effect {
        // The first and the last sample on a side that have something to say.
        let ends = |is_on_side: &dyn Fn(&Sample) -> bool, says: fn(&Sample) -> bool| -> Option<Span> {
            let mut samples = self.samples.iter().filter(|sample| is_on_side(sample) && says(sample));
            let first = *samples.next()?;
            samples.last().map(|last| (first, *last)).filter(|(first, last)| last.time > first.time)
        };
        let sides = |says: fn(&Sample) -> bool| {
            let before = ends(&|sample| sample.time <= moved, says)?;
            Some((before, ends(&|sample| sample.time >= moved + settled, says)?))
        };
        let of_reports =
            || sides(|sample| sample.reported.is_some()).and_then(|(before, after)| reported(before, after));
        let of_instructions =
            || sides(|sample| sample.instructions.is_some()).and_then(|(before, after)| instructions(before, after));
        let of_waiting = || sides(|_| true).map(|(before, after)| Effect::Waiting(waiting(before), waiting(after)));
        of_reports().or_else(of_instructions).or_else(of_waiting).unwrap_or(Effect::Unknown)
    }
}

type Span = (Sample, Sample);

fn seconds((first, last): Span) -> f64 {
    (last.time - first.time).as_secs_f64()
}

/// By what the program says, if it says it often enough: one report more or less is chance.
fn reported(before: Span, after: Span) -> Option<Effect> {
    let done = |(first, last): Span| {
        let (first, last) = (first.reported?, last.reported?);
        Some((last.units - first.units, last.reports - first.reports))
    };
    let ((units, reports), (units_after, _)) = (done(before)?, done(after)?);
    let expected = reports / seconds(before) * seconds(after);
    if units <= 0.0 || reports < LEAST_REPORTS || expected < LEAST_REPORTS {
        return None;
    }
    let ratio = units_after / seconds(after) / (units / seconds(before));
    Some(Effect::Progress(ratio, 1.0 / reports + 1.0 / expected))
}

fn instructions(before: Span, after: Span) -> Option<Effect> {
    let rate = |span: Span| Some((span.1.instructions? - span.0.instructions?) / seconds(span));
    let (before, after) = (rate(before)?, rate(after)?);
    (before > 0.0).then_some(Effect::Progress(after / before, 0.0))
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

    /// Who counts the progress.
    #[derive(Clone, Copy)]
    enum By {
        Nobody,
        Pmu,
        /// The program, this many units a report.
        Reports(f64),
    }

    /// Samples a second apart; progress and waiting in each second.
    fn progress(by: By, done: &[f64], waited: &[f64]) -> Progress {
        let mut progress = Progress::default();
        let (mut total, mut ran, mut waits) = (0.0, 0.0, 0.0);
        for second in 0..=waited.len() {
            progress.add(Sample {
                time: second as u32 * SECOND,
                reported: match by {
                    By::Reports(units) => Some(Reported { units: total, reports: (total / units).floor() }),
                    _ => None,
                },
                instructions: matches!(by, By::Pmu).then_some(total),
                ran: Duration::from_secs_f64(ran),
                waited: Duration::from_secs_f64(waits),
            });
            if second < waited.len() {
                total += done.get(second).copied().unwrap_or(0.0);
                waits += waited[second];
                ran += 1.0 - waited[second];
            }
        }
        progress
    }

    #[test]
    fn a_move_that_hurts_is_seen() {
        let still = [0.0; 6];
        let faster = [100.0, 100.0, 100.0, 120.0, 120.0, 120.0];
        let as_before = [100.0, 100.0, 100.0, 99.0, 97.0, 99.0];
        let slower = [100.0, 100.0, 100.0, 90.0, 90.0, 90.0];
        let stopped = [100.0, 100.0, 100.0, 0.0, 0.0, 0.0];
        let (waits_more, waits_so) = ([0.1, 0.1, 0.1, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.15, 0.15, 0.15]);
        for (what, progress, hurts) in [
            ("faster", progress(By::Pmu, &faster, &waits_more), false),
            ("as before", progress(By::Pmu, &as_before, &still), false),
            ("slower", progress(By::Pmu, &slower, &still), true),
            ("says that it is faster", progress(By::Reports(1.0), &faster, &waits_more), false),
            ("says that it is as fast", progress(By::Reports(1.0), &as_before, &still), false),
            ("says that it is slower", progress(By::Reports(1.0), &slower, &still), true),
            ("says nothing any more", progress(By::Reports(20.0), &stopped, &still), true),
            ("slower by less than a report", progress(By::Reports(50.0), &slower, &still), false),
            ("reports too rarely, and waits more", progress(By::Reports(250.0), &faster, &waits_more), true),
            ("waits more", progress(By::Nobody, &[], &waits_more), true),
            ("waits as before", progress(By::Nobody, &[], &waits_so), false),
        ] {
            let effect = progress.effect(3 * SECOND, Duration::ZERO);
            assert_eq!(effect.hurts(), hurts, "{what}: {effect:?}");
        }
    }

    #[test]
    fn who_begins_to_report_late_is_judged_from_then_on() {
        let mut progress = Progress::default();
        for second in 0..7u32 {
            // Nothing is said for a second; then the move comes in the fourth and halves what is done.
            let units = [0.0, 10.0, 30.0, 50.0, 60.0, 70.0, 80.0][second as usize];
            let reported = Some(Reported { units, reports: units }).filter(|_| second > 0);
            progress.add(Sample { time: second * SECOND, reported, ..Sample::default() });
        }
        let effect = progress.effect(3 * SECOND, Duration::ZERO);
        assert!(matches!(effect, Effect::Progress(ratio, _) if (ratio - 0.5).abs() < 1e-9), "{effect:?}");
        assert!(effect.hurts());
    }

    #[test]
    fn the_time_before_a_move_is_to_be_known() {
        let at = |tenths: u32, reports: Option<f64>| Sample {
            time: Duration::from_millis(100) * tenths,
            reported: reports.map(|reports| Reported { units: reports, reports }),
            ..Sample::default()
        };
        let known_at = |reports: &dyn Fn(u32) -> Option<f64>| {
            let mut progress = Progress::default();
            (0..100).find(|&tenths| {
                progress.add(at(tenths, reports(tenths)));
                progress.is_known()
            })
        };
        assert_eq!(known_at(&|_| None), Some(10));
        assert_eq!(known_at(&|tenths| Some(f64::from(tenths))), Some(10));
        // One in half a second, one in ten, and one that begins after 700 ms.
        assert_eq!(known_at(&|tenths| Some(f64::from(tenths / 5))), Some(20));
        assert_eq!(known_at(&|tenths| Some(f64::from(tenths / 100))), Some(50));
        assert_eq!(known_at(&|tenths| (tenths > 7).then(|| f64::from(tenths))), Some(12));
    }

    #[test]
    fn too_little_says_nothing() {
        let short = progress(By::Pmu, &[1.0], &[0.0]);
        assert_eq!(short.effect(SECOND, Duration::ZERO), Effect::Unknown);
        assert_eq!(Progress::default().effect(SECOND, Duration::ZERO), Effect::Unknown);
    }
}
