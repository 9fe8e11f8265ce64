//! The communication that counts now: events between pairs of tasks, fading. CDSM ages its matrix by 0.75 after a
//! migration; here it fades by as much each second too, or a pattern that changes without a migration would never fade.

use cohabit_model::Matrix;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// What is left after a migration, and after each second.
pub const AGING: f64 = 0.75;
/// A pair with less than this is forgotten.
const NOTHING: f64 = 0.01;
/// Weights are integers to the mappers: this many to an event, so that faded ones keep their differences.
pub const UNITS_PER_EVENT: f64 = 256.0;

/// Events between tasks, faded.
#[derive(Debug, Clone, Default)]
pub struct AgedMatrix {
    pairs: BTreeMap<(u32, u32), f64>,
}

impl AgedMatrix {
    /// Adds events between two tasks.
    pub fn add(&mut self, a: u32, b: u32, events: u64) {
        if a != b {
            *self.pairs.entry((a.min(b), a.max(b))).or_default() += events as f64;
        }
    }

    /// Time has passed.
    pub fn fade(&mut self, elapsed: Duration) {
        self.scale(AGING.powf(elapsed.as_secs_f64()));
    }

    /// Tasks have moved.
    pub fn migrated(&mut self) {
        self.scale(AGING);
    }

    fn scale(&mut self, by: f64) {
        self.pairs.values_mut().for_each(|events| *events *= by);
        self.pairs.retain(|_, events| *events >= NOTHING);
    }

    /// These tasks have ended.
    pub fn forget(&mut self, tasks: &BTreeSet<u32>) {
        if !tasks.is_empty() {
            self.pairs.retain(|(a, b), _| !tasks.contains(a) && !tasks.contains(b));
        }
    }

    /// Faded events in all.
    pub fn total(&self) -> f64 {
        self.pairs.values().sum()
    }

    /// Every pair that has any, the smaller number first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, f64)> + '_ {
        self.pairs.iter().map(|(&(a, b), &events)| (a, b, events))
    }

    /// The pairs of these tasks as a matrix in their order, in [`UNITS_PER_EVENT`]; each pair is in its upper half.
    pub fn matrix(&self, tasks: &[u32]) -> Matrix {
        let index: HashMap<u32, u32> = tasks.iter().enumerate().map(|(index, &task)| (task, index as u32)).collect();
        let entries = self.iter().filter_map(|(a, b, events)| {
            let (a, b) = (*index.get(&a)?, *index.get(&b)?);
            Some((a.min(b), a.max(b), (events * UNITS_PER_EVENT).round() as u64))
        });
        Matrix::from_triplets(tasks.len(), entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_fade() {
        let mut matrix = AgedMatrix::default();
        matrix.add(2, 1, 100);
        matrix.add(1, 2, 60);
        matrix.add(3, 3, 5);
        matrix.fade(Duration::from_secs(1));
        assert_eq!(matrix.iter().collect::<Vec<_>>(), [(1, 2, 120.0)]);
        matrix.migrated();
        assert_eq!(matrix.matrix(&[2, 7, 1]).iter().collect::<Vec<_>>(), [(0, 2, 90 * 256)]);
        matrix.fade(Duration::from_secs(60));
        assert_eq!(matrix.total(), 0.0);
    }

    #[test]
    fn two_half_intervals_are_as_one() {
        let mut at_once = AgedMatrix::default();
        at_once.add(0, 1, 1000);
        let mut in_steps = at_once.clone();
        at_once.fade(Duration::from_secs(2));
        (0..40).for_each(|_| in_steps.fade(Duration::from_millis(50)));
        assert!((at_once.total() - in_steps.total()).abs() < 1e-6);
    }

    #[test]
    fn who_has_ended_is_forgotten() {
        let mut matrix = AgedMatrix::default();
        [(0, 1), (1, 2), (0, 2)].iter().for_each(|&(a, b)| matrix.add(a, b, 1));
        matrix.forget(&BTreeSet::from([1, 9]));
        assert_eq!(matrix.iter().map(|(a, b, _)| (a, b)).collect::<Vec<_>>(), [(0, 2)]);
    }
}
