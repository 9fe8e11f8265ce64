//! `cohabit run --profile P -- mpirun ...`: ranks placed by the launcher's own means, and read back.

mod phases;

use super::Outcome;
use super::map::costs;
use crate::exit::{End, Failure};
use crate::json::JsonFileArgs;
use crate::machine::MachineArgs;
use crate::mapping::{Made, MappingArgs, usable};
use crate::output::note;
use cohabit_apply::Placement;
use cohabit_apply::ranks::{
    Difference, Expected, Given, RankLaunch, Seen, are_here, differences, keep_allowed, threads_elsewhere,
};
use cohabit_apply::usage::{Meter, Usage};
use cohabit_evaluate::verdict::verdict;
use cohabit_evaluate::{Prediction, mpi_share};
use cohabit_host::CpuMask;
use cohabit_model::count::counted;
use cohabit_model::launcher::Launcher;
use cohabit_model::{Error, Mapping, Matrix, Profile, Result, Topology};
use cohabit_observe::mpi;
use nix::unistd::gethostname;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// Lines about single ranks, at most.
const LINES: usize = 8;

/// Where ranks are to go, and what says so.
pub(super) enum Plan<'a> {
    /// To be mapped.
    Profile {
        /// What they communicate.
        profile: Box<Profile>,
        /// Onto what.
        machine: &'a MachineArgs,
        /// How.
        how: &'a MappingArgs,
    },
    /// Mapped already.
    Mapping(Box<Mapping>),
    /// Wherever the launcher puts them by itself.
    Unplaced,
}

/// What was decided: the command to run, and why it is that one.
struct Decision {
    command: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    expected: Vec<Expected>,
    notes: Vec<String>,
    mapper: Option<String>,
    /// The phases in which ranks are elsewhere.
    phases: Vec<mpi::Phase>,
    /// Keeps the launcher's files until it has ended.
    _launch: Option<RankLaunch>,
}

/// Runs the launcher and ends as it ends. `closely`: each rank is bound to the one PU of the mapping, whatever that
/// gains.
pub(super) fn run(command: &[OsString], plan: Plan, closely: bool, json: &JsonFileArgs) -> Outcome {
    let launcher = mpi::launcher::version(command)?;
    let given = Given::read(launcher.0, command, |name| std::env::var_os(name))?;
    let decision = decide(launcher, command, &given, plan, closely)?;
    for line in &decision.notes {
        note(line);
    }
    let threads: Vec<Vec<u32>> = decision.expected.iter().map(|expected| expected.threads.clone()).collect();
    let meter = Meter::start()?;
    let ran = mpi::run(&decision.command, &decision.variables, &threads, &decision.phases, Path::new("."), true)
        .map_err(Failure::from)?;
    let usage = meter.stop()?;
    let seen: Vec<Seen> = ran.ranks.iter().map(seen).collect();
    // Of a run in which MPI never started there is nothing to compare.
    let differing = if seen.is_empty() { Vec::new() } else { differences(&decision.expected, &seen) };
    let mut notes = ran.notes.clone();
    notes.extend(few(differing.iter().map(Difference::to_string).collect()));
    if !seen.is_empty() {
        notes.extend(few(threads_elsewhere(&decision.expected, &seen)));
    }
    notes.extend(few(more_threads(&decision.expected, &ran.ranks)));
    notes.extend(few(phases::said(&decision.phases, &ran.ranks)));
    notes.extend(few(ended_early(&ran.ranks)));
    for line in &notes {
        note(line);
    }
    notes.splice(0..0, decision.notes.iter().cloned());
    json.emit("run", fields(&decision, &ran, &differing, &notes, &usage))?;
    Ok(End::of(ran.status))
}

fn decide(
    launcher: (Launcher, u32),
    command: &[OsString],
    given: &Given,
    plan: Plan,
    closely: bool,
) -> Result<Decision, Failure> {
    let as_it_is = |notes: Vec<String>| Decision {
        command: command.to_vec(),
        variables: Vec::new(),
        expected: Vec::new(),
        notes,
        mapper: None,
        phases: Vec::new(),
        _launch: None,
    };
    let unchanged = |note: String| as_it_is(vec![note]);
    if !matches!(plan, Plan::Unplaced) && !given.placed_by.is_empty() {
        return Ok(unchanged(placed_already(&given.placed_by)));
    }
    let mut notes = Vec::new();
    let (mut mapping, topology, weight) = match plan {
        Plan::Unplaced => return Ok(as_it_is(notes)),
        Plan::Mapping(mapping) => {
            let topology = Topology::parse_text(&mapping.topology)?;
            given.check_hosts(&topology)?;
            let weight = Matrix::zero(mapping.tasks.len());
            (*mapping, topology, weight)
        }
        Plan::Profile { profile, machine, how } => {
            check_ranks(&profile, given)?;
            let topology = given.restrict(machine.load()?)?;
            let mut made = how.map(&profile, &topology, machine.level_costs()?)?;
            if let Some(reason) = no_gain(&profile, &topology, &made)? {
                // On one machine launchers differ in what they do by themselves; over hosts all fill one after the
                // other.
                if !closely && (topology.names.is_empty() || given.hosts.is_some()) {
                    return Ok(unchanged(format!("{reason}; the launcher's own mapping stays")));
                }
                if topology.names.is_empty() {
                    notes.push(format!("{reason}; each rank is bound to its PU all the same, by --pinning always"));
                } else {
                    notes.push(format!("{reason}; the hosts are filled in their order"));
                    made = how.by("packed").map(&profile, &topology, machine.level_costs()?)?;
                }
            }
            (made.mapping, topology, made.weight)
        }
    };
    if closely {
        let in_phases = mapping.phases.iter_mut().flat_map(|phases| &mut phases.mappings);
        in_phases.flat_map(|phase| &mut phase.tasks).for_each(|seat| seat.pus.clear());
        mapping.tasks.iter_mut().for_each(|task| task.pus.clear());
    }
    let host = gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    if are_here(launcher.0, given, &topology, &host) {
        let allowed = CpuMask::of_thread(0).map_err(|error| Error::new(format!("the affinity of cohabit: {error}")))?;
        keep_allowed(&mut mapping, &allowed)?;
    }
    let launch = |mapping: &Mapping| {
        let placement = Placement::new(mapping, &topology, &weight)?;
        RankLaunch::new(launcher, command, given, &placement)
    };
    let phases = phases::take(&mut mapping, &topology, |mapping| Ok(launch(mapping)?.expected))?;
    let mut launch = launch(&mapping)?;
    notes.append(&mut launch.notes);
    Ok(Decision {
        command: std::mem::take(&mut launch.command),
        variables: std::mem::take(&mut launch.variables),
        expected: std::mem::take(&mut launch.expected),
        notes,
        mapper: Some(mapping.mapper),
        phases,
        _launch: Some(launch),
    })
}

/// Why the default mapping is as good, where it is: by estimated time where the cluster file says what that takes (7.1
/// of the IBM report), else by distance.
fn no_gain(profile: &Profile, topology: &Topology, made: &Made) -> Result<Option<String>> {
    let costs = costs(made, topology)?;
    let verdict = verdict(&made.weight, &usable(topology, &made.options), costs, &made.mapping.mapper);
    if !verdict.can_gain {
        return Ok(Some(verdict.text));
    }
    if topology.names.is_empty() {
        return Ok(None);
    }
    // Without ports nothing takes any time.
    let Some([time, linear]) = made.times.as_ref().filter(|[_, linear]| linear.run.total.seconds > 0.0) else {
        return Ok((costs.mapped >= costs.packed).then_some(verdict.text));
    };
    let prediction = Prediction::new(linear, time, mpi_share(profile).unwrap_or(1.0));
    Ok((!prediction.is_gain()).then(|| {
        let none = match () {
            () if prediction.is_none() => "no gain is predicted",
            () if prediction.is_uncertain() => "what is predicted is not there both with phases at once and with one by one",
            () => "too little gain is predicted to tell it from none",
        };
        let [seconds, linear] = [time, linear].map(|cost| cost.run.total.seconds);
        format!("{none}: communication is estimated at {seconds:.3} s, and at {linear:.3} s with ranks in the order of hosts")
    }))
}

/// That the user says where ranks go, or that they go anywhere (`--bind-to none`), by these options and variables.
fn placed_already(by: &[String]) -> String {
    let (are, them) = if by.len() == 1 { ("is", "it") } else { ("are", "them") };
    let by = match by {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => by.join(""),
    };
    format!("{by} {are} given, so nothing is added: leave {them} out to place the ranks by cohabit")
}

/// One world of ranks, as many as are asked for.
fn check_ranks(profile: &Profile, given: &Given) -> Result<()> {
    let mut known = HashSet::new();
    let tasks = &profile.meta.tasks;
    if let Some(twice) = tasks.iter().find(|task| !known.insert((task.rank, task.spawn_index))) {
        let cause =
            format!("the profile has several worlds (a second rank {}, in task {})", twice.rank.unwrap_or(0), twice.id);
        return Err(Error::new(cause).remedy("ranks that MPI_Comm_spawn starts are not placed: profile a run without"));
    }
    let ranks = tasks.iter().filter_map(|task| task.rank).collect::<HashSet<_>>().len();
    match given.ranks {
        Some(asked) if asked != ranks => {
            Err(Error::new(format!("the profile has {}, and the command starts {asked}", counted(ranks, "rank")))
                .remedy(format!("start {ranks}, or profile a run with {asked}")))
        }
        _ => Ok(()),
    }
}

fn seen(placed: &mpi::Placed) -> Seen {
    Seen {
        rank: placed.rank as usize,
        host: placed.host.clone(),
        affinity: placed.affinity.clone(),
        threads: placed.threads.clone(),
    }
}

/// A line for each rank that made threads which the mapping does not have.
fn more_threads(expected: &[Expected], ranks: &[mpi::Placed]) -> Vec<String> {
    let more = |placed: &mpi::Placed| {
        let planned = expected.get(placed.rank as usize)?.threads.len();
        let more = (placed.threads_made as usize).checked_sub(planned).filter(|&more| more > 0 && planned > 0)?;
        let were = if more == 1 { "thread was" } else { "threads were" };
        Some(format!("{more} {were} not in the mapping of rank {}, and left on all its PUs", placed.rank))
    };
    ranks.iter().filter_map(more).collect()
}

/// A line for each rank that did not reach MPI_Finalize of its own: those that the launcher then ended are not worth
/// one.
fn ended_early(ranks: &[mpi::Placed]) -> Vec<String> {
    let aborted: Vec<String> = ranks
        .iter()
        .filter(|rank| rank.ended == mpi::Ended::Aborted)
        .map(|rank| format!("rank {} on {} called MPI_Abort", rank.rank, rank.host))
        .collect();
    if !aborted.is_empty() {
        return aborted;
    }
    let left: Vec<&mpi::Placed> = ranks.iter().filter(|rank| rank.ended == mpi::Ended::Otherwise).collect();
    match left[..] {
        [] => Vec::new(),
        [rank] => vec![format!("rank {} on {} ended without MPI_Finalize", rank.rank, rank.host)],
        _ => vec![format!("{} ranks ended without MPI_Finalize: {}", left.len(), mpi::LEFT_WITHOUT)],
    }
}

/// The first lines, and how many more there are.
fn few(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES {
        let more = lines.len() - LINES + 1;
        lines.truncate(LINES - 1);
        lines.push(format!("... and {more} ranks more"));
    }
    lines
}

fn fields(decision: &Decision, ran: &mpi::Ran, differing: &[Difference], notes: &[String], usage: &Usage) -> Value {
    let phase = |rank: u32, phase: &mpi::Followed| {
        json!({
            "number": phase.number, "times": phase.times, "affinity": phase.affinity,
            "expected_affinity": phases::expected(&decision.phases, phase.number, rank),
        })
    };
    let rank = |placed: &mpi::Placed| {
        let expected = decision.expected.get(placed.rank as usize);
        json!({
            "rank": placed.rank, "host": placed.host, "affinity": placed.affinity,
            "expected_host": expected.and_then(|expected| expected.host.as_ref()),
            "expected_affinity": expected.and_then(|expected| expected.pus.as_ref()),
            "threads": placed.threads,
            "expected_threads": expected.map(|expected| &expected.threads),
            "phases": placed.phases.iter().map(|one| phase(placed.rank, one)).collect::<Vec<_>>(),
            "ended": match placed.ended {
                mpi::Ended::Finalized => "finalized",
                mpi::Ended::Aborted => "aborted",
                mpi::Ended::Otherwise => "otherwise",
            },
        })
    };
    let words = |words: &[OsString]| words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    json!({
        "mapper": decision.mapper,
        "status": match ran.status.signal() {
            None => json!({ "exited": ran.status.code() }),
            Some(signal) => json!({ "signal": signal, "core_dumped": ran.status.core_dumped() }),
        },
        "method": if decision.mapper.is_some() { "launcher" } else { "none" },
        "launched": words(&decision.command),
        "ranks": ran.ranks.iter().map(rank).collect::<Vec<_>>(),
        "elsewhere": differing.iter().map(|difference| difference.rank).collect::<Vec<_>>(),
        "usage": usage,
        "notes": notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_gives_is_said_of_one_and_of_several() {
        for (by, said) in [
            (&["--bind-to"][..], "--bind-to is given, so nothing is added: leave it out"),
            (&["--map-by", "--bind-to"], "--map-by and --bind-to are given, so nothing is added: leave them out"),
            (&["-a", "-b", "C"], "-a, -b and C are given, so nothing is added: leave them out"),
        ] {
            let by: Vec<String> = by.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(placed_already(&by), format!("{said} to place the ranks by cohabit"));
        }
    }
}
