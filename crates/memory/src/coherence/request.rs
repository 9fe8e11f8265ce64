//! What the core's own caches cannot serve: who has the line, who gives it, who loses it, and who has which rights
//! then.

use super::{Hierarchy, Miss, Others, Outcome, Source};
use crate::cache::{Cache, DIRTY, WRITABLE};
use crate::clock::Time;
use crate::lines::NONE;
use crate::machine::{Contents, Protocol, Search};
use crate::report::Served;

impl Hierarchy<'_> {
    pub(super) fn beyond(
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
                self.used(last, self.machine.domain(core), line);
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
                    self.used(last, self.machine.domain(core), line);
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

    pub(super) fn write_to_memory(&mut self, domain: usize, line: u64, now: Time) {
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
                    if let Some(classifier) = &mut self.classifier {
                        classifier.lose(level, other, line);
                    }
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
            if let Some(classifier) = &mut self.classifier {
                classifier.lose_last(domain, line);
            }
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
        self.gives(self.machine.levels.len() - 1, domain, line);
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
}
