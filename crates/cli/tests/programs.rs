//! Real programs under `cohabit profile`: the same end and the same answer as natively. What they are and what is
//! compared is in scripts/programs.sh; what is not installed is skipped aloud.
//! A JVM is left to the script: it does not yet run to its end every time (docs/programs.md).

mod common;

use common::Room;
use std::process::Command;

#[track_caller]
fn runs_the_same(program: &[&str]) {
    if Room::to_profile(&program.join(" ")).is_none() {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/programs.sh");
    let output = Command::new(script).args(program).env("COHABIT", env!("CARGO_BIN_EXE_cohabit")).output().unwrap();
    let [rows, errors] = [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned());
    print!("{rows}");
    assert!(output.status.success(), "{rows}{errors}");
    assert!(rows.contains("| same answer |") || rows.contains("skipped: "), "{rows}{errors}");
}

#[test]
fn x264() {
    runs_the_same(&["x264"]);
}

#[test]
fn gromacs() {
    runs_the_same(&["gromacs"]);
}

#[test]
fn lammps() {
    runs_the_same(&["lammps"]);
}

#[test]
fn go() {
    runs_the_same(&["go"]);
}

#[test]
fn numpy() {
    runs_the_same(&["numpy"]);
}

#[test]
fn cohabit_itself() {
    runs_the_same(&["topology"]);
    runs_the_same(&["map"]);
}

#[test]
fn parallel_benchmarks() {
    runs_the_same(&["npb", "S", "4"]);
    runs_the_same(&["npb", "S", "32"]);
}
