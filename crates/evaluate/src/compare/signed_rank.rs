//! Wilcoxon's signed-rank test, exactly, with the estimate and the interval that belong to it (Hodges and Lehmann 1963;
//! Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3.1 to 3.3).
//!
//! The distribution is that of the given absolute differences with signs drawn at random: exact with ties, too, and a
//! single disturbed run moves nothing but a rank.

use super::Interval;
use statrs::distribution::{ContinuousCDF, Normal};

/// Differences beyond which the normal distribution is taken: exactness takes their number's third power.
const MOST_EXACT: usize = 250;

/// How likely differences so far below `bound`, or farther, are if their centre is `bound`: signs then come up like a
/// coin's.
pub fn p_below(differences: &[f64], bound: f64) -> f64 {
    let shifted: Vec<f64> = differences.iter().map(|difference| difference - bound).filter(|&x| x != 0.0).collect();
    let ranks = doubled_ranks(&shifted);
    let positive: u64 = shifted.iter().zip(&ranks).filter(|(x, _)| **x > 0.0).map(|(_, rank)| rank).sum();
    share_at_most(&ranks, positive)
}

/// How likely differences are that are so far outside -`floor` to `floor`, on either side, if their centre is within.
pub fn p_value(differences: &[f64], floor: f64) -> f64 {
    let mirrored: Vec<f64> = differences.iter().map(|difference| -difference).collect();
    (2.0 * p_below(differences, -floor).min(p_below(&mirrored, -floor))).min(1.0)
}

/// Hodges and Lehmann's estimate of the centre: the median of the means of all pairs. 0 of no differences.
pub fn centre(differences: &[f64]) -> f64 {
    super::summary::median(&walsh_averages(differences))
}

/// The centres that the test does not reject at a confidence; none where there are too few differences to reject any.
pub fn interval(differences: &[f64], confidence: f64) -> Option<Interval> {
    let averages = walsh_averages(differences);
    let without = most_left_out(differences.len(), (1.0 - confidence) / 2.0)?;
    Some(Interval { low: averages[without], high: averages[averages.len() - 1 - without] })
}

/// The means of all pairs, each with itself among them, in ascending order.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let pairs = differences.iter().enumerate().flat_map(|(at, a)| differences[at..].iter().map(move |b| (a + b) / 2.0));
    let mut averages: Vec<f64> = pairs.collect();
    averages.sort_by(f64::total_cmp);
    averages
}

/// The largest rank sum that has at most a share `tail` of all draws at or below it.
fn most_left_out(count: usize, tail: f64) -> Option<usize> {
    let most = count * (count + 1) / 2;
    if count <= MOST_EXACT {
        let ranks: Vec<u64> = (1..=count as u64).collect();
        let mut below = 0.0;
        let rejected = distribution(&ranks).into_iter().take_while(|share| {
            below += share;
            below <= tail
        });
        return rejected.count().checked_sub(1);
    }
    let ranks: Vec<u64> = (1..=count as u64).map(|rank| 2 * rank).collect();
    // The share grows with the sum, and the sum that is sought is below the middle.
    let (mut low, mut high) = (0, most / 2 + 1);
    while low < high {
        let middle = (low + high) / 2;
        match normal_share(&ranks, 2 * middle as u64) <= tail {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low.checked_sub(1)
}

/// Twice the rank of each by its absolute value, equal ones sharing theirs: whole numbers.
fn doubled_ranks(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].abs().total_cmp(&values[b].abs()));
    let mut ranks = vec![0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&a, &b| values[a].abs() == values[b].abs()) {
        let until = from + equal.len();
        // Ranks from + 1 to until: their mean, twice.
        equal.iter().for_each(|&index| ranks[index] = (from + 1 + until) as u64);
        from = until;
    }
    ranks
}

/// The share of all ways of giving the ranks signs in which those with a plus sum to at most `sum`.
fn share_at_most(ranks: &[u64], sum: u64) -> f64 {
    match ranks.len() <= MOST_EXACT {
        true => exact_share(ranks, sum),
        false => normal_share(ranks, sum),
    }
}

fn exact_share(ranks: &[u64], sum: u64) -> f64 {
    let share = distribution(ranks);
    let until = (sum as usize + 1).min(share.len());
    if until == share.len() { 1.0 } else { share[..until].iter().sum::<f64>().min(1.0) }
}

/// The share of all ways of giving the ranks signs that sums to each number, by adding one rank after the other.
fn distribution(ranks: &[u64]) -> Vec<f64> {
    let total: u64 = ranks.iter().sum();
    let mut share = vec![0.0; total as usize + 1];
    share[0] = 1.0;
    let mut reached = 0;
    for &rank in ranks {
        let rank = rank as usize;
        reached += rank;
        for at in (0..=reached).rev() {
            let with = if at >= rank { share[at - rank] } else { 0.0 };
            share[at] = (share[at] + with) / 2.0;
        }
    }
    share
}

/// By the normal distribution, half a (doubled) rank up for continuity.
fn normal_share(ranks: &[u64], sum: u64) -> f64 {
    let mean = ranks.iter().map(|&rank| rank as f64 / 2.0).sum::<f64>();
    let deviation = ranks.iter().map(|&rank| (rank as f64 / 2.0).powi(2)).sum::<f64>().sqrt();
    Normal::standard().cdf((sum as f64 + 1.0 - mean) / deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way of giving signs, one by one.
    fn enumerated(ranks: &[u64], sum: u64) -> f64 {
        let of = |signs: u32| (0..ranks.len()).filter(|&at| signs >> at & 1 == 1).map(|at| ranks[at]).sum::<u64>();
        let ways = 1_u32 << ranks.len();
        (0..ways).filter(|&signs| of(signs) <= sum).count() as f64 / f64::from(ways)
    }

    #[test]
    fn the_exact_share_is_that_of_all_ways() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in 0..=11 {
            // Few different values: with ties.
            let values: Vec<f64> = (0..count).map(|_| random.u32(1..12).into()).collect();
            let ranks = doubled_ranks(&values);
            assert_eq!(ranks.iter().sum::<u64>(), count * (count + 1), "{values:?}");
            for sum in 0..=count * (count + 1) {
                let (found, slow) = (exact_share(&ranks, sum), enumerated(&ranks, sum));
                assert!((found - slow).abs() < 1e-12, "{values:?}: {sum}: {found}, {slow}");
            }
        }
    }

    /// Where the normal distribution takes over nothing jumps.
    #[test]
    fn what_is_left_out_grows_evenly() {
        let counts = [MOST_EXACT - 1, MOST_EXACT, MOST_EXACT + 1, MOST_EXACT + 2];
        let left = counts.map(|count| most_left_out(count, 0.025).unwrap());
        assert!(left.windows(2).all(|pair| (90..=120).contains(&(pair[1] - pair[0]))), "{left:?}");
        assert_eq!(
            [5, 6, 7, 8, 9].map(|count| most_left_out(count, 0.025)),
            [None, Some(0), Some(2), Some(3), Some(5)]
        );
    }

    #[test]
    fn the_normal_share_is_near_the_exact_one() {
        let ranks: Vec<u64> = (1..=MOST_EXACT as u64).map(|rank| 2 * rank).collect();
        let total: u64 = ranks.iter().sum();
        for share in [0.40, 0.43, 0.46, 0.5, 0.54] {
            let sum = (share * total as f64) as u64 / 2 * 2;
            let (exact, normal) = (exact_share(&ranks, sum), normal_share(&ranks, sum));
            assert!((exact - normal).abs() < 5e-4, "{sum}: {exact}, {normal}");
        }
    }

    /// Hollander and Wolfe's depression scale factors (their example 3.1): the sum for a decrease is 40 of 45, p =
    /// 0.020 one-sided, 0.039 two-sided; the centre is -0.46, and -0.786 to -0.010 its 96 % interval.
    #[allow(clippy::approx_constant)] // a patient's, not a circle's
    #[test]
    fn a_textbooks_example_comes_out_as_there() {
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        assert!((p_below(&differences, 0.0) - 0.01953).abs() < 1e-4);
        assert!((p_value(&differences, 0.0) - 0.03906).abs() < 1e-4);
        assert!((centre(&differences) + 0.46).abs() < 1e-9);
        let found = interval(&differences, 0.96).unwrap();
        assert!((found.low + 0.786).abs() < 1e-9 && (found.high + 0.010).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_interval_is_what_the_test_does_not_reject() {
        let mut random = fastrand::Rng::with_seed(2);
        for count in [6, 7, 9, 15, 30] {
            let differences: Vec<f64> = (0..count).map(|_| random.f64() - 0.3).collect();
            let Interval { low, high } = interval(&differences, 0.95).unwrap();
            let rejected = |bound: f64| {
                let mirrored: Vec<f64> = differences.iter().map(|x| -x).collect();
                2.0 * p_below(&differences, bound).min(p_below(&mirrored, -bound)) <= 0.05
            };
            for (bound, outside) in [(low - 1e-9, true), (low + 1e-9, false), (high - 1e-9, false), (high + 1e-9, true)]
            {
                assert_eq!(rejected(bound), outside, "{count}: {bound} of {low} to {high}");
            }
        }
        assert_eq!(interval(&[1.0; 5], 0.95), None, "five blocks show nothing at 95 %");
        assert_eq!(interval(&[], 0.95), None);
        assert_eq!((p_below(&[], 0.0), p_below(&[0.0; 4], 0.0)), (1.0, 1.0));
    }
}
