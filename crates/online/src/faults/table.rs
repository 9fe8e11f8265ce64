//! The block table of CDSM (sections 2.1 and 2.3) in Rust, fault for fault what `native/bpf/detect.h` does: the last
//! four tasks of a block, in a hashed table of bounded size. For sources that hand over single faults, and for tests.
//!
//! A task that faults is credited with every task that has faulted on the block since it last did itself. Where the
//! block is a page that faults wherever it is touched first, only with those whose spans in it, from the first block
//! that they have touched to the last, overlap with its own.

use std::collections::BTreeMap;

/// Tasks that a block remembers.
pub const RECENT_TASKS: usize = 4;
/// Blocks that share a line of the table.
const WAYS: usize = 4;
const PAGE_SHIFT: u32 = 12;
/// Consecutive pages of which the blocks are in consecutive lines.
const NEIGHBOURS_LOG2: u32 = 6;
/// Nobody.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Line {
    /// 0: empty.
    keys: [u64; WAYS],
    /// Most recent first.
    recent: [[Recent; RECENT_TASKS]; WAYS],
}

/// A task, and from which to which block of a page it has come.
#[derive(Clone, Copy)]
struct Recent {
    task: u32,
    first: u8,
    last: u8,
}

const NOBODY: Recent = Recent { task: NONE, first: 0, last: 0 };

/// Blocks, and the events between tasks since they were last taken.
pub struct Table {
    lines: Vec<Line>,
    pairs: BTreeMap<(u32, u32), u64>,
    /// Communication events so far.
    pub events: u64,
    /// Blocks seen for the first time so far, or again after they were pushed out.
    pub new_blocks: u64,
    /// Blocks pushed out so far.
    pub evictions: u64,
}

impl Table {
    /// A table for this many blocks, rounded up to a power of two.
    pub fn new(blocks: u32) -> Self {
        let line = Line { keys: [0; WAYS], recent: [[NOBODY; RECENT_TASKS]; WAYS] };
        let lines = vec![line; lines(blocks) as usize];
        Self { lines, pairs: BTreeMap::new(), events: 0, new_blocks: 0, evictions: 0 }
    }

    /// A task has touched the block of this key (see [`mix`]; never 0), or `block` of the page of this key; 0 where the
    /// key is a block's.
    pub fn touch(&mut self, key: u64, block: u8, task: u32) {
        let index = key as usize & (self.lines.len() - 1);
        let line = &mut self.lines[index];
        let way = line.keys.iter().position(|&there| there == key).unwrap_or_else(|| {
            let empty = line.keys.iter().position(|&there| there == 0);
            self.new_blocks += 1;
            self.evictions += u64::from(empty.is_none());
            let way = empty.unwrap_or((key >> 60) as usize % WAYS);
            line.keys[way] = key;
            line.recent[way] = [NOBODY; RECENT_TASKS];
            way
        });
        let recent = &mut line.recent[way];
        let place = recent.iter().position(|there| there.task == task).unwrap_or(RECENT_TASKS);
        let mut own = recent.get(place).copied().unwrap_or(Recent { task, first: block, last: block });
        (own.first, own.last) = (own.first.min(block), own.last.max(block));
        let overlap = |other: &&Recent| other.first <= own.last && own.first <= other.last;
        for other in recent[..place].iter().filter(|other| other.task != NONE).filter(overlap) {
            *self.pairs.entry((task.min(other.task), task.max(other.task))).or_default() += 1;
            self.events += 1;
        }
        recent[..(place + 1).min(RECENT_TASKS)].rotate_right(1);
        recent[0] = own;
    }

    /// The events since the last call: the two tasks, the smaller number first, and how many.
    pub fn take_pairs(&mut self) -> Vec<(u32, u32, u64)> {
        std::mem::take(&mut self.pairs).into_iter().map(|((a, b), events)| (a, b, events)).collect()
    }
}

/// Lines of a table for this many blocks: a power of two.
pub fn lines(blocks: u32) -> u32 {
    blocks.clamp(WAYS as u32, 1 << 28).div_ceil(WAYS as u32).next_power_of_two()
}

/// MurmurHash3's finalizer.
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Which block of its page an address is in, and the shift that makes the page's key; block 0 and the block's own shift
/// where blocks are no smaller than pages.
pub fn within_page(address: u64, block_shift: u32) -> (u8, u32) {
    if block_shift < PAGE_SHIFT { (((address & 0xfff) >> block_shift) as u8, PAGE_SHIFT) } else { (0, block_shift) }
}

/// The key of a block of a process's own memory.
pub fn private_key(process: u32, address: u64, block_shift: u32) -> u64 {
    key(mix(u64::from(process)), address, block_shift).max(1)
}

/// The key of a block of a shared object, from the offset in it.
pub fn shared_key(object: u64, offset: u64, block_shift: u32) -> u64 {
    key(object, offset, block_shift) | 1 << 63
}

/// Of 64 pages in a row the blocks at the same place in the page have keys with the same 56 bits, mixed of what they
/// have in common, and the page's number among them below these: so they are in consecutive lines of the table, which
/// is in caches and TLB when programs touch memory in order.
pub(super) fn key(memory: u64, byte: u64, block_shift: u32) -> u64 {
    let in_page = PAGE_SHIFT.saturating_sub(block_shift);
    let block = byte >> block_shift;
    let page = block >> in_page;
    let others = (page >> NEIGHBOURS_LOG2) << in_page | block & ((1 << in_page) - 1);
    (mix(memory.wrapping_add(others)) << 8) >> (8 - NEIGHBOURS_LOG2) | page & ((1 << NEIGHBOURS_LOG2) - 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    /// The definition: every block remembers all that happened; no table, no bound but the four tasks.
    pub(crate) fn obvious(touches: &[(u64, u8, u32)]) -> BTreeMap<(u32, u32), u64> {
        let mut recent: HashMap<u64, Vec<(u32, Vec<u8>)>> = HashMap::new();
        let mut pairs = BTreeMap::new();
        for &(key, block, task) in touches {
            let tasks = recent.entry(key).or_default();
            let known = tasks.iter().position(|&(other, _)| other == task);
            let since = known.unwrap_or(tasks.len());
            let mut own = known.map_or(Vec::new(), |place| tasks.remove(place).1);
            own.push(block);
            let reaches = |inner: &[u8], outer: &[u8]| {
                inner.iter().any(|block| outer.iter().min() <= Some(block) && Some(block) <= outer.iter().max())
            };
            for (other, theirs) in &tasks[..since] {
                if reaches(&own, theirs) || reaches(theirs, &own) {
                    *pairs.entry((task.min(*other), task.max(*other))).or_default() += 1;
                }
            }
            tasks.insert(0, (task, own));
            tasks.truncate(RECENT_TASKS);
        }
        pairs
    }

    fn pairs(touches: &[(u64, u8, u32)]) -> Vec<(u32, u32, u64)> {
        let mut table = Table::new(1 << 10);
        touches.iter().for_each(|&(key, block, task)| table.touch(mix(key), block, task));
        table.take_pairs()
    }

    #[test]
    fn events_are_of_tasks_that_came_since() {
        type Row = (&'static str, Vec<u32>, Vec<(u32, u32, u64)>);
        let rows: [Row; 7] = [
            ("alone", vec![0, 0, 0], vec![]),
            ("in turn: one event each but the first", vec![0, 1, 0, 1], vec![(0, 1, 3)]),
            ("twice in a row counts once", vec![0, 1, 1, 0], vec![(0, 1, 2)]),
            ("a newcomer meets all", vec![0, 1, 2], vec![(0, 1, 1), (0, 2, 1), (1, 2, 1)]),
            (
                "who left is not credited for ever",
                vec![0, 1, 2, 3, 2, 3, 2, 3],
                vec![(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 2, 1), (1, 3, 1), (2, 3, 5)],
            ),
            (
                "a fifth meets the last four",
                vec![0, 1, 2, 3, 4],
                vec![
                    (0, 1, 1),
                    (0, 2, 1),
                    (0, 3, 1),
                    (0, 4, 1),
                    (1, 2, 1),
                    (1, 3, 1),
                    (1, 4, 1),
                    (2, 3, 1),
                    (2, 4, 1),
                    (3, 4, 1),
                ],
            ),
            (
                "the first of five is forgotten",
                vec![0, 1, 2, 3, 4, 0],
                vec![
                    (0, 1, 2),
                    (0, 2, 2),
                    (0, 3, 2),
                    (0, 4, 2),
                    (1, 2, 1),
                    (1, 3, 1),
                    (1, 4, 1),
                    (2, 3, 1),
                    (2, 4, 1),
                    (3, 4, 1),
                ],
            ),
        ];
        for (what, tasks, expected) in rows {
            let touches: Vec<(u64, u8, u32)> = tasks.into_iter().map(|task| (7, 0, task)).collect();
            assert_eq!(pairs(&touches), expected, "{what}");
        }
    }

    #[test]
    fn in_a_page_tasks_meet_where_they_overlap() {
        type Row = (&'static str, Vec<(u8, u32)>, Vec<(u32, u32, u64)>);
        let rows: [Row; 4] = [
            ("each its own part", vec![(0, 0), (9, 1), (3, 0), (12, 1), (1, 0)], vec![]),
            ("one in the other's part", vec![(2, 0), (9, 0), (5, 1), (5, 0)], vec![(0, 1, 2)]),
            ("parts grow until they meet", vec![(0, 0), (9, 1), (9, 0), (15, 1), (3, 0)], vec![(0, 1, 3)]),
            ("again by oneself is no event, and counts later", vec![(0, 0), (7, 0), (5, 1)], vec![(0, 1, 1)]),
        ];
        for (what, faults, expected) in rows {
            let touches: Vec<(u64, u8, u32)> = faults.into_iter().map(|(block, task)| (7, block, task)).collect();
            assert_eq!(pairs(&touches), expected, "{what}");
        }
        assert_eq!(within_page(0x7fff_1234_5fff, 8), (15, 12));
        assert_eq!(within_page(0x7fff_1234_5fff, 4), (255, 12));
        assert_eq!(within_page(0x7fff_1234_5fff, 16), (0, 16));
    }

    #[test]
    fn blocks_that_find_no_room_are_counted() {
        let mut table = Table::new(4);
        (1..=6).for_each(|key| table.touch(key << 60 | 1, 0, 0));
        assert_eq!((table.new_blocks, table.evictions), (6, 2));
    }

    #[test]
    fn keys_are_of_blocks_and_neighbours_of_pages_in_a_row() {
        for shift in [4, 8, 12, 16, 21] {
            let of = |block: u64| private_key(7, block << shift, shift);
            let keys: HashSet<u64> = (0..100_000).map(of).collect();
            assert_eq!(keys.len(), 100_000, "{shift}");
            assert_eq!(of(5), private_key(7, (6 << shift) - 1, shift));
            // Another process, and a shared object.
            assert!((0..1000).all(|block| !keys.contains(&private_key(8, block << shift, shift))), "{shift}");
            assert!((0..1000).all(|block| !keys.contains(&shared_key(mix(7), block << shift, shift))), "{shift}");
            let page = 1 << shift.max(PAGE_SHIFT);
            let in_line = |page_number: u64| private_key(7, page_number * page, shift) & 0xfff;
            let in_a_row = |first: u64| (first..first + 63).all(|page| in_line(page) + 1 == in_line(page + 1));
            assert!(in_a_row(0) && in_a_row(64) && in_a_row(1 << 20), "{shift}");
        }
        // The highest address of user space where addresses have 57 bits.
        assert!(private_key(1, (1 << 56) - 1, 4) < 1 << 62);
    }

    proptest! {
        #[test]
        fn the_table_is_as_the_definition_says(touches in prop::collection::vec((1..40u64, 0..8u8, 0..7u32), 0..300)) {
            let expected: Vec<_> = obvious(&touches).into_iter().map(|((a, b), events)| (a, b, events)).collect();
            prop_assert_eq!(pairs(&touches), expected);
        }
    }
}
