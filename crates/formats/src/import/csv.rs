//! CSV: a square matrix, or a line for each pair.
//!
//! A square may have names of the tasks in its first row, its first column or both ([`Labels`]); a list of pairs has
//! three columns and no square, or a heading that says so ([`Edges`]). A 3 x 3 of bare numbers is a matrix.

use super::build::{Found, Imported, UNSAID};
use super::edges::Edges;
use super::labels::Labels;
use super::table::{Row, rows, square};
use super::{TEXT_LIMIT_BYTES, pair};
use cohabit_model::file::read_text;
use cohabit_model::profile::Kind;
use cohabit_model::{Matrix, Profile, Result};
use std::path::{Path, PathBuf};

/// Reads a CSV file, with its counterpart (`x.count.csv` and `x.size.csv`) where there is one.
pub fn read(path: &Path) -> Result<Profile> {
    let first = rows(&read_text(path, TEXT_LIMIT_BYTES)?)?;
    let imported = |files: Vec<PathBuf>, found: Found| Imported {
        not_seen: vec![UNSAID.to_owned()],
        ..Imported::new("csv", Kind::Threads, files, found)
    };
    if let Some(edges) = Edges::of(&first) {
        let read = edges.read()?;
        let imported = imported(vec![path.to_path_buf()], read.found);
        return Imported { numbers: read.numbers, ..imported }.profile();
    }
    let (labels, _) = read_square(&first)?;
    drop(first);
    let (found, files) = pair::read(path, |path| Ok(read_square(&rows(&read_text(path, TEXT_LIMIT_BYTES)?)?)?.1))?;
    Imported { labels, ..imported(files, found) }.profile()
}

/// The labels (or none) and the matrix of one file.
fn read_square(rows: &[Row]) -> Result<(Vec<String>, Matrix)> {
    let labels = Labels::of(rows);
    let body = &rows[usize::from(labels.above)..];
    let names = match (labels.above, labels.beside) {
        (true, _) => rows[0].fields.iter().skip(rows[0].fields.len() - body.len()).map(String::from).collect(),
        (false, true) => body.iter().map(|row| row.fields[0].to_owned()).collect(),
        (false, false) => Vec::new(),
    };
    Ok((names, square(body, usize::from(labels.beside))?))
}
