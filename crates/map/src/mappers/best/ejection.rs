//! Tabu search by ejection chains (Glover, "Ejection chains, reference structures and alternating path methods for
//! traveling salesman problems", 1996): a vertex is pushed out of its group into another, which pushes one of its own
//! into a third, and so on until one comes to where the first came from (on graphs: Benlic and Hao, "An effective
//! multilevel tabu search approach for balanced graph partitioning", 2011). One group lacks a vertex and one has one
//! too many at most, so that a move is chosen among the members of a group, where a swap would be chosen among the
//! square of all vertices.
//!
//! What a vertex would pay in each group is a row of whole vectors, with [`CLOSED`] added where it may not go: where it
//! is, and where it has been lately. So the cheapest push is found by reading a few rows from end to end, without a
//! branch. Costs are counted in units, below which is room for the group and the member that a cost is of: the least of
//! many says whose it is.

use super::context;
use super::layout::Layout;
use super::subgraph::Subgraph;
use crate::random::Random;

/// Numbers of a vector.
const LANES: usize = 8;

/// Groups at most.
const MOST_GROUPS: usize = 128;

/// What is added to a cost where a vertex may not go. More than twice what any pays.
const CLOSED: i32 = 1 << 30;

/// From here on a change is one to where a vertex may not go.
const SHUT: i32 = CLOSED / 2;

/// What any vertex pays is less than this, in units.
const MOST_COST: i64 = 1 << 28;

/// All vertices in groups that are full.
#[derive(Debug, Clone)]
pub struct Division {
    /// J in scaled units, each pair once.
    pub total: i64,
    /// Group of each vertex.
    pub group_of: Vec<u32>,
}

/// A number for each group.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Row<const VECTORS: usize>([[i32; LANES]; VECTORS]);

impl<const VECTORS: usize> Row<VECTORS> {
    const fn filled(value: i32) -> Self {
        Self([[value; LANES]; VECTORS])
    }

    #[inline(always)]
    fn at(&self, group: usize) -> i32 {
        self.0.as_flattened()[group]
    }

    #[inline(always)]
    fn at_mut(&mut self, group: usize) -> &mut i32 {
        &mut self.0.as_flattened_mut()[group]
    }

    /// Adds a weight times each of some distances.
    #[inline(always)]
    fn add(&mut self, weight: i32, distances: &Self) {
        for (costs, distances) in self.0.iter_mut().zip(&distances.0) {
            costs.iter_mut().zip(distances).for_each(|(cost, distance)| *cost += weight * distance);
        }
    }
}

/// A search for divisions of a graph's vertices over the groups of a layout.
pub trait Search: std::fmt::Debug {
    /// Moves from a start until `patience` moves found nothing better, or `goes_on` says no; the group of each vertex
    /// in the best division found.
    fn search(
        &self,
        start: &[u32],
        patience: usize,
        random: &mut Random,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Vec<u32>;
}

/// The search over a graph; none where there are too many groups, or less than two.
pub fn search(graph: &Subgraph, layout: &Layout, numbers: context::Ejection) -> Option<Box<dyn Search>> {
    fn boxed<const VECTORS: usize>(
        graph: &Subgraph,
        layout: &Layout,
        numbers: context::Ejection,
    ) -> Option<Box<dyn Search>> {
        Some(Box::new(Tables::<VECTORS>::new(graph, layout, numbers)))
    }
    match layout.groups() {
        0..=1 => None,
        2..=8 => boxed::<1>(graph, layout, numbers),
        9..=16 => boxed::<2>(graph, layout, numbers),
        17..=32 => boxed::<4>(graph, layout, numbers),
        33..=64 => boxed::<8>(graph, layout, numbers),
        65..=MOST_GROUPS => boxed::<16>(graph, layout, numbers),
        _ => None,
    }
}

/// For how many moves a vertex of a graph may not return to a group, at least.
fn tenure(graph: &Subgraph, numbers: &context::Ejection) -> usize {
    let count = graph.len();
    let tenure = numbers.tenure * graph.arcs.len() / count.max(1);
    let most = if count <= numbers.few { count / numbers.least_open } else { usize::MAX };
    tenure.min(most).max(numbers.least_tenure)
}

/// A graph and the groups that its vertices are divided over: what every search over them has in common.
#[derive(Debug)]
struct Tables<const VECTORS: usize> {
    numbers: context::Ejection,
    groups: usize,
    /// Start of each vertex's arcs, and their number.
    starts: Vec<u32>,
    /// Neighbour and weight.
    arcs: Vec<(u32, i32)>,
    /// Distance between each two groups, in units.
    distance: Vec<Row<VECTORS>>,
    /// How many vertices the largest group has, and one.
    stride: usize,
    /// Bits of a cost below the unit, and those of them that say which member of a group it is of.
    bits: u32,
    member_bits: u32,
    /// For how many moves a vertex may not return to a group, at least.
    tenure: u32,
}

impl<const VECTORS: usize> Tables<VECTORS> {
    fn new(graph: &Subgraph, layout: &Layout, numbers: context::Ejection) -> Self {
        let groups = layout.groups();
        let mut arcs = graph.arcs.clone();
        let mut distance = vec![Row::<VECTORS>::filled(0); groups];
        for (row, distances) in distance.iter_mut().zip(layout.distance.chunks_exact(groups)) {
            row.0.as_flattened_mut()[..groups].copy_from_slice(distances);
        }
        let stride = (0..groups).map(|group| layout.tree.slots_of(group).len()).max().unwrap_or(0) + 1;
        let member_bits = usize::BITS - stride.leading_zeros();
        let bits = member_bits + (LANES * VECTORS).ilog2();
        scale(&graph.starts, &mut arcs, &mut distance, MOST_COST >> bits);
        distance.iter_mut().flat_map(|row| row.0.as_flattened_mut()).for_each(|distance| *distance <<= bits);
        let tenure = tenure(graph, &numbers) as u32;
        Self { numbers, groups, starts: graph.starts.clone(), arcs, distance, stride, bits, member_bits, tenure }
    }

    #[inline(always)]
    fn neighbours(&self, vertex: usize) -> &[(u32, i32)] {
        &self.arcs[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

/// Weights are halved where they are more than so many times the distances, and distances where they are not.
const LOPSIDED: i64 = 64;

/// Halves weights or distances until what any vertex pays is less than `most`.
fn scale<const VECTORS: usize>(starts: &[u32], arcs: &mut [(u32, i32)], distance: &mut [Row<VECTORS>], most: i64) {
    let halve = |number: &mut i32| *number = (*number + *number % 2) / 2;
    loop {
        let sum =
            |range: &[u32]| arcs[range[0] as usize..range[1] as usize].iter().map(|arc| i64::from(arc.1)).sum::<i64>();
        let heaviest = starts.windows(2).map(sum).max().unwrap_or(0);
        let furthest = distance.iter().flat_map(|row| row.0.as_flattened()).copied().max().map_or(0, i64::from);
        if heaviest * furthest < most {
            break;
        }
        if heaviest > furthest * LOPSIDED {
            arcs.iter_mut().for_each(|arc| halve(&mut arc.1));
        } else {
            distance.iter_mut().flat_map(|row| row.0.as_flattened_mut()).for_each(halve);
        }
    }
}

impl<const VECTORS: usize> Search for Tables<VECTORS> {
    fn search(
        &self,
        start: &[u32],
        patience: usize,
        random: &mut Random,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Vec<u32> {
        let mut walk = Chains::new(self, start);
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            unsafe { walk.run_avx2(patience, random, goes_on) };
            return walk.best;
        }
        walk.run_anywhere(patience, random, goes_on);
        walk.best
    }
}

/// A search on its way.
struct Chains<'a, const VECTORS: usize> {
    tables: &'a Tables<VECTORS>,
    /// What each vertex would pay in each group.
    cost: Vec<Row<VECTORS>>,
    group_of: Vec<u32>,
    /// The vertices of each group, and how many they are.
    members: Vec<u32>,
    length: Vec<u32>,
    /// Who left which group, a move an entry, in a ring whose length is a power of two.
    left: Vec<(u32, u32)>,
    /// Moves made, and how many of them are so long ago that who left may return.
    now: u32,
    opened: u32,
    /// The tenure, and the move at which it is drawn again.
    tenure: u32,
    redrawn: u32,
    total: i64,
    /// The group that lacks a vertex and the one that has one too many; none where all are full.
    ends: Option<(usize, usize)>,
    best_total: i64,
    best: Vec<u32>,
}

impl<'a, const VECTORS: usize> Chains<'a, VECTORS> {
    fn new(tables: &'a Tables<VECTORS>, start: &[u32]) -> Self {
        let count = start.len();
        let mut walk = Self {
            tables,
            cost: vec![Row::filled(0); count],
            group_of: start.to_vec(),
            members: vec![0; tables.groups * tables.stride],
            length: vec![0; tables.groups],
            left: vec![(0, 0); (2 * tables.tenure as usize).next_power_of_two()],
            now: 0,
            opened: 0,
            tenure: tables.tenure,
            redrawn: 0,
            total: 0,
            ends: None,
            best_total: 0,
            best: start.to_vec(),
        };
        for vertex in 0..count {
            let own = start[vertex] as usize;
            walk.list(vertex as u32, own);
            let row = &mut walk.cost[vertex];
            for &(other, weight) in tables.neighbours(vertex) {
                row.add(weight, &tables.distance[start[other as usize] as usize]);
            }
            walk.total += i64::from(row.at(own) >> tables.bits);
            *row.at_mut(own) += CLOSED;
            row.0.as_flattened_mut()[tables.groups..].fill(CLOSED);
        }
        walk.total /= 2;
        walk.best_total = walk.total;
        walk
    }

    /// [`Self::run_anywhere`], eight groups an instruction.
    ///
    /// # Safety
    /// The processor must have AVX2: the caller has asked it. The code is safe but for that.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(&mut self, patience: usize, random: &mut Random, goes_on: &mut dyn FnMut() -> bool) {
        self.run_anywhere(patience, random, goes_on);
    }

    #[inline(always)]
    fn run_anywhere(&mut self, patience: usize, random: &mut Random, goes_on: &mut dyn FnMut() -> bool) {
        let mut since = 0;
        while since < patience && goes_on() {
            for _ in 0..self.tables.numbers.moves_a_step {
                let found = self.step(random);
                since = if found { 0 } else { since + 1 };
            }
        }
    }

    /// A move; whether it led to something better than all before.
    #[inline(always)]
    fn step(&mut self, random: &mut Random) -> bool {
        self.open(random);
        let tables = self.tables;
        let (hole, surplus) = self.ends.unwrap_or_else(|| {
            let own = self.group_of[random.below(self.group_of.len())] as usize;
            (own, own)
        });
        let (close, open) = self.cheapest(surplus, hole);
        let is_chain = self.ends.is_some();
        let is_best = is_chain && self.total + i64::from(close >> tables.bits) < self.best_total;
        // However lately it was there.
        if is_best || (is_chain && open >= SHUT) {
            self.go(close, surplus, hole);
        } else if open < SHUT {
            let to = (open >> tables.member_bits) as usize & (LANES * VECTORS - 1);
            self.go(open, surplus, to);
        } else {
            // Everybody left the other groups lately.
            self.note(0, self.group_of[0]);
        }
        let is_better = self.ends.is_none() && self.total < self.best_total;
        if is_better {
            self.best_total = self.total;
            self.best.copy_from_slice(&self.group_of);
        }
        is_better
    }

    /// The cheapest push from a group to another one, open or not, and the cheapest open one to any.
    #[inline(always)]
    fn cheapest(&self, from: usize, to: usize) -> (i32, i32) {
        let start = from * self.tables.stride;
        let members = &self.members[start..start + self.length[from] as usize];
        let (mut least, mut close) = (Row::<VECTORS>::filled(CLOSED), i32::MAX);
        for (number, &vertex) in members.iter().enumerate() {
            let row = &self.cost[vertex as usize];
            let own = row.at(from) - CLOSED - number as i32;
            let there = row.at(to);
            close = close.min(if there >= SHUT { there - CLOSED } else { there } - own);
            for (least, costs) in least.0.iter_mut().zip(&row.0) {
                least.iter_mut().zip(costs).for_each(|(least, cost)| *least = (*least).min(cost - own));
            }
        }
        let shift = self.tables.member_bits;
        let lanes = least.0.as_flattened().iter().enumerate();
        (close, lanes.map(|(lane, &least)| least + ((lane as i32) << shift)).fold(i32::MAX, i32::min))
    }

    /// Lets those return who left long ago.
    #[inline(always)]
    fn open(&mut self, random: &mut Random) {
        if self.now == self.redrawn {
            self.redrawn += self.tables.numbers.same_tenure;
            self.tenure = self.tables.tenure + random.below(self.tables.tenure as usize / 2 + 1) as u32;
        }
        while self.opened + self.tenure <= self.now {
            let (vertex, group) = self.left[self.opened as usize & (self.left.len() - 1)];
            self.opened += 1;
            let is_there = self.group_of[vertex as usize] == group;
            let cost = self.cost[vertex as usize].at_mut(group as usize);
            // It may have come back before, and gone again.
            if *cost >= SHUT && !is_there {
                *cost -= CLOSED;
            }
        }
    }

    /// Pushes the member that a cost says from a group to another.
    #[inline(always)]
    fn go(&mut self, found: i32, from: usize, to: usize) {
        let tables = self.tables;
        let number = found as usize & ((1 << tables.member_bits) - 1);
        let start = from * tables.stride;
        self.length[from] -= 1;
        let last = self.members[start + self.length[from] as usize];
        let vertex = std::mem::replace(&mut self.members[start + number], last);
        self.list(vertex, to);
        self.group_of[vertex as usize] = to as u32;
        self.note(vertex, from as u32);
        let there = self.cost[vertex as usize].at_mut(to);
        if *there < SHUT {
            *there += CLOSED;
        }
        self.total += i64::from(found >> tables.bits);
        self.ends = match self.ends {
            None => Some((from, to)),
            Some((hole, _)) if to == hole => None,
            Some((hole, _)) => Some((hole, to)),
        };
        let mut further = tables.distance[to];
        further.add(-1, &tables.distance[from]);
        for &(other, weight) in tables.neighbours(vertex as usize) {
            self.cost[other as usize].add(weight, &further);
        }
    }

    /// Notes who left which group.
    #[inline(always)]
    fn note(&mut self, vertex: u32, group: u32) {
        let mask = self.left.len() - 1;
        self.left[self.now as usize & mask] = (vertex, group);
        self.now += 1;
    }

    #[inline(always)]
    fn list(&mut self, vertex: u32, group: usize) {
        self.members[group * self.tables.stride + self.length[group] as usize] = vertex;
        self.length[group] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ready, communicating, ready};
    use super::*;
    use crate::testing::tree;

    const NUMBERS: context::Ejection = context::Ejection::DEFAULT;

    /// J of a division, each pair once, and what a vertex would pay in a group.
    struct Plain<'a> {
        graph: &'a Subgraph,
        layout: &'a Layout,
    }

    impl Plain<'_> {
        fn pays(&self, group_of: &[u32], vertex: usize, group: usize) -> i64 {
            let row = self.graph.neighbours(vertex).iter();
            let to = |arc: &(u32, i32)| {
                let there = group_of[arc.0 as usize] as usize;
                i64::from(arc.1) * i64::from(self.layout.distance[group * self.layout.groups() + there])
            };
            row.map(to).sum()
        }

        fn total(&self, group_of: &[u32]) -> i64 {
            (0..group_of.len()).map(|vertex| self.pays(group_of, vertex, group_of[vertex] as usize)).sum::<i64>() / 2
        }

        /// The search, every cost counted again for every move.
        fn slowly(&self, start: &[u32], patience: usize, random: &mut Random, mut steps: usize) -> Vec<u32> {
            let (count, groups, least) = (start.len(), self.layout.groups(), tenure(self.graph, &NUMBERS) as u32);
            let mut group_of = start.to_vec();
            let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups];
            group_of.iter().enumerate().for_each(|(vertex, &group)| members[group as usize].push(vertex));
            let (mut best, mut ends, mut since) = (group_of.clone(), None, 0);
            // Who left which group, and how often each may not go there.
            let mut left: Vec<(usize, usize)> = Vec::new();
            let mut shut = vec![vec![false; groups]; count];
            let (mut opened, mut tenure) = (0, least);
            while since < patience && steps > 0 {
                steps -= 1;
                for _ in 0..NUMBERS.moves_a_step {
                    if left.len() as u32 % NUMBERS.same_tenure == 0 {
                        tenure = least + random.below(least as usize / 2 + 1) as u32;
                    }
                    while opened + tenure as usize <= left.len() {
                        let (vertex, group) = left[opened];
                        shut[vertex][group] = false;
                        opened += 1;
                    }
                    let (hole, surplus) = ends.unwrap_or_else(|| {
                        let own = group_of[random.below(count)] as usize;
                        (own, own)
                    });
                    let change = |vertex: usize, to: usize| {
                        self.pays(&group_of, vertex, to) - self.pays(&group_of, vertex, surplus)
                    };
                    let numbered = || members[surplus].iter().copied().enumerate();
                    let close = numbered().min_by_key(|&(number, vertex)| (change(vertex, hole), number));
                    let all = numbered().flat_map(|member| (0..groups).map(move |to| (member, to)));
                    let open = all.filter(|&((_, vertex), to)| to != surplus && !shut[vertex][to]);
                    let open = open.min_by_key(|&((number, vertex), to)| (change(vertex, to), to, number));
                    let is_best = |&(_, vertex): &(usize, usize)| {
                        ends.is_some() && self.total(&group_of) + change(vertex, hole) < self.total(&best)
                    };
                    let closing = close.map(|member| (member, hole));
                    let found = closing.filter(|step| is_best(&step.0)).or(open).or(closing.filter(|_| ends.is_some()));
                    if let Some(((number, vertex), to)) = found {
                        members[surplus].swap_remove(number);
                        members[to].push(vertex);
                        group_of[vertex] = to as u32;
                        shut[vertex][surplus] = true;
                        left.push((vertex, surplus));
                        ends = match ends {
                            None => Some((surplus, to)),
                            Some((hole, _)) if to == hole => None,
                            Some((hole, _)) => Some((hole, to)),
                        };
                    } else {
                        left.push((0, group_of[0] as usize));
                    }
                    since += 1;
                    if ends.is_none() && self.total(&group_of) < self.total(&best) {
                        since = 0;
                        best.clone_from(&group_of);
                    }
                }
            }
            best
        }
    }

    #[test]
    fn the_search_is_the_one_that_counts_every_cost_again() {
        for (arities, pairs) in
            [(&[2, 8][..], 30), (&[2, 3, 4], 90), (&[3, 4, 5], 150), (&[2, 10, 4], 200), (&[9, 2, 3], 150)]
        {
            let tasks = arities.iter().product();
            let mut random = Random::new(tasks as u64);
            let weight = communicating(tasks, pairs, &mut random);
            let Ready { layout, net, .. } = ready(&weight, &tree(arities, &[100, 10, 1][3 - arities.len()..]));
            let whole = Subgraph::of_net(&net);
            let plain = Plain { graph: &whole, layout: &layout };
            let start = layout.tree.group_of_slots();
            for steps in [1, 5] {
                let (mut left, mut others) = (0..steps, random.clone());
                let mut goes_on = || left.next().is_some();
                let fast = search(&whole, &layout, NUMBERS).unwrap().search(&start, 300, &mut random, &mut goes_on);
                let slow = plain.slowly(&start, 300, &mut others, steps);
                assert_eq!(fast, slow, "{arities:?}");
                assert_eq!(random.draw(), others.draw(), "{arities:?}");
                assert!(plain.total(&fast) < plain.total(&start), "{arities:?}");
                let size = |group: u32| fast.iter().filter(|&&own| own == group).count();
                let is_full = |group: usize| size(group as u32) == layout.tree.slots_of(group).len();
                assert!((0..layout.groups()).all(is_full), "{arities:?}");
            }
        }
    }

    #[test]
    fn heavy_weights_are_scaled() {
        let mut random = Random::new(5);
        let weight = communicating(48, 200, &mut random);
        let Ready { layout, net, .. } = ready(&weight, &tree(&[2, 3, 8], &[100, 10, 1]));
        let mut whole = Subgraph::of_net(&net);
        whole.arcs.iter_mut().for_each(|arc| arc.1 <<= 12);
        let plain = Plain { graph: &whole, layout: &layout };
        let (start, mut left) = (layout.tree.group_of_slots(), 0..10);
        let mut goes_on = || left.next().is_some();
        let found = search(&whole, &layout, NUMBERS).unwrap().search(&start, 500, &mut random, &mut goes_on);
        assert!(plain.total(&found) < plain.total(&start));
    }

    #[test]
    fn one_group_and_very_many_are_not_searched() {
        for arities in [&[8][..], &[129, 4]] {
            let tasks: usize = arities.iter().product();
            let weight = communicating(tasks, 30, &mut Random::new(1));
            let Ready { layout, net, .. } = ready(&weight, &tree(arities, &[100, 1][2 - arities.len()..]));
            assert!(search(&Subgraph::of_net(&net), &layout, NUMBERS).is_none());
        }
    }
}
