//! `cohabit detectors`: what finds out who communicates.

use super::Outcome;
use crate::exit::End;
use crate::json::JsonArgs;
use cohabit_detect::DETECTORS;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  cohabit detectors                 all of them, with where they come from
  cohabit compare-detectors r.rec   what each finds on one recorded run";

/// Arguments of `cohabit detectors`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Detectors {
    #[command(flatten)]
    json: JsonArgs,
}

impl Detectors {
    /// Prints the table.
    pub fn run(self) -> Outcome {
        let width = DETECTORS.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for row in DETECTORS {
            text += &format!("{:width$}  {}\n", row.name, row.about);
            text += &format!("{:width$}  sees {}\n", "", row.sees);
            text += &format!("{:width$}  from {}\n", "", row.source);
        }
        let rows: Vec<_> = DETECTORS
            .iter()
            .map(|row| {
                json!({
                    "name": row.name, "about": row.about, "source": row.source, "sees": row.sees,
                    "symmetric": row.symmetric, "complete": row.complete,
                })
            })
            .collect();
        self.json.emit("detectors", json!({ "detectors": rows }), &text)?;
        Ok(End::Done)
    }
}
