//! `cohabit exporters`: the formats that `cohabit map --export` writes.

use super::Outcome;
use crate::{exit::End, json::JsonArgs};
use cohabit_apply::{EXPORTERS, Exporter};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  cohabit exporters                               what there is, and what uses it
  cohabit map p.npz --export open-mpi-4=rankfile  write one of them
  cohabit exporters --json -                      the table for a program";

/// Arguments of `cohabit exporters`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Exporters {
    #[command(flatten)]
    json: JsonArgs,
}

impl Exporters {
    /// Prints the table: name, what it is, a command that uses it.
    pub fn run(self) -> Outcome {
        let width = EXPORTERS.iter().map(|exporter| exporter.name().len()).max().unwrap_or(0);
        let line = |exporter: &&dyn Exporter| {
            let (name, about, usage) = (exporter.name(), exporter.about(), exporter.usage());
            format!("{name:<width$}  {about}\n{:<width$}  {usage}\n", "")
        };
        let text: String = EXPORTERS.iter().map(line).collect();
        let row = |exporter: &&dyn Exporter| json!({ "name": exporter.name(), "about": exporter.about(), "usage": exporter.usage() });
        let rows: Vec<_> = EXPORTERS.iter().map(row).collect();
        self.json.emit("exporters", json!({ "exporters": rows }), &text)?;
        Ok(End::Done)
    }
}
