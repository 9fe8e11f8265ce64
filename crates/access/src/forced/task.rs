//! A task on its way through what it did, and the waits that are found for it.

use super::ForcedWait;
use super::counters::{By, Link};
use super::tracked::{Block, Tracked};
use super::waited_at::{behind_atomic, last_access};
use super::words::{ALL_WORDS, WORDS, Words, Write, address_of, bits, blocks, blocks_of, chosen, words_of};
use crate::hashing::Blocks;
use crate::looking::Look;
use crate::sieve::Matters;
use crate::{AccessKind, Reason, Sieve, Step, Steps, StridedAccess, Told};
use cohabit_model::Result;
use std::sync::Arc;

/// What a task knows of a block that tasks wait at.
struct OpenWait {
    /// As they were when it waited there last.
    words: Words,
    /// Whom it waited for, and which position of that, by the recorder.
    waited_for: (u32, u64),
    /// A bit for each word that it has waited for, if need be.
    done: u16,
}

pub(super) struct Task<'a> {
    pub steps: Box<dyn Steps + 'a>,
    pub number: u32,
    /// The step that it is at, and cannot take yet.
    pub at_wait: Option<Step>,
    pub position: u64,
    /// The access it has made last.
    last: Option<StridedAccess>,
    /// Why it has waited, for whom and for which position, before the access that comes next.
    pub waits: Vec<(Reason, u32, u64)>,
    pub forced: Vec<ForcedWait>,
    /// Of these, those at words that tasks wait at.
    pub links: Vec<Link>,
    /// By block.
    open: Blocks<OpenWait>,
    most_open: usize,
    /// What it looks at, and what need not be told of it.
    pub sieve: Box<Sieve>,
    /// The step it is at has been looked at.
    pub seen: bool,
    /// It goes on when one of these words is another's; empty: it goes on.
    pub held: Vec<Held>,
    pub ended: bool,
}

/// A word that a task has looked at, and may have seen changed.
pub(super) struct Held {
    block: u64,
    word: usize,
    known: Write,
    /// The accesses it had made when it looked last.
    pub position: u64,
}

impl<'a> Task<'a> {
    pub(super) fn new(steps: Box<dyn Steps + 'a>, number: u32, most_open: usize, matters: &Arc<Matters>) -> Self {
        Self {
            steps,
            number,
            at_wait: None,
            position: 0,
            last: None,
            waits: Vec::new(),
            forced: Vec::new(),
            links: Vec::new(),
            open: Blocks::default(),
            most_open,
            sieve: Box::new(Sieve { blocks: Some(Arc::clone(matters)), ..Sieve::default() }),
            seen: false,
            held: Vec::new(),
            ended: false,
        }
    }

    /// What comes next. Accesses on its way there that matter to nobody it makes, as far as they are left of its turn.
    pub(super) fn next(&mut self, left: &mut u64) -> Result<Told> {
        self.sieve.next_access = !self.waits.is_empty();
        self.sieve.most = *left;
        let told = self.steps.next_but(&mut self.sieve)?;
        let left_out = std::mem::take(&mut self.sieve.left_out);
        if left_out > 0 {
            self.last = None;
            self.position = self.position.saturating_add(left_out);
            *left = left.saturating_sub(left_out);
        }
        Ok(told)
    }

    /// It has looked at these, and goes on. Where it had waited for what it looked at, it waits where it looked last;
    /// else it is held until another has changed one of them.
    pub(super) fn hold(&mut self, looks: Vec<Look>, tracked: &Tracked) {
        for Look { address, size_bytes, position, waited } in looks {
            for number in blocks_of(address, size_bytes) {
                let Some(block) = tracked.blocks.get(&number).filter(|block| block.waited_at) else { continue };
                let words = words_of(number, address, size_bytes);
                let known = self.open.get(&number).map(|open| open.words).unwrap_or_default();
                if waited {
                    // It has waited again, before what comes next.
                    let seen = if self.waits.is_empty() { known } else { block.words };
                    self.looked_on(number, &seen[words.clone()], position, (address_of(number, words.start), tracked));
                } else {
                    let word = |word| Held { block: number, word, known: known[word], position };
                    self.held.extend(words.map(word));
                }
            }
        }
    }

    /// It waited at the block while it looked at these words, and looked last at this position.
    fn looked_on(&mut self, block: u64, words: &[Write], position: u64, (address, tracked): (u64, &Tracked)) {
        let by_others = words.iter().filter_map(|write| write.known()).filter(|(task, _)| *task != self.number);
        // The recorder has the first of several writes in a row, so a word may not be written yet by whom it waited for.
        let recorded = || match self.waits.last() {
            Some((_, task, write)) => Some((*task, *write)),
            None => self.open.get(&block).map(|open| open.waited_for),
        };
        let Some((task, write)) = by_others.max_by_key(|write| write.1).or_else(recorded) else { return };
        if !self
            .forced
            .iter()
            .rev()
            .take_while(|wait| wait.at >= position)
            .any(|wait| wait.at == position && wait.task == task)
        {
            self.insert(ForcedWait { at: position, task, position: write, reason: Reason::Data });
            self.links.push(Link {
                word: address,
                number: tracked.next_link(),
                task: self.number,
                at: position,
                by: By::Read,
                on: (task, write),
            });
        }
        self.held.clear();
    }

    /// A wait at a position that it has passed.
    fn insert(&mut self, wait: ForcedWait) {
        let place = self.forced.partition_point(|known| known.at <= wait.at);
        self.forced.insert(place, wait);
    }

    /// Whether another has changed what it is held for: that is waited for, where it looked last.
    pub(super) fn sees_change(&mut self, tracked: &Tracked) -> bool {
        let change = self.held.iter().find_map(|held| {
            let now = tracked.blocks.get(&held.block)?.words[held.word];
            let on = now.known().filter(|known| known.0 != self.number && now != held.known)?;
            let link = Link {
                word: address_of(held.block, held.word),
                number: tracked.next_link(),
                task: self.number,
                at: held.position,
                by: By::Read,
                on,
            };
            Some(link)
        });
        let Some(link) = change else { return false };
        let (task, position) = link.on;
        self.insert(ForcedWait { at: link.at, task, position, reason: Reason::Data });
        self.links.push(link);
        self.held.clear();
        true
    }

    /// It waits for the last write of each other task among these.
    fn wait_for(&mut self, words: impl Iterator<Item = Write>, at: u64, reason: Reason) {
        let first = self.forced.len();
        for (task, position) in words.filter_map(Write::known).filter(|(task, _)| *task != self.number) {
            match self.forced[first..].iter_mut().find(|known| known.task == task) {
                Some(known) => known.position = known.position.max(position),
                None => self.forced.push(ForcedWait { at, task, position, reason }),
            }
        }
    }

    /// It has waited before an access.
    pub(super) fn waited(&mut self, access: &StridedAccess, tracked: &Tracked) {
        for recorded @ (reason, task, position) in std::mem::take(&mut self.waits) {
            let behind = behind_atomic(reason, self.last.as_ref()).copied();
            let known = match behind {
                None => self.waited_for(&[*access], recorded, tracked),
                Some(behind) if !access.atomic => self.waited_for(&[behind], recorded, tracked),
                // It may be for either.
                Some(behind) => self.waited_for(&[behind, *access], recorded, tracked),
            };
            if !known {
                self.forced.push(ForcedWait { at: self.position, task, position, reason });
                self.called((task, position), tracked);
            }
            if let Some(behind) = behind {
                // It writes no more. What comes next waits for itself where it can only be for the one behind.
                let counts = behind.unconditional && !access.atomic;
                self.touch_once(&behind, self.position, if counts { By::Counted } else { By::Read }, tracked);
            }
        }
    }

    /// It has waited for the sake of these accesses. False where one lies in a block that is not tracked.
    fn waited_for(&mut self, accesses: &[StridedAccess], recorded: (Reason, u32, u64), tracked: &Tracked) -> bool {
        let (reason, task, position) = recorded;
        let touched = accesses
            .iter()
            .flat_map(|access| blocks(access).map(|number| (number, words_of(number, access.base, access.size_bytes))));
        let mut blocks: Vec<(u64, &Block, u16)> = Vec::new();
        for (number, words) in touched {
            let Some(block) = tracked.blocks.get(&number) else { return false };
            match blocks.iter_mut().find(|known| known.0 == number) {
                Some((_, _, touched)) => *touched |= bits(words),
                None => blocks.push((number, block, bits(words))),
            }
        }
        let one = blocks.len() == 1;
        for (number, block, touched) in blocks {
            match block.waited_at {
                false => self.wait_for(chosen(&block.words, touched), self.position, reason),
                true if one => self.open(number, block, (task, position), tracked),
                // It is not known which of the two it is.
                true => self.wait_for_all(number, &block.words, ALL_WORDS, reason, tracked),
            }
        }
        true
    }

    /// It waits for the last writes of some words that tasks wait at, whichever it needs.
    fn wait_for_all(&mut self, block: u64, words: &Words, mask: u16, reason: Reason, tracked: &Tracked) {
        let at = self.position;
        self.wait_for(chosen(words, mask), at, reason);
        for word in (0..WORDS).filter(|word| mask >> word & 1 == 1) {
            if let Some(on) = words[word].known().filter(|on| on.0 != self.number) {
                let (word, number) = (address_of(block, word), tracked.next_link());
                self.links.push(Link { word, number, task: self.number, at, by: By::Read, on });
            }
        }
    }

    /// It has waited at a block that tasks wait at.
    fn open(&mut self, number: u64, block: &Block, waited_for: (u32, u64), tracked: &Tracked) {
        if self.open.len() >= self.most_open {
            let early: Vec<(u64, OpenWait)> = self.open.drain().collect();
            for (block, wait) in early {
                self.wait_for_all(block, &wait.words, !wait.done, Reason::Data, tracked);
            }
        }
        let same = |before: &OpenWait| {
            let still = (0..WORDS).filter(|&word| before.words[word] == block.words[word]);
            before.done & still.fold(0, |bits, word| bits | 1 << word)
        };
        let done = self.open.get(&number).map_or(0, same);
        self.open.insert(number, OpenWait { words: block.words, waited_for, done });
    }

    /// It makes the accesses of a loop.
    pub(super) fn make(&mut self, accesses: &[StridedAccess], iterations: u64, tracked: &mut Tracked) {
        self.last = last_access(accesses, iterations);
        let (first, each) = (self.forced.len(), accesses.len() as u64);
        for (number, access) in (0..).zip(accesses) {
            let start = self.position.saturating_add(number);
            let at = |iteration: u64| start.saturating_add(iteration.saturating_mul(each));
            let last = iterations - 1;
            if access.stride == 0 || last == 0 {
                // What it waits for it waits for at first, and what it writes is what it wrote last.
                if tracked.may_have(access.base, access.size_bytes) {
                    self.make_one(access, start, tracked);
                    if last > 0 {
                        self.make_one(access, at(last), tracked);
                    }
                }
            } else if tracked.any(access, last) {
                for iteration in 0..iterations {
                    let now = StridedAccess { base: access.address(iteration), ..*access };
                    if tracked.may_have(now.base, now.size_bytes) {
                        self.make_one(&now, at(iteration), tracked);
                    }
                }
            }
        }
        if iterations > 1 {
            self.forced[first..].sort_by_key(|wait| wait.at);
        }
    }

    /// It makes an access that may be in blocks that are tracked.
    #[inline(never)]
    fn make_one(&mut self, access: &StridedAccess, at: u64, tracked: &mut Tracked) {
        if !self.open.is_empty() {
            let by = match access.kind {
                AccessKind::Read => By::Read,
                _ if access.unconditional => By::Count,
                _ => By::Write,
            };
            self.touch_once(access, at, by, tracked);
        }
        if access.kind.writes() {
            tracked.written(access.base, access.size_bytes, Write::new(self.number, at.saturating_add(1)));
        }
    }

    /// It makes an access: of words of which it has not done so since it waited at their block, it waits for the writes.
    fn touch_once(&mut self, access: &StridedAccess, at: u64, by: By, tracked: &Tracked) {
        for number in blocks(access) {
            if !tracked.matters.always.may_have(number) {
                continue;
            }
            let Some(wait) = self.open.get_mut(&number) else { continue };
            let new = bits(words_of(number, access.base, access.size_bytes)) & !wait.done;
            if new != 0 {
                wait.done |= if by == By::Counted { 0 } else { new };
                let words = wait.words;
                let reason = if access.atomic && access.kind.writes() { Reason::Lock } else { Reason::Data };
                self.wait_for(chosen(&words, new), at, reason);
                self.link(by, at, (number, new), &words, tracked);
            }
        }
    }

    /// It has waited for another in a system call, or for its end.
    pub(super) fn called(&mut self, on: (u32, u64), tracked: &Tracked) {
        let (number, at) = (tracked.next_link(), self.position);
        self.links.push(Link { word: Link::NOWHERE, number, task: self.number, at, by: By::Read, on });
    }

    /// It waits for others there by words that tasks wait at.
    fn link(&mut self, by: By, at: u64, (block, new): (u64, u16), words: &Words, tracked: &Tracked) {
        let mut by_others = chosen(words, new).filter_map(Write::known).filter(|(task, _)| *task != self.number);
        let Some(on) = by_others.next() else { return };
        let one = by_others.all(|other| other == on);
        let by = match by {
            By::Count if !one => By::Write,
            By::Counted if !one => By::Read,
            by => by,
        };
        let word = address_of(block, new.trailing_zeros() as usize);
        self.links.push(Link { word, number: tracked.next_link(), task: self.number, at, by, on });
    }

    pub(super) fn end(&mut self) {
        for (reason, task, position) in std::mem::take(&mut self.waits) {
            self.forced.push(ForcedWait { at: self.position, task, position, reason });
        }
        self.ended = true;
    }
}
