//! Communication from matching TLB entries (TLB 2012, sections III and IV).
//!
//! *Software-managed*: a counter a core counts all its misses, those of code too; where the n-th is of data, the other TLBs are
//! searched for its page. *Hardware-managed*: every 10 million cycles all pairs of TLBs are compared. A match is one event of
//! the pair. A search takes 231 cycles and a comparison of all pairs 84,297 on 8 cores (VI-C); by Table I these grow with P
//! and with P^2 S.

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

/// One core's TLB: sets of pages, the one used last first (LRU).
#[derive(Debug, Clone)]
struct Core {
    sets: Vec<Vec<u64>>,
    misses: u64,
}

impl Core {
    fn new(tlb: Tlb) -> Self {
        let sets = (tlb.entries / tlb.ways.max(1)).max(1);
        Self { sets: vec![Vec::with_capacity(tlb.ways); sets], misses: 0 }
    }

    fn set_of(&self, page: u64) -> usize {
        (page % self.sets.len() as u64) as usize
    }

    /// Whether the page was there.
    fn touch(&mut self, page: u64, ways: usize) -> bool {
        let set = self.set_of(page);
        let set = &mut self.sets[set];
        let at = set.iter().position(|&other| other == page);
        match at {
            Some(at) => set[..=at].rotate_right(1),
            None => {
                set.truncate(ways.saturating_sub(1));
                set.insert(0, page);
            }
        }
        at.is_some()
    }

    fn holds(&self, page: u64) -> bool {
        self.sets[self.set_of(page)].contains(&page)
    }
}

struct Tlbs {
    tlb: Tlb,
    trigger: Trigger,
    cycles_per_access: f64,
    next_comparison: f64,
    accesses: u64,
    cores: Vec<Core>,
    misses: u64,
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
            misses: 0,
            searches: 0,
            counts: Counts::new(setting.tasks),
        }
    }

    fn touch(&mut self, task: u32, page: u64, data: bool) {
        let core = &mut self.cores[task as usize];
        if core.touch(page, self.tlb.ways) {
            return;
        }
        self.misses += 1;
        core.misses += 1;
        if let Trigger::Misses(every) = self.trigger {
            if core.misses % every == 0 && data {
                self.search(task, page);
            }
        }
    }

    fn search(&mut self, task: u32, page: u64) {
        self.searches += 1;
        for (other, core) in self.cores.iter().enumerate() {
            if other != task as usize && core.holds(page) {
                self.counts.add_pair(task, other as u32, 1);
            }
        }
    }

    fn compare_all(&mut self) {
        self.searches += 1;
        for a in 0..self.cores.len() {
            for b in a + 1..self.cores.len() {
                let both = self.cores[a].sets.iter().flatten().filter(|&&page| self.cores[b].holds(page)).count();
                for _ in 0..both {
                    self.counts.add_pair(a as u32, b as u32, 1);
                }
            }
        }
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
                    self.compare_all();
                }
            }
            Event::Code { task, page } => self.touch(*task, (*page << 12) >> self.tlb.page_shift, false),
            Event::Clear(range) => {
                if range.is_empty() {
                    return;
                }
                let pages = range.start >> self.tlb.page_shift..=(range.end - 1) >> self.tlb.page_shift;
                for set in self.cores.iter_mut().flat_map(|core| &mut core.sets) {
                    set.retain(|page| !pages.contains(page));
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Detected {
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
