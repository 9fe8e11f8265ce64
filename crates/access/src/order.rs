//! One of the orders of all tasks' accesses that a recording allows.
//!
//! Tasks take turns of at most a given number of accesses; one that waits passes its turn until what it waits for has
//! happened. The order is the same each time.

use crate::{Access, Recording, Step, Steps};
use cohabit_model::{Error, Result};

/// What happens next, of all that the tasks do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A task makes an access; its time is that of a clock that each access moves on by 1 ns.
    Access(Access),
    /// Memory at these addresses starts as if nobody had touched it.
    Clear(std::ops::Range<u64>),
    /// A task runs code of another page of 4 KiB.
    Code {
        /// The task.
        task: u32,
        /// Address over 4,096.
        page: u64,
    },
}

struct Task<'a> {
    steps: Box<dyn Steps + 'a>,
    /// The step under way, with the accesses of it already made.
    now: Option<(Step, u64)>,
    position: u64,
    ended: bool,
}

/// Calls `take` for all events of a recording, in an order that it allows, tasks taking turns of `turn` accesses.
///
/// # Errors
/// The recording cannot be read or is damaged; tasks wait for one another in a circle or for what never happens; `take`
/// fails.
///
/// # Panics
/// If `turn` is 0.
pub fn in_turns(recording: &dyn Recording, turn: u64, take: &mut dyn FnMut(Event) -> Result<()>) -> Result<()> {
    assert!(turn > 0, "a turn has a length");
    let open = |task| Ok(Task { steps: recording.steps(task)?, now: None, position: 0, ended: false });
    let mut tasks = (0..recording.tasks().len() as u32).map(open).collect::<Result<Vec<_>>>()?;
    let mut clock_ns = 0;
    loop {
        let (mut moved, mut waiting) = (false, None);
        for number in 0..tasks.len() {
            let mut left = turn;
            while left > 0 {
                match advance(&mut tasks, number, &mut left, &mut clock_ns, take)? {
                    Advance::Moved => moved = true,
                    Advance::Waits(on) => {
                        waiting = Some((number, on));
                        break;
                    }
                    Advance::Ended => break,
                }
            }
        }
        match waiting {
            _ if moved => {}
            None => return Ok(()),
            Some((task, (on, position))) => {
                return Err(Error::new(format!(
                    "the recording cannot go on: task {task} waits for task {on} to have made {position} accesses"
                ))
                .remedy("record it again"));
            }
        }
    }
}

enum Advance {
    Moved,
    Waits((u32, u64)),
    Ended,
}

fn advance(
    tasks: &mut [Task<'_>],
    number: usize,
    left: &mut u64,
    clock_ns: &mut u64,
    take: &mut dyn FnMut(Event) -> Result<()>,
) -> Result<Advance> {
    if tasks[number].ended {
        return Ok(Advance::Ended);
    }
    let (step, done) = match tasks[number].now.take() {
        Some(now) => now,
        None => match tasks[number].steps.next_step()? {
            Some(step) => (step, 0),
            None => {
                tasks[number].ended = true;
                return Ok(Advance::Moved);
            }
        },
    };
    let task = number as u32;
    match &step {
        Step::Loop { accesses, .. } => {
            let end = step.access_count().min(done.saturating_add(*left));
            for index in done..end {
                let made = &accesses[(index % accesses.len() as u64) as usize];
                let address = made.address(index / accesses.len() as u64);
                *clock_ns += 1;
                take(Event::Access(Access {
                    time_ns: *clock_ns,
                    ..Access::new(task, made.kind, address, made.size_bytes)
                }))?;
            }
            tasks[number].position += end - done;
            *left -= end - done;
            if end < step.access_count() {
                tasks[number].now = Some((step, end));
            }
        }
        Step::Wait { task: on, position, .. } => {
            let Some(other) = tasks.get(*on as usize) else {
                return Err(Error::new(format!(
                    "the recording is damaged: task {task} waits for task {on}, which is not in it"
                ))
                .remedy("record it again"));
            };
            if other.position < *position {
                let waits = (*on, *position);
                tasks[number].now = Some((step, 0));
                return Ok(Advance::Waits(waits));
            }
        }
        Step::Polled { accesses } | Step::Skipped { accesses } => {
            tasks[number].position = tasks[number].position.saturating_add(*accesses);
        }
        Step::Unmap { range } => take(Event::Clear(range.clone()))?,
        Step::Code { page } => take(Event::Code { task, page: *page })?,
        Step::Compute { .. } | Step::Idle { .. } | Step::Phase { .. } | Step::Cut { .. } => {}
    }
    Ok(Advance::Moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessKind, InMemory, Reason, StridedAccess};

    fn write(address: u64) -> Step {
        Step::access(StridedAccess::new(AccessKind::Write, address, 8))
    }

    fn wait(task: u32, position: u64) -> Step {
        Step::Wait { task, position, reason: Reason::Data, polled: None }
    }

    fn order(recording: &InMemory, turn: u64) -> Vec<(u32, u64)> {
        let mut seen = Vec::new();
        in_turns(recording, turn, &mut |event| {
            if let Event::Access(access) = event {
                seen.push((access.task, access.address));
            }
            Ok(())
        })
        .unwrap();
        seen
    }

    #[test]
    fn who_waits_passes_its_turn() {
        let recording = InMemory::new(vec![vec![wait(1, 2), write(0)], vec![write(8), write(16), write(24)]]);
        assert_eq!(order(&recording, 1), [(1, 8), (1, 16), (0, 0), (1, 24)]);
        assert_eq!(order(&recording, 9), [(1, 8), (1, 16), (1, 24), (0, 0)]);
    }

    #[test]
    fn loops_are_told_access_by_access() {
        let walk = |base, stride| StridedAccess { stride, ..StridedAccess::new(AccessKind::Read, base, 4) };
        let recording =
            InMemory::new(vec![vec![Step::Loop { accesses: vec![walk(100, 4), walk(200, -8)], iterations: 3 }]]);
        let wanted = [100, 200, 104, 192, 108, 184].map(|address| (0, address));
        for turn in 1..8 {
            assert_eq!(order(&recording, turn), wanted, "turns of {turn}");
        }
    }

    #[test]
    fn a_circle_is_refused() {
        let recording = InMemory::new(vec![vec![wait(1, 1), write(0)], vec![wait(0, 1), write(8)]]);
        let error = in_turns(&recording, 5, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("cannot go on"), "{error}");
    }
}
