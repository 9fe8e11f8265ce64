//! Totals, the strongest pairs, and how structured the pattern is.

use super::{ShowOptions, axes, matrix, name_beside_id, unit};
use crate::picture::label::size;
use crate::picture::palette::Palette;
use crate::picture::text::{fit, grouped, short, width};
use cohabit_model::metrics::{communication_to_memory, metrics};
use cohabit_model::{Matrix, Profile};

/// Columns of the figures' names.
const NAME: usize = 26;

/// Messages, bytes, invalidations, and what each task accessed.
pub fn totals(profile: &Profile, palette: Palette) -> String {
    let mut out = heading("totals", palette);
    out += &figure("messages", &grouped(profile.messages.total()));
    out += &figure("bytes", &bytes(profile.bytes.total()));
    let known = |name: &str, matrix: &Option<Matrix>| {
        matrix.as_ref().map_or(String::new(), |matrix| figure(name, &grouped(matrix.total())))
    };
    out += &phases(profile);
    out += &known("invalidations", &profile.invalidations);
    out += &known("sharing", &profile.sharing);
    out += &spread("accessed by a task", &profile.accessed_bytes, bytes);
    out += &spread("loads of a task", &profile.loads, short);
    out + &spread("stores of a task", &profile.stores, short)
}

/// The pairs of tasks that communicate most, both directions told apart.
pub fn strongest_pairs(profile: &Profile, options: &ShowOptions) -> String {
    let matrix = matrix(profile, options.weight);
    let total = matrix.total();
    let mut entries: Vec<_> = matrix.iter().filter(|entry| entry.0 != entry.1).collect();
    if entries.is_empty() || options.top == 0 {
        return String::new();
    }
    entries.sort_unstable_by_key(|&(source, destination, value)| (std::cmp::Reverse(value), source, destination));
    entries.truncate(options.top);
    let (rows, columns) = axes(profile.meta.kind);
    let name = |task: u32| {
        let name = name_beside_id(&profile.meta.tasks[task as usize]);
        if name.is_empty() { format!("task {task}") } else { format!("{task} {name}") }
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

/// The metrics and the verdict.
pub fn structure(profile: &Profile, options: &ShowOptions) -> String {
    let metrics = metrics(matrix(profile, options.weight));
    let mut out = heading(&format!("structure (of {})", unit(options.weight)), options.palette);
    let possible = metrics.tasks as u64 * (metrics.tasks as u64).saturating_sub(1) / 2;
    out += &figure(
        "pairs that communicate",
        &format!("{} of {}", grouped(metrics.pairs.into()), grouped(possible.into())),
    );
    out += &figure("partners of a task", &format!("{:.1} effectively", metrics.effective_partners));
    out += &figure("with neighbours in number", &format!("{:.0} % of all", 100.0 * metrics.neighbour_share));
    out += &figure("locality (CommLoc)", &format!("{:.3}   0: all pairs alike", metrics.locality));
    out += &figure("imbalance of the tasks", &format!("{:.0} %   largest over mean volume", 100.0 * metrics.imbalance));
    if let Some(ratio) = communication_to_memory(profile) {
        out += &figure("communication to memory", &format!("{:.2} % of all bytes accessed (CommR)", 100.0 * ratio));
    }
    out + &format!(
        "\n{}\n",
        options.palette.bold(&metrics.structure().sentence_beside(&profile.meta.unseen_channels()))
    )
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

fn spread(name: &str, values: &[u64], print: impl Fn(u128) -> String) -> String {
    let mut sorted: Vec<u64> = values.to_vec();
    sorted.sort_unstable();
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return String::new() };
    let [least, median, most] = [*least, sorted[sorted.len() / 2], *most].map(|value| print(value.into()));
    figure(name, &format!("{least} to {most}, median {median}"))
}

fn bytes(value: u128) -> String {
    size(u64::try_from(value).unwrap_or(u64::MAX))
}
