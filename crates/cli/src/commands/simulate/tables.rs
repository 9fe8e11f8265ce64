//! What `cohabit simulate` prints.

use super::Simulated;
use crate::number;
use crate::output::is_verbose;
use cohabit_access::Recording;
use cohabit_memory::Machine;
use cohabit_memory::report::TaskReport;

/// The table of all mappings; with `--verbose` one of each mapping's tasks.
pub(super) fn text(name: &str, machine: &Machine, recording: &dyn Recording, simulated: &[Simulated]) -> String {
    let mut text = format!("{name}: {}; {} tasks\n\n", machine.about, recording.tasks().len());
    let width = simulated.iter().map(|one| one.name.chars().count()).max().unwrap_or(0).max("mapping".len());
    let levels = machine.levels.len() as u8;
    let misses: String = (2..=levels).map(|level| format!("  {:>12}", format!("L{level} misses"))).collect();
    text += &format!(
        "{:<width$}  {:>9}  {:>8}  {:>5}{misses}  {:>13}  {:>14}  {:>10}\n",
        "mapping", "time", "relative", "IPC", "invalidations", "cache-to-cache", "remote"
    );
    let first = simulated.first().map_or(0, |one| one.report.time_fs).max(1);
    for one in simulated {
        let report = &one.report;
        let misses: String = (2..=levels).map(|level| format!("  {:>12}", report.misses(level))).collect();
        text += &format!(
            "{:<width$}  {:>9}  {:>8.3}  {:>5.2}{misses}  {:>13}  {:>14}  {:>10}\n",
            one.name,
            number::seconds(report.time_fs as f64 / 1e15),
            report.time_fs as f64 / first as f64,
            report.total.instructions_per_cycle,
            report.total.invalidations,
            report.cache_to_cache(),
            report.remote(),
        );
    }
    if is_verbose() {
        text += &tasks(simulated);
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
