//! Problems whose tables would not fit: the tasks are divided over the whole tree without tables, and then each subtree
//! that is small enough is searched by itself. That loses nothing within it: whatever is outside is equally far from
//! all of a subtree.

use super::clock::Clock;
use super::divide::{Divider, Pace};
use super::layout::{Layout, Tree};
use super::prepare::Prepared;
use super::search::Ground;
use super::state::Rules;
use crate::levels::Levels;
use crate::random::Random;
use crate::slots::Slots;
use std::ops::Range;

/// Entries of the largest table: a quarter of a gibibyte.
const MOST_ENTRIES: usize = 1 << 26;

/// Entries of the table of one subtree, so that it stays in the cache.
const SUBTREE_ENTRIES: usize = 1 << 20;

/// Whether the tables of a tree are too large.
pub fn is_large(levels: &Levels, slots: usize) -> bool {
    entries(levels, slots) > MOST_ENTRIES
}

fn entries(levels: &Levels, slots: usize) -> usize {
    let groups = levels.depth().checked_sub(2).map_or(1, |above_last| levels.groups[above_last].len());
    slots.saturating_mul(groups.max(slots.min(1)))
}

/// The slot of every task.
pub fn search(
    prepared: &Prepared,
    levels: &Levels,
    slots: &Slots,
    greedy: &[usize],
    clock: &mut Clock,
    mut random: Random,
) -> Vec<usize> {
    let tasks = slots.tasks();
    if slots.pinned.iter().any(Option::is_some) || slots.len() != tasks {
        return greedy.to_vec();
    }
    let tree = Tree::new(levels, slots.len());
    let mut slot_of = vec![0; slots.len()];
    let whole = 0..tree.groups() as u32;
    let mut divider = Divider::new(&prepared.net, &tree, 8);
    divider.pace = Some(Pace::new(clock, tree.children(0, &whole).len()));
    divider.divide((0..slots.len() as u32).collect(), 0, whole, &mut slot_of, &mut random);
    drop(divider);
    let subtrees = small_subtrees(levels, slots.len());
    let mut vertex_at = vec![0; slots.len()];
    slot_of.iter().enumerate().for_each(|(vertex, &slot)| vertex_at[slot as usize] = vertex as u32);
    let mut local = vec![u32::MAX; slots.len()];
    for (done, subtree) in subtrees.iter().enumerate() {
        let mut clock = clock.share(done, subtrees.len());
        improve(prepared, levels, subtree, &vertex_at, &mut local, &mut slot_of, &mut clock, &mut random);
    }
    slot_of.into_iter().map(|slot| slot as usize).collect()
}

/// The largest groups whose tables are small.
fn small_subtrees(levels: &Levels, slots: usize) -> Vec<Range<usize>> {
    let mut todo: Vec<(usize, Range<usize>)> = vec![(0, 0..slots)];
    let mut small = Vec::new();
    while let Some((level, group)) = todo.pop() {
        if level == levels.depth() || entries(&levels.within(&group), group.len()) <= SUBTREE_ENTRIES {
            small.push(group);
            continue;
        }
        let groups = &levels.groups[level];
        let first = groups.partition_point(|other| other.start < group.start);
        let last = groups.partition_point(|other| other.end <= group.end);
        todo.extend(groups[first..last].iter().map(|group| (level + 1, group.clone())));
    }
    small
}

#[allow(clippy::too_many_arguments)]
fn improve(
    prepared: &Prepared,
    levels: &Levels,
    subtree: &Range<usize>,
    vertex_at: &[u32],
    local: &mut [u32],
    slot_of: &mut [u32],
    clock: &mut Clock,
    random: &mut Random,
) {
    let levels = levels.within(subtree);
    let vertices = &vertex_at[subtree.clone()];
    let net = prepared.net.part(vertices, local);
    let tree = Tree::new(&levels, subtree.len());
    let layout = Layout::of_tree(tree, &levels.distance, prepared.scale);
    let free = vec![false; vertices.len()];
    let groups = layout.groups();
    let rules = Rules {
        fixed: free.clone(),
        held: free,
        domain: (0..groups as u32).collect(),
        spare: vec![0; groups],
        home: Vec::new(),
        move_cost: 0,
    };
    let start: Vec<u32> = (0..vertices.len() as u32).collect();
    let found = Ground { net: &net, layout: &layout, rules: &rules }.search(Some(&start), clock, random);
    for (&vertex, slot) in vertices.iter().zip(found.slot_of) {
        slot_of[vertex as usize] = subtree.start as u32 + slot;
    }
}
