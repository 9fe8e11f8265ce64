//! What threads inherit: the one PU that their creator was put on. Whoever is seen to start is let go at once
//! (`placer`). Those that nobody has seen start are found here: below the processes of which threads were put on PUs.

use super::ledger::Before;
use super::threads;
use cohabit_host::affinity::{Allowed, CpuMask};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rounds through all processes are enough where one starts threads faster than they can be let go.
const ROUNDS: usize = 100;

/// What the threads of a process may have inherited: some of them, or of a process that it comes from, were put on PUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// With the id, what tells the process from a later one.
    pub start_ticks: u64,
    /// By PU (OS index) what whoever was put there might use before.
    pub pus: BTreeMap<u32, Before>,
}

impl Inherited {
    /// What a thread with this affinity may use, if that is one it may have inherited.
    pub fn before(&self, now: &CpuMask) -> Option<Allowed> {
        self.pus.get(&now.only()?)?.allowed().filter(|before| before.pus != *now)
    }
}

/// What was done for threads that nobody has seen start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// How many were let go.
    pub(crate) threads: usize,
    /// Those that could not be, and why.
    pub(crate) failed: BTreeMap<i32, std::io::Error>,
}

/// Lets those threads of the processes go, and of all that came of these since then (clock ticks of the machine), which
/// are not known, have started since then, and have a PU that they have inherited; until none is found.
pub(crate) fn let_go(processes: &BTreeMap<i32, Inherited>, since: u64, is_known: impl Fn(i32) -> bool) -> Found {
    let mut found = Found::default();
    for _ in 0..ROUNDS {
        let before = found.threads;
        for (process, inherited) in below(processes, since) {
            for tid in threads::of_process(process) {
                let Some(may) = CpuMask::of_thread(tid).ok().and_then(|now| inherited.before(&now)) else { continue };
                if is_known(tid) || threads::start_ticks(tid).is_none_or(|started| started < since) {
                    continue;
                }
                match may.apply(tid) {
                    Ok(()) => found.threads += 1,
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => {
                        found.failed.insert(tid, error);
                    }
                }
            }
        }
        if found.threads == before {
            break;
        }
    }
    found
}

/// These of the processes that run, and what has come of them since then, with what each may have inherited.
fn below(processes: &BTreeMap<i32, Inherited>, since: u64) -> BTreeMap<i32, &Inherited> {
    if processes.is_empty() {
        return BTreeMap::new();
    }
    let there = threads::processes();
    let known = |process: &threads::Process| {
        let inherited = processes.get(&process.pid)?;
        (inherited.start_ticks == process.start_ticks).then_some((process.pid, inherited))
    };
    let mut found: BTreeMap<i32, &Inherited> = there.iter().filter_map(known).collect();
    loop {
        let new = there.iter().filter(|process| process.start_ticks >= since && !found.contains_key(&process.pid));
        let new: Vec<(i32, &Inherited)> =
            new.filter_map(|process| Some((process.pid, *found.get(&process.parent)?))).collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}
