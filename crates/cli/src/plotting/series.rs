//! How much is communicated when, from the start of the run to its end.

use super::{Area, INK, PALE, TYPE, UNITS_A_MM, colour, drawn, failed, short, step, type_of};
use cohabit_model::{Error, Profile, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height over width.
const SHAPE: f64 = 0.5;
/// Room around the plot, in units: left, above, right, below.
const ROOM: [i32; 4] = [96, 20, 16, 76];
/// A column is no narrower, in units.
const NARROWEST: i32 = 3;

/// Messages in each window, all tasks together.
///
/// # Errors
/// Where the profile has no time series.
pub fn svg(profile: &Profile, width_mm: f64) -> Result<String> {
    let window_s = profile.meta.window_ns as f64 * 1e-9;
    let (Some(last), true) = (profile.series.iter().map(|row| row.bin).max(), window_s > 0.0) else {
        return Err(Error::new("the profile has no time series")
            .remedy("no two tasks communicated while it was profiled, or it is of another tool: plot --what matrix"));
    };
    let width = (width_mm * UNITS_A_MM) as i32 - ROOM[0] - ROOM[2];
    let columns = columns(profile, last, (width / NARROWEST).max(1) as u64);
    drawn(width_mm, SHAPE * width_mm, |area| bars(area, &columns, window_s * (last + 1) as f64))
}

/// Messages a column: of more windows than there are columns, several make one.
fn columns(profile: &Profile, last: u64, most: u64) -> Vec<f64> {
    let each = (last + 1).div_ceil(most);
    let mut columns = vec![0.0; (last / each) as usize + 1];
    profile.series.iter().for_each(|row| columns[(row.bin / each) as usize] += row.messages as f64);
    columns
}

fn bars(area: &Area, columns: &[f64], seconds: f64) -> Result<()> {
    let (width, height) = area.dim_in_pixel();
    let [left, top, right, below] = ROOM;
    let (width, height) = (width as i32 - left - right, height as i32 - top - below);
    let bottom = top + height;
    // Events a second, which does not depend on how many windows make a column.
    let a_second = columns.len() as f64 / seconds;
    let most = columns.iter().copied().fold(0.0, f64::max) * a_second;
    let rise = step(most, 4);
    let ceiling = (most / rise).ceil().max(1.0) * rise;
    let y = |rate: f64| bottom - (f64::from(height) * rate / ceiling).round() as i32;
    let style = |h, v| type_of().pos(Pos::new(h, v));
    for level in 0..=(ceiling / rise).round() as i32 {
        let rate = f64::from(level) * rise;
        area.draw(&PathElement::new(vec![(left, y(rate)), (left + width, y(rate))], PALE)).map_err(failed)?;
        area.draw(&Text::new(short(rate), (left - 8, y(rate)), style(HPos::Right, VPos::Center))).map_err(failed)?;
    }
    let x = |column: usize| left + (f64::from(width) * column as f64 / columns.len() as f64).round() as i32;
    for (column, &events) in columns.iter().enumerate().filter(|(_, events)| **events > 0.0) {
        let corners = [(x(column), y(events * a_second)), (x(column + 1), bottom)];
        area.draw(&Rectangle::new(corners, colour(0.75).filled())).map_err(failed)?;
    }
    area.draw(&PathElement::new(vec![(left, bottom), (left + width, bottom)], INK.stroke_width(2))).map_err(failed)?;
    let (scale, unit) = if seconds < 2.0 { (1e3, "ms") } else { (1.0, "s") };
    let apart = step(seconds * scale, 6);
    for tick in 0..=(seconds * scale / apart + 1e-9) as i32 {
        let time = f64::from(tick) * apart;
        let at = left + (f64::from(width) * time / (seconds * scale)).round() as i32;
        let text = format!("{}", (time * 1e6).round() / 1e6);
        area.draw(&Text::new(text, (at, bottom + 8), style(HPos::Center, VPos::Top))).map_err(failed)?;
    }
    let name = style(HPos::Center, VPos::Top);
    area.draw(&Text::new(format!("time ({unit})"), (left + width / 2, bottom + 12 + TYPE as i32), name.clone()))
        .map_err(failed)?;
    let name = name.transform(FontTransform::Rotate270);
    area.draw(&Text::new("messages a second", (8, top + height / 2), name)).map_err(failed)
}
