//! Fewer tasks than PUs: `best` against every other mapper of the table, on any machines.
//!
//!     cargo bench -p cohabit-map --bench idle                           the machines of testdata/topologies
//!     cargo bench -p cohabit-map --bench idle -- --machines DIR         the hwloc XML files of a folder
//!     cargo bench -p cohabit-map --bench idle -- --seeds 4,5 --most 64  other seeds than 1, up to so many tasks
//!     cargo bench -p cohabit-map --bench idle -- --each                 every problem that another mapper did better
//!
//! How often J of `best` is more than that of another mapper, the worst of these, and the CPU time of `best`.

mod patterns;

use cohabit_map::{MAPPERS, Options, Problem, mapper};
use cohabit_model::Topology;
use cohabit_model::cost::distance_cost;
use patterns::{PATTERNS, graph};
use std::path::PathBuf;

/// How many tasks are tried on so many PUs: each up to twelve, and parts of the machine.
fn task_counts(pus: usize, most: usize) -> Vec<usize> {
    let parts = [4, 2].map(|part| pus / part).into_iter().chain([pus * 3 / 4, pus * 9 / 10, pus - 1, pus]);
    let mut counts: Vec<usize> = (2..=12).chain(parts).filter(|count| (2..=pus.min(most)).contains(count)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str, usual: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(usual.to_owned(), Clone::clone)
    };
    let each = arguments.iter().any(|argument| argument == "--each");
    let most: usize = value("--most", "128").parse().expect("a number of tasks");
    let folder = PathBuf::from(value("--machines", concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/topologies")));
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder of XML files")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "xml"));
    files.sort();
    println!("| machine | PUs | problems | lost | worst | `best`, CPU ms: mean | longest |");
    println!("|---|---|---|---|---|---|---|");
    let (mut all, mut all_lost) = (0, 0);
    for file in files {
        let Ok(topology) = Topology::load(file.to_str().expect("a name in UTF-8")) else { continue };
        let pus = topology.pus.iter().filter(|pu| pu.allowed).count();
        let (mut problems, mut lost, mut worst, mut sum, mut longest) = (0, 0, 1.0_f64, 0.0, 0.0_f64);
        for seed in value("--seeds", "1").split(',').map(|seed| seed.parse().expect("a seed")) {
            for (pattern, tasks) in
                PATTERNS.iter().flat_map(|p| task_counts(pus, most).into_iter().map(move |n| (p, n)))
            {
                let weight = graph(pattern, tasks, seed);
                let options = Options { seed, ..Options::default() };
                let problem =
                    Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
                let cost = |name: &str| {
                    let placement = mapper(name).and_then(|mapper| mapper.map(&problem)).ok()?;
                    Some((distance_cost(&weight, &topology, &placement), name.to_owned()))
                };
                let began = cpu_ms();
                let (best, _) = cost("best").expect("best maps anything");
                let ms = cpu_ms() - began;
                let may = |name: &&str| *name != "best" && (*name != "exact" || tasks <= 10);
                let names = MAPPERS.iter().map(|mapper| mapper.name()).filter(may);
                let (least, rival) = names.filter_map(cost).min().expect("others map, too");
                if best > least {
                    lost += 1;
                    let ratio = best as f64 / least as f64;
                    worst = worst.max(ratio);
                    if each {
                        let file = file.file_name().unwrap_or_default().to_string_lossy();
                        println!("{file} {} {tasks} seed {seed}: {rival} {ratio:.4}", pattern.0);
                    }
                }
                problems += 1;
                (sum, longest) = (sum + ms, longest.max(ms));
            }
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let mean = sum / f64::from(problems.max(1));
        println!("| {name} | {pus} | {problems} | {lost} | {worst:.4} | {mean:.1} | {longest:.1} |");
        (all, all_lost) = (all + problems, all_lost + lost);
    }
    println!("| all |  | {all} | {all_lost} |  |  |  |");
}

/// CPU time of the process, in ms.
fn cpu_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
