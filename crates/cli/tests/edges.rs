//! Inputs at the edge of sense, through the whole tool: nothing to map, one task, weights near 2^64, more pins than
//! PUs, everything forbidden. Either there is an obvious answer, or one line that says what is wrong; never a panic,
//! and J is exact.

mod common;

use common::{Ran, Room};
use serde_json::Value;

/// Weights of a Matrix Market file, from 0.
type Entries = Vec<(usize, usize, u64)>;

const MAX: u64 = u64::MAX;

fn import(room: &Room, name: &str, tasks: usize, entries: &Entries) {
    let line =
        |&(source, destination, value): &(usize, usize, u64)| format!("{} {} {value}\n", source + 1, destination + 1);
    let body: String = entries.iter().map(line).collect();
    let head = format!("%%MatrixMarket matrix coordinate integer general\n{tasks} {tasks} {}\n", entries.len());
    room.file("m.mtx", head + &body);
    let ran = room.run(&format!("import m.mtx -o {name}"));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{name}");
}

/// The names of all mappers that need a time series, or of all that do not.
fn mappers_that(room: &Room, need_series: bool) -> Vec<String> {
    let document: Value = serde_json::from_str(&room.run("mappers --json -").stdout).unwrap();
    let rows = document["mappers"].as_array().unwrap().iter().filter(|row| row["needs_series"] == need_series);
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// Those that map any profile.
fn mappers(room: &Room) -> Vec<String> {
    mappers_that(room, false)
}

#[test]
fn mappers_that_need_a_time_series_say_so() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    assert!(!room.run("doctor").stdout.contains("time series"), "what a profile lacks is no fault of the machine");
    let names = mappers_that(&room, true);
    assert!(!names.is_empty());
    for mapper in names {
        room.run(&format!("map p.npz --topology pu:4 --mapper {mapper}"))
            .assert_fails(1, "the profile has no time series");
    }
}

/// The document of `map`: costs beyond 64 bits as text, since a JSON number of that size has no place in a `Value`.
fn mapped(ran: &Ran, what: &str) -> (Vec<u64>, String) {
    let text = ran.stdout.lines().find_map(|line| line.trim().strip_prefix("\"distance\": ")).unwrap_or_default();
    let cost = text.trim_end_matches(',').to_owned();
    let pus =
        ran.stdout.lines().filter_map(|line| line.trim().strip_prefix("\"pu\": ")?.trim_end_matches(',').parse().ok());
    let pus = pus.collect();
    assert!(ran.stdout.ends_with("}\n") && !cost.is_empty(), "{what}: {}", ran.stdout);
    (pus, cost)
}

#[test]
fn every_mapper_on_every_odd_matrix() {
    let room = Room::new();
    let dense = |tasks: usize, value: u64| -> Entries {
        (0..tasks * tasks).map(|cell| (cell / tasks, cell % tasks, value)).collect()
    };
    room.file("none.mtx", "%%MatrixMarket matrix coordinate integer general\n0 0 0\n");
    room.run("import none.mtx -o none.npz").assert_fails(1, "there is no task in it");
    let cases: [(&str, usize, Entries); 8] = [
        ("one task", 1, Vec::new()),
        ("one task that talks to itself", 1, vec![(0, 0, MAX)]),
        ("zeroes", 5, Vec::new()),
        ("two tasks, as heavy as can be", 2, dense(2, MAX)),
        ("six tasks, as heavy as can be", 6, dense(6, MAX)),
        ("one pair heavy, others light", 7, (0..7).map(|i| (i, (i + 1) % 7, if i == 3 { MAX } else { 1 })).collect()),
        ("disconnected", 9, vec![(0, 1, 5), (1, 0, 3), (4, 5, 7), (7, 8, 1)]),
        ("a hub", 9, (1..9).map(|i| (0, i, MAX / 2)).collect()),
    ];
    let machines = [("pu:1", "0"), ("pack:2 core:2 pu:2", "4294967295,4294967295,0"), ("pack:3 core:2 pu:1", "100,1")];
    for (what, tasks, entries) in &cases {
        import(&room, "p.npz", *tasks, entries);
        assert_eq!(room.run("show p.npz").status, Some(0), "{what}");
        for (machine, costs) in machines {
            for mapper in mappers(&room) {
                let words = ["map", "p.npz", "--json", "-", "--mapper", &mapper, "--topology", machine];
                let costs: &[&str] = if machine == "pu:1" { &[] } else { &["--level-costs", costs] };
                let ran = Ran::of(room.command(words.iter().chain(costs)).output().unwrap());
                let what = format!("{what}, {mapper}, {machine}");
                assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{what}");
                assert_eq!(mapped(&ran, &what).0.len(), *tasks, "{what}");
            }
        }
    }
}

#[test]
fn j_is_exact_beyond_64_bits() {
    let room = Room::new();
    // Two tasks that must part: 2 * (2^64 - 1) * (2^32 - 1).
    import(&room, "p.npz", 2, &vec![(0, 1, MAX), (1, 0, MAX)]);
    let pins = "--pin 0=0 --pin 1=1";
    let ran = room.run(&format!("map p.npz --topology pu:2 --level-costs 4294967295 {pins} --json -"));
    assert_eq!(mapped(&ran, "two").1, (2 * u128::from(MAX) * 4_294_967_295).to_string());
    // And twelve, each with each.
    let entries = (0..144).filter(|cell| cell / 12 != cell % 12).map(|cell| (cell / 12, cell % 12, MAX)).collect();
    import(&room, "q.npz", 12, &entries);
    let ran = room.run("map q.npz --mapper packed --topology pu:12 --level-costs 4294967295 --json -");
    assert_eq!(mapped(&ran, "twelve").1, (132 * u128::from(MAX) * 4_294_967_295).to_string());
    let text = room.run("map q.npz --mapper packed --topology pu:12 --level-costs 4294967295").stdout;
    assert!(text.contains(&(132 * u128::from(MAX) * 4_294_967_295).to_string()), "{text}");
}

#[test]
fn pins_and_forbidden_pus() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    for mapper in mappers(&room) {
        let map = format!("map p.npz --mapper {mapper} --json - --topology");
        // More pins than PUs: all on the one that they name.
        let ran = room.run(&format!("{map} pu:2 --pin 0=1 --pin 1=1 --pin 2=1 --pin 3=1"));
        assert_eq!((ran.status, mapped(&ran, &mapper).0), (Some(0), vec![1, 1, 1, 1]), "{mapper}");
        // All but one PU forbidden.
        let ran = room.run(&format!("{map} pu:3 --forbid 0,2"));
        assert_eq!((ran.status, mapped(&ran, &mapper).0), (Some(0), vec![1, 1, 1, 1]), "{mapper}");
        for (rest, cause) in [
            ("pu:2 --forbid 0,1", "no PU is left to use"),
            ("pu:2 --pin 0=0 --pin 0=1", "task 0 is pinned to PU 0 and to PU 1"),
            ("pu:2 --pin 0=0 --forbid 0", "task 0 is pinned to PU 0, which may not be used"),
        ] {
            room.run(&format!("{map} {rest}")).assert_fails(1, cause);
        }
    }
}

#[test]
fn numbers_that_are_no_counts_are_refused_by_every_text_format() {
    let room = Room::new();
    let market = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 ";
    for (value, cause) in [
        ("-1", "negative"),
        ("nan", "not finite"),
        ("-inf", "not finite"),
        ("1e400", "not finite"),
        ("0.5", "not a whole number"),
        ("18446744073709551616", "does not fit into 64 bits"),
        ("1e30", "does not fit into 64 bits"),
        ("x", "not a number"),
    ] {
        for (name, content) in [
            ("m.csv", format!("0,0\n{value},0\n")),
            ("pairs.csv", format!("source,destination,value\n0,1,{value}\n")),
            ("m.mtx", format!("{market}{value}\n")),
            ("m.comm.csv", format!("0,0\n{value},0\n")),
            ("m.mat", format!("0 0\n{value} 0\n")),
        ] {
            room.file(name, &content);
            let ran = room.run(&format!("import {name} -o p.npz"));
            ran.assert_fails(1, name);
            assert!(ran.stderr.contains(cause), "{name}, {value}: {}", ran.stderr);
            assert!(!room.path("p.npz").exists(), "{name}, {value}");
        }
    }
}

#[test]
fn the_largest_counts_add_up_without_wrapping() {
    let room = Room::new();
    room.file("m.csv", format!("source,destination,value\n0,1,{MAX}\n0,1,{MAX}\n1,0,{MAX}\n"));
    let ran = room.run("import m.csv -o p.npz");
    // Values of one pair saturate; the sum over pairs is exact.
    assert!(ran.stdout.contains(&format!("2 tasks, {} messages", 2 * u128::from(MAX))), "{}", ran.stdout);
    assert_eq!(room.run("show p.npz").status, Some(0));
}

/// Standard output may be a file that others have written to before.
#[test]
fn what_is_appended_to_is_not_replaced() {
    let room = Room::new();
    room.chain("p.npz", 4, 10);
    room.file("a.txt", "old\n");
    let to = std::fs::File::options().append(true).open(room.path("a.txt")).unwrap();
    let words = ["map", "p.npz", "--topology", "pack:2 core:2 pu:1", "-o", "/dev/stdout"];
    assert!(room.command(words).stdout(to).status().unwrap().success());
    let found = std::fs::read_to_string(room.path("a.txt")).unwrap();
    assert!(found.starts_with("old\n") && found.contains("\"mapper\"") && found.contains("this mapping"), "{found}");
}
