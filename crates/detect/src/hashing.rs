//! What accesses touch of maps by block number.

pub use cohabit_access::hashing::Blocks;

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
