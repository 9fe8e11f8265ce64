//! The slow reference detector, fed the stream of a run, finds what the inline detector found in that same run, count
//! for count: communication, invalidations and sharing, in programs where nothing is known beforehand of either.

#[allow(dead_code)] // what other tests use of it
mod common;

use cohabit_access::Access;
use cohabit_detect::reference::{ReferenceCounts, ReferenceDetector};
use cohabit_model::Matrix;
use cohabit_model::series::Window;
use cohabit_observe::dbi::{self, Installation, Options};
use cohabit_observe::stream::{Event, Stream};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Longer than any run: the end of a window is not at the same access for both.
const ONE_WINDOW_NS: u64 = 100_000_000_000_000;

fn streams_of(folder: &Path) -> Vec<PathBuf> {
    let files = folder.read_dir().expect("the folder of the streams").map(|entry| entry.expect("an entry").path());
    let mut streams: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "stream")).collect();
    streams.sort();
    streams
}

fn events(path: &Path) -> Vec<Event> {
    let stream = Stream::open(path).unwrap_or_else(|error| panic!("{}", error.cause));
    assert_eq!(stream.lost, 0, "{}", path.display());
    stream.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{}", error.cause))
}

/// The pieces of an access that lie in blocks which are wholly within one of the ranges; all of it without ranges.
fn counted(access: &Access, block_bytes: u64, ranges: &[Range<u64>]) -> Vec<Access> {
    if ranges.is_empty() {
        return vec![*access];
    }
    let end = access.address + u64::from(access.size_bytes);
    let blocks = access.address / block_bytes..=(end - 1) / block_bytes;
    let inside = |block: &u64| {
        let (first, last) = (block * block_bytes, (block + 1) * block_bytes);
        ranges.iter().any(|range| range.start <= first && last <= range.end)
    };
    let piece = |block: u64| {
        let (first, last) = (access.address.max(block * block_bytes), end.min((block + 1) * block_bytes));
        Access { address: first, size_bytes: (last - first) as u32, ..*access }
    };
    blocks.filter(inside).map(piece).collect()
}

/// What the reference detector makes of a stream. What was counted before a program named its first range came to
/// nothing in the programs here: they had one thread then.
fn reference(events: &[Event], block_bytes: u64, tasks: usize) -> ReferenceCounts {
    let range = |event: &Event| if let Event::Only(range) = event { Some(range.clone()) } else { None };
    let ranges: Vec<Range<u64>> = events.iter().filter_map(range).collect();
    let mut detector = ReferenceDetector::new(block_bytes, ONE_WINDOW_NS);
    for event in events {
        match event {
            Event::Access(access) => {
                counted(access, block_bytes, &ranges).iter().for_each(|piece| detector.access(piece));
            }
            Event::Clear(cleared) => detector.clear(cleared.clone()),
            Event::Only(_) => {}
        }
    }
    detector.finish(tasks)
}

/// Records a run and compares; how many messages there were.
fn compare(command: &[&str], block_bytes: u32) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options {
        block_bytes,
        window: Window::Time(ONE_WINDOW_NS),
        sharing: true,
        record: Some(folder.path().to_owned()),
        ..Options::default()
    };
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    let outcome = dbi::profile(&words, &options).unwrap_or_else(|failure| panic!("{command:?}: {failure}"));
    assert!(outcome.status.success(), "{command:?}: {}", outcome.status);
    let streams = streams_of(folder.path());
    let [stream] = &streams[..] else { panic!("{command:?}: {streams:?}") };
    let profile = outcome.profile;
    let counts = reference(&events(stream), block_bytes.into(), profile.tasks());
    let matrix = |name: &str, inline: Option<&Matrix>, slow: &Matrix| {
        let inline: Vec<_> = inline.unwrap_or_else(|| panic!("{name} were counted")).iter().collect();
        let slow: Vec<_> = slow.iter().collect();
        assert_eq!(inline, slow, "{command:?}, blocks of {block_bytes}: {name}");
    };
    matrix("messages", Some(&profile.messages), &counts.messages);
    matrix("bytes", Some(&profile.bytes), &counts.bytes);
    matrix("invalidations", profile.invalidations.as_ref(), &counts.invalidations);
    matrix("transfers", profile.transfers.as_ref(), &counts.transfers);
    matrix("sharing", profile.sharing.as_ref(), &counts.sharing);
    counts.messages.iter().map(|(_, _, messages)| messages).sum()
}

/// A workload, built; none, said aloud, where the profiler or a compiler is missing.
fn workload(target: &str) -> Option<String> {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return None;
    }
    Some(common::build(target)?.to_str().expect("a plain path").to_owned())
}

#[test]
fn patterns_are_counted_as_by_the_reference() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    let rows = [
        ("ring", "4", "64"),
        ("all-to-all", "6", "32"),
        ("master", "70", "64"),
        ("false-sharing", "5", "256"),
        ("phases", "8", "4096"),
        ("gather", "3", "64"),
    ];
    for (pattern, threads, block) in rows {
        let command = [&binary, pattern, "--threads", threads, "--rounds", "3", "--block", block, "--blocks", "2"];
        let command = [&command[..], &["--expect", "/dev/null"]].concat();
        let messages = compare(&command, block.parse().expect("a number"));
        assert!(messages > 0, "{pattern}");
    }
}

/// No ranges here: the C library, its locks, stacks, the loader, system calls, memory that comes and goes.
#[test]
fn whole_programs_are_counted_as_by_the_reference() {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return;
    }
    if !common::has("xz") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("text");
    let text: String = (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 7).to_string()).collect();
    std::fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("a plain path");
    let command = ["xz", "--keep", "--force", "-0", "--threads=3", "--block-size=30000", file];
    assert!(compare(&command, 64) > 0, "threads of xz exchange their work");
}
