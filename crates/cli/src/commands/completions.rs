//! `cohabit completions`: what a shell is told so that it completes command lines of cohabit.

use super::Outcome;
use crate::{completing, exit::End, output};
use cohabit_model::Error;

const EXAMPLES: &str = "\
Examples:
  cohabit completions bash > ~/.local/share/bash-completion/completions/cohabit
  cohabit completions zsh > ~/.zfunc/_cohabit";

/// Arguments of `cohabit completions`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    /// Prints the completions.
    pub fn run(self) -> Outcome {
        output::print(&completing::script(&self.shell.to_string()).map_err(Error::from)?)?;
        Ok(End::Done)
    }
}
