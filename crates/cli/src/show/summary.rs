//! Totals, the strongest pairs, and how structured the pattern is.

use super::{ShowOptions, axes, matrix, name_beside_id, unit};
use crate::picture::label::size;
use crate::picture::palette::Palette;
use crate::picture::text::{clean, fit, grouped, short, width};
use crate::words::noun;
use cohabit_evaluate::verdict::{LITTLE, advised};
use cohabit_model::metrics::advice::Advice;
use cohabit_model::metrics::table::{Known, METRICS, Metric, NO_COUNTER};
use cohabit_model::metrics::{Structure, metrics};
use cohabit_model::{Matrix, Profile};

/// Columns of the figures' names.
const NAME: usize = 28;
/// Columns of figures that are explained.
const VALUE: usize = 9;

/// Messages, bytes, invalidations, and what each task accessed.
pub fn totals(profile: &Profile, palette: Palette) -> String {
    let [one, _] = noun(profile.meta.kind);
    let mut out = heading("totals", palette);
    let of_memory = profile.meta.detector == "dbi" && profile.meta.block_bytes > 0;
    let what = format!("first reads of what another wrote, in {}-byte blocks", profile.meta.block_bytes);
    out += &explained("messages", &grouped(profile.messages.total()), if of_memory { &what } else { "" });
    out += &figure("bytes", &bytes(profile.bytes.total()));
    let known = |name: &str, matrix: &Option<Matrix>, what: &str| {
        matrix.as_ref().map_or(String::new(), |matrix| explained(name, &grouped(matrix.total()), what))
    };
    out += &phases(profile);
    out += &known("invalidations", &profile.invalidations, "copies that a write made stale");
    out += &known("sharing", &profile.sharing, "blocks that two touched at about the same time");
    out += &spread(&format!("accessed by a {one}"), &profile.accessed_bytes, bytes);
    if profile.polled_bytes.iter().any(|&bytes| bytes > 0) {
        out += &spread("  of it while it waits", &profile.polled_bytes, bytes);
    }
    out += &spread(&format!("loads of a {one}"), &profile.loads, short);
    out + &spread(&format!("stores of a {one}"), &profile.stores, short)
}

/// The pairs of tasks that communicate most, both directions told apart.
pub fn strongest_pairs(profile: &Profile, options: &ShowOptions) -> String {
    let matrix = matrix(profile, options.weight);
    let total = matrix.between();
    let mut entries: Vec<_> = matrix.iter().filter(|entry| entry.0 != entry.1).collect();
    if entries.is_empty() || options.top == 0 {
        return String::new();
    }
    entries.sort_unstable_by_key(|&(source, destination, value)| (std::cmp::Reverse(value), source, destination));
    entries.truncate(options.top);
    let (rows, columns) = axes(profile.meta.kind);
    let [one, _] = noun(profile.meta.kind);
    let name = |task: u32| {
        let name = name_beside_id(&profile.meta.tasks[task as usize]);
        if name.is_empty() { format!("{one} {task}") } else { format!("{task} {name}") }
    };
    let longest = entries.iter().flat_map(|entry| [width(&name(entry.0)), width(&name(entry.1))]).max().unwrap_or(0);
    let column = longest.min(24);
    let title = format!("strongest pairs ({rows} -> {columns}, {}, share of all)", unit(options.weight));
    let mut out = heading(&title, options.palette);
    for (source, destination, value) in entries {
        let share = 100.0 * value as f64 / total as f64;
        let (source, destination) = (fit(&name(source), column), fit(&name(destination), column));
        out += &format!("  {source} -> {destination}  {:>7}  {share:5.1} %\n", short(value.into()));
    }
    out
}

/// The metrics, each with what it says; nothing where nothing is communicated, of which they say nothing.
pub fn structure(profile: &Profile, options: &ShowOptions) -> String {
    let metrics = metrics(matrix(profile, options.weight));
    if metrics.total == 0 {
        return String::new();
    }
    let [one, several] = noun(profile.meta.kind);
    let unit = unit(options.weight);
    let mut out = heading(&format!("structure (of {unit})"), options.palette);
    let possible = metrics.tasks as u64 * (metrics.tasks as u64).saturating_sub(1) / 2;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    out += &figure(
        "pairs that communicate",
        &format!("{} of {}", grouped(metrics.pairs.into()), grouped(possible.into())),
    );
    let mut row = |name: &str, value: &str, what: &str| out += &explained(name, value, what);
    row(
        &format!("partners of a {one}"),
        &format!("{:.1}", metrics.effective_partners),
        &format!("others it communicates with; few {unit} count less"),
    );
    row(
        "with neighbours in number",
        &percent(metrics.neighbour_share),
        &format!("of all {unit} are between k and k + 1, or first and last"),
    );
    row(&format!("imbalance of the {several}"), &percent(metrics.imbalance), "how far the busiest is above the mean");
    let known = Known { profile, timeline: options.timeline.as_ref(), dram_bytes: options.dram_bytes() };
    let simulated = options.dram.as_ref().map(|dram| format!("; simulated: {}", clean(&dram.source)));
    for metric in METRICS {
        let source = simulated.as_deref().filter(|_| metric.key == "dram_to_memory").unwrap_or_default();
        out += &of_table(metric, &known, source);
    }
    out
}

/// A row of the table of metrics: its value and where that comes from, or why it is not known.
fn of_table(metric: &Metric, known: &Known, source: &str) -> String {
    let name = format!("{} ({})", metric.name, metric.symbol);
    match (metric.value)(known) {
        Ok(value) => explained(&name, &value_of(metric, value), &format!("{}{source}", metric.says)),
        Err(reason) => explained(&name, "unknown", &reason_of(reason, "--simulated")),
    }
}

/// Why a metric is not known, with the option that takes a simulation which has it.
pub fn reason_of(reason: &str, option: &str) -> String {
    match reason {
        NO_COUNTER => format!("{reason} (a simulation has it: {option})"),
        _ => reason.to_owned(),
    }
}

/// A metric's value for people.
pub fn value_of(metric: &Metric, value: f64) -> String {
    match (metric.unit, metric.key) {
        ("bytes", _) => bytes(value as u128),
        (_, "locality") => format!("{value:.3}"),
        _ => format!("{:.2} %", 100.0 * value),
    }
}

/// What the metrics come to, in a sentence.
pub fn verdict(profile: &Profile, options: &ShowOptions) -> String {
    let noun = noun(profile.meta.kind);
    if profile.tasks() == 1 {
        return format!("there is only one {}: no placement can help", noun[0]);
    }
    let structure = metrics(matrix(profile, options.weight)).structure();
    if advice(profile, options) == Advice::Nothing
        && structure != Structure::Silent
        && profile.meta.unseen_channels.is_empty()
    {
        return format!("{LITTLE}: no placement can help, whichever {} communicate", noun[1]);
    }
    if advice(profile, options) == Advice::Congestion && !structure.can_gain() {
        return "all pairs communicate alike: it matters how many are together, and not which".to_owned();
    }
    structure.sentence_beside(noun, &profile.meta.unseen_channels)
}

/// What the metrics advise.
pub fn advice(profile: &Profile, options: &ShowOptions) -> Advice {
    advised(profile, options.timeline.as_ref(), matrix(profile, options.weight), options.dram_bytes())
}

/// The advice where it says more than the verdict.
pub fn advice_line(profile: &Profile, options: &ShowOptions) -> String {
    match advice(profile, options) {
        Advice::Nothing | Advice::Locality | Advice::Together => String::new(),
        advice => format!("{}\n", options.palette.bold(&clean(&advice.sentence()))),
    }
}

/// How many phases are told apart.
fn phases(profile: &Profile) -> String {
    let phases = profile.phase_totals();
    let Some(most) = phases.iter().map(|phase| phase.1).max() else { return String::new() };
    let share = 100.0 * most as f64 / (profile.bytes.total() as f64).max(1.0);
    figure("phases", &format!("{}, the heaviest with {share:.0} % of the bytes", phases.len()))
}

/// The heading of a part.
pub fn heading(text: &str, palette: Palette) -> String {
    format!("\n{}\n", palette.bold(text))
}

fn figure(name: &str, value: &str) -> String {
    format!("  {name:<NAME$}{value}\n")
}

/// With what it says, where that is told.
fn explained(name: &str, value: &str, what: &str) -> String {
    let name = if name.chars().count() < NAME { name.to_owned() } else { format!("{name} ") };
    let line = format!("  {name:<NAME$}{value:<VALUE$} {what}");
    format!("{}\n", line.trim_end())
}

fn spread(name: &str, values: &[u64], print: impl Fn(u128) -> String) -> String {
    let mut sorted: Vec<u64> = values.to_vec();
    sorted.sort_unstable();
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return String::new() };
    let [lower, median, upper] = [*least, sorted[sorted.len() / 2], *most].map(|value| print(value.into()));
    let all = if least == most { lower } else { format!("{lower} to {upper}, median {median}") };
    figure(name, &all)
}

fn bytes(value: u128) -> String {
    size(u64::try_from(value).unwrap_or(u64::MAX))
}
