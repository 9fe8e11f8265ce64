//! Giving tasks their slots one after the other without ever breaking what [`Slots`] demands.

use crate::slots::Slots;
use cohabit_model::Topology;
use std::ops::Range;

/// Which task has which slot, while a mapper that goes slot by slot is at work. Pinned tasks have theirs from the
/// start.
#[derive(Debug, Clone)]
pub struct PartialMapping<'a> {
    slots: &'a Slots,
    slot_of: Vec<Option<usize>>,
    taken: Vec<bool>,
    /// How many slots of each unit have to be taken in the end, and how many are.
    least: Vec<usize>,
    filled: Vec<usize>,
    /// How many of the tasks to come may take slots that could also stay empty. Taking slots never lets it grow, so a
    /// slot that may not be taken now never may.
    extra: usize,
}

impl<'a> PartialMapping<'a> {
    /// All slots empty but those of pinned tasks.
    pub fn new(slots: &'a Slots) -> Self {
        let mut least = vec![0_usize; slots.spare.len()];
        slots.unit.iter().for_each(|&unit| least[unit] += 1);
        least.iter_mut().zip(&slots.spare).for_each(|(least, spare)| *least -= spare);
        let filled = vec![0; least.len()];
        let slot_of = vec![None; slots.tasks()];
        let mut partial = Self { slots, slot_of, taken: vec![false; slots.len()], least, filled, extra: usize::MAX };
        for (task, pin) in slots.pinned.iter().enumerate() {
            if let Some(slot) = *pin {
                partial.take(slot, task);
            }
        }
        let left = partial.slot_of.iter().filter(|slot| slot.is_none()).count();
        let needed: usize =
            partial.least.iter().zip(&partial.filled).map(|(least, &filled)| least - filled.min(*least)).sum();
        partial.extra = left - needed.min(left);
        partial
    }

    /// The slot of a task.
    pub fn slot_of(&self, task: usize) -> Option<usize> {
        self.slot_of[task]
    }

    /// Whether a slot is empty.
    #[inline]
    pub fn is_empty(&self, slot: usize) -> bool {
        !self.taken[slot]
    }

    /// Whether a slot is empty and may be filled.
    #[inline]
    pub fn may_take(&self, slot: usize) -> bool {
        let unit = self.slots.unit[slot];
        !self.taken[slot] && (self.extra > 0 || self.filled[unit] < self.least[unit])
    }

    /// Gives a slot to a task.
    pub fn take(&mut self, slot: usize, task: usize) {
        let unit = self.slots.unit[slot];
        self.extra -= usize::from(self.filled[unit] >= self.least[unit]);
        self.filled[unit] += 1;
        self.taken[slot] = true;
        self.slot_of[task] = Some(slot);
    }

    /// Takes the slot of a task away from it again.
    pub fn give_back(&mut self, task: usize) {
        let slot = self.slot_of[task].take().expect("only a placed task gives a slot back");
        let unit = self.slots.unit[slot];
        self.filled[unit] -= 1;
        self.extra += usize::from(self.filled[unit] >= self.least[unit]);
        self.taken[slot] = false;
    }

    /// The first slot of a range that may be filled.
    pub fn first_of(&self, mut range: Range<usize>) -> Option<usize> {
        range.find(|&slot| self.may_take(slot))
    }

    /// The tasks without a slot, ascending.
    pub fn waiting(&self) -> Vec<usize> {
        (0..self.slot_of.len()).filter(|&task| self.slot_of[task].is_none()).collect()
    }

    /// Gives the tasks without a slot, in the given order, the first slots of `order` that may be filled.
    pub fn fill(&mut self, tasks: impl IntoIterator<Item = usize>, order: impl IntoIterator<Item = usize>) {
        let mut order = order.into_iter();
        for task in tasks {
            let slot = order.find(|&slot| self.may_take(slot)).expect("there is a slot for every task");
            self.take(slot, task);
        }
    }

    /// The slot of every task.
    ///
    /// # Panics
    /// If a task has none.
    pub fn finish(self) -> Vec<usize> {
        self.slot_of.into_iter().map(|slot| slot.expect("every task was given a slot")).collect()
    }
}

/// The wished slots where they may be had, and the nearest free ones for the tasks that come too late: for mappers that
/// put several tasks on one slot.
pub fn nearest_to(topology: &Topology, slots: &Slots, wished: &[usize]) -> Vec<usize> {
    let mut partial = PartialMapping::new(slots);
    for (task, &slot) in wished.iter().enumerate() {
        if partial.slot_of(task).is_none() && partial.may_take(slot) {
            partial.take(slot, task);
        }
    }
    let mut nearest = Nearest::new(topology, slots);
    for task in partial.waiting() {
        let slot = nearest.to(wished[task], &partial).expect("there is a slot for every task");
        partial.take(slot, task);
    }
    partial.finish()
}

/// Finds the free slot nearest to another.
pub struct Nearest<'a> {
    topology: &'a Topology,
    slots: &'a Slots,
    /// First slot of each node that may still be free: slots never become free again.
    cursor: Vec<usize>,
}

impl<'a> Nearest<'a> {
    /// For slots that are all still free.
    pub fn new(topology: &'a Topology, slots: &'a Slots) -> Self {
        let cursor = topology.nodes.iter().map(|node| slots.of_pus(&node.pus).start).collect();
        Self { topology, slots, cursor }
    }

    /// The free slot nearest to `slot`, the first of those in order; none where no slot is free.
    pub fn to(&mut self, slot: usize, partial: &PartialMapping) -> Option<usize> {
        let pu = self.slots.pu[slot];
        if self.topology.matrix.is_some() {
            let free = (0..self.slots.len()).filter(|&other| partial.may_take(other));
            return free.min_by_key(|&other| self.topology.distance(pu, self.slots.pu[other]));
        }
        let mut node = Some(self.topology.pus[pu].node);
        while let Some(id) = node {
            let range = self.cursor[id]..self.slots.of_pus(&self.topology.nodes[id].pus).end;
            let found = partial.first_of(range.clone());
            self.cursor[id] = found.unwrap_or(range.end);
            if found.is_some() {
                return found;
            }
            node = self.topology.nodes[id].parent;
        }
        None
    }
}
