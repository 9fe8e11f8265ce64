//! What was measured, simulated and compared besides: from the files of the commands that did.

use super::{Section, html};
use crate::command_line::shell;
use crate::comparing::outcome::Outcome;
use crate::comparing::results::Results;
use crate::comparing::table;
use crate::documents::detectors::Detectors;
use crate::documents::simulation::{PLACES, Simulation};
use crate::number::seconds;
use crate::picture::text::grouped;
use crate::plotting::{detectors, gains, simulation};
use cohabit_model::counted;

/// Width of pictures, in mm.
const WIDTH_MM: f64 = 120.0;
/// Servers of a simulation that are listed.
const MOST_SERVERS: usize = 12;

/// Files beside the profiles, each with its name.
#[derive(Default)]
pub struct Measured {
    /// What `cohabit compare` kept.
    pub comparisons: Vec<(String, Results)>,
    /// What `cohabit simulate` found.
    pub simulations: Vec<(String, Simulation)>,
    /// What `cohabit compare-detectors` found.
    pub detectors: Vec<(String, Detectors)>,
}

impl Measured {
    pub(super) fn sections(&self) -> Vec<Section> {
        let comparisons = self.comparisons.iter().enumerate().map(|(number, (path, results))| Section {
            id: format!("compare-{number}"),
            title: named("What was measured", path, self.comparisons.len()),
            html: comparison(results),
        });
        let simulations = self.simulations.iter().enumerate().map(|(number, (path, found))| Section {
            id: format!("simulate-{number}"),
            title: named("Simulated", path, self.simulations.len()),
            html: simulated(found),
        });
        let detectors = self.detectors.iter().enumerate().map(|(number, (path, found))| Section {
            id: format!("detectors-{number}"),
            title: named("Detectors compared", path, self.detectors.len()),
            html: compared(found),
        });
        comparisons.chain(simulations).chain(detectors).collect()
    }

    pub(super) fn made(&self) -> String {
        let comparisons =
            self.comparisons.iter().map(|(path, found)| ("The runs in", path, "compare", &found.arguments));
        let simulations =
            self.simulations.iter().map(|(path, found)| ("The simulation", path, "simulate", &found.arguments));
        let detectors = self
            .detectors
            .iter()
            .map(|(path, found)| ("The comparison of detectors", path, "compare-detectors", &found.arguments));
        let made = |(what, path, command, arguments): (&str, &String, &str, &Vec<String>)| {
            html::paragraph(&format!("{what} {path}:"))
                + &match arguments.is_empty() {
                    true => html::paragraph(&format!("by 'cohabit {command}' of a version that kept no command.")),
                    false => {
                        html::command(&shell(std::iter::once("cohabit").chain(arguments.iter().map(String::as_str))))
                    }
                }
        };
        comparisons.chain(simulations).chain(detectors).map(made).collect()
    }
}

fn named(title: &str, path: &str, count: usize) -> String {
    if count > 1 { format!("{title}: {path}") } else { title.to_owned() }
}

fn comparison(results: &Results) -> String {
    let outcome = Outcome::new(results, results.terms());
    let mut out = html::paragraph(table::head(&outcome).trim_end());
    if outcome.blocks == 0 {
        return out;
    }
    for (caption, rows) in
        [("Arms, each beside the first", table::values(&outcome)), ("What else was counted", table::counts(&outcome))]
    {
        let head: Vec<&str> = rows[0].iter().map(String::as_str).collect();
        out += &html::table(caption, &head, &rows[1..]);
    }
    if let Ok(svg) = gains::svg(&[(String::new(), outcome)], WIDTH_MM) {
        out += &html::picture(&svg, "change of each arm beside the first, with its interval; the table says the same");
    }
    let outcome = Outcome::new(results, results.terms());
    out + &outcome.notes.iter().map(|note| html::paragraph(note)).collect::<String>()
}

fn simulated(found: &Simulation) -> String {
    let mut out = html::paragraph(&format!(
        "{} on the machine {}, pages {}. Rankings are what is claimed, not seconds.",
        found.recording, found.machine, found.memory
    ));
    if found.sample.is_some() {
        out += &html::paragraph(
            "All of it is estimated from a sample of the run; times lie within the given interval with a probability of 95 %.",
        );
    }
    if let Ok(svg) = simulation::svg(found, WIDTH_MM) {
        out += &html::picture(&svg, "time by mapping, and where accesses were served; the table says the same");
    }
    let used: Vec<usize> =
        (0..PLACES.len()).filter(|&place| found.mappings.iter().any(|one| one.report.served()[place] > 0)).collect();
    let mut head = vec!["mapping", "time", "relative", "invalidations"];
    head.extend(used.iter().map(|&place| PLACES[place].1));
    let row = |(one, relative): (&crate::documents::simulation::Simulated, f64)| {
        let served = one.report.served();
        let mut row = vec![
            one.name.clone(),
            match one.report.sampled {
                None => seconds(one.report.time_fs as f64 / 1e15),
                Some(sampled) => format!(
                    "{} +- {}",
                    seconds(one.report.time_fs as f64 / 1e15),
                    seconds(sampled.margin_fs as f64 / 1e15)
                ),
            },
            format!("{relative:.3}"),
            grouped(one.report.total.invalidations.into()),
        ];
        row.extend(used.iter().map(|&place| grouped(served[place].into())));
        row
    };
    let rows: Vec<_> = found.mappings.iter().zip(found.relative()).map(row).collect();
    out += &html::table("Time, and accesses by where they were served", &head, &rows);
    let mut servers: Vec<Vec<String>> = Vec::new();
    for one in &found.mappings {
        let mut busiest: Vec<_> = one.report.servers.iter().filter(|server| server.requests > 0).collect();
        busiest.sort_by_key(|server| std::cmp::Reverse(server.busy_fs));
        let share = |fs: u64| 100.0 * fs as f64 / one.report.time_fs.max(1) as f64;
        servers.extend(busiest.iter().take(MOST_SERVERS).map(|server| {
            vec![
                server.name.clone(),
                one.name.clone(),
                grouped(server.requests.into()),
                format!("{:.1} %", share(server.busy_fs)),
                seconds(server.wait_fs as f64 / 1e15),
            ]
        }));
    }
    if !servers.is_empty() {
        let head = ["controller, link or bus", "mapping", "requests", "busy", "requests waited"];
        out += "<details><summary>Controllers, links and bus</summary>\n";
        out += &html::table(&format!("The {MOST_SERVERS} busiest of each mapping"), &head, &servers);
        out += "</details>\n";
    }
    out
}

fn compared(found: &Detectors) -> String {
    let mut out = html::paragraph(&format!(
        "{} of {}. Correlations are with what is exact, over all pairs.",
        counted(found.tasks, "task"),
        found.recording
    ));
    let pictured = found.matrices().and_then(|matrices| detectors::svg(&matrices, WIDTH_MM));
    out += &match pictured {
        Ok(svg) => html::picture(&svg, "each detector's matrix, writers down and readers across"),
        Err(error) => html::paragraph(&format!("No matrices: {}.", error.cause)),
    };
    let share = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let row = |one: &crate::documents::detectors::Detector| {
        vec![
            one.label(),
            format!("{:.0}", one.events),
            one.overhead.map_or("-".to_owned(), |share| format!("{:.3} %", 100.0 * share)),
            share(one.with_communication.correlation),
            share(one.with_sharing.correlation),
            one.distance_cost.map_or("-".to_owned(), |cost| format!("{cost:.0}")),
            one.simulated_ns.map_or("-".to_owned(), |time| seconds(time * 1e-9)),
            one.source.clone(),
        ]
    };
    let rows: Vec<_> = found.detectors.iter().map(row).collect();
    let head = [
        "detector",
        "events",
        "overhead",
        "with communication",
        "with sharing",
        "J of its mapping",
        "simulated",
        "source",
    ];
    out + &html::table("Detectors on one recorded run", &head, &rows)
}
