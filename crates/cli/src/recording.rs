//! What a user names as a recording.

use cohabit_access::file::RecordingFile;
use cohabit_access::{Recording, synthetic};
use cohabit_model::Result;
use std::path::Path;

/// Begins the name of a recording that is made up.
const SYNTHETIC: &str = "synthetic:";

/// The recording that a user names: a file, or `synthetic:ring:8` and its like.
///
/// # Errors
/// Where there is none, or it is damaged.
pub fn open_recording(path: &str) -> Result<Box<dyn Recording>> {
    match path.strip_prefix(SYNTHETIC) {
        Some(text) => Ok(Box::new(synthetic::parse(text)?)),
        None => Ok(Box::new(RecordingFile::open(Path::new(path))?)),
    }
}
