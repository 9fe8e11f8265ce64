//! Mappers against each other and against the best known, on graphs of the kinds that parallel programs make.
//!
//!     cargo bench -p cohabit-map                                  every size
//!     cargo bench -p cohabit-map -- --sizes 64,256 --seeds 4,5    some, other seeds than those of the table
//!     cargo bench -p cohabit-map -- --mappers metis,best:10       mappers, `best` with its budgets in ms
//!     cargo bench -p cohabit-map -- --mappers best=metis          `best` with a tenth more time than METIS took
//!     cargo bench -p cohabit-map -- --mappers scotch:10000        Scotch with seed after seed for 10 s, the best of them
//!     cargo bench -p cohabit-map -- --each                        every problem by itself, and the kinds of graphs
//!     cargo bench -p cohabit-map -- --steps 100 --threads 2       `best` by steps, with threads
//!     cargo bench -p cohabit-map -- --used 25,50,90,130           fewer tasks than PUs, and more, in percent of the PUs
//!     cargo bench -p cohabit-map -- --without clusters,rotation   `best` without some of its parts
//!     cargo bench -p cohabit-map -- --preset basic                `best` with other numbers and parts
//!     cargo bench -p cohabit-map -- --leave-one-out               `best` without each of its parts, against all of them
//!     cargo bench -p cohabit-map -- --leave-out outer,outer+blocks the same of some parts, and of several at once
//!     cargo bench -p cohabit-map -- --wall                        budgets in wall time, as on the command line
//!     cargo bench -p cohabit-map -- --record 10                   look for better ones, 10 s a problem
//!     COHABIT_VIEM=viem cargo bench -p cohabit-map -- --mappers viem-eco,best=viem-eco        VieM, where it is
//!
//! J over the best known (where not all PUs are used: over the best of the table), geometric mean and worst, CPU and
//! wall time. Budgets are CPU time of the process, so that what else the machine does changes little. What is better
//! than the best known is told, and how often `best` was worse than the mapper whose time it had.

mod best_known;
mod instances;
mod leave_out;
mod viem;

use best_known::Key;
use cohabit_map::mappers::best::Best;
use cohabit_map::mappers::best::context::{self, Context};
use cohabit_map::options::TimeSource;
use cohabit_map::{Mapper, Options, Problem, mapper};
use cohabit_model::cost::distance_cost;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What the command line asks for.
struct Asked {
    sizes: Vec<usize>,
    seeds: Vec<u64>,
    kinds: Vec<String>,
    used: Vec<usize>,
    mappers: Vec<String>,
    record: Option<f64>,
    each: bool,
    wall: bool,
    steps: Option<u64>,
    threads: usize,
    best: Best,
    left_out: Option<Vec<String>>,
}

fn main() {
    let asked = Asked::new(std::env::args().skip(1));
    let mut known = best_known::read();
    if let Some(seconds) = asked.record {
        for key in asked.keys() {
            record(&asked, &key, seconds, &mut known);
        }
        return;
    }
    if let Some(parts) = &asked.left_out {
        return leave_out::table(&asked, parts);
    }
    println!(
        "| N | tasks | mapper | geometric mean | worst | CPU ms | wall ms | better than known | worse than the one with its time |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (&used, &size) in asked.used.iter().flat_map(|used| asked.sizes.iter().map(move |size| (used, size))) {
        let known = if used == 100 { known.clone() } else { asked.least_of_all(size, used) };
        for name in asked.mappers_for(size) {
            compare(&asked, size, used, &name, &known);
        }
    }
}

/// The context of a name.
fn preset(name: Option<String>) -> Context {
    let name = name.unwrap_or("default".to_owned());
    let row = context::PRESETS.iter().find(|row| row.0 == name);
    *row.unwrap_or_else(|| panic!("{name}: no preset of `best`")).1
}

/// A context without some parts, which are named.
fn without(context: Context, parts: &[String]) -> Context {
    let part = |name: &String| context::part(name).unwrap_or_else(|| panic!("{name}: no part of `best`"));
    parts.iter().filter(|name| !name.is_empty()).map(part).fold(context, Context::without)
}

/// How many tasks a percentage of so many PUs is.
fn tasks_of(size: usize, used: usize) -> usize {
    (size * used / 100).max(2)
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
            used: numbers("--used", "100").into_iter().map(|percent| percent as usize).collect(),
            mappers: value("--mappers").map_or(Vec::new(), |_| list("--mappers", "")),
            record: value("--record").map(|seconds| seconds.parse().expect("a number of seconds")),
            each: arguments.iter().any(|argument| argument == "--each"),
            wall: arguments.iter().any(|argument| argument == "--wall"),
            steps: value("--steps").map(|steps| steps.parse().expect("a number of steps")),
            threads: value("--threads").map_or(1, |threads| threads.parse().expect("a number of threads")),
            best: Best { context: without(preset(value("--preset")), &list("--without", "")) },
            left_out: leave_out::parts(
                value("--leave-out"),
                arguments.iter().any(|argument| argument == "--leave-one-out"),
            ),
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
        let budgets = budgets(size).map(|ms| format!("best:{ms}"));
        let plain = ["packed", "complace", "metis", "scotch"];
        let equal = ["best=packed", "best=complace", "best=metis", "best=scotch"];
        plain.map(str::to_owned).into_iter().chain(budgets).chain(equal.map(str::to_owned)).collect()
    }
}

/// The budgets of `best` that the project promises something for, in ms.
fn budgets(size: usize) -> [u32; 2] {
    match size {
        0..=64 => [1, 10],
        65..=256 => [5, 100],
        257..=1024 => [20, 300],
        _ => [100, 1000],
    }
}

/// One row of the table.
fn compare(asked: &Asked, size: usize, used: usize, name: &str, known: &BTreeMap<Key, u128>) {
    let (mut logs, mut worst, mut better, mut violations) = (0.0, 0.0_f64, 0, 0);
    let (mut cpu, mut wall, mut count) = (0.0, 0.0, 0.0);
    let mut by_kind: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
    for key in asked.keys().into_iter().filter(|key| key.0 == size) {
        let (found, rival) = asked.measure(&key, used, name);
        let best = known.get(&key).copied().unwrap_or(found.cost);
        let ratio = found.cost as f64 / best as f64;
        violations += usize::from(rival.is_some_and(|rival| found.cost > rival));
        if asked.each {
            println!("{} {} {}: {name} {} {ratio:.4} {:.2} ms", key.0, key.1, key.2, found.cost, found.cpu_ms);
        }
        let kind = by_kind.entry(key.1).or_default();
        *kind = (kind.0 + ratio.ln(), kind.1.max(ratio), kind.2 + 1.0);
        logs += ratio.ln();
        worst = worst.max(ratio);
        better += usize::from(found.cost < best);
        cpu += found.cpu_ms;
        wall += found.wall_ms;
        count += 1.0;
    }
    let mean = (logs / count).exp();
    let (cpu, wall) = (cpu / count, wall / count);
    let violations = if name.contains('=') { violations.to_string() } else { String::new() };
    let tasks = tasks_of(size, used);
    println!("| {size} | {tasks} | {name} | {mean:.4} | {worst:.4} | {cpu:.2} | {wall:.2} | {better} | {violations} |");
    if asked.each {
        let kinds =
            by_kind.iter().map(|(kind, (logs, worst, count))| format!("{kind} {:.4}/{worst:.4}", (logs / count).exp()));
        println!("    {}", kinds.collect::<Vec<_>>().join(", "));
    }
}

/// What one mapper did on one problem.
struct Measured {
    cost: u128,
    cpu_ms: f64,
    wall_ms: f64,
}

impl Asked {
    /// Runs `name`, `best:MS` or `best=RIVAL`; with a rival also its J.
    fn measure(&self, key: &Key, used: usize, name: &str) -> (Measured, Option<u128>) {
        if let Some((plain, rival)) = name.split_once('=') {
            // The least of some runs: the first finds the caches cold.
            let runs: Vec<Measured> = (0..5).map(|_| self.run(key, used, rival, self.options(None))).collect();
            let ms = runs.iter().map(|run| run.cpu_ms).fold(f64::INFINITY, f64::min) * 1.1;
            return (self.run(key, used, plain, self.options(Some(ms))), Some(runs[0].cost));
        }
        let (plain, budget) = name.split_once(':').map_or((name, None), |(plain, ms)| (plain, Some(ms)));
        let budget = budget.map(|ms| ms.parse::<f64>().expect("a number of ms"));
        match budget {
            Some(ms) if plain != "best" => (self.repeat(key, used, plain, ms), None),
            _ => (self.run(key, used, plain, self.options(budget)), None),
        }
    }

    /// The least J of any mapper of the table, problem by problem.
    fn least_of_all(&self, size: usize, used: usize) -> BTreeMap<Key, u128> {
        let least = |key: &Key| {
            let found = |name: String| self.measure(key, used, &name).0.cost;
            self.mappers_for(size).into_iter().map(found).min().unwrap_or(u128::MAX)
        };
        let keys = self.keys().into_iter().filter(|key| key.0 == size);
        keys.map(|key| (key.clone(), least(&key))).collect()
    }

    /// A mapper that knows no budget: again and again with other seeds until the time is used up; the best of all runs.
    fn repeat(&self, key: &Key, used: usize, name: &str, ms: f64) -> Measured {
        let mut all = self.run(key, used, name, self.options(None));
        for seed in 2.. {
            // Another run would be over the budget by more than half of itself.
            if all.cpu_ms * (1.0 + 0.5 / (seed - 1) as f64) > ms {
                break;
            }
            let next = self.run(key, used, name, Options { seed, ..self.options(None) });
            all.cost = all.cost.min(next.cost);
            all.cpu_ms += next.cpu_ms;
            all.wall_ms += next.wall_ms;
        }
        all
    }

    fn options(&self, budget_ms: Option<f64>) -> Options {
        let time_source = (!self.wall).then_some(TimeSource(process_cpu));
        let budget = budget_ms.map(|ms| Duration::from_secs_f64(ms / 1e3));
        Options { seed: 1, budget, time_source, steps: self.steps, threads: self.threads, ..Options::default() }
    }
}

impl Asked {
    /// J and the times of one mapper on one problem.
    fn run(&self, key: &Key, used: usize, name: &str, options: Options) -> Measured {
        let topology = instances::topology(key.0);
        let weight = instances::graph(&key.1, tasks_of(key.0, used), key.2);
        let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
        measured(&problem, |problem| match (viem::preconfiguration(name), name) {
            (Some(preconfiguration), _) => viem::map(problem, instances::tree(key.0), preconfiguration),
            (None, "best") => self.best.map(problem).expect("the problem can be mapped"),
            (None, _) => mapper(name).and_then(|mapper| mapper.map(problem)).expect("the problem can be mapped"),
        })
    }
}

/// J and the times of mapping one problem.
fn measured(problem: &Problem, map: impl FnOnce(&Problem) -> Vec<usize>) -> Measured {
    let (began, before) = (Instant::now(), cpu_ms());
    let placement = map(problem);
    let (cpu_ms, wall_ms) = (cpu_ms() - before, began.elapsed().as_secs_f64() * 1e3);
    Measured { cost: distance_cost(problem.weight, problem.topology, &placement), cpu_ms, wall_ms }
}

/// CPU time of this process: large problems are searched by threads of their own.
fn process_cpu() -> Duration {
    let time = cpu(libc::CLOCK_PROCESS_CPUTIME_ID);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of the process, and of programs that it has run, in ms.
fn cpu_ms() -> f64 {
    let time = cpu(libc::CLOCK_PROCESS_CPUTIME_ID);
    // SAFETY: all zeros are a value of it, and the call fills it.
    let children = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let of_children =
        [children.ru_utime, children.ru_stime].map(|time| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6 + of_children.iter().sum::<f64>()
}

fn cpu(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure it is given.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time
}

/// Looks for something better with every mapper and `best` for some seconds, with a seed of its own.
fn record(asked: &Asked, key: &Key, seconds: f64, known: &mut BTreeMap<Key, u128>) {
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let budget = Some(Duration::from_secs_f64(seconds));
    let mut best = known.get(key).copied().unwrap_or(u128::MAX);
    let before = best;
    let rivals = ["metis", "scotch"].into_iter().chain(viem::is_here().then_some("viem-strong"));
    for name in rivals.chain(["best"]) {
        let time_source = Some(TimeSource(process_cpu));
        best = best.min(asked.run(key, 100, name, Options { seed, budget, time_source, ..Options::default() }).cost);
    }
    *known = best_known::read();
    let before = known.get(key).copied().unwrap_or(before);
    if best < before {
        println!("{} {} {}: {best}", key.0, key.1, key.2);
        known.insert(key.clone(), best);
        best_known::write(known);
    }
}
