//! Communication from matching TLB entries (TLB 2012, sections III and IV).
//!
//! *Software-managed*: a counter a core counts all its misses, those of code too; where the n-th is of data, the other
//! TLBs are searched for its page. *Hardware-managed*: every 10 million cycles all pairs of TLBs are compared. A match
//! is one event of the pair. A search takes 231 cycles and a comparison of all pairs 84,297 on 8 cores (VI-C); by Table
//! I these grow with P and with P^2 S.

use crate::hashing::Blocks;
use crate::lru::{Lru, Touch};
use crate::{Counts, Detected, Detector, Row, Setting, Tlb};
use cohabit_access::order::Event;

pub const SOFTWARE: Row = Row {
    name: "tlb-sm",
    about: "each 100th TLB miss looks for its page in the other TLBs",
    source: "TLB 2012, IV-A",
    sees: "misses of a TLB; without direction, by page",
    symmetric: true,
    complete: false,
    make: |setting| Box::new(Tlbs::new(setting, Trigger::Misses(100))),
};

pub const SOFTWARE_ALL: Row = Row {
    name: "tlb-sm-1",
    about: "each TLB miss looks for its page in the other TLBs",
    source: "TLB 2012, VI-A (all misses)",
    sees: "misses of a TLB; without direction, by page",
    symmetric: true,
    complete: false,
    make: |setting| Box::new(Tlbs::new(setting, Trigger::Misses(1))),
};

pub const HARDWARE: Row = Row {
    name: "tlb-hm",
    about: "every 10 million cycles all pairs of TLBs are compared",
    source: "TLB 2012, IV-B",
    sees: "what TLBs hold at a time; without direction, by page",
    symmetric: true,
    complete: false,
    make: |setting| Box::new(Tlbs::new(setting, Trigger::Cycles(10_000_000.0 / setting.time_scale))),
};

const MEASURED_CORES: f64 = 8.0;
const MEASURED_ENTRIES: f64 = 64.0;
const SEARCH_CYCLES: f64 = 231.0;
const COMPARISON_CYCLES: f64 = 84_297.0;

#[derive(Debug, Clone, Copy)]
enum Trigger {
    /// Every so many misses of a core.
    Misses(u64),
    /// Every so many cycles.
    Cycles(f64),
}

/// One core's TLB, and how often it missed.
#[derive(Debug, Clone)]
struct Core {
    pages: Lru,
    misses: u64,
}

impl Core {
    fn new(tlb: Tlb) -> Self {
        Self { pages: Lru::new(tlb.entries, tlb.ways), misses: 0 }
    }
}

/// Which cores hold each page, and in how many pages each pair matches: kept up at each change, so that neither a
/// search nor a comparison of all pairs looks into the TLBs.
struct Holders {
    cores: Blocks<Vec<u32>>,
    /// By pair (low, high): pages that both hold, and the comparison from which on they do. None where nothing
    /// compares.
    matches: Option<Vec<(u64, u64)>>,
}

impl Holders {
    fn new(cores: usize, compares: bool) -> Self {
        Self { cores: Blocks::default(), matches: compares.then(|| vec![(0, 0); cores * cores]) }
    }

    fn of(&self, page: u64) -> &[u32] {
        self.cores.get(&page).map_or(&[], Vec::as_slice)
    }

    /// A page comes into a core's TLB; `comparisons` have been made so far.
    fn comes(&mut self, core: u32, page: u64, comparisons: u64, counts: &mut Counts) {
        let holders = self.cores.entry(page).or_default();
        if let Some(matches) = &mut self.matches {
            for &other in holders.iter() {
                settle(matches, core, other, comparisons, counts).0 += 1;
            }
        }
        holders.push(core);
    }

    /// A page goes out of it.
    fn goes(&mut self, core: u32, page: u64, comparisons: u64, counts: &mut Counts) {
        let Some(holders) = self.cores.get_mut(&page) else { return };
        holders.retain(|&other| other != core);
        if let Some(matches) = &mut self.matches {
            for &other in holders.iter() {
                settle(matches, core, other, comparisons, counts).0 -= 1;
            }
        }
        if holders.is_empty() {
            self.cores.remove(&page);
        }
    }

    /// Counts what the comparisons so far have found.
    fn settle_all(&mut self, tasks: usize, comparisons: u64, counts: &mut Counts) {
        let Some(matches) = &mut self.matches else { return };
        for high in 0..tasks as u32 {
            for low in 0..high {
                settle(matches, low, high, comparisons, counts);
            }
        }
    }
}

/// Counts the matches of a pair in all comparisons since they last changed.
fn settle<'a>(
    matches: &'a mut [(u64, u64)],
    a: u32,
    b: u32,
    comparisons: u64,
    counts: &mut Counts,
) -> &'a mut (u64, u64) {
    let (low, high) = (a.min(b), a.max(b));
    let pair = &mut matches[high as usize * counts.tasks + low as usize];
    counts.add_pair(low, high, pair.0 * (comparisons - pair.1));
    pair.1 = comparisons;
    pair
}

struct Tlbs {
    tlb: Tlb,
    trigger: Trigger,
    cycles_per_access: f64,
    next_comparison: f64,
    accesses: u64,
    cores: Vec<Core>,
    holders: Holders,
    misses: u64,
    /// Searches, or comparisons of all pairs.
    searches: u64,
    counts: Counts,
}

impl Tlbs {
    fn new(setting: &Setting, trigger: Trigger) -> Self {
        let next_comparison = match trigger {
            Trigger::Misses(_) => f64::INFINITY,
            Trigger::Cycles(cycles) => cycles,
        };
        Self {
            tlb: setting.tlb,
            trigger,
            cycles_per_access: setting.run_cycles_per_access(),
            next_comparison,
            accesses: 0,
            cores: vec![Core::new(setting.tlb); setting.tasks],
            holders: Holders::new(setting.tasks, matches!(trigger, Trigger::Cycles(_))),
            misses: 0,
            searches: 0,
            counts: Counts::new(setting.tasks),
        }
    }

    fn touch(&mut self, task: u32, page: u64, data: bool) {
        let core = &mut self.cores[task as usize];
        let Touch::Miss { gone } = core.pages.touch(page) else { return };
        core.misses += 1;
        self.misses += 1;
        let misses = core.misses;
        if let Some(gone) = gone {
            self.holders.goes(task, gone, self.searches, &mut self.counts);
        }
        if let Trigger::Misses(every) = self.trigger {
            if misses % every == 0 && data {
                self.searches += 1;
                self.holders.of(page).iter().for_each(|&other| self.counts.add_pair(task, other, 1));
            }
        }
        self.holders.comes(task, page, self.searches, &mut self.counts);
    }

    /// Cycles of one search or comparison with as many cores and entries as there are.
    fn cycles(&self) -> f64 {
        let cores = self.cores.len() as f64 / MEASURED_CORES;
        match self.trigger {
            Trigger::Misses(_) => SEARCH_CYCLES * cores,
            Trigger::Cycles(_) => COMPARISON_CYCLES * cores * cores * self.tlb.entries as f64 / MEASURED_ENTRIES,
        }
    }
}

impl Detector for Tlbs {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => {
                self.accesses += 1;
                self.touch(access.task, access.address >> self.tlb.page_shift, true);
                let cycles = self.accesses as f64 * self.cycles_per_access;
                if cycles >= self.next_comparison {
                    if let Trigger::Cycles(every) = self.trigger {
                        self.next_comparison += every;
                    }
                    self.searches += 1;
                }
            }
            Event::Code { task, page } => self.touch(*task, (*page << 12) >> self.tlb.page_shift, false),
            Event::Clear(range) => {
                if range.is_empty() {
                    return;
                }
                let pages = range.start >> self.tlb.page_shift..=(range.end - 1) >> self.tlb.page_shift;
                for (task, core) in (0..).zip(&mut self.cores) {
                    core.pages.remove_range(&pages, |gone| {
                        self.holders.goes(task, gone, self.searches, &mut self.counts);
                    });
                }
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Detected {
        self.holders.settle_all(self.cores.len(), self.searches, &mut self.counts);
        // Searches are spread over the cores; a comparison of all stops the one that makes it.
        let cycles = self.accesses as f64 * self.cycles_per_access;
        let cores = match self.trigger {
            Trigger::Misses(_) => self.cores.len().max(1) as f64,
            Trigger::Cycles(_) => 1.0,
        };
        let overhead = if cycles > 0.0 { self.searches as f64 * self.cycles() / cores / cycles } else { 0.0 };
        let occasions = match self.trigger {
            Trigger::Misses(_) => self.misses,
            Trigger::Cycles(_) => self.accesses,
        };
        Detected { matrix: self.counts.matrix(), looked: self.searches, occasions, overhead: Some(overhead) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_access::{Access, AccessKind};
    use proptest::prelude::*;

    /// The same, keeping nothing but the TLBs: each search and each comparison looks into all of them.
    struct Slow {
        cores: Vec<Core>,
        counts: Counts,
        searches: u64,
    }

    impl Slow {
        fn run(setting: &Setting, trigger: Trigger, events: &[Event]) -> (Counts, u64) {
            let cores = vec![Core::new(setting.tlb); setting.tasks];
            let mut slow = Self { cores, counts: Counts::new(setting.tasks), searches: 0 };
            let (mut accesses, mut next) = (0, 1.0);
            for event in events {
                match event {
                    Event::Access(access) => {
                        accesses += 1;
                        slow.touch(setting, trigger, access.task, access.address >> 12, true);
                        let Trigger::Cycles(every) = trigger else { continue };
                        if f64::from(accesses) * setting.run_cycles_per_access() >= next * every {
                            next += 1.0;
                            slow.compare();
                        }
                    }
                    Event::Code { task, page } => slow.touch(setting, trigger, *task, *page, false),
                    Event::Clear(range) if range.is_empty() => {}
                    Event::Clear(range) => {
                        let pages = range.start >> 12..=(range.end - 1) >> 12;
                        slow.cores.iter_mut().for_each(|core| core.pages.remove_range(&pages, |_| {}));
                    }
                }
            }
            (slow.counts, slow.searches)
        }

        fn holds(core: &Core, page: u64) -> bool {
            core.pages.keys().any(|other| other == page)
        }

        fn touch(&mut self, setting: &Setting, trigger: Trigger, task: u32, page: u64, data: bool) {
            let core = &mut self.cores[task as usize];
            if core.pages.touch(page) == Touch::Hit {
                return;
            }
            core.misses += 1;
            if let (Trigger::Misses(every), misses) = (trigger, core.misses) {
                if misses % every == 0 && data {
                    self.searches += 1;
                    for other in (0..setting.tasks as u32).filter(|&other| other != task) {
                        if Self::holds(&self.cores[other as usize], page) {
                            self.counts.add_pair(task, other, 1);
                        }
                    }
                }
            }
        }

        fn compare(&mut self) {
            self.searches += 1;
            for a in 0..self.cores.len() {
                for b in a + 1..self.cores.len() {
                    let both = self.cores[a].pages.keys().filter(|&page| Self::holds(&self.cores[b], page)).count();
                    self.counts.add_pair(a as u32, b as u32, both as u64);
                }
            }
        }
    }

    fn event() -> impl Strategy<Value = Event> {
        let access = |(task, page): (u32, u64)| Event::Access(Access::new(task, AccessKind::Read, page << 12, 8));
        prop_oneof![
            12 => (0..5u32, 0..40u64).prop_map(access),
            3 => (0..5u32, 0..40u64).prop_map(|(task, page)| Event::Code { task, page }),
            1 => (0..40u64, 0..3u64).prop_map(|(page, pages)| Event::Clear(page << 12..(page + pages) << 12)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_kept_up_is_what_is_there(events in prop::collection::vec(event(), 0..300), which in 0..4usize) {
            let trigger =
                [Trigger::Misses(1), Trigger::Misses(3), Trigger::Cycles(1.0), Trigger::Cycles(7.0)][which];
            let setting = Setting {
                tlb: Tlb { entries: 8, ways: 2, page_shift: 12 },
                cycles_per_access: 1.0,
                ..Setting::new(5)
            };
            let mut tlbs = Box::new(Tlbs::new(&setting, trigger));
            events.iter().for_each(|event| tlbs.take(event));
            let found = tlbs.finish();
            let (counts, searches) = Slow::run(&setting, trigger, &events);
            prop_assert_eq!(found.looked, searches);
            prop_assert_eq!(found.matrix, counts.matrix());
        }
    }
}
