//! Who writes and who reads, as a heat map: logarithmic, what is nothing white, with a scale beside it (COMPROF, Figure
//! 2).

use super::{Area, INK, PALE, TYPE, UNITS_A_MM, colour, drawn, failed, short, step, type_of};
use cohabit_model::{Matrix, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Cells in a row: of more tasks, several share a cell, which has their sum.
const MOST_CELLS: usize = 128;
/// Room around the map, in units: left of it, above, right (the scale), below.
const ROOM: [i32; 4] = [84, 16, 132, 76];
/// Width of the scale.
const SCALE: i32 = 22;
/// Parts of the scale.
const PARTS: i32 = 64;

/// In which order the tasks of a map stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The tasks, from the first row on; empty: by number.
    pub tasks: Vec<u32>,
    /// Rows at which a group of tasks begins, but for the first; lines part them.
    pub groups: Vec<usize>,
    /// What the axes say of it; empty for the order of numbers.
    pub name: &'static str,
}

/// The map of a matrix `[writer][reader]`. `unit` is what is counted.
///
/// # Errors
/// Where it cannot be drawn.
pub fn svg(matrix: &Matrix, unit: &str, order: &Order, width_mm: f64) -> Result<String> {
    let side = width_mm * UNITS_A_MM - f64::from(ROOM[0] + ROOM[2]);
    let height_mm = (side + f64::from(ROOM[1] + ROOM[3])) / UNITS_A_MM;
    let svg = drawn(width_mm, height_mm, |area| map(area, matrix, unit, order, side))?;
    // Cells that touch leave no paper between them.
    Ok(svg.replacen("<svg ", "<svg shape-rendering=\"crispEdges\" ", 1))
}

/// The row of each task.
fn rows(tasks: usize, order: &Order) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..tasks).collect();
    for (row, &task) in order.tasks.iter().enumerate() {
        rows[task as usize] = row;
    }
    rows
}

/// Sums over cells, and how many tasks share one.
pub fn cells(matrix: &Matrix, order: &Order, most: usize) -> (Vec<Vec<f64>>, usize) {
    let rows = rows(matrix.tasks(), order);
    let each = matrix.tasks().div_ceil(most).max(1);
    let count = matrix.tasks().div_ceil(each);
    let mut cells = vec![vec![0.0; count]; count];
    for (writer, reader, value) in matrix.iter() {
        cells[rows[writer as usize] / each][rows[reader as usize] / each] += value as f64;
    }
    (cells, each)
}

fn map(area: &Area, matrix: &Matrix, unit: &str, order: &Order, side: f64) -> Result<()> {
    let (cells, each) = cells(matrix, order, MOST_CELLS);
    let values = || cells.iter().flatten().copied().filter(|value| *value > 0.0);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let strength = |value: f64| if most > least { (value / least).ln() / (most / least).ln() } else { 1.0 };
    let cell = side / cells.len().max(1) as f64;
    let [left, top, ..] = ROOM;
    let at = |index: usize| (index as f64 * cell).round() as i32;
    for (writer, row) in cells.iter().enumerate() {
        for (reader, &value) in row.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let corners = [(left + at(reader), top + at(writer)), (left + at(reader + 1), top + at(writer + 1))];
            area.draw(&Rectangle::new(corners, colour(strength(value)).filled())).map_err(failed)?;
        }
    }
    let end = side.round() as i32;
    for &row in &order.groups {
        let place = (row as f64 / each as f64 * cell).round() as i32;
        for line in [[(left + place, top), (left + place, top + end)], [(left, top + place), (left + end, top + place)]]
        {
            area.draw(&PathElement::new(line, PALE.stroke_width(1))).map_err(failed)?;
        }
    }
    area.draw(&Rectangle::new([(left, top), (left + end, top + end)], INK.stroke_width(2))).map_err(failed)?;
    axes(area, cells.len(), each, order, cell, end)?;
    if most > 0.0 {
        scale(area, [least, most], unit, end)?;
    }
    Ok(())
}

fn axes(area: &Area, cells: usize, each: usize, order: &Order, cell: f64, end: i32) -> Result<()> {
    let [left, top, ..] = ROOM;
    let style = |h, v| type_of().pos(Pos::new(h, v));
    let tasks = cells * each;
    let step = step(tasks as f64, 8).max(1.0) as usize;
    for row in (0..tasks).step_by(step) {
        let task = order.tasks.get(row).map_or(row, |&task| task as usize);
        let middle = ((row / each) as f64 * cell + cell / 2.0).round() as i32;
        let below = style(HPos::Center, VPos::Top);
        area.draw(&Text::new(task.to_string(), (left + middle, top + end + 8), below)).map_err(failed)?;
        let beside = style(HPos::Right, VPos::Center);
        area.draw(&Text::new(task.to_string(), (left - 8, top + middle), beside)).map_err(failed)?;
    }
    let named = |axis: &str| if order.name.is_empty() { axis.to_owned() } else { format!("{axis}, {}", order.name) };
    let name = style(HPos::Center, VPos::Top);
    area.draw(&Text::new(named("reader"), (left + end / 2, top + end + 12 + TYPE as i32), name.clone()))
        .map_err(failed)?;
    let name = name.transform(FontTransform::Rotate270);
    area.draw(&Text::new(named("writer"), (8, top + end / 2), name)).map_err(failed)
}

fn scale(area: &Area, [least, most]: [f64; 2], unit: &str, end: i32) -> Result<()> {
    let [left, top, ..] = ROOM;
    let (from, until) = (left + end + 20, left + end + 20 + SCALE);
    let bottom = top + end;
    let height = end - 2 * TYPE as i32;
    // Each down to the bottom, the darkest first: no seam shows between them.
    for part in (0..PARTS).rev() {
        let high = bottom - height * (part + 1) / PARTS;
        let shade = colour(f64::from(part) / f64::from(PARTS - 1));
        area.draw(&Rectangle::new([(from, high), (until, bottom)], shade.filled())).map_err(failed)?;
    }
    let beside = type_of().pos(Pos::new(HPos::Left, VPos::Center));
    let ends = [(least, bottom), ((least * most).sqrt(), bottom - height / 2), (most, bottom - height)];
    // Where all are alike there is one number to be read.
    let from_end = if most > least { 0 } else { ends.len() - 1 };
    for (value, at) in ends.into_iter().skip(from_end) {
        area.draw(&Text::new(short(value), (until + 8, at), beside.clone())).map_err(failed)?;
    }
    let name = type_of().pos(Pos::new(HPos::Left, VPos::Top));
    area.draw(&Text::new(unit.to_owned(), (from, top), name)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_that_is_something_is_drawn() {
        let matrix = Matrix::from_triplets(4, [(0, 1, 10), (1, 2, 1000), (3, 0, 5)]);
        let picture = svg(&matrix, "messages", &Order::default(), 85.0).unwrap();
        assert!(picture.contains("width=\"85mm\"") && picture.contains("messages") && picture.contains("writer"));
        // Three cells, the scale, the frame and the paper.
        assert_eq!(picture.matches("<rect").count(), 3 + PARTS as usize + 2);
        assert!(picture.contains("\n1k\n") && picture.contains("\n5\n"), "the ends of the scale: {picture}");
        let empty = svg(&Matrix::zero(3), "messages", &Order::default(), 85.0).unwrap();
        assert_eq!(empty.matches("<rect").count(), 2);
        let one = svg(&Matrix::from_triplets(1, [(0, 0, 1)]), "messages", &Order::default(), 40.0).unwrap();
        assert!(one.contains("<rect"));
    }

    #[test]
    fn many_tasks_share_cells_and_nothing_is_lost() {
        let matrix = Matrix::from_triplets(1000, (0..999).map(|task| (task, task + 1, 3)));
        let (cells, each) = cells(&matrix, &Order::default(), MOST_CELLS);
        assert_eq!((cells.len(), each), (125, 8));
        assert_eq!(cells.iter().flatten().sum::<f64>(), 2997.0);
    }

    #[test]
    fn rows_stand_in_the_order_that_is_asked_for() {
        let matrix = Matrix::from_triplets(4, [(0, 2, 10), (2, 0, 20), (1, 3, 5)]);
        let order = Order { tasks: vec![0, 2, 1, 3], groups: vec![2], name: "by placement" };
        let (cells, each) = cells(&matrix, &order, MOST_CELLS);
        assert_eq!((cells[0][1], cells[1][0], cells[2][3], each), (10.0, 20.0, 5.0, 1));
        let picture = svg(&matrix, "messages", &order, 85.0).unwrap();
        assert!(picture.contains("writer, by placement") && picture.contains("reader, by placement"), "{picture}");
        // Tasks are called by their numbers, whatever row they are in.
        let labels: Vec<usize> =
            ["\n0\n", "\n2\n", "\n1\n", "\n3\n"].map(|label| picture.find(label).unwrap()).to_vec();
        assert!(labels.is_sorted(), "{labels:?}");
        let plain = svg(&matrix, "messages", &Order::default(), 85.0).unwrap();
        assert_eq!(picture.matches("<polyline").count(), plain.matches("<polyline").count() + 2);
    }
}
