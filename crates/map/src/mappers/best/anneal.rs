//! Simulated annealing by swaps (Kirkpatrick, Gelatt, Vecchi, 1983), for distances that are no tree's, and the descent
//! that ends every search.

use super::clock::Clock;
use super::state::State;
use crate::random::Random;
use std::ops::Range;

/// How a state is cooled: temperatures in units of J.
#[derive(Debug, Clone, Copy)]
pub struct Cooling {
    /// Temperature at the start.
    pub from: f64,
    /// Temperature at the end.
    pub to: f64,
    /// Swaps proposed.
    pub proposals: u64,
    /// Proposals between two changes of the temperature.
    pub stretch: u64,
}

/// Cools a state down.
pub fn anneal(state: &mut State, communicating: &[u32], cooling: Cooling, random: &mut Random) {
    let stretches = cooling.proposals.div_ceil(cooling.stretch).max(1);
    let factor = (cooling.to / cooling.from).powf(1.0 / stretches as f64);
    let mut temperature = cooling.from;
    for _ in 0..stretches {
        for _ in 0..cooling.stretch {
            propose(state, communicating, temperature, random);
        }
        temperature *= factor;
    }
}

/// Swaps a vertex that communicates with any other, if J gets less, or not more than chance allows at the temperature.
fn propose(state: &mut State, communicating: &[u32], temperature: f64, random: &mut Random) {
    let vertex = communicating[random.below(communicating.len())] as usize;
    let other = random.below(state.net.len());
    if state.group_of[vertex] == state.group_of[other] {
        return;
    }
    let chance = (random.draw() >> 11) as f64 / (1_u64 << 53) as f64;
    let tolerated = -temperature * chance.max(f64::MIN_POSITIVE).ln();
    let least = state.least_change(vertex, other);
    if f64::from(least) <= tolerated && state.may_swap(vertex, other) {
        let change = least + state.change_of_pair(vertex, other);
        if f64::from(change) <= tolerated {
            state.swap(vertex, other, change);
        }
    }
}

/// Vertices between two looks at the clock, which takes longer than most of them.
const LOOK: usize = 64;

/// Vertices that a descent looks at for swaps, after which it ends where it is: with large groups it would take the
/// square of all.
const MOST_LOOKS: usize = 64 << 20;

/// Swaps as long as any swap of one of `vertices` with one in a group of `within` that it likes better makes J less;
/// with a clock, until its time is over.
pub fn descend(state: &mut State, vertices: &[u32], within: &[Range<u32>], clock: Option<&Clock>) {
    let mut active = true;
    let mut left = MOST_LOOKS;
    while std::mem::take(&mut active) {
        for (number, &vertex) in vertices.iter().enumerate() {
            if number % LOOK == 0 && clock.is_some_and(Clock::is_over) {
                return;
            }
            let vertex = vertex as usize;
            let now = state.cost(vertex, state.group_of[vertex] as usize);
            if !within.iter().any(|groups| state.least_cost(vertex, groups) < now) {
                continue;
            }
            for group in within.iter().cloned().flatten() {
                let group = group as usize;
                let here = state.group_of[vertex] as usize;
                if group != here && state.cost(vertex, group) < state.cost(vertex, here) {
                    let looks = state.layout.tree.slots_of(group).len();
                    if looks > left {
                        return;
                    }
                    left -= looks;
                    active |= swap_into(state, vertex, group);
                }
            }
        }
    }
}

/// Swaps a vertex with the member of a group that gains most, if any does.
fn swap_into(state: &mut State, vertex: usize, group: usize) -> bool {
    let mut best = (0, usize::MAX);
    for slot in state.layout.tree.slots_of(group) {
        let other = state.vertex_at[slot] as usize;
        let least = state.least_change(vertex, other);
        if least < best.0 && state.may_swap(vertex, other) {
            best = best.min((least + state.change_of_pair(vertex, other), other));
        }
    }
    let (change, other) = best;
    if change < 0 {
        state.swap(vertex, other, change);
    }
    change < 0
}
