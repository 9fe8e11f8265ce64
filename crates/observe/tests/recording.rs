//! Recordings of programs whose communication is known: what a detector finds in them is what the profiler counts.

#[allow(dead_code)] // what other tests use of it
mod common;

use cohabit_access::file::RecordingFile;
use cohabit_access::order::{Event, in_turns};
use cohabit_access::{Reason, Recording, Step, check};
use cohabit_detect::{Setting, named};
use cohabit_model::Matrix;
use cohabit_observe::dbi::{self, Installation, Options};
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
        if let Event::Access(access) = &event {
            if ranges.iter().any(|range| range.contains(&access.address)) {
                detector.take(&event);
            }
        }
        Ok(())
    })
    .unwrap();
    detector.finish().matrix
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
