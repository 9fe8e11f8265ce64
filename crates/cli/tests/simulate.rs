//! `cohabit simulate`, and `compare-detectors --simulate`, as a user types them.

mod common;

use common::Room;
use serde_json::Value;

fn json(room: &Room, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(room.path(name)).unwrap()).unwrap()
}

#[test]
fn pairs_are_best_side_by_side() {
    let room = Room::new();
    let ran = room.run("simulate synthetic:pairs:8:16:4 --machine harpertown --json s.json");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let told = json(&room, "s.json");
    let time = |name: &str| {
        let mapping = told["mappings"].as_array().unwrap().iter().find(|mapping| mapping["name"] == name).unwrap();
        mapping["report"]["time_fs"].as_u64().unwrap()
    };
    // Tasks 0 and 1 share an L2 under `packed`, and are in two packages under `scatter`.
    assert!(time("packed") < time("scatter") && time("best") <= time("packed") * 101 / 100, "{told}");
    let again = room.run("simulate synthetic:pairs:8:16:4 --machine harpertown --json t.json --threads 2");
    assert_eq!((again.status, json(&room, "t.json")), (Some(0), told));
    // Tasks one by one where it is asked for, and only there.
    let one = "simulate synthetic:pairs:8:16:4 --machine harpertown --mapper packed";
    assert!(ran.stdout.contains("  IPC  ") && !ran.stdout.contains("loads missed"), "{}", ran.stdout);
    let rows = room.run(&format!("{one} -v")).stdout;
    assert_eq!(rows.lines().skip_while(|line| !line.starts_with("task ")).count(), 1 + 8, "{rows}");
    room.run("simulate synthetic:pairs:8 --machine no.toml").assert_fails(1, "no.toml");
    room.run("simulate synthetic:pairs:8 --machine harpertown --memory bind:9").assert_fails(2, "node 9");
}

#[test]
fn what_a_detector_leads_to_is_simulated() {
    let room = Room::new();
    let ran = room.run("compare-detectors synthetic:pairs:8:16:4 --simulate harpertown --json c.json");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let told = json(&room, "c.json");
    let rows = told["detectors"].as_array().unwrap();
    let exact = rows.iter().find(|row| row["name"] == "exact").unwrap()["simulated_ns"].as_f64().unwrap();
    for row in rows {
        match row["simulated_ns"].as_f64() {
            // Nothing follows from nothing.
            None => assert!(row["events"] == 0 && row["distance_cost"].is_null(), "{row}"),
            Some(time) => assert!(row["events"] != 0 && time > 0.0 && exact <= 1.01 * time, "{row}"),
        }
    }
    let without = room.run("compare-detectors synthetic:pairs:8 --topology pu:8 --json d.json");
    assert_eq!(without.status, Some(0), "{}", without.stderr);
    assert!(json(&room, "d.json")["detectors"][0]["simulated_ns"].is_null());
    room.run("compare-detectors synthetic:pairs:8 --simulate harpertown --topology pu:8").assert_fails(2, "--topology");
}

#[test]
fn an_experiment_runs_cell_by_cell_and_says_what_came_out() {
    let room = Room::new();
    let experiment = "experiment tlb2012 --program synthetic:distant:8:4:4 --draws 3 -o e";
    // By commands of their own, as a job runner has them: what is needed first is first.
    let listed = room.run(&format!("{experiment} --cells"));
    let commands: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(commands.len(), 1 + 3 + 4, "{}", listed.stdout);
    let words = |line: &str| line.strip_prefix("cohabit ").unwrap().to_owned();
    assert_eq!(room.run(&words(commands[1])).status, Some(0));
    assert_eq!(room.run(&words(commands[7])).status, Some(0));
    let file = |name: &str| room.path(&format!("e/cells/synthetic-distant-8-4-4-harpertown-unscaled-{name}.json"));
    let kept = std::fs::read(file("os-0")).unwrap();
    assert!(file("detection-0").exists() && file("exact-0").exists() && !file("hm-0").exists());
    // All others, and what they come to.
    let ran = room.run(&format!("{experiment} --json e.json --page p.md"));
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(std::fs::read(file("os-0")).unwrap(), kept, "what has run is not run again");
    let told = json(&room, "e.json");
    assert_eq!((&told["cells"]["done"], &told["cells"]["of"]), (&8.into(), &8.into()));
    let value = |arm: &str, measure: &str| {
        let rows = told["results"].as_array().unwrap();
        let row = rows.iter().find(|row| row["arm"] == arm && row["measure"] == measure).unwrap();
        row["value"].as_f64().unwrap()
    };
    // Tasks communicate with the one half of all further on: all misses show it, and it is worth something.
    assert!(value("Exact", "time") < value("OS", "time"), "{told}");
    assert!(value("SM-1", "cache-to-cache") < value("OS", "cache-to-cache"));
    let outcomes: Vec<_> = told["claims"].as_array().unwrap().iter().map(|claim| claim["outcome"].clone()).collect();
    assert!(
        outcomes.iter().all(|outcome| ["no result", "cannot be tried"].contains(&outcome.as_str().unwrap())),
        "it is none of the paper's programs"
    );
    let page = std::fs::read_to_string(room.path("p.md")).unwrap();
    assert!(page.contains("## What came out") && page.contains("8 of 8 cells") && page.contains(" 3 draws"), "{page}");
    assert!(!page.contains("20 draws"), "what was not run is not said");
    assert!(room.path("p/harpertown-synthetic-distant-8-4-4-exact.svg").exists());
    // The same again from the same cells; one that is gone is made again, the same to the byte.
    std::fs::remove_file(file("os-0")).unwrap();
    let collected = room.run(&format!("{experiment} --collect"));
    assert!(collected.stdout.contains("7 of 8 cells"), "{}", collected.stdout);
    assert_eq!(room.run(experiment).status, Some(0));
    assert_eq!(std::fs::read(file("os-0")).unwrap(), kept);
    std::fs::write(file("os-0"), "{").unwrap();
    room.run(&format!("--quiet {experiment}")).assert_fails(1, "os-0.json");
    for (line, status, cause) in [
        ("experiment tlb2012 -o f", 2, "no program"),
        ("experiment tlb2012 -o f --program solver", 2, "solver"),
        ("experiment ibm -o f", 2, "ibm"),
        ("experiment tlb2012 -o f --program synthetic:ring:8 --collect", 1, "no cell"),
        ("experiment tlb2012 -o f --program synthetic:ring:8 --cell a/b", 2, "a/b"),
        ("experiment tlb2012 -o f --program synthetic:ring:8 --caches scaled", 2, "smaller"),
        ("experiment tlb2012 -o f --program synthetic:ring:8 --machine no", 2, "no"),
    ] {
        room.run(line).assert_fails(status, cause);
    }
}
