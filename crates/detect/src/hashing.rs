//! Maps by block number. The numbers are nobody's choice, so a multiplication is hash enough.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
#[derive(Debug, Default, Clone, Copy)]
pub struct Multiplied(u64);

impl Hasher for Multiplied {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
}

/// A map from block numbers.
pub type Blocks<T> = HashMap<u64, T, BuildHasherDefault<Multiplied>>;

/// The numbers of the blocks that an access touches.
pub fn touched(address: u64, size_bytes: u32, block_bytes: u64) -> std::ops::RangeInclusive<u64> {
    let last = address.saturating_add(u64::from(size_bytes).saturating_sub(1));
    address / block_bytes..=last / block_bytes
}

/// Forgets the blocks that lie, be it in part, in a range of addresses.
pub fn forget<T>(blocks: &mut Blocks<T>, range: &std::ops::Range<u64>, block_bytes: u64) {
    forget_each(blocks, range, block_bytes, drop);
}

/// Does so, and hands over what was known of each.
pub fn forget_each<T>(
    blocks: &mut Blocks<T>,
    range: &std::ops::Range<u64>,
    block_bytes: u64,
    mut known: impl FnMut(T),
) {
    if range.is_empty() {
        return;
    }
    let (first, last) = (range.start / block_bytes, (range.end - 1) / block_bytes);
    if last - first < blocks.len() as u64 {
        (first..=last).filter_map(|block| blocks.remove(&block)).for_each(known);
    } else {
        let within: Vec<u64> = blocks.keys().copied().filter(|block| (first..=last).contains(block)).collect();
        within.into_iter().filter_map(|block| blocks.remove(&block)).for_each(&mut known);
    }
}
