//! What `cohabit simulate` prints.

use super::Simulated;
use crate::number;
use crate::output::is_verbose;
use cohabit_access::Recording;
use cohabit_memory::Machine;
use cohabit_memory::report::{ByCopies, LevelMisses, TaskReport};
use cohabit_memory::sample::Sample;
use cohabit_model::counted;

/// The table of all mappings; with `--verbose` one of each mapping's tasks.
pub(super) fn text(
    name: &str,
    machine: &Machine,
    recording: &dyn Recording,
    simulated: &[Simulated],
    sample: Option<&Sample>,
) -> String {
    let mut text = format!("{name}: {}; {}\n", machine.about, counted(recording.tasks().len(), "task"));
    if let Some(sample) = sample {
        text += &format!(
            "estimated: {} of {} intervals of the run were measured, and {:.1} % of its accesses simulated; times lie within \
             the interval that is given with a probability of 95 %\n",
            sample.measured(),
            sample.intervals(),
            100.0 * sample.share()
        );
    }
    text += "\n";
    let width = simulated.iter().map(|one| one.name.chars().count()).max().unwrap_or(0).max("mapping".len());
    let levels = machine.levels.len() as u8;
    let misses: String = (2..=levels).map(|level| format!("  {:>12}", format!("L{level} misses"))).collect();
    let margin = if sample.is_some() { format!("  {:>8}", "+-") } else { String::new() };
    text += &format!(
        "{:<width$}  {:>9}{margin}  {:>8}{margin}  {:>5}{misses}  {:>13}  {:>14}  {:>10}\n",
        "mapping", "time", "relative", "IPC", "invalidations", "cache-to-cache", "remote"
    );
    let first = simulated.first().map_or(0, |one| one.report.time_fs).max(1);
    for one in simulated {
        let report = &one.report;
        let misses: String = (2..=levels).map(|level| format!("  {:>12}", report.misses(level))).collect();
        let [of_time, of_ratio] = margins(one, &simulated[0], sample);
        text += &format!(
            "{:<width$}  {:>9}{of_time}  {:>8.3}{of_ratio}  {:>5.2}{misses}  {:>13}  {:>14}  {:>10}\n",
            one.name,
            number::seconds(report.time_fs as f64 / 1e15),
            report.time_fs as f64 / first as f64,
            report.total.instructions_per_cycle,
            report.total.invalidations,
            report.cache_to_cache(),
            report.remote(),
        );
    }
    text += &kinds(simulated);
    text += &moved(simulated);
    if is_verbose() {
        text += &tasks(simulated);
    }
    text
}

/// Half the interval of a time, and of what it is relative to the first one's; nothing where all was simulated.
fn margins(one: &Simulated, first: &Simulated, sample: Option<&Sample>) -> [String; 2] {
    let (Some(sample), Some(sampled), Some(of_first)) = (sample, &one.report.sampled, &first.report.sampled) else {
        return [String::new(), String::new()];
    };
    let of_time = 100.0 * sampled.margin_fs as f64 / one.report.time_fs.max(1) as f64;
    let of_ratio = sample.difference(sampled, of_first).margin;
    [format!("  {:>8}", format!("{of_time:.1} %")), format!("  {of_ratio:>8.3}")]
}

/// Misses of all tasks by kind, of each level and of the first TLBs; nothing where that was not found out.
fn kinds(simulated: &[Simulated]) -> String {
    let rows: Vec<(&str, String, Option<LevelMisses>, ByCopies)> = simulated.iter().flat_map(rows_of).collect();
    if rows.is_empty() {
        return String::new();
    }
    let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0).max("misses of".len());
    let mut text = format!(
        "\n{:<width$}  {:<8}  {:>11}  {:>11}  {:>11}  {:>11}  {:>12}  {:>11}  {:>11}\n",
        "misses of", "in", "compulsory", "capacity", "conflict", "coherence", "invalidation", "capacity", "replication"
    );
    for (name, place, misses, by) in rows {
        let kinds =
            misses.map(|one| [one.compulsory, one.capacity, one.conflict, one.coherence].map(|n| n.to_string()));
        let [compulsory, capacity, conflict, coherence] = kinds.unwrap_or_else(|| ["-"; 4].map(str::to_owned));
        text += &format!(
            "{name:<width$}  {place:<8}  {compulsory:>11}  {capacity:>11}  {conflict:>11}  {coherence:>11}  {:>12}  {:>11}  {:>11}\n",
            by.invalidation, by.capacity, by.replication
        );
    }
    text
}

/// A row a level, and one for each kind of TLB that missed.
fn rows_of(one: &Simulated) -> Vec<(&str, String, Option<LevelMisses>, ByCopies)> {
    let total = &one.report.total;
    let level =
        |misses: &LevelMisses| (one.name.as_str(), format!("L{}", misses.level), Some(*misses), misses.by_copies);
    let tlb = |(place, by): (&str, ByCopies)| (one.name.as_str(), place.to_owned(), None, by);
    let tlbs = [("data TLB", total.data_tlb), ("code TLB", total.code_tlb)];
    let found = tlbs.into_iter().filter(|(_, by)| by.total() > 0);
    total.misses.iter().map(level).chain(found.map(tlb)).collect()
}

/// Pages that were moved while the programs ran; nothing where none was sampled.
fn moved(simulated: &[Simulated]) -> String {
    if simulated.iter().all(|one| one.report.total.hint_faults == 0) {
        return String::new();
    }
    let width = simulated.iter().map(|one| one.name.chars().count()).max().unwrap_or(0).max("pages of".len());
    let mut text =
        format!("\n{:<width$}  {:>11}  {:>12}  {:>11}\n", "pages of", "first touch", "hint faults", "migrations");
    for one in simulated {
        let total = &one.report.total;
        text += &format!(
            "{:<width$}  {:>11}  {:>12}  {:>11}\n",
            one.name, total.first_touches, total.hint_faults, total.page_migrations
        );
    }
    text
}

/// Tasks one by one. Time from the start to a task's end; IPC and loads that missed the L1 while it ran.
fn tasks(simulated: &[Simulated]) -> String {
    let mut text = String::new();
    for one in simulated {
        let width = one.report.tasks.iter().map(|task| task.name.chars().count()).max().unwrap_or(0).max("task".len());
        text += &format!(
            "\n{}\n{:<width$}  {:>4}  {:>9}  {:>9}  {:>5}  {:>12}  {:>14}\n",
            one.name, "task", "PU", "time", "ran", "IPC", "loads missed", "mean load (ns)"
        );
        for task in &one.report.tasks {
            let missed: u64 = task.load_latency.iter().sum();
            text += &format!(
                "{:<width$}  {:>4}  {:>9}  {:>9}  {:>5.2}  {missed:>12}  {:>14}\n",
                task.name,
                task.pu,
                number::seconds(task.end_fs as f64 / 1e15),
                number::seconds(task.running_fs as f64 / 1e15),
                task.instructions_per_cycle,
                mean_latency_ns(task).map_or("-".to_owned(), |ns| format!("{ns:.1}")),
            );
        }
    }
    text
}

/// What a load that missed the L1 took in the mean; none where none did.
fn mean_latency_ns(task: &TaskReport) -> Option<f64> {
    let missed: u64 = task.load_latency.iter().sum();
    (missed > 0).then(|| task.load_latency_fs as f64 / 1e6 / missed as f64)
}
