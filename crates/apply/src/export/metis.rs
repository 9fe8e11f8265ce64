//! METIS's graph files (METIS manual 5.1, section 4.1.1): undirected, vertices from 1, weights of edges. Both
//! directions of a pair are added. METIS counts in 32 bits, so larger weights are scaled down together, which a comment
//! says.

use super::{Exporter, Placement};
use cohabit_model::Result;
use std::fmt::Write;

/// What the weights may sum to: METIS adds them up in 32-bit integers.
const MOST: u128 = i32::MAX as u128;

/// A `.graph` file.
pub struct Metis;

impl Exporter for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }
    fn about(&self) -> &'static str {
        "graph of the tasks for METIS, KaHIP, mt-KaHyPar: undirected, weighted"
    }
    fn usage(&self) -> &'static str {
        "gpmetis FILE 4"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let graph = placement.weight.symmetric();
        let sum: u128 = graph.iter().flatten().map(|edge| u128::from(edge.1)).sum();
        let edges = graph.iter().map(Vec::len).sum::<usize>() / 2;
        // Rounding up, so that no edge vanishes, adds at most one for each entry of the lists.
        let factor = sum.div_ceil(MOST.saturating_sub(2 * edges as u128).max(1)).max(1);
        let mut text = String::new();
        if factor > 1 {
            let _ = writeln!(text, "% weights are divided by {factor} and rounded up");
        }
        let _ = writeln!(text, "{} {edges} 001", graph.len());
        for row in &graph {
            let entry =
                |&(other, weight): &(u32, u64)| format!("{} {}", other + 1, u128::from(weight).div_ceil(factor));
            text += &row.iter().map(entry).collect::<Vec<_>>().join(" ");
            text.push('\n');
        }
        Ok(text)
    }
}
