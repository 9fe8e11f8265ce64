//! `cohabit run`: a program with each thread on its PU before the thread's first instruction.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::JsonFileArgs;
use crate::machine::MachineArgs;
use crate::mapping::MappingArgs;
use crate::output::note;
use crate::picture::label::list;
use crate::progress::read_profile;
use clap::ValueEnum;
use cohabit_apply::{Identify, LaunchError, LaunchPlan, Method, Options, Status, launch};
use cohabit_model::{Mapping, Result};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit run --profile p.npz -- ./solver input   map onto this machine, and run
  cohabit run --mapping m.json -- ./solver input  as 'cohabit map -o m.json' said
  cohabit run --profile p.npz --identify tree -- ./server
      where several threads start others at once

The program's streams, signals and exit status pass through. What cohabit has to
say comes on standard error, each line beginning with 'cohabit:': threads that
the profile does not know, threads that the program pins itself, and what could
not be placed.";

/// What says how to map, and so nothing to a mapping that is made.
const MAPPING_ARGUMENTS: [&str; 10] =
    ["topology", "level_costs", "mapper", "seed", "weight", "pin", "forbid", "share_cores", "steps", "budget"];

/// Arguments of `cohabit run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    how: MappingArgs,
    /// How a thread is recognised as a task of the profile
    #[arg(long, value_enum, default_value_t = IdentifyBy::Order)]
    identify: IdentifyBy,
    /// Place threads a moment after they start, by watching /proc, instead of tracing the program
    #[arg(long)]
    watch: bool,
    /// Keep the main thread to its PU from its first instruction on, not from its second thread's start on (a program
    /// that counts the processors it may use then sees one)
    #[arg(long)]
    hold_main: bool,
    #[command(flatten)]
    json: JsonFileArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Where the threads are to go.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct PlanArgs {
    /// Map this profile, and run the program so
    #[arg(long, value_name = "P")]
    profile: Option<PathBuf>,
    /// Run the program as this mapping says
    #[arg(long, value_name = "MAP", conflicts_with_all = MAPPING_ARGUMENTS)]
    mapping: Option<PathBuf>,
}

/// `--identify`.
#[derive(Clone, Copy, ValueEnum)]
enum IdentifyBy {
    /// By the order in which its process starts threads
    Order,
    /// By the thread that starts it, and its place among that thread's
    Tree,
}

impl Run {
    /// Runs the program and ends as it ends.
    pub fn run(self) -> Outcome {
        self.json.check()?;
        let mapping = self.mapping()?;
        let identify = match self.identify {
            IdentifyBy::Order => Identify::Order,
            IdentifyBy::Tree => Identify::Tree,
        };
        let plan = LaunchPlan::from_mapping(&mapping, identify)?;
        let options = Options { watch_only: self.watch, pass_signals: true, hold_main_from_start: self.hold_main };
        let outcome = launch(&self.command, &plan, &options).map_err(failure)?;
        for line in notes(&outcome, self.watch) {
            note(&line);
        }
        self.json.emit("run", fields(&outcome, &mapping))?;
        Ok(end(outcome.status))
    }

    fn mapping(&self) -> Result<Mapping> {
        if let Some(path) = &self.plan.mapping {
            return Mapping::read(path);
        }
        let path = self.plan.profile.as_ref().expect("clap asks for a profile or a mapping");
        let profile = read_profile(path)?;
        Ok(self.how.map(&profile, &self.machine.load()?, self.machine.level_costs()?)?.mapping)
    }
}

/// A launch that came to nothing, as a failure with its status.
fn failure(error: LaunchError) -> Failure {
    match error {
        LaunchError::NotFound(error) => Failure::not_found(error),
        LaunchError::CannotRun(error) => Failure::cannot_run(error),
        LaunchError::Failed(error) => error.into(),
    }
}

/// cohabit ends as the program ended.
fn end(status: Status) -> End {
    match status {
        // A status is a byte: waitpid(2) gives no more of it.
        Status::Exited(status) => End::Exited((status & 0xff) as u8),
        Status::Signalled { signal, .. } => End::Killed(signal),
    }
}

/// What the user should know about the placement; nothing where all went as planned.
fn notes(outcome: &cohabit_apply::Outcome, asked_to_watch: bool) -> Vec<String> {
    let mut notes = outcome.notes.clone();
    if outcome.method == Method::ProcWatcher && !asked_to_watch {
        notes.push("tracing is not possible here, so threads were placed a moment after they started".to_owned());
    }
    for refusal in &outcome.refused {
        notes.push(format!("task {} could not be put on PU {}: {}", refusal.task, refusal.pu, refusal.cause));
    }
    for placed in outcome.placed.iter().filter(|placed| placed.held && placed.affinity != [placed.pu]) {
        let found = list(placed.affinity.clone());
        notes.push(format!("task {} was put on PU {} and its affinity reads back as {found}", placed.task, placed.pu));
    }
    for repinned in &outcome.repinned {
        let (task, pu, found) = (repinned.task, repinned.pu, list(repinned.affinity.clone()));
        notes.push(format!("the program moved task {task} from PU {pu} to {found} by itself"));
    }
    if !outcome.missing_tasks.is_empty() {
        notes.push(format!("these tasks of the mapping never started: {}", list(outcome.missing_tasks.clone())));
    }
    if outcome.unknown_thread_count > 0 {
        let (count, were) = (
            outcome.unknown_thread_count,
            if outcome.unknown_thread_count == 1 { "thread was" } else { "threads were" },
        );
        notes.push(format!("{count} {were} not in the mapping, and left where the system puts them"));
    }
    notes
}

fn fields(outcome: &cohabit_apply::Outcome, mapping: &Mapping) -> Value {
    let placed = |placed: &cohabit_apply::PlacedReport| {
        json!({
            "task": placed.task, "tid": placed.tid, "pu": placed.pu, "affinity": placed.affinity, "held": placed.held,
        })
    };
    let refused = |refusal: &cohabit_apply::Refusal| json!({ "task": refusal.task, "tid": refusal.tid, "pu": refusal.pu, "cause": refusal.cause });
    let repinned = |repinned: &cohabit_apply::Repinned| json!({ "task": repinned.task, "tid": repinned.tid, "pu": repinned.pu, "affinity": repinned.affinity });
    let unknown = |thread: &cohabit_apply::UnknownThread| json!({ "pid": thread.pid, "tid": thread.tid, "affinity": thread.affinity });
    json!({
        "mapper": mapping.mapper,
        "status": status_fields(outcome.status),
        "method": match outcome.method {
            Method::NotNeeded => "none",
            Method::Ptrace => "ptrace",
            Method::ProcWatcher => "proc",
        },
        "placed": outcome.placed.iter().map(placed).collect::<Vec<_>>(),
        "refused": outcome.refused.iter().map(refused).collect::<Vec<_>>(),
        "repinned": outcome.repinned.iter().map(repinned).collect::<Vec<_>>(),
        "missing_tasks": outcome.missing_tasks,
        "unknown_threads": outcome.unknown_threads.iter().map(unknown).collect::<Vec<_>>(),
        "unknown_thread_count": outcome.unknown_thread_count,
        "notes": outcome.notes,
    })
}

/// How the program ended, for `--json`: its exit status, or the signal that killed it.
fn status_fields(status: Status) -> Value {
    match status {
        Status::Exited(status) => json!({ "exited": status }),
        Status::Signalled { signal, core_dumped } => json!({ "signal": signal, "core_dumped": core_dumped }),
    }
}
