//! The mapping of the TLB paper (section V-A): a maximum-weight perfect matching puts tasks in pairs; the matrix of
//! pairs of pairs, H, is matched again; and so on up the tree.
//!
//! The paper's arity is two. Here a group of k is made as k says in binary: two groups of half of it are matched, and
//! where k is odd one task more joins each group by an assignment of greatest weight. Where only some are to be paired,
//! as many as stay alone are matched with partners that communicate with nobody.

mod edmonds;

use crate::affinity::Affinity;
use crate::bottom_up;
use crate::load::settled;
use crate::slots::Slots;
use crate::stay::heaviest_assignment;
use crate::{Mapper, Problem};
use cohabit_model::Result;
pub use edmonds::perfect_matching;
use std::cmp::Reverse;

/// The mapper `matching`.
pub struct Matching;

/// More PUs than this are refused: the time is cubic in their number, the memory quadratic.
const MOST: usize = 1_024;

impl Mapper for Matching {
    fn name(&self) -> &'static str {
        "matching"
    }

    fn about(&self) -> &'static str {
        "Edmonds' maximum-weight perfect matching of tasks, then of pairs, up the tree"
    }

    fn source(&self) -> &'static str {
        "the TLB paper of 2012, section V-A; Edmonds 1965"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("matches tasks by weight, level by level")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let placed = bottom_up::map(problem, &slots, self.name(), MOST, &group)?;
        settled(problem, &slots, &placed)
    }
}

fn group(affinity: &Affinity, sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&at| (Reverse(sizes[at]), at));
    let mut pool: Vec<usize> = (0..affinity.len()).collect();
    let mut groups = vec![Vec::new(); sizes.len()];
    for same in order.chunk_by(|&a, &b| sizes[a] == sizes[b]) {
        let made = make(affinity, sizes[same[0]], same.len(), &mut pool);
        same.iter().zip(made).for_each(|(&at, members)| groups[at] = members);
    }
    groups
}

/// Makes `count` groups of `size` out of the pool.
fn make(affinity: &Affinity, size: usize, count: usize, pool: &mut Vec<usize>) -> Vec<Vec<usize>> {
    if size == 1 {
        return pool.drain(..count).map(|item| vec![item]).collect();
    }
    let halves: Vec<Vec<usize>> = match size / 2 {
        // All of the pool may be paired; who stays alone goes back to it.
        1 => pool.drain(..).map(|item| vec![item]).collect(),
        half => make(affinity, half, 2 * count, pool),
    };
    let mut groups = Vec::with_capacity(count);
    let mut alone = vec![true; halves.len()];
    for (a, b) in pairs(&affinity.merged(&halves), count) {
        groups.push([&halves[a][..], &halves[b][..]].concat());
        (alone[a], alone[b]) = (false, false);
    }
    pool.extend(halves.iter().zip(&alone).filter(|(_, alone)| **alone).flat_map(|(half, _)| half.iter().copied()));
    if size % 2 == 1 {
        join_one_each(affinity, &mut groups, pool);
    }
    groups
}

/// The heaviest choice of `count` pairs.
fn pairs(affinity: &Affinity, count: usize) -> Vec<(usize, usize)> {
    let items = affinity.len();
    let alone = items - 2 * count;
    let weight = |a: usize, b: usize| match (a < items, b < items) {
        (true, true) => Some(affinity.between(a, b)),
        (false, false) => None,
        _ => Some(0),
    };
    let partner = perfect_matching(items + alone, weight);
    (0..items).filter(|&item| partner[item] > item && partner[item] < items).map(|item| (item, partner[item])).collect()
}

/// One item of the pool joins each group, so that they say most to each other.
fn join_one_each(affinity: &Affinity, groups: &mut [Vec<usize>], pool: &mut Vec<usize>) {
    let says =
        |group: usize, item: usize| -> i64 { groups[group].iter().map(|&member| affinity.between(member, item)).sum() };
    let value = |row: usize, column: usize| Some(if row < groups.len() { says(row, pool[column]) } else { 0 });
    let (_, columns) = heaviest_assignment(pool.len(), value);
    for (group, &column) in groups.iter_mut().zip(&columns) {
        group.push(pool[column]);
    }
    let mut left = columns[groups.len()..].to_vec();
    left.sort_unstable();
    *pool = left.into_iter().map(|column| pool[column]).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use cohabit_model::Matrix;

    #[test]
    fn groups_have_their_sizes_and_every_item_is_in_one() {
        let edges: Vec<_> = (0..30_u32).map(|a| (a, (a * 7 + 3) % 30, 1 + u64::from(a % 5))).collect();
        let affinity = Affinity::new(&Graph::new(&Matrix::from_triplets(30, edges)), 30);
        for sizes in [vec![15, 15], vec![3; 10], vec![7, 7, 7, 9], vec![2; 15], vec![1, 5, 5, 5, 14], vec![30]] {
            let groups = group(&affinity, &sizes);
            assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
            let mut all: Vec<usize> = groups.into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (0..30).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_heaviest_edge_is_not_always_taken() {
        // 0-1 weighs most, but 0-2 and 1-3 together weigh more.
        let affinity = Affinity::new(&Graph::new(&Matrix::from_triplets(4, [(0, 1, 10), (0, 2, 8), (1, 3, 8)])), 4);
        assert_eq!(pairs(&affinity, 2), [(0, 2), (1, 3)]);
        assert_eq!(pairs(&affinity, 1), [(0, 1)]);
    }
}
