//! The slots as a tree of equal depth: one level for each distance there is.
//!
//! On a tree whose costs fall from the root down, "not further apart than d" is an equivalence for every d, so the
//! distances alone give the levels: groups of slots, each within one group of the level above. J telescopes over them:
//! it is the sum over levels of (distance across this level - distance across the next) * weight cut at this level.

use crate::graph::Graph;
use crate::slots::Slots;
use cohabit_model::Topology;
use std::ops::Range;

/// The levels of the slots, from the root down. Slots of a group are contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Distance between slots of one group of the level above (of any two, at level 0) that are in different groups of
    /// this level. Falls strictly.
    pub distance: Vec<u64>,
    /// The groups of each level, ascending; those of the last level are single slots.
    pub groups: Vec<Vec<Range<usize>>>,
}

impl Levels {
    /// The levels of the slots; none where the distances are no tree's, or rise towards the PUs.
    pub fn new(topology: &Topology, slots: &Slots) -> Option<Self> {
        if topology.matrix.is_some() {
            return None;
        }
        // In a tree, the distance of any two slots is the greatest between neighbours on the way, if costs fall.
        let rises = |node: &cohabit_model::topology::Node| {
            node.parent.is_some_and(|parent| topology.nodes[parent].cost < node.cost)
        };
        if topology.nodes.iter().any(rises) {
            return None;
        }
        let gap = |slot: usize| topology.distance(slots.pu[slot - 1], slots.pu[slot]);
        Some(Self::of_gaps(&(1..slots.len()).map(gap).collect::<Vec<_>>()))
    }

    /// The levels of slots in a row of which each two neighbours are `gaps` apart, and any two the greatest gap
    /// between.
    fn of_gaps(gaps: &[u64]) -> Self {
        let mut distance = gaps.to_vec();
        distance.sort_unstable_by(|a, b| b.cmp(a));
        distance.dedup();
        let groups = distance.iter().map(|&least| split(gaps, least)).collect();
        Self { distance, groups }
    }

    /// The levels within one group, whose slots are counted from its first.
    pub fn within(&self, group: &Range<usize>) -> Self {
        let mut part = Self { distance: Vec::new(), groups: Vec::new() };
        for (groups, &distance) in self.groups.iter().zip(&self.distance) {
            let first = groups.partition_point(|other| other.start < group.start);
            let last = groups.partition_point(|other| other.end <= group.end);
            if last > first + 1 {
                let shifted = groups[first..last].iter().map(|own| own.start - group.start..own.end - group.start);
                part.groups.push(shifted.collect());
                part.distance.push(distance);
            }
        }
        part
    }

    /// The levels of blocks of `size` slots in a row, counted from the first; none where a block and a group overlap
    /// and neither is within the other, or there are not two blocks.
    pub fn of_blocks(&self, size: usize) -> Option<Self> {
        let slots = self.groups.last()?.len();
        let mut blocks = Self { distance: Vec::new(), groups: Vec::new() };
        if slots % size != 0 || slots == size {
            return None;
        }
        for (groups, &distance) in self.groups.iter().zip(&self.distance) {
            let are_single = blocks.groups.last().is_some_and(|groups| groups.len() * size == slots);
            if groups.iter().all(|group| group.start % size == 0 && group.end % size == 0) {
                blocks.groups.push(groups.iter().map(|group| group.start / size..group.end / size).collect());
                blocks.distance.push(distance);
            } else if groups.iter().any(|group| group.start / size != (group.end - 1) / size) {
                return None;
            } else if !are_single {
                blocks.groups.push((0..slots / size).map(|block| block..block + 1).collect());
                blocks.distance.push(distance);
            }
        }
        Some(blocks)
    }

    /// The number of levels; 0 for up to one slot.
    pub fn depth(&self) -> usize {
        self.distance.len()
    }

    /// The most groups of a level within one group of the level above.
    pub fn arity(&self, level: usize) -> usize {
        let Some(above) = level.checked_sub(1) else { return self.groups[0].len() };
        let mut children = self.groups[level].iter();
        let count = |group: &Range<usize>| children.by_ref().take_while(|child| child.end < group.end).count() + 1;
        self.groups[above].iter().map(count).max().unwrap_or(1)
    }

    /// For each slot its place among the children of its group at each level, root first.
    pub fn paths(&self) -> Vec<Vec<usize>> {
        let slots = self.groups.first().and_then(|groups| groups.last()).map_or(1, |last| last.end);
        let mut paths = vec![Vec::with_capacity(self.depth()); slots];
        let mut parents: Vec<Range<usize>> = std::iter::once(0..slots).collect();
        for groups in &self.groups {
            let (mut parent, mut place) = (0, 0);
            for group in groups {
                while group.start >= parents[parent].end {
                    (parent, place) = (parent + 1, 0);
                }
                group.clone().for_each(|slot| paths[slot].push(place));
                place += 1;
            }
            parents.clone_from(groups);
        }
        paths
    }
}

/// The way to every slot in one number, so that two ways part at the first bit in which the numbers differ: the
/// distance of two slots is an exclusive or, a count of leading zeros and a look into a table.
#[derive(Debug, Clone)]
pub struct Codes {
    code: Vec<u64>,
    /// Distance by the number of leading zeros of the difference; 0 at 64, where there is none.
    distance: [u64; 65],
}

impl Codes {
    /// The codes of a tree; none where it has too many levels of too many children for 64 bits.
    pub fn new(levels: &Levels, slots: usize) -> Option<Self> {
        let mut code = vec![0_u64; slots];
        let mut distance = [0; 65];
        let mut used = 0;
        let whole = std::iter::once(0..slots).collect();
        for (level, groups) in levels.groups.iter().enumerate() {
            let bits = levels.arity(level).next_power_of_two().trailing_zeros();
            if used + bits > 64 {
                return None;
            }
            let above = if level == 0 { &whole } else { &levels.groups[level - 1] };
            let mut parents = above.iter();
            let (mut end, mut place) = (0, 0_u64);
            for group in groups {
                if group.start >= end {
                    (end, place) = (parents.next()?.end, 0);
                }
                let shifted = place.checked_shl(64 - used - bits).unwrap_or(0);
                code[group.clone()].iter_mut().for_each(|code| *code |= shifted);
                place += 1;
            }
            distance[used as usize..(used + bits) as usize].fill(levels.distance[level]);
            used += bits;
        }
        Some(Self { code, distance })
    }

    /// The distance of two slots.
    #[inline]
    pub fn distance(&self, a: usize, b: usize) -> u64 {
        self.distance[(self.code[a] ^ self.code[b]).leading_zeros() as usize]
    }

    /// J of the slots of the tasks, for a graph none of whose weights is saturated.
    pub fn cost(&self, graph: &Graph, slot_of: &[usize]) -> u128 {
        let pair = |(a, b, weight): (usize, usize, u64)| {
            u128::from(weight) * u128::from(self.distance(slot_of[a], slot_of[b]))
        };
        graph.edges().map(pair).sum()
    }
}

/// The runs of slots between gaps of `least` and more.
fn split(gaps: &[u64], least: u64) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = 0;
    for (at, &gap) in gaps.iter().enumerate() {
        if gap >= least {
            groups.push(start..at + 1);
            start = at + 1;
        }
    }
    groups.push(start..gaps.len() + 1);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::random::Random;
    use crate::testing::{problem, slow_cost, tree};
    use cohabit_model::Matrix;

    #[test]
    fn levels_are_the_distances() {
        let topology = tree(&[2, 3, 1, 2], &[100, 10, 5, 1]);
        let (weight, options) = (Matrix::zero(7), Options { forbidden: vec![4, 5], ..Options::default() });
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        let levels = Levels::new(&topology, &slots).unwrap();
        assert_eq!(levels.distance, [100, 10, 1]);
        assert_eq!(levels.groups[0], [0..4, 4..10]);
        assert_eq!(levels.groups[1], [0..2, 2..4, 4..6, 6..8, 8..10]);
        assert_eq!(levels.groups[2].len(), 10);
        assert_eq!([levels.arity(0), levels.arity(1), levels.arity(2)], [2, 3, 2]);
        let (paths, codes) = (levels.paths(), Codes::new(&levels, 10).unwrap());
        assert_eq!((&paths[3], &paths[9]), (&vec![0, 1, 1], &vec![1, 2, 1]));
        for (a, b) in (0..10).flat_map(|a| (0..10).map(move |b| (a, b))) {
            let first = (0..3).find(|&level| paths[a][level] != paths[b][level]);
            let expected = topology.distance(slots.pu[a], slots.pu[b]);
            assert_eq!(first.map_or(0, |level| levels.distance[level]), expected, "{a} {b}");
            assert_eq!(codes.distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn j_by_codes_is_j() {
        let (topology, options) = (tree(&[3, 2, 5], &[100, 10, 1]), Options::default());
        let mut random = Random::new(5);
        let mut end = || random.below(30) as u32;
        let entries: Vec<_> = (0..200).map(|at| (end(), end(), at)).collect();
        let weight = Matrix::from_triplets(30, entries);
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        let codes = Codes::new(&Levels::new(&topology, &slots).unwrap(), 30).unwrap();
        let slot_of: Vec<usize> = (0..30).map(|task| (task * 7) % 30).collect();
        let expected = slow_cost(&weight, &topology, &slots.pus_of(&slot_of));
        assert_eq!(codes.cost(&Graph::new(&weight), &slot_of), expected);
        // 64 levels of two children need 64 bits, one more is too many.
        let chain = |levels: usize| Levels::of_gaps(&(0..levels as u64).rev().map(|gap| gap + 1).collect::<Vec<_>>());
        assert!(
            Codes::new(&chain(64), 65).is_some_and(|codes| codes.distance(63, 64) == 1 && codes.distance(0, 9) == 64)
        );
        assert!(Codes::new(&chain(65), 66).is_none());
    }

    #[test]
    fn a_group_has_its_own_levels() {
        let levels = Levels::of_gaps(&[1, 10, 1, 100, 5, 1]);
        let part = levels.within(&(4..7));
        assert_eq!((part.distance, part.groups), (vec![5, 1], vec![vec![0..1, 1..3], vec![0..1, 1..2, 2..3]]));
        assert_eq!(levels.within(&(2..4)).distance, [1]);
    }

    #[test]
    fn blocks_have_the_levels_above_them() {
        let levels = |arities: &[usize], costs: &[u64], size: usize| {
            let (topology, options) = (tree(arities, costs), Options { share_cores: true, ..Options::default() });
            let weight = Matrix::zero(topology.pus.len());
            let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
            Levels::new(&topology, &slots).unwrap().of_blocks(size)
        };
        let singles = |count: usize| (0..count).map(|block| block..block + 1).collect::<Vec<_>>();
        let halves = |count: usize| vec![0..count / 2, count / 2..count];
        let expected =
            |distance: &[u64], groups: Vec<Vec<Range<usize>>>| Some(Levels { distance: distance.to_vec(), groups });
        let of = |size| levels(&[2, 3, 4], &[100, 10, 1], size);
        // Within groups of the last level, all of one, several of one, and across those of the last level but one.
        assert_eq!(
            of(2),
            expected(&[100, 10, 1], vec![halves(12), (0..6).map(|at| 2 * at..2 * at + 2).collect(), singles(12)])
        );
        assert_eq!(of(4), expected(&[100, 10], vec![halves(6), singles(6)]));
        assert_eq!(of(12), expected(&[100], vec![singles(2)]));
        assert_eq!(levels(&[2, 4, 2], &[100, 10, 1], 4), expected(&[100, 10], vec![halves(4), singles(4)]));
        assert!([3, 5, 6, 8, 24].into_iter().all(|size| of(size).is_none()));
    }

    #[test]
    fn crowded_pus_are_a_level_of_their_own() {
        let topology = tree(&[2, 2], &[10, 1]);
        let (weight, options) = (Matrix::zero(8), Options::default());
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        let levels = Levels::new(&topology, &slots).unwrap();
        assert_eq!(levels.distance, [10, 1, 0]);
        assert_eq!(levels.groups[1], [0..2, 2..4, 4..6, 6..8]);
    }

    #[test]
    fn rising_costs_and_matrices_have_none() {
        let mut topology = tree(&[2, 2], &[1, 10]);
        let (weight, options) = (Matrix::zero(4), Options::default());
        let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
        assert_eq!(Levels::new(&topology, &slots), None);
        topology = tree(&[4], &[1]);
        topology.matrix = Some(vec![1; 16]);
        assert_eq!(Levels::new(&topology, &slots), None);
    }
}
