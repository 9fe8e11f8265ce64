//! The exact profiler finds, in every workload whose communication is known, that communication, count for count.

#[allow(dead_code)] // what other tests use of it
mod common;

use cohabit_model::Profile;
use cohabit_model::series::Window;
use cohabit_observe::dbi::{self, Installation, Options};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Process, source, destination (places in the order of creation in their process) to messages, bytes, invalidations.
type Counts = BTreeMap<[u64; 3], [u64; 3]>;

/// A workload, built; none, said aloud, where the profiler or a compiler is missing.
fn workload(target: &str) -> Option<PathBuf> {
    if let Err(error) = Installation::find() {
        eprintln!("skipped: {}", error.cause);
        return None;
    }
    common::build(target)
}

fn profile(command: &[&str], options: &Options) -> (Profile, ExitStatus) {
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let outcome = dbi::profile(&command, options).unwrap_or_else(|failure| panic!("{command:?}: {failure}"));
    assert_eq!(outcome.notes, Vec::<String>::new(), "{command:?}");
    (outcome.profile, outcome.status)
}

/// What a workload knows; none where it says nothing of what it communicates.
fn truth(path: &Path) -> Option<Counts> {
    let text = std::fs::read_to_string(path).expect("the workload wrote what it knows");
    if !text.starts_with("# cohabit truth, format 1") {
        return None;
    }
    let rows = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let counts = rows.map(|row| {
        let fields: Vec<u64> = row.split(',').map(|field| field.parse().expect("a count")).collect();
        let [process, source, destination, messages, bytes, invalidations] = fields[..] else { panic!("{row}") };
        ([process, source, destination], [messages, bytes, invalidations])
    });
    Some(counts.collect())
}

fn found(profile: &Profile) -> Counts {
    let mut counts = Counts::new();
    let invalidations = profile.invalidations.as_ref().expect("the profiler counts them");
    for (column, matrix) in [&profile.messages, &profile.bytes, invalidations].into_iter().enumerate() {
        for (source, destination, value) in matrix.iter() {
            let (source, destination) =
                (&profile.meta.tasks[source as usize], &profile.meta.tasks[destination as usize]);
            assert_eq!(source.process, destination.process, "processes are counted apart");
            let key = [source.process, source.spawn_index, destination.spawn_index].map(u64::from);
            counts.entry(key).or_default()[column] = value;
        }
    }
    counts
}

/// Runs a pattern under the profiler and compares; one line a difference.
fn compare(binary: &Path, arguments: &[&str], options: &Options) -> Result<Profile, String> {
    let expect = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = vec![binary.to_str().expect("a plain path")];
    command.extend(arguments);
    let name = command.join(" ");
    command.extend(["--expect", expect.path().to_str().expect("a plain path")]);
    let (profile, status) = profile(&command, options);
    if !status.success() {
        return Err(format!("{name}: {status}"));
    }
    difference(&truth(expect.path()).expect("patterns know"), &found(&profile))
        .map_or(Ok(profile), |what| Err(format!("{name}: {what}")))
}

/// The first pair that differs, and how many do.
fn difference(truth: &Counts, found: &Counts) -> Option<String> {
    let keys: std::collections::BTreeSet<_> = truth.keys().chain(found.keys()).collect();
    let differing: Vec<_> = keys.iter().filter(|key| truth.get(**key) != found.get(**key)).collect();
    let first = differing.first()?;
    let (known, seen) = (truth.get(**first), found.get(**first));
    Some(format!(
        "{} of {} pairs differ, first {first:?}: known {known:?}, found {seen:?}",
        differing.len(),
        keys.len()
    ))
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

const PATTERNS: [&str; 16] = [
    "ring",
    "chain",
    "stencil-2d",
    "stencil-3d",
    "torus",
    "pairs-near",
    "pairs-far",
    "all-to-all",
    "master",
    "gather",
    "pipeline",
    "butterfly",
    "token",
    "false-sharing",
    "read-only",
    "phases",
];

/// Every pattern at every size, each with another order of threads and another block size.
fn every_pattern(driver: &str) {
    let Some(binary) = workload(driver) else { return };
    let variations = [("0", 64), ("5", 64), ("1", 16), ("7", 256), ("3", 4096)];
    let mut variation = variations.iter().cycle();
    let mut failures = Vec::new();
    for pattern in PATTERNS {
        for threads in ["2", "4", "16", "64"] {
            let (seed, block) = variation.next().expect("a cycle");
            let block_text = block.to_string();
            let arguments = [pattern, "--threads", threads, "--rounds", "3", "--seed", seed, "--block", &block_text];
            let options = Options { block_bytes: *block, ..Options::default() };
            failures.extend(compare(&binary, &arguments, &options).err());
        }
    }
    assert_none(&failures);
}

#[test]
fn every_pattern_with_pthreads() {
    every_pattern("patterns-pthreads");
}

#[test]
fn every_pattern_with_openmp() {
    every_pattern("patterns-openmp");
}

#[test]
fn a_thousand_threads() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    let mut failures = Vec::new();
    for pattern in ["ring", "master", "all-to-all", "false-sharing"] {
        let arguments = [pattern, "--threads", "1024", "--rounds", "2", "--blocks", "1", "--seed", "1"];
        match compare(&binary, &arguments, &Options::default()) {
            Ok(profile) => assert_eq!(profile.tasks(), 1024),
            Err(failure) => failures.push(failure),
        }
    }
    assert_none(&failures);
}

/// Each has a handful of mappings of its own, and a process may have 65,530.
#[test]
fn four_thousand_threads_at_once() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    for (limit, wanted) in [("vm/max_map_count", 65_530), ("kernel/threads-max", 6_000), ("kernel/pid_max", 6_000)] {
        let text = std::fs::read_to_string(format!("/proc/sys/{limit}")).unwrap_or_default();
        if text.trim().parse::<u64>().is_ok_and(|value| value < wanted) {
            eprintln!("skipped: {limit} is {}, for 4,096 threads it has to be {wanted}", text.trim());
            return;
        }
    }
    let arguments = ["ring", "--threads", "4096", "--rounds", "2", "--blocks", "1", "--seed", "1"];
    match compare(&binary, &arguments, &Options::default()) {
        Ok(profile) => assert_eq!(profile.tasks(), 4096),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn hot_blocks_have_names_and_kinds_of_sharing() {
    let Some(binary) = workload("patterns-pthreads") else { return };
    let options = Options { hot: true, ..Options::default() };
    for (pattern, shared) in [("pairs-near", true), ("false-sharing", false)] {
        let arguments = [pattern, "--threads", "2", "--rounds", "3000", "--blocks", "1"];
        let profile = compare(&binary, &arguments, &options).unwrap_or_else(|failure| panic!("{failure}"));
        let hot = profile.meta.hot.first().unwrap_or_else(|| panic!("{pattern}: no hot block"));
        assert_eq!(hot.sharing, Some(shared), "{pattern}: {hot:?}");
        for sites in [&hot.writers, &hot.readers] {
            let site = sites.first().unwrap_or_else(|| panic!("{pattern}: {hot:?}"));
            assert!(site.line.contains("patterns/") && !site.tasks.is_empty(), "{pattern}: {hot:?}");
        }
        assert!(hot.object.starts_with("mapping allocated in"), "{pattern}: {hot:?}");
    }
}

/// The probes write what they know to standard output; 77 says that this machine lacks something.
fn probe(binary: &Path, options: &Options) -> Option<String> {
    let output = tempfile::NamedTempFile::new().expect("a temporary file");
    let (name, path) = (binary.to_str().expect("a plain path"), output.path().to_str().expect("a plain path"));
    let (profile, status) = profile(&["/bin/sh", "-c", "exec \"$0\" >\"$1\"", name, path], options);
    match status.code() {
        Some(0) => difference(&truth(output.path())?, &found(&profile)).map(|what| format!("{name}: {what}")),
        Some(77) => {
            let text = std::fs::read_to_string(output.path()).unwrap_or_default();
            eprintln!(
                "skipped: {name}: {}",
                text.lines().find_map(|line| line.strip_prefix("# skip: ")).unwrap_or("it cannot run here")
            );
            None
        }
        _ => Some(format!("{name}: {status}")),
    }
}

#[test]
fn every_probe() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/probes");
    let files = sources.read_dir().expect("the probes' sources").map(|entry| entry.expect("an entry").path());
    let is_probe = |name: &str| name != "probe" && !name.starts_with("library_");
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| is_probe(name))
        .collect();
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    let mut failures = Vec::new();
    for name in &names {
        let Some(binary) = workload(&format!("probes/{name}")) else { return };
        failures.extend(probe(&binary, &Options::default()));
    }
    assert_none(&failures);
}

/// Code is flushed when a burst begins and ends, which stops all threads: one that has lent its memory to a child cannot be
/// stopped before that has a program of its own, and would not be waited for if the child flushed or were stopped.
#[test]
fn bursts_wait_for_children_that_borrow_memory() {
    let Some(binary) = workload("probes/vforks") else { return };
    let burst = Some((Duration::from_millis(10), Duration::from_millis(10)));
    let command = ["timeout", "--signal=KILL", "120", binary.to_str().expect("a plain path"), "alone"];
    let (_, status) = profile(&command, &Options { burst, ..Options::default() });
    assert!(status.success(), "{status}");
}

/// Loops are unrolled only without `--sharing`; that must not show in what they load and store.
#[test]
fn unrolled_loops_count_their_loads_and_stores() {
    const WALKER: usize = 3;
    let Some(binary) = workload("probes/loops") else { return };
    let counts = [false, true].map(|sharing| {
        let options = Options { sharing, ..Options::default() };
        let (profile, status) = profile(&[binary.to_str().expect("a plain path")], &options);
        assert!(status.success());
        [profile.loads[WALKER], profile.stores[WALKER], profile.accessed_bytes[WALKER]]
    });
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0][0] > 1000 && counts[0][1] > 1000, "{counts:?}");
}

/// A read after every million instructions of the reader's, by a loop that is unrolled and by one that is not, is in
/// every tenth window of a hundred thousand. What is between two of them beside the million is a few hundred for all of
/// the twenty.
#[test]
fn windows_of_instructions_are_as_long_as_they_are_said_to_be() {
    const WIDTH: u64 = 100_000;
    let Some(binary) = workload("probes/instructions") else { return };
    let window = Window::Instructions(WIDTH);
    let command = [binary.to_str().expect("a plain path")];
    let (profile, status) = profile(&command, &Options { window, ..Options::default() });
    assert!(status.success());
    assert_eq!(profile.meta.window(), window);
    let bins: Vec<u64> = profile.series.iter().map(|row| row.bin).collect();
    assert_eq!(bins.len(), 20, "{bins:?}");
    for (round, bin) in (0..).zip(&bins) {
        let after = bin - bins[0];
        assert!((10 * round..=10 * round + 1).contains(&after), "round {round}: {bins:?}");
    }
    // Five million of the thread that starts it, and the first of its own; starting the program takes some, too.
    assert!((60..80).contains(&bins[0]), "{bins:?}");
}

/// Counting instructions changes nothing of what is counted else: flags and registers are the program's.
#[test]
fn probes_with_windows_of_instructions() {
    let options = Options { window: Window::Instructions(1000), ..Options::default() };
    let mut failures = Vec::new();
    for name in ["instructions", "loops", "registers", "strings", "signals", "fork"] {
        let Some(binary) = workload(&format!("probes/{name}")) else { return };
        failures.extend(probe(&binary, &options));
    }
    assert_none(&failures);
}

/// A loop that works while it waits asks in every iteration what ends its wait, unrolled or not. It is nearly always
/// its own 8 bytes that are counted, and not the byte that the probe reads afterwards.
#[test]
fn loops_see_what_they_wait_for() {
    const WAITS: u64 = 32;
    let Some(binary) = workload("probes/loops") else { return };
    let (profile, status) = profile(&[binary.to_str().expect("a plain path"), "waits"], &Options::default());
    assert!(status.success());
    let (messages, bytes) = (profile.messages.get(0, 1), profile.bytes.get(0, 1));
    assert_eq!(messages, WAITS);
    let in_loops = (bytes - messages) / 7;
    assert!(in_loops >= WAITS * 3 / 4, "{in_loops} of {WAITS}");
}
