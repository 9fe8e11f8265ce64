//! What a user names as a recording, and what mappers are told of it.

use cohabit_access::file::RecordingFile;
use cohabit_access::{Recording, synthetic};
use cohabit_cluster::Options;
use cohabit_detect::communication::Communication;
use cohabit_map::objective::{Case, Objective, map_for};
use cohabit_map::{Mapper, Problem};
use cohabit_model::profile::{Kind, Meta, SeriesRow};
use cohabit_model::{Period, Profile, Result};
use std::path::Path;

/// Begins the name of a recording that is made up.
const SYNTHETIC: &str = "synthetic:";
/// Bytes of a message: a line.
const LINE_BYTES: u64 = 64;

/// The recording that a user names: a file, or one that is made up, such as `synthetic:ring:8`.
///
/// # Errors
/// Where it cannot be read, or is none.
pub fn open_recording(path: &str) -> Result<Box<dyn Recording>> {
    match path.strip_prefix(SYNTHETIC) {
        Some(text) => Ok(Box::new(synthetic::parse(text)?)),
        None => Ok(Box::new(RecordingFile::open(Path::new(path))?)),
    }
}

/// What happens at the same time: clusters of its windows, as DeLoc finds them. Empty where nothing is communicated.
///
/// # Errors
/// They cannot be found.
pub fn periods(known: &Communication) -> Result<Vec<Period>> {
    if known.series.is_empty() {
        return Ok(Vec::new());
    }
    let row = |row: &SeriesRow| SeriesRow { bytes: row.messages.saturating_mul(LINE_BYTES), ..*row };
    let meta = Meta { window_ns: known.window_accesses, ..Meta::new(Kind::Threads, "recording", Vec::new()) };
    let profile = Profile::new(meta, known.messages.clone(), known.messages.clone());
    let profile = Profile { series: known.series.iter().map(row).collect(), ..profile };
    Ok(cohabit_cluster::periods::of_clusters(&profile, &Options::default())?.2.periods)
}

/// A placement on a machine whose ports have no speeds of their own.
///
/// # Errors
/// The mapper fails, or knows no such objective.
pub fn place(problem: &Problem, mapper: &dyn Mapper, objective: &dyn Objective) -> Result<Vec<usize>> {
    map_for(&Case { problem, network: None, memory: &[] }, mapper, objective)
}
