//! What a mapping would gain over the present one, and whether what was seen is enough to say so.
//!
//! Events are a sample. Their counts are taken as Poisson: the gain D, a sum of weight times difference in distance,
//! then has the variance of the sum of weight times the difference squared.

use super::aging::UNITS_PER_EVENT;
use cohabit_model::{Matrix, Topology};

/// A mapping compared with where the tasks are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gain {
    /// Distance cost now, in events times distance.
    pub before: f64,
    /// With the mapping.
    pub after: f64,
    /// Standard deviation of the difference.
    pub deviation: f64,
}

impl Gain {
    /// Of moving tasks, whose pairs are in the upper half of `weight`, from `present` to `placement`.
    pub fn of(weight: &Matrix, topology: &Topology, present: &[Option<usize>], placement: &[usize]) -> Self {
        let (mut before, mut after, mut variance) = (0.0, 0.0, 0.0);
        for (a, b, units) in weight.iter() {
            let (a, b, events) = (a as usize, b as usize, units as f64 / UNITS_PER_EVENT);
            let (Some(Some(at_a)), Some(Some(at_b))) = (present.get(a), present.get(b)) else { continue };
            let now = topology.distance(*at_a, *at_b) as f64;
            let then = topology.distance(placement[a], placement[b]) as f64;
            before += events * now;
            after += events * then;
            variance += events * (now - then) * (now - then);
        }
        Self { before, after, deviation: variance.sqrt() }
    }

    /// The distance cost saved.
    pub fn saved(&self) -> f64 {
        self.before - self.after
    }

    /// Of the present distance cost, how much is saved: 0 to 1.
    pub fn share(&self) -> f64 {
        if self.before > 0.0 { self.saved() / self.before } else { 0.0 }
    }

    /// Whether the gain is this many standard deviations above 0.
    pub fn is_certain(&self, deviations: f64) -> bool {
        self.saved() > deviations * self.deviation && self.saved() > 0.0
    }
}

/// How far the counts of the pairs are from being all the same, in standard deviations of what chance does to counts
/// that are (Pearson's chi-squared, its normal approximation). Infinite where there is one pair only.
pub fn structure(weight: &Matrix) -> f64 {
    let tasks = weight.tasks() as f64;
    let pairs = tasks * (tasks - 1.0) / 2.0;
    if pairs < 2.0 {
        return f64::INFINITY;
    }
    let events = |units: u64| units as f64 / UNITS_PER_EVENT;
    let total: f64 = weight.iter().map(|(_, _, units)| events(units)).sum();
    let mean = total / pairs;
    if mean <= 0.0 {
        return 0.0;
    }
    let seen = weight.iter().map(|(_, _, units)| (events(units) - mean).powi(2)).sum::<f64>();
    let silent = (pairs - weight.entries() as f64) * mean * mean;
    let chi_squared = (seen + silent) / mean;
    (chi_squared - (pairs - 1.0)) / (2.0 * (pairs - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(pairs: &[(u32, u32, u64)], tasks: usize) -> Matrix {
        let units = UNITS_PER_EVENT as u64;
        Matrix::from_triplets(tasks, pairs.iter().map(|&(a, b, events)| (a, b, events * units)))
    }

    #[test]
    fn a_gain_is_weighed_against_chance() {
        let topology = Topology::load("pack:2 core:2 pu:1").unwrap().with_level_costs(&[10, 1]).unwrap();
        let present = [Some(0), Some(1), Some(2), Some(3)];
        // 0 talks to 2 and 1 to 3; then everybody to everybody alike.
        for (pairs, certain) in [
            (vec![(0, 2, 100), (1, 3, 100)], true),
            (vec![(0, 2, 1)], false),
            (vec![(0, 1, 100), (0, 2, 104), (0, 3, 99), (1, 2, 100), (1, 3, 101), (2, 3, 98)], false),
        ] {
            let gain = Gain::of(&matrix(&pairs, 4), &topology, &present, &[0, 2, 1, 3]);
            assert_eq!(gain.is_certain(3.0), certain, "{pairs:?}: {gain:?}");
        }
        let gain = Gain::of(&matrix(&[(0, 2, 100)], 4), &topology, &present, &[0, 2, 1, 3]);
        assert_eq!((gain.before, gain.after, gain.deviation, gain.share()), (1000.0, 100.0, 90.0, 0.9));
    }

    #[test]
    fn structure_is_told_from_noise() {
        let uniform = matrix(&[(0, 1, 100), (0, 2, 104), (0, 3, 93), (1, 2, 100), (1, 3, 109), (2, 3, 98)], 4);
        assert!(structure(&uniform) < 3.0);
        assert!(structure(&matrix(&[(0, 1, 100), (2, 3, 90)], 4)) > 10.0);
        assert_eq!(structure(&matrix(&[], 4)), 0.0);
        assert_eq!(structure(&matrix(&[(0, 1, 1)], 2)), f64::INFINITY);
    }
}
