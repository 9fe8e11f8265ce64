//! All caches together: who serves an access, who loses what by it, and what moves where.
//!
//! Each core has caches of its own, one level or several, and behind them there may be one level that several cores
//! share. The caches behind one last cache are a *domain*: inside, the shared cache and the cores' copies are kept the
//! same by what it knows of them; between domains, by the protocol. What a directory knows or a bus finds out is asked
//! of [`Lines`]; protocols differ in who gives a line and whether memory is written, directories and buses in who is
//! asked.
//!
//! A line that is fetched is put into the caches from the L1 outwards; each line that has to make room is put away
//! before the next level is filled.

mod request;
mod room;

use crate::cache::{Cache, DIRTY, WRITABLE};
use crate::classify::Classifier;
use crate::clock::Time;
use crate::fabric::Fabric;
use crate::lines::Lines;
use crate::machine::{Contents, Machine, Write};
use crate::pages::{Pages, Placement};
use crate::report::{CacheReport, Served};
use std::ops::Range;

/// Why a line was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    Compulsory,
    Replacement,
    Coherence,
}

/// What became of an access that the L1 alone could not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub latency: Time,
    pub served: Served,
    /// The core's own caches did not have it.
    pub private_miss: Option<Miss>,
    /// Nor did any cache of the domain.
    pub last_miss: Option<Miss>,
    /// A store to a line that the core could only read.
    pub upgrade: bool,
    /// Copies that it took away.
    pub invalidations: u64,
    /// Caches that were asked.
    pub snoops: u64,
}

/// Who gives the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The core's own caches have it, but may only read it.
    Own,
    /// The domain's shared cache.
    Shared,
    /// Another core of the domain.
    Near(usize),
    /// Another domain; a core there.
    Far(usize),
    Memory,
}

/// The holders of a line apart from the core that asks and its shared cache.
#[derive(Debug, Default)]
struct Others {
    near: Vec<usize>,
    far: Vec<usize>,
    far_domains: Vec<usize>,
    in_shared: bool,
}

pub(crate) struct Hierarchy<'a> {
    machine: &'a Machine,
    /// `[level][core]`.
    private: Vec<Vec<Cache>>,
    /// `[domain]`; empty where each core is a domain.
    shared: Vec<Cache>,
    lines: Lines,
    pub fabric: Fabric<'a>,
    pub pages: Pages,
    /// `[level][cache]`.
    reports: Vec<Vec<CacheReport>>,
    /// Copies that cores lost to stores of others since this was last emptied.
    pub lost: Vec<(usize, u64)>,
    others: Others,
    /// Why lines are not there, where that is asked.
    pub classifier: Option<Box<Classifier<'a>>>,
    /// When the access under way was made.
    time: Time,
}

impl<'a> Hierarchy<'a> {
    pub fn new(machine: &'a Machine, placement: Placement, classify: bool) -> Self {
        let cache = |level: usize| {
            let level = &machine.levels[level];
            Cache::new(level.sets, level.ways, level.replacement)
        };
        let private = (0..machine.private_levels).map(|level| vec![cache(level); machine.cores]).collect();
        let shared =
            (machine.private_levels..machine.levels.len()).flat_map(|level| vec![cache(level); machine.domains()]);
        let report = |level: &crate::machine::Level| {
            let report = |number| CacheReport { level: level.number, number, ..CacheReport::default() };
            (0..level.caches).map(report).collect()
        };
        Self {
            machine,
            private,
            shared: shared.collect(),
            lines: Lines::new(machine.cores + machine.domains()),
            fabric: Fabric::new(machine),
            pages: Pages::new(placement, machine.memory.nodes, machine.page_bits()),
            reports: machine.levels.iter().map(report).collect(),
            lost: Vec::new(),
            others: Others::default(),
            classifier: classify.then(|| Box::new(Classifier::new(machine))),
            time: 0,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// Whether the L1 alone can serve it, and then what that changes there.
    #[inline]
    pub fn hits_first(&mut self, core: usize, line: u64, write: bool) -> bool {
        let cache = &mut self.private[0][core];
        let Some(place) = cache.find(line) else { return false };
        if write && cache.bits(place) & WRITABLE == 0 {
            return false;
        }
        let place = cache.touch(place);
        if write && self.machine.levels[0].write == Write::Back {
            cache.set_bits(place, DIRTY);
        }
        true
    }

    /// What [`Hierarchy::hits_first`] leaves out, because hardly anybody asks: the line is used, and others' are old.
    pub fn note_hit(&mut self, core: usize, line: u64, write: bool) {
        if let Some(classifier) = &mut self.classifier {
            classifier.touch(0, core, line);
            if write {
                classifier.write(core, line);
            }
        }
    }

    /// Notes why the caches of a core up to the one that has the line do not.
    fn look_up(&mut self, core: usize, line: u64, write: bool, held: Option<usize>) {
        let Some(mut classifier) = self.classifier.take() else { return };
        let (cores, domain) = (self.machine.cores, self.machine.domain(core));
        let holders: Vec<usize> =
            self.lines.find(line).map_or(Vec::new(), |record| self.lines.holders(record).collect());
        classifier.look_up(core, line, held.unwrap_or(self.machine.levels.len()), |level| {
            holders.iter().any(|&holder| match holder.checked_sub(cores) {
                Some(other) => level >= self.machine.private_levels && other != domain,
                None => {
                    let private = self.private.get(level);
                    holder != core && private.is_some_and(|caches| caches[holder].find(line).is_some())
                }
            })
        });
        if write {
            classifier.write(core, line);
        }
        self.classifier = Some(classifier);
    }

    /// A line is used in a cache, or comes into it.
    fn used(&mut self, level: usize, cache: usize, line: u64) {
        if let Some(classifier) = &mut self.classifier {
            classifier.touch(level, cache, line);
        }
    }

    /// A cache gives a line away.
    fn gives(&mut self, level: usize, cache: usize, line: u64) {
        if let Some(classifier) = &mut self.classifier {
            classifier.give(level, cache, line);
        }
    }

    /// An access that the L1 alone cannot serve.
    pub fn access(&mut self, core: usize, line: u64, write: bool, now: Time) -> Outcome {
        self.time = now;
        let mut levels = 0..self.machine.private_levels;
        let held = levels.find_map(|level| Some((level, self.private[level][core].find(line)?)));
        if self.classifier.is_some() {
            self.look_up(core, line, write, held.map(|(level, _)| level));
        }
        if let Some((level, place)) = held {
            self.used(level, core, line);
            let cache = &mut self.private[level][core];
            let place = cache.touch(place);
            if !write || cache.bits(place) & WRITABLE != 0 {
                self.pull_up(core, line, level, place, write);
                return self.served_by_level(level);
            }
        }
        let record = self.lines.find_or_add(line);
        if write && held.is_some() && self.lines.get(record).writer == core as u32 {
            // A write-through L1 that has only read it so far.
            self.grant_own(core, line, held);
            return self.served_by_level(1);
        }
        self.beyond(core, line, record, write, held, now)
    }

    fn served_by_level(&self, level: usize) -> Outcome {
        let level = &self.machine.levels[level];
        Outcome {
            latency: level.latency,
            served: Served::level(level.number),
            private_miss: None,
            last_miss: None,
            upgrade: false,
            invalidations: 0,
            snoops: 0,
        }
    }

    /// A line of one of the core's outer caches comes to the inner ones.
    fn pull_up(&mut self, core: usize, line: u64, level: usize, place: usize, write: bool) {
        let mut bits = self.private[level][core].bits(place);
        if level > 0 && self.machine.levels[level].contents == Contents::Exclusive {
            self.private[level][core].remove(line);
            self.gives(level, core, line);
        } else {
            bits &= WRITABLE;
        }
        self.fill_private(core, line, bits, 0..level);
        if write {
            self.mark_written(core, line);
        }
    }

    /// Puts a line into those of a core's caches that are filled with what passes.
    fn fill_private(&mut self, core: usize, line: u64, bits: u64, levels: Range<usize>) {
        for level in levels {
            let through = self.machine.levels[0].write == Write::Through;
            let bits = match level {
                // What is written there at once must be seen to be; what was written is in the next level.
                0 if through => 0,
                0 => bits,
                1 if through => bits,
                _ => bits & WRITABLE,
            };
            if level == 0 || self.machine.levels[level].contents != Contents::Exclusive {
                self.insert_private(level, core, line, bits);
            }
        }
    }

    /// The core writes a line that it holds in its L1 and that nobody else holds.
    fn mark_written(&mut self, core: usize, line: u64) {
        let through = self.machine.levels[0].write == Write::Through;
        if let Some(place) = self.private[0][core].find(line) {
            self.private[0][core].set_bits(place, if through { WRITABLE } else { WRITABLE | DIRTY });
        }
        for level in 1..self.machine.private_levels {
            if let Some(place) = self.private[level][core].find(line) {
                let dirty = if through && level == 1 { DIRTY } else { 0 };
                self.private[level][core].set_bits(place, WRITABLE | dirty);
            }
        }
        if through && self.machine.private_levels == 1 {
            let cache = &mut self.shared[self.machine.domain(core)];
            if let Some(place) = cache.find(line) {
                cache.set_bits(place, DIRTY);
            }
        }
    }

    fn grant_own(&mut self, core: usize, line: u64, held: Option<(usize, usize)>) {
        if let Some((level, _)) = held.filter(|&(level, _)| level > 0) {
            self.fill_private(core, line, WRITABLE, 0..level);
        }
        self.mark_written(core, line);
    }

    /// Whether the domain's shared cache has it; it is then dirty, and used at this moment.
    fn mark_shared_dirty(&mut self, domain: usize, line: u64) -> bool {
        let Some(cache) = self.shared.get_mut(domain) else { return false };
        let Some(place) = cache.find(line) else { return false };
        let place = cache.touch(place);
        cache.set_bits(place, DIRTY);
        self.used(self.machine.levels.len() - 1, domain, line);
        true
    }

    /// The memory at these addresses is new: what caches hold of it is forgotten. The pages.
    pub fn unmap(&mut self, range: &Range<u64>) -> Vec<u64> {
        let (pages, lines) = self.pages.unmap(range, self.machine.line_bits);
        lines.into_iter().for_each(|line| self.drop_line(line, true));
        pages
    }

    /// No cache has the line any more, and nothing is written; `new`: nor was it ever touched.
    pub fn drop_line(&mut self, line: u64, new: bool) {
        if let Some(classifier) = &mut self.classifier {
            classifier.forget(line, new);
        }
        let Some(record) = self.lines.find(line) else { return };
        let holders: Vec<usize> = self.lines.holders(record).collect();
        for holder in holders {
            match holder.checked_sub(self.machine.cores) {
                Some(domain) => {
                    self.shared[domain].remove(line);
                }
                None => self.private.iter_mut().for_each(|level| {
                    level[holder].remove(line);
                }),
            }
        }
        self.lines.forget(record);
    }

    /// What each cache did.
    pub fn report(&self) -> Vec<CacheReport> {
        self.reports.iter().flatten().cloned().collect()
    }
}
