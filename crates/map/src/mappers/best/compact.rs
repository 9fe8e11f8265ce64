//! The search of [`super::chain`] for a few vertices, [`Ground`]'s `WIDE` at most, in up to [`MOST_GROUPS`] groups: every row
//! has a fixed number of entries, so that what a move changes, and the cheapest of the next, are a few vector instructions
//! without a branch, however many others a vertex talks with.
//!
//! Costs are counted in units of [`UNIT`]: below it is room for the group and the vertex that a cost is of, so that the least
//! of many says whose it is.

use crate::random::Random;

/// Groups at most.
pub const MOST_GROUPS: usize = 8;

/// Vertices that there is room for in a number that says whose it is.
const MOST: usize = 128;

/// One, in numbers that say whose they are: seven bits for the vertex, three for the group.
const UNIT: i32 = (MOST * MOST_GROUPS) as i32;

/// What any vertex pays is less than this.
const MOST_COST: u64 = 1 << 20;

/// No cost: more than any change.
const NEVER: i32 = i32::MAX;

/// Moves that count as a step of a search.
const MOVES_A_STEP: usize = 128;

/// An entry for each vertex.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Row<const WIDE: usize>([i32; WIDE]);

/// A graph and the groups that its vertices are divided over: what every search over them has in common.
#[derive(Debug)]
pub struct Ground<const WIDE: usize> {
    count: usize,
    groups: usize,
    /// Weight between each two vertices, in units; where `is_flat` times what a pair apart pays more than one together.
    weight: Vec<Row<WIDE>>,
    /// What each vertex pays in each group to those that are not here, more than where that is least; in units.
    pull: [Row<WIDE>; MOST_GROUPS],
    /// Distance between each two groups.
    distance: [[i32; MOST_GROUPS]; MOST_GROUPS],
    /// Whether all groups are equally far from each other.
    is_flat: bool,
    /// The groups but two.
    others: [[[u8; MOST_GROUPS]; MOST_GROUPS]; MOST_GROUPS],
    /// How many vertices each group has.
    room: [usize; MOST_GROUPS],
    /// For how many moves a vertex may not return to a group, at least.
    tenure: usize,
}

/// What there is to divide.
pub struct Task<'a, Neighbours> {
    /// Each vertex's neighbours and the weights to them.
    pub neighbours: &'a [Neighbours],
    /// How many vertices each group has.
    pub room: &'a [usize],
    /// Distance between two groups.
    pub distance: &'a dyn Fn(usize, usize) -> i32,
    /// What a vertex pays in a group to those that are not here.
    pub pull: &'a dyn Fn(usize, usize) -> i32,
    /// For how many moves a vertex may not return to a group, at least.
    pub tenure: usize,
}

/// The search of a task, whatever its width.
pub trait Search: std::fmt::Debug {
    /// A division by growing one group after the other from a vertex at random, always by the vertex that talks most with it
    /// and least with those that are in none.
    fn grown(&self, random: &mut Random) -> Vec<u32>;

    /// Where two divisions agree, their groups having most in common being one; the other vertices go, in random order, to
    /// where they pay least of what has room.
    fn recombined(&self, a: &[u32], b: &[u32], random: &mut Random) -> Vec<u32>;

    /// Moves from a start until `patience` moves found nothing better, or `goes_on` says no; the best found.
    fn search(
        &self,
        start: &[u32],
        patience: usize,
        random: &mut Random,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Vec<u32>;
}

/// The search of a task; none where there are too many vertices or groups.
pub fn search<N: AsRef<[(u32, i32)]>>(task: &Task<N>) -> Option<Box<dyn Search>> {
    fn boxed<const WIDE: usize, N: AsRef<[(u32, i32)]>>(task: &Task<N>) -> Option<Box<dyn Search>> {
        Ground::<WIDE>::new(task).map(|ground| Box::new(ground) as Box<dyn Search>)
    }
    match task.neighbours.len() {
        0..=16 => boxed::<16, N>(task),
        17..=32 => boxed::<32, N>(task),
        33..=64 => boxed::<64, N>(task),
        _ => boxed::<128, N>(task),
    }
}

impl<const WIDE: usize> Ground<WIDE> {
    /// What a task is searched on; none where there are too many vertices or groups.
    pub fn new<N: AsRef<[(u32, i32)]>>(task: &Task<N>) -> Option<Self> {
        let (count, groups) = (task.neighbours.len(), task.room.len());
        if count > WIDE.min(MOST) || !(2..=MOST_GROUPS).contains(&groups) {
            return None;
        }
        let mut distance = [[0; MOST_GROUPS]; MOST_GROUPS];
        for (a, row) in distance.iter_mut().enumerate().take(groups) {
            row.iter_mut().enumerate().take(groups).for_each(|(b, distance)| *distance = (task.distance)(a, b));
        }
        let mut weight = vec![Row([0; WIDE]); count];
        let mut pull = [Row([0; WIDE]); MOST_GROUPS];
        for (vertex, (row, neighbours)) in weight.iter_mut().zip(task.neighbours).enumerate() {
            neighbours.as_ref().iter().for_each(|arc| row.0[arc.0 as usize] = arc.1);
            let least = (0..groups).map(|group| (task.pull)(vertex, group)).min().unwrap_or(0);
            (0..groups).for_each(|group| pull[group].0[vertex] = (task.pull)(vertex, group) - least);
        }
        let (apart, inside) = (distance[0][1], distance[0][0]);
        let is_flat = (0..groups).all(|a| (0..groups).all(|b| distance[a][b] == if a == b { inside } else { apart }));
        if is_flat {
            weight.iter_mut().for_each(|row| row.0.iter_mut().for_each(|weight| *weight *= apart - inside));
            distance = std::array::from_fn(|a| std::array::from_fn(|b| i32::from(a != b)));
        }
        scale(&mut weight, &mut pull, &mut distance);
        let mut room = [0; MOST_GROUPS];
        room[..groups].copy_from_slice(task.room);
        let mut others = [[[0; MOST_GROUPS]; MOST_GROUPS]; MOST_GROUPS];
        for (a, others) in others.iter_mut().enumerate() {
            for (b, others) in others.iter_mut().enumerate() {
                let all = (0..groups).filter(|&group| group != a && group != b);
                others.iter_mut().zip(all).for_each(|(other, group)| *other = group as u8);
            }
        }
        let tenure = task.tenure;
        Some(Self { count, groups, weight, pull, distance, is_flat, others, room, tenure })
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn grown_avx2(&self, random: &mut Random) -> Vec<u32> {
        self.grown_anywhere(random)
    }

    #[inline(always)]
    fn grown_anywhere(&self, random: &mut Random) -> Vec<u32> {
        let mut group_of = vec![0; self.count];
        let mut free = Row::<WIDE>(std::array::from_fn(|at| if at < self.count { -1 } else { 0 }));
        // What each pays to those that are in no group, less its number.
        let mut outside = Row::<WIDE>(std::array::from_fn(|at| -(at as i32)));
        for row in &self.weight {
            outside.0.iter_mut().zip(&row.0).for_each(|(pays, weight)| *pays += weight);
        }
        let mut left: Vec<u8> = (0..self.count as u8).collect();
        let further = if self.is_flat { 1 } else { self.distance[0][self.groups - 1].max(1) };
        for group in 0..self.groups {
            left.retain(|&vertex| free.0[usize::from(vertex)] < 0);
            let mut price = outside;
            if further == 1 {
                price.0.iter_mut().zip(&self.pull[group].0).for_each(|(price, pull)| *price += pull);
            } else {
                let own = self.pull[group].0.iter();
                price.0.iter_mut().zip(own).for_each(|(price, pull)| *price += pull / further / UNIT * UNIT);
            }
            let Some(&first) = left.get(random.below(left.len())) else { break };
            let mut next = usize::from(first);
            for _ in 0..self.room[group] {
                group_of[next] = group as u32;
                free.0[next] = 0;
                let weight = &self.weight[next].0;
                let mut least = NEVER;
                let rows = outside.0.iter_mut().zip(&mut price.0).zip(weight).zip(&free.0);
                for (((outside, price), weight), free) in rows {
                    *outside -= weight;
                    *price -= 2 * weight;
                    least = least.min(if *free < 0 { *price } else { NEVER });
                }
                next = least.wrapping_neg() as usize % MOST;
            }
        }
        group_of
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn recombined_avx2(&self, a: &[u32], b: &[u32], random: &mut Random) -> Vec<u32> {
        self.recombined_anywhere(a, b, random)
    }

    #[inline(always)]
    fn recombined_anywhere(&self, a: &[u32], b: &[u32], random: &mut Random) -> Vec<u32> {
        let partner = super::evolve::partners(self.groups, a, b);
        let mut room = self.room;
        let mut group_of = a.to_vec();
        let mut waiting = Vec::with_capacity(self.count);
        let mut cost = self.pull;
        for vertex in 0..self.count {
            let (of_a, of_b) = (a[vertex] as usize, b[vertex] as usize);
            if partner[of_a] == of_b {
                room[of_a] -= 1;
                self.join(&mut cost, vertex, of_a);
            } else {
                waiting.push(vertex);
            }
        }
        random.shuffle(&mut waiting);
        for vertex in waiting {
            let open = (0..self.groups).filter(|&group| room[group] > 0);
            let group = open.min_by_key(|&group| cost[group].0[vertex]).unwrap_or(0);
            room[group] -= 1;
            group_of[vertex] = group as u32;
            self.join(&mut cost, vertex, group);
        }
        group_of
    }

    /// What others pay when a vertex comes to a group.
    #[inline(always)]
    fn join(&self, cost: &mut [Row<WIDE>; MOST_GROUPS], vertex: usize, group: usize) {
        let weight = &self.weight[vertex].0;
        for (cost, distance) in cost.iter_mut().zip(self.distance[group]).take(self.groups) {
            cost.0.iter_mut().zip(weight).for_each(|(cost, weight)| *cost += weight * distance);
        }
    }
}

impl<const WIDE: usize> Search for Ground<WIDE> {
    fn grown(&self, random: &mut Random) -> Vec<u32> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.grown_avx2(random) };
        }
        self.grown_anywhere(random)
    }

    fn recombined(&self, a: &[u32], b: &[u32], random: &mut Random) -> Vec<u32> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.recombined_avx2(a, b, random) };
        }
        self.recombined_anywhere(a, b, random)
    }

    fn search(
        &self,
        start: &[u32],
        patience: usize,
        random: &mut Random,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Vec<u32> {
        let mut walk = Walk::new(self, start);
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            unsafe { walk.run_avx2(patience, random, goes_on) };
            return walk.best();
        }
        walk.run_anywhere(patience, random, goes_on);
        walk.best()
    }
}

/// Halves weights, pulls and distances until what any vertex pays is small enough, and counts it in units.
fn scale<const WIDE: usize>(
    weight: &mut [Row<WIDE>],
    pull: &mut [Row<WIDE>; MOST_GROUPS],
    distance: &mut [[i32; MOST_GROUPS]; MOST_GROUPS],
) {
    let halve = |number: &mut i32| *number = (*number + *number % 2) / 2;
    loop {
        let sum = |row: &Row<WIDE>| row.0.iter().map(|&weight| weight as u64).sum::<u64>();
        let heaviest = weight.iter().map(sum).max().unwrap_or(0);
        let furthest = distance.iter().flatten().copied().max().unwrap_or(0) as u64;
        let pulled = pull.iter().flat_map(|row| row.0).max().unwrap_or(0) as u64;
        if heaviest * furthest + pulled < MOST_COST {
            break;
        }
        if heaviest > furthest * WIDE as u64 || heaviest * furthest < pulled {
            weight.iter_mut().for_each(|row| row.0.iter_mut().for_each(halve));
        } else {
            distance.iter_mut().flatten().for_each(halve);
        }
        pull.iter_mut().for_each(|row| row.0.iter_mut().for_each(halve));
    }
    weight.iter_mut().chain(pull).for_each(|row| row.0.iter_mut().for_each(|cost| *cost *= UNIT));
}

/// A search on its way.
struct Walk<'a, const WIDE: usize> {
    ground: &'a Ground<WIDE>,
    /// What each vertex would pay in each group, and the group.
    cost: [Row<WIDE>; MOST_GROUPS],
    /// What it pays where it is, less its own number: what is left of a cost says who it is of.
    own: Row<WIDE>,
    /// All bits where a vertex is in a group, none where it is not.
    is_in: [Row<WIDE>; MOST_GROUPS],
    /// The move from which on a vertex may go to a group.
    opens: [Row<WIDE>; MOST_GROUPS],
    group_of: [u8; WIDE],
    /// Moves made.
    now: i32,
    total: i64,
    /// The group that lacks a vertex and the one that has one too many; none where all are full.
    ends: Option<(usize, usize)>,
    best_total: i64,
    best_group_of: [u8; WIDE],
}

impl<'a, const WIDE: usize> Walk<'a, WIDE> {
    fn new(ground: &'a Ground<WIDE>, start: &[u32]) -> Self {
        let mut group_of = [0; WIDE];
        group_of.iter_mut().zip(start).for_each(|(own, &group)| *own = group as u8);
        let mut walk = Self {
            ground,
            cost: ground.pull,
            own: Row([0; WIDE]),
            is_in: [Row([0; WIDE]); MOST_GROUPS],
            opens: [Row([NEVER; WIDE]); MOST_GROUPS],
            group_of,
            now: 0,
            total: 0,
            ends: None,
            best_total: 0,
            best_group_of: group_of,
        };
        for (vertex, &own) in group_of.iter().enumerate().take(ground.count) {
            let own = usize::from(own);
            walk.is_in[own].0[vertex] = -1;
            for group in 0..ground.groups {
                walk.opens[group].0[vertex] = if group == own { NEVER } else { 0 };
            }
            ground.join(&mut walk.cost, vertex, own);
        }
        let mut twice = 0;
        for (vertex, &own) in group_of.iter().enumerate().take(ground.count) {
            let own = usize::from(own);
            let cost = walk.cost[own].0[vertex];
            walk.own.0[vertex] = cost - vertex as i32;
            twice += i64::from(cost / UNIT) + i64::from(ground.pull[own].0[vertex] / UNIT);
        }
        for (group, row) in walk.cost.iter_mut().enumerate() {
            row.0.iter_mut().for_each(|cost| *cost += (group * MOST) as i32);
        }
        walk.total = twice / 2;
        walk.best_total = walk.total;
        walk
    }

    fn best(&self) -> Vec<u32> {
        self.best_group_of[..self.ground.count].iter().map(|&group| u32::from(group)).collect()
    }

    /// [`Self::run_anywhere`], eight vertices an instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(&mut self, patience: usize, random: &mut Random, goes_on: &mut dyn FnMut() -> bool) {
        self.run_anywhere(patience, random, goes_on);
    }

    #[inline(always)]
    fn run_anywhere(&mut self, patience: usize, random: &mut Random, goes_on: &mut dyn FnMut() -> bool) {
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
        let ground = self.ground;
        let found = match self.ends {
            None => {
                let from = usize::from(self.group_of[random.below(ground.count)]);
                self.out_of(from, &ground.others[from][from][..ground.groups - 1], NEVER)
            }
            Some((hole, surplus)) => {
                let (close, open) = self.best_into(hole, surplus);
                if self.total + i64::from(close.div_euclid(UNIT)) < self.best_total {
                    // However lately it was there.
                    close
                } else {
                    let open = self.out_of(surplus, &ground.others[hole][surplus][..ground.groups - 2], open);
                    if open == NEVER { close } else { open }
                }
            }
        };
        if found != NEVER {
            self.go(found, random);
        }
        let better = self.ends.is_none() && self.total < self.best_total;
        if better {
            self.best_total = self.total;
            self.best_group_of = self.group_of;
        }
        better
    }

    /// The cheapest open move from a group to some others, or one that is cheaper.
    #[inline(always)]
    fn out_of(&self, from: usize, others: &[u8], mut least: i32) -> i32 {
        let (own, is_in) = (&self.own.0, &self.is_in[from].0);
        for &to in others {
            let (cost, opens) = (&self.cost[usize::from(to)].0, &self.opens[usize::from(to)].0);
            for at in 0..WIDE {
                let change = cost[at] - own[at];
                let may = (opens[at] <= self.now) & (is_in[at] < 0);
                least = least.min(if may { change } else { NEVER });
            }
        }
        least
    }

    /// The cheapest move into a group from another, open or not, and the cheapest open one from anywhere.
    #[inline(always)]
    fn best_into(&self, to: usize, from: usize) -> (i32, i32) {
        let (cost, opens, is_in) = (&self.cost[to].0, &self.opens[to].0, &self.is_in[from].0);
        let own = &self.own.0;
        let (mut close, mut open) = (NEVER, NEVER);
        for at in 0..WIDE {
            let change = cost[at] - own[at];
            close = close.min(if is_in[at] < 0 { change } else { NEVER });
            open = open.min(if opens[at] <= self.now { change } else { NEVER });
        }
        (close, open)
    }

    #[inline(always)]
    fn go(&mut self, found: i32, random: &mut Random) {
        let ground = self.ground;
        let (vertex, to) = (found as usize % MOST, found as usize / MOST % MOST_GROUPS);
        let from = usize::from(self.group_of[vertex]);
        let tenure = ground.tenure + random.below(ground.tenure / 2 + 1);
        // Where it is is closed, and where it was stays so for a while.
        self.opens[from].0[vertex] = self.now + tenure as i32;
        self.opens[to].0[vertex] = NEVER;
        self.is_in[from].0[vertex] = 0;
        self.is_in[to].0[vertex] = -1;
        self.group_of[vertex] = to as u8;
        self.total += i64::from(found.div_euclid(UNIT));
        self.ends = match self.ends {
            None => Some((from, to)),
            Some((hole, surplus)) if to == hole && from == surplus => None,
            Some((hole, surplus)) => {
                Some((if to == hole { from } else { hole }, if from == surplus { to } else { surplus }))
            }
        };
        let (weight, own) = (&ground.weight[vertex].0, &mut self.own.0);
        if ground.is_flat {
            let [here, there] = pair(&mut self.cost, from, to);
            let (was_in, is_in) = (&self.is_in[from].0, &self.is_in[to].0);
            for at in 0..WIDE {
                here[at] += weight[at];
                there[at] -= weight[at];
                own[at] += (weight[at] & was_in[at]) - (weight[at] & is_in[at]);
            }
        } else {
            for group in 0..ground.groups {
                let further = ground.distance[to][group] - ground.distance[from][group];
                if further != 0 {
                    let (cost, is_in) = (&mut self.cost[group].0, &self.is_in[group].0);
                    for at in 0..WIDE {
                        let more = weight[at] * further;
                        cost[at] += more;
                        own[at] += more & is_in[at];
                    }
                }
            }
        }
        own[vertex] = self.cost[to].0[vertex] - (to * MOST + vertex) as i32;
    }
}

/// Two of the rows.
#[inline(always)]
fn pair<const WIDE: usize>(rows: &mut [Row<WIDE>; MOST_GROUPS], a: usize, b: usize) -> [&mut [i32; WIDE]; 2] {
    let (low, high) = rows.split_at_mut(a.max(b));
    let (first, second) = (&mut low[a.min(b)].0, &mut high[0].0);
    if a < b { [first, second] } else { [second, first] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph to divide, everything written out.
    struct Plain {
        weight: Vec<Vec<i64>>,
        room: Vec<usize>,
        distance: Vec<Vec<i64>>,
        pull: Vec<Vec<i64>>,
        tenure: usize,
    }

    impl Plain {
        /// One drawn at random, with groups equally far from each other or in two halves.
        fn drawn(room: &[usize], is_flat: bool, heaviest: usize, random: &mut Random) -> Self {
            let count: usize = room.iter().sum();
            let mut weight = vec![vec![0; count]; count];
            for _ in 0..4 * count {
                let (a, b) = (random.below(count), random.below(count));
                if a != b {
                    let more = 1 + random.below(heaviest) as i64;
                    weight[a][b] += more;
                    weight[b][a] += more;
                }
            }
            let half = room.len() / 2;
            let apart = |a: usize, b: usize| if is_flat || (a < half) != (b < half) { 10 } else { 3 };
            let distance = |a: usize| (0..room.len()).map(|b| if a == b { 1 } else { apart(a, b) }).collect();
            let pull = (0..count).map(|_| room.iter().map(|_| random.below(heaviest) as i64).collect()).collect();
            Self { weight, room: room.to_vec(), distance: (0..room.len()).map(distance).collect(), pull, tenure: 7 }
        }

        fn search(&self) -> Option<Box<dyn Search>> {
            let neighbours = |row: &Vec<i64>| {
                let arcs = row.iter().enumerate().filter(|arc| *arc.1 > 0);
                arcs.map(|(other, &weight)| (other as u32, weight as i32)).collect::<Vec<_>>()
            };
            let neighbours: Vec<_> = self.weight.iter().map(neighbours).collect();
            search(&Task {
                neighbours: &neighbours,
                room: &self.room,
                distance: &|a, b| self.distance[a][b] as i32,
                pull: &|vertex, group| self.pull[vertex][group] as i32,
                tenure: self.tenure,
            })
        }

        /// What a vertex pays in a group.
        fn pays(&self, group_of: &[u32], vertex: usize, group: usize) -> i64 {
            let to = |other: usize| self.weight[vertex][other] * self.distance[group][group_of[other] as usize];
            self.pull[vertex][group] + (0..group_of.len()).map(to).sum::<i64>()
        }

        fn total(&self, group_of: &[u32]) -> i64 {
            let own = |vertex: usize| self.pays(group_of, vertex, group_of[vertex] as usize);
            let pulled = |vertex: usize| self.pull[vertex][group_of[vertex] as usize];
            (0..group_of.len()).map(|vertex| own(vertex) + pulled(vertex)).sum::<i64>() / 2
        }

        fn is_full(&self, group_of: &[u32]) -> bool {
            let size = |group: usize| group_of.iter().filter(|&&own| own as usize == group).count();
            self.room.iter().enumerate().all(|(group, &room)| size(group) == room)
        }

        /// The search, every cost counted anew for every move.
        fn slowly(&self, start: &[u32], patience: usize, random: &mut Random, mut steps: usize) -> Vec<u32> {
            let (count, groups) = (start.len(), self.room.len());
            let (mut now, mut best, mut group_of) = (0, start.to_vec(), start.to_vec());
            let mut opens = vec![vec![0; groups]; count];
            let mut ends: Option<(usize, usize)> = None;
            let mut since = 0;
            while since < patience && steps > 0 {
                steps -= 1;
                for _ in 0..MOVES_A_STEP {
                    now += 1;
                    let change = |vertex: usize, to: usize| {
                        self.pays(&group_of, vertex, to) - self.pays(&group_of, vertex, group_of[vertex] as usize)
                    };
                    let all = || (0..count).flat_map(|vertex| (0..groups).map(move |to| (vertex, to)));
                    let may =
                        |&(vertex, to): &(usize, usize)| group_of[vertex] as usize != to && opens[vertex][to] <= now;
                    let key = |&(vertex, to): &(usize, usize)| (change(vertex, to), to, vertex);
                    let found = match ends {
                        None => {
                            let from = group_of[random.below(count)];
                            all().filter(|step| group_of[step.0] == from).filter(may).min_by_key(key)
                        }
                        Some((hole, surplus)) => {
                            let is_of_surplus = |vertex: usize| group_of[vertex] as usize == surplus;
                            let closing =
                                (0..count).filter(|&vertex| is_of_surplus(vertex)).map(|vertex| (vertex, hole));
                            let close = closing.min_by_key(key);
                            let ends = close
                                .filter(|&(vertex, to)| self.total(&group_of) + change(vertex, to) < self.total(&best));
                            let open = || {
                                let open = all().filter(|&(vertex, to)| to == hole || is_of_surplus(vertex));
                                open.filter(may).min_by_key(key)
                            };
                            ends.or_else(open).or(close)
                        }
                    };
                    if let Some((vertex, to)) = found {
                        let from = group_of[vertex] as usize;
                        opens[vertex][from] = now + self.tenure + random.below(self.tenure / 2 + 1);
                        group_of[vertex] = to as u32;
                        ends = match ends {
                            None => Some((from, to)),
                            Some((hole, surplus)) if (to, from) == (hole, surplus) => None,
                            Some((hole, _)) if to == hole => Some((from, ends.map_or(0, |ends| ends.1))),
                            Some((hole, _)) => Some((hole, to)),
                        };
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

    /// Vertices in the order of the groups.
    fn in_order(room: &[usize]) -> Vec<u32> {
        room.iter().enumerate().flat_map(|(group, &room)| std::iter::repeat_n(group as u32, room)).collect()
    }

    #[test]
    fn the_search_is_the_one_that_counts_every_cost_anew() {
        for (room, is_flat) in
            [(&[8, 8][..], true), (&[7, 9, 4], true), (&[6; 4], false), (&[10, 20, 5, 15], true), (&[9; 8], false)]
        {
            let mut random = Random::new(room.len() as u64);
            let plain = Plain::drawn(room, is_flat, 9, &mut random);
            let start = in_order(room);
            for steps in [1, 4] {
                let mut left = steps;
                let mut goes_on = || {
                    left -= 1;
                    left >= 0
                };
                let mut others = random.clone();
                let fast = plain.search().unwrap().search(&start, 200, &mut random, &mut goes_on);
                let slow = plain.slowly(&start, 200, &mut others, steps as usize);
                assert_eq!(fast, slow, "{room:?}");
                assert_eq!(random.draw(), others.draw());
                assert!(plain.is_full(&fast) && plain.total(&fast) < plain.total(&start), "{room:?}");
            }
        }
    }

    #[test]
    fn any_weights_and_distances_are_searched() {
        for (room, heaviest, is_flat) in
            [(&[30, 34][..], 1 << 14, true), (&[16; 6], 1 << 14, false), (&[8; 4], 1, true)]
        {
            let mut random = Random::new(heaviest as u64);
            let mut plain = Plain::drawn(room, is_flat, heaviest, &mut random);
            if heaviest == 1 {
                plain.distance.iter_mut().flatten().for_each(|distance| *distance <<= 20);
            }
            let search = plain.search().unwrap();
            let (a, b) = (search.grown(&mut random), search.grown(&mut random));
            assert!(plain.is_full(&a) && plain.is_full(&b));
            let (mut left, mut right) = (20, 20);
            let goes_on = |left: &mut i32| {
                *left -= 1;
                *left >= 0
            };
            let a = search.search(&a, 500, &mut random, &mut || goes_on(&mut left));
            let b = search.search(&b, 500, &mut random, &mut || goes_on(&mut right));
            let both = search.recombined(&a, &b, &mut random);
            assert!([&a, &b, &both].into_iter().all(|group_of| plain.is_full(group_of)));
            assert!(plain.total(&a).max(plain.total(&b)) < plain.total(&in_order(room)));
        }
    }

    #[test]
    fn what_grows_is_what_talks() {
        // Two groups that talk among themselves, numbered by turns.
        let weight = |a: usize, b: usize| i64::from(a != b && a % 2 == b % 2);
        let weight = (0..20).map(|a| (0..20).map(|b| weight(a, b)).collect()).collect();
        let (distance, pull) = (vec![vec![1, 10], vec![10, 1]], vec![vec![0; 2]; 20]);
        let plain = Plain { weight, room: vec![10, 10], distance, pull, tenure: 3 };
        let grown = plain.search().unwrap().grown(&mut Random::new(1));
        assert!((0..20).all(|vertex| grown[vertex] == grown[vertex % 2]) && grown[0] != grown[1]);
    }

    #[test]
    fn too_many_are_not_searched() {
        let mut random = Random::new(1);
        assert!(Plain::drawn(&[64, 65], true, 3, &mut random).search().is_none());
        assert!(Plain::drawn(&[4; 9], true, 3, &mut random).search().is_none());
        assert!(Plain::drawn(&[9], true, 3, &mut random).search().is_none());
    }
}
