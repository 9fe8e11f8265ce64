//! What a user names as a recording.

use cohabit_access::{Recording, synthetic};
use cohabit_model::{Error, Result};

/// Begins the name of a recording that is made up.
const SYNTHETIC: &str = "synthetic:";

/// The recording that a user names: `synthetic:ring:8` and its like.
///
/// # Errors
/// Where there is none.
pub fn open_recording(path: &str) -> Result<Box<dyn Recording>> {
    match path.strip_prefix(SYNTHETIC) {
        Some(text) => Ok(Box::new(synthetic::parse(text)?)),
        None => {
            Err(Error::new(format!("{path}: no recording"))
                .remedy("give one that is made up, such as synthetic:ring:8"))
        }
    }
}
