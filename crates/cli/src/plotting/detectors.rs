//! What detectors saw of one run, side by side: a small heat map each, logarithmic, in shades of its own range.

use super::matrix::{self, Order};
use super::{Area, INK, TYPE, UNITS_A_MM, colour, cut, drawn, failed, letters, type_of};
use cohabit_model::{Matrix, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Maps in a row.
const COLUMNS: usize = 3;
/// Cells in a row of a map; of more tasks, several share one.
const MOST_CELLS: usize = 64;
/// Space between maps, and for a line of text, in units.
const GAP: i32 = 24;
const LINE: i32 = TYPE as i32 + 8;

/// The maps of named matrices `[writer][reader]`.
///
/// # Errors
/// Where they cannot be drawn.
pub fn svg(matrices: &[(String, Matrix)], width_mm: f64) -> Result<String> {
    let width = (width_mm * UNITS_A_MM) as i32;
    let columns = COLUMNS.min(matrices.len()).max(1) as i32;
    let side = (width - GAP * (columns + 1)) / COLUMNS as i32;
    let rows = matrices.len().div_ceil(COLUMNS) as i32;
    let height = rows * (side + LINE + GAP) + 2 * LINE + GAP;
    let svg = drawn(width_mm, f64::from(height) / UNITS_A_MM, |area| {
        for (at, (name, matrix)) in matrices.iter().enumerate() {
            let (column, row) = ((at % COLUMNS) as i32, (at / COLUMNS) as i32);
            one(area, name, matrix, (GAP + column * (side + GAP), row * (side + LINE + GAP)), side)?;
        }
        let says = ["writers down, readers across; darker is more:", "by its own logarithm in each; nothing is white"];
        for (at, line) in (0..).zip(says) {
            let style = type_of().pos(Pos::new(HPos::Left, VPos::Top));
            let top = rows * (side + LINE + GAP) + at * LINE;
            area.draw(&Text::new(line, (GAP, top), style)).map_err(failed)?;
        }
        Ok(())
    })?;
    Ok(svg.replacen("<svg ", "<svg shape-rendering=\"crispEdges\" ", 1))
}

fn one(area: &Area, name: &str, matrix: &Matrix, (left, top): (i32, i32), side: i32) -> Result<()> {
    let style = type_of().pos(Pos::new(HPos::Left, VPos::Top));
    let name = cut(name, letters(side));
    area.draw(&Text::new(name, (left, top + 4), style)).map_err(failed)?;
    let top = top + LINE;
    let (cells, _) = matrix::cells(matrix, &Order::default(), MOST_CELLS);
    let values = || cells.iter().flatten().copied().filter(|value| *value > 0.0);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let strength = |value: f64| if most > least { (value / least).ln() / (most / least).ln() } else { 1.0 };
    let at = |index: usize| side * index as i32 / cells.len().max(1) as i32;
    for (writer, row) in cells.iter().enumerate() {
        for (reader, &value) in row.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let corners = [(left + at(reader), top + at(writer)), (left + at(reader + 1), top + at(writer + 1))];
            area.draw(&Rectangle::new(corners, colour(strength(value)).filled())).map_err(failed)?;
        }
    }
    area.draw(&Rectangle::new([(left, top), (left + side, top + side)], INK.stroke_width(2))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_detector_has_a_map() {
        let matrix = Matrix::from_triplets(4, [(0, 1, 10), (2, 3, 90)]);
        let named =
            [("exact", matrix.clone()), ("sharing", matrix), ("tlb", Matrix::zero(4)), ("cdsm", Matrix::zero(4))]
                .map(|(name, matrix)| (name.to_owned(), matrix));
        let found = svg(&named, 85.0).unwrap();
        // Two cells in two of the maps, four frames and the paper.
        assert_eq!(found.matches("<rect").count(), 2 * 2 + 4 + 1);
        assert!(named.iter().all(|(name, _)| found.contains(name.as_str())) && found.contains("width=\"85mm\""));
    }
}
