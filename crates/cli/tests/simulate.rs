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
