//! A cluster file as topology: shown, mapped onto, exported; and what it is refused for.

mod common;

use common::Room;
use serde_json::Value;

/// A file of testdata/clusters.
fn fixture(name: &str) -> String {
    format!("{}/../../testdata/clusters/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A room with a profile of sixteen ranks: pairs of neighbours exchange much, rank i and i + 8 more.
fn room() -> Room {
    let room = Room::new();
    let cell = |a: usize, b: usize| match a.abs_diff(b) {
        8 => 1000,
        1 => 10,
        _ => 0,
    };
    let row = |a: usize| (0..16).map(|b| cell(a, b).to_string()).collect::<Vec<_>>().join(",") + "\n";
    room.file("matrix.csv", (0..16).map(row).collect::<String>());
    assert_eq!(room.run("import matrix.csv --kind ranks -o p.npz").status, Some(0));
    room
}

#[test]
fn ranks_are_mapped_over_hosts_and_exported_with_their_names() {
    let room = room();
    let cluster = fixture("xserve.toml");
    let ran =
        room.run(&format!("map p.npz --topology {cluster} -o m.json --export open-mpi-4=ranks --pin 3=xserve7:1"));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.lines().any(|line| line.trim_start().starts_with("xserve8 ")), "{}", ran.stdout);
    let mapping: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    let tasks = mapping["tasks"].as_array().unwrap();
    assert_eq!((tasks[3]["host"].as_str(), tasks[3]["pu"].as_u64()), (Some("xserve7"), Some(1)));
    // What belongs together shares a host.
    assert!((0..8).all(|rank| tasks[rank]["host"] == tasks[rank + 8]["host"]), "{tasks:?}");
    let ranks = std::fs::read_to_string(room.path("ranks")).unwrap();
    assert!(ranks.contains("rank 3=xserve7 slot=1\n") && ranks.lines().count() == 16, "{ranks}");
    // The mapping stands alone: its topology is a cluster again.
    room.file("again.toml", mapping["topology"].as_str().unwrap());
    assert_eq!(room.run("topology again.toml").stdout, room.run(&format!("topology {cluster}")).stdout);
}

#[test]
fn what_slurms_file_has_in_vain_is_told() {
    let ran = Room::new().run(&format!("topology {} --json -", fixture("slurm.toml")));
    assert_eq!(ran.status, Some(0));
    assert!(ran.stderr.starts_with("cohabit: ") && ran.stderr.contains("LinkSpeed is not used"), "{}", ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let names: Vec<&str> =
        document["nodes"].as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).take(3).collect();
    assert_eq!(names, ["cisco", "netgear1", "xserve1"]);
    assert_eq!(document["pus"][11]["host"], "xserve6");
}

#[test]
fn bad_clusters_have_one_clear_line() {
    let room = room();
    let hosts = "[[host]]\nnames = 'n[1-2]'\ntopology = 'core:2 pu:1'\n";
    for (rest, cause) in [
        ("[[switch]]\nname = 's'\nmembers = []", "bad.toml: switch s has no ports"),
        ("[[port]]\nof = 'n1'\nbandwidth = 0", "bad.toml: port of n1: bandwidth: a bandwidth of 0"),
        ("[[switch]]\nname = 's'\nmembers = 'n[1-3]'", "bad.toml: switch s has the member n3"),
        ("[[host]]\nnames = 'n2'\ntopology = 'node.xml'", "node.xml"),
        ("speed = 3", "bad.toml: line 4: unknown field `speed`"),
        ("slurm = 3", "bad.toml: line 4: unknown field `slurm`"),
    ] {
        room.file("bad.toml", format!("{hosts}{rest}"));
        room.run("topology bad.toml").assert_fails(1, cause);
        room.run("map p.npz --topology bad.toml").assert_fails(1, cause);
    }
    room.file("good.toml", hosts);
    room.run("map p.npz --topology good.toml --pin 0=1").assert_fails(1, "--pin 0=1: PU 1 of which host?");
    room.run("map p.npz --topology good.toml --forbid n3:0").assert_fails(1, "--forbid: no PU n3:0 here");
    room.run("topology none.toml").assert_fails(1, "none.toml: ");
}
