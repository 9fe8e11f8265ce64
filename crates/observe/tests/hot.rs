//! `--hot` finds, in programs that communicate through known data in a known way, that data and that way.

#[allow(dead_code)] // what other tests use of it
mod common;

use cohabit_model::Profile;
use cohabit_model::data::{Data, DataObject, sharing};
use cohabit_observe::dbi::{self, Installation, Options};
use std::ffi::OsString;
use std::path::PathBuf;

/// A workload, built; none, said aloud, where the profiler or a compiler is missing.
fn workload(target: &str) -> Option<PathBuf> {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return None;
    }
    common::build(target)
}

/// What a program says of itself: its object, the messages through it and their sharing.
type Known = (String, u64, Option<bool>);

/// The profile with `--hot`, and what is known.
fn profile(program: &str, arguments: &str) -> Option<(Profile, Known)> {
    let binary = workload(program)?;
    let output = tempfile::NamedTempFile::new().expect("a temporary file");
    let script = format!("exec \"$0\" {arguments} >\"$1\"");
    let words = ["/bin/sh".as_ref(), "-c".as_ref(), script.as_ref(), binary.as_os_str(), output.path().as_os_str()];
    let command: Vec<OsString> = words.into_iter().map(ToOwned::to_owned).collect();
    let options = Options { hot: true, ..Options::default() };
    let outcome = dbi::profile(&command, &options).unwrap_or_else(|failure| panic!("{arguments}: {failure}"));
    assert!(
        outcome.status.success() && outcome.notes.is_empty(),
        "{arguments}: {} {:?}",
        outcome.status,
        outcome.notes
    );
    let known = std::fs::read_to_string(output.path()).expect("the workload wrote what it knows");
    let fields: Vec<&str> = known.trim_end().rsplitn(3, ',').collect();
    let [kind, messages, object] = fields[..] else { panic!("{arguments}: {known}") };
    let kind = ["false", "true"].iter().position(|name| *name == kind).map(|at| at == 1);
    Some((outcome.profile, (object.to_owned(), messages.parse().expect("a count"), kind)))
}

fn objects(profile: &Profile) -> Vec<DataObject> {
    profile.meta.data.as_ref().expect("--hot was asked for").by_name()
}

/// The sum of all shares is all: each message that was looked at has one object.
fn assert_shares(profile: &Profile, what: &str) {
    let data = profile.meta.data.as_ref().expect("--hot was asked for");
    assert_eq!(u128::from(data.messages), profile.messages.total(), "{what}");
    let sum: u64 = data.objects.iter().map(|object| object.messages).sum();
    let rounded = data.objects.len() as u64;
    assert!(sum <= data.messages && sum + rounded >= data.messages, "{what}: {sum} of {}", data.messages);
    assert!(profile.meta.hot.iter().all(|hot| hot.messages <= data.messages), "{what}");
}

/// What sampling may be off by: the messages themselves are exact, which object they belong to is known of one in so
/// many. Five standard deviations, so that it is not chance whether the test passes.
fn near(found: u64, known: u64, data: &Data) -> bool {
    let samples = (data.messages / data.interval).max(1) as f64;
    let share = known as f64 / data.messages as f64;
    let deviation = (share * (1.0 - share).max(0.0) / samples).sqrt();
    found.abs_diff(known) as f64 <= 5.0 * deviation * data.messages as f64 + 64.0
}

#[test]
fn objects_and_sharing_are_those_known() {
    let runs = [
        ("hot", "heap needed"),
        ("hot", "heap counters"),
        ("hot", "heap constant"),
        ("hot", "global needed --lines 2048"),
        ("hot", "global counters"),
        ("hot", "global constant --lines 1 --rounds 5000"),
        ("hot", "stack needed"),
        ("hot", "stack counters"),
        ("hot", "mapping needed"),
        ("hot", "mapping constant"),
        ("hot", "nodes needed"),
        ("hot", "symbols counters --rounds 500"),
        ("hot-vector", ""),
    ];
    for (program, arguments) in runs {
        let Some((profile, (object, messages, kind))) = profile(program, arguments) else { return };
        assert_shares(&profile, arguments);
        let objects = objects(&profile);
        let found = objects.iter().find(|found| found.object.starts_with(&object));
        let found = found.unwrap_or_else(|| panic!("{program} {arguments}: {object} is not in {objects:?}"));
        let data = profile.meta.data.as_ref().expect("--hot was asked for");
        assert!(near(found.messages, messages, data), "{program} {arguments}: {messages} expected, {found:?}");
        assert_eq!(sharing(found.true_reads, found.false_reads), kind, "{program} {arguments}: {found:?}");
        let (other, name) = if kind == Some(true) { (found.false_reads, "false") } else { (found.true_reads, "true") };
        // Each line's first value, from before it was followed, may be one that the reader needs.
        assert!(other * 20 <= found.true_reads + found.false_reads, "{program} {arguments}: {name} {found:?}");
        assert!(!found.writers.is_empty() && !found.readers.is_empty(), "{program} {arguments}: {found:?}");
    }
}

#[test]
fn what_shares_nothing_is_no_object() {
    for storage in ["heap", "global"] {
        let Some((profile, (object, ..))) = profile("hot", &format!("{storage} padded")) else { return };
        assert_shares(&profile, storage);
        let named: Vec<_> = objects(&profile).into_iter().filter(|found| found.object.starts_with(&object)).collect();
        let messages: u64 = named.iter().map(|found| found.messages).sum();
        // The second thread finds its words as the first one left them when it set the array up.
        assert!(messages <= 128, "{storage}: {named:?}");
    }
}

#[test]
fn messages_are_of_the_bytes_used() {
    let Some((profile, _)) = profile("hot", "symbols counters --rounds 500") else { return };
    for named in
        objects(&profile).iter().map(|found| &found.object).chain(profile.meta.hot.iter().map(|hot| &hot.object))
    {
        assert!(!named.starts_with("first_byte"), "{named}");
    }
    let hot = profile.meta.hot.iter().find(|hot| hot.object == "beside_it in hot");
    let hot = hot.unwrap_or_else(|| panic!("{:?}", profile.meta.hot));
    assert_eq!((hot.offset, hot.object_bytes, hot.neighbours.len()), (-8, 24, 0), "{hot:?}");
}

/// The calls between lie in a frame full of old return addresses (`leave_traces`).
#[test]
fn allocations_have_the_callers_that_they_had() {
    let Some((profile, _)) = profile("hot", "heap needed") else { return };
    let objects = objects(&profile);
    let found = objects.iter().find(|found| found.object.starts_with("heap block allocated in innermost"));
    let found = found.unwrap_or_else(|| panic!("{objects:?}"));
    let callers: Vec<&str> = found.object.split(" < ").map(|call| call.rsplit(' ').nth(1).unwrap_or(call)).collect();
    assert_eq!(callers, ["innermost", "middle", "outermost", "choose"], "{}", found.object);
}
