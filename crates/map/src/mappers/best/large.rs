//! Problems whose tables would not fit: the tasks are divided over the whole tree without tables, and then each subtree
//! that is small enough is searched by itself. That loses nothing within it: whatever is outside is equally far from
//! all of a subtree.

use super::clock::Clock;
use super::context::Context;
use super::divide::{Divider, Pace};
use super::layout::{Layout, Tree};
use super::memetic::Dense;
use super::prepare::Prepared;
use super::search::Instance;
use super::state::Rules;
use crate::levels::Levels;
use crate::random::Random;
use std::ops::Range;

/// Whether the tables of a tree are too large.
pub fn is_large(levels: &Levels, slots: usize, context: &Context) -> bool {
    entries(levels, slots) > context.large.entries
}

fn entries(levels: &Levels, slots: usize) -> usize {
    let groups = levels.depth().checked_sub(2).map_or(1, |above_last| levels.groups[above_last].len());
    slots.saturating_mul(groups.max(slots.min(1)))
}

/// A problem whose tables would not fit.
pub struct Large<'a> {
    /// The tasks.
    pub prepared: &'a Prepared,
    /// The tree.
    pub levels: &'a Levels,
    /// The vertices that stay where they are at the start.
    pub held: Vec<bool>,
    /// What is done, and for how long.
    pub context: &'a Context,
    /// Threads that the work is shared out among. What is found does not depend on their number, where steps are
    /// counted.
    pub threads: usize,
}

impl Large<'_> {
    /// The slot of every vertex, from a start that is good already or, where `divides`, from a division over the tree.
    pub fn search(&self, start: Vec<u32>, divides: bool, clock: &mut Clock, random: &Random) -> Vec<u32> {
        let mut slot_of = start;
        if divides {
            self.divide(&mut slot_of, clock, random.fork(0));
        }
        let vertex_at = inverse(&slot_of);
        let subtrees = small_subtrees(self.levels, slot_of.len(), self.context.large.subtree_entries);
        let found = self.in_threads(subtrees.len(), clock, |of, clock| {
            let mut local = vec![u32::MAX; vertex_at.len()];
            let improve = |(done, own): (usize, &usize)| {
                let vertices = &vertex_at[subtrees[*own].clone()];
                let random = random.fork(1 + *own as u64);
                self.improve(&subtrees[*own], vertices, &mut local, clock.share(done, of.len()), random)
            };
            of.iter().enumerate().flat_map(improve).collect()
        });
        found.into_iter().for_each(|(vertex, slot)| slot_of[vertex as usize] = slot);
        slot_of
    }

    /// Shares out the numbers below `count` among the threads; all that they return.
    fn in_threads<T: Send>(
        &self,
        count: usize,
        clock: &mut Clock,
        work: impl Fn(&[usize], &mut Clock) -> Vec<T> + Sync,
    ) -> Vec<T> {
        let threads = self.threads.clamp(1, count.max(1));
        let shares: Vec<(Vec<usize>, Clock)> = (0..threads)
            .map(|thread| {
                let own: Vec<usize> = (thread..count).step_by(threads).collect();
                let steps = clock.steps_of(own.len(), count);
                (own, steps)
            })
            .collect();
        std::thread::scope(|scope| {
            let work = &work;
            let spawn = |(own, mut clock): (Vec<usize>, Clock)| scope.spawn(move || work(&own, &mut clock));
            let running: Vec<_> = shares.into_iter().map(spawn).collect();
            let join = |thread: std::thread::ScopedJoinHandle<Vec<T>>| match thread.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            running.into_iter().flat_map(join).collect()
        })
    }

    /// Divides the vertices that are not held over the tree.
    fn divide(&self, slot_of: &mut [u32], clock: &mut Clock, mut random: Random) {
        let tree = Tree::new(self.levels, slot_of.len());
        let whole = 0..tree.groups() as u32;
        let children = tree.children(0, &whole);
        let vertex_at = inverse(slot_of);
        let divider = || {
            let mut divider = Divider::new(&self.prepared.net, &tree, self.context);
            divider.tries = self.context.large.tries;
            divider.is_cut_once = true;
            if self.held.contains(&true) {
                divider.hold(&vertex_at, &self.held);
            }
            divider
        };
        let mut first = divider();
        first.threads = self.threads;
        first.pace = Some(Pace::new(clock, children.len()));
        let free = (0..slot_of.len() as u32).filter(|&vertex| !self.held[vertex as usize]).collect();
        let mut parts = Vec::with_capacity(children.len());
        first.share_out(free, 0, &children, &mut parts, &mut random);
        let found = self.in_threads(children.len(), clock, |of, _| {
            let (mut divider, mut slot_of) = (divider(), vec![0; vertex_at.len()]);
            for &own in of {
                let mut random = random.fork(own as u64);
                divider.divide(parts[own].clone(), 1, children[own].clone(), &mut slot_of, &mut random);
            }
            let placed = of.iter().flat_map(|&own| &parts[own]).map(|&vertex| (vertex, slot_of[vertex as usize]));
            placed.collect()
        });
        found.into_iter().for_each(|(vertex, slot)| slot_of[vertex as usize] = slot);
    }

    /// Searches a subtree by itself: the slots of its vertices, given in the order of its slots.
    fn improve(
        &self,
        subtree: &Range<usize>,
        vertices: &[u32],
        local: &mut [u32],
        mut clock: Clock,
        mut random: Random,
    ) -> Vec<(u32, u32)> {
        let levels = self.levels.within(subtree);
        // A net has its tasks first.
        let tasks = self.prepared.net.tasks as u32;
        let mut order: Vec<u32> = (0..vertices.len() as u32).collect();
        order.sort_by_key(|&at| vertices[at as usize] >= tasks);
        let sorted: Vec<u32> = order.iter().map(|&at| vertices[at as usize]).collect();
        let net = self.prepared.net.part(&sorted, local);
        let layout = Layout::of_tree(Tree::new(&levels, subtree.len()), &levels.distance, self.prepared.scale);
        let held: Vec<bool> = sorted.iter().map(|&vertex| self.held[vertex as usize]).collect();
        let rules = Rules::holding(held, layout.groups());
        let instance = Instance {
            net: &net,
            layout: &layout,
            rules: &rules,
            dense: Dense::of_tasks(self.context),
            context: self.context,
        };
        let found = instance.search(Some(&order), &mut clock, &mut random);
        let slots = found.slot_of.into_iter().map(|slot| subtree.start as u32 + slot);
        sorted.into_iter().zip(slots).collect()
    }
}

/// The vertex on each slot.
fn inverse(slot_of: &[u32]) -> Vec<u32> {
    let mut vertex_at = vec![0; slot_of.len()];
    slot_of.iter().enumerate().for_each(|(vertex, &slot)| vertex_at[slot as usize] = vertex as u32);
    vertex_at
}

/// The largest groups whose tables are small.
fn small_subtrees(levels: &Levels, slots: usize, most: usize) -> Vec<Range<usize>> {
    let mut todo: Vec<(usize, Range<usize>)> = vec![(0, 0..slots)];
    let mut small = Vec::new();
    while let Some((level, group)) = todo.pop() {
        if level == levels.depth() || entries(&levels.within(&group), group.len()) <= most {
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

#[cfg(test)]
mod tests {
    use super::super::context;
    use super::*;
    use crate::graph::Graph;
    use crate::slots::Slots;
    use crate::testing::{problem, slow_cost, tree};
    use crate::{Options, Problem};
    use cohabit_model::Matrix;

    /// The slots that `threads` find for a problem whose empty slots and first `pins` tasks stay where they are.
    fn found(problem: &Problem, pins: usize, threads: usize) -> Vec<u32> {
        let slots = Slots::new(problem).unwrap();
        let prepared = Prepared::new(problem, &slots, &Graph::new(problem.weight)).unwrap();
        let levels = prepared.levels.as_ref().unwrap();
        let held = (0..slots.len()).map(|vertex| vertex < pins || vertex >= slots.tasks() && pins > 0).collect();
        let context =
            Context { large: context::Large { subtree_entries: 64, ..context::Large::DEFAULT }, ..Context::DEFAULT };
        let large = Large { prepared: &prepared, levels, held, context: &context, threads };
        let start = (0..slots.len() as u32).collect();
        large.search(start, true, &mut Clock::new(problem.options, 0), &Random::new(3))
    }

    #[test]
    fn any_number_of_threads_finds_the_same_and_leaves_alone_what_is_held() {
        let (topology, options) =
            (tree(&[4, 4, 4], &[100, 10, 1]), Options { steps: Some(600), share_cores: true, ..Options::default() });
        for (tasks, pins) in [(64, 0), (64, 9), (50, 0), (50, 5)] {
            let mut random = Random::new(tasks as u64);
            let mut end = || random.below(tasks) as u32;
            let entries: Vec<_> = (0..200).map(|at| (end(), end(), 1 + at % 9)).collect();
            let weight = Matrix::from_triplets(tasks, entries);
            let problem = problem(&weight, &topology, &options);
            let one = found(&problem, pins, 1);
            for threads in [2, 3, 20] {
                assert_eq!(found(&problem, pins, threads), one);
            }
            let mut taken = one.clone();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..64));
            assert!((0..pins).all(|pinned| one[pinned] == pinned as u32));
            let placement: Vec<usize> = one[..tasks].iter().map(|&slot| slot as usize).collect();
            let packed: Vec<usize> = (0..tasks).collect();
            assert!(slow_cost(&weight, &topology, &placement) < slow_cost(&weight, &topology, &packed));
        }
    }
}
