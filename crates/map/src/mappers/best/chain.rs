//! Tabu search by moves of single vertices: one leaves its group, another follows it or fills the hole it left, and so on
//! until the chain closes (Benlic and Hao, "An effective multilevel tabu search approach for balanced graph
//! partitioning", 2011, with J for the cut). One group lacks a vertex and one has one too many at most, so that a move is
//! chosen among few, where a swap would be chosen among the square of all.
//!
//! What a vertex would pay in each group is kept by vertex and by group, with [`CLOSED`] added where it may not go, so that
//! looking for the cheapest move is reading a few rows from end to end.

use super::layout::Layout;
use super::piece::Piece;
use super::state::Rules;
use crate::random::Random;

/// For how many moves a vertex may not return to a group, in vertices that it talks with on average: that, and up to half
/// as much again by chance.
const TENURE: usize = 2;
const LEAST_TENURE: usize = 5;

/// What is added to the cost where a vertex may not go: where it is, and where it has been lately. More than twice what any
/// pays, moves included (see [`super::net::Net`]).
const CLOSED: i32 = 1 << 29;

/// No cost.
const NEVER: i32 = i32::MAX;

/// Rows are a multiple of this many numbers.
const LANES: usize = 8;

/// For how many moves a vertex of a graph may not return to a group, at least.
pub fn tenure(graph: &Piece) -> usize {
    (TENURE * graph.arcs.len() / graph.len().max(1)).max(LEAST_TENURE)
}

/// A search over the vertices of a graph, one for each slot, none of which is held.
#[derive(Debug)]
pub struct Chain<'a> {
    graph: &'a Piece,
    layout: &'a Layout,
    /// Numbers in a row of `cost`, and in one of `by_group`.
    wide: usize,
    tall: usize,
    /// What each vertex would pay in each group, `[vertex][group]`, and `[group][vertex]`.
    cost: Vec<i32>,
    by_group: Vec<i32>,
    /// What it pays where it is.
    own: Vec<i32>,
    group_of: Vec<u32>,
    /// The vertices of each group, and where in the list each is.
    members: Vec<Vec<u32>>,
    place: Vec<u32>,
    /// What opens again at each move to come, in a ring.
    opening: Vec<Vec<(u32, u32)>>,
    /// Moves made.
    now: usize,
    total: i64,
    /// The group that lacks a vertex and the one that has one too many; none where all are full.
    ends: Option<(usize, usize)>,
    best: Division,
    tenure: usize,
    /// Room for differences of distances.
    change: Vec<i32>,
}

/// All vertices in groups that are full.
#[derive(Debug, Clone)]
pub struct Division {
    /// J in scaled units, each pair once, and the price of the moves.
    pub total: i64,
    /// Group of each vertex.
    pub group_of: Vec<u32>,
}

/// A move of a vertex to a group.
#[derive(Debug, Clone, Copy)]
struct Step {
    change: i32,
    vertex: usize,
    to: usize,
}

impl Step {
    /// Dearer than any.
    const NONE: Self = Self { change: NEVER, vertex: usize::MAX, to: 0 };
}

impl<'a> Chain<'a> {
    /// A search from a start, in which every vertex may move.
    pub fn new(graph: &'a Piece, layout: &'a Layout, rules: &Rules, group_of: Vec<u32>) -> Self {
        let (groups, count) = (layout.groups(), graph.len());
        let (wide, tall) = (groups.next_multiple_of(LANES), count.next_multiple_of(LANES));
        let (mut members, mut place) = (vec![Vec::new(); groups], vec![0; count]);
        for (vertex, &group) in group_of.iter().enumerate() {
            let group = group as usize;
            place[vertex] = members[group].len() as u32;
            members[group].push(vertex as u32);
        }
        let tenure = tenure(graph);
        let mut chain = Self {
            graph,
            layout,
            wide,
            tall,
            cost: vec![0; count * wide],
            by_group: vec![CLOSED; groups * tall],
            own: vec![0; tall],
            best: Division { total: 0, group_of: Vec::new() },
            group_of,
            members,
            place,
            opening: vec![Vec::new(); tenure + tenure / 2 + 2],
            now: 0,
            total: 0,
            ends: None,
            tenure,
            change: vec![0; groups],
        };
        chain.fill(rules);
        chain.best = Division { total: chain.total, group_of: chain.group_of.clone() };
        chain
    }

    fn fill(&mut self, rules: &Rules) {
        let groups = self.layout.groups();
        let (mut twice, mut moves) = (0, 0);
        for (vertex, row) in self.cost.chunks_exact_mut(self.wide).enumerate() {
            let (row, beyond) = row.split_at_mut(groups);
            beyond.fill(CLOSED);
            for &(other, weight) in self.graph.neighbours(vertex) {
                let there = self.group_of[other as usize] as usize;
                let distances = &self.layout.distance[there * groups..(there + 1) * groups];
                row.iter_mut().zip(distances).for_each(|(cost, distance)| *cost += weight * distance);
            }
            let own = self.group_of[vertex] as usize;
            twice += i64::from(row[own]);
            moves += rules.price(vertex, own, row);
            self.own[vertex] = row[own];
            row[own] += CLOSED;
        }
        self.total = twice / 2 + moves;
        for (vertex, row) in self.cost.chunks_exact(self.wide).enumerate() {
            for (group, &cost) in row[..groups].iter().enumerate() {
                self.by_group[group * self.tall + vertex] = cost;
            }
        }
    }

    /// Moves until `patience` moves found nothing better, or `goes_on` says no; returns the best.
    pub fn run(mut self, patience: usize, random: &mut Random, goes_on: impl FnMut() -> bool) -> Division {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            unsafe { self.run_avx2(patience, random, goes_on) };
            return self.best;
        }
        self.run_anywhere(patience, random, goes_on);
        self.best
    }

    /// [`Self::run_anywhere`], eight groups an instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(&mut self, patience: usize, random: &mut Random, goes_on: impl FnMut() -> bool) {
        self.run_anywhere(patience, random, goes_on);
    }

    #[inline(always)]
    fn run_anywhere(&mut self, patience: usize, random: &mut Random, mut goes_on: impl FnMut() -> bool) {
        let mut since = 0;
        while since < patience && goes_on() {
            for _ in 0..MOVES_A_STEP {
                let found = self.step(random);
                since = if found { 0 } else { since + 1 };
            }
        }
    }

    /// A move; whether it led to something better than all before.
    #[inline(always)]
    fn step(&mut self, random: &mut Random) -> bool {
        self.now += 1;
        self.open();
        let mut best = Step::NONE;
        match self.ends {
            None => {
                let vertex = random.below(self.group_of.len());
                self.look_out_of(self.group_of[vertex] as usize, &mut best);
            }
            Some((hole, surplus)) => {
                let close = self.closing(hole, surplus);
                if self.total + i64::from(close.change) < self.best.total {
                    // However lately it was there.
                    best = close;
                } else {
                    self.look_out_of(surplus, &mut best);
                    self.look_into(hole, &mut best);
                    if best.vertex == usize::MAX {
                        best = close;
                    }
                }
            }
        }
        if best.vertex != usize::MAX {
            self.go(&best, random);
        }
        let better = self.ends.is_none() && self.total < self.best.total;
        if better {
            self.best.total = self.total;
            self.best.group_of.clone_from(&self.group_of);
        }
        better
    }

    /// Opens what is to open at this move.
    #[inline(always)]
    fn open(&mut self) {
        let at = self.now % self.opening.len();
        while let Some((vertex, group)) = self.opening[at].pop() {
            self.add(vertex as usize, group as usize, -CLOSED);
        }
    }

    #[inline(always)]
    fn add(&mut self, vertex: usize, group: usize, more: i32) {
        self.cost[vertex * self.wide + group] += more;
        self.by_group[group * self.tall + vertex] += more;
    }

    /// The cheapest move from one group to another, closed or not.
    #[inline(always)]
    fn closing(&self, hole: usize, surplus: usize) -> Step {
        let mut close = Step::NONE;
        for &vertex in &self.members[surplus] {
            let vertex = vertex as usize;
            let cost = self.cost[vertex * self.wide + hole];
            let change = if cost >= CLOSED { cost - CLOSED } else { cost } - self.own[vertex];
            if change < close.change {
                close = Step { change, vertex, to: hole };
            }
        }
        close
    }

    /// The cheapest open move out of a group, if it is cheaper than `best`.
    #[inline(always)]
    fn look_out_of(&self, group: usize, best: &mut Step) {
        let members = &self.members[group];
        for start in (0..self.wide).step_by(LANES) {
            let row = |vertex: u32| {
                let at = vertex as usize * self.wide + start;
                (&self.cost[at..at + LANES], self.own[vertex as usize])
            };
            let mut lanes = [NEVER; LANES];
            for &vertex in members {
                let (row, own) = row(vertex);
                lanes.iter_mut().zip(row).for_each(|(lane, cost)| *lane = (*lane).min(cost - own));
            }
            let least = lanes.into_iter().fold(NEVER, i32::min);
            if least >= best.change || least >= CLOSED / 2 {
                continue;
            }
            let is_it = |&&vertex: &&u32| {
                let (row, own) = row(vertex);
                row.iter().fold(false, |found, cost| found | (cost - own == least))
            };
            if let Some(&vertex) = members.iter().find(is_it) {
                let (row, own) = row(vertex);
                let lane = row.iter().position(|cost| cost - own == least).unwrap_or(0);
                *best = Step { change: least, vertex: vertex as usize, to: start + lane };
            }
        }
    }

    /// The cheapest open move into a group, if it is cheaper than `best`.
    #[inline(always)]
    fn look_into(&self, group: usize, best: &mut Step) {
        let row = &self.by_group[group * self.tall..(group + 1) * self.tall];
        let mut lanes = [NEVER; LANES];
        for (costs, own) in row.chunks_exact(LANES).zip(self.own.chunks_exact(LANES)) {
            lanes.iter_mut().zip(costs.iter().zip(own)).for_each(|(lane, (cost, own))| *lane = (*lane).min(cost - own));
        }
        let least = lanes.into_iter().fold(NEVER, i32::min);
        if least < best.change && least < CLOSED / 2 {
            if let Some(vertex) = row.iter().zip(&self.own).position(|(cost, own)| cost - own == least) {
                *best = Step { change: least, vertex, to: group };
            }
        }
    }

    #[inline(always)]
    fn go(&mut self, step: &Step, random: &mut Random) {
        let (vertex, to) = (step.vertex, step.to);
        let from = self.group_of[vertex] as usize;
        if self.cost[vertex * self.wide + to] >= CLOSED {
            self.reopen(vertex, to);
        }
        // Where it is is closed, and where it was stays so for a while.
        self.add(vertex, to, CLOSED);
        let tenure = self.tenure + random.below(self.tenure / 2 + 1);
        let at = (self.now + tenure) % self.opening.len();
        self.opening[at].push((vertex as u32, from as u32));
        self.total += i64::from(step.change);
        self.own[vertex] += step.change;
        self.list_in(vertex, from, to);
        self.ends = match self.ends {
            None => Some((from, to)),
            Some((hole, surplus)) if to == hole && from == surplus => None,
            Some((hole, surplus)) => {
                Some((if to == hole { from } else { hole }, if from == surplus { to } else { surplus }))
            }
        };
        let groups = self.layout.groups();
        for range in self.layout.differing(from, to) {
            let old = &self.layout.distance[from * groups..][range.clone()];
            let new = &self.layout.distance[to * groups..][range.clone()];
            let change = &mut self.change[..range.len()];
            change.iter_mut().zip(old.iter().zip(new)).for_each(|(change, (old, new))| *change = new - old);
            for &(other, weight) in self.graph.neighbours(vertex) {
                let other = other as usize;
                // A range is mostly one group or two.
                for (group, change) in range.clone().zip(change.iter()) {
                    self.cost[other * self.wide + group] += weight * change;
                    self.by_group[group * self.tall + other] += weight * change;
                }
                let there = self.group_of[other] as usize;
                if range.contains(&there) {
                    self.own[other] += weight * change[there - range.start];
                }
            }
        }
    }

    /// Opens at once what was to open later.
    #[cold]
    fn reopen(&mut self, vertex: usize, group: usize) {
        let wanted = (vertex as u32, group as u32);
        for at in &mut self.opening {
            if let Some(place) = at.iter().position(|&entry| entry == wanted) {
                at.swap_remove(place);
                self.cost[vertex * self.wide + group] -= CLOSED;
                self.by_group[group * self.tall + vertex] -= CLOSED;
                return;
            }
        }
    }

    /// Brings the lists of members up to date.
    #[inline(always)]
    fn list_in(&mut self, vertex: usize, from: usize, to: usize) {
        let place = self.place[vertex] as usize;
        self.members[from].swap_remove(place);
        if let Some(&moved) = self.members[from].get(place) {
            self.place[moved as usize] = place as u32;
        }
        self.place[vertex] = self.members[to].len() as u32;
        self.members[to].push(vertex as u32);
        self.group_of[vertex] = to as u32;
    }
}

/// Moves that count as a step of a search.
const MOVES_A_STEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::repartition::regroup;
    use super::super::state::State;
    use super::super::testing::{Ready, ready, talking};
    use super::*;
    use crate::testing::{slow_cost, tree};

    #[test]
    fn chains_keep_groups_full_and_count_right() {
        let topology = tree(&[2, 3, 4], &[100, 10, 1]);
        for (seed, tasks) in [(1, 24), (2, 24), (3, 20)] {
            let mut random = Random::new(seed);
            let weight = talking(tasks, 80, &mut random);
            let Ready { slots, layout, net } = ready(&weight, &topology);
            let mut rules = Rules::holding(vec![false; net.len()], layout.groups());
            if seed == 2 {
                // Some are at home where they are, some elsewhere, some nowhere.
                rules.move_cost = 3_000;
                rules.home = (0..tasks as u32).map(|task| (task % 3 > 0).then_some(task / 8 + task % 3)).collect();
            }
            let mut state = State::new(&net, &layout, &rules, &(0..24).collect::<Vec<_>>());
            let mut steps = 0..50;
            let whole = Piece::of_net(&net);
            let chain = Chain::new(&whole, &layout, &rules, state.group_of.clone());
            let found = chain.run(2_000, &mut random, || steps.next().is_some());
            assert!(found.total < state.total, "a mapping in the order of the tasks can be made better");
            regroup(&mut state, &found.group_of);
            assert_eq!((state.total, &state.group_of), (found.total, &found.group_of));
            let placement: Vec<usize> = state.slot_of[..tasks].iter().map(|&slot| slots.pu[slot as usize]).collect();
            let away = |&vertex: &usize| {
                rules.home.get(vertex).copied().flatten().is_some_and(|home| home != found.group_of[vertex])
            };
            let price = (0..tasks).filter(away).count() as u128 * rules.move_cost as u128;
            assert_eq!(found.total as u128, slow_cost(&weight, &topology, &placement) + price);
        }
    }
}
