//! What one task does next.
//!
//! Addresses are those of the whole recording: the same memory has the same address in every task, and different memory
//! different ones, whatever address a process has it at.

use crate::AccessKind;
use std::ops::Range;

/// One of the accesses that a [`Step::Loop`] makes in each iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StridedAccess {
    /// Load, store or both at once.
    pub kind: AccessKind,
    /// The read-modify-write of a lock prefix or `xchg`: it waits for the stores before it.
    pub atomic: bool,
    /// Atomic, and it writes what follows from what is there, whatever that is: it counts or sets bits, but takes no
    /// lock. Older recordings do not say so.
    pub unconditional: bool,
    /// Length in bytes, at least 1.
    pub size_bytes: u32,
    /// First byte in the first iteration.
    pub base: u64,
    /// What is added to the address after each iteration.
    pub stride: i64,
    /// Instructions since the access before, this one counted: 0 where one instruction makes several accesses.
    pub instructions: u32,
    /// By how much later these end than those before them because they wait for what others make, in parts of a cycle
    /// ([`crate::PARTS_OF_A_CYCLE`]): 0 where nobody has asked for it ([`crate::Recording::steps_with`]).
    pub latency: u32,
}

impl StridedAccess {
    /// A single access of `size_bytes` bytes by one instruction.
    pub fn new(kind: AccessKind, base: u64, size_bytes: u32) -> Self {
        Self { kind, atomic: false, unconditional: false, size_bytes, base, stride: 0, instructions: 1, latency: 0 }
    }

    /// First byte in iteration `iteration` (the first is 0).
    pub fn address(&self, iteration: u64) -> u64 {
        self.base.wrapping_add_signed(self.stride.wrapping_mul(iteration as i64))
    }
}

/// Why a task waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It reads what the other wrote.
    Data,
    /// It takes a lock, or makes an atomic access, after the other did.
    Lock,
    /// The other wakes it, or lets it pass a barrier.
    Wake,
    /// The other starts it.
    Start,
    /// It waits for the other's end.
    End,
    /// It receives a message that the other sends.
    Message,
}

/// What a task does next.
///
/// A task's *position* is the number of accesses it has made so far: [`Step::access_count`] of each step is added to
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `iterations` times all of `accesses`, in turns. A single access is a loop of one iteration.
    Loop {
        /// At least one.
        accesses: Vec<StridedAccess>,
        /// At least one.
        iterations: u64,
    },
    /// Instructions that access no data.
    Compute {
        /// How many.
        instructions: u64,
        /// [`StridedAccess::latency`] of all of them.
        latency: u64,
    },
    /// Instructions are fetched from this page of 4 KiB from here on.
    Code {
        /// Its address over 4,096.
        page: u64,
    },
    /// Goes on only when task `task` has made `position` accesses: never one that itself has to wait for this.
    Wait {
        /// The task that is waited for.
        task: u32,
        /// Its position.
        position: u64,
        /// Why.
        reason: Reason,
        /// The address that is read again and again meanwhile; none where the task sleeps.
        polled: Option<u64>,
    },
    /// So many accesses of the recorded run, which only read again what the task polls for in the wait that comes next:
    /// they count for positions, and are made again by whoever makes the wait.
    Polled {
        /// How many.
        accesses: u64,
    },
    /// So many accesses are left out here ([`crate::Excerpt`]): they count for positions, and are made by nobody.
    Skipped {
        /// How many.
        accesses: u64,
    },
    /// The task is where a reader that measures parts of the run wants to know of it ([`crate::Excerpt`]).
    Cut {
        /// Which of the places that were asked for: the first is 0.
        number: u64,
    },
    /// Sleeps, or waits for something that is not recorded (a device, a timer).
    Idle {
        /// How long it took when it was recorded.
        time_ns: u64,
    },
    /// The memory at these addresses is given back: whoever touches it next touches new memory.
    Unmap {
        /// The addresses.
        range: Range<u64>,
    },
    /// The task begins a phase that the program names.
    Phase {
        /// Its number.
        number: u64,
    },
}

impl Step {
    /// Instructions that access no data, and of which it is not known what they wait for.
    pub fn compute(instructions: u64) -> Self {
        Self::Compute { instructions, latency: 0 }
    }

    /// A loop of one access.
    pub fn access(access: StridedAccess) -> Self {
        Self::Loop { accesses: vec![access], iterations: 1 }
    }

    /// How many accesses it makes, those of the recorded run that are not made again or left out counted.
    pub fn access_count(&self) -> u64 {
        match self {
            Self::Loop { accesses, iterations } => iterations.saturating_mul(accesses.len() as u64),
            Self::Polled { accesses } | Self::Skipped { accesses } => *accesses,
            _ => 0,
        }
    }

    /// Parts the step after `count` of its accesses, where it has more; what comes before, and what comes after.
    ///
    /// # Panics
    /// If it has not more.
    pub fn split(self, count: u64) -> (Vec<Self>, Vec<Self>) {
        assert!(count < self.access_count(), "a step is parted within it");
        match self {
            Self::Loop { accesses, iterations } => {
                let (whole, within) = (count / accesses.len() as u64, (count % accesses.len() as u64) as usize);
                let from = |iteration: u64, which: Range<usize>| -> Vec<StridedAccess> {
                    let moved = |access: &StridedAccess| StridedAccess { base: access.address(iteration), ..*access };
                    accesses[which].iter().map(moved).collect()
                };
                let (mut before, mut after) = (Vec::new(), Vec::new());
                let put = |to: &mut Vec<Self>, accesses: Vec<StridedAccess>, iterations: u64| {
                    if !accesses.is_empty() && iterations > 0 {
                        to.push(Self::Loop { accesses, iterations });
                    }
                };
                put(&mut before, from(0, 0..accesses.len()), whole);
                if within > 0 {
                    put(&mut before, from(whole, 0..within), 1);
                    put(&mut after, from(whole, within..accesses.len()), 1);
                }
                let next = whole + u64::from(within > 0);
                put(&mut after, from(next, 0..accesses.len()), iterations - next);
                (before, after)
            }
            Self::Polled { accesses } => {
                (vec![Self::Polled { accesses: count }], vec![Self::Polled { accesses: accesses - count }])
            }
            Self::Skipped { accesses } => {
                (vec![Self::Skipped { accesses: count }], vec![Self::Skipped { accesses: accesses - count }])
            }
            _ => unreachable!("it has accesses"),
        }
    }

    /// How many instructions it takes.
    pub fn instruction_count(&self) -> u64 {
        match self {
            Self::Loop { accesses, iterations } => {
                let once: u64 = accesses.iter().map(|access| u64::from(access.instructions)).sum();
                iterations.saturating_mul(once)
            }
            Self::Compute { instructions, .. } => *instructions,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses of steps, one after another.
    fn told(steps: &[Step]) -> Vec<(u64, u32)> {
        let of = |step: &Step| match step {
            Step::Loop { accesses, iterations } => {
                let each = |iteration| accesses.iter().map(move |one| (one.address(iteration), one.instructions));
                (0..*iterations).flat_map(each).collect()
            }
            _ => vec![(0, 0); step.access_count() as usize],
        };
        steps.iter().flat_map(of).collect()
    }

    #[test]
    fn parts_of_a_step_are_all_of_it() {
        let access =
            |base, stride| StridedAccess { stride, instructions: 3, ..StridedAccess::new(AccessKind::Write, base, 8) };
        let walk = Step::Loop { accesses: vec![access(100, 8), access(900, -16), access(5, 0)], iterations: 4 };
        for step in [walk, Step::Polled { accesses: 7 }, Step::Skipped { accesses: 7 }] {
            let all = told(std::slice::from_ref(&step));
            for count in 1..step.access_count() {
                let (before, after) = step.clone().split(count);
                assert_eq!(told(&before).len() as u64, count, "{step:?}");
                assert_eq!([told(&before), told(&after)].concat(), all, "{step:?} after {count}");
            }
            assert_eq!(told(&step.clone().split(0).1), all);
        }
    }
}
