//! All caches together: who serves an access, who loses what by it, and what moves where.
//!
//! Each core has caches of its own, one level or several, and behind them there may be one level that several cores share.
//! The caches behind one last cache are a *domain*: inside, the shared cache and the cores' copies are kept the same by what
//! it knows of them; between domains, by the protocol. What a directory knows or a bus finds out is asked of
//! [`Lines`]; protocols differ in who gives a line and whether memory is written, directories and buses in who is asked.
//!
//! A line that is fetched is put into the caches from the L1 outwards; each line that has to make room is put away before the next
//! level is filled.

use crate::cache::{Cache, DIRTY, Entry, WRITABLE};
use crate::clock::Time;
use crate::fabric::Fabric;
use crate::lines::{Lines, NONE};
use crate::machine::{Contents, Machine, Protocol, Search, Write};
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
    /// When the access under way was made.
    time: Time,
}

impl<'a> Hierarchy<'a> {
    pub fn new(machine: &'a Machine, placement: Placement) -> Self {
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
            time: 0,
        }
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

    /// An access that the L1 alone cannot serve.
    pub fn access(&mut self, core: usize, line: u64, write: bool, now: Time) -> Outcome {
        self.time = now;
        let mut levels = 0..self.machine.private_levels;
        let held = levels.find_map(|level| Some((level, self.private[level][core].find(line)?)));
        if let Some((level, place)) = held {
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
        true
    }

    fn beyond(
        &mut self,
        core: usize,
        line: u64,
        record: u32,
        write: bool,
        held: Option<(usize, usize)>,
        now: Time,
    ) -> Outcome {
        let domain = self.machine.domain(core);
        let others = self.others_of(core, domain, record);
        let in_domain = held.is_some() || others.in_shared || !others.near.is_empty();
        let source = self.source(core, record, held.is_some(), &others);
        let touched = held.is_some() || self.pages.was_touched(line);
        let why = |lost: bool| match (touched, lost) {
            (_, true) => Miss::Coherence,
            (true, false) => Miss::Replacement,
            (false, false) => Miss::Compulsory,
        };
        let private_miss = held.is_none().then(|| why(self.lines.has_lost(record, core)));
        let last_miss = (!in_domain).then(|| why(self.lines.has_lost(record, self.machine.cores + domain)));
        let ready = self.lines.get(record).ready;
        let asked = now;
        let now = if write || source != Source::Memory { now.max(ready) } else { now };
        let alone = self.lines.get(record).exclusive == domain as u32;
        let mut outcome = self.fetch(core, line, record, source, &others, write, now);
        if write {
            outcome.invalidations = self.remove_others(line, record, &others);
            outcome.latency = outcome.latency.max(self.time_to_invalidate(core, line, source, alone, &others, now));
            outcome.upgrade = held.is_some() && (!alone || !others.near.is_empty());
        }
        if !in_domain || write && !alone {
            outcome.snoops += self.fabric.snoops(others.far_domains.len() as u64);
        }
        (outcome.private_miss, outcome.last_miss) = (private_miss, last_miss);
        let done = now + outcome.latency;
        outcome.latency = done - asked;
        let dirty = if others.in_shared { self.leave_shared(domain, line, record) } else { 0 };
        let bits = self.settle_request(core, domain, record, write, in_domain, &others) | dirty;
        let entry = self.lines.get_mut(record);
        if write || !matches!(source, Source::Shared | Source::Own) {
            entry.ready = entry.ready.max(done);
        }
        self.others = others;
        self.fill(core, domain, line, record, write, held, bits);
        outcome
    }

    /// The others that hold the line. The lists are used again and again.
    fn others_of(&mut self, core: usize, domain: usize, record: u32) -> Others {
        let mut others = std::mem::take(&mut self.others);
        others.near.clear();
        others.far.clear();
        others.far_domains.clear();
        others.in_shared = false;
        let cores = self.machine.cores;
        for holder in self.lines.holders(record).filter(|&holder| holder != core) {
            let of = if holder < cores { self.machine.domain(holder) } else { holder - cores };
            match (of == domain, holder < cores) {
                (true, true) => others.near.push(holder),
                (true, false) => others.in_shared = true,
                (false, true) => others.far.push(holder),
                (false, false) => {}
            }
            if of != domain && !others.far_domains.contains(&of) {
                others.far_domains.push(of);
            }
        }
        others
    }

    fn source(&self, core: usize, record: u32, held: bool, others: &Others) -> Source {
        let entry = self.lines.get(record);
        let nearest = |cores: &[usize]| cores.iter().copied().min_by_key(|&other| self.machine.transfer(core, other));
        if held {
            return Source::Own;
        }
        if others.near.contains(&(entry.writer as usize)) {
            return Source::Near(entry.writer as usize);
        }
        if others.in_shared {
            return Source::Shared;
        }
        if let Some(near) = nearest(&others.near) {
            return Source::Near(near);
        }
        if entry.supplier == NONE {
            return Source::Memory;
        }
        let supplier = entry.supplier as usize;
        let there = others.far.iter().copied().filter(|&other| self.machine.domain(other) == supplier);
        Source::Far(
            there.min_by_key(|&other| self.machine.transfer(core, other)).unwrap_or(self.fabric.first_core(supplier)),
        )
    }

    /// Gets the data: how long that takes, and what a read changes for those that had it.
    #[allow(clippy::too_many_arguments)]
    fn fetch(
        &mut self,
        core: usize,
        line: u64,
        record: u32,
        source: Source,
        others: &Others,
        write: bool,
        now: Time,
    ) -> Outcome {
        let last = self.machine.levels.len() - 1;
        let mut outcome = self.served_by_level(last);
        match source {
            Source::Own => {
                outcome.served = Served::L1;
                outcome.latency = 0;
            }
            Source::Shared => {
                let cache = &mut self.shared[self.machine.domain(core)];
                let place = cache.find(line).expect("its bit is set");
                cache.touch(place);
            }
            Source::Near(other) => {
                let mut changed = true;
                if self.lines.get(record).writer == other as u32 {
                    changed = self.is_dirty(other, line);
                    if !write {
                        self.take_permission(other, line, record);
                    }
                    outcome.snoops += 1;
                }
                if others.in_shared {
                    let cache = &mut self.shared[self.machine.domain(core)];
                    let place = cache.find(line).expect("its bit is set");
                    cache.touch(place);
                }
                // A copy that is not changed is given by the shared cache, once the core has said so.
                if changed || !others.in_shared {
                    outcome.served = Served::NearCache;
                    outcome.latency = self.machine.transfer(core, other);
                } else {
                    outcome.latency = outcome.latency.max(self.machine.transfer(core, other));
                }
            }
            Source::Far(other) => {
                outcome.served = Served::FarCache;
                outcome.latency = self.fabric.transfer(other, core, line, now);
                if !write {
                    self.share_with_far(core, line, record, others, now);
                }
            }
            Source::Memory => {
                let (node, near) = self.node(core, line);
                outcome.latency = self.fabric.read(core, node, line, now);
                outcome.served = if node == near { Served::LocalMemory } else { Served::RemoteMemory };
            }
        }
        outcome
    }

    fn node(&mut self, core: usize, line: u64) -> (usize, usize) {
        let near = self.machine.memory.node_of_core[core];
        (self.pages.touch(self.pages.page_of(line << self.machine.line_bits), near).0, near)
    }

    /// Whether any of the core's copies was written.
    fn is_dirty(&self, core: usize, line: u64) -> bool {
        let dirty = |cache: &Cache| cache.find(line).is_some_and(|place| cache.bits(place) & DIRTY != 0);
        self.private.iter().any(|level| dirty(&level[core]))
    }

    /// The writer may only read from now on; what it wrote goes to the shared cache, where that takes it.
    fn take_permission(&mut self, writer: usize, line: u64, record: u32) {
        let domain = self.machine.domain(writer);
        let takes = !self.shared.is_empty()
            && self.machine.levels[self.machine.levels.len() - 1].contents != Contents::Exclusive;
        let mut dirty = false;
        for level in 0..self.machine.private_levels {
            let cache = &mut self.private[level][writer];
            if let Some(place) = cache.find(line) {
                dirty |= cache.bits(place) & DIRTY != 0;
                cache.clear_bits(place, if takes { WRITABLE | DIRTY } else { WRITABLE });
            }
        }
        self.lines.get_mut(record).writer = NONE;
        if dirty && takes && !self.mark_shared_dirty(domain, line) {
            self.insert_shared(domain, line, DIRTY);
        }
    }

    /// A read by another domain of a line that a domain has for itself, or gives.
    fn share_with_far(&mut self, core: usize, line: u64, record: u32, others: &Others, now: Time) {
        let entry = self.lines.get(record).clone();
        if entry.exclusive != NONE {
            let owner = entry.exclusive as usize;
            if entry.writer != NONE {
                self.take_permission(entry.writer as usize, line, record);
            }
            let keeps = self.machine.protocol == Protocol::Moesi;
            let dirty = self.find_dirty(owner, line, others, !keeps);
            if dirty && !keeps {
                self.write_to_memory(owner, line, now);
            }
            let entry = self.lines.get_mut(record);
            entry.exclusive = NONE;
            entry.supplier = if dirty && keeps { owner as u32 } else { NONE };
        }
        if self.machine.protocol == Protocol::Mesif {
            self.lines.get_mut(record).supplier = self.machine.domain(core) as u32;
        }
    }

    /// Whether any copy of a domain was written; with `clean`, none is from now on.
    fn find_dirty(&mut self, domain: usize, line: u64, others: &Others, clean: bool) -> bool {
        let mut dirty = false;
        let mut look = |cache: &mut Cache| {
            if let Some(place) = cache.find(line) {
                dirty |= cache.bits(place) & DIRTY != 0;
                if clean {
                    cache.clear_bits(place, DIRTY);
                }
            }
        };
        for &core in others.far.iter().filter(|&&core| self.machine.domain(core) == domain) {
            self.private.iter_mut().for_each(|level| look(&mut level[core]));
        }
        if let Some(cache) = self.shared.get_mut(domain) {
            look(cache);
        }
        dirty
    }

    fn write_to_memory(&mut self, domain: usize, line: u64, now: Time) {
        let (node, _) = self.node(self.fabric.first_core(domain), line);
        self.fabric.write(domain, node, line, now);
        let last = self.machine.levels.len() - 1;
        self.reports[last][domain].write_backs += 1;
        if let Some(record) = self.lines.find(line) {
            let owned = self.machine.protocol == Protocol::Moesi && self.lines.get(record).exclusive == NONE;
            if owned {
                self.lines.get_mut(record).supplier = NONE;
            }
        }
    }

    /// All other copies go; how many they were, the copies of one core being one.
    fn remove_others(&mut self, line: u64, record: u32, others: &Others) -> u64 {
        for &other in others.near.iter().chain(&others.far) {
            for level in 0..self.machine.private_levels {
                if self.private[level][other].remove(line).is_some() {
                    self.reports[level][other].invalidations += 1;
                }
            }
            self.lines.lose(record, other);
            self.lost.push((other, line));
        }
        let mut count = (others.near.len() + others.far.len()) as u64;
        for &domain in &others.far_domains {
            if self.shared.get_mut(domain).is_some_and(|cache| cache.remove(line).is_some()) {
                self.reports[self.machine.levels.len() - 1][domain].invalidations += 1;
                count += 1;
            }
            self.lines.lose(record, self.machine.cores + domain);
        }
        count
    }

    /// How long it takes until the farthest of the others has given its copy up.
    fn time_to_invalidate(
        &mut self,
        core: usize,
        line: u64,
        source: Source,
        alone: bool,
        others: &Others,
        now: Time,
    ) -> Time {
        let near = others.near.iter().map(|&other| self.machine.transfer(core, other)).max().unwrap_or(0);
        if alone || source == Source::Memory && others.far_domains.is_empty() {
            return near;
        }
        let given = if let Source::Far(other) = source { self.machine.domain(other) } else { usize::MAX };
        let own = self.machine.domain(core);
        let asked: Vec<usize> = match self.machine.search {
            Search::Directory => others.far_domains.iter().copied().filter(|&domain| domain != given).collect(),
            // The one question that found the line took the others' copies too.
            Search::Snooping if given != usize::MAX => Vec::new(),
            Search::Snooping => (0..self.machine.domains()).filter(|&domain| domain != own).collect(),
        };
        let asked: Vec<usize> = asked.into_iter().map(|domain| self.fabric.first_core(domain)).collect();
        let last = self.machine.levels[self.machine.levels.len() - 1].latency;
        near.max(last).max(self.fabric.invalidate(core, &asked, line, now))
    }

    /// A shared cache that holds nothing that the cores hold gives the line away; whether it was written.
    fn leave_shared(&mut self, domain: usize, line: u64, record: u32) -> u64 {
        if self.machine.levels[self.machine.levels.len() - 1].contents != Contents::Exclusive {
            return 0;
        }
        let bits = self.shared[domain].remove(line).unwrap_or(0);
        self.lines.clear(record, self.machine.cores + domain);
        bits & DIRTY
    }

    /// Who has which rights from now on; what the core's copies are marked with.
    fn settle_request(
        &mut self,
        core: usize,
        domain: usize,
        record: u32,
        write: bool,
        in_domain: bool,
        others: &Others,
    ) -> u64 {
        let entry = self.lines.get_mut(record);
        let nobody = !in_domain && others.far_domains.is_empty();
        if write || nobody {
            entry.exclusive = domain as u32;
            entry.supplier = domain as u32;
        } else if self.machine.protocol == Protocol::Mesif && !in_domain {
            entry.supplier = domain as u32;
        }
        if write || entry.exclusive == domain as u32 && others.near.is_empty() {
            entry.writer = core as u32;
            return WRITABLE;
        }
        0
    }

    #[allow(clippy::too_many_arguments)]
    fn fill(
        &mut self,
        core: usize,
        domain: usize,
        line: u64,
        record: u32,
        write: bool,
        held: Option<(usize, usize)>,
        bits: u64,
    ) {
        self.lines.set(record, core);
        self.lines.regain(record, self.machine.cores + domain);
        match held {
            Some((level, _)) => {
                let mut bits = bits;
                if level > 0 && self.machine.levels[level].contents == Contents::Exclusive {
                    bits |= self.private[level][core].remove(line).unwrap_or(0);
                }
                self.fill_private(core, line, bits, 0..level);
            }
            None => {
                self.fill_private(core, line, bits, 0..self.machine.private_levels);
                let last = &self.machine.levels[self.machine.levels.len() - 1];
                let takes = !self.shared.is_empty() && last.contents != Contents::Exclusive;
                if takes && self.shared[domain].find(line).is_none() {
                    self.insert_shared(domain, line, 0);
                }
            }
        }
        if write {
            self.mark_written(core, line);
        }
    }

    fn insert_private(&mut self, level: usize, core: usize, line: u64, bits: u64) {
        self.reports[level][core].fills += 1;
        if let Some(entry) = self.private[level][core].insert(line, bits) {
            self.reports[level][core].evictions += 1;
            self.put_away(level, core, entry);
        }
    }

    /// A line makes room in one of a core's own caches.
    fn put_away(&mut self, level: usize, core: usize, entry: Entry) {
        let Entry { line, mut bits } = entry;
        if self.machine.levels[level].contents == Contents::Inclusive {
            for below in 0..level {
                if let Some(found) = self.private[below][core].remove(line) {
                    self.reports[below][core].back_invalidations += 1;
                    bits |= found;
                }
            }
        }
        let below = (0..level).find(|&below| self.private[below][core].find(line).is_some());
        let dirty = bits & DIRTY != 0;
        let next = self.machine.levels.get(level + 1);
        let exclusive = next.is_some_and(|next| next.contents == Contents::Exclusive);
        if dirty {
            self.reports[level][core].write_backs += u64::from(next.is_some());
        }
        if let (true, true, Some(below)) = (dirty, exclusive, below) {
            // The next level holds nothing that is held here: what was written stays with the inner copy.
            let cache = &mut self.private[below][core];
            let place = cache.find(line).expect("it was found");
            cache.set_bits(place, DIRTY);
            return;
        }
        if level + 1 < self.machine.private_levels {
            if let Some(place) = self.private[level + 1][core].find(line) {
                let cache = &mut self.private[level + 1][core];
                if dirty {
                    let place = cache.touch(place);
                    cache.set_bits(place, DIRTY);
                }
                return;
            }
            if dirty || exclusive && below.is_none() {
                self.insert_private(level + 1, core, line, bits);
                return;
            }
        } else {
            self.put_away_shared(core, line, bits, exclusive && below.is_none());
        }
        let anywhere = (0..self.machine.private_levels).any(|level| self.private[level][core].find(line).is_some());
        if !anywhere {
            self.gone_from_core(core, line);
        }
    }

    /// A line leaves a core's outermost cache.
    fn put_away_shared(&mut self, core: usize, line: u64, bits: u64, exclusive: bool) {
        let domain = self.machine.domain(core);
        let dirty = bits & DIRTY != 0;
        if self.shared.is_empty() {
            if dirty {
                self.write_to_memory(domain, line, self.now(line));
            }
        } else if dirty {
            if !self.mark_shared_dirty(domain, line) {
                self.insert_shared(domain, line, DIRTY);
            }
        } else if exclusive && self.shared[domain].find(line).is_none() {
            self.insert_shared(domain, line, 0);
        }
    }

    /// When a line that is written back can leave: not before it is here.
    fn now(&self, line: u64) -> Time {
        let ready = self.lines.find(line).map_or(0, |record| self.lines.get(record).ready);
        ready.max(self.time)
    }

    fn insert_shared(&mut self, domain: usize, line: u64, bits: u64) {
        let level = self.machine.levels.len() - 1;
        let record = self.lines.find(line).expect("a line that is put in has a record");
        self.lines.set(record, self.machine.cores + domain);
        self.reports[level][domain].fills += 1;
        if let Some(entry) = self.shared[domain].insert(line, bits) {
            self.reports[level][domain].evictions += 1;
            self.put_away_last(domain, entry);
        }
    }

    /// A line makes room in a shared cache.
    fn put_away_last(&mut self, domain: usize, entry: Entry) {
        let Entry { line, mut bits } = entry;
        let record = self.lines.find(line).expect("a line that is held has a record");
        self.lines.clear(record, self.machine.cores + domain);
        if self.machine.levels[self.machine.levels.len() - 1].contents == Contents::Inclusive {
            let cores = self.machine.cores;
            let holders = self.lines.holders(record).filter(|&holder| holder < cores);
            let inside: Vec<usize> = holders.filter(|&core| self.machine.domain(core) == domain).collect();
            for core in inside {
                for level in 0..self.machine.private_levels {
                    if let Some(found) = self.private[level][core].remove(line) {
                        self.reports[level][core].back_invalidations += 1;
                        bits |= found;
                    }
                }
                self.lines.clear(record, core);
                let entry = self.lines.get_mut(record);
                if entry.writer == core as u32 {
                    entry.writer = NONE;
                }
            }
        }
        if bits & DIRTY != 0 {
            self.write_to_memory(domain, line, self.now(line));
        }
        self.settle(record, domain);
    }

    fn gone_from_core(&mut self, core: usize, line: u64) {
        let record = self.lines.find(line).expect("a line that is held has a record");
        self.lines.clear(record, core);
        let entry = self.lines.get_mut(record);
        if entry.writer == core as u32 {
            entry.writer = NONE;
        }
        self.settle(record, self.machine.domain(core));
    }

    /// A domain may have lost its last copy.
    fn settle(&mut self, record: u32, domain: usize) {
        if !self.lines.is_held(record) {
            self.lines.forget(record);
            return;
        }
        let entry = self.lines.get(record);
        if entry.supplier != domain as u32 && entry.exclusive != domain as u32 {
            return;
        }
        let cores = self.machine.cores;
        let of = |holder: usize| if holder < cores { self.machine.domain(holder) } else { holder - cores };
        if !self.lines.holders(record).any(|holder| of(holder) == domain) {
            let entry = self.lines.get_mut(record);
            (entry.exclusive, entry.supplier) = (NONE, NONE);
        }
    }

    /// The memory at these addresses is new: what caches hold of it is forgotten. The pages.
    pub fn unmap(&mut self, range: &Range<u64>) -> Vec<u64> {
        let (pages, lines) = self.pages.unmap(range, self.machine.line_bits);
        for line in lines {
            let Some(record) = self.lines.find(line) else { continue };
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
        pages
    }

    /// What each cache did.
    pub fn report(&self) -> Vec<CacheReport> {
        self.reports.iter().flatten().cloned().collect()
    }
}
