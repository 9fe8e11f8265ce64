//! An experiment's page, in Markdown: what was run and how, each statement with its outcome, the figures behind it.

use super::figures::Figure;
use super::tables::{of_arms, of_claims, of_detectors};
use cohabit_evaluate::experiment::{Experiment, Judged, Results};
use cohabit_memory::Machine;
use cohabit_model::Result;

/// What a page tells besides results.
pub struct Run<'a> {
    /// The command line.
    pub command: &'a str,
    /// When.
    pub date: &'a str,
    /// With which commit, on what, by whom: what the user says.
    pub note: Option<&'a str>,
    /// The class, and tasks of each program.
    pub class: &'a str,
    /// Tasks, in words where machines differ.
    pub tasks: &'a str,
    /// The paper's.
    pub paper_tasks: &'a str,
    /// Draws of the system's placement.
    pub draws: u32,
    /// Cells that have run, of how many.
    pub cells: [usize; 2],
    /// By program: how much smaller the working set and the run are than in the paper, and bytes of last caches
    /// (machine, as they are, scaled).
    pub scales: Vec<(String, f64, f64, Vec<CacheSizes>)>,
}

/// Bytes of a machine's last caches.
pub struct CacheSizes {
    /// The machine.
    pub machine: String,
    /// As they are, and scaled.
    pub bytes: [u64; 2],
}

/// The sizes of a machine's last caches where the working set is so much smaller.
///
/// # Errors
/// There is no such machine.
pub fn cache_sizes(machine: &str, factor: f64) -> Result<CacheSizes> {
    let loaded = Machine::load(machine)?;
    let scaled = loaded.with_last_caches_smaller_by(factor);
    Ok(CacheSizes { machine: machine.to_owned(), bytes: [&loaded, &scaled].map(Machine::last_cache_bytes) })
}

/// The page.
pub fn markdown(
    experiment: &Experiment,
    results: &Results,
    judged: &[Judged],
    run: &Run,
    figures: &[Figure],
) -> String {
    let detectors: Vec<&str> = cohabit_detect::DETECTORS.iter().map(|row| row.name).collect();
    let mut page = format!("# {}: {}\n\n", experiment.name, experiment.about);
    page += &format!("Source: {}. Made by\n\n    {}\n\n", experiment.paper, run.command);
    let note = run.note.map(|note| format!(" ({note})")).unwrap_or_default();
    page += &format!("on {}{note}: {} of {} cells.\n\n", run.date, run.cells[0], run.cells[1]);
    let is_scaled = results.places().any(|place| place.scaled);
    page += &method(experiment, run, is_scaled);
    page += &format!("## What came out\n\nA change counts where it is more than {} %. ", experiment.floor_percent);
    page += "Directions are judged, sizes shown.\n\n";
    page += &of_claims(judged).markdown();
    page += "\n## Placements\n\nWhat is one value has no spread: a simulated run repeats itself to the bit.\n\n";
    for table in of_arms(experiment, results) {
        page += &(table.markdown() + "\n");
    }
    let detectors = of_detectors(experiment, results, &detectors);
    if !detectors.is_empty() {
        page += "## Detectors\n\n`neighbours` and `distant` are over the mean of all pairs (1: like all others), `variation` is the standard\n\
                 deviation of all pairs over their mean (0: homogeneous).\n\n";
        for table in detectors {
            page += &(table.markdown() + "\n");
        }
    }
    if !figures.is_empty() {
        page += "## Patterns\n\n";
        for figure in figures {
            page += &format!("![{}]({})\n", figure.about, figure.file);
        }
        page.push('\n');
    }
    page.trim_end().to_owned() + "\n"
}

/// How it was done; `is_scaled`: with scaled caches, too.
fn method(experiment: &Experiment, run: &Run, is_scaled: bool) -> String {
    let mut text = format!(
        "## How\n\n{} tasks, class {} (the paper: {} tasks, class {}). Simulated (docs/simulator.md): directions are what is claimed.\n\n",
        run.tasks, run.class, run.paper_tasks, experiment.class
    );
    text += &format!(
        "- **The system's placement** is drawn: balanced over the machine, at most {} draws; {} migrations a second of the paper's run\n  \
         (an exchange of two PUs, or a move to an idle core), as many in a run here.\n",
        run.draws, experiment.system.migrations_per_s
    );
    if is_scaled {
        text += "- **Scaled** last caches are smaller by what the working set is smaller than in the paper's class, and never smaller than\n  \
                 twice what the caches below hold. Both are shown.\n";
    }
    text += "- **Detection** is in one run under the system's placement: accesses as recorded, in turns; a cycle is what that run took.\n  \
             Intervals are divided by what the run is shorter than the paper's (size and iterations).\n\n";
    let scaled: Vec<_> = run.scales.iter().filter(|(_, size, time, _)| *size > 1.0 || *time > 1.0).collect();
    if !scaled.is_empty() {
        let caches = if is_scaled { "last caches: as they are, scaled" } else { "last caches" };
        text += &format!("| program | working set smaller by | run shorter by | {caches} |\n|---|---|---|---|\n");
        for (program, size, time, caches) in scaled {
            let kib = |bytes: u64| format!("{} KiB", bytes / 1024);
            let caches: Vec<_> = caches
                .iter()
                .map(|one| match is_scaled {
                    true => format!("{} {}, {}", one.machine, kib(one.bytes[0]), kib(one.bytes[1])),
                    false => format!("{} {}", one.machine, kib(one.bytes[0])),
                })
                .collect();
            text += &format!("| {program} | {size:.1} | {time:.1} | {} |\n", caches.join("; "));
        }
        text.push('\n');
    }
    text
}
