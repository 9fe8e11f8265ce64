//! Processes that share memory: the exact profiler finds who communicated with whom in them, count for count, and so
//! does the slow reference detector, fed the streams of all processes in one order.

#[allow(dead_code)] // what other tests use of it
mod common;

use cohabit_access::Access;
use cohabit_detect::reference::ReferenceDetector;
use cohabit_model::Profile;
use cohabit_model::series::Window;
use cohabit_observe::dbi::{self, Installation, Options};
use cohabit_observe::stream::{COMMON, Event, Stream};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Process id and thread of the source, the same of the destination, to messages, bytes, invalidations.
type Counts = BTreeMap<[u64; 4], [u64; 3]>;

fn workload() -> Option<PathBuf> {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return None;
    }
    common::build("processes")
}

fn profile(command: &[String], options: &Options) -> Profile {
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    let outcome = dbi::profile(&words, options).unwrap_or_else(|failure| panic!("{command:?}: {failure}"));
    assert!(outcome.status.success(), "{command:?}: {}", outcome.status);
    let asked = [(options.sharing, "--sharing: memory that"), (options.hot, "--hot: memory that")];
    let notes: Vec<&str> = asked.into_iter().filter_map(|(asked, note)| asked.then_some(note)).collect();
    assert_eq!(outcome.notes.len(), notes.len(), "{command:?}: {:?}", outcome.notes);
    for (said, note) in outcome.notes.iter().zip(notes) {
        assert!(said.starts_with(note), "{command:?}: {said}");
    }
    outcome.profile
}

fn truth(path: &Path) -> Counts {
    let text = std::fs::read_to_string(path).expect("the workload wrote what it knows");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let fields: Vec<u64> = line.split(',').map(|field| field.parse().expect("a count")).collect();
        let [a, b, c, d, messages, bytes, invalidations] = fields[..] else { panic!("{line}") };
        ([a, b, c, d], [messages, bytes, invalidations])
    };
    rows.map(row).collect()
}

fn found(profile: &Profile) -> Counts {
    let mut counts = Counts::new();
    let invalidations = profile.invalidations.as_ref().expect("the profiler counts them");
    for (column, matrix) in [&profile.messages, &profile.bytes, invalidations].into_iter().enumerate() {
        for (source, destination, value) in matrix.iter() {
            let ends = [source, destination].map(|task| &profile.meta.tasks[task as usize]);
            let key = ends.map(|task| [u64::from(task.pid), u64::from(task.spawn_index)]);
            counts.entry(key.concat().try_into().expect("two pairs")).or_default()[column] = value;
        }
    }
    counts
}

/// The command line of a run: pattern, memory, processes, threads, block size, and what else is said.
struct Run(&'static str, &'static str, u32, u32, u32, &'static [&'static str]);

fn command(binary: &Path, run: &Run, expect: &Path) -> Vec<String> {
    let Run(pattern, memory, processes, threads, block, more) = run;
    let text = format!(
        "{} {pattern} --memory {memory} --processes {processes} --threads {threads} --block {block} --expect {}",
        binary.display(),
        expect.display()
    );
    text.split(' ').chain(more.iter().copied()).map(str::to_owned).collect()
}

fn compare(runs: &[Run]) {
    compare_with(runs, &Options::default());
}

/// One line a run that differs.
fn compare_with(runs: &[Run], options: &Options) {
    let Some(binary) = workload() else { return };
    let mut failures = Vec::new();
    for run in runs {
        let expect = tempfile::NamedTempFile::new().expect("a temporary file");
        let command = command(&binary, run, expect.path());
        let profile = profile(&command, &Options { block_bytes: run.4, ..options.clone() });
        let (known, seen) = (truth(expect.path()), found(&profile));
        assert!(!known.is_empty(), "{command:?}");
        assert_eq!(profile.meta.coverage.events_lost, 0, "{command:?}");
        let keys: std::collections::BTreeSet<_> = known.keys().chain(seen.keys()).collect();
        let differing: Vec<_> = keys.iter().filter(|key| known.get(**key) != seen.get(**key)).collect();
        if let Some(first) = differing.first() {
            failures.push(format!(
                "{command:?}: {} of {} pairs differ, first {first:?}: known {:?}, found {:?}",
                differing.len(),
                keys.len(),
                known.get(**first),
                seen.get(**first)
            ));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_kind_of_memory() {
    compare(&[
        Run("ring", "anonymous", 4, 1, 64, &[]),
        Run("all", "moved", 4, 1, 64, &[]),
        Run("ring", "file", 5, 1, 64, &[]),
        Run("pairs", "posix", 6, 1, 64, &[]),
        Run("all", "memfd", 5, 1, 64, &[]),
        Run("all", "sysv", 4, 1, 64, &[]),
        Run("ring", "twice", 4, 1, 64, &[]),
        Run("all", "cut", 4, 1, 64, &[]),
        Run("all", "covered", 4, 1, 64, &[]),
    ]);
}

/// `cohabit run` puts processes on their PUs in the order they are started in, which is not always the one they first
/// run in.
#[test]
fn processes_are_numbered_in_the_order_they_were_started_in() {
    let Some(binary) = workload() else { return };
    for more in [&[][..], &["--exec"], &[], &["--exec"], &[]] {
        let expect = tempfile::NamedTempFile::new().expect("a temporary file");
        let run = Run("ring", "posix", 8, 1, 64, more);
        let profile = profile(&command(&binary, &run, expect.path()), &Options::default());
        // Process 0 starts the others, each of which reads what the next one wrote.
        let process = |task: u32| profile.meta.tasks[task as usize].process;
        let mut pairs: Vec<_> = profile.messages.iter().map(|(from, to, _)| (process(from), process(to))).collect();
        pairs.sort_unstable();
        assert_eq!(
            pairs,
            (1..=8).map(|from| (from, if from == 1 { 8 } else { from - 1 })).collect::<Vec<_>>(),
            "{more:?}"
        );
    }
}

#[test]
fn every_block_size_and_more_than_a_segment() {
    compare(&[
        Run("all", "file", 3, 2, 16, &["--blocks", "300"]),
        Run("ring", "posix", 4, 1, 256, &[]),
        Run("all", "anonymous", 3, 1, 4096, &["--blocks", "3"]),
        Run("ring", "memfd", 3, 1, 4096, &["--blocks", "2500", "--rounds", "2"]),
        Run("ring", "cut", 3, 1, 64, &["--blocks", "20000", "--rounds", "2"]),
    ]);
}

#[test]
fn threads_in_processes_and_programs_by_exec() {
    compare(&[
        Run("all", "anonymous", 3, 3, 64, &[]),
        Run("pairs", "sysv", 3, 2, 64, &["--exec"]),
        Run("ring", "posix", 3, 2, 64, &["--exec"]),
        Run("all", "twice", 2, 2, 64, &["--exec"]),
    ]);
}

#[test]
fn more_tasks_than_a_word_has_bits_for() {
    compare(&[
        Run("all", "anonymous", 60, 1, 64, &["--rounds", "2", "--blocks", "2"]),
        Run("all", "file", 6, 20, 64, &["--rounds", "2", "--blocks", "1"]),
    ]);
}

#[test]
fn options_do_not_change_the_counts() {
    let [mut sharing, mut hot] = [Options::default(), Options::default()];
    (sharing.sharing, hot.hot) = (true, true);
    for options in [sharing, hot] {
        let runs = [
            Run("all", "anonymous", 3, 2, 64, &["--rounds", "20"]),
            Run("ring", "twice", 3, 2, 64, &["--rounds", "20"]),
        ];
        compare_with(&runs, &options);
    }
}

#[test]
fn a_killed_process_leaves_what_it_counted_and_what_others_know() {
    let Some(binary) = workload() else { return };
    for memory in ["anonymous", "posix"] {
        let expect = tempfile::NamedTempFile::new().expect("a temporary file");
        let run = Run("all", memory, 4, 2, 64, &["--kill"]);
        let profile = profile(&command(&binary, &run, expect.path()), &Options::default());
        assert_eq!(found(&profile), truth(expect.path()), "{memory}");
        assert!(profile.meta.coverage.not_seen.iter().any(|line| line.contains("killed")));
    }
}

/// Longer than any run, as in the test of single processes.
const ONE_WINDOW_NS: u64 = 100_000_000_000_000;

/// The streams of all processes in one order, with tasks numbered as in the profile. Private memory of different
/// processes, and of programs before and after exec, is told apart.
fn events(folder: &Path, profile: &Profile) -> Vec<Event> {
    let files = folder.read_dir().expect("the folder of the streams").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<(u64, Event)> = Vec::new();
    for (number, path) in files.enumerate() {
        let mut stream = Stream::open(&path).unwrap_or_else(|error| panic!("{}", error.cause));
        assert_eq!(stream.lost, 0);
        let of_process = profile.meta.tasks.iter().filter(|task| task.pid == stream.pid);
        let ids: HashMap<u32, u32> = of_process.map(|task| (task.spawn_index, task.id)).collect();
        let own = (number as u64) << 47;
        let place = |address: u64| if address < COMMON { address + own } else { address };
        while let Some(event) = stream.next() {
            let event = match event.expect("a whole stream") {
                Event::Access(access) => {
                    let (task, address) = (ids[&access.task], place(access.address));
                    Event::Access(Access { task, address, ..access })
                }
                Event::Clear(range) if range == (0..u64::MAX) => Event::Clear(own..own + (1 << 47)),
                Event::Clear(range) => Event::Clear(place(range.start)..place(range.end)),
                Event::Only(_) => panic!("no ranges here"),
            };
            all.push((stream.ticks, event));
        }
    }
    all.sort_by_key(|(ticks, _)| *ticks);
    all.into_iter().map(|(_, event)| event).collect()
}

/// No ranges here: all memory of all processes, the C library's barriers in shared memory too.
#[test]
fn streams_of_processes_are_counted_as_by_the_reference() {
    let Some(binary) = workload() else { return };
    for run in [
        Run("all", "anonymous", 3, 2, 64, &["--everything", "--rounds", "2"]),
        Run("ring", "posix", 4, 1, 256, &["--everything"]),
        Run("all", "twice", 3, 1, 64, &["--everything"]),
        Run("ring", "sysv", 52, 1, 64, &["--everything", "--rounds", "1"]),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let record = Some(folder.path().to_owned());
        let options = Options { block_bytes: run.4, window: Window::Time(ONE_WINDOW_NS), record, ..Options::default() };
        let command = command(&binary, &run, Path::new("/dev/null"));
        let profile = profile(&command, &options);
        let mut detector = ReferenceDetector::new(run.4.into(), ONE_WINDOW_NS);
        for event in events(folder.path(), &profile) {
            match event {
                Event::Access(access) => detector.access(&access),
                Event::Clear(range) => detector.clear(range),
                Event::Only(_) => {}
            }
        }
        let counts = detector.finish(profile.tasks());
        let invalidations = profile.invalidations.as_ref().expect("the profiler counts them");
        for (name, inline, slow) in [
            ("messages", &profile.messages, &counts.messages),
            ("bytes", &profile.bytes, &counts.bytes),
            ("invalidations", invalidations, &counts.invalidations),
        ] {
            let (inline, slow): (Vec<_>, Vec<_>) = (inline.iter().collect(), slow.iter().collect());
            assert_eq!(inline, slow, "{command:?}: {name}");
        }
        assert!(counts.messages.iter().count() > 3, "{command:?}");
    }
}
