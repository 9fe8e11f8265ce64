//! How fast machines are simulated: millions of recorded accesses a second of one host core, decoding and all parts of
//! the machine on.
//!
//!     cargo bench -p cohabit-memory                                      made up: streams, private random, shared and written
//!     cargo bench -p cohabit-memory -- r.rec --machine purple            a recording; task n on PU n
//!     cargo bench -p cohabit-memory -- r.rec --decode                    only its decoding
//!
//! CPU time, the least of three runs (of a recording: of one).

use cohabit_access::file::RecordingFile;
use cohabit_access::{AccessKind, InMemory, Recording, Step, StridedAccess};
use cohabit_memory::{Machine, Options, simulate};
use std::path::Path;
use std::time::Instant;

const ACCESSES: u64 = 4_000_000;

/// Numbers as random as needed (Marsaglia's xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn access(kind: AccessKind, base: u64, stride: i64) -> StridedAccess {
    StridedAccess { stride, instructions: 3, ..StridedAccess::new(kind, base, 8) }
}

/// Three streams of stride 8 through arrays of 1 MiB, which the neighbour's begin to overlap, again and again: as
/// solvers on grids.
fn streams(tasks: u64) -> InMemory {
    let rounds = ACCESSES / tasks / 3 / (1 << 17);
    let of = |task: u64| {
        let at = |array: u64| (1 << 40) + array * (1 << 34) + task * ((1 << 20) - 4096);
        let walk = Step::Loop {
            accesses: vec![
                access(AccessKind::Read, at(0), 8),
                access(AccessKind::Read, at(1), 8),
                access(AccessKind::Write, at(2), 8),
            ],
            iterations: 1 << 17,
        };
        vec![walk; rounds.max(1) as usize]
    };
    InMemory::new((0..tasks).map(of).collect())
}

/// Loads and, one in `written`, stores anywhere in `bytes`; of its own or everybody's.
fn random(tasks: u64, bytes: u64, written: u64, shared: bool) -> InMemory {
    let of = |task: u64| {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (task + 1));
        let base = (1 << 40) + if shared { 0 } else { task << 30 };
        let mut one = || {
            let kind = if random.below(written) == 0 { AccessKind::Write } else { AccessKind::Read };
            Step::access(access(kind, base + random.below(bytes / 8) * 8, 0))
        };
        (0..ACCESSES / tasks / 2).map(|_| one()).collect()
    };
    InMemory::new((0..tasks).map(of).collect())
}

fn accesses(recording: &dyn Recording) -> u64 {
    recording.tasks().iter().filter_map(|task| task.accesses).sum()
}

/// Of the process, in s.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and `time` is written to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn timed(mut work: impl FnMut()) -> f64 {
    let before = cpu_seconds();
    work();
    cpu_seconds() - before
}

fn told(name: &str, machine: &str, count: u64, seconds: f64) {
    println!(
        "{name:<28} {machine:<12} {count:>12} accesses {seconds:>8.3} s {:>8.1} M/s",
        count as f64 / seconds / 1e6
    );
}

fn run(name: &str, recording: &dyn Recording, machine: &str, runs: usize) {
    let loaded = Machine::load(machine).expect("it is given");
    let pus = loaded.core_of_pu.len();
    let mapping: Vec<usize> = (0..recording.tasks().len()).map(|task| task % pus).collect();
    let once = |_| {
        timed(|| {
            simulate(recording, &loaded, &mapping, &Options::default()).expect("it ends");
        })
    };
    let seconds = (0..runs).map(once).fold(f64::INFINITY, f64::min);
    told(name, machine, accesses(recording), seconds);
}

fn of_file(path: &str, machine: Option<&str>) {
    let recording = RecordingFile::open(Path::new(path)).expect("a recording");
    match machine {
        Some(machine) => run(path, &recording, machine, 1),
        None => {
            let mut steps = 0u64;
            let seconds = timed(|| {
                for task in 0..recording.tasks().len() as u32 {
                    let mut all = recording.steps(task).expect("its steps");
                    while let Some(step) = all.next_step().expect("a sound recording") {
                        if let Step::Loop { accesses, .. } = step {
                            all.recycle(accesses);
                        }
                        steps += 1;
                    }
                }
            });
            told(path, "decode", accesses(&recording), seconds);
            println!("{steps} steps");
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let start = Instant::now();
    if let Some(path) = words.first() {
        let machine = words.iter().position(|word| word == "--machine").map(|at| words[at + 1].as_str());
        let decode = words.iter().any(|word| word == "--decode");
        of_file(path, if decode { None } else { Some(machine.unwrap_or("purple")) });
        println!("{:.1} s", start.elapsed().as_secs_f64());
        return;
    }
    for (tasks, machine) in [(8, "harpertown"), (8, "purple"), (64, "deloc"), (64, "mesh")] {
        run(&format!("streams, {tasks}"), &streams(tasks), machine, 3);
        run(&format!("private random, {tasks}"), &random(tasks, 4 << 20, 4, false), machine, 3);
        run(&format!("shared, written, {tasks}"), &random(tasks, 1 << 20, 4, true), machine, 3);
    }
}
