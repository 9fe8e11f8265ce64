//! Finds new threads by looking at /proc: COMPLACE's way (section V), and ours where tracing is not permitted.
//!
//! Also what looks after a run whose planned threads have all been placed: a thread that starts later inherits its
//! creator's single PU, and is found here.

use super::placement::Placement;
use super::procfs;
use std::collections::HashSet;
use std::time::Duration;

/// How often to look: often while things change, seldom later, and never so that looking costs more than a
/// thousandth of one PU.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
}

impl Pace {
    const FIRST: Duration = Duration::from_millis(1);
    const LAST: Duration = Duration::from_secs(1);
    const SHARE: u32 = 1000;

    pub(crate) fn new() -> Self {
        Self { interval: Self::FIRST }
    }

    /// How long to wait before the next look.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// The last look took this much CPU time, and found something new or not.
    pub(crate) fn looked(&mut self, cost: Duration, found: bool) {
        let eased = if found { Self::FIRST } else { (self.interval * 2).min(Self::LAST) };
        self.interval = eased.max(cost * Self::SHARE);
    }
}

/// Reports every start and end since the last look; whether anything started.
pub(crate) fn look(placement: &mut Placement) -> bool {
    let mut found = false;
    let mut processes = placement.census.running();
    while let Some(pid) = processes.pop() {
        let tids = procfs::threads(pid);
        if tids.is_empty() {
            placement.ended(pid);
            continue;
        }
        placement.check_program(pid);
        found |= look_at_threads(placement, pid, &tids);
        for &tid in &tids {
            for child in procfs::children(pid, tid) {
                if !placement.census.knows_process(child) {
                    placement.process_found(Some(tid), child);
                    processes.push(child);
                    found = true;
                }
            }
        }
    }
    found
}

fn look_at_threads(placement: &mut Placement, pid: i32, tids: &[i32]) -> bool {
    let present: HashSet<i32> = tids.iter().copied().collect();
    for tid in placement.census.threads_of(pid) {
        if tid != pid && !present.contains(&tid) {
            placement.ended(tid);
        }
    }
    let mut found = false;
    for &tid in tids {
        if placement.census.thread(tid).is_none() {
            placement.thread_started(None, pid, tid);
            found = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    #[test]
    fn looking_eases_off_and_costs_a_thousandth_at_most() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new();
        let mut intervals = Vec::new();
        for (cost, found) in [(ms(0), false), (ms(0), false), (ms(0), true), (ms(3), true), (ms(3), false)] {
            pace.looked(cost, found);
            intervals.push(pace.interval());
        }
        assert_eq!(intervals, [ms(2), ms(4), ms(1), ms(3000), ms(3000)]);
    }
}
