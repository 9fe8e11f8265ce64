//! Recordings of ranks: what they send one another is in what their memory does, and what they did while they waited is
//! polling.

use super::{done, installed, program, settle_open_mpi};
use crate::common::{Ran, Room};
use cohabit_access::file::RecordingFile;
use serde_json::Value;

fn json(room: &Room, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(room.path(name)).unwrap()).unwrap()
}

/// In a ring each rank sends 1000 bytes to the next one, in each of 100 rounds. Between MPI_Init and MPI_Finalize there
/// is nothing else.
#[test]
fn what_ranks_send_is_recorded_and_their_waiting_is_polling() {
    const ROUNDS: u64 = 100;
    for mpi in installed() {
        let Some(room) = Room::to_profile("ranks are recorded") else { return };
        let path = program(&mpi, "patterns");
        let mut words = vec!["record", "--roi=mpi", "-o", "r.rec", "--"];
        words.extend(mpi.launcher.iter().map(String::as_str));
        words.extend(["-n", "4", path.to_str().unwrap(), "ring", "--rounds", "100"]);
        let mut command = room.command(words);
        // Who waits does not give way here: it looks again.
        let ran = Ran::of(settle_open_mpi(&mut command).env("OMPI_MCA_mpi_yield_when_idle", "0").output().unwrap());
        assert_eq!(ran.status, Some(0), "{}: {}", mpi.name, ran.stderr);
        assert!(ran.stderr.contains("4 tasks"), "{}: {}", mpi.name, ran.stderr);
        // What was typed, without what is added to it.
        let kept = RecordingFile::open(&room.path("r.rec")).unwrap().meta().command.clone();
        let typed: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(kept, typed[5..], "{}", mpi.name);

        done(&room.run("record --check r.rec --json c.json"));
        let tasks = json(&room, "c.json")["tasks"].as_array().unwrap().clone();
        assert_eq!(tasks.len(), 4);
        for task in &tasks {
            let of = |name: &str| task[name].as_u64().unwrap();
            let work = of("accesses") - of("polls");
            // Without the start of MPI, which takes millions; a message takes some hundred.
            assert!((100 * ROUNDS..4000 * ROUNDS).contains(&work), "{}: {task}", mpi.name);
            assert!(of("waits") >= ROUNDS, "{}: {task}", mpi.name);
        }
        let polls: u64 = tasks.iter().map(|task| task["polls"].as_u64().unwrap()).sum();
        assert!(polls > 0, "{}: four ranks on fewer cores wait", mpi.name);

        let ran = room.run("compare-detectors r.rec --topology pu:4 --json d.json").without_narration();
        done(&ran);
        let found = json(&room, "d.json");
        let exact = found["detectors"].as_array().unwrap().iter().find(|row| row["name"] == "exact").unwrap().clone();
        let mut sent = [[0u64; 4]; 4];
        for cell in exact["matrix"].as_array().unwrap() {
            let number = |at: usize| cell[at].as_u64().unwrap();
            sent[number(0) as usize][number(1) as usize] = number(2);
        }
        for from in 0..4 {
            // At least the lines of each message.
            let next = sent[from][(from + 1) % 4];
            assert!(next >= ROUNDS * 1000 / 64, "{}: {sent:?}", mpi.name);
            assert!(next >= 20 * sent[from][(from + 2) % 4], "{}: {sent:?}", mpi.name);
        }

        let ran = room.run("simulate r.rec --machine purple --mapper packed scatter --json s.json").without_narration();
        done(&ran);
        let simulated = json(&room, "s.json");
        for row in simulated["mappings"].as_array().unwrap() {
            let of = |name: &str| row["report"]["total"][name].as_u64().unwrap();
            assert_eq!(of("polls_recorded"), polls, "{}", mpi.name);
            assert!(of("polling_fs") > of("waiting_fs"), "{}: a rank polls while it waits", mpi.name);
        }
    }
}

#[test]
fn a_region_of_mpi_that_never_begins_is_said() {
    let Some(room) = Room::to_profile("a region of MPI") else { return };
    let ran = room.run("record --roi=mpi -o r.rec -- true");
    assert!(ran.stderr.contains("--roi=mpi: anything: the program never called an MPI_Init"), "{}", ran.stderr);
    room.run("record --roi=nothing -o r.rec -- true").assert_fails(125, "markers, mpi");
}
