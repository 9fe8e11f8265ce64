//! Which of several placements is the best, and whether it is better than the system's: chosen by some blocks, shown by
//! others.
//!
//! The best of several looks better than it is: what was lucky is chosen. So what it gains is told from blocks that it
//! was not chosen by, and their number is settled before the first of them.

use crate::compare::{Difference, Terms, blocks_needed, differences, least_blocks, log_ratios, signed_rank};

/// Which way to verify, of blocks in which all ran: the one with the best centre; none where none is better than the
/// first way by more than the floor. Ways count from the first, 0.
pub fn chosen(blocks: &[Vec<f64>], terms: &Terms) -> Option<usize> {
    let ways = blocks.first().map_or(0, Vec::len);
    let sign = if terms.higher_is_better { -1.0 } else { 1.0 };
    let centres = (1..ways).map(|way| (way, sign * signed_rank::centre(&log_ratios(blocks, way))));
    let (way, centre) = centres.min_by(|a, b| a.1.total_cmp(&b.1))?;
    (centre < -(1.0 + terms.floor).ln()).then_some(way)
}

/// How many blocks are to verify a way, from those that it was chosen by: as many as its gain needs to be told from the
/// floor with room to spare, or the precision, whichever is fewer; at least three times as many as can show anything.
pub fn blocks_to_verify(blocks: &[Vec<f64>], way: usize, precision: f64, terms: &Terms) -> usize {
    let logs = log_ratios(blocks, way);
    let gain = signed_rank::centre(&logs).abs() - (1.0 + terms.floor).ln();
    let least = least_blocks(terms.confidence, 1);
    // Half the gain: the choice flatters it.
    let needed = blocks_needed(&logs, terms.confidence, precision.max(gain / 2.0));
    needed.max(3 * least)
}

/// What was verified, of blocks of two ways: the first and the chosen one. None of none.
pub fn verified(blocks: &[Vec<f64>], terms: &Terms) -> Option<Difference> {
    differences(blocks, terms).pop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Claim;
    use crate::compare::tests::{blocks_of_equals, bound_of_200};

    /// What `cohabit tune` does, on drawn times: whether it ends with a winner.
    fn tuned(draw: &mut dyn FnMut(usize, usize) -> Vec<Vec<f64>>, terms: &Terms) -> Option<Difference> {
        let selection = draw(8, 5);
        let way = chosen(&selection, terms)?;
        let blocks = blocks_to_verify(&selection, way, 0.01, terms).min(60);
        let pairs: Vec<Vec<f64>> = draw(blocks, 5).iter().map(|block| vec![block[0], block[way]]).collect();
        verified(&pairs, terms).filter(|difference| difference.claim == Claim::Better)
    }

    #[test]
    fn of_equal_placements_hardly_any_wins() {
        for (seed, confidence) in [(11, 0.95), (12, 0.99)] {
            let mut random = fastrand::Rng::with_seed(seed);
            let terms = Terms { confidence, floor: 0.0, higher_is_better: false };
            let mut draw = |count, ways| blocks_of_equals(&mut random, count, ways);
            let winners = (0..200).filter(|_| tuned(&mut draw, &terms).is_some()).count() as u64;
            assert!(winners <= bound_of_200(1.0 - confidence), "{confidence}: {winners} of 200");
        }
    }

    #[test]
    fn a_placement_that_is_better_wins_with_its_own_gain() {
        let mut random = fastrand::Rng::with_seed(13);
        let mut draw = |count, ways| {
            let mut blocks = blocks_of_equals(&mut random, count, ways);
            blocks.iter_mut().for_each(|block| block[3] *= 0.8);
            blocks
        };
        let rounds = 30;
        let found: Vec<Difference> = (0..rounds).filter_map(|_| tuned(&mut draw, &Terms::default())).collect();
        assert!(found.len() + 2 >= rounds, "{} of {rounds}", found.len());
        let mean = found.iter().map(|difference| difference.change).sum::<f64>() / found.len() as f64;
        assert!((mean + 0.2).abs() < 0.02, "{mean}");
    }

    #[test]
    fn without_anything_better_there_is_nothing_to_verify() {
        let blocks = vec![vec![1.0, 1.1, 0.999]; 8];
        assert_eq!(chosen(&blocks, &Terms::default()), None);
        assert_eq!(chosen(&blocks, &Terms { higher_is_better: true, ..Terms::default() }), Some(1));
        assert_eq!(chosen(&[], &Terms::default()), None);
        assert_eq!(verified(&[], &Terms::default()), None);
    }
}
