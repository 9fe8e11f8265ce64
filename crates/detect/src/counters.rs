//! Communication from what a processor's counters sample of loads: the online way that COMPLACE's authors miss a
//! comparison with (VII).
//!
//! Azimi et al. (Operating Systems Review 43, 2, 2009) take the address of each n-th load that another core's cache
//! served, count by thread and line, leave out lines that more than half of the threads were sampled at (barriers), and
//! call the scalar product of two threads' counts their similarity. That is what is counted here, by all lines instead
//! of 256 chosen ones, and of few samples too. The other rows take each n-th load of 30 cycles and more, the threshold
//! of COMPLACE's samples (V): what the caches of its own core do not serve.
//!
//! Each task has a core, whose caches are one here, of [`Setting::cache`]; a store takes all other copies away. *Served
//! by another cache* is a load of a line that another core has changed and still holds: a clean one comes from the
//! cache that all share.

use crate::hashing::{Blocks, forget_each, touched};
use crate::lru::{Lru, Touch};
use crate::{Counts, Detected, Detector, Row, Setting};
use cohabit_access::Access;
use cohabit_access::order::Event;

const AZIMI: &str = "Azimi et al. 2009, which COMPLACE, VII, names";
const COMPLACE: &str = "COMPLACE, V (threshold), matched as Azimi et al. 2009";
const OTHER_CACHES: &str = "loads of lines that another core changed and still holds; without direction";
const NOT_OWN: &str = "loads that the core's own caches do not serve; without direction";

pub const OTHER_CACHE: Row = Row {
    name: "hitm-100",
    about: "each 100th load that another core's cache serves, by line",
    source: AZIMI,
    sees: OTHER_CACHES,
    symmetric: true,
    complete: false,
    make: |setting| Box::new(Counters::new(setting, Wanted::OtherCache, 100)),
};

pub const OTHER_CACHE_ALL: Row = Row {
    name: "hitm",
    about: "each load that another core's cache serves, by line",
    make: |setting| Box::new(Counters::new(setting, Wanted::OtherCache, 1)),
    ..OTHER_CACHE
};

pub const SLOW_LOADS: Row = Row {
    name: "slow-loads-100",
    about: "each 100th load of 30 cycles and more, by line",
    source: COMPLACE,
    sees: NOT_OWN,
    make: |setting| Box::new(Counters::new(setting, Wanted::NotOwn, 100)),
    ..OTHER_CACHE
};

pub const SLOW_LOADS_ALL: Row = Row {
    name: "slow-loads",
    about: "each load of 30 cycles and more, by line",
    make: |setting| Box::new(Counters::new(setting, Wanted::NotOwn, 1)),
    ..SLOW_LOADS
};

/// Which loads are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    OtherCache,
    NotOwn,
}

/// What served an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Own,
    OtherCache,
    /// A cache that all share, or memory.
    Beyond,
}

/// The cores' own caches, kept coherent.
struct Caches {
    cores: Vec<Lru>,
    lines: Blocks<Line>,
}

/// Which cores have a line.
#[derive(Debug, Default)]
struct Line {
    holders: Vec<u32>,
    /// The only holder has changed it.
    changed: bool,
}

impl Caches {
    fn new(setting: &Setting) -> Self {
        let entries = (setting.cache.bytes / setting.block_bytes.max(1)).max(1) as usize;
        Self { cores: vec![Lru::new(entries, setting.cache.ways); setting.tasks], lines: Blocks::default() }
    }

    fn access(&mut self, core: u32, line: u64, writes: bool) -> Served {
        let touch = self.cores[core as usize].touch(line);
        if let Touch::Miss { gone: Some(gone) } = touch {
            self.goes(core, gone);
        }
        let state = self.lines.entry(line).or_default();
        let served = match touch {
            Touch::Hit => Served::Own,
            Touch::Miss { .. } if state.changed => Served::OtherCache,
            Touch::Miss { .. } => Served::Beyond,
        };
        if touch != Touch::Hit {
            state.holders.push(core);
            state.changed = false;
        }
        if writes {
            state.changed = true;
            for &other in state.holders.iter().filter(|&&other| other != core) {
                self.cores[other as usize].remove(line);
            }
            state.holders.retain(|&other| other == core);
        }
        served
    }

    fn goes(&mut self, core: u32, line: u64) {
        let Some(state) = self.lines.get_mut(&line) else { return };
        state.holders.retain(|&other| other != core);
        if state.holders.is_empty() {
            self.lines.remove(&line);
        }
    }

    fn clear(&mut self, lines: &std::ops::RangeInclusive<u64>) {
        for core in &mut self.cores {
            core.remove_range(lines, |line| {
                self.lines.remove(&line);
            });
        }
    }
}

struct Counters {
    block_bytes: u64,
    caches: Caches,
    wanted: Wanted,
    every: u64,
    /// Loads that are counted, of each task.
    loads: Vec<u64>,
    /// Samples of each line that is there: those of each task that has some.
    samples: Blocks<Vec<(u32, u64)>>,
    sampled: u64,
    counts: Counts,
}

impl Counters {
    fn new(setting: &Setting, wanted: Wanted, every: u64) -> Self {
        Self {
            block_bytes: setting.block_bytes,
            caches: Caches::new(setting),
            wanted,
            every,
            loads: vec![0; setting.tasks],
            samples: Blocks::default(),
            sampled: 0,
            counts: Counts::new(setting.tasks),
        }
    }

    fn access(&mut self, access: &Access) {
        for line in touched(access.address, access.size_bytes, self.block_bytes) {
            let served = self.caches.access(access.task, line, access.kind.writes());
            let counted = match self.wanted {
                Wanted::OtherCache => served == Served::OtherCache,
                Wanted::NotOwn => served != Served::Own,
            };
            if access.kind.reads() && counted {
                let loads = &mut self.loads[access.task as usize];
                *loads += 1;
                if *loads % self.every == 0 {
                    self.sample(access.task, line);
                }
            }
        }
    }

    fn sample(&mut self, task: u32, line: u64) {
        self.sampled += 1;
        let samples = self.samples.entry(line).or_default();
        match samples.iter_mut().find(|(other, _)| *other == task) {
            Some((_, count)) => *count += 1,
            None => samples.push((task, 1)),
        }
    }
}

/// What a line adds to the scalar product of each pair. Nothing where most tasks were sampled at it; two are a pair, of
/// however few tasks.
fn add_products(counts: &mut Counts, samples: &[(u32, u64)]) {
    if samples.len() > 2.max(counts.tasks / 2) {
        return;
    }
    for (at, &(task, count)) in samples.iter().enumerate() {
        for &(other, others) in &samples[..at] {
            counts.add_pair(task, other, count.saturating_mul(others));
        }
    }
}

impl Detector for Counters {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Access(access) => self.access(access),
            Event::Clear(range) if range.is_empty() => {}
            Event::Clear(range) => {
                self.caches.clear(&(range.start / self.block_bytes..=(range.end - 1) / self.block_bytes));
                let counts = &mut self.counts;
                forget_each(&mut self.samples, range, self.block_bytes, |samples| add_products(counts, &samples));
            }
            Event::Code { .. } => {}
        }
    }

    fn finish(mut self: Box<Self>) -> Detected {
        self.samples.values().for_each(|samples| add_products(&mut self.counts, samples));
        let occasions = self.loads.iter().sum();
        Detected { matrix: self.counts.matrix(), looked: self.sampled, occasions, overhead: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, named};
    use cohabit_access::AccessKind::{self, Read, ReadWrite, Write};
    use proptest::prelude::*;

    const LINE: u64 = 64;

    fn found(name: &str, list: &[(u32, AccessKind, u64)], times: usize) -> (u64, u64) {
        let mut detector = (named(name).unwrap().make)(&Setting::new(3));
        for &(task, kind, line) in std::iter::repeat_n(list, times).flatten() {
            detector.take(&Event::Access(Access::new(task, kind, line * LINE, 8)));
        }
        let found = detector.finish();
        (found.looked, found.matrix.get(0, 1))
    }

    /// By hand: two tasks that pass a line to and fro; readers of what a third wrote; and nothing that is each one's
    /// own.
    #[test]
    fn loads_of_what_another_core_has_changed_are_sampled() {
        let to_and_fro = [(0, ReadWrite, 7), (1, ReadWrite, 7)];
        // Each but the first finds it changed by the other: of 1 to n samples of each, products 1 + 1 + 2 + 2 ...
        assert_eq!(found("hitm", &to_and_fro, 1), (1, 0));
        assert_eq!(found("hitm", &to_and_fro, 2), (3, 2));
        assert_eq!(found("slow-loads", &to_and_fro, 2), (4, 4));
        assert_eq!(found("hitm-100", &to_and_fro, 99).0, 0);
        assert_eq!(found("hitm-100", &to_and_fro, 100).0, 1);
        // The first reader is served by the writer's cache, the second by what all share.
        let readers = [(2, Write, 3), (0, Read, 3), (1, Read, 3)];
        assert_eq!(found("hitm", &readers, 1), (1, 0));
        assert_eq!(found("slow-loads", &readers, 1), (2, 1));
        let own = [(0, ReadWrite, 1), (1, ReadWrite, 2)];
        // Three of three tasks at one line are too many, at two lines they are pairs.
        let all = [(0, ReadWrite, 7), (1, ReadWrite, 7), (2, ReadWrite, 7)];
        assert_eq!(found("hitm", &all, 5), (14, 0));
        assert_eq!(found("hitm", &own, 5), (0, 0));
        assert_eq!(found("slow-loads", &own, 5), (2, 0));
    }

    /// What a line has become is looked up in all caches, and products are taken at the end.
    fn slow(setting: &Setting, wanted: Wanted, every: u64, events: &[Event]) -> Vec<u64> {
        type Held = (u64, bool);
        let sets = (setting.cache.bytes / LINE) as usize / setting.cache.ways;
        let mut caches: Vec<Vec<Vec<Held>>> = vec![vec![Vec::new(); sets]; setting.tasks];
        let (mut loads, mut samples) = (vec![0; setting.tasks], vec![Vec::new(); setting.tasks]);
        let mut products = vec![0; setting.tasks * setting.tasks];
        let close = |products: &mut Vec<u64>, samples: &mut Vec<Vec<u64>>, gone: &dyn Fn(u64) -> bool| {
            let sampled = |line: &u64| samples.iter().filter(|lines| lines.contains(line)).count();
            for a in 0..setting.tasks {
                for b in (0..setting.tasks).filter(|&b| b != a) {
                    for line in samples[a].iter().filter(|line| gone(**line) && sampled(line) <= 2) {
                        products[a * setting.tasks + b] +=
                            samples[b].iter().filter(|&other| other == line).count() as u64;
                    }
                }
            }
            samples.iter_mut().for_each(|lines| lines.retain(|&line| !gone(line)));
        };
        for event in events {
            match event {
                Event::Code { .. } => {}
                Event::Clear(range) => {
                    let gone = |line: u64| (range.start / LINE..range.end.div_ceil(LINE)).contains(&line);
                    caches.iter_mut().flatten().for_each(|set| set.retain(|held| !gone(held.0)));
                    close(&mut products, &mut samples, &gone);
                }
                Event::Access(access) => {
                    for line in access.address / LINE..=(access.address + u64::from(access.size_bytes) - 1) / LINE {
                        let (task, set) = (access.task as usize, line as usize % sets);
                        let changed = caches.iter().any(|core| core[set].contains(&(line, true)));
                        let own = caches[task][set].iter().position(|held| held.0 == line);
                        let mut held = own.map_or((line, false), |at| caches[task][set].remove(at));
                        if own.is_none() {
                            if caches[task][set].len() == setting.cache.ways {
                                caches[task][set].pop();
                            }
                            caches
                                .iter_mut()
                                .flat_map(|core| &mut core[set])
                                .filter(|other| other.0 == line)
                                .for_each(|other| other.1 = false);
                        }
                        if access.kind.writes() {
                            caches.iter_mut().for_each(|core| core[set].retain(|other| other.0 != line));
                            held.1 = true;
                        }
                        caches[task][set].insert(0, held);
                        if access.kind.reads() && own.is_none() && (changed || wanted == Wanted::NotOwn) {
                            loads[task] += 1;
                            if loads[task] % every == 0 {
                                samples[task].push(line);
                            }
                        }
                    }
                }
            }
        }
        close(&mut products, &mut samples, &|_| true);
        products
    }

    fn event() -> impl Strategy<Value = Event> {
        let kind = prop_oneof![Just(Read), Just(Write), Just(ReadWrite)];
        let access = (0..3u32, kind, 0u64..2_000, 1u32..100)
            .prop_map(|(task, kind, address, size)| Event::Access(Access::new(task, kind, address, size)));
        let clear = (0u64..2_000, 1u64..300).prop_map(|(start, bytes)| Event::Clear(start..start + bytes));
        prop_oneof![20 => access, 1 => clear]
    }

    proptest! {
        #[test]
        fn samples_and_products_are_the_slow_ones(events in prop::collection::vec(event(), 0..300), all in any::<bool>(), every in 1u64..4) {
            let setting = Setting { cache: Cache { bytes: 16 * LINE, ways: 2 }, ..Setting::new(3) };
            let wanted = if all { Wanted::NotOwn } else { Wanted::OtherCache };
            let mut counters = Box::new(Counters::new(&setting, wanted, every));
            events.iter().for_each(|event| counters.take(event));
            prop_assert_eq!(counters.finish().matrix.to_dense(), slow(&setting, wanted, every, &events));
        }
    }
}
