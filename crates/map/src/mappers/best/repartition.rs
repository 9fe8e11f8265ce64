//! Repartitioning pairs of subtrees: the vertices of two subtrees that talk are cut in two anew, and the subtrees below
//! are filled anew; what makes J no worse stays.

use super::anneal::descend;
use super::bisect::{Piece, bisect, disturb, refine};
use super::divide::Divider;
use super::state::State;
use crate::random::Random;
use std::ops::Range;

/// Repartitions a state again and again.
pub struct Repartition<'a> {
    divider: Divider<'a>,
    /// Vertices that talk.
    talking: &'a [u32],
    /// Slot of each vertex as the divider wants it.
    wanted: Vec<u32>,
    /// Whether some vertices are held where they are.
    holds: bool,
}

/// Two subtrees of one level.
struct Pair {
    level: usize,
    groups: [Range<u32>; 2],
}

/// The vertices of a pair that may move, those of the first subtree first, with their graph.
struct Cut {
    vertices: Vec<u32>,
    piece: Piece,
    first: usize,
    /// The side of each vertex now.
    old: Vec<u8>,
}

impl<'a> Repartition<'a> {
    /// For the states of a net and layout.
    pub fn new(divider: Divider<'a>, talking: &'a [u32], state: &State) -> Self {
        let holds = state.rules.held.iter().any(|&held| held);
        Self { divider, talking, wanted: vec![0; state.net.len()], holds }
    }

    /// One repartition. Where `accept` is set the result stays even if J becomes more.
    pub fn step(&mut self, state: &mut State<'a>, random: &mut Random, accept: bool) {
        let Some(pair) = self.draw(state, random) else { return };
        let cut = self.cut(state, &pair);
        if cut.first == 0 || cut.first == cut.vertices.len() {
            return;
        }
        let leaves = pair.level == state.layout.tree.levels();
        let anew = random.below(if leaves { 4 } else { 2 }) == 0;
        let mut side = cut.old.clone();
        if anew {
            side = bisect(&cut.piece, cut.first as i32, 1, random);
        } else {
            disturb(&cut.piece, &mut side, random);
            refine(&cut.piece, &mut side, cut.first as i32);
        }
        if side.iter().filter(|&&side| side == 0).count() != cut.first {
            return;
        }
        if leaves {
            recut(state, &cut, &side, accept);
        } else {
            self.rebuild(state, &pair, &cut, &side, random, accept);
        }
    }

    /// Two subtrees that talk, at a random level: more often a low one, where it is cheap.
    fn draw(&self, state: &State, random: &mut Random) -> Option<Pair> {
        let tree = &state.layout.tree;
        for _ in 0..64 {
            let vertex = self.talking[random.below(self.talking.len())] as usize;
            let row = state.net.row(vertex);
            let partner = row[random.below(row.len())].0 as usize;
            let (a, b) = (state.group_of[vertex] as usize, state.group_of[partner] as usize);
            if a == b {
                continue;
            }
            let mut level = tree.levels();
            while level > 0 && random.below(3) == 0 {
                level -= 1;
            }
            while tree.subtree_at(level, a) == tree.subtree_at(level, b) {
                level += 1;
            }
            return Some(Pair { level, groups: [tree.subtree_at(level, a), tree.subtree_at(level, b)] });
        }
        None
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
        let [a, b] = [pair.groups[0].start as usize, pair.groups[1].start as usize];
        let factor = layout.distance[a * groups + b] - layout.inside(pair.level, a).max(layout.inside(pair.level, b));
        let row = |group: usize| &layout.distance[group * groups..(group + 1) * groups];
        let (to_a, to_b) = (row(a), row(b));
        let pull = |other: usize| {
            let there = state.group_of[other] as usize;
            to_b[there] - to_a[there]
        };
        let mut piece = self.divider.piece(&vertices, factor, pull);
        if !state.rules.home.is_empty() {
            let homesick = |vertex: u32| state.homesick(vertex as usize, a, b);
            piece.bias.iter_mut().zip(&vertices).for_each(|(bias, &vertex)| *bias += homesick(vertex));
        }
        let old = (0..vertices.len()).map(|at| u8::from(at >= first)).collect();
        Cut { vertices, piece, first, old }
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
        let vertices = &cut.vertices;
        let saved: Vec<u32> = vertices.iter().map(|&vertex| state.slot_of[vertex as usize]).collect();
        for own in 0..2_u8 {
            let members = vertices.iter().zip(side).filter(|(_, side)| **side == own).map(|(&vertex, _)| vertex);
            let groups = pair.groups[usize::from(own)].clone();
            self.divider.divide(members.collect(), pair.level + 1, groups, &mut self.wanted, random);
        }
        arrange(state, vertices, |at| self.wanted[vertices[at] as usize]);
        if !self.holds {
            // With what is held it might swap too, and arranging back would not undo that.
            descend(state, vertices, &pair.groups);
        }
        if state.total > before && !accept {
            arrange(state, vertices, |at| saved[at]);
        }
    }
}

/// Two groups: the change of the cut is the change of J.
fn recut(state: &mut State, cut: &Cut, side: &[u8], accept: bool) {
    if cut.piece.cost(side) > cut.piece.cost(&cut.old) && !accept {
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
