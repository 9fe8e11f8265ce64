//! The search itself: from a start, repartition after repartition; where nothing gets better any more, a kick.

use super::anneal::{Cooling, anneal, descend};
use super::clock::Clock;
use super::divide::{Divider, Pace};
use super::layout::Layout;
use super::net::Net;
use super::repartition::{Repartition, arrange};
use super::state::{Rules, State};
use super::tabu::{self, Tabu};
use crate::random::Random;

/// Swaps that one cooling proposes at most: a fraction of a second.
const PROPOSALS: u64 = 4_000_000;

/// Repartitions without success, and one for five vertices, after which nothing better is near.
const PATIENCE: usize = 16;

/// The same after a kick.
const PATIENCE_KICKED: usize = 6;

/// How often, in a hundred, the next kick starts from the best: a small problem is walked through, in a large one what
/// got worse in many places would add up.
const BACK: (usize, usize) = (60, 90);

/// Up to this many vertices a problem is small.
pub const SMALL: usize = 128;

/// What a search works on.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The tasks.
    pub net: &'a Net,
    /// The slots.
    pub layout: &'a Layout,
    /// What may not be changed.
    pub rules: &'a Rules,
}

/// A mapping with its J in scaled units.
pub struct Found {
    /// J and the price of moves.
    pub total: i64,
    /// Slot of each vertex.
    pub slot_of: Vec<u32>,
}

impl<'a> Ground<'a> {
    /// Searches from a start, or from a division of the tasks over the tree where there is none.
    pub fn search(&self, start: Option<&[u32]>, clock: &mut Clock, random: &mut Random) -> Found {
        let talking = self.net.talking();
        let mut state = match start {
            Some(start) => State::new(self.net, self.layout, self.rules, start),
            None => self.first_state(clock, random),
        };
        let everywhere = 0..self.layout.groups() as u32;
        let everywhere = std::slice::from_ref(&everywhere);
        descend(&mut state, &talking, everywhere, Some(clock));
        let mut best = Found { total: state.total, slot_of: state.slot_of.clone() };
        if talking.is_empty() || self.layout.groups() < 2 {
            return best;
        }
        if self.layout.tree.levels() == 0 {
            if self.net.len() <= tabu::MOST {
                Tabu::new(&mut state).run(&mut best, clock, random);
            }
            self.cool(&mut state, &talking, &mut best, clock, random);
            return best;
        }
        let divider = Divider::new(self.net, &self.layout.tree, 4);
        let mut repartition = Repartition::new(divider, &talking, &state);
        repartition.match_pairs(&mut state);
        best.keep(&state);
        let long = PATIENCE + self.net.len() / 5;
        let back = if self.net.len() <= SMALL { BACK.0 } else { BACK.1 };
        let mut patience = long;
        let mut stale = 0;
        while clock.step() {
            let before = state.total;
            repartition.step(&mut state, random, false);
            stale = if state.total < before { 0 } else { stale + 1 };
            if stale < patience {
                continue;
            }
            stale = 0;
            if is_close(&state, &best) {
                repartition.match_pairs(&mut state);
            }
            if repartition.focus.is_empty() || state.total < best.total {
                descend(&mut state, &talking, everywhere, Some(clock));
            }
            best.keep(&state);
            if state.total > best.total && random.below(100) < back {
                restore(&mut state, &best.slot_of);
            }
            repartition.kick(&mut state, random);
            patience = PATIENCE_KICKED;
        }
        descend(&mut state, &talking, everywhere, Some(clock));
        if is_close(&state, &best) {
            repartition.match_pairs(&mut state);
        }
        best.keep(&state);
        best
    }

    /// The vertices divided over the whole tree.
    fn first_state(&self, clock: &Clock, random: &mut Random) -> State<'a> {
        let tree = &self.layout.tree;
        let mut slot_of = vec![0; self.net.len()];
        let mut divider = Divider::new(self.net, tree, 4);
        divider.pace = Some(Pace::new(clock, tree.children(0, &(0..tree.groups() as u32)).len()));
        divider.divide((0..self.net.len() as u32).collect(), 0, 0..tree.groups() as u32, &mut slot_of, random);
        State::new(self.net, self.layout, self.rules, &slot_of)
    }

    /// Anneals again and again, each time from the best or from where the last one ended.
    fn cool(&self, state: &mut State, talking: &[u32], best: &mut Found, clock: &mut Clock, random: &mut Random) {
        let everywhere = 0..self.layout.groups() as u32;
        let everywhere = std::slice::from_ref(&everywhere);
        let distances = self.layout.distance.iter().copied();
        let spread = f64::from(distances.clone().max().unwrap_or(1) - distances.filter(|&d| d > 0).min().unwrap_or(0));
        let unit = self.net.mean_weight() * spread.max(1.0);
        while clock.step() {
            let heat = [0.5, 0.3, 0.2, 0.1][random.below(4)];
            let proposals = PROPOSALS.min(40 * (self.net.len() as u64).pow(2));
            let cooling = Cooling { from: heat * unit, to: 0.03 * unit, proposals };
            anneal(state, talking, cooling, random);
            descend(state, talking, everywhere, Some(clock));
            best.keep(state);
            if state.total > best.total && random.below(2) == 0 {
                restore(state, &best.slot_of);
            }
        }
    }
}

/// Whether a state that is not the best may become it by small changes.
fn is_close(state: &State, best: &Found) -> bool {
    state.total != best.total && state.total < best.total + best.total / 50
}

impl Found {
    /// Keeps a state if it is better.
    pub fn keep(&mut self, state: &State) {
        if state.total < self.total {
            self.total = state.total;
            self.slot_of.clone_from(&state.slot_of);
        }
    }
}

/// Brings every vertex to its slot.
pub fn restore(state: &mut State, slot_of: &[u32]) {
    let all: Vec<u32> = (0..slot_of.len() as u32).collect();
    arrange(state, &all, |at| slot_of[at]);
}
