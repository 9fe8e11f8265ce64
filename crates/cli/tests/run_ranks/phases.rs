//! Ranks that move where a phase of the mapping begins.

use super::common::{Ran, Room};
use super::{Mpi, allowed, document, installed, mapping};
use serde_json::Value;

/// `cohabit profile` of four ranks that exchange with one neighbour and with another, in phases of a tenth of a second,
/// each of which comes twice; and what starts them.
const PHASED: [&str; 5] = ["phased", "60", "65536", "2", "1000"];

/// A mapping with phases of them, made for two packages of two PUs: the two PUs of a package are one here.
fn phased_mapping(mpi: &Mpi, room: &Room) -> Option<Value> {
    if !mpi.program("phased").exists() || !allowed().starts_with(&[0, 1]) {
        println!(
            "skipped: phases of ranks of {}: its workload was not built (make native), or no PU 0 and 1",
            mpi.name
        );
        return None;
    }
    let mut profile = room.command(["profile", "-o", "p.npz"]);
    let run = mpi.run(room, &[], 4, &PHASED);
    profile.args(run.get_args().skip_while(|word| *word != "--"));
    profile.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::of(profile.output().unwrap());
    assert_eq!(ran.status, Some(0), "{}: {}", mpi.name, ran.stderr);
    let ran = Ran::of(
        room.command(["map", "p.npz", "--per-phase", "--topology", "pack:2 core:2 pu:1", "-o", "m.json"])
            .output()
            .unwrap(),
    );
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{}: {}", mpi.name, ran.stdout);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.contains(" begins at ")).collect();
    let place = format!(" begins at phased-{}+0x", mpi.name);
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(&place)), "{}: {}", mpi.name, ran.stdout);
    let mut mapping: Value = serde_json::from_str(&std::fs::read_to_string(room.path("m.json")).unwrap()).unwrap();
    mapping["topology"] = "pack:2 core:1 pu:1".into();
    let halve = |tasks: &mut Value| {
        for task in tasks.as_array_mut().unwrap() {
            task["pu"] = (task["pu"].as_u64().unwrap() / 2).into();
            task.as_object_mut().unwrap().remove("pus");
        }
    };
    halve(&mut mapping["tasks"]);
    for phase in mapping["phases"]["mappings"].as_array_mut().unwrap() {
        halve(&mut phase["tasks"]);
    }
    room.file("m.json", mapping.to_string());
    Some(mapping)
}

/// Each rank is where the phase has it when the phase ends, by what it prints itself.
#[test]
fn ranks_move_at_the_call_sites_where_phases_begin() {
    for mpi in installed() {
        let room = Room::new();
        let Some(mapping) = phased_mapping(&mpi, &room) else { continue };
        let ran = Ran::of(mpi.run(&room, &["--mapping", "m.json"], 4, &PHASED).output().unwrap());
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{}", mpi.name);
        let phases = mapping["phases"]["mappings"].as_array().unwrap();
        assert_eq!((mapping["phases"]["by"].as_str(), phases.len()), (Some("calls"), 2));
        // Neighbours share a PU: those with r ^ 1 in the one phase, with r ^ 2 in the other.
        let pus = |phase: &Value| -> Vec<u64> {
            phase["tasks"].as_array().unwrap().iter().map(|seat| seat["pu"].as_u64().unwrap()).collect()
        };
        for (name, partner) in [("near", 1), ("far", 2)] {
            let of = phases.iter().map(pus).find(|pus| (0..4).all(|rank| pus[rank] == pus[rank ^ partner]));
            let of = of.unwrap_or_else(|| panic!("{name}: {mapping}"));
            for (rank, pu) in of.iter().enumerate() {
                let line = format!("{rank} {name} {pu}");
                assert_eq!(ran.stdout.lines().filter(|said| **said == line).count(), 2, "{line}: {}", ran.stdout);
            }
        }
        for rank in 0..4 {
            for (number, phase) in phases.iter().enumerate() {
                let seen = &document(&room)["ranks"][rank]["phases"][number];
                assert_eq!((&seen["number"], seen["times"].as_u64()), (&phase["number"], Some(2)), "{seen}");
                assert_eq!(seen["affinity"], serde_json::json!([pus(phase)[rank]]));
                assert_eq!(seen["affinity"], seen["expected_affinity"]);
            }
        }
        // A program that was compiled anew has its call sites elsewhere.
        let mut moved = mapping.clone();
        for phase in moved["phases"]["mappings"].as_array_mut().unwrap() {
            phase["begins_at"][0]["offset"] = (phase["begins_at"][0]["offset"].as_u64().unwrap() + 1).into();
        }
        room.file("moved.json", moved.to_string());
        let ran = Ran::of(mpi.run(&room, &["--mapping", "moved.json"], 4, &PHASED).output().unwrap());
        assert!(ran.status == Some(0) && ran.stderr.contains("no rank came to a call site"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn phases_that_ranks_cannot_follow_are_refused_in_a_line() {
    let room = Room::new();
    mapping(&room);
    let mapping: Value = serde_json::from_str(&std::fs::read_to_string(room.path("m.json")).unwrap()).unwrap();
    let write = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut phased = mapping.clone();
        let seats: Vec<Value> = mapping["tasks"].as_array().unwrap().clone();
        let seats = seats.iter().map(|task| serde_json::json!({ "task": task["task"], "pu": task["pu"] }));
        let begins_at = serde_json::json!([{ "module": "solver", "offset": 1 }]);
        let phase = serde_json::json!({ "number": 0, "tasks": seats.collect::<Vec<_>>(), "begins_at": begins_at });
        phased["format"] = 2.into();
        phased["phases"] = serde_json::json!({ "by": "calls", "mappings": [phase] });
        change(&mut phased);
        room.file(name, phased.to_string());
    };
    let by = |by: &'static str| {
        move |mapping: &mut Value| {
            mapping["phases"]["by"] = by.into();
            mapping["phases"]["mappings"][0].as_object_mut().unwrap().remove("begins_at");
        }
    };
    write("calls.json", &|_| ());
    write("markers.json", &by("markers"));
    write("nowhere.json", &|mapping| mapping["phases"]["mappings"][0]["begins_at"] = serde_json::json!([]));
    write("threads.json", &|mapping| {
        mapping["tasks"].as_array_mut().unwrap().iter_mut().for_each(|task| task["rank"] = Value::Null)
    });
    let cluster =
        "[[host]]\nnames = \"a\"\ntopology = \"core:4 pu:1\"\n[[host]]\nnames = \"b\"\ntopology = \"core:4 pu:1\"\n";
    write("hosts.json", &|mapping| {
        mapping["topology"] = cluster.into();
        for (at, task) in mapping["tasks"].as_array_mut().unwrap().iter_mut().enumerate() {
            (task["host"], task["pu"]) = (["a", "b"][at % 2].into(), 0.into());
        }
    });
    room.run("run --mapping threads.json -- true")
        .assert_fails(125, "call sites of MPI, to which ranks come and not threads");
    for mpi in installed() {
        let launcher = mpi.launcher[0];
        let run = |name: &str| room.run(&format!("run --mapping {name} -- {launcher} -n 4 true"));
        run("markers.json").assert_fails(125, "which MPI ranks do at call sites only");
        run("nowhere.json").assert_fails(125, "phase 0 begins at no call site");
        run("hosts.json").assert_fails(125, "which ranks do on one host, and it is for 2");
        std::fs::create_dir_all(room.path("empty")).unwrap();
        let mut without = room.command(["run", "--mapping", "calls.json", "--", launcher, "-n", "4", "true"]);
        let ran = Ran::of(without.env("COHABIT_LIBDIR", room.path("empty")).output().unwrap());
        ran.assert_fails(125, "there is no library for ranks of");
        // A head of a program, without an interpreter.
        let mut head = vec![0_u8; 64 + 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (head[16], head[32], head[54], head[56], head[64]) = (2, 64, 56, 1, 1);
        std::fs::write(room.path("static"), head).unwrap();
        std::fs::set_permissions(room.path("static"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        room.run(&format!("run --mapping calls.json -- {launcher} -n 4 ./static"))
            .assert_fails(125, "is linked statically");
    }
}
