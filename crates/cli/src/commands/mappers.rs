//! `cohabit mappers`: the algorithms that `--mapper` names.

use super::Outcome;
use crate::{exit::End, json::JsonArgs};
use cohabit_map::MAPPERS;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  cohabit mappers                         what there is, and who published it
  cohabit map p.npz --mapper treematch    map by another one than best
  cohabit mappers --json -                the table for a program";

/// Arguments of `cohabit mappers`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Mappers {
    #[command(flatten)]
    json: JsonArgs,
}

impl Mappers {
    /// Prints the table: name, what it does, where it was published.
    pub fn run(self) -> Outcome {
        let width = MAPPERS.iter().map(|mapper| mapper.name().len()).max().unwrap_or(0);
        let line = |mapper: &&dyn cohabit_map::Mapper| {
            let others = mapper.objectives().iter().skip(1).copied().collect::<Vec<_>>().join(", ");
            let others = match mapper.only_distance() {
                None => format!("; --objective {others} too"),
                Some(why) => format!("; only for distance: {why}"),
            };
            format!("{:<width$}  {}{others}\n{:<width$}  {}\n", mapper.name(), mapper.about(), "", mapper.source())
        };
        let text: String = MAPPERS.iter().map(line).collect();
        let row = |mapper: &&dyn cohabit_map::Mapper| json!({ "name": mapper.name(), "about": mapper.about(), "source": mapper.source(), "objectives": mapper.objectives(), "why_only_distance": mapper.only_distance(), "needs_series": mapper.needs_periods() });
        let rows: Vec<_> = MAPPERS.iter().map(row).collect();
        self.json.emit("mappers", json!({ "mappers": rows }), &text)?;
        Ok(End::Done)
    }
}
