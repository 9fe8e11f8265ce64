use super::words::block;
use super::*;
use crate::order::in_turns;
use crate::{AccessKind, InMemory, StridedAccess};
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

fn count(address: u64) -> Step {
    let access = StridedAccess::new(AccessKind::ReadWrite, address, 4);
    Step::access(StridedAccess { atomic: true, unconditional: true, ..access })
}

fn works(number: u64) -> impl Iterator<Item = Step> {
    (0..number).map(move |at| read(0x9_0000 + 8 * at))
}

/// Two take what is next by adding to a counter, in turns: neither waits for the other, nor whoever takes the last.
#[test]
fn who_takes_what_is_next_from_a_counter_waits_for_nobody() {
    let of = |waits: &[Option<Step>]| -> Vec<Step> {
        waits.iter().flat_map(|wait| wait.clone().into_iter().chain([count(0x1000)]).chain(works(100))).collect()
    };
    let first = of(&[None, Some(lock(1, 1)), Some(lock(1, 102))]);
    let second = of(&[Some(lock(0, 1)), Some(lock(0, 102)), Some(lock(0, 203))]);
    assert_eq!(forced(&[first.clone(), second.clone()]), [vec![], vec![]]);
    // By an instruction that may take a lock they wait, as recorded.
    let locks = |steps: Vec<Step>| -> Vec<Step> {
        let conditional = |mut step: Step| {
            if let Step::Loop { accesses, .. } = &mut step {
                accesses.iter_mut().for_each(|access| access.unconditional = false);
            }
            step
        };
        steps.into_iter().map(conditional).collect()
    };
    assert_eq!(forced(&[locks(first), locks(second)])[1], [(0, 0, 1), (101, 0, 102), (202, 0, 203)]);
}

/// Another counts between what the recorder noted of a count and what the processor did: the wait comes behind.
#[test]
fn who_counts_while_another_does_waits_for_that_where_it_matters() {
    let (counter, phase) = (0x1000, 0x1010);
    let other = || [lock(0, 6), count(counter)].into_iter();
    let behind = || works(5).chain([count(counter), lock(1, 1)]);
    let alone = [behind().chain(works(100)).collect(), other().chain(works(100)).collect()];
    assert_eq!(forced(&alone), [vec![], vec![]]);
    // It reads what has come of both: of the other, who so waits for all before.
    let reads = [behind().chain([read(counter)]).collect(), other().chain(works(100)).collect()];
    assert_eq!(forced(&reads), [vec![(6, 1, 1)], vec![(0, 0, 6)]]);
    // It is the last to arrive, and lets the other go.
    let polls = (0..9).map(|_| read(phase)).chain([wait(0, 7), read(phase)]).chain(works(1));
    let last = [behind().chain([write(phase)]).chain(works(3)).collect(), other().chain(polls).collect()];
    assert_eq!(forced(&last), [vec![(6, 1, 1)], vec![(10, 0, 7)]]);
}

/// Three arrive at a barrier; who is last lets the others go, and waits for both.
#[test]
fn who_is_the_last_to_arrive_waits_for_all() {
    let (arrived, phase) = (0x1000, 0x1010);
    let polls = |wait: Step| (0..9).map(move |_| read(phase)).chain([wait]).chain([read(phase)]).chain(works(3));
    let last = |task| wait(task, 52);
    let first: Vec<Step> = works(10).chain([count(arrived)]).chain(polls(last(2))).collect();
    let second: Vec<Step> = works(30).chain([lock(0, 11), count(arrived)]).chain(polls(last(2))).collect();
    let third: Vec<Step> = works(50).chain([lock(1, 31), count(arrived), write(phase)]).chain(works(3)).collect();
    let all = forced(&[first, second, third]);
    assert_eq!(all, [vec![(20, 2, 52)], vec![(40, 2, 52)], vec![(50, 0, 11), (50, 1, 31)]]);
}

/// A semaphore: who adds to it waits for nobody, whoever takes from it for all that have added.
#[test]
fn who_takes_from_a_semaphore_waits_for_all_that_have_posted() {
    let first: Vec<Step> = works(10).chain([count(0x1000)]).chain(works(100)).collect();
    let second: Vec<Step> = works(20).chain([lock(0, 11), count(0x1000)]).chain(works(100)).collect();
    let third: Vec<Step> = works(1).chain([lock(1, 21), atomic(0x1000)]).collect();
    let all = forced(&[first, second, third]);
    assert_eq!(all, [vec![], vec![], vec![(1, 0, 11), (1, 1, 21)]]);
}

/// What comes of a counter is a wait for whom it lets go, through as many counters as it may be.
#[test]
fn who_counts_through_a_tree_waits_at_each_node() {
    let (leaf, root, phase) = (0x1000, 0x1040, 0x1080);
    let first: Vec<Step> = works(10).chain([count(leaf)]).chain(works(3)).collect();
    let second: Vec<Step> = works(20).chain([lock(0, 11), count(leaf), count(root)]).chain(works(3)).collect();
    let third: Vec<Step> = works(40).chain([lock(1, 22), count(root), write(phase)]).chain(works(3)).collect();
    let looks = (0..9).map(|_| read(phase)).chain([wait(2, 42), read(phase)]).chain(works(1));
    let all = forced(&[first, second, third, looks.collect()]);
    assert_eq!(all, [vec![], vec![(20, 0, 11)], vec![(40, 1, 22)], vec![(9, 2, 42)]]);
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
    let alone = forced(&[vec![spin(9), read(0x6000), write(0x7000)], vec![read(0x8000), wait(0, 11), read(0x7000)]]);
    assert_eq!(alone, [vec![], vec![(1, 0, 11)]]);
}

/// Of several writes in a row the recorder has the first, so who waits for it may be further here than it was.
#[test]
fn a_wait_that_polling_ends_with_stays_though_the_word_is_not_yet_written_here() {
    let set = || Step::access(StridedAccess::new(AccessKind::Write, 0x1000, 4));
    let get = || Step::access(StridedAccess::new(AccessKind::Read, 0x1000, 4));
    let between = |number: u64| (0..number).map(|at| read(0x9000 + 8 * at));
    let polls = |wait: Step| [get(), get(), get(), get(), wait.clone(), get(), wait, set()];
    let mut first = vec![set()];
    first.extend(between(200));
    first.push(set());
    first.extend(polls(wait(1, 6)));
    let second = polls(wait(0, 1));
    let all = forced(&[first, second.to_vec()]);
    assert_eq!(all[0], [(206, 1, 6)]);
    assert_eq!(all[1], [(4, 0, 1)]);
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
/// writes a block waits for whoever wrote it last, who reads it for the first time since does. Nobody reads a word again
/// and again.
fn recorded(ran: &[(u32, bool, u64)], tasks: usize) -> Recorded {
    let mut steps = vec![Vec::new(); tasks];
    let mut positions = vec![0u64; tasks];
    let mut last: std::collections::BTreeMap<u64, (u32, u64, HashSet<u32>)> = Default::default();
    let mut words: std::collections::BTreeMap<u64, (u32, u64)> = Default::default();
    let mut true_writes = vec![Vec::new(); tasks];
    for &(task, writes, number) in ran {
        let word = if writes { number / tasks as u64 * tasks as u64 + u64::from(task) } else { number };
        let (address, me) = (0x1000 + 8 * word, task as usize);
        let again = || {
            let made = steps[me].iter().rev().filter(|step: &&Step| step.access_count() > 0);
            made.take(8).any(|step| *step == read(address))
        };
        if !writes && again() {
            continue;
        }
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
    Count,
}

/// Steps of each task, and for each of its accesses what other tasks wrote to the word before, if that was written by
/// another last: of each its last write, the last of all first. Who counts needs nothing of that.
type Ordered = (Vec<Vec<Step>>, Vec<Vec<Vec<(u32, u64)>>>);

/// Any task does anything to any word of two blocks, in an order that is drawn, as the recorder keeps it.
fn at_atomics(ran: &[(u32, Deed, u64)], tasks: usize) -> Ordered {
    let mut steps = vec![Vec::new(); tasks];
    let mut forced = vec![Vec::new(); tasks];
    let mut last: std::collections::BTreeMap<u64, (u32, u64, HashSet<u32>)> = Default::default();
    let mut words: std::collections::BTreeMap<u64, Vec<(u32, u64)>> = Default::default();
    for &(task, deed, word) in ran {
        let (address, me) = (0x1000 + 4 * word, task as usize);
        let step = match deed {
            Deed::Count => count(address),
            Deed::Read => Step::access(StridedAccess::new(AccessKind::Read, address, 4)),
            Deed::Write => Step::access(StridedAccess::new(AccessKind::Write, address, 4)),
            Deed::Atomic => atomic(address),
        };
        let writes = !matches!(deed, Deed::Read);
        let by_another = last.get_mut(&block(address)).filter(|known| known.0 != task);
        let waits = |(writer, at, readers): &mut (u32, u64, HashSet<u32>)| {
            (readers.insert(task) || writes).then_some((*writer, *at))
        };
        if let Some((writer, position)) = by_another.and_then(waits) {
            let reason = if matches!(deed, Deed::Atomic | Deed::Count) { Reason::Lock } else { Reason::Data };
            steps[me].push(Step::Wait { task: writer, position, reason, polled: None });
        }
        steps[me].push(step);
        let known = words.entry(word).or_default();
        let needs = !matches!(deed, Deed::Count) && known.first().is_some_and(|last| last.0 != task);
        forced[me].push(if needs {
            known.iter().copied().filter(|write| write.0 != task).collect()
        } else {
            Vec::new()
        });
        if writes {
            let position = forced[me].len() as u64;
            known.retain(|write| write.0 != task);
            known.insert(0, (task, position));
            last.insert(block(address), (task, position, HashSet::new()));
        }
    }
    (steps, forced)
}

/// A recording that tells all steps.
struct Whole<'a>(&'a InMemory);

struct AllSteps<'a>(Box<dyn crate::Steps + 'a>);

impl crate::Steps for AllSteps<'_> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        self.0.next_step()
    }
}

impl Recording for Whole<'_> {
    fn tasks(&self) -> &[crate::TaskInfo] {
        self.0.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn crate::Steps + '_>> {
        Ok(Box::new(AllSteps(self.0.steps(task)?)))
    }
}

proptest! {
    /// No order that is left has a task at a word before whoever wrote it before, but for those that count there.
    #[test]
    fn at_atomics_each_word_is_waited_for(
        ran in prop::collection::vec(
            (0..3u32, prop::sample::select(vec![Deed::Read, Deed::Write, Deed::Atomic, Deed::Count, Deed::Count]), 0..24u64), 0..200),
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
                    let wanted = &forced[task][made[task]];
                    made[task] += 1;
                    early.extend(wanted.iter().copied().filter(|&(writer, position)| (made[writer as usize] as u64) < position));
                }
                Ok(())
            }).unwrap();
            prop_assert!(early.is_empty(), "{early:?}");
            prop_assert_eq!(made.iter().sum::<usize>(), ran.len());
        }
    }

    /// What need not be told changes nothing where it is told: tasks that look again and again, at words of few blocks
    /// and at others.
    #[test]
    fn what_is_left_out_does_not_matter(
        ran in prop::collection::vec(
            (0..3u32, prop::sample::select(vec![Deed::Read, Deed::Read, Deed::Write, Deed::Atomic, Deed::Count]), 0..160u64, 1..7usize, 1..4u64),
            0..150
        ),
        loops in prop::collection::vec((0..3usize, 0..200usize, 0..400u64, -8..9i64, 1..12u64, any::<bool>()), 0..20),
        most_open in 1..3usize
    ) {
        let times = |&(task, deed, word, times, words): &(u32, Deed, u64, usize, u64)| {
            (0..times as u64).flat_map(move |_| (0..words).map(move |next| (task, deed, word + next)))
        };
        let ran: Vec<(u32, Deed, u64)> = ran.iter().flat_map(times).collect();
        let mut steps = at_atomics(&ran, 3).0;
        // Loops between, over some of the blocks or elsewhere.
        for &(task, at, first, stride, iterations, writes) in &loops {
            let kind = if writes { AccessKind::Write } else { AccessKind::Read };
            let walk = StridedAccess { stride, ..StridedAccess::new(kind, 0x1000 + 4 * first, 4) };
            let beside = StridedAccess::new(AccessKind::Read, 0x9000, 8);
            let place = at.min(steps[task].len());
            steps[task].insert(place, Step::Loop { accesses: vec![walk, beside], iterations });
        }
        let recording = InMemory::new(steps);
        let sieved = forced_within(&recording, &recording, most_open).unwrap();
        let whole = forced_within(&Whole(&recording), &Whole(&recording), most_open).unwrap();
        prop_assert_eq!(sieved, whole);
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
