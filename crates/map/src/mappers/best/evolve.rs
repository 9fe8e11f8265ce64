//! Small or dense problems: the tasks divided over subtrees of the tree that are not too small, by tabu search ([`super::ejection`])
//! from several starts, and then from what two of the divisions found have in common (Benlic and Hao, "A multilevel
//! memetic approach for improving graph k-partitions", 2011). With few tasks, or many to talk with for each, that finds the
//! best division sooner than cutting pairs of subtrees anew; in a large sparse graph it is the other way round.

use super::bisect::{bisect, bisect_well, grown};
use super::clock::Clock;
use super::divide::level_out;
use super::ejection::{self, Division};
use super::layout::{Layout, Tree};
use super::net::Net;
use super::piece::Piece;
use crate::random::Random;
use std::cmp::Reverse;
use std::ops::Range;

/// Slots that a part has at least: below, pairs are matched and groups filled by what is cut there.
const LEAST_SLOTS: usize = 8;

/// Up to so many tasks there are few enough.
pub const FEW: usize = 64;

/// From so many others that a task talks with on average a graph is dense, and up to so many tasks it is divided here.
pub const DENSE: Dense = Dense { others: 24, tasks: 1_024 };

/// The same where the tasks are blocks of tasks: what one of them talks with is in no order then, more often than not.
pub const DENSE_OF_BLOCKS: Dense = Dense { others: 12, tasks: 512 };

/// From what number of others on, for each task, and up to how many tasks a graph is divided here.
#[derive(Debug, Clone, Copy)]
pub struct Dense {
    /// The others.
    pub others: usize,
    tasks: usize,
}

/// Divisions kept at a time.
const POPULATION: usize = 6;

/// Recombinations in a row that led to nothing, after which the divisions are too much alike, and all begins anew.
const PATIENCE: usize = 10;

/// Moves without success, for each task, that end a search, and where there are two parts: those have been cut by such moves.
const MOVES: usize = 3;
const MOVES_OF_TWO: usize = 1;

/// Of the time, in a hundred, how much goes to divisions, and where there are few tasks.
const TIME: u128 = 75;
const TIME_OF_FEW: u128 = 85;

/// Cuts of the coarsest graph that are tried for a start, and for the first.
const TRIES: usize = 2;
const TRIES_FIRST: usize = 4;

/// The division of all tasks over the finest subtrees that are large enough.
#[derive(Debug)]
pub struct Parts {
    whole: Piece,
    /// The subtrees, as groups.
    pub layout: Layout,
    /// The level whose subtrees they are.
    pub level: usize,
    /// Whether a task talks with many others.
    is_dense: bool,
    search: Box<dyn ejection::Search>,
}

impl Parts {
    /// What there is to divide; none where the graph is large and sparse, or the tree has no such subtrees.
    pub fn new(net: &Net, layout: &Layout, dense: Dense) -> Option<Self> {
        let arcs: usize = (0..net.len()).map(|vertex| net.row(vertex).len()).sum();
        let is_dense = arcs >= dense.others * net.len() && net.len() <= dense.tasks;
        let fits = |&level: &usize| {
            let parts = layout.tree.parts(level).len();
            parts > 1 && net.len() / parts >= LEAST_SLOTS
        };
        let level = (0..layout.tree.levels()).rev().find(fits)?;
        if net.len() > FEW && !is_dense {
            return None;
        }
        let (whole, layout) = (Piece::of_net(net), layout.above(level));
        let search = ejection::search(&whole, &layout)?;
        Some(Self { whole, layout, level, is_dense, search })
    }

    /// The best division that is found in [`TIME`] of what is left: group by group of the parts' layout for each vertex.
    pub fn evolve(&self, clock: &mut Clock, random: &mut Random) -> Division {
        let all = clock.left();
        let until = all - all * if self.whole.len() <= FEW { TIME_OF_FEW } else { TIME } / 100;
        // Where the time is short there is one start, which should be a good one, and one step.
        let start = match self.is_dense {
            true => self.spread(random, |piece, first, random| grown(piece, first, false, random)),
            false => self.spread(random, |piece, first, random| bisect_well(piece, first, TRIES_FIRST, random)),
        };
        let mut is_first = true;
        let mut population = vec![self.searched(start, random, || std::mem::take(&mut is_first) || clock.step())];
        let (mut stale, mut ended) = (0, None);
        while clock.left() > until {
            if stale == PATIENCE {
                ended = population.drain(..).chain(ended).min_by_key(|found| found.total);
                stale = 0;
            }
            let goes_on = || clock.left() > until && clock.step();
            if population.len() < POPULATION {
                population.push(self.fresh(random, goes_on));
                continue;
            }
            let a = random.below(POPULATION);
            let b = (a + 1 + random.below(POPULATION - 1)) % POPULATION;
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
            true => self.spread(random, |piece, first, random| grown(piece, first, false, random)),
            false => self.spread(random, |piece, first, random| bisect(piece, first, TRIES, random)),
        };
        self.searched(start, random, goes_on)
    }

    fn searched(&self, start: Vec<u32>, random: &mut Random, mut goes_on: impl FnMut() -> bool) -> Division {
        let moves = if self.layout.groups() == 2 { MOVES_OF_TWO } else { MOVES };
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

    /// Searched from where two divisions agree; the other vertices go, one by one, to where they pay least of what has room.
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
    fn spread(&self, random: &mut Random, cut: impl Fn(&Piece, i32, &mut Random) -> Vec<u8>) -> Vec<u32> {
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
    use super::super::testing::{Ready, ready, talking};
    use super::*;
    use crate::Options;
    use crate::testing::tree;
    use cohabit_model::Matrix;

    /// Whether every group is full, and J of the division what the definition says.
    fn is_right(parts: &Parts, net: &Net, found: &Division) -> bool {
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
            let weight = talking(tasks, 150, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(arities, &[100, 10, 1]));
            let parts = Parts::new(&net, &layout, DENSE).unwrap();
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
        let parts = Parts::new(&net, &layout, DENSE).unwrap();
        let a = Division { total: 1, group_of: (0..24).map(|vertex| vertex / 8).collect() };
        let b = Division { total: 1, group_of: (0..24).map(|vertex| (vertex / 8 + 1) % 3).collect() };
        assert_eq!(partners(3, &a.group_of, &b.group_of), [1, 2, 0]);
        let mut random = Random::new(1);
        assert_eq!(parts.recombined(&a, &b, &mut random, || false).group_of, a.group_of);
    }
}
