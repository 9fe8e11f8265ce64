//! `cohabit record`, `detectors` and `compare-detectors`, as a user types them.

mod common;

use common::{Ran, Room, workload};

#[test]
fn a_program_is_recorded_checked_and_looked_at_by_all_detectors() {
    let Some(room) = Room::to_profile("programs are recorded") else { return };
    let ran = room.run("record -o r.rec --json r.json -- sh -c true");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("accesses in") && ran.stderr.contains("r.rec"), "{}", ran.stderr);
    let told: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(room.path("r.json")).unwrap()).unwrap();
    assert!(told["accesses"].as_u64().unwrap() > 1000 && told["status"]["exited"] == 0, "{told}");
    let checked = room.run("record --check r.rec --json c.json");
    assert_eq!((checked.status, checked.stderr.as_str()), (Some(0), ""));
    assert!(checked.stdout.contains("instructions"), "{}", checked.stdout);
    let compared =
        Ran::of(room.command(["compare-detectors", "r.rec", "--topology", "pack:2 core:2 pu:1"]).output().unwrap());
    assert_eq!(compared.status, Some(0), "{}", compared.stderr);
    assert!(compared.said().iter().any(|line| line.contains("no two tasks communicate")), "{}", compared.stderr);
    let simulated = room.run("simulate r.rec --machine harpertown --mapper packed");
    assert_eq!((simulated.status, simulated.stderr.as_str()), (Some(0), ""));
    // In larger blocks order cannot be told by words, and that is said.
    let ran = room.run("record --block 128 -o large.rec -- sh -c true");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let simulated = room.run("simulate large.rec --machine harpertown --mapper packed");
    assert!(simulated.status == Some(0) && simulated.stderr.contains("record again"), "{}", simulated.stderr);
    // Without its markers a region is empty, and no order of mappings follows from that.
    let ran = room.run("record --roi -o empty.rec -- true");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    for line in ["simulate empty.rec --machine purple --sensitivity", "compare-detectors empty.rec --topology pu:2"] {
        room.run(line).assert_fails(1, "empty.rec: nothing was recorded");
    }
    // The same of a program: what it does is recorded, looked at and forgotten.
    let folder = room.path("tmp");
    std::fs::create_dir(&folder).unwrap();
    let words = "compare-detectors --topology pu:4 --sampled 5 --json d.json -- sh -c";
    let mut recorded = room.command(words.split(' ').chain(["exit 3"]));
    let ran = Ran::of(recorded.env("TMPDIR", &folder).output().unwrap());
    assert_eq!(ran.status, Some(3), "as the program ended: {}", ran.stderr);
    assert!(ran.stdout.lines().any(|line| line.starts_with("exact 1/5 ")), "{}", ran.stdout);
    assert!(ran.said().iter().any(|line| line.contains("the program failed (exit status: 3)")), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let told: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(room.path("d.json")).unwrap()).unwrap();
    assert_eq!(told["program"], serde_json::json!(["sh", "-c", "exit 3"]));
    room.run("simulate --machine purple --json - -- true").assert_fails(125, "where the program writes as well");
    room.run("simulate --machine purple --mapper nearest -- true").assert_fails(125, "nearest");
    assert_eq!(room.run("simulate --machine purple --mapper packed -- false").status, Some(1));
    room.run("simulate --machine purple -- nowhere/to/be/found").assert_fails(127, "nowhere/to/be/found");
    room.run("simulate --machine purple").assert_fails(2, "neither a recording nor a program");
    room.run("simulate r.rec --machine purple -- true").assert_fails(125, "cannot be used with");
    assert!(
        std::fs::read_dir(room.path(".")).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".cohabit-"))
    );
}

/// Who comes late out of a barrier on the recorded machine does not wait for who is at the next already.
#[test]
fn threads_that_work_alone_between_barriers_take_as_long_as_one() {
    const TEST: &str = "recorded barriers";
    let (Some(room), Some(program)) = (Room::to_profile(TEST), workload(TEST, "alone")) else { return };
    let record = |threads: &str, how: &str| {
        let program = program.to_str().unwrap();
        let ran = Ran::of(room.command(["record", "-o", "r.rec", "--", program, threads, "10", how]).output().unwrap());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    };
    let simulated = |options: &str| {
        let ran = room.run(&format!("simulate r.rec --machine harpertown --mapper packed {options} --json -"));
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect(&ran.stderr);
        document["mappings"][0]["report"]["time_fs"].as_f64().unwrap() / 1e12
    };
    let time = |threads: &str, barrier: &str| {
        record(threads, barrier);
        simulated("")
    };
    // Who takes a mutex takes it in the recorded order.
    for (barrier, most) in [("pthread", 1.3), ("flag", 1.3), ("condition", 2.0)] {
        let (one, four) = (time("1", barrier), time("4", barrier));
        // They share a bus, from which each has its memory once.
        assert!(four < most * one, "{barrier}: {one} ms, and {four} with four threads");
    }
    // Whoever comes takes the next piece, and nobody waits for whoever took the one before. With nobody waiting for any
    // counter they do not wait at the barrier's either, which is faster where one took more pieces than others: so one
    // recording of several. In the recorded order it is 1.5 to 2.5 times as long.
    let ratio = |_| {
        record("4", "counter");
        simulated("") / simulated("--free-locks")
    };
    let ratios: Vec<f64> = (0..5).map(ratio).collect();
    assert!(ratios.iter().any(|ratio| *ratio < 1.3), "{ratios:?} of the time with nobody waiting for the counter");
}

/// Whoever reads from a pipe communicates with whoever writes to it, and can be put beside it.
#[test]
fn what_goes_through_pipes_becomes_a_profile_and_a_mapping() {
    let Some(room) = Room::to_profile("programs are recorded") else { return };
    let pipes = "(seq 20000 | wc -l) & (seq 30000 | tail -n 1); wait";
    let ran = Ran::of(room.command(["record", "-o", "r.rec", "--", "sh", "-c", pipes]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let ran = room.run("import r.rec -o p.npz");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let profile = cohabit_formats::npz::read_profile(&room.path("p.npz")).unwrap();
    assert_eq!((profile.meta.detector.as_str(), profile.meta.coverage.exact), ("recording", true));
    let named = |name: &str| {
        let ids = profile.meta.tasks.iter().filter(|task| task.name == name).map(|task| task.id as usize);
        ids.collect::<Vec<usize>>()
    };
    let (writers, lines, last) = (named("seq"), named("wc")[0], named("tail")[0]);
    let partner = |writer: usize| if profile.messages.get(writer, lines) > 0 { lines } else { last };
    let [a, b] = writers[..] else { panic!("{writers:?}") };
    assert_ne!(partner(a), partner(b));
    for (writer, other) in [(a, b), (b, a)] {
        // 20,000 numbers have 108,894 bytes, 30,000 have 168,894: lines of 64.
        let bytes = if partner(writer) == lines { 108_894 } else { 168_894 };
        assert_eq!(profile.bytes.get(writer, partner(writer)), bytes);
        assert_eq!(profile.messages.get(writer, partner(other)), 0);
    }
    let ran = Ran::of(room.command(["map", "p.npz", "--topology", "l2:8 pu:2", "-o", "m.json"]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let ran = room.run("show p.npz");
    assert!(ran.status == Some(0) && ran.stdout.contains("seq"), "{} {}", ran.stdout, ran.stderr);
    assert!(!ran.stderr.contains("pipes"), "{}", ran.stderr);
}

/// However much goes through a pipe, none of it is written over before it is read.
#[test]
fn all_that_goes_through_a_pipe_is_counted() {
    let Some(room) = Room::to_profile("programs are recorded") else { return };
    let pipe = "head -c 10000000 /dev/zero | wc -c";
    let ran = Ran::of(room.command(["record", "-o", "r.rec", "--", "sh", "-c", pipe]).output().unwrap());
    assert_eq!((ran.status, ran.stdout.trim()), (Some(0), "10000000"), "{}", ran.stderr);
    room.run("import r.rec -o p.npz");
    let profile = cohabit_formats::npz::read_profile(&room.path("p.npz")).unwrap();
    let id = |name: &str| profile.meta.tasks.iter().position(|task| task.name == name).unwrap();
    assert_eq!(profile.bytes.get(id("head"), id("wc")), 10_000_000);
    assert_eq!(profile.messages.get(id("head"), id("wc")), 10_000_000 / 64);
}

/// What a process that is killed has done last is in no recording, which is not called exact.
#[test]
fn who_was_killed_is_told() {
    let Some(room) = Room::to_profile("programs are recorded") else { return };
    let line = "sh -c 'kill -9 $$' | cat; true";
    let ran = Ran::of(room.command(["record", "-o", "r.rec", "--", "sh", "-c", line]).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("not seen: the end of process 1"), "{}", ran.stderr);
    assert!(room.run("record --check r.rec").stderr.contains("it was killed"));
    room.run("import r.rec -o p.npz");
    let profile = cohabit_formats::npz::read_profile(&room.path("p.npz")).unwrap();
    assert!(!profile.meta.coverage.exact);
    // What is said of the command itself is a sentence.
    let killed = Ran::of(room.command(["record", "-o", "k.rec", "--", "sh", "-c", "kill -9 $$"]).output().unwrap());
    let sentence = "cohabit: SIGKILL ended the program: what was counted until then is kept";
    assert!(killed.signal == Some(9) && killed.stderr.lines().any(|line| line == sentence), "{}", killed.stderr);
    let whole = Ran::of(room.command(["record", "-o", "w.rec", "--", "sh", "-c", "true | cat"]).output().unwrap());
    assert!(!whole.stderr.contains("not seen"), "{}", whole.stderr);
}

#[test]
fn statuses_pass_through_and_wrong_usage_is_said() {
    let Some(room) = Room::to_profile("programs are recorded") else { return };
    let ran = Ran::of(room.command(["record", "-o", "r.rec", "--", "sh", "-c", "exit 7"]).output().unwrap());
    assert_eq!(ran.status, Some(7), "{}", ran.stderr);
    room.run("record -- true").assert_fails(125, "--output");
    room.run("record -o /no/such/folder/r.rec -- true").assert_fails(125, "/no/such/folder");
    room.run("record --block 16 -o r.rec -- true").assert_fails(125, "from 32 to 4096");
    room.file("no.rec", "nothing");
    room.run("record --check no.rec").assert_fails(1, "no recording");
    room.run("compare-detectors no.rec").assert_fails(1, "no recording");
    room.run("compare-detectors no.rec --time-scale 0").assert_fails(2, "greater than 0");
}

#[test]
fn detectors_are_listed() {
    let room = Room::new();
    let listed = room.run("detectors");
    for name in ["exact", "deloc", "sharing", "cdsm", "tlb-sm", "tlb-hm"] {
        assert!(listed.stdout.lines().any(|line| line.starts_with(name)), "{name}: {}", listed.stdout);
    }
}
