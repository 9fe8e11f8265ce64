//! `cohabit completions`: what a shell completes, made from the same definitions as `--help`.

use super::Outcome;
use crate::{Cli, exit::End, output};
use clap::CommandFactory;

/// Arguments of `cohabit completions`.
#[derive(clap::Args)]
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
