//! Robust tabu search (Taillard, "Robust taboo search for the quadratic assignment problem", 1991) for distances that
//! are no tree's: the best swap of all is made, even if J grows, and undone places are forbidden for a while. Where
//! that finds nothing any more the best is perturbed (iterated tabu search; Misevicius 2012).

use super::clock::Clock;
use super::context;
use super::search::Solution;
use super::state::State;
use crate::random::Random;

/// A search on a state.
pub struct Tabu<'a, 'b> {
    numbers: context::Tabu,
    state: &'b mut State<'a>,
    /// Weight of each pair.
    weight: Vec<i32>,
    /// Until which swap a vertex may not return to a slot, `[vertex][slot]`.
    until: Vec<u64>,
    now: u64,
}

impl<'a, 'b> Tabu<'a, 'b> {
    /// A search from a state as it is.
    pub fn new(state: &'b mut State<'a>, numbers: context::Tabu) -> Self {
        let count = state.net.len();
        let mut weight = vec![0; count * count];
        for vertex in 0..count {
            state.net.row(vertex).iter().for_each(|arc| weight[vertex * count + arc.0 as usize] = arc.1);
        }
        Self { numbers, state, weight, until: vec![0; count * count], now: 1 }
    }

    /// Searches until the clock is over.
    pub fn run(&mut self, best: &mut Solution, clock: &mut Clock, random: &mut Random) {
        let count = self.state.net.len();
        let patience = self.numbers.patience * count as u64;
        let (mut local, mut since) = (self.state.total, self.now);
        while clock.step() {
            for _ in 0..self.numbers.swaps {
                if !self.swap(local.min(best.total), random) {
                    return;
                }
                best.keep(self.state);
                if self.state.total < local {
                    (local, since) = (self.state.total, self.now);
                }
            }
            if self.now > since + patience {
                self.perturb(best, random);
                (local, since) = (self.state.total, self.now);
            }
        }
    }

    /// Makes the best swap that is not forbidden, or that leads below `aspired`; false where there is none.
    fn swap(&mut self, aspired: i64, random: &mut Random) -> bool {
        let state = &*self.state;
        let count = state.net.len();
        let old = self.now.saturating_sub(self.numbers.stale * (count * count) as u64);
        let mut best = (i32::MAX, 0, 0);
        let mut ties = 0;
        for a in 0..state.net.tasks {
            for b in a + 1..count {
                let change = self.change(a, b);
                if change > best.0 {
                    continue;
                }
                let (to_a, to_b) = (state.group_of[b] as usize, state.group_of[a] as usize);
                let (until_a, until_b) = (self.until[a * count + to_a], self.until[b * count + to_b]);
                let forbidden = until_a > self.now && until_b > self.now;
                // What neither has been at for very long is worth a visit.
                let stale = until_a < old && until_b < old && self.now > old + 1 && old > 0;
                if (forbidden && state.total + i64::from(change) >= aspired) || !state.may_swap(a, b) {
                    continue;
                }
                let change = if stale { i32::MIN + 1 } else { change };
                ties = if change < best.0 { 1 } else { ties + 1 };
                if change < best.0 || random.below(ties) == 0 {
                    best = (change, a, b);
                }
            }
        }
        let (_, a, b) = best;
        if a != b {
            self.exchange(a, b, random);
        }
        self.now += 1;
        a != b || count > 2 && self.now < u64::MAX && self.until.iter().any(|&until| until > self.now)
    }

    /// What a swap does to J.
    #[inline]
    fn change(&self, a: usize, b: usize) -> i32 {
        let state = &*self.state;
        let count = state.net.len();
        let (here, there) = (state.group_of[a] as usize, state.group_of[b] as usize);
        let both = self.weight[a * count + b] * state.layout.distance[here * count + there];
        state.least_change(a, b) + 2 * both
    }

    fn exchange(&mut self, a: usize, b: usize, random: &mut Random) {
        let (count, numbers) = (self.state.net.len(), self.numbers);
        let (here, there) = (self.state.group_of[a] as usize, self.state.group_of[b] as usize);
        let mut tenure = || (numbers.tenure * count + random.below(numbers.more_tenure * count + 1)) as u64 / 10;
        self.until[a * count + here] = self.now + tenure();
        self.until[b * count + there] = self.now + tenure();
        let change = self.change(a, b);
        self.state.swap(a, b, change);
    }

    /// Some random swaps from the best.
    fn perturb(&mut self, best: &Solution, random: &mut Random) {
        let count = self.state.net.len();
        if random.below(2) == 0 {
            super::search::restore(self.state, &best.slot_of);
        }
        let swaps = self.numbers.perturbed + random.below((count / self.numbers.perturbed_part).max(1));
        for _ in 0..swaps {
            let (a, b) = (random.below(self.state.net.tasks), random.below(count));
            if a != b && self.state.may_swap(a, b) {
                self.exchange(a, b, random);
            }
        }
    }
}
