//! `cohabit run -- mpirun ...`: ranks are where the mapping says, by what they see themselves; and what goes wrong is
//! said.

#[path = "../common/mod.rs"]
mod common;
mod hosts;
mod phases;

use cohabit_formats::npz::write_profile;
use cohabit_model::profile::{Kind, Meta, TaskKind};
use cohabit_model::{Matrix, Profile, Task};
use common::{Ran, Room};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI that is installed: its name, its launcher, and what the launcher needs here.
struct Mpi {
    name: &'static str,
    launcher: &'static [&'static str],
}

impl Mpi {
    fn program(&self, name: &str) -> PathBuf {
        build().join("workloads/mpi").join(format!("{name}-{}", self.name))
    }

    fn library(&self) -> PathBuf {
        build().join(format!("native/libcohabit-mpi-{}.so", self.name))
    }

    /// `cohabit run` of these arguments on so many ranks of a program.
    fn run(&self, room: &Room, arguments: &[&str], ranks: usize, program: &[&str]) -> Command {
        let mut command = room.command(["run", "--json", "ran.json"]);
        command.args(arguments).arg("--").args(self.launcher).args(["-n", &ranks.to_string()]);
        command.arg(self.program(program[0])).args(&program[1..]);
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_mpi_yield_when_idle"] {
            command.env(name, "1");
        }
        command.env("OMPI_MCA_btl_tcp_if_include", "lo");
        command
    }
}

fn build() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build")
}

fn installed() -> Vec<Mpi> {
    let known = [
        Mpi { name: "openmpi", launcher: &["mpirun.openmpi", "--oversubscribe"] },
        Mpi { name: "mpich", launcher: &["mpiexec.mpich"] },
    ];
    let there = |mpi: &Mpi| {
        let starts = Command::new(mpi.launcher[0]).arg("--version").output().is_ok();
        let there = starts && mpi.library().exists() && mpi.program("patterns").exists();
        if !there {
            println!("skipped: ranks of {}: it, our library for it or its workloads are not here (make)", mpi.name);
        }
        there
    };
    known.into_iter().filter(there).collect()
}

/// The PUs that this process may use, as a list and by number.
fn allowed() -> Vec<u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    let bounds = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u64>().unwrap()..=last.parse().unwrap()
    };
    list.split(',').flat_map(bounds).collect()
}

fn document(room: &Room) -> Value {
    serde_json::from_str(&std::fs::read_to_string(room.path("ran.json")).unwrap()).unwrap()
}

/// A profile of ranks: these pairs exchange much.
fn profile(room: &Room, ranks: usize, pairs: &[(usize, usize)]) {
    let cell = |row, column| {
        let paired = pairs.contains(&(row, column)) || pairs.contains(&(column, row));
        if row == column {
            "0"
        } else if paired {
            "1000"
        } else {
            "1"
        }
    };
    let row = |row| (0..ranks).map(|column| cell(row, column)).collect::<Vec<_>>().join(",") + "\n";
    room.file("matrix.csv", (0..ranks).map(row).collect::<String>());
    let ran = room.run("import --kind ranks matrix.csv -o p.npz");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
}

/// A mapping of four ranks onto the allowed PUs, the last one first.
fn mapping(room: &Room) -> Vec<u64> {
    profile(room, 4, &[(0, 1), (2, 3)]);
    let pus: Vec<u64> = allowed().into_iter().rev().cycle().take(4).collect();
    let mut words = "map p.npz -o m.json".to_owned();
    for (rank, pu) in pus.iter().enumerate() {
        words += &format!(" --pin {rank}={pu}");
    }
    assert_eq!(room.run(&words).status, Some(0));
    pus
}

#[test]
fn ranks_are_where_the_mapping_says() {
    for mpi in installed() {
        let room = Room::new();
        let pus = mapping(&room);
        let ran = Ran::of(
            mpi.run(&room, &["--mapping", "m.json"], 4, &["patterns", "ring", "--rounds", "5"]).output().unwrap(),
        );
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{}", mpi.name);
        let document = document(&room);
        assert_eq!(document["method"], "launcher");
        for (rank, pu) in pus.iter().enumerate() {
            let seen = &document["ranks"][rank];
            assert_eq!(seen["affinity"], serde_json::json!([pu]), "rank {rank} of {}", mpi.name);
            assert_eq!(seen["expected_affinity"], seen["affinity"]);
            assert_eq!(seen["ended"], "finalized");
        }
        assert_eq!(document["elsewhere"], serde_json::json!([]));
        // Nothing of it stays.
        assert_eq!(std::fs::read_dir(room.path("")).unwrap().count(), 4, "matrix, profile, mapping and document");
    }
}

/// A profile of ranks with two threads each, and a mapping of it: the PU of each thread, after its host where there are
/// several. In each rank but the first MPI has made a thread of its own between the two.
fn hybrid_mapping(room: &Room, topology: &str, places: &[String]) {
    let task = |id: u32| Task {
        process: id / 2,
        pid: 100 + id / 2,
        tid: 100 + id,
        parent: (id % 2 == 1).then(|| id - 1),
        rank: Some(id / 2),
        spawn_index: if id > 1 { id % 2 * 2 } else { id },
        ..Task::new(id, TaskKind::Thread, format!("t{id}"))
    };
    let count = places.len() as u32;
    let rows = || Matrix::from_triplets(count as usize, (0..count - 1).map(|id| (id, id + 1, 64)));
    let profile = Profile::new(Meta::new(Kind::Hybrid, "dbi,mpi", (0..count).map(task).collect()), rows(), rows());
    write_profile(&room.path("p.npz"), &profile).unwrap();
    let mut words = format!("map p.npz --topology {topology} -o m.json");
    for (task, place) in places.iter().enumerate() {
        words += &format!(" --pin {task}={place}");
    }
    let ran = room.run(&words);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
}

/// What the threads of the ranks print, by rank and number.
fn printed(ran: &Ran) -> Vec<(usize, String)> {
    let lines = ran.stdout.lines().filter_map(|line| line.split_once(' '));
    let mut found: Vec<(usize, String)> =
        lines.filter_map(|(task, pus)| Some((task.parse().ok()?, pus.to_owned()))).collect();
    found.sort();
    found
}

/// The program that prints where its threads are.
fn printing(mpi: &Mpi) -> Option<PathBuf> {
    let program = build().join(format!("workloads/placement/mpi-{}", mpi.name));
    if !program.exists() {
        println!("skipped: threads of ranks of {}: its workloads were not built (make native)", mpi.name);
    }
    program.exists().then_some(program)
}

#[test]
fn threads_of_ranks_are_where_the_mapping_says() {
    let pus = allowed();
    if pus.len() < 2 {
        println!("skipped: threads of ranks: one PU");
        return;
    }
    let (low, high) = (pus[0], pus[1]);
    for mpi in installed() {
        let Some(program) = printing(&mpi) else { continue };
        let room = Room::new();
        let places = [high, low, low, high].map(|pu| pu.to_string());
        hybrid_mapping(&room, "live", &places);
        let both = format!("{low},{high}");
        for (threads, printed_pus, lines) in [
            (2, vec![&places[0], &places[1], &places[2], &places[3]], vec![]),
            // The one that is not in the mapping may run where its rank may.
            (
                3,
                vec![&places[0], &places[1], &both, &places[2], &places[3], &both],
                vec![
                    "cohabit: 1 thread was not in the mapping of rank 0, and left on all its PUs",
                    "cohabit: 1 thread was not in the mapping of rank 1, and left on all its PUs",
                ],
            ),
            (
                1,
                vec![&both, &both],
                vec![
                    "cohabit: rank 0 started 1 of the 2 threads that the mapping has",
                    "cohabit: rank 1 started 1 of the 2 threads that the mapping has",
                ],
            ),
        ] {
            let mut command = mpi.run(&room, &["--mapping", "m.json"], 2, &["patterns"]);
            // In the place of the program that it names.
            let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
            let mut printing = room.command(&words[..words.len() - 1]);
            printing.arg(&program).arg(threads.to_string());
            printing.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command = printing;
            let ran = Ran::of(command.output().unwrap());
            assert_eq!(ran.status, Some(0), "{} of {}: {}", threads, mpi.name, ran.stderr);
            let found: Vec<String> = printed(&ran).into_iter().map(|(_, pus)| pus).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), printed_pus, "{threads} of {}: {}", mpi.name, ran.stderr);
            assert_eq!(ran.stderr.lines().collect::<Vec<_>>(), lines, "{threads} of {}", mpi.name);
            let document = document(&room);
            for rank in 0..2 {
                let seen = &document["ranks"][rank];
                // As the launcher has put it, however its threads are spread then.
                assert_eq!(seen["affinity"], serde_json::json!([low, high]));
                assert_eq!(seen["affinity"], seen["expected_affinity"]);
                let expected = seen["expected_threads"].as_array().unwrap();
                let pairs = expected.iter().zip(seen["threads"].as_array().unwrap());
                assert!(threads == 1 || pairs.clone().all(|(pu, seen)| *seen == serde_json::json!([pu])), "{seen}");
            }
        }
    }
}

#[test]
fn a_rank_that_is_elsewhere_is_told() {
    let pus = allowed();
    if pus.len() < 2 || Command::new("taskset").arg("--version").output().is_err() {
        println!("skipped: a rank that is elsewhere: one PU, or no taskset here");
        return;
    }
    for mpi in installed() {
        let room = Room::new();
        let wanted = mapping(&room);
        let list = format!("{},{}", pus[0], pus[1]);
        let mut command = mpi.run(&room, &["--mapping", "m.json"], 4, &["patterns"]);
        // The program takes another affinity before MPI_Init.
        let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        let (last, words) = words.split_last().unwrap();
        let mut moved = room.command(words);
        moved.args(["taskset", "-c", &list]).arg(last).args(["ring", "--rounds", "1"]);
        moved.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command = moved;
        let ran = Ran::of(command.output().unwrap());
        let line = format!("cohabit: rank 0 was to be on PU {}, and is on PUs ", wanted[0]);
        assert!(ran.status == Some(0) && ran.stderr.starts_with(&line), "{}: {}", mpi.name, ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 4, "{}", ran.stderr);
    }
}

#[test]
fn what_the_user_placed_stays() {
    for mpi in installed() {
        let room = Room::new();
        mapping(&room);
        let bound = Mpi {
            launcher: if mpi.name == "mpich" {
                &["mpiexec.mpich", "-bind-to", "none"]
            } else {
                &["mpirun.openmpi", "--bind-to", "none", "--oversubscribe"]
            },
            ..mpi
        };
        let ran = Ran::of(bound.run(&room, &["--mapping", "m.json"], 4, &["patterns", "ring"]).output().unwrap());
        assert!(
            ran.status == Some(0) && ran.stderr.contains("bind-to is given, so nothing is added"),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert_eq!(document(&room)["ranks"][3]["affinity"], serde_json::json!(allowed()), "{}", bound.name);
    }
}

/// Values of options that are programs as well (true, test, time) end the launcher's options for nobody.
#[test]
fn values_that_are_programs_are_values() {
    for mpi in installed() {
        let room = Room::new();
        mapping(&room);
        let launchers: [&[&str]; 2] = match mpi.name {
            "mpich" => [&["mpiexec.mpich", "-genv", "X", "true"], &["mpiexec.mpich", "-env", "X", "true"]],
            _ => [
                &["mpirun.openmpi", "--oversubscribe", "--report-uri", "test"],
                &["mpirun.openmpi", "--oversubscribe", "--stdin", "none", "-x", "X=1"],
            ],
        };
        for launcher in launchers {
            let valued = Mpi { launcher, ..Mpi { name: mpi.name, launcher: &[] } };
            let arguments = ["patterns", "ring", "--rounds", "1", "-n", "9", "--bind-to", "core"];
            let ran = Ran::of(valued.run(&room, &["--mapping", "m.json"], 4, &arguments).output().unwrap());
            assert_eq!((ran.status, ran.said()), (Some(0), vec![]), "{launcher:?}: {}", ran.stderr);
            let document = document(&room);
            assert_eq!(document["method"], "launcher", "{launcher:?}");
            assert_eq!(document["elsewhere"], serde_json::json!([]), "{launcher:?}");
        }
    }
}

#[test]
fn without_a_gain_the_default_stays() {
    for mpi in installed() {
        let room = Room::new();
        profile(&room, 4, &[(0, 1)]);
        let arguments = ["--profile", "p.npz", "--topology", "core:4 pu:1"];
        let ran = Ran::of(mpi.run(&room, &arguments, 4, &["patterns", "ring"]).output().unwrap());
        let said = "nothing to gain: all 4 PUs are equally far from one another (distance 20), so it does not matter which \
                    task runs on which; the launcher's own mapping stays";
        assert_eq!((ran.status, ran.stderr), (Some(0), format!("cohabit: {said}\n")));
        assert_eq!(document(&room)["method"], "none");
        // A PU each is bound to, whatever that gains, where that is asked for.
        let on_live = ["--profile", "p.npz", "--pinning", "always"];
        let ran = Ran::of(mpi.run(&room, &on_live, 4, &["patterns", "ring"]).output().unwrap());
        assert!(ran.stderr.contains("nothing to gain") && !ran.stderr.contains("mapping stays"), "{}", ran.stderr);
        let affinities = (0..4).map(|rank| document(&room)["ranks"][rank]["affinity"].to_string());
        let bound: std::collections::BTreeSet<_> = affinities.filter(|pus| !pus.contains([',', '-'])).collect();
        assert_eq!(bound.len(), std::thread::available_parallelism().unwrap().get().min(4), "{}: {bound:?}", mpi.name);
    }
}

#[test]
fn what_cannot_be_placed_is_said_in_a_line() {
    let room = Room::new();
    mapping(&room);
    room.run("run --mapping m.json -- no-such-dir/mpirun -n 4 true").assert_fails(127, "cannot run no-such-dir/mpirun");
    room.run("run --profile missing.npz -- mpirun -n 4 true").assert_fails(125, "missing.npz");
    for mpi in installed() {
        let launcher = mpi.launcher[0];
        let run = |line: &str| room.run(&line.replace("LAUNCHER", launcher));
        run("run --profile p.npz -- LAUNCHER -n 3 true")
            .assert_fails(125, "the profile has 4 ranks, and the command starts 3");
        run("run --mapping m.json -- LAUNCHER -n 3 true")
            .assert_fails(125, "the mapping has 4 ranks, and the command starts 3");
        run("run --mapping m.json -- LAUNCHER -n x true").assert_fails(125, "\"x\" is no number of ranks");
        run("run --mapping m.json -- LAUNCHER --hostfile no-such-file -n 4 true").assert_fails(125, "no-such-file");
        room.file("hosts", "a\nb\n");
        run("run --mapping m.json -- LAUNCHER --hostfile hosts -n 4 true")
            .assert_fails(125, "the hosts a and b, and the topology");
        room.file("c.toml", "[[host]]\nnames = \"a\"\ntopology = \"core:4 pu:1\"\n");
        run("run --profile p.npz --topology c.toml -- LAUNCHER --hostfile hosts -n 4 true")
            .assert_fails(125, "the command names the host b, which is not in the topology");
    }
}

/// Programs whose ranks all leave without MPI_Finalize: nobody was killed.
#[test]
fn ranks_that_leave_without_an_end_are_told() {
    for mpi in installed() {
        let room = Room::new();
        mapping(&room);
        let ran = Ran::of(mpi.run(&room, &["--mapping", "m.json"], 4, &["ends", "leave"]).output().unwrap());
        let said =
            "cohabit: 4 ranks ended without MPI_Finalize: killed, crashed, ended by the launcher, or left without it";
        assert_eq!(ran.said(), [said], "{}", mpi.name);
    }
}

#[test]
fn ranks_that_end_badly_are_told_in_a_line() {
    for mpi in installed() {
        for (end, line) in [
            ("abort", "called MPI_Abort"),
            ("kill", "4 ranks ended without MPI_Finalize: killed, crashed, ended by the launcher, or left without it"),
            ("exit", "4 ranks ended without MPI_Finalize: killed,"),
        ] {
            let room = Room::new();
            mapping(&room);
            let ran = Ran::of(mpi.run(&room, &["--mapping", "m.json"], 4, &["ends", end]).output().unwrap());
            let ours = ran.said();
            assert!(ours.len() == 1 && ours[0].contains(line), "{end} of {}: {ours:?}", mpi.name);
            assert!(ran.status != Some(0), "{end} of {}", mpi.name);
            // Where the others were is known all the same.
            let document = document(&room);
            assert_eq!(document["ranks"].as_array().unwrap().len(), 4);
            let aborted = document["ranks"][1]["ended"] == "aborted";
            assert_eq!(aborted, end == "abort", "{end} of {}", mpi.name);
        }
    }
}

#[test]
fn an_mpi_without_our_library_is_run_and_not_read_back() {
    let installed = installed();
    for mpi in &installed {
        let room = Room::new();
        mapping(&room);
        let mut command = mpi.run(&room, &["--mapping", "m.json"], 4, &["patterns", "ring"]);
        let ran = Ran::of(command.env("COHABIT_MPI_LIBRARY", "/no/such/library.so").output().unwrap());
        let line =
            "cohabit: where the ranks are is not read back: COHABIT_MPI_LIBRARY=/no/such/library.so: no such file\n";
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), line), "{}", mpi.name);
        // The library of another MPI says so itself, and passes calls on.
        let Some(other) = installed.iter().find(|other| other.name != mpi.name) else { continue };
        let ran = Ran::of(command.env("COHABIT_MPI_LIBRARY", other.library()).output().unwrap());
        assert!(ran.status == Some(0) && ran.stderr.contains("the library preloaded is for"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

/// As of threads, before anything starts: launchers end then, and some without a word.
#[test]
fn a_mapping_for_pus_that_are_not_here_is_refused() {
    let room = Room::new();
    profile(&room, 2, &[(0, 1)]);
    let map = ["map", "p.npz", "-o", "m.json", "--pin", "0=0", "--pin", "1=3000", "--topology", "core:4000 pu:1"];
    let ran = Ran::of(room.command(map).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let mut mapping: Value = serde_json::from_str(&std::fs::read_to_string(room.path("m.json")).unwrap()).unwrap();
    // In a phase alone.
    let seats = serde_json::json!([{ "task": 0, "pu": 0 }, { "task": 1, "pu": 3000 }]);
    let phase = serde_json::json!({ "number": 0, "tasks": seats, "begins_at": [{ "module": "solver", "offset": 1 }] });
    mapping["format"] = 2.into();
    mapping["phases"] = serde_json::json!({ "by": "calls", "mappings": [phase] });
    mapping["tasks"][1]["pu"] = 0.into();
    mapping["tasks"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|task| drop(task.as_object_mut().unwrap().remove("pus")));
    room.file("phases.json", mapping.to_string());
    if allowed().contains(&3000) || !allowed().contains(&0) {
        println!("skipped: PUs that are not here: PU 3000 is, or PU 0 is not");
        return;
    }
    for mpi in installed() {
        let launcher = mpi.launcher.join(" ");
        for name in ["m.json", "phases.json"] {
            let ran = room.run(&format!("run --mapping {name} -- {launcher} -n 2 touch started"));
            ran.assert_fails(125, "task 1 is to run on PU 3000, but only PUs ");
            assert!(!room.path("started").exists(), "{}: {name}", mpi.name);
        }
    }
}
