//! The reference detector, fed the accesses of every workload, finds the matrix that the workload says is known: two
//! statements of the same words, one in Rust that looks at accesses, one in C that follows from the pattern's structure.

use cohabit_observe::access::{Access, AccessKind};
use cohabit_observe::reference::ReferenceDetector;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the pthreads binary, or says why not.
fn build() -> Result<PathBuf, String> {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workloads");
    let binary = build.join("patterns-pthreads");
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(workloads).arg(format!("BUILD={}", build.display())).arg(&binary);
    for tool in ["make", "cc"] {
        Command::new(tool).arg("--version").output().map_err(|error| format!("{tool}: {error}"))?;
    }
    let output = make.output().map_err(|error| format!("make: {error}"))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(binary)
}

fn run(binary: &Path, arguments: &[&str]) -> String {
    let output = Command::new(binary).args(arguments).output().expect("the binary was built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("patterns print ASCII")
}

fn parse_access(line: &str) -> Access {
    let fields: Vec<&str> = line.split(',').collect();
    let kind = if fields[1] == "write" { AccessKind::Write } else { AccessKind::Read };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    Access::new(number(fields[0]) as u32, kind, number(fields[2]), number(fields[3]) as u32)
}

/// The truth as rows of (source, destination, messages, bytes, invalidations).
fn parse_truth(text: &str) -> Vec<[u64; 5]> {
    let row = |line: &str| {
        let fields: Vec<u64> = line.split(',').map(|field| field.parse().expect("a number")).collect();
        [fields[1], fields[2], fields[3], fields[4], fields[5]]
    };
    text.lines().filter(|line| line.starts_with("0,")).map(row).collect()
}

fn detect(stream: &[Access], tasks: usize, block_bytes: u64) -> Vec<[u64; 5]> {
    let mut detector = ReferenceDetector::new(block_bytes, 1);
    stream.iter().for_each(|access| detector.access(access));
    let counts = detector.finish(tasks);
    let pairs = (0..tasks).flat_map(|source| (0..tasks).map(move |destination| (source, destination)));
    let row = |(s, d)| {
        let [messages, bytes, invalidations] =
            [&counts.messages, &counts.bytes, &counts.invalidations].map(|m| m.get(s, d));
        [s as u64, d as u64, messages, bytes, invalidations]
    };
    pairs.map(row).filter(|row| row[2..] != [0, 0, 0]).collect()
}

#[test]
fn every_pattern_is_known_count_for_count() {
    let binary = match build() {
        Ok(binary) => binary,
        Err(reason) => return eprintln!("skipped: the workloads cannot be built here: {reason}"),
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let list = run(&binary, &["--list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 16, "the table of patterns: {names:?}");
    for name in names {
        for (threads, seed, block) in [(2, 0, 64), (3, 0, 16), (8, 5, 64), (13, 1, 256), (24, 7, 64)] {
            let stream = directory.join(format!("{name}-{threads}.csv"));
            let [threads_text, seed_text, block_text] = [threads, seed, block].map(|n: u64| n.to_string());
            let stream_text = stream.to_str().expect("a UTF-8 path");
            let truth = run(
                &binary,
                &[
                    name,
                    "--threads",
                    &threads_text,
                    "--seed",
                    &seed_text,
                    "--block",
                    &block_text,
                    "--rounds",
                    "3",
                    "--blocks",
                    "2",
                    "--stream",
                    stream_text,
                ],
            );
            let text = std::fs::read_to_string(&stream).expect("the stream was written");
            let accesses: Vec<Access> = text.lines().skip(1).map(parse_access).collect();
            std::fs::remove_file(&stream).expect("it was just read");
            assert!(!accesses.is_empty(), "{name}");
            assert_eq!(detect(&accesses, threads as usize, block), parse_truth(&truth), "{name}, {threads} threads");
        }
    }
}
