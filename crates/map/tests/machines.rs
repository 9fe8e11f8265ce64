//! `best` on the machines of testdata/topologies with 2 tasks to as many as there are PUs: no other mapper of the table
//! finds a smaller J. benches/idle looks at more patterns, and at any machines.

#[path = "../benches/idle/patterns.rs"]
mod patterns;

use cohabit_map::{MAPPERS, Options, Problem, mapper};
use cohabit_model::Topology;
use cohabit_model::cost::distance_cost;
use patterns::{PATTERNS, graph};

/// So many tasks on so many PUs: few, and parts of the machine.
fn task_counts(pus: usize) -> Vec<usize> {
    let parts = [pus / 4, pus / 2, pus * 3 / 4, pus - 1, pus];
    let mut counts: Vec<usize> = [2, 3, 6, 8, 10, 11].into_iter().chain(parts).collect();
    counts.retain(|&count| (2..=pus.min(40)).contains(&count));
    counts.sort_unstable();
    counts.dedup();
    counts
}

#[test]
fn best_loses_to_no_other_mapper() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/topologies");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "xml")).collect();
    files.sort();
    assert!(files.len() > 10);
    for (seed, file) in files.iter().enumerate() {
        let topology = Topology::load(file.to_str().unwrap()).unwrap();
        let patterns = PATTERNS.iter().filter(|pattern| ["pairs", "triples", "sparse"].contains(&pattern.0));
        for (pattern, tasks) in patterns.flat_map(|pattern| {
            let counts = task_counts(topology.allowed().len());
            counts.into_iter().map(move |tasks| (pattern, tasks))
        }) {
            let (weight, options) = (graph(pattern, tasks, seed as u64), Options::default());
            let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
            let cost = |name: &str| {
                let placement = mapper(name).and_then(|mapper| mapper.map(&problem)).ok()?;
                Some(distance_cost(&weight, &topology, &placement))
            };
            let best = cost("best").unwrap();
            let may = |name: &&str| *name != "best" && (*name != "exact" || tasks <= 8);
            for name in MAPPERS.iter().map(|mapper| mapper.name()).filter(may) {
                let other = cost(name).unwrap_or(u128::MAX);
                assert!(best <= other, "{}: {tasks} tasks, {}: {name} {other} < {best}", file.display(), pattern.0);
            }
        }
    }
}
