//! What arms gain over the system's placement, with intervals: from the runs that `cohabit compare` kept.

use super::{Area, INK, PALE, TYPE, UNITS_A_MM, colour, cut, drawn, failed, letters, step, type_of, units};
use crate::comparing::outcome::Outcome;
use cohabit_evaluate::compare::{Claim, Terms};
use cohabit_model::{Error, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height of an arm's row, in units.
const ROW: i32 = 48;
/// Room around the rows, in units: above, right, below; on the left as much as names need.
const ROOM: [i32; 3] = [16, 28, 108];
/// Half the height of the ends of an interval.
const CAP: i32 = 8;

/// An arm to be drawn.
struct Row {
    name: String,
    change: f64,
    interval: Option<[f64; 2]>,
    claim: Claim,
}

/// A row for each arm of each comparison, those of one under its name where there are several.
///
/// # Errors
/// Where none has a complete block, or less is better in one and more in another: one axis cannot say both.
pub fn svg(outcomes: &[(String, Outcome)], width_mm: f64) -> Result<String> {
    let higher: Vec<bool> = outcomes.iter().map(|(_, outcome)| outcome.terms.higher_is_better).collect();
    if higher.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Error::new("lower is better in one of these comparisons and higher in another")
            .remedy("plot those of a time and those of a rate apart"));
    }
    let mut rows = Vec::new();
    for (name, outcome) in outcomes {
        for (difference, arm) in outcome.differences.iter().zip(&outcome.results.arms[1..]) {
            let prefix = if outcomes.len() > 1 { format!("{name}: ") } else { String::new() };
            rows.push(Row {
                name: prefix + &arm.name,
                change: difference.change,
                interval: difference.interval.map(|found| [found.low, found.high]),
                claim: difference.claim,
            });
        }
    }
    if rows.is_empty() {
        return Err(Error::new("no block was finished: there is nothing to plot yet")
            .remedy("go on with 'cohabit compare --resume'"));
    }
    let height = ROOM[0] + ROOM[2] + ROW * rows.len() as i32;
    let terms = outcomes[0].1.terms;
    drawn(width_mm, f64::from(height) / UNITS_A_MM, |area| whole(area, &rows, terms))
}

fn whole(area: &Area, rows: &[Row], terms: Terms) -> Result<()> {
    let (confidence, floor) = (terms.confidence, terms.floor);
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let (whole, _) = area.dim_in_pixel();
    let left = (units(longest) + 24).min(whole as i32 / 2);
    let width = whole as i32 - left - ROOM[1];
    let ends = rows.iter().flat_map(|row| row.interval.unwrap_or([row.change; 2])).chain([0.0]);
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    // No closer look than at ten times what is never claimed.
    let (low, high) = if high - low < 10.0 * floor { (low - 5.0 * floor, high + 5.0 * floor) } else { (low, high) };
    let apart = step(100.0 * (high - low), 5) / 100.0;
    let (low, high) = ((low / apart).floor() * apart, (high / apart).ceil() * apart);
    let x = |change: f64| left + (f64::from(width) * (change - low) / (high - low)).round() as i32;
    let bottom = ROOM[0] + ROW * rows.len() as i32;
    // What is never called a difference.
    area.draw(&Rectangle::new([(x(-floor), ROOM[0]), (x(floor).max(x(-floor) + 1), bottom)], PALE.filled()))
        .map_err(failed)?;
    let style = |h, v| type_of().pos(Pos::new(h, v));
    for tick in 0..=((high - low) / apart).round() as i32 {
        let change = low + f64::from(tick) * apart;
        let line = if change.abs() < apart / 2.0 { INK.stroke_width(2) } else { PALE.stroke_width(1) };
        area.draw(&PathElement::new(vec![(x(change), ROOM[0]), (x(change), bottom)], line)).map_err(failed)?;
        let text = format!("{:+}", (1e4 * change).round() / 1e2);
        let text = if change.abs() < apart / 2.0 { "0".to_owned() } else { text };
        area.draw(&Text::new(text, (x(change), bottom + 8), style(HPos::Center, VPos::Top))).map_err(failed)?;
    }
    for (at, row) in rows.iter().enumerate() {
        let middle = ROOM[0] + ROW * at as i32 + ROW / 2;
        area.draw(&Text::new(
            cut(&row.name, letters(left - 24)),
            (left - 12, middle),
            style(HPos::Right, VPos::Center),
        ))
        .map_err(failed)?;
        if let Some([from, until]) = row.interval {
            let ends = [from, until].map(|end| vec![(x(end), middle - CAP), (x(end), middle + CAP)]);
            for line in ends.into_iter().chain([vec![(x(from), middle), (x(until), middle)]]) {
                area.draw(&PathElement::new(line, INK.stroke_width(2))).map_err(failed)?;
            }
        }
        // Filled where something is claimed: that reads without colours.
        let filled = if row.claim == Claim::NotShown { WHITE } else { colour(0.75) };
        area.draw(&Circle::new((x(row.change), middle), CAP, filled.filled())).map_err(failed)?;
        area.draw(&Circle::new((x(row.change), middle), CAP, INK.stroke_width(2))).map_err(failed)?;
    }
    let better = if terms.higher_is_better { "higher" } else { "lower" };
    let lines = [
        format!("change (%): {better} is better"),
        format!("{} % intervals; filled: shown", (1e4 * confidence).round() / 1e2),
    ];
    for (at, line) in (1..).zip(lines) {
        // In the middle of the whole picture: under the axis alone there may be no room.
        let place = (whole as i32 / 2, bottom + 8 + at * (TYPE as i32 + 8));
        area.draw(&Text::new(line, place, style(HPos::Center, VPos::Top))).map_err(failed)?;
    }
    Ok(())
}
