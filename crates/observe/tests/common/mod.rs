//! The workloads as tests see them: built, run, and the matrix they say is known.

use cohabit_detect::reference::ReferenceDetector;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// What a workload says of itself on standard output (workloads/README.md).
pub struct Truth {
    /// Address ranges of the data; what lies elsewhere is not in `rows`.
    pub ranges: Vec<std::ops::Range<u64>>,
    /// Source, destination, messages, bytes, invalidations of process 0, sorted.
    pub rows: Vec<[u64; 5]>,
}

/// Whether `tool` can be started here; says aloud that the test is skipped if not.
pub fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// Builds `target` (a path under the build folder) and gives its path; none, said aloud, without make and a C compiler.
pub fn build(target: &str) -> Option<PathBuf> {
    if !has("make") || !has("cc") {
        return None;
    }
    // One at a time: two tests that build the same target would run what the other is writing. Test programs, which may
    // run at the same time, have a folder each.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(target.replace('/', "-"));
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(workloads).arg(format!("BUILD={}", build.display()));
    make.arg(build.join(target));
    let output = make.output().expect("make was started before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(build.join(target))
}

/// Runs to the end; standard output, and the exit status.
pub fn run(command: &mut Command) -> (String, i32) {
    let output = command.output().expect("the binary was built");
    let status = output.status.code().expect("it ended by itself");
    assert!([0, 77].contains(&status), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).expect("workloads print ASCII"), status)
}

pub fn parse_truth(text: &str) -> Truth {
    let range = |line: &str| {
        let (address, bytes) = line.strip_prefix("# data 0x")?.split_once(' ')?;
        let address = u64::from_str_radix(address, 16).expect("an address");
        Some(address..address + bytes.parse::<u64>().expect("a length"))
    };
    let row = |line: &str| {
        let fields: Vec<u64> =
            line.strip_prefix("0,")?.split(',').map(|field| field.parse().expect("a count")).collect();
        Some(<[u64; 5]>::try_from(fields).expect("six columns"))
    };
    let mut rows: Vec<_> = text.lines().filter_map(row).collect();
    rows.sort_unstable();
    Truth { ranges: text.lines().filter_map(range).collect(), rows }
}

/// What the reference detector found, in the form of [`Truth::rows`].
pub fn rows(detector: ReferenceDetector) -> Vec<[u64; 5]> {
    let counts = detector.finish(0);
    let tasks = counts.messages.tasks();
    let pairs = (0..tasks).flat_map(|source| (0..tasks).map(move |destination| (source, destination)));
    let row = |(source, destination)| {
        let matrices = [&counts.messages, &counts.bytes, &counts.invalidations];
        let [messages, bytes, invalidations] = matrices.map(|matrix| matrix.get(source, destination));
        [source as u64, destination as u64, messages, bytes, invalidations]
    };
    pairs.map(row).filter(|row| row[2..] != [0, 0, 0]).collect()
}
