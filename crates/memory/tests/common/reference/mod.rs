//! The slow and obvious simulator: one access after another, no directory, every question answered by looking at all
//! caches. Copies carry the number of the write that made them, so that a read of an old value is found at once.

mod cache;
mod room;

use cache::{Cache, Copy};
use cohabit_memory::machine::{Contents, Machine, Protocol, Write};
use cohabit_memory::report::{LevelMisses, MissKinds, Served, ServedCounts};
use std::collections::{BTreeMap, BTreeSet};

/// A line in a domain: E is E or M.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    E,
    O,
    F,
    S,
}

/// What one task met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub loads: ServedCounts,
    pub stores: ServedCounts,
    pub private: MissKinds,
    pub last: MissKinds,
    pub upgrades: u64,
    pub invalidations: u64,
    pub misses: Vec<LevelMisses>,
}

pub struct Reference<'a> {
    machine: &'a Machine,
    /// `[level][core]`.
    pub own: Vec<Vec<Cache>>,
    /// `[domain]`; empty where each core is one.
    pub last: Vec<Cache>,
    may_write: BTreeMap<u64, usize>,
    rights: BTreeMap<(u64, usize), Rights>,
    memory: BTreeMap<u64, u64>,
    truth: BTreeMap<u64, u64>,
    touched: BTreeSet<u64>,
    lost: BTreeSet<(u64, usize)>,
    lost_by_domain: BTreeSet<(u64, usize)>,
    /// For the kinds of misses: level, cache and line of all that was ever looked for; core and line of what was lost
    /// to writes of others, and the lowest level that lost it; domain and line of what was; what was found out of the
    /// access under way.
    known: BTreeSet<(usize, usize, u64)>,
    lost_at: BTreeMap<(usize, u64), usize>,
    lost_by_last: BTreeSet<(usize, u64)>,
    found: Vec<(&'static str, bool)>,
    pages: BTreeMap<u64, usize>,
    pub memory_writes: u64,
    pub counts: Vec<Counts>,
}

impl<'a> Reference<'a> {
    pub fn new(machine: &'a Machine, tasks: usize) -> Self {
        let cache = |level: usize| {
            let level = &machine.levels[level];
            Cache::new(level.sets, level.ways, level.replacement)
        };
        let own = (0..machine.private_levels).map(|level| (0..machine.cores).map(|_| cache(level)).collect()).collect();
        let last = if machine.levels.len() > machine.private_levels {
            (0..machine.domains()).map(|_| cache(machine.levels.len() - 1)).collect()
        } else {
            Vec::new()
        };
        Self {
            machine,
            own,
            last,
            may_write: BTreeMap::new(),
            rights: BTreeMap::new(),
            memory: BTreeMap::new(),
            truth: BTreeMap::new(),
            touched: BTreeSet::new(),
            lost: BTreeSet::new(),
            lost_by_domain: BTreeSet::new(),
            known: BTreeSet::new(),
            lost_at: BTreeMap::new(),
            lost_by_last: BTreeSet::new(),
            found: Vec::new(),
            pages: BTreeMap::new(),
            memory_writes: 0,
            counts: vec![Counts::default(); tasks],
        }
    }

    fn through(&self) -> bool {
        self.machine.levels[0].write == Write::Through
    }

    fn contents(&self, level: usize) -> Contents {
        self.machine.levels[level].contents
    }

    fn last_contents(&self) -> Option<Contents> {
        (!self.last.is_empty()).then(|| self.contents(self.machine.levels.len() - 1))
    }

    fn core_has(&self, core: usize, line: u64) -> bool {
        self.own.iter().any(|level| level[core].has(line))
    }

    fn cores_of(&self, domain: usize) -> Vec<usize> {
        (0..self.machine.cores).filter(|&core| self.machine.domain(core) == domain).collect()
    }

    fn domain_has(&self, domain: usize, line: u64) -> bool {
        self.last.get(domain).is_some_and(|cache| cache.has(line))
            || self.cores_of(domain).into_iter().any(|core| self.core_has(core, line))
    }

    fn served(&mut self, task: usize, write: bool, served: Served) {
        let counts = &mut self.counts[task];
        *(if write { &mut counts.stores } else { &mut counts.loads }).at(served) += 1;
        let missed = match served {
            Served::L1 | Served::FillBuffer => 0,
            Served::L2 => 1,
            Served::L3 => 2,
            Served::L4 => 3,
            Served::NearCache => self.machine.private_levels,
            _ => self.machine.levels.len(),
        };
        let level =
            |level: &cohabit_memory::machine::Level| LevelMisses { level: level.number, ..LevelMisses::default() };
        if counts.misses.is_empty() {
            counts.misses = self.machine.levels.iter().map(level).collect();
        }
        for (level, &(kind, copied)) in self.found.iter().enumerate().take(missed) {
            let misses = &mut counts.misses[level];
            let copies = &mut misses.by_copies;
            match kind {
                "coherence" => misses.coherence += 1,
                "compulsory" => misses.compulsory += 1,
                "conflict" => misses.conflict += 1,
                _ => misses.capacity += 1,
            }
            match (kind, copied) {
                ("coherence", _) => copies.invalidation += 1,
                (_, true) => copies.replication += 1,
                _ => copies.capacity += 1,
            }
        }
    }

    fn is_own(&self, level: usize) -> bool {
        level < self.machine.private_levels
    }

    /// Why the first `levels` caches of a core do not have a line, and whether others of the same level do.
    fn why_not(&mut self, core: usize, line: u64, levels: usize) {
        let domain = self.machine.domain(core);
        self.found.clear();
        for level in 0..levels {
            let cache = if self.is_own(level) { core } else { domain };
            let (lost, copied) = if self.is_own(level) {
                let others = (0..self.machine.cores).filter(|&other| other != core);
                let lost = self.lost_at.get(&(core, line)).is_some_and(|&lowest| lowest <= level);
                (lost, others.into_iter().any(|other| self.own[level][other].has(line)))
            } else {
                let mut others = (0..self.machine.domains()).filter(|&other| other != domain);
                (self.lost_by_last.remove(&(domain, line)), others.any(|other| self.last[other].has(line)))
            };
            let first = self.known.insert((level, cache, line));
            let exclusive = self.contents(level) == Contents::Exclusive;
            let own = level < self.machine.private_levels;
            let full = if own { &mut self.own[level][core].full } else { &mut self.last[domain].full };
            let kind = match (lost, first) {
                (true, _) => "coherence",
                (_, true) => "compulsory",
                _ if full.contains(&line) => "conflict",
                _ => "capacity",
            };
            if exclusive {
                full.retain(|&other| other != line);
            }
            self.found.push((kind, copied));
        }
        self.lost_at.remove(&(core, line));
    }

    /// A core writes: no other cache has the line, nor would a fully associative one.
    fn take_from_others(&mut self, core: usize, line: u64) {
        for other in (0..self.machine.cores).filter(|&other| other != core) {
            for level in 0..self.machine.private_levels {
                let cache = &mut self.own[level][other];
                if cache.has(line) || cache.full.contains(&line) {
                    let lowest = self.lost_at.entry((other, line)).or_insert(level);
                    *lowest = level.min(*lowest);
                }
                cache.full.retain(|&other| other != line);
            }
        }
        let own = self.machine.domain(core);
        for other in (0..self.machine.domains()).filter(|&other| other != own) {
            let had = self.domain_has(other, line);
            let Some(last) = self.last.get_mut(other) else { continue };
            if had || last.full.contains(&line) {
                self.lost_by_last.insert((other, line));
            }
            last.full.retain(|&other| other != line);
        }
    }

    fn level_name(&self, level: usize) -> Served {
        [Served::L1, Served::L2, Served::L3, Served::L4][usize::from(self.machine.levels[level].number) - 1]
    }

    /// One access.
    pub fn access(&mut self, task: usize, core: usize, line: u64, write: bool) {
        self.found.clear();
        let mine = self.may_write.get(&line) == Some(&core);
        let held = (0..self.machine.private_levels).find(|&level| self.own[level][core].has(line));
        if let Some(level) = held {
            let through = self.through();
            let allowed = !write || mine && (level > 0 || !through || self.own[0][core].get(line).unwrap().written);
            if level > 0 || !allowed {
                self.why_not(core, line, level);
            }
            if write {
                self.take_from_others(core, line);
            }
            self.own[level][core].touch(line);
            if allowed {
                let served = self.level_name(level);
                self.served(task, write, served);
                self.pull_up(core, line, level);
                self.finish(core, line, write);
                return;
            }
            if mine {
                let served = self.level_name(1);
                self.served(task, write, served);
                self.pull_up(core, line, level);
                self.finish(core, line, write);
                return;
            }
        }
        if held.is_none() {
            self.why_not(core, line, self.machine.levels.len());
            if write {
                self.take_from_others(core, line);
            }
        }
        self.beyond(task, core, line, write, held);
        self.finish(core, line, write);
        self.check_line(line);
    }

    /// A page of these lines moves: memory has what was written last, and no cache anything.
    pub fn migrate(&mut self, lines: &std::ops::Range<u64>, node: usize) {
        self.pages.insert(lines.start << self.machine.line_bits >> self.machine.page_bits(), node);
        for line in lines.clone() {
            let newest = self.truth.get(&line).copied().unwrap_or(0);
            self.memory.insert(line, newest);
            for cache in self.own.iter_mut().flatten().chain(&mut self.last) {
                cache.give(line);
            }
            self.may_write.remove(&line);
            self.rights.retain(|&(of, _), _| of != line);
        }
    }

    /// The data is in the L1, or was and had to go at once: read or write it.
    fn finish(&mut self, core: usize, line: u64, write: bool) {
        let through = self.through();
        if write {
            let version = self.truth.entry(line).or_default();
            *version += 1;
            let version = *version;
            let copy = self.own[0][core].get(line).expect("what is written is in the L1");
            copy.version = version;
            if through {
                copy.written = true;
                let domain = self.machine.domain(core);
                let outer =
                    if self.machine.private_levels > 1 { &mut self.own[1][core] } else { &mut self.last[domain] };
                let copy = outer.get(line).expect("an L1 that writes through has what the L2 has");
                (copy.version, copy.dirty) = (version, true);
            } else {
                copy.dirty = true;
            }
        } else {
            let copy = self.own[0][core].get(line).expect("what is read is in the L1");
            assert_eq!(copy.version, self.truth.get(&line).copied().unwrap_or(0), "line {line}: an old value");
        }
    }

    /// One writer or many readers; only one domain may have it for itself.
    fn check_line(&self, line: u64) {
        let domains: Vec<usize> = (0..self.machine.domains()).filter(|&d| self.domain_has(d, line)).collect();
        if let Some(&writer) = self.may_write.get(&line) {
            let others = (0..self.machine.cores).filter(|&core| core != writer && self.core_has(core, line)).count();
            assert_eq!(others, 0, "line {line}: a writer and readers");
            assert_eq!(domains, [self.machine.domain(writer)], "line {line}: a writer and other domains");
        }
        let exclusive = domains.iter().filter(|&&d| self.rights[&(line, d)] == Rights::E).count();
        assert!(exclusive == 0 || domains.len() == 1, "line {line}: exclusive and elsewhere");
        let givers = domains.iter().filter(|&&d| self.rights[&(line, d)] != Rights::S).count();
        assert!(givers <= 1, "line {line}: two that give it");
        assert_eq!(self.rights.range((line, 0)..=(line, usize::MAX)).count(), domains.len());
    }

    fn beyond(&mut self, task: usize, core: usize, line: u64, write: bool, held: Option<usize>) {
        let domain = self.machine.domain(core);
        let near: Vec<usize> =
            self.cores_of(domain).into_iter().filter(|&other| other != core && self.core_has(other, line)).collect();
        let in_last = self.last.get(domain).is_some_and(|cache| cache.has(line));
        let in_domain = held.is_some() || in_last || !near.is_empty();
        let far: Vec<usize> =
            (0..self.machine.domains()).filter(|&d| d != domain && self.domain_has(d, line)).collect();
        let first = self.touched.insert(line);
        let kind = |lost: bool, kinds: &mut MissKinds| match (lost, first) {
            (true, _) => kinds.coherence += 1,
            (false, true) => kinds.compulsory += 1,
            (false, false) => kinds.replacement += 1,
        };
        // What was lost is forgotten once nobody has the line.
        let anywhere = in_domain || !far.is_empty();
        if held.is_none() {
            kind(anywhere && self.lost.contains(&(line, core)), &mut self.counts[task].private);
        }
        if !in_domain {
            kind(anywhere && self.lost_by_domain.contains(&(line, domain)), &mut self.counts[task].last);
        }
        let alone = self.rights.get(&(line, domain)) == Some(&Rights::E);
        let giver = far.iter().copied().find(|&d| self.rights[&(line, d)] != Rights::S);
        let writer = self.may_write.get(&line).copied();
        let writer_near = writer.filter(|writer| near.contains(writer));
        let nearest = near.iter().copied().min_by_key(|&other| self.machine.transfer(core, other));

        // Where it is served, and the data.
        let mut dirty = false;
        let (served, version) = if held.is_some() {
            (Served::L1, self.newest(core, line).unwrap().version)
        } else if let Some(writer) = writer_near {
            let copy = self.newest(writer, line).unwrap();
            let changed = self.own.iter_mut().any(|level| level[writer].get(line).is_some_and(|copy| copy.dirty));
            if in_last {
                self.last[domain].touch(line);
            }
            if !write {
                self.give_up_writing(writer, line);
            }
            let last = self.level_name(self.machine.levels.len() - 1);
            (if changed || !in_last { Served::NearCache } else { last }, copy.version)
        } else if in_last {
            self.last[domain].touch(line);
            (self.level_name(self.machine.levels.len() - 1), self.last[domain].get(line).unwrap().version)
        } else if let Some(near) = nearest {
            (Served::NearCache, self.newest(near, line).unwrap().version)
        } else if let Some(giver) = giver {
            let version = self.newest_of_domain(giver, line);
            (Served::FarCache, version)
        } else {
            let page = line << self.machine.line_bits >> self.machine.page_bits();
            let own = self.machine.memory.node_of_core[core];
            let node = *self.pages.entry(page).or_insert(own);
            let version = self.memory.get(&line).copied().unwrap_or(0);
            (if node == own { Served::LocalMemory } else { Served::RemoteMemory }, version)
        };
        self.served(task, write, served);

        if write {
            let lost_caches = far.iter().filter(|&&d| self.last.get(d).is_some_and(|cache| cache.has(line))).count();
            let others: Vec<usize> =
                (0..self.machine.cores).filter(|&other| other != core && self.core_has(other, line)).collect();
            self.counts[task].invalidations += (others.len() + lost_caches) as u64;
            self.counts[task].upgrades += u64::from(held.is_some() && (!alone || !near.is_empty()));
            for other in others {
                for level in &mut self.own {
                    level[other].invalidations += u64::from(level[other].take(line).is_some());
                }
                self.lost.insert((line, other));
            }
            for &other in &far {
                if let Some(cache) = self.last.get_mut(other) {
                    cache.invalidations += u64::from(cache.take(line).is_some());
                }
                self.rights.remove(&(line, other));
                self.lost_by_domain.insert((line, other));
            }
            self.may_write.insert(line, core);
            self.rights.insert((line, domain), Rights::E);
        } else if !in_domain {
            self.share(line, domain, &far, writer);
        }
        if !anywhere {
            self.lost.retain(|&(lost, _)| lost != line);
            self.lost_by_domain.retain(|&(lost, _)| lost != line);
        }
        let alone = self.rights.get(&(line, domain)) == Some(&Rights::E) && near.is_empty();
        if alone {
            self.may_write.insert(line, core);
        }
        self.lost.remove(&(line, core));
        self.lost_by_domain.remove(&(line, domain));

        // Where it goes.
        if in_last && self.last_contents() == Some(Contents::Exclusive) {
            dirty |= self.last[domain].give(line).unwrap().dirty;
        }
        let copy = Copy { line, dirty, written: false, version, used: 0 };
        match held {
            // It is about to be written: dirty by that, or, of an L1 that writes through, never.
            Some(0) => {}
            Some(level) => {
                let mut copy = copy;
                if self.contents(level) == Contents::Exclusive {
                    copy.dirty |= self.own[level][core].give(line).unwrap().dirty;
                }
                self.fill_own(core, copy, level);
            }
            None => {
                self.fill_own(core, copy, self.machine.private_levels);
                if self.last_contents().is_some_and(|contents| contents != Contents::Exclusive)
                    && !self.last[domain].has(line)
                {
                    self.put_last(domain, Copy { dirty: false, ..copy });
                }
            }
        }
    }

    /// A read by a domain that has no copy.
    fn share(&mut self, line: u64, domain: usize, far: &[usize], writer: Option<usize>) {
        let protocol = self.machine.protocol;
        let mut own = if far.is_empty() { Rights::E } else { Rights::S };
        if let Some(&owner) = far.iter().find(|&&d| self.rights[&(line, d)] == Rights::E) {
            if let Some(writer) = writer {
                self.give_up_writing(writer, line);
            }
            let version = self.newest_of_domain(owner, line);
            let dirty = self.domain_is_dirty(owner, line, protocol != Protocol::Moesi);
            let keeps = dirty && protocol == Protocol::Moesi;
            if dirty && !keeps {
                self.memory_writes += 1;
                self.memory.insert(line, version);
            }
            self.rights.insert((line, owner), if keeps { Rights::O } else { Rights::S });
        }
        if protocol == Protocol::Mesif && !far.is_empty() {
            for &other in far {
                self.rights.insert((line, other), Rights::S);
            }
            own = Rights::F;
        }
        self.rights.insert((line, domain), own);
    }

    fn newest(&mut self, core: usize, line: u64) -> Option<Copy> {
        (0..self.machine.private_levels).find_map(|level| self.own[level][core].get(line).copied())
    }

    fn newest_of_domain(&mut self, domain: usize, line: u64) -> u64 {
        let cores = self.cores_of(domain);
        let of_cores: Vec<u64> =
            cores.into_iter().filter_map(|core| self.newest(core, line)).map(|copy| copy.version).collect();
        let last = self.last.get_mut(domain).and_then(|cache| cache.get(line)).map(|copy| copy.version);
        of_cores.into_iter().chain(last).max().expect("it has the line")
    }

    fn domain_is_dirty(&mut self, domain: usize, line: u64, clean: bool) -> bool {
        let cores = self.cores_of(domain);
        let mut dirty = false;
        for level in &mut self.own {
            for &core in &cores {
                if let Some(copy) = level[core].get(line) {
                    dirty |= copy.dirty;
                    copy.dirty &= !clean;
                }
            }
        }
        if let Some(copy) = self.last.get_mut(domain).and_then(|cache| cache.get(line)) {
            dirty |= copy.dirty;
            copy.dirty &= !clean;
        }
        dirty
    }

    fn give_up_writing(&mut self, writer: usize, line: u64) {
        self.may_write.remove(&line);
        let takes = self.last_contents().is_some_and(|contents| contents != Contents::Exclusive);
        let newest = self.newest(writer, line).unwrap();
        let mut dirty = false;
        for level in &mut self.own {
            if let Some(copy) = level[writer].get(line) {
                dirty |= copy.dirty;
                copy.written = false;
                copy.dirty &= !takes;
                // What is read from now on is the newest.
                copy.version = newest.version;
            }
        }
        if dirty && takes {
            let domain = self.machine.domain(writer);
            match self.last[domain].get(line) {
                Some(copy) => {
                    (copy.dirty, copy.version) = (true, newest.version);
                    self.last[domain].touch(line);
                }
                None => self.put_last(domain, Copy { dirty: true, ..newest }),
            }
        }
    }

    fn write_memory(&mut self, domain: usize, copy: Copy) {
        self.memory_writes += 1;
        self.memory.insert(copy.line, copy.version);
        if self.rights.get(&(copy.line, domain)) == Some(&Rights::O) {
            self.rights.insert((copy.line, domain), Rights::S);
        }
    }
}
