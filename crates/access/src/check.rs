//! Whether a recording is sound: what every reader of one relies on.
//!
//! Positions agree with what the tasks say they made, no access is empty, and the waits can all be kept: there is an
//! order of all tasks' steps in which each finds done what it waits for.

use crate::order::in_turns;
use crate::{Recording, Step};
use cohabit_model::{Error, Result};
use serde::Serialize;

/// What one task does, in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Sums {
    /// Instructions.
    pub instructions: u64,
    /// Accesses.
    pub accesses: u64,
    /// Those of them that only polled while the task waited.
    pub polls: u64,
    /// Waits for other tasks.
    pub waits: u64,
}

/// What a sound recording holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// By task.
    pub tasks: Vec<Sums>,
}

/// Checks a recording.
///
/// # Errors
/// What is wrong with it, the first thing that is found.
pub fn check(recording: &dyn Recording) -> Result<Checked> {
    let count = recording.tasks().len() as u32;
    let tasks = (0..count).map(|task| sums(recording, task)).collect::<Result<Vec<_>>>()?;
    in_turns(recording, 1 << 16, &mut |_| Ok(()))?;
    Ok(Checked { tasks })
}

fn sums(recording: &dyn Recording, task: u32) -> Result<Sums> {
    let unsound =
        |what: String| Error::new(format!("the recording is damaged: task {task} {what}")).remedy("record it again");
    let count = recording.tasks().len() as u32;
    let mut sums = Sums::default();
    let mut steps = recording.steps(task)?;
    while let Some(step) = steps.next_step()? {
        sums.instructions = sums.instructions.saturating_add(step.instruction_count());
        sums.accesses = sums.accesses.saturating_add(step.access_count());
        match step {
            Step::Loop { accesses, iterations }
                if accesses.is_empty() || iterations == 0 || accesses.iter().any(|access| access.size_bytes == 0) =>
            {
                return Err(unsound("makes an access of nothing".to_owned()));
            }
            Step::Polled { accesses } => sums.polls = sums.polls.saturating_add(accesses),
            Step::Wait { task: on, .. } => {
                sums.waits += 1;
                if on >= count || on == task {
                    return Err(unsound(format!("waits for task {on} of {count}")));
                }
            }
            _ => {}
        }
    }
    match recording.tasks()[task as usize].accesses {
        Some(said) if said != sums.accesses => {
            Err(unsound(format!("makes {} accesses, and is said to make {said}", sums.accesses)))
        }
        _ => Ok(sums),
    }
}
