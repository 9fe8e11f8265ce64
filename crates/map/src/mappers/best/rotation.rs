//! Rotations: some vertices go from one group to a second, as many from that to a third, and so on until as many come
//! to the first. Cutting two groups again cannot find that, since each has to stay full, nor do moves of single
//! vertices, since a vertex rarely goes alone (Sanders and Schulz, "Think locally, act globally: highly balanced graph
//! partitioning", SEA 2013, look for negative cycles of single moves; here each step of a cycle is a cut of two groups
//! of other sizes).
//!
//! For two groups that communicate there is a [`Profile`], the best cut that was found for each of several sizes. A
//! cycle of such cuts whose gains add up is then looked for in depth: it has a first step from which on what was gained
//! so far is always more than nothing, so that few ways are gone. Profiles are kept as long as both groups stay what
//! they are.

use super::context::{self, Context, Part};
use super::layout::Layout;
use super::profile::{Key, MOST, NEVER, Profile, SPREAD, Store, Two};
use super::repartition::regroup;
use super::state::State;
use std::cmp::Reverse;

/// Pairs of groups between two looks at the clock.
const LOOK: usize = 4;

/// A step of a cycle: from a group to another.
type Step = (u32, u32);

/// A cycle: what it should gain, how many vertices more go each step than come back, and the steps.
type Cycle = (i64, usize, Vec<Step>);

/// Rotates vertices of a state among its groups.
pub struct Rotation {
    numbers: context::Rotation,
    caches: bool,
    groups: usize,
    /// Vertices of the two largest groups.
    wide: usize,
    /// Of each pair of groups that communicate.
    profiles: Vec<Option<Box<Profile>>>,
    store: Store,
    /// The vertices of each group when it was last looked at, in the order of slots, and a mark of them in any order.
    seen: Vec<Vec<u32>>,
    marks: Vec<u64>,
    /// The groups that each communicates with.
    near: Vec<Vec<u32>>,
    /// Whether each has changed since cycles were looked for.
    fresh: Vec<bool>,
    arcs: Vec<(u32, i32)>,
}

/// The sizes of a layout's groups.
fn sizes(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    (0..layout.groups()).map(|group| layout.tree.slots_of(group).len())
}

/// Whether there are more than two groups, neither too small nor too large.
pub fn suits(layout: &Layout, context: &Context) -> bool {
    layout.groups() > 2 && sizes(layout).all(|size| (context.rotation.least..=MOST / 2).contains(&size))
}

impl Rotation {
    /// For states of a layout and rules; none where groups are too small or too large, or some slots may not stay
    /// empty.
    pub fn new(state: &State, context: &Context) -> Option<Self> {
        let (groups, layout) = (state.layout.groups(), state.layout);
        let is_free = state.rules.leave_any_slot_empty(state.net, layout);
        let numbers = context.rotation;
        (context.uses(Part::Rotation) && suits(layout, context) && is_free).then(|| Self {
            numbers,
            caches: context.uses(Part::ProfileCache),
            groups,
            wide: 2 * sizes(layout).max().unwrap_or(0),
            profiles: (0..groups * groups).map(|_| None).collect(),
            store: Store::new((groups * numbers.kept).min(numbers.most_kept)),
            seen: vec![Vec::new(); groups],
            marks: vec![0; groups],
            near: vec![Vec::new(); groups],
            fresh: vec![true; groups],
            arcs: Vec::new(),
        })
    }

    /// Rotates until nothing better is found, or `goes_on` says no.
    pub fn run(&mut self, state: &mut State, mut goes_on: impl FnMut() -> bool) {
        loop {
            self.look(state);
            if !self.refresh(state, &mut goes_on) {
                return;
            }
            let mut cycles = self.cycles();
            self.fresh.fill(false);
            if cycles.is_empty() {
                return;
            }
            cycles.sort_by_key(|cycle| -cycle.0);
            let mut touched = vec![false; self.groups];
            for (_, size, steps) in cycles {
                if steps.iter().any(|step| touched[step.0 as usize] || touched[step.1 as usize]) {
                    continue;
                }
                if self.take(state, size, &steps) {
                    steps.iter().for_each(|step| touched[step.0 as usize] = true);
                    steps.iter().for_each(|step| touched[step.1 as usize] = true);
                }
            }
        }
    }

    /// Sees which groups have changed, and whom they communicate with.
    fn look(&mut self, state: &State) {
        let mut to_ask = vec![false; self.groups];
        for group in 0..self.groups {
            let now = &state.vertex_at[state.layout.tree.slots_of(group)];
            if self.seen[group] == now {
                continue;
            }
            self.seen[group].clear();
            self.seen[group].extend_from_slice(now);
            let mark = now.iter().map(|&vertex| mark(vertex)).fold(0, u64::wrapping_add);
            if self.marks[group] != mark {
                self.marks[group] = mark;
                self.fresh[group] = true;
                to_ask[group] = true;
                self.near[group].iter().for_each(|&other| to_ask[other as usize] = true);
                self.put_away(group);
            }
        }
        for group in 0..self.groups {
            if self.fresh[group] && to_ask[group] {
                self.near[group] = self.neighbours_of(state, group);
                self.near[group].iter().for_each(|&other| to_ask[other as usize] = true);
            }
        }
        let of_others: Vec<usize> = (0..self.groups).filter(|&group| to_ask[group] && !self.fresh[group]).collect();
        of_others.into_iter().for_each(|group| self.near[group] = self.neighbours_of(state, group));
        for group in 0..self.groups {
            for at in 0..self.near[group].len() {
                let other = self.near[group][at] as usize;
                if !self.near[other].contains(&(group as u32)) {
                    self.near[other].push(group as u32);
                }
            }
        }
    }

    /// The groups that a group communicates with most, in this order.
    fn neighbours_of(&self, state: &State, group: usize) -> Vec<u32> {
        let mut volume = vec![0_i64; self.groups];
        for arc in self.seen[group].iter().flat_map(|&vertex| state.net.row(vertex as usize)) {
            volume[state.group_of[arc.0 as usize] as usize] += i64::from(arc.1);
        }
        volume[group] = 0;
        let mut near: Vec<u32> = (0..self.groups as u32).filter(|&other| volume[other as usize] > 0).collect();
        near.sort_by_key(|&other| -volume[other as usize]);
        near.truncate(self.numbers.near);
        if state.net.tasks < state.net.len() {
            self.add_idle(state, group, &mut near);
        }
        near
    }

    /// Adds the nearest groups with empty slots, of those alike the emptiest: a task may go there and leave an empty
    /// slot.
    fn add_idle(&self, state: &State, group: usize, near: &mut Vec<u32>) {
        let empty =
            |other: usize| self.seen[other].iter().filter(|&&vertex| state.net.is_empty_slot(vertex as usize)).count();
        let distances = &state.layout.distance[group * self.groups..][..self.groups];
        let others = (0..self.groups).filter(|&other| other != group && !near.contains(&(other as u32)));
        let mut idle: Vec<_> = others.map(|other| (distances[other], Reverse(empty(other)), other as u32)).collect();
        idle.retain(|other| other.1.0 > 0);
        idle.sort_unstable();
        near.extend(idle.iter().take(self.numbers.idle).map(|other| other.2));
    }

    /// Puts the profiles of a group away: it is not what it was.
    fn put_away(&mut self, group: usize) {
        for other in (0..self.groups).filter(|&other| other != group) {
            let pair = group.min(other) * self.groups + group.max(other);
            if let Some(profile) = self.profiles[pair].take() {
                self.store.keep(profile);
            }
        }
    }

    /// What the profile of two groups is of.
    fn key(&self, state: &State, a: usize, b: usize) -> Key {
        let layout = state.layout;
        let around = layout.differing(a, b).map(|range| self.marks[range].iter().copied().fold(0, u64::wrapping_add));
        Key { marks: [self.marks[a], self.marks[b]], around, apart: layout.distance[a * self.groups + b] }
    }

    /// Makes profiles of the pairs of groups that have none; false where `goes_on` said no.
    fn refresh(&mut self, state: &State, goes_on: &mut impl FnMut() -> bool) -> bool {
        let mut made = 0;
        for a in 0..self.groups {
            for at in 0..self.near[a].len() {
                let b = self.near[a][at] as usize;
                let pair = a * self.groups + b;
                if b < a || self.profiles[pair].is_some() {
                    continue;
                }
                let key = self.key(state, a, b);
                self.profiles[pair] = if self.caches { self.store.take(&key) } else { None };
                if self.profiles[pair].is_some() {
                    continue;
                }
                let mut profile = self.store.blank();
                profile.key = key;
                Two { state, a, b, numbers: self.numbers, arcs: &mut self.arcs }.fill(self.wide, &mut profile);
                self.profiles[pair] = Some(profile);
                made += 1;
                if made % LOOK == 0 && !goes_on() {
                    return false;
                }
            }
        }
        true
    }

    /// The place of a pair of groups, and that of a size in its profile, where `size` vertices more go than come back.
    #[inline]
    fn place(&self, (from, to): Step, size: usize) -> (usize, usize) {
        let (from, to) = (from as usize, to as usize);
        if from < to { (from * self.groups + to, SPREAD + size) } else { (to * self.groups + from, SPREAD - size) }
    }

    /// What a step gains when `size` vertices more go than come back.
    #[inline]
    fn gain(&self, step: Step, size: usize) -> i64 {
        let (pair, at) = self.place(step, size);
        self.profiles[pair].as_ref().map_or(NEVER, |profile| profile.gain[at])
    }

    /// The groups that have changed since cycles were looked for, and those that are one or two steps from one.
    fn around_fresh(&self) -> Vec<bool> {
        let next = |from: &[bool]| {
            let is_near = |group: usize| self.near[group].iter().any(|&other| from[other as usize]);
            (0..self.groups).map(|group| from[group] || is_near(group)).collect::<Vec<_>>()
        };
        next(&next(&self.fresh))
    }

    /// The best cycle from every step around what has changed that gains something, and the cuts of two groups that do.
    fn cycles(&self) -> Vec<Cycle> {
        let mut found = Vec::new();
        let is_around = self.around_fresh();
        for from in (0..self.groups as u32).filter(|&group| is_around[group as usize]) {
            for &to in &self.near[from as usize] {
                let same = self.gain((from, to), 0);
                if from < to && same > 0 {
                    found.push((same, 0, vec![(from, to)]));
                }
                for size in 1..=SPREAD {
                    let gain = self.gain((from, to), size);
                    if gain > 0 {
                        let mut search = Search {
                            all: self,
                            size,
                            left: self.numbers.paths,
                            path: vec![(from, to)],
                            best: (0, size, Vec::new()),
                        };
                        search.go(to, gain);
                        found.extend((search.best.0 > 0).then_some(search.best));
                    }
                }
            }
        }
        found
    }

    /// Does the steps of a cycle if that makes J less.
    fn take(&mut self, state: &mut State, size: usize, steps: &[Step]) -> bool {
        let mut group_of = state.group_of.clone();
        let mut is_possible = true;
        for &step in steps {
            let (pair, at) = self.place(step, size);
            let Some(profile) = &self.profiles[pair] else { return false };
            let (a, b) = (step.0.min(step.1), step.0.max(step.1));
            for (number, &vertex) in profile.vertices.iter().enumerate() {
                if profile.changed[at][number / 64] >> (number % 64) & 1 == 1 {
                    let own = &mut group_of[vertex as usize];
                    // Nobody can go two ways.
                    is_possible &= *own == state.group_of[vertex as usize];
                    *own = if *own == a { b } else { a };
                }
            }
        }
        if is_possible {
            let (before, old) = (state.total, state.group_of.clone());
            regroup(state, &group_of);
            if state.total < before {
                return true;
            }
            regroup(state, &old);
        }
        // Not again before one of the two groups has changed, but perhaps another one from there.
        self.fresh[steps[0].0 as usize] = true;
        let (pair, at) = self.place(steps[0], size);
        self.profiles[pair].iter_mut().for_each(|profile| profile.gain[at] = NEVER);
        false
    }
}

/// A number for a vertex; those of different vertices have nothing in common.
fn mark(vertex: u32) -> u64 {
    let mixed = (u64::from(vertex) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The search for a cycle from a first step.
struct Search<'a> {
    all: &'a Rotation,
    size: usize,
    left: usize,
    path: Vec<Step>,
    best: Cycle,
}

impl Search<'_> {
    /// Goes on from a group, with what was gained so far.
    fn go(&mut self, at: u32, gained: i64) {
        let start = self.path[0].0;
        for &to in &self.all.near[at as usize] {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let gain = gained + self.all.gain((at, to), self.size);
            if to == start {
                if self.path.len() > 1 && gain > self.best.0 {
                    self.best.0 = gain;
                    self.best.2.clone_from(&self.path);
                    self.best.2.push((at, to));
                }
            } else if gain > 0
                && self.path.len() + 1 < self.all.numbers.longest
                && self.path.iter().all(|step| step.1 != to)
            {
                self.path.push((at, to));
                self.go(to, gain);
                self.path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Rules;
    use super::super::testing::{Ready, communicating, cost_of_groups, ready};
    use super::*;
    use crate::random::Random;
    use crate::testing::tree;

    fn cost(state: &State, group_of: &[u32]) -> i64 {
        cost_of_groups(state.net, state.layout, group_of)
    }

    #[test]
    fn profiles_gain_what_the_definition_says() {
        for (arities, fixed) in [(&[2, 2, 6][..], false), (&[2, 2, 20], true), (&[3, 40], false), (&[3, 100], true)] {
            let tasks = arities.iter().product();
            let mut random = Random::new(tasks as u64);
            let weight = communicating(tasks, 5 * tasks, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(arities, &[100, 10, 1][3 - arities.len()..]));
            let mut rules = Rules::holding(vec![false; net.len()], layout.groups());
            rules.fixed[0] = fixed;
            let mut state = State::new(&net, &layout, &rules, &(0..tasks as u32).collect::<Vec<_>>());
            let mut rotation = Rotation::new(&state, &Context::DEFAULT).unwrap();
            rotation.look(&state);
            assert!(rotation.refresh(&state, &mut || true));
            assert!(right_gains(&rotation, &state) > 3 * 3);
            if fixed {
                continue;
            }
            // Two groups that change places are what they were, and so are their profiles.
            for (a, b) in [(0, 1), (1, 0)] {
                for (x, y) in layout.tree.slots_of(a).zip(layout.tree.slots_of(b)) {
                    state.exchange(state.vertex_at[x] as usize, state.vertex_at[y] as usize);
                }
                rotation.look(&state);
                assert!(!rotation.store.is_empty() && rotation.refresh(&state, &mut || true));
                assert!(rotation.store.is_empty() && right_gains(&rotation, &state) > 3 * 3);
            }
        }
    }

    /// Checks what the profiles of the first three groups gain; how many gains there are.
    fn right_gains(rotation: &Rotation, state: &State) -> usize {
        let mut gains = 0;
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let profile = rotation.profiles[a * rotation.groups + b].as_ref().unwrap();
            for (at, &gain) in profile.gain.iter().enumerate().filter(|gain| *gain.1 > NEVER) {
                let mut group_of = state.group_of.clone();
                for (number, &vertex) in profile.vertices.iter().enumerate() {
                    if profile.changed[at][number / 64] >> (number % 64) & 1 == 1 {
                        assert!(!state.rules.fixed[vertex as usize]);
                        let own = &mut group_of[vertex as usize];
                        *own = if *own == a as u32 { b as u32 } else { a as u32 };
                    }
                }
                let size = group_of.iter().filter(|&&own| own == b as u32).count();
                assert_eq!(size + SPREAD, state.layout.tree.slots_of(b).len() + at);
                assert_eq!(state.total - cost(state, &group_of), gain, "{a} and {b}");
                gains += 1;
            }
        }
        gains
    }

    #[test]
    fn groups_go_round() {
        // Three groups of four, two of each of which communicate with the next one's others: any two groups are best
        // left alone.
        let pairs = |from: u32, to: u32| [(4 * from, 4 * to + 2, 9), (4 * from + 1, 4 * to + 3, 9)];
        let entries: Vec<_> = [(0, 1), (1, 2), (2, 0)].into_iter().flat_map(|(from, to)| pairs(from, to)).collect();
        let held = (0..3).flat_map(|group| [(4 * group, 4 * group + 1, 5), (4 * group + 2, 4 * group + 3, 5)]);
        let weight = cohabit_model::Matrix::from_triplets(12, entries.into_iter().chain(held));
        let Ready { layout, net, .. } = ready(&weight, &tree(&[3, 4], &[10, 1]));
        let rules = Rules::holding(vec![false; 12], layout.groups());
        let mut state = State::new(&net, &layout, &rules, &(0..12).collect::<Vec<_>>());
        Rotation::new(&state, &Context::DEFAULT).unwrap().run(&mut state, || true);
        assert_eq!(state.total, cost(&state, &state.group_of));
        let together = |a: usize, b: usize| state.group_of[a] == state.group_of[b];
        assert!([(0, 6), (4, 10), (8, 2)].into_iter().all(|(a, b)| together(a, b)), "{:?}", state.group_of);
    }

    #[test]
    fn rotations_only_make_better_and_keep_groups_full() {
        for seed in 0..4 {
            let mut random = Random::new(seed);
            let weight = communicating(90, 300, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(&[3, 3, 10], &[100, 10, 1]));
            let rules = Rules::holding((0..90).map(|vertex| vertex % 7 == 0).collect(), layout.groups());
            let mut start: Vec<u32> = (0..90).collect();
            random.shuffle(&mut start);
            let mut state = State::new(&net, &layout, &rules, &start);
            let before = state.clone();
            Rotation::new(&state, &Context::DEFAULT).unwrap().run(&mut state, || true);
            assert!(state.total < before.total);
            assert_eq!(state.total, cost(&state, &state.group_of));
            let is_full = |group: usize| {
                let size = state.group_of.iter().filter(|&&own| own as usize == group).count();
                size == layout.tree.slots_of(group).len()
            };
            assert!((0..layout.groups()).all(is_full));
            let stays = |vertex: usize| !rules.fixed[vertex] || state.group_of[vertex] == before.group_of[vertex];
            assert!((0..90).all(stays));
        }
    }
}
