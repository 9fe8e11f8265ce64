//! `cohabit run` is as if the program had been started directly: streams, exit status and signals pass through.

mod common;

use common::{Ran, Room};
use std::io::Write;
use std::process::Stdio;

/// A folder with a mapping of one task onto a PU that this process may use.
fn room() -> Room {
    let room = Room::new();
    room.import("p.npz", "0\n");
    let ran = room.run("map p.npz --mapper packed -o m.json");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    room
}

fn placed(room: &Room, program: &[&str]) -> Ran {
    let arguments = ["run", "--pinning", "always", "--mapping", "m.json", "--"].iter().chain(program);
    Ran::of(room.command(arguments).output().unwrap())
}

#[test]
fn the_exit_status_is_the_programs() {
    let room = room();
    for status in [0, 1, 2, 42, 124, 125, 126, 127, 255] {
        let ran = placed(&room, &["sh", "-c", &format!("exit {status}")]);
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (Some(status), "", ""));
    }
}

#[test]
fn a_signal_that_kills_the_program_kills_cohabit() {
    let room = room();
    // None that whoever runs the tests in the background may have had ignored (SIGINT, SIGHUP).
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGUSR1, libc::SIGABRT, libc::SIGSEGV, libc::SIGPIPE] {
        let ran = placed(&room, &["sh", "-c", &format!("ulimit -c 0; kill -{signal} $$")]);
        assert_eq!((ran.status, ran.signal), (None, Some(signal)), "{}", ran.stderr);
    }
}

#[test]
fn streams_pass_through_byte_for_byte() {
    let room = room();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut command = room.command([
        "run",
        "--pinning",
        "always",
        "--mapping",
        "m.json",
        "--",
        "sh",
        "-c",
        "printf problem >&2; exec cat",
    ]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.stdout == bytes, "{} bytes came through", output.stdout.len());
    assert_eq!(output.stderr, b"problem");
}

#[test]
fn arguments_and_environment_pass_through() {
    let room = room();
    let mut command = room.command(["run", "--mapping", "m.json", "--", "sh", "-c", "printf '%s|' \"$@\" \"$GIVEN\""]);
    let ran = Ran::of(command.args(["sh", "--json", "a b", "", "--"]).env("GIVEN", "x y").output().unwrap());
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "--json|a b||--|x y|"));
}

/// By the order of processes a script or the launcher within it would be taken for rank 0.
#[test]
fn ranks_are_not_placed_without_their_launcher() {
    let room = Room::new();
    room.file("p.csv", "0,1\n1,0\n");
    let ran = room.run("import p.csv --kind ranks -o p.npz");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let ran = room.run("map p.npz --mapper packed --topology pu:2 -o m.json");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    std::fs::write(room.path("job.sh"), "mpirun.openmpi -n 2 true\n").unwrap();
    for plan in ["--mapping m.json", "--profile p.npz --topology pu:2"] {
        for command in ["touch ran", "sh job.sh"] {
            let ran = room.run(&format!("run {plan} -- {command}"));
            assert_eq!((ran.status, ran.stdout.as_str()), (Some(125), ""), "{}", ran.stderr);
            assert!(ran.stderr.contains("is no launcher of MPI") && ran.stderr.contains("mpirun"), "{}", ran.stderr);
        }
    }
    assert!(!room.path("ran").exists());
}

#[test]
fn what_was_done_is_told_as_json() {
    let room = room();
    let ran = room.run("run --mapping m.json --json out.json -- false");
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""));
    let text = std::fs::read_to_string(room.path("out.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["format"], 1);
    assert_eq!(document["command"], "run");
    assert_eq!(document["status"]["exited"], 1);
}

#[test]
fn a_profile_is_mapped_and_run_at_once() {
    let room = Room::new();
    room.chain("p.npz", 2, 100);
    let ran = room.run("run --pinning always --profile p.npz -- sh -c true");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    // The shell has one thread and the profile two tasks: that is said, and nothing else goes wrong.
    assert!(ran.stderr.contains("this task of the mapping never started: 1"), "{}", ran.stderr);
    assert!(ran.stderr.lines().all(|line| line.starts_with("cohabit: ")), "{}", ran.stderr);
}

/// The PUs that a program run by these words may use, as it sees them, and what cohabit says.
fn allowed(room: &Room, words: &str) -> (Vec<u32>, String) {
    let arguments = ["run"].into_iter().chain(words.split(' ').filter(|word| !word.is_empty()));
    let program = ["--", "grep", "Cpus_allowed_list", "/proc/self/status"];
    let ran = Ran::of(room.command(arguments.chain(program)).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let list = ran.stdout.trim_start_matches("Cpus_allowed_list:").trim().to_owned();
    (cohabit_host::CpuMask::parse(&list).unwrap().pus(), ran.stderr)
}

#[test]
fn where_nothing_can_be_gained_nothing_is_pinned_unless_it_is_asked_for() {
    let room = room();
    let all = cohabit_host::CpuMask::of_thread(0).unwrap().pus();
    let (pus, said) = allowed(&room, "--mapping m.json");
    assert_eq!(pus, all);
    assert!(said.contains("nothing to gain: no task communicates with another"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let (pus, said) = allowed(&room, "--pinning always --mapping m.json");
    assert_eq!((pus.len(), said.as_str()), (1, ""));
    let last = all.last().unwrap();
    let (pus, said) = allowed(&room, &format!("--profile p.npz --pin 0={last}"));
    assert_eq!((pus, said.as_str()), (vec![*last], ""), "what the user pins is pinned");
}

#[test]
fn a_program_that_is_not_the_profiles_is_named() {
    let room = room();
    let text = std::fs::read_to_string(room.path("m.json")).unwrap();
    let named = text.replacen("\"tasks\":", "\"programs\": [\"/opt/solver\"], \"tasks\":", 1);
    std::fs::write(room.path("m.json"), named).unwrap();
    let (_, said) = allowed(&room, "--pinning always --mapping m.json");
    assert!(said.contains("the profile is of /opt/solver, which was not executed here: nothing was placed"), "{said}");
    assert!(!said.contains("OMP_NUM_THREADS") && !said.contains("never started"), "{said}");
}

#[test]
fn limits_of_files_and_descriptors_are_told() {
    let room = room();
    for (limit, words, said) in [
        ("-f 0", "map p.npz -o other.json", "cannot write other.json: File too large"),
        ("-n 4", "run --pinning always --mapping m.json -- true", "raise the number of open files"),
        ("-n 4", "profile -o other.npz -- true", "raise the number of open files"),
    ] {
        let script = format!("ulimit {limit}; exec \"$0\" {words}");
        let mut command = std::process::Command::new("timeout");
        command.args(["300", "sh", "-c", &script, env!("CARGO_BIN_EXE_cohabit")]).current_dir(room.path("."));
        let ran = Ran::of(command.output().unwrap());
        assert!(
            ran.status.is_some_and(|status| ![0, 124].contains(&status)),
            "{limit}: {:?} {}",
            ran.status,
            ran.stderr
        );
        assert!(ran.stderr.contains(said), "{limit}: {}", ran.stderr);
    }
}
