//! The readers under hostile bytes, on any Rust: the seeds of the fuzzer and mutations of them, the same ones every
//! time. fuzz/ searches further; COHABIT_FUZZ_ROUNDS makes this test do so (mutations of each seed, 30 by default).

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;
use targets::{BETWEEN, TARGETS};

/// What breaks parsers more often than chance would find it.
const WORDS: [&[u8]; 18] = [
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967295",
    b"4294967296",
    b"-1",
    b"0",
    b"1e400",
    b"nan",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x00",
    b"\n",
    b",",
    b"\"",
    b"<",
    b"null",
    b"[",
    b"{}",
    BETWEEN,
];

/// A small generator of numbers that are the same every time (Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// One change: a bit, a part taken out, a part repeated, a word put in, the end cut off, the end of another seed.
fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(data.len() + 1);
    let end = (at + 1 + random.below(40)).min(data.len());
    match random.below(6) {
        0 if at < data.len() => data[at] ^= 1 << random.below(8),
        1 if at < end => drop(data.drain(at..end)),
        2 if at < end => {
            let part = data[at..end].to_vec();
            data.splice(at..at, part);
        }
        3 => {
            let word = WORDS[random.below(WORDS.len())];
            data.splice(at..at, word.iter().copied());
        }
        4 => data.truncate(at),
        _ => {
            data.truncate(at);
            data.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}

fn feed(target: &str) {
    let run = TARGETS.iter().find(|row| row.0 == target).unwrap().1;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fuzz").join(target);
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    let rounds = std::env::var("COHABIT_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(30);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (file, seed) in files.iter().zip(&seeds) {
        run(seed);
        for round in 0..rounds {
            let mut data = seed.clone();
            for _ in 0..=random.below(4) {
                let other = &seeds[random.below(seeds.len())];
                mutate(&mut data, other, &mut random);
            }
            let kept = data.clone();
            let ended = std::panic::catch_unwind(move || run(&data));
            if ended.is_err() {
                let found = std::env::temp_dir().join(format!("cohabit-{target}-found"));
                std::fs::write(&found, kept).unwrap();
                panic!("{target}: a mutation of {} (round {round}), kept as {}", file.display(), found.display());
            }
        }
    }
}

#[test]
fn every_target_has_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fuzz");
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut folders: Vec<_> = entries.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    folders.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|row| row.0).collect();
    names.sort();
    assert_eq!(folders, names);
}

#[test]
fn npz() {
    feed("npz");
}

#[test]
fn npz_members() {
    feed("npz_members");
}

#[test]
fn import() {
    feed("import");
}

#[test]
fn topology() {
    feed("topology");
}

#[test]
fn mapping() {
    feed("mapping");
}

#[test]
fn pipeline() {
    feed("pipeline");
}

#[test]
fn recording() {
    feed("recording");
}

#[test]
fn recording_members() {
    feed("recording_members");
}

#[test]
fn results() {
    feed("results");
}

#[test]
fn documents() {
    feed("documents");
}
