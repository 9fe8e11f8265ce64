//! VieM (Schulz, Träff: "Better Process Mapping and Sparse Quadratic Assignment", SEA 2017), the program, as a rival:
//! it is not ours and on no package registry, so its path is given.

use cohabit_map::Problem;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the program.
const VARIABLE: &str = "COHABIT_VIEM";

/// Preconfigurations, by the names that `--mappers` knows.
const NAMES: [(&str, &str); 3] = [("viem-fast", "fast"), ("viem-eco", "eco"), ("viem-strong", "strong")];

/// The preconfiguration of a name; none for mappers of ours.
pub fn preconfiguration(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|known| known.0 == name).map(|known| known.1)
}

/// Whether a program is named.
pub fn is_here() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The PU of every task: VieM's construction from the top down, its partitioner set as `preconfiguration` says, and its
/// local search over tasks at most ten edges apart, which are its defaults.
///
/// # Panics
/// Where `COHABIT_VIEM` does not name the program, or it fails: a benchmark has nothing better to do.
pub fn map(problem: &Problem, tree: &str, preconfiguration: &str) -> Vec<usize> {
    let program = std::env::var_os(VARIABLE).map(PathBuf::from).expect("COHABIT_VIEM names VieM's program");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (graph, found) = (folder.path().join("graph"), folder.path().join("permutation"));
    std::fs::write(&graph, metis(problem)).expect("the temporary folder can be written");
    let mut viem = Command::new(program);
    viem.arg(&graph).arg(format!("--preconfiguration_mapping={preconfiguration}"));
    viem.arg(format!("--hierarchy_parameter_string={}", hierarchy(tree))).arg("--distance_parameter_string=1:10:100");
    viem.arg("--seed=1").arg(format!("--output_filename={}", found.display()));
    let output = viem.output().expect("COHABIT_VIEM names a program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read(&found)
}

/// Children of a node, from the PUs up, of a tree like `pack:8 core:2 pu:16`.
fn hierarchy(tree: &str) -> String {
    let counts = tree.split(' ').map(|level| level.rsplit(':').next().expect("a count"));
    counts.rev().collect::<Vec<_>>().join(":")
}

/// The tasks' graph as METIS reads it, weights of edges only.
fn metis(problem: &Problem) -> String {
    let rows = problem.weight.symmetric();
    let arcs: usize = rows.iter().map(Vec::len).sum();
    let mut text = format!("{} {} 1\n", rows.len(), arcs / 2);
    for row in rows {
        row.iter().for_each(|(other, weight)| write!(text, "{} {weight} ", other + 1).expect("memory"));
        text.push('\n');
    }
    text
}

fn read(path: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(path).expect("VieM writes the permutation");
    text.split_whitespace().map(|pu| pu.parse().expect("a PU")).collect()
}
