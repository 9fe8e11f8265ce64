//! Which waits for another task the program forces.
//!
//! While a program is recorded, order among tasks is kept by blocks of 64 bytes: who reads or writes a block waits for
//! whoever wrote it last, in whatever word. Tasks that use different words of a block then take turns as they did on
//! the recorded machine, where they may have run one after the other. Here all accesses are gone through in an order
//! that those waits allow, and what is accessed is followed by words of 4 bytes: a wait for data, or for an atomic
//! access, stays where the words were written by another task, for that write, and goes where they were not.
//!
//! A wait at a block that tasks wait at (some atomic instruction is used on it, or it is polled) may order more than
//! the access that comes next: whatever the task accesses there until it waits at the block again. Each of these words
//! is waited for where it is accessed first, as it was written when the task waited.
//!
//! Where a task looked at something again and again and went on with no wait, it may have been preempted between what
//! the recorder noted and what the processor read ([`crate::looking`]). It is held there until another writes what it
//! looked at, and waits for that. Where nobody can do so before it goes on, it looked for another reason.
//!
//! Of other blocks the access that comes next counts alone. A program in which tasks read what others write without any
//! wait at all between is a race; of these the order of the words that are read first after another's write is kept.
//! Waits for messages, begins and ends stay as they are.

use crate::hashing::{Blocks, multiplied};
use crate::looking::{Look, Looking};
use crate::{Reason, Recording, Step, Steps, StridedAccess};
use cohabit_model::{Error, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Futexes have 4 bytes, and so have counters of barriers, side by side.
const WORD_SHIFT: u32 = 2;
/// Bytes of memory in which order is recorded, as a shift.
const BLOCK_SHIFT: u32 = 6;
const WORDS: usize = 1 << (BLOCK_SHIFT - WORD_SHIFT);
/// Accesses of a turn, when all is gone through; a loop is gone through at once.
const TURN: u64 = 64;
const PAGE_SHIFT: u32 = 12;
/// Blocks that tasks wait at, of all tasks together: 150 bytes each.
const MOST_OPEN: usize = 1 << 21;
const LEAST_OPEN: usize = 1 << 8;
/// How often all is gone through with tasks held.
const MOST_TRIES: usize = 3;
const ALL_WORDS: u16 = u16::MAX;

/// A wait for data, or for an atomic access, that the program forces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForcedWait {
    /// The task has made so many accesses before.
    pub at: u64,
    /// Who is waited for.
    pub task: u32,
    /// Until it has made so many.
    pub position: u64,
    /// One that [`ForcedWait::is_found_of`] takes.
    pub reason: Reason,
}

impl ForcedWait {
    /// Whether waits for this reason are found anew, in place of those that were recorded.
    pub fn is_found_of(reason: Reason) -> bool {
        matches!(reason, Reason::Data | Reason::Lock)
    }
}

/// Who wrote a word last, and where it was behind that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Write {
    /// The task's number + 1, 0 for nobody, above its position.
    coded: u64,
}

impl Write {
    const POSITION_BITS: u32 = 47;

    fn new(task: u32, position: u64) -> Self {
        let most = (1 << Self::POSITION_BITS) - 1;
        Self { coded: (u64::from(task) + 1) << Self::POSITION_BITS | position.min(most) }
    }

    fn is_later_of_the_same_task(self, other: Self) -> bool {
        self.coded >> Self::POSITION_BITS == other.coded >> Self::POSITION_BITS && self.coded > other.coded
    }

    fn known(self) -> Option<(u32, u64)> {
        let task = (self.coded >> Self::POSITION_BITS).checked_sub(1)?;
        Some((task as u32, self.coded & ((1 << Self::POSITION_BITS) - 1)))
    }
}

type Words = [Write; WORDS];

/// The waits of each task for data and for atomic accesses that are forced, in their order. `recording` is read once as it is, `told` is the same
/// with its polling told as such.
///
/// # Errors
/// The recording cannot be read, or its waits cannot be kept.
pub(crate) fn forced_waits(told: &dyn Recording, recording: &dyn Recording) -> Result<Vec<Vec<ForcedWait>>> {
    let most_open = (MOST_OPEN / recording.tasks().len().max(1)).max(LEAST_OPEN);
    forced_within(told, recording, most_open)
}

/// The same, each task knowing of `most_open` blocks that tasks wait at.
fn forced_within(told: &dyn Recording, recording: &dyn Recording, most_open: usize) -> Result<Vec<Vec<ForcedWait>>> {
    let at = WaitedAt::of_all(told)?;
    // Who was held in vain has let others go on meanwhile, further than they should be: once more without.
    let mut in_vain = HashSet::new();
    for _ in 0..MOST_TRIES {
        let (forced, more) = gone_through(recording, &at, most_open, &in_vain, true)?;
        if more.is_empty() {
            return Ok(forced);
        }
        in_vain.extend(more);
    }
    Ok(gone_through(recording, &at, most_open, &in_vain, false)?.0)
}

/// A task, and the accesses it had made when it looked last.
type LastLook = (u32, u64);

/// Goes through all accesses, tasks being held where they may have looked without a wait, but where that was in vain.
/// What is forced, and who was held in vain else.
fn gone_through(
    recording: &dyn Recording,
    at: &WaitedAt,
    most_open: usize,
    in_vain: &HashSet<LastLook>,
    hold: bool,
) -> Result<(Vec<Vec<ForcedWait>>, HashSet<LastLook>)> {
    let mut tracked = Tracked::new(at);
    let open = |task| Ok(Task::new(recording.steps(task)?, task, most_open));
    let mut tasks = (0..recording.tasks().len() as u32).map(open).collect::<Result<Vec<_>>>()?;
    let mut more = HashSet::new();
    loop {
        let (mut moved, mut waiting) = (false, None);
        for number in 0..tasks.len() {
            let mut left = TURN;
            while left > 0 && !tasks[number].ended {
                if !advance(&mut tasks, number, &mut left, &mut tracked, in_vain, hold)? {
                    waiting = Some(number);
                    break;
                }
                moved = true;
            }
        }
        match waiting {
            _ if moved => {}
            None => return Ok((tasks.into_iter().map(|task| task.forced).collect(), more)),
            Some(task) => match tasks.iter_mut().find(|task| !task.held.is_empty()) {
                Some(task) => more.extend(task.held.drain(..).map(|held| (task.number, held.position))),
                None => {
                    let cause = format!("the recording cannot go on: task {task} waits for what never comes");
                    return Err(Error::new(cause).remedy("record it again"));
                }
            },
        }
    }
}

/// The block of an address.
fn block(address: u64) -> u64 {
    address >> BLOCK_SHIFT
}

/// The blocks of an access.
fn blocks_of(address: u64, size_bytes: u32) -> std::ops::RangeInclusive<u64> {
    block(address)..=block(address.saturating_add(u64::from(size_bytes.max(1)) - 1))
}

/// Blocks at which a task waits for data or an atomic access, and those at which it polls, or makes atomic accesses.
#[derive(Default)]
struct WaitedAt {
    waits: HashSet<u64>,
    tasks: HashSet<u64>,
}

impl WaitedAt {
    fn of(mut steps: Box<dyn Steps + '_>) -> Result<Self> {
        let mut found = Self::default();
        let (mut waits, mut polls, mut last) = (false, false, None);
        let mut looking = Looking::default();
        while let Some(step) = steps.next_step()? {
            for look in looking.step(&step, 0) {
                found.waits.extend(blocks_of(look.address, look.size_bytes));
                found.tasks.extend(blocks_of(look.address, look.size_bytes));
            }
            match &step {
                Step::Wait { reason, polled, .. } if ForcedWait::is_found_of(*reason) => {
                    waits = true;
                    polls |= polled.is_some();
                    found.waits.extend(behind_atomic(*reason, last.as_ref()).into_iter().flat_map(blocks));
                }
                Step::Loop { accesses, iterations } => {
                    if waits {
                        found.waits.extend(blocks(&accesses[0]));
                    }
                    if polls {
                        found.tasks.extend(blocks(&accesses[0]));
                    }
                    (waits, polls) = (false, false);
                    for access in accesses.iter().filter(|access| access.atomic) {
                        let every = if access.stride == 0 { 1 } else { *iterations };
                        (0..every).for_each(|at| found.tasks.extend(blocks_of(access.address(at), access.size_bytes)));
                    }
                    last = last_access(accesses, *iterations);
                }
                _ => {}
            }
            if let Step::Loop { accesses, .. } = step {
                steps.recycle(accesses);
            }
        }
        Ok(found)
    }

    /// Of all tasks together, each read by itself.
    fn of_all(recording: &dyn Recording) -> Result<Self> {
        let (tasks, next) = (recording.tasks().len(), AtomicUsize::new(0));
        let some = || -> Result<Self> {
            let mut found = Self::default();
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return Ok(found);
                }
                found.add(Self::of(recording.steps(task as u32)?)?);
            }
        };
        let readers = std::thread::available_parallelism().map_or(1, usize::from).min(tasks);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..readers).map(|_| scope.spawn(some)).collect();
            let mut all = Self::default();
            for reader in readers {
                all.add(reader.join().expect("a reader does not panic")?);
            }
            Ok(all)
        })
    }

    fn add(&mut self, other: Self) {
        self.waits.extend(other.waits);
        self.tasks.extend(other.tasks);
    }
}

/// The last access of a loop.
fn last_access(accesses: &[StridedAccess], iterations: u64) -> Option<StridedAccess> {
    let last = accesses.last()?;
    Some(StridedAccess { base: last.address(iterations.saturating_sub(1)), ..*last })
}

/// The atomic access that a wait right behind it may be for: another task's came between what the recorder noted and
/// what the processor did.
fn behind_atomic(reason: Reason, last: Option<&StridedAccess>) -> Option<&StridedAccess> {
    last.filter(|access| reason == Reason::Lock && access.atomic)
}

fn blocks(access: &StridedAccess) -> std::ops::RangeInclusive<u64> {
    blocks_of(access.base, access.size_bytes)
}

/// What a task knows of a block that tasks wait at.
struct OpenWait {
    /// As they were when it waited there last.
    words: Words,
    /// A bit for each word that it has waited for, if need be.
    done: u16,
}

/// The words that a mask has a bit for.
fn chosen(words: &Words, mask: u16) -> impl Iterator<Item = Write> + '_ {
    words.iter().enumerate().filter(move |(word, _)| mask >> word & 1 == 1).map(|(_, write)| *write)
}

struct Task<'a> {
    steps: Box<dyn Steps + 'a>,
    number: u32,
    /// The step that it is at, and cannot take yet.
    at_wait: Option<Step>,
    position: u64,
    /// The access it has made last.
    last: Option<StridedAccess>,
    /// Why it has waited, for whom and for which position, before the access that comes next.
    waits: Vec<(Reason, u32, u64)>,
    forced: Vec<ForcedWait>,
    /// By block.
    open: Blocks<OpenWait>,
    most_open: usize,
    looking: Looking,
    /// The step it is at has been looked at.
    seen: bool,
    /// It goes on when one of these words is another's; empty: it goes on.
    held: Vec<Held>,
    ended: bool,
}

/// A word that a task has looked at, and may have seen changed.
struct Held {
    block: u64,
    word: usize,
    known: Write,
    /// The accesses it had made when it looked last.
    position: u64,
}

impl<'a> Task<'a> {
    fn new(steps: Box<dyn Steps + 'a>, number: u32, most_open: usize) -> Self {
        Self {
            steps,
            number,
            at_wait: None,
            position: 0,
            last: None,
            waits: Vec::new(),
            forced: Vec::new(),
            open: Blocks::default(),
            most_open,
            looking: Looking::default(),
            seen: false,
            held: Vec::new(),
            ended: false,
        }
    }

    /// It has looked at these, and goes on: held until another has changed one of them.
    fn hold(&mut self, looks: Vec<Look>, tracked: &Tracked) {
        for Look { address, size_bytes, position } in looks {
            for number in blocks_of(address, size_bytes) {
                if tracked.blocks.get(&number).is_none_or(|block| !block.waited_at) {
                    continue;
                }
                let known = self.open.get(&number).map(|open| open.words).unwrap_or_default();
                let word = |word| Held { block: number, word, known: known[word], position };
                self.held.extend(words_of(number, address, size_bytes).map(word));
            }
        }
    }

    /// Whether another has changed what it is held for: that is waited for, where it looked last.
    fn sees_change(&mut self, tracked: &Tracked) -> bool {
        let change = self.held.iter().find_map(|held| {
            let now = tracked.blocks.get(&held.block)?.words[held.word];
            let (task, position) = now.known().filter(|known| known.0 != self.number && now != held.known)?;
            Some(ForcedWait { at: held.position, task, position, reason: Reason::Data })
        });
        let Some(wait) = change else { return false };
        let place = self.forced.partition_point(|known| known.at <= wait.at);
        self.forced.insert(place, wait);
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
    fn waited(&mut self, access: &StridedAccess, tracked: &Tracked) {
        for (reason, task, position) in std::mem::take(&mut self.waits) {
            let behind = behind_atomic(reason, self.last.as_ref()).copied();
            let known = match behind {
                None => self.waited_for(&[*access], reason, tracked),
                Some(behind) if !access.atomic => self.waited_for(&[behind], reason, tracked),
                // It may be for either.
                Some(behind) => self.waited_for(&[behind, *access], reason, tracked),
            };
            if !known {
                self.forced.push(ForcedWait { at: self.position, task, position, reason });
            }
            if let Some(behind) = behind {
                self.touch_once(&behind, self.position, tracked);
            }
        }
    }

    /// It has waited for the sake of these accesses. False where one lies in a block that is not tracked.
    fn waited_for(&mut self, accesses: &[StridedAccess], reason: Reason, tracked: &Tracked) -> bool {
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
                true if one => self.open(number, block),
                // It is not known which of the two it is.
                true => self.wait_for(chosen(&block.words, ALL_WORDS), self.position, reason),
            }
        }
        true
    }

    /// It has waited at a block that tasks wait at.
    fn open(&mut self, number: u64, block: &Block) {
        if self.open.len() >= self.most_open {
            let early: Vec<OpenWait> = self.open.drain().map(|(_, wait)| wait).collect();
            for wait in early {
                self.wait_for(chosen(&wait.words, !wait.done), self.position, Reason::Data);
            }
        }
        let same = |before: &OpenWait| {
            let still = (0..WORDS).filter(|&word| before.words[word] == block.words[word]);
            before.done & still.fold(0, |bits, word| bits | 1 << word)
        };
        let done = self.open.get(&number).map_or(0, same);
        self.open.insert(number, OpenWait { words: block.words, done });
    }

    /// It makes the accesses of a loop.
    fn make(&mut self, accesses: &[StridedAccess], iterations: u64, tracked: &mut Tracked) {
        self.last = last_access(accesses, iterations);
        let (first, each) = (self.forced.len(), accesses.len() as u64);
        for (number, access) in (0..).zip(accesses) {
            if iterations == 1 {
                if tracked.may_have(access.base, access.size_bytes) {
                    self.make_one(access, self.position.saturating_add(number), tracked);
                }
                continue;
            }
            let at =
                |iteration: u64| self.position.saturating_add(iteration.saturating_mul(each)).saturating_add(number);
            let last = iterations - 1;
            if access.stride == 0 {
                // What it waits for it waits for at first, and what it writes is what it wrote last.
                if tracked.may_have(access.base, access.size_bytes) {
                    let (now, then) = (at(0), at(last));
                    self.make_one(access, now, tracked);
                    self.make_one(access, then, tracked);
                }
            } else if tracked.any(access, last) {
                for iteration in 0..iterations {
                    let now = StridedAccess { base: access.address(iteration), ..*access };
                    if tracked.may_have(now.base, now.size_bytes) {
                        let at = self.position.saturating_add(iteration.saturating_mul(each)).saturating_add(number);
                        self.make_one(&now, at, tracked);
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
            self.touch_once(access, at, tracked);
        }
        if access.kind.writes() {
            tracked.written(access.base, access.size_bytes, Write::new(self.number, at.saturating_add(1)));
        }
    }

    /// It makes an access: of words of which it has not done so since it waited at their block, it waits for the writes.
    fn touch_once(&mut self, access: &StridedAccess, at: u64, tracked: &Tracked) {
        for number in blocks(access) {
            if !tracked.waited_at.may_have(number) {
                continue;
            }
            let Some(wait) = self.open.get_mut(&number) else { continue };
            let new = bits(words_of(number, access.base, access.size_bytes)) & !wait.done;
            if new != 0 {
                wait.done |= new;
                let words = wait.words;
                let reason = if access.atomic { Reason::Lock } else { Reason::Data };
                self.wait_for(chosen(&words, new), at, reason);
            }
        }
    }

    fn end(&mut self) {
        for (reason, task, position) in std::mem::take(&mut self.waits) {
            self.forced.push(ForcedWait { at: self.position, task, position, reason });
        }
        self.ended = true;
    }
}

fn bits(words: std::ops::Range<usize>) -> u16 {
    words.fold(0, |bits, word| bits | 1 << word)
}

/// Whether the task went on.
fn advance(
    tasks: &mut [Task<'_>],
    number: usize,
    left: &mut u64,
    tracked: &mut Tracked,
    in_vain: &HashSet<LastLook>,
    hold: bool,
) -> Result<bool> {
    if !tasks[number].held.is_empty() && !tasks[number].sees_change(tracked) {
        return Ok(false);
    }
    let step = match tasks[number].at_wait.take() {
        Some(wait) => wait,
        None => match tasks[number].steps.next_step()? {
            Some(step) => step,
            None => {
                tasks[number].end();
                return Ok(true);
            }
        },
    };
    let task = &mut tasks[number];
    if !task.seen {
        let mut looks = task.looking.step(&step, task.position);
        looks.retain(|look| hold && !in_vain.contains(&(task.number, look.position)));
        task.hold(looks, tracked);
        task.seen = true;
        if !task.held.is_empty() && !task.sees_change(tracked) {
            task.at_wait = Some(step);
            return Ok(false);
        }
    }
    match &step {
        Step::Wait { task: on, position, reason, .. } => {
            let other = tasks.get(*on as usize).ok_or_else(|| {
                Error::new(format!("damaged: a wait for task {on}, which it has not")).remedy("record it again")
            })?;
            if other.position < *position {
                tasks[number].at_wait = Some(step);
                return Ok(false);
            }
            if ForcedWait::is_found_of(*reason) {
                let (on, position) = (*on, *position);
                tasks[number].waits.push((*reason, on, position));
            }
        }
        Step::Loop { accesses, iterations } => {
            let task = &mut tasks[number];
            if !task.waits.is_empty() {
                task.waited(&accesses[0], tracked);
            }
            task.make(accesses, *iterations, tracked);
            task.position = task.position.saturating_add(step.access_count());
            *left = left.saturating_sub(step.access_count());
        }
        Step::Polled { accesses } => tasks[number].position = tasks[number].position.saturating_add(*accesses),
        Step::Unmap { range } => tracked.unmapped(range),
        Step::Compute { .. } | Step::Code { .. } | Step::Idle { .. } | Step::Phase { .. } => {}
    }
    tasks[number].seen = false;
    if let Step::Loop { accesses, .. } = step {
        tasks[number].steps.recycle(accesses);
    }
    Ok(true)
}

/// A block at which some task waits.
struct Block {
    words: Words,
    /// Tasks wait for one another there; else only for data.
    waited_at: bool,
}

/// The blocks at which tasks wait, and the pages that have some: nearly all that is accessed lies in none.
struct Tracked {
    blocks: Blocks<Block>,
    /// Whether tasks wait for one another in the page.
    pages: Blocks<bool>,
    filter: Filter,
    /// Of blocks at which tasks wait for one another.
    waited_at: Filter,
}

/// Bits, one of which is set for each number put in: most others are told from these without a look into a map.
struct Filter {
    bits: Vec<u64>,
    shift: u32,
}

impl Filter {
    const BITS_EACH: usize = 16;

    fn new(numbers: impl ExactSizeIterator<Item = u64>) -> Self {
        let bits = numbers.len().saturating_mul(Self::BITS_EACH).next_power_of_two().max(u64::BITS as usize);
        let shift = u64::BITS - bits.trailing_zeros();
        let mut filter = Self { bits: vec![0; bits / u64::BITS as usize], shift };
        for number in numbers {
            let bit = filter.bit(number);
            filter.bits[bit / u64::BITS as usize] |= 1 << (bit % u64::BITS as usize);
        }
        filter
    }

    fn bit(&self, number: u64) -> usize {
        (multiplied(number) >> self.shift) as usize
    }

    /// False: it was not put in.
    fn may_have(&self, number: u64) -> bool {
        let bit = self.bit(number);
        self.bits[bit / u64::BITS as usize] >> (bit % u64::BITS as usize) & 1 == 1
    }
}

impl Tracked {
    fn new(at: &WaitedAt) -> Self {
        let block = |number: &u64| (*number, Block { words: Words::default(), waited_at: at.tasks.contains(number) });
        let blocks: Blocks<Block> = at.waits.iter().map(block).collect();
        let mut pages: Blocks<bool> = Blocks::default();
        for (number, block) in &blocks {
            *pages.entry(number >> (PAGE_SHIFT - BLOCK_SHIFT)).or_default() |= block.waited_at;
        }
        let filter = Filter::new(blocks.keys().copied());
        let waited_at: Vec<u64> =
            blocks.iter().filter(|(_, block)| block.waited_at).map(|(number, _)| *number).collect();
        Self { waited_at: Filter::new(waited_at.into_iter()), blocks, pages, filter }
    }

    /// Whether an access may be in a block that is tracked.
    #[inline]
    fn may_have(&self, address: u64, size_bytes: u32) -> bool {
        let (first, last) = (block(address), block(address.saturating_add(u64::from(size_bytes.max(1)) - 1)));
        self.filter.may_have(first) || (first != last && (last > first + 1 || self.filter.may_have(last)))
    }

    /// Whether some page from an access to its last may have a block that is tracked, or one that is waited at if it
    /// reads alone.
    fn any(&self, access: &StridedAccess, last: u64) -> bool {
        let (one, other) = (access.address(0), access.address(last));
        let (first, last_byte) = (one.min(other), one.max(other).saturating_add(access.size_bytes.into()));
        let mut pages = first >> PAGE_SHIFT..=last_byte >> PAGE_SHIFT;
        let has = |page: u64| self.pages.get(&page).is_some_and(|waits| *waits || access.kind.writes());
        (last_byte - first) >> PAGE_SHIFT > last || pages.any(has)
    }

    fn written(&mut self, address: u64, size_bytes: u32, write: Write) {
        for number in blocks_of(address, size_bytes) {
            if !self.filter.may_have(number) {
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

    fn unmapped(&mut self, range: &std::ops::Range<u64>) {
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

/// The words of a block that an access touches.
fn words_of(number: u64, address: u64, size_bytes: u32) -> std::ops::Range<usize> {
    let (start, end) = (number << BLOCK_SHIFT, address.saturating_add(size_bytes.max(1).into()));
    let first = address.max(start) - start;
    let last = (end - start).min(1 << BLOCK_SHIFT) - 1;
    (first >> WORD_SHIFT) as usize..(last >> WORD_SHIFT) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::in_turns;
    use crate::{AccessKind, InMemory};
    use proptest::prelude::*;

    fn access(kind: AccessKind, address: u64) -> Step {
        Step::access(StridedAccess::new(kind, address, 8))
    }

    fn read(address: u64) -> Step {
        access(AccessKind::Read, address)
    }

    fn write(address: u64) -> Step {
        access(AccessKind::Write, address)
    }

    fn wait(task: u32, position: u64) -> Step {
        Step::Wait { task, position, reason: Reason::Data, polled: None }
    }

    /// Of each task's waits the position that they are before, who is waited for, and its position.
    fn forced(steps: &[Vec<Step>]) -> Vec<Vec<(u64, u32, u64)>> {
        let recording = InMemory::new(steps.to_vec());
        let waits = forced_waits(&recording, &recording).unwrap();
        let numbers = |wait: &ForcedWait| (wait.at, wait.task, wait.position);
        waits.iter().map(|waits| waits.iter().map(numbers).collect()).collect()
    }

    /// The same steps with the waits that are forced.
    fn left(steps: &[Vec<Step>], most_open: usize) -> Vec<Vec<Step>> {
        let recording = InMemory::new(steps.to_vec());
        let forced = forced_within(&recording, &recording, most_open).unwrap();
        let of_task = |(steps, waits): (&Vec<Step>, Vec<ForcedWait>)| {
            let (mut waits, mut position, mut left) = (waits.into_iter().peekable(), 0, Vec::new());
            for step in steps {
                if matches!(step, Step::Wait { reason, .. } if ForcedWait::is_found_of(*reason)) {
                    continue;
                }
                while let Some(wait) = waits.next_if(|wait| wait.at == position) {
                    let ForcedWait { task, position, reason, .. } = wait;
                    left.push(Step::Wait { task, position, reason, polled: None });
                }
                assert!(step.access_count() < 2, "a wait would be within it");
                position += step.access_count();
                left.push(step.clone());
            }
            assert_eq!(waits.next(), None);
            left
        };
        steps.iter().zip(forced).map(of_task).collect()
    }

    #[test]
    fn who_uses_other_words_waits_for_nobody() {
        // The first ran before the second on the recorded machine, and each has its own word.
        let first: Vec<Step> = (0..50).map(|_| write(0x1000)).collect();
        let second: Vec<Step> = std::iter::once(wait(0, 50)).chain((0..50).map(|_| write(0x1008))).collect();
        assert_eq!(forced(&[first, second]), [vec![], vec![]]);
    }

    #[test]
    fn who_reads_waits_for_who_wrote_the_word_and_not_the_block() {
        let first = vec![write(0x1000), write(0x1010)];
        let second = vec![wait(0, 2), write(0x1008)];
        let third = vec![wait(1, 1), read(0x1000)];
        assert_eq!(forced(&[first, second, third])[1..], [vec![], vec![(0, 0, 1)]]);
        // Of both words, for both.
        let wide = Step::access(StridedAccess::new(AccessKind::Read, 0x1000, 16));
        let first = vec![write(0x1000), write(0x1010)];
        let second = vec![wait(0, 2), write(0x1008)];
        assert_eq!(forced(&[first, second, vec![wait(1, 1), wide]])[2], [(0, 0, 1), (0, 1, 1)]);
    }

    fn atomic(address: u64) -> Step {
        Step::access(StridedAccess { atomic: true, ..StridedAccess::new(AccessKind::ReadWrite, address, 4) })
    }

    fn lock(task: u32, position: u64) -> Step {
        Step::Wait { task, position, reason: Reason::Lock, polled: None }
    }

    /// Where tasks wait for one another a wait is for all that is accessed until the next, as it was then, and there.
    #[test]
    fn at_a_block_of_atomics_each_word_is_waited_for_where_it_is_accessed() {
        let first = vec![atomic(0x1000), write(0x1020), write(0x1030), write(0x1038)];
        let second = vec![lock(0, 4), atomic(0x1004), read(0x5000), read(0x1030), read(0x1030), write(0x6000)];
        // It does not wait for what the second reads.
        let third = vec![wait(1, 5), read(0x1020), read(0x1004)];
        let all = forced(&[first.clone(), second, third]);
        assert_eq!(all[1], [(2, 0, 3)]);
        assert_eq!(all[2], [(0, 0, 2), (1, 1, 1)]);
        // Nobody wrote what is accessed.
        assert_eq!(forced(&[first.clone(), vec![lock(0, 4), atomic(0x1004), read(0x1008)]])[1], []);
        // What is written behind the wait is none of its business, whatever the order it is gone through in.
        let mut longer = first;
        longer.extend([wait(1, 2), write(0x1030)]);
        let second = vec![lock(0, 4), atomic(0x1004), write(0x7000), read(0x8000), read(0x1030)];
        assert_eq!(forced(&[longer, second])[1], [(3, 0, 3)]);
    }

    #[test]
    fn a_word_that_was_waited_for_is_not_waited_for_again() {
        let first = vec![atomic(0x1000), write(0x1010), write(0x1020), write(0x1020)];
        let again = Step::access(StridedAccess::new(AccessKind::Read, 0x1010, 4));
        let second = vec![lock(0, 2), atomic(0x1010), wait(0, 4), again, read(0x1020), read(0x1000)];
        assert_eq!(forced(&[first, second])[1], [(0, 0, 2), (2, 0, 4), (3, 0, 1)]);
    }

    #[test]
    fn a_wait_behind_an_atomic_access_is_for_that() {
        let of_second = |own: u64, next: Step| {
            let first = vec![lock(1, 1), atomic(0x1000), atomic(0x1008)];
            forced(&[first, vec![atomic(own), lock(0, 2), next]]).remove(1)
        };
        assert_eq!(of_second(0x1000, read(0x9000)), [(1, 0, 1)]);
        assert_eq!(of_second(0x1010, read(0x9000)), []);
        // Before another atomic access it may be for either, and at two blocks for all that is there.
        assert_eq!(of_second(0x1010, atomic(0x9000)), [(1, 0, 2)]);
        assert_eq!(of_second(0x1000, atomic(0x1008)), [(1, 0, 1), (1, 0, 2)]);
    }

    /// A barrier of glibc's kind: who comes late out of one does not wait for who is at the next already.
    #[test]
    fn who_leaves_a_barrier_late_waits_for_nobody_at_the_next() {
        let (arrived, round, left) = (0x1000, 0x1004, 0x1010);
        let read_round = || Step::access(StridedAccess::new(AccessKind::Read, round, 4));
        let work = |task: u64| (0..100).map(move |at| read(0x10_0000 * (task + 1) + 8 * at));
        // The second comes last, lets the first go, works and is at the next; then the first looks and leaves.
        let mut first = vec![atomic(arrived), read_round()];
        let mut second = vec![lock(0, 1), atomic(arrived), atomic(round), atomic(left)];
        second.extend(work(1));
        second.push(atomic(arrived));
        first.extend([wait(1, second.len() as u64 - 1), read_round(), atomic(left)]);
        first.extend(work(0));
        first.push(atomic(arrived));
        // Let go, and left after it; only at the next it comes behind it, as it did.
        assert_eq!(forced(&[first, second])[0], [(2, 1, 2), (3, 1, 3), (104, 1, 104)]);
    }

    #[test]
    fn what_is_polled_is_waited_for_by_words() {
        let polled = Step::Wait { task: 0, position: 2, reason: Reason::Data, polled: Some(0x1008) };
        let all = forced(&[vec![write(0x1000), write(0x1020)], vec![polled, read(0x1008), read(0x1000)]]);
        assert_eq!(all[1], [(1, 0, 1)]);
    }

    /// It was preempted between what the recorder noted and what it read, and never read the flag again.
    #[test]
    fn who_looked_until_a_flag_changed_waits_for_that() {
        let spin = |iterations| {
            let flag = StridedAccess::new(AccessKind::Read, 0x1000, 4);
            Step::Loop { accesses: vec![flag], iterations }
        };
        let set = || Step::access(StridedAccess::new(AccessKind::Write, 0x1000, 4));
        let mut second: Vec<Step> = (0..5000).map(|at| read(0x9000 + 8 * at)).collect();
        second.push(set());
        second.extend((0..5000).map(|at| read(0x9000 + 8 * at)));
        let after = |loops: u64| forced(&[vec![read(0x5000), spin(loops), read(0x6000)], second.clone()]).remove(0);
        assert_eq!(after(9), [(9, 1, 5001)]);
        // Who reads it now and then goes on without; and so does who looks at what nobody changes.
        assert_eq!(after(3), []);
        let alone =
            forced(&[vec![spin(9), read(0x6000), write(0x7000)], vec![read(0x8000), wait(0, 11), read(0x7000)]]);
        assert_eq!(alone, [vec![], vec![(1, 0, 11)]]);
    }

    #[test]
    fn what_is_unmapped_was_written_by_nobody() {
        for bytes in [64, 1 << 40] {
            let first = vec![write(0x1000), Step::Unmap { range: 0x1000..0x1000 + bytes }, write(0x8000_0000_0000)];
            assert_eq!(forced(&[first, vec![wait(0, 2), read(0x1000)]])[1], [], "{bytes}");
        }
    }

    /// Steps of each task, and for each of its waits for data the position that it is before, and the write of the word
    /// that is accessed, if it is another task's.
    type Recorded = (Vec<Vec<Step>>, Vec<Vec<(u64, Option<(u32, u64)>)>>);

    /// Tasks that each write words of their own and read all, in an order that is drawn, as the recorder keeps it: who
    /// writes a block waits for whoever wrote it last, who reads it for the first time since does.
    fn recorded(ran: &[(u32, bool, u64)], tasks: usize) -> Recorded {
        let mut steps = vec![Vec::new(); tasks];
        let mut positions = vec![0u64; tasks];
        let mut last: std::collections::BTreeMap<u64, (u32, u64, HashSet<u32>)> = Default::default();
        let mut words: std::collections::BTreeMap<u64, (u32, u64)> = Default::default();
        let mut true_writes = vec![Vec::new(); tasks];
        for &(task, writes, number) in ran {
            let word = if writes { number / tasks as u64 * tasks as u64 + u64::from(task) } else { number };
            let (address, me) = (0x1000 + 8 * word, task as usize);
            let block = block(address);
            let by_another = last.get_mut(&block).filter(|known| known.0 != task);
            let waits =
                by_another.and_then(|(writer, at, readers)| (readers.insert(task) || writes).then_some((*writer, *at)));
            if let Some((writer, at)) = waits {
                steps[me].push(wait(writer, at));
                true_writes[me].push((positions[me], words.get(&word).copied().filter(|known| known.0 != task)));
            }
            positions[me] += 1;
            steps[me].push(if writes { write(address) } else { read(address) });
            if writes {
                words.insert(word, (task, positions[me]));
                last.insert(block, (task, positions[me], HashSet::new()));
            }
        }
        (steps, true_writes)
    }

    /// What a task does to a word of a block that tasks wait at.
    #[derive(Debug, Clone, Copy)]
    enum Deed {
        Read,
        Write,
        Atomic,
    }

    /// Steps of each task, and for each of its accesses another task's write of the word that came before.
    type Ordered = (Vec<Vec<Step>>, Vec<Vec<Option<(u32, u64)>>>);

    /// Any task does anything to any word of two blocks, in an order that is drawn, as the recorder keeps it.
    fn at_atomics(ran: &[(u32, Deed, u64)], tasks: usize) -> Ordered {
        let mut steps = vec![Vec::new(); tasks];
        let mut forced = vec![Vec::new(); tasks];
        let mut last: std::collections::BTreeMap<u64, (u32, u64, HashSet<u32>)> = Default::default();
        let mut words: std::collections::BTreeMap<u64, (u32, u64)> = Default::default();
        for &(task, deed, word) in ran {
            let (address, me) = (0x1000 + 4 * word, task as usize);
            let step = match deed {
                Deed::Read => Step::access(StridedAccess::new(AccessKind::Read, address, 4)),
                Deed::Write => Step::access(StridedAccess::new(AccessKind::Write, address, 4)),
                Deed::Atomic => atomic(address),
            };
            let writes = !matches!(deed, Deed::Read);
            let by_another = last.get_mut(&block(address)).filter(|known| known.0 != task);
            if let Some((writer, at, readers)) = by_another
                && (readers.insert(task) || writes)
            {
                let reason = if matches!(deed, Deed::Atomic) { Reason::Lock } else { Reason::Data };
                steps[me].push(Step::Wait { task: *writer, position: *at, reason, polled: None });
            }
            steps[me].push(step);
            forced[me].push(words.get(&word).copied().filter(|known| known.0 != task));
            if writes {
                let position = forced[me].len() as u64;
                words.insert(word, (task, position));
                last.insert(block(address), (task, position, HashSet::new()));
            }
        }
        (steps, forced)
    }

    proptest! {
        /// No order that is left has a task at a word before whoever wrote it before.
        #[test]
        fn at_atomics_each_word_is_waited_for(
            ran in prop::collection::vec(
                (0..3u32, prop::sample::select(vec![Deed::Read, Deed::Write, Deed::Atomic]), 0..24u64), 0..200),
            most_open in 1..3usize
        ) {
            let mut ran = ran;
            // Atomic accesses are made in both blocks.
            ran.extend([(0, Deed::Atomic, 0), (0, Deed::Atomic, 16)]);
            let (steps, forced) = at_atomics(&ran, 3);
            let left = InMemory::new(left(&steps, most_open));
            for turn in [1, 5, 1000] {
                let mut made = [0usize; 3];
                let mut early = Vec::new();
                in_turns(&left, turn, &mut |event| {
                    if let crate::order::Event::Access(access) = event {
                        let task = access.task as usize;
                        let wanted = forced[task][made[task]];
                        made[task] += 1;
                        early.extend(wanted.filter(|&(writer, position)| (made[writer as usize] as u64) < position));
                    }
                    Ok(())
                }).unwrap();
                prop_assert!(early.is_empty(), "{early:?}");
                prop_assert_eq!(made.iter().sum::<usize>(), ran.len());
            }
        }

        #[test]
        fn true_writes_are_waited_for_and_nobody_in_a_circle(
            ran in prop::collection::vec((0..4u32, any::<bool>(), 0..24u64), 0..300)
        ) {
            let (steps, true_writes) = recorded(&ran, 4);
            for (task, (forced, wanted)) in forced(&steps).iter().zip(&true_writes).enumerate() {
                let at = |position| forced.iter().filter(move |wait| wait.0 == position);
                for &(position, wanted) in wanted {
                    // A word has one writer: nobody else is waited for.
                    prop_assert!(at(position).count() <= 1 && at(position).count() >= usize::from(wanted.is_some()));
                    prop_assert!(at(position).all(|wait| wait.1 as usize != task));
                    if let Some((writer, write)) = wanted {
                        prop_assert!(at(position).all(|wait| wait.1 == writer && wait.2 >= write), "{forced:?}");
                    }
                }
                prop_assert!(forced.iter().all(|wait| wanted.iter().any(|(position, _)| *position == wait.0)));
            }
            let left = InMemory::new(left(&steps, 100));
            for turn in [1, 7, 1000] {
                prop_assert!(in_turns(&left, turn, &mut |_| Ok(())).is_ok());
            }
        }
    }
}
