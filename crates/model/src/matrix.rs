//! Square matrices of counts between tasks, kept sparse: `[source][destination]`.

use std::collections::BTreeMap;

/// A square matrix of unsigned counts in compressed rows, shape `[tasks][tasks]`, indexed `[source][destination]`.
///
/// Zeroes are not stored, so a ring of 4,096 tasks costs 8,192 entries and not 16 million. Columns ascend in each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    row_starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<u64>,
}

impl Matrix {
    /// The matrix of `tasks` x `tasks` zeroes.
    pub fn zero(tasks: usize) -> Self {
        Self { row_starts: vec![0; tasks + 1], columns: Vec::new(), values: Vec::new() }
    }

    /// From (source, destination, value) in any order; values of the same pair are added, saturating at `u64::MAX`.
    ///
    /// # Panics
    /// If an index is not below `tasks`: what reads files checks that first.
    pub fn from_triplets(tasks: usize, triplets: impl IntoIterator<Item = (u32, u32, u64)>) -> Self {
        let mut entries: Vec<(u32, u32, u64)> = triplets.into_iter().filter(|entry| entry.2 != 0).collect();
        entries.sort_unstable_by_key(|&(source, destination, _)| (source, destination));
        let mut matrix = Self { row_starts: vec![0; tasks + 1], columns: Vec::new(), values: Vec::new() };
        let mut previous = None;
        for (source, destination, value) in entries {
            assert!((source as usize) < tasks && (destination as usize) < tasks, "task index out of range");
            if previous == Some((source, destination)) {
                let last = matrix.values.last_mut().expect("the previous entry was pushed");
                *last = last.saturating_add(value);
            } else {
                matrix.columns.push(destination);
                matrix.values.push(value);
                matrix.row_starts[source as usize + 1] = matrix.columns.len();
                previous = Some((source, destination));
            }
        }
        for row in 1..=tasks {
            matrix.row_starts[row] = matrix.row_starts[row].max(matrix.row_starts[row - 1]);
        }
        matrix
    }

    /// From `tasks` * `tasks` values, row by row.
    ///
    /// # Panics
    /// If the number of values is not the square of `tasks`.
    pub fn from_dense(tasks: usize, values: &[u64]) -> Self {
        assert_eq!(values.len(), tasks * tasks, "a dense matrix has tasks * tasks values");
        let cell = |(index, &value): (usize, &u64)| ((index / tasks) as u32, (index % tasks) as u32, value);
        Self::from_triplets(tasks, values.iter().enumerate().map(cell))
    }

    /// All `tasks` * `tasks` values, row by row.
    pub fn to_dense(&self) -> Vec<u64> {
        let tasks = self.tasks();
        let mut dense = vec![0; tasks * tasks];
        for (source, destination, value) in self.iter() {
            dense[source as usize * tasks + destination as usize] = value;
        }
        dense
    }

    /// The number of rows, which is the number of columns.
    pub fn tasks(&self) -> usize {
        self.row_starts.len() - 1
    }

    /// The number of entries that are not zero.
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// The entries of one row that are not zero: (destination, value), destinations ascending.
    pub fn row(&self, source: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let range = self.row_starts[source]..self.row_starts[source + 1];
        self.columns[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    /// Every entry that is not zero: (source, destination, value), in row order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        (0..self.tasks()).flat_map(move |source| {
            self.row(source).map(move |(destination, value)| (source as u32, destination, value))
        })
    }

    /// One entry, zero where nothing is stored.
    pub fn get(&self, source: usize, destination: usize) -> u64 {
        let range = self.row_starts[source]..self.row_starts[source + 1];
        match self.columns[range.clone()].binary_search(&(destination as u32)) {
            Ok(at) => self.values[range.start + at],
            Err(_) => 0,
        }
    }

    /// The sum of all entries; `u128` because the entries may be near `u64::MAX`.
    pub fn total(&self) -> u128 {
        self.values.iter().map(|&value| u128::from(value)).sum()
    }

    /// The sum of all entries off the diagonal: what tasks have to do with one another.
    pub fn between(&self) -> u128 {
        self.iter().filter(|(row, column, _)| row != column).map(|(.., value)| u128::from(value)).sum()
    }

    /// The largest entry, 0 for a matrix of zeroes.
    pub fn max(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or(0)
    }

    /// The undirected graph of the matrix: for each task its neighbours and the sum of both directions (saturating),
    /// without the diagonal, neighbours ascending. What mappers work on, since distances are symmetric.
    pub fn symmetric(&self) -> Vec<Vec<(u32, u64)>> {
        let mut graph: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); self.tasks()];
        for (source, destination, value) in self.iter().filter(|(source, destination, _)| source != destination) {
            for (from, to) in [(source, destination), (destination, source)] {
                let sum = graph[from as usize].entry(to).or_insert(0);
                *sum = sum.saturating_add(value);
            }
        }
        graph.into_iter().map(|neighbours| neighbours.into_iter().collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Matrix;

    #[test]
    fn triplets_of_one_pair_are_added() {
        let matrix = Matrix::from_triplets(3, [(2, 0, 1), (0, 1, 5), (2, 0, 7), (1, 1, 0)]);
        assert_eq!(matrix.to_dense(), [0, 5, 0, 0, 0, 0, 8, 0, 0]);
        assert_eq!((matrix.entries(), matrix.total(), matrix.max()), (2, 13, 8));
        assert_eq!((matrix.get(2, 0), matrix.get(0, 2)), (8, 0));
        assert_eq!(Matrix::from_dense(3, &matrix.to_dense()), matrix);
    }

    #[test]
    fn sums_saturate_instead_of_wrapping() {
        let matrix = Matrix::from_triplets(2, [(0, 1, u64::MAX), (0, 1, 9), (1, 0, 1)]);
        assert_eq!(matrix.get(0, 1), u64::MAX);
        assert_eq!(matrix.symmetric()[0], [(1, u64::MAX)]);
        assert_eq!(matrix.total(), u128::from(u64::MAX) + 1);
    }

    #[test]
    fn the_graph_leaves_out_the_diagonal() {
        let matrix = Matrix::from_triplets(2, [(0, 0, 4), (0, 1, 2), (1, 0, 3)]);
        assert_eq!(matrix.symmetric(), [vec![(1, 5)], vec![(0, 5)]]);
    }
}
