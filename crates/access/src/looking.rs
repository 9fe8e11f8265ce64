//! What a task has looked at again and again, found where it goes on to something else.
//!
//! The recorder notes what a task reads just before the task reads it. One that is preempted in between reads what was
//! written meanwhile, and nothing says so: where it looked at a flag, it goes on with no wait at all. Such loops are
//! found here by what they do, as [`crate::polls`] finds those that end with a wait. Where whoever writes is preempted
//! in between, others have waited and look on.

use crate::polls::{Repetition, fingerprint, is_a_spin};
use crate::{AccessKind, BLOCK_SHIFT, Step, StridedAccess};

/// A read of a loop that does nothing else than look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub address: u64,
    pub size_bytes: u32,
    /// The accesses that the task had made when it looked last.
    pub position: u64,
    /// It had waited for this, and looked on: who wrote it was preempted between what the recorder noted and the write.
    pub waited: bool,
}

/// The loops of one task.
#[derive(Debug, Default)]
pub(crate) struct Looking {
    repetition: Repetition,
    /// Fingerprints of what is repeated, and which comes next.
    unit: Vec<u64>,
    next: usize,
    /// Or a loop of one piece of code.
    spin: Vec<StridedAccess>,
    looks: Vec<Look>,
    /// Addresses that the loop writes itself.
    written: Vec<u64>,
    /// It has waited since.
    waited: bool,
    looks_on: Option<LooksOn>,
}

/// A loop in which a task has waited at a block that it looks at, and its looks there since.
#[derive(Debug, Clone)]
struct LooksOn {
    block: u64,
    unit: Vec<u64>,
    spin: Vec<StridedAccess>,
    last: Look,
}

impl LooksOn {
    fn goes_on(&self, step: &Step) -> bool {
        match step {
            Step::Loop { accesses, .. } if same(&self.spin, accesses) => true,
            // Whether it goes on says the access that comes next.
            Step::Wait { .. } | Step::Polled { .. } => true,
            _ => self.unit.contains(&fingerprint(step)),
        }
    }

    /// A loop of it begins, the task having made so many accesses.
    fn looks(&mut self, step: &Step, position: u64) {
        let Step::Loop { accesses, iterations } = step else { return };
        let before_last = (iterations - 1).saturating_mul(accesses.len() as u64);
        for (number, access) in (0..).zip(accesses) {
            if access.base >> BLOCK_SHIFT == self.block && access.kind == AccessKind::Read {
                self.last.address = access.base;
                self.last.size_bytes = access.size_bytes;
                self.last.position = position.saturating_add(before_last).saturating_add(number);
            }
        }
    }
}

/// Whether a loop makes these accesses.
fn same(spin: &[StridedAccess], accesses: &[StridedAccess]) -> bool {
    let as_one = |(one, other): (&StridedAccess, &StridedAccess)| {
        one.base == other.base && one.size_bytes == other.size_bytes && one.kind == other.kind
    };
    !spin.is_empty() && spin.len() == accesses.len() && spin.iter().zip(accesses).all(as_one)
}

impl Looking {
    /// The task takes a step, having made so many accesses. What it has looked at until now, where it does so no more
    /// and has not waited for that.
    pub fn step(&mut self, step: &Step, position: u64) -> Vec<Look> {
        if let (true, Some(last)) = (self.waited, self.what_was_waited_for(step)) {
            let Self { unit, spin, .. } = std::mem::take(self);
            self.looks_on = Some(LooksOn { block: last.address >> BLOCK_SHIFT, unit, spin, last });
        }
        self.waited &= !matches!(step, Step::Loop { .. });
        let under_way = self.is_under_way();
        let over = self.looks_on.take_if(|looks_on| !under_way && !looks_on.goes_on(step));
        if let Some(looks_on) = &mut self.looks_on {
            looks_on.looks(step, position);
        }
        let mut left = self.left(step, position);
        left.extend(over.map(|looks_on| looks_on.last));
        left
    }

    /// Whether it neither looks at something again and again nor waits for that.
    #[inline]
    pub fn is_free(&self) -> bool {
        !self.waited && self.looks_on.is_none() && !self.is_under_way()
    }

    /// The task takes a step of this fingerprint and is free: then that is all that matters of it.
    /// False, and nothing happens, where it is not.
    #[inline]
    pub fn passes(&mut self, mark: u64) -> bool {
        let free = self.is_free();
        if free {
            if let Some(unit) = self.repetition.unit_of(mark) {
                self.unit = unit;
            }
        }
        free
    }

    fn left(&mut self, step: &Step, position: u64) -> Vec<Look> {
        match step {
            Step::Loop { accesses, iterations } if is_a_spin(step) || self.is_same_spin(accesses) => {
                let left = if self.is_under_way() && !self.is_same_spin(accesses) { self.leave() } else { Vec::new() };
                self.spin.clone_from(accesses);
                let before_last = (iterations - 1).saturating_mul(accesses.len() as u64);
                self.note(accesses, position.saturating_add(before_last));
                left
            }
            // The access that a wait is for comes next; it may lie elsewhere.
            Step::Wait { .. } if self.is_under_way() => {
                self.waited = true;
                Vec::new()
            }
            Step::Compute { .. } | Step::Code { .. } if self.waited && !self.is_next(step) => Vec::new(),
            Step::Loop { .. } | Step::Compute { .. } | Step::Code { .. } => self.of_unit(step, position),
            Step::Polled { .. } => Vec::new(),
            Step::Wait { .. } if self.looks_on.is_some() => Vec::new(),
            _ => self.leave(),
        }
    }

    /// Whether it is what comes next where the unit goes on.
    fn is_next(&self, step: &Step) -> bool {
        let mark = fingerprint(step);
        mark != 0 && self.unit.get(self.next) == Some(&mark)
    }

    fn is_under_way(&self) -> bool {
        !self.unit.is_empty() || !self.spin.is_empty()
    }

    /// Which of what it looks at the step accesses first.
    fn what_was_waited_for(&self, step: &Step) -> Option<Look> {
        let Step::Loop { accesses, .. } = step else { return None };
        let block = accesses[0].base >> BLOCK_SHIFT;
        let look = self.looks.iter().find(|look| look.address >> BLOCK_SHIFT == block)?;
        Some(Look { waited: true, ..*look })
    }

    fn of_unit(&mut self, step: &Step, position: u64) -> Vec<Look> {
        if self.is_next(step) {
            self.next = (self.next + 1) % self.unit.len();
            if let Step::Loop { accesses, .. } = step {
                self.note(accesses, position);
            }
            return Vec::new();
        }
        let left = if self.is_under_way() { self.leave() } else { Vec::new() };
        if let Some(unit) = self.repetition.unit_of(fingerprint(step)) {
            self.unit = unit;
        }
        left
    }

    fn is_same_spin(&self, accesses: &[StridedAccess]) -> bool {
        same(&self.spin, accesses)
    }

    fn note(&mut self, accesses: &[StridedAccess], first: u64) {
        for (position, access) in (first..).zip(accesses) {
            if access.kind != AccessKind::Read {
                if !self.written.contains(&access.base) {
                    self.written.push(access.base);
                }
                continue;
            }
            match self.looks.iter_mut().find(|look| look.address == access.base) {
                Some(look) => look.position = position,
                None => {
                    self.looks.push(Look {
                        address: access.base,
                        size_bytes: access.size_bytes,
                        position,
                        waited: false,
                    });
                }
            }
        }
    }

    /// What another may have changed: what the loop writes itself is none of it.
    fn leave(&mut self) -> Vec<Look> {
        let Self { looks, written, looks_on, .. } = std::mem::take(self);
        let others = looks.into_iter().filter(|look| !written.contains(&look.address));
        let waited = |look: &Look| looks_on.as_ref().is_some_and(|on| look.address >> BLOCK_SHIFT == on.block);
        others.map(|look| Look { waited: waited(&look), ..look }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn read(address: u64) -> Step {
        Step::access(StridedAccess::new(AccessKind::Read, address, 4))
    }

    fn left(steps: &[Step]) -> Vec<Look> {
        let (mut looking, mut position, mut left) = (Looking::default(), 0, Vec::new());
        for step in steps {
            left.extend(looking.step(step, position));
            position += step.access_count();
        }
        left
    }

    #[test]
    fn a_flag_that_is_looked_at_until_it_changes_is_found() {
        let look = |position| Look { address: 0x1000, size_bytes: 4, position, waited: false };
        let Step::Loop { accesses, .. } = read(0x1000) else { unreachable!() };
        let spin = |iterations| Step::Loop { accesses: accesses.clone(), iterations };
        assert_eq!(left(&[read(0x8000), spin(9), spin(2), read(0x2000)]), [look(11)]);
        // With a call in between, that leaves its return address on the stack.
        let call = Step::access(StridedAccess::new(AccessKind::Write, 0x7000, 8));
        let back = Step::access(StridedAccess::new(AccessKind::Read, 0x7000, 8));
        let mut steps: Vec<Step> = (0..6).flat_map(|_| [read(0x1000), call.clone(), back.clone()]).collect();
        steps.extend([read(0x1000), read(0x3000)]);
        assert_eq!(left(&steps), [look(18)]);
        // One that waits in the end waited for what it looked at: at its next look, or before the last.
        let wait = Step::Wait { task: 1, position: 3, reason: Reason::Data, polled: None };
        let waited = |position| Look { waited: true, ..look(position) };
        assert_eq!(left(&[spin(9), wait.clone(), read(0x1008), read(0x2000)]), [waited(8)]);
        assert_eq!(left(&[spin(9), wait.clone(), read(0x1000), wait.clone(), read(0x1008)]), [waited(9)]);
        // It has waited, and looks on; another time it looks anew.
        let on = [spin(9), wait.clone(), read(0x1000), spin(7), read(0x2000)];
        assert_eq!(left(&on), [waited(16)]);
        let later = [&on[..3], &[read(0x4000), spin(7), read(0x2000)]].concat();
        assert_eq!(left(&later), [waited(9), look(17)]);
        // A wait for something else says nothing of what it had looked at.
        assert_eq!(left(&[spin(9), wait, Step::Code { page: 5 }, read(0x2000)]), [look(8)]);
        assert_eq!(left(&[spin(9)]), []);
        assert_eq!(left(&[read(0x1000), read(0x1000), read(0x2000)]), []);
        // What it has written three times it looks at once.
        let write = || Step::access(StridedAccess::new(AccessKind::Write, 0x1000, 4));
        assert_eq!(left(&[write(), write(), write(), read(0x1000), read(0x2000)]), []);
    }
}
