//! `cohabit run`: a program with each thread on its PU before the thread's first instruction.

use super::{Outcome, run_ranks};
use crate::command_line::given;
use crate::exit::{End, Failure};
use crate::json::{JsonFileArgs, name_of};
use crate::machine::MachineArgs;
use crate::mapping::MappingArgs;
use crate::online::args::OnlineArgs;
use crate::online::beside::Beside;
use crate::online::following::{Followed, Following, signatures, too_short};
use crate::online::node::{self, Role, become_program, of_this_node};
use crate::online::stop::{asked_by, until_signalled};
use crate::online::{Report, Session};
use crate::output::{is_verbose, note};
use crate::picture::label::list;
use crate::progress::{read_phased_mapping, read_profile};
use clap::ValueEnum;
use cohabit_apply::usage::{Meter, Usage};
use cohabit_apply::{Conductor, Identify, LaunchPlan, MapAgain, Method, Options, Pinning, Status, launch};
use cohabit_formats::npz::write_profile;
use cohabit_host::CpuMask;
use cohabit_model::command::find;
use cohabit_model::file::check_writable;
use cohabit_model::profile::Kind;
use cohabit_model::timeline::By;
use cohabit_model::{Error, Mapping, Profile, Result};
use cohabit_observe::mpi::launcher::is_launcher;
use cohabit_observe::mpi::scripts::called_within;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  cohabit run --profile p.npz -- ./solver input   map onto this machine, and run
  cohabit run --mapping m.json -- ./solver input  as 'cohabit map -o m.json' said
  cohabit run --profile p.npz --pinning always -- ./solver
      each thread to its one PU, even where nothing is gained
  cohabit run --profile p.npz --identify tree -- ./server
      where several threads start others at once
  cohabit run --profile p.npz -- mpirun -n 8 ./solver
      ranks, by mpirun's (mpiexec's, srun's) own options
  cohabit run -- ./solver input                   watch it, and move its threads
  cohabit run --dry-run -o p.npz -- ./solver      watch it, and move nothing
  cohabit run --unplaced --json r.json -- ./solver
      only say what it takes

Without a profile or a mapping the program is watched while it runs, through its
page faults and watchpoints (see 'cohabit doctor'), and its threads are moved
where that is worth it.

Phases of a mapping are announced by the program, or it is watched to recognise
them, within --overhead ('cohabit map --per-phase').

The program's streams, signals and exit status pass through. What cohabit has to
say comes on standard error, each line beginning with 'cohabit:': threads that
the profile does not know, threads that the program pins itself, and what could
not be placed.";

/// What says how to map, and so nothing to a mapping that is made; all but the first two also nothing to what is
/// watched. (clap has no group of a struct that others are flattened into.)
const MAPPING_ARGUMENTS: [&str; 15] = [
    "topology",
    "level_costs",
    "mapper",
    "objective",
    "bursts",
    "seed",
    "weight",
    "pin",
    "forbid",
    "share_cores",
    "steps",
    "budget",
    "threads",
    "most_clusters",
    "noise",
];

/// What says how to watch a program, and so nothing where its threads are placed as planned; but for `overhead`, which
/// holds for phases that are recognised, too.
const ONLINE_ARGUMENTS: [&str; 9] =
    ["always", "dry_run", "output", "block", "window", "faults", "fault_budget", "without", "until_sure"];
const PLANS: [&str; 3] = ["profile", "mapping", "unplaced"];

fn with_conflicts(argument: clap::Arg) -> clap::Arg {
    match argument.get_id().as_str() {
        id if MAPPING_ARGUMENTS[2..].contains(&id) => argument.requires("profile"),
        id if ONLINE_ARGUMENTS.contains(&id) => argument.conflicts_with_all(PLANS),
        "overhead" => argument.conflicts_with_all(["profile", "unplaced"]),
        _ => argument,
    }
}

/// Arguments of `cohabit run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, mut_args(with_conflicts))]
pub struct Run {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    how: MappingArgs,
    #[command(flatten, next_help_heading = "Online: without --profile or --mapping")]
    online: OnlineArgs,
    #[command(flatten)]
    placed: PlacedArgs,
    #[command(flatten)]
    json: JsonFileArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// How threads are recognised and confined that are placed as planned.
#[derive(clap::Args)]
#[group(requires = "PlanArgs")]
struct PlacedArgs {
    /// How a thread is recognised as a task of the profile
    #[arg(long, value_enum, default_value_t = IdentifyBy::Order)]
    identify: IdentifyBy,
    /// Place threads a moment after they start, by watching /proc, instead of tracing the program
    #[arg(long)]
    watch: bool,
    /// How closely threads and ranks are confined: as far as the mapping gains by it, or each to its one PU
    #[arg(long, value_enum, default_value_t = PinningArg::Auto)]
    pinning: PinningArg,
    /// Keep the main thread to its PU from its first instruction on, not from its second thread's start on (a program
    /// that counts the processors it may use then sees one)
    #[arg(long)]
    hold_main: bool,
}

/// Where the threads are to go.
#[derive(clap::Args)]
#[group(required = false, multiple = false)]
struct PlanArgs {
    /// Map this profile, and run the program so
    #[arg(long, value_name = "P")]
    profile: Option<PathBuf>,
    /// Run the program as this mapping says
    #[arg(long, value_name = "MAP", conflicts_with_all = MAPPING_ARGUMENTS)]
    mapping: Option<PathBuf>,
    /// Run the program as it is, placed by the system, for --json to say what that takes
    #[arg(long, conflicts_with_all = MAPPING_ARGUMENTS)]
    unplaced: bool,
}

/// `--pinning`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PinningArg {
    /// To the PUs (a core, an L3, the machine) that serve it as well as its own; where nothing can be gained, to none
    Auto,
    /// To the one PU of the mapping, whatever that gains
    Always,
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
        if self.plan.profile.is_none() && self.plan.mapping.is_none() && !self.plan.unplaced {
            return self.run_online();
        }
        if self.plan.unplaced {
            return self.run_unplaced();
        }
        let planned = self.planned()?;
        self.check_overhead(&planned)?;
        let (mapping, profile) = match planned {
            Planned::Ranks(plan) if is_launcher(&self.command) => {
                let closely = matches!(self.placed.pinning, PinningArg::Always);
                return run_ranks::run(&self.command, plan, closely, &self.json);
            }
            Planned::Ranks(_) => return Err(no_launcher(&self.command)),
            Planned::Threads(planned) => *planned,
        };
        let identify = match self.placed.identify {
            IdentifyBy::Order => Identify::Order,
            IdentifyBy::Tree => Identify::Tree,
        };
        let allowed = CpuMask::of_thread(0).map_err(|error| Error::new(format!("the affinity of cohabit: {error}")))?;
        let pinning = match self.placed.pinning {
            PinningArg::Auto => Pinning::Needed,
            PinningArg::Always => Pinning::Always,
        };
        let mut plan = LaunchPlan::from_mapping(&mapping, identify, pinning, &allowed)?;
        // Where the user has said which PU, it is that one, shared or not.
        plan.may_crowd |= self.how.has_pins();
        // Before anything is said of it.
        find(&self.command)?;
        let before = self.not_placed(&mut plan, &mapping);
        if let Some(line) = &before {
            note(line);
        }
        let mut options = Options {
            watch_only: self.placed.watch,
            pass_signals: true,
            hold_main_from_start: self.placed.hold_main,
            map_again: profile.map(|profile| self.map_again(profile)).transpose()?,
            ..Options::default()
        };
        let (watching, left_out) = self.recognise(&mapping, &mut plan, &mut options);
        if let (Some(_), Some(signal)) = (&watching, asked_by()) {
            // These would have the session wait for the program.
            drop(options);
            drop(watching.map(Beside::finish));
            return Ok(End::Killed(signal));
        }
        let meter = Meter::start()?;
        let launched = launch(&self.command, &plan, &options);
        drop(options);
        let watched = watching.map(Beside::finish);
        let mut outcome = launched?;
        let usage = meter.stop()?;
        for line in notes(&outcome, self.placed.watch) {
            note(&line);
        }
        outcome.notes.extend(before.into_iter().chain(left_out));
        let followed = match watched {
            Some(Ok(report)) => report.followed,
            Some(Err(error)) => {
                crate::output::error(&error);
                None
            }
            None => None,
        };
        if let Some(followed) = followed.as_ref().filter(|_| !outcome.program_missing) {
            note(&followed.text());
        }
        self.json.emit("run", fields(&outcome, Some(&mapping.mapper), followed.as_ref(), &usage))?;
        Ok(end(outcome.status))
    }

    /// Watches the program beside the launch where the phases of the mapping are to be recognised. Where that cannot be,
    /// or they cannot, the one mapping is kept; what is said of it is said, and returned.
    fn recognise(
        &self,
        mapping: &Mapping,
        plan: &mut LaunchPlan,
        options: &mut Options,
    ) -> (Option<Beside>, Option<String>) {
        if plan.phases.is_empty() {
            return (None, None);
        }
        let conductor = Conductor::default();
        let Some(following) = Following::of(mapping, conductor.clone()) else { return (None, None) };
        let kept = |plan: &mut LaunchPlan, why: String| {
            plan.phases.clear();
            note(&why);
            (None, Some(why))
        };
        if let Some(why) = too_short(mapping) {
            return kept(plan, why);
        }
        let alike = following.alike();
        if let Some(line) = &alike {
            note(line);
        }
        // While the program runs its signals are its own; before and after that everything is put back first.
        let _ = until_signalled();
        let (args, machine, program) = (self.online.clone(), self.machine.clone(), self.command.clone());
        let beside = Beside::start(move || {
            let mut session = Session::start(&args, &machine, !is_verbose(), Some(&program))?;
            session.follow_phases(following);
            Ok(session)
        });
        match beside {
            Ok(mut beside) => {
                options.conductor = Some(conductor);
                options.before_start = Some(beside.before_start());
                options.environment.extend(std::mem::take(&mut beside.environment));
                (Some(beside), alike)
            }
            Err(error) => {
                let remedy = error.remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
                kept(
                    plan,
                    format!("phases cannot be recognised here: {}{remedy}: the one mapping is kept", error.cause),
                )
            }
        }
    }

    /// Whether what watching may take is asked for where something is watched.
    fn check_overhead(&self, planned: &Planned) -> Result<(), Failure> {
        let is_watched = match planned {
            Planned::Threads(planned) => !signatures(&planned.0).is_empty(),
            Planned::Ranks(_) => false,
        };
        if self.online.overhead.is_none() || is_watched {
            return Ok(());
        }
        Err(Failure::usage(
            Error::new("--overhead is what watching the program may take, and for this mapping nothing is watched")
                .remedy("leave it out; programs are watched for phases that are recognised (cohabit map --per-phase)"),
        ))
    }

    /// As the system places it: what placements are held against.
    fn run_unplaced(&self) -> Outcome {
        if is_launcher(&self.command) {
            return run_ranks::run(&self.command, run_ranks::Plan::Unplaced, false, &self.json);
        }
        let options = Options { pass_signals: true, ..Options::default() };
        let meter = Meter::start()?;
        let outcome = launch(&self.command, &LaunchPlan::default(), &options)?;
        let usage = meter.stop()?;
        self.json.emit("run", fields(&outcome, None, None, &usage))?;
        Ok(end(outcome.status))
    }

    /// Why nothing is placed, where that is known before the program starts.
    fn not_placed(&self, plan: &mut LaunchPlan, mapping: &Mapping) -> Option<String> {
        if plan.tasks.is_empty() {
            let why = match mapping.no_gain.as_deref() {
                Some(text) => format!("nothing to gain: {text}"),
                None => "the mapping confines no task to fewer PUs than are allowed here".to_owned(),
            };
            let how =
                if matches!(self.placed.pinning, PinningArg::Always) { "" } else { " (--pinning always places it)" };
            return Some(format!("{why}; the program runs unplaced{how}"));
        }
        let is_known = plan.programs.iter().any(|program| !program.is_empty());
        if is_launcher(&self.command) && !is_known {
            plan.tasks.clear();
            plan.phases.clear();
            let launcher = self.command[0].to_string_lossy();
            return Some(format!(
                "the tasks are threads of a program that is not known, and {launcher} starts others: nothing is placed; \
                 profile the ranks (cohabit profile -- {launcher} ...)"
            ));
        }
        None
    }

    /// Maps the tasks that run where they are fewer than the profile has.
    fn map_again(&self, profile: Profile) -> Result<MapAgain> {
        let (topology, how) = (self.machine.load()?, self.how.clone());
        let map = move |ids: &[u32]| how.map_some(&profile, &topology, ids).ok();
        Ok(MapAgain(Arc::new(map)))
    }

    /// With a profile or a mapping nothing is watched, so what says how to watch is a mistake.
    /// Runs the program and moves its threads while it runs.
    fn run_online(mut self) -> Outcome {
        // Before anything is watched, or said of that.
        find(&self.command)?;
        let node = match node::role() {
            Role::Joined(environment) => return Err(become_program(&self.command, environment)),
            Role::Leads(node) => Some(node),
            Role::Alone => None,
        };
        self.online.output = self.online.output.as_deref().map(of_this_node);
        self.json.rename(of_this_node);
        if let Some(path) = &self.online.output {
            check_writable(path)?;
        }
        // While the program runs its signals are its own; before and after that everything is put back first.
        let _ = until_signalled();
        let (args, machine, program) = (self.online.clone(), self.machine, self.command.clone());
        let mut beside = Beside::start(move || {
            let mut session = Session::start(&args, &machine, false, Some(&program))?;
            if let Some(node) = node {
                session.lead(node);
            }
            Ok(session)
        })?;
        if let Some(signal) = asked_by() {
            let _ = beside.finish();
            return Ok(End::Killed(signal));
        }
        let (before_start, environment) = (Some(beside.before_start()), std::mem::take(&mut beside.environment));
        let options = Options { pass_signals: true, before_start, environment, ..Options::default() };
        let launched = launch(&self.command, &LaunchPlan::default(), &options);
        drop(options);
        let reported = beside.finish();
        let outcome = launched?;
        match reported {
            Ok(report) => finish_online(report, &self.online, "run", &self.command, &self.json, Some(outcome.status))?,
            // The program ran to its end, and that is what counts.
            Err(error) => crate::output::error(&error),
        }
        Ok(end(outcome.status))
    }

    /// Who is placed, and where.
    fn planned(&self) -> Result<Planned<'_>> {
        let (machine, how) = (&self.machine, &self.how);
        if let Some(path) = &self.plan.mapping {
            let mapping = read_phased_mapping(path)?;
            let of_ranks = mapping.tasks.iter().any(|task| task.rank.is_some());
            let by = mapping.phases.as_ref().map(|phases| phases.by);
            if let (true, Some(By::Markers | By::Clusters | By::Recurring)) = (of_ranks, by) {
                return Err(Error::new(
                    "the mapping changes from phase to phase, which MPI ranks do at call sites only, and it names none",
                )
                .at(path.display())
                .remedy("map the profile with --per-phase=calls, or without --per-phase"));
            }
            return Ok(match of_ranks {
                true => Planned::Ranks(run_ranks::Plan::Mapping(Box::new(mapping))),
                false => Planned::Threads(Box::new((mapping, None))),
            });
        }
        let path = self.plan.profile.as_ref().expect("clap asks for a profile or a mapping");
        let profile = read_profile(path)?;
        if matches!(profile.meta.kind, Kind::Ranks | Kind::Hybrid) {
            return Ok(Planned::Ranks(run_ranks::Plan::Profile { profile: Box::new(profile), machine, how }));
        }
        let mapping = how.map(&profile, &machine.load()?, machine.level_costs()?)?.mapping;
        Ok(Planned::Threads(Box::new((mapping, Some(profile)))))
    }
}

/// What a profile or a mapping is of.
enum Planned<'a> {
    /// MPI ranks, which their launcher places.
    Ranks(run_ranks::Plan<'a>),
    /// Threads or processes that are to be recognised, and the profile where the mapping was made of one here.
    Threads(Box<(Mapping, Option<Profile>)>),
}

/// Of ranks without their launcher nobody would know which process is which.
fn no_launcher(command: &[OsString]) -> Failure {
    let calls = match called_within(command) {
        Some(_) => "put 'cohabit run ... --' before mpirun, mpiexec or srun where that is called",
        None => "start the ranks with mpirun, mpiexec or srun: cohabit run ... -- mpirun ... CMD",
    };
    let command = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    Failure::usage(
        Error::new(format!("the tasks to be placed are MPI ranks, and {command} is no launcher of MPI")).remedy(calls),
    )
}

/// Tells how an online session went, and writes what was asked for.
pub(super) fn finish_online(
    report: Report,
    args: &OnlineArgs,
    name: &str,
    command: &[OsString],
    json: &JsonFileArgs,
    status: Option<Status>,
) -> Result<()> {
    note(&report.summary());
    note(&report.ending.text);
    let mut fields = report.fields();
    if let Some(status) = status {
        fields["status"] = status_fields(status);
    }
    fields["profile"] = args.output.as_deref().map_or(Value::Null, name_of);
    if let Some(path) = &args.output {
        let mut profile = report.profile;
        profile.meta.command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        profile.meta.arguments = given();
        profile.meta.created = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        write_profile(path, &profile)?;
    }
    json.emit(name, fields)
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
    for placed in outcome.placed.iter().filter(|placed| placed.held && placed.affinity != placed.pus) {
        let found = list(placed.affinity.clone());
        let pus = list(placed.pus.clone());
        let name = if placed.pus.len() == 1 { "PU" } else { "PUs" };
        notes.push(format!("task {} was put on {name} {pus} and its affinity reads back as {found}", placed.task));
    }
    // One that pinned itself to where it was put changed nothing.
    for repinned in outcome.repinned.iter().filter(|repinned| repinned.affinity != repinned.pus) {
        let (task, pus, found) = (repinned.task, list(repinned.pus.clone()), list(repinned.affinity.clone()));
        let name = if repinned.pus.len() == 1 { "PU" } else { "PUs" };
        notes.push(format!("the program moved task {task} from {name} {pus} to {found} by itself"));
    }
    // Of a program that did not run, it is said that it did not.
    if !outcome.missing_tasks.is_empty() && !outcome.program_missing {
        let tasks = if outcome.missing_tasks.len() == 1 { "this task" } else { "these tasks" };
        notes.push(format!("{tasks} of the mapping never started: {}", list(outcome.missing_tasks.clone())));
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

fn fields(outcome: &cohabit_apply::Outcome, mapper: Option<&str>, followed: Option<&Followed>, usage: &Usage) -> Value {
    let placed = |placed: &cohabit_apply::PlacedReport| {
        json!({
            "task": placed.task, "tid": placed.tid, "pu": placed.pu, "pus": placed.pus, "affinity": placed.affinity, "held": placed.held,
        })
    };
    let refused = |refusal: &cohabit_apply::Refusal| json!({ "task": refusal.task, "tid": refusal.tid, "pu": refusal.pu, "cause": refusal.cause });
    let repinned = |repinned: &cohabit_apply::Repinned| json!({ "task": repinned.task, "tid": repinned.tid, "pu": repinned.pu, "affinity": repinned.affinity });
    let unknown = |thread: &cohabit_apply::UnknownThread| json!({ "pid": thread.pid, "tid": thread.tid, "affinity": thread.affinity });
    json!({
        "mapper": mapper,
        "status": status_fields(outcome.status),
        "method": match outcome.method {
            Method::NotNeeded => "none",
            Method::Ptrace => "ptrace",
            Method::ProcWatcher => "proc",
        },
        "placed": outcome.placed.iter().map(placed).collect::<Vec<_>>(),
        "refused": outcome.refused.iter().map(refused).collect::<Vec<_>>(),
        "repinned": outcome.repinned.iter().map(repinned).collect::<Vec<_>>(),
        "phases": outcome.phases.as_ref().map(|phases| json!({
            "announced": phases.announced, "seen": phases.seen, "unknown": phases.unknown,
            "carried_out": phases.phases.iter().map(|phase| json!({
                "number": phase.number, "times": phase.times,
                "placed": phase.placed.iter().map(placed).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })),
        "recognised": followed.map(Followed::fields),
        "missing_tasks": outcome.missing_tasks,
        "unknown_threads": outcome.unknown_threads.iter().map(unknown).collect::<Vec<_>>(),
        "unknown_thread_count": outcome.unknown_thread_count,
        "usage": usage,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;
    use std::collections::BTreeSet;

    /// Whatever says how to map is refused where it would be ignored.
    #[test]
    fn mapping_arguments_are_all_named() {
        let command = MachineArgs::augment_args(MappingArgs::augment_args(clap::Command::new("of mapping")));
        let ids: BTreeSet<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
        assert_eq!(ids, MAPPING_ARGUMENTS.into());
        let command = OnlineArgs::augment_args(clap::Command::new("of watching"));
        let mut ids: BTreeSet<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
        assert!(ids.remove("overhead") && ids == ONLINE_ARGUMENTS.into(), "{ids:?}");
    }
}
