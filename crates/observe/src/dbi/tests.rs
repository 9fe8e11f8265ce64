//! From parts made by hand to profiles, and what damaged parts come to.

use super::abi::*;
use super::image::Image;
use super::merge::{Run, merge};
use super::testing::PartBuilder;
use super::{Options, abi};
use cohabit_model::Profile;
use cohabit_model::profile::{Kind, SeriesRow};
use cohabit_model::series::Window;
use proptest::prelude::*;
use std::time::Duration;

fn images(parts: &[Vec<u8>]) -> Vec<Image> {
    parts.iter().map(|part| Image::read(&part[..]).expect("a good part").expect("not empty")).collect()
}

fn merged(parts: Vec<PartBuilder>, options: &Options) -> Profile {
    let parts: Vec<Vec<u8>> = parts.into_iter().map(PartBuilder::finish).collect();
    merge(images(&parts), &Run { command: vec!["a".into()], host: "h", options, end_ns: 1_000_000 })
}

/// Name, process, spawn index, parent of each task.
fn identities(profile: &Profile) -> Vec<(&str, u32, u32, Option<u32>)> {
    profile.meta.tasks.iter().map(|task| (task.name.as_str(), task.process, task.spawn_index, task.parent)).collect()
}

#[test]
fn cells_belong_to_the_task_that_counted() {
    let part = PartBuilder::new(5, 1, 0).task(None, "main").task(Some(0), "").cell(0, [3, 24, 7, 2, 0, 0]);
    let profile = merged(vec![part], &Options { sharing: true, ..Options::default() });
    assert_eq!(profile.messages.to_dense(), [0, 3, 0, 0], "partner to me");
    assert_eq!(profile.bytes.to_dense(), [0, 24, 0, 0]);
    assert_eq!(profile.invalidations.unwrap().to_dense(), [0, 0, 7, 0], "me to partner");
    assert_eq!(profile.sharing.unwrap().to_dense(), [0, 2, 2, 0], "both ways");
}

#[test]
fn phases_of_the_program_are_kept_in_the_order_of_time() {
    // Ten ticks a nanosecond, from 1,000 on.
    let first = PartBuilder::new(5, 1, 100).task(None, "main").phase(1, 1_500).phase(2, 9_000).phase(2, 9_010);
    let second = PartBuilder::new(6, 5, 200).task(None, "child").phase(1, 1_700).phase(7, 9_500).phase(1, 9_990);
    let markers = merged(vec![second, first], &Options::default()).meta.markers;
    let found: Vec<_> = markers.iter().map(|marker| (marker.number, marker.at_ns)).collect();
    assert_eq!(found, [(1, 50), (2, 800), (7, 850), (1, 899)]);
}

#[test]
fn partners_far_away_are_found() {
    let many = (0..10_000).fold(PartBuilder::new(5, 1, 0), |part, task| part.task((task > 0).then_some(0), "t"));
    let part = many.cell(9_998, [1, 8, 0, 0, 0, 0]).cell(64, [2, 8, 0, 0, 0, 0]).cell(0, [3, 8, 0, 0, 0, 0]);
    let profile = merged(vec![part], &Options::default());
    let found: Vec<_> = profile.messages.iter().collect();
    assert_eq!(found, [(0, 9_999, 3), (64, 9_999, 2), (9_998, 9_999, 1)]);
}

#[test]
fn accesses_are_the_sum_of_three_accounts() {
    let part = PartBuilder::new(5, 1, 0).task(None, "main").shape(2, 1, 20, 10);
    let part = part.with(|task| (task.loads, task.stores, task.accessed_bytes) = (100, 200, 300));
    let profile = merged(vec![part], &Options::default());
    assert_eq!((&profile.loads[..], &profile.stores[..]), (&[120][..], &[210][..]));
    assert_eq!((&profile.accessed_bytes[..], &profile.polled_bytes[..]), (&[500][..], &[0][..]));
}

#[test]
fn what_waiting_loops_read_is_counted_apart() {
    let spin = cohabit_shape_t { loads: 1, stores: 0, bytes: 4, spins: 1 };
    let profile = merged(vec![PartBuilder::new(5, 1, 0).task(None, "main").shaped(spin, 1000)], &Options::default());
    assert_eq!((&profile.accessed_bytes[..], &profile.polled_bytes[..]), (&[4000][..], &[4000][..]));
    assert_eq!(profile.loads, [1000]);
}

#[test]
fn exec_goes_on_and_fork_begins() {
    let with_end = |mut part: PartBuilder, end| {
        part.head.end = end;
        part
    };
    let shell = with_end(PartBuilder::new(5, 1, 0).task(None, "sh").task(Some(0), "old"), COHABIT_END_EXEC);
    let solver = PartBuilder::new(5, 1, 200).task(None, "solver").task(Some(0), "new").cell(0, [1, 8, 0, 0, 0, 0]);
    let forked = PartBuilder::new(90, 5, 100).task(None, "child").task(Some(0), "grand").cell(0, [2, 8, 0, 0, 0, 0]);
    // The process id is used again, after the end of the first.
    let again = PartBuilder::new(90, 5, 300).task(None, "again");
    let profile = merged(vec![again, solver, forked, shell], &Options::default());
    assert_eq!(
        identities(&profile),
        [
            ("solver", 0, 0, None),
            ("old", 0, 1, Some(0)),
            ("new", 0, 2, Some(0)),
            ("child", 1, 0, Some(0)),
            ("grand", 1, 1, Some(3)),
            ("again", 2, 0, Some(0)),
        ]
    );
    assert_eq!(profile.messages.iter().collect::<Vec<_>>(), [(0, 2, 1), (3, 4, 2)]);
    assert_eq!(profile.meta.kind, Kind::Threads);
}

#[test]
fn the_program_of_a_process_is_what_it_executed_last() {
    let part = |pid: u32, ppid: u32, start_ns: u64, program: &str| {
        let mut part = PartBuilder::new(pid, ppid, start_ns).task(None, "a");
        for (to, from) in part.head.program.iter_mut().zip(program.bytes()) {
            *to = from as std::ffi::c_char;
        }
        part
    };
    let mut shell = part(5, 1, 0, "/bin/sh");
    shell.head.end = COHABIT_END_EXEC;
    let parts = vec![shell, part(90, 5, 100, "/bin/ls"), part(5, 1, 200, "/opt/solver")];
    assert_eq!(merged(parts, &Options::default()).meta.programs, ["/opt/solver", "/bin/ls"]);
}

/// Of two children the second may be the first to run.
#[test]
fn processes_are_numbered_by_their_birth() {
    // Process id and birth of each, in the order in which they were seen, and the process ids as they were born.
    for (seen, born) in [
        ([(5, 7), (8, 9), (6, 9), (7, 8)], [5, 7, 6, 8]),
        // The command is first, whatever is said of the others: process ids may have come around since.
        ([(9000, 7), (8, 7), (7, 7), (6, 7)], [9000, 6, 7, 8]),
        // They come around within a clock tick.
        ([(5, 1), (301, 9), (300, 9), (32767, 9)], [5, 32767, 300, 301]),
        // Of one it is not known.
        ([(5, 7), (8, 9), (6, 0), (7, 8)], [5, 8, 6, 7]),
    ] {
        let part = |(at, (pid, born)): (usize, (u32, u64))| {
            let mut part = PartBuilder::new(pid, if at == 0 { 1 } else { seen[0].0 }, at as u64).task(None, "a");
            part.head.born = born;
            part
        };
        let profile = merged(seen.into_iter().enumerate().map(part).collect(), &Options::default());
        let tasks = &profile.meta.tasks;
        assert_eq!(tasks.iter().map(|task| task.pid).collect::<Vec<_>>(), born, "{seen:?}");
        assert_eq!(tasks.iter().map(|task| task.process).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(tasks.iter().map(|task| task.parent).collect::<Vec<_>>(), [None, Some(0), Some(0), Some(0)]);
    }
}

#[test]
fn partners_in_other_processes_are_found_by_their_number_in_the_run() {
    let other = |number: u32| COHABIT_COMMON_TASKS + number;
    let first = PartBuilder::new(5, 1, 0).task(None, "a").with(|task| task.common = 2);
    let first = first.cell(other(0), [3, 24, 1, 0, 0, 0]).cell(other(7), [4, 32, 0, 0, 0, 0]);
    let first = first.cell(other(1), [9, 72, 9, 0, 0, 0]); // itself, before exec say
    let second = PartBuilder::new(6, 5, 50).task(None, "b").task(Some(0), "c").with(|task| task.common = 1);
    let second = second.cell(other(1), [5, 40, 0, 0, 0, 0]).series(0, &[(0, other(1), 5, 40)]);
    let profile = merged(vec![first, second], &Options::default());
    assert_eq!(profile.messages.iter().collect::<Vec<_>>(), [(0, 2, 5), (2, 0, 3)]);
    assert_eq!(profile.invalidations.unwrap().iter().collect::<Vec<_>>(), [(0, 2, 1)]);
    assert_eq!((profile.series[0].source, profile.series[0].destination, profile.series[0].messages), (0, 2, 5));
    assert_eq!(profile.meta.coverage.events_lost, 4, "whose part was lost");
}

#[test]
fn a_vfork_child_is_the_process_it_becomes() {
    // Between vfork and exec the child runs in its parent's memory, without a creator there.
    let parent = PartBuilder::new(5, 1, 0).task(None, "make").task(None, "make").cell(0, [1, 8, 0, 0, 0, 0]);
    let spawned = PartBuilder::new(6, 5, 50).task(None, "cc");
    let profile = merged(vec![parent, spawned], &Options::default());
    assert_eq!(identities(&profile), [("make", 0, 0, None), ("cc", 1, 0, Some(0))]);
    assert_eq!(profile.messages.to_dense(), [0, 1, 0, 0]);
    assert_eq!(profile.meta.kind, Kind::Processes);
}

#[test]
fn series_meet_at_the_widest_window() {
    // 10 ticks a nanosecond, windows of 1,000 ticks: the second image starts 2 windows later.
    let first = PartBuilder::new(5, 1, 0).task(None, "a").task(Some(0), "b").cell(0, [9, 72, 0, 0, 4, 32]);
    let first = first.with(|task| (task.window, task.window_shift) = (5, 0)).series(0, &[(0, 0, 1, 8), (3, 0, 2, 16)]);
    let first = first.series(1, &[(1, 0, 2, 16)]);
    let second = PartBuilder::new(6, 5, 200).task(None, "c").task(Some(0), "d").series(0, &[(1, 0, 7, 56)]);
    let options = Options { window: Window::Time(100), ..Options::default() };
    let profile = merged(vec![first, second], &options);
    let row =
        |bin, source, destination, messages| SeriesRow { bin, source, destination, messages, bytes: 8 * messages };
    assert_eq!(profile.series, [row(0, 0, 1, 1), row(1, 0, 1, 4), row(1, 2, 3, 7), row(2, 0, 1, 4)]);
    assert_eq!((profile.meta.window_ns, profile.meta.requested_window_ns), (200, Some(100)));
}

#[test]
fn windows_of_instructions_are_each_task_s_own() {
    // The same two images: when the second one started is nothing to the counts of its tasks.
    let of_instructions = |mut part: PartBuilder| {
        part.head.flags |= COHABIT_FLAG_INSTRUCTIONS;
        part
    };
    let first = PartBuilder::new(5, 1, 0).task(None, "a").task(Some(0), "b").series(1, &[(1, 0, 2, 16)]);
    let first = first.series(0, &[(2, 0, 3, 24)]);
    let second = PartBuilder::new(6, 5, 200).task(None, "c").task(Some(0), "d").series(0, &[(1, 0, 7, 56)]);
    let options = Options { window: Window::Instructions(1000), ..Options::default() };
    let profile = merged(vec![of_instructions(first), of_instructions(second)], &options);
    let row =
        |bin, source, destination, messages| SeriesRow { bin, source, destination, messages, bytes: 8 * messages };
    assert_eq!(profile.series, [row(0, 2, 3, 7), row(1, 0, 1, 5)]);
    assert_eq!((profile.meta.window_ns, profile.meta.window()), (0, Window::Instructions(2000)));
    assert_eq!(profile.meta.requested_window_instructions, Some(1000));
    assert!(profile.meta.clock.starts_with("instructions of each task"), "{}", profile.meta.clock);
}

#[test]
fn what_was_not_seen_is_said() {
    type Change = fn(&mut cohabit_part_t);
    let rows: [(Change, bool, u64, &str); 9] = [
        (|head| head.flags = COHABIT_FLAG_STALE_CODE, false, 0, "code that one process wrote into another"),
        (|head| head.flags = COHABIT_FLAG_SEGMENTS, false, 0, "beyond the first 262144 pieces of 16 MiB"),
        (|head| head.end = COHABIT_END_RUNNING, false, 0, "killed"),
        (|head| head.flags = COHABIT_FLAG_NO_SPACE, false, 0, "no space"),
        (|head| head.flags = COHABIT_FLAG_TASKS_LOST, false, 0, "131072"),
        (|head| head.events_lost = 3, false, 3, "kernel"),
        (|head| head.flags = COHABIT_FLAG_ROI_UNUSED, false, 0, "never began"),
        (|head| head.flags = COHABIT_FLAG_ONLY, true, 0, "other memory than the program named"),
        (|head| head.unknown_syscalls[1] = 1 << 1 | 1 << 63, true, 0, "these system calls did to memory: semop, "),
    ];
    for (change, exact, lost, said) in rows {
        let mut part = PartBuilder::new(5, 1, 0).task(None, "a");
        change(&mut part.head);
        let coverage = merged(vec![part], &Options::default()).meta.coverage;
        assert_eq!((coverage.exact, coverage.events_lost), (exact, lost), "{said}");
        assert!(coverage.not_seen.iter().any(|line| line.contains(said)), "{said}: {:?}", coverage.not_seen);
    }
}

#[test]
fn a_region_that_never_began_is_said_unless_one_process_began_it() {
    for (unused, signal, of_mpi, said) in [
        ([true, true], None, false, Some("--roi: anything")),
        ([true, true], Some(12), false, Some("--roi-signal: anything")),
        ([true, true], None, true, Some("--roi=mpi: anything")),
        // A shell that starts the program has no markers.
        ([true, false], None, false, None),
        ([false, false], None, true, None),
    ] {
        let part = |pid: u32, unused: bool| {
            let mut part = PartBuilder::new(pid, 1, u64::from(pid)).task(None, "a");
            part.head.flags = if unused { COHABIT_FLAG_ROI_UNUSED } else { 0 };
            part
        };
        let region = signal.is_none() && !of_mpi;
        let options = Options { region, region_of_mpi: of_mpi, region_signal: signal, ..Options::default() };
        let coverage = merged(vec![part(5, unused[0]), part(6, unused[1])], &options).meta.coverage;
        let found = coverage.not_seen.iter().find(|line| line.starts_with("--"));
        assert_eq!(found.map(|line| line.split(": the").next().unwrap()), said);
        assert_eq!(coverage.exact, said.is_none(), "{coverage:?}");
    }
}

#[test]
fn channels_that_are_no_memory_are_named_where_two_tasks_may_use_them() {
    let (sockets, pipes, files) = (COHABIT_FLAG_SOCKETS, COHABIT_FLAG_PIPES, COHABIT_FLAG_FILES);
    for (flags, threads, processes, expected) in [
        (0, 2, 2, &[][..]),
        (sockets | pipes | files, 1, 1, &[]),
        (sockets | pipes | files, 2, 1, &["sockets", "pipes"]),
        (sockets, 1, 2, &["sockets"]),
        (files, 1, 2, &["files"]),
    ] {
        let part = |pid: u32, flags: u32| {
            let task = PartBuilder::new(pid, 1, u64::from(pid)).task(None, "a");
            let mut part = (1..threads).fold(task, |part, _| part.task(Some(0), "b"));
            part.head.flags = flags;
            part
        };
        let parts = (0..processes).map(|at| part(5 + at, if at == 0 { flags } else { 0 })).collect();
        assert_eq!(merged(parts, &Options::default()).meta.unseen_channels, expected, "{flags} {threads} {processes}");
    }
}

#[test]
fn what_sharing_and_hot_leave_out_between_processes_is_said() {
    let part =
        |pid: u32, common| PartBuilder::new(pid, 1, u64::from(pid)).task(None, "a").with(|task| task.common = common);
    for (common, sharing, hot, said) in [
        ([1, 2], true, false, Some("--sharing: memory that processes share")),
        ([1, 2], false, true, Some("--hot: memory that processes share")),
        ([1, 2], true, true, Some("--sharing and --hot: memory that processes share")),
        ([1, 2], false, false, None),
        ([1, 0], true, true, None),
    ] {
        let options = Options { sharing, hot, ..Options::default() };
        let coverage = merged(vec![part(5, common[0]), part(6, common[1])], &options).meta.coverage;
        let found = coverage.not_seen.iter().find(|line| line.starts_with("--"));
        assert_eq!(found.is_some(), said.is_some(), "{found:?}");
        assert!(found.is_none_or(|found| found.starts_with(said.unwrap_or_default())), "{found:?}");
        assert!(coverage.exact, "messages and bytes are");
    }
}

#[test]
fn coverage_is_the_share_of_time_that_was_looked_at() {
    let burst = Options { burst: Some((Duration::from_millis(1), Duration::from_millis(9))), ..Options::default() };
    let region = Options { region: true, ..Options::default() };
    // Nanoseconds counted, and since when counting is on; the image lasts from 0 to 100.
    for (on_ns, since_ns, options, rate, exact, said) in [
        (0, 0, Options::default(), 1.0, true, "kernel"),
        (50, 0, burst.clone(), 0.5, false, "between the bursts"),
        (25, 75, region.clone(), 0.5, true, "outside the region"),
        (0, 0, region, 0.0, true, "outside the region"),
        (u64::MAX, 1, burst, 1.0, false, "between the bursts"),
    ] {
        let mut part = PartBuilder::new(5, 1, 0).task(None, "a");
        (part.head.on_ns, part.head.on_since_ns) = (on_ns, since_ns);
        let coverage = merged(vec![part], &options).meta.coverage;
        assert_eq!((coverage.sample_rate, coverage.exact), (rate, exact), "{said}");
        assert!(coverage.not_seen.iter().any(|line| line.contains(said)), "{said}: {:?}", coverage.not_seen);
    }
}

fn whole() -> Vec<u8> {
    let part = PartBuilder::new(5, 1, 0).task(None, "main").shape(1, 2, 3, 4).task(Some(0), "worker");
    let part = part.cell(0, [3, 24, 7, 0, 1, 8]).series(0, &[(0, 0, 2, 16)]).module(0, 100, 0, "/bin/x");
    let mut part = part.hot(super::testing::zeroed());
    part.head.end = COHABIT_END_EXIT;
    part.finish()
}

#[test]
fn damage_is_named() {
    type Change = fn(&mut Vec<u8>);
    let rows: [(Change, &str); 7] = [
        (|part| part[0] ^= 1, "not a record"),
        (|part| part[8] = 99, "version 99"),
        (|part| part.truncate(part.len() - 1), "cut short"),
        (|part| part.truncate(100), "damaged"),
        (|part| set(part, std::mem::offset_of!(abi::cohabit_part_t, tasks), u32::MAX), "tasks"),
        (|part| set(part, std::mem::offset_of!(abi::cohabit_part_t, window_shift), 64), "doubled 64 times"),
        (|part| circle(part), "overlap"),
    ];
    for (change, said) in rows {
        let mut part = whole();
        change(&mut part);
        let error = Image::read(&part[..]).map(|_| ()).unwrap_err();
        assert!(error.cause.contains(said), "{said}: {error}");
    }
    assert!(Image::read(&[0u8; 4096][..]).unwrap().is_none(), "a part that was only begun");
    assert!(Image::read(&[][..] as &[u8]).unwrap().is_none());
}

fn set(part: &mut [u8], at: usize, value: u32) {
    part[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The list of modules leads back to its first.
fn circle(part: &mut [u8]) {
    let at = std::mem::offset_of!(abi::cohabit_part_t, modules);
    let module = u64::from_le_bytes(part[at..at + 8].try_into().unwrap());
    part[module as usize..module as usize + 8].copy_from_slice(&module.to_le_bytes());
}

proptest! {
    #[test]
    fn no_damage_is_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0..40_000u64, 0..3u64]), 1..8),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut part = whole();
        for (place, value) in changes {
            // Not the magic number and the version: they would end it all at once.
            let at = 16 + 8 * place.index((part.len() - 24) / 8);
            part[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        part.truncate(length.map_or(part.len(), |length| length.index(part.len())));
        if let Ok(Some(image)) = Image::read(&part[..]) {
            let run = Run { command: Vec::new(), host: "", options: &Options::default(), end_ns: 0 };
            let profile = merge(vec![image], &run);
            prop_assert_eq!(profile.tasks(), profile.loads.len());
        }
    }
}
