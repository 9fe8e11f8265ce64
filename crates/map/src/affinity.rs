//! How much items communicate, where items are tasks at first and then groups of tasks: what the mappers that work from
//! the PUs up compute with.

use crate::graph::{Graph, scaled};

/// The undirected graph of the items. Weights are scaled so that sums of them fit.
#[derive(Debug, Clone)]
pub struct Affinity {
    rows: Vec<Vec<(usize, i64)>>,
}

/// The sum of all weights stays below two to this.
const BITS: u32 = 40;

impl Affinity {
    /// The tasks, and items without communication up to `items` in number.
    pub fn new(graph: &Graph, items: usize) -> Self {
        let shift = graph.shift(1, BITS);
        let row = |task: usize| graph.row(task).map(|(other, weight)| (other, scaled(weight, shift) as i64)).collect();
        let mut rows: Vec<_> = (0..graph.tasks()).map(row).collect();
        rows.resize(items, Vec::new());
        Self { rows }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whom an item communicates with, and how much.
    pub fn row(&self, item: usize) -> &[(usize, i64)] {
        &self.rows[item]
    }

    /// How much two items communicate.
    pub fn between(&self, a: usize, b: usize) -> i64 {
        self.rows[a].binary_search_by_key(&b, |entry| entry.0).map_or(0, |at| self.rows[a][at].1)
    }

    /// All that an item says.
    pub fn volume(&self, item: usize) -> i64 {
        self.rows[item].iter().map(|entry| entry.1).sum()
    }

    /// The graph of groups of items. For pairs of pairs it is the paper's H: the sum over their members.
    pub fn merged(&self, groups: &[Vec<usize>]) -> Self {
        let mut group_of = vec![usize::MAX; self.len()];
        for (group, members) in groups.iter().enumerate() {
            members.iter().for_each(|&member| group_of[member] = group);
        }
        let row = |(own, members): (usize, &Vec<usize>)| {
            let mut sums = std::collections::BTreeMap::new();
            for &(other, weight) in members.iter().flat_map(|&member| self.row(member)) {
                if group_of[other] != own && group_of[other] != usize::MAX {
                    *sums.entry(group_of[other]).or_insert(0) += weight;
                }
            }
            sums.into_iter().collect()
        };
        Self { rows: groups.iter().enumerate().map(row).collect() }
    }
}
