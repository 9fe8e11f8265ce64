//! Ways of running one program, compared by what they took: in blocks, each way once in an order drawn at random.
//!
//! What is to be resolved (a percent or so) is less than what two runs differ by on a shared machine. So only runs of
//! one block are compared, which share what changes slowly (clock rate, neighbours), and the order within a block is
//! drawn: where two ways are equal, each is the faster one of a block by chance, and the logarithm of their ratio is
//! spread evenly around 0 whatever the times are spread like. That is all that the test assumes ([`signed_rank`]).
//!
//! Nothing here runs a program or reads a clock: what was measured goes in, what can be said of it comes out.

pub mod bootstrap;
pub mod plan;
pub mod signed_rank;
pub mod summary;

pub use plan::{blocks_needed, least_blocks, order};
pub use summary::{Interval, Summary, summary};

/// Two processes of one program, side by side, differ by up to this share however long they are measured (where their
/// memory came to lie, for one): less is never called a difference.
pub const SAME_PROGRAM: f64 = 0.002;

/// How sure claims may be asked to be: what some thousands of blocks can show.
pub const CONFIDENCES: std::ops::RangeInclusive<f64> = 0.5..=0.9999;

/// What is asked of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// How sure intervals and claims are: 0.95, say.
    pub confidence: f64,
    /// The share below which nothing is called a difference: [`SAME_PROGRAM`].
    pub floor: f64,
    /// Whether a larger value is the better one.
    pub higher_is_better: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { confidence: 0.95, floor: SAME_PROGRAM, higher_is_better: false }
    }
}

/// What can be claimed of a way, beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is better, by more than the floor.
    Better,
    /// It is worse, by more than the floor.
    Worse,
    /// Neither is shown.
    NotShown,
}

/// A way beside the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Its value over the first way's, less 1: the centre of the blocks' ratios (Hodges and Lehmann's).
    pub change: f64,
    /// Where that lies, at the confidence asked for, this way by itself; none where there are too few blocks for any.
    pub interval: Option<Interval>,
    /// How likely such blocks are if the change is no more than the floor.
    pub p: f64,
    /// The same with all ways taken together (Holm 1979).
    pub p_holm: f64,
    /// What follows from that.
    pub claim: Claim,
}

/// Each way after the first beside the first. `blocks[block][way]` are positive values; all blocks have each way.
///
/// # Panics
/// Where blocks are of different lengths.
pub fn differences(blocks: &[Vec<f64>], terms: &Terms) -> Vec<Difference> {
    let ways = blocks.first().map_or(0, Vec::len);
    assert!(blocks.iter().all(|block| block.len() == ways), "every block has every way");
    let floor = (1.0 + terms.floor).ln();
    let logs: Vec<Vec<f64>> = (1..ways).map(|way| log_ratios(blocks, way)).collect();
    let ps: Vec<f64> = logs.iter().map(|logs| signed_rank::p_value(logs, floor)).collect();
    let adjusted = holm(&ps);
    let difference = |((logs, p), p_holm): ((&Vec<f64>, f64), f64)| {
        let centre = signed_rank::centre(logs);
        let interval = signed_rank::interval(logs, terms.confidence);
        let is_shown = p_holm <= 1.0 - terms.confidence;
        Difference {
            change: centre.exp_m1(),
            interval: interval.map(|Interval { low, high }| Interval { low: low.exp_m1(), high: high.exp_m1() }),
            p,
            p_holm,
            claim: match (is_shown, (centre > 0.0) == terms.higher_is_better) {
                (false, _) => Claim::NotShown,
                (true, true) => Claim::Better,
                (true, false) => Claim::Worse,
            },
        }
    };
    logs.iter().zip(ps).zip(adjusted).map(difference).collect()
}

/// The logarithms of a way's values over the first way's, block by block.
pub fn log_ratios(blocks: &[Vec<f64>], way: usize) -> Vec<f64> {
    blocks.iter().map(|block| (block[way] / block[0]).ln()).collect()
}

/// Holm's adjustment (A Simple Sequentially Rejective Multiple Test Procedure, 1979): the least of these is at most
/// `alpha` by chance in a share `alpha` of comparisons, however the tests depend on one another.
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&a, &b| ps[a].total_cmp(&ps[b]));
    let mut adjusted = vec![0.0; ps.len()];
    let mut largest = 0.0_f64;
    for (place, &index) in order.iter().enumerate() {
        largest = largest.max(ps[index] * (ps.len() - place) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
pub(crate) mod tests;
