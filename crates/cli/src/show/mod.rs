//! A profile for people: heat map, totals, strongest pairs, how structured it is; and for programs, as JSON.

mod coverage;
mod document;
mod hot;
mod summary;

pub use coverage::coverage_lines;
pub use document::document;

use crate::mapping::default_weight;
use crate::picture::heatmap::HeatMap;
use crate::picture::palette::Palette;
use crate::picture::text::{clean, grouped};
use cohabit_model::mapping::Weight;
use cohabit_model::profile::Kind;
use cohabit_model::{Matrix, Profile, Task};

/// What is shown, and on what.
#[derive(Debug, Clone)]
pub struct ShowOptions {
    /// Which matrix is drawn and judged.
    pub weight: Weight,
    /// Whether the hottest blocks are listed too.
    pub hot: bool,
    /// How many of the strongest pairs, and of the hottest blocks, are listed.
    pub top: usize,
    /// Colours to use.
    pub palette: Palette,
    /// Columns of the terminal.
    pub width: usize,
    /// Lines the heat map may take.
    pub height: usize,
}

/// Where there is no terminal to measure.
const DEFAULT_SIZE: (usize, usize) = (100, 72);
/// What else a screen should hold beside the map's lines: its axes and legend.
const LINES_AROUND: usize = 6;

impl ShowOptions {
    /// What standard output can show; the matrix that placement counts for this profile.
    pub fn detect(profile: &Profile) -> Self {
        let size = terminal_size::terminal_size();
        let (width, height) = size.map_or(DEFAULT_SIZE, |(width, height)| (width.0.into(), height.0.into()));
        let height = height.saturating_sub(LINES_AROUND).max(16);
        Self { weight: default_weight(profile), hot: false, top: 8, palette: Palette::detect(), width, height }
    }
}

/// The whole text, lines ending in newlines. Names from the profile are stripped of control characters.
pub fn show(profile: &Profile, options: &ShowOptions) -> String {
    let matrix = matrix(profile, options.weight);
    let names: Vec<String> = profile.meta.tasks.iter().map(name_beside_id).collect();
    let (rows, columns) = axes(profile.meta.kind);
    let (unit, palette) = (unit(options.weight), options.palette);
    let (width, height) = (options.width, options.height);
    let map = HeatMap { matrix, names: &names, rows, columns, unit, palette, width, height };
    let mut out = heading(profile, palette);
    out += &coverage_lines(&profile.meta.coverage);
    if profile.tasks() > 0 {
        out += &format!("\n{}", map.draw());
    }
    out += &summary::totals(profile, palette);
    out += &summary::strongest_pairs(profile, options);
    out += &summary::structure(profile, options);
    if options.hot {
        out += &hot::hot_blocks(profile, options);
    }
    out
}

fn heading(profile: &Profile, palette: Palette) -> String {
    let meta = &profile.meta;
    let noun = match (meta.kind, profile.tasks()) {
        (Kind::Threads, 1) => "thread",
        (Kind::Threads, _) => "threads",
        (Kind::Processes, 1) => "process",
        (Kind::Processes, _) => "processes",
        (Kind::Ranks, 1) => "MPI rank",
        (Kind::Ranks, _) => "MPI ranks",
        (Kind::Hybrid, _) => "ranks and threads",
    };
    let command =
        if meta.command.is_empty() { String::new() } else { format!(" of {}", clean(&meta.command.join(" "))) };
    let block = if meta.block_bytes > 0 { format!(", {}-byte blocks", meta.block_bytes) } else { String::new() };
    let title = palette.bold(&format!("{} {noun}{command}", grouped(profile.tasks() as u128)));
    format!("{title}\nby {}{block}\n", clean(&meta.detector))
}

/// The task's name where its id stands beside it: none for names that only repeat the id (`rank 3`).
fn name_beside_id(task: &Task) -> String {
    let repeats = task.name.split_whitespace().next_back() == Some(task.id.to_string().as_str());
    if repeats { String::new() } else { clean(&task.name) }
}

fn matrix(profile: &Profile, weight: Weight) -> &Matrix {
    match weight {
        Weight::Messages => &profile.messages,
        Weight::Bytes => &profile.bytes,
    }
}

fn unit(weight: Weight) -> &'static str {
    match weight {
        Weight::Messages => "messages",
        Weight::Bytes => "bytes",
    }
}

/// What rows and columns are called: memory is written and read, messages are sent and received.
fn axes(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Ranks => ("sender", "receiver"),
        _ => ("writer", "reader"),
    }
}

#[cfg(test)]
mod tests;
