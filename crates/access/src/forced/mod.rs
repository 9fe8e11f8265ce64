//! Which waits for another task the program forces.
//!
//! While a program is recorded, order among tasks is kept by blocks of 64 bytes: who reads or writes a block waits for
//! whoever wrote it last, in whatever word. Tasks that use different words of a block then take turns as they did on
//! the recorded machine, where they may have run one after the other. Here all accesses are gone through in an order
//! that those waits allow, and what is accessed is followed by words of 4 bytes: a wait for data, or for an atomic
//! access, stays where the words were written by another task, for that write, and goes where they were not.
//!
//! A wait at a block that tasks wait at (some atomic instruction is used on it, or it is polled) may order more than
//! the access that comes next: whatever the task accesses there until it waits at the block again. Each of these words
//! is waited for where it is accessed first, as it was written when the task waited.
//!
//! Where a task looked at something again and again and went on with no wait, it may have been preempted between what
//! the recorder noted and what the processor read ([`crate::looking`]). It is held there until another writes what it
//! looked at, and waits for that. Where nobody can do so before it goes on, it looked for another reason.
//!
//! Who counts by an atomic instruction that takes no lock waits for others that count there only where somebody's going
//! on hangs on it (`counters`).
//!
//! Of other blocks the access that comes next counts alone. A program in which tasks read what others write without any
//! wait at all between is a race; of these the order of the words that are read first after another's write is kept.
//! Waits for messages, begins and ends stay as they are.

mod counters;
mod task;
mod tracked;
mod waited_at;
mod words;

use crate::{Reason, Recording, Step, Told};
use cohabit_model::{Error, Result};
use std::collections::HashSet;
use task::Task;
use tracked::Tracked;
use waited_at::WaitedAt;
pub(crate) use words::blocks;

/// Accesses of a turn, when all is gone through; a loop is gone through at once.
const TURN: u64 = 64;
/// Blocks that tasks wait at, of all tasks together: 150 bytes each.
const MOST_OPEN: usize = 1 << 21;
const LEAST_OPEN: usize = 1 << 8;
/// How often all is gone through with tasks held.
const MOST_TRIES: usize = 3;

/// A wait for data, or for an atomic access, that the program forces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForcedWait {
    /// The task has made so many accesses before.
    pub at: u64,
    /// Who is waited for.
    pub task: u32,
    /// Until it has made so many.
    pub position: u64,
    /// One that [`ForcedWait::is_found_of`] takes.
    pub reason: Reason,
}

impl ForcedWait {
    /// Whether waits for this reason are found anew, in place of those that were recorded.
    pub fn is_found_of(reason: Reason) -> bool {
        matches!(reason, Reason::Data | Reason::Lock)
    }
}

/// The waits of each task for data and for atomic accesses that are forced, in their order. `recording` is as it was
/// recorded, `told` is the same with its polling told as such.
///
/// # Errors
/// The recording cannot be read, or its waits cannot be kept.
pub(crate) fn forced_waits(told: &dyn Recording, recording: &dyn Recording) -> Result<Vec<Vec<ForcedWait>>> {
    let most_open = (MOST_OPEN / recording.tasks().len().max(1)).max(LEAST_OPEN);
    forced_within(told, recording, most_open)
}

/// The same, each task knowing of `most_open` blocks that tasks wait at.
fn forced_within(told: &dyn Recording, recording: &dyn Recording, most_open: usize) -> Result<Vec<Vec<ForcedWait>>> {
    let at = WaitedAt::of_all(told)?;
    // Who was held in vain has let others go on meanwhile, further than they should be: once more without.
    let mut in_vain = HashSet::new();
    for _ in 0..MOST_TRIES {
        let (forced, more) = gone_through(recording, &at, most_open, &in_vain, true)?;
        if more.is_empty() {
            return Ok(forced);
        }
        in_vain.extend(more);
    }
    Ok(gone_through(recording, &at, most_open, &in_vain, false)?.0)
}

/// A task, and the accesses it had made when it looked last.
type LastLook = (u32, u64);

/// Goes through all accesses, tasks being held where they may have looked without a wait, but where that was in vain.
/// What is forced, and who was held in vain else.
fn gone_through(
    recording: &dyn Recording,
    at: &WaitedAt,
    most_open: usize,
    in_vain: &HashSet<LastLook>,
    hold: bool,
) -> Result<(Vec<Vec<ForcedWait>>, HashSet<LastLook>)> {
    let mut tracked = Tracked::new(at);
    let open = |task| Ok(Task::new(recording.steps(task)?, task, most_open, &tracked.matters));
    let mut tasks = (0..recording.tasks().len() as u32).map(open).collect::<Result<Vec<_>>>()?;
    let mut more = HashSet::new();
    loop {
        let (mut moved, mut waiting) = (false, None);
        for number in 0..tasks.len() {
            let mut left = TURN;
            while left > 0 && !tasks[number].ended {
                if !advance(&mut tasks, number, &mut left, &mut tracked, in_vain, hold)? {
                    waiting = Some(number);
                    break;
                }
                moved = true;
            }
        }
        match waiting {
            _ if moved => {}
            None => {
                let (mut forced, mut links) = (Vec::new(), Vec::new());
                for task in tasks {
                    forced.push(task.forced);
                    links.extend(task.links);
                }
                counters::release(&mut forced, links);
                return Ok((forced, more));
            }
            Some(task) => match tasks.iter_mut().find(|task| !task.held.is_empty()) {
                Some(task) => more.extend(task.held.drain(..).map(|held| (task.number, held.position))),
                None => {
                    let cause = format!("the recording cannot go on: task {task} waits for what never comes");
                    return Err(Error::new(cause).remedy("record it again"));
                }
            },
        }
    }
}

/// Whether the task went on.
fn advance(
    tasks: &mut [Task<'_>],
    number: usize,
    left: &mut u64,
    tracked: &mut Tracked,
    in_vain: &HashSet<LastLook>,
    hold: bool,
) -> Result<bool> {
    if !tasks[number].held.is_empty() && !tasks[number].sees_change(tracked) {
        return Ok(false);
    }
    let step = match tasks[number].at_wait.take() {
        Some(wait) => wait,
        None => match tasks[number].next(left)? {
            Told::Step(step) => step,
            Told::Later => return Ok(true),
            Told::End => {
                tasks[number].end();
                return Ok(true);
            }
        },
    };
    let task = &mut tasks[number];
    if !task.seen {
        let mut looks = task.sieve.looking.step(&step, task.position);
        looks.retain(|look| look.waited || hold && !in_vain.contains(&(task.number, look.position)));
        task.hold(looks, tracked);
        task.seen = true;
        if !task.held.is_empty() && !task.sees_change(tracked) {
            task.at_wait = Some(step);
            return Ok(false);
        }
    }
    match &step {
        Step::Wait { task: on, position, reason, .. } => {
            let other = tasks.get(*on as usize).ok_or_else(|| {
                Error::new(format!("damaged: a wait for task {on}, which it has not")).remedy("record it again")
            })?;
            if other.position < *position {
                tasks[number].at_wait = Some(step);
                return Ok(false);
            }
            let (on, position) = (*on, *position);
            match ForcedWait::is_found_of(*reason) {
                true => tasks[number].waits.push((*reason, on, position)),
                false => tasks[number].called((on, position), tracked),
            }
        }
        Step::Loop { accesses, iterations } => {
            let task = &mut tasks[number];
            if !task.waits.is_empty() {
                task.waited(&accesses[0], tracked);
            }
            task.make(accesses, *iterations, tracked);
            task.position = task.position.saturating_add(step.access_count());
            *left = left.saturating_sub(step.access_count());
        }
        Step::Polled { accesses } | Step::Skipped { accesses } => {
            tasks[number].position = tasks[number].position.saturating_add(*accesses);
        }
        Step::Unmap { range } => tracked.unmapped(range),
        Step::Compute { .. } | Step::Code { .. } | Step::Idle { .. } | Step::Phase { .. } | Step::Cut { .. } => {}
    }
    tasks[number].seen = false;
    if let Step::Loop { accesses, .. } = step {
        tasks[number].steps.recycle(accesses);
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
