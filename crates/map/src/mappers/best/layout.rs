//! The places the search moves tasks between: groups of slots that are all equally far from each other and from
//! everything else, so that only a task's group matters to J.

use crate::levels::Levels;
use std::ops::Range;

/// How groups of slots lie in the tree.
#[derive(Debug, Clone)]
pub struct Tree {
    /// First slot of each group, and the number of slots at the end.
    pub starts: Vec<u32>,
    /// For each level and group, the groups of the subtree that it is in there.
    subtree: Vec<Vec<Range<u32>>>,
}

/// Groups of slots and the distances between them, scaled to 32 bits.
#[derive(Debug, Clone)]
pub struct Layout {
    /// How the groups lie in the tree; no level for distances that are no tree's.
    pub tree: Tree,
    /// Distance from group to group, `[group][group]`; on the diagonal that between two slots of the group.
    pub distance: Vec<i32>,
    /// For each two groups the level at which their ways part.
    parting: Vec<u8>,
}

impl Tree {
    /// The tree of the levels. The groups of the last level are single slots: those above it are the groups here.
    pub fn new(levels: &Levels, slots: usize) -> Self {
        let above = &levels.groups[..levels.depth().saturating_sub(1)];
        let whole = std::iter::once(0..slots).collect();
        let finest = above.last().unwrap_or(&whole);
        let mut starts: Vec<u32> = finest.iter().map(|group| group.start as u32).collect();
        starts.push(slots as u32);
        let rank = |slot: usize| finest.partition_point(|group| group.start < slot) as u32;
        let spread = |groups: &Vec<Range<usize>>| {
            let own = |group: &Range<usize>| {
                let groups = rank(group.start)..rank(group.end);
                groups.clone().map(move |_| groups.clone())
            };
            groups.iter().flat_map(own).collect::<Vec<_>>()
        };
        let subtree = above.iter().map(spread).collect();
        Self { starts, subtree }
    }

    /// The number of groups.
    #[inline]
    pub fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    /// The slots of a group.
    #[inline]
    pub fn slots_of(&self, group: usize) -> Range<usize> {
        self.starts[group] as usize..self.starts[group + 1] as usize
    }

    /// The slots of a range of groups.
    #[inline]
    pub fn slots_in(&self, groups: &Range<u32>) -> Range<usize> {
        self.starts[groups.start as usize] as usize..self.starts[groups.end as usize] as usize
    }

    /// The group of each slot.
    pub fn group_of_slots(&self) -> Vec<u32> {
        (0..self.groups()).flat_map(|group| self.slots_of(group).map(move |_| group as u32)).collect()
    }

    /// The number of levels above the insides of groups.
    #[inline]
    pub fn levels(&self) -> usize {
        self.subtree.len()
    }

    /// The groups of the subtree that a group is in at a level; the group alone below the last level.
    #[inline]
    pub fn subtree_at(&self, level: usize, group: usize) -> Range<u32> {
        self.subtree.get(level).map_or(group as u32..group as u32 + 1, |ranges| ranges[group].clone())
    }

    /// All subtrees of a level.
    pub fn parts(&self, level: usize) -> Vec<Range<u32>> {
        self.children(level, &(0..self.groups() as u32))
    }

    /// The subtrees that a part of the tree is split into at a level.
    pub fn children(&self, level: usize, groups: &Range<u32>) -> Vec<Range<u32>> {
        let mut children = Vec::new();
        let mut at = groups.start;
        while at < groups.end {
            let child = self.subtree_at(level, at as usize);
            at = child.end;
            children.push(child);
        }
        children
    }
}

impl Layout {
    /// The layout of a tree whose levels' distances are given, in units of `scale`.
    pub fn of_tree(tree: Tree, distances: &[u64], scale: u64) -> Self {
        let groups = tree.groups();
        let mut parting = vec![tree.levels() as u8; groups * groups];
        for (level, ranges) in tree.subtree.iter().enumerate().rev() {
            for (group, own) in ranges.iter().enumerate() {
                let row = &mut parting[group * groups..(group + 1) * groups];
                row[..own.start as usize].fill(level as u8);
                row[own.end as usize..].fill(level as u8);
            }
        }
        let cost = |level: &u8| distances.get(usize::from(*level)).map_or(0, |distance| (distance / scale) as i32);
        let distance = parting.iter().map(cost).collect();
        Self { tree, distance, parting }
    }

    /// The layout of arbitrary distances: every slot is a group.
    pub fn of_distances(slots: usize, distance: impl Fn(usize, usize) -> i32) -> Self {
        let entry = |at: usize| if at / slots == at % slots { 0 } else { distance(at / slots, at % slots) };
        Self {
            tree: Tree { starts: (0..=slots as u32).collect(), subtree: Vec::new() },
            distance: (0..slots * slots).map(entry).collect(),
            parting: Vec::new(),
        }
    }

    /// The layout whose groups are the subtrees at a level: what is within one is as far apart as the furthest there.
    pub fn above(&self, level: usize) -> Self {
        let old = self.groups();
        let parts = self.tree.parts(level);
        let rank = |group: u32| parts.partition_point(|part| part.end <= group) as u32;
        let mut starts: Vec<u32> = parts.iter().map(|part| self.tree.starts[part.start as usize]).collect();
        starts.extend(self.tree.starts.last());
        let ranges = |at: usize| {
            let range = |part: &Range<u32>| {
                let groups = self.tree.subtree_at(at, part.start as usize);
                rank(groups.start)..rank(groups.end - 1) + 1
            };
            parts.iter().map(range).collect()
        };
        let tree = Tree { starts, subtree: (0..=level).map(ranges).collect() };
        let firsts = || parts.iter().map(|part| part.start as usize);
        let distance = |a: usize, b: usize| if a == b { self.inside(level, a) } else { self.distance[a * old + b] };
        let parting = |a: usize, b: usize| if a == b { level as u8 + 1 } else { self.parting[a * old + b] };
        Self {
            tree,
            distance: firsts().flat_map(|a| firsts().map(move |b| distance(a, b))).collect(),
            parting: firsts().flat_map(|a| firsts().map(move |b| parting(a, b))).collect(),
        }
    }

    /// The number of groups.
    #[inline]
    pub fn groups(&self) -> usize {
        self.tree.groups()
    }

    /// The greatest distance within the subtree that a group is in at a level.
    #[inline]
    pub fn inside(&self, level: usize, group: usize) -> i32 {
        let groups = self.tree.subtree_at(level, group);
        self.distance[groups.start as usize * self.groups() + groups.end as usize - 1]
    }

    /// The groups whose distances to two different groups differ: all others are as far from one as from the other.
    #[inline]
    pub fn differing(&self, a: usize, b: usize) -> [Range<usize>; 2] {
        if self.parting.is_empty() {
            return [0..self.groups(), 0..0];
        }
        let level = usize::from(self.parting[a * self.groups() + b]);
        let range = |group: usize| {
            let groups = self.tree.subtree_at(level, group);
            groups.start as usize..groups.end as usize
        };
        [range(a), range(b)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ready;
    use super::*;
    use crate::testing::tree;
    use cohabit_model::Matrix;

    fn layout(arities: &[usize], costs: &[u64]) -> Layout {
        ready(&Matrix::zero(arities.iter().product()), &tree(arities, costs)).layout
    }

    #[test]
    fn groups_are_what_lies_above_the_last_level() {
        let layout = layout(&[2, 3, 2], &[100, 10, 1]);
        assert_eq!(layout.tree.starts, [0, 2, 4, 6, 8, 10, 12]);
        assert_eq!(layout.distance[..6], [1, 10, 10, 100, 100, 100]);
        assert_eq!(layout.differing(0, 2), [0..1, 2..3]);
        assert_eq!(layout.differing(0, 4), [0..3, 3..6]);
        assert_eq!((layout.tree.subtree_at(0, 4), layout.inside(0, 4), layout.inside(2, 4)), (3..6, 10, 1));
    }

    #[test]
    fn the_layout_above_has_subtrees_for_groups() {
        let fine = layout(&[2, 3, 2], &[100, 10, 1]);
        let coarse = fine.above(0);
        assert_eq!((&coarse.tree.starts[..], &coarse.distance[..]), (&[0, 6, 12][..], &[10, 100, 100, 10][..]));
        assert_eq!((coarse.tree.levels(), coarse.tree.subtree_at(0, 1)), (1, 1..2));
        assert_eq!(coarse.differing(0, 1), [0..1, 1..2]);
        let same = fine.above(1);
        assert_eq!((same.tree.starts, same.distance, same.parting), (fine.tree.starts, fine.distance, fine.parting));
    }

    #[test]
    fn a_flat_machine_is_one_group() {
        let layout = layout(&[5], &[3]);
        assert_eq!((&layout.tree.starts[..], &layout.distance[..]), (&[0, 5][..], &[3][..]));
    }
}
