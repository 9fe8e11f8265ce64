//! `cohabit plot`: pictures for papers and pages, one look for all: 85 mm wide unless asked otherwise, type of 7
//! points, and a map of colours that is even to the eye and reads in grey (viridis, from light to dark, so that nothing
//! is as light as paper).
//!
//! Each picture is drawn as SVG by plotters; [`output`] makes PNG and PDF of that. The terminal's own pictures are
//! `picture`'s.

pub mod detectors;
pub mod gains;
pub mod graph;
pub mod matrix;
pub mod order;
pub mod output;
pub mod series;
pub mod simulation;

use cohabit_model::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::colors::colormaps::ViridisRGB;

/// Units of the drawing in a millimetre.
const UNITS_A_MM: f64 = 8.0;
/// 7 points in units of the drawing.
pub const TYPE: u32 = 20;
/// What plotters calls that size: it writes type smaller by 1.24 into SVG.
const SIZE: f64 = 1.24 * TYPE as f64;
/// What text is written in.
const FAMILY: &str = "sans-serif";
/// Lines and text.
pub const INK: RGBColor = RGBColor(30, 30, 30);
/// What is there to be read against.
pub const PALE: RGBColor = RGBColor(200, 200, 200);

/// What one picture is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A picture, as SVG.
///
/// # Errors
/// Where `draw` fails.
pub fn drawn(width_mm: f64, height_mm: f64, draw: impl FnOnce(&Area) -> Result<()>) -> Result<String> {
    let size = ((width_mm * UNITS_A_MM) as u32, (height_mm * UNITS_A_MM) as u32);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    // Its size on paper, which plotters does not know of.
    let units = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    Ok(svg.replacen(&units, &format!("width=\"{width_mm}mm\" height=\"{height_mm}mm\""), 1))
}

/// A picture that was drawn in other units, so wide on paper.
pub fn as_wide(svg: &str, width_mm: f64) -> String {
    let number = |name: &str| -> Option<(usize, usize, f64)> {
        let from = svg.find(&format!(" {name}=\""))? + name.len() + 3;
        let until = from + svg[from..].find('"')?;
        Some((from, until, svg[from..until].parse().ok()?))
    };
    let (Some(width), Some(height)) = (number("width"), number("height")) else { return svg.to_owned() };
    let height_mm = width_mm * height.2 / width.2;
    let sized = format!("{}{height_mm:.1}mm{}", &svg[..height.0], &svg[height.1..]);
    // The width stands first: the other place has not moved.
    format!("{}{width_mm}mm{}", &sized[..width.0], &sized[width.1..])
}

/// Letters that fit so many units: a letter is half as wide as it is high, more or less.
pub fn letters(units: i32) -> usize {
    (units * 20 / (11 * TYPE as i32)).max(1) as usize
}

/// The units that so many letters need.
pub fn units(letters: usize) -> i32 {
    (letters as i32 * TYPE as i32 * 11).div_euclid(20) + 1
}

/// A name in so many letters, `…` where something is left out.
pub fn cut(name: &str, letters: usize) -> String {
    match name.chars().count() > letters {
        true => name.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// What plotters says, in one line.
pub fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(format!("drawing: {error}"))
}

/// The colour for a strength from 0 to 1: ever darker.
pub fn colour(strength: f64) -> RGBColor {
    ViridisRGB::get_color_normalized(1.0 - strength.clamp(0.0, 1.0), 0.0, 1.0)
}

/// The type that everything is written in.
pub fn type_of<'a>() -> TextStyle<'a> {
    (FAMILY, SIZE).into_font().color(&INK)
}

/// `1.2M`: a number of at most four characters and a unit.
pub fn short(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (unit, name) = units.into_iter().find(|(unit, _)| value.abs() >= *unit).unwrap_or((1.0, ""));
    let scaled = value / unit;
    let text =
        if scaled.abs() >= 100.0 || scaled.fract() == 0.0 { format!("{scaled:.0}") } else { format!("{scaled:.1}") };
    text + name
}

/// Steps of 1, 2 or 5 that make at most `most` of a range.
pub fn step(range: f64, most: usize) -> f64 {
    let rough = (range / most.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Luminance, as a grey print has it (Rec. 709).
    fn grey(colour: RGBColor) -> f64 {
        0.2126 * f64::from(colour.0) + 0.7152 * f64::from(colour.1) + 0.0722 * f64::from(colour.2)
    }

    #[test]
    fn colours_are_ever_darker_in_grey_too() {
        let greys: Vec<f64> = (0..=20).map(|at| grey(colour(f64::from(at) / 20.0))).collect();
        assert!(greys.windows(2).all(|pair| pair[1] < pair[0]), "{greys:?}");
        assert!(greys[0] < 235.0, "what is there differs from paper: {greys:?}");
    }

    #[test]
    fn pictures_of_other_units_are_as_wide_as_asked() {
        let svg = "<svg xmlns=\"x\" width=\"400\" height=\"100\" viewBox=\"0 0 400 100\"><rect width=\"3\"/></svg>";
        let found = as_wide(svg, 85.0);
        assert!(
            found.contains(" width=\"85mm\" height=\"21.2mm\" viewBox=\"0 0 400 100\"><rect width=\"3\"/>"),
            "{found}"
        );
        assert_eq!((cut("abcdef", 4), cut("abc", 3)), ("abc…".to_owned(), "abc".to_owned()));
        assert!(letters(units(12)) >= 12);
    }

    #[test]
    fn numbers_are_short_and_steps_round() {
        for (value, expected) in
            [(0.0, "0"), (999.0, "999"), (1200.0, "1.2k"), (2e6, "2M"), (123_456.0, "123k"), (0.25, "0.2")]
        {
            assert_eq!(short(value), expected);
        }
        for (range, most, expected) in
            [(10.0, 5, 2.0), (7.0, 10, 1.0), (0.3, 5, 0.1), (64.0, 8, 10.0), (100.0, 4, 50.0)]
        {
            assert!((step(range, most) - expected).abs() < 1e-9, "{range} {most}: {}", step(range, most));
        }
    }
}
