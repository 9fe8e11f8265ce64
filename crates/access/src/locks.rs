//! A recording as if its tasks took locks, and made atomic accesses, in any order.

use crate::{Outline, Reason, Recording, Step, Steps, StridedAccess, TaskInfo};
use cohabit_model::Result;

/// A recording whose tasks never wait for a lock, nor for another's atomic access: not for work, either, that is handed
/// out by one. They still wait for data, for what they poll, for messages, and for one another's begin and end. What
/// its locks keep apart may overlap.
pub struct FreeLocks<'a>(pub &'a dyn Recording);

impl Recording for FreeLocks<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(Free(self.0.steps(task)?)))
    }

    fn outline(&self) -> Result<Option<Outline>> {
        self.0.outline()
    }
}

struct Free<'a>(Box<dyn Steps + 'a>);

impl Steps for Free<'_> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        loop {
            match self.0.next_step()? {
                Some(Step::Wait { reason: Reason::Lock, .. }) => {}
                other => return Ok(other),
            }
        }
    }

    fn recycle(&mut self, accesses: Vec<StridedAccess>) {
        self.0.recycle(accesses);
    }

    fn skip_to(&mut self, position: u64) -> Result<Option<u64>> {
        self.0.skip_to(position)
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
        let free = FreeLocks(&recording);
        let mut left = free.steps(0).unwrap();
        let told: Vec<Step> = std::iter::from_fn(|| left.next_step().unwrap()).collect();
        let kept: Vec<Step> = steps.into_iter().filter(|step| *step != wait(Reason::Lock)).collect();
        assert_eq!(told, kept);
        assert_eq!(free.tasks(), recording.tasks());
    }
}
