//! `cohabit measure`: figures depend on the machine and the moment; that they are there, are positive, and become a
//! cluster file that reads back, does not.

mod common;

use common::Room;
use common::cluster::Cluster;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Short and few: only structure is looked at.
const QUICK: [&str; 4] = ["--lengths", "64,4096", "--time", "100us"];

/// Whether all series have all lengths, and times above 0 for every pair.
#[track_caller]
fn assert_sound(series: &Value) {
    let series = series.as_array().unwrap();
    assert!(!series.is_empty());
    for row in series {
        let points = row["points"].as_array().unwrap();
        assert_eq!(points.iter().map(|point| point["length"].as_u64().unwrap()).collect::<Vec<_>>(), [64, 4096]);
        for point in points {
            let seconds = point["seconds"].as_array().unwrap();
            assert_eq!(seconds.len() as u64, row["pairs"].as_u64().unwrap());
            assert!(seconds.iter().all(|seconds| seconds.as_f64().unwrap() > 0.0), "{row}");
            assert!(point["bandwidth"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}

#[test]
fn a_node_is_measured_and_its_file_is_a_topology() {
    let room = Room::new();
    let mut command = room.command(["measure", "-o", "node.toml", "--json", "m.json"]);
    let ran = common::Ran::of(command.args(QUICK).output().unwrap());
    if ran.stderr.contains("there is only one PU to use") {
        println!("skipped: measuring a node: {}", ran.stderr);
        return;
    }
    let found: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    // Other work disturbs it, or not: then that is said, in the file too.
    let file = std::fs::read_to_string(room.path("node.toml")).unwrap();
    match found["busy"].as_str() {
        None => assert_eq!((ran.stderr.as_str(), file.contains("busy")), ("", false)),
        Some(warning) => assert!(
            ran.stderr.contains(warning) && file.starts_with(&format!("# {warning}\n")),
            "{warning}: {}{file}",
            ran.stderr
        ),
    }
    assert!(ran.stdout.starts_with("between"), "{}", ran.stdout);
    found["levels"].as_array().unwrap().iter().for_each(|level| assert_sound(&level["series"]));
    // A mapping on it has an estimated time.
    room.chain("p.npz", 2, 10);
    let mapped = room.run("map p.npz --topology node.toml");
    assert!(mapped.status == Some(0) && mapped.stdout.contains("time  linear"), "{}{}", mapped.stdout, mapped.stderr);
}

/// What it says depends on the machine and the moment; that it is a machine to simulate, and says where values come from,
/// does not.
#[test]
fn the_machine_at_hand_is_measured_and_simulated() {
    let room = Room::new();
    // Its time is the kernel's, so that no rate of instructions fits.
    let ran = room.run("measure --machine here.toml --time 100us -- head -c 15000000 /dev/urandom");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("a machine for cohabit simulate --machine: here.toml"), "{}", ran.stderr);
    let file = std::fs::read_to_string(room.path("here.toml")).unwrap();
    let line = |key: &str| file.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}\n{file}"));
    assert!(ran.stderr.contains("not calibrated: head -c 15000000 /dev/urandom took "), "{}", ran.stderr);
    let rate = "instructions_per_cycle = 2.0 # assumed, not calibrated: no rate fits head -c 15000000 /dev/urandom";
    assert_eq!(line("instructions_per_cycle").split_whitespace().collect::<Vec<_>>().join(" "), rate);
    assert!(!file.contains("[]"), "nothing is said of what is not there: {file}");
    assert!(line("fault_us").ends_with("# measured") && line("window").contains('#'), "{file}");
    let ran = room.run("simulate synthetic:ring:2 --machine here.toml --mapper packed");
    assert!(ran.status == Some(0) && ran.stdout.contains("packed"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_machine_file_is_calibrated_on_what_runs_long_enough_or_not_written() {
    let room = Room::new();
    for (line, cause) in [
        ("measure --machine here.toml --time 100us -- false", "it failed"),
        ("measure --machine here.toml --time 100us -- true", "much of that is its start"),
        // That it waits, or, where the kernel takes its sleep for waiting for a PU, that it computes for too short a time.
        ("measure --machine here.toml --time 100us -- sleep 0.1", "calibrate on a program that computes"),
        ("measure --machine nowhere/here.toml", "nowhere"),
        ("measure --machine here.toml -o node.toml", "--output"),
        ("measure --machine here.toml --lengths 64", "--lengths"),
    ] {
        let ran = room.run(line);
        assert!(ran.status != Some(0) && ran.stderr.contains(cause), "{line}: {}", ran.stderr);
        assert!(!room.path("here.toml").exists(), "{line}");
    }
}

/// The launcher of an MPI whose program was built; none, said aloud, where it is not there.
fn launcher(kind: &str, name: &str) -> Option<Command> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../build/native/cohabit-mpi-pingpong-{kind}"));
    if !program.exists() || Command::new(name).arg("--version").output().is_err() {
        println!("skipped: measuring through {kind}: it, or {}, is not here (make native)", program.display());
        return None;
    }
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120", env!("CARGO_BIN_EXE_cohabit"), "measure"]).args(QUICK);
    Some(command)
}

#[test]
fn ranks_are_measured_through_either_mpi() {
    for (kind, words) in
        [("openmpi", &["mpirun.openmpi", "--oversubscribe", "-n", "3"][..]), ("mpich", &["mpiexec.mpich", "-n", "3"])]
    {
        let Some(mut command) = launcher(kind, words[0]) else { continue };
        let room = Room::new();
        command.current_dir(room.path("")).env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Version 5 complains about other interfaces in a container.
        command.env("OMPI_MCA_btl_tcp_if_include", "lo");
        let ran =
            common::Ran::of(command.args(["-o", "c.toml", "--json", "m.json", "--"]).args(words).output().unwrap());
        assert_eq!(ran.status, Some(0), "{kind}: {}", ran.stderr);
        assert!(ran.stderr.contains("taken to be on one switch"), "{}", ran.stderr);
        let found: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
        assert_sound(&found["series"]);
        assert_eq!(found["ranks"].as_array().unwrap().len(), 3);
        assert_eq!(room.run("topology c.toml").status, Some(0));
    }
}

/// Subnets of the emulated cluster: within and across, alone and at once, and the file that comes of it.
#[test]
fn hosts_of_the_emulated_cluster_are_measured() {
    let Some(mut command) = launcher("openmpi", "mpirun.openmpi") else { return };
    let Some(cluster) = Cluster::create("measuring hosts") else { return };
    let room = Room::new();
    let words: Vec<PathBuf> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(PathBuf::from).collect();
    command = cluster.on("n0");
    let folder = cluster.folder();
    command.args(words).current_dir(room.path(""));
    command.arg("--topology").arg(folder.join("cluster.toml")).args(["-o", "c.toml", "--json", "m.json", "--"]);
    command.args(["mpirun.openmpi", "-n", "16", "--bind-to", "none", "--hostfile"]).arg(folder.join("hostfile"));
    let ran = common::Ran::of(command.output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let found: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    assert_sound(&found["series"]);
    let named = |name: &str| found["series"].as_array().unwrap().iter().filter(|row| row["between"] == name).count();
    assert_eq!((named("s0 and s1"), named("n0 and n1"), named("all ports of s0")), (3, 3, 1), "{found}");
    // Nothing so short is asked for before it is sent.
    assert!(found["one_at_a_time"].is_null() && !ran.stderr.contains("the other way"), "{}", ran.stderr);
    let shown = room.run("topology c.toml").stdout;
    assert!(shown.contains("switch s0   n[0-4]"), "{shown}");
    let file = std::fs::read_to_string(room.path("c.toml")).unwrap();
    // Eight hosts, two trunks, and the places inside hosts.
    assert_eq!(file.matches("[[port]]").count(), 11, "{file}");
}

#[test]
fn what_cannot_be_measured_says_so() {
    let room = Room::new();
    for (line, status, cause) in [
        ("measure -- true", 1, "true is no launcher of MPI programs"),
        ("measure -- nowhere/mpirun -n 2", 127, "nowhere/mpirun"),
        ("measure --topology c.toml", 2, "required"),
        ("measure --lengths 0", 2, "write bytes from 1"),
        ("measure --time 1", 2, "write a time with its unit"),
        ("measure -o nowhere/c.toml", 1, "nowhere/c.toml"),
        ("measure --topology none.toml -- mpirun -n 2", 1, "none.toml"),
    ] {
        room.run(line).assert_fails(status, cause);
    }
    let Some(mut command) = launcher("mpich", "mpiexec.mpich") else { return };
    let ran = common::Ran::of(command.args(["--", "mpiexec.mpich", "-n", "1"]).output().unwrap());
    ran.assert_fails(1, "there is only one rank");
    room.file("c.toml", "[[host]]\nnames = 'elsewhere'\ntopology = 'pu:2'\n");
    let mut command = launcher("mpich", "mpiexec.mpich").unwrap();
    command.arg("--topology").arg(room.path("c.toml")).args(["--", "mpiexec.mpich", "-n", "2"]);
    common::Ran::of(command.output().unwrap()).assert_fails(1, "which the cluster file does not have");
}
