//! `cohabit compare` and `cohabit tune`, on programs whose time depends on where they may run: nothing here hangs on a
//! clock.

mod common;

use common::{Ran, Room, executable};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Says that it took less under the mapping, where it may use one PU, than under the system, where it may use several.
/// How long it really takes is the machine's affair.
const FASTER_WHEN_BOUND: &str = "#!/bin/sh
while read -r name value; do case $name in Cpus_allowed_list:) pus=$value;; esac; done </proc/$$/status
case $pus in *[-,]*) echo took 9; echo rate 10;; *) echo took 3; echo rate 30;; esac
sleep 0.02
";

/// A folder with a program and a mapping of its one task.
fn room(test: &str, script: &str) -> Option<Room> {
    let room = Room::new();
    room.import("p.npz", "0\n");
    let ran = room.run("map p.npz --mapper packed -o bound.json");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    executable(&room.file("program", script));
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: {test}: one PU only");
        return None;
    }
    Some(room)
}

fn compare(room: &Room, options: &str) -> Ran {
    // Held from the start, for a script has no second thread.
    room.run(&format!("compare --mapping bound.json --pinning always --hold-main {options} -- ./program"))
}

fn json(room: &Room, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(room.path(name)).unwrap()).unwrap()
}

#[test]
fn a_placement_that_is_faster_is_said_to_be_and_one_that_is_the_same_is_not() {
    let Some(room) = room("compare", FASTER_WHEN_BOUND) else { return };
    std::fs::copy(room.path("bound.json"), room.path("again.json")).unwrap();
    let line = "compare --mapping bound.json --mapping again.json --pinning always --hold-main --runs 8 --json r.json --csv r.csv";
    let rest = ["--markdown", "r.md", "-o", "runs.json", "--metric", "took ([0-9]+)", "--", "./program"];
    let ran = Ran::of(room.command(line.split(' ').chain(rest)).output().unwrap());
    let same = "cohabit: bound and again put every task in the same place: what differs is chance\n";
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), same));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("./program: 8 blocks, each arm once in each"), "{}", ran.stdout);
    for arm in ["bound", "again"] {
        let line = lines.iter().find(|line| line.starts_with(arm)).unwrap();
        assert!(line.ends_with("better") && line.contains("-66.7 %"), "{line}");
    }
    let found = json(&room, "r.json");
    assert_eq!((found["command"].as_str(), found["blocks"].as_u64()), (Some("compare"), Some(8)));
    let arms = found["arms"].as_array().unwrap();
    assert_eq!(arms[0]["name"], "system");
    assert!(arms[0]["change"].is_null() && arms[0]["medians"]["waits"].as_f64().unwrap() > 0.0, "{}", arms[0]);
    assert_eq!(arms[1]["change"]["claim"], "better");
    let (low, high) = (&arms[1]["change"]["interval"][0], &arms[1]["change"]["interval"][1]);
    assert!((low.as_f64().unwrap() + 2.0 / 3.0).abs() < 1e-9 && low == high, "{low} {high}");
    // 8 blocks of three arms, each arm once before that; a line each, below the head.
    assert_eq!(std::fs::read_to_string(room.path("r.csv")).unwrap().lines().count(), 1 + 3 * 9);
    assert!(std::fs::read_to_string(room.path("r.md")).unwrap().contains("| bound | "));
    let kept = json(&room, "runs.json");
    assert_eq!(kept["runs"].as_array().unwrap().len(), 3 * 9);
    let order = |block: u64| {
        let runs =
            kept["runs"].as_array().unwrap().iter().filter(|run| run["block"] == block && run["warm_up"].is_null());
        runs.map(|run| run["arm"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert!((1..8).any(|block| order(block) != order(0)), "the order is drawn");
}

#[test]
fn a_number_that_the_program_prints_is_compared() {
    let Some(room) = room("metric", FASTER_WHEN_BOUND) else { return };
    let with = |output: &str, options: &[&str]| {
        let line =
            format!("compare --mapping bound.json --pinning always --hold-main --runs 7 --warm-up 0 -o {output}");
        let words = line.split(' ').chain(options.iter().copied()).chain(["--", "./program"]);
        Ran::of(room.command(words).output().unwrap())
    };
    let ran = with("m.json", &["--metric", "rate ([0-9]+)", "--better", "higher"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("+200.0 % (+200.0 % to +200.0 %)") && ran.stdout.contains("better"), "{}", ran.stdout);
    // It prints another number under each arm, always the same one.
    assert!(ran.stdout.contains("output depends on the arm"), "{}", ran.stdout);
    for (metric, cause, output) in [
        ("speed ([0-9]+)", "printed nothing that --metric", "a.json"),
        ("(rate)", "which is no number", "b.json"),
        ("rate [0-9]+", "no group", "c.json"),
        ("rate ([0-9]+", "--metric: ", "d.json"),
    ] {
        let ran = with(output, &["--metric", metric]);
        assert!(ran.stderr.contains(cause), "{metric}: {}", ran.stderr);
        assert!(matches!(ran.status, Some(1 | 2)), "{metric}: {:?}", ran.status);
    }
}

#[test]
fn what_was_run_is_kept_and_gone_on_with() {
    let Some(room) = room("resume", FASTER_WHEN_BOUND) else { return };
    let mut child = room
        .command(
            "compare --mapping bound.json --pinning always --hold-main --runs 500 --warm-up 0 -- ./program".split(' '),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let file = room.path("cohabit-compare.json");
    let runs = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        // Whole at every moment, or not there yet.
        let found: Option<Value> = (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap());
        found.map_or(0, |found| found["runs"].as_array().unwrap().len())
    };
    let until = Instant::now() + Duration::from_secs(60);
    while runs() < 5 {
        assert!(Instant::now() < until, "no runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = runs();
    compare(&room, "--runs 8").assert_fails(1, "is there already");
    compare(&room, "--runs 8 --resume --seed 1").assert_fails(1, "of another seed");
    compare(&room, "--runs 8 --resume --input program").assert_fails(1, "of another --pinning");
    compare(&room, "--runs 8 -o same.json --csv same.json").assert_fails(2, "--csv and -o name the same file");
    compare(&room, "--runs 8 --resume --memory bind").assert_fails(2, "NUMA node");
    let ran = compare(&room, "--runs 8 --resume --warm-up 0");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("8 blocks"), "{}", ran.stdout);
    let kept = json(&room, "cohabit-compare.json");
    let kept = kept["runs"].as_array().unwrap();
    // The block that was cut off is begun again.
    assert!(kept.len() >= 16 && kept.len() <= 16 + before % 2, "{} of {before}", kept.len());
    room.file("cohabit-compare.json", "{\"format\":1");
    compare(&room, "--runs 8 --resume").assert_fails(1, "no runs of a comparison");
}

#[test]
fn blocks_that_others_run_are_joined() {
    let Some(room) = room("cells", FASTER_WHEN_BOUND) else { return };
    let with = |options: &str| compare(&room, &format!("--runs 3 --warm-up 1 -o r.json {options}"));
    let listed = with("--cells");
    assert_eq!((listed.status, listed.stderr.as_str()), (Some(0), ""));
    let commands: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(commands.len(), 3, "{}", listed.stdout);
    assert!(commands[2].ends_with("-o r.json --cell 2 -- ./program"), "{}", commands[2]);
    assert!(Path::new(commands[2].split(' ').next().unwrap()).is_absolute(), "as it was called: {}", commands[2]);
    assert!(!room.path("r.cells").exists());
    with("--collect").assert_fails(1, "no block has run");
    with("--cell 3").assert_fails(1, "there is no block 3: --runs 3 makes blocks 0 to 2");
    with("--cell 0 --resume").assert_fails(2, "cannot be used with");
    room.run("compare --mapping bound.json --cells -- ./program").assert_fails(2, "--runs");
    let run = |command: &str| {
        let ran = room.run(&format!("compare {}", command.split_once(" compare ").unwrap().1));
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""), "{command}");
    };
    [commands[2], commands[0]].iter().for_each(|command| run(command));
    let some = with("--collect");
    assert_eq!((some.status, some.stderr.as_str()), (Some(0), "cohabit: 2 of 3 blocks have run\n"));
    assert!(some.stdout.starts_with("./program: 2 blocks"), "{}", some.stdout);
    run(commands[1]);
    let before = std::fs::read(room.path("r.cells/1.json")).unwrap();
    run(commands[1]);
    assert_eq!(std::fs::read(room.path("r.cells/1.json")).unwrap(), before, "what has run is not run again");
    assert!(with("--collect --json c.json").stdout.starts_with("./program: 3 blocks"));
    assert_eq!(json(&room, "c.json")["blocks"], 3);
    with("--collect --seed 1").assert_fails(1, "of another seed");
    // The same orders as one after another.
    let order = |name: &str| {
        let document = json(&room, name);
        let runs = document["runs"].as_array().unwrap().iter().filter(|run| run["warm_up"].is_null());
        runs.map(|run| (run["block"].as_u64().unwrap(), run["arm"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    let joined = order("r.json");
    assert_eq!(compare(&room, "--runs 3 --warm-up 0 -o one.json").status, Some(0));
    assert_eq!(joined, order("one.json"));
    // Runs that the blocks have not are not written over.
    std::fs::copy(room.path("one.json"), room.path("r.json")).unwrap();
    with("--collect").assert_fails(1, "r.json has runs of its own");
}

#[test]
fn a_signal_ends_it_with_what_there_is() {
    let Some(room) = room("signal", FASTER_WHEN_BOUND) else { return };
    let child = room
        .command(
            "compare --mapping bound.json --pinning always --hold-main --runs 500 --warm-up 0 -- ./program".split(' '),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let file = room.path("cohabit-compare.json");
    while !file.exists() || json(&room, "cohabit-compare.json")["runs"].as_array().unwrap().len() < 4 {
        assert!(Instant::now() < until, "no runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.status, ran.signal), (None, Some(libc::SIGTERM)), "{}", ran.stderr);
    assert!(ran.stderr.contains("--resume goes on") && ran.stdout.contains("arm "), "{} {}", ran.stderr, ran.stdout);
}

#[test]
fn programs_that_cannot_be_compared_are_told_so() {
    let bound_fails = "#!/bin/sh
while read -r name value; do case $name in Cpus_allowed_list:) pus=$value;; esac; done </proc/$$/status
case $pus in *[-,]*) sleep 0.03;; *) sleep 0.03; echo out of luck >&2; exit 3;; esac
";
    for (script, cause) in [
        (bound_fails, "by bound, ./program ended with status 3: out of luck"),
        ("#!/bin/sh\nsleep 0.03; kill -9 $$\n", "was killed by signal 9"),
        ("#!/bin/sh\nsleep 0.03; sleep 3 >/dev/null 2>&1 & sleep 0.03\n", "left a process running (sleep)"),
    ] {
        let Some(room) = room("programs", script) else { return };
        compare(&room, "--runs 6").assert_fails(1, cause);
    }
    // A status that is no failure of this program.
    let Some(room) = room("programs", bound_fails) else { return };
    let ran = compare(&room, "--runs 1");
    assert!(ran.stderr.contains("where it ends so when all went well, --status 0,3 says that"), "{}", ran.stderr);
    assert_eq!(compare(&room, "--runs 1 --warm-up 0 --status 0,3 -o well.json").status, Some(0));
    compare(&room, "--runs 1 --status 3 -o ill.json").assert_fails(1, "by system, ./program ended with status 0");
    let room = Room::new();
    room.import("p.npz", "0,9\n9,0\n");
    let made = room.command(["map", "p.npz", "--topology", "core:2 pu:1", "-o", "m.json"]).output().unwrap();
    assert!(made.status.success());
    room.run("compare -- true").assert_fails(2, "nothing to compare");
    room.run("compare --mapping m.json -- ./nowhere").assert_fails(127, "./nowhere");
    room.run("compare --mapping nowhere.json -- true").assert_fails(1, "nowhere.json");
    room.run("compare --mapper best -- true").assert_fails(2, "needs the profile");
    room.run("compare --profile p.npz -- true").assert_fails(2, "needs the mapper");
    room.run("compare --mapping m.json --precision 0 -- true").assert_fails(2, "write a share");
    room.run("compare --mapping m.json").assert_fails(2, "there is no program to run");
    // Of the mapping's two tasks there is one at most.
    let mut mapping = json(&room, "m.json");
    mapping["programs"] = serde_json::json!(["/bin/other"]);
    mapping["no_gain"] = Value::Null;
    room.file("m.json", mapping.to_string());
    let ran = room.run("compare --mapping m.json --pinning always --runs 6 --warm-up 0 -- sleep 0.03");
    ran.assert_fails(1, "by m nothing was placed: the profile is of /bin/other");
}

#[test]
fn what_differs_from_run_to_run_is_said() {
    let Some(room) = room("output", "#!/bin/sh\nsleep 0.02; echo process $$\n") else { return };
    let ran = compare(&room, "--runs 2");
    assert!(ran.stdout.contains("numbers in the program's output differ"), "{}", ran.stdout);
    let Some(room) = self::room("output", "#!/bin/sh\nsleep 0.02; mktemp -u XXXXXXXXXXXX | tr -d 0-9\n") else {
        return;
    };
    let ran = compare(&room, "--runs 2");
    assert!(ran.stdout.contains("output is not the same each time"), "{}", ran.stdout);
    // Two blocks show nothing, whatever they are like.
    assert!(ran.stdout.contains("too few blocks to show any"), "{}", ran.stdout);
}

#[test]
fn tuning_finds_what_gains_proves_it_and_says_how_to_have_it() {
    let Some(room) = room("tune", FASTER_WHEN_BOUND) else { return };
    let line = "tune --profile p.npz --pinning always --hold-main --anyway --json t.json";
    let words = line.split(' ').chain(["--metric", "took ([0-9]+)", "--", "./program"]);
    let ran = Ran::of(room.command(words).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let found = json(&room, "t.json");
    assert!((found["gain"]["change"].as_f64().unwrap() + 2.0 / 3.0).abs() < 1e-9, "{}", found["gain"]);
    assert!(
        ran.stdout.contains("\ngain by best: -66.7 %")
            && ran
                .stdout
                .contains("with cohabit: cohabit run --pinning always --hold-main --mapping cohabit-tuned.json"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("without cohabit: "), "{}", ran.stdout);
    assert!(room.path(found["without_cohabit"]["file"].as_str().unwrap()).exists());
    assert_eq!(room.run("run --mapping cohabit-tuned.json -- true").status, Some(0));
    // Chosen by some runs, verified by others.
    let blocks = |name: &str| found[name]["blocks"].as_u64().unwrap();
    assert!(blocks("selection") >= 7 && blocks("verification") >= 18, "{found}");
    for name in ["selection", "verification"] {
        assert!(room.path(&format!("cohabit-tuned.{name}.json")).exists(), "{name}");
    }
}

#[test]
fn tuning_that_was_cut_off_goes_on() {
    // Where that is wanted, a run does not end once one is kept: what is cut off is not over by then.
    let held = "for what in selection verification; do
while [ -e hold-$what ] && grep -q '\"value\"' cohabit-tuned.$what.json 2>/dev/null; do sleep 0.02; done
done
";
    let Some(room) = room("tune --resume", &format!("{FASTER_WHEN_BOUND}{held}")) else { return };
    let tune = |options: &str| {
        let line = format!(
            "tune --profile p.npz --mapper best --confidence 80% --pinning always --hold-main --anyway --warm-up 0 {options}"
        );
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        room.command(words.iter().map(String::as_str).chain(["--metric", "took ([0-9]+)", "--", "./program"]))
    };
    let runs = |what: &str| {
        let path = room.path(&format!("cohabit-tuned.{what}.json"));
        let text = std::fs::read_to_string(path).unwrap_or("{}".to_owned());
        serde_json::from_str::<Value>(&text).unwrap()["runs"].as_array().cloned().unwrap_or_default()
    };
    let stopped_with = |options: &str, what: &str| {
        let hold = room.file(&format!("hold-{what}"), "");
        let child = tune(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while runs(what).is_empty() {
            assert!(Instant::now() < until, "no runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.status, ran.signal), (None, Some(libc::SIGTERM)), "{}", ran.stderr);
        std::fs::remove_file(hold).unwrap();
        let kept = format!("1 run is kept in cohabit-tuned.{what}.json: --resume goes on");
        assert!(ran.stderr.contains(&kept) && !ran.stdout.contains("gain"), "{} {}", ran.stderr, ran.stdout);
        assert!(!room.path("cohabit-tuned.json").exists());
        runs(what)
    };
    let first = stopped_with("--json s.json", "selection");
    assert!(json(&room, "s.json")["stopped"] == true && json(&room, "s.json")["no_gain"].is_null());
    Ran::of(tune("").output().unwrap()).assert_fails(1, "cohabit-tuned.selection.json is there already");
    Ran::of(tune("--resume --seed 1").output().unwrap()).assert_fails(1, "of another seed");
    let second = stopped_with("--resume", "verification");
    let chosen_by = runs("selection");
    assert_eq!(chosen_by[..first.len()], first[..]);
    // A longer budget changes neither what it was chosen by nor how many blocks were settled.
    let settled = json(&room, "cohabit-tuned.verification.json")["settled"].as_u64().unwrap();
    let ran = Ran::of(tune("--resume --budget 1h --precision 0.01% --json t.json").output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("gain by best: -66.7 %"), "{}", ran.stdout);
    assert_eq!(runs("selection"), chosen_by);
    assert_eq!(runs("verification")[..second.len()], second[..]);
    assert_eq!(json(&room, "t.json")["verification"]["blocks"].as_u64().unwrap(), settled);
    // All has run: it is said again.
    let again = Ran::of(tune("--resume").output().unwrap());
    assert_eq!((again.status, again.stdout), (Some(0), ran.stdout));
}

#[test]
fn tuning_ends_without_a_run_where_nothing_can_be_gained() {
    let room = Room::new();
    executable(&room.file("program", "#!/bin/sh\necho ran >> ran\n"));
    let ran = Ran::of(
        room.command(["tune", "--topology", "core:4 pu:1", "--json", "t.json", "--", "./program"]).output().unwrap(),
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.starts_with("no gain: all 4 PUs are equally far from one another"), "{}", ran.stdout);
    assert!(!room.path("ran").exists() && !room.path("cohabit-tuned.json").exists());
    assert!(json(&room, "t.json")["no_gain"].as_str().unwrap().contains("--anyway"));
    room.import("p.npz", "0,0\n0,0\n");
    let words = ["tune", "--topology", "pack:2 core:2 pu:1", "--profile", "p.npz", "--", "./program"];
    let ran = Ran::of(room.command(words).output().unwrap());
    assert!(
        ran.status == Some(0) && ran.stdout.starts_with("no gain: no task communicates"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    assert!(!room.path("ran").exists());
    room.run("tune -- ./nowhere").assert_fails(127, "./nowhere");
}
