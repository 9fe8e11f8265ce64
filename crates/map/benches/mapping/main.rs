//! Mappers against each other and against the best known, on graphs of the kinds that parallel programs make.
//!
//!     cargo bench -p cohabit-map                                  every size
//!     cargo bench -p cohabit-map -- --sizes 64,256 --seeds 1,2    some
//!     cargo bench -p cohabit-map -- --mappers metis,best:10       mappers, `best` with its budgets in ms
//!     cargo bench -p cohabit-map -- --record 10                   look for better ones, 10 s a problem
//!
//! J over the best known, geometric mean and worst, and the CPU time. What is better than the best known is told.

mod best_known;
mod instances;

use best_known::Key;
use cohabit_map::{Options, Problem, mapper};
use cohabit_model::cost::distance_cost;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the command line asks for.
struct Asked {
    sizes: Vec<usize>,
    seeds: Vec<u64>,
    kinds: Vec<String>,
    mappers: Vec<String>,
    record: Option<f64>,
    each: bool,
}

fn main() {
    let asked = Asked::new(std::env::args().skip(1));
    let mut known = best_known::read();
    if let Some(seconds) = asked.record {
        for key in asked.keys() {
            record(&key, seconds, &mut known);
        }
        return;
    }
    println!("| N | mapper | geometric mean | worst | CPU ms | better than known |");
    println!("|---|---|---|---|---|---|");
    for &size in &asked.sizes {
        for name in asked.mappers_for(size) {
            compare(&asked, size, &name, &known);
        }
    }
}

impl Asked {
    fn new(arguments: impl Iterator<Item = String>) -> Self {
        let arguments: Vec<String> = arguments.collect();
        let value = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1).cloned()
        };
        let list = |name: &str, usual: &str| -> Vec<String> {
            value(name).unwrap_or(usual.to_owned()).split(',').map(str::to_owned).collect()
        };
        let numbers = |name: &str, usual: &str| -> Vec<u64> {
            list(name, usual).iter().map(|number| number.parse().expect("a number")).collect()
        };
        Self {
            sizes: numbers("--sizes", "16,32,56,64,256,512,1024,4096").into_iter().map(|size| size as usize).collect(),
            seeds: numbers("--seeds", "1,2,3"),
            kinds: list("--kinds", &instances::KINDS.join(",")),
            mappers: value("--mappers").map_or(Vec::new(), |_| list("--mappers", "")),
            record: value("--record").map(|seconds| seconds.parse().expect("a number of seconds")),
            each: arguments.iter().any(|argument| argument == "--each"),
        }
    }

    fn keys(&self) -> Vec<Key> {
        let all = self.sizes.iter().flat_map(|&size| self.kinds.iter().map(move |kind| (size, kind)));
        all.flat_map(|(size, kind)| self.seeds.iter().map(move |&seed| (size, kind.clone(), seed))).collect()
    }

    /// The mappers asked for, or the fast ones and `best` with the budgets that the project promises for the size.
    fn mappers_for(&self, size: usize) -> Vec<String> {
        if !self.mappers.is_empty() {
            return self.mappers.clone();
        }
        let budgets = match size {
            0..=64 => ["best:1", "best:10"],
            65..=256 => ["best:5", "best:100"],
            257..=1024 => ["best:20", "best:300"],
            _ => ["best:100", "best:1000"],
        };
        ["packed", "complace", "metis", "scotch"].into_iter().chain(budgets).map(str::to_owned).collect()
    }
}

/// One row of the table.
fn compare(asked: &Asked, size: usize, name: &str, known: &BTreeMap<Key, u128>) {
    let (plain, budget) = name.split_once(':').map_or((name, None), |(plain, ms)| (plain, Some(ms)));
    let budget = budget.map(|ms| Duration::from_secs_f64(ms.parse::<f64>().expect("a number of ms") / 1e3));
    let (mut logs, mut worst, mut better, mut time, mut count) = (0.0, 0.0_f64, 0, 0.0, 0.0);
    for key in asked.keys().into_iter().filter(|key| key.0 == size) {
        let (cost, ms) = run(&key, plain, Options { seed: 1, budget, ..Options::default() });
        let best = known.get(&key).copied().unwrap_or(cost);
        let ratio = cost as f64 / best as f64;
        if asked.each {
            println!("{} {} {}: {name} {cost} {ratio:.4} {ms:.2} ms", key.0, key.1, key.2);
        }
        logs += ratio.ln();
        worst = worst.max(ratio);
        better += usize::from(cost < best);
        time += ms;
        count += 1.0;
    }
    println!("| {size} | {name} | {:.4} | {worst:.4} | {:.2} | {better} |", (logs / count).exp(), time / count);
}

/// J and the CPU time in ms of one mapper on one problem.
fn run(key: &Key, name: &str, options: Options) -> (u128, f64) {
    let topology = instances::topology(key.0);
    let weight = instances::graph(&key.1, key.0, key.2);
    let problem = Problem { weight: &weight, load: &[], topology: &topology, options: &options };
    let before = cpu_ms();
    let placement = mapper(name).and_then(|mapper| mapper.map(&problem)).expect("the problem can be mapped");
    let ms = cpu_ms() - before;
    (distance_cost(&weight, &topology, &placement), ms)
}

/// CPU time of the process in ms.
fn cpu_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Looks for something better with every mapper and `best` for some seconds, with a seed of its own.
fn record(key: &Key, seconds: f64, known: &mut BTreeMap<Key, u128>) {
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let budget = Some(Duration::from_secs_f64(seconds));
    let mut best = known.get(key).copied().unwrap_or(u128::MAX);
    let before = best;
    for name in ["metis", "scotch", "best"] {
        best = best.min(run(key, name, Options { seed, budget, ..Options::default() }).0);
    }
    if best < before {
        println!("{} {} {}: {best}", key.0, key.1, key.2);
        known.insert(key.clone(), best);
        best_known::write(known);
    }
}
