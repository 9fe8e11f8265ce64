//! `cohabit attach`: watches programs that run already, and moves their threads.

use super::Outcome;
use super::run::finish_online;
use crate::exit::End;
use crate::json::JsonFileArgs;
use crate::machine::MachineArgs;
use crate::online::Session;
use crate::online::args::OnlineArgs;
use crate::online::stop::until_signalled;
use cohabit_model::file::check_writable;
use cohabit_online::faults::check_process;

const EXAMPLES: &str = "\
Examples:
  cohabit attach 4711                      watch a program, and move its threads
  cohabit attach --dry-run -o p.npz 4711   only watch it

It ends when the programs have ended, or on Ctrl-C; affinities and settings are
then as they were before.";

/// Arguments of `cohabit attach`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Attach {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    online: OnlineArgs,
    #[command(flatten)]
    json: JsonFileArgs,
    /// The processes; what they start is followed too
    #[arg(required = true, value_name = "PID")]
    pids: Vec<i32>,
}

impl Attach {
    /// Follows the programs until they end, or until a signal.
    pub fn run(self) -> Outcome {
        if let Some(path) = &self.online.output {
            check_writable(path)?;
        }
        self.json.check()?;
        self.pids.iter().try_for_each(|&pid| check_process(pid))?;
        let stop = until_signalled();
        let mut session = Session::start(&self.online, &self.machine, false, None)?;
        self.pids.iter().try_for_each(|&pid| session.follow(pid))?;
        session.run(stop, &mut |_| {})?;
        finish_online(session.finish()?, &self.online, "attach", &[], &self.json, None)?;
        Ok(End::Done)
    }
}
