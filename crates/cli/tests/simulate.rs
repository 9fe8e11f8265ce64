//! `cohabit simulate`, and `compare-detectors --simulate`, as a user types them.

mod common;

use cohabit_formats::npz::archive::Archive;
use common::Room;
use serde_json::Value;
use std::io::Read;

fn json(room: &Room, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(room.path(name)).unwrap()).unwrap()
}

/// Where there are no locks nothing is gained without them.
#[test]
fn without_locks_the_rest_is_waited_for() {
    let room = Room::new();
    let time = |more: &str| {
        let ran =
            room.run(&format!("simulate synthetic:ring:4:16:20 --machine harpertown --mapper packed --json - {more}"));
        let document: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        assert_eq!(document["free_locks"], !more.is_empty());
        document["mappings"][0]["report"]["time_fs"].as_u64().unwrap()
    };
    assert_eq!(time(""), time("--free-locks"));
}

/// What is estimated says so, and by how much it may be wrong; what is not does not.
#[test]
fn a_sample_is_said_to_be_one() {
    let room = Room::new();
    let line = "simulate synthetic:pairs:2:16:1500 --machine harpertown --mapper packed scatter";
    let (all, sample) = (format!("{line} --json all.json"), format!("{line} --sample --json s.json"));
    let (all, sample) = (room.run(&all), room.run(&sample));
    assert_eq!((all.status, sample.status), (Some(0), Some(0)), "{}{}", all.stderr, sample.stderr);
    assert!(sample.stdout.contains("intervals of the run were measured"), "{}", sample.stdout);
    assert!(!all.stdout.contains("estimated") && !all.stdout.contains("+-"), "{}", all.stdout);
    let (all, sample) = (json(&room, "all.json"), json(&room, "s.json"));
    for (run, found) in all["mappings"].as_array().unwrap().iter().zip(sample["mappings"].as_array().unwrap()) {
        let number = |value: &Value, key: &str| value[key].as_u64().unwrap();
        let (run, found) = (&run["report"], &found["report"]);
        assert!(run.get("sampled").is_none());
        let (time, estimate) = (number(run, "time_fs"), number(found, "time_fs"));
        let margin = number(&found["sampled"], "margin_fs");
        assert!(estimate.abs_diff(time) <= margin, "{estimate} give or take {margin}, and it is {time}");
        assert!(number(&found["sampled"], "measured") * 4 < number(&found["sampled"], "intervals"));
        assert!(found["sampled"]["share"].as_f64().unwrap() < 0.5);
    }
    for (more, status, wanted) in [
        ("--sample --window 10us -o w.npz", 2, "cannot be used with"),
        ("--sample --classify", 2, "cannot be used with"),
        ("--sample --memory autonuma", 2, "what moves pages goes on"),
        ("--seed 3", 2, "--sample"),
        ("--sample=0", 2, "0 is not in"),
    ] {
        room.run(&format!("{line} {more}")).assert_fails(status, wanted);
    }
    // Of 200 rounds there are intervals, and too few to tell how sure their estimate is.
    for short in ["4:1:2", "4:16:200"] {
        let line = format!("simulate synthetic:pairs:{short} --machine harpertown --mapper packed --sample");
        room.run(&line).assert_fails(1, "too short for a sample");
    }
}

/// A machine whose instructions wait for one another, and a recording that does not tell which.
#[test]
fn it_is_said_where_a_recording_does_not_tell_what_waits_for_what() {
    let room = Room::new();
    let purple = include_str!("../../../testdata/machines/purple.toml");
    let waiting = purple.replacen("[core]", "[core]\ndependences = true", 1);
    room.file("waiting.toml", waiting);
    for (machine, said) in [("purple", false), ("waiting.toml", true)] {
        let ran = room.run(&format!("simulate synthetic:pairs:4:1:2 --machine {machine} --mapper packed"));
        let found = ran.stderr.contains("does not tell which instructions wait for which");
        assert_eq!((ran.status, found), (Some(0), said), "{}", ran.stderr);
    }
}

#[test]
fn who_goes_first_is_said_to_matter_where_tasks_share_pus() {
    let room = Room::new();
    for (tasks, share) in [(8, false), (16, true)] {
        let ran = room.run(&format!("simulate synthetic:pairs:{tasks}:1:2 --machine harpertown --mapper packed"));
        assert_eq!((ran.status, ran.stderr.contains("tasks share PUs")), (Some(0), share), "{}", ran.stderr);
    }
}

/// What exact communication leads to is one mapping, whichever command makes it.
#[test]
fn detectors_are_mapped_by_as_programs_are() {
    let room = Room::new();
    for tasks in [8, 9, 12] {
        let recording = format!("synthetic:ring:{tasks}:16:4");
        room.run(&format!("simulate {recording} --machine harpertown --mapper best --weight messages --json s.json"));
        room.run(&format!("compare-detectors {recording} --simulate harpertown --json d.json"));
        let (simulated, found) = (json(&room, "s.json"), json(&room, "d.json"));
        let time = simulated["mappings"][0]["report"]["time_fs"].as_f64().unwrap() / 1e6;
        let exact = found["detectors"].as_array().unwrap().iter().find(|row| row["name"] == "exact").unwrap();
        assert!((exact["simulated_ns"].as_f64().unwrap() - time).abs() < 1e-3, "{tasks}: {exact} and {time}");
    }
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
    let mut same = json(&room, "t.json");
    same["arguments"] = told["arguments"].clone();
    assert_eq!((again.status, same), (Some(0), told));
    // Tasks one by one where it is asked for, and only there.
    let one = "simulate synthetic:pairs:8:16:4 --machine harpertown --mapper packed";
    assert!(ran.stdout.contains("  IPC  "), "{}", ran.stdout);
    for not_asked in ["loads missed", "misses of", "pages of"] {
        assert!(!ran.stdout.contains(not_asked), "{}", ran.stdout);
    }
    let rows = room.run(&format!("{one} -v")).stdout;
    assert_eq!(rows.lines().skip_while(|line| !line.starts_with("task ")).count(), 1 + 8, "{rows}");
    room.run("simulate synthetic:pairs:8 --machine no.toml").assert_fails(1, "no.toml");
    room.run("simulate synthetic:pairs:8 --machine harpertown --memory bind:9").assert_fails(2, "node 9");
}

/// All tasks read what each writes, so that readers that are together need a value once: mappers know it by transfers
/// and not by messages.
#[test]
fn mappers_are_told_of_readers_that_read_the_same() {
    let room = Room::new();
    let times = |weight: &str| -> Vec<u64> {
        let line =
            format!("simulate synthetic:all:8:16:4 --machine harpertown --mapper packed best {weight} --json s.json");
        let ran = room.run(&line);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let told = json(&room, "s.json");
        told["mappings"].as_array().unwrap().iter().map(|one| one["report"]["time_fs"].as_u64().unwrap()).collect()
    };
    // All pairs are alike, and then `best` is `packed`.
    let [packed, best] = times("")[..] else { panic!("two mappings") };
    assert_eq!(packed, best);
    assert_eq!(times("--weight messages")[0], packed);
    room.run("simulate synthetic:all:8 --machine harpertown --weight bytes").assert_fails(2, "--weight");
}

/// What comes from DRAM, of which no profile knows, from a simulation of the same program, and said to be so.
#[test]
fn show_takes_what_comes_from_memory_from_a_simulation() {
    let room = Room::new();
    let cell = |a: usize, b: usize| if a ^ b == 1 { "5" } else { "0" };
    let rows: Vec<String> = (0..4).map(|a| (0..4).map(|b| cell(a, b)).collect::<Vec<_>>().join(",")).collect();
    std::fs::write(room.path("four.csv"), rows.join("\n")).unwrap();
    assert_eq!(room.run("import four.csv -o p.npz").status, Some(0));
    let simulated = room.run("simulate synthetic:pairs:4:16:4 --machine purple --mapper scatter packed --json s.json");
    assert_eq!(simulated.status, Some(0), "{}", simulated.stderr);
    // An imported matrix says nothing of accesses; the source is named in JSON all the same, and in the text only
    // beside a figure.
    let shown = room.run("show p.npz --simulated s.json --json show.json");
    assert_eq!(shown.status, Some(0), "{}", shown.stderr);
    assert!(!shown.stdout.contains("simulated:"), "{}", shown.stdout);
    assert_eq!(json(&room, "show.json")["dram_source"]["simulated"], "purple, scatter");
    let plain = room.run("show p.npz --json plain.json");
    assert!(json(&room, "plain.json").get("dram_source").is_none(), "{}", plain.stdout);
    room.run("simulate synthetic:pairs:6:16:2 --machine purple --mapper packed --json six.json");
    room.run("show p.npz --simulated six.json").assert_fails(1, "of 6 tasks, the profile of 4");
    room.run("show p.npz --simulated show.json").assert_fails(1, "simulate");
}

/// Each parameter smaller and larger, and whether the order of mappings hangs on it; only where that is asked for.
#[test]
fn the_order_of_mappings_is_held_against_the_parameters() {
    let room = Room::new();
    let line = "simulate synthetic:pairs:8:4:2 --machine harpertown --mapper packed scatter";
    let ran = room.run(&format!("{line} --sensitivity --threads 2 --json s.json"));
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("fastest first: packed, scatter"), "{}", ran.stdout);
    let told = json(&room, "s.json");
    assert_eq!(told["sensitivity"]["percent"], 20);
    let rows = told["sensitivity"]["parameters"].as_array().unwrap();
    let base: Vec<u64> =
        told["mappings"].as_array().unwrap().iter().map(|one| one["report"]["time_fs"].as_u64().unwrap()).collect();
    let times = |row: &Value, which: &str| -> Vec<u64> {
        row[which]["time_fs"].as_array().unwrap().iter().map(|time| time.as_u64().unwrap()).collect()
    };
    let bus = rows.iter().find(|row| row["name"] == "bus.bandwidth_gb_s").unwrap();
    assert!(times(bus, "less")[1] > base[1] && times(bus, "more")[1] < base[1], "{bus}");
    // What is said of the order is what the times say.
    let mut changed = 0;
    for row in rows {
        let turned = |which: &str| {
            let now = times(row, which);
            assert_eq!(row[which]["turned"].as_array().unwrap().len(), usize::from(now[0] > now[1]), "{row}");
            now[0] > now[1]
        };
        changed += usize::from(turned("less") | turned("more"));
    }
    let said = format!("with {}", if changed == 0 { "each of".to_owned() } else { format!("{changed} of") });
    assert!(ran.stdout.contains(&format!("{said} these {} parameters 20 %", rows.len())), "{}", ran.stdout);
    let without = room.run(&format!("{line} --json t.json"));
    assert!(!without.stdout.contains("parameters") && json(&room, "t.json")["sensitivity"].is_null());
    room.run(&format!("{line} --sensitivity=0")).assert_fails(2, "--sensitivity");
}

/// Kinds of misses, windows and pages that move: in text where they are asked for, in JSON, and the same as arrays.
#[test]
fn all_that_is_counted_is_written() {
    let room = Room::new();
    let line = "simulate synthetic:ring:4:16:2 --machine purple --mapper packed scatter --memory autonuma:100000 --classify \
                --window 10us -o s.npz --json s.json";
    let ran = room.run(line);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("misses of") && ran.stdout.contains("pages of"), "{}", ran.stdout);
    let told = json(&room, "s.json");
    let mut archive = Archive::open(&room.path("s.npz")).unwrap();
    let mut array = |name: &str| {
        let mut found = archive.array(name).unwrap();
        let mut bytes = Vec::new();
        found.data.read_to_end(&mut bytes).unwrap();
        let values = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect::<Vec<_>>();
        assert_eq!(found.header.elements as usize, values.len(), "{name}");
        (found.header.shape, values)
    };
    let (shape, loads) = array("loads_served");
    assert_eq!(shape, [2, 4, 9]);
    let windows = array("series_windows").1;
    let (shape, series) = array("series_loads_served");
    assert_eq!(shape, [2, 9, *windows.iter().max().unwrap()]);
    let (misses, faults) = (array("misses").1, array("hint_faults").1);
    let busy = array("series_server_busy_fs").1;
    for (mapping, one) in told["mappings"].as_array().unwrap().iter().enumerate() {
        let half = |all: &[u64]| all[mapping * all.len() / 2..][..all.len() / 2].iter().sum::<u64>();
        let total = &one["report"]["total"];
        let sum = |of: &Value| of.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
        assert_eq!(half(&loads), total["loads"].as_u64().unwrap());
        assert_eq!(half(&series), half(&loads));
        assert_eq!(half(&faults), total["hint_faults"].as_u64().unwrap());
        let levels = total["misses"].as_array().unwrap();
        assert_eq!(
            half(&misses),
            levels.iter().map(|level| sum(level) - level["level"].as_u64().unwrap()).sum::<u64>()
        );
        let servers = one["report"]["servers"].as_array().unwrap();
        assert_eq!(half(&busy), servers.iter().map(|server| server["busy_fs"].as_u64().unwrap()).sum::<u64>());
    }
    assert!(faults.iter().any(|&count| count > 0));
    for (options, status, cause) in [
        ("--window 10us", 2, "nothing would show it"),
        ("--window 0us -o t.npz", 2, "windows of no time"),
        ("--memory autonuma:0", 2, "as fast as Linux"),
        ("-o missing/t.npz", 1, "missing"),
    ] {
        room.run(&format!("simulate synthetic:ring:4:16:2 --machine purple {options}")).assert_fails(status, cause);
        assert!(!room.path("t.npz").exists());
    }
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
    let words = |line: &str| format!("experiment {}", line.split_once(" experiment ").unwrap().1);
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
    // Where no detector sees anything, none has the gain of a mapping that is not its own.
    let ran = room.run("experiment tlb2012 --program synthetic:alone:8:1:1 --draws 1 -o n");
    let row = |arm: &str| {
        let row =
            |line: &&str| line.starts_with("synthetic:alone:8:1:1 ") && line.split_whitespace().nth(1) == Some(arm);
        ran.stdout.lines().find(row).unwrap_or_else(|| panic!("{arm}: {}", ran.stdout)).split_whitespace().skip(2)
    };
    assert!(row("OS").any(|cell| cell != "-"));
    assert!(["SM", "HM", "Exact"].iter().all(|arm| row(arm).all(|cell| cell == "-")), "{}", ran.stdout);
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
