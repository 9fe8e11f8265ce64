//! What placing costs: CPU and wall time for creating threads, alone, traced, and after tracing has ended.
//!
//! `cargo run --release -p cohabit-apply --example thread_creation_cost [THREADS [ROUNDS]]`
//!
//! The command is this program itself, creating and joining threads one after the other. CPU time is that of the
//! command and of the launcher together.

use cohabit_apply::{LaunchPlan, Options, PlannedTask, Status, launch};
use cohabit_host::CpuMask;
use std::ffi::OsString;
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, command, threads] = &arguments[..] {
        if command == "create" {
            return create(threads.parse().unwrap_or(0));
        }
    }
    let number = |at: usize, default: u32| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (threads, rounds) = (number(1, 2000), number(2, 5));
    let pus = cohabit_host::CpuMask::of_thread(0).map(|mask| mask.pus()).unwrap_or_default();
    let plan = |tasks: Vec<u32>| LaunchPlan {
        tasks: tasks
            .into_iter()
            .map(|index| PlannedTask {
                task: index,
                process: 0,
                spawn_index: index,
                parent: (index > 0).then_some(0),
                pu: pus[index as usize % pus.len()],
                pus: CpuMask::single(pus[index as usize % pus.len()]),
                name: String::new(),
            })
            .collect(),
        may_crowd: true,
        ..LaunchPlan::default()
    };
    println!("{threads} threads created and joined in turn, best of {rounds}; us a thread");
    println!("{:<42} {:>8} {:>8}", "", "CPU", "wall");
    for (name, plan) in [
        ("not placed", LaunchPlan::default()),
        ("every thread placed", plan((0..=threads).collect())),
        ("none of them planned, all traced", plan(vec![0, threads + 1])),
        ("only the first planned, then not traced", plan(vec![0, 1])),
    ] {
        let best = (0..rounds).map(|_| measure(threads, &plan)).min().unwrap_or_default();
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(threads);
        println!("{name:<42} {:>8.1} {:>8.1}", each(best.0), each(best.1));
    }
}

fn create(threads: u32) {
    for _ in 0..threads {
        let _ = std::thread::spawn(|| ()).join();
    }
}

/// CPU and wall time of one launch.
fn measure(threads: u32, plan: &LaunchPlan) -> (Duration, Duration) {
    let program = std::env::current_exe().map(OsString::from).unwrap_or_default();
    let command = [program, "create".into(), threads.to_string().into()];
    let (cpu, wall) = (cpu_time(), Instant::now());
    let outcome = launch(&command, plan, &Options::default()).expect("the command starts");
    assert_eq!(outcome.status, Status::Exited(0));
    (cpu_time() - cpu, wall.elapsed())
}

/// Of this process and of its children that have ended.
fn cpu_time() -> Duration {
    let of = |who: i32| {
        // SAFETY: the kernel fills the structure, for which zeroes are a value.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}
