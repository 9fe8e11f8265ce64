//! Words of memory, who wrote them last, and the blocks that they lie in.

use crate::{BLOCK_SHIFT, StridedAccess};
use std::ops::{Range, RangeInclusive};

/// Futexes have 4 bytes, and so have counters of barriers, side by side.
const WORD_SHIFT: u32 = 2;
pub(super) const WORDS: usize = 1 << (BLOCK_SHIFT - WORD_SHIFT);
/// A mask of all.
pub(super) const ALL_WORDS: u16 = u16::MAX;

/// Who wrote a word last, and where it was behind that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Write {
    /// The task's number + 1, 0 for nobody, above its position.
    coded: u64,
}

impl Write {
    const POSITION_BITS: u32 = 47;

    pub(super) fn new(task: u32, position: u64) -> Self {
        let most = (1 << Self::POSITION_BITS) - 1;
        Self { coded: (u64::from(task) + 1) << Self::POSITION_BITS | position.min(most) }
    }

    pub(super) fn is_later_of_the_same_task(self, other: Self) -> bool {
        self.coded >> Self::POSITION_BITS == other.coded >> Self::POSITION_BITS && self.coded > other.coded
    }

    pub(super) fn known(self) -> Option<(u32, u64)> {
        let task = (self.coded >> Self::POSITION_BITS).checked_sub(1)?;
        Some((task as u32, self.coded & ((1 << Self::POSITION_BITS) - 1)))
    }
}

pub(super) type Words = [Write; WORDS];

/// The block of an address.
pub(super) fn block(address: u64) -> u64 {
    address >> BLOCK_SHIFT
}

/// The blocks of an access.
pub(super) fn blocks_of(address: u64, size_bytes: u32) -> RangeInclusive<u64> {
    block(address)..=block(address.saturating_add(u64::from(size_bytes.max(1)) - 1))
}

/// The same.
pub(crate) fn blocks(access: &StridedAccess) -> RangeInclusive<u64> {
    blocks_of(access.base, access.size_bytes)
}

/// The words of a block that an access touches.
pub(super) fn words_of(number: u64, address: u64, size_bytes: u32) -> Range<usize> {
    let (start, end) = (number << BLOCK_SHIFT, address.saturating_add(size_bytes.max(1).into()));
    let first = address.max(start) - start;
    let last = (end - start).min(1 << BLOCK_SHIFT) - 1;
    (first >> WORD_SHIFT) as usize..(last >> WORD_SHIFT) as usize + 1
}

/// The address of a word of a block.
pub(super) fn address_of(number: u64, word: usize) -> u64 {
    (number << BLOCK_SHIFT) + ((word as u64) << WORD_SHIFT)
}

/// A mask of these.
pub(super) fn bits(words: Range<usize>) -> u16 {
    words.fold(0, |bits, word| bits | 1 << word)
}

/// The words that a mask has a bit for.
pub(super) fn chosen(words: &Words, mask: u16) -> impl Iterator<Item = Write> + '_ {
    words.iter().enumerate().filter(move |(word, _)| mask >> word & 1 == 1).map(|(_, write)| *write)
}
