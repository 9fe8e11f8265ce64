//! Pictures beside a page: the matrices that detectors saw.

use super::files::Folder;
use crate::json::write_text;
use crate::plotting::matrix::{self, Order};
use cohabit_evaluate::experiment::file::slug;
use cohabit_evaluate::experiment::{Cell, DETECTION};
use cohabit_model::Result;
use std::path::Path;

/// Width of a picture: four stand side by side.
const WIDTH_MM: f64 = 60.0;

/// A picture and what it shows.
pub struct Figure {
    /// Its file, relative to the page.
    pub file: String,
    /// What it shows.
    pub about: String,
}

/// Draws what detectors saw, of the last cell of detection of each program (the caches do not matter to detectors),
/// into a folder called as the page is.
///
/// # Errors
/// A cell cannot be read, a picture not written.
pub fn matrices(folder: &Folder, cells: &[Cell], detectors: &[&str], page: &Path) -> Result<Vec<Figure>> {
    let name = page.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let to = page.with_file_name(&name);
    let mut figures: Vec<Figure> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.arm == DETECTION) {
        let Some(found) = folder.read(cell)? else { continue };
        for detector in detectors {
            let file = format!("{name}/{}-{}-{detector}.svg", slug(&cell.machine), slug(&cell.program));
            // A detector may be younger than the cell.
            if !found.detected.contains_key(*detector) {
                continue;
            }
            let seen = found.matrix(detector)?;
            if seen.total() == 0 || figures.iter().any(|figure| figure.file == file) {
                continue;
            }
            std::fs::create_dir_all(&to).map_err(|error| cohabit_model::file::cannot_write(&to, &error))?;
            write_text(&page.with_file_name(&file), &matrix::svg(&seen, "events", &Order::default(), WIDTH_MM)?)?;
            figures.push(Figure { file, about: format!("{}: {detector}", cell.program) });
        }
    }
    Ok(figures)
}
