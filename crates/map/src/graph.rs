//! The tasks as an undirected graph: J's distances are symmetric, so the two directions of a pair count as their sum.

use cohabit_model::Matrix;

/// An undirected weighted graph in compressed rows, without loops; neighbours ascend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    weights: Vec<u64>,
}

impl Graph {
    /// The graph of a matrix. The two directions of a pair are added, saturating at `u64::MAX`.
    pub fn new(matrix: &Matrix) -> Self {
        let transposed = Transposed::new(matrix);
        let tasks = matrix.tasks();
        let mut graph = Self {
            starts: Vec::with_capacity(tasks + 1),
            neighbours: Vec::with_capacity(2 * matrix.entries()),
            weights: Vec::with_capacity(2 * matrix.entries()),
        };
        graph.starts.push(0);
        for task in 0..tasks {
            graph.push_merged(task as u32, matrix.row(task), transposed.row(task));
            graph.starts.push(graph.neighbours.len());
        }
        graph
    }

    /// Appends the merge of two ascending rows, without the entry of the task itself.
    fn push_merged(
        &mut self,
        task: u32,
        mut out: impl Iterator<Item = (u32, u64)>,
        mut back: impl Iterator<Item = (u32, u64)>,
    ) {
        let (mut next_out, mut next_back) = (out.next(), back.next());
        loop {
            let (neighbour, weight) = match (next_out, next_back) {
                (Some(a), Some(b)) if a.0 == b.0 => (a.0, a.1.saturating_add(b.1)),
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) => a,
                (None, Some(b)) => b,
                (None, None) => break,
            };
            if next_out.is_some_and(|entry| entry.0 == neighbour) {
                next_out = out.next();
            }
            if next_back.is_some_and(|entry| entry.0 == neighbour) {
                next_back = back.next();
            }
            if neighbour != task {
                self.neighbours.push(neighbour);
                self.weights.push(weight);
            }
        }
    }

    /// The graph of groups of tasks, given each task's: the weights of a pair of groups are added, saturating.
    pub fn of_groups(&self, group_of: &[u32], groups: usize) -> Self {
        let mut members = vec![Vec::new(); groups];
        group_of.iter().enumerate().for_each(|(task, &group)| members[group as usize].push(task));
        let mut graph = Self { starts: vec![0], neighbours: Vec::new(), weights: Vec::new() };
        let (mut sum, mut others) = (vec![0_u64; groups], Vec::new());
        for (own, members) in members.into_iter().enumerate() {
            for (task, weight) in members.into_iter().flat_map(|member| self.row(member)) {
                let other = group_of[task];
                if other as usize != own && weight > 0 {
                    let sum = &mut sum[other as usize];
                    if *sum == 0 {
                        others.push(other);
                    }
                    *sum = sum.saturating_add(weight);
                }
            }
            others.sort_unstable();
            graph.weights.extend(others.iter().map(|&other| std::mem::take(&mut sum[other as usize])));
            graph.neighbours.append(&mut others);
            graph.starts.push(graph.neighbours.len());
        }
        graph
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of pairs that communicate.
    pub fn pairs(&self) -> usize {
        self.neighbours.len() / 2
    }

    /// The neighbours of a task with their weights, neighbours ascending.
    #[inline]
    pub fn row(&self, task: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let range = self.starts[task]..self.starts[task + 1];
        self.neighbours[range.clone()].iter().map(|&task| task as usize).zip(self.weights[range].iter().copied())
    }

    /// Every pair once: (smaller task, larger task, weight).
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        (0..self.tasks()).flat_map(move |a| self.row(a).filter(move |&(b, _)| a < b).map(move |(b, w)| (a, b, w)))
    }

    /// Whether no sum of two directions was too large to be kept.
    pub fn is_exact(&self) -> bool {
        self.weights.iter().all(|&weight| weight < u64::MAX)
    }

    /// The sum over the pairs.
    pub fn total(&self) -> u128 {
        self.weights.iter().map(|&weight| u128::from(weight)).sum::<u128>() / 2
    }

    /// By how many bits weights must be shifted right so that their sum times `factor` stays below 2^`bits`.
    pub fn shift(&self, factor: u64, bits: u32) -> u32 {
        let sum = self.total().saturating_mul(u128::from(factor.max(1)));
        (u128::BITS - sum.leading_zeros()).saturating_sub(bits)
    }
}

/// Shifts a weight right, keeping what is not zero from becoming zero.
pub fn scaled(weight: u64, shift: u32) -> u64 {
    weight.checked_shr(shift).unwrap_or(0).max(u64::from(weight != 0))
}

/// The columns of a matrix as rows.
struct Transposed {
    starts: Vec<usize>,
    entries: Vec<(u32, u64)>,
}

impl Transposed {
    fn new(matrix: &Matrix) -> Self {
        let mut starts = vec![0; matrix.tasks() + 2];
        for (_, destination, _) in matrix.iter() {
            starts[destination as usize + 2] += 1;
        }
        for row in 2..starts.len() {
            starts[row] += starts[row - 1];
        }
        let mut entries = vec![(0, 0); matrix.entries()];
        for (source, destination, value) in matrix.iter() {
            let at = &mut starts[destination as usize + 1];
            entries[*at] = (source, value);
            *at += 1;
        }
        Self { starts, entries }
    }

    fn row(&self, row: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.entries[self.starts[row]..self.starts[row + 1]].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_are_scaled_without_vanishing() {
        let graph = Graph::new(&Matrix::from_triplets(3, [(0, 1, u64::MAX), (1, 0, 9), (1, 2, 3)]));
        assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 1, u64::MAX), (1, 2, 3)]);
        assert_eq!(graph.total(), u128::from(u64::MAX) + 3);
        let shift = graph.shift(100, 62);
        assert!((u64::MAX >> shift) as u128 * 100 < 1 << 62, "{shift}");
        assert_eq!((scaled(3, shift), scaled(0, shift), scaled(5, 200)), (1, 0, 1));
    }

    proptest! {
        #[test]
        fn groups_have_the_sums_of_their_tasks(
            entries in prop::collection::vec((0_u32..9, 0_u32..9, 0_u64..100), 0..60),
            group_of in prop::collection::vec(0_u32..4, 9),
        ) {
            let entries_of_groups = entries.iter().map(|&(a, b, weight)| (group_of[a as usize], group_of[b as usize], weight));
            let expected = Graph::new(&Matrix::from_triplets(4, entries_of_groups));
            prop_assert_eq!(Graph::new(&Matrix::from_triplets(9, entries)).of_groups(&group_of, 4), expected);
        }

        #[test]
        fn it_equals_the_graph_of_the_model(entries in prop::collection::vec((0_u32..9, 0_u32..9, any::<u64>()), 0..60)) {
            let matrix = Matrix::from_triplets(9, entries);
            let graph = Graph::new(&matrix);
            let rows: Vec<Vec<(u32, u64)>> =
                (0..9).map(|task| graph.row(task).map(|(other, weight)| (other as u32, weight)).collect()).collect();
            prop_assert_eq!(rows, matrix.symmetric());
        }
    }
}
