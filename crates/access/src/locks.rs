//! A recording as if its tasks took locks, and made atomic accesses, in any order.

use crate::hashing::Blocks;
use crate::{BLOCK_SHIFT, Dependences, Outline, Reason, Recording, Step, Steps, StridedAccess, TaskInfo};
use cohabit_model::Result;
use std::collections::VecDeque;

/// Steps behind a wait among which the atomic access may be that takes the lock.
const NEAR: usize = 64;

/// A recording whose tasks never wait for a lock, nor for another's atomic access: not for work, either, that is handed
/// out by one. They still wait for data, for what they poll, for messages, and for one another's begin and end. What
/// its locks keep apart may overlap.
///
/// A lock is a block of 64 bytes at which a task makes an atomic access that may fail or takes what was there (compare
/// and exchange, or exchange): what it waits for there before that access, and until it makes another there, is the
/// lock's. So who it belongs to, which lies beside it, is waited for neither.
pub struct FreeLocks<'a> {
    /// The recording.
    pub recording: &'a dyn Recording,
    /// Whether it tells accesses that count ([`StridedAccess::unconditional`]) from those that may take a lock. Where it
    /// does not, a barrier cannot be told from a lock, and what is waited for beside an atomic access is kept.
    pub tells_counts: bool,
}

impl FreeLocks<'_> {
    fn free<'a>(&self, steps: Box<dyn Steps + 'a>) -> Box<dyn Steps + 'a> {
        let tells_counts = self.tells_counts;
        Box::new(Free { steps, tells_counts, ahead: VecDeque::new(), locks: Blocks::default(), ended: false })
    }
}

impl Recording for FreeLocks<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.recording.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(self.free(self.recording.steps(task)?))
    }

    fn steps_with(&self, task: u32, core: Dependences) -> Result<Box<dyn Steps + '_>> {
        Ok(self.free(self.recording.steps_with(task, core)?))
    }

    fn outline(&self) -> Result<Option<Outline>> {
        self.recording.outline()
    }
}

struct Free<'a> {
    steps: Box<dyn Steps + 'a>,
    tells_counts: bool,
    ahead: VecDeque<Step>,
    /// By block, whether the atomic access that the task made there last may be of a lock.
    locks: Blocks<bool>,
    ended: bool,
}

impl Free<'_> {
    /// Reads on until a step satisfies, at most [`NEAR`] steps; which it is.
    fn find<T>(&mut self, from: usize, satisfies: impl Fn(&Step) -> Option<T>) -> Result<Option<(usize, T)>> {
        for index in from..from + NEAR {
            while self.ahead.len() <= index {
                match self.steps.next_step()? {
                    Some(step) => self.ahead.push_back(step),
                    None => {
                        self.ended = true;
                        return Ok(None);
                    }
                }
            }
            if let Some(found) = satisfies(&self.ahead[index]) {
                return Ok(Some((index, found)));
            }
        }
        Ok(None)
    }

    /// Whether the wait that comes next is for a lock.
    fn is_for_lock(&mut self) -> Result<bool> {
        let first_block = |step: &Step| match step {
            Step::Loop { accesses, .. } => Some(accesses[0].base >> BLOCK_SHIFT),
            _ => None,
        };
        let Some((at, block)) = self.find(0, first_block)? else { return Ok(false) };
        if let Some(locks) = self.locks.get(&block) {
            if *locks {
                return Ok(true);
            }
        }
        let next_write = |step: &Step| match step {
            Step::Loop { accesses, .. } => {
                accesses.iter().find(|access| access.base >> BLOCK_SHIFT == block && access.kind.writes()).map(may_lock)
            }
            _ => None,
        };
        Ok(self.find(at, next_write)?.is_some_and(|(_, locks)| locks))
    }
}

/// Whether an access may take a lock.
fn may_lock(access: &StridedAccess) -> bool {
    access.atomic && access.kind.writes() && !access.unconditional
}

impl Steps for Free<'_> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        loop {
            let step = match self.ahead.pop_front() {
                Some(step) => step,
                None if self.ended => return Ok(None),
                None => match self.steps.next_step()? {
                    Some(step) => step,
                    None => return Ok(None),
                },
            };
            match &step {
                Step::Wait { reason: Reason::Lock, .. } => continue,
                Step::Wait { reason: Reason::Data, .. } if self.tells_counts && self.is_for_lock()? => continue,
                Step::Loop { accesses, .. } => {
                    let atomic = accesses.iter().filter(|access| access.atomic && access.kind.writes());
                    self.locks.extend(atomic.map(|access| (access.base >> BLOCK_SHIFT, may_lock(access))));
                }
                _ => {}
            }
            return Ok(Some(step));
        }
    }

    fn recycle(&mut self, accesses: Vec<StridedAccess>) {
        self.steps.recycle(accesses);
    }

    fn skip_to(&mut self, position: u64) -> Result<Option<u64>> {
        let behind = self.steps.skip_to(position)?;
        if behind.is_some() {
            self.ahead.clear();
        }
        Ok(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessKind, InMemory};

    #[test]
    fn all_but_locks_is_waited_for() {
        let wait = |reason| Step::Wait { task: 1, position: 1, reason, polled: None };
        let write = || Step::access(StridedAccess::new(AccessKind::Write, 0, 8));
        let reasons = [Reason::Data, Reason::Lock, Reason::Start, Reason::End, Reason::Message, Reason::Wake];
        let steps: Vec<Step> = reasons.into_iter().flat_map(|reason| [wait(reason), write()]).collect();
        let recording = InMemory::new(vec![steps.clone(), vec![write()]]);
        let free = FreeLocks { recording: &recording, tells_counts: true };
        let mut left = free.steps(0).unwrap();
        let told: Vec<Step> = std::iter::from_fn(|| left.next_step().unwrap()).collect();
        let kept: Vec<Step> = steps.into_iter().filter(|step| *step != wait(Reason::Lock)).collect();
        assert_eq!(told, kept);
        assert_eq!(free.tasks(), recording.tasks());
    }

    /// What is left of one task's waits, by the positions waited for.
    fn left(steps: Vec<Step>) -> Vec<u64> {
        let other = vec![Step::access(StridedAccess::new(AccessKind::Write, 0, 8)); 9];
        let recording = InMemory::new(vec![steps, other]);
        let free = FreeLocks { recording: &recording, tells_counts: true };
        let mut left = free.steps(0).unwrap();
        let told = std::iter::from_fn(|| left.next_step().unwrap());
        told.filter_map(|step| if let Step::Wait { position, .. } = step { Some(position) } else { None }).collect()
    }

    #[test]
    fn what_is_waited_for_at_a_lock_is_the_locks() {
        let wait = |position| Step::Wait { task: 1, position, reason: Reason::Data, polled: None };
        let access = |kind, address| Step::access(StridedAccess::new(kind, address, 4));
        let exchange = |address, unconditional| {
            let access = StridedAccess::new(AccessKind::ReadWrite, address, 4);
            Step::access(StridedAccess { atomic: true, unconditional, ..access })
        };
        // A mutex: looked at, taken, its owner beside it; then what it guards.
        let mutex = vec![
            wait(1),
            access(AccessKind::Read, 0x1000),
            exchange(0x1000, false),
            wait(2),
            access(AccessKind::ReadWrite, 0x100c),
            wait(3),
            access(AccessKind::Read, 0x2000),
        ];
        assert_eq!(left(mutex.clone()), [3]);
        let older = InMemory::new(vec![mutex, vec![access(AccessKind::Write, 0); 9]]);
        let all = FreeLocks { recording: &older, tells_counts: false };
        let mut all = all.steps(0).unwrap();
        let told = std::iter::from_fn(|| all.next_step().unwrap());
        assert_eq!(told.filter(|step| matches!(step, Step::Wait { .. })).count(), 3, "an older recording");
        // A barrier: who arrives is counted, and looks until all have.
        let barrier = vec![exchange(0x1000, true), wait(1), access(AccessKind::Read, 0x1004)];
        assert_eq!(left(barrier), [1]);
        // A flag beside a lock that is taken later is one of it; one that nobody takes is none.
        assert_eq!(left(vec![wait(1), access(AccessKind::Read, 0x1000)]), [1]);
        let written = vec![wait(1), access(AccessKind::Read, 0x1000), access(AccessKind::Write, 0x1000)];
        assert_eq!(left([written, vec![exchange(0x1000, false)]].concat()), [1]);
    }
}
