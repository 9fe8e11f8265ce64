//! A lower bound of J: no mapping costs less, whatever the mapper.
//!
//! On a tree J telescopes over levels, so a bound of the weight cut at each level is one of J. Two are made for each
//! and the greater counts. A task in a group of s slots keeps at most its s - 1 heaviest edges inside. And the cut into
//! parts of sizes s1 >= s2 >= ... is at least half the sum of s_i * lambda_i, where lambda are the eigenvalues of the
//! graph's Laplacian from the smallest up (Donath and Hoffman, 1973); it is computed for up to [`MOST_SPECTRAL`] slots.
//! For other distances every task's heaviest partners are taken to be on the nearest slots.

mod eigen;

use crate::Problem;
use crate::graph::Graph;
use crate::levels::Levels;
use crate::load::Balance;
use crate::slots::Slots;
use cohabit_model::Result;
use std::ops::Range;

/// The eigenvalues of larger graphs are not computed: that takes time cubic in the slots.
pub const MOST_SPECTRAL: usize = 256;

/// A number that J is not below for any mapping of the problem.
///
/// # Errors
/// As the mappers: where no PU is left to use, or a pin is impossible.
pub fn lower_bound(problem: &Problem) -> Result<u128> {
    let slots = Slots::new(problem)?;
    if slots.len() < 2 || Balance::new(problem)?.is_some() {
        return Ok(0);
    }
    let graph = Graph::new(problem.weight);
    Ok(match Levels::new(problem.topology, &slots) {
        Some(levels) => of_levels(&graph, &levels, slots.len()),
        None => of_distances(&graph, problem, &slots),
    })
}

fn of_levels(graph: &Graph, levels: &Levels, slots: usize) -> u128 {
    let heaviest: Vec<Vec<u64>> = (0..graph.tasks()).map(|task| falling(graph, task)).collect();
    let eigenvalues = if slots <= MOST_SPECTRAL { eigen::laplacian(graph, slots) } else { Vec::new() };
    let mut bound = 0_u128;
    for (level, groups) in levels.groups.iter().enumerate() {
        let below = levels.distance.get(level + 1).copied().unwrap_or(0);
        let step = u128::from(levels.distance[level] - below);
        let cut = outside_heaviest(&heaviest, groups).max(spectral(&eigenvalues, groups));
        bound = bound.saturating_add(step.saturating_mul(cut));
    }
    bound
}

/// The weights of a task's edges, heaviest first.
fn falling(graph: &Graph, task: usize) -> Vec<u64> {
    let mut weights: Vec<u64> = graph.row(task).map(|(_, weight)| weight).collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    weights
}

/// The weight that is cut at least because a group holds only so many partners.
fn outside_heaviest(heaviest: &[Vec<u64>], groups: &[Range<usize>]) -> u128 {
    let largest = groups.iter().map(ExactSizeIterator::len).max().unwrap_or(1);
    let outside = |weights: &Vec<u64>| weights.iter().skip(largest - 1).map(|&weight| u128::from(weight)).sum::<u128>();
    heaviest.iter().map(outside).sum::<u128>().div_ceil(2)
}

/// Donath and Hoffman's bound, rounded down.
fn spectral(eigenvalues: &[f64], groups: &[Range<usize>]) -> u128 {
    let mut sizes: Vec<usize> = groups.iter().map(ExactSizeIterator::len).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let sum: f64 = sizes.iter().zip(eigenvalues).map(|(&size, &value)| size as f64 * value.max(0.0)).sum();
    // The rounding of the sum is far below this part of it.
    (sum * 0.5 * (1.0 - 1e-9)).max(0.0).floor() as u128
}

fn of_distances(graph: &Graph, problem: &Problem, slots: &Slots) -> u128 {
    let near = |slot: usize| {
        let others = (0..slots.len()).filter(|&other| other != slot);
        let mut near: Vec<u64> = others.map(|other| least_distance(problem, slots.pu[slot], slots.pu[other])).collect();
        near.sort_unstable();
        near
    };
    let nearest: Vec<Vec<u64>> = (0..slots.len()).map(near).collect();
    let least = |task: usize| {
        let weights = falling(graph, task);
        let pay = |near: &Vec<u64>| {
            let products = weights.iter().zip(near).map(|(&weight, &near)| u128::from(weight) * u128::from(near));
            products.fold(0, u128::saturating_add)
        };
        nearest.iter().map(pay).min().unwrap_or(0)
    };
    (0..graph.tasks()).map(least).fold(0, u128::saturating_add).div_ceil(2)
}

/// The lesser of the distances there and back: matrices need not be symmetric.
fn least_distance(problem: &Problem, a: usize, b: usize) -> u64 {
    problem.topology.distance(a, b).min(problem.topology.distance(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{problem, tree};
    use crate::{Options, mapper};
    use cohabit_model::{Matrix, cost};

    #[test]
    fn it_is_half_of_the_best_on_a_stencil() {
        let topology = tree(&[4, 8, 2], &[100, 10, 1]);
        let right = (0..64_u32).filter(|cell| cell % 8 < 7).map(|cell| (cell, cell + 1, 1));
        let down = (0..56_u32).map(|cell| (cell, cell + 8, 1));
        let (weight, options) = (Matrix::from_triplets(64, right.chain(down)), Options::default());
        let problem = problem(&weight, &topology, &options);
        let found = mapper("best").unwrap().map(&problem).unwrap();
        let found = cost::distance_cost(&weight, &topology, &found);
        let bound = lower_bound(&problem).unwrap();
        assert_eq!(found, 2_272);
        assert!(bound <= found && 2 * bound >= found, "{bound} {found}");
    }
}
