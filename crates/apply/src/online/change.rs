//! Whether tasks communicate otherwise than before: two samples of events, and whether chance makes them as different as they are.

use super::aging::Pairs;

/// A change is believed from this many standard deviations on.
const DEVIATIONS: f64 = 5.0;
/// How much of what was known of the spread is kept at each look, and the most that one look may say.
const KEPT: f64 = 0.8;
const MOST_SPREAD: f64 = 10.0;

/// Tells changes from chance.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// How many times as far samples of one pattern are from one another as counts that are independent: events come in bursts.
    spread: f64,
}

impl Default for Change {
    fn default() -> Self {
        Self { spread: 1.0 }
    }
}

impl Change {
    /// Whether `recent` events are of another pattern than `earlier` ones. Neither may be empty.
    pub(super) fn is_one(&mut self, earlier: &Pairs, recent: &Pairs) -> bool {
        let (chi_squared, freedom) = homogeneity(earlier, recent);
        if freedom < 1.0 {
            return false;
        }
        let is_one = (chi_squared / self.spread - freedom) / (2.0 * freedom).sqrt() >= DEVIATIONS;
        // Learned from changes too: a source that always looks like one is known as such after two or three.
        let now = (chi_squared / freedom).clamp(1.0, MOST_SPREAD);
        self.spread = KEPT * self.spread + (1.0 - KEPT) * now;
        is_one
    }
}

/// Pearson's chi-squared for the hypothesis that two samples are spread over the pairs alike, and its degrees of freedom.
fn homogeneity(first: &Pairs, second: &Pairs) -> (f64, f64) {
    let ratio = (second.values().sum::<f64>() / first.values().sum::<f64>()).sqrt();
    let term = |of_first: f64, of_second: f64| (of_first * ratio - of_second / ratio).powi(2) / (of_first + of_second);
    let shared = first.iter().map(|(pair, &events)| term(events, second.get(pair).copied().unwrap_or_default()));
    let new: Vec<f64> =
        second.iter().filter(|(pair, _)| !first.contains_key(pair)).map(|(_, &events)| term(0.0, events)).collect();
    let pairs = first.len() + new.len();
    (shared.sum::<f64>() + new.iter().sum::<f64>(), pairs as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(events: &[f64]) -> Pairs {
        let counted = events.iter().enumerate().filter(|(_, events)| **events > 0.0);
        counted.map(|(index, &events)| ((0, index as u32 + 1), events)).collect()
    }

    #[test]
    fn chi_squared_is_that_of_a_table_of_two_rows() {
        // Expected: 15, 15, 15 in each row; (5^2 + 0 + 5^2) / 15, twice.
        let (chi_squared, freedom) = homogeneity(&pairs(&[20.0, 15.0, 10.0]), &pairs(&[10.0, 15.0, 20.0]));
        assert!((chi_squared - 100.0 / 15.0).abs() < 1e-9 && freedom == 2.0);
        // Rows of 30 and 10: expected 22.5, 7.5 and 7.5, 2.5.
        let (chi_squared, freedom) = homogeneity(&pairs(&[30.0, 0.0]), &pairs(&[0.0, 10.0]));
        assert!((chi_squared - 40.0).abs() < 1e-9 && freedom == 1.0);
    }

    #[test]
    fn changes_are_told_from_chance_and_bursts() {
        let steady = pairs(&[70.0, 68.0, 3.0, 1.0]);
        let mut change = Change::default();
        assert!(!change.is_one(&steady, &pairs(&[18.0, 23.0, 0.0, 2.0])));
        assert!(change.is_one(&steady, &pairs(&[0.0, 1.0, 9.0, 9.0])));
        // One pair only, now and before.
        assert!(!Change::default().is_one(&pairs(&[5.0]), &pairs(&[50.0])));
        // Bursts of one pair and then of another: no change in the long run.
        let mut change = Change::default();
        let bursts = [pairs(&[30.0, 0.0, 8.0, 8.0]), pairs(&[0.0, 30.0, 8.0, 8.0])];
        let told = (0..20).filter(|look| change.is_one(&pairs(&[60.0, 60.0, 30.0, 30.0]), &bursts[look % 2])).count();
        assert!(told <= 3, "{told}");
    }

    proptest! {
        /// Against the definition: observed and expected counts of a table.
        #[test]
        fn homogeneity_is_pearsons(rows in prop::collection::vec((0..50u32, 0..50u32), 2..20)) {
            let (first, second): (Vec<f64>, Vec<f64>) = rows.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).unzip();
            let (n, m): (f64, f64) = (first.iter().sum(), second.iter().sum());
            prop_assume!(n > 0.0 && m > 0.0);
            let mut expected = 0.0;
            for (a, b) in first.iter().zip(&second).filter(|(a, b)| *a + *b > 0.0) {
                for (seen, total) in [(a, n), (b, m)] {
                    let mean = (a + b) * total / (n + m);
                    expected += (seen - mean).powi(2) / mean;
                }
            }
            let (found, _) = homogeneity(&pairs(&first), &pairs(&second));
            prop_assert!((found - expected).abs() < 1e-6 * (1.0 + expected), "{found} {expected}");
        }
    }
}
