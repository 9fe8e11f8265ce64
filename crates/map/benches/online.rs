//! The map step of the online mode: `best` from where 64 tasks are, within its budget of half a millisecond, as
//! `cli/src/online/session.rs` asks for it (CDSM, section 4, maps at intervals of 50 ms and more).
//!
//!     cargo bench -p cohabit-map --bench online
//!
//! CPU and wall time of a step, median and longest of many: in CPU time what else the machine does changes little.

use cohabit_map::{Options, Problem, mapper};
use cohabit_model::cost::distance_cost;
use cohabit_model::{Matrix, Topology};
use std::time::{Duration, Instant};

const TASKS: u32 = 64;
const STEPS: u64 = 400;
const BUDGET: Duration = Duration::from_micros(500);
/// Units of an event, as the aged matrix has them.
const UNITS: u64 = 256;

fn main() {
    let topology = Topology::load("pack:2 core:16 pu:2").unwrap().with_level_costs(&[100, 10, 1]).unwrap();
    println!("| pattern | CPU, us: median | longest | wall, us: median | longest | J, first to last |");
    println!("|---|---|---|---|---|---|");
    let side = 8;
    type Neighbours = fn(u32, u32) -> Vec<u32>;
    let patterns: [(&str, Neighbours); 4] = [
        ("pairs", |task, _| vec![(task + TASKS / 2) % TASKS]),
        ("ring", |task, _| vec![(task + 1) % TASKS]),
        ("stencil 8x8", |task, side| vec![(task + 1) % TASKS, (task + side) % TASKS]),
        ("all to all", |task, _| (0..TASKS).filter(|&other| other != task).collect()),
    ];
    for (name, neighbours) in patterns {
        let mut random = 1u64;
        let mut draw = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        // Where the scheduler has them: anywhere.
        let mut present: Vec<Option<usize>> = (0..TASKS as usize).map(|task| Some(task * 37 % 64)).collect();
        let (mut cpu, mut wall, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..STEPS {
            // Counts about 100, as far from one another as chance makes them.
            let pairs = (0..TASKS).flat_map(|task| neighbours(task, side).into_iter().map(move |other| (task, other)));
            let entries: Vec<(u32, u32, u64)> =
                pairs.map(|(a, b)| (a.min(b), a.max(b), UNITS * (85 + draw() % 31))).collect();
            let weight = Matrix::from_triplets(TASKS as usize, entries);
            let options = Options {
                present: present.clone(),
                move_cost: 100 * UNITS,
                budget: Some(BUDGET),
                ..Options::default()
            };
            let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
            let (before, cpu_before) = (Instant::now(), cpu_time());
            let placement = mapper("best").unwrap().map(&problem).unwrap();
            cpu.push((cpu_time() - cpu_before).as_secs_f64() * 1e6);
            wall.push(before.elapsed().as_secs_f64() * 1e6);
            costs.push(distance_cost(&weight, &topology, &placement) / u128::from(UNITS));
            present = placement.into_iter().map(Some).collect();
        }
        let ends = (costs[0], costs[costs.len() - 1]);
        let ((cpu_median, cpu_longest), (wall_median, wall_longest)) =
            (median_and_longest(cpu), median_and_longest(wall));
        println!(
            "| {name} | {cpu_median:.0} | {cpu_longest:.0} | {wall_median:.0} | {wall_longest:.0} | {} to {} |",
            ends.0, ends.1
        );
    }
}

fn median_and_longest(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() - 1])
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the record is the kernel's, and lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
