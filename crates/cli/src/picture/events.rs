//! Events over time as columns, each in the colour of the part of the run that most of them are of (DeLoc, Figure 3):
//! in the terminal and as SVG.

use super::palette::{CATEGORIES, NO_CATEGORY, Palette};
use super::text::short;
use crate::number::windows;
use cohabit_model::series::Window;
use cohabit_model::{Profile, Timeline};
use std::fmt::Write;

/// Parts of a line, from the bottom.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of the numbers on the left.
const AXIS: usize = 7;
/// Columns, width and height of the picture as SVG.
const SVG: (usize, usize, usize) = (800, 800, 240);

/// Events over time.
pub struct Events {
    /// Events of each column, and the part of the run that most of them are of.
    columns: Vec<(u128, Option<usize>)>,
    /// The windows of all columns together.
    count: f64,
    window: Window,
}

impl Events {
    /// Of a profile's series, in so many columns at most.
    pub fn new(profile: &Profile, timeline: &Timeline, columns: usize) -> Self {
        let last = profile.series.last().map_or(0, |row| row.bin);
        let count = u128::from(last) + 1;
        let columns = columns.clamp(1, usize::try_from(count).unwrap_or(usize::MAX));
        let parts = timeline.periods.len();
        let mut spans: Vec<(u64, u64, usize)> = Vec::new();
        for (part, period) in timeline.periods.iter().enumerate() {
            spans.extend(period.spans.iter().map(|span| (span.start, span.end, part)));
        }
        spans.sort_unstable();
        let mut sums = vec![(0_u128, vec![0_u128; parts]); columns];
        for row in &profile.series {
            let sum = &mut sums[(u128::from(row.bin) * columns as u128 / count) as usize];
            sum.0 += u128::from(row.messages);
            let at = spans.partition_point(|span| span.0 <= row.bin);
            if let Some(span) = at.checked_sub(1).map(|at| spans[at]).filter(|span| row.bin < span.1) {
                sum.1[span.2] += u128::from(row.messages);
            }
        }
        let most = |(events, of): (u128, Vec<u128>)| {
            let part = (0..parts).filter(|&part| of[part] > 0).max_by_key(|&part| (of[part], usize::MAX - part));
            // Scattered events are the rest.
            let part = part.filter(|&part| of[part] >= events - of.iter().sum::<u128>());
            (events, part)
        };
        let columns = sums.into_iter().map(most).collect();
        Self { columns, count: count as f64, window: timeline.window }
    }

    /// The columns that the terminal has room for.
    pub fn columns(width: usize) -> usize {
        width.saturating_sub(AXIS + 1).max(10)
    }

    fn most(&self) -> u128 {
        self.columns.iter().map(|column| column.0).max().unwrap_or(0).max(1)
    }

    /// So many lines of columns, and the axis of time below them. Where there are no colours, columns are made of the
    /// part's letter.
    pub fn draw(&self, palette: Palette, height: usize) -> String {
        let (most, height) = (self.most(), height.max(2));
        let mut out = String::new();
        for line in (0..height).rev() {
            let label = if line + 1 == height { short(most) } else { String::new() };
            write!(out, "{label:>width$} ", width = AXIS - 1).expect("a String takes everything");
            let mut before = None;
            for &(events, part) in &self.columns {
                // Eighths of a line; what is there at all is seen.
                let eighths = (events * (8 * height as u128)).div_ceil(most) as usize;
                let here = eighths.saturating_sub(8 * line).min(8);
                let letter = match (palette, here) {
                    (_, 0) => ' ',
                    (Palette::Ascii, _) => part.map_or('.', letter),
                    (_, eighths) => BLOCKS[eighths - 1],
                };
                if letter != ' ' && before != Some(part) {
                    out += &palette.category(part);
                    before = Some(part);
                }
                out.push(letter);
            }
            out.truncate(out.trim_end().len());
            out += palette.reset();
            out.push('\n');
        }
        let end = windows(self.window, self.count);
        let gap = self.columns.len().saturating_sub(1 + end.len());
        out + &format!("{:>AXIS$}0{:gap$}{end}\n", "", "")
    }

    /// The same as a picture, with what is said above it.
    pub fn svg(&self, title: &str) -> String {
        let (_, width, height) = SVG;
        let (most, step) = (self.most(), width as f64 / self.columns.len() as f64);
        let (full_width, full_height) = (width + 80, height + 70);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full_width}\" height=\"{full_height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"60\" y=\"18\">{}</text>\n",
            escaped(title)
        );
        for (at, &(events, part)) in self.columns.iter().enumerate().filter(|(_, column)| column.0 > 0) {
            let tall = (events as f64 / most as f64 * height as f64).max(0.5);
            let [red, green, blue] = part.map_or(NO_CATEGORY, |part| CATEGORIES[part % CATEGORIES.len()]);
            writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{tall:.2}\" fill=\"rgb({red},{green},{blue})\"/>",
                60.0 + at as f64 * step,
                (height + 30) as f64 - tall,
                step.max(0.5)
            )
            .expect("a String takes everything");
        }
        let bottom = height + 30;
        let (right, below) = (width + 60, bottom + 16);
        out += &format!(
            "<path d=\"M60 30V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\n\
             <text x=\"54\" y=\"40\" text-anchor=\"end\">{}</text>\n<text x=\"60\" y=\"{below}\">0</text>\n\
             <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{}</text>\n\
             <text x=\"60\" y=\"{}\">events over time</text>\n</svg>\n",
            short(most),
            windows(self.window, self.count),
            bottom + 34
        );
        out
    }
}

/// How a part is called where there are no colours: a to z, and then again.
pub fn letter(part: usize) -> char {
    char::from(b'a' + (part % 26) as u8)
}

fn escaped(text: &str) -> String {
    super::text::clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Columns of the picture as SVG.
pub const SVG_COLUMNS: usize = SVG.0;
