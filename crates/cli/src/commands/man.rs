//! `cohabit man`: the manual pages, made from the same definitions as `--help`.

use super::Outcome;
use crate::{Cli, exit::End};
use clap::CommandFactory;
use cohabit_model::Error;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit man pages && man ./pages/cohabit-profile.1";

/// Arguments of `cohabit man`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Man {
    /// Folder to write cohabit.1 and a page a command to
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    /// Writes cohabit.1, cohabit-profile.1 and so on.
    pub fn run(self) -> Outcome {
        let written =
            std::fs::create_dir_all(&self.folder).and_then(|()| clap_mangen::generate_to(Cli::command(), &self.folder));
        written.map_err(|error| Error::from(error).at(self.folder.display()))?;
        Ok(End::Done)
    }
}
