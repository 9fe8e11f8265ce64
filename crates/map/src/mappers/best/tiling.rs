//! Tasks that communicate on a grid, laid over the tree in boxes: at each level the box of a subtree is cut into as
//! many equal boxes as the subtree has children. Of all cuts_seen to do that the one with the least J is taken, where
//! the tree is uniform and the sides can be divided so.

use crate::grid::Grid;
use crate::levels::Levels;

/// The slot of each task, of up to so many Ways to cut; none where no way of cutting fits.
pub fn tile(grid: &Grid, levels: &Levels, slots: usize, most: usize) -> Option<Vec<usize>> {
    let arities = arities(levels, slots)?;
    let mut search =
        Search { grid, levels, arities: &arities, most, cuts_seen: 0, cuts: Vec::new(), best: (u128::MAX, Vec::new()) };
    search.cut(&grid.sides, 0);
    let (cost, boxes) = search.best;
    (cost < u128::MAX).then(|| (0..slots).map(|task| slot(grid, &boxes, task)).collect())
}

/// The number of children at each level, where all nodes of a level have the same.
fn arities(levels: &Levels, slots: usize) -> Option<Vec<usize>> {
    let mut above = slots;
    let mut arities = Vec::with_capacity(levels.depth());
    for groups in &levels.groups {
        let size = groups[0].len();
        if above % size != 0 || groups.iter().any(|group| group.len() != size) {
            return None;
        }
        arities.push(above / size);
        above = size;
    }
    Some(arities)
}

struct Search<'a> {
    grid: &'a Grid,
    levels: &'a Levels,
    arities: &'a [usize],
    /// Ways to cut that are looked at, at most, and so far.
    most: usize,
    cuts_seen: usize,
    /// The boxes of the levels above.
    cuts: Vec<Vec<usize>>,
    best: (u128, Vec<Vec<usize>>),
}

impl Search<'_> {
    /// Tries all Ways to cut a box from a level on.
    fn cut(&mut self, whole: &[usize], level: usize) {
        if self.cuts_seen >= self.most {
            return;
        }
        let Some(&arity) = self.arities.get(level) else {
            self.cuts_seen += 1;
            let cost = self.cost();
            if cost < self.best.0 {
                self.best = (cost, self.cuts.clone());
            }
            return;
        };
        let mut parts = Vec::new();
        self.cut_axes(whole, level, arity, &mut parts);
    }

    /// Cuts the first axes into `parts`, and the others so that all together are `left` times as many.
    fn cut_axes(&mut self, whole: &[usize], level: usize, left: usize, parts: &mut Vec<usize>) {
        let axis = parts.len();
        if axis == whole.len() {
            if left == 1 {
                let small: Vec<usize> = whole.iter().zip(parts.iter()).map(|(side, count)| side / count).collect();
                self.cuts.push(small.clone());
                self.cut(&small, level + 1);
                self.cuts.pop();
            }
            return;
        }
        for count in (1..=left).filter(|count| left % count == 0 && whole[axis] % count == 0) {
            parts.push(count);
            self.cut_axes(whole, level, left / count, parts);
            parts.pop();
        }
    }

    /// J of the boxes as they are: what is cut at each level, times what it is further than at the next.
    fn cost(&self) -> u128 {
        let next = self.levels.distance.iter().skip(1).copied().chain([0]);
        let steps = self.levels.distance.iter().zip(next).map(|(&own, next)| u128::from(own - next));
        let cut = |small: &Vec<usize>| {
            let axes = small.iter().zip(&self.grid.sides).zip(&self.grid.cut);
            let across = axes.filter(|((small, side), _)| small != side).map(|((&small, &side), cut)| {
                (1..=side / small).map(|boundary| cut[boundary * small - 1]).sum::<u128>()
            });
            across.sum::<u128>()
        };
        steps.zip(&self.cuts).map(|(step, small)| step.saturating_mul(cut(small))).sum()
    }
}

/// The slot of a task when the boxes of the levels are these.
fn slot(grid: &Grid, boxes: &[Vec<usize>], task: usize) -> usize {
    let mut whole = &grid.sides;
    let mut slot = 0;
    for small in boxes {
        for (axis, &at) in grid.coordinates(task).iter().enumerate() {
            slot = slot * (whole[axis] / small[axis]) + at as usize % whole[axis] / small[axis];
        }
        whole = small;
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::slots::Slots;
    use crate::testing::{problem, slow_cost, tree};
    use crate::{Options, Problem};
    use cohabit_model::Matrix;

    fn levels(problem: &Problem) -> (Levels, usize) {
        let slots = Slots::new(problem).unwrap();
        (Levels::new(problem.topology, &slots).unwrap(), slots.len())
    }

    /// A grid of two axes, an edge of the first weighs `x`, of the second `y`.
    fn grid(a: u32, b: u32, x: u64, y: u64) -> Matrix {
        let along = (0..a * b).filter(|cell| cell % a + 1 < a).map(|cell| (cell, cell + 1, x));
        let across = (0..a * (b - 1)).map(|cell| (cell, cell + a, y));
        Matrix::from_triplets((a * b) as usize, along.chain(across))
    }

    #[test]
    fn boxes_follow_the_weights_of_the_axes() {
        let (topology, options) = (tree(&[4, 4, 4], &[100, 10, 1]), Options::default());
        let cases = [
            // Squares of 16, then of 4: 16 edges, 4 times 8, 16 times 4.
            (grid(8, 8, 1, 1), 16 * 100 + 32 * 10 + 64),
            // Lines of the heavy axis stay whole at first, are halved then, and lie in cores as threes of edges.
            (grid(8, 8, 1000, 1), 24 * 100 + 4 * (8 + 2_000) * 10 + 16 * 3 * 1_000),
            // A ring is cut on both sides.
            (ring(64), 4 * 100 + 12 * 10 + 48),
        ];
        for (weight, expected) in cases {
            let problem = problem(&weight, &topology, &options);
            let (levels, slots) = levels(&problem);
            let grid = Grid::of(&Graph::new(&weight)).unwrap();
            let placement = tile(&grid, &levels, slots, 1_000).unwrap();
            let mut taken = placement.clone();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..64));
            assert_eq!(slow_cost(&weight, &topology, &placement), expected);
        }
    }

    #[test]
    fn sides_that_do_not_divide_are_left_to_the_search() {
        let (topology, options) = (tree(&[2, 2, 4], &[100, 10, 1]), Options::default());
        let weight = grid(3, 5, 1, 1);
        let problem = problem(&weight, &topology, &options);
        let (levels, slots) = levels(&problem);
        assert_eq!(tile(&Grid::of(&Graph::new(&weight)).unwrap(), &levels, slots, 1_000), None);
    }

    fn ring(count: u32) -> Matrix {
        Matrix::from_triplets(count as usize, (0..count).map(|cell| (cell, (cell + 1) % count, 1)))
    }
}
