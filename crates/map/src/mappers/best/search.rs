//! The search itself: from a start, repartition after repartition; where nothing gets better any more, a perturbation.

use super::anneal::{Cooling, anneal, descend};
use super::clock::Clock;
use super::clusters;
use super::context::{self, Context, Part};
use super::divide::{Divider, Pace};
use super::layout::Layout;
use super::memetic::{Dense, Memetic};
use super::net::Net;
use super::outer::outer;
use super::repartition::{Repartition, arrange};
use super::rotation::Rotation;
use super::state::{Rules, State};
use super::tabu::Tabu;
use crate::random::Random;

/// What a search works on.
#[derive(Debug, Clone, Copy)]
pub struct Instance<'a> {
    /// The tasks.
    pub net: &'a Net,
    /// The slots.
    pub layout: &'a Layout,
    /// What may not be changed.
    pub rules: &'a Rules,
    /// What is dense.
    pub dense: Dense,
    /// What is done, and for how long.
    pub context: &'a Context,
}

/// A mapping with its J in scaled units.
#[derive(Debug, Clone)]
pub struct Solution {
    /// J and the price of moves.
    pub total: i64,
    /// Slot of each vertex.
    pub slot_of: Vec<u32>,
}

impl<'a> Instance<'a> {
    /// Searches from a start, or from a division of the tasks over the tree where there is none.
    pub fn search(&self, start: Option<&[u32]>, clock: &mut Clock, random: &mut Random) -> Solution {
        let communicating = self.net.communicating();
        let is_open = start.is_none() && !communicating.is_empty() && self.is_free();
        let parts = is_open.then(|| Memetic::new(self.net, self.layout, self.dense, self.context)).flatten();
        let outer =
            if is_open && parts.is_none() { outer(self.net, self.layout, self.rules, self.context) } else { None };
        let may_divide = start.is_none() && outer.is_none() && !self.rules.held.contains(&true);
        let mut state = match (start, parts, outer) {
            (Some(start), ..) => State::new(self.net, self.layout, self.rules, start),
            (_, Some(parts), _) => self.evolved(&parts, clock, random),
            (.., Some((level, above))) => self.outer_first(level, &above, clock, random),
            _ => self.divided(false, clock, random),
        };
        let everywhere = 0..self.layout.groups() as u32;
        let everywhere = std::slice::from_ref(&everywhere);
        if self.context.uses(Part::Descent) {
            descend(&mut state, &communicating, everywhere, Some(clock));
        }
        let mut best = Solution { total: state.total, slot_of: state.slot_of.clone() };
        if communicating.is_empty() || self.layout.groups() < 2 {
            return best;
        }
        if self.layout.tree.levels() == 0 {
            if self.context.uses(Part::Tabu) && self.net.len() <= self.context.tabu.vertices {
                Tabu::new(&mut state, self.context.tabu).run(&mut best, clock, random);
            }
            self.cool(&mut state, &communicating, &mut best, clock, random);
            return best;
        }
        let mut divider = Divider::new(self.net, &self.layout.tree, self.context);
        divider.keep_to(self.rules);
        let mut repartition = Repartition::new(divider, &communicating, &state, self.context);
        repartition.match_pairs(&mut state);
        best.keep(&state);
        let rotation = Rotation::new(&state, self.context);
        let base = best.clone();
        let mut walk = LocalSearch {
            instance: *self,
            communicating: &communicating,
            state,
            best,
            from: base.clone(),
            base,
            stale: 0,
            all: clock.left(),
            repartition,
            rotation,
            clock,
        };
        if walk.reach_an_end(may_divide, random) {
            while walk.go_on(may_divide, random) {}
        }
        walk.best
    }

    /// Whether any slot may stay empty, or none has to.
    fn is_free(&self) -> bool {
        self.rules.leave_any_slot_empty(self.net, self.layout)
    }

    /// The vertices divided over parts of the tree, and each part's over its groups.
    fn evolved(&self, parts: &Memetic, clock: &mut Clock, random: &mut Random) -> State<'a> {
        let found = parts.evolve(clock, random);
        let mut divider = Divider::new(self.net, &self.layout.tree, self.context);
        divider.tries = 1;
        self.filled(parts.level, &found.group_of, divider, random)
    }

    /// The same, the parts being subtrees that are searched by themselves most of the time.
    fn outer_first(&self, level: usize, above: &Layout, clock: &mut Clock, random: &mut Random) -> State<'a> {
        let rules = Rules::holding(vec![false; self.net.len()], above.groups());
        let instance = Instance { layout: above, rules: &rules, ..*self };
        let found = instance.search(None, &mut clock.most(self.context.outer.rest), random);
        let group_of_slot = above.tree.group_of_slots();
        let group_of: Vec<u32> = found.slot_of.iter().map(|&slot| group_of_slot[slot as usize]).collect();
        self.filled(level, &group_of, Divider::new(self.net, &self.layout.tree, self.context), random)
    }

    /// Subtrees of a level filled with the vertices of each, from then on divided.
    fn filled(&self, level: usize, group_of: &[u32], mut divider: Divider, random: &mut Random) -> State<'a> {
        let subtrees = self.layout.tree.parts(level);
        let mut members = vec![Vec::new(); subtrees.len()];
        group_of.iter().enumerate().for_each(|(vertex, &part)| members[part as usize].push(vertex as u32));
        let mut slot_of = vec![0; self.net.len()];
        for (groups, members) in subtrees.into_iter().zip(members) {
            divider.divide(members, level + 1, groups, &mut slot_of, random);
        }
        State::new(self.net, self.layout, self.rules, &slot_of)
    }

    /// The vertices divided over the whole tree; as well as half of the time allows, or in a hurry.
    fn divided(&self, hurries: bool, clock: &mut Clock, random: &mut Random) -> State<'a> {
        let tree = &self.layout.tree;
        let mut slot_of = vec![0; self.net.len()];
        let mut divider = Divider::new(self.net, tree, self.context);
        divider.pace = Some(Pace::new(clock, tree.children(0, &(0..tree.groups() as u32)).len()));
        divider.parents = hurries.then_some(1);
        divider.keep_to(self.rules);
        divider.divide((0..self.net.len() as u32).collect(), 0, 0..tree.groups() as u32, &mut slot_of, random);
        if !self.is_free() || !self.context.uses(Part::Clusters) {
            return State::new(self.net, self.layout, self.rules, &slot_of);
        }
        self.cut_by_clusters(slot_of, !hurries, clock, random)
    }

    /// What pairs of groups cut again by clusters make of a division.
    fn cut_by_clusters(
        &self,
        mut slot_of: Vec<u32>,
        perturbations: bool,
        clock: &mut Clock,
        random: &mut Random,
    ) -> State<'a> {
        let tree = &self.layout.tree;
        let group_of_slot = tree.group_of_slots();
        let mut group_of: Vec<u32> = slot_of.iter().map(|&slot| group_of_slot[slot as usize]).collect();
        clusters::improve(self.net, self.layout, &mut group_of, perturbations, self.context, clock, random);
        let mut next: Vec<u32> = (0..tree.groups()).map(|group| tree.slots_of(group).start as u32).collect();
        for (slot, &group) in slot_of.iter_mut().zip(&group_of) {
            let next = &mut next[group as usize];
            *slot = *next;
            *next += 1;
        }
        State::new(self.net, self.layout, self.rules, &slot_of)
    }

    /// Anneals again and again, each time from the best or from where the last one ended.
    fn cool(
        &self,
        state: &mut State,
        communicating: &[u32],
        best: &mut Solution,
        clock: &mut Clock,
        random: &mut Random,
    ) {
        let everywhere = 0..self.layout.groups() as u32;
        let everywhere = std::slice::from_ref(&everywhere);
        let distances = self.layout.distance.iter().copied();
        let spread = f64::from(distances.clone().max().unwrap_or(1) - distances.filter(|&d| d > 0).min().unwrap_or(0));
        let unit = self.net.mean_weight() * spread.max(1.0);
        let context::Annealing { proposals, proposals_of_two, stretch, from, to } = self.context.annealing;
        let proposals = proposals.min(proposals_of_two * (self.net.len() as u64).pow(2));
        while self.context.uses(Part::Annealing) && clock.step() {
            let heat = from[random.below(from.len())];
            let cooling = Cooling { from: heat * unit, to: to * unit, proposals, stretch };
            anneal(state, communicating, cooling, random);
            descend(state, communicating, everywhere, Some(clock));
            best.keep(state);
            if state.total > best.total && random.below(2) == 0 {
                restore(state, &best.slot_of);
            }
        }
    }
}

/// A search on its way.
struct LocalSearch<'a> {
    instance: Instance<'a>,
    communicating: &'a [u32],
    state: State<'a>,
    best: Solution,
    /// Where the last perturbation started.
    from: Solution,
    /// The best since the last restart, and perturbations since it was found.
    base: Solution,
    stale: usize,
    /// The time that was left when perturbations began.
    all: u128,
    repartition: Repartition<'a>,
    rotation: Option<Rotation>,
    clock: &'a mut Clock,
}

impl LocalSearch<'_> {
    /// Repartitions until nothing better is near; where the time allows, from several divisions for a while, and from
    /// the best of them to the end. False where the time is over.
    fn reach_an_end(&mut self, may_divide: bool, random: &mut Random) -> bool {
        let count = self.instance.net.len();
        let numbers = self.instance.context.walk;
        let (first, then) = match self.rotation {
            Some(_) => (self.patience(), self.patience()),
            None if count <= numbers.small => (numbers.patience_first, numbers.patience + count / 5),
            None => (count / 8, numbers.patience + count / 5),
        };
        let all = self.clock.left();
        let mut goes_on = self.improve(first, random);
        let mut one = all - self.clock.left();
        let mut ends = vec![self.found()];
        while may_divide
            && self.instance.context.uses(Part::Restarts)
            && goes_on
            && one * numbers.least_starts.max(count as u128 / 10) <= all
            && (all - self.clock.left() + one) * 100 < all * numbers.time_for_starts
        {
            let before = self.clock.left();
            goes_on = self.restart(first, random);
            ends.push(self.found());
            one = one.max(before - self.clock.left());
        }
        ends.sort_by_key(|end| end.total);
        for end in ends.iter().take(numbers.starts_kept).rev() {
            if goes_on {
                restore(&mut self.state, &end.slot_of);
                goes_on = self.improve(then, random);
            }
            self.settle(!goes_on);
        }
        (self.base, self.from) = (self.best.clone(), self.best.clone());
        self.all = self.clock.left().max(1);
        goes_on
    }

    /// Repartitions without success, where there are rotations.
    fn patience(&self) -> usize {
        let numbers = &self.instance.context.walk;
        numbers.patience_rotated.max(numbers.patience_a_group * self.instance.layout.groups())
    }

    /// A perturbation, and what gets better after it. False where the time is over.
    fn go_on(&mut self, may_divide: bool, random: &mut Random) -> bool {
        let (count, context) = (self.instance.net.len(), self.instance.context);
        let numbers = &context.walk;
        let restarts = may_divide && context.uses(Part::Restarts) && self.rotation.is_some();
        if restarts && self.stale > count / numbers.restart {
            self.stale = 0;
            if !self.restart(self.patience(), random) {
                return false;
            }
            (self.base, self.from) = (self.found(), self.found());
        }
        self.step_back(random);
        if context.uses(Part::Perturbation) {
            self.repartition.perturb(&mut self.state, random);
        }
        let patience =
            if self.rotation.is_some() { numbers.patience_perturbed_rotated } else { numbers.patience_perturbed };
        let goes_on = self.climb(patience, random);
        self.rotate();
        self.settle(!goes_on);
        self.stale += 1;
        if self.state.total < self.base.total {
            self.stale = 0;
            self.base.keep(&self.state);
        }
        goes_on
    }

    /// Goes to where the next perturbation starts.
    fn step_back(&mut self, random: &mut Random) {
        let (count, context) = (self.instance.net.len(), self.instance.context);
        if count <= context.walk.small {
            if self.state.total > self.base.total && random.below(100) < context.walk.back {
                restore(&mut self.state, &self.base.slot_of);
            }
            return;
        }
        let threshold = if context.uses(Part::Threshold) { context.walk.threshold } else { 0.0 };
        let slack = threshold / count as f64 * self.clock.left() as f64 / self.all as f64;
        if self.state.total as f64 > self.from.total as f64 * (1.0 + slack) {
            restore(&mut self.state, &self.from.slot_of);
        } else {
            self.from = self.found();
        }
    }

    /// Another division, and what gets better soon. False where the time is over.
    fn restart(&mut self, patience: usize, random: &mut Random) -> bool {
        self.state = self.instance.divided(true, self.clock, random);
        self.descend();
        self.repartition.match_pairs(&mut self.state);
        let goes_on = self.improve(patience, random);
        self.best.keep(&self.state);
        goes_on
    }

    /// Rotations, repartitions and what can be rotated after them. False where the time is over.
    fn improve(&mut self, patience: usize, random: &mut Random) -> bool {
        self.rotate();
        let goes_on = self.climb(patience, random);
        self.rotate();
        goes_on
    }

    fn rotate(&mut self) {
        if let Some(rotation) = &mut self.rotation {
            rotation.run(&mut self.state, || !self.clock.is_over());
        }
    }

    /// Repartitions until so many in a row were no use; false where the time is over.
    fn climb(&mut self, patience: usize, random: &mut Random) -> bool {
        if !self.instance.context.uses(Part::Repartition) {
            return self.clock.step();
        }
        let mut stale = 0;
        while self.clock.step() {
            let before = self.state.total;
            self.repartition.step(&mut self.state, random, false);
            stale = if self.state.total < before { 0 } else { stale + 1 };
            if stale >= patience {
                return true;
            }
        }
        false
    }

    /// Small changes where they may make the best, which is kept.
    fn settle(&mut self, is_last: bool) {
        if is_close(&self.state, &self.best) {
            self.repartition.match_pairs(&mut self.state);
        }
        if self.repartition.focus.is_empty() || self.state.total < self.best.total || is_last {
            self.descend();
        }
        self.best.keep(&self.state);
    }

    fn descend(&mut self) {
        if !self.instance.context.uses(Part::Descent) {
            return;
        }
        let everywhere = 0..self.instance.layout.groups() as u32;
        descend(&mut self.state, self.communicating, std::slice::from_ref(&everywhere), Some(self.clock));
    }

    fn found(&self) -> Solution {
        Solution { total: self.state.total, slot_of: self.state.slot_of.clone() }
    }
}

/// Whether a state that is not the best may become it by small changes.
fn is_close(state: &State, best: &Solution) -> bool {
    state.total != best.total && state.total < best.total + best.total / 50
}

impl Solution {
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
