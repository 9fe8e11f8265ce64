//! What a task's steps go through between the file that they are decoded from and who reads them.
//!
//! Steps are pushed from stage to stage, so that most are moved once; the last stage keeps them until they are asked
//! for.

use crate::Step;
use std::collections::VecDeque;

/// What is known of the code that takes the next steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The task enters its MPI library.
    Enters,
    /// It calls the progress function.
    Looks,
    /// What it does here matters to others, whatever steps come of it: a wait for a task that is left out, a copy from
    /// another process's memory or to it.
    Moves,
    /// It is in the program again.
    Leaves,
}

/// Takes steps, changes some, and has them ready.
pub(crate) trait Stage: Send {
    /// The next step that the task takes.
    fn step(&mut self, step: Step);

    /// What comes next is known more of.
    fn mark(&mut self, _: Mark) {}

    /// The task is at its end.
    fn end(&mut self) {}

    /// Whether a step that came next would be told next, as it is.
    fn is_clear(&self) -> bool {
        false
    }

    /// A step that is told to nobody ([`crate::Sieve`]) comes next, by its fingerprint; the stage is clear.
    fn left_out(&mut self, _: u64) {}

    /// What was not told yet is not told any more, and what was taken is forgotten. The task is in its MPI library, or
    /// not.
    fn forget(&mut self, in_mpi: bool);

    /// Whether it needs more steps, or the end, before it can tell the next one.
    fn is_short(&self) -> bool;

    /// The next step to tell; none where it is short of steps, or at the end.
    fn next(&mut self) -> Option<Step>;
}

/// Steps as they are.
#[derive(Debug, Default)]
pub(crate) struct AsDecoded {
    steps: VecDeque<Step>,
    ended: bool,
}

impl Stage for AsDecoded {
    fn step(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn forget(&mut self, _: bool) {
        self.steps.clear();
    }

    fn is_clear(&self) -> bool {
        self.steps.is_empty()
    }

    fn is_short(&self) -> bool {
        self.steps.is_empty() && !self.ended
    }

    fn next(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }
}
