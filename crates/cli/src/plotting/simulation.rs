//! What mappings take on a simulated machine, and from where their accesses were served that the L1 did not serve.

use super::{Area, INK, PALE, TYPE, UNITS_A_MM, colour, cut, drawn, failed, letters, type_of, units};
use crate::documents::simulation::{PLACES, Simulation};
use cohabit_model::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Height of a mapping's row, of a bar in it, and of a line of text, in units.
const ROW: i32 = 44;
const BAR: i32 = 26;
const LINE: i32 = TYPE as i32 + 8;
/// Space around parts.
const GAP: i32 = 20;
/// The first place behind the L1 and what is on its way to it.
const BEYOND: usize = 2;

/// A row for each mapping: its time beside the first one's, and the shares of places.
///
/// # Errors
/// Where it cannot be drawn.
pub fn svg(found: &Simulation, width_mm: f64) -> Result<String> {
    let used: Vec<usize> = (BEYOND..PLACES.len())
        .filter(|&place| found.mappings.iter().any(|one| one.report.served()[place] > 0))
        .collect();
    let width = (width_mm * UNITS_A_MM) as i32;
    let legend = legend(&used, width);
    let lines = legend.last().map_or(0, |entry| entry.0 + 1);
    let height = LINE + ROW * found.mappings.len() as i32 + LINE * lines + 2 * GAP;
    drawn(width_mm, f64::from(height) / UNITS_A_MM, |area| {
        bars(area, found, &used, width)?;
        let top = LINE + ROW * found.mappings.len() as i32 + GAP;
        for (line, x, place) in &legend {
            let (x, y) = (GAP + x, top + LINE * line);
            let corners = [(x, y + 4), (x + LINE - 8, y + LINE - 4)];
            area.draw(&Rectangle::new(corners, shade(&used, *place).filled())).map_err(failed)?;
            area.draw(&Rectangle::new(corners, INK.stroke_width(1))).map_err(failed)?;
            let style = type_of().pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(PLACES[*place].1, (x + LINE, y + LINE / 2), style)).map_err(failed)?;
        }
        Ok(())
    })
}

/// The further, the darker.
fn shade(used: &[usize], place: usize) -> RGBColor {
    let at = used.iter().position(|&other| other == place).unwrap_or(0);
    colour(at as f64 / (used.len().max(2) - 1) as f64)
}

/// Line and place of each entry.
fn legend(used: &[usize], width: i32) -> Vec<(i32, i32, usize)> {
    let (mut line, mut x, mut placed) = (0, 0, Vec::new());
    for &place in used {
        let wide = units(PLACES[place].1.chars().count()) + 2 * LINE;
        if x > 0 && x + wide > width - 2 * GAP {
            (line, x) = (line + 1, 0);
        }
        placed.push((line, x, place));
        x += wide;
    }
    placed
}

fn bars(area: &Area, found: &Simulation, used: &[usize], width: i32) -> Result<()> {
    let style = |h, v| type_of().pos(Pos::new(h, v));
    let longest = found.mappings.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
    let left = (units(longest) + GAP).min(width / 3);
    let half = (width - left - 3 * GAP) / 2;
    let second = left + half + 2 * GAP;
    let of_time = if found.sample.is_some() { "estimated time, relative" } else { "time, relative" };
    for (x, title) in [(left, of_time), (second, "served behind the L1")] {
        area.draw(&Text::new(cut(title, letters(half)), (x, 4), style(HPos::Left, VPos::Top))).map_err(failed)?;
    }
    let relative = found.relative();
    let most = relative.iter().copied().fold(1.0, f64::max);
    // Room for the number behind the longest bar.
    let full = f64::from(half - units(6));
    let bottom = LINE + ROW * found.mappings.len() as i32;
    let one = left + (full / most).round() as i32;
    area.draw(&PathElement::new(vec![(one, LINE), (one, bottom)], PALE.stroke_width(2))).map_err(failed)?;
    for (at, (mapping, &times)) in found.mappings.iter().zip(&relative).enumerate() {
        let middle = LINE + ROW * at as i32 + ROW / 2;
        let name = cut(&mapping.name, letters(left - GAP));
        area.draw(&Text::new(name, (left - 8, middle), style(HPos::Right, VPos::Center))).map_err(failed)?;
        let (top, low) = (middle - BAR / 2, middle + BAR / 2);
        let end = left + (full * times / most).round() as i32;
        area.draw(&Rectangle::new([(left, top), (end, low)], colour(0.6).filled())).map_err(failed)?;
        let number = format!("{times:.3}");
        area.draw(&Text::new(number, (end + 6, middle), style(HPos::Left, VPos::Center))).map_err(failed)?;
        let served = mapping.report.served();
        let all: f64 = used.iter().map(|&place| served[place] as f64).sum();
        let mut before = 0.0;
        for &place in used.iter().filter(|&&place| served[place] > 0) {
            let x = |sum: f64| second + (f64::from(half) * sum / all).round() as i32;
            let corners = [(x(before), top), (x(before + served[place] as f64), low)];
            before += served[place] as f64;
            area.draw(&Rectangle::new(corners, shade(used, place).filled())).map_err(failed)?;
        }
        let frame = [(second, top), (second + half, low)];
        area.draw(&Rectangle::new(frame, INK.stroke_width(1))).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::simulation::{Report, Sample, Simulated, Total};

    #[test]
    fn every_mapping_has_its_time_and_its_places() {
        let one = |name: &str, time_fs: u64, far: u64| Simulated {
            name: name.to_owned(),
            pus: Vec::new(),
            report: Report {
                sampled: None,
                time_fs,
                total: Total {
                    loads_served: [("l1", 1000), ("l3", 30), ("far_cache", far)]
                        .map(|(key, count)| (key.to_owned(), count))
                        .into(),
                    stores_served: Default::default(),
                    invalidations: 0,
                },
                servers: Vec::new(),
            },
        };
        let mappings = vec![one("packed", 200, 70), one("best", 150, 0)];
        let mut found = Simulation {
            arguments: Vec::new(),
            free_locks: false,
            sample: None,
            recording: "r".into(),
            program: None,
            machine: "m".into(),
            memory: "first-touch".into(),
            mappings,
        };
        let picture = svg(&found, 85.0).unwrap();
        for said in ["packed", "best", "1.000", "0.750", "L3", "far cache"] {
            assert!(picture.contains(&format!("\n{said}\n")), "{said}: {picture}");
        }
        // What the L1 served would hide all others.
        assert!(!picture.contains("\nL1\n"));
        // Two times, two shares and one, two frames, two of the legend with frames, the paper.
        assert_eq!(picture.matches("<rect").count(), 2 + 3 + 2 + 4 + 1);
        assert!(!picture.contains("estimated"));
        found.sample = Some(Sample { percent: 3, seed: 1 });
        assert!(svg(&found, 85.0).unwrap().contains("\nestimated time, relative\n"));
    }
}
