//! The reference detector, fed the accesses of every workload, finds the matrix that the workload says is known: two
//! statements of the same words, one in Rust that looks at accesses, one in C that follows from the pattern's
//! structure.

mod common;

use cohabit_access::{Access, AccessKind};
use cohabit_detect::reference::ReferenceDetector;
use common::{build, parse_truth, rows, run};
use std::path::Path;
use std::process::Command;

fn parse_access(line: &str) -> Access {
    let fields: Vec<&str> = line.split(',').collect();
    let kind = if fields[1] == "write" { AccessKind::Write } else { AccessKind::Read };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    Access::new(number(fields[0]) as u32, kind, number(fields[2]), number(fields[3]) as u32)
}

#[test]
fn every_pattern_is_known_count_for_count() {
    let Some(binary) = build("patterns-pthreads") else { return };
    let (list, _) = run(Command::new(&binary).arg("--list"));
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 16, "the table of patterns: {names:?}");
    let stream = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stream.csv");
    for name in names {
        for (threads, seed, block) in [(2, 0, 64), (3, 0, 16), (8, 5, 64), (13, 1, 256), (24, 7, 64)] {
            let mut command = Command::new(&binary);
            command.args([name, "--rounds", "3", "--blocks", "2", "--stream"]).arg(&stream);
            for (option, value) in [("--threads", threads), ("--seed", seed), ("--block", block)] {
                command.arg(option).arg(value.to_string());
            }
            let truth = parse_truth(&run(&mut command).0);
            let text = std::fs::read_to_string(&stream).expect("the stream was written");
            let mut detector = ReferenceDetector::new(block, 1);
            let data = &truth.ranges[0];
            for access in text.lines().skip(1).map(parse_access) {
                assert!(access.address + 8 <= data.end - data.start, "{name}: {access:?} is not in the data");
                detector.access(&access);
            }
            assert!(text.lines().count() > 1, "{name}");
            assert_eq!(rows(detector), truth.rows, "{name}, {threads} threads");
        }
    }
}
