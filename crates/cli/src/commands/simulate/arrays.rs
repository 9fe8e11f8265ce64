//! What `cohabit simulate -o` writes: all counts of all mappings as arrays (docs/simulator.md).

use super::Simulated;
use cohabit_formats::npz::{Counts, write_arrays};
use cohabit_memory::Report;
use cohabit_memory::report::{LevelMisses, Served, ServedCounts, TaskReport};
use cohabit_memory::series::{Series, ServerSeries};
use cohabit_model::Result;
use serde_json::{Value, json};
use std::path::Path;

/// A count of a task by its name.
type OfTask = (&'static str, fn(&TaskReport) -> u64);

/// Counts of a server over time by their name.
type OfServer = (&'static str, fn(&ServerSeries) -> &[u64]);

/// Counts of each task that are one number.
const OF_TASKS: [OfTask; 12] = [
    ("end_fs", |task| task.end_fs),
    ("running_fs", |task| task.running_fs),
    ("stalled_fs", |task| task.stalled_fs),
    ("waiting_fs", |task| task.waiting_fs),
    ("instructions", |task| task.instructions),
    ("load_latency_fs", |task| task.load_latency_fs),
    ("invalidations", |task| task.invalidations),
    ("data_tlb_misses", |task| task.data_tlb_misses),
    ("page_walks", |task| task.page_walks),
    ("first_touches", |task| task.first_touches),
    ("hint_faults", |task| task.hint_faults),
    ("page_migrations", |task| task.page_migrations),
];

/// Writes the file. `fields` are those of `--json` that say what was simulated.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn write(path: &Path, fields: &Value, simulated: &[Simulated]) -> Result<()> {
    let first = simulated.first().map(|one| &one.report);
    let names = |names: Vec<&str>| json!(names);
    let meta = json!({
        "format": 1,
        "kind": "simulation",
        "recording": fields["recording"],
        "machine": fields["machine"],
        "memory": fields["memory"],
        "mappings": names(simulated.iter().map(|one| one.name.as_str()).collect()),
        "tasks": names(first.map_or(Vec::new(), |report| report.tasks.iter().map(|task| task.name.as_str()).collect())),
        "places": names(Served::ALL.iter().map(|served| served.key()).collect()),
        "servers": names(first.map_or(Vec::new(), |report| report.servers.iter().map(|one| one.name.as_str()).collect())),
        "window_fs": first.and_then(|report| report.series.as_ref()).map(|series| series.window_fs),
    });
    write_arrays(path, meta.to_string().as_bytes(), &arrays(simulated))
}

/// All arrays. The first dimension is mappings.
fn arrays(simulated: &[Simulated]) -> Vec<Counts> {
    let reports: Vec<&Report> = simulated.iter().map(|one| &one.report).collect();
    let (mappings, tasks) = (reports.len(), reports.first().map_or(0, |report| report.tasks.len()));
    let servers = reports.first().map_or(0, |report| report.servers.len());
    let each = || reports.iter().flat_map(|report| &report.tasks);
    let mut arrays = vec![
        array("time_fs", &[mappings], reports.iter().map(|report| report.time_fs)),
        array("pus", &[mappings, tasks], simulated.iter().flat_map(|one| one.placement.iter().map(|&pu| pu as u64))),
    ];
    for (name, count) in OF_TASKS {
        arrays.push(array(name, &[mappings, tasks], each().map(count)));
    }
    let places = Served::ALL.len();
    let of = |mut counts: ServedCounts| Served::ALL.map(|served| *counts.at(served));
    arrays.push(array("loads_served", &[mappings, tasks, places], each().flat_map(|task| of(task.loads_served))));
    arrays.push(array("stores_served", &[mappings, tasks, places], each().flat_map(|task| of(task.stores_served))));
    let latency = each().flat_map(|task| task.load_latency_by_place.0.as_flattened().iter().copied());
    arrays.push(array("load_latency", &[mappings, tasks, places, 16], latency));
    let levels = reports.first().map_or(0, |report| report.total.misses.len());
    if levels > 0 {
        // A task that never missed its L1 has none of any level.
        let misses =
            |task: &TaskReport| (0..levels).map(|level| task.misses.get(level).copied().unwrap_or_default()).collect();
        let of_levels = |kinds: fn(LevelMisses) -> Vec<u64>| {
            each().flat_map(|task| -> Vec<LevelMisses> { misses(task) }).flat_map(kinds).collect::<Vec<_>>()
        };
        let kinds = of_levels(|misses| vec![misses.compulsory, misses.capacity, misses.conflict, misses.coherence]);
        arrays.push(array("misses", &[mappings, tasks, levels, 4], kinds));
        let copies = of_levels(|misses| {
            let by = misses.by_copies;
            vec![by.invalidation, by.capacity, by.replication]
        });
        arrays.push(array("misses_by_copies", &[mappings, tasks, levels, 3], copies));
    }
    let of_servers = |count: fn(&cohabit_memory::report::Usage) -> u64| {
        reports.iter().flat_map(move |report| report.servers.iter().map(move |one| count(&one.usage)))
    };
    arrays.push(array("server_requests", &[mappings, servers], of_servers(|usage| usage.requests)));
    arrays.push(array("server_bytes", &[mappings, servers], of_servers(|usage| usage.bytes)));
    arrays.push(array("server_wait_fs", &[mappings, servers], of_servers(|usage| usage.wait_fs)));
    arrays.push(array("server_busy_fs", &[mappings, servers], of_servers(|usage| usage.busy_fs)));
    let series: Option<Vec<&Series>> = reports.iter().map(|report| report.series.as_ref()).collect();
    if let Some(series) = series.filter(|series| !series.is_empty()) {
        over_time(&mut arrays, &series, tasks, servers);
    }
    arrays
}

/// What was counted over time: as many windows as the longest run has, 0 after a shorter one's end.
fn over_time(arrays: &mut Vec<Counts>, all: &[&Series], tasks: usize, servers: usize) {
    let (mappings, places) = (all.len(), Served::ALL.len());
    let windows = all.iter().map(|series| series.windows).max().unwrap_or(0);
    let padded = |counts: &[u64]| counts.iter().copied().chain(std::iter::repeat(0)).take(windows).collect::<Vec<_>>();
    arrays.push(array("series_windows", &[mappings], all.iter().map(|series| series.windows as u64)));
    let instructions = all.iter().flat_map(|series| &series.instructions).flat_map(|counts| padded(counts));
    arrays.push(array("series_instructions", &[mappings, tasks, windows], instructions));
    let loads = all.iter().flat_map(|series| &series.loads_served.0).flat_map(|counts| padded(counts));
    arrays.push(array("series_loads_served", &[mappings, places, windows], loads));
    let latency = all.iter().flat_map(|series| padded(&series.load_latency_fs));
    arrays.push(array("series_load_latency_fs", &[mappings, windows], latency));
    let of_servers: [OfServer; 3] = [
        ("series_server_busy_fs", |server| &server.busy_fs),
        ("series_server_wait_fs", |server| &server.wait_fs),
        ("series_server_bytes", |server| &server.bytes),
    ];
    for (name, counts) in of_servers {
        let values = all.iter().flat_map(|series| &series.servers).flat_map(|server| padded(counts(server)));
        arrays.push(array(name, &[mappings, servers, windows], values));
    }
}

fn array(name: &str, shape: &[usize], values: impl IntoIterator<Item = u64>) -> Counts {
    Counts { name: name.to_owned(), shape: shape.to_vec(), values: values.into_iter().collect() }
}
