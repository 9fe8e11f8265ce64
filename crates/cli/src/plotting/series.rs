//! How much is communicated when, from the start of the run to its end.

use super::{Area, INK, PALE, TYPE, UNITS_A_MM, colour, drawn, failed, short, step, type_of, units};
use crate::picture::palette::{CATEGORIES, NO_CATEGORY};
use crate::show::time;
use crate::timeline::part_of_columns;
use cohabit_model::series::Window;
use cohabit_model::{Error, Profile, Result, Timeline};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height over width.
const SHAPE: f64 = 0.5;
/// Room around the plot, in units: left, above, right, below.
const ROOM: [i32; 4] = [96, 20, 16, 76];
/// A column is no narrower, in units.
const NARROWEST: i32 = 3;
/// Height of a line of the legend, and how many parts it names.
const LEGEND: i32 = 28;
const MOST_NAMED: usize = 7;

/// What columns are coloured by.
struct Parts {
    /// Of each column the part that most of its messages are of.
    of: Vec<Option<usize>>,
    /// What each is called.
    names: Vec<String>,
}

impl Parts {
    fn colour(&self, column: usize) -> RGBColor {
        match self.names.len() {
            // One part is no distinction.
            0 | 1 => colour(0.75),
            _ => category(self.of[column]),
        }
    }

    /// What the legend names: part and name; those that are too many share a line of their own.
    fn named(&self) -> Vec<(Option<usize>, String)> {
        if self.names.len() < 2 {
            return Vec::new();
        }
        let mut named: Vec<_> =
            self.names.iter().enumerate().take(MOST_NAMED).map(|(part, name)| (Some(part), name.clone())).collect();
        if self.names.len() > MOST_NAMED {
            let last = named.len() - 1;
            named[last].1 += &format!(" and {} more, colours again from the first", self.names.len() - MOST_NAMED);
        }
        if self.of.contains(&None) {
            named.push((None, "none of them".to_owned()));
        }
        named
    }

    /// Lines of the legend in so many units: each entry with its lines' number and place.
    fn lines(&self, width: i32) -> Vec<(i32, i32, Option<usize>, String)> {
        let (mut line, mut x, mut placed) = (0, 0, Vec::new());
        for (part, name) in self.named() {
            let wide = units(name.chars().count()) + 2 * LEGEND;
            if x > 0 && x + wide > width {
                (line, x) = (line + 1, 0);
            }
            placed.push((line, x, part, name));
            x += wide;
        }
        placed
    }
}

fn category(part: Option<usize>) -> RGBColor {
    let [red, green, blue] = part.map_or(NO_CATEGORY, |part| CATEGORIES[part % CATEGORIES.len()]);
    RGBColor(red, green, blue)
}

/// What lies along the picture: all windows of a series.
struct Axis {
    /// In seconds, or in millions of instructions.
    length: f64,
    /// Of those, in the unit of the numbers below the picture.
    scale: f64,
    below: &'static str,
    beside: &'static str,
}

impl Axis {
    fn of(window: Window, count: u64) -> Self {
        let length = window.width() as f64 * count as f64;
        match window {
            Window::Time(_) if length < 2e9 => {
                Self { length: length * 1e-9, scale: 1e3, below: "time (ms)", beside: "messages a second" }
            }
            Window::Time(_) => {
                Self { length: length * 1e-9, scale: 1.0, below: "time (s)", beside: "messages a second" }
            }
            Window::Instructions(_) => {
                let (below, beside) = ("instructions of each task (millions)", "messages in a million");
                Self { length: length * 1e-6, scale: 1.0, below, beside }
            }
        }
    }
}

/// Messages in each window, all tasks together, in the colours of the parts of the run.
///
/// # Errors
/// Where the profile has no time series.
pub fn svg(profile: &Profile, timeline: Option<&Timeline>, width_mm: f64) -> Result<String> {
    let window = profile.meta.window();
    let (Some(last), true) = (profile.series.iter().map(|row| row.bin).max(), window.width() > 0) else {
        return Err(Error::new("the profile has no time series")
            .remedy("no two tasks communicated while it was profiled, or it is of another tool: plot --what matrix"));
    };
    let width = (width_mm * UNITS_A_MM) as i32 - ROOM[0] - ROOM[2];
    let (columns, each) = columns(profile, last, (width / NARROWEST).max(1) as u64);
    let of = timeline.map(|timeline| part_of_columns(profile, timeline, each, columns.len())).unwrap_or_default();
    let names = timeline.map(|timeline| {
        let name = |part: usize| format!("{} {}", time::what(timeline.by), time::name(timeline, part));
        (0..timeline.periods.len()).map(name).collect()
    });
    let parts = Parts { of, names: names.unwrap_or_default() };
    let legend = parts.lines((width_mm * UNITS_A_MM) as i32 - 2 * ROOM[2]);
    let lines = legend.last().map_or(0, |entry| entry.0 + 1);
    let height_mm = SHAPE * width_mm + f64::from(LEGEND * lines) / UNITS_A_MM;
    drawn(width_mm, height_mm, |area| {
        bars(area, &columns, &parts, LEGEND * lines, &Axis::of(window, last + 1))?;
        let top = (SHAPE * width_mm * UNITS_A_MM) as i32;
        for (line, x, part, name) in &legend {
            let (x, y) = (ROOM[2] + x, top + LEGEND * line);
            area.draw(&Rectangle::new([(x, y + 4), (x + LEGEND - 8, y + LEGEND - 8)], category(*part).filled()))
                .map_err(failed)?;
            let style = type_of().pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(name.clone(), (x + LEGEND, y + LEGEND / 2 - 2), style)).map_err(failed)?;
        }
        Ok(())
    })
}

/// Messages a column, and windows in one: of more windows than there are columns, several make one.
fn columns(profile: &Profile, last: u64, most: u64) -> (Vec<f64>, u64) {
    let each = (last + 1).div_ceil(most);
    let mut columns = vec![0.0; (last / each) as usize + 1];
    profile.series.iter().for_each(|row| columns[(row.bin / each) as usize] += row.messages as f64);
    (columns, each)
}

fn bars(area: &Area, columns: &[f64], parts: &Parts, legend: i32, axis: &Axis) -> Result<()> {
    let (width, height) = area.dim_in_pixel();
    let [left, top, right, below] = ROOM;
    let (width, height) = (width as i32 - left - right, height as i32 - top - below - legend);
    let bottom = top + height;
    // Events a second, or a million instructions, which does not depend on how many windows make a column.
    let rate_of_one = columns.len() as f64 / axis.length;
    let most = columns.iter().copied().fold(0.0, f64::max) * rate_of_one;
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
        let corners = [(x(column), y(events * rate_of_one)), (x(column + 1), bottom)];
        area.draw(&Rectangle::new(corners, parts.colour(column).filled())).map_err(failed)?;
    }
    area.draw(&PathElement::new(vec![(left, bottom), (left + width, bottom)], INK.stroke_width(2))).map_err(failed)?;
    let length = axis.length * axis.scale;
    let apart = step(length, 6);
    for tick in 0..=(length / apart + 1e-9) as i32 {
        let time = f64::from(tick) * apart;
        let at = left + (f64::from(width) * time / length).round() as i32;
        let text = format!("{}", (time * 1e6).round() / 1e6);
        area.draw(&Text::new(text, (at, bottom + 8), style(HPos::Center, VPos::Top))).map_err(failed)?;
    }
    let name = style(HPos::Center, VPos::Top);
    area.draw(&Text::new(axis.below, (left + width / 2, bottom + 12 + TYPE as i32), name.clone())).map_err(failed)?;
    let name = name.transform(FontTransform::Rotate270);
    area.draw(&Text::new(axis.beside, (8, top + height / 2), name)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::profile::{Kind, Meta, SeriesRow};
    use cohabit_model::timeline::By;
    use cohabit_model::{Matrix, Period};

    #[test]
    fn columns_have_the_colours_of_their_parts() {
        let matrix = Matrix::zero(2);
        let mut profile = Profile::new(Meta::new(Kind::Threads, "test", Vec::new()), matrix.clone(), matrix.clone());
        assert!(svg(&profile, None, 85.0).unwrap_err().cause.contains("no time series"));
        profile.meta.window_ns = 1_000_000;
        let row = |bin| SeriesRow { bin, source: 0, destination: 1, messages: 5, bytes: 8 };
        profile.series = vec![row(0), row(5), row(9)];
        let spans = [0..1, 5..6].map(|span| vec![span]);
        let period = |(number, spans): (u64, Vec<std::ops::Range<u64>>)| Period {
            number,
            spans,
            messages: matrix.clone(),
            bytes: matrix.clone(),
        };
        let periods = (0..).zip(spans).map(period).collect();
        let timeline = Timeline { by: By::Clusters, window: Window::Time(1_000_000), periods };
        let found = svg(&profile, Some(&timeline), 85.0).unwrap();
        let of = |part| {
            let RGBColor(red, green, blue) = category(part);
            found.matches(&format!("#{red:02X}{green:02X}{blue:02X}")).count()
        };
        // A column and a box of the legend each; the last window is of no part.
        assert_eq!([of(Some(0)), of(Some(1)), of(None)], [2, 2, 2], "{found}");
        assert!(found.contains("cluster 1") && found.contains("cluster 2") && found.contains("none of them"));
        // Where nothing is told apart there is no legend.
        assert!(!svg(&profile, None, 85.0).unwrap().contains("cluster"));
        // What is along the picture is what the windows are of.
        assert!(found.contains("time (ms)") && found.contains("messages a second"));
        profile.meta.set_window(Window::Instructions(1_000_000));
        let found = svg(&profile, None, 85.0).unwrap();
        assert!(found.contains("instructions of each task (millions)") && found.contains("messages in a million"));
        assert!(!found.contains("time (") && !found.contains("a second"));
    }
}
