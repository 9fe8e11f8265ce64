//! `cohabit show`: a profile as heat map, totals, metrics and verdict.

use super::Outcome;
use crate::exit::End;
use crate::json::JsonArgs;
use crate::progress::read_profile;
use crate::show::{ShowOptions, document, show};
use cohabit_model::mapping::Weight;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit show p.npz          who talks to whom, and whether placement can help
  cohabit show p.npz --hot    also through which data and from which code
  cohabit show p.npz -v       also what was not seen, and every rank's time in MPI";

/// Arguments of `cohabit show`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// The profile
    #[arg(value_name = "P")]
    profile: PathBuf,
    /// List the data and code that communicate: objects, the hottest blocks, true or false sharing, call sites of ranks
    #[arg(long)]
    hot: bool,
    /// How many of the strongest pairs, data objects and hottest blocks to list
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Which matrix to draw and judge [default: messages for threads and processes, bytes for MPI ranks]
    #[arg(long, value_name = "WHAT", value_parser = ["messages", "bytes"])]
    weight: Option<String>,
    /// List all that was not seen, and every rank
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    json: JsonArgs,
}

impl Show {
    /// Prints the profile.
    pub fn run(self) -> Outcome {
        self.json.check()?;
        let profile = read_profile(&self.profile)?;
        let (hot, top, verbose) = (self.hot, self.top, self.verbose);
        let mut options = ShowOptions { hot, top, verbose, ..ShowOptions::detect(&profile) };
        match self.weight.as_deref() {
            Some("bytes") => options.weight = Weight::Bytes,
            Some(_) => options.weight = Weight::Messages,
            None => {}
        }
        self.json.emit("show", document(&profile, &options), &show(&profile, &options))?;
        Ok(End::Done)
    }
}
