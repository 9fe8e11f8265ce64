//! The stages know only the nouns, and only the command line knows the stages (ARCHITECTURE.md, invariant 2).

use std::collections::BTreeSet;
use std::path::Path;

/// Which of our own crates a crate's manifest depends on, tests aside.
fn own_dependencies(room: &str) -> BTreeSet<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(room).join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" {
            found.extend(
                line.strip_prefix("cohabit-").map(|rest| rest[..rest.find(['.', ' ', '=']).unwrap()].to_owned()),
            );
        }
    }
    found
}

#[test]
fn stages_never_import_one_another() {
    let model = BTreeSet::from(["model".to_owned()]);
    assert_eq!(own_dependencies("model"), BTreeSet::new());
    assert_eq!(own_dependencies("testing"), BTreeSet::new());
    let nouns = BTreeSet::from(["access".to_owned(), "model".to_owned()]);
    assert_eq!(own_dependencies("access"), model);
    for engine in ["detect", "memory", "observe"] {
        assert_eq!(own_dependencies(engine), nouns, "{engine}");
    }
    for stage in ["map", "evaluate", "apply"] {
        assert_eq!(own_dependencies(stage), model, "{stage}");
    }
    let all = ["access", "apply", "detect", "evaluate", "map", "memory", "model", "observe"];
    assert_eq!(own_dependencies("cli"), all.map(String::from).into());
}

#[test]
fn every_room_is_checked() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = crates.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        names.collect::<BTreeSet<_>>(),
        ["access", "apply", "cli", "detect", "evaluate", "map", "memory", "model", "observe", "testing"]
            .map(String::from)
            .into()
    );
}
