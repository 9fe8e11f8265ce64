//! Where tasks wait, found by reading each by itself.

use super::ForcedWait;
use super::words::{blocks, blocks_of};
use crate::{Reason, Recording, Sieve, Step, Steps, StridedAccess, Told};
use cohabit_model::Result;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks at which a task waits for data or an atomic access, and those at which it polls, or makes atomic accesses.
#[derive(Default)]
pub(super) struct WaitedAt {
    pub waits: HashSet<u64>,
    /// Those that a task looks at again and again, and goes on without a wait.
    pub looked_at: HashSet<u64>,
    pub tasks: HashSet<u64>,
}

impl WaitedAt {
    fn of(mut steps: Box<dyn Steps + '_>) -> Result<Self> {
        let mut found = Self::default();
        let (mut waits, mut polls, mut last) = (false, false, None);
        let mut sieve = Box::new(Sieve { most: u64::MAX, ..Sieve::default() });
        loop {
            sieve.next_access = waits;
            let told = steps.next_but(&mut sieve)?;
            if std::mem::take(&mut sieve.left_out) > 0 {
                last = None;
            }
            let Told::Step(step) = told else { return Ok(found) };
            for look in sieve.looking.step(&step, 0) {
                found.looked_at.extend(blocks_of(look.address, look.size_bytes));
                found.tasks.extend(blocks_of(look.address, look.size_bytes));
            }
            match &step {
                Step::Wait { reason, polled, .. } if ForcedWait::is_found_of(*reason) => {
                    waits = true;
                    polls |= polled.is_some();
                    found.waits.extend(behind_atomic(*reason, last.as_ref()).into_iter().flat_map(blocks));
                }
                Step::Loop { accesses, iterations } => {
                    if waits {
                        found.waits.extend(blocks(&accesses[0]));
                    }
                    if polls {
                        found.tasks.extend(blocks(&accesses[0]));
                    }
                    (waits, polls) = (false, false);
                    for access in accesses.iter().filter(|access| access.atomic) {
                        let every = if access.stride == 0 { 1 } else { *iterations };
                        (0..every).for_each(|at| found.tasks.extend(blocks_of(access.address(at), access.size_bytes)));
                    }
                    last = last_access(accesses, *iterations);
                }
                _ => {}
            }
            if let Step::Loop { accesses, .. } = step {
                steps.recycle(accesses);
            }
        }
    }

    /// Of all tasks together, each read by itself.
    pub(super) fn of_all(recording: &dyn Recording) -> Result<Self> {
        let (tasks, next) = (recording.tasks().len(), AtomicUsize::new(0));
        let some = || -> Result<Self> {
            let mut found = Self::default();
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return Ok(found);
                }
                found.add(Self::of(recording.steps(task as u32)?)?);
            }
        };
        let readers = std::thread::available_parallelism().map_or(1, usize::from).min(tasks);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..readers).map(|_| scope.spawn(some)).collect();
            let mut all = Self::default();
            for reader in readers {
                all.add(reader.join().expect("a reader does not panic")?);
            }
            Ok(all)
        })
    }

    fn add(&mut self, other: Self) {
        self.waits.extend(other.waits);
        self.looked_at.extend(other.looked_at);
        self.tasks.extend(other.tasks);
    }
}

/// The last access of a loop.
pub(super) fn last_access(accesses: &[StridedAccess], iterations: u64) -> Option<StridedAccess> {
    let last = accesses.last()?;
    Some(StridedAccess { base: last.address(iterations.saturating_sub(1)), ..*last })
}

/// The atomic access that a wait right behind it may be for: another task's came between what the recorder noted and
/// what the processor did.
pub(super) fn behind_atomic(reason: Reason, last: Option<&StridedAccess>) -> Option<&StridedAccess> {
    last.filter(|access| reason == Reason::Lock && access.atomic && access.kind.writes())
}
