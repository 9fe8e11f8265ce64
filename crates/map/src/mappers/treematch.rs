//! TreeMatch (Jeannot, Mercier, "Near-optimal placement of MPI processes on hierarchical NUMA architectures", Euro-Par
//! 2010; Jeannot, Mercier, Tessier, "Process placement in multicore clusters", TPDS 2014).
//!
//! From the bottom up, groups of as many as a node has children: all sets of that size are listed and weighed by what
//! they say to others; sets that share a member exclude each other, and independent ones are picked greedily, the
//! lightest first, once from each of the first few sets; the best pick is taken. Where the list would be too long (the
//! paper's second one gives up at a number too) groups are made one after the other, always by the task that leaves
//! least to say to others.

use crate::affinity::Affinity;
use crate::bottom_up;
use crate::load::settled;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::Result;

/// The mapper `treematch`.
pub struct TreeMatch;

/// More PUs than this are refused.
const MOST: usize = 4_096;

/// More sets than this are not listed.
const LONGEST_LIST: u128 = 30_000;

/// Sets that a pick is begun with.
const PICKS: usize = 16;

impl Mapper for TreeMatch {
    fn name(&self) -> &'static str {
        "treematch"
    }

    fn about(&self) -> &'static str {
        "from the PUs up: groups that say least to others, as Open MPI's treematch"
    }

    fn source(&self) -> &'static str {
        "Jeannot and Mercier, Euro-Par 2010; with Tessier, TPDS 2014"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("groups tasks by weight, level by level")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let placed = bottom_up::map(problem, &slots, self.name(), MOST, &group)?;
        settled(problem, &slots, &placed)
    }
}

fn group(affinity: &Affinity, sizes: &[usize]) -> Vec<Vec<usize>> {
    let size = sizes[0];
    let alike = sizes.iter().all(|&other| other == size);
    match alike && sets(affinity.len(), size) <= LONGEST_LIST {
        true => listed(affinity, size, sizes.len()),
        false => one_by_one(affinity, sizes),
    }
}

/// The number of sets of `size` among `items`, as far as it matters.
fn sets(items: usize, size: usize) -> u128 {
    let mut count = 1_u128;
    for at in 0..size.min(items) {
        count = count * (items - at) as u128 / (at + 1) as u128;
        if count > LONGEST_LIST {
            break;
        }
    }
    count
}

/// What the members of a set say to others.
fn outside(affinity: &Affinity, set: &[usize]) -> i64 {
    let inside: i64 = set.iter().flat_map(|&a| set.iter().map(move |&b| affinity.between(a, b))).sum();
    set.iter().map(|&item| affinity.volume(item)).sum::<i64>() - inside
}

fn listed(affinity: &Affinity, size: usize, count: usize) -> Vec<Vec<usize>> {
    let mut list = Vec::new();
    let mut set: Vec<usize> = (0..size).collect();
    loop {
        list.push((outside(affinity, &set), set.clone()));
        let Some(at) = (0..size).rev().find(|&at| set[at] + size - at < affinity.len()) else { break };
        set[at] += 1;
        for next in at + 1..size {
            set[next] = set[next - 1] + 1;
        }
    }
    list.sort();
    let picks = (0..PICKS.min(list.len())).map(|first| pick(&list, first, affinity.len(), count));
    picks.min_by_key(|pick| pick.0).map_or(Vec::new(), |pick| pick.1)
}

/// Independent sets, the one at `first` and then the lightest: their weight and themselves.
fn pick(list: &[(i64, Vec<usize>)], first: usize, items: usize, count: usize) -> (i64, Vec<Vec<usize>>) {
    let mut taken = vec![false; items];
    let (mut weight, mut groups) = (0, Vec::with_capacity(count));
    for (own, set) in std::iter::once(&list[first]).chain(list) {
        if groups.len() < count && set.iter().all(|&item| !taken[item]) {
            set.iter().for_each(|&item| taken[item] = true);
            weight += own;
            groups.push(set.clone());
        }
    }
    (weight, groups)
}

fn one_by_one(affinity: &Affinity, sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut free = vec![true; affinity.len()];
    let volume: Vec<i64> = (0..affinity.len()).map(|item| affinity.volume(item)).collect();
    let mut groups = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let mut pull = vec![0; affinity.len()];
        let mut set = Vec::with_capacity(size);
        for _ in 0..size {
            // The first is who says most. What another adds to what the set says to others is its own volume less twice
            // what it says to the set.
            let adds = |&item: &usize| if set.is_empty() { -volume[item] } else { volume[item] - 2 * pull[item] };
            let Some(next) = (0..free.len()).filter(|&item| free[item]).min_by_key(adds) else { break };
            free[next] = false;
            affinity.row(next).iter().for_each(|&(other, weight)| pull[other] += weight);
            set.push(next);
        }
        groups.push(set);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use cohabit_model::Matrix;

    #[test]
    fn both_ways_find_the_plain_groups() {
        let triangles = [(0, 3, 9), (3, 5, 9), (0, 5, 9), (1, 2, 9), (2, 4, 9), (1, 4, 9), (0, 1, 2)];
        let affinity = Affinity::new(&Graph::new(&Matrix::from_triplets(6, triangles)), 6);
        for mut groups in [listed(&affinity, 3, 2), one_by_one(&affinity, &[3, 3])] {
            groups.iter_mut().for_each(|group| group.sort_unstable());
            groups.sort();
            assert_eq!(groups, [[0, 3, 5], [1, 2, 4]]);
        }
    }

    #[test]
    fn sets_are_counted() {
        assert_eq!([sets(5, 2), sets(6, 3), sets(4, 4)], [10, 20, 1]);
        assert!(sets(1_000, 500) > LONGEST_LIST);
    }
}
