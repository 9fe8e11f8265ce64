//! Finding out that tasks communicate on a grid: a Cartesian product of paths and rings, as stencils do on regular
//! domains.
//!
//! Two neighbours of a task lie on different axes of a product exactly where they close a square with a fourth task,
//! and opposite sides of a square are on one axis; what these two rules join are the axes (the product relation of
//! Feder, "Product graph representations", 1992). Taking the edges of an axis away leaves its layers, whose order along
//! the axis is the coordinate. What is found is checked edge by edge, so that it is a grid and nothing else.

use crate::graph::Graph;

/// More axes than this are not looked for.
pub const MOST_AXES: usize = 6;

/// A complete grid, some or all of the tasks' edges on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Number of layers along each axis, all at least 2.
    pub sides: Vec<usize>,
    /// For each axis and layer the weight between it and the next, behind the last that of the way around: 0 where
    /// there is none.
    pub cut: Vec<Vec<u128>>,
    /// Coordinates, `[task][axis]`.
    at: Vec<u32>,
}

/// How often the weak edges are left away in search of a grid that only the strong ones make.
const THRESHOLDS: usize = 3;

/// Two weights that follow one another differ by this factor for the heavier to be strong and the lighter weak.
const GAP: u64 = 2;

impl Grid {
    /// The grid that all edges make, or else all that are clearly heavier than the others.
    pub fn of(graph: &Graph) -> Option<Self> {
        if graph.tasks() < 4 {
            return None;
        }
        Self::of_edges_from(graph, 1)
            .or_else(|| thresholds(graph).into_iter().find_map(|least| Self::of_edges_from(graph, least)))
    }

    /// The coordinates of a task, one for each axis.
    pub fn coordinates(&self, task: usize) -> &[u32] {
        &self.at[task * self.sides.len()..(task + 1) * self.sides.len()]
    }

    /// The grid that the edges of at least some weight make.
    fn of_edges_from(graph: &Graph, least: u64) -> Option<Self> {
        let strong = Strong::new(graph, least)?;
        let axis = strong.axes()?;
        let axes = axis.iter().max()? + 1;
        let count = graph.tasks();
        let mut grid = Self { sides: Vec::new(), cut: Vec::new(), at: vec![0; count * axes] };
        for own in 0..axes {
            let layer = strong.layers(&axis, own)?;
            grid.sides.push(layer.iter().max().map_or(0, |&last| last as usize + 1));
            layer.iter().enumerate().for_each(|(task, &layer)| grid.at[task * axes + own] = layer);
        }
        (grid.is_complete(&strong, &axis)).then(|| grid.with_cuts(graph))
    }

    /// Whether every place is taken once, every edge is a step along its axis, and no step has no edge.
    fn is_complete(&self, strong: &Strong, axis: &[usize]) -> bool {
        let count = strong.starts.len() - 1;
        if self.sides.iter().try_fold(1_usize, |product, &side| product.checked_mul(side)) != Some(count) {
            return false;
        }
        let mut taken = vec![false; count];
        let mut around = vec![0; self.sides.len()];
        let mut along = vec![0; self.sides.len()];
        for task in 0..count {
            let place =
                self.coordinates(task).iter().zip(&self.sides).fold(0, |at, (&c, &side)| at * side + c as usize);
            if std::mem::replace(&mut taken[place], true) {
                return false;
            }
            for (&other, &edge) in strong.row(task).iter().zip(strong.edges_of(task)) {
                let own = axis[edge as usize];
                let (here, there) = (self.coordinates(task), self.coordinates(other as usize));
                let elsewhere = (0..self.sides.len()).any(|other| other != own && here[other] != there[other]);
                let step = here[own].abs_diff(there[own]) as usize;
                match step {
                    _ if elsewhere => return false,
                    1 => along[own] += 1,
                    _ if step + 1 == self.sides[own] => around[own] += 1,
                    _ => return false,
                }
            }
        }
        // Every edge was seen from both ends.
        let is_whole = |axis: usize| {
            let lines = count / self.sides[axis];
            along[axis] == 2 * lines * (self.sides[axis] - 1) && (around[axis] == 0 || around[axis] == 2 * lines)
        };
        (0..self.sides.len()).all(is_whole)
    }

    /// Adds the weight between layers: that of every edge, weak or strong, is put on each axis along which it goes.
    fn with_cuts(mut self, graph: &Graph) -> Self {
        self.cut = self.sides.iter().map(|&side| vec![0; side]).collect();
        for (a, b, weight) in graph.edges() {
            for axis in 0..self.sides.len() {
                let (from, to) = (self.coordinates(a)[axis] as usize, self.coordinates(b)[axis] as usize);
                let (low, high) = (from.min(to), from.max(to));
                if high - low == 1 {
                    self.cut[axis][low] += u128::from(weight);
                } else if self.sides[axis] > 2 && high - low + 1 == self.sides[axis] {
                    self.cut[axis][high] += u128::from(weight);
                }
            }
        }
        self
    }
}

/// The weights above the widest gaps between weights that follow one another, the widest first.
fn thresholds(graph: &Graph) -> Vec<u64> {
    let mut weights: Vec<u64> = graph.edges().map(|edge| edge.2).collect();
    weights.sort_unstable();
    weights.dedup();
    let mut gaps: Vec<(f64, u64)> = weights
        .windows(2)
        .filter(|pair| pair[1] / GAP >= pair[0])
        .map(|pair| (pair[1] as f64 / pair[0] as f64, pair[1]))
        .collect();
    gaps.sort_by(|a, b| b.0.total_cmp(&a.0));
    gaps.into_iter().take(THRESHOLDS).map(|gap| gap.1).collect()
}

/// The strong edges, in rows, each with a number.
struct Strong {
    starts: Vec<usize>,
    neighbours: Vec<u32>,
    edges: Vec<u32>,
    count: usize,
}

impl Strong {
    /// None where a task has none, or more than a grid's.
    fn new(graph: &Graph, least: u64) -> Option<Self> {
        let tasks = graph.tasks();
        let mut strong = Self { starts: vec![0], neighbours: Vec::new(), edges: Vec::new(), count: 0 };
        for task in 0..tasks {
            for (other, _) in graph.row(task).filter(|arc| arc.1 >= least) {
                let edge = if other > task {
                    strong.count += 1;
                    strong.count as u32 - 1
                } else {
                    let at = strong.row(other).binary_search(&(task as u32)).ok()?;
                    strong.edges_of(other)[at]
                };
                strong.neighbours.push(other as u32);
                strong.edges.push(edge);
            }
            strong.starts.push(strong.neighbours.len());
            let degree = strong.row(task).len();
            if degree == 0 || degree > 2 * MOST_AXES {
                return None;
            }
        }
        Some(strong)
    }

    fn row(&self, task: usize) -> &[u32] {
        &self.neighbours[self.starts[task]..self.starts[task + 1]]
    }

    fn edges_of(&self, task: usize) -> &[u32] {
        &self.edges[self.starts[task]..self.starts[task + 1]]
    }

    /// The number of the edge between two tasks.
    fn edge(&self, a: u32, b: u32) -> Option<u32> {
        let at = self.row(a as usize).binary_search(&b).ok()?;
        Some(self.edges_of(a as usize)[at])
    }

    /// The axis of each edge; none where there would be too many, or two tasks have more common neighbours than in a
    /// grid.
    fn axes(&self) -> Option<Vec<usize>> {
        let mut joined = Sets::new(self.count);
        for task in 0..self.starts.len() - 1 {
            let row = self.row(task);
            for (at, &a) in row.iter().enumerate() {
                for &b in &row[at + 1..] {
                    let (to_a, to_b) = (self.edge(task as u32, a)?, self.edge(task as u32, b)?);
                    let mut fourth = None;
                    for &other in self.row(a as usize) {
                        if other as usize != task && self.row(b as usize).binary_search(&other).is_ok() {
                            if fourth.is_some() {
                                return None;
                            }
                            fourth = Some(other);
                        }
                    }
                    match fourth {
                        Some(fourth) if self.edge(a, b).is_none() => {
                            joined.join(to_a, self.edge(b, fourth)?);
                            joined.join(to_b, self.edge(a, fourth)?);
                        }
                        _ => joined.join(to_a, to_b),
                    }
                }
            }
        }
        let (sets, axis) = joined.numbered();
        (sets <= MOST_AXES).then_some(axis)
    }

    /// The layer of each task along an axis; none where the layers are no path and no ring.
    fn layers(&self, axis: &[usize], own: usize) -> Option<Vec<u32>> {
        let tasks = self.starts.len() - 1;
        let mut sets = Sets::new(tasks);
        for task in 0..tasks {
            for (&other, &edge) in self.row(task).iter().zip(self.edges_of(task)) {
                if axis[edge as usize] != own {
                    sets.join(task as u32, other);
                }
            }
        }
        let (layers, layer_of) = sets.numbered();
        let mut beside = vec![[usize::MAX; 2]; layers];
        for task in 0..tasks {
            for (&other, &edge) in self.row(task).iter().zip(self.edges_of(task)) {
                let (here, there) = (layer_of[task], layer_of[other as usize]);
                if axis[edge as usize] != own || beside[here].contains(&there) {
                    continue;
                }
                let free = beside[here].iter_mut().find(|place| **place == usize::MAX)?;
                *free = there;
            }
        }
        let end = beside.iter().position(|beside| beside[1] == usize::MAX).unwrap_or(0);
        let mut order = vec![u32::MAX; layers];
        let (mut at, mut rank) = (end, 0);
        loop {
            order[at] = rank;
            rank += 1;
            match beside[at].iter().find(|&&next| next != usize::MAX && order[next] == u32::MAX) {
                Some(&next) => at = next,
                None => break,
            }
        }
        (rank as usize == layers).then(|| layer_of.iter().map(|&layer| order[layer]).collect())
    }
}

/// Disjoint sets.
struct Sets {
    parent: Vec<u32>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self { parent: (0..count as u32).collect() }
    }

    fn find(&mut self, mut of: u32) -> u32 {
        while self.parent[of as usize] != of {
            self.parent[of as usize] = self.parent[self.parent[of as usize] as usize];
            of = self.parent[of as usize];
        }
        of
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }

    /// The number of sets, and for each member the number of its set, from 0.
    fn numbered(mut self) -> (usize, Vec<usize>) {
        let mut number = vec![usize::MAX; self.parent.len()];
        let mut next = 0;
        let of = (0..self.parent.len())
            .map(|member| {
                let root = self.find(member as u32) as usize;
                if number[root] == usize::MAX {
                    number[root] = next;
                    next += 1;
                }
                number[root]
            })
            .collect();
        (next, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use cohabit_model::Matrix;
    use proptest::prelude::*;

    /// A grid of these sides, rings where asked for, labels shuffled; with random weights, and some noise of weight 1.
    fn drawn(sides: &[usize], rings: &[bool], noise: usize, seed: u64) -> Matrix {
        let mut random = Random::new(seed);
        let count: usize = sides.iter().product();
        let mut label: Vec<u32> = (0..count as u32).collect();
        random.shuffle(&mut label);
        let mut entries = Vec::new();
        for cell in 0..count {
            let mut stride = 1;
            for (&side, &ring) in sides.iter().zip(rings) {
                let at = cell / stride % side;
                let weight = 50 + random.below(20) as u64;
                if at + 1 < side {
                    entries.push((label[cell], label[cell + stride], weight));
                } else if ring && side > 2 {
                    entries.push((label[cell], label[cell - at * stride], weight));
                }
                stride *= side;
            }
        }
        for _ in 0..noise {
            entries.push((random.below(count) as u32, random.below(count) as u32, 1));
        }
        Matrix::from_triplets(count, entries)
    }

    /// The sides of what is found; a ring of four is two times two.
    fn sides(matrix: &Matrix) -> Option<Vec<usize>> {
        let mut sides = Grid::of(&Graph::new(matrix))?.sides;
        sides.sort_unstable();
        Some(sides)
    }

    #[test]
    fn grids_and_rings_are_found_whatever_the_labels() {
        let cases: [(&[usize], &[bool], &[usize]); 9] = [
            (&[9], &[false], &[9]),
            (&[9], &[true], &[9]),
            (&[5, 7], &[false, false], &[5, 7]),
            (&[5, 7], &[true, false], &[5, 7]),
            (&[3, 3, 3], &[true, true, false], &[3, 3, 3]),
            (&[4, 6], &[true, true], &[2, 2, 6]),
            (&[2, 2, 2], &[false; 3], &[2, 2, 2]),
            (&[8, 4, 16], &[false; 3], &[4, 8, 16]),
            (&[3, 4, 5, 2], &[false; 4], &[2, 3, 4, 5]),
        ];
        for (at, (shape, rings, expected)) in cases.into_iter().enumerate() {
            for noise in [0, 20] {
                assert_eq!(sides(&drawn(shape, rings, noise, at as u64)).as_deref(), Some(expected), "{shape:?}");
            }
        }
    }

    #[test]
    fn what_is_nearly_a_grid_is_none() {
        let whole = drawn(&[4, 5], &[false, false], 0, 3);
        let all: Vec<_> = whole.iter().collect();
        for missing in 0..all.len() {
            let rest = all.iter().enumerate().filter(|&(at, _)| at != missing).map(|(_, &entry)| entry);
            assert_eq!(Grid::of(&Graph::new(&Matrix::from_triplets(20, rest))), None);
        }
        let star = (1..9).map(|other| (0, other, 5));
        assert_eq!(Grid::of(&Graph::new(&Matrix::from_triplets(9, star))), None);
        let everybody = (0..6).flat_map(|a| (0..a).map(move |b| (a, b, 5)));
        assert_eq!(Grid::of(&Graph::new(&Matrix::from_triplets(6, everybody))), None);
    }

    #[test]
    fn the_weight_between_layers_is_that_of_the_edges_across() {
        let matrix = drawn(&[3, 4], &[true, false], 0, 7);
        let graph = Graph::new(&matrix);
        let grid = Grid::of(&graph).unwrap();
        let all: u128 = grid.cut.iter().flatten().sum();
        assert_eq!(all, graph.total());
        let long = grid.sides.iter().position(|&side| side == 4).unwrap();
        assert_eq!((grid.cut[long][3], grid.cut[1 - long].iter().filter(|&&cut| cut > 0).count()), (0, 3));
    }

    proptest! {
        #[test]
        fn any_graph_is_looked_at_without_harm(entries in prop::collection::vec((0_u32..12, 0_u32..12, 0_u64..4), 0..40)) {
            let graph = Graph::new(&Matrix::from_triplets(12, entries));
            if let Some(grid) = Grid::of(&graph) {
                prop_assert_eq!(grid.sides.iter().product::<usize>(), 12);
            }
        }
    }
}
