//! Which parts of the tree look the same: they can change places without changing J or breaking a rule.

use crate::levels::Levels;
use crate::slots::Slots;
use crate::usable::preference;
use cohabit_model::Topology;
use std::collections::BTreeMap;
use std::ops::Range;

/// The groups of the tree, each with the number of its shape. Groups of equal shape under one parent can change places.
pub struct Shapes {
    /// From the root down: slots, parent (by index in the level above), shape.
    pub levels: Vec<Vec<(Range<usize>, usize, usize)>>,
}

impl Shapes {
    /// The shapes of the slots; none where distances are no tree's.
    pub fn new(topology: &Topology, slots: &Slots) -> Option<Self> {
        let levels = Levels::new(topology, slots)?;
        let mut numbers = BTreeMap::new();
        let mut above: Vec<Range<usize>> = std::iter::once(0..slots.len()).collect();
        let mut all = Vec::with_capacity(levels.depth());
        for groups in &levels.groups {
            let parent = |group: &Range<usize>| above.partition_point(|parent| parent.end <= group.start);
            let mut shape = |group: &Range<usize>| {
                let next = numbers.len();
                *numbers.entry(describe(group, above[parent(group)].start, topology, slots)).or_insert(next)
            };
            all.push(groups.iter().map(|group| (group.clone(), parent(group), shape(group))).collect());
            above.clone_from(groups);
        }
        Some(Self { levels: all })
    }

    /// The slots that so few tasks can do with: of the groups of one parent that look the same and may all be empty, as
    /// many as there are tasks. The others could only change places with them.
    pub fn needed(&self, slots: &Slots) -> Vec<bool> {
        let mut needed = vec![true; slots.len()];
        let mut taken = vec![0; slots.spare.len()];
        slots.unit.iter().for_each(|&unit| taken[unit] += 1);
        let mut is_open: Vec<bool> = slots.unit.iter().map(|&unit| slots.spare[unit] == taken[unit]).collect();
        slots.pinned.iter().flatten().for_each(|&slot| is_open[slot] = false);
        for level in &self.levels {
            let mut seen = BTreeMap::new();
            for (group, parent, shape) in level.iter().filter(|group| group.0.clone().all(|slot| is_open[slot])) {
                let seen = seen.entry((*parent, *shape)).or_insert(0);
                *seen += 1;
                if *seen > slots.tasks() {
                    needed[group.clone()].fill(false);
                }
            }
        }
        needed
    }

    /// The groups of a level by their parent.
    pub fn children(&self, level: usize) -> Vec<Vec<usize>> {
        let parents = level.checked_sub(1).map_or(1, |above| self.levels[above].len());
        let mut children = vec![Vec::new(); parents];
        self.levels[level].iter().enumerate().for_each(|(group, (_, parent, _))| children[*parent].push(group));
        children
    }

    /// Those of `open` that are in no empty group for which an equal one stands before it.
    pub fn different(&self, open: impl Iterator<Item = usize>, is_empty: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut hidden = Vec::new();
        for level in &self.levels {
            let mut seen = std::collections::BTreeSet::new();
            for (slots, parent, shape) in level {
                if slots.clone().all(&is_empty) && !seen.insert((*parent, *shape)) {
                    hidden.push(slots.clone());
                }
            }
        }
        open.filter(|slot| !hidden.iter().any(|group| group.contains(slot))).collect()
    }
}

/// More slots than this are not looked through for what looks the same.
const MOST: usize = 1 << 16;

/// The slots without those that few tasks do not need ([`Shapes::needed`]).
pub fn narrowed(topology: &Topology, slots: Slots) -> Slots {
    if slots.len() < 2 * slots.tasks().max(1) || slots.len() > MOST {
        return slots;
    }
    let needed = Shapes::new(topology, &slots).map(|shapes| shapes.needed(&slots));
    match needed {
        Some(needed) if needed.contains(&false) => slots.keeping(&needed),
        _ => slots,
    }
}

/// All that makes a difference between two groups: the distances within, speeds and kinds of cores, and how units lie
/// in it.
fn describe(group: &Range<usize>, parent: usize, topology: &Topology, slots: &Slots) -> Vec<u64> {
    let mut words = vec![group.len() as u64];
    for slot in group.clone() {
        let gap = if slot > group.start { topology.distance(slots.pu[slot - 1], slots.pu[slot]) } else { 0 };
        let unit = slots.unit[slot];
        let whole = |unit: usize| {
            let members =
                slots.unit.partition_point(|&other| other < unit)..slots.unit.partition_point(|&other| other <= unit);
            group.start <= members.start && members.end <= group.end
        };
        // A unit that lies partly outside is known by its place within the parent, whose first slot is `parent`.
        let name = if whole(unit) { unit - slots.unit[group.start] } else { (1 << 32) + unit - slots.unit[parent] };
        let (speed, rank) = preference(topology, slots.pu[slot]);
        words.extend([gap, name as u64, slots.spare[unit] as u64, speed, u64::from(rank)]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};
    use cohabit_model::Matrix;

    #[test]
    fn few_tasks_need_as_many_of_what_looks_the_same() {
        let kept = |topology: &Topology, tasks: usize, options: &Options| {
            let weight = Matrix::zero(tasks);
            narrowed(topology, Slots::new(&problem(&weight, topology, options)).unwrap()).pu
        };
        let (plain, share) = (Options::default(), Options { share_cores: true, ..Options::default() });
        let topology = tree(&[3, 3, 3], &[]);
        // Two packages, in each two cores, in each two PUs.
        assert_eq!(kept(&topology, 2, &share), [0, 1, 3, 4, 9, 10, 12, 13]);
        assert_eq!(kept(&topology, 2, &plain), [0, 3, 9, 12]);
        assert_eq!(kept(&topology, 14, &share).len(), 27);
        // What is pinned stays, and what is not like the others.
        let pinned = Options { pins: vec![(0, 26)], ..share.clone() };
        assert!(kept(&topology, 2, &pinned).contains(&26));
        let lacking = Options { forbidden: vec![0], ..share };
        assert_eq!(kept(&topology, 1, &lacking), [1, 3, 9]);
    }
}
