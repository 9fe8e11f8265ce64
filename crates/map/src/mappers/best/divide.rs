//! Dividing vertices over the subtrees of a part of the tree by cutting them in two again and again.

use super::bisect::{agreed, bisect, bisect_well};
use super::clock::Clock;
use super::context::Context;
use super::layout::Tree;
use super::net::Net;
use super::state::Rules;
use super::subgraph::Subgraph;
use crate::mappers::matching::perfect_matching;
use crate::random::Random;
use std::ops::Range;

/// Divides vertices over subtrees. Keeps its memory from call to call.
pub struct Divider<'a> {
    net: &'a Net,
    tree: &'a Tree,
    context: &'a Context,
    /// Place of each vertex in the subgraph at hand.
    local: Vec<u32>,
    /// Number of slots before each that may be filled; none where all may.
    open: Option<Vec<u32>>,
    /// Before each group and after the last, how many slots may be empty; none where any may.
    spare_before: Option<Vec<u32>>,
    /// How many cuts are tried at the coarsest graph.
    pub tries: usize,
    /// How much time the first level may take, where more than one cut of each of its parts is wanted.
    pub pace: Option<Pace>,
    /// How many cuts of each part that allows, or how many are wanted.
    pub parents: Option<usize>,
    /// Whether no part is ever cut again.
    pub is_cut_once: bool,
    /// Threads that may work on large parts.
    pub threads: usize,
    /// The group each vertex is in, where it is in one: parts that could change places stay.
    pub now: Vec<u32>,
}

/// How much time a division may take. Made when it starts, asked after its first cut.
pub struct Pace {
    clock: Clock,
    left: u128,
    /// Cuts on the way from the root to a group of the first level.
    cuts: u32,
}

impl Pace {
    /// A pace for a division that starts now and whose first level has `children` parts.
    pub fn new(clock: &Clock, children: usize) -> Self {
        Self { clock: clock.clone(), left: clock.left(), cuts: children.max(2).ilog2() }
    }

    /// How many cuts to make of each part, up to `most`, so that the first level takes less than half of the time.
    fn parents(&self, most: usize) -> usize {
        if self.clock.counts() {
            return most;
        }
        let left = self.clock.left();
        let one = (self.left - left.min(self.left)) * u128::from(self.cuts);
        // A recombination takes nearly as long as a cut.
        let parents = (left / 2 / one.max(1)).saturating_sub(1);
        (parents as usize).clamp(1, most)
    }
}

/// From this number of vertices on two threads are worth it.
const MANY: usize = 1 << 14;

/// Not in the subgraph.
const ELSEWHERE: u32 = u32::MAX;

/// The weights of a subgraph add up to less than this.
const MOST_WEIGHT: i64 = 1 << 27;

impl<'a> Divider<'a> {
    /// For a net and a tree.
    pub fn new(net: &'a Net, tree: &'a Tree, context: &'a Context) -> Self {
        Self {
            net,
            tree,
            context,
            local: vec![ELSEWHERE; net.len()],
            open: None,
            spare_before: None,
            tries: context.division.tries,
            pace: None,
            parents: None,
            is_cut_once: false,
            threads: 1,
            now: Vec::new(),
        }
    }

    /// Leaves the slots of held vertices alone from now on.
    pub fn hold(&mut self, vertex_at: &[u32], held: &[bool]) {
        let counts = vertex_at.iter().scan(0, |count, &vertex| {
            *count += u32::from(!held[vertex as usize]);
            Some(*count)
        });
        self.open = Some(std::iter::once(0).chain(counts).collect());
    }

    /// Leaves no more slots empty than some rules allow from now on.
    pub fn keep_to(&mut self, rules: &Rules) {
        self.spare_before.clone_from(&rules.spare_before);
    }

    /// How many slots of a range of groups may be empty; none where any may.
    fn spare(&self, groups: &Range<u32>) -> Option<usize> {
        let before = self.spare_before.as_ref()?;
        Some((before[groups.end as usize] - before[groups.start as usize]) as usize)
    }

    /// Whether some slots must be taken though others may be empty.
    pub fn is_bounded(&self) -> bool {
        self.spare_before.is_some()
    }

    /// How many of a number of empty slots have to be in each of two lists of subtrees, whatever else is there.
    pub fn least_empty(&self, empty: usize, sides: [&[Range<u32>]; 2]) -> [usize; 2] {
        let spare = sides.map(|side| side.iter().map(|groups| self.spare(groups).unwrap_or(empty)).sum::<usize>());
        [empty.saturating_sub(spare[1]), empty.saturating_sub(spare[0])]
    }

    /// Takes the empty slots out of `vertices` that have to be in each of two lists of subtrees.
    fn withhold(&self, vertices: &mut Vec<u32>, sides: [&[Range<u32>]; 2]) -> [Vec<u32>; 2] {
        let mut kept = [Vec::new(), Vec::new()];
        if !self.is_bounded() {
            return kept;
        }
        let is_empty = |vertex: u32| self.net.is_empty_slot(vertex as usize);
        let count = vertices.iter().filter(|&&vertex| is_empty(vertex)).count();
        let mut left = self.least_empty(count, sides);
        vertices.retain(|&vertex| {
            let side = left.iter().position(|&left| left > 0).filter(|_| is_empty(vertex));
            side.into_iter().for_each(|side| {
                left[side] -= 1;
                kept[side].push(vertex);
            });
            side.is_none()
        });
        kept
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
        let children = self.tree.children(level, &groups);
        let mut parts = Vec::with_capacity(children.len());
        self.share_out(vertices, level, &children, &mut parts, random);
        for (part, child) in parts.into_iter().zip(children) {
            self.divide(part, level + 1, child, slot_of, random);
        }
    }

    /// Shares vertices out among `subtrees`, all of one level, which together have room for just these.
    pub fn share_out(
        &mut self,
        mut vertices: Vec<u32>,
        level: usize,
        subtrees: &[Range<u32>],
        parts: &mut Vec<Vec<u32>>,
        random: &mut Random,
    ) {
        if subtrees.len() == 1 {
            return parts.push(vertices);
        }
        let (left, right) = subtrees.split_at(self.middle(subtrees));
        let kept = self.withhold(&mut vertices, [left, right]);
        let first = left.iter().map(|subtree| self.room(subtree)).sum::<usize>() - kept[0].len();
        let mut side = if first == 0 || first == vertices.len() {
            vec![u8::from(first == 0); vertices.len()]
        } else {
            let subgraph = self.subgraph(&vertices, 1, |_| 0);
            let now = self.sides_now(&vertices, left, first);
            self.cut(&subgraph, first as i32, level, now, random)
        };
        if 2 * first == vertices.len() {
            self.turn(&vertices, &mut side, left);
        }
        let of = |own: u8| vertices.iter().zip(&side).filter(move |(_, side)| **side == own).map(|(&vertex, _)| vertex);
        let (mut a, mut b): (Vec<u32>, Vec<u32>) = (of(0).collect(), of(1).collect());
        drop(vertices);
        level_out(&mut a, &mut b, first);
        let [empty_a, empty_b] = kept;
        a.extend(empty_a);
        b.extend(empty_b);
        if a.len() + b.len() < MANY {
            self.share_out(a, level, left, parts, random);
            self.share_out(b, level, right, parts, random);
            return;
        }
        // Whether there is a second thread or not, its random numbers are the same.
        let mut others = random.fork(1);
        if self.threads < 2 {
            self.share_out(a, level, left, parts, random);
            return self.share_out(b, level, right, parts, &mut others);
        }
        let mut twin = self.twin();
        self.threads -= twin.threads;
        let of_right = std::thread::scope(|scope| {
            let right = scope.spawn(move || {
                let mut parts = Vec::new();
                twin.share_out(b, level, right, &mut parts, &mut others);
                parts
            });
            self.share_out(a, level, left, parts, random);
            right.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        parts.extend(of_right);
    }

    /// Another divider for the same, with half of the threads.
    fn twin(&self) -> Self {
        let pace = self.pace.as_ref().map(|pace| Pace { clock: pace.clock.clone(), ..*pace });
        Self {
            local: vec![ELSEWHERE; self.net.len()],
            open: self.open.clone(),
            spare_before: self.spare_before.clone(),
            pace,
            threads: self.threads / 2,
            now: self.now.clone(),
            ..*self
        }
    }

    /// The sides that vertices are on now, where that is a cut of the same sizes.
    fn sides_now(&self, vertices: &[u32], left: &[Range<u32>], first: usize) -> Option<Vec<u8>> {
        if self.now.is_empty() {
            return None;
        }
        let is_left = |vertex: u32| left.iter().any(|subtree| subtree.contains(&self.now[vertex as usize]));
        let side: Vec<u8> = vertices.iter().map(|&vertex| u8::from(!is_left(vertex))).collect();
        let count = side.iter().filter(|&&side| side == 0).count();
        (count == first).then_some(side)
    }

    /// Exchanges the sides if more vertices then stay where they are.
    fn turn(&self, vertices: &[u32], side: &mut [u8], left: &[Range<u32>]) {
        if self.now.is_empty() {
            return;
        }
        let is_left = |vertex: u32| left.iter().any(|subtree| subtree.contains(&self.now[vertex as usize]));
        let stay = vertices.iter().zip(side.iter()).filter(|&(&vertex, &side)| is_left(vertex) == (side == 0)).count();
        if 2 * stay < vertices.len() {
            side.iter_mut().for_each(|side| *side ^= 1);
        }
    }

    /// A cut of a part that is split at a level; `now` is how it is cut now.
    fn cut(
        &mut self,
        subgraph: &Subgraph,
        first: i32,
        level: usize,
        now: Option<Vec<u8>>,
        random: &mut Random,
    ) -> Vec<u8> {
        // In a small graph a try costs little, and there is little to choose the best from.
        let context = self.context;
        let small = if subgraph.len() <= context.division.small { context.division.small_tries } else { 1 };
        let tries = small * if level == 0 { self.tries } else { self.tries.div_ceil(4) };
        let Some(pace) = &self.pace else {
            return agreed(subgraph, first, tries, 1 + usize::from(now.is_some()), now, context, random);
        };
        if level > 0 {
            return bisect(subgraph, first, tries, context, random);
        }
        let side = now.or_else(|| Some(bisect_well(subgraph, first, tries, context, random)));
        let parents = *self.parents.get_or_insert_with(|| pace.parents(context.division.parents));
        agreed(subgraph, first, tries, parents, side, context, random)
    }

    /// Fills groups of two with the pairs that communicate most.
    fn pair(&self, subgraph: &Subgraph, vertices: &[u32], groups: Range<u32>, slot_of: &mut [u32]) {
        let count = vertices.len();
        let mut weight = vec![0_i64; count * count];
        for vertex in 0..count {
            subgraph
                .neighbours(vertex)
                .iter()
                .for_each(|arc| weight[vertex * count + arc.0 as usize] = i64::from(arc.1));
        }
        let is_empty = |at: usize| self.net.is_empty_slot(vertices[at] as usize);
        // No group may be empty where some slots must be taken.
        let may_pair = |a: usize, b: usize| !self.is_bounded() || !is_empty(a) || !is_empty(b);
        let partner = perfect_matching(count, |a, b| may_pair(a, b).then(|| weight[a * count + b]));
        let pairs = (0..count).filter(|&vertex| partner[vertex] > vertex);
        for (vertex, group) in pairs.zip(groups) {
            let start = self.tree.slots_of(group as usize).start as u32;
            slot_of[vertices[vertex] as usize] = start;
            slot_of[vertices[partner[vertex]] as usize] = start + 1;
        }
    }

    /// At which of some subtrees they are best split in two halves.
    fn middle(&self, subtrees: &[Range<u32>]) -> usize {
        let size = |subtree: &Range<u32>| self.tree.slots_in(subtree).len();
        let whole: usize = subtrees.iter().map(size).sum();
        let mut best = (usize::MAX, 1);
        let mut sum = 0;
        for (at, subtree) in subtrees.iter().enumerate().take(subtrees.len() - 1) {
            sum += size(subtree);
            best = best.min(((2 * sum).abs_diff(whole), at + 1));
        }
        best.1
    }

    /// Fills groups with the pairs that communicate most, where all are of two slots and few enough.
    pub fn matched(&mut self, vertices: &[u32], groups: Range<u32>, slot_of: &mut [u32]) -> bool {
        let is_pair = |group: u32| {
            let spare = self.spare(&(group..group + 1));
            self.tree.slots_of(group as usize).len() == 2 && spare.is_none_or(|spare| spare == 1)
        };
        let fits = vertices.len() <= self.context.division.matched && groups.clone().all(is_pair);
        if fits {
            let subgraph = self.subgraph(vertices, 1, |_| 0);
            self.pair(&subgraph, vertices, groups, slot_of);
        }
        fits
    }

    /// The graph between some vertices, weights times `factor`; `pull` is how much more a unit of weight to a vertex
    /// elsewhere costs from side 1.
    pub fn subgraph(&mut self, vertices: &[u32], factor: i32, pull: impl Fn(usize) -> i32) -> Subgraph {
        vertices.iter().enumerate().for_each(|(at, &vertex)| self.local[vertex as usize] = at as u32);
        let (size, bias) = (vec![1; vertices.len()], vec![0; vertices.len()]);
        let mut subgraph = Subgraph { size, bias, is_cut_once: self.is_cut_once, ..Subgraph::default() };
        subgraph.starts.reserve(vertices.len() + 1);
        subgraph.starts.push(0);
        let mut sum = 0;
        for (own, &vertex) in vertices.iter().enumerate() {
            for &(other, weight) in self.net.row(vertex as usize) {
                match self.local[other as usize] {
                    ELSEWHERE => subgraph.bias[own] += weight * pull(other as usize),
                    at => {
                        subgraph.arcs.push((at, weight * factor));
                        sum += i64::from(weight * factor);
                    }
                }
            }
            sum += i64::from(subgraph.bias[own].abs());
            subgraph.starts.push(subgraph.arcs.len() as u32);
        }
        vertices.iter().for_each(|&vertex| self.local[vertex as usize] = ELSEWHERE);
        subgraph.scale_down(sum / MOST_WEIGHT + 1);
        subgraph
    }
}

/// Moves vertices from one list to the other until the first has `first`: what cutting left uneven.
pub fn level_out(a: &mut Vec<u32>, b: &mut Vec<u32>, first: usize) {
    while a.len() > first {
        b.extend(a.pop());
    }
    while a.len() < first {
        a.extend(b.pop());
    }
}
