//! How much each task does, while the accesses of a recording go by.

use cohabit_access::{Access, Reason, Recording, Step};
use cohabit_model::Result;

/// Bytes that tasks access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// By each task.
    pub accessed_bytes: Vec<u64>,
    /// Those of them that it accesses before its process has a second task.
    pub alone_bytes: Vec<u64>,
    /// Accesses that are left of these.
    left_alone: Vec<u64>,
}

impl Work {
    /// Nothing yet, of the tasks of a recording.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(recording: &dyn Recording) -> Result<Self> {
        let none = vec![0; recording.tasks().len()];
        Ok(Self { accessed_bytes: none.clone(), alone_bytes: none, left_alone: alone_until(recording)? })
    }

    /// A task makes its next access.
    pub fn take(&mut self, access: &Access) {
        let (task, bytes) = (access.task as usize, u64::from(access.size_bytes));
        self.accessed_bytes[task] = self.accessed_bytes[task].saturating_add(bytes);
        if self.left_alone[task] > 0 {
            self.left_alone[task] -= 1;
            self.alone_bytes[task] = self.alone_bytes[task].saturating_add(bytes);
        }
    }

    /// How much each task has to do beside the others, in bytes.
    pub fn beside_others(&self) -> Vec<u64> {
        self.accessed_bytes.iter().zip(&self.alone_bytes).map(|(all, alone)| all.saturating_sub(*alone)).collect()
    }
}

/// Of each task, how many accesses it makes before it starts another of its process; 0 where it never does.
fn alone_until(recording: &dyn Recording) -> Result<Vec<u64>> {
    let tasks = recording.tasks();
    let mut until: Vec<Option<u64>> = vec![None; tasks.len()];
    let mut started = vec![false; tasks.len()];
    for (number, task) in (0..).zip(tasks) {
        let Some(Step::Wait { task: starter, position, reason: Reason::Start, .. }) =
            recording.steps(number)?.next_step()?
        else {
            continue;
        };
        let same = tasks.get(starter as usize).is_some_and(|starter| starter.process == task.process);
        if let Some(until) = until.get_mut(starter as usize).filter(|_| same) {
            *until = Some(until.map_or(position, |known| known.min(position)));
            started[number as usize] = true;
        }
    }
    // Who was started by another of its process is never alone in it.
    until.iter_mut().zip(started).filter(|(_, started)| *started).for_each(|(until, _)| *until = None);
    Ok(until.into_iter().map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::TURN_ACCESSES;
    use cohabit_access::order::{Event, in_turns};
    use cohabit_access::{AccessKind, InMemory, StridedAccess};

    #[test]
    fn what_is_done_before_there_are_others_is_no_work_beside_them() {
        let access = |address| Step::access(StridedAccess::new(AccessKind::Write, address, 8));
        let start = |task, position| Step::Wait { task, position, reason: Reason::Start, polled: None };
        let first: Vec<Step> = (0..10).map(|line| access(0x1000 + 64 * line)).collect();
        let second = vec![start(0, 6), access(0x8000), access(0x8040)];
        let third = vec![start(1, 1), access(0x9000)];
        let recording = InMemory::new(vec![first, second, third]);
        let mut work = Work::of(&recording).unwrap();
        in_turns(&recording, TURN_ACCESSES, &mut |event| {
            if let Event::Access(access) = &event {
                work.take(access);
            }
            Ok(())
        })
        .unwrap();
        // The second, which starts the third, has the first beside it.
        assert_eq!((work.alone_bytes.clone(), work.beside_others()), (vec![48, 0, 0], vec![32, 16, 8]));
    }
}
