//! Intervals by drawing from what was measured (Efron and Tibshirani, An Introduction to the Bootstrap, 13.3 and 14.3).

use super::Interval;
use statrs::distribution::{ContinuousCDF, Normal};

/// Draws of each interval: its ends then hardly depend on the seed.
const DRAWS: usize = 2000;

/// Where a statistic lies, from the percentiles of its draws. None of fewer than two values.
pub fn percentile(values: &[f64], statistic: fn(&[f64]) -> f64, confidence: f64, seed: u64) -> Option<Interval> {
    let drawn = drawn(values, statistic, seed)?;
    Some(Interval { low: quantile(&drawn, (1.0 - confidence) / 2.0), high: quantile(&drawn, (1.0 + confidence) / 2.0) })
}

/// The same, corrected for bias and for a spread that depends on the value (BCa): for smooth statistics, as the mean is
/// and the median is not. None of fewer than two values.
pub fn accelerated(values: &[f64], statistic: fn(&[f64]) -> f64, confidence: f64, seed: u64) -> Option<Interval> {
    let drawn = drawn(values, statistic, seed)?;
    let normal = Normal::standard();
    let found = statistic(values);
    let below = drawn
        .iter()
        .map(|&value| {
            if value < found {
                1.0
            } else if value == found {
                0.5
            } else {
                0.0
            }
        })
        .sum::<f64>();
    // Not quite none and not quite all: the draws are finite.
    let share = (below / drawn.len() as f64).clamp(0.5 / drawn.len() as f64, 1.0 - 0.5 / drawn.len() as f64);
    let bias = normal.inverse_cdf(share);
    let acceleration = acceleration(values, statistic);
    let end = |share: f64| {
        let z = bias + normal.inverse_cdf(share);
        quantile(&drawn, normal.cdf(bias + z / (1.0 - acceleration * z)))
    };
    Some(Interval { low: end((1.0 - confidence) / 2.0), high: end((1.0 + confidence) / 2.0) })
}

/// From the statistic with each value left out in turn (14.15).
fn acceleration(values: &[f64], statistic: fn(&[f64]) -> f64) -> f64 {
    let without = |at: usize| statistic(&[&values[..at], &values[at + 1..]].concat());
    let each: Vec<f64> = (0..values.len()).map(without).collect();
    let mean = super::summary::mean(&each);
    let sum = |power: i32| each.iter().map(|value| (mean - value).powi(power)).sum::<f64>();
    let squares = sum(2);
    if squares > 0.0 { sum(3) / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

/// The statistic of as many values drawn with replacement, in ascending order.
fn drawn(values: &[f64], statistic: fn(&[f64]) -> f64, seed: u64) -> Option<Vec<f64>> {
    if values.len() < 2 {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sample = vec![0.0; values.len()];
    let mut draw = || {
        sample.iter_mut().for_each(|value| *value = values[random.usize(..values.len())]);
        statistic(&sample)
    };
    let mut drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    drawn.sort_by(f64::total_cmp);
    Some(drawn)
}

/// The value below which this share of sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (share * (sorted.len() + 1) as f64).round() as usize;
    sorted[place.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::super::summary::{mean, median};
    use super::super::tests::gaussian;
    use super::*;

    /// How often the interval holds the true value: times are spread to the right, as times are.
    #[test]
    fn intervals_hold_the_true_value_about_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(3);
        let deviation = 0.2_f64;
        let truth = [(deviation * deviation / 2.0).exp(), 1.0];
        let mut held = [0; 2];
        let rounds = 250;
        for round in 0..rounds {
            let values: Vec<f64> = (0..25).map(|_| (deviation * gaussian(&mut random)).exp()).collect();
            let found = [accelerated(&values, mean, 0.95, round), percentile(&values, median, 0.95, round)];
            for (held, (found, truth)) in held.iter_mut().zip(found.into_iter().zip(truth)) {
                let Interval { low, high } = found.unwrap();
                *held += usize::from(low <= truth && truth <= high);
            }
        }
        for held in held.map(|held| held as f64 / rounds as f64) {
            // 0.95 less what so few values leave out (0.92), and 2.6 standard errors of 250 rounds.
            assert!((0.88..=0.99).contains(&held), "{held}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let of = |seed| (accelerated(&values, mean, 0.9, seed), percentile(&values, median, 0.9, seed));
        assert_eq!(of(7), of(7));
        assert_eq!(percentile(&[1.0], median, 0.95, 0), None);
        assert_eq!(accelerated(&[2.0; 5], mean, 0.95, 0), Some(Interval { low: 2.0, high: 2.0 }));
    }
}
