//! A mapping under search: who is where, what each vertex would pay in each group, and swaps in time that does not
//! depend on the number of tasks.
//!
//! `cost[vertex][group]` is what the vertex pays to its neighbours when it is in that group. With it the change of J by
//! a swap is four numbers and one weight. After a swap only the neighbours' entries of the groups that tell the two
//! places apart change: on a tree two subtrees, the smallest that part them.

use super::layout::Layout;
use super::net::Net;
use std::ops::Range;

/// What the search may not change, and what moves cost.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Vertices that must stay where they are.
    pub fixed: Vec<bool>,
    /// Vertices that subtrees are not refilled with: fixed ones, and empty slots that may not be anywhere.
    pub held: Vec<bool>,
    /// For each group the domain that its empty slots count in.
    pub domain: Vec<u32>,
    /// How many slots of each domain may be empty.
    pub spare: Vec<u32>,
    /// Before each group and after the last, how many slots may be empty, where some must be taken; none where any may
    /// be empty, or the empty ones are held.
    pub spare_before: Option<Vec<u32>>,
    /// The group each task is in at present, and what leaving it costs; empty where that is nothing.
    pub home: Vec<Option<u32>>,
    /// What leaving home costs.
    pub move_cost: i32,
}

impl Rules {
    /// Rules that hold some of the vertices, and allow everything else.
    pub fn holding(held: Vec<bool>, groups: usize) -> Self {
        let domain = (0..groups as u32).collect();
        let spare = vec![u32::MAX; groups];
        Self { fixed: held.clone(), held, domain, spare, spare_before: None, home: Vec::new(), move_cost: 0 }
    }

    /// Whether every slot of a layout may stay empty, or none has to.
    pub fn leave_any_slot_empty(&self, net: &Net, layout: &Layout) -> bool {
        let may_be_empty = |group: usize| {
            let spare = self.spare[self.domain[group] as usize] as usize;
            spare >= layout.tree.slots_of(group).len()
        };
        net.tasks == net.len() || (0..layout.groups()).all(may_be_empty)
    }

    /// Adds what a vertex pays for not being at home to what it pays in every group; what that is where it is now.
    pub fn price(&self, vertex: usize, now: usize, row: &mut [i32]) -> i64 {
        let Some(&Some(home)) = self.home.get(vertex) else { return 0 };
        row.iter_mut().for_each(|cost| *cost += self.move_cost);
        row[home as usize] -= self.move_cost;
        i64::from(self.move_cost) * i64::from(now != home as usize)
    }
}

/// A permutation of vertices over slots with all that the search needs to change it.
#[derive(Debug, Clone)]
pub struct State<'a> {
    /// The vertices.
    pub net: &'a Net,
    /// The places.
    pub layout: &'a Layout,
    /// What may not be changed.
    pub rules: &'a Rules,
    /// Vertex on each slot.
    pub vertex_at: Vec<u32>,
    /// Slot of each vertex.
    pub slot_of: Vec<u32>,
    /// Group of each vertex.
    pub group_of: Vec<u32>,
    /// J in scaled units, each pair once, and the price of the moves.
    pub total: i64,
    cost: Vec<i32>,
    /// Empty slots in each domain.
    empty: Vec<u32>,
    change: Vec<i32>,
}

impl<'a> State<'a> {
    /// The state in which `slot_of` says each vertex's slot.
    pub fn new(net: &'a Net, layout: &'a Layout, rules: &'a Rules, slot_of: &[u32]) -> Self {
        let groups = layout.groups();
        let group_of_slot = layout.tree.group_of_slots();
        let mut state = Self {
            net,
            layout,
            rules,
            vertex_at: vec![0; slot_of.len()],
            slot_of: slot_of.to_vec(),
            group_of: slot_of.iter().map(|&slot| group_of_slot[slot as usize]).collect(),
            total: 0,
            cost: vec![0; net.len() * groups],
            empty: vec![0; rules.spare.len()],
            change: vec![0; groups],
        };
        slot_of.iter().enumerate().for_each(|(vertex, &slot)| state.vertex_at[slot as usize] = vertex as u32);
        for &group in &state.group_of[net.tasks..] {
            state.empty[rules.domain[group as usize] as usize] += 1;
        }
        state.fill_costs();
        state
    }

    fn fill_costs(&mut self) {
        let groups = self.layout.groups();
        let (mut twice, mut moves) = (0, 0);
        for (vertex, row) in self.cost.chunks_exact_mut(groups).enumerate() {
            for &(other, weight) in self.net.row(vertex) {
                let there = self.group_of[other as usize] as usize;
                let distances = &self.layout.distance[there * groups..(there + 1) * groups];
                row.iter_mut().zip(distances).for_each(|(cost, distance)| *cost += weight * distance);
            }
            let own = self.group_of[vertex];
            twice += i64::from(row[own as usize]);
            moves += self.rules.price(vertex, own as usize, row);
        }
        self.total = twice / 2 + moves;
    }

    /// What a vertex pays in a group.
    #[inline]
    pub fn cost(&self, vertex: usize, group: usize) -> i32 {
        self.cost[vertex * self.layout.groups() + group]
    }

    /// The least that a vertex pays in any of some groups.
    #[inline]
    pub fn least_cost(&self, vertex: usize, groups: &Range<u32>) -> i32 {
        let row = &self.cost[vertex * self.layout.groups()..];
        row[groups.start as usize..groups.end as usize].iter().fold(i32::MAX, |least, &cost| least.min(cost))
    }

    /// What a vertex saves by its home when it is in one group and not in another.
    pub fn homesick(&self, vertex: usize, stay: usize, leave: usize) -> i32 {
        match self.rules.home.get(vertex) {
            Some(&Some(home)) => {
                let away = |group: usize| if group == home as usize { 0 } else { self.rules.move_cost };
                away(leave) - away(stay)
            }
            _ => 0,
        }
    }

    /// By how much a swap would change J if the two did not communicate with each other: never more than it really
    /// does.
    #[inline]
    pub fn least_change(&self, a: usize, b: usize) -> i32 {
        let (here, there) = (self.group_of[a] as usize, self.group_of[b] as usize);
        self.cost(a, there) - self.cost(a, here) + self.cost(b, here) - self.cost(b, there)
    }

    /// What [`Self::least_change`] leaves out.
    #[inline]
    pub fn change_of_pair(&self, a: usize, b: usize) -> i32 {
        let (here, there) = (self.group_of[a] as usize, self.group_of[b] as usize);
        let groups = self.layout.groups();
        let apart = self.layout.distance[here * groups + there];
        let inside = |group: usize| self.layout.distance[group * groups + group];
        self.net.weight(a, b) * (2 * apart - inside(here) - inside(there))
    }

    /// Whether the rules let two vertices of different groups change places.
    #[inline]
    pub fn may_swap(&self, a: usize, b: usize) -> bool {
        if self.rules.fixed[a] || self.rules.fixed[b] {
            return false;
        }
        let (empty_a, empty_b) = (self.net.is_empty_slot(a), self.net.is_empty_slot(b));
        empty_a == empty_b || {
            // The empty slot of one goes to the domain of the other.
            let (from, to) = if empty_a { (a, b) } else { (b, a) };
            let domain = |vertex: usize| self.rules.domain[self.group_of[vertex] as usize] as usize;
            domain(from) == domain(to) || self.empty[domain(to)] < self.rules.spare[domain(to)]
        }
    }

    /// Exchanges two vertices of different groups; `change` is what that does to J.
    pub fn swap(&mut self, a: usize, b: usize, change: i32) {
        let (here, there) = (self.group_of[a] as usize, self.group_of[b] as usize);
        if self.net.is_empty_slot(a) != self.net.is_empty_slot(b) {
            let (from, to) = if self.net.is_empty_slot(a) { (here, there) } else { (there, here) };
            self.empty[self.rules.domain[from] as usize] -= 1;
            self.empty[self.rules.domain[to] as usize] += 1;
        }
        self.total += i64::from(change);
        self.update_neighbours(a, b, here, there);
        self.group_of.swap(a, b);
        self.trade_slots(a, b);
    }

    /// Exchanges any two vertices, wherever they are.
    pub fn exchange(&mut self, a: usize, b: usize) {
        if self.group_of[a] == self.group_of[b] {
            self.trade_slots(a, b);
        } else {
            let change = self.least_change(a, b) + self.change_of_pair(a, b);
            self.swap(a, b, change);
        }
    }

    fn trade_slots(&mut self, a: usize, b: usize) {
        self.slot_of.swap(a, b);
        self.vertex_at[self.slot_of[a] as usize] = a as u32;
        self.vertex_at[self.slot_of[b] as usize] = b as u32;
    }

    /// `a` goes from `here` to `there` and `b` the other way.
    fn update_neighbours(&mut self, a: usize, b: usize, here: usize, there: usize) {
        let groups = self.layout.groups();
        for range in self.layout.differing(here, there) {
            if range.is_empty() {
                continue;
            }
            let from = &self.layout.distance[here * groups..][range.clone()];
            let to = &self.layout.distance[there * groups..][range.clone()];
            let change = &mut self.change[..range.len()];
            change.iter_mut().zip(from.iter().zip(to)).for_each(|(change, (from, to))| *change = to - from);
            for (vertex, sign) in [(a, 1), (b, -1)] {
                for &(other, weight) in self.net.row(vertex) {
                    let row = &mut self.cost[other as usize * groups..][range.clone()];
                    row.iter_mut().zip(change.iter()).for_each(|(cost, change)| *cost += sign * weight * change);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ready, ready};
    use super::*;
    use crate::random::Random;
    use crate::testing::{slow_cost, tree};
    use cohabit_model::Matrix;

    #[test]
    fn what_swaps_do_to_j_is_what_the_definition_says() {
        let topology = tree(&[2, 3, 2], &[100, 10, 1]);
        let mut random = Random::new(4);
        let entries: Vec<_> =
            (0..40).map(|_| (random.below(10) as u32, random.below(10) as u32, 1 + random.below(9) as u64)).collect();
        let weight = Matrix::from_triplets(10, entries);
        let Ready { slots, layout: tree_layout, net } = ready(&weight, &topology);
        let flat = Layout::of_distances(slots.len(), |a, b| topology.distance(slots.pu[a], slots.pu[b]) as i32);
        for layout in [tree_layout, flat] {
            let rules = Rules::holding(vec![false; net.len()], layout.groups());
            let mut state = State::new(&net, &layout, &rules, &(0..12).collect::<Vec<_>>());
            for _ in 0..300 {
                let (a, b) = (random.below(12), random.below(12));
                if a != b && state.may_swap(a, b) {
                    state.exchange(a, b);
                }
                let placement: Vec<usize> = state.slot_of[..10].iter().map(|&slot| slots.pu[slot as usize]).collect();
                assert_eq!(state.total as u128, slow_cost(&weight, &topology, &placement));
            }
            let fresh = State::new(&net, &layout, &rules, &state.slot_of);
            assert_eq!((fresh.cost, fresh.total), (state.cost, state.total));
        }
    }
}
