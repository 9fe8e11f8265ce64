//! Recordings that are made up: programs whose communication is known, for tests, documentation and first tries.

use crate::{AccessKind, InMemory, Reason, Step, StridedAccess};
use cohabit_model::{Error, Result};

/// Tasks, bytes and rounds of the largest.
const MOST: u64 = 1 << 16;

/// Who reads what whom has written.
const KINDS: [(&str, &str); 5] = [
    ("ring", "each task and the next, in a circle"),
    ("pairs", "tasks 0 and 1, 2 and 3, ..."),
    ("distant", "each task and the one half of all further on"),
    ("all", "each task and all others"),
    ("alone", "nobody"),
];

/// What [`parse`] takes, a line each.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter()
}

/// `ring:8`, `ring:8:64` (each task writes 64 KiB a round, else 16) or `ring:8:64:20` (20 rounds, else 10): in each
/// round a task writes a block of its own in steps of 8 bytes, and reads those of the tasks that it communicates with.
///
/// # Errors
/// Where the text is none of these.
pub fn parse(text: &str) -> Result<InMemory> {
    let mut words = text.split(':');
    let kind = words.next().unwrap_or_default();
    let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok().filter(|n| (1..=MOST).contains(n))).collect();
    let known = KINDS.iter().any(|&(name, _)| name == kind);
    match numbers.as_deref() {
        Some([tasks]) if known => Ok(make(kind, *tasks, 16, 10)),
        Some([tasks, kib]) if known => Ok(make(kind, *tasks, *kib, 10)),
        Some([tasks, kib, rounds]) if known => Ok(make(kind, *tasks, *kib, *rounds)),
        _ => {
            let names: Vec<_> = KINDS.iter().map(|&(name, _)| name).collect();
            Err(Error::new(format!("{text:?} is no synthetic recording")).remedy(format!(
                "write a kind ({}), tasks, KiB and rounds, each from 1 to {MOST}, as in ring:8 or ring:8:64:20",
                names.join(", ")
            )))
        }
    }
}

/// The tasks whose blocks a task reads.
fn read_by(kind: &str, task: u64, tasks: u64) -> Vec<u64> {
    let mut partners = match kind {
        "ring" => vec![(task + 1) % tasks, (task + tasks - 1) % tasks],
        "pairs" => vec![task ^ 1],
        "distant" => vec![(task + tasks / 2) % tasks],
        "all" => (0..tasks).collect(),
        _ => Vec::new(),
    };
    partners.retain(|&partner| partner != task && partner < tasks);
    partners.sort_unstable();
    partners.dedup();
    partners
}

fn make(kind: &str, tasks: u64, kib: u64, rounds: u64) -> InMemory {
    let accesses = kib * 1024 / 8;
    // Blocks begin on pages of their own.
    let block = |task: u64| 0x1000_0000 + task * (kib * 1024).next_multiple_of(4096);
    let walk = |kind, task| {
        let access = StridedAccess { stride: 8, instructions: 3, ..StridedAccess::new(kind, block(task), 8) };
        Step::Loop { accesses: vec![access], iterations: accesses }
    };
    // Reading is symmetric in all kinds but the last task of an odd number of pairs, or half of an odd number.
    let readers: Vec<Vec<u64>> = (0..tasks)
        .map(|task| (0..tasks).filter(|&reader| read_by(kind, reader, tasks).contains(&task)).collect())
        .collect();
    let per_round = |task: u64| accesses * (1 + read_by(kind, task, tasks).len() as u64);
    let steps = |task: u64| {
        let mut steps = Vec::new();
        for round in 0..rounds {
            let wait = |on: u64, position, reason| Step::Wait { task: on as u32, position, reason, polled: None };
            // Nobody reads what is written over.
            if round > 0 {
                steps.extend(readers[task as usize].iter().map(|&on| wait(on, round * per_round(on), Reason::Wake)));
            }
            steps.push(walk(AccessKind::Write, task));
            for on in read_by(kind, task, tasks) {
                steps.push(wait(on, round * per_round(on) + accesses, Reason::Data));
                steps.push(walk(AccessKind::Read, on));
            }
        }
        steps
    };
    InMemory::new((0..tasks).map(steps).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recording, order};

    #[test]
    fn all_kinds_run_to_their_end() {
        for (kind, _) in kinds() {
            for tasks in [1, 2, 3, 8] {
                let recording = parse(&format!("{kind}:{tasks}:1:3")).unwrap();
                let mut seen = 0;
                order::in_turns(&recording, 7, &mut |_| {
                    seen += 1;
                    Ok(())
                })
                .unwrap();
                let known: u64 = recording.tasks().iter().filter_map(|task| task.accesses).sum();
                assert_eq!(seen, known, "{kind} of {tasks}");
            }
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "ring", "ring:", "ring:0", "ring:x", "ring:8:0", "ring:8:1:2:3", "star:4", "ring:99999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
