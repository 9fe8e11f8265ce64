//! The Rust side of `native/abi.h` is what bindgen makes of the header (`make abi`). That the layouts agree is asserted
//! in the generated file itself, at compile time.

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

#[test]
fn the_generated_file_follows_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = std::fs::read_to_string(root.join("crates/observe/src/dbi/abi.rs")).expect("the generated file");
    let Ok(bindgen) = Command::new("bindgen").arg("--version").output() else {
        eprintln!("skipped: bindgen is not installed, so the Rust side of native/abi.h cannot be generated again");
        return;
    };
    let installed = String::from_utf8_lossy(&bindgen.stdout).into_owned();
    let (made, here) = (version(&committed).expect("bindgen's first line"), version(&installed));
    if here != Some(made) {
        eprintln!("skipped: bindgen {made} made crates/observe/src/dbi/abi.rs, here is {}", installed.trim());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let generated = folder.path().join("abi.rs");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(&root).arg("abi").arg(format!("ABI={}", generated.display()));
    let output = make.output().expect("make is there where cohabit is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let generated = std::fs::read_to_string(generated).expect("bindgen wrote it");
    assert!(essence(&generated) == essence(&committed), "run `make abi`: native/abi.h has changed");
}
