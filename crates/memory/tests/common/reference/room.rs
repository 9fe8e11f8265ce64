//! Copies put into caches, and what happens to those that make room for them.

use super::{Contents, Copy, Reference};

impl Reference<'_> {
    pub(super) fn pull_up(&mut self, core: usize, line: u64, level: usize) {
        let mut copy = *self.own[level][core].get(line).unwrap();
        if level == 0 {
            return;
        }
        if self.contents(level) == Contents::Exclusive {
            self.own[level][core].give(line);
        } else {
            copy.dirty = false;
        }
        self.fill_own(core, copy, level);
    }

    pub(super) fn fill_own(&mut self, core: usize, copy: Copy, levels: usize) {
        for level in 0..levels {
            if level == 0 || self.contents(level) != Contents::Exclusive {
                let dirty = copy.dirty && level == usize::from(self.through());
                self.put_own(level, core, Copy { dirty, written: false, ..copy });
            }
        }
    }

    pub(super) fn put_own(&mut self, level: usize, core: usize, copy: Copy) {
        let Some(mut gone) = self.own[level][core].put(copy) else { return };
        let line = gone.line;
        if self.contents(level) == Contents::Inclusive {
            for below in (0..level).rev() {
                if let Some(inner) = self.own[below][core].take(line) {
                    self.own[below][core].back_invalidations += 1;
                    if inner.dirty {
                        gone = inner;
                    }
                }
            }
        }
        let below = (0..level).find(|&below| self.own[below][core].has(line));
        let outer = level + 1;
        let exclusive = outer < self.machine.levels.len() && self.contents(outer) == Contents::Exclusive;
        if let (true, true, Some(below)) = (gone.dirty, exclusive, below) {
            self.own[below][core].get(line).unwrap().dirty = true;
            return;
        }
        if outer < self.machine.private_levels {
            if let Some(copy) = self.own[outer][core].get(line) {
                if gone.dirty {
                    (copy.dirty, copy.version) = (true, gone.version);
                    self.own[outer][core].touch(line);
                }
                return;
            }
            if gone.dirty || exclusive && below.is_none() {
                self.put_own(outer, core, Copy { written: false, ..gone });
                return;
            }
        } else if self.last.is_empty() {
            if gone.dirty {
                self.write_memory(core, gone);
            }
        } else {
            let domain = self.machine.domain(core);
            match self.last[domain].get(line) {
                Some(copy) if gone.dirty => {
                    (copy.dirty, copy.version) = (true, gone.version);
                    self.last[domain].touch(line);
                }
                Some(_) => {}
                None if gone.dirty || exclusive && below.is_none() => self.put_last(domain, gone),
                None => {}
            }
        }
        if !self.core_has(core, line) {
            if self.may_write.get(&line) == Some(&core) {
                self.may_write.remove(&line);
            }
            self.forget_rights(self.machine.domain(core), line);
        }
    }

    pub(super) fn put_last(&mut self, domain: usize, copy: Copy) {
        let Some(mut gone) = self.last[domain].put(copy) else { return };
        let line = gone.line;
        if self.last_contents() == Some(Contents::Inclusive) {
            for core in self.cores_of(domain) {
                for level in (0..self.machine.private_levels).rev() {
                    if let Some(inner) = self.own[level][core].take(line) {
                        self.own[level][core].back_invalidations += 1;
                        if inner.dirty {
                            gone = inner;
                        }
                    }
                }
                if self.may_write.get(&line) == Some(&core) {
                    self.may_write.remove(&line);
                }
            }
        }
        if gone.dirty {
            self.write_memory(domain, gone);
        }
        self.forget_rights(domain, line);
    }

    pub(super) fn forget_rights(&mut self, domain: usize, line: u64) {
        if !self.domain_has(domain, line) {
            self.rights.remove(&(line, domain));
        }
    }
}
