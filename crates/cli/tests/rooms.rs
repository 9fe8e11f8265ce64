//! Engines know only the nouns, stages these two, and only the command line knows the stages (ARCHITECTURE.md,
//! invariant 2).

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

/// What is thought about.
const NOUNS: [&str; 2] = ["access", "model"];
/// What works on it, each for itself.
const ENGINES: [&str; 6] = ["cluster", "detect", "formats", "host", "memory", "network"];
/// What a user does, one after another.
const STAGES: [&str; 5] = ["apply", "evaluate", "map", "observe", "online"];

fn names(floors: &[&[&str]]) -> BTreeSet<String> {
    floors.iter().flat_map(|floor| floor.iter().map(|&name| name.to_owned())).collect()
}

#[test]
fn floors_import_only_what_is_below() {
    assert_eq!(own_dependencies("model"), BTreeSet::new());
    assert_eq!(own_dependencies("testing"), BTreeSet::new());
    assert_eq!(own_dependencies("access"), names(&[&["model"]]));
    for (floor, below) in [(&ENGINES[..], names(&[&NOUNS])), (&STAGES[..], names(&[&NOUNS, &ENGINES]))] {
        for room in floor {
            let above: Vec<_> = own_dependencies(room).difference(&below).cloned().collect();
            assert_eq!(above, Vec::<String>::new(), "{room}");
        }
    }
    assert_eq!(own_dependencies("cli"), names(&[&NOUNS, &ENGINES, &STAGES]));
}

#[test]
fn every_room_is_checked() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = crates.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), names(&[&NOUNS, &ENGINES, &STAGES, &["cli", "testing"]]));
}
