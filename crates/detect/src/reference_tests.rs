//! Cases worked by hand from the definitions, and properties against a second reading of them that keeps no state.

use super::{ReferenceCounts, ReferenceDetector};
use cohabit_access::{Access, AccessKind};
use cohabit_model::Matrix;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: u64 = 64;
const WINDOW_NS: u64 = 100;
const TASKS: u32 = 4;

fn detect(accesses: &[Access]) -> ReferenceCounts {
    let mut detector = ReferenceDetector::new(BLOCK, WINDOW_NS);
    accesses.iter().for_each(|access| detector.access(access));
    detector.finish(TASKS as usize)
}

/// Accesses written as `"0W100:8 1R100:8"`: task, kind (R, W, M for read-modify-write), address, size.
fn parse(text: &str) -> Vec<Access> {
    let one = |word: &str| {
        let at = word.find(|c: char| c.is_ascii_alphabetic()).expect("a kind");
        let kind = match &word[at..=at] {
            "R" => AccessKind::Read,
            "W" => AccessKind::Write,
            _ => AccessKind::ReadWrite,
        };
        let (address, size) = word[at + 1..].split_once(':').expect("a size");
        let (task, address) = (word[..at].parse().expect("a task"), address.parse().expect("an address"));
        Access::new(task, kind, address, size.parse().expect("a size"))
    };
    text.split_whitespace().map(one).collect()
}

type Triplets<'a> = &'a [(u32, u32, u64)];

/// Messages, bytes and invalidations of `text`, as the entries that are not zero.
#[track_caller]
fn check(text: &str, messages: Triplets, bytes: Triplets, invalidations: Triplets) {
    let counts = detect(&parse(text));
    assert_eq!(counts.messages.iter().collect::<Vec<_>>(), messages, "messages of {text}");
    assert_eq!(counts.bytes.iter().collect::<Vec<_>>(), bytes, "bytes of {text}");
    assert_eq!(counts.invalidations.iter().collect::<Vec<_>>(), invalidations, "invalidations of {text}");
}

#[test]
fn each_reader_counts_once_for_each_value() {
    check("0W0:8 1R0:8", &[(0, 1, 1)], &[(0, 1, 8)], &[]);
    check("0W0:8 1R0:8 1R8:4 1R0:8", &[(0, 1, 1)], &[(0, 1, 8)], &[]);
    check("0W0:8 1R0:8 2R0:4", &[(0, 1, 1), (0, 2, 1)], &[(0, 1, 8), (0, 2, 4)], &[]);
    check("0W0:8 1R0:8 0W0:8 1R0:2", &[(0, 1, 2)], &[(0, 1, 10)], &[(0, 1, 1)]);
    check("0W0:8 0W0:8 1R0:8", &[(0, 1, 1)], &[(0, 1, 8)], &[]);
}

/// Six readers of a value, six times over: the first gets it from the writer, each other one of the k that hold it
/// gives a k-th.
#[test]
fn readers_get_a_value_from_all_that_hold_it() {
    let transfers = |text: &str| detect(&parse(text)).transfers.iter().collect::<Vec<_>>();
    assert_eq!(transfers("0W0:8 1R0:8 0W0:8 1R0:8"), [(0, 1, 2)]);
    let round = "0W0:8 1R0:8 2R0:8 3R0:8 3R0:8 ";
    assert_eq!(transfers(&round.repeat(6)), [(0, 1, 6), (0, 2, 3), (0, 3, 2), (1, 2, 3), (1, 3, 2), (2, 3, 2)]);
    // What nobody wrote is no value, and who writes it anew is its only holder.
    assert_eq!(transfers("1R0:8 2R0:8 0W0:8 2R0:8 1W0:8 0R0:8"), [(0, 2, 1), (1, 0, 1)]);
    let counts = detect(&parse(&round.repeat(60)));
    assert_eq!(counts.transfers.total(), counts.messages.total());
}

#[test]
fn a_tasks_own_value_is_no_communication() {
    check("0W0:8 0R0:8 0W0:8 0M0:8", &[], &[], &[]);
    // The writer's own copy is none that it has read: overwriting it invalidates nothing.
    check("0W0:8 0R0:8 1W0:8", &[], &[], &[]);
    check("0W0:8 1R0:8 1W0:8 1R0:8 0R0:8", &[(0, 1, 1), (1, 0, 1)], &[(0, 1, 8), (1, 0, 8)], &[]);
}

#[test]
fn unwritten_blocks_have_holders_but_no_messages() {
    check("0R0:8 1R0:8", &[], &[], &[]);
    check("0R0:8 1R0:8 2W0:8", &[], &[], &[(2, 0, 1), (2, 1, 1)]);
    check("0R0:8 1R0:8 0W0:8 1R0:8", &[(0, 1, 1)], &[(0, 1, 8)], &[(0, 1, 1)]);
}

#[test]
fn a_write_invalidates_every_other_holder() {
    check("0W0:8 1R0:8 2R0:8 3W0:8 3W0:8", &[(0, 1, 1), (0, 2, 1)], &[(0, 1, 8), (0, 2, 8)], &[(3, 1, 1), (3, 2, 1)]);
    check("0W0:8 1R0:8 2R0:8 1W0:8", &[(0, 1, 1), (0, 2, 1)], &[(0, 1, 8), (0, 2, 8)], &[(1, 2, 1)]);
}

#[test]
fn an_atomic_reads_and_then_writes() {
    check("0M0:8 1M0:4 0M0:8", &[(0, 1, 1), (1, 0, 1)], &[(0, 1, 4), (1, 0, 8)], &[]);
    check("0W0:8 1R0:8 2M0:8", &[(0, 1, 1), (0, 2, 1)], &[(0, 1, 8), (0, 2, 8)], &[(2, 1, 1)]);
}

#[test]
fn an_access_across_blocks_touches_each_with_its_part() {
    check("0W60:8 1R0:4 1R64:2", &[(0, 1, 2)], &[(0, 1, 6)], &[]);
    check("0W0:8 0W64:8 1R60:8", &[(0, 1, 2)], &[(0, 1, 8)], &[]);
    check("0W0:8 1W64:8 2R63:64", &[(0, 2, 1), (1, 2, 1)], &[(0, 2, 1), (1, 2, 63)], &[]);
    check("0W0:256 1R32:200", &[(0, 1, 4)], &[(0, 1, 200)], &[]);
}

#[test]
fn other_bytes_of_the_block_count_too() {
    check("0W0:8 1R56:8 1W56:8 0R0:8", &[(0, 1, 1), (1, 0, 1)], &[(0, 1, 8), (1, 0, 8)], &[]);
}

#[test]
fn the_ends_of_the_address_space_are_addresses_too() {
    let top = u64::MAX - 3;
    check(&format!("0W{top}:4 1R{top}:4"), &[(0, 1, 1)], &[(0, 1, 4)], &[]);
    check(&format!("0W{top}:4 1R{top}:64"), &[(0, 1, 1)], &[(0, 1, 4)], &[]);
    check("0W0:0 1R0:0", &[], &[], &[]);
}

#[test]
fn cleared_memory_starts_clean() {
    let mut detector = ReferenceDetector::new(BLOCK, WINDOW_NS);
    parse("0W0:8 0W64:8 0W128:8 1R0:8").iter().for_each(|access| detector.access(access));
    detector.clear(0..65);
    detector.clear(70..70);
    parse("1R0:8 1R64:8 1R128:8 0W0:8").iter().for_each(|access| detector.access(access));
    let counts = detector.finish(0);
    // Block 0 before it was cleared, and block 2, which was not. Task 1's copy of block 0 is the one made after.
    assert_eq!(counts.messages.to_dense(), [0, 2, 0, 0]);
    assert_eq!(counts.invalidations.to_dense(), [0, 1, 0, 0]);
    // Block 0 before, block 0 after, block 2; block 1 was shared across the clear only.
    assert_eq!(counts.sharing.to_dense(), [0, 3, 3, 0]);
}

#[test]
fn totals_count_accesses_and_not_blocks() {
    let counts = detect(&parse("0R60:8 0M0:4 2W0:16"));
    assert_eq!(counts.loads, [2, 0, 0, 0]);
    assert_eq!(counts.stores, [1, 0, 1, 0]);
    assert_eq!(counts.accessed_bytes, [16, 0, 16, 0]);
}

#[test]
fn windows_divide_sharing_and_the_series() {
    let at = |time_ns, task, kind| Access { time_ns, ..Access::new(task, kind, 0, 8) };
    let counts = detect(&[
        at(0, 0, AccessKind::Write),
        at(99, 1, AccessKind::Read),
        at(100, 2, AccessKind::Read),
        at(250, 0, AccessKind::Read),
        at(260, 2, AccessKind::Read),
    ]);
    assert_eq!(counts.sharing.iter().collect::<Vec<_>>(), [(0, 1, 1), (0, 2, 1), (1, 0, 1), (2, 0, 1)]);
    let rows: Vec<_> = counts.series.iter().map(|r| (r.bin, r.source, r.destination, r.messages, r.bytes)).collect();
    assert_eq!(rows, [(0, 0, 1, 1, 8), (1, 0, 2, 1, 8)]);
}

/// The definitions read once more, without state: every read and write looks back over the whole history.
fn look_back(history: &[(u32, bool, u64)]) -> [BTreeMap<(u32, u32), u64>; 2] {
    let mut messages = BTreeMap::new();
    let mut invalidations = BTreeMap::new();
    for (now, &(task, write, block)) in history.iter().enumerate() {
        let before = |at: &usize| history[*at].2 == block;
        let last_write = (0..now).rev().filter(before).find(|&at| history[at].1);
        let writer = last_write.map(|at| history[at].0);
        let since: BTreeSet<u32> =
            (last_write.map_or(0, |at| at + 1)..now).filter(before).map(|at| history[at].0).collect();
        if write {
            for &holder in since.iter().filter(|&&h| h != task && Some(h) != writer) {
                *invalidations.entry((task, holder)).or_default() += 1;
            }
        } else if writer.is_some_and(|w| w != task) && !since.contains(&task) {
            *messages.entry((writer.expect("checked"), task)).or_default() += 1;
        }
    }
    [messages, invalidations]
}

/// `accesses` as single reads and writes of single blocks.
fn single_steps(accesses: &[Access]) -> Vec<(u32, bool, u64)> {
    let mut steps = Vec::new();
    for access in accesses.iter().filter(|access| access.size_bytes > 0) {
        let last = access.address + u64::from(access.size_bytes) - 1;
        for block in access.address / BLOCK..=last / BLOCK {
            let parts = [(access.kind.reads(), false), (access.kind.writes(), true)];
            steps.extend(parts.iter().filter(|part| part.0).map(|part| (access.task, part.1, block)));
        }
    }
    steps
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let kind = prop_oneof![Just(AccessKind::Read), Just(AccessKind::Write), Just(AccessKind::ReadWrite)];
    let one = (0..TASKS, kind, 0u64..400, 0u32..150, 0u64..500);
    let access = |(task, kind, address, size, time_ns)| Access { time_ns, ..Access::new(task, kind, address, size) };
    prop::collection::vec(one.prop_map(access), 0..120)
}

proptest! {
    #[test]
    fn agrees_with_looking_back_over_the_history(accesses in accesses()) {
        let counts = detect(&accesses);
        let [messages, invalidations] = look_back(&single_steps(&accesses));
        let entries = |matrix: &Matrix| matrix.iter().map(|(s, d, n)| ((s, d), n)).collect();
        prop_assert_eq!(messages, entries(&counts.messages));
        prop_assert_eq!(invalidations, entries(&counts.invalidations));
    }

    #[test]
    fn totals_and_matrices_fit_together(accesses in accesses()) {
        let counts = detect(&accesses);
        let mut first_reads_of_unwritten = BTreeSet::new();
        let mut written = BTreeSet::new();
        for (task, write, block) in single_steps(&accesses) {
            if write {
                written.insert(block);
            } else if !written.contains(&block) {
                first_reads_of_unwritten.insert((task, block));
            }
        }
        // Every copy was read once, and goes stale once at most.
        let copies = counts.messages.total() + first_reads_of_unwritten.len() as u128;
        prop_assert!(counts.invalidations.total() <= copies);
        prop_assert!(counts.bytes.total() >= counts.messages.total());
        prop_assert!(counts.bytes.total() <= counts.messages.total() * u128::from(BLOCK));
        for task in 0..TASKS as usize {
            for matrix in [&counts.messages, &counts.bytes, &counts.invalidations, &counts.sharing] {
                prop_assert_eq!(matrix.get(task, task), 0);
            }
            for other in 0..TASKS as usize {
                prop_assert_eq!(counts.sharing.get(task, other), counts.sharing.get(other, task));
                prop_assert_eq!(counts.messages.get(task, other) > 0, counts.bytes.get(task, other) > 0);
            }
        }
        let series: u128 = counts.series.iter().map(|row| u128::from(row.messages)).sum();
        prop_assert_eq!(series, counts.messages.total());
    }

    #[test]
    fn where_the_blocks_lie_does_not_matter(accesses in accesses(), shift in 0u64..1 << 40) {
        let moved = |access: &Access| Access { address: access.address + shift * BLOCK, ..*access };
        prop_assert_eq!(detect(&accesses), detect(&accesses.iter().map(moved).collect::<Vec<_>>()));
    }

    #[test]
    fn renaming_tasks_renames_the_matrix(accesses in accesses()) {
        let rename = |task: u32| TASKS - 1 - task;
        let renamed: Vec<_> = accesses.iter().map(|access| Access { task: rename(access.task), ..*access }).collect();
        let (counts, other) = (detect(&accesses), detect(&renamed));
        for (source, destination, value) in counts.messages.iter() {
            prop_assert_eq!(other.messages.get(rename(source) as usize, rename(destination) as usize), value);
        }
        prop_assert_eq!(counts.invalidations.total(), other.invalidations.total());
    }

    #[test]
    fn clearing_everything_is_starting_anew(before in accesses(), after in accesses()) {
        let mut detector = ReferenceDetector::new(BLOCK, WINDOW_NS);
        before.iter().for_each(|access| detector.access(access));
        detector.clear(0..u64::MAX);
        after.iter().for_each(|access| detector.access(access));
        let (whole, first, second) = (detector.finish(TASKS as usize), detect(&before), detect(&after));
        for (sum, a, b) in [
            (whole.messages, first.messages, second.messages),
            (whole.invalidations, first.invalidations, second.invalidations),
            (whole.sharing, first.sharing, second.sharing),
        ] {
            prop_assert_eq!(sum, Matrix::from_triplets(TASKS as usize, a.iter().chain(b.iter())));
        }
    }
}
