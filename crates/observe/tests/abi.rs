//! The Rust sides of `native/abi.h`, `native/bpf/faults_abi.h`, `native/mpi/abi.h` and
//! `native/recording_abi.h` are what bindgen makes of them
//! (`make abi`). That the layouts agree is asserted in the generated files themselves, at compile time.

use std::path::Path;
use std::process::Command;

/// Without what formatting changes from one rustfmt to the next, and the version in the first line.
fn essence(text: &str) -> String {
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    body.chars().filter(|character| !character.is_whitespace() && *character != ',').collect()
}

/// `major.minor` at the end of the first line.
fn version(text: &str) -> Option<&str> {
    let mut words = text.lines().next()?.split([' ', '\t']);
    let number = words.rfind(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.rsplit_once('.').map(|(series, _)| series)
}

const GENERATED: [&str; 4] = [
    "crates/observe/src/dbi/abi.rs",
    "crates/online/src/faults/abi.rs",
    "crates/observe/src/mpi/abi.rs",
    "crates/observe/src/recording/abi.rs",
];

#[test]
fn the_generated_files_follow_the_headers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = GENERATED.map(|path| std::fs::read_to_string(root.join(path)).expect("the generated file"));
    let Ok(bindgen) = Command::new("bindgen").arg("--version").output() else {
        eprintln!("skipped: bindgen is not installed, so the Rust side of the C headers cannot be generated again");
        return;
    };
    let installed = String::from_utf8_lossy(&bindgen.stdout).into_owned();
    for (path, committed) in GENERATED.iter().zip(&committed) {
        let (made, here) = (version(committed).expect("bindgen's first line"), version(&installed));
        if here != Some(made) {
            eprintln!("skipped: bindgen {made} made {path}, here is {}", installed.trim());
            return;
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let generated = ["abi.rs", "faults.rs", "mpi.rs", "recording.rs"].map(|name| folder.path().join(name));
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(&root).arg("abi");
    make.arg(format!("ABI={}", generated[0].display())).arg(format!("FAULTS_ABI={}", generated[1].display()));
    make.arg(format!("MPI_ABI={}", generated[2].display())).arg(format!("RECORDING_ABI={}", generated[3].display()));
    let output = make.output().expect("make is there where cohabit is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for ((path, generated), committed) in GENERATED.iter().zip(&generated).zip(&committed) {
        let generated = std::fs::read_to_string(generated).expect("bindgen wrote it");
        assert!(essence(&generated) == essence(committed), "run `make abi`: the header behind {path} has changed");
    }
}
