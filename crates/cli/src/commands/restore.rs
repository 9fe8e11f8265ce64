//! `cohabit restore`: puts back what a cohabit that was killed has left changed.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::online::restored_text;
use cohabit_apply::online::ledger;
use cohabit_model::Error;
use serde_json::json;

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
    /// Puts everything back that no running cohabit uses.
    pub fn run(self) -> Outcome {
        let restored = ledger::restore(&ledger::folder())?;
        let settings: Vec<_> =
            restored.settings.iter().map(|(path, value)| json!({ "path": path, "value": value })).collect();
        let fields = json!({ "threads": restored.threads, "settings": settings, "failed": restored.failed });
        let text = restored_text(&restored);
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
