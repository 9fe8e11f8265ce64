//! The threads of a process that runs already, listed until no listing shows a new one.

use cohabit_model::{Error, Result};
use std::collections::BTreeSet;
use std::fs;

/// How often is enough: a process that starts threads faster than they can be listed is followed by its forks anyway.
const LISTINGS: usize = 100;

/// Calls `follow` for every thread of the process.
///
/// # Errors
/// Where there is no such process, it is another user's and this one is not root, or `follow` fails.
pub(crate) fn threads(process: i32, mut follow: impl FnMut(i32) -> Result<()>) -> Result<()> {
    let gone = || Error::new(format!("no process {process}")).remedy("it may have ended; `ps` lists what runs");
    let mut known = BTreeSet::new();
    for _ in 0..LISTINGS {
        let listing = fs::read_dir(format!("/proc/{process}/task")).map_err(|_| gone())?;
        let tids = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let new: Vec<i32> = tids.filter(|tid| known.insert(*tid)).collect();
        if new.is_empty() {
            return Ok(());
        }
        new.into_iter().try_for_each(&mut follow)?;
    }
    Ok(())
}
