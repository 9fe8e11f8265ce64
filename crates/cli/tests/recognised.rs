//! Phases that nothing announces: mapped with what they are recognised by, recognised in a run by what is seen of it, and
//! followed. Detection needs rights that tests may not have; where they are missing that is said.

mod common;

use cohabit_formats::npz::write_profile;
use cohabit_model::profile::{Kind, Meta, SeriesRow};
use cohabit_model::{Matrix, Profile, Task};
use common::{Ran, Room, can, sees_faults, workload};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PROGRAM: &str = "alternating";

/// Programs that keep the PUs busy are watched one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A profile of four tasks in two patterns by turns, each for so many windows of 100 ms at a time.
fn profiled(room: &Room, kind: Kind, windows: [u64; 2]) {
    let task = |id: u32| -> Task {
        let rank = (kind == Kind::Ranks).then_some(id);
        let [kind, spawn_index, process] = if rank.is_some() { ["rank", "0", "1"] } else { ["thread", "1", "0"] };
        let [spawn_index, process] = [spawn_index, process].map(|times| id * times.parse::<u32>().unwrap());
        let task =
            json!({"id": id, "kind": kind, "name": "", "spawn_index": spawn_index, "process": process, "rank": rank});
        serde_json::from_value(task).unwrap()
    };
    let [first, second] = windows;
    let rows = (0..2 * (first + second)).flat_map(|bin| {
        let is_first = bin % (first + second) < first;
        let partner = move |task: u32| if is_first { task ^ 1 } else { (task + 2) % 4 };
        (0..4).map(move |source| SeriesRow {
            bin,
            source,
            destination: partner(source),
            messages: 100_000,
            bytes: 800_000,
        })
    });
    let mut series: Vec<SeriesRow> = rows.collect();
    series.sort_unstable();
    let sum = |value: fn(&SeriesRow) -> u64| {
        Matrix::from_triplets(4, series.iter().map(|row| (row.source, row.destination, value(row))))
    };
    let meta = Meta { window_ns: 100_000_000, ..Meta::new(kind, "dbi", (0..4).map(task).collect()) };
    let profile = Profile::new(meta, sum(|row| row.messages), sum(|row| row.bytes));
    write_profile(&room.path("p.npz"), &Profile { series, ..profile }).unwrap();
}

/// What `map` says of the phases of `p.npz`.
fn said_of_phases(room: &Room) -> String {
    let words = ["map", "p.npz", "--per-phase=recurring", "--topology", "pack:2 core:2 pu:1", "-o", "m.json"];
    let ran = Ran::of(room.command(words).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    ran.stdout.lines().last().unwrap().to_owned()
}

/// The mapping of four threads in two patterns, each of so many windows of 100 ms at a time, onto two packages; the first
/// two PUs of this machine are these packages. None, said aloud, where there are no two.
fn mapped(test: &str, room: &Room, windows: u64) -> Option<Value> {
    profiled(room, Kind::Threads, [windows; 2]);
    mapped_here(test, room)
}

/// The mapping of `p.npz`.
fn mapped_here(test: &str, room: &Room) -> Option<Value> {
    said_of_phases(room);
    let mut mapping: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    let pus = cohabit_host::CpuMask::of_thread(0).unwrap().pus();
    if pus.len() < 2 {
        println!("skipped: {test}: one PU");
        return None;
    }
    let here = |seat: &mut Value| {
        seat["pu"] = pus[seat["pu"].as_u64().unwrap() as usize / 2].into();
        seat.as_object_mut().unwrap().remove("pus");
    };
    mapping["tasks"].as_array_mut().unwrap().iter_mut().for_each(here);
    for phase in mapping["phases"]["mappings"].as_array_mut().unwrap() {
        phase["tasks"].as_array_mut().unwrap().iter_mut().for_each(here);
    }
    room.file("m.json", mapping.to_string());
    Some(mapping)
}

/// What a run can follow is said by `map`, each sentence where it is so and nowhere else.
#[test]
fn what_a_run_will_recognise_is_said_by_map() {
    let room = Room::new();
    let sentences = [
        "; 'cohabit run' recognises these patterns while the program runs",
        "; 'cohabit run' recognises these patterns while the program runs, but for 2: less than 1.00 s is too short",
        "; these patterns last 600 ms at most, on the mean, and 'cohabit run' needs 1.00 s at least to recognise one: it keeps \
         the mapping above",
        "; 'cohabit run' moves ranks at call sites of MPI, and these are patterns",
    ];
    for (kind, windows, right) in [
        (Kind::Threads, [60, 60], 0),
        (Kind::Threads, [60, 6], 1),
        (Kind::Threads, [6, 6], 2),
        (Kind::Ranks, [60, 60], 3),
    ] {
        profiled(&room, kind, windows);
        let said = said_of_phases(&room);
        assert!(said.ends_with(sentences[right]), "{said}");
        let others = sentences.iter().enumerate().filter(|&(at, _)| at != right);
        others.for_each(|(_, other)| assert!(!said.ends_with(other), "{said}"));
    }
}

/// Where nothing can be watched the program runs by the one mapping, and that is said.
#[test]
fn where_nothing_can_be_watched_the_one_mapping_is_kept() {
    let test = "where_nothing_can_be_watched_the_one_mapping_is_kept";
    let room = Room::new();
    let Some(_) = mapped(test, &room, 60) else { return };
    // Where a ledger is to be kept there is a file, in a mount namespace of its own.
    let possible =
        std::process::Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|ended| ended.success());
    if !possible {
        println!("skipped: {test}: no mount namespaces of one's own here");
        return;
    }
    let script = "mount -t tmpfs none /run; touch /run/cohabit; exec \"$COHABIT\" run --pinning always --mapping m.json \
                  --json r.json -- sh -c 'echo out; exit 7'";
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-ec", script]).env("COHABIT", env!("CARGO_BIN_EXE_cohabit")).current_dir(room.path("."));
    let ran = Ran::of(command.output().unwrap());
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(7), "out\n"), "{}", ran.stderr);
    let line = ran.said().into_iter().find(|line| line.starts_with("cohabit: phases cannot be recognised here: "));
    assert!(line.is_some_and(|line| line.ends_with(": the one mapping is kept")), "{}", ran.stderr);
    assert!(!ran.stderr.contains("never sure"), "{}", ran.stderr);
}

/// Runs the program by the mapping: what cohabit said, and its document.
fn placed(room: &Room, program: &Path, words: &[&str]) -> (Ran, Value) {
    // More than is usual: much else may run on the machine.
    let options = ["run", "--overhead", "10", "--pinning", "always", "--mapping", "m.json", "--json", "r.json", "--"];
    let program = [program.to_str().unwrap()];
    let ran = Ran::of(room.command(options.iter().chain(&program).chain(words)).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().last(), Some("right"));
    let document: Value = serde_json::from_slice(&std::fs::read(room.path("r.json")).unwrap()).unwrap();
    assert_eq!(
        ran.said().last().copied(),
        document["recognised"]["text"].as_str().map(|text| format!("cohabit: {text}")).as_deref()
    );
    (ran, document)
}

/// When each phase began, as the program says.
fn began(ran: &Ran) -> Vec<f64> {
    let phases = ran.stdout.lines().filter_map(|line| line.strip_prefix("phase "));
    phases.map(|phase| phase.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

/// What is needed to watch the program, and the program; none, said aloud, where it is not there.
fn watched(test: &str) -> Option<std::path::PathBuf> {
    let program = workload(test, PROGRAM)?;
    (sees_faults(test) && can(test, &[("samples", "works")])).then_some(program)
}

/// Neighbours, then those two away, and so on: after each change the threads move to where the phase has them.
fn follows(room: &Room, mapping: &Value, program: &Path) {
    let (ran, document) = placed(room, program, &["4", "5", "3", "turns", "16384"]);
    let began = began(&ran);
    let recognised = &document["recognised"];
    let changes: Vec<(f64, u64, u64)> = recognised["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            (change["seconds"].as_f64().unwrap(), change["number"].as_u64().unwrap(), change["moves"].as_u64().unwrap())
        })
        .collect();
    println!("{began:?} {changes:?}");
    // Which of the mapping's phases is that of the neighbours.
    let is_near = |number: u64| {
        let phase = mapping["phases"]["mappings"].as_array().unwrap().iter().find(|phase| phase["number"] == number);
        phase.unwrap()["recognised_by"]["pairs"][0][1] == 1
    };
    let mut right = 0;
    for (at, &start) in began.iter().enumerate() {
        let end = began.get(at + 1).copied().unwrap_or(f64::INFINITY);
        right += usize::from(
            changes.iter().any(|change| (start..end).contains(&change.0) && is_near(change.1) == (at % 2 == 0)),
        );
    }
    // On a machine where much else runs one may be missed.
    assert!(right >= 2, "{began:?} {changes:?} {}", ran.stderr);
    assert!(changes.iter().map(|change| change.2).sum::<u64>() > 0, "{changes:?}");
    let text = recognised["text"].as_str().unwrap();
    assert!(text.starts_with("patterns were recognised ") && text.contains("threads were moved "), "{text}");
    for other in ["never sure", "announced", "cannot be recognised", "too much alike", "one mapping"] {
        assert!(!ran.stderr.contains(other), "{}", ran.stderr);
    }
    // What was done is what the mapping says.
    for phase in document["phases"]["carried_out"].as_array().unwrap() {
        let of_phase = |mapped: &&Value| mapped["number"] == phase["number"];
        let mapped = mapping["phases"]["mappings"].as_array().unwrap().iter().find(of_phase).unwrap();
        for placed in phase["placed"].as_array().unwrap() {
            let task = placed["task"].as_u64().unwrap() as usize;
            assert_eq!(placed["affinity"], json!([mapped["tasks"][task]["pu"]]), "{phase} {mapped}");
        }
    }
}

#[test]
fn phases_that_nothing_announces_are_recognised_and_followed() {
    let _alone = alone();
    let test = "phases_that_nothing_announces_are_recognised_and_followed";
    let Some(program) = watched(test) else { return };
    let room = Room::new();
    let Some(mapping) = mapped(test, &room, 60) else { return };
    follows(&room, &mapping, &program);
}

#[test]
fn they_are_profiled_mapped_and_followed() {
    let _alone = alone();
    let test = "they_are_profiled_mapped_and_followed";
    let Some(program) = watched(test) else { return };
    let Some(room) = Room::to_profile(test) else { return };
    let words = ["profile", "-o", "p.npz", "--", program.to_str().unwrap(), "4", "2", "4", "turns", "1024"];
    let ran = Ran::of(room.command(words).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let Some(mapping) = mapped_here(test, &room) else { return };
    assert_eq!(mapping["phases"]["by"], "recurring");
    follows(&room, &mapping, &program);
}

/// Threads that stay with one partner, and threads that have another one in every round: no change is made for them.
#[test]
fn where_nothing_changes_nothing_is_moved() {
    let _alone = alone();
    let test = "where_nothing_changes_nothing_is_moved";
    let Some(program) = watched(test) else { return };
    let room = Room::new();
    let Some(mapping) = mapped(test, &room, 60) else { return };
    let (_, document) = placed(&room, &program, &["4", "3", "2", "same", "16384"]);
    let near = mapping["phases"]["mappings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|phase| phase["recognised_by"]["pairs"][0][1] == 1);
    let number = &near.unwrap()["number"];
    let recognised = &document["recognised"];
    assert!(recognised["phases"].as_array().unwrap().iter().all(|phase| phase["number"] == *number), "{recognised}");
    assert!(recognised["moves"].as_u64().unwrap() <= 4, "{recognised}");
    let (ran, document) = placed(&room, &program, &["4", "3", "2", "any", "16384"]);
    let recognised = &document["recognised"];
    assert_eq!((&recognised["phases"], &recognised["moves"]), (&json!([]), &0.into()), "{recognised}");
    assert!(ran.stderr.contains("it was never sure which pattern the program was in ("), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("the one mapping was kept\n") && !ran.stderr.contains("recognised"), "{}", ran.stderr);
}

/// What cannot be recognised is not watched, and that is said; what is in conflict with it is refused.
#[test]
fn what_cannot_be_recognised_is_said() {
    let test = "what_cannot_be_recognised_is_said";
    let room = Room::new();
    let Some(mapping) = mapped(test, &room, 6) else { return };
    let ran = room.run("run --pinning always --mapping m.json --json r.json -- true");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let line = "cohabit: the patterns of the mapping last 600 ms at most, on the mean, and 1.00 s at least are needed to \
                recognise one: the one mapping is kept";
    assert_eq!(ran.said().iter().filter(|said| **said == line).count(), 1, "{}", ran.stderr);
    assert!(!ran.stderr.contains("never sure"), "{}", ran.stderr);
    let document: Value = serde_json::from_slice(&std::fs::read(room.path("r.json")).unwrap()).unwrap();
    assert!(document["recognised"].is_null() && document["phases"].is_null(), "{document}");
    // A mapping of an earlier version, which does not say by what phases are recognised.
    let mut without = mapping.clone();
    for phase in without["phases"]["mappings"].as_array_mut().unwrap() {
        phase.as_object_mut().unwrap().remove("recognised_by");
    }
    room.file("without.json", without.to_string());
    room.run("run --mapping without.json -- true").assert_fails(125, "does not say by what they are recognised");
    // One whose phases are announced.
    let mut announced = without;
    announced["phases"]["by"] = "markers".into();
    room.file("announced.json", announced.to_string());
    room.run("run --mapping announced.json --overhead 2 -- true").assert_fails(125, "nothing is watched");
    for options in ["--profile p.npz --overhead 2", "--unplaced --overhead 2", "--mapping m.json --faults none"] {
        let ran = room.run(&format!("run {options} -- true"));
        assert!(ran.status == Some(125) && ran.stderr.contains("cannot be used with"), "{options}: {}", ran.stderr);
    }
    let ran = room.run("run --mapping m.json --overhead 2 -- true");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
}
