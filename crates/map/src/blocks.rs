//! Finding out that tasks form blocks: groups of equally many that communicate with each other and hardly with others,
//! as the threads of ranks do, or the ranks of nodes.
//!
//! Tasks are merged along edges of falling weight (single linkage) into groups of up to a size. Where all groups end
//! with just that size, with most of the weight in them, and every task communicates more in its group than out of it,
//! they are blocks.

use crate::graph::Graph;
use std::cmp::Reverse;

/// Tasks in blocks of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// Tasks in a block.
    pub size: usize,
    /// Block of each task; blocks are numbered by their first tasks.
    pub of: Vec<u32>,
}

/// So many times the weight between blocks is within them, at least.
const WITHIN: u128 = 4;

/// Weight, and the two tasks.
type Edge = (u64, u32, u32);

impl Blocks {
    /// The blocks of the least size that `fits`.
    pub fn of(graph: &Graph, fits: impl Fn(usize) -> bool) -> Option<Self> {
        let count = graph.tasks();
        let mut sizes = (2..=count / 2).filter(|&size| count % size == 0 && fits(size)).peekable();
        sizes.peek()?;
        let mut edges: Vec<Edge> = graph.edges().map(|(a, b, weight)| (weight, a as u32, b as u32)).collect();
        edges.sort_unstable_by_key(|&(weight, a, b)| (Reverse(weight), a, b));
        let most_between = graph.total() / (WITHIN + 1);
        sizes.find_map(|size| Self::of_size(count, &edges, size, most_between).filter(|blocks| blocks.hold_all(graph)))
    }

    /// The blocks of a size that edges make, the heaviest first, with at most so much weight between.
    fn of_size(count: usize, edges: &[Edge], size: usize, most_between: u128) -> Option<Self> {
        let mut groups = Groups::new(count);
        let mut between = 0;
        for &(weight, a, b) in edges {
            let (a, b) = (groups.first_of(a), groups.first_of(b));
            if a == b {
                continue;
            }
            if groups.tasks[a as usize] + groups.tasks[b as usize] <= size as u32 {
                groups.merge(a, b);
                continue;
            }
            // They will not become smaller, nor one.
            between += u128::from(weight);
            if between > most_between {
                return None;
            }
        }
        groups.finish(size)
    }

    /// Whether every task communicates more in its block than out of it, and all but one of each block much more. In a
    /// graph without blocks groups of one size may come about as well, but some tasks at their borders then communicate
    /// with both sides alike.
    fn hold_all(&self, graph: &Graph) -> bool {
        let mut go_between = vec![false; self.count()];
        self.of.iter().enumerate().all(|(task, &block)| {
            let (mut inside, mut outside) = (0, 0);
            for (other, weight) in graph.row(task) {
                let is_inside = self.of[other] == block;
                *(if is_inside { &mut inside } else { &mut outside }) += u128::from(weight);
            }
            let is_held = inside > WITHIN * outside;
            inside > outside && (is_held || !std::mem::replace(&mut go_between[block as usize], true))
        })
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.of.len() / self.size
    }
}

/// Groups of tasks that grow (union by the lower number, with path halving).
struct Groups {
    /// For each task a lower one of its group, or itself where there is none.
    lower: Vec<u32>,
    /// The number of tasks of the group of each first one.
    tasks: Vec<u32>,
}

impl Groups {
    fn new(count: usize) -> Self {
        Self { lower: (0..count as u32).collect(), tasks: vec![1; count] }
    }

    /// The first task of a task's group.
    fn first_of(&mut self, mut task: u32) -> u32 {
        while self.lower[task as usize] != task {
            let lower = self.lower[self.lower[task as usize] as usize];
            self.lower[task as usize] = lower;
            task = lower;
        }
        task
    }

    /// Makes one of two groups, given their first tasks.
    fn merge(&mut self, a: u32, b: u32) {
        let (first, other) = (a.min(b), a.max(b));
        self.lower[other as usize] = first;
        self.tasks[first as usize] += self.tasks[other as usize];
    }

    /// The groups as blocks, if all are of the size.
    fn finish(mut self, size: usize) -> Option<Blocks> {
        let mut number = vec![0; self.lower.len()];
        let mut of = Vec::with_capacity(self.lower.len());
        let mut count = 0;
        for task in 0..self.lower.len() as u32 {
            let first = self.first_of(task);
            if first == task {
                if self.tasks[task as usize] as usize != size {
                    return None;
                }
                number[task as usize] = count;
                count += 1;
            }
            of.push(number[first as usize]);
        }
        Some(Blocks { size, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::testing::in_blocks;
    use cohabit_model::Matrix;

    fn found(weight: &Matrix) -> Option<Blocks> {
        Blocks::of(&Graph::new(weight), |_| true)
    }

    #[test]
    fn blocks_are_found_whatever_the_tasks_are_called() {
        for (blocks, size) in [(2, 2), (8, 3), (6, 8), (16, 4)] {
            let mut random = Random::new(size as u64);
            let (weight, block_of) = in_blocks(blocks, size, &mut random);
            let found = found(&weight).unwrap();
            assert_eq!((found.size, found.count()), (size, blocks));
            let together = |of: &[u32], a: usize, b: usize| of[a] == of[b];
            for (a, b) in (0..blocks * size).flat_map(|a| (0..a).map(move |b| (a, b))) {
                assert_eq!(together(&found.of, a, b), together(&block_of, a, b));
            }
        }
    }

    #[test]
    fn the_least_size_that_fits_is_taken() {
        // Pairs in groups of six.
        let weight = |a: u32, b: u32| if a / 2 == b / 2 { 1_000 } else { u64::from(a / 6 == b / 6) * 10 };
        let pairs = (0..36_u32).flat_map(|a| (0..a).map(move |b| (a, b, weight(a, b) + 1)));
        let graph = Graph::new(&Matrix::from_triplets(36, pairs));
        let size = |fits: fn(usize) -> bool| Blocks::of(&graph, fits).map(|blocks| blocks.size);
        assert_eq!((size(|_| true), size(|size| size % 6 == 0), size(|_| false)), (Some(2), Some(6), None));
    }

    #[test]
    fn what_is_not_in_blocks_is_not_taken_for_it() {
        let ring = (0..24).map(|task| (task, (task + 1) % 24, 1));
        assert_eq!(found(&Matrix::from_triplets(24, ring)), None);
        // A group of eight and one of four.
        let uneven = (0..12_u32).flat_map(|a| (0..a).map(move |b| (a, b, u64::from(a / 8 == b / 8))));
        assert_eq!(found(&Matrix::from_triplets(12, uneven)), None);
        // Too much is between.
        let even = |between| {
            let weight = move |a: u32, b: u32| if a / 4 == b / 4 { 10 } else { between };
            let pairs = (0..12_u32).flat_map(move |a| (0..a).map(move |b| (a, b, weight(a, b))));
            found(&Matrix::from_triplets(12, pairs)).map(|blocks| blocks.size)
        };
        assert_eq!((even(0), even(4)), (Some(4), None));
        assert_eq!((found(&Matrix::zero(0)), found(&Matrix::zero(1)), found(&Matrix::zero(8))), (None, None, None));
    }
}
