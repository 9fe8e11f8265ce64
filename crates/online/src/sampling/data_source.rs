//! Where a PMU says that the data of an access came from (perf_event_open(2), `PERF_SAMPLE_DATA_SRC`).
//!
//! What is looked at is at the same place in every version of the layout: what did it, what the snoop of the other caches
//! found, and whether the bus was locked. Later versions have named bits behind these: levels by number, `remote` and a
//! second field of snoops (Linux 4.14), what blocked it (5.12), hops (5.16), and regions of memory.

/// `union perf_mem_data_src`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSource(pub u64);

/// PERF_MEM_OP_*: it is not known what it was, or it loads, stores, prefetches, or fetches code.
const UNKNOWN: u64 = 1;
const LOADS: u64 = 1 << 1;
const STORES: u64 = 1 << 2;
const PREFETCHES: u64 = 1 << 3;
/// PERF_MEM_SNOOP_HITM: another cache had the line, and had modified it.
const HIT_MODIFIED: u64 = 0x10 << 19;
/// PERF_MEM_LOCK_LOCKED: an instruction with the prefix `lock`, or one that locks by itself.
const LOCKED: u64 = 2 << 24;

impl DataSource {
    fn is(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    /// Whether it may be an access to data; what is not told may be.
    pub(super) fn is_of_data(self) -> bool {
        self.is(UNKNOWN | LOADS | STORES | PREFETCHES)
    }

    /// Whether it writes: what locks writes what it makes of what it has read.
    pub(super) fn writes(self) -> bool {
        self.is(STORES) || self.updates()
    }

    /// Whether one instruction writes what it makes of what is there.
    pub(super) fn updates(self) -> bool {
        self.is(LOCKED)
    }

    /// Whether the line came from another core, which had written to it.
    pub(super) fn is_from_another(self) -> bool {
        self.is(HIT_MODIFIED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PERF_MEM_S of all fields of the first version: what, level, snoop, lock, TLB.
    fn source(what: u64, level: u64, snoop: u64, lock: u64, tlb: u64) -> u64 {
        what | level << 5 | snoop << 19 | lock << 24 | tlb << 26
    }

    #[test]
    fn sources_are_read_in_every_version_of_their_layout() {
        // Fields behind the first, as later versions have them: level, remote, more snoops; blocked; hops; region.
        let later = |level: u64, remote: u64, snoops: u64, blocked: u64, hops: u64, region: u64| {
            level << 33 | remote << 37 | snoops << 38 | blocked << 40 | hops << 43 | region << 46
        };
        let versions =
            [0, later(3, 0, 0, 0, 0, 0), later(15, 1, 3, 7, 0, 0), later(11, 1, 2, 7, 7, 0), later(15, 1, 3, 7, 7, 31)];
        const HIT_L1: u64 = 0x2 | 0x8;
        const HIT_L3: u64 = 0x2 | 0x40;
        const FAR_CACHE: u64 = 0x2 | 0x400;
        for (first, data, writes, updates, from_another) in [
            // PERF_MEM_NA.
            (source(1, 1, 1, 1, 1), true, false, false, false),
            (source(2, HIT_L1, 2, 0, 0xa), true, false, false, false),
            (source(2, HIT_L3, 4, 0, 0xa), true, false, false, false),
            (source(2, HIT_L3, 0x10, 0, 0xa), true, false, false, true),
            // It may have missed elsewhere, too.
            (source(2, FAR_CACHE, 0x18, 0, 0xc), true, false, false, true),
            (source(2, HIT_L3, 0x10, 2, 0xa), true, true, true, true),
            (source(4, HIT_L1, 1, 1, 0xa), true, true, false, false),
            (source(8, HIT_L3, 8, 0, 0), true, false, false, false),
            // Code, and nothing.
            (source(0x10, HIT_L1, 2, 0, 0), false, false, false, false),
            (0, false, false, false, false),
        ] {
            for later in versions {
                let source = DataSource(first | later);
                let found = (source.is_of_data(), source.writes(), source.updates(), source.is_from_another());
                assert_eq!(found, (data, writes, updates, from_another), "{:x}", source.0);
            }
        }
    }
}
