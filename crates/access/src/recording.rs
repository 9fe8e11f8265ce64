//! Where steps come from: a file, a running program, a test.

use crate::polls::NO_FINGERPRINT;
use crate::{Dependences, Outline, Sieve, Step, StridedAccess, Told};
use cohabit_model::Result;

/// What is known of a task before its steps are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskInfo {
    /// As shown to people.
    pub name: String,
    /// The process it belongs to, numbered from 0.
    pub process: u32,
    /// The number of its accesses, where that is known before they are read.
    pub accesses: Option<u64>,
}

/// The steps of one task, in its order. Everything after an error is lost.
pub trait Steps: Send {
    /// The next step; none at the task's end.
    ///
    /// # Errors
    /// The recording cannot be read on, or is damaged.
    fn next_step(&mut self) -> Result<Option<Step>>;

    /// The next step that a sieve does not leave out. May tell all steps.
    ///
    /// # Errors
    /// As [`Steps::next_step`].
    fn next_but(&mut self, _: &mut Box<Sieve>) -> Result<Told> {
        Ok(self.next_step()?.map_or(Told::End, Told::Step))
    }

    /// Takes back the accesses of a loop that is done with, for the memory they are in.
    fn recycle(&mut self, _: Vec<StridedAccess>) {}

    /// Leaves steps out, up to a position of the task: faster than reading them. How many accesses the task has made
    /// before what comes next, which are no more than that; none where nothing was left out. Whether what comes next is
    /// told as polling may come out otherwise than without.
    ///
    /// # Errors
    /// As [`Steps::next_step`].
    fn skip_to(&mut self, _position: u64) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// What the tasks of one run did. It can be read any number of times, by several readers at once.
pub trait Recording: Sync {
    /// The tasks; a task's number is its index.
    fn tasks(&self) -> &[TaskInfo];

    /// The steps of a task, from its first on.
    ///
    /// # Errors
    /// They cannot be read.
    ///
    /// # Panics
    /// If there is no such task.
    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>>;

    /// The same, and how long instructions of the task wait for one another on such a core
    /// ([`StridedAccess::latency`]), as far as the recording tells.
    ///
    /// # Errors
    /// As [`Recording::steps`].
    ///
    /// # Panics
    /// As [`Recording::steps`].
    fn steps_with(&self, task: u32, _: Dependences) -> Result<Box<dyn Steps + '_>> {
        self.steps(task)
    }

    /// Its outline, where that is known without reading it.
    ///
    /// # Errors
    /// What is kept of it is damaged.
    fn outline(&self) -> Result<Option<Outline>> {
        Ok(None)
    }
}

/// A recording that is held in memory: for tests, and for what is made up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InMemory {
    tasks: Vec<TaskInfo>,
    steps: Vec<Vec<Step>>,
}

impl InMemory {
    /// A recording of tasks of one process.
    pub fn new(steps: Vec<Vec<Step>>) -> Self {
        let info = |(task, steps): (usize, &Vec<Step>)| TaskInfo {
            name: format!("task {task}"),
            process: 0,
            accesses: Some(steps.iter().map(Step::access_count).sum()),
        };
        let tasks = steps.iter().enumerate().map(info).collect();
        Self { tasks, steps }
    }
}

struct Listed<'a>(std::slice::Iter<'a, Step>);

impl Steps for Listed<'_> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        Ok(self.0.next().cloned())
    }

    fn next_but(&mut self, sieve: &mut Box<Sieve>) -> Result<Told> {
        while let Some(step) = self.0.clone().next() {
            if sieve.most == 0 {
                return Ok(Told::Later);
            }
            self.0.next();
            let left_out = match step {
                Step::Loop { accesses, iterations: 1 } => sieve.leaves_out_accesses(accesses.iter().copied()),
                Step::Loop { accesses, iterations } => {
                    sieve.leaves_out_loop(accesses, *iterations).then_some(NO_FINGERPRINT)
                }
                Step::Compute { .. } | Step::Code { .. } => sieve.leaves_out(step),
                _ => None,
            };
            if left_out.is_none() {
                return Ok(Told::Step(step.clone()));
            }
        }
        Ok(Told::End)
    }
}

impl Recording for InMemory {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(Listed(self.steps[task as usize].iter())))
    }
}
