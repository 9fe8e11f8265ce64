//! Where a line goes when it is fetched, and what makes room for it.

use super::Hierarchy;
use crate::cache::{DIRTY, Entry};
use crate::clock::Time;
use crate::lines::NONE;
use crate::machine::Contents;

impl Hierarchy<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn fill(
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
                    self.gives(level, core, line);
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

    pub(super) fn insert_private(&mut self, level: usize, core: usize, line: u64, bits: u64) {
        self.reports[level][core].fills += 1;
        self.used(level, core, line);
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
                    self.used(level + 1, core, line);
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

    pub(super) fn insert_shared(&mut self, domain: usize, line: u64, bits: u64) {
        let level = self.machine.levels.len() - 1;
        let record = self.lines.find(line).expect("a line that is put in has a record");
        self.lines.set(record, self.machine.cores + domain);
        self.reports[level][domain].fills += 1;
        self.used(level, domain, line);
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
}
