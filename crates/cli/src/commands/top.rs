//! `cohabit top`: a live view of programs that run: who communicates, where they run, and what is moved and why.

use super::Outcome;
use super::run::finish_online;
use crate::exit::{End, Failure};
use crate::json::JsonFileArgs;
use crate::machine::MachineArgs;
use crate::online::args::OnlineArgs;
use crate::online::screen::{Rates, draw};
use crate::online::stop::until_signalled;
use crate::online::{Session, Snapshot};
use cohabit_model::Error;
use cohabit_model::file::check_writable;
use cohabit_online::faults::check_process;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  cohabit top 4711          only look
  cohabit top --move 4711   and move the program's threads, as 'attach' does

q ends it; affinities and settings are then as they were before.";

/// Arguments of `cohabit top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    online: OnlineArgs,
    /// Move threads too
    #[arg(long = "move", conflicts_with = "dry_run")]
    moves: bool,
    #[command(flatten)]
    json: JsonFileArgs,
    /// The processes; what they start is followed too
    #[arg(required = true, value_name = "PID")]
    pids: Vec<i32>,
}

impl Top {
    /// Shows the programs until they end, or until q.
    pub fn run(mut self) -> Outcome {
        if !std::io::stdout().is_terminal() {
            return Err(Error::new("top draws on a terminal, and standard output is none")
                .remedy("use 'cohabit attach --dry-run' for a log")
                .into());
        }
        if let Some(path) = &self.online.output {
            check_writable(path)?;
        }
        self.json.check()?;
        self.pids.iter().try_for_each(|&pid| check_process(pid))?;
        if self.online.always && !self.moves {
            let cause = "--always says when to move, and top moves nothing without --move";
            return Err(Failure::usage(Error::new(cause).remedy("add --move")));
        }
        self.online.dry_run = !self.moves;
        let stop = until_signalled();
        let mut session = Session::start(&self.online, &self.machine, true, None)?;
        self.pids.iter().try_for_each(|&pid| session.follow(pid))?;
        let mut terminal = ratatui::try_init().map_err(|error| Error::new(format!("the terminal: {error}")))?;
        let mut rates = Rates::default();
        let ended = session.run(stop, &mut |snapshot: &Snapshot| {
            rates.update(snapshot);
            // A terminal that is gone is no reason to leave threads where they are: the end comes in order.
            if terminal.draw(|frame| draw(frame, snapshot, &rates)).is_err() || quit_pressed() {
                stop.store(true, Ordering::SeqCst);
            }
        });
        ratatui::restore();
        ended?;
        finish_online(session.finish()?, &self.online, "top", &[], &self.json, None)?;
        Ok(End::Done)
    }
}

/// Whether q, Escape or Ctrl-C was pressed.
fn quit_pressed() -> bool {
    while event::poll(Duration::ZERO).unwrap_or(false) {
        if let Ok(Event::Key(key)) = event::read() {
            let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return true;
            }
        }
    }
    false
}
