//! Comparisons of what is known to be equal, or not, on drawn times.

use super::*;

/// A draw from the standard normal distribution (Box and Muller).
pub(crate) fn gaussian(random: &mut fastrand::Rng) -> f64 {
    let (radius, angle) = ((-2.0 * (1.0 - random.f64()).ln()).sqrt(), std::f64::consts::TAU * random.f64());
    radius * angle.cos()
}

/// Blocks of equal ways as a shared machine has them: it drifts, single runs are disturbed, and times are spread to the
/// right.
pub(crate) fn blocks_of_equals(random: &mut fastrand::Rng, count: usize, ways: usize) -> Vec<Vec<f64>> {
    let mut drift = 0.0;
    (0..count)
        .map(|_| {
            drift += 0.02 * gaussian(random);
            let mut run = || {
                let disturbed = if random.u8(..10) == 0 { random.f64() } else { 0.0 };
                1.7 * (drift + 0.01 * gaussian(random)).exp() * (1.0 + disturbed)
            };
            (0..ways).map(|_| run()).collect()
        })
        .collect()
}

/// The largest number of successes of 200 that a share leaves in 99.9 of 100 cases.
pub(crate) fn bound_of_200(share: f64) -> u64 {
    use statrs::distribution::{Binomial, DiscreteCDF};
    Binomial::new(share, 200).unwrap().inverse_cdf(0.999)
}

#[test]
fn equal_ways_are_seldom_told_apart() {
    for (seed, confidence) in [(5, 0.95), (6, 0.99)] {
        let mut random = fastrand::Rng::with_seed(seed);
        // Without the floor, which would forgive some.
        let terms = Terms { confidence, floor: 0.0, higher_is_better: false };
        let told_apart = (0..200)
            .filter(|_| {
                let blocks = blocks_of_equals(&mut random, 16, 4);
                differences(&blocks, &terms).iter().any(|difference| difference.claim != Claim::NotShown)
            })
            .count() as u64;
        assert!(told_apart <= bound_of_200(1.0 - confidence), "{confidence}: {told_apart} of 200");
    }
}

/// As `cohabit compare --precision` stops: by the width of the interval, looked at again and again.
#[test]
fn to_stop_when_the_interval_is_narrow_tells_no_more_equals_apart() {
    let mut random = fastrand::Rng::with_seed(8);
    let terms = Terms { floor: 0.0, ..Terms::default() };
    let mut apart = || {
        let all = blocks_of_equals(&mut random, 50, 2);
        let wide = |count: &usize| plan::blocks_needed(&log_ratios(&all[..*count], 1), 0.95, 0.01) > *count;
        let count = (7..50).step_by(2).find(|count| !wide(count)).unwrap_or(50);
        differences(&all[..count], &terms)[0].claim != Claim::NotShown
    };
    let told_apart = (0..200).filter(|_| apart()).count() as u64;
    assert!(told_apart <= bound_of_200(0.05), "{told_apart} of 200");
}

#[test]
fn what_is_faster_is_found_and_by_how_much() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut blocks = blocks_of_equals(&mut random, 40, 3);
    blocks.iter_mut().for_each(|block| (block[1], block[2]) = (block[1] * 0.9, block[2] * 1.2));
    let found = differences(&blocks, &Terms::default());
    assert_eq!([found[0].claim, found[1].claim], [Claim::Better, Claim::Worse]);
    for (difference, truth) in found.iter().zip([-0.1, 0.2]) {
        let interval = difference.interval.unwrap();
        assert!(
            interval.low <= truth && truth <= interval.high && interval.high - interval.low < 0.05,
            "{difference:?}"
        );
    }
    // Of a rate the larger one is the better.
    let rates = Terms { higher_is_better: true, ..Terms::default() };
    assert_eq!(differences(&blocks, &rates)[0].claim, Claim::Worse);
}

#[test]
fn less_than_two_runs_of_one_program_differ_by_is_never_claimed() {
    let blocks: Vec<Vec<f64>> = (0..200).map(|at| vec![1.0, 0.9985 + f64::from(at) * 1e-7]).collect();
    let [found] = &differences(&blocks, &Terms::default())[..] else { panic!("one way beside the first") };
    assert_eq!((found.claim, found.p), (Claim::NotShown, 1.0));
    let interval = found.interval.unwrap();
    assert!(interval.high < 0.0, "though it is told apart: {interval:?}");
    let without = Terms { floor: 0.0, ..Terms::default() };
    assert_eq!(differences(&blocks, &without)[0].claim, Claim::Better);
}

#[test]
fn holms_steps_are_those_of_the_definition() {
    for (ps, expected) in
        [(&[][..], &[][..]), (&[0.04], &[0.04]), (&[0.01, 0.04, 0.03], &[0.03, 0.06, 0.06]), (&[0.6, 0.9], &[1.0, 1.0])]
    {
        let found = holm(ps);
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        assert_eq!(found.len(), expected.len());
    }
}
