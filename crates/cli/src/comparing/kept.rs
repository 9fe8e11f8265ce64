//! Runs that are there already: gone on with where that is asked for, never written over.

use super::results::Results;
use cohabit_model::{Error, Result};
use std::path::Path;

/// The runs to go on with, or none yet.
///
/// # Errors
/// Where there are some and nobody asked to go on with them, or they are of something else.
pub fn begun(path: &Path, resume: bool, new: Results) -> Result<Results> {
    if !path.exists() {
        return Ok(new);
    }
    not_there(path, resume)?;
    let kept = Results::read(path)?;
    kept.check_same(&new).map_err(|error| error.at(path.display()))?;
    Ok(Results { confidence: new.confidence, ..kept })
}

/// Makes sure that no runs would be written over.
///
/// # Errors
/// Where there are some, and nobody asked to go on with them.
pub fn not_there(path: &Path, resume: bool) -> Result<()> {
    if resume || !path.exists() {
        return Ok(());
    }
    let text = format!("{} is there already", path.display());
    Err(Error::new(text).remedy("--resume goes on with its runs; -o names another file; or remove it"))
}

/// An error that ends it, with what is not lost by it: it may be that the file could not be written.
pub fn kept(error: Error, path: &Path) -> Error {
    let Some(there) = Results::read(path).ok().filter(|there| !there.runs.is_empty()) else { return error };
    let kept = goes_on(path, &there);
    let remedy = error.remedy.as_ref().map_or(kept.clone(), |remedy| format!("{remedy}; {kept}"));
    error.remedy(remedy)
}

/// `12 runs are kept in FILE: --resume goes on`.
pub fn goes_on(path: &Path, results: &Results) -> String {
    let runs = match results.runs.len() {
        1 => "1 run is".to_owned(),
        count => format!("{count} runs are"),
    };
    format!("{runs} kept in {}: --resume goes on", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_in_a_file_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let error = Error::new("no space left").remedy("make room");
        assert_eq!(kept(error.clone(), &folder.path().join("runs.json")), error);
    }
}
