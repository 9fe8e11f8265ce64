//! Which parts of the tree look the same: they can change places without changing J or breaking a rule.

use crate::levels::Levels;
use crate::slots::Slots;
use crate::usable::speed;
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

/// All that makes a difference between two groups: the distances within, the speeds, and how units lie in it.
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
        words.extend([gap, name as u64, slots.spare[unit] as u64, speed(topology, slots.pu[slot]).to_bits()]);
    }
    words
}
