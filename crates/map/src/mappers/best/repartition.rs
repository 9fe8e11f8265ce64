//! Repartitioning pairs of subtrees: the vertices of two subtrees that communicate are cut in two again, and the
//! subtrees below are filled again; what makes J no worse stays.

use super::anneal::descend;
use super::bisect::{agreed, varied};
use super::context::{Context, Part};
use super::divide::Divider;
use super::state::State;
use super::subgraph::Subgraph;
use crate::random::Random;
use std::ops::Range;

/// Repartitions a state again and again.
pub struct Repartition<'a> {
    context: &'a Context,
    divider: Divider<'a>,
    /// Vertices that communicate.
    communicating: &'a [u32],
    /// Slot of each vertex as the divider wants it.
    wanted: Vec<u32>,
    /// Whether some vertices are held where they are.
    holds: bool,
    /// Vertices that were perturbed, around which most is tried; empty where everything is.
    pub focus: Vec<u32>,
    /// Part that each vertex is to be in, while subtrees are divided again.
    part_of: Vec<u32>,
}

/// In no part.
const ELSEWHERE: u32 = u32::MAX;

/// Two subtrees of one level.
struct Pair {
    level: usize,
    groups: [Range<u32>; 2],
    /// Whether they are in one subtree of the level above.
    siblings: bool,
}

/// The vertices of a pair that may move, those of the first subtree first, with their graph.
struct Cut {
    vertices: Vec<u32>,
    subgraph: Subgraph,
    first: usize,
    /// The side of each vertex now.
    old: Vec<u8>,
    /// Slots of each subtree that have to stay empty, whatever moves.
    kept: [Vec<u32>; 2],
}

impl<'a> Repartition<'a> {
    /// For the states of a net and layout.
    pub fn new(divider: Divider<'a>, communicating: &'a [u32], state: &State, context: &'a Context) -> Self {
        let holds = state.rules.held.iter().any(|&held| held);
        Self {
            context,
            divider,
            communicating,
            wanted: vec![0; state.net.len()],
            holds,
            focus: Vec::new(),
            part_of: Vec::new(),
        }
    }

    /// One repartition. Where `accept` is set the result stays even if J becomes more.
    pub fn step(&mut self, state: &mut State<'a>, random: &mut Random, accept: bool) {
        let Some(pair) = self.draw(state, random) else { return };
        let (context, numbers) = (self.context, self.context.repartition);
        if !self.holds
            && context.uses(Part::Redivision)
            && !accept
            && pair.siblings
            && pair.level < state.layout.tree.levels()
            && random.below(100) < if self.is_small(state) { numbers.redivided_of_few } else { numbers.redivided }
        {
            return self.redivide(state, &pair, random);
        }
        let cut = self.cut(state, &pair);
        if cut.first == 0 || cut.first == cut.vertices.len() {
            return;
        }
        let leaves = pair.level == state.layout.tree.levels();
        let again = random.below(100) < if leaves { numbers.scratch / 2 } else { numbers.scratch };
        let mut side = cut.old.clone();
        if again {
            side = agreed(&cut.subgraph, cut.first as i32, 1, 2, Some(side), context, random);
        } else {
            side = varied(&cut.subgraph, &side, cut.first as i32, context, random);
        }
        if side.iter().filter(|&&side| side == 0).count() != cut.first {
            return;
        }
        if !leaves && !accept {
            let (new, old) = (cut.subgraph.cost(&side), cut.subgraph.cost(&cut.old));
            if new > old + self.tolerated(state) || (side == cut.old && random.below(8) > 0) {
                return;
            }
        }
        if leaves {
            recut(state, &cut, &side, accept);
        } else {
            self.rebuild(state, &pair, &cut, &side, random, accept);
        }
    }

    fn is_small(&self, state: &State) -> bool {
        state.net.len() <= self.context.walk.small
    }

    /// By how much a cut may be dearer for the subtrees below to be filled again in the hope that they make up for it:
    /// in small problems they are a good part of J.
    fn tolerated(&self, state: &State) -> i64 {
        if self.is_small(state) { state.total / self.context.repartition.tolerated } else { 0 }
    }

    /// Another vertex whose subtree something might go to: one that a vertex communicates with, or an empty slot.
    fn other(&self, state: &State, vertex: usize, random: &mut Random) -> Option<usize> {
        let (tasks, row) = (state.net.tasks, state.net.row(vertex));
        if row.is_empty() {
            return None;
        }
        if tasks < state.net.len() && random.below(100) < self.context.repartition.idle {
            return Some(tasks + random.below(state.net.len() - tasks));
        }
        Some(row[random.below(row.len())].0 as usize)
    }

    /// Two subtrees that communicate, or one of which has an empty slot, at a random level: more often a low one, where
    /// it is cheap.
    fn draw(&self, state: &State, random: &mut Random) -> Option<Pair> {
        let tree = &state.layout.tree;
        for _ in 0..64 {
            let near = !self.focus.is_empty() && random.below(100) < self.context.repartition.near;
            let from = if near { &self.focus } else { self.communicating };
            let vertex = from[random.below(from.len())] as usize;
            let Some(partner) = self.other(state, vertex, random) else { continue };
            let (a, b) = (state.group_of[vertex] as usize, state.group_of[partner] as usize);
            if a == b {
                continue;
            }
            let mut level = tree.levels();
            while level > 0 && random.below(100) < self.context.repartition.up {
                level -= 1;
            }
            let mut siblings = false;
            while tree.subtree_at(level, a) == tree.subtree_at(level, b) {
                level += 1;
                siblings = true;
            }
            let siblings = siblings || level == 0 || tree.subtree_at(level - 1, a) == tree.subtree_at(level - 1, b);
            return Some(Pair { level, groups: [tree.subtree_at(level, a), tree.subtree_at(level, b)], siblings });
        }
        None
    }

    /// Fills the cores of each subtree whose groups are pairs with its heaviest perfect matching.
    pub fn match_pairs(&mut self, state: &mut State<'a>) {
        if self.holds || !self.context.uses(Part::Matching) {
            return;
        }
        let tree = &state.layout.tree;
        let mut at = 0;
        while at < tree.groups() {
            let whole = 0..tree.groups() as u32;
            let groups = tree.levels().checked_sub(2).map_or(whole, |above| tree.subtree_at(above, at));
            at = groups.end as usize;
            let vertices = state.vertex_at[tree.slots_in(&groups)].to_vec();
            if self.divider.matched(&vertices, groups.clone(), &mut self.wanted) {
                let before = state.total;
                let saved: Vec<u32> = vertices.iter().map(|&vertex| state.slot_of[vertex as usize]).collect();
                arrange(state, &vertices, |at| self.wanted[vertices[at] as usize]);
                if state.total > before {
                    arrange(state, &vertices, |at| saved[at]);
                }
            }
        }
    }

    /// Exchanges two regions of equal size of two subtrees that communicate, and looks most there from then on.
    pub fn perturb(&mut self, state: &mut State<'a>, random: &mut Random) {
        self.focus.clear();
        let Some(pair) = self.draw(state, random) else { return };
        let tree = &state.layout.tree;
        let sizes = pair.groups.clone().map(|groups| tree.slots_in(&groups).len());
        let size = 1 + random.below((sizes[0].min(sizes[1]) / 2).clamp(1, self.context.repartition.region));
        let regions = pair.groups.map(|groups| region(state, &groups, size, random));
        for (&a, &b) in regions[0].iter().zip(&regions[1]) {
            if state.may_swap(a as usize, b as usize) {
                state.exchange(a as usize, b as usize);
                self.focus.extend([a, b]);
            }
        }
    }

    /// Divides some more siblings of a pair again, all from scratch.
    fn redivide(&mut self, state: &mut State<'a>, pair: &Pair, random: &mut Random) {
        let tree = &state.layout.tree;
        let parent = pair
            .level
            .checked_sub(1)
            .map_or(0..tree.groups() as u32, |above| tree.subtree_at(above, pair.groups[0].start as usize));
        let mut subtrees = pair.groups.to_vec();
        let count = 3 + random.below(2);
        for _ in 0..40 {
            if subtrees.len() == count {
                break;
            }
            let slots = tree.slots_in(&subtrees[random.below(subtrees.len())]);
            let vertex = state.vertex_at[slots.start + random.below(slots.len())] as usize;
            let Some(other) = self.other(state, vertex, random) else { continue };
            let next = tree.subtree_at(pair.level, state.group_of[other] as usize);
            if parent.contains(&next.start) && !subtrees.contains(&next) {
                subtrees.push(next);
            }
        }
        // Which of them are on one side of the first cut is left to chance.
        random.shuffle(&mut subtrees);
        let mut vertices = Vec::new();
        subtrees.iter().for_each(|subtree| vertices.extend_from_slice(&state.vertex_at[tree.slots_in(subtree)]));
        self.divider.now.clone_from(&state.group_of);
        let mut parts = Vec::with_capacity(subtrees.len());
        self.divider.share_out(vertices.clone(), pair.level, &subtrees, &mut parts, random);
        self.part_of.resize(state.net.len(), ELSEWHERE);
        for (part, members) in parts.iter().enumerate() {
            members.iter().for_each(|&vertex| self.part_of[vertex as usize] = part as u32);
        }
        if self.is_promising(state, pair.level, &vertices, &subtrees) {
            self.refill(state, pair.level, parts, &subtrees, random);
        }
        vertices.iter().for_each(|&vertex| self.part_of[vertex as usize] = ELSEWHERE);
    }

    /// Whether less is cut between the parts than between the subtrees now, or as much of another kind.
    fn is_promising(&self, state: &State, level: usize, vertices: &[u32], subtrees: &[Range<u32>]) -> bool {
        let (mut more, mut differs) = (0_i64, false);
        for &vertex in vertices {
            let own = &subtrees[self.part_of[vertex as usize] as usize];
            differs |= !own.contains(&state.group_of[vertex as usize]);
            let now = subtrees.iter().find(|subtree| subtree.contains(&state.group_of[vertex as usize]));
            for &(other, weight) in state.net.row(vertex as usize) {
                let part = self.part_of[other as usize];
                if part != ELSEWHERE {
                    let was_cut = !now.is_some_and(|now| now.contains(&state.group_of[other as usize]));
                    let is_cut = part != self.part_of[vertex as usize];
                    more += i64::from(weight) * (i64::from(is_cut) - i64::from(was_cut));
                }
            }
        }
        let [a, b] = [subtrees[0].start as usize, subtrees[1].start as usize];
        let apart = state.layout.distance[a * state.layout.groups() + b];
        let step = apart - state.layout.inside(level, a).max(state.layout.inside(level, b));
        // Every edge was seen from both ends.
        differs && more / 2 * i64::from(step) <= self.tolerated(state)
    }

    /// Fills subtrees with the parts, those that changed, and takes it back if J became more.
    fn refill(
        &mut self,
        state: &mut State<'a>,
        level: usize,
        parts: Vec<Vec<u32>>,
        subtrees: &[Range<u32>],
        random: &mut Random,
    ) {
        let before = state.total;
        let (mut changed, mut within) = (Vec::new(), Vec::new());
        for (part, subtree) in parts.into_iter().zip(subtrees) {
            if part.iter().any(|&vertex| !subtree.contains(&state.group_of[vertex as usize])) {
                changed.extend_from_slice(&part);
                within.push(subtree.clone());
                self.divider.divide(part, level + 1, subtree.clone(), &mut self.wanted, random);
            }
        }
        let saved: Vec<u32> = changed.iter().map(|&vertex| state.slot_of[vertex as usize]).collect();
        arrange(state, &changed, |at| self.wanted[changed[at] as usize]);
        descend(state, &changed, &within, None);
        if state.total > before {
            arrange(state, &changed, |at| saved[at]);
        }
    }

    fn cut(&mut self, state: &State, pair: &Pair) -> Cut {
        let layout = state.layout;
        let groups = layout.groups();
        let mut vertices = Vec::new();
        let mut first = 0;
        for (side, range) in pair.groups.iter().enumerate() {
            let all = state.vertex_at[layout.tree.slots_in(range)].iter().copied();
            vertices.extend(all.filter(|&vertex| !self.holds || !state.rules.held[vertex as usize]));
            if side == 0 {
                first = vertices.len();
            }
        }
        let kept = self.withhold(state, pair, &mut vertices, &mut first);
        let [a, b] = [pair.groups[0].start as usize, pair.groups[1].start as usize];
        let factor = layout.distance[a * groups + b] - layout.inside(pair.level, a).max(layout.inside(pair.level, b));
        let row = |group: usize| &layout.distance[group * groups..(group + 1) * groups];
        let (to_a, to_b) = (row(a), row(b));
        let pull = |other: usize| {
            let there = state.group_of[other] as usize;
            to_b[there] - to_a[there]
        };
        let mut subgraph = self.divider.subgraph(&vertices, factor, pull);
        if !state.rules.home.is_empty() {
            let homesick = |vertex: u32| state.homesick(vertex as usize, a, b);
            subgraph.bias.iter_mut().zip(&vertices).for_each(|(bias, &vertex)| *bias += homesick(vertex));
        }
        let old = (0..vertices.len()).map(|at| u8::from(at >= first)).collect();
        Cut { vertices, subgraph, first, old, kept }
    }

    /// Takes the empty slots out of the vertices of a pair, the `first` of them in its first subtree, that have to be
    /// in each.
    fn withhold(&self, state: &State, pair: &Pair, vertices: &mut Vec<u32>, first: &mut usize) -> [Vec<u32>; 2] {
        let mut kept = [Vec::new(), Vec::new()];
        if !self.divider.is_bounded() {
            return kept;
        }
        let is_empty = |vertex: u32| state.net.is_empty_slot(vertex as usize);
        let empty = vertices.iter().filter(|&&vertex| is_empty(vertex)).count();
        let least = self.divider.least_empty(empty, pair.groups.each_ref().map(std::slice::from_ref));
        let (mut at, before) = (0, *first);
        vertices.retain(|&vertex| {
            let side = usize::from(at >= before);
            at += 1;
            let stays = is_empty(vertex) && kept[side].len() < least[side];
            if stays {
                kept[side].push(vertex);
            }
            !stays
        });
        *first -= kept[0].len();
        kept
    }

    /// Fills two subtrees as the new sides say, and takes it back if J became more.
    fn rebuild(
        &mut self,
        state: &mut State<'a>,
        pair: &Pair,
        cut: &Cut,
        side: &[u8],
        random: &mut Random,
        accept: bool,
    ) {
        let before = state.total;
        if self.holds {
            self.divider.hold(&state.vertex_at, &state.rules.held);
        }
        let vertices: Vec<u32> = cut.vertices.iter().chain(cut.kept.iter().flatten()).copied().collect();
        let saved: Vec<u32> = vertices.iter().map(|&vertex| state.slot_of[vertex as usize]).collect();
        for own in 0..2_u8 {
            let members = cut.vertices.iter().zip(side).filter(|(_, side)| **side == own).map(|(&vertex, _)| vertex);
            let members = members.chain(cut.kept[usize::from(own)].iter().copied()).collect();
            let groups = pair.groups[usize::from(own)].clone();
            self.divider.divide(members, pair.level + 1, groups, &mut self.wanted, random);
        }
        arrange(state, &vertices, |at| self.wanted[vertices[at] as usize]);
        if !self.holds {
            // With what is held it might swap too, and arranging back would not undo that.
            descend(state, &vertices, &pair.groups, None);
        }
        if state.total > before && !accept {
            arrange(state, &vertices, |at| saved[at]);
        }
    }
}

/// A region of a subtree grown from a random vertex, always by the one that communicates most with it.
fn region(state: &State, groups: &Range<u32>, size: usize, random: &mut Random) -> Vec<u32> {
    let slots = state.layout.tree.slots_in(groups);
    let mut waiting: Vec<(i32, u32)> = state.vertex_at[slots].iter().map(|&vertex| (0, vertex)).collect();
    let mut region = Vec::with_capacity(size);
    let mut next = random.below(waiting.len());
    while region.len() < size {
        let vertex = waiting.swap_remove(next).1;
        region.push(vertex);
        for other in &mut waiting {
            other.0 += state.net.weight(vertex as usize, other.1 as usize);
        }
        next = (0..waiting.len()).max_by_key(|&at| waiting[at].0).unwrap_or(0);
    }
    region
}

/// Two groups: the change of the cut is the change of J.
fn recut(state: &mut State, cut: &Cut, side: &[u8], accept: bool) {
    if cut.subgraph.cost(side) > cut.subgraph.cost(&cut.old) && !accept {
        return;
    }
    let moved = |from: u8| (0..side.len()).filter(|&at| cut.old[at] == from && side[at] != from).collect::<Vec<_>>();
    for (a, b) in moved(0).into_iter().zip(moved(1)) {
        state.exchange(cut.vertices[a] as usize, cut.vertices[b] as usize);
    }
}

/// Brings each of the vertices to a slot; together they have these slots already.
pub fn arrange(state: &mut State, vertices: &[u32], slot: impl Fn(usize) -> u32) {
    for (at, &vertex) in vertices.iter().enumerate() {
        let other = state.vertex_at[slot(at) as usize];
        if other != vertex {
            state.exchange(vertex as usize, other as usize);
        }
    }
}

/// Brings every vertex to a slot of its group, those that are there already staying.
pub fn regroup(state: &mut State, group_of: &[u32]) {
    let changed: Vec<u32> = (0..group_of.len() as u32)
        .filter(|&vertex| group_of[vertex as usize] != state.group_of[vertex as usize])
        .collect();
    let mut freed: Vec<(u32, u32)> =
        changed.iter().map(|&vertex| (state.group_of[vertex as usize], state.slot_of[vertex as usize])).collect();
    freed.sort_unstable();
    let mut wanted: Vec<(u32, u32)> = changed.iter().map(|&vertex| (group_of[vertex as usize], vertex)).collect();
    wanted.sort_unstable();
    let vertices: Vec<u32> = wanted.iter().map(|&(_, vertex)| vertex).collect();
    arrange(state, &vertices, |at| freed[at].1);
}
