//! Recordings of programs whose communication is known: what a detector finds in them is what the profiler counts.

#[allow(dead_code)] // what other tests use of it
mod common;

use cohabit_access::file::RecordingFile;
use cohabit_access::order::{Event, in_turns};
use cohabit_access::{Reason, Recording, Step, check};
use cohabit_detect::{Setting, named};
use cohabit_model::Matrix;
use cohabit_observe::dbi::{self, Installation, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

fn workload(target: &str) -> Option<String> {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return None;
    }
    Some(common::build(target)?.to_str().expect("a plain path").to_owned())
}

fn record(command: &[&str], to: &Path) -> dbi::Outcome {
    let command: Vec<_> = command.iter().map(Into::into).collect();
    let options = Options { recording: Some(to.to_owned()), series_bound: 0, ..Options::default() };
    let outcome = dbi::profile(&command, &options).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success(), "{command:?}: {}", outcome.status);
    outcome
}

/// Exact communication within the ranges, in an order that the recording allows.
fn detect(recording: &RecordingFile, ranges: &[std::ops::Range<u64>], turn: u64) -> Matrix {
    let mut detector = (named("exact").expect("a row").make)(&Setting::new(recording.tasks().len()));
    in_turns(recording, turn, &mut |event| {
        let counts = match &event {
            Event::Access(access) => ranges.iter().any(|range| range.contains(&access.address)),
            _ => true,
        };
        if counts {
            detector.take(&event);
        }
        Ok(())
    })
    .unwrap();
    detector.finish().matrix
}

/// A thread that is recorded is in our code for most of a loop, and signals come to it there.
#[test]
fn signals_end_loops_and_waits() {
    for probe in ["signals_in_loops", "signals_waited_for"] {
        let Some(binary) = workload(&format!("probes/{probe}")) else { return };
        let folder = tempfile::tempdir().unwrap();
        record(&["/bin/sh", "-c", "exec timeout 60 \"$0\" >/dev/null", &binary], &folder.path().join("r.rec"));
    }
}

/// In the child of a fork the parent's other threads end, and write nothing into what the parent records of them.
#[test]
fn threads_go_on_beside_forks() {
    let Some(binary) = workload("probes/fork_beside") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("r.rec");
    record(&["/bin/sh", "-c", "exec \"$0\" >/dev/null", &binary], &to);
    let recording = RecordingFile::open(&to).unwrap();
    check::check(&recording).unwrap_or_else(|error| panic!("{error}"));
    assert!(recording.tasks()[1].accesses.unwrap() > 20 * 20_000, "{:?}", recording.tasks());
}

#[test]
fn known_patterns_are_found_in_any_order_that_a_recording_allows() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    let folder = tempfile::tempdir().unwrap();
    for (pattern, threads) in [("ring", "4"), ("all-to-all", "5"), ("pipeline", "6"), ("phases", "8"), ("gather", "3")]
    {
        let (to, truth) = (folder.path().join("r.rec"), folder.path().join("truth"));
        let command = [&binary, pattern, "--threads", threads, "--rounds", "3", "--blocks", "2"];
        record(&[&command[..], &["--expect", truth.to_str().unwrap()]].concat(), &to);
        let truth = common::parse_truth(&std::fs::read_to_string(&truth).unwrap());
        let recording = RecordingFile::open(&to).unwrap();
        check::check(&recording).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        for turn in [1, 7, 1_000_000] {
            let found = detect(&recording, &truth.ranges, turn);
            let found: Vec<[u64; 3]> = found.iter().map(|(s, d, n)| [s.into(), d.into(), n]).collect();
            let wanted: Vec<[u64; 3]> =
                truth.rows.iter().filter(|row| row[2] > 0).map(|row| [row[0], row[1], row[2]]).collect();
            assert_eq!(found, wanted, "{pattern}, turns of {turn}");
        }
    }
}

/// Where the data of processes lies in a recording: in each of their images, or in the largest object that they share.
fn data_of_processes(truth: &str, recording: &RecordingFile) -> Vec<Range<u64>> {
    let line = truth.lines().nth(1).and_then(|line| line.strip_prefix("# ")).expect("it says where the data is");
    let [kind, first, bytes] = <[_; 3]>::try_from(line.split(' ').collect::<Vec<_>>()).expect("three words");
    if kind == "channels" {
        return recording.channels().collect();
    }
    let [first, bytes]: [u64; 2] = [first, bytes].map(|number| number.parse().expect("a number"));
    let place = |base: u64| base.wrapping_add(first)..base.wrapping_add(first + bytes);
    if kind == "private" {
        return (0..recording.meta().images.len() as u64).map(|image| place(image << 47)).collect();
    }
    let shared = recording.shared_memory().map(|(base, mapped)| (place(base), mapped));
    let holding = shared.filter(|(data, mapped)| mapped.contains(&data.start) && mapped.end >= data.end);
    holding.map(|(data, _)| data).collect()
}

fn idle_ns(recording: &RecordingFile) -> u64 {
    let mut sum = 0;
    for task in 0..recording.tasks().len() as u32 {
        let mut steps = recording.steps(task).unwrap();
        while let Some(step) = steps.next_step().unwrap() {
            sum += if let Step::Idle { time_ns } = step { time_ns } else { 0 };
        }
    }
    sum
}

/// The processes of whose tasks the task waits for what they did before a system call, or for their end.
fn waited_for(recording: &RecordingFile, task: u32) -> BTreeSet<u32> {
    let (mut found, mut steps) = (BTreeSet::new(), recording.steps(task).unwrap());
    while let Some(step) = steps.next_step().unwrap() {
        if let Step::Wait { task, reason: Reason::End | Reason::Message, .. } = step {
            found.insert(recording.tasks()[task as usize].process);
        }
    }
    found
}

/// Process id and thread of both ends, to messages.
type Counts = BTreeMap<[u64; 4], u64>;

#[test]
fn processes_communicate_through_what_they_share_and_copy() {
    let Some(binary) = workload("processes") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for run in [
        "all --memory moved --processes 2",
        "all --memory cut --processes 2",
        "ring --memory twice --processes 2 --exec",
        "all --memory copied --processes 2 --threads 2",
        "all --memory pipe --processes 3 --threads 2",
        "ring --memory socket --processes 4",
        // More pieces on their way than are known by themselves.
        "pairs --memory pipe --processes 2 --blocks 900",
        "all --memory message --processes 2 --threads 2",
        "pairs --memory tcp --processes 2 --threads 2",
        "pairs --memory unix --processes 2 --threads 2",
        "ring --memory pipe --processes 1 --threads 3",
        "ring --memory event --processes 3 --block 8 --blocks 5",
        "all --memory event --processes 1 --threads 3 --block 8",
        "pairs --memory tcp --processes 2 --blocks 1 --block 327680",
        "all --memory unix --processes 1 --threads 2 --blocks 2 --block 65536",
    ] {
        let (to, truth) = (folder.path().join("r.rec"), folder.path().join("truth"));
        let words = [&binary].into_iter().map(String::as_str).chain(run.split(' '));
        let command: Vec<&str> = words.chain(["--expect", truth.to_str().unwrap()]).collect();
        let outcome = record(&command, &to);
        let text = std::fs::read_to_string(&truth).unwrap();
        // A block that is sent is received as a whole, and the detector's blocks have 64 bytes.
        let words: Vec<&str> = run.split(' ').collect();
        let block = words.iter().position(|word| *word == "--block").map_or(64, |at| words[at + 1].parse().unwrap());
        let pieces = if block > 64 { block / 64 } else { 1 };
        let known: Counts = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let fields: Vec<u64> = line.split(',').map(|field| field.parse().unwrap()).collect();
                (fields[..4].try_into().unwrap(), fields[4] * pieces)
            })
            .collect();
        let recording = RecordingFile::open(&to).unwrap();
        check::check(&recording).unwrap_or_else(|error| panic!("{run}: {error}"));
        let data = data_of_processes(&text, &recording);
        let who = |task: u32| {
            let task = &outcome.profile.meta.tasks[task as usize];
            [u64::from(task.pid), u64::from(task.spawn_index)]
        };
        let counts = |matrix: &Matrix| -> Counts {
            let row = |(from, to, messages)| ([who(from), who(to)].concat().try_into().expect("two pairs"), messages);
            matrix.iter().map(row).collect()
        };
        // The profiler sees no copies between processes, nor what goes through pipes and sockets.
        let by_memory = !text.contains("# channels");
        if by_memory && !run.contains("copied") {
            assert_eq!(counts(&outcome.profile.messages), known, "{run}: the profiler");
        }
        if !by_memory {
            // Whoever waits in poll(2) waits for a task, and no time passes by itself.
            assert_eq!(idle_ns(&recording), 0, "{run}");
            // The process that has started the others waits for their ends.
            let processes = recording.tasks().iter().map(|task| task.process).max().unwrap();
            assert_eq!(waited_for(&recording, 0).len() as u32, processes, "{run}");
        }
        for turn in [1, 1_000_000] {
            let found = counts(&detect(&recording, &data, turn));
            if found != known {
                failures.push(format!("{run}, turns of {turn}: known {known:?}, found {found:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn loads_and_stores_are_all_there() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("r.rec");
    let command = [&binary, "stencil-2d", "--threads", "4", "--rounds", "5", "--expect", "/dev/null"];
    let outcome = record(&command, &to);
    let recording = RecordingFile::open(&to).unwrap();
    let counted = (&outcome.profile.loads, &outcome.profile.stores);
    for task in 0..recording.tasks().len() as u32 {
        let (mut loads, mut stores) = (0, 0);
        let mut steps = recording.steps(task).unwrap();
        while let Some(step) = steps.next_step().unwrap() {
            if let Step::Loop { accesses, iterations } = &step {
                loads += iterations * accesses.iter().filter(|access| access.kind.reads()).count() as u64;
                stores += iterations * accesses.iter().filter(|access| access.kind.writes()).count() as u64;
            }
        }
        let (wanted_loads, wanted_stores) = (counted.0[task as usize], counted.1[task as usize]);
        // String instructions and system calls are an access a line here, and one an element there.
        let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= 200 + wanted / 20;
        assert!(near(loads, wanted_loads), "task {task}: {loads} loads, {wanted_loads} counted");
        assert!(near(stores, wanted_stores), "task {task}: {stores} stores, {wanted_stores} counted");
    }
}

#[test]
fn threads_begin_after_their_creator_and_are_waited_for() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("r.rec");
    record(&[&binary, "ring", "--threads", "3", "--expect", "/dev/null"], &to);
    let recording = RecordingFile::open(&to).unwrap();
    let steps = |task| {
        let (mut all, mut steps) = (Vec::new(), recording.steps(task).unwrap());
        while let Some(step) = steps.next_step().unwrap() {
            all.push(step);
        }
        all
    };
    let tasks = recording.tasks().len() as u32;
    assert!(tasks >= 3, "{tasks} tasks");
    for task in 1..tasks {
        assert!(matches!(steps(task)[0], Step::Wait { reason: Reason::Start, task: 0, .. }), "task {task}");
    }
    let ends = |step: &Step| matches!(step, Step::Wait { reason: Reason::End, .. });
    assert!(steps(0).iter().filter(|step| ends(step)).count() as u32 >= tasks - 1, "the first task waits for each end");
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.rec");
    for content in [&b""[..], b"PK\x03\x04", b"no recording at all"] {
        std::fs::write(&path, content).unwrap();
        let error = RecordingFile::open(&path).unwrap_err();
        assert!(error.cause.contains("no recording") && error.remedy.is_some(), "{error}");
    }
}
