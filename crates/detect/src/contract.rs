//! What every row of the table keeps to, over streams of all kinds; and the quick detectors against the slow ones.

use crate::reference::ReferenceDetector;
use crate::{DETECTORS, Detected, Row, Setting, named};
use cohabit_access::order::Event;
use cohabit_access::{Access, AccessKind};
use proptest::prelude::*;
use std::collections::BTreeSet;

const TASKS: usize = 5;

fn setting() -> Setting {
    // Few accesses a window, and intervals short enough to pass in a short stream.
    Setting { window_accesses: 50, time_scale: 100_000.0, ..Setting::new(TASKS) }
}

fn run(row: &Row, events: &[Event]) -> Detected {
    let mut detector = (row.make)(&setting());
    events.iter().for_each(|event| detector.take(event));
    detector.finish()
}

/// A few pages, so that tasks meet, with odd sizes across blocks.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![Just(AccessKind::Read), Just(AccessKind::Write), Just(AccessKind::ReadWrite)];
    let access = (0..TASKS as u32, kind, 0u64..20_000, 1u32..100)
        .prop_map(|(task, kind, address, size)| Event::Access(Access::new(task, kind, 0x1000 + address, size)));
    let clear =
        (0u64..20_000, 1u64..3_000).prop_map(|(start, bytes)| Event::Clear(0x1000 + start..0x1000 + start + bytes));
    let code = (0..TASKS as u32, 0u64..100).prop_map(|(task, page)| Event::Code { task, page: 1_000 + page });
    let event = prop_oneof![20 => access, 1 => clear, 2 => code];
    prop::collection::vec(event, 0..400).prop_map(|mut events| {
        let mut time = 0;
        for event in &mut events {
            if let Event::Access(access) = event {
                access.time_ns = time;
                time += 1;
            }
        }
        events
    })
}

#[test]
fn names_differ_and_are_found() {
    let names: BTreeSet<_> = DETECTORS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), DETECTORS.len());
    for row in DETECTORS {
        assert!(named(row.name).is_some_and(|found| std::ptr::eq(found, row)), "{}", row.name);
        for text in [row.about, row.source, row.sees] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", row.name);
        }
    }
}

proptest! {
    #[test]
    fn every_detector_keeps_the_contract(events in events()) {
        let accesses = events.iter().filter(|event| matches!(event, Event::Access(_))).count() as u64;
        for row in DETECTORS {
            let found = run(row, &events);
            prop_assert_eq!(&found, &run(row, &events), "{}: the same stream, the same result", row.name);
            prop_assert_eq!(found.matrix.tasks(), TASKS, "{}", row.name);
            for (source, destination, count) in found.matrix.iter() {
                prop_assert!(source != destination && count > 0, "{}", row.name);
                if row.symmetric {
                    prop_assert_eq!(found.matrix.get(destination as usize, source as usize), count, "{}", row.name);
                }
            }
            prop_assert!(found.looked <= found.occasions, "{}: {:?}", row.name, found);
            if row.complete {
                prop_assert_eq!((found.looked, found.occasions), (accesses, accesses), "{}", row.name);
            }
            if let Some(overhead) = found.overhead {
                prop_assert!(overhead.is_finite() && overhead >= 0.0, "{}", row.name);
            }
        }
    }

    #[test]
    fn exact_and_sharing_are_the_reference_s(events in events()) {
        let (setting, mut reference) = (setting(), ReferenceDetector::new(64, setting().window_accesses));
        for event in &events {
            match event {
                Event::Access(access) => reference.access(access),
                Event::Clear(range) => reference.clear(range.clone()),
                Event::Code { .. } => {}
            }
        }
        let reference = reference.finish(setting.tasks);
        prop_assert_eq!(run(named("exact").unwrap(), &events).matrix, reference.messages);
        prop_assert_eq!(run(named("transfers").unwrap(), &events).matrix, reference.transfers);
        prop_assert_eq!(run(named("sharing").unwrap(), &events).matrix, reference.sharing);
    }

    /// Transfers of each value, from who holds it: a net as a clique, block by block.
    #[test]
    fn holders_share_the_transfers_of_a_value(events in events()) {
        let mut wanted = vec![0.0; TASKS * TASKS];
        for block in 0x1000 / 64..0x1000 / 64 + 20_200 / 64 + 1 {
            let (mut values, mut holders) = (Vec::new(), BTreeSet::new());
            for event in &events {
                match event {
                    Event::Access(access) if (access.address / 64..=(access.address + u64::from(access.size_bytes) - 1) / 64).contains(&block) => {
                        if access.kind.reads() {
                            holders.insert(access.task as usize);
                        }
                        if access.kind.writes() {
                            values.push(std::mem::replace(&mut holders, BTreeSet::from([access.task as usize])));
                        }
                    }
                    Event::Clear(range) if (range.start / 64..=(range.end - 1) / 64).contains(&block) => values.push(std::mem::take(&mut holders)),
                    _ => {}
                }
            }
            values.push(holders);
            for holders in values {
                for (&a, &b) in holders.iter().flat_map(|a| holders.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
                    wanted[a * TASKS + b] += 2.0 / holders.len() as f64;
                }
            }
        }
        let found = run(named("holders").unwrap(), &events).matrix.to_dense();
        prop_assert!(found.iter().zip(&wanted).all(|(found, wanted)| (*found as f64 - wanted).abs() < 0.501), "{:?} {:?}", found, wanted);
    }

    /// DeLoc's event, read off the accesses of each block by themselves.
    #[test]
    fn deloc_is_the_reader_directly_after_the_write(events in events()) {
        let mut wanted = vec![0; TASKS * TASKS];
        for block in 0x1000 / 64..0x1000 / 64 + 20_200 / 64 + 1 {
            let mut before: Option<&Access> = None;
            for event in &events {
                match event {
                    Event::Access(access) if (access.address / 64..=(access.address + u64::from(access.size_bytes) - 1) / 64).contains(&block) => {
                        if let Some(before) = before.filter(|before| before.kind.writes() && access.kind.reads() && before.task != access.task) {
                            wanted[before.task as usize * TASKS + access.task as usize] += 1;
                        }
                        before = Some(access);
                    }
                    Event::Clear(range) if (range.start / 64..=(range.end - 1) / 64).contains(&block) => before = None,
                    _ => {}
                }
            }
        }
        prop_assert_eq!(run(named("deloc").unwrap(), &events).matrix.to_dense(), wanted);
    }
}

fn reads(list: &[(u32, u64)]) -> Vec<Event> {
    list.iter().map(|&(task, page)| Event::Access(Access::new(task, AccessKind::Read, page << 12, 8))).collect()
}

fn counts(name: &str, events: &[Event], a: usize, b: usize) -> (u64, u64) {
    let found = run(named(name).unwrap(), events);
    (found.matrix.get(a, b), found.looked)
}

/// By hand, with 16 sets of 4 ways: pages 1, 17, 33, 49 and 65 are of one set.
#[test]
fn tlb_entries_match_while_they_are_there() {
    let rows: [(&[(u32, u64)], u64); 5] = [
        (&[(0, 1), (1, 1)], 1),
        (&[(0, 1), (1, 2)], 0),
        (&[(0, 1), (1, 1), (1, 1), (0, 1)], 1),
        // Four others drive page 1 out of the TLB of task 0; a use in between keeps it.
        (&[(0, 1), (0, 17), (0, 33), (0, 49), (0, 65), (1, 1)], 0),
        (&[(0, 1), (0, 17), (0, 33), (0, 1), (0, 49), (0, 65), (1, 1)], 1),
    ];
    for (list, wanted) in rows {
        assert_eq!(counts("tlb-sm-1", &reads(list), 0, 1).0, wanted, "{list:?}");
    }
}

#[test]
fn the_hundredth_miss_searches_if_it_is_of_data() {
    let misses = |count: u64| (0..count).map(|page| (0, 1_000 + page)).collect::<Vec<_>>();
    let with = |list: Vec<(u32, u64)>| reads(&[vec![(1, 1_099)], list].concat());
    assert_eq!(counts("tlb-sm", &with(misses(99)), 0, 1), (0, 0));
    assert_eq!(counts("tlb-sm", &with(misses(100)), 0, 1), (1, 1));
    // The hundredth is of code: counted, and no search.
    let mut events = with(misses(99));
    events.push(Event::Code { task: 0, page: 77 });
    events.extend(reads(&[(0, 1_099)]));
    assert_eq!(counts("tlb-sm", &events, 0, 1), (0, 0));
}

/// Three tasks at one place: the second meets one, the third two. Another block of the page does not fault again.
#[test]
fn cdsm_credits_all_that_the_block_remembers() {
    let quiet = Setting { time_scale: 1.0, ..setting() };
    let list = [(0, 1), (1, 1), (2, 1), (0, 1)];
    let mut detector = (named("cdsm").unwrap().make)(&quiet);
    reads(&list).iter().for_each(|event| detector.take(event));
    detector.take(&Event::Access(Access::new(1, AccessKind::Write, (1 << 12) + 512, 8)));
    let found = detector.finish();
    let pairs = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| found.matrix.get(a, b));
    assert_eq!((pairs, found.looked), ([1, 1, 1], 3));
}

/// Cleared entries fault again: a pattern that the first faults alone would not show.
#[test]
fn cdsm_makes_pages_fault_again() {
    let often = Setting { time_scale: 1e6, ..setting() };
    let list: Vec<_> = (0..200_000u64).map(|at| ((at % 2) as u32, at / 2 % 50)).collect();
    let mut detector = (named("cdsm").unwrap().make)(&often);
    reads(&list).iter().for_each(|event| detector.take(event));
    let found = detector.finish();
    assert!(found.looked > 2 * 50 && found.matrix.get(0, 1) > 50, "{found:?}");
    assert_eq!(found.matrix.total(), 2 * u128::from(found.matrix.get(0, 1)));
}
