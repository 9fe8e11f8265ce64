//! Small or dense problems: the tasks divided over subtrees of the tree that are not too small, by tabu search
//! ([`super::ejection`]) from several starts, and then from what two of the divisions found have in common (Benlic and
//! Hao, "A multilevel memetic approach for improving graph k-partitions", 2011). With few tasks, or many to communicate
//! with for each, that finds the best division sooner than cutting pairs of subtrees again; in a large sparse graph it
//! is the other way round.

use super::bisect::{bisect, bisect_well, grown};
use super::clock::Clock;
use super::context::{Context, Part};
use super::divide::level_out;
use super::ejection::{self, Division};
use super::layout::{Layout, Tree};
use super::net::Net;
use super::subgraph::Subgraph;
use crate::random::Random;
use std::cmp::Reverse;
use std::ops::Range;

/// From what number of others on, for each task, and up to how many tasks a graph is divided here.
#[derive(Debug, Clone, Copy)]
pub struct Dense {
    others: usize,
    tasks: usize,
}

impl Dense {
    /// Those of tasks.
    pub fn of_tasks(context: &Context) -> Self {
        Self { others: context.evolution.dense_others, tasks: context.evolution.dense_tasks }
    }

    /// Those of blocks of tasks.
    pub fn of_blocks(context: &Context) -> Self {
        let numbers = &context.evolution;
        Self { others: numbers.dense_others_of_blocks, tasks: numbers.dense_tasks_of_blocks }
    }
}

/// The division of all tasks over the finest subtrees that are large enough.
#[derive(Debug)]
pub struct Memetic<'a> {
    context: &'a Context,
    whole: Subgraph,
    /// The subtrees, as groups.
    pub layout: Layout,
    /// The level whose subtrees they are.
    pub level: usize,
    /// Whether a task communicates with many others.
    is_dense: bool,
    search: Box<dyn ejection::Search>,
}

impl<'a> Memetic<'a> {
    /// What there is to divide; none where the graph is large and sparse, or the tree has no such subtrees.
    pub fn new(net: &Net, layout: &Layout, dense: Dense, context: &'a Context) -> Option<Self> {
        if !context.uses(Part::Evolution) {
            return None;
        }
        let arcs: usize = (0..net.len()).map(|vertex| net.row(vertex).len()).sum();
        let is_dense = arcs >= dense.others * net.len() && net.len() <= dense.tasks;
        let fits = |&level: &usize| {
            let parts = layout.tree.parts(level).len();
            parts > 1 && net.len() / parts >= context.evolution.least_slots
        };
        let level = (0..layout.tree.levels()).rev().find(fits)?;
        if net.len() > context.evolution.few && !is_dense {
            return None;
        }
        let (whole, layout) = (Subgraph::of_net(net), layout.above(level));
        let search = ejection::search(&whole, &layout, context.ejection)?;
        Some(Self { context, whole, layout, level, is_dense, search })
    }

    /// The best division that is found in most of what is left of the time: group by group of the parts' layout for
    /// each vertex.
    pub fn evolve(&self, clock: &mut Clock, random: &mut Random) -> Division {
        let (context, numbers) = (self.context, self.context.evolution);
        let all = clock.left();
        let share = if self.whole.len() <= numbers.few { numbers.time_of_few } else { numbers.time };
        let until = all - all * share / 100;
        // Where the time is short there is one start, which should be a good one, and one step.
        let start = match self.is_dense {
            true => self.spread(random, |subgraph, first, random| grown(subgraph, first, None, random)),
            false => self.spread(random, |subgraph, first, random| {
                bisect_well(subgraph, first, numbers.tries_first, context, random)
            }),
        };
        let mut is_first = true;
        let mut population = vec![self.searched(start, random, || std::mem::take(&mut is_first) || clock.step())];
        let (mut stale, mut ended) = (0, None);
        while clock.left() > until {
            if stale == numbers.patience {
                ended = population.drain(..).chain(ended).min_by_key(|found| found.total);
                stale = 0;
            }
            let goes_on = || clock.left() > until && clock.step();
            if population.len() < numbers.population {
                population.push(self.fresh(random, goes_on));
                continue;
            }
            let a = random.below(numbers.population);
            let b = (a + 1 + random.below(numbers.population - 1)) % numbers.population;
            let next = self.recombined(&population[a], &population[b], random, goes_on);
            let worse = if population[a].total > population[b].total { a } else { b };
            // Two that cost the same are most likely one.
            let is_new = population.iter().all(|other| other.total != next.total);
            if is_new && next.total < population[worse].total {
                population[worse] = next;
                stale = 0;
            } else {
                stale += 1;
            }
        }
        population.into_iter().chain(ended).min_by_key(|found| found.total).expect("the first is there")
    }

    /// A division from scratch.
    fn fresh(&self, random: &mut Random, goes_on: impl FnMut() -> bool) -> Division {
        let start = match self.is_dense {
            true => self.spread(random, |subgraph, first, random| grown(subgraph, first, None, random)),
            false => self.spread(random, |subgraph, first, random| {
                bisect(subgraph, first, self.context.evolution.tries, self.context, random)
            }),
        };
        self.searched(start, random, goes_on)
    }

    fn searched(&self, start: Vec<u32>, random: &mut Random, mut goes_on: impl FnMut() -> bool) -> Division {
        if !self.context.uses(Part::EjectionChains) {
            goes_on();
            return Division { total: self.total(&start), group_of: start };
        }
        let numbers = &self.context.evolution;
        let moves = if self.layout.groups() == 2 { numbers.moves_of_two } else { numbers.moves };
        let group_of = self.search.search(&start, moves * self.whole.len(), random, &mut goes_on);
        Division { total: self.total(&group_of), group_of }
    }

    /// J of a division in scaled units.
    fn total(&self, group_of: &[u32]) -> i64 {
        let groups = self.layout.groups();
        let pays = |vertex: usize| {
            let distances = &self.layout.distance[group_of[vertex] as usize * groups..][..groups];
            let to = |&(other, weight): &(u32, i32)| weight * distances[group_of[other as usize] as usize];
            i64::from(self.whole.neighbours(vertex).iter().map(to).sum::<i32>())
        };
        (0..group_of.len()).map(pays).sum::<i64>() / 2
    }

    /// Searched from where two divisions agree; the other vertices go, one by one, to where they pay least of what has
    /// room.
    fn recombined(&self, a: &Division, b: &Division, random: &mut Random, goes_on: impl FnMut() -> bool) -> Division {
        let groups = self.layout.groups();
        let partner = partners(groups, &a.group_of, &b.group_of);
        let mut room: Vec<usize> = (0..groups).map(|group| self.layout.tree.slots_of(group).len()).collect();
        let mut group_of = vec![NOWHERE; a.group_of.len()];
        let mut waiting = Vec::new();
        for (vertex, (&of_a, &of_b)) in a.group_of.iter().zip(&b.group_of).enumerate() {
            if partner[of_a as usize] == of_b as usize {
                group_of[vertex] = of_a;
                room[of_a as usize] -= 1;
            } else {
                waiting.push(vertex);
            }
        }
        random.shuffle(&mut waiting);
        let mut pays = vec![0_i64; groups];
        for vertex in waiting {
            pays.fill(0);
            for &(other, weight) in self.whole.neighbours(vertex) {
                let there = group_of[other as usize];
                if there != NOWHERE {
                    let distances = &self.layout.distance[there as usize * groups..][..groups];
                    pays.iter_mut().zip(distances).for_each(|(pays, distance)| *pays += i64::from(weight * distance));
                }
            }
            let open = (0..groups).filter(|&group| room[group] > 0);
            let group = open.min_by_key(|&group| pays[group]).expect("as many places as vertices");
            room[group] -= 1;
            group_of[vertex] = group as u32;
        }
        self.searched(group_of, random, goes_on)
    }

    /// A division by cutting in two again and again.
    fn spread(&self, random: &mut Random, cut: impl Fn(&Subgraph, i32, &mut Random) -> Vec<u8>) -> Vec<u32> {
        let mut group_of = vec![0; self.whole.len()];
        let mut local = vec![u32::MAX; self.whole.len()];
        let tree = &self.layout.tree;
        let mut todo = vec![((0..self.whole.len() as u32).collect::<Vec<_>>(), 0..tree.groups() as u32)];
        while let Some((vertices, groups)) = todo.pop() {
            if groups.len() == 1 {
                vertices.iter().for_each(|&vertex| group_of[vertex as usize] = groups.start);
                continue;
            }
            let middle = middle(tree, &groups);
            let first = tree.slots_in(&(groups.start..middle)).len();
            let side = cut(&self.whole.part(&vertices, &mut local), first as i32, random);
            let of = |own: u8| {
                let members = vertices.iter().zip(&side).filter(move |(_, side)| **side == own);
                members.map(|(&vertex, _)| vertex).collect::<Vec<_>>()
            };
            let (mut a, mut b) = (of(0), of(1));
            level_out(&mut a, &mut b, first);
            todo.extend([(a, groups.start..middle), (b, middle..groups.end)]);
        }
        group_of
    }
}

/// For each group of `a` the one of `b` that it has most in common with, those with most choosing first.
pub fn partners(groups: usize, a: &[u32], b: &[u32]) -> Vec<usize> {
    let mut common = vec![0_u32; groups * groups];
    a.iter().zip(b).for_each(|(&a, &b)| common[a as usize * groups + b as usize] += 1);
    let mut order: Vec<usize> = (0..groups * groups).filter(|&at| common[at] > 0).collect();
    order.sort_by_key(|&at| Reverse(common[at]));
    let (mut partner, mut taken) = (vec![usize::MAX; groups], vec![false; groups]);
    for at in order {
        let (of_a, of_b) = (at / groups, at % groups);
        if partner[of_a] == usize::MAX && !std::mem::replace(&mut taken[of_b], true) {
            partner[of_a] = of_b;
        }
    }
    partner
}

/// In no group yet.
const NOWHERE: u32 = u32::MAX;

/// Where a range of groups is best split in two: between subtrees of the highest level that splits it, near the middle.
fn middle(tree: &Tree, groups: &Range<u32>) -> u32 {
    let level = (0..tree.levels()).find(|&level| tree.subtree_at(level, groups.start as usize).end < groups.end);
    let children = tree.children(level.unwrap_or(tree.levels()), groups);
    let whole = tree.slots_in(groups).len();
    let uneven = |child: &&Range<u32>| (2 * tree.slots_in(&(groups.start..child.end)).len()).abs_diff(whole);
    children[..children.len() - 1].iter().min_by_key(uneven).map_or(groups.start + 1, |child| child.end)
}

#[cfg(test)]
mod tests {
    use super::super::state::{Rules, State};
    use super::super::testing::{Ready, communicating, ready};
    use super::*;
    use crate::Options;
    use crate::testing::tree;
    use cohabit_model::Matrix;

    /// Whether every group is full, and J of the division what the definition says.
    fn is_right(parts: &Memetic, net: &Net, found: &Division) -> bool {
        let mut next: Vec<u32> = (0..parts.layout.groups()).map(|group| parts.layout.tree.starts[group]).collect();
        let take = |&group: &u32| {
            next[group as usize] += 1;
            next[group as usize] - 1
        };
        let slot_of: Vec<u32> = found.group_of.iter().map(take).collect();
        let is_full = (0..parts.layout.groups()).all(|group| next[group] == parts.layout.tree.starts[group + 1]);
        let rules = Rules::holding(vec![false; net.len()], parts.layout.groups());
        is_full && State::new(net, &parts.layout, &rules, &slot_of).total == found.total
    }

    #[test]
    fn divisions_fill_every_group_and_count_right() {
        // The last tree has parts of two levels, the first of one above pairs; some slots stay empty.
        for (arities, tasks) in [(&[3, 8, 2][..], 48), (&[2, 9, 2], 30), (&[2, 3, 8], 48)] {
            let mut random = Random::new(tasks as u64);
            let weight = communicating(tasks, 150, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(arities, &[100, 10, 1]));
            let parts = Memetic::new(&net, &layout, Dense::of_tasks(&Context::DEFAULT), &Context::DEFAULT).unwrap();
            assert_eq!(parts.layout.groups(), if arities[2] == 2 { arities[0] } else { 6 });
            let (a, b) = (parts.fresh(&mut random, || true), parts.fresh(&mut random, || true));
            let both = parts.recombined(&a, &b, &mut random, || true);
            assert!([&a, &b, &both].into_iter().all(|found| is_right(&parts, &net, found)), "{arities:?}");
            let best =
                parts.evolve(&mut Clock::new(&Options { steps: Some(500), ..Options::default() }, 0), &mut random);
            assert!(is_right(&parts, &net, &best) && best.total <= a.total.max(b.total), "{arities:?}");
        }
    }

    #[test]
    fn what_two_divisions_agree_on_is_kept_whatever_the_groups_are_called() {
        let weight = Matrix::from_triplets(24, (0..24).map(|task| (task, (task + 1) % 24, 1)));
        let Ready { layout, net, .. } = ready(&weight, &tree(&[3, 8], &[100, 1]));
        let parts = Memetic::new(&net, &layout, Dense::of_tasks(&Context::DEFAULT), &Context::DEFAULT).unwrap();
        let a = Division { total: 1, group_of: (0..24).map(|vertex| vertex / 8).collect() };
        let b = Division { total: 1, group_of: (0..24).map(|vertex| (vertex / 8 + 1) % 3).collect() };
        assert_eq!(partners(3, &a.group_of, &b.group_of), [1, 2, 0]);
        let mut random = Random::new(1);
        assert_eq!(parts.recombined(&a, &b, &mut random, || false).group_of, a.group_of);
    }
}
