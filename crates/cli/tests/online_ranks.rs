//! Online detection of MPI ranks: cohabit around the launcher, and between the launcher and the ranks, where one on
//! each node leads.

mod common;

use cohabit_formats::npz::read_profile;
use cohabit_model::Task;
use common::cluster::Cluster;
use common::{Ran, Room, can, sees_faults};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A program of an MPI's, and the words that start ranks of it.
struct Mpi {
    name: &'static str,
    launcher: &'static [&'static str],
}

const MPIS: [Mpi; 2] = [
    Mpi { name: "openmpi", launcher: &["mpirun.openmpi", "--oversubscribe"] },
    Mpi { name: "mpich", launcher: &["mpiexec.mpich"] },
];

impl Mpi {
    fn program(&self, test: &str, program: &str) -> Option<PathBuf> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../build/workloads/mpi");
        let path = path.join(format!("{program}-{}", self.name));
        let starts = Command::new(self.launcher[0]).arg("--version").output().is_ok_and(|said| said.status.success());
        if !path.is_file() || !starts {
            println!("skipped: {test}: no {} or no {program} for it (make native)", self.launcher[0]);
            return None;
        }
        Some(path)
    }
}

fn is_root(command: &mut Command) -> &mut Command {
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_mpi_yield_when_idle"] {
        command.env(name, "1");
    }
    command.env("OMPI_MCA_btl_tcp_if_include", "lo")
}

fn run(test: &str, mut command: Command) -> Option<Ran> {
    if !sees_faults(test) {
        return None;
    }
    let ran = Ran::of(is_root(&mut command).output().unwrap());
    assert_eq!(ran.status, Some(0), "{test}: {}", ran.stderr);
    Some(ran)
}

fn document(room: &Room, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(room.path(name)).unwrap()).unwrap()
}

/// The ranks in a document's list of tasks, by their first threads.
fn ranks(document: &Value) -> Vec<(u64, String)> {
    let tasks = document["task_list"].as_array().unwrap().iter();
    let first = tasks.filter(|task| task["thread"] == 0 && !task["rank"].is_null());
    let mut ranks: Vec<(u64, String)> =
        first.map(|task| (task["rank"].as_u64().unwrap(), task["name"].as_str().unwrap().to_owned())).collect();
    ranks.sort();
    ranks
}

fn named(count: u64) -> Vec<(u64, String)> {
    (0..count).map(|rank| (rank, format!("rank {rank}"))).collect()
}

const RING: [&str; 3] = ["ring", "--rounds", "200"];

#[test]
fn ranks_below_cohabit_are_named() {
    let test = "ranks_below_cohabit_are_named";
    for mpi in &MPIS {
        let Some(program) = mpi.program(test, "patterns") else { continue };
        let room = Room::new();
        let mut command = room.command(["run", "--dry-run", "--json", "r.json", "-o", "p.npz", "--"]);
        command.args(mpi.launcher).args(["-n", "3"]).arg(&program).args(RING);
        if run(test, command).is_none() {
            return;
        }
        assert_eq!(ranks(&document(&room, "r.json")), named(3), "{}", mpi.name);
        let shown: Value = serde_json::from_str(&room.run("show p.npz --json -").stdout).unwrap();
        // MPI's own threads are left out where it is known by then that they do nothing.
        assert!(["ranks", "hybrid"].contains(&shown["kind"].as_str().unwrap()), "{shown}");
    }
}

#[test]
fn of_the_cohabits_of_a_node_one_leads() {
    let test = "of_the_cohabits_of_a_node_one_leads";
    for mpi in &MPIS {
        let Some(program) = mpi.program(test, "patterns") else { continue };
        let room = Room::new();
        let mut command = Command::new(mpi.launcher[0]);
        command.args(&mpi.launcher[1..]).args(["-n", "3", env!("CARGO_BIN_EXE_cohabit"), "run", "--dry-run"]);
        command.args(["--json", "r.json", "--"]).arg(&program).args(RING).current_dir(room.path("."));
        let Some(ran) = run(test, command) else { return };
        assert_eq!(ranks(&document(&room, "r.json")), named(3), "{}: {}", mpi.name, ran.stderr);
        assert_eq!(ran.stderr.matches("watching page faults").count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn a_rank_ends_as_its_program_does() {
    let test = "a_rank_ends_as_its_program_does";
    let mpi = &MPIS[1];
    if mpi.program(test, "patterns").is_none() || !sees_faults(test) {
        return;
    }
    let cohabit = env!("CARGO_BIN_EXE_cohabit");
    for (script, status) in [("exit 3", 3), ("exec ./none", 127)] {
        let mut command = Command::new(mpi.launcher[0]);
        command.args(["-n", "3", cohabit, "run", "--dry-run", "--", "sh", "-c", script]);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.status, Some(status), "{script}: {}", ran.stderr);
    }
}

#[test]
fn threads_of_ranks_are_named_by_both() {
    let test = "threads_of_ranks_are_named_by_both";
    for mpi in &MPIS {
        let Some(program) = mpi.program(test, "hybrid") else { continue };
        let room = Room::new();
        let mut command = room.command(["run", "--dry-run", "--json", "r.json", "--"]);
        command.args(mpi.launcher).args(["-n", "2"]).arg(&program).arg(room.path("shared")).args(["3", "5", "1000"]);
        if run(test, command).is_none() {
            return;
        }
        let document = document(&room, "r.json");
        assert_eq!(ranks(&document), named(2), "{}", mpi.name);
        for task in document["task_list"].as_array().unwrap().iter().filter(|task| !task["rank"].is_null()) {
            let (rank, thread) = (&task["rank"], task["thread"].as_u64().unwrap());
            let expected = if thread == 0 { format!("rank {rank}") } else { format!("rank {rank}.{thread}") };
            assert_eq!(task["name"], expected.as_str());
        }
        let of_rank_1 = |task: &&Value| task["rank"] == 1;
        let threads = document["task_list"].as_array().unwrap().iter().filter(of_rank_1).count();
        assert!(threads >= 3, "{}: {threads} threads of rank 1", mpi.name);
    }
}

/// What ranks send is counted in them while they run, whatever it goes through: below cohabit, with one below each
/// rank's launcher, and where a script calls that.
#[test]
fn messages_of_ranks_are_counted() {
    let test = "messages_of_ranks_are_counted";
    // Few rounds: ranks that wait in loops take minutes for many where the machine does other things.
    const ROUNDS: u64 = 500;
    let size = 65_536_u64;
    for mpi in &MPIS {
        let Some(program) = mpi.program(test, "halo") else { continue };
        for way in ["above", "below", "script"] {
            let room = Room::new();
            let cohabit = ["run", "--dry-run", "--faults", "messages", "--json", "r.json", "-o", "p.npz", "--"];
            let (rounds, size_text) = (ROUNDS.to_string(), size.to_string());
            let program = [program.to_str().unwrap(), &rounds, &size_text, "1"];
            let command = match way {
                "below" => {
                    let mut command = Command::new(mpi.launcher[0]);
                    command.args(&mpi.launcher[1..]).args(["-n", "2", env!("CARGO_BIN_EXE_cohabit")]).args(cohabit);
                    command.args(program).current_dir(room.path("."));
                    command
                }
                "script" => {
                    let line = [mpi.launcher, &["-n", "2"], &program].concat().join(" ");
                    std::fs::write(room.path("job.sh"), format!("cd .\n{line}\n")).unwrap();
                    let mut command = room.command(cohabit);
                    command.args(["sh", "job.sh"]);
                    command
                }
                _ => {
                    let mut command = room.command(cohabit);
                    command.args(mpi.launcher).args(["-n", "2"]).args(program);
                    command
                }
            };
            let Some(ran) = run(test, command) else { return };
            let (document, name) = (document(&room, "r.json"), mpi.name);
            let count = |name: &str| document[name].as_u64().unwrap();
            // Both send both ways in each round; beside that there is a reduction or two.
            let exchanged = 4 * ROUNDS;
            let (messages, bytes) = (count("messages"), count("bytes_of_messages"));
            assert!((exchanged..exchanged + 50).contains(&messages), "{name}: {messages}: {}", ran.stderr);
            assert!((size * exchanged..size * exchanged + 5000).contains(&bytes), "{name}: {bytes}");
            // A mebibyte is an event, and each message counts a page more; first touches of memory that the ranks share
            // come beside.
            let profile = read_profile(&room.path("p.npz")).unwrap();
            let events: u64 = profile.messages.iter().map(|(_, _, events)| events).sum::<u64>() / 2;
            let expected = (bytes + 4096 * messages) >> 20;
            assert!((expected - 20..expected + 60).contains(&events), "{name}: {events} for {expected}");
            assert!(ran.stderr.contains("counted by a library in them"), "{name}: {}", ran.stderr);
        }
    }
}

/// Where it is counted by others, or there are no ranks, nothing is preloaded.
#[test]
fn what_starts_no_ranks_has_no_library_for_them() {
    let room = Room::new();
    for (options, rank) in [(["--faults", "messages"], None), (["--faults", "none"], Some("0"))] {
        let mut command = room.command(["run", "--dry-run"]);
        command.args(options).args(["--", "sh", "-c", "echo \"[$COHABIT_MPI_PARTS$LD_PRELOAD]\""]);
        if let Some(rank) = rank {
            command.env("OMPI_COMM_WORLD_RANK", rank);
        }
        let Some(ran) = run("what_starts_no_ranks_has_no_library_for_them", command) else { return };
        assert_eq!(ran.stdout, "[]\n");
    }
}

/// What the processes of Open MPI's ranks share are files in /dev/shm, at other addresses in each. Sender and receiver
/// both write there, which is what the agent makes visible.
#[test]
fn messages_through_shared_memory_show_a_ring() {
    const RANKS: u32 = 4;
    let test = "messages_through_shared_memory_show_a_ring";
    let mpi = &MPIS[0];
    let Some(program) = mpi.program(test, "patterns") else { return };
    let room = Room::new();
    let mut command = room.command([
        "run",
        "--dry-run",
        "--faults",
        "agent",
        "--overhead",
        "5",
        "--json",
        "r.json",
        "-o",
        "p.npz",
        "--",
    ]);
    command.args(mpi.launcher).args(["-n", "4"]).arg(&program).args(["ring", "--rounds", "300000"]);
    if !can(test, &[("agent", "works")]) {
        return;
    }
    let Some(ran) = run(test, command) else { return };
    assert!(document(&room, "r.json")["pages_protected"].as_u64().unwrap() > 0, "{}", ran.stderr);
    let profile = read_profile(&room.path("p.npz")).unwrap();
    let main_of = |rank: u32| {
        let is_main = |task: &&Task| task.rank == Some(rank) && task.spawn_index == 0;
        profile.meta.tasks.iter().find(is_main).map(|task| task.id as usize).unwrap()
    };
    let (mut talking, mut silent) = (Vec::new(), Vec::new());
    for (a, b) in (0..RANKS).flat_map(|b| (0..b).map(move |a| (a, b))) {
        let are_neighbours = (a + 1) % RANKS == b || (b + 1) % RANKS == a;
        let events = profile.messages.get(main_of(a), main_of(b));
        if are_neighbours { &mut talking } else { &mut silent }.push(events);
    }
    let (least, most) = (talking.iter().min().unwrap(), silent.iter().max().unwrap());
    assert!(least > most, "neighbours {talking:?}, others {silent:?}: {}", ran.stderr);
}

#[test]
fn each_node_has_its_own() {
    let test = "each_node_has_its_own";
    let mpi = &MPIS[0];
    let Some(program) = mpi.program(test, "patterns") else { return };
    if !sees_faults(test) {
        return;
    }
    let Some(cluster) = Cluster::create(test) else { return };
    let room = Room::new();
    let mut command = cluster.on("n0");
    command.args([
        "mpirun.openmpi",
        "--host",
        "n0:2,n1:2",
        "-n",
        "4",
        env!("CARGO_BIN_EXE_cohabit"),
        "run",
        "--dry-run",
    ]);
    command.args(["--json", "r.json", "-o", "p.npz", "--"]).arg(&program).args(RING).current_dir(room.path("."));
    let output = command.output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    for (host, first) in [("n0", 0), ("n1", 2)] {
        let expected: Vec<(u64, String)> = (first..first + 2).map(|rank| (rank, format!("rank {rank}"))).collect();
        assert_eq!(ranks(&document(&room, &format!("r.{host}.json"))), expected, "{host}: {}", ran.stderr);
        assert!(room.path(&format!("p.{host}.npz")).is_file());
    }
}

#[test]
fn ranks_on_other_nodes_are_missed_aloud() {
    let test = "ranks_on_other_nodes_are_missed_aloud";
    let room = Room::new();
    // A rank of four, as a launcher would start it; the others are nowhere.
    let rank = ["env", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "sleep", "0.2"];
    let mut command = room.command(["run", "--dry-run", "--"]);
    command.args(rank);
    let Some(ran) = run(test, command) else { return };
    assert!(ran.stderr.contains("3 of 4 ranks were not seen"), "{}", ran.stderr);
}
