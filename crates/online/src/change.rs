//! Whether tasks communicate otherwise than before: samples of events in the order of time, and whether chance makes
//! the later ones as different from the earlier ones as they are.

use super::aging::{Pairs, are_enough};
use std::collections::{BTreeMap, HashMap};

/// A change is believed from this many standard deviations on.
const DEVIATIONS: f64 = 4.0;
/// How much of what was known of the spread is kept at each look, and the least and the most that one look may say: no
/// less than chance makes of counts, for now and then it is a smaller one by chance.
const KEPT: f64 = 0.8;
const SPREAD: (f64, f64) = (1.0, 10.0);

/// Tells changes from chance.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// How many times as far samples of one pattern are from one another as counts that are independent, squared:
    /// events come in bursts, or are put together of parts that are seen one by one.
    spread: f64,
}

impl Default for Change {
    fn default() -> Self {
        Self { spread: 1.0 }
    }
}

impl Change {
    /// Whether the pattern has changed between these samples, in the order of time, and if so, which is the first of
    /// the new one: that from which on they are most unlike those before it. One sample after a change may be too small
    /// to tell.
    pub(super) fn first_of_new(&mut self, samples: &[Pairs]) -> Option<usize> {
        let table = Table::of(samples);
        let (mut most, mut latest): (Option<(usize, f64)>, _) = (None, None);
        for at in 1..samples.len() {
            let Some((chi_squared, freedom)) = table.homogeneity(at) else { continue };
            let deviations = (chi_squared / self.spread - freedom) / (2.0 * freedom).sqrt();
            if deviations >= most.map_or(DEVIATIONS, |most| most.1) {
                most = Some((at, deviations));
            }
            latest = Some(chi_squared / freedom);
        }
        // Learned from what came last, of changes too: a source that always looks like one is known as such after two
        // or three.
        if let Some(now) = latest {
            self.spread = KEPT * self.spread + (1.0 - KEPT) * now.clamp(SPREAD.0, SPREAD.1);
        }
        most.map(|(at, _)| at)
    }
}

/// Events of pairs in each sample, for all ways to part the samples in two.
struct Table {
    /// The two tasks, numbered as they come, and the events up to each sample.
    rows: Vec<([usize; 2], Vec<f64>)>,
    tasks: usize,
}

impl Table {
    fn of(samples: &[Pairs]) -> Self {
        let mut rows: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for (at, sample) in samples.iter().enumerate() {
            for (&pair, &events) in sample {
                rows.entry(pair).or_insert_with(|| vec![0.0; samples.len()])[at] += events;
            }
        }
        let mut tasks: HashMap<u32, usize> = HashMap::new();
        let mut number = |task| {
            let next = tasks.len();
            *tasks.entry(task).or_insert(next)
        };
        let numbered = rows.into_iter().map(|((a, b), mut events)| {
            for at in 1..events.len() {
                events[at] += events[at - 1];
            }
            ([number(a), number(b)], events)
        });
        let rows = numbered.collect();
        Self { rows, tasks: tasks.len() }
    }

    /// Pearson's chi-squared for the hypothesis that the first `at` samples and those after them are spread over the
    /// pairs alike, and its degrees of freedom; none where that is none, or where there are too few events before or
    /// after.
    fn homogeneity(&self, at: usize) -> Option<(f64, f64)> {
        let parts = |events: &[f64]| [events[at - 1], events[events.len() - 1] - events[at - 1]];
        let (mut sums, mut there) = ([0.0; 2], [vec![false; self.tasks], vec![false; self.tasks]]);
        for (tasks, events) in &self.rows {
            for (part, events) in parts(events).into_iter().enumerate().filter(|(_, events)| *events > 0.0) {
                sums[part] += events;
                tasks.iter().for_each(|&task| there[part][task] = true);
            }
        }
        let count = |part: usize| there[part].iter().filter(|there| **there).count();
        if (0..2).any(|part| sums[part] <= 0.0 || !are_enough(sums[part], count(part))) {
            return None;
        }
        let ratio = (sums[1] / sums[0]).sqrt();
        let terms = self.rows.iter().map(|(_, events)| parts(events)).filter(|[first, second]| first + second > 0.0);
        let (mut chi_squared, mut pairs) = (0.0, 0.0);
        for [first, second] in terms {
            chi_squared += (first * ratio - second / ratio).powi(2) / (first + second);
            pairs += 1.0;
        }
        (pairs > 1.0).then_some((chi_squared, pairs - 1.0))
    }
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
        let homogeneity =
            |first: &[f64], second: &[f64]| Table::of(&[pairs(first), pairs(second)]).homogeneity(1).unwrap();
        let (chi_squared, freedom) = homogeneity(&[20.0, 15.0, 10.0], &[10.0, 15.0, 20.0]);
        assert!((chi_squared - 100.0 / 15.0).abs() < 1e-9 && freedom == 2.0);
        // Rows of 30 and 12: expected 30 / 42 of each pair's, and so on: all 42.
        let (chi_squared, freedom) = homogeneity(&[30.0, 0.0], &[0.0, 12.0]);
        assert!((chi_squared - 42.0).abs() < 1e-9 && freedom == 1.0);
    }

    #[test]
    fn changes_are_told_from_chance_and_bursts() {
        let first_of_new = |samples: &[&[f64]]| {
            let samples: Vec<Pairs> = samples.iter().map(|sample| pairs(sample)).collect();
            Change::default().first_of_new(&samples)
        };
        let (steady, like_it) = ([70.0, 68.0, 3.0, 1.0], [18.0, 23.0, 0.0, 2.0]);
        assert_eq!(first_of_new(&[&steady, &like_it]), None);
        assert_eq!(first_of_new(&[&steady, &like_it, &[0.0, 1.0, 15.0, 14.0]]), Some(2));
        // Too little for each of three samples to tell.
        let few = [9.0, 9.0, 2.0, 2.0];
        assert_eq!(first_of_new(&[&steady, &like_it, &few]), None);
        assert_eq!(first_of_new(&[&steady, &like_it, &few, &few, &few]), Some(2));
        // One pair only, now and before; and too few events for five tasks.
        assert_eq!(first_of_new(&[&[20.0], &[50.0]]), None);
        assert_eq!(first_of_new(&[&steady, &[0.0, 0.0, 9.0, 9.0]]), Some(1));
        assert_eq!(first_of_new(&[&steady, &[0.0, 0.0, 5.0, 6.0]]), None);
        // Bursts of one pair and then of another: no change in the long run.
        let mut change = Change::default();
        let bursts = [pairs(&[30.0, 0.0, 8.0, 8.0]), pairs(&[0.0, 30.0, 8.0, 8.0])];
        let told = (0..20)
            .filter(|look| change.first_of_new(&[pairs(&[60.0, 60.0, 30.0, 30.0]), bursts[look % 2].clone()]).is_some())
            .count();
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
            // In two samples each, and with others that are not asked about.
            let halves = |row: &[f64]| pairs(&row.iter().map(|events| events / 2.0).collect::<Vec<_>>());
            let samples = [halves(&first), halves(&first), halves(&second), halves(&second)];
            let Some((found, freedom)) = Table::of(&samples).homogeneity(2) else { return Ok(()) };
            let pairs = first.iter().zip(&second).filter(|(a, b)| *a + *b > 0.0).count();
            prop_assert_eq!(freedom, pairs as f64 - 1.0);
            prop_assert!((found - expected).abs() < 1e-6 * (1.0 + expected), "{found} {expected}");
        }
    }
}
