//! Iterated local search for a small makespan (Lourenço, Martin, Stützle, "Iterated local search", 2003): a task of a
//! pair that the last port waits for, or of any pair, changes places with another or takes an empty slot; what does not
//! wait longer is kept. Where nothing gets better for long, some random changes are made to the best so far. At last
//! messages are taken out of the fuller ports and switches where they do not need to be.

use crate::Problem;
use crate::mappers::best::clock::Clock;
use crate::objective::State;
use crate::random::Random;
use crate::slots::Slots;
use cohabit_model::Result;
use cohabit_model::topology::NodeId;
use cohabit_network::estimator::SAME;

/// Changes that are tried in one step.
const TRIES: usize = 64;

/// A search from one mapping.
pub struct Search<'a, S> {
    problem: &'a Problem<'a>,
    slots: &'a Slots,
    loads: S,
    slot_of: Vec<usize>,
    task_at: Vec<Option<usize>>,
    /// How many slots of each unit are empty.
    empty: Vec<usize>,
    random: Random,
}

/// A change: a task goes to a slot, and what is there to the task's.
#[derive(Debug, Clone, Copy)]
struct Change {
    task: usize,
    to: usize,
}

impl<'a, S: State> Search<'a, S> {
    /// A search from the slots of a mapping, with its loads.
    pub fn new(problem: &'a Problem<'a>, slots: &'a Slots, loads: S, slot_of: Vec<usize>, random: Random) -> Self {
        let mut task_at = vec![None; slots.len()];
        slot_of.iter().enumerate().for_each(|(task, &slot)| task_at[slot] = Some(task));
        let mut empty = vec![0; slots.spare.len()];
        (0..slots.len()).filter(|&slot| task_at[slot].is_none()).for_each(|slot| empty[slots.unit[slot]] += 1);
        Self { problem, slots, loads, slot_of, task_at, empty, random }
    }

    /// The best slots that are found in the time given.
    pub fn run(&mut self, clock: &mut Clock) -> Vec<usize> {
        let mut best = (self.loads.cost(), self.slot_of.clone());
        let mut local = self.loads.smooth();
        let patience = 8 + self.slot_of.len() / 4;
        let mut idle = 0;
        while clock.step() {
            let before = local;
            for _ in 0..TRIES {
                local = self.attempt(local, &mut best);
            }
            // The sum of the norm is made again before rounding can matter.
            self.loads.refresh();
            local = self.loads.smooth();
            idle = if local < before * (1.0 - 1e-9) { 0 } else { idle + 1 };
            if idle > patience {
                self.restart(&best.1);
                local = self.loads.smooth();
                idle = 0;
            }
        }
        best.1
    }

    /// From these slots, others with which ports and switches are less full ([`Loads::norm`]), and communication takes
    /// next to no longer ([`SAME`]).
    pub fn thin(&mut self, slots: &[usize], clock: &mut Clock) -> Vec<usize> {
        self.go_to(slots);
        let longest = self.loads.cost() * (1.0 + SAME);
        while clock.step() {
            self.loads.refresh();
            let mut norm = self.loads.norm();
            for _ in 0..TRIES {
                let Some(change) = self.propose() else { continue };
                let from = self.slot_of[change.task];
                self.loads.remember();
                self.make(change);
                let after = self.loads.norm();
                if after < norm * (1.0 - 1e-9) && self.loads.cost() <= longest {
                    norm = after;
                } else {
                    self.make(Change { task: change.task, to: from });
                    self.loads.undone();
                }
            }
        }
        self.slot_of.clone()
    }

    /// From these slots, others for which what `judge` says is less: one change after another, that much and no more of
    /// which is made on trial. For a judge that takes long, and of whose way to judge nothing is known.
    pub fn judged(
        &mut self,
        slots: &[usize],
        trials: usize,
        clock: &mut Clock,
        mut judge: impl FnMut(&[usize]) -> Result<f64>,
    ) -> Result<Vec<usize>> {
        self.go_to(slots);
        let mut best = judge(&self.slot_of)?;
        for _ in 0..trials {
            if !clock.step() {
                break;
            }
            let Some(change) = self.propose() else { continue };
            let from = self.slot_of[change.task];
            self.make(change);
            let after = judge(&self.slot_of)?;
            if after > best {
                self.make(Change { task: change.task, to: from });
            } else {
                best = after;
            }
        }
        Ok(self.slot_of.clone())
    }

    /// Tries one change; returns the norm afterwards.
    fn attempt(&mut self, local: f64, best: &mut (f64, Vec<usize>)) -> f64 {
        let Some(change) = self.propose() else { return local };
        let from = self.slot_of[change.task];
        self.loads.remember();
        self.make(change);
        let after = self.loads.smooth();
        if after > local {
            self.make(Change { task: change.task, to: from });
            self.loads.undone();
            return local;
        }
        if after < local {
            let seconds = self.loads.cost();
            if seconds < best.0 {
                *best = (seconds, self.slot_of.clone());
            }
        }
        after
    }

    /// A task of a pair to a slot near the other, or anywhere.
    fn propose(&mut self) -> Option<Change> {
        let random = &mut self.random;
        let mut pick = |count: usize| random.below(count);
        let pair = if pick(2) == 0 { self.loads.critical(&mut pick) } else { None };
        let (a, b) = pair.or_else(|| self.loads.any_pair(&mut pick))?;
        let (task, partner) = if pick(2) == 0 { (a, b) } else { (b, a) };
        let to = if pick(2) == 0 { self.near(self.slot_of[partner]) } else { self.random.below(self.slots.len()) };
        self.is_legal(Change { task, to }).then_some(Change { task, to })
    }

    /// A slot in one of the nodes around another slot.
    fn near(&mut self, slot: usize) -> usize {
        let topology = self.problem.topology;
        let own = topology.pus[self.slots.pu[slot]].node;
        let around: Vec<NodeId> =
            topology.ancestors(own).filter(|&node| topology.nodes[node].children.len() > 1).collect();
        let Some(&node) = around.get(self.random.below(around.len())) else { return slot };
        let range = self.slots.of_pus(&topology.nodes[node].pus);
        range.start + self.random.below(range.len())
    }

    /// Whether pins and units allow it, and it changes anything.
    fn is_legal(&self, Change { task, to }: Change) -> bool {
        let (slots, from) = (self.slots, self.slot_of[task]);
        if slots.pu[from] == slots.pu[to] || slots.pinned[task].is_some() {
            return false;
        }
        match self.task_at[to] {
            Some(other) => slots.pinned[other].is_none(),
            None => slots.unit[from] == slots.unit[to] || self.empty[slots.unit[from]] < slots.spare[slots.unit[from]],
        }
    }

    fn make(&mut self, Change { task, to }: Change) {
        let from = self.slot_of[task];
        let element = |slot: usize| self.problem.topology.pus[self.slots.pu[slot]].node;
        let other = self.task_at[to];
        let moves = [(task, element(to)), (other.unwrap_or(task), element(from))];
        self.loads.place(if other.is_some() { &moves } else { &moves[..1] });
        self.task_at.swap(from, to);
        self.slot_of[task] = to;
        match other {
            Some(other) => self.slot_of[other] = from,
            None => {
                self.empty[self.slots.unit[from]] += 1;
                self.empty[self.slots.unit[to]] -= 1;
            }
        }
    }

    /// Goes back to the best, and some random changes away from it.
    fn restart(&mut self, best: &[usize]) {
        self.go_to(best);
        let changes = 2 + self.random.below(2 + best.len() / 8);
        for _ in 0..changes {
            let (task, to) = (self.random.below(best.len()), self.random.below(self.slots.len()));
            if self.is_legal(Change { task, to }) {
                self.make(Change { task, to });
            }
        }
        self.loads.refresh();
    }

    /// Puts all tasks on these slots.
    fn go_to(&mut self, best: &[usize]) {
        let moved = (0..best.len()).filter(|&task| self.slot_of[task] != best[task]);
        let element = |slot: usize| self.problem.topology.pus[self.slots.pu[slot]].node;
        for task in moved.collect::<Vec<_>>() {
            self.loads.place(&[(task, element(best[task]))]);
        }
        self.slot_of.copy_from_slice(best);
        self.task_at.fill(None);
        best.iter().enumerate().for_each(|(task, &slot)| self.task_at[slot] = Some(task));
        self.empty.fill(0);
        let (slots, empty) = (self.slots, &mut self.empty);
        (0..slots.len()).filter(|&slot| self.task_at[slot].is_none()).for_each(|slot| empty[slots.unit[slot]] += 1);
        self.loads.refresh();
    }
}
