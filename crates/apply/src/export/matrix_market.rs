//! Matrix Market exchange files (Boisvert, Pozo, Remington: "The Matrix Market exchange formats", NISTIR 5935): the
//! matrix as it is, rows sources, columns destinations. `cohabit import` and scipy.io.mmread read it back.

use super::{Exporter, Placement};
use cohabit_model::Result;
use std::fmt::Write;

/// A `.mtx` file.
pub struct MatrixMarket;

impl Exporter for MatrixMarket {
    fn name(&self) -> &'static str {
        "matrix-market"
    }
    fn about(&self) -> &'static str {
        "matrix of the tasks, [source][destination]: coordinate integer general"
    }
    fn usage(&self) -> &'static str {
        "cohabit import FILE.mtx -o P; scipy.io.mmread(FILE)"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let matrix = placement.weight;
        let mut text = "%%MatrixMarket matrix coordinate integer general\n".to_owned();
        let _ = writeln!(text, "{0} {0} {1}", matrix.tasks(), matrix.entries());
        for (source, destination, value) in matrix.iter() {
            let _ = writeln!(text, "{} {} {value}", source + 1, destination + 1);
        }
        Ok(text)
    }
}
