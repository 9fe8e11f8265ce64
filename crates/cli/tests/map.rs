//! What `cohabit map` says besides J: which cores come first, where threads cannot go, and when its own estimate is
//! against it.

mod common;

use cohabit_formats::npz::write_profile;
use cohabit_model::profile::{Kind, Marker, Meta, SeriesRow, SizeRow};
use cohabit_model::{Matrix, Profile, Task};
use common::{Ran, Room};
use serde_json::Value;

fn machine(name: &str) -> String {
    format!("{}/../../testdata/topologies/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The JSON of a mapping.
fn mapped(room: &Room, line: &str) -> Value {
    let ran = room.run(&format!("map {line} --json -"));
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The PUs of a mapping, ascending.
fn pus(document: &Value) -> Vec<u64> {
    let tasks = document["mapping"]["tasks"].as_array().unwrap();
    let mut pus: Vec<u64> = tasks.iter().map(|task| task["pu"].as_u64().unwrap()).collect();
    pus.sort_unstable();
    pus
}

#[test]
fn fast_cores_come_first_and_what_that_costs_is_said() {
    let room = Room::new();
    let hybrid = machine("hybrid-4p2-8e.xml");
    room.import("pairs.npz", "0,9,0,0\n9,0,0,0\n0,0,0,9\n0,0,9,0\n");
    // P cores are 0 to 7, two PUs each; E cores share an L2 by fours.
    let document = mapped(&room, &format!("pairs.npz --topology {hybrid}"));
    assert_eq!(pus(&document), [0, 2, 4, 6]);
    let said = document["fast_or_near"].as_str().unwrap();
    assert!(
        said.starts_with(
            "fast cores come first, and all tasks are on these: with 4 on slower ones J would be 108, 40 % less"
        ),
        "{said}"
    );
    assert!(room.run(&format!("map pairs.npz --topology {hybrid}")).stdout.ends_with(&format!("{said}\n")));
    room.import("six.npz", "0,9,0,0,0,0\n9,0,0,0,0,0\n0,0,0,9,0,0\n0,0,9,0,0,0\n0,0,0,0,0,9\n0,0,0,0,9,0\n");
    let document = mapped(&room, &format!("six.npz --topology {hybrid}"));
    assert_eq!(pus(&document)[..4], [0, 2, 4, 6]);
    let said = document["fast_or_near"].as_str().unwrap();
    assert!(
        said.starts_with("fast cores come first; 2 of 6 tasks are on slower ones: with 6 on slower ones J would be "),
        "{said}"
    );
    // Where that costs nothing, and where all cores are alike.
    let document = mapped(&room, &format!("pairs.npz --topology {hybrid} --share-cores"));
    let said = document["fast_or_near"].as_str().unwrap();
    assert_eq!(said, "fast cores come first, and all tasks are on these: no smaller J was found with any others");
    assert!(
        mapped(&room, &format!("pairs.npz --topology {}", machine("harpertown-2x4.xml")))["fast_or_near"].is_null()
    );
}

/// Two hosts of two PUs, between which a message takes a millisecond.
const HOSTS: &str = "[[host]]\nnames = 'n[1-2]'\ntopology = 'core:2 pu:1'\n[[switch]]\nname = 's'\nmembers = 'n[1-2]'\n\
                     [[port]]\nof = 'n[1-2]'\nbandwidth = '1 GB/s'\nlatency_ns = 1e6\n";

#[test]
fn a_smaller_j_that_was_found_and_not_taken_is_said() {
    let room = Room::new();
    let csv = |value: fn(usize, usize) -> u64| {
        let row = |a| (0..8).map(|b| if a == b { 0 } else { value(a, b) }.to_string()).collect::<Vec<_>>().join(",");
        (0..8).map(|a| row(a) + "\n").collect::<String>()
    };
    // All pairs alike but for three, by some percent: 0.2 % of J.
    room.import("even.npz", &csv(|a, b| 1000 + if [(0, 5), (5, 0), (1, 4)].contains(&(a, b)) { 60 } else { 0 }));
    let machine = "--topology pack:2@core:4@pu:1";
    let said = |line: &str| run(&room, &format!("map {line} {machine}")).stdout;
    let j = |text: &str, row: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(&format!("J  {row} "))).unwrap();
        line.split_whitespace().nth(2).unwrap().parse().unwrap()
    };
    let best = said("even.npz");
    assert!(best.contains("  0.2 % less: too little to tell in time\n"), "{best}");
    assert_eq!(j(&best, "best"), j(&best, "packed"));
    let exact = said("even.npz --mapper exact");
    assert_eq!(j(&best, "found"), j(&exact, "exact"));
    assert!(!exact.contains("J  found"), "{exact}");
    // Pairs across the packages are put together, and nothing is set aside.
    room.import("pairs8.npz", &csv(|a, b| if a % 4 == b % 4 { 1000 } else { 1 }));
    let pairs = said("pairs8.npz");
    assert!(pairs.contains("J  best") && !pairs.contains("J  found"), "{pairs}");
}

#[test]
fn threads_are_kept_to_one_host_and_that_is_said() {
    let room = Room::new();
    room.file("cluster.toml", HOSTS);
    room.import("threads.npz", "0,9,1\n9,0,1\n1,1,0\n");
    let ran = room.run("map threads.npz --topology cluster.toml -o m.json");
    assert_eq!(ran.status, Some(0));
    assert!(
        ran.stderr.starts_with("cohabit: the tasks are threads that share memory: all are on one host, n1 ("),
        "{}",
        ran.stderr
    );
    let document: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    assert!(document["tasks"].as_array().unwrap().iter().all(|task| task["host"] == "n1"), "{document}");
    room.run("map threads.npz --topology cluster.toml --pin 0=n1:0 --pin 1=n2:0").assert_fails(1, "on 2 hosts");
    // Ranks may be anywhere, and nothing is said.
    assert_eq!(room.run("import matrix.csv --kind ranks -o ranks.npz").status, Some(0));
    let ran = room.run("map ranks.npz --topology cluster.toml -o m.json");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    assert!(document["tasks"].as_array().unwrap().iter().any(|task| task["host"] == "n2"), "{document}");
}

#[test]
fn a_mapping_that_is_estimated_to_be_slower_is_not_recommended() {
    let room = Room::new();
    room.file("cluster.toml", HOSTS);
    // Many small messages between 0 and 1, and 2 and 3; few large ones, with more bytes, between 0 and 2, and 1 and 3.
    let task = |id: u32| serde_json::json!({"id": id, "kind": "rank", "name": "", "process": id, "rank": id});
    let tasks: Vec<Task> = (0..4).map(|id| serde_json::from_value(task(id)).unwrap()).collect();
    let sizes =
        [(0, 1, 0, 10_000, 10_000), (2, 3, 0, 10_000, 10_000), (0, 2, 14, 10, 200_000), (1, 3, 14, 10, 200_000)];
    let matrix = |of: fn(&(u32, u32, u32, u64, u64)) -> u64| {
        Matrix::from_triplets(4, sizes.iter().map(|size| (size.0, size.1, of(size))))
    };
    let mut profile = Profile::new(Meta::new(Kind::Ranks, "test", tasks), matrix(|size| size.3), matrix(|size| size.4));
    profile.sizes = sizes
        .iter()
        .map(|&(source, destination, class, messages, bytes)| SizeRow { source, destination, class, messages, bytes })
        .collect();
    write_profile(&room.path("p.npz"), &profile).unwrap();
    let text = |line: &str| room.run(&format!("map p.npz --topology cluster.toml {line}")).stdout;
    let warning = "J is smaller, but by the estimate linear is faster (";
    assert!(text("").lines().last().unwrap().starts_with(warning), "{}", text(""));
    for line in ["--objective time", "--weight messages", "--mapper packed"] {
        assert!(!text(line).contains(warning), "{line}: {}", text(line));
    }
}

/// A profile of two pairs that talk at the same time, and one after the other.
fn timed(room: &Room, name: &str, apart: u64) {
    let task = |id: u32| -> Task {
        serde_json::from_value(serde_json::json!({"id": id, "kind": "thread", "name": format!("t{id}")})).unwrap()
    };
    let row = |bin, source| SeriesRow { bin, source, destination: source + 1, messages: 100, bytes: 1 << 20 };
    let mut series: Vec<SeriesRow> = (0..20).flat_map(|bin| [row(bin, 0), row(bin + apart, 2)]).collect();
    series.sort_unstable();
    let sum = |value: fn(&SeriesRow) -> u64| {
        Matrix::from_triplets(4, series.iter().map(|row| (row.source, row.destination, value(row))))
    };
    let meta = Meta { window_ns: 1_000_000, ..Meta::new(Kind::Threads, "dbi", (0..4).map(task).collect()) };
    let profile = Profile::new(meta, sum(|row| row.messages), sum(|row| row.bytes));
    write_profile(&room.path(name), &Profile { series, ..profile }).unwrap();
}

#[test]
fn what_happens_at_once_is_kept_apart() {
    let room = Room::new();
    timed(&room, "once.npz", 0);
    timed(&room, "turns.npz", 5000);
    let numa = "--topology numa:2_l3:1_core:4_pu:1";
    // Blanks within a word are underscores.
    let run = |line: &str| {
        let words = line.split_whitespace().map(|word| word.replace('_', " "));
        Ran::of(room.command(words).output().unwrap())
    };
    let node = |document: &Value, task: usize| document["mapping"]["tasks"][task]["pu"].as_u64().unwrap() / 4;
    for line in ["--mapper deloc", "--objective congestion"] {
        let document: Value =
            serde_json::from_str(&run(&format!("map once.npz {numa} {line} --json -")).stdout).unwrap();
        let at = |task| node(&document, task);
        assert!(at(0) == at(1) && at(2) == at(3) && at(0) != at(2), "{line}: {document}");
        assert!(["both", "locality"].contains(&document["verdict"]["advice"]["kind"].as_str().unwrap()));
    }
    let ran = run(&format!("map turns.npz {numa} --objective congestion"));
    assert!(
        ran.stdout.contains("\ncongestion  packed ") && ran.stdout.contains("its congestion is "),
        "{}",
        ran.stdout
    );
    let ran = run(&format!("map turns.npz {numa} --objective congestion --json -"));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(document["congestion"]["mapped"]["seconds"].as_f64().unwrap() > 0.0, "{document}");
    assert_eq!(document["time"], Value::Null, "no topology with ports");
    room.import("plain.npz", "0,9\n9,0\n");
    run(&format!("map plain.npz {numa} --mapper deloc")).assert_fails(1, "has no time series");
    let ran = run(&format!("map plain.npz {numa} --objective congestion"));
    assert!(ran.status == Some(0) && ran.stderr.contains("all is taken to happen at the same time"), "{}", ran.stderr);
    run(&format!("map once.npz {numa} --mapper deloc --objective congestion"))
        .assert_fails(1, "the mapper deloc knows no congestion");
    room.run("show plain.npz --time").assert_fails(1, "has no time series");
    room.run("show once.npz --time --by markers").assert_fails(1, "no phases of the program");
    room.run("show once.npz -o x.svg").assert_fails(2, "--time");
    let ran = room.run("show once.npz --time -o x.svg");
    assert!(ran.stdout.contains("\n1 cluster (") && room.path("x.svg").exists(), "{}{}", ran.stdout, ran.stderr);
}

/// A profile of eight threads in windows of 1 ms: in each stretch of ten, phase by phase as they are given, thread t
/// writes `messages` values a window that its partner of that phase reads; neighbours in phase 1, those four away in
/// phase 2. The program names its phases, or does not.
fn alternating(room: &Room, name: &str, phases: &[u64], messages: u64, marked: bool) {
    let task = |id: u32| -> Task {
        serde_json::from_value(serde_json::json!({"id": id, "kind": "thread", "name": "", "spawn_index": id})).unwrap()
    };
    let rows = phases.iter().enumerate().flat_map(|(at, &phase)| {
        let partner = move |task: u32| if phase == 1 { task ^ 1 } else { (task + 4) % 8 };
        let row =
            move |bin, source| SeriesRow { bin, source, destination: partner(source), messages, bytes: 8 * messages };
        (10 * at as u64..10 * (at as u64 + 1)).flat_map(move |bin| (0..8).map(move |source| row(bin, source)))
    });
    let mut series: Vec<SeriesRow> = rows.collect();
    series.sort_unstable();
    let sum = |value: fn(&SeriesRow) -> u64| {
        Matrix::from_triplets(8, series.iter().map(|row| (row.source, row.destination, value(row))))
    };
    let mut meta = Meta { window_ns: 1_000_000, ..Meta::new(Kind::Threads, "dbi", (0..8).map(task).collect()) };
    if marked {
        let marker = |(at, &number): (usize, &u64)| Marker { number, at_ns: 10_000_000 * at as u64 };
        meta.markers = phases.iter().enumerate().map(marker).collect();
    }
    let profile = Profile::new(meta, sum(|row| row.messages), sum(|row| row.bytes));
    write_profile(&room.path(name), &Profile { series, ..profile }).unwrap();
}

/// Runs cohabit with these words, blanks between them, and `@` where one has a blank.
fn run(room: &Room, line: &str) -> Ran {
    Ran::of(room.command(line.split_whitespace().map(|word| word.replace('@', " "))).output().unwrap())
}

/// The JSON of a mapping, by such words.
fn mapped_so(room: &Room, line: &str) -> Value {
    let ran = run(room, &format!("map {line} --json -"));
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn phases_have_mappings_of_their_own_where_moving_pays_for_itself() {
    let room = Room::new();
    let machine = "--topology pack:4@core:2@pu:1";
    alternating(&room, "p.npz", &[1, 2, 1, 2], 100_000, true);
    let document = mapped_so(&room, &format!("p.npz --per-phase {machine} -o m.json"));
    let [found, mapping] = ["per_phase", "mapping"].map(|key| &document[key]);
    assert_eq!((&found["by"], &found["phases"], &found["mappings"]), (&"markers".into(), &2.into(), &2.into()));
    let seconds = |key: &str| found[key].as_f64().unwrap();
    assert!(seconds("phase_seconds") + seconds("move_seconds") < seconds("single_seconds"), "{found}");
    assert_eq!((&mapping["format"], &mapping["phases"]["by"]), (&2.into(), &"markers".into()));
    // In each phase partners are in one package.
    for (at, number, partner) in [(0, 1, 1), (1, 2, 4)] {
        let phase = &mapping["phases"]["mappings"][at];
        assert_eq!(phase["number"], number);
        let package = |task: usize| phase["tasks"][task]["pu"].as_u64().unwrap() / 2;
        assert!((0..8).all(|task| package(task) == package(task ^ partner)), "{phase}");
    }
    let text = run(&room, &format!("map p.npz --per-phase {machine}")).stdout;
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("per phase: ") && last.contains(" changes, against ") && !last.contains("names only"),
        "{last}"
    );
    assert!(text.contains("the mapping above\n") && text.contains("phase 2:\n"), "{text}");
    // Whoever takes one mapping says so.
    for command in ["plot p.npz --what placement --mapping m.json -o p.svg", "evaluate p.npz --mapping m.json"] {
        run(&room, command).assert_fails(1, "the mapping changes from phase to phase");
    }
    run(&room, &format!("map p.npz --per-phase {machine} --export dot=-")).assert_fails(2, "--export");
    let wrong = run(&room, &format!("map p.npz --per-phase=foo {machine}"));
    assert!(wrong.stderr.contains("recurring") && !wrong.stderr.contains("preferred"), "{}", wrong.stderr);
    // Without --per-phase nothing is said of phases, and the file is what it was.
    let document = mapped_so(&room, &format!("p.npz {machine}"));
    assert!(document["per_phase"].is_null() && document["mapping"]["format"] == 1, "{document}");
}

#[test]
fn where_moving_gains_nothing_one_mapping_is_kept_and_why_is_said() {
    let room = Room::new();
    let machine = "--topology pack:4@core:2@pu:1";
    let last = |line: &str| {
        let ran = run(&room, &format!("map {line} {machine} -o m.json"));
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let file: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
        (ran.stdout.lines().last().unwrap().to_owned(), file["format"].as_u64().unwrap())
    };
    alternating(&room, "one.npz", &[1, 1], 100_000, true);
    let found = last("one.npz --per-phase");
    assert_eq!(found, ("per phase: there is one phase, and the mapping above serves it".to_owned(), 1));
    // Ten messages a window are waited for less than a move takes.
    alternating(&room, "few.npz", &[1, 2, 1, 2], 10, true);
    let (text, format) = last("few.npz --per-phase");
    assert!(text.contains("one mapping for all 2 phases, as moving costs more than it gains") && format == 1, "{text}");
    alternating(&room, "p.npz", &[1, 2], 100_000, true);
    // Phases 2 and 3 are alike.
    alternating(&room, "alike.npz", &[3, 2, 3], 100_000, true);
    let found = last("alike.npz --per-phase");
    let none = "per phase: no other mapping was found that serves any of the 2 phases better: one mapping for all";
    assert_eq!(found, (none.to_owned(), 1));
    // Where PUs are all alike nothing is gained, however tasks take turns.
    let ran = run(&room, "map p.npz --per-phase --topology pu:2");
    assert!(ran.stdout.contains("nothing to gain") && ran.stdout.ends_with(&format!("{none}\n")), "{}", ran.stdout);
    // What no program announces is mapped, with what it is recognised by; that it is too short for that is said.
    alternating(&room, "unmarked.npz", &[1, 2, 1, 2], 100_000, false);
    let (text, format) = last("unmarked.npz --per-phase");
    assert!(
        text.contains("; these patterns last 10.0 ms at most, on the mean, and 'cohabit run' needs 1.00 s at least"),
        "{text}"
    );
    assert_eq!(format, 2);
    let file: Value = serde_json::from_slice(&std::fs::read(room.path("m.json")).unwrap()).unwrap();
    for (at, pairs) in [[[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 4], [1, 5], [2, 6], [3, 7]]].into_iter().enumerate() {
        let known = &file["phases"]["mappings"][at]["recognised_by"];
        let expected: Vec<Value> = pairs.iter().map(|[a, b]| serde_json::json!([a, b, 0.25])).collect();
        assert_eq!((&known["pairs"], &known["seconds"]), (&expected.into(), &0.01.into()), "{known}");
        let [takes, moves] = ["takes_s", "moves_s"]
            .map(|key| known[key].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect::<Vec<_>>());
        assert!((0..3).all(|mapping| takes[mapping] >= takes[at + 1]) && moves[at + 1] == 0.0, "{known}");
        assert!(takes[2 - at] > takes[at + 1] && moves[2 - at] > 0.0, "{known}");
    }
    // Of phases that are announced nothing of that is said.
    let (text, _) = last("p.npz --per-phase");
    assert!(!text.contains("recognise"), "{text}");
    let file = std::fs::read_to_string(room.path("m.json")).unwrap();
    assert!(!file.contains("recognised_by"), "{file}");
    // By phases that are not there, on several hosts, and of a profile without a series.
    let ran = run(&room, &format!("map unmarked.npz --per-phase=markers {machine}"));
    ran.assert_fails(1, "the profile has no phases of the program");
    room.file("cluster.toml", HOSTS);
    let ran = run(&room, "map few.npz --per-phase --topology cluster.toml --mapper packed");
    assert!(
        ran.status == Some(1) && ran.stderr.contains("--per-phase on several hosts: tasks cannot"),
        "{}",
        ran.stderr
    );
    room.import("still.npz", "0,9\n9,0\n");
    run(&room, &format!("map still.npz --per-phase {machine}")).assert_fails(1, "no time series");
}

/// More tasks than PUs, of which one has more to do: no PU gets too much, whatever mapper is named, and what is said of a
/// mapper is what `--mapper` gives.
#[test]
fn what_is_said_of_a_mapper_is_what_it_gives() {
    let room = Room::new();
    alternating(&room, "p.npz", &[2], 1000, false);
    let even = cohabit_formats::npz::read_profile(&room.path("p.npz")).unwrap();
    let mut accessed_bytes = vec![97_500; 8];
    accessed_bytes[0] = 465_448;
    let uneven = Profile { accessed_bytes, ..even };
    write_profile(&room.path("uneven.npz"), &uneven).unwrap();
    let alone_bytes = vec![465_448 - 97_500, 0, 0, 0, 0, 0, 0, 0];
    write_profile(&room.path("startup.npz"), &Profile { alone_bytes, ..uneven }).unwrap();
    let topology = "--topology pack:2@core:2@pu:1";
    for profile in ["p.npz", "uneven.npz", "startup.npz"] {
        let said = mapped_so(&room, &format!("{profile} {topology}"))["distance_cost"].clone();
        for mapper in ["packed", "scatter"] {
            let given = mapped_so(&room, &format!("{profile} {topology} --mapper {mapper}"));
            assert_eq!(given["distance_cost"]["mapped"], said[mapper], "{profile}, {mapper}");
            assert_eq!(given["distance_cost"], {
                let mut own = said.clone();
                own["mapped"] = said[mapper].clone();
                own
            });
        }
    }
    let tasks_a_pu = |profile: &str| {
        let mut on = std::collections::BTreeMap::new();
        let document = mapped_so(&room, &format!("{profile} {topology}"));
        pus(&document).into_iter().for_each(|pu| *on.entry(pu).or_insert(0) += 1);
        on.into_values().collect::<Vec<_>>()
    };
    assert_eq!(
        tasks_a_pu("startup.npz"),
        [2, 2, 2, 2],
        "what it did before the others were there is no work beside them"
    );
    assert!(tasks_a_pu("uneven.npz").contains(&1));
}

/// Clusters that are asked for are looked for, whatever the program names.
#[test]
fn clusters_are_as_many_as_asked_for_where_the_program_names_phases() {
    let room = Room::new();
    alternating(&room, "p.npz", &[1, 2], 1000, true);
    let run = |more: &str| room.run(&format!("map p.npz --topology pu:8 {more}"));
    let ran = run("--per-phase=clusters --max-clusters 3");
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    run("--max-clusters 3").assert_fails(1, "the program names its phases");
}
