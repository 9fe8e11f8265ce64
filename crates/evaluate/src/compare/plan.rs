//! How many blocks, and in which order.

use super::signed_rank;

/// The order of the ways in a block: drawn, and the same again for the same seed and block, so that a comparison can go
/// on where it was cut off.
pub fn order(seed: u64, block: usize, ways: usize) -> Vec<usize> {
    // Neighbouring numbers are to give unlike draws.
    let mixed = seed ^ (block as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = fastrand::Rng::with_seed(mixed);
    let mut order: Vec<usize> = (0..ways).collect();
    random.shuffle(&mut order);
    order
}

/// The fewest blocks that can show anything at a confidence with so many ways beside the first: all on one side.
pub fn least_blocks(confidence: f64, others: usize) -> usize {
    let alpha = (1.0 - confidence) / others.max(1) as f64;
    (1 + (1.0 / alpha).log2().ceil() as usize).max(2)
}

/// How many blocks the interval of a change needs to be no wider than `precision` on either side, by the blocks so far
/// (their logarithms of ratios): as many as there are where it is so already. The width falls with the root of their
/// number.
pub fn blocks_needed(logs: &[f64], confidence: f64, precision: f64) -> usize {
    let least = least_blocks(confidence, 1);
    let count = logs.len();
    match signed_rank::interval(logs, confidence) {
        None => least.max(count + 1),
        Some(interval) => {
            let half = (interval.high - interval.low) / 2.0;
            match half <= precision {
                true => count,
                false => (count as f64 * (half / precision).powi(2)).ceil().clamp(count as f64 + 1.0, 1e6) as usize,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_way_and_orders_differ() {
        let orders: Vec<Vec<usize>> = (0..50).map(|block| order(4, block, 4)).collect();
        for one in &orders {
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert_eq!(order(4, 7, 4), orders[7]);
        for first in 0..4 {
            assert!(orders.iter().filter(|order| order[0] == first).count() > 4, "{first} comes first as well");
        }
    }

    #[test]
    fn so_few_blocks_can_show_something_and_fewer_cannot() {
        for (confidence, others, expected) in [(0.95, 1, 6), (0.95, 2, 7), (0.99, 1, 8), (0.95, 8, 9)] {
            let blocks = least_blocks(confidence, others);
            assert_eq!(blocks, expected);
            let alpha = (1.0 - confidence) / others as f64;
            assert!(signed_rank::p_value(&vec![1.0; blocks], 0.0) <= alpha);
            assert!(signed_rank::p_value(&vec![1.0; blocks - 1], 0.0) > alpha);
        }
    }

    #[test]
    fn a_narrower_interval_needs_more_blocks() {
        let logs: Vec<f64> = (0..20).map(|at| f64::from(at % 5) / 100.0).collect();
        let needed = |precision| blocks_needed(&logs, 0.95, precision);
        assert_eq!(needed(0.05), 20);
        assert!(needed(0.001) > needed(0.002) && needed(0.002) > 20);
        assert_eq!(blocks_needed(&[], 0.95, 0.01), 6);
    }
}
