//! `cohabit evaluate` on the IBM report's cluster, with cases worked by hand.

mod common;

use cohabit_formats::npz::{read_profile, write_profile};
use cohabit_model::profile::{Kind, Meta, NO_ORDER, PhaseRow, SentBy, SeriesRow, SizeRow, Task, TaskKind};
use cohabit_model::{Matrix, Profile};
use common::Room;
use serde_json::Value;

fn cluster() -> String {
    format!("{}/../../testdata/clusters/xserve.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Bytes of a message, and how many rank i sends to rank i + 8: a second's worth of a port of 100 Mbit/s.
const BYTES: u64 = 1_250_000;
const COUNT: u64 = 10;

/// Sixteen ranks; i sends to i + 8, one message in each of ten windows. Of 100 ns each is in MPI for `mpi_ns`.
fn profile(room: &Room, mpi_ns: u64) {
    let task = |id: u32| Task {
        host: "a".into(),
        process: id,
        rank: Some(id),
        ..Task::new(id, TaskKind::Rank, format!("rank {id}"))
    };
    let matrix = |value| Matrix::from_triplets(16, (0..8).map(|rank| (rank, rank + 8, value)));
    let meta = Meta::new(Kind::Ranks, "test", (0..16).map(task).collect());
    let mut profile = Profile::new(meta, matrix(COUNT), matrix(COUNT * BYTES));
    let size = |source| SizeRow { source, destination: source + 8, class: 20, messages: COUNT, bytes: COUNT * BYTES };
    profile.sizes = (0..8).map(size).collect();
    let row = |bin, source| SeriesRow { bin, source, destination: source + 8, messages: 1, bytes: BYTES };
    profile.series = (0..COUNT).flat_map(|bin| (0..8).map(move |source| row(bin, source))).collect();
    profile.mpi_ns = vec![mpi_ns; 16];
    profile.run_ns = vec![100; 16];
    write_profile(&room.path("p.npz"), &profile).unwrap();
}

fn room() -> Room {
    let room = Room::new();
    profile(&room, 25);
    let mapped = room.run(&format!("map p.npz --topology {} -o best.json", cluster()));
    assert_eq!(mapped.status, Some(0), "{}", mapped.stderr);
    room
}

fn document(room: &Room, line: &str) -> Value {
    let ran = room.run(&format!("{line} --json -"));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ran.stdout).unwrap()
}

#[track_caller]
fn assert_near(found: &Value, expected: f64) {
    assert!((found.as_f64().unwrap() - expected).abs() < 1e-9, "{found} for {expected}");
}

#[test]
fn time_gain_and_bottleneck_are_those_worked_by_hand() {
    let room = room();
    let found = document(&room, "evaluate p.npz --mapping best.json");
    let [linear, best] = [&found["mappings"][0], &found["mappings"][1]];
    // Six of the eight pairs cross the trunk of five hosts, a second each; mapped, they meet through memory at 1 GB/s.
    assert_near(&linear["estimated_seconds"], 6.0);
    assert_near(&best["estimated_seconds"], 0.0125);
    // The trunk is busy for 6 s, the ports of four hosts send for 2 s, and those of the other four receive.
    assert!((linear["norm_seconds"].as_f64().unwrap().powi(4) - (6.0f64.powi(4) + 8.0 * 2.0f64.powi(4))).abs() < 1e-3);
    assert_near(&best["predicted_gain"], 0.25 * (6.0 - 0.0125) / 6.0);
    let trunk = &linear["bottlenecks"][0];
    assert_eq!(
        (trunk["kind"].as_str(), trunk["of"].as_str(), trunk["direction"].as_str()),
        (Some("port"), Some("switch netgear1"), Some("out"))
    );
    assert_near(&trunk["seconds"], 6.0);
    assert_eq!((found["mpi_share"].as_f64(), found["advised"].as_u64()), (Some(0.25), Some(1)));
    assert_eq!(found["replayed"], false, "no trace");
    // 400 across, 200 in the subnet, 20 in a host.
    let volume = COUNT * BYTES;
    assert_eq!(linear["distance_cost"].as_u64(), Some((6 * 400 + 2 * 200) * volume));
    assert_eq!(best["distance_cost"].as_u64(), Some(8 * 20 * volume));
    let text = room.run("evaluate p.npz --mapping best.json").stdout;
    assert!(text.contains("best.json is predicted to save 24.9 % of the run"), "{text}");
    assert!(text.contains("time    6.00 s  gain  default  port of switch netgear1, out"), "{text}");
}

#[test]
fn bursts_are_phases() {
    let room = room();
    // A message takes 0.6 s under the linear mapping. In windows of a second each is a burst, and all are alike; in
    // shorter ones all ten are on their way before the first is through.
    for (window_ms, options, weight) in [(1000, " --bursts", 10.0), (50, " --bursts", 1.0), (1000, "", 1.0)] {
        let mut profile = read_profile(&room.path("p.npz")).unwrap();
        profile.meta.window_ns = window_ms * 1_000_000;
        write_profile(&room.path("p.npz"), &profile).unwrap();
        let found = document(&room, &format!("evaluate p.npz --mapping best.json{options}"));
        let linear = &found["mappings"][0];
        let found = linear["phases"].as_array().unwrap();
        assert_eq!((found.len(), found[0]["weight"].as_f64()), (1, Some(weight)), "{window_ms} ms{options}");
        assert_near(&found[0]["seconds"], 6.0 / weight);
        assert_near(&linear["estimated_seconds"], 6.0);
    }
    let text = |options: &str| room.run(&format!("evaluate p.npz --mapping best.json{options}")).stdout;
    assert!(text(" --bursts").contains("; 10 phases;") && !text("").contains("phases"), "{}", text(" --bursts"));
}

#[test]
fn the_default_mapping_stays_where_no_gain_is_predicted() {
    let room = room();
    let mut mapping: Value = serde_json::from_slice(&std::fs::read(room.path("best.json")).unwrap()).unwrap();
    for (rank, task) in mapping["tasks"].as_array_mut().unwrap().iter_mut().enumerate() {
        task["host"] = format!("xserve{}", rank / 2 + 1).into();
        task["pu"] = (rank % 2).into();
    }
    room.file("same.json", mapping.to_string());
    let found = document(&room, "evaluate p.npz --mapping same.json");
    assert_eq!((found["advised"].as_u64(), found["mappings"][1]["predicted_gain"].as_f64()), (None, Some(0.0)));
    assert_eq!(found["verdict"], "keep the default mapping: no gain is predicted");
    // Of two, the better one.
    let found = document(&room, "evaluate p.npz --mapping same.json best.json");
    assert_eq!(found["advised"].as_u64(), Some(2));
    // Nearly all of the communication, which is a hundredth of the run.
    profile(&room, 1);
    let found = document(&room, "evaluate p.npz --mapping best.json");
    let words = "keep the default mapping: best.json is predicted to save 1.0 % of the run, which is too little to tell from none";
    assert_eq!((found["advised"].as_u64(), found["verdict"].as_str()), (None, Some(words)));
}

#[test]
fn a_gain_that_depends_on_how_far_phases_overlap_is_none() {
    let room = room();
    // Ranks 0 and 1 send, and later 2 and 3, a second each: from one host after the other, or from both at once.
    let sends = [(0, 0, 4), (0, 1, 6), (1, 2, 8), (1, 3, 7)];
    let mut profile = read_profile(&room.path("p.npz")).unwrap();
    let size = |source, destination| SizeRow { source, destination, class: 20, messages: COUNT, bytes: COUNT * BYTES };
    let matrix = |value| Matrix::from_triplets(16, sends.map(|(_, source, destination)| (source, destination, value)));
    (profile.messages, profile.bytes) = (matrix(COUNT), matrix(COUNT * BYTES));
    profile.sizes = sends.iter().map(|&(_, source, destination)| size(source, destination)).collect();
    profile.phases = sends
        .map(|(phase, source, destination)| PhaseRow {
            phase,
            size: size(source, destination),
            order: NO_ORDER,
            by: SentBy::Program,
        })
        .to_vec();
    profile.series.clear();
    write_profile(&room.path("p.npz"), &profile).unwrap();
    let mut mapping: Value = serde_json::from_slice(&std::fs::read(room.path("best.json")).unwrap()).unwrap();
    for (rank, task) in mapping["tasks"].as_array_mut().unwrap().iter_mut().enumerate() {
        // Linear, but ranks 1 and 2 in each other's place.
        let slot = [0, 2, 1].get(rank).copied().unwrap_or(rank);
        task["host"] = format!("xserve{}", slot / 2 + 1).into();
        task["pu"] = (slot % 2).into();
    }
    room.file("other.json", mapping.to_string());
    let found = document(&room, "evaluate p.npz --mapping other.json");
    let seconds = |mapping: usize| {
        let mapping = &found["mappings"][mapping];
        [&mapping["extreme_seconds"][0], &mapping["extreme_seconds"][1], &mapping["estimated_seconds"]]
            .map(|seconds| seconds.as_f64().unwrap())
    };
    assert_eq!((seconds(0), seconds(1)), ([2.0, 4.0, 3.0], [2.0, 2.0, 2.0]));
    let words = "keep the default mapping: other.json is predicted to save 8.3 % of the run, but its phases do not save as much both at once and one by one";
    assert_eq!((found["advised"].as_u64(), found["verdict"].as_str()), (None, Some(words)));
}

#[test]
fn without_ports_there_is_the_distance_cost_and_a_word() {
    let room = room();
    assert_eq!(room.run("map p.npz --topology pack:2(x)8 -o m.json").status, Some(1));
    let mut command = room.command(["map", "p.npz", "--topology", "pack:2 core:8 pu:1", "-o", "m.json"]);
    assert!(command.output().unwrap().status.success());
    let ran = room.run("evaluate p.npz --mapping m.json");
    assert_eq!(ran.status, Some(0));
    assert!(ran.stderr.contains("no time is estimated") && ran.stderr.contains("cohabit measure"), "{}", ran.stderr);
    assert!(ran.stdout.contains("m.json has the least distance cost"), "{}", ran.stdout);
}

#[test]
fn what_does_not_fit_says_so() {
    let room = room();
    room.chain("q.npz", 4, 9);
    for (line, cause) in [
        ("evaluate q.npz --mapping best.json", "best.json: the mapping has 16 tasks, the profile 4"),
        ("evaluate q.npz --mapping best.json --bursts", "the profile has no time series"),
        (
            "evaluate p.npz --topology pu:4 --mapping best.json",
            "best.json: the mapping is for 8 hosts, the topology one machine",
        ),
        ("evaluate p.npz --mapping none.json", "none.json"),
    ] {
        room.run(line).assert_fails(if line.contains("bursts") { 2 } else { 1 }, cause);
    }
    room.run("evaluate p.npz").assert_fails(2, "--mapping");
}

#[test]
fn best_maps_by_time_where_it_is_asked_to() {
    let room = room();
    // A cluster with a slow port, which distances do not know of: J is content with the first hosts.
    let cluster = std::fs::read_to_string(cluster()).unwrap();
    let slow = "[[port]]\nof = 'xserve1'\nbandwidth = '10 Mbit/s'\n";
    let others = cluster.replace("of = [\"xserve[1-8]\"", "of = [\"xserve[2-8]\"");
    room.file("slow.toml", format!("{others}\n{slow}"));
    room.file("matrix.csv", "0,9,9,9\n9,0,9,9\n9,9,0,9\n9,9,9,0\n");
    assert_eq!(room.run("import matrix.csv --kind ranks -o few.npz").status, Some(0));
    let time = |line: &str| {
        let ran = room.run(&format!("map few.npz --topology slow.toml {line} -o m.json"));
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        let mapping: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
        (
            mapping["cost"]["predicted_ns"].as_f64().unwrap(),
            mapping["objective"].as_str().unwrap().to_owned(),
            ran.stdout,
        )
    };
    let (by_time, objective, text) = time("--objective time");
    let (by_distance, default, _) = time("--mapper packed");
    assert_eq!((objective.as_str(), default.as_str()), ("time", "distance"));
    assert!(by_time < by_distance, "{by_time} {by_distance}");
    assert!(text.contains("time  best") && text.contains("time  linear"), "{text}");
    // What it is worth is a matter of time, too.
    assert!(text.contains("below linear; 'cohabit evaluate' says"), "{text}");
    room.file("matrix.csv", "0,9\n9,0\n");
    assert_eq!(room.run("import matrix.csv --kind ranks -o two.npz").status, Some(0));
    let ran = room.run("map two.npz --topology slow.toml --objective time");
    assert!(
        ran.stdout.ends_with("linear takes no longer: the tasks' order already suits the cluster\n"),
        "{}",
        ran.stdout
    );
    room.file("none.toml", "[[host]]\nnames = 'n[1-2]'\ntopology = 'core:2 pu:1'\n");
    room.run("map few.npz --topology slow.toml --bursts").assert_fails(1, "--bursts without --objective time");
    for (line, cause) in [
        ("--topology slow.toml --mapper packed", "the mapper packed knows no time"),
        ("--topology pu:4", "the topology does not say how fast its ports and switches are"),
        ("--topology none.toml", "gives no port or switch a bandwidth"),
        ("--topology slow.toml --bursts", "the profile has no time series"),
    ] {
        room.run(&format!("map few.npz --objective time {line}")).assert_fails(1, cause);
    }
}
