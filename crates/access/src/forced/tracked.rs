//! The blocks whose writes are followed.

use super::waited_at::WaitedAt;
use super::words::{Words, Write, block, blocks_of, words_of};
use crate::hashing::{Blocks, Filter};
use crate::sieve::Matters;
use crate::{BLOCK_SHIFT, StridedAccess};
use std::cell::Cell;
use std::sync::Arc;

const PAGE_SHIFT: u32 = 12;

/// A block at which some task waits.
pub(super) struct Block {
    pub words: Words,
    /// Tasks wait for one another there; else only for data.
    pub waited_at: bool,
}

/// The blocks at which tasks wait, and the pages that have some: nearly all that is accessed lies in none.
pub(super) struct Tracked {
    pub blocks: Blocks<Block>,
    /// Whether tasks wait for one another in the page.
    pages: Blocks<bool>,
    pub matters: Arc<Matters>,
    /// Waits found there so far, of all tasks.
    links: Cell<u64>,
}

impl Tracked {
    pub(super) fn new(at: &WaitedAt) -> Self {
        let block = |number: &u64| (*number, Block { words: Words::default(), waited_at: at.tasks.contains(number) });
        let blocks: Blocks<Block> = at.waits.union(&at.looked_at).map(block).collect();
        let mut pages: Blocks<bool> = Blocks::default();
        for (number, block) in &blocks {
            *pages.entry(number >> (PAGE_SHIFT - BLOCK_SHIFT)).or_default() |= block.waited_at;
        }
        let always: Vec<u64> = at.tasks.intersection(&at.waits).copied().collect();
        let (always, written) = (Filter::new(always.into_iter()), Filter::new(blocks.keys().copied()));
        Self { blocks, pages, matters: Arc::new(Matters { always, written }), links: Cell::default() }
    }

    /// The number of a wait that is found at a word that tasks wait at, among those of all tasks.
    pub(super) fn next_link(&self) -> u64 {
        self.links.replace(self.links.get() + 1)
    }

    /// Whether an access may be in a block that is tracked.
    #[inline]
    pub(super) fn may_have(&self, address: u64, size_bytes: u32) -> bool {
        self.matters.written.may_have_some(address, size_bytes)
    }

    /// Whether some page from an access to its last may have a block that is tracked, or one that is waited at if it
    /// reads alone.
    pub(super) fn any(&self, access: &StridedAccess, last: u64) -> bool {
        let (one, other) = (access.address(0), access.address(last));
        let (first, last_byte) = (one.min(other), one.max(other).saturating_add(access.size_bytes.into()));
        let mut pages = first >> PAGE_SHIFT..=last_byte >> PAGE_SHIFT;
        let has = |page: u64| self.pages.get(&page).is_some_and(|waits| *waits || access.kind.writes());
        (last_byte - first) >> PAGE_SHIFT > last || pages.any(has)
    }

    pub(super) fn written(&mut self, address: u64, size_bytes: u32, write: Write) {
        for number in blocks_of(address, size_bytes) {
            if !self.matters.written.may_have(number) {
                continue;
            }
            if let Some(block) = self.blocks.get_mut(&number) {
                // Of one loop's accesses the last one counts, in whatever order they are gone through.
                for word in &mut block.words[words_of(number, address, size_bytes)] {
                    *word = if word.is_later_of_the_same_task(write) { *word } else { write };
                }
            }
        }
    }

    pub(super) fn unmapped(&mut self, range: &std::ops::Range<u64>) {
        if range.is_empty() {
            return;
        }
        let last = block(range.end - 1);
        if last - block(range.start) < self.blocks.len() as u64 {
            self.written(range.start, u32::try_from(range.end - range.start).unwrap_or(u32::MAX), Write::default());
        } else {
            let gone = |number: u64| (block(range.start)..=last).contains(&number);
            self.blocks
                .iter_mut()
                .filter(|(number, _)| gone(**number))
                .for_each(|(_, block)| block.words = Words::default());
        }
    }
}
