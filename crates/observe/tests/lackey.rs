//! A third opinion: the accesses that valgrind's lackey sees the workloads make, fed to the reference detector, give
//! the matrices that the workloads say are known. Lackey does not see what system calls read and write, takes masked
//! moves and bit strings apart into smaller accesses, and has no AVX-512: what probes those is left to the profiler's
//! own tests.

mod common;

use cohabit_access::{Access, AccessKind};
use cohabit_detect::reference::ReferenceDetector;
use common::{Truth, build, has, parse_truth, rows, run};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

const BLOCK_BYTES: u64 = 64;

/// What a log of `--trace-mem=yes --trace-sched=yes --trace-syscalls=yes` tells, line by line.
struct Replay {
    detector: ReferenceDetector,
    /// The thread that runs: valgrind runs one at a time and says which. It counts them from 1, in the order of
    /// creation.
    task: u32,
    heap_end: u64,
    accesses: u64,
}

impl Replay {
    fn of(log: &str, truth: &Truth) -> Self {
        let detector = ReferenceDetector::new(BLOCK_BYTES, 1);
        let mut replay = Self { detector, task: 0, heap_end: 0, accesses: 0 };
        for line in log.lines() {
            replay.line(line, truth);
        }
        replay
    }

    fn line(&mut self, line: &str, truth: &Truth) {
        if let Some((kind, address, size)) = parse_access(line) {
            if truth.ranges.iter().any(|range| range.contains(&address)) {
                self.detector.access(&Access::new(self.task, kind, address, size));
                self.accesses += 1;
            }
            return;
        }
        // One line may end with another's: messages of the scheduler come in the middle of those of system calls.
        if line.starts_with("SYSCALL[") {
            for range in self.remapped(line).into_iter().flatten() {
                self.detector.clear(range);
            }
        }
        if let Some((number, event)) = line.split_once("SCHED[").and_then(|(_, rest)| rest.split_once("]:")) {
            if event.contains("acquired lock") {
                self.task = number.parse::<u32>().expect("a thread") - 1;
            }
        }
    }

    /// The memory that starts clean after this system call: one range or two, the second one empty if not needed.
    fn remapped(&mut self, line: &str) -> Option<[Range<u64>; 2]> {
        let (name, rest) = line.split_once(") sys_")?.1.split_once(" ( ")?;
        let (arguments, outcome) = rest.split_once(" )")?;
        let argument: Vec<u64> = arguments.split(", ").map_while(parse_number).collect();
        let success = || parse_number(outcome.split_once("Success(")?.1.split_once(')')?.0);
        let ranges = match (name, argument.as_slice()) {
            ("mmap", [_, bytes, ..]) => [success()?..success()? + bytes, 0..0],
            ("munmap" | "madvise", [address, bytes, ..]) => [*address..address + bytes, 0..0],
            ("mremap", [old, old_bytes, new_bytes, ..]) if success()? == *old => {
                [old + old_bytes.min(new_bytes)..old + old_bytes.max(new_bytes), 0..0]
            }
            ("mremap", [old, old_bytes, new_bytes, ..]) => [*old..old + old_bytes, success()?..success()? + new_bytes],
            ("brk", _) => {
                let before = std::mem::replace(&mut self.heap_end, success()?);
                [before.min(self.heap_end)..before.max(self.heap_end), 0..0]
            }
            _ => return None,
        };
        Some(ranges)
    }
}

/// ` L 1fff000bb8,8` (load), ` S` (store), ` M` (both).
fn parse_access(line: &str) -> Option<(AccessKind, u64, u32)> {
    let kind = match line.get(..3)? {
        " L " => AccessKind::Read,
        " S " => AccessKind::Write,
        " M " => AccessKind::ReadWrite,
        _ => return None,
    };
    let (address, size) = line[3..].split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Runs `arguments` of the program that `target` builds under lackey, and compares.
fn check(target: &str, arguments: &[&str]) {
    let Some(binary) = build(target) else { return };
    let log_name = format!("lackey-{}-{}.log", target.replace('/', "-"), arguments.first().unwrap_or(&""));
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(log_name);
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes", "--trace-sched=yes", "--trace-syscalls=yes"]);
    command.args(["--fair-sched=yes", "--smc-check=all"]);
    command.arg(format!("--log-file={}", log.display())).arg(binary).args(arguments);
    let (output, status) = run(&mut command);
    if status == 77 {
        return eprintln!("skipped: {target}: {output}");
    }
    let truth = parse_truth(&output);
    let replay = Replay::of(&std::fs::read_to_string(&log).expect("valgrind wrote its log"), &truth);
    std::fs::remove_file(&log).expect("it was just read");
    assert!(replay.accesses > 0, "{target} {arguments:?}");
    assert_eq!(rows(replay.detector), truth.rows, "{target} {arguments:?}");
}

#[test]
fn patterns_do_what_they_say() {
    if !has("valgrind") {
        return;
    }
    for pattern in ["ring", "torus", "gather", "butterfly", "token", "false-sharing", "phases"] {
        check("patterns-pthreads", &[pattern, "--threads", "6", "--rounds", "3", "--seed", "2", "--words", "2"]);
    }
}

#[test]
fn probes_do_what_they_say() {
    if !has("valgrind") {
        return;
    }
    for probe in ["unaligned", "strings", "atomics", "x87", "avx2_gather", "stack", "remap", "brk", "dlopen", "jit"] {
        check(&format!("probes/{probe}"), &[]);
    }
}
