//! The commands, a file each: its arguments, and a `run` that joins the stages.

mod completions;
mod doctor;
mod man;

use crate::exit::{End, Failure};

/// What a command returns.
pub type Outcome = Result<End, Failure>;

/// One row a command, in the order `--help` lists them.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Says what works on this machine, and the remedy for what does not
    Doctor(doctor::Doctor),
    /// Writes the manual pages
    #[command(hide = true)]
    Man(man::Man),
    /// Writes the completions of a shell
    #[command(hide = true)]
    Completions(completions::Completions),
}

impl Command {
    /// Carries the command out.
    ///
    /// # Errors
    /// What the user is told, with the kind of failure that the exit status follows from.
    pub fn run(self) -> Outcome {
        match self {
            Command::Doctor(command) => command.run(),
            Command::Man(command) => command.run(),
            Command::Completions(command) => command.run(),
        }
    }
}
