//! `show --time`: events over time, the parts of the run that are told apart, and a matrix of each.

use super::summary::heading;
use super::{ShowOptions, axes, heading as title, matrix, name_beside_id, unit};
use crate::number;
use crate::picture::events::{Events, SVG_COLUMNS, letter};
use crate::picture::heatmap::HeatMap;
use crate::picture::label::size;
use crate::picture::palette::Palette;
use crate::picture::text::{clean, short};
use crate::words::noun;
use cohabit_model::mapping::Weight;
use cohabit_model::series::Window;
use cohabit_model::timeline::{By, Group, groups};
use cohabit_model::{Matrix, Period, Profile, Timeline};
use serde_json::{Value, json};

/// Lines of the picture.
const LINES: usize = 10;
/// Lines of a part's matrix.
const MATRIX_LINES: usize = 18;

/// The whole text.
pub fn time(profile: &Profile, timeline: &Timeline, options: &ShowOptions) -> String {
    let palette = options.palette;
    let mut out = title(profile, options);
    let window = number::windows(timeline.window, 1.0);
    out +=
        &heading(&format!("events over time (profiled in windows of {window}; a column is one or several)"), palette);
    out += &Events::new(profile, timeline, Events::columns(options.width)).draw(palette, LINES);
    if !profile.meta.clock.is_empty() {
        let of = if profile.meta.window_instructions > 0 { "windows" } else { "time" };
        out += &format!("  {of}: {}\n", clean(&profile.meta.clock));
    }
    let parts = Parts::new(profile, timeline, options.weight);
    out += &parts.table(profile, options);
    let mut shown: Vec<usize> = parts.groups.iter().take(options.top).map(|group| group.period).collect();
    shown.sort_unstable();
    let names: Vec<String> = profile.meta.tasks.iter().map(name_beside_id).collect();
    let (rows, columns) = axes(profile.meta.kind);
    for part in shown {
        out += &heading(&format!("{} {}", what(timeline.by), parts.name(part)), palette);
        let matrix = of(&timeline.periods[part], options.weight);
        let (width, height, unit) = (options.width, options.height.min(MATRIX_LINES), unit(options.weight));
        out += &HeatMap { matrix, names: &names, rows, columns, unit, palette, width, height }.draw();
    }
    out
}

/// Events over time as a picture.
pub fn svg(profile: &Profile, timeline: &Timeline) -> String {
    let title = format!("{} ({} {}s)", profile.meta.command.join(" "), timeline.periods.len(), what(timeline.by));
    Events::new(profile, timeline, SVG_COLUMNS).svg(&title)
}

/// The same for programs.
pub fn document(profile: &Profile, timeline: &Timeline) -> Value {
    let parts = Parts::new(profile, timeline, Weight::Messages);
    let period = |(at, period): (usize, &Period)| {
        let group = parts.groups.iter().find(|group| group.period == at);
        json!({
            "number": period.number,
            "spans": period.spans.iter().map(|span| [span.start, span.end]).collect::<Vec<_>>(),
            "messages": number::sum(period.messages.total()), "bytes": number::sum(period.bytes.total()),
            "tasks": group.map_or(0, |group| group.tasks), "load": group.map(|group| group.load(parts.all)),
        })
    };
    let mut document = json!({
        "by": timeline.by, "window_ns": 0,
        "parts": timeline.periods.iter().enumerate().map(period).collect::<Vec<_>>(),
    });
    put_window(&mut document, timeline.window);
    document
}

/// The window of a series under the keys that it has in a profile's `meta`.
pub fn put_window(document: &mut Value, window: Window) {
    match window {
        Window::Time(ns) => document["window_ns"] = ns.into(),
        Window::Instructions(instructions) => document["window_instructions"] = instructions.into(),
    }
}

/// What a part is called.
pub fn what(by: By) -> &'static str {
    match by {
        By::Markers | By::Calls => "phase",
        By::Clusters => "cluster",
        By::Recurring => "pattern",
    }
}

/// The number that the program or a mapping gives a part, else one from 1 on.
pub fn name(timeline: &Timeline, part: usize) -> String {
    match timeline.by {
        By::Markers | By::Calls => timeline.periods[part].number.to_string(),
        By::Clusters | By::Recurring => (part + 1).to_string(),
    }
}

fn of(period: &Period, weight: Weight) -> &Matrix {
    if weight == Weight::Bytes { &period.bytes } else { &period.messages }
}

/// The parts with their groups.
struct Parts<'a> {
    timeline: &'a Timeline,
    groups: Vec<Group>,
    /// What all groups exchange.
    all: u128,
    /// Windows from the beginning to the last one with events.
    windows: f64,
}

impl<'a> Parts<'a> {
    fn new(profile: &Profile, timeline: &'a Timeline, weight: Weight) -> Self {
        let groups = groups(timeline.periods.iter().map(|period| of(period, weight)));
        let all = groups.iter().map(|group| group.total).sum();
        let windows = profile.series.last().map_or(1.0, |row| row.bin as f64 + 1.0);
        Self { timeline, groups, all, windows }
    }

    fn name(&self, part: usize) -> String {
        name(self.timeline, part)
    }

    /// A line a part: when, how long, how much, and the pair that communicates most in it.
    fn table(&self, profile: &Profile, options: &ShowOptions) -> String {
        let palette = options.palette;
        let [_, several] = noun(profile.meta.kind);
        let by = what(self.timeline.by);
        let left_out = matrix(profile, options.weight).total().saturating_sub(self.all);
        let count = self.timeline.periods.len();
        let plural = if count == 1 { "" } else { "s" };
        let mut out = heading(&format!("{count} {by}{plural} (Lc: its part of all {})", unit(options.weight)), palette);
        let head = format!(
            "  {by:<9} {:<21} {:>6} {:>8} {:>9} {several:>8} {:>7}",
            "from - to", "time", "messages", "bytes", "Lc"
        );
        out += &palette.dim(&format!("{head}  heaviest pair (Wp)"));
        out.push('\n');
        let percent = |part: f64, whole: f64| format!("{:.1} %", if whole > 0.0 { 100.0 * part / whole } else { 0.0 });
        for (part, period) in self.timeline.periods.iter().enumerate() {
            let windows: u64 = period.spans.iter().map(|span| span.end - span.start).sum();
            let at = |bin: u64| number::windows(self.timeline.window, bin as f64);
            let when = match &period.spans[..] {
                [span] => format!("{} - {}", at(span.start), at(span.end)),
                spans => format!("from {}, {} times", at(spans[0].start), spans.len()),
            };
            let group = self.groups.iter().find(|group| group.period == part);
            let heaviest = group.map_or(String::new(), |group| {
                let (a, b, _) = group.pairs[0];
                format!("{a} - {b} ({})", percent(group.pair_load(0, self.all), 1.0))
            });
            let mark = if palette == Palette::Ascii { letter(part) } else { '█' };
            out += &format!(
                "  {}{mark}{} {:<7} {when:<21} {:>6} {:>8} {:>9} {:>8} {:>7}  {heaviest}\n",
                palette.category(Some(part)),
                palette.reset(),
                self.name(part),
                percent(windows as f64, self.windows),
                short(period.messages.total()),
                size(u64::try_from(period.bytes.total()).unwrap_or(u64::MAX)),
                group.map_or(0, |group| group.tasks),
                percent(group.map_or(0.0, |group| group.load(self.all)), 1.0),
            );
        }
        if left_out > 0 {
            out += &format!("  {} {} are in none of them\n", short(left_out), unit(options.weight));
        }
        out
    }
}
