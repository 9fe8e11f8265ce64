//! Parts of a run's time, and what tasks exchange in each: what is in one is taken to happen at about the same time
//! (DeLoc's concurrent communications).
//!
//! Parts come from one of several sources. What the program says goes before what is inferred: its own phases
//! ([`By::Markers`]), then clusters in time ([`By::Clusters`]). Windows that come again ([`By::Recurring`]) say what is
//! alike, not what is at the same time: they go before clusters where a mapping is made for each phase, and are else
//! taken where they are asked for (docs/time.md has the order). Where ranks of MPI come to call sites of their own in
//! such windows ([`By::Calls`]), a run can know them again.

use crate::Matrix;
use crate::series::Window;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// By what parts of the run are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// What the program says (`cohabit_phase`).
    Markers,
    /// Clusters of windows, by weighted k-means.
    Clusters,
    /// Windows in which the same pairs communicate.
    Recurring,
    /// The same, where they begin at call sites of MPI.
    Calls,
}

/// A part of the run: in one piece, or in several.
#[derive(Debug, Clone, PartialEq)]
pub struct Period {
    /// The number that the program gave it, or its place in the order of time, from 0 on.
    pub number: u64,
    /// Its windows with events, as ranges of windows, ascending.
    pub spans: Vec<Range<u64>>,
    /// Events in it, `[source][destination]`.
    pub messages: Matrix,
    /// Their bytes.
    pub bytes: Matrix,
}

impl Period {
    /// The whole run, if all of it happened at the same time.
    pub fn whole(messages: Matrix, bytes: Matrix) -> Self {
        Self { number: 0, spans: std::iter::once(0..1).collect(), messages, bytes }
    }
}

/// What is exchanged when.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// By what its parts are told apart.
    pub by: By,
    /// What its windows are.
    pub window: Window,
    /// The parts, in the order of their first windows. What is in none of them (scattered, before the first phase) is
    /// left out.
    pub periods: Vec<Period>,
}

/// The pairs of tasks that communicate in one part of the run (DeLoc, section II-D).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which part of the run: its place in what [`groups`] was given.
    pub period: usize,
    /// (task, greater task, what they exchange in both directions), the heaviest first.
    pub pairs: Vec<(u32, u32, u64)>,
    /// The sum of that.
    pub total: u128,
    /// How many tasks are in any of its pairs.
    pub tasks: usize,
}

impl Group {
    /// The load of a pair, Wp: its part of what is exchanged in all groups (`all`); DeLoc, equation 2.
    pub fn pair_load(&self, pair: usize, all: u128) -> f64 {
        self.pairs[pair].2 as f64 / all.max(1) as f64
    }

    /// The load of the group, Lc: the sum over its pairs; DeLoc, equation 3.
    pub fn load(&self, all: u128) -> f64 {
        self.total as f64 / all.max(1) as f64
    }
}

/// The groups of a run by what is exchanged in each part of it, those with the greatest load first. Loads are of what
/// is exchanged within the part, not in the whole run; groups and pairs alike keep the order of their numbers. Parts in
/// which nothing is exchanged between different tasks are no groups.
pub fn groups<'a>(weights: impl IntoIterator<Item = &'a Matrix>) -> Vec<Group> {
    let group = |(period, weight): (usize, &Matrix)| {
        let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (a, b, value) in weight.iter().filter(|&(a, b, _)| a != b) {
            let sum = sums.entry((a.min(b), a.max(b))).or_default();
            *sum = sum.saturating_add(value);
        }
        let mut pairs: Vec<(u32, u32, u64)> = sums.into_iter().map(|((a, b), value)| (a, b, value)).collect();
        pairs.sort_by_key(|&(a, b, value)| (Reverse(value), a, b));
        let mut tasks: Vec<u32> = pairs.iter().flat_map(|&(a, b, _)| [a, b]).collect();
        tasks.sort_unstable();
        tasks.dedup();
        let total = pairs.iter().map(|pair| u128::from(pair.2)).sum();
        Group { period, pairs, total, tasks: tasks.len() }
    };
    let mut groups: Vec<Group> = weights.into_iter().enumerate().map(group).collect();
    groups.retain(|group| !group.pairs.is_empty());
    groups.sort_by_key(|group| (Reverse(group.total), group.period));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_pairs_go_by_their_load() {
        let first = Matrix::from_triplets(4, [(0, 1, 2), (1, 0, 3), (3, 2, 5), (1, 1, 90)]);
        let second = Matrix::from_triplets(4, [(0, 1, 30)]);
        let silent = Matrix::from_triplets(4, [(2, 2, 7)]);
        let found = groups([&first, &silent, &second]);
        assert_eq!(found.iter().map(|group| group.period).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(found[1].pairs, [(0, 1, 5), (2, 3, 5)]);
        assert_eq!((found[0].tasks, found[1].tasks, found[1].total), (2, 4, 10));
        let all: u128 = found.iter().map(|group| group.total).sum();
        assert_eq!((found[0].load(all), found[1].pair_load(0, all)), (0.75, 0.125));
        assert!(groups([]).is_empty());
    }
}
