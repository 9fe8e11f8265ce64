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

/// Whether conditions chain `let` with `&&`, which needs Rust 1.88: clippy, which knows the oldest Rust that we build
/// with, tells of functions of the library that it lacks, and not of this.
fn chains_let(condition: &str) -> bool {
    let mut depth = 0;
    let pattern_end = condition.find(" = ").unwrap_or(condition.len());
    condition.char_indices().any(|(at, character)| {
        depth += i32::from("([{".contains(character)) - i32::from(")]}".contains(character));
        depth == 0 && at > pattern_end && condition[at..].starts_with("&& ")
    })
}

fn sources(folder: &Path, ending: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => sources(&path, ending, found),
            Some(extension) if extension == ending => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn nothing_needs_a_newer_rust_than_is_promised() {
    assert!(chains_let("if let Some(a) = b && c {") && chains_let("while let Some(a) = b\n    && (c || d)\n{"));
    assert!(!chains_let("if let Some(&&a) = b.filter(|b| c && d) {") && !chains_let("if let Some(a) = b {"));
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), "rs", &mut files);
    assert!(files.len() > 300, "{}", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.trim_start().trim_start_matches("} else ");
            if code.starts_with("if let ") || code.starts_with("while let ") || code.contains("&& let ") {
                let end = lines[number..].iter().position(|line| line.trim_end().ends_with('{')).unwrap_or(0);
                let condition = lines[number..=number + end].join("\n");
                let place = format!("{}:{}", file.display(), number + 1);
                assert!(!chains_let(condition.trim_start().trim_start_matches("} else ")), "{place}: {condition}");
            }
        }
    }
}

/// What a C file includes itself, and by the headers beside it.
fn included(file: &Path, found: &mut BTreeSet<String>) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("#include ")) {
        let name = line[1..].split(['>', '"']).next().unwrap();
        if found.insert(name.to_owned()) && line.starts_with('"') {
            included(&file.parent().unwrap().join(name), found);
        }
    }
}

/// Which headers bring others with them differs from one C library to the next, and newer compilers stop where a
/// function is not declared.
#[test]
fn c_files_include_what_they_call() {
    const DECLARED: [(&str, &[&str]); 3] = [
        (
            "string.h",
            &["memchr", "memcmp", "memcpy", "memmove", "memset", "strchr", "strcmp", "strlen", "strncmp", "strstr"],
        ),
        ("stdlib.h", &["abort", "calloc", "exit", "free", "getenv", "malloc", "qsort", "realloc", "strtol", "strtoul"]),
        ("stdio.h", &["fopen", "fprintf", "perror", "printf", "snprintf", "sscanf"]),
    ];
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native"), "c", &mut files);
    assert!(files.len() > 50, "{}", files.len());
    let calls = |text: &str, name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            text[at + name.len()..].starts_with('(') && !before.is_alphanumeric() && !"_.>".contains(before)
        })
    };
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut headers = BTreeSet::new();
        included(&file, &mut headers);
        for (header, names) in DECLARED {
            let called = names.iter().find(|name| calls(&text, name));
            let has = headers.iter().any(|found| found == header);
            assert!(called.is_none() || has, "{}: {called:?} without <{header}>", file.display());
        }
    }
}
