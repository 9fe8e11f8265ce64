//! One task under simulation: its steps, where it is in them, and what it found.

use crate::clock::Time;
use crate::core::CoreClock;
use crate::report::TaskReport;
use cohabit_access::{AccessKind, Step, Steps, StridedAccess};
use std::collections::VecDeque;

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Runs, or wants to.
    Runs,
    /// Waits for a task's position since a time, asleep.
    Asleep { on: usize, position: u64, since: Time },
    /// The same, reading a line again and again.
    Polls { on: usize, position: u64, since: Time, line: u64 },
    /// Has ended.
    Ended,
}

/// A loop under way.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub accesses: Vec<StridedAccess>,
    pub iterations: u64,
    /// The iteration and the access of it that is next.
    pub iteration: u64,
    pub index: usize,
    /// Its instructions were begun; its lines from `line` to `last` are left.
    pub begun: bool,
    pub line: u64,
    pub last: u64,
    /// Lines of this iteration that the L1 served.
    pub hits: usize,
    /// An access of this iteration is of several lines.
    pub straddles: bool,
    /// Of one iteration.
    pub instructions: u64,
    pub loads: u64,
    pub stores: u64,
    /// [`StridedAccess::latency`] of one iteration.
    pub latency: u64,
}

impl Walk {
    pub fn new(accesses: Vec<StridedAccess>, iterations: u64) -> Self {
        let instructions = accesses.iter().map(|access| u64::from(access.instructions)).sum();
        let loads = accesses.iter().filter(|access| access.kind == AccessKind::Read).count() as u64;
        let stores = accesses.len() as u64 - loads;
        let latency = accesses.iter().map(|access| u64::from(access.latency)).sum();
        Self { accesses, iterations, instructions, loads, stores, latency, ..Self::default() }
    }

    /// How many of the coming iterations stay in the lines of the one before.
    pub fn in_same_lines(&self, line_bits: u32) -> u64 {
        let line_bytes = 1u64 << line_bits;
        let of = |access: &StridedAccess| {
            let offset = access.address(self.iteration - 1) & (line_bytes - 1);
            match access.stride {
                0 => u64::MAX,
                stride if stride > 0 => (line_bytes - offset - u64::from(access.size_bytes)) / stride as u64,
                stride => offset / stride.unsigned_abs(),
            }
        };
        let least = self.accesses.iter().map(of).min().unwrap_or(0);
        least.min(self.iterations - self.iteration)
    }
}

/// What a task has to do before its next step is read.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing.
    Nothing,
    /// [`Task::walk`].
    Walk,
    /// A step that is no loop.
    Step(Step),
}

pub(crate) struct Task<'a> {
    pub steps: Box<dyn Steps + 'a>,
    pub number: usize,
    pub process: u32,
    pub pu: usize,
    pub core: usize,
    pub state: State,
    pub work: Work,
    pub walk: Walk,
    pub clock: CoreClock,
    /// Accesses made.
    pub position: u64,
    /// When it made the last of them.
    pub made_at: Time,
    /// Positions and when they were passed, ascending; those before the first are of no interest any more.
    history: VecDeque<(u64, Time)>,
    /// Tasks that wait for a position of this one.
    pub waiters: Vec<(u64, usize)>,
    /// The page of the last access of data, found in the TLB as of that generation.
    pub page: (u64, u64),
    /// The access, by position and line, that took the last hint fault.
    pub faulted: (u64, u64),
    pub report: TaskReport,
}

impl<'a> Task<'a> {
    pub fn new(
        steps: Box<dyn Steps + 'a>,
        number: usize,
        process: u32,
        core: usize,
        clock: CoreClock,
        report: TaskReport,
    ) -> Self {
        Self {
            steps,
            number,
            process,
            pu: report.pu,
            core,
            state: State::Runs,
            work: Work::Nothing,
            walk: Walk::default(),
            clock,
            position: 0,
            made_at: 0,
            history: VecDeque::from([(0, 0)]),
            waiters: Vec::new(),
            page: (u64::MAX, u64::MAX),
            faulted: (u64::MAX, u64::MAX),
            report,
        }
    }

    /// Notes where it is now; nobody asks any more for what was before `now`.
    pub fn note(&mut self, now: Time) {
        // An access that has begun is not made yet, and the one before it was made before this one began.
        let begun = matches!(self.work, Work::Walk) && self.walk.begun;
        self.note_at(if begun { self.made_at } else { self.clock.time });
        while self.history.len() > 1 && self.history[1].1 <= now {
            self.history.pop_front();
        }
    }

    /// Notes that it had made all accesses of its position by `time`.
    pub fn note_at(&mut self, time: Time) {
        if self.history.back().is_none_or(|&(position, noted)| position < self.position || noted < time) {
            self.history.push_back((self.position, time));
        }
    }

    /// When it had made so many accesses: between two notes, as if it made them evenly. None where it has not.
    pub fn passed(&self, position: u64) -> Option<Time> {
        if position > self.position {
            return None;
        }
        let index = self.history.partition_point(|&(at, _)| at < position);
        let &(p1, t1) = self.history.get(index)?;
        let Some(&(p0, t0)) = index.checked_sub(1).and_then(|before| self.history.get(before)) else { return Some(t1) };
        let part = u128::from(t1 - t0) * u128::from(position - p0) / u128::from(p1 - p0);
        Some(t0 + part as Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_access::{InMemory, Recording};

    #[test]
    fn positions_are_passed_in_between() {
        let recording = InMemory::new(vec![vec![]]);
        let clock = CoreClock::new(0, 1);
        let mut task = Task::new(recording.steps(0).unwrap(), 0, 0, 0, clock, TaskReport::default());
        for (position, time) in [(10, 100), (10, 200), (20, 210)] {
            (task.position, task.clock.time) = (position, time);
            task.note(0);
        }
        for (position, time) in
            [(0, Some(0)), (1, Some(10)), (10, Some(100)), (11, Some(201)), (20, Some(210)), (21, None)]
        {
            assert_eq!(task.passed(position), time, "{position}");
        }
        task.note(205);
        assert_eq!(task.passed(5), Some(200), "it is over, whenever it was");
    }

    #[test]
    fn lines_are_left_by_the_first_that_leaves() {
        let access = |base, stride| StridedAccess { stride, ..StridedAccess::new(AccessKind::Read, base, 8) };
        for (accesses, wanted) in [
            (vec![access(0, 8)], 7),
            (vec![access(8, 8)], 6),
            (vec![access(0, 8), access(32, 8)], 3),
            (vec![access(56, -8)], 7),
            (vec![access(56, -16)], 3),
            (vec![access(0, 0)], 99),
            (vec![access(0, 64)], 0),
        ] {
            let walk = Walk { iteration: 1, ..Walk::new(accesses.clone(), 100) };
            assert_eq!(walk.in_same_lines(6), wanted, "{accesses:?}");
        }
    }
}
