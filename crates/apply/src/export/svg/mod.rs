//! The machine with its tasks as SVG: boxes in the manner of lstopo, a circle for each task in its PU, and a line
//! between tasks that communicate much, as thick as that is much (COMPROF/COMPLACE, Figure 5).

mod boxes;

pub use boxes::topology_svg;

use super::xml::readable;
use super::{Exporter, Placement};
use boxes::{Boxes, CIRCLE, document, text};
use cohabit_model::{Error, Result, counted};
use quick_xml::escape::escape;
use std::fmt::Write;

/// PUs of the largest machine that is drawn box by box.
const MOST_PUS: usize = 4_096;
/// The share of the communication that lines are drawn for, heaviest pairs first, and the most lines a task.
const SHARE: f64 = 0.9;
const LINES_A_TASK: usize = 3;
/// Width of the heaviest pair's line.
const THICKEST: f64 = 7.0;

/// The picture.
pub struct Svg;

impl Exporter for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }
    fn about(&self) -> &'static str {
        "picture of the machine with its tasks, lines between those that communicate most"
    }
    fn usage(&self) -> &'static str {
        "any browser, inkscape FILE"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let topology = placement.topology;
        let pus = topology.pus.len();
        if pus > MOST_PUS {
            let cause = format!("a picture of {pus} PUs would not be seen: at most {MOST_PUS} are drawn");
            return Err(Error::new(cause).remedy("export graphml or dot, which tools for large graphs read"));
        }
        let mut tasks_of: Vec<Vec<usize>> = vec![Vec::new(); pus];
        for (task, placed) in placement.mapping.tasks.iter().enumerate() {
            let pu = topology
                .pu_on(&placed.host, placed.pu)
                .ok_or_else(|| Error::new(format!("no PU {} in the topology", placed.pu)))?;
            tasks_of[pu].push(task);
        }
        let counts: Vec<usize> = tasks_of.iter().map(Vec::len).collect();
        let boxes = Boxes::new(topology, true, &counts);
        let mut centres = vec![(0.0, 0.0); placement.mapping.tasks.len()];
        for (tasks, circles) in tasks_of.iter().zip(boxes.circles()) {
            tasks.iter().zip(circles).for_each(|(&task, circle)| centres[task] = circle);
        }
        let (lines, caption) = lines(placement, &centres);
        let title = format!(
            "{} on {pus} PUs, by {}",
            counted(centres.len(), "task"),
            escape(readable(&placement.mapping.mapper))
        );
        Ok(document(&boxes, &title, &caption, &(lines + &circles(placement, &centres))))
    }
}

/// The pairs that communicate, heaviest first: (task, task, both directions together).
fn pairs(placement: &Placement) -> Vec<(usize, usize, u64)> {
    let graph = placement.weight.symmetric();
    let row = |(task, row): (usize, &Vec<(u32, u64)>)| {
        let below = row.iter().filter(move |(other, _)| task < *other as usize);
        below.map(|&(other, weight)| (task, other as usize, weight)).collect::<Vec<_>>()
    };
    let mut pairs: Vec<_> = graph.iter().enumerate().flat_map(row).collect();
    pairs.sort_by_key(|&(a, b, weight)| (std::cmp::Reverse(weight), a, b));
    pairs
}

/// The lines, lightest first so that heavy ones are on top, and what the caption says of them.
fn lines(placement: &Placement, centres: &[(f64, f64)]) -> (String, String) {
    let pairs = pairs(placement);
    let total: f64 = pairs.iter().map(|pair| pair.2 as f64).sum();
    let (mut drawn, mut sum) = (0, 0.0);
    while drawn < pairs.len().min(LINES_A_TASK * centres.len()) && sum < SHARE * total {
        sum += pairs[drawn].2 as f64;
        drawn += 1;
    }
    let mut svg = String::new();
    for &(a, b, weight) in pairs[..drawn].iter().rev() {
        let width = (weight as f64 / pairs[0].2 as f64 * THICKEST).max(0.6);
        let ((x1, y1), (x2, y2)) = (centres[a], centres[b]);
        // Bent a little to the side, so that lines over the same circles are told apart.
        let (x, y) = ((x1 + x2) / 2.0 + (y2 - y1) * 0.12, (y1 + y2) / 2.0 - (x2 - x1) * 0.12);
        let _ = writeln!(
            svg,
            "<path class=\"edge\" stroke-width=\"{width:.1}\" d=\"M{x1:.1} {y1:.1}Q{x:.1} {y:.1} {x2:.1} {y2:.1}\">\
             <title>{a} and {b}: {weight}</title></path>"
        );
    }
    let share = if total > 0.0 { sum / total * 100.0 } else { 0.0 };
    let caption = match pairs.len() {
        0 => "no two tasks communicate".to_owned(),
        all => format!("{drawn} of {all} pairs that communicate are drawn: {share:.0} % of the weight"),
    };
    (svg, caption)
}

/// A circle a task, with its number; its name is shown where the pointer rests.
fn circles(placement: &Placement, centres: &[(f64, f64)]) -> String {
    let mut svg = String::new();
    for (&(x, y), task) in centres.iter().zip(&placement.mapping.tasks) {
        let name = readable(&task.name);
        let name = escape(&name);
        let _ = write!(svg, "<g><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\"/>", CIRCLE / 2.0 - 2.0);
        text(&mut svg, x, y + 3.5, "t", &task.task.to_string());
        let _ = writeln!(svg, "<title>task {} {name} on PU {}</title></g>", task.task, task.pu);
    }
    svg
}
