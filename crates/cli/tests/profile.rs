//! `cohabit profile`: the program's streams and end pass through, and what was seen is kept, whatever the end.
//! How exact the counts are is tested in crates/observe.

mod common;

use common::{Ran, Room};
use std::process::Stdio;

fn profiled(room: &Room, program: &[&str]) -> Ran {
    narrated(room, program).without_narration()
}

fn narrated(room: &Room, program: &[&str]) -> Ran {
    Ran::of(room.command(["profile", "-o", "p.npz", "--json", "p.json", "--"].iter().chain(program)).output().unwrap())
}

/// What `--json` said of the last profile.
fn told(room: &Room) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(room.path("p.json")).unwrap()).unwrap()
}

#[test]
fn status_streams_and_arguments_pass_through() {
    let Some(room) = Room::to_profile("profiled programs keep their streams") else { return };
    for status in [0, 1, 42, 125, 126, 127, 255] {
        let ran = profiled(&room, &["sh", "-c", &format!("echo out; echo err >&2; exit {status}")]);
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (Some(status), "out\n", "err\n"));
        assert_eq!(told(&room)["status"]["exited"], status);
        assert_eq!(told(&room)["coverage"]["exact"], true);
    }
    let input = room.file("input", "x".repeat(100_000));
    let mut command = room.command(["profile", "--quiet", "--", "cat"]);
    let ran = Ran::of(command.stdin(Stdio::from(std::fs::File::open(input).unwrap())).output().unwrap());
    assert_eq!((ran.status, ran.stdout.len(), ran.stderr.as_str()), (Some(0), 100_000, ""));
    assert!(room.path("cohabit.npz").exists(), "the profile's name where none is given");
}

#[test]
fn a_program_that_dies_leaves_a_profile_that_says_so() {
    let Some(room) = Room::to_profile("programs that die are profiled until then") else { return };
    for signal in [libc::SIGKILL, libc::SIGSEGV, libc::SIGTERM] {
        let ran = profiled(&room, &["sh", "-c", &format!("ulimit -c 0; kill -{signal} $$")]);
        assert_eq!((ran.status, ran.signal), (None, Some(signal)), "{}", ran.stderr);
        assert_eq!(told(&room)["status"]["signal"], signal);
        assert!(room.run("show p.npz").status == Some(0));
    }
    profiled(&room, &["sh", "-c", "kill -9 $$"]);
    assert_eq!(told(&room)["coverage"]["exact"], false);
}

#[test]
fn the_four_steps_hang_together() {
    let Some(room) = Room::to_profile("profile, show, map and run") else { return };
    assert_eq!(profiled(&room, &["sh", "-c", "exit 0"]).status, Some(0));
    for (line, expected) in [("show p.npz", "writer"), ("map p.npz -o m.json", "nothing to gain")] {
        let ran = room.run(line);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{line}");
        assert!(ran.stdout.contains(expected), "{line}: {}", ran.stdout);
    }
    for plan in ["--mapping m.json", "--profile p.npz"] {
        let ran = room.run(&format!("run {plan} -- sh -c true"));
        // One task gains nothing anywhere, and that alone is said.
        let told = ran.stderr.lines().collect::<Vec<_>>();
        assert!(
            ran.status == Some(0) && told.len() == 1 && told[0].contains("nothing to gain"),
            "{plan}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_full_disk_is_told() {
    let Some(room) = Room::to_profile("a full disk at the end of a profile") else { return };
    room.run("profile -q -o /dev/full -- true").assert_fails(125, "No space left on device");
}

#[test]
fn what_runs_what_was_found_and_what_to_type_is_told() {
    let Some(room) = Room::to_profile("profile tells what it does") else { return };
    let ran = narrated(&room, &["sh", "-c", "echo err >&2"]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ran.stderr);
    assert_eq!(
        lines[..2],
        ["cohabit: sh runs under the profiler, slower and with the same results; its profile goes to p.npz", "err"]
    );
    assert!(lines[2].starts_with("cohabit: p.npz: 1 thread, 0 messages in "), "{}", lines[2]);
    let (_, next) = lines[2].split_once("; next: cohabit ").unwrap();
    assert_eq!(room.run(next).status, Some(0), "what is to be typed works: {next}");
    // Of what never starts nothing is told but why.
    room.run("profile -o p.npz -- no-such-program").assert_fails(127, "command not found");
    room.run("profile -o p.npz --roi --detector mpi -- sh").assert_fails(125, "--roi is about memory");
    for option in ["--detector dbi,mpi", "--detector mpi", "--sharing"] {
        let ran = room.run(&format!("profile -o p.npz --window 1Minstr {option} -- sh"));
        ran.assert_fails(125, "--window: instructions are for threads by themselves");
    }
    room.run("profile -o p.npz --window 10instr -- sh").assert_fails(125, "1000instr or more");
    let quiet = room.run("profile -o p.npz --quiet -- true");
    assert_eq!((quiet.status, quiet.stderr.as_str()), (Some(0), ""));
}

#[test]
fn under_the_default_name_nothing_is_lost() {
    let Some(room) = Room::to_profile("profiles under the default name") else { return };
    let kept = |name: &str| std::fs::read(room.path(name)).unwrap_or_default();
    room.file("cohabit.npz", "what there was");
    let ran = room.run("profile -- true");
    assert!(
        ran.stderr.contains(" (the one before is cohabit-1.npz now); next: cohabit show cohabit.npz\n"),
        "{}",
        ran.stderr
    );
    let first = kept("cohabit.npz");
    assert_eq!((kept("cohabit-1.npz"), room.run("show cohabit.npz").status), (b"what there was".to_vec(), Some(0)));
    // Nor is it touched by a run of which no profile comes.
    room.run("profile -- no-such-program").assert_fails(127, "command not found");
    assert_eq!((kept("cohabit.npz"), room.path("cohabit-2.npz").exists()), (first.clone(), false));
    room.run("profile -q -- true");
    assert_eq!((kept("cohabit-1.npz"), kept("cohabit-2.npz")), (b"what there was".to_vec(), first));
    // A name that was given is the user's to write over.
    room.file("p.npz", "what there was");
    let ran = room.run("profile -o p.npz -- true");
    assert!(!ran.stderr.contains("the one before"), "{}", ran.stderr);
    assert!(!room.path("p-1.npz").exists() && room.run("show p.npz").status == Some(0));
}

#[test]
fn a_limit_on_address_space_is_said_in_a_line() {
    let Some(room) = Room::to_profile("what ulimit -v does not allow") else { return };
    let limited = "ulimit -Sv 4000000 && exec \"$0\" profile -o p.npz -- sh -c 'echo ran'";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_cohabit")]).current_dir(room.path("."));
    let ran = Ran::of(shell.output().unwrap());
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(125), ""));
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("ulimit -v allows 3.8 GiB") && ran.stderr.contains("ulimit -v unlimited"),
        "{}",
        ran.stderr
    );
    // A script of the program's own that limits what it starts.
    let ran = profiled(&room, &["sh", "-c", "ulimit -Sv 4000000; exec true"]);
    assert!(ran.stderr.contains("starts a program under ulimit -v (4000000 KiB)"), "{}", ran.stderr);
}

#[test]
fn a_region_of_interest_that_never_began_is_said_and_not_called_exact() {
    let Some(room) = Room::to_profile("a region of interest without markers") else { return };
    let ran =
        Ran::of(room.command(["profile", "--roi", "-o", "p.npz", "--json", "p.json", "--", "true"]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("--roi: anything: the program never began a region"), "{}", ran.stderr);
    assert!(ran.stderr.contains("cohabit_roi_begin"), "{}", ran.stderr);
    assert_eq!(told(&room)["coverage"]["exact"], false);
}

#[test]
fn tasks_that_talk_through_pipes_are_not_called_silent() {
    let Some(room) = Room::to_profile("what goes through pipes") else { return };
    for (script, through) in [("/bin/echo a | /bin/cat", true), ("/bin/true & wait", false)] {
        assert_eq!(profiled(&room, &["sh", "-c", script]).status, Some(0), "{script}");
        let shown = room.run("show p.npz").stdout;
        let map = room.command(["map", "p.npz", "--topology", "pack:2 core:4 pu:1"]).output().unwrap();
        let mapped = Ran::of(map).stdout;
        assert_eq!(shown.contains("nothing to place them by"), !through, "{script}: {shown}");
        assert_eq!(shown.contains("what goes through pipes is not seen"), through, "{script}: {shown}");
        assert_eq!(mapped.contains("what goes through pipes is not seen"), through, "{script}: {mapped}");
    }
}

/// A program that is in one phase and then in another: what it announces is profiled, mapped phase by phase, and
/// followed.
#[test]
fn phases_of_a_program_are_profiled_mapped_and_followed() {
    let Some(room) = Room::to_profile("phases are followed from the profile to the run") else { return };
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/workloads/patterns-pthreads");
    if !program.exists() {
        println!("skipped: phases are followed: {} was not built (make native)", program.display());
        return;
    }
    let program = std::fs::canonicalize(program).unwrap();
    // Near pairs, then far ones, each for so many windows that the matrices of phases are theirs.
    let words = [program.to_str().unwrap(), "phases", "--threads", "8", "--rounds", "1000", "--blocks", "8"];
    let ran = Ran::of(room.command(["profile", "-o", "p.npz", "--"].iter().chain(&words)).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let shown = room.run("show p.npz --time");
    assert!(shown.stdout.contains("2 phases"), "{}", shown.stdout);
    let map = ["map", "p.npz", "--per-phase", "--topology", "pack:4 core:2 pu:1", "-o", "m.json"];
    let ran = Ran::of(room.command(map).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let read =
        |name: &str| -> serde_json::Value { serde_json::from_slice(&std::fs::read(room.path(name)).unwrap()).unwrap() };
    let mut mapping = read("m.json");
    for (at, partner) in [(0, 1), (1, 4)] {
        let package = |task: usize| mapping["phases"]["mappings"][at]["tasks"][task]["pu"].as_u64().unwrap() / 2;
        assert!((0..8).all(|task| package(task) == package(task ^ partner)), "phase {at}: {mapping}");
    }
    // The same on PUs that are here.
    let pus = cohabit_host::CpuMask::of_thread(0).unwrap().pus();
    let here = |seat: &mut serde_json::Value| {
        let pu = seat["pu"].as_u64().unwrap() as usize;
        seat["pu"] = pus[pu * pus.len() / 8].into();
        seat.as_object_mut().unwrap().remove("pus");
    };
    mapping["tasks"].as_array_mut().unwrap().iter_mut().for_each(here);
    for phase in mapping["phases"]["mappings"].as_array_mut().unwrap() {
        phase["tasks"].as_array_mut().unwrap().iter_mut().for_each(here);
    }
    room.file("m.json", mapping.to_string());
    let place = ["run", "--pinning", "always", "--mapping", "m.json", "--json", "r.json", "--"];
    let ran = Ran::of(room.command(place.iter().chain(&words)).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let phases = &read("r.json")["phases"];
    assert_eq!((&phases["announced"], &phases["unknown"]), (&2.into(), &serde_json::json!([])));
    // However few of them were seen in time, what was done is what the mapping says.
    for phase in phases["carried_out"].as_array().unwrap() {
        let of_phase = |mapped: &&serde_json::Value| mapped["number"] == phase["number"];
        let mapped = mapping["phases"]["mappings"].as_array().unwrap().iter().find(of_phase).unwrap();
        for placed in phase["placed"].as_array().unwrap() {
            let task = placed["task"].as_u64().unwrap() as usize;
            assert_eq!(placed["affinity"], serde_json::json!([mapped["tasks"][task]["pu"]]), "{phase} {mapped}");
        }
    }
}
