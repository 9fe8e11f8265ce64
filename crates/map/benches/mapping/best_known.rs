//! The best J known of every problem of the suite, kept in `best-known.csv` beside the suite.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A problem: size, kind, seed.
pub type Key = (usize, String, u64);

/// The file.
fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/mapping/best-known.csv")
}

/// All that is known.
pub fn read() -> BTreeMap<Key, u128> {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let line = |line: &str| {
        let mut fields = line.split(',');
        let key = (fields.next()?.parse().ok()?, fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        Some((key, fields.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Writes what is known.
pub fn write(known: &BTreeMap<Key, u128>) {
    let lines = known.iter().map(|((size, kind, seed), cost)| format!("{size},{kind},{seed},{cost}\n"));
    let text: String = std::iter::once("size,kind,seed,cost\n".to_owned()).chain(lines).collect();
    std::fs::write(path(), text).expect("the suite's own directory can be written");
}
