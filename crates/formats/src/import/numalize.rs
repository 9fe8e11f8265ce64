//! numalize (M. Diener et al., "Characterizing communication and page usage of parallel applications for thread and
//! data mapping", Performance Evaluation 2015): PROGRAM.full.SHIFT.comm.csv.
//!
//! A square without labels whose first row is the last thread (it prints them downwards, as a picture has its origin at
//! the bottom left), and whose cell holds what both threads of the pair communicated, so every pair stands twice.

use super::TEXT_LIMIT_BYTES;
use super::build::{Found, Imported};
use super::table::{rows, square};
use cohabit_model::file::read_text;
use cohabit_model::profile::Kind;
use cohabit_model::{Error, Matrix, Profile, Result};
use std::path::Path;

/// Reads numalize's communication matrix.
pub fn read(path: &Path) -> Result<Profile> {
    let mut rows = rows(&read_text(path, TEXT_LIMIT_BYTES)?)?;
    rows.reverse();
    let matrix = square(&rows, 0)?;
    let not_seen = vec![
        "direction: each pair's count is split over both".into(),
        "accesses further back than the last two threads of a cache line".into(),
    ];
    let found = Found::Messages(halve(&matrix)?);
    let files = vec![path.to_path_buf()];
    Imported { not_seen, ..Imported::new("numalize", Kind::Threads, files, found) }.profile()
}

/// Each pair's count once, split over both directions, the odd one going to the lower thread's row.
fn halve(matrix: &Matrix) -> Result<Matrix> {
    let half = |(source, destination, value): (u32, u32, u64)| {
        let back = matrix.get(destination as usize, source as usize);
        if value != back {
            let cause = format!(
                "threads {source} and {destination}: {value} one way, {back} the other; numalize writes both equal"
            );
            return Err(Error::new(cause).remedy("if it is not numalize's, import it with --format csv"));
        }
        Ok((source, destination, if source < destination { value.div_ceil(2) } else { value / 2 }))
    };
    Ok(Matrix::from_triplets(matrix.tasks(), matrix.iter().map(half).collect::<Result<Vec<_>>>()?))
}
