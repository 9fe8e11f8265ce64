//! The greedy mapping of the IBM report on hardware communication topologies (section 4, Figure 3).
//!
//! First pass, from the bottom: of all sets of as many clusters as an element has children, the one with the most bytes
//! between its clusters becomes a cluster of the next level, then the next of those that are left, and so on. The
//! figure lists all sets and sorts them, and so it is done here for pairs, the usual arity, and where there are few
//! sets ([`FEW_SETS`]). Of more, a set is grown: from every cluster, always by the one that communicates most with the
//! set, then clusters are exchanged as long as that adds bytes; the best of the grown sets is taken. Second pass, from
//! the top: the clusters go to the elements in the order they were made, so the first ones, which communicate most, to
//! the first children. Elements of different arity are served largest first.

use crate::affinity::Affinity;
use crate::bottom_up;
use crate::load::settled;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::Result;
use std::cmp::Reverse;

/// The mapper `hct-greedy`.
pub struct HctGreedy;

/// More PUs than this are refused.
const MOST: usize = 4_096;

/// Sets are grown from at most so many clusters, those that communicate most.
const SEEDS: usize = 64;

/// So many sets are all looked at: 32 clusters in fours have 35,960, 24 in fives 42,504.
const FEW_SETS: u64 = 50_000;

impl Mapper for HctGreedy {
    fn name(&self) -> &'static str {
        "hct-greedy"
    }

    fn about(&self) -> &'static str {
        "greedy from the PUs up: the clusters that communicate most become the next larger cluster"
    }

    fn source(&self) -> &'static str {
        "IBM report on optimizing communication in MPI programs, section 4"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("greedy: places tasks by the cost of pairs")
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
    let mut free = vec![true; affinity.len()];
    let mut groups = vec![Vec::new(); sizes.len()];
    let mut pairs = Pairs::new(affinity);
    for at in order {
        let set = match sizes[at] {
            2 => pairs.next(&free),
            size if sets(free.iter().filter(|&&free| free).count(), size) <= FEW_SETS => {
                heaviest(affinity, size, &free)
            }
            size => grown(affinity, size, &free),
        };
        set.iter().for_each(|&item| free[item] = false);
        groups[at] = set;
    }
    groups
}

/// The pairs that communicate, most first.
struct Pairs {
    sorted: Vec<(i64, Reverse<(usize, usize)>)>,
}

impl Pairs {
    fn new(affinity: &Affinity) -> Self {
        let row =
            |a: usize| affinity.row(a).iter().filter(move |entry| entry.0 > a).map(move |&(b, w)| (w, Reverse((a, b))));
        let mut sorted: Vec<_> = (0..affinity.len()).flat_map(row).collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// The next pair of free items; two that do not communicate where no others are left.
    fn next(&mut self, free: &[bool]) -> Vec<usize> {
        while let Some((_, Reverse((a, b)))) = self.sorted.pop() {
            if free[a] && free[b] {
                return vec![a, b];
            }
        }
        (0..free.len()).filter(|&item| free[item]).take(2).collect()
    }
}

/// How many sets of `size` there are of `items`; `u64::MAX` for more than that.
fn sets(items: usize, size: usize) -> u64 {
    let chosen = size.min(items.saturating_sub(size)) as u64;
    let count = (0..chosen).try_fold(1_u64, |sets, n| Some(sets.checked_mul(items as u64 - n)? / (n + 1)));
    count.unwrap_or(u64::MAX)
}

/// Of all sets of the free items the one with the most bytes within, the first of several in the order of their items
/// (Figure 3: it lists and sorts them all).
fn heaviest(affinity: &Affinity, size: usize, free: &[bool]) -> Vec<usize> {
    fn extend(
        affinity: &Affinity,
        size: usize,
        items: &[usize],
        inside: i64,
        set: &mut Vec<usize>,
        best: &mut (i64, Vec<usize>),
    ) {
        if set.len() == size {
            if best.1.is_empty() || inside > best.0 {
                *best = (inside, set.clone());
            }
            return;
        }
        let last = (items.len() + set.len() + 1).saturating_sub(size);
        for (at, &item) in items.iter().enumerate().take(last) {
            let more: i64 = set.iter().map(|&other| affinity.between(item, other)).sum();
            set.push(item);
            extend(affinity, size, &items[at + 1..], inside + more, set, best);
            set.pop();
        }
    }
    let items: Vec<usize> = (0..free.len()).filter(|&item| free[item]).collect();
    let mut best = (0, Vec::new());
    extend(affinity, size.min(items.len()), &items, 0, &mut Vec::new(), &mut best);
    best.1
}

/// The best of the sets that grow from the free items.
fn grown(affinity: &Affinity, size: usize, free: &[bool]) -> Vec<usize> {
    let mut seeds: Vec<usize> = (0..free.len()).filter(|&item| free[item]).collect();
    if size >= seeds.len() || size == 1 {
        seeds.truncate(size);
        return seeds;
    }
    seeds.sort_by_key(|&item| {
        let heaviest = affinity.row(item).iter().filter(|entry| free[entry.0]).map(|entry| entry.1).max();
        Reverse(heaviest.unwrap_or(0))
    });
    seeds.truncate(SEEDS);
    let sets = seeds.into_iter().map(|seed| grow(affinity, seed, size, free));
    let inside =
        |set: &Vec<usize>| -> i64 { set.iter().flat_map(|&a| set.iter().map(move |&b| affinity.between(a, b))).sum() };
    let best = sets.map(|set| (inside(&set), set)).reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map_or(Vec::new(), |best| best.1)
}

fn grow(affinity: &Affinity, seed: usize, size: usize, free: &[bool]) -> Vec<usize> {
    let mut pull = vec![0; free.len()];
    let mut inside = vec![false; free.len()];
    let mut set = Vec::with_capacity(size);
    let change = |item: usize, sign: i64, inside: &mut [bool], pull: &mut [i64]| {
        inside[item] = sign > 0;
        affinity.row(item).iter().for_each(|&(other, weight)| pull[other] += sign * weight);
    };
    change(seed, 1, &mut inside, &mut pull);
    set.push(seed);
    let best_outside = |inside: &[bool], pull: &[i64]| {
        (0..free.len()).filter(|&item| free[item] && !inside[item]).max_by_key(|&item| (pull[item], Reverse(item)))
    };
    while set.len() < size {
        let Some(next) = best_outside(&inside, &pull) else { break };
        change(next, 1, &mut inside, &mut pull);
        set.push(next);
    }
    // Exchanges: each adds bytes, so they end.
    while let (Some(out), Some(next)) = ((0..set.len()).min_by_key(|&at| pull[set[at]]), best_outside(&inside, &pull)) {
        let leaver = set[out];
        if pull[next] - affinity.between(next, leaver) <= pull[leaver] {
            break;
        }
        change(leaver, -1, &mut inside, &mut pull);
        change(next, 1, &mut inside, &mut pull);
        set[out] = next;
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};
    use cohabit_model::Matrix;

    fn check(arities: &[usize], entries: &[(u32, u32, u64)], tasks: usize, expected: &[usize]) {
        let (topology, weight) = (tree(arities, &[]), Matrix::from_triplets(tasks, entries.iter().copied()));
        assert_eq!(HctGreedy.map(&problem(&weight, &topology, &Options::default())).unwrap(), expected);
    }

    #[test]
    fn the_heaviest_clusters_come_first() {
        // Pairs 1-3 and 0-2, then both together.
        check(&[2, 2], &[(1, 3, 9), (0, 2, 5), (0, 1, 1)], 4, &[2, 0, 3, 1]);
        // Sets of three.
        check(&[2, 3], &[(0, 2, 9), (2, 4, 9), (1, 3, 2), (3, 5, 2)], 6, &[0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn a_set_that_is_not_grown_from_its_heaviest_edges_is_found() {
        // 0-1 is the heaviest pair; the heaviest set of three is 2-3-4.
        let triangle = [(2, 3, 8), (3, 4, 8), (2, 4, 8)];
        let entries = [&[(0, 1, 10), (1, 5, 1)][..], &triangle].concat();
        check(&[2, 3], &entries, 6, &[3, 4, 0, 1, 2, 5]);
    }

    /// Figure 3 word for word: all sets in a list, sorted by their bytes, taken from the top where none of their
    /// clusters has gone.
    fn by_the_figure(affinity: &Affinity, size: usize) -> Vec<Vec<usize>> {
        let items = affinity.len();
        let subsets = (0_u32..1 << items).filter(|subset| subset.count_ones() as usize == size);
        let mut all: Vec<(i64, Vec<usize>)> = subsets
            .map(|subset| {
                let set: Vec<usize> = (0..items).filter(|item| subset >> item & 1 == 1).collect();
                let bytes = set.iter().flat_map(|&a| set.iter().map(move |&b| (a, b))).filter(|(a, b)| a < b);
                (bytes.map(|(a, b)| affinity.between(a, b)).sum(), set)
            })
            .collect();
        all.sort_by_key(|(bytes, set)| (Reverse(*bytes), set.clone()));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (_, set) in all {
            if groups.iter().flatten().all(|item| !set.contains(item)) {
                groups.push(set);
            }
        }
        groups
    }

    proptest::proptest! {
        #[test]
        fn clusters_are_those_of_the_figure(
            size in 2_usize..5, groups in 2_usize..4, weights in proptest::collection::vec(0_u64..50, 66),
        ) {
            let items = size * groups;
            let pairs = (0..items as u32).flat_map(|b| (0..b).map(move |a| (a, b)));
            let weight = Matrix::from_triplets(items, pairs.zip(&weights).map(|((a, b), &weight)| (a, b, weight)));
            let affinity = Affinity::new(&crate::graph::Graph::new(&weight), items);
            proptest::prop_assert_eq!(group(&affinity, &vec![size; groups]), by_the_figure(&affinity, size));
        }
    }
}
