//! QAPLIB's nug30 (Nugent, Vollmann, Ruml 1968): 30 facilities on a 5x6 grid, flows in `nug30.csv`. Its optimum of 6124
//! (Anstreicher, Brixius, Goux, Linderoth 2000) is reached through an arbitrary distance matrix.

use cohabit_map::{Options, Problem, mapper};
use cohabit_model::cost::distance_cost;
use cohabit_model::{Matrix, Topology};

#[test]
fn nug30_is_solved() {
    let flows: Vec<u64> = include_str!("nug30.csv").split([',', '\n']).filter_map(|value| value.parse().ok()).collect();
    let weight = Matrix::from_dense(30, &flows);
    let distance = |a: usize, b: usize| (a / 6).abs_diff(b / 6) + (a % 6).abs_diff(b % 6);
    let row = |a| (0..30).map(|b| distance(a, b).to_string()).collect::<Vec<_>>().join(",");
    let rows = (0..30).map(row).collect::<Vec<_>>().join("\n");
    let topology = Topology::parse_text(&format!("matrix:\n{rows}\n")).unwrap();
    let options = Options { seed: 1, steps: Some(20_000), ..Options::default() };
    let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
    let placement = mapper("best").unwrap().map(&problem).unwrap();
    assert_eq!(distance_cost(&weight, &topology, &placement), 6_124);
}
