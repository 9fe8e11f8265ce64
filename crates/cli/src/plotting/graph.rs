//! Who communicates, as a graph: tasks on a circle, an edge between those that exchange at least a tenth of what the
//! busiest pair does, ever wider and darker (COMPROF, Figure 1; both directions of a pair are one edge).

use super::matrix::Order;
use super::{Area, INK, TYPE, UNITS_A_MM, colour, drawn, failed, short, step, type_of};
use cohabit_model::{Matrix, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Edges weaker than the strongest by more than this factor are not drawn.
const LEAST: f64 = 0.1;
/// Room beside the circle for the names of tasks, in units.
const ROOM: f64 = 56.0;
/// Room below it for the key, in units.
const KEY: i32 = 40;
/// Width of the widest edge, in units.
const WIDEST: f64 = 9.0;
/// Names around the circle at most.
const NAMES: usize = 64;

/// The graph of a matrix `[writer][reader]`. `unit` is what is counted.
///
/// # Errors
/// Where it cannot be drawn.
pub fn svg(matrix: &Matrix, unit: &str, order: &Order, width_mm: f64) -> Result<String> {
    let height_mm = width_mm + f64::from(KEY) / UNITS_A_MM;
    drawn(width_mm, height_mm, |area| whole(area, matrix, unit, order))
}

/// The pairs that are drawn, both directions together, the weakest first; and the strongest's value.
fn edges(matrix: &Matrix) -> (Vec<(u32, u32, f64)>, f64) {
    let mut pairs: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for (a, b, value) in matrix.iter().filter(|(a, b, _)| a != b) {
        *pairs.entry((a.min(b), a.max(b))).or_default() += value as f64;
    }
    let most = pairs.values().fold(0.0, |most: f64, &value| most.max(value));
    let mut edges: Vec<_> = pairs.into_iter().map(|((a, b), value)| (a, b, value)).collect();
    edges.retain(|&(_, _, value)| value > 0.0 && value >= LEAST * most);
    edges.sort_by(|a, b| a.2.total_cmp(&b.2));
    (edges, most)
}

fn whole(area: &Area, matrix: &Matrix, unit: &str, order: &Order) -> Result<()> {
    let (side, _) = area.dim_in_pixel();
    let (middle, radius) = (f64::from(side) / 2.0, f64::from(side) / 2.0 - ROOM);
    let tasks = matrix.tasks();
    let task_at = |row: usize| order.tasks.get(row).map_or(row as u32, |&task| task);
    let mut angles = vec![0.0; tasks];
    for row in 0..tasks {
        // From the top, as a clock goes.
        angles[task_at(row) as usize] = TAU * (row as f64 / tasks as f64 - 0.25);
    }
    let place = |task: u32, radius: f64| {
        let (sine, cosine) = angles[task as usize].sin_cos();
        ((middle + radius * cosine).round() as i32, (middle + radius * sine).round() as i32)
    };
    let (edges, most) = edges(matrix);
    for &(a, b, value) in &edges {
        let strength = value / most;
        let style = colour(strength).stroke_width((WIDEST * strength).round().max(1.0) as u32);
        area.draw(&PathElement::new([place(a, radius), place(b, radius)], style)).map_err(failed)?;
    }
    let dot = (radius * TAU / tasks.max(1) as f64 / 3.0).clamp(2.0, 10.0) as i32;
    for task in 0..tasks as u32 {
        area.draw(&Circle::new(place(task, radius), dot, INK.filled())).map_err(failed)?;
    }
    let apart = if tasks <= NAMES { 1 } else { step(tasks as f64, NAMES / 2).max(1.0) as usize };
    let name = type_of().pos(Pos::new(HPos::Center, VPos::Center));
    for task in (0..tasks).step_by(apart).map(task_at) {
        area.draw(&Text::new(task.to_string(), place(task, radius + ROOM / 2.0), name.clone())).map_err(failed)?;
    }
    let key = match edges.first() {
        Some((_, _, least)) if *least < most => format!("edges: {} to {} {unit}", short(*least), short(most)),
        Some(_) => format!("edges: {} {unit}", short(most)),
        None => "no edges: no two tasks communicate".to_owned(),
    };
    let below = type_of().pos(Pos::new(HPos::Center, VPos::Top));
    area.draw(&Text::new(key, (middle as i32, side as i32 + (KEY - TYPE as i32) / 2 - 8), below)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_from_a_tenth_of_the_strongest() {
        let matrix = Matrix::from_triplets(5, [(0, 1, 60), (1, 0, 40), (1, 2, 10), (2, 3, 9), (4, 4, 999)]);
        assert_eq!(edges(&matrix), (vec![(1, 2, 10.0), (0, 1, 100.0)], 100.0));
        let picture = svg(&matrix, "messages", &Order::default(), 85.0).unwrap();
        assert!(picture.contains("edges: 10 to 100 messages"), "{picture}");
        assert_eq!((picture.matches("<circle").count(), picture.matches("<polyline").count()), (5, 2));
        for (matrix, said) in [
            (Matrix::zero(3), "no edges"),
            (Matrix::zero(0), "no edges"),
            (Matrix::from_triplets(2, [(0, 1, 7)]), "edges: 7 "),
        ] {
            assert!(svg(&matrix, "messages", &Order::default(), 40.0).unwrap().contains(said), "{said}");
        }
    }
}
