//! `cohabit completions`: what a shell completes, made from the same definitions as `--help`.

use super::Outcome;
use crate::{Cli, exit::End, output};
use clap::CommandFactory;

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
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "cohabit", &mut text);
        output::print(&String::from_utf8_lossy(&text))?;
        Ok(End::Done)
    }
}
