//! A sample of a long run: few of its intervals are simulated, and all of it is estimated.
//!
//! Intervals that look alike ([`strata`]) are a stratum; of each some are drawn, spread over the run. Before each, what
//! comes right before it is simulated as well and not counted, so that caches are as warm and tasks as far apart as they
//! would be; what lies further back is left out, and caches keep what they had. The estimate is that of stratified
//! sampling, its interval Student's with Satterthwaite's degrees of freedom (Cochran, Sampling Techniques, 5.4). Mappings
//! are simulated with the same sample, so their differences are known better than their times.

mod cuts;
mod strata;

pub(crate) use cuts::{Common, Cuts, scaled};

use crate::clock::Time;
use crate::pages::Placement;
use cohabit_access::outline::{Interval, Outline};
use cohabit_access::{Excerpt, Part, Recording};
use cohabit_model::{Error, Result};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::ops::Range;
use strata::alike;

/// Of fewer a sample says nothing.
const FEWEST: usize = 64;
/// Drawn from a stratum, at least.
const LEAST_DRAWN: usize = 3;
/// Intervals that are simulated before one that is measured.
const WARM_UP: usize = 2;
/// What a part's begin may cost, as instructions of each task: caches and tasks are not quite as they would be. Of NPB,
/// class S, it is less than so much (docs/simulator.md).
const BEGIN: f64 = 300.0;
/// That the run's time lies within the interval that is given.
const CONFIDENCE: f64 = 0.95;
const PAGE_SHIFT: u32 = 12;

/// Intervals that look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stratum {
    /// How many there are.
    all: usize,
    /// Those that are measured, ascending.
    drawn: Vec<usize>,
}

/// Which intervals of a run are simulated, and what each stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    outline: Outline,
    strata: Vec<Stratum>,
    parts: Vec<Part>,
    /// Of each mark of the parts, the interval that begins there, where it is measured.
    measured: Vec<Option<usize>>,
}

/// What a report of a sample is based on.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Sampled {
    /// Intervals that the run was parted into.
    pub intervals: usize,
    /// Those that were measured.
    pub measured: usize,
    /// Accesses that were simulated over all accesses.
    pub share: f64,
    /// The time is that of the report, give or take this, with a probability of 95 %.
    pub margin_fs: Time,
    /// How long each interval took that was measured, in the run's order.
    #[serde(skip)]
    pub durations_fs: Vec<Time>,
}

/// An estimate: the value, give or take so much with a probability of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Half of the interval.
    pub margin: f64,
}

impl Sample {
    /// Draws a share of a run's intervals; another seed is another sample.
    ///
    /// # Errors
    /// The run has too few intervals.
    pub fn draw(outline: Outline, share: f64, seed: u64) -> Result<Self> {
        let count = outline.intervals.len();
        if count < FEWEST {
            return Err(Error::new(format!(
                "a run of {} accesses is too short for a sample",
                outline.intervals.iter().map(|interval| interval.accesses).sum::<u64>()
            ))
            .remedy("leave --sample out"));
        }
        let mut random = fastrand::Rng::with_seed(seed);
        let wanted = (share * count as f64).ceil() as usize;
        let groups = alike(&outline.intervals, (wanted / LEAST_DRAWN).max(1), &mut random);
        let strata: Vec<Stratum> = groups
            .into_iter()
            .map(|group| {
                let draws = (wanted * group.len()).div_ceil(count).max(LEAST_DRAWN).min(group.len());
                Stratum { all: group.len(), drawn: spread(&group, draws, &mut random) }
            })
            .collect();
        let mut drawn: Vec<usize> = strata.iter().flat_map(|stratum| stratum.drawn.iter().copied()).collect();
        drawn.sort_unstable();
        let parts = parts(&drawn);
        let is_drawn = |interval: &usize| drawn.binary_search(interval).is_ok();
        let of_part = |part: &Part| -> Vec<Option<usize>> {
            part.marks.iter().map(|&mark| Some(mark).filter(|mark| *mark < part.end && is_drawn(mark))).collect()
        };
        let measured = parts.iter().flat_map(of_part).collect();
        Ok(Self { outline, strata, parts, measured })
    }

    /// What is simulated of the recording that the sample was drawn of.
    pub fn excerpt<'a>(&'a self, recording: &'a dyn Recording) -> Excerpt<'a> {
        Excerpt::new(recording, &self.outline, self.parts.clone())
    }

    /// Accesses that are simulated over all accesses.
    pub fn share(&self) -> f64 {
        let of = |interval: &Interval| interval.accesses as f64;
        let made =
            self.parts.iter().flat_map(|part| &self.outline.intervals[part.begin..part.end]).map(of).sum::<f64>();
        made / (self.outline.accesses() as f64).max(1.0)
    }

    /// Intervals of the run.
    pub fn intervals(&self) -> usize {
        self.outline.intervals.len()
    }

    /// Intervals of the run that are measured.
    pub fn measured(&self) -> usize {
        self.measured.iter().flatten().count()
    }

    /// How many intervals of the run the one stands for that begins at a mark; 0 where none does that is measured.
    fn weights(&self) -> Vec<f64> {
        let of = |interval: usize| {
            let stratum = self.strata.iter().find(|stratum| stratum.drawn.binary_search(&interval).is_ok());
            stratum.map_or(0.0, |stratum| stratum.all as f64 / stratum.drawn.len() as f64)
        };
        self.measured.iter().map(|measured| measured.map_or(0.0, of)).collect()
    }

    /// The whole run's sum of what was found of each interval that was measured, in the run's order.
    ///
    /// # Panics
    /// If these are not as many as are measured.
    pub fn estimate(&self, found: &[f64]) -> Estimate {
        let measured: Vec<usize> = self.measured.iter().flatten().copied().collect();
        assert_eq!(measured.len(), found.len(), "each interval has its number");
        let (mut value, mut variance, mut of_degrees) = (0.0, 0.0, 0.0);
        for stratum in &self.strata {
            let at = |interval: &usize| found[measured.binary_search(interval).expect("what is drawn is measured")];
            let (all, drawn) = (stratum.all as f64, stratum.drawn.len() as f64);
            let mean = stratum.drawn.iter().map(at).sum::<f64>() / drawn;
            value += all * mean;
            if stratum.drawn.len() == stratum.all || stratum.drawn.len() < 2 {
                continue;
            }
            let squares: f64 = stratum.drawn.iter().map(|interval| (at(interval) - mean).powi(2)).sum();
            let of_sum = all * (all - drawn) / drawn * squares / (drawn - 1.0);
            variance += of_sum;
            of_degrees += of_sum.powi(2) / (drawn - 1.0);
        }
        let margin = match variance > 0.0 {
            true => {
                let degrees = (variance.powi(2) / of_degrees).max(1.0);
                let student = StudentsT::new(0.0, 1.0, degrees).expect("some degrees of freedom");
                student.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * variance.sqrt()
            }
            false => 0.0,
        };
        Estimate { value, margin: margin + self.of_begins() * value.abs() }
    }

    /// What the begins of parts may add to what is measured, as a share of it.
    fn of_begins(&self) -> f64 {
        if self.measured() == self.intervals() {
            return 0.0;
        }
        let tasks = self.outline.intervals.first().map_or(1, |interval| interval.end.len().max(1)) as f64;
        let instructions: u64 = self.outline.intervals.iter().map(|interval| interval.instructions).sum();
        BEGIN * tasks * self.intervals() as f64 / (instructions as f64).max(1.0)
    }

    /// How much longer a run takes than another one of the same sample, over that other's time.
    pub fn difference(&self, one: &Sampled, other: &Sampled) -> Estimate {
        if one.durations_fs == other.durations_fs {
            return Estimate { value: 0.0, margin: 0.0 };
        }
        let of = |sampled: &Sampled| sampled.durations_fs.iter().map(|&time| time as f64).collect::<Vec<_>>();
        let (one, other) = (of(one), of(other));
        let whole = self.estimate(&other).value.max(1.0);
        // A ratio's variance is that of what is left of one when the other is multiplied by it (Cochran, 6.3).
        let ratio = self.estimate(&one).value / whole;
        let left: Vec<f64> = one.iter().zip(&other).map(|(one, other)| one - ratio * other).collect();
        Estimate { value: ratio - 1.0, margin: self.estimate(&left).margin / whole + self.of_begins() }
    }

    /// Where pages go, where that follows from who touches them first: also those that are touched first in what is left
    /// out. `node` is that of a task.
    pub(crate) fn placement(&self, node: impl Fn(usize) -> usize) -> Placement {
        let mut pages = self.outline.first_touch.clone();
        pages.sort_unstable();
        let mut ranges: Vec<(Range<u64>, usize)> = Vec::new();
        for (page, task) in pages {
            let (range, node) = (page << PAGE_SHIFT..(page + 1) << PAGE_SHIFT, node(task as usize));
            match ranges.last_mut().filter(|last| last.0.end == range.start && last.1 == node) {
                Some(last) => last.0.end = range.end,
                None => ranges.push((range, node)),
            }
        }
        Placement::Listed(ranges)
    }

    /// Whether a task does anything behind an interval.
    fn goes_on_behind(&self, interval: usize, task: usize) -> bool {
        self.outline.place(interval + 1, task) < self.outline.place(self.outline.intervals.len(), task)
    }
}

/// So many of a group, one of each of as many pieces of it.
fn spread(group: &[usize], draws: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let piece = |number: usize| number * group.len() / draws..(number + 1) * group.len() / draws;
    (0..draws).map(|number| group[random.usize(piece(number))]).collect()
}

/// What is simulated where these intervals are measured.
fn parts(drawn: &[usize]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for &interval in drawn {
        let begin = interval.saturating_sub(WARM_UP);
        match parts.last_mut().filter(|part| begin <= part.end) {
            Some(part) => {
                if part.end != interval {
                    part.marks.push(interval);
                }
                part.marks.push(interval + 1);
                part.end = interval + 1;
            }
            None => parts.push(Part { begin, marks: vec![interval, interval + 1], end: interval + 1 }),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cochran's formulas on numbers worked by hand: a stratum of ten with 1, 2 and 3 drawn, one of four with 10 twice,
    /// and one that is known.
    #[test]
    fn the_whole_is_estimated_from_strata_by_hand() {
        let stratum = |all, drawn: &[usize]| Stratum { all, drawn: drawn.to_vec() };
        let sample = Sample {
            outline: Outline::default(),
            strata: vec![stratum(10, &[2, 5, 8]), stratum(4, &[3, 4]), stratum(1, &[0])],
            parts: Vec::new(),
            measured: [0, 2, 3, 4, 5, 8].map(Some).to_vec(),
        };
        let estimate = sample.estimate(&[7.0, 1.0, 10.0, 10.0, 2.0, 3.0]);
        assert_eq!(estimate.value, 10.0 * 2.0 + 4.0 * 10.0 + 7.0);
        // The variance of the first: 10 * (10 - 3) / 3 * 1, with two degrees of freedom (4.303).
        let wanted = 4.302_65 * (70.0f64 / 3.0).sqrt();
        assert!((estimate.margin - wanted).abs() < 1e-3, "{estimate:?} {wanted}");
        assert_eq!(sample.weights(), [1.0, 10.0 / 3.0, 2.0, 2.0, 10.0 / 3.0, 10.0 / 3.0]);
        let sampled = |times: [Time; 6]| Sampled { durations_fs: times.to_vec(), ..Sampled::default() };
        let (one, twice) = (sampled([70, 10, 100, 100, 20, 30]), sampled([140, 20, 200, 200, 40, 60]));
        let difference = sample.difference(&twice, &one);
        assert_eq!((difference.value, difference.margin), (1.0, 0.0), "it is twice as long everywhere");
    }

    #[test]
    fn what_is_drawn_is_spread_and_warmed_up() {
        let mut random = fastrand::Rng::with_seed(3);
        let group: Vec<usize> = (0..100).map(|number| 3 * number).collect();
        for draws in [1, 3, 7, 100] {
            let drawn = spread(&group, draws, &mut random);
            assert_eq!(drawn.len(), draws);
            for (number, interval) in drawn.into_iter().enumerate() {
                assert!((number * 100 / draws..(number + 1) * 100 / draws).contains(&(interval / 3)));
            }
        }
        let part = |begin, marks: &[usize], end| Part { begin, marks: marks.to_vec(), end };
        let wanted = [part(0, &[0, 1, 2], 2), part(7, &[9, 10, 11, 12], 12), part(20, &[22, 23], 23)];
        assert_eq!(parts(&[0, 1, 9, 11, 22]), wanted);
    }
}
