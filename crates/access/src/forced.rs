//! Which waits for another's data the program forces.
//!
//! While a program is recorded, order among tasks is kept by blocks of 64 bytes: who reads or writes a block waits for
//! whoever wrote it last, in whatever word. Tasks that use different words of a block then take turns as they did on
//! the recorded machine, where they may have run one after the other. Here all accesses are gone through in an order
//! that those waits allow, and what is accessed is followed by words of 8 bytes: a wait for data stays where the words
//! were written by another task, for that write, and goes where they were not.
//!
//! As recorded stay waits for locks and ends, and all waits at blocks that tasks wait at: some atomic instruction is
//! used on them, or they are polled. There what orders tasks may be another word than the one that is read next.
//! A program in which tasks read what others write without any such wait between is a race; of these the order of the
//! words that are read first after another's write is kept.

use crate::hashing::Blocks;
use crate::{Reason, Recording, Step, Steps, StridedAccess};
use cohabit_model::{Error, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORD_SHIFT: u32 = 3;
/// Bytes of memory in which order is recorded, as a shift.
const BLOCK_SHIFT: u32 = 6;
const WORDS: usize = 1 << (BLOCK_SHIFT - WORD_SHIFT);
/// Accesses of a turn, when all is gone through; a loop is gone through at once.
const TURN: u64 = 64;
const PAGE_SHIFT: u32 = 12;

/// What becomes of a wait for data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It stays.
    Keep,
    /// It is for these tasks' positions instead; none: it goes.
    Instead(Vec<(u32, u64)>),
}

/// Who wrote each word of a block last, and where it was behind that.
type Words = [Option<(u32, u64)>; WORDS];

/// Decides of the waits for data of each task, in their order. `recording` is read once as it is, `told` is the same
/// with its polling told as such.
///
/// # Errors
/// The recording cannot be read, or its waits cannot be kept.
pub(crate) fn decide(told: &dyn Recording, recording: &dyn Recording) -> Result<Vec<Vec<Decision>>> {
    let at = WaitedAt::of_all(told)?;
    let mut tracked = Tracked::new(at.data.difference(&at.tasks).copied());
    drop(at);
    let open = |task| {
        Ok(Task {
            steps: recording.steps(task)?,
            at_wait: None,
            position: 0,
            waits: 0,
            decisions: Vec::new(),
            ended: false,
        })
    };
    let mut tasks = (0..recording.tasks().len() as u32).map(open).collect::<Result<Vec<_>>>()?;
    loop {
        let (mut moved, mut waiting) = (false, None);
        for number in 0..tasks.len() {
            let mut left = TURN;
            while left > 0 && !tasks[number].ended {
                if !advance(&mut tasks, number, &mut left, &mut tracked)? {
                    waiting = Some(number);
                    break;
                }
                moved = true;
            }
        }
        match waiting {
            _ if moved => {}
            None => return Ok(tasks.into_iter().map(|task| task.decisions).collect()),
            Some(task) => {
                return Err(Error::new(format!("the recording cannot go on: task {task} waits for what never comes"))
                    .remedy("record it again"));
            }
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

/// Blocks at which a task waits for data, and those at which it waits for other tasks, or makes atomic accesses.
#[derive(Default)]
struct WaitedAt {
    data: HashSet<u64>,
    tasks: HashSet<u64>,
}

impl WaitedAt {
    fn of(mut steps: Box<dyn Steps + '_>) -> Result<Self> {
        let mut found = Self::default();
        let (mut data, mut others) = (false, false);
        while let Some(step) = steps.next_step()? {
            match &step {
                Step::Wait { reason: Reason::Data, polled: None, .. } => data = true,
                Step::Wait { reason: Reason::Data | Reason::Lock, .. } => others = true,
                Step::Loop { accesses, iterations } => {
                    if data || others {
                        let touched = blocks_of(accesses[0].base, accesses[0].size_bytes);
                        if others { found.tasks.extend(touched) } else { found.data.extend(touched) }
                    }
                    (data, others) = (false, false);
                    for access in accesses.iter().filter(|access| access.atomic) {
                        let every = if access.stride == 0 { 1 } else { *iterations };
                        (0..every).for_each(|at| found.tasks.extend(blocks_of(access.address(at), access.size_bytes)));
                    }
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
        self.data.extend(other.data);
        self.tasks.extend(other.tasks);
    }
}

struct Task<'a> {
    steps: Box<dyn Steps + 'a>,
    /// The wait that it is at.
    at_wait: Option<Step>,
    position: u64,
    /// Waits for data that have come to their end, for the access that comes next.
    waits: usize,
    decisions: Vec<Decision>,
    ended: bool,
}

/// Whether the task went on.
fn advance(tasks: &mut [Task<'_>], number: usize, left: &mut u64, tracked: &mut Tracked) -> Result<bool> {
    let step = match tasks[number].at_wait.take() {
        Some(wait) => wait,
        None => match tasks[number].steps.next_step()? {
            Some(step) => step,
            None => {
                let task = &mut tasks[number];
                task.decisions.resize(task.decisions.len() + task.waits, Decision::Keep);
                task.ended = true;
                return Ok(true);
            }
        },
    };
    match &step {
        Step::Wait { task: on, position, reason, .. } => {
            let other = tasks.get(*on as usize).ok_or_else(|| {
                Error::new(format!("damaged: a wait for task {on}, which it has not")).remedy("record it again")
            })?;
            if other.position < *position {
                tasks[number].at_wait = Some(step);
                return Ok(false);
            }
            tasks[number].waits += usize::from(*reason == Reason::Data);
        }
        Step::Loop { accesses, iterations } => {
            let task = &mut tasks[number];
            if task.waits > 0 {
                let decision = tracked.decision(number as u32, &accesses[0]);
                let none = if decision == Decision::Keep { Decision::Keep } else { Decision::Instead(Vec::new()) };
                task.decisions.push(decision);
                task.decisions.resize(task.decisions.len() + task.waits - 1, none);
                task.waits = 0;
            }
            tracked.gone_through(accesses, *iterations, (number as u32, task.position));
            task.position = task.position.saturating_add(step.access_count());
            *left = left.saturating_sub(step.access_count());
        }
        Step::Polled { accesses } => tasks[number].position = tasks[number].position.saturating_add(*accesses),
        Step::Unmap { range } => tracked.unmapped(range),
        Step::Compute { .. } | Step::Code { .. } | Step::Idle { .. } | Step::Phase { .. } => {}
    }
    if let Step::Loop { accesses, .. } = step {
        tasks[number].steps.recycle(accesses);
    }
    Ok(true)
}

/// The blocks at which tasks wait for data, and the pages that have some: nearly all that is written lies in none.
struct Tracked {
    blocks: Blocks<Words>,
    pages: Blocks<()>,
    filter: Filter,
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
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// False: it was not put in.
    fn may_have(&self, number: u64) -> bool {
        let bit = self.bit(number);
        self.bits[bit / u64::BITS as usize] >> (bit % u64::BITS as usize) & 1 == 1
    }
}

impl Tracked {
    fn new(blocks: impl Iterator<Item = u64>) -> Self {
        let blocks: Blocks<Words> = blocks.map(|block| (block, Words::default())).collect();
        let pages = blocks.keys().map(|block| (block >> (PAGE_SHIFT - BLOCK_SHIFT), ())).collect();
        let filter = Filter::new(blocks.keys().copied());
        Self { blocks, pages, filter }
    }

    /// The task makes the accesses of a loop, from a position on.
    fn gone_through(&mut self, accesses: &[StridedAccess], iterations: u64, (task, position): (u32, u64)) {
        let each = accesses.len() as u64;
        for (number, access) in (1..).zip(accesses).filter(|(_, access)| access.kind.writes()) {
            let behind = |iteration: u64| {
                Some((task, position.saturating_add(iteration.saturating_mul(each)).saturating_add(number)))
            };
            let last = iterations - 1;
            if access.stride == 0 || iterations == 1 {
                self.written(access.base, access.size_bytes, behind(last));
            } else if self.any(access.address(0), access.address(last), access.size_bytes, iterations) {
                for iteration in 0..iterations {
                    self.written(access.address(iteration), access.size_bytes, behind(iteration));
                }
            }
        }
    }

    /// Whether some page from one access to another may have a block that is tracked.
    fn any(&self, one: u64, other: u64, size_bytes: u32, accesses: u64) -> bool {
        let (first, last) = (one.min(other), one.max(other).saturating_add(size_bytes.into()));
        let mut pages = first >> PAGE_SHIFT..=last >> PAGE_SHIFT;
        (last - first) >> PAGE_SHIFT > accesses || pages.any(|page| self.pages.contains_key(&page))
    }

    fn written(&mut self, address: u64, size_bytes: u32, writer: Option<(u32, u64)>) {
        for number in blocks_of(address, size_bytes) {
            if !self.filter.may_have(number) {
                continue;
            }
            if let Some(words) = self.blocks.get_mut(&number) {
                // Of one loop's accesses the last one counts, in whatever order they are gone through.
                for word in &mut words[words_of(number, address, size_bytes)] {
                    let later =
                        matches!((*word, writer), (Some(known), Some(now)) if known.0 == now.0 && known.1 > now.1);
                    *word = if later { *word } else { writer };
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
            self.written(range.start, u32::try_from(range.end - range.start).unwrap_or(u32::MAX), None);
        } else {
            let gone = |number: u64| (block(range.start)..=last).contains(&number);
            self.blocks
                .iter_mut()
                .filter(|(number, _)| gone(**number))
                .for_each(|(_, words)| *words = Words::default());
        }
    }

    /// What becomes of waits before the access.
    fn decision(&self, task: u32, access: &StridedAccess) -> Decision {
        let mut writes: Vec<(u32, u64)> = Vec::new();
        for number in blocks_of(access.base, access.size_bytes) {
            let Some(words) = self.blocks.get(&number) else { return Decision::Keep };
            for &(writer, position) in words[words_of(number, access.base, access.size_bytes)].iter().flatten() {
                match writes.iter_mut().find(|known| known.0 == writer) {
                    _ if writer == task => {}
                    Some(known) => known.1 = known.1.max(position),
                    None => writes.push((writer, position)),
                }
            }
        }
        Decision::Instead(writes)
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

    fn decided(steps: &[Vec<Step>]) -> Vec<Vec<Decision>> {
        let recording = InMemory::new(steps.to_vec());
        decide(&recording, &recording).unwrap()
    }

    /// What is left when it is decided.
    fn left(steps: &[Vec<Step>]) -> Vec<Vec<Step>> {
        let apply = |(steps, decisions): (&Vec<Step>, Vec<Decision>)| {
            let mut decisions = decisions.into_iter();
            let each = |step: &Step| match step {
                Step::Wait { reason: Reason::Data, .. } => match decisions.next().unwrap() {
                    Decision::Keep => vec![step.clone()],
                    Decision::Instead(writes) => writes.into_iter().map(|(task, at)| wait(task, at)).collect(),
                },
                other => vec![other.clone()],
            };
            steps.iter().flat_map(each).collect()
        };
        steps.iter().zip(decided(steps)).map(apply).collect()
    }

    #[test]
    fn who_uses_other_words_waits_for_nobody() {
        // The first ran before the second on the recorded machine, and each has its own word.
        let first: Vec<Step> = (0..50).map(|_| write(0x1000)).collect();
        let second: Vec<Step> = std::iter::once(wait(0, 50)).chain((0..50).map(|_| write(0x1008))).collect();
        assert_eq!(decided(&[first, second]), [vec![], vec![Decision::Instead(vec![])]]);
    }

    #[test]
    fn who_reads_waits_for_who_wrote_the_word_and_not_the_block() {
        let first = vec![write(0x1000), write(0x1010)];
        let second = vec![wait(0, 2), write(0x1008)];
        let third = vec![wait(1, 1), read(0x1000)];
        let all = decided(&[first, second, third]);
        assert_eq!(all[1..], [vec![Decision::Instead(vec![])], vec![Decision::Instead(vec![(0, 1)])]]);
        // Of both words, for both.
        let wide = Step::access(StridedAccess::new(AccessKind::Read, 0x1000, 16));
        let first = vec![write(0x1000), write(0x1010)];
        let second = vec![wait(0, 2), write(0x1008)];
        let all = decided(&[first, second, vec![wait(1, 1), wide]]);
        assert_eq!(all[2], [Decision::Instead(vec![(0, 1), (1, 1)])]);
    }

    #[test]
    fn where_tasks_wait_for_one_another_all_stays() {
        let lock = Step::Wait { task: 0, position: 1, reason: Reason::Lock, polled: None };
        let polled = Step::Wait { task: 0, position: 1, reason: Reason::Data, polled: Some(0x1008) };
        let of_atomic = StridedAccess { atomic: true, ..StridedAccess::new(AccessKind::ReadWrite, 0x1038, 8) };
        for other in [vec![lock, read(0x1008)], vec![polled.clone(), read(0x1008)], vec![Step::access(of_atomic)]] {
            let all = decided(&[vec![write(0x1000)], vec![wait(0, 1), write(0x1020)], other]);
            assert_eq!(all[1], [Decision::Keep]);
        }
        assert_eq!(decided(&[vec![write(0x1000)], vec![polled, read(0x1008)]])[1], [Decision::Keep]);
    }

    #[test]
    fn what_is_unmapped_was_written_by_nobody() {
        for bytes in [64, 1 << 40] {
            let first = vec![write(0x1000), Step::Unmap { range: 0x1000..0x1000 + bytes }, write(0x8000_0000_0000)];
            let all = decided(&[first, vec![wait(0, 2), read(0x1000)]]);
            assert_eq!(all[1], [Decision::Instead(vec![])], "{bytes}");
        }
    }

    /// Steps of each task, and for each of its waits for data the write of the word that is accessed, if it is another
    /// task's.
    type Recorded = (Vec<Vec<Step>>, Vec<Vec<Option<(u32, u64)>>>);

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
                true_writes[me].push(words.get(&word).copied().filter(|known| known.0 != task));
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

    proptest! {
        #[test]
        fn true_writes_are_waited_for_and_nobody_in_a_circle(
            ran in prop::collection::vec((0..4u32, any::<bool>(), 0..24u64), 0..300)
        ) {
            let (steps, true_writes) = recorded(&ran, 4);
            let decisions = decided(&steps);
            for (task, (decisions, wanted)) in decisions.iter().zip(&true_writes).enumerate() {
                prop_assert_eq!(decisions.len(), wanted.len());
                for (decision, wanted) in decisions.iter().zip(wanted) {
                    let Decision::Instead(writes) = decision else { panic!("no locks here") };
                    // A word has one writer: nobody else is waited for.
                    prop_assert!(writes.len() <= 1 && writes.iter().all(|write| write.0 as usize != task));
                    if let Some((writer, position)) = wanted {
                        prop_assert!(writes.len() == 1 && writes[0].0 == *writer && writes[0].1 >= *position,
                            "{:?} {:?}", writes, wanted);
                    }
                }
            }
            let left = InMemory::new(left(&steps));
            for turn in [1, 7, 1000] {
                prop_assert!(in_turns(&left, turn, &mut |_| Ok(())).is_ok());
            }
        }
    }
}
