//! Dividing vertices over the subtrees of a part of the tree by cutting them in two again and again.

use super::bisect::{Piece, bisect};
use super::layout::Tree;
use super::net::Net;
use crate::random::Random;
use std::ops::Range;

/// Divides vertices over subtrees. Keeps its memory from call to call.
pub struct Divider<'a> {
    net: &'a Net,
    tree: &'a Tree,
    /// Place of each vertex in the piece at hand.
    local: Vec<u32>,
    /// Number of slots before each that may be filled; none where all may.
    open: Option<Vec<u32>>,
    /// How many cuts are tried at the coarsest graph.
    pub tries: usize,
}

/// Not in the piece.
const ELSEWHERE: u32 = u32::MAX;

/// Groups of up to this many slots on average are gathered from edges instead of cut, for up to so many vertices.
const SMALL: usize = 4;
const MOST_GATHERED: usize = 256;

/// The weights of a piece add up to less than this.
const MOST_WEIGHT: i64 = 1 << 29;

impl<'a> Divider<'a> {
    /// For a net and a tree, with a number of cuts to try.
    pub fn new(net: &'a Net, tree: &'a Tree, tries: usize) -> Self {
        Self { net, tree, local: vec![ELSEWHERE; net.len()], open: None, tries }
    }

    /// Leaves the slots of held vertices alone from now on.
    pub fn hold(&mut self, vertex_at: &[u32], held: &[bool]) {
        let counts = vertex_at.iter().scan(0, |count, &vertex| {
            *count += u32::from(!held[vertex as usize]);
            Some(*count)
        });
        self.open = Some(std::iter::once(0).chain(counts).collect());
    }

    /// How many slots of a range of groups may be filled.
    pub fn room(&self, groups: &Range<u32>) -> usize {
        let slots = self.tree.slots_in(groups);
        self.open.as_ref().map_or(slots.len(), |open| (open[slots.end] - open[slots.start]) as usize)
    }

    /// Gives each vertex a slot of `groups` (a whole subtree, split at `level`), which has room for just these.
    pub fn divide(
        &mut self,
        vertices: Vec<u32>,
        level: usize,
        groups: Range<u32>,
        slot_of: &mut [u32],
        random: &mut Random,
    ) {
        if groups.len() == 1 || vertices.is_empty() {
            let slots = self.tree.slots_in(&groups);
            let is_open = |slot: &usize| self.open.as_ref().is_none_or(|open| open[*slot] < open[slot + 1]);
            vertices
                .iter()
                .zip(slots.filter(is_open))
                .for_each(|(&vertex, slot)| slot_of[vertex as usize] = slot as u32);
            return;
        }
        if vertices.len() <= SMALL * groups.len() && vertices.len() <= MOST_GATHERED && self.is_lowest(level, &groups) {
            return self.gather(vertices, groups, slot_of);
        }
        let middle = self.middle(level, &groups);
        if middle == groups.end {
            return self.divide(vertices, level + 1, groups, slot_of, random);
        }
        let (left, right) = (groups.start..middle, middle..groups.end);
        let first = self.room(&left);
        let side = if first == 0 || first == vertices.len() {
            vec![u8::from(first == 0); vertices.len()]
        } else {
            let piece = self.piece(&vertices, 1, |_| 0);
            let tries = if level == 0 { self.tries } else { self.tries.div_ceil(4) };
            bisect(&piece, first as i32, tries, random)
        };
        let of = |own: u8| vertices.iter().zip(&side).filter(move |(_, side)| **side == own).map(|(&vertex, _)| vertex);
        let (mut a, mut b): (Vec<u32>, Vec<u32>) = (of(0).collect(), of(1).collect());
        drop(vertices);
        level_out(&mut a, &mut b, first);
        self.divide(a, level, left, slot_of, random);
        self.divide(b, level, right, slot_of, random);
    }

    /// Whether the children of a subtree are single groups.
    fn is_lowest(&self, level: usize, groups: &Range<u32>) -> bool {
        self.tree.subtree_at(level, groups.start as usize).len() == 1
            && self.tree.subtree_at(level, groups.end as usize - 1).len() == 1
            && (level + 1 >= self.tree.levels()
                || groups.clone().all(|group| self.tree.subtree_at(level, group as usize).len() == 1))
    }

    /// Fills small groups one after the other, each from the heaviest edge that is left.
    fn gather(&mut self, vertices: Vec<u32>, groups: Range<u32>, slot_of: &mut [u32]) {
        let piece = self.piece(&vertices, 1, |_| 0);
        let count = vertices.len();
        let row = |a: usize| {
            piece.neighbours(a).iter().filter(move |arc| arc.0 as usize > a).map(move |&(b, w)| (w, a as u32, b))
        };
        let mut edges: Vec<(i32, u32, u32)> = (0..count).flat_map(row).collect();
        edges.sort_unstable_by(|x, y| y.0.cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
        let mut edges = edges.into_iter();
        let mut free = vec![true; count];
        for group in groups {
            let slots = self.tree.slots_of(group as usize);
            let is_open = |slot: &usize| self.open.as_ref().is_none_or(|open| open[*slot] < open[slot + 1]);
            let mut members: Vec<usize> = Vec::with_capacity(slots.len());
            for slot in slots.filter(is_open) {
                let pull = |&vertex: &usize| {
                    let inside = piece.neighbours(vertex).iter().filter(|arc| members.contains(&(arc.0 as usize)));
                    inside.map(|arc| arc.1).sum::<i32>()
                };
                let next = if members.is_empty() {
                    edges.find(|edge| free[edge.1 as usize] && free[edge.2 as usize]).map(|edge| edge.1 as usize)
                } else {
                    let near = members.iter().flat_map(|&member| piece.neighbours(member)).map(|arc| arc.0 as usize);
                    near.filter(|&other| free[other]).max_by_key(pull)
                };
                let Some(vertex) = next.or_else(|| free.iter().position(|&free| free)) else { return };
                free[vertex] = false;
                members.push(vertex);
                slot_of[vertices[vertex] as usize] = slot as u32;
            }
        }
    }

    /// The group at which the children of a subtree are best split in two halves; the end where it has one child.
    fn middle(&self, level: usize, groups: &Range<u32>) -> u32 {
        let start = |group: u32| self.tree.starts[group as usize];
        let half = (start(groups.start) + start(groups.end)) / 2;
        let mut best = (u32::MAX, groups.end);
        let mut at = self.tree.subtree_at(level, groups.start as usize).end;
        while at < groups.end {
            best = best.min((start(at).abs_diff(half), at));
            at = self.tree.subtree_at(level, at as usize).end;
        }
        best.1
    }

    /// The graph between some vertices, weights times `factor`; `pull` is how much more a unit of weight to a vertex
    /// elsewhere costs from side 1.
    pub fn piece(&mut self, vertices: &[u32], factor: i32, pull: impl Fn(usize) -> i32) -> Piece {
        vertices.iter().enumerate().for_each(|(at, &vertex)| self.local[vertex as usize] = at as u32);
        let mut piece = Piece { size: vec![1; vertices.len()], bias: vec![0; vertices.len()], ..Piece::default() };
        piece.starts.reserve(vertices.len() + 1);
        piece.starts.push(0);
        let mut sum = 0;
        for (own, &vertex) in vertices.iter().enumerate() {
            for &(other, weight) in self.net.row(vertex as usize) {
                match self.local[other as usize] {
                    ELSEWHERE => piece.bias[own] += weight * pull(other as usize),
                    at => {
                        piece.arcs.push((at, weight * factor));
                        sum += i64::from(weight * factor);
                    }
                }
            }
            sum += i64::from(piece.bias[own].abs());
            piece.starts.push(piece.arcs.len() as u32);
        }
        vertices.iter().for_each(|&vertex| self.local[vertex as usize] = ELSEWHERE);
        piece.scale_down(sum / MOST_WEIGHT + 1);
        piece
    }
}

/// Moves vertices from one list to the other until the first has `first`: what cutting left uneven.
fn level_out(a: &mut Vec<u32>, b: &mut Vec<u32>, first: usize) {
    while a.len() > first {
        b.extend(a.pop());
    }
    while a.len() < first {
        a.extend(b.pop());
    }
}
