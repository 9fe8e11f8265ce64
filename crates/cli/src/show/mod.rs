//! A profile for people: heat map, totals, strongest pairs, how structured it is; and for programs, as JSON.

pub mod coverage;
mod document;
pub mod hot;
mod ranks;
pub mod summary;
pub mod time;

pub use document::document;
pub use time::{svg, time};

pub use coverage::coverage_lines;

use crate::documents::simulation::Simulation;
use crate::mapping::default_weight;
use crate::picture::heatmap::HeatMap;
use crate::picture::palette::Palette;
use crate::picture::text::clean;
use crate::words::tasks_of;
use cohabit_model::mapping::Weight;
use cohabit_model::profile::Kind;
use cohabit_model::{Matrix, Profile, Task, Timeline};
use std::collections::BTreeSet;

/// What is shown, and on what.
#[derive(Debug, Clone)]
pub struct ShowOptions {
    /// Which matrix is drawn and judged.
    pub weight: Weight,
    /// Whether the data and code that communicate are listed too.
    pub hot: bool,
    /// How many of the strongest pairs, of the data objects and of the hottest blocks are listed.
    pub top: usize,
    /// Whether all that was not seen is listed, and every rank.
    pub verbose: bool,
    /// What is exchanged at the same time; none where the profile has no series.
    pub timeline: Option<Timeline>,
    /// What comes from DRAM, where a simulation of the program is at hand.
    pub dram: Option<Dram>,
    /// Colours to use.
    pub palette: Palette,
    /// Columns of the terminal.
    pub width: usize,
    /// Lines the heat map may take.
    pub height: usize,
}

/// What tasks read and write of DRAM, found by simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dram {
    /// Of all tasks.
    pub bytes: u64,
    /// On which machine, under which mapping.
    pub source: String,
}

impl Dram {
    /// Under the first mapping of a simulation; none where that is of another number of tasks than the profile.
    pub fn of(simulation: &Simulation, profile: &Profile) -> Option<Self> {
        let first = &simulation.mappings[0];
        let source = format!("{}, {}", simulation.machine, first.name);
        (first.pus.len() == profile.tasks()).then(|| Self { bytes: first.report.dram_bytes(), source })
    }
}

/// Where there is no terminal to measure.
const DEFAULT_SIZE: (usize, usize) = (100, 72);
/// What else a screen should hold beside the map's lines: its axes and legend.
const LINES_AROUND: usize = 6;

impl ShowOptions {
    /// Bytes from DRAM, where they are known.
    pub fn dram_bytes(&self) -> Option<u64> {
        self.dram.as_ref().map(|dram| dram.bytes)
    }

    /// What standard output can show; the matrix of who communicates: of bytes for ranks, of messages else.
    pub fn detect(profile: &Profile) -> Self {
        let size = terminal_size::terminal_size();
        let (width, height) = size.map_or(DEFAULT_SIZE, |(width, height)| (width.0.into(), height.0.into()));
        let height = height.saturating_sub(LINES_AROUND).max(16);
        let palette = Palette::detect();
        Self {
            weight: match default_weight(profile) {
                Weight::Transfers => Weight::Messages,
                weight => weight,
            },
            hot: false,
            top: 8,
            verbose: false,
            timeline: None,
            dram: None,
            palette,
            width,
            height,
        }
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
    let mut out = heading(profile, options);
    if profile.tasks() > 0 {
        out += &format!("\n{}", map.draw());
    }
    out += &format!("\n{}\n", palette.bold(&summary::verdict(profile, options)));
    out += &summary::advice_line(profile, options);
    out += &summary::strongest_pairs(profile, options);
    out += &ranks::time_in_mpi(profile, options);
    out += &ranks::message_sizes(profile, options);
    out += &summary::totals(profile, palette);
    out += &summary::structure(profile, options);
    if options.hot {
        out += &hot::hot(profile, options);
    }
    out + &format!("\n{}", coverage_lines(&profile.meta.coverage, options.verbose))
}

fn heading(profile: &Profile, options: &ShowOptions) -> String {
    let meta = &profile.meta;
    let command =
        if meta.command.is_empty() { String::new() } else { format!(" of {}", clean(&meta.command.join(" "))) };
    let processes: BTreeSet<_> = meta.tasks.iter().map(|task| (&task.host, task.process)).collect();
    let within = match meta.kind {
        Kind::Threads if processes.len() > 1 => format!(" in {} processes", processes.len()),
        _ => String::new(),
    };
    let title = options.palette.bold(&format!("{}{within}{command}", tasks_of(meta.kind, profile.tasks())));
    if !options.verbose {
        return format!("{title}\n");
    }
    let block = if meta.block_bytes > 0 { format!(", {}-byte blocks", meta.block_bytes) } else { String::new() };
    let made = if meta.created.is_empty() { String::new() } else { format!(", {}", clean(&meta.created)) };
    format!("{title}\nby {}{block}{made}\n", clean(&meta.detector))
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
        Weight::Transfers => profile.transfers.as_ref().unwrap_or(&profile.messages),
    }
}

fn unit(weight: Weight) -> &'static str {
    match weight {
        Weight::Messages => "messages",
        Weight::Bytes => "bytes",
        Weight::Transfers => "transfers",
    }
}

/// What rows and columns are called: memory is written and read, messages are sent and received.
pub fn axes(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Ranks => ("sender", "receiver"),
        _ => ("writer", "reader"),
    }
}

#[cfg(test)]
mod tests;
