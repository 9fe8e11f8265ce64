//! The TLBs of one core: of data, of code, and a second one that both ask.
//!
//! Entries carry the process, so that SMT siblings share those of one process and no others. Replacement is LRU.

use crate::cache::Cache;
use crate::clock::Time;
use crate::hash::Numbers;
use crate::machine::{self, Replacement};

/// Where a page was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    First,
    /// In the second TLB, with what that takes.
    Second(Time),
    /// Nowhere: with what the search and the walk take.
    Walk(Time),
}

#[derive(Debug, Clone)]
pub(crate) struct Tlb {
    data: Cache,
    code: Option<Cache>,
    second: Option<(Cache, Time)>,
    walk: Time,
    /// Pages that were taken from the first TLBs of data and of code; none where nobody asks.
    lost: Option<[Numbers<()>; 2]>,
    /// Changes whenever an entry of the first data TLB may have gone.
    pub generation: u64,
}

/// What entries are found by.
pub(crate) fn key(process: u32, page: u64) -> u64 {
    // Pages of 512 bytes and more of 48-bit addresses leave these bits free.
    u64::from(process) << 40 ^ page
}

impl Tlb {
    /// With `classify` it is known why pages are not there.
    pub fn new(machine: &machine::Tlb, classify: bool) -> Self {
        let cache = |level: &machine::TlbLevel| Cache::new(level.sets, level.ways, Replacement::Lru);
        Self {
            data: cache(&machine.data),
            code: machine.code.as_ref().map(cache),
            second: machine.second.as_ref().map(|level| (cache(level), level.latency)),
            walk: machine.walk,
            lost: classify.then(Default::default),
            generation: 0,
        }
    }

    /// Whether the first TLB of data has it; notes the use.
    pub fn has_data(&mut self, key: u64) -> bool {
        hit(&mut self.data, key)
    }

    /// Looks for a page that the first TLB of data does not have, and puts it there.
    pub fn miss_data(&mut self, key: u64) -> Found {
        self.generation += 1;
        self.data.insert(key, 0);
        self.beyond(key)
    }

    /// Looks for a page of code.
    pub fn find_code(&mut self, key: u64) -> Found {
        let Some(code) = &mut self.code else { return Found::First };
        if hit(code, key) {
            return Found::First;
        }
        code.insert(key, 0);
        self.beyond(key)
    }

    fn beyond(&mut self, key: u64) -> Found {
        let Some((second, latency)) = &mut self.second else { return Found::Walk(self.walk) };
        if hit(second, key) {
            return Found::Second(*latency);
        }
        second.insert(key, 0);
        Found::Walk(*latency + self.walk)
    }

    /// The page is somebody else's from now on.
    pub fn forget(&mut self, key: u64) {
        self.generation += 1;
        let data = self.data.remove(key).is_some();
        let code = self.code.as_mut().is_some_and(|code| code.remove(key).is_some());
        if let Some(lost) = &mut self.lost {
            lost.iter_mut().zip([data, code]).filter(|(_, was)| *was).for_each(|(lost, _)| {
                lost.insert(key, ());
            });
        }
        if let Some((second, _)) = &mut self.second {
            second.remove(key);
        }
    }
}

impl Tlb {
    /// Whether the page, which has just come into the first TLB of data, had been taken from it. None where nobody
    /// keeps that.
    pub fn had_lost_data(&mut self, key: u64) -> Option<bool> {
        self.lost.as_mut().map(|[data, _]| data.remove(&key).is_some())
    }

    /// The same of code.
    pub fn had_lost_code(&mut self, key: u64) -> Option<bool> {
        self.lost.as_mut().map(|[_, code]| code.remove(&key).is_some())
    }

    /// Whether the first TLB of data has it.
    pub fn holds_data(&self, key: u64) -> bool {
        self.data.find(key).is_some()
    }

    /// Whether the first TLB of code has it.
    pub fn holds_code(&self, key: u64) -> bool {
        self.code.as_ref().is_some_and(|code| code.find(key).is_some())
    }
}

fn hit(cache: &mut Cache, key: u64) -> bool {
    match cache.find(key) {
        Some(place) => {
            cache.touch(place);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::TlbLevel;

    #[test]
    fn pages_are_found_by_hand() {
        let level = |sets, ways, latency| TlbLevel { sets, ways, latency };
        let machine = machine::Tlb {
            page_bits: 12,
            data: level(1, 2, 0),
            code: Some(level(1, 1, 0)),
            second: Some(level(2, 2, 7)),
            walk: 30,
        };
        let mut tlb = Tlb::new(&machine, true);
        let mut data = |page| if tlb.has_data(page) { Found::First } else { tlb.miss_data(page) };
        for (page, found) in [
            (1, Found::Walk(37)),
            (2, Found::Walk(37)),
            (1, Found::First),
            // 2 goes from the first TLB, not from the second.
            (3, Found::Walk(37)),
            (2, Found::Second(7)),
            // Sets of the second TLB: even and odd pages; 5 takes the place of 1 there.
            (5, Found::Walk(37)),
            (1, Found::Walk(37)),
        ] {
            assert_eq!(data(page), found, "page {page}");
        }
        assert_eq!(
            [9, 9, 10, 9].map(|page| tlb.find_code(page)),
            [Found::Walk(37), Found::First, Found::Walk(37), Found::Second(7)]
        );
        assert_eq!((tlb.had_lost_code(9), tlb.holds_code(9), tlb.holds_data(9)), (Some(false), true, false));
        tlb.forget(9);
        assert_eq!(
            (tlb.had_lost_data(9), tlb.had_lost_code(9), tlb.had_lost_code(9)),
            (Some(false), Some(true), Some(false))
        );
        assert_eq!(tlb.find_code(9), Found::Walk(37));
        assert_ne!(key(1, 5), key(2, 5));
    }
}
