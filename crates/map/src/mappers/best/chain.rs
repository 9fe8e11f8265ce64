//! Tabu search by moves of single vertices: one leaves its group, another follows it or fills the hole it left, and so on
//! until the chain closes (Benlic and Hao, "An effective multilevel tabu search approach for balanced graph
//! partitioning", 2011, with J for the cut). One group lacks a vertex and one has one too many at most, so that a move is
//! chosen among few, where a swap would be chosen among the square of all.

use super::repartition::arrange;
use super::state::State;
use crate::random::Random;

/// For how many moves a vertex may not return to a group, in vertices that it talks with on average: that, and up to half
/// as much again by chance.
const TENURE: usize = 2;
const LEAST_TENURE: usize = 5;

/// So many moves, times the square of the vertices that one talks with, that led to nothing better are enough.
const PATIENCE: usize = 8;
const LEAST_PATIENCE: usize = 300;

/// Where no move leads, and where a vertex is.
const NEVER: i32 = i32::MAX;

/// A search with its own copy of what a state knows.
#[derive(Debug)]
pub struct Chain<'a, 'b> {
    state: &'b State<'a>,
    groups: usize,
    /// What each vertex would pay in each group, `[vertex][group]`.
    cost: Vec<i32>,
    /// What it pays where it is.
    own: Vec<i32>,
    /// The move from which on a vertex may go to a group, `[vertex][group]`.
    open_from: Vec<i32>,
    group_of: Vec<u32>,
    /// The vertices of each group, and where in the list each is.
    members: Vec<Vec<u32>>,
    place: Vec<u32>,
    /// Moves made.
    now: i32,
    total: i64,
    /// The group that lacks a vertex and the one that has one too many; none where all are full.
    ends: Option<(usize, usize)>,
    best_total: i64,
    best_group_of: Vec<u32>,
    tenure: usize,
    patience: usize,
    /// Room for differences of distances.
    change: Vec<i32>,
}

/// A move of a vertex to a group.
struct Step {
    change: i32,
    vertex: usize,
    to: usize,
}

impl Step {
    /// Dearer than any.
    const NONE: Self = Self { change: NEVER, vertex: usize::MAX, to: 0 };
}

impl<'a, 'b> Chain<'a, 'b> {
    /// A search from a state, no vertex of which is held.
    pub fn new(state: &'b State<'a>) -> Self {
        let (groups, count) = (state.layout.groups(), state.net.len());
        let mut members = vec![Vec::new(); groups];
        let (mut place, mut own, mut open_from) = (vec![0; count], vec![0; count], vec![0; count * groups]);
        for vertex in 0..count {
            let group = state.group_of[vertex] as usize;
            place[vertex] = members[group].len() as u32;
            members[group].push(vertex as u32);
            own[vertex] = state.cost(vertex, group);
            open_from[vertex * groups + group] = NEVER;
        }
        let degree = (0..count).map(|vertex| state.net.row(vertex).len()).sum::<usize>() / count.max(1);
        Self {
            state,
            groups,
            cost: state.costs().to_vec(),
            own,
            open_from,
            group_of: state.group_of.clone(),
            members,
            place,
            now: 1,
            total: state.total,
            ends: None,
            best_total: state.total,
            best_group_of: state.group_of.clone(),
            tenure: (TENURE * degree).max(LEAST_TENURE),
            patience: (PATIENCE * degree * degree).max(LEAST_PATIENCE),
            change: vec![0; groups],
        }
    }

    /// Moves until nothing better was found for long, or `goes_on` says no; returns the best with its J, the groups of
    /// all vertices.
    pub fn run(mut self, talking: &[u32], random: &mut Random, goes_on: impl FnMut() -> bool) -> (i64, Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            unsafe { self.run_avx2(talking, random, goes_on) };
            return (self.best_total, self.best_group_of);
        }
        self.run_anywhere(talking, random, goes_on);
        (self.best_total, self.best_group_of)
    }

    /// [`Self::run_anywhere`], eight groups an instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(&mut self, talking: &[u32], random: &mut Random, goes_on: impl FnMut() -> bool) {
        self.run_anywhere(talking, random, goes_on);
    }

    #[inline(always)]
    fn run_anywhere(&mut self, talking: &[u32], random: &mut Random, mut goes_on: impl FnMut() -> bool) {
        let mut since = 0;
        while since < self.patience && goes_on() {
            for _ in 0..MOVES_A_STEP {
                let before = self.best_total;
                self.step(talking, random);
                since = if self.best_total < before { 0 } else { since + 1 };
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, talking: &[u32], random: &mut Random) {
        self.now += 1;
        let mut best = Step::NONE;
        match self.ends {
            None => self.look_out_of(self.group_of[talking[random.below(talking.len())] as usize] as usize, &mut best),
            Some((hole, surplus)) => {
                let close = self.closing(hole, surplus);
                if self.total + i64::from(close.change) < self.best_total {
                    // However long it may be forbidden.
                    return self.go(&close, random);
                }
                self.look_out_of(surplus, &mut best);
                self.look_into(hole, &mut best);
                if best.vertex == usize::MAX {
                    best = close;
                }
            }
        }
        if best.vertex != usize::MAX {
            self.go(&best, random);
        }
    }

    /// The cheapest move that makes all groups full again.
    #[inline(always)]
    fn closing(&self, hole: usize, surplus: usize) -> Step {
        let mut close = Step::NONE;
        for &vertex in &self.members[surplus] {
            let change = self.cost[vertex as usize * self.groups + hole] - self.own[vertex as usize];
            if change < close.change {
                close = Step { change, vertex: vertex as usize, to: hole };
            }
        }
        close
    }

    /// The cheapest open move out of a group, if it is cheaper than `best`.
    #[inline(always)]
    fn look_out_of(&self, group: usize, best: &mut Step) {
        let now = self.now;
        let open = |(&cost, &from): (&i32, &i32)| if from > now { NEVER } else { cost };
        for &vertex in &self.members[group] {
            let at = vertex as usize * self.groups;
            let row = &self.cost[at..at + self.groups];
            let open_from = &self.open_from[at..at + self.groups];
            let least = row.iter().zip(open_from).map(open).fold(NEVER, i32::min);
            if least == NEVER || least - row[group] >= best.change {
                continue;
            }
            if let Some(to) = row.iter().zip(open_from).position(|entry| open(entry) == least) {
                *best = Step { change: least - row[group], vertex: vertex as usize, to };
            }
        }
    }

    /// The cheapest open move into a group, if it is cheaper than `best`.
    #[inline(always)]
    fn look_into(&self, group: usize, best: &mut Step) {
        let (rows, open_from) = (self.cost.chunks_exact(self.groups), self.open_from.chunks_exact(self.groups));
        for (vertex, ((row, open_from), own)) in rows.zip(open_from).zip(&self.own).enumerate() {
            let change = if open_from[group] > self.now { NEVER } else { row[group] - own };
            if change < best.change {
                *best = Step { change, vertex, to: group };
            }
        }
    }

    #[inline(always)]
    fn go(&mut self, step: &Step, random: &mut Random) {
        let (vertex, to, groups) = (step.vertex, step.to, self.groups);
        let from = self.group_of[vertex] as usize;
        self.total += i64::from(step.change);
        let tenure = self.tenure + random.below(self.tenure / 2 + 1);
        self.open_from[vertex * groups + from] = self.now.saturating_add(tenure as i32);
        self.open_from[vertex * groups + to] = NEVER;
        self.own[vertex] += step.change;
        self.list_in(vertex, from, to);
        self.ends = match self.ends {
            None => Some((from, to)),
            Some((hole, surplus)) if to == hole && from == surplus => None,
            Some((hole, surplus)) => {
                Some((if to == hole { from } else { hole }, if from == surplus { to } else { surplus }))
            }
        };
        let layout = self.state.layout;
        for range in layout.differing(from, to) {
            let old = &layout.distance[from * groups..][range.clone()];
            let new = &layout.distance[to * groups..][range.clone()];
            let change = &mut self.change[..range.len()];
            change.iter_mut().zip(old.iter().zip(new)).for_each(|(change, (old, new))| *change = new - old);
            for &(other, weight) in self.state.net.row(vertex) {
                let other = other as usize;
                let row = &mut self.cost[other * groups..][range.clone()];
                row.iter_mut().zip(change.iter()).for_each(|(cost, change)| *cost += weight * change);
                let there = self.group_of[other] as usize;
                if range.contains(&there) {
                    self.own[other] += weight * change[there - range.start];
                }
            }
        }
        if self.ends.is_none() && self.total < self.best_total {
            self.best_total = self.total;
            self.best_group_of.clone_from(&self.group_of);
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

#[cfg(test)]
mod tests {
    use super::super::layout::{Layout, Tree};
    use super::super::net::Net;
    use super::super::state::Rules;
    use super::*;
    use crate::Options;
    use crate::graph::Graph;
    use crate::levels::Levels;
    use crate::slots::Slots;
    use crate::testing::{problem, slow_cost, tree};
    use cohabit_model::Matrix;

    #[test]
    fn chains_keep_groups_full_and_count_right() {
        let topology = tree(&[2, 3, 4], &[100, 10, 1]);
        let options = Options { share_cores: true, ..Options::default() };
        for (seed, tasks) in [(1, 24), (2, 24), (3, 20)] {
            let mut random = Random::new(seed);
            let mut end = || random.below(tasks) as u32;
            let pairs: Vec<_> = (0..80).map(|_| (end(), end())).filter(|pair| pair.0 != pair.1).collect();
            let entries = pairs.into_iter().flat_map(|(a, b)| [(a, b, u64::from(1 + a + b)), (b, a, 1)]);
            let weight = Matrix::from_triplets(tasks, entries);
            let slots = Slots::new(&problem(&weight, &topology, &options)).unwrap();
            let levels = Levels::new(&topology, &slots).unwrap();
            let layout = Layout::of_tree(Tree::new(&levels, slots.len()), &levels.distance, 1);
            let net = Net::new(&Graph::new(&weight), slots.len(), 100);
            let free = vec![false; net.len()];
            let domain = (0..layout.groups() as u32).collect();
            let spare = vec![24; layout.groups()];
            let rules = Rules { fixed: free.clone(), held: free, domain, spare, home: Vec::new(), move_cost: 0 };
            let mut state = State::new(&net, &layout, &rules, &(0..24).collect::<Vec<_>>());
            let mut steps = 0..50;
            let (total, group_of) = Chain::new(&state).run(&net.talking(), &mut random, || steps.next().is_some());
            assert!(total < state.total, "a mapping in the order of the tasks can be made better");
            regroup(&mut state, &group_of);
            assert_eq!((state.total, &state.group_of), (total, &group_of));
            let placement: Vec<usize> = state.slot_of[..tasks].iter().map(|&slot| slots.pu[slot as usize]).collect();
            assert_eq!(total as u128, slow_cost(&weight, &topology, &placement));
        }
    }
}
