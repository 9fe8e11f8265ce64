//! What the runs of one way took: mean and median with intervals, and which runs are out of the ordinary.

use super::bootstrap;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// From where to where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The values of one way, in the unit that they were measured in.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Its interval by the bootstrap, bias-corrected and accelerated; none of fewer than two.
    pub mean_interval: Option<Interval>,
    /// Its interval by Student's t, as papers print it; none of fewer than two.
    pub t_interval: Option<Interval>,
    /// Their median.
    pub median: f64,
    /// Its interval by the bootstrap's percentiles; none of fewer than two.
    pub median_interval: Option<Interval>,
    /// Their standard deviation, of a sample; none of fewer than two.
    pub deviation: Option<f64>,
    /// The least.
    pub least: f64,
    /// The largest.
    pub largest: f64,
    /// Places of those that are out of the ordinary: shown, never dropped.
    pub outliers: Vec<usize>,
}

/// Sums values up; none of no values. The same seed gives the same intervals.
pub fn summary(values: &[f64], confidence: f64, seed: u64) -> Option<Summary> {
    let (least, largest) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    let deviation = deviation(values);
    let mean_of_all = mean(values);
    Some(Summary {
        count: values.len(),
        mean: mean_of_all,
        mean_interval: bootstrap::accelerated(values, mean, confidence, seed),
        t_interval: deviation.map(|deviation| t_interval(mean_of_all, deviation, values.len(), confidence)),
        median: median(values),
        median_interval: bootstrap::percentile(values, median, confidence, seed),
        deviation,
        least,
        largest,
        outliers: outliers(values),
    })
}

/// The mean; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The median; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

fn t_interval(mean: f64, deviation: f64, count: usize, confidence: f64) -> Interval {
    let t =
        StudentsT::new(0.0, 1.0, (count - 1) as f64).map_or(f64::INFINITY, |t| t.inverse_cdf((1.0 + confidence) / 2.0));
    let half = t * deviation / (count as f64).sqrt();
    Interval { low: mean - half, high: mean + half }
}

/// Places of values whose distance from the median is more than 3.5 times the median one, scaled to a standard
/// deviation (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993). None where half of all are equal.
fn outliers(values: &[f64]) -> Vec<usize> {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let usual = 1.4826 * median(&distances);
    distances
        .iter()
        .enumerate()
        .filter(|&(_, &distance)| usual > 0.0 && distance > 3.5 * usual)
        .map(|(at, _)| at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_summed_up_as_far_as_they_go() {
        assert_eq!(summary(&[], 0.95, 0), None);
        let one = summary(&[3.0], 0.95, 0).unwrap();
        assert_eq!(
            (one.mean, one.median, one.mean_interval, one.t_interval, one.deviation),
            (3.0, 3.0, None, None, None)
        );
        let four = summary(&[4.0, 1.0, 2.0, 3.0], 0.95, 0).unwrap();
        assert_eq!((four.mean, four.median, four.least, four.largest), (2.5, 2.5, 1.0, 4.0));
        // 2.5 - 3.182446 * 1.290994 / 2.
        let t = four.t_interval.unwrap();
        assert!((t.low - 0.445739).abs() < 1e-5 && (t.high - 4.554260).abs() < 1e-5, "{t:?}");
    }

    #[test]
    fn what_is_far_from_the_rest_is_named() {
        assert_eq!(outliers(&[1.0, 1.1, 0.9, 1.05, 9.0, 0.95, 1.0]), [4]);
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 1.0, 9.0]), [0; 0]);
        assert_eq!(outliers(&[]), [0; 0]);
    }
}
