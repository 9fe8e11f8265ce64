//! What is done with hostile bytes, a function a reader: none may panic, whatever they are. What is read must also be
//! what it says it is, and come back when it is written. `cargo fuzz run TARGET` searches for bytes that break this
//! (fuzz_targets/); `cargo test -p cohabit --test fuzz` feeds the seeds in testdata/fuzz on any Rust.

use cohabit_access::file::{Meta, RecordingFile, Writer};
use cohabit_access::{Dependences, PARTS_OF_A_CYCLE, Recording};
use cohabit_apply::{EXPORTERS, Identify, LaunchPlan, Pinning, Placement};
use cohabit_formats::import::{FORMATS, Format, import};
use cohabit_formats::npz::{read_profile, write_profile};
use cohabit_host::CpuMask;
use cohabit_map::{Options, Problem, mapper};
use cohabit_model::cost::distance_cost;
use cohabit_model::topology::costs::parse_level_costs;
use cohabit_model::{Mapping, Matrix, Profile, Topology};
use std::io::Write;
use std::path::{Path, PathBuf};

// What reads files is a part of the command line, which is no library: its files are taken in as they are.
#[path = "comparing.rs"]
mod comparing;
#[allow(dead_code, missing_docs)]
#[path = "../../crates/cli/src/documents/mod.rs"]
mod documents;

/// A target's name, which is that of its folder in testdata/fuzz, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("npz", npz),
    ("npz_members", npz_members),
    ("import", import_any),
    ("topology", topology),
    ("mapping", mapping),
    ("pipeline", pipeline),
    ("recording", recording),
    ("recording_members", recording_members),
    ("results", results),
    ("documents", document),
];

/// Members of a profile in the order in which `npz_members` takes their bytes.
const MEMBERS: [&str; 35] = [
    "meta",
    "messages",
    "bytes",
    "invalidations",
    "sharing",
    "series_bin",
    "series_source",
    "series_destination",
    "series_messages",
    "series_bytes",
    "task_accessed_bytes",
    "task_loads",
    "messages_source",
    "messages_destination",
    "messages_value",
    "later",
    "size_source",
    "size_destination",
    "size_class",
    "size_messages",
    "size_bytes",
    "phase_number",
    "phase_source",
    "phase_destination",
    "phase_class",
    "phase_messages",
    "phase_bytes",
    "phase_order",
    "phase_collective",
    "trace_source",
    "trace_destination",
    "trace_bytes",
    "trace_task",
    "trace_does",
    "trace_message",
];
/// What stands between members.
pub const BETWEEN: &[u8] = b"\xfe|\xfe";

/// A folder for the files that readers want.
fn with_file(name: &str, data: &[u8], check: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, data).expect("a temporary file");
    check(&path);
}

/// A profile that was read is one: as many tasks everywhere, and the same again when it was written.
fn check_profile(profile: &Profile, folder: &Path) {
    let tasks = profile.tasks();
    assert_eq!((profile.meta.tasks.len(), profile.bytes.tasks()), (tasks, tasks));
    assert!(
        [&profile.loads, &profile.stores, &profile.accessed_bytes]
            .iter()
            .all(|known| [0, tasks].contains(&known.len()))
    );
    if tasks > 256 {
        return;
    }
    let again: PathBuf = folder.join("again.npz");
    write_profile(&again, profile).expect("what was read can be written");
    let read = read_profile(&again).expect("what was written can be read");
    // A series is sorted and a sampling rate may be no number; the matrices and the tasks are what the rest uses.
    assert_eq!(
        (&read.messages, &read.bytes, &read.meta.tasks),
        (&profile.messages, &profile.bytes, &profile.meta.tasks)
    );
    assert_eq!((&read.sizes, &read.phases, &read.trace), (&profile.sizes, &profile.phases, &profile.trace));
}

/// As `cohabit import` has them.
fn formats() -> Vec<&'static Format> {
    FORMATS.iter().chain([&cohabit_observe::mpi::FORMAT, &cohabit_online::perf_script::FORMAT]).collect()
}

/// A profile file as it is.
pub fn npz(data: &[u8]) {
    with_file("p.npz", data, |path| {
        if let Ok(profile) = read_profile(path) {
            check_profile(&profile, path.parent().expect("it is in a folder"));
        }
        // The same bytes as plain arrays.
        drop(import(&formats(), path, Some("npz")));
    });
}

/// A zip that is sound around members that may not be.
pub fn npz_members(data: &[u8]) {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut rest = Some(data);
    for name in MEMBERS {
        let Some(bytes) = rest else { break };
        let end = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        let member = &bytes[..end.unwrap_or(bytes.len())];
        rest = end.map(|end| &bytes[end + BETWEEN.len()..]);
        if !member.is_empty() {
            zip.start_file(format!("{name}.npy"), options).expect("a zip in memory");
            zip.write_all(member).expect("a zip in memory");
        }
    }
    npz(&zip.finish().expect("a zip in memory").into_inner());
}

/// A file of another tool: its first byte says of which.
pub fn import_any(data: &[u8]) {
    let Some((&which, data)) = data.split_first() else { return };
    let formats = formats();
    let format = formats[usize::from(which) % formats.len()];
    with_file(&format!("run.0.{}", format.extensions[0]), data, |path| {
        if let Ok(profile) = import(&formats, path, Some(format.name)) {
            check_profile(&profile, path.parent().expect("it is in a folder"));
        }
    });
}

/// hwloc's XML, a synthetic string, a cluster file, a matrix of distances; level costs after a line of dashes.
pub fn topology(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (text, costs) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let Ok(read) = Topology::parse_text(text) else { return };
    assert_eq!(Topology::parse_text(&read.text).as_ref(), Ok(&read));
    check_topology(&read);
    if let Ok(costs) = parse_level_costs(costs) {
        if let Ok(costed) = read.with_level_costs(&costs) {
            check_topology(&costed);
        }
    }
}

fn check_topology(topology: &Topology) {
    let pus = topology.pus.len();
    assert!(pus > 0 && topology.nodes[0].pus == (0..pus));
    for pu in [0, pus / 2, pus - 1] {
        assert_eq!(topology.distance(pu, pu), 0);
        topology.distance(pu, pus - 1);
        topology.part_of(pu);
        let host = topology.host_of(pu).unwrap_or_default();
        assert_eq!(topology.pu_on(host, topology.pus[pu].os_index), Some(pu));
    }
    if let Ok(hct) = topology.hct() {
        assert!(hct.elements() == topology.nodes.len() && topology.pus.iter().all(|pu| hct.is_processing(pu.node)));
    }
    if pus <= 512 {
        drop((topology.branching(), topology.arities(), topology.only_distance(), topology.allowed_only()));
        assert!(cohabit_apply::topology_svg(topology).ends_with("</svg>\n"));
    }
}

/// A mapping file: read, written again, launched with, exported.
pub fn mapping(data: &[u8]) {
    let Ok(read) = Mapping::from_json(&String::from_utf8_lossy(data)) else { return };
    assert_eq!(Mapping::from_json(&read.to_json()).as_ref().map(Mapping::to_json), Ok(read.to_json()));
    let allowed = CpuMask::from_pus(0..8);
    for (identify, pinning) in [(Identify::Order, Pinning::Needed), (Identify::Tree, Pinning::Always)] {
        drop(LaunchPlan::from_mapping(&read, identify, pinning, &allowed));
    }
    let Ok(topology) = Topology::parse_text(&read.topology) else { return };
    let weight = Matrix::zero(read.tasks.len());
    let Ok(placement) = Placement::new(&read, &topology, &weight) else { return };
    if topology.pus.len() <= 512 {
        for exporter in EXPORTERS {
            let exported = exporter.export(&placement).unwrap_or_default();
            let is_xml = ["svg", "graphml"].contains(&exporter.name());
            assert!(!is_xml || exported.chars().all(|c| c == '\n' || c >= ' ' && !"\u{fffe}\u{ffff}".contains(c)));
        }
    }
}

/// A small matrix onto a small machine by the mappers that need no library: every task gets a PU that may be used.
pub fn pipeline(data: &[u8]) {
    let Some((&[tasks, which, packages, pus, forbidden, pinned], weights)) = data.split_first_chunk() else { return };
    let (tasks, text) = (usize::from(tasks % 12), format!("pack:{} core:{} pu:2", packages % 3 + 1, pus % 3 + 1));
    let topology = Topology::parse_text(&text).expect("a synthetic string");
    let values = weights.chunks(8).map(|chunk| chunk.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte)));
    let entries =
        values.enumerate().take(tasks * tasks).map(|(at, value)| ((at / tasks) as u32, (at % tasks) as u32, value));
    let weight = Matrix::from_triplets(tasks, entries);
    let options = Options {
        forbidden: (0..8).filter(|bit| forbidden >> bit & 1 == 1).collect(),
        pins: if pinned > 127 { vec![(usize::from(pinned % 16), usize::from(pinned / 16))] } else { Vec::new() },
        steps: Some(20),
        ..Options::default()
    };
    let name = ["packed", "scatter", "random", "balance", "complace", "hct-greedy", "matching", "treematch", "best"];
    let name = name[usize::from(which) % name.len()];
    let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
    let Ok(placement) = mapper(name).expect("it is in the table").map(&problem) else { return };
    assert_eq!(placement.len(), tasks);
    assert!(placement.iter().all(|pu| *pu < topology.pus.len() && !options.forbidden.contains(pu)), "{name}");
    assert!(options.pins.iter().all(|&(task, pu)| placement[task] == pu), "{name}");
    let cost = distance_cost(&weight, &topology, &placement);
    let bound = cohabit_map::lower_bound(&problem).expect("the problem was mapped");
    assert!(bound <= cost, "{name}: {bound} > {cost}");
}

/// What a damaged recording may have its readers do: a run of any length is a few bytes.
const STEPS: usize = 10_000;

/// A recording as it is.
pub fn recording(data: &[u8]) {
    with_file("r.rec", data, read_recording);
}

/// The members of a recording: what it says of itself, the segments of one image, the steps of one task.
pub fn recording_members(data: &[u8]) {
    let mut rest = data;
    let mut next = || {
        let end = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        let part = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + BETWEEN.len()..]);
        part
    };
    let Ok(meta) = serde_json::from_slice::<Meta>(next()) else { return };
    let mut writer = Writer::new(std::io::Cursor::new(Vec::new()));
    writer.segments(0, &[next()]).expect("written to memory");
    writer.steps(0, 0, &[next()]).expect("written to memory");
    let file = writer.finish(&meta).expect("written to memory").into_inner();
    with_file("r.rec", &file, read_recording);
}

/// For whom it is asked how long instructions wait for one another.
const CORE: Dependences = Dependences { window: 224, load: 4 * PARTS_OF_A_CYCLE };

fn read_recording(path: &Path) {
    let Ok(recording) = RecordingFile::open(path) else { return };
    for task in 0..recording.tasks().len().min(64) as u32 {
        let Ok(mut steps) = recording.steps(task) else { continue };
        for _ in 0..STEPS {
            if !matches!(steps.next_step(), Ok(Some(_))) {
                break;
            }
        }
        // The code as well.
        let Ok(mut steps) = recording.steps_with(task, CORE) else { continue };
        for _ in 0..STEPS {
            if !matches!(steps.next_step(), Ok(Some(_))) {
                break;
            }
        }
        // What is skipped is as hostile as what is read.
        let Ok(mut steps) = recording.steps(task) else { continue };
        if let Ok(Some(position)) = steps.skip_to(STEPS as u64) {
            assert!(position <= STEPS as u64);
        }
    }
    let Ok(Some(outline)) = recording.outline() else { return };
    assert!(outline.intervals.iter().all(|interval| interval.end.len() == recording.tasks().len()));
}

/// The file that `cohabit compare` keeps runs in: what is read is written and read as the same, and can be judged.
pub fn results(data: &[u8]) {
    let Ok(read) = comparing::results::Results::parse(&String::from_utf8_lossy(data)) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("again.json");
    read.write(&path).expect("what was read can be written");
    assert_eq!(comparing::results::Results::read(&path).as_ref(), Ok(&read));
    let (blocks, values) = (read.blocks(), read.values());
    assert!(blocks.len() == values.len() && values.iter().all(|block| block.len() == read.arms.len()));
    assert!(values.iter().flatten().all(|value| value.is_finite() && *value > 0.0));
}

/// What other commands wrote by `--json`, read back to be drawn.
pub fn document(data: &[u8]) {
    with_file("d.json", data, |path| {
        if let Ok(found) = documents::simulation::Simulation::read(path) {
            assert_eq!(found.relative().len(), found.mappings.len());
            assert!(found.mappings.iter().all(|one| one.report.served().len() == documents::simulation::PLACES.len()));
        }
        if let Ok(found) = documents::detectors::Detectors::read(path) {
            drop(found.matrices());
        }
        drop(documents::run::Run::read(path));
    });
}
