//! CDSM's detection as printed (sections 2.2, 2.3 and 4): page faults, with more of them made by clearing what page
//! tables hold, and for each block of 256 bytes a list of the 4 tasks that faulted there last.
//!
//! Each task has a page table of its own here, where threads of a process share one: a task faults at its first access
//! of a page, and again after its entry was cleared. Every 10 ms entries are cleared, up to 1 % of the pages in use a
//! second, going on where the last walk ended. All who are in the list are credited (the paper's rule; online detection
//! credits those only that came since). This arm has the paper's constants; the product's online detection, most of
//! whose evidence are timer samples, is another one.

use crate::hashing::{Blocks, forget};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::order::Event;
use std::collections::BTreeMap;

pub const ROW: Row = Row {
    name: "cdsm",
    about: "page faults, with 1 % of the pages a second made to fault again",
    source: "CDSM, 2.2 to 4 (Table 4's configuration)",
    sees: "faults only; without direction, by 256 bytes of the faulting address",
    symmetric: true,
    complete: false,
    make: |setting| Box::new(Cdsm::new(setting)),
};

const BLOCK_BYTES: u64 = 256;
const RECENT: usize = 4;
const INTERVAL_SECONDS: f64 = 0.01;
const PAGES_A_SECOND: f64 = 0.01;
/// Clock of the paper's Xeon32 (Xeon X7550), in cycles a second.
const CYCLES_A_SECOND: f64 = 2.0e9;

struct Cdsm {
    page_shift: u32,
    tasks: usize,
    /// Tasks that faulted in each block, the latest last.
    recent: Blocks<Vec<u32>>,
    /// Page tables: which tasks have a page; sorted, since the walk goes by address.
    present: BTreeMap<u64, Vec<bool>>,
    /// Where the last walk ended, and the fraction of a page that it was allowed beyond.
    walked: u64,
    allowed: f64,
    accesses: u64,
    next_walk: f64,
    interval_accesses: f64,
    faults: u64,
    counts: Counts,
}

impl Cdsm {
    fn new(setting: &Setting) -> Self {
        let interval_cycles = INTERVAL_SECONDS * CYCLES_A_SECOND / setting.time_scale;
        let interval_accesses = interval_cycles / setting.run_cycles_per_access();
        Self {
            page_shift: setting.tlb.page_shift,
            tasks: setting.tasks,
            recent: Blocks::default(),
            present: BTreeMap::new(),
            walked: 0,
            allowed: 0.0,
            accesses: 0,
            next_walk: interval_accesses,
            interval_accesses,
            faults: 0,
            counts: Counts::new(setting.tasks),
        }
    }

    fn fault(&mut self, task: u32, address: u64) {
        self.faults += 1;
        let recent = self.recent.entry(address / BLOCK_BYTES).or_default();
        for &other in recent.iter().filter(|&&other| other != task) {
            self.counts.add_pair(other, task, 1);
        }
        recent.retain(|&other| other != task);
        if recent.len() == RECENT {
            recent.remove(0);
        }
        recent.push(task);
    }

    /// Clears the entries of as many pages as are due, from where the last walk ended.
    fn walk(&mut self) {
        self.allowed += PAGES_A_SECOND * INTERVAL_SECONDS * self.present.len() as f64;
        let from = self.walked;
        let pages: Vec<u64> =
            self.present.range(from..).chain(self.present.range(..from)).map(|(&page, _)| page).collect();
        for page in pages {
            if self.allowed < 1.0 {
                break;
            }
            self.allowed -= 1.0;
            self.walked = page + 1;
            if let Some(present) = self.present.get_mut(&page) {
                present.fill(false);
            }
        }
    }
}

impl Detector for Cdsm {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                self.accesses += 1;
                let tasks = self.tasks;
                let present =
                    self.present.entry(access.address >> self.page_shift).or_insert_with(|| vec![false; tasks]);
                let has = &mut present[access.task as usize];
                if !std::mem::replace(has, true) {
                    self.fault(access.task, access.address);
                }
                if self.accesses as f64 >= self.next_walk {
                    self.next_walk += self.interval_accesses;
                    self.walk();
                }
            }
            Event::Clear(range) => {
                forget(&mut self.recent, range, BLOCK_BYTES);
                let (first, last) = (range.start >> self.page_shift, range.end.saturating_sub(1) >> self.page_shift);
                let gone: Vec<u64> = self.present.range(first..=last.max(first)).map(|(&page, _)| page).collect();
                for page in gone {
                    self.present.remove(&page);
                }
            }
            Event::Code { .. } => {}
        }
    }

    fn finish(self: Box<Self>) -> Detected {
        Detected { matrix: self.counts.matrix(), looked: self.faults, occasions: self.accesses, overhead: None }
    }
}
