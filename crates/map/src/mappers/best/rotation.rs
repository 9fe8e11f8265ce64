//! Rotations: some vertices go from one group to a second, as many from that to a third, and so on until as many come to the
//! first. Cutting two groups anew cannot find that, since each has to stay full, nor do moves of single vertices, since a vertex
//! rarely goes alone (Sanders and Schulz, "Think locally, act globally: highly balanced graph partitioning", SEA 2013, look
//! for negative cycles of single moves; here each step of a cycle is a cut of two groups of other sizes).
//!
//! For two groups that talk, a tabu search that walks through sizes of the sides notes the best cut for each ([`Profile`]). A
//! cycle of such cuts whose gains add up is then looked for in depth: it has a first step from which on what was gained so
//! far is always more than nothing, so that few ways are gone. Profiles are kept as long as both groups stay what they are.

use super::halves::{Gains, SHUT};
use super::layout::Layout;
use super::repartition::regroup;
use super::state::State;

/// Vertices of two groups at most, and of one at least.
const MOST: usize = 256;
const LEAST: usize = 4;

/// By how many vertices a side may have more or less, but for no more than one in so many.
const SPREAD: usize = 6;
const PART: usize = 3;

/// Sizes of the second side in a profile.
const SIZES: usize = 2 * SPREAD + 1;

/// How often all sizes are walked through, with how many moves at each.
const SWEEPS: usize = 2;
const MOVES: usize = 2;

/// Steps of a cycle at most, and ways that are gone from a first step.
const LONGEST: usize = 6;
const WAYS: usize = 3_000;

/// So many groups that a group talks with most are looked at.
const NEAR: usize = 8;

/// Pairs of groups between two looks at the clock.
const LOOK: usize = 4;

/// A gain that is none: sums of it stay far from the limits.
const NEVER: i64 = i64::MIN / 16;

/// Which of the vertices of two groups change sides.
type Changed = [u64; MOST / 64];

/// What cutting two groups anew gains, by how many more vertices the second one gets than it gives.
#[derive(Debug)]
struct Profile {
    /// What the groups were.
    marks: (u64, u64),
    vertices: Vec<u32>,
    gain: [i64; SIZES],
    changed: [Changed; SIZES],
}

/// A step of a cycle: from a group to another.
type Step = (u32, u32);

/// A cycle: what it should gain, how many vertices more go each step than come back, and the steps.
type Cycle = (i64, usize, Vec<Step>);

/// Rotates vertices of a state among its groups.
pub struct Rotation {
    groups: usize,
    /// Vertices of the two largest groups.
    wide: usize,
    /// The last two of each pair of groups, the newer one first: the search goes back and forth.
    profiles: Vec<[Option<Box<Profile>>; 2]>,
    /// The vertices of each group when it was last looked at, in the order of slots, and a mark of them in any order.
    seen: Vec<Vec<u32>>,
    marks: Vec<u64>,
    /// The groups that each talks with.
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
pub fn suits(layout: &Layout) -> bool {
    layout.groups() > 2 && sizes(layout).all(|size| (LEAST..=MOST / 2).contains(&size))
}

impl Rotation {
    /// For states of a layout and rules; none where groups are too small or too large, or some slots may not stay empty.
    pub fn new(state: &State) -> Option<Self> {
        let (groups, layout) = (state.layout.groups(), state.layout);
        let is_free = state.rules.leave_any_slot_empty(state.net, layout);
        (suits(layout) && is_free).then(|| Self {
            groups,
            wide: 2 * sizes(layout).max().unwrap_or(0),
            profiles: (0..groups * groups).map(|_| [None, None]).collect(),
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

    /// Sees which groups have changed, and whom they talk with.
    fn look(&mut self, state: &State) {
        for group in 0..self.groups {
            let now = &state.vertex_at[state.layout.tree.slots_of(group)];
            if self.seen[group] == now {
                continue;
            }
            self.fresh[group] = true;
            self.seen[group].clear();
            self.seen[group].extend_from_slice(now);
            self.marks[group] = now.iter().map(|&vertex| mark(vertex)).fold(0, u64::wrapping_add);
            let mut talks = vec![0_i64; self.groups];
            for arc in now.iter().flat_map(|&vertex| state.net.row(vertex as usize)) {
                talks[state.group_of[arc.0 as usize] as usize] += i64::from(arc.1);
            }
            talks[group] = 0;
            let near = &mut self.near[group];
            near.clear();
            near.extend((0..self.groups as u32).filter(|&other| talks[other as usize] > 0));
            near.sort_by_key(|&other| -talks[other as usize]);
            near.truncate(NEAR);
        }
        for group in 0..self.groups {
            for at in 0..self.near[group].len() {
                let other = self.near[group][at] as usize;
                if !self.near[other].contains(&(group as u32)) {
                    self.near[other].push(group as u32);
                }
            }
        }
    }

    /// Makes profiles of the pairs of groups that have changed; false where `goes_on` said no.
    fn refresh(&mut self, state: &State, goes_on: &mut impl FnMut() -> bool) -> bool {
        let mut made = 0;
        for a in 0..self.groups {
            for at in 0..self.near[a].len() {
                let b = self.near[a][at] as usize;
                let marks = (self.marks[a], self.marks[b]);
                let pair = &mut self.profiles[a * self.groups + b];
                let is_it = |profile: &Option<Box<Profile>>| profile.as_ref().is_some_and(|own| own.marks == marks);
                if b < a || is_it(&pair[0]) {
                    continue;
                }
                pair.swap(0, 1);
                if is_it(&pair[0]) {
                    continue;
                }
                let mut profile = pair[0].take().unwrap_or_else(|| Box::new(Profile::new()));
                profile.marks = marks;
                let two = Two { state, a, b, arcs: &mut self.arcs };
                match self.wide {
                    0..=32 => two.fill::<32>(&mut profile),
                    33..=64 => two.fill::<64>(&mut profile),
                    65..=128 => two.fill::<128>(&mut profile),
                    _ => two.fill::<256>(&mut profile),
                }
                pair[0] = Some(profile);
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
        self.profiles[pair][0].as_ref().map_or(NEVER, |profile| profile.gain[at])
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
                        let mut search =
                            Search { all: self, size, left: WAYS, way: vec![(from, to)], best: (0, size, Vec::new()) };
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
            let Some(profile) = &self.profiles[pair][0] else { return false };
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
        self.profiles[pair][0].iter_mut().for_each(|profile| profile.gain[at] = NEVER);
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
    way: Vec<Step>,
    best: Cycle,
}

impl Search<'_> {
    /// Goes on from a group, with what was gained so far.
    fn go(&mut self, at: u32, gained: i64) {
        let start = self.way[0].0;
        for &to in &self.all.near[at as usize] {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let gain = gained + self.all.gain((at, to), self.size);
            if to == start {
                if self.way.len() > 1 && gain > self.best.0 {
                    self.best.0 = gain;
                    self.best.2.clone_from(&self.way);
                    self.best.2.push((at, to));
                }
            } else if gain > 0 && self.way.len() + 1 < LONGEST && self.way.iter().all(|step| step.1 != to) {
                self.way.push((at, to));
                self.go(to, gain);
                self.way.pop();
            }
        }
    }
}

impl Profile {
    fn new() -> Self {
        Self { marks: (0, 0), vertices: Vec::new(), gain: [NEVER; SIZES], changed: [[0; MOST / 64]; SIZES] }
    }
}

/// Two groups that are looked at.
struct Two<'a, 'b> {
    state: &'a State<'b>,
    a: usize,
    b: usize,
    arcs: &'a mut Vec<(u32, i32)>,
}

impl Two<'_, '_> {
    fn fill<const WIDE: usize>(self, profile: &mut Profile) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.fill_avx2::<WIDE>(profile) };
        }
        self.fill_anywhere::<WIDE>(profile);
    }

    /// [`Self::fill_anywhere`], eight gains an instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn fill_avx2<const WIDE: usize>(self, profile: &mut Profile) {
        self.fill_anywhere::<WIDE>(profile);
    }

    /// Walks through all sizes of the two groups, and notes the best cut that is found of each.
    #[inline(always)]
    fn fill_anywhere<const WIDE: usize>(mut self, profile: &mut Profile) {
        profile.gain = [NEVER; SIZES];
        profile.gain[SPREAD] = 0;
        profile.changed[SPREAD] = [0; MOST / 64];
        profile.vertices.clear();
        let slots = [self.a, self.b].map(|group| self.state.layout.tree.slots_of(group));
        let smaller = slots[0].len().min(slots[1].len());
        for slots in slots {
            profile.vertices.extend_from_slice(&self.state.vertex_at[slots]);
        }
        let spread = SPREAD.min(smaller / PART) as i32;
        let mut starts = [0; WIDE];
        let Some(mut gains) = self.gains::<WIDE>(&profile.vertices, &mut starts) else { return };
        let arcs = &*self.arcs;
        let neighbours = |number: usize| {
            let end = starts.get(number + 1).filter(|_| number + 1 < profile.vertices.len());
            &arcs[starts[number] as usize..end.map_or(arcs.len(), |&end| end as usize)]
        };
        let mut changed = [0; MOST / 64];
        // By how many vertices the second group has more than it should, and is to have at the moment.
        let (mut more, mut wanted, mut way) = (0_i32, 0_i32, 1);
        let (mut total, mut here, mut sweeps) = (0, 0, 0);
        loop {
            if here == MOVES {
                here = 0;
                wanted += way;
                if wanted.abs() == spread {
                    way = -way;
                } else if wanted == 0 && way > 0 {
                    sweeps += 1;
                    if sweeps == SWEEPS {
                        return;
                    }
                }
            }
            let found = if more < wanted {
                gains.best(0)
            } else if more > wanted {
                gains.best(1)
            } else {
                here += 1;
                gains.best_of_both()
            };
            if found <= SHUT {
                return;
            }
            let (number, gain) = gains.go(found, 1, neighbours);
            changed[number / 64] ^= 1 << (number % 64);
            more += if gains.side[number] == 1 { 1 } else { -1 };
            total += i64::from(gain);
            if let Some(best) = profile.gain.get_mut((more + SPREAD as i32) as usize).filter(|best| total > **best) {
                *best = total;
                profile.changed[(more + SPREAD as i32) as usize] = changed;
            }
        }
    }

    /// What a move of each of the vertices to the other group gains, with where each one's arcs to others of them start.
    #[inline(always)]
    fn gains<const WIDE: usize>(&mut self, vertices: &[u32], starts: &mut [u32; WIDE]) -> Option<Gains<WIDE>> {
        let (state, a, b) = (self.state, self.a as u32, self.b as u32);
        let layout = state.layout;
        let distance = |x: u32, y: u32| layout.distance[x as usize * layout.groups() + y as usize];
        // What a move of one changes what a move of the other gains by, for a unit of weight.
        let apart = 2 * distance(a, b) - distance(a, a) - distance(b, b);
        let (of_a, of_b) = (layout.tree.slots_of(self.a), layout.tree.slots_of(self.b));
        self.arcs.clear();
        let mut gains = Gains::new(vertices.len());
        let mut greatest = 0;
        for (number, &vertex) in vertices.iter().enumerate() {
            let vertex = vertex as usize;
            starts[number] = self.arcs.len() as u32;
            let mut all = 0;
            for &(other, weight) in state.net.row(vertex) {
                let (there, slot) = (state.group_of[other as usize], state.slot_of[other as usize] as usize);
                let at = match there {
                    _ if there == a => slot - of_a.start,
                    _ if there == b => of_a.len() + slot - of_b.start,
                    _ => continue,
                };
                all += i64::from(weight) * i64::from(apart);
                self.arcs.push((at as u32, weight * apart));
            }
            let side = u8::from(number >= of_a.len());
            let (own, other) = if side == 0 { (self.a, self.b) } else { (self.b, self.a) };
            let gain = state.cost(vertex, own) - state.cost(vertex, other);
            greatest = greatest.max(all + i64::from(gain.abs()));
            gains.put(number, side, gain);
            if state.rules.fixed[vertex] {
                gains.fix(number);
            }
        }
        Gains::<WIDE>::fits(greatest).then_some(gains)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Rules;
    use super::super::testing::{Ready, ready, talking};
    use super::*;
    use crate::random::Random;
    use crate::testing::tree;

    /// J of groups of any sizes, each pair once.
    fn cost(state: &State, group_of: &[u32]) -> i64 {
        let (layout, groups) = (state.layout, state.layout.groups());
        let pays = |vertex: usize| {
            let row = state.net.row(vertex).iter();
            let distances = &layout.distance[group_of[vertex] as usize * groups..][..groups];
            row.map(|arc| i64::from(arc.1) * i64::from(distances[group_of[arc.0 as usize] as usize])).sum::<i64>()
        };
        (0..group_of.len()).map(pays).sum::<i64>() / 2
    }

    #[test]
    fn profiles_gain_what_the_definition_says() {
        for (arities, fixed) in [(&[2, 2, 6][..], false), (&[2, 2, 20], true), (&[3, 40], false), (&[3, 100], true)] {
            let tasks = arities.iter().product();
            let mut random = Random::new(tasks as u64);
            let weight = talking(tasks, 5 * tasks, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(arities, &[100, 10, 1][3 - arities.len()..]));
            let mut rules = Rules::holding(vec![false; net.len()], layout.groups());
            rules.fixed[0] = fixed;
            let state = State::new(&net, &layout, &rules, &(0..tasks as u32).collect::<Vec<_>>());
            let mut rotation = Rotation::new(&state).unwrap();
            rotation.look(&state);
            assert!(rotation.refresh(&state, &mut || true));
            let mut profiles = 0;
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                let profile = rotation.profiles[a * rotation.groups + b][0].as_ref().unwrap();
                for (at, &gain) in profile.gain.iter().enumerate().filter(|gain| *gain.1 > NEVER) {
                    let mut group_of = state.group_of.clone();
                    for (number, &vertex) in profile.vertices.iter().enumerate() {
                        if profile.changed[at][number / 64] >> (number % 64) & 1 == 1 {
                            assert!(!rules.fixed[vertex as usize]);
                            let own = &mut group_of[vertex as usize];
                            *own = if *own == a as u32 { b as u32 } else { a as u32 };
                        }
                    }
                    let size = group_of.iter().filter(|&&own| own == b as u32).count();
                    assert_eq!(size + SPREAD, layout.tree.slots_of(b).len() + at);
                    assert_eq!(state.total - cost(&state, &group_of), gain, "{arities:?}");
                    profiles += 1;
                }
            }
            assert!(profiles > 3 * 3);
        }
    }

    #[test]
    fn groups_go_round() {
        // Three groups of four, two of each of which talk with the next one's others: any two groups are best left alone.
        let pairs = |from: u32, to: u32| [(4 * from, 4 * to + 2, 9), (4 * from + 1, 4 * to + 3, 9)];
        let entries: Vec<_> = [(0, 1), (1, 2), (2, 0)].into_iter().flat_map(|(from, to)| pairs(from, to)).collect();
        let held = (0..3).flat_map(|group| [(4 * group, 4 * group + 1, 5), (4 * group + 2, 4 * group + 3, 5)]);
        let weight = cohabit_model::Matrix::from_triplets(12, entries.into_iter().chain(held));
        let Ready { layout, net, .. } = ready(&weight, &tree(&[3, 4], &[10, 1]));
        let rules = Rules::holding(vec![false; 12], layout.groups());
        let mut state = State::new(&net, &layout, &rules, &(0..12).collect::<Vec<_>>());
        Rotation::new(&state).unwrap().run(&mut state, || true);
        assert_eq!(state.total, cost(&state, &state.group_of));
        let together = |a: usize, b: usize| state.group_of[a] == state.group_of[b];
        assert!([(0, 6), (4, 10), (8, 2)].into_iter().all(|(a, b)| together(a, b)), "{:?}", state.group_of);
    }

    #[test]
    fn rotations_only_make_better_and_keep_groups_full() {
        for seed in 0..4 {
            let mut random = Random::new(seed);
            let weight = talking(90, 300, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(&[3, 3, 10], &[100, 10, 1]));
            let rules = Rules::holding((0..90).map(|vertex| vertex % 7 == 0).collect(), layout.groups());
            let mut start: Vec<u32> = (0..90).collect();
            random.shuffle(&mut start);
            let mut state = State::new(&net, &layout, &rules, &start);
            let before = state.clone();
            Rotation::new(&state).unwrap().run(&mut state, || true);
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
