//! `cohabit map --export`: files for other programs, each whole, and none where one cannot be made.

mod common;

use common::Room;

/// A folder with a profile of four ranks and one of four threads.
fn room() -> Room {
    let room = Room::new();
    room.chain("threads.npz", 4, 100);
    let ran = room.run("import matrix.csv --kind ranks -o ranks.npz");
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    room
}

const MAP: &str = "--topology pu:4 --pin 0=2 --pin 1=3 --pin 2=0 --pin 3=1";

fn read(room: &Room, name: &str) -> String {
    std::fs::read_to_string(room.path(name)).unwrap()
}

#[test]
fn several_formats_at_once() {
    let room = room();
    let ran =
        room.run(&format!("map ranks.npz {MAP} -o m.json --export open-mpi-4=rf --export metis=g --export svg=p.svg"));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains("4 MPI ranks on 4 PUs"), "{}", ran.stdout);
    assert_eq!(
        read(&room, "rf"),
        "rank 0=localhost slot=2\nrank 1=localhost slot=3\nrank 2=localhost slot=0\nrank 3=localhost slot=1\n"
    );
    assert_eq!(read(&room, "g"), "4 3 001\n2 100\n1 100 3 100\n2 100 4 100\n3 100\n");
    assert!(read(&room, "p.svg").starts_with("<svg ") && room.path("m.json").exists());
}

#[test]
fn standard_output_is_the_file_alone() {
    let room = room();
    let ran = room.run(&format!("map threads.npz {MAP} --export gomp-cpu-affinity=-"));
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout, "export GOMP_CPU_AFFINITY='2 3 0 1'\nexport OMP_NUM_THREADS='4'\n");
    for twice in ["--export dot=- --export metis=-", "--export dot=- --json -"] {
        room.run(&format!("map threads.npz {twice}")).assert_fails(2, "several results for standard output");
    }
}

#[test]
fn a_matrix_that_is_exported_comes_back() {
    let room = room();
    assert_eq!(room.run("map ranks.npz --topology pu:4 --export matrix-market=back.mtx").status, Some(0));
    assert_eq!(room.run("import back.mtx -o back.npz").status, Some(0));
    assert_eq!(room.run("map back.npz --topology pu:4 --export matrix-market=again.mtx").status, Some(0));
    assert_eq!(read(&room, "again.mtx"), read(&room, "back.mtx"));
    assert!(read(&room, "back.mtx").ends_with("4 4 3\n1 2 100\n2 3 100\n3 4 100\n"), "{}", read(&room, "back.mtx"));
}

#[test]
fn all_files_or_none() {
    let room = room();
    for (exports, status, cause) in [
        ("--export dot=a --export open-mpi-4=b", 1, "--export open-mpi-4: the 4 tasks are threads of one process"),
        ("--export dot=nowhere/a", 1, "nowhere/a"),
        ("--export rankfile=a", 2, "there is no export format \"rankfile\""),
        ("--export dot", 2, "write a format and a file"),
        ("--export dot=", 2, "write a format and a file"),
    ] {
        room.run(&format!("map threads.npz --topology pu:4 -o m.json {exports}")).assert_fails(status, cause);
        assert!(!room.path("a").exists() && !room.path("b").exists() && !room.path("m.json").exists(), "{exports}");
    }
}
