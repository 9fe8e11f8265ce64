//! The threads of a process that runs already, listed until no listing shows a new one.

use crate::threads;
use cohabit_model::{Error, Result};
use std::collections::BTreeSet;
use std::fs;

/// The flag of a task that has begun to end, before anybody is told of its end (`PF_EXITING` of the kernel's sched.h;
/// proc_pid_stat(5) has where flags are).
const IS_ENDING: u64 = 4;
const FLAGS: usize = 9;

/// How often is enough: a process that starts threads faster than they can be listed is followed by its forks anyway.
const LISTINGS: usize = 100;

/// Calls `follow` for every thread of the process.
///
/// # Errors
/// Where there is no such process, it is another user's and this one is not root, or `follow` fails.
pub(crate) fn threads(process: i32, mut follow: impl FnMut(i32) -> Result<()>) -> Result<()> {
    let mut known = BTreeSet::new();
    for _ in 0..LISTINGS {
        let listing = listed(process).ok_or_else(|| gone(process))?;
        let new: Vec<i32> = listing.filter(|tid| known.insert(*tid)).collect();
        if new.is_empty() {
            return Ok(());
        }
        new.into_iter().try_for_each(&mut follow)?;
    }
    Ok(())
}

/// The processes that have come since then (clock ticks of the machine) of known ones, directly or not, and are not known
/// themselves; not this one.
pub(crate) fn unknown_below(is_known: impl Fn(i32) -> bool, since: u64) -> BTreeSet<i32> {
    let (there, own) = (threads::processes(), std::process::id() as i32);
    let mut found = BTreeSet::new();
    loop {
        let is_new = |process: &&threads::Process| {
            let is_unknown = process.pid != own && !is_known(process.pid) && !found.contains(&process.pid);
            is_unknown && process.start_ticks >= since && (is_known(process.parent) || found.contains(&process.parent))
        };
        let new: Vec<i32> = there.iter().filter(is_new).map(|process| process.pid).collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

/// The threads of a process that have not begun to end.
pub(crate) fn living(process: i32) -> Vec<i32> {
    listed(process).into_iter().flatten().filter(|&tid| !is_ending(process, tid)).collect()
}

/// Makes sure that there is a process, before anything is done to follow it.
///
/// # Errors
/// Where there is none.
pub fn check_process(process: i32) -> Result<()> {
    listed(process).map(drop).ok_or_else(|| gone(process))
}

fn gone(process: i32) -> Error {
    Error::new(format!("no process {process}")).remedy("it may have ended; `ps` lists what runs")
}

/// The threads of a process; none where it is gone.
pub(crate) fn listed(process: i32) -> Option<impl Iterator<Item = i32>> {
    let listing = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    Some(listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// Whether a thread has ended or is about to.
pub(crate) fn is_ending(process: i32, tid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{tid}/stat")).unwrap_or_default();
    // The state, the third field, follows the name, which is in brackets and may hold any character.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split_ascii_whitespace());
    let flags = fields.and_then(|mut fields| fields.nth(FLAGS - 3)?.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & IS_ENDING != 0)
}
