//! `cohabit restore`: puts back what a cohabit that was killed has left changed, and removes its temporary files.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::online::restored_text;
use cohabit_model::{Error, file};
use cohabit_observe::dbi;
use cohabit_online::ledger;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Removes temporary files and folders that killed cohabits of this user have left in this folder, in shared memory and
/// where temporary files go; these.
pub(super) fn remove_leftovers() -> Vec<PathBuf> {
    let here = file::remove_abandoned(Path::new("."));
    here.into_iter().chain(dbi::remove_abandoned()).collect()
}

/// What was removed, in words; empty where nothing was.
pub(super) fn removed_text(removed: &[PathBuf]) -> String {
    let list = removed.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if removed.is_empty() { list } else { format!("removed what killed runs have left: {list}") }
}

const EXAMPLES: &str = "\
Examples:
  cohabit restore           after a cohabit was killed: affinities and settings
                            that it changed are put back
  sudo cohabit restore      where root ran it

What a cohabit that still runs uses is left alone.";

/// Arguments of `cohabit restore`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    #[command(flatten)]
    json: JsonArgs,
}

impl Restore {
    /// Puts everything back that no running cohabit uses, and removes what killed ones have left.
    pub fn run(self) -> Outcome {
        let restored = ledger::restore(&ledger::folders())?;
        let removed = remove_leftovers();
        let settings: Vec<_> =
            restored.settings.iter().map(|(path, value)| json!({ "path": path, "value": value })).collect();
        let fields =
            json!({ "threads": restored.threads, "settings": settings, "failed": restored.failed, "removed": removed });
        let texts = [restored_text(&restored), removed_text(&removed)];
        let text = texts.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join("; ");
        let text = if text.is_empty() { "nothing to put back".to_owned() } else { text };
        self.json.emit("restore", fields, &(text + "\n"))?;
        if restored.failed.is_empty() {
            return Ok(End::Done);
        }
        Err(Failure::from(
            Error::new(restored.failed.join("; ")).remedy("run it as the user that ran cohabit, or as root"),
        ))
    }
}
