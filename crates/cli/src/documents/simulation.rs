//! What `cohabit simulate --json` found, read back: each mapping's time, and where accesses were served.

use cohabit_model::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Where accesses are served, nearest first: the key of the document and the name for people.
pub const PLACES: [(&str, &str); 9] = [
    ("l1", "L1"),
    ("fill_buffer", "fill buffer"),
    ("l2", "L2"),
    ("l3", "L3"),
    ("l4", "L4"),
    ("near_cache", "near cache"),
    ("far_cache", "far cache"),
    ("local_memory", "local memory"),
    ("remote_memory", "remote memory"),
];

/// Bytes of a line: an access to DRAM.
const LINE_BYTES: u64 = 64;

/// The document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Simulation {
    /// The recording, as given.
    pub recording: String,
    /// The program that was recorded for it; none where there was a file.
    #[serde(default)]
    pub program: Option<Vec<String>>,
    /// The arguments of the command; none in documents before it.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The machine, as given.
    pub machine: String,
    /// Where pages went, as given.
    pub memory: String,
    /// Whether nobody waited for a lock.
    #[serde(default)]
    pub free_locks: bool,
    /// The sample of the run that was simulated; none where all of it was.
    #[serde(default)]
    pub sample: Option<Sample>,
    /// The mappings.
    pub mappings: Vec<Simulated>,
}

/// Which sample of a run, as given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Sample {
    /// How much of the run was measured.
    pub percent: u8,
    /// Which draw.
    pub seed: u64,
}

/// A mapping and what it led to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Simulated {
    /// Its mapper or file.
    pub name: String,
    /// Where each task was.
    #[serde(default)]
    pub pus: Vec<usize>,
    /// What was found.
    pub report: Report,
}

/// The part of a report that is drawn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Report {
    /// When the last task ended, in fs.
    pub time_fs: u64,
    /// How far off the time may be where it is estimated from a sample.
    #[serde(default)]
    pub sampled: Option<Sampled>,
    /// All tasks together.
    pub total: Total,
    /// Controllers, links, bus.
    #[serde(default)]
    pub servers: Vec<Server>,
}

/// An estimated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Sampled {
    /// Half of the interval that it lies in with a probability of 95 %, in fs.
    pub margin_fs: u64,
}

/// All tasks' counts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Total {
    /// Loads by place.
    pub loads_served: BTreeMap<String, u64>,
    /// Stores by place.
    pub stores_served: BTreeMap<String, u64>,
    /// Copies taken away by stores.
    #[serde(default)]
    pub invalidations: u64,
}

/// A server of requests.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Server {
    /// What it is.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time that they waited, in fs.
    pub wait_fs: u64,
    /// Time that it was at work, in fs.
    pub busy_fs: u64,
}

impl Simulation {
    /// Reads one.
    ///
    /// # Errors
    /// Where it is none.
    pub fn read(path: &Path) -> Result<Self> {
        let found: Self = super::read(path, &["simulate"])?;
        match found.mappings.is_empty() {
            true => Err(Error::new("a simulation of no mapping").remedy("simulate again").at(path.display())),
            false => Ok(found),
        }
    }

    /// The time of each mapping over the first one's.
    pub fn relative(&self) -> Vec<f64> {
        let first = self.mappings[0].report.time_fs.max(1) as f64;
        self.mappings.iter().map(|one| one.report.time_fs as f64 / first).collect()
    }
}

impl Report {
    /// What came from memory, a line an access.
    pub fn dram_bytes(&self) -> u64 {
        let lines: u64 = PLACES
            .iter()
            .zip(self.served())
            .filter(|(place, _)| place.0.ends_with("_memory"))
            .map(|(_, served)| served)
            .sum();
        lines.saturating_mul(LINE_BYTES)
    }

    /// Loads and stores by place, as in [`PLACES`].
    pub fn served(&self) -> [u64; PLACES.len()] {
        PLACES.map(|(key, _)| {
            let of = |counts: &BTreeMap<String, u64>| counts.get(key).copied().unwrap_or(0);
            of(&self.total.loads_served).saturating_add(of(&self.total.stores_served))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_memory::report::ServedCounts;

    #[test]
    fn every_place_of_the_simulator_is_drawn() {
        let counts = serde_json::to_value(ServedCounts::default()).unwrap();
        let keys: std::collections::BTreeSet<_> = counts.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, PLACES.iter().map(|place| place.0.to_owned()).collect());
    }

    #[test]
    fn a_document_of_another_command_is_told_so() {
        for (text, cause) in [
            ("{", "no JSON document"),
            ("[]", "of no command"),
            (r#"{"format":1,"command":"show"}"#, "a document of 'cohabit show', not of 'cohabit simulate'"),
            (r#"{"format":2,"command":"simulate"}"#, "in format 2"),
            (r#"{"format":1,"command":"simulate","recording":"r"}"#, "damaged document: missing field"),
        ] {
            let error = super::super::parse::<Simulation>(text, &["simulate"]).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.unwrap().contains("simulate"), "{}", error.cause);
        }
    }
}
