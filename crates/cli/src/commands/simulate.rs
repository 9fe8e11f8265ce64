//! `cohabit simulate`: what mappings of a recorded program would be worth on a machine that is not at hand.

mod arrays;
mod sensitivity;
mod tables;

use super::Outcome;
use crate::command_line::given;
use crate::exit::Failure;
use crate::json::JsonArgs;
use crate::number;
use crate::output::note;
use crate::progress;
use crate::recording::{RecordingArgs, WITHOUT_COMMUNICATION, periods, read_under_progress};
use clap::builder::PossibleValuesParser;
use cohabit_access::Recording;
use cohabit_access::locks::FreeLocks;
use cohabit_access::outline::{INTERVALS, Outline};
use cohabit_detect::communication::communication;
use cohabit_map::objective::{Case, Objective, map_for};
use cohabit_map::usable::Usable;
use cohabit_map::{MAPPERS, Mapper, OBJECTIVES, Options as MapOptions, Problem, mapper, objective};
use cohabit_memory::report::{ServedCounts, TaskReport};
use cohabit_memory::sample::Sample;
use cohabit_memory::{Machine, Options, Placement, Report, clock, simulate};
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Mapping, Matrix, Result, Topology, counted};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What may be counted of a recording's communication.
const MESSAGES: &str = "messages";
const TRANSFERS: &str = "transfers";

/// What all mappers know, and what needs the speeds of ports, which no machine file has.
const DISTANCE: &str = "distance";
const TIME: &str = "time";

const EXAMPLES: &str = "\
Examples:
  cohabit record -o r.rec -- ./solver
  cohabit simulate r.rec --machine purple --mapper packed scatter best
  cohabit simulate --machine purple -- ./solver   records it first, and ends as it ended
  cohabit simulate synthetic:ring:8 --machine harpertown --threads 2
  cohabit simulate synthetic:pairs:28:64 --machine purple --mapping a.json b.json
  cohabit simulate synthetic:ring:8 --machine mine.toml --memory interleave
  cohabit simulate r.rec --machine epyc --memory autonuma --classify
  cohabit simulate r.rec --machine purple --window 100us -o sim.npz
  cohabit simulate r.rec --machine epyc --mapper packed scatter best --objective congestion --share-cores
  cohabit simulate r.rec --machine purple --sensitivity --threads 2
  cohabit simulate r.rec --machine purple --sample     a part of a long run, and an estimate of the rest

Rankings of mappings are what is claimed, not seconds (docs/simulator.md).";

/// Arguments of `cohabit simulate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Simulate {
    #[command(flatten)]
    recording: RecordingArgs,
    /// The machine: harpertown, xeon32, xeon64, purple, deloc, epyc, mesh, or a machine file (.toml)
    #[arg(long, value_name = "M")]
    machine: String,
    /// Mappings onto the machine, as `cohabit map -o` writes them
    #[arg(long, value_name = "MAP", num_args = 1..)]
    mapping: Vec<String>,
    /// Mapping algorithms to try, on what the recording's tasks communicate [default: packed scatter best]
    #[arg(long, value_name = "A", num_args = 1.., value_delimiter = ',')]
    mapper: Vec<String>,
    /// What mappers count of the recording's communication: messages, a value's writer with each reader, or transfers,
    /// by which readers that are together need it once (docs/detectors.md)
    #[arg(long, value_name = "WHAT", default_value = TRANSFERS, value_parser = [MESSAGES, TRANSFERS])]
    weight: String,
    /// Try the mappers that know this objective for it as well (`cohabit map --objective`)
    #[arg(long, value_name = "WHAT", default_value = "distance", value_parser = objective_names())]
    objective: String,
    /// Try each mapper also where tasks may share cores while others are free (`cohabit map --share-cores`)
    #[arg(long)]
    share_cores: bool,
    /// Where pages go: first-touch, interleave, bind:N, or autonuma[:FACTOR], moved after first touch as Linux does,
    /// FACTOR times as fast [default of it: 1000]
    #[arg(long, value_name = "WHERE", default_value = "first-touch")]
    memory: String,
    /// Tasks take locks, and make atomic accesses, in any order, and never wait for one: what they cost in the order in
    /// which they were recorded is the difference
    #[arg(long)]
    free_locks: bool,
    /// Tell misses apart: compulsory, capacity, conflict, coherence, and the TLB paper's kinds; takes twice as long or
    /// more
    #[arg(long)]
    classify: bool,
    /// Count over time as well, in windows of so much simulated time, as in 100us: for --json and -o
    #[arg(long, value_name = "TIME", value_parser = number::duration)]
    window: Option<Duration>,
    /// Write all counts of all mappings as arrays that numpy.load reads (.npz)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Simulate all mappings again with each of the machine's parameters so many percent smaller and larger, and say
    /// whether their order stays
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "20",
          value_parser = clap::value_parser!(u8).range(1..=90))]
    sensitivity: Option<u8>,
    /// Simulate a sample of a long run, measure so many percent of it, and estimate the rest: times come with the
    /// interval that they lie in with a probability of 95 %
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "3",
          value_parser = clap::value_parser!(u8).range(1..=50), conflicts_with_all = ["window", "classify"])]
    sample: Option<u8>,
    /// Which of the samples of --sample is drawn
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sample")]
    seed: u64,
    /// How many mappings are simulated at a time; the result is the same for any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    #[command(flatten)]
    json: JsonArgs,
}

/// A mapping with what it led to.
struct Simulated {
    name: String,
    placement: Vec<usize>,
    report: Report,
}

/// Intervals of a sample are shorter than the slices of time that tasks on one PU take turns in.
///
/// # Errors
/// Two tasks are on one.
fn one_a_pu(name: &str, placement: &[usize]) -> Result<()> {
    let different: BTreeSet<usize> = placement.iter().copied().collect();
    if different.len() == placement.len() {
        return Ok(());
    }
    let cause =
        format!("--sample: {name} has several tasks on a PU, and who ran when cannot be told from parts of a run");
    Err(Error::new(cause).remedy("leave --sample out, or simulate a machine with a PU for each task"))
}

impl Simulate {
    /// Simulates all mappings, and prints them side by side.
    pub fn run(self) -> Outcome {
        let placement = Placement::parse(&self.memory).map_err(|error| Failure::usage(error.at("--memory")))?;
        let machine = Machine::load(&self.machine)?;
        placement.check(machine.memory.nodes).map_err(|error| Failure::usage(error.at("--memory")))?;
        if self.sample.is_some() && matches!(placement, Placement::AutoNuma(_)) {
            let error = Error::new("--sample with --memory autonuma: what moves pages goes on in what is left out");
            return Err(Failure::usage(error.remedy("leave one of the two out")));
        }
        self.json.check()?;
        self.output.as_deref().map_or(Ok(()), check_writable)?;
        let window = self.window()?;
        self.mapper.iter().try_for_each(|name| mapper(name).map(drop))?;
        let named = self.recording.open(&self.json)?;
        let free = FreeLocks { recording: &*named.recording, tells_counts: !named.by_blocks };
        let recording: &dyn Recording = if self.free_locks { &free } else { &*named.recording };
        named.warn_of_times();
        if machine.core.dependences {
            named.warn_of_dependences();
        }
        let sample = self.sample.map(|percent| self.draw(recording, percent)).transpose()?.map(Arc::new);
        let excerpt = sample.as_ref().map(|sample| sample.excerpt(recording));
        let recording = excerpt.as_ref().map_or(recording, |excerpt| excerpt as &dyn Recording);
        // What decides on mappings needs neither kinds nor windows.
        let plain = Options { placement, sample: sample.clone(), ..Options::default() };
        let options = Options { classify: self.classify, window, ..plain.clone() };
        let placements = self.placements(recording, &machine, &plain)?;
        let shared = placements.iter().map(|(name, placement)| one_a_pu(name, placement)).find_map(Result::err);
        match shared {
            Some(error) if sample.is_some() => return Err(error.into()),
            Some(_) => note(
                "tasks share PUs and take turns there, at the start the lower number first: which goes first may tell mappings apart, \
                 not only where they run",
            ),
            None => {}
        }
        let different: BTreeSet<_> = placements.iter().map(|(_, placement)| placement).collect();
        let simulated = read_under_progress("simulating", recording, different.len(), |read| {
            all(read, &machine, placements.clone(), &options, usize::from(self.threads))
        })?;
        let sensitivity = match self.sensitivity {
            None => None,
            Some(percent) => {
                let runs = sensitivity::runs(&machine, &simulated, percent);
                let how = (percent, usize::from(self.threads));
                Some(read_under_progress("simulating with other parameters", recording, runs, |read| {
                    sensitivity::Sensitivity::find(read, &machine, &simulated, &plain, how)
                })?)
            }
        };
        let mut fields = json!({
            "recording": named.name, "program": named.program,
            "machine": self.machine,
            "memory": self.memory, "free_locks": self.free_locks,
            "sample": self.sample.map(|percent| json!({ "percent": percent, "seed": self.seed })),
            "mappings": simulated.iter().map(fields).collect::<Vec<_>>(),
        });
        if let Some(path) = &self.output {
            arrays::write(path, &fields, &simulated)?;
        }
        fields["arguments"] = json!(given());
        let mut text = tables::text(&self.machine, &machine, recording, &simulated, sample.as_deref());
        if let Some(found) = sensitivity {
            fields["sensitivity"] = found.fields();
            text += &found.text();
        }
        self.json.emit("simulate", fields, &text)?;
        Ok(named.end())
    }

    /// Draws the sample that is asked for.
    fn draw(&self, recording: &dyn Recording, percent: u8) -> Result<Sample> {
        let outline = match recording.outline()? {
            Some(outline) => outline,
            None => read_under_progress("finding out what the run consists of", recording, 1, |read| {
                Outline::of(read, INTERVALS)
            })?,
        };
        if outline.intervals.len() < INTERVALS {
            let (count, accesses) = (counted(outline.intervals.len(), "interval"), outline.accesses());
            let cause = format!(
                "--sample: a run of {accesses} accesses in {count} is too short for a sample: {INTERVALS} intervals are needed"
            );
            return Err(Error::new(cause).remedy("leave --sample out"));
        }
        Sample::draw(outline, f64::from(percent) / 100.0, self.seed)
    }

    /// How long windows are, in fs.
    fn window(&self) -> std::result::Result<Option<clock::Time>, Failure> {
        let Some(window) = self.window else { return Ok(None) };
        let usage = |cause: &str, remedy: &str| Err(Failure::usage(Error::new(cause).remedy(remedy)));
        if self.output.is_none() && !self.json.is_asked() {
            return usage("--window without --json and -o: nothing would show it", "add -o FILE or --json FILE");
        }
        match u64::try_from(window.as_nanos()).ok().and_then(|ns| ns.checked_mul(clock::NS)).filter(|&fs| fs > 0) {
            Some(fs) => Ok(Some(fs)),
            None => usage("--window: windows of no time, or of hours", "write a time such as 100us"),
        }
    }

    /// Where each mapping puts each task: indices into the machine's PUs.
    fn placements(
        &self,
        recording: &dyn Recording,
        machine: &Machine,
        options: &Options,
    ) -> Result<Vec<(String, Vec<usize>)>> {
        let topology = &machine.topology;
        let tasks = recording.tasks().len();
        let mut placements = Vec::new();
        for path in &self.mapping {
            let mapping = progress::read_mapping(Path::new(path))?;
            placements.push((path.clone(), placement(&mapping, tasks, topology).map_err(|error| error.at(path))?));
        }
        let default = ["packed", "scatter", "best"].map(String::from);
        let names: &[String] = if self.mapper.is_empty() && self.mapping.is_empty() { &default } else { &self.mapper };
        if names.is_empty() {
            return Ok(placements);
        }
        let arms = self.arms(names)?;
        let nothing = Matrix::zero(tasks);
        let known = match need_communication(&arms, &nothing, topology)? {
            true => Some(read_under_progress("finding out who communicates", recording, 1, communication)?),
            false => None,
        };
        let (mut clusters, mut memory) = (None, Vec::new());
        for arm in arms {
            if clusters.is_none() && (arm.mapper.needs_periods() || arm.objective.asks_for_periods()) {
                let of_transfers = self.weight == TRANSFERS;
                clusters = known.as_ref().map(|known| periods(known, of_transfers)).transpose()?;
            }
            let how = MapOptions { share_cores: arm.share_cores, ..MapOptions::default() };
            let weight = known.as_ref().map_or(&nothing, |known| match self.weight.as_str() {
                MESSAGES => &known.messages,
                _ => &known.transfers,
            });
            let load = known.as_ref().map(|known| known.work.beside_others()).unwrap_or_default();
            let periods = clusters.as_deref().unwrap_or_default();
            let problem = Problem { weight, load: &load, periods, topology, options: &how };
            if arm.objective.asks_for_periods() && memory.is_empty() {
                memory = from_memory(recording, machine, &problem, options)?;
            }
            let case = Case { problem: &problem, network: None, memory: &memory };
            placements.push((arm.name(), map_for(&case, arm.mapper, arm.objective)?));
        }
        Ok(placements)
    }

    /// The ways to map that are tried: each mapper by distance, for the objective that was asked for where it knows
    /// that, and both again with cores shared.
    fn arms(&self, names: &[String]) -> Result<Vec<Arm>> {
        let (distance, asked) = (objective(DISTANCE)?, objective(&self.objective)?);
        let mut arms = Vec::new();
        for share_cores in [false, true].into_iter().take(1 + usize::from(self.share_cores)) {
            for name in names {
                let mapper = mapper(name)?;
                arms.push(Arm { mapper, objective: distance, share_cores });
                if asked.name() != DISTANCE && mapper.objectives().contains(&asked.name()) {
                    arms.push(Arm { mapper, objective: asked, share_cores });
                }
            }
        }
        if asked.name() != DISTANCE && arms.iter().all(|arm| arm.objective.name() == DISTANCE) {
            let knows = |other: &&&dyn Mapper| other.objectives().contains(&asked.name());
            let others: Vec<&str> = MAPPERS.iter().filter(knows).map(|other| other.name()).collect();
            return Err(Error::new(format!("none of these mappers knows {}", asked.name()))
                .remedy(format!("add --mapper {}", others.join(" or "))));
        }
        Ok(arms)
    }
}

/// Whether any of these ways to map looks at what tasks communicate, or at how much they access.
fn need_communication(arms: &[Arm], nothing: &Matrix, topology: &Topology) -> Result<bool> {
    let options = MapOptions::default();
    let problem = Problem { weight: nothing, load: &[], periods: &[], topology, options: &options };
    let looks = |arm: &Arm| !WITHOUT_COMMUNICATION.contains(&arm.mapper.name()) || arm.objective.name() != DISTANCE;
    Ok(Usable::new(&problem)?.crowded() || arms.iter().any(looks))
}

/// Bytes that each task reads from memory, in a first simulation: of the tasks as far apart as they can be, so that it
/// is what comes from memory even then.
fn from_memory(recording: &dyn Recording, machine: &Machine, problem: &Problem, options: &Options) -> Result<Vec<u64>> {
    let apart = mapper("scatter")?.map(problem)?;
    let report = read_under_progress("simulating what comes from memory", recording, 1, |read| {
        simulate(read, machine, &apart, options)
    })?;
    let lines = |served: ServedCounts| served.local_memory + served.remote_memory;
    let bytes = |task: &TaskReport| (lines(task.loads_served) + lines(task.stores_served)) << machine.line_bits;
    Ok(report.tasks.iter().map(bytes).collect())
}

/// A way to map.
struct Arm {
    mapper: &'static dyn Mapper,
    objective: &'static dyn Objective,
    share_cores: bool,
}

impl Arm {
    /// As on the command line of `cohabit map`.
    fn name(&self) -> String {
        let mut name = self.mapper.name().to_owned();
        if self.objective.name() != DISTANCE {
            name += &format!(" --objective {}", self.objective.name());
        }
        if self.share_cores {
            name += " --share-cores";
        }
        name
    }
}

/// Objectives that a machine file says enough for.
fn objective_names() -> PossibleValuesParser {
    OBJECTIVES.iter().map(|objective| objective.name()).filter(|&name| name != TIME).collect::<Vec<_>>().into()
}

/// Simulates mappings, so many at a time, and returns them in their order. Those that are the same are simulated once.
fn all(
    recording: &dyn Recording,
    machine: &Machine,
    placements: Vec<(String, Vec<usize>)>,
    options: &Options,
    threads: usize,
) -> Result<Vec<Simulated>> {
    let first = |placement: &[usize]| placements.iter().position(|(_, other)| other == placement).expect("it is one");
    let firsts: Vec<usize> = placements.iter().map(|(_, placement)| first(placement)).collect();
    let different: Vec<usize> = (0..placements.len()).filter(|&index| firsts[index] == index).collect();
    let reports = at_a_time(different.len(), threads, |index| {
        let (name, placement) = &placements[different[index]];
        simulate(recording, machine, placement, options).map_err(|error| error.at(name))
    })?;
    let of = |index: usize| reports[different.binary_search(&index).expect("each first one was simulated")].clone();
    let simulated =
        |((name, placement), first): ((String, Vec<usize>), usize)| Simulated { name, placement, report: of(first) };
    Ok(placements.into_iter().zip(firsts.iter().copied()).map(simulated).collect())
}

/// Does `one` for each number below `count`, so many at a time; what they give, in their order.
fn at_a_time<T: Send>(count: usize, threads: usize, one: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, one(index)));
        }
    };
    let mut found: Vec<(usize, Result<T>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a simulation does not panic")).collect()
    });
    found.sort_by_key(|&(index, _)| index);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Where a mapping file puts each task.
fn placement(mapping: &Mapping, tasks: usize, topology: &Topology) -> Result<Vec<usize>> {
    if mapping.tasks.len() != tasks {
        return Err(Error::new(format!(
            "the mapping has {}, the recording {tasks}",
            counted(mapping.tasks.len(), "task")
        ))
        .remedy("make the mapping from a profile of the same program"));
    }
    if mapping.topology != topology.text {
        note("the mapping was made for another topology than the machine's: its PU numbers may be other places here");
    }
    let mut placement = vec![0; tasks];
    for task in &mapping.tasks {
        let entry = placement.get_mut(task.task as usize).ok_or_else(|| {
            Error::new(format!("the recording has no task {}", task.task))
                .remedy("make the mapping from a profile of the same program")
        })?;
        *entry = topology.pu_index(task.pu).ok_or_else(|| {
            Error::new(format!("task {} is on PU {}, which the machine lacks", task.task, task.pu))
                .remedy("make the mapping with the machine's topology")
        })?;
    }
    Ok(placement)
}

fn fields(one: &Simulated) -> Value {
    json!({ "name": one.name, "pus": one.placement, "report": one.report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::open_recording;
    use cohabit_memory::machine::given::MACHINES;

    #[test]
    fn the_help_names_all_machines_and_kinds() {
        let command = <Simulate as clap::Args>::augment_args(clap::Command::new("simulate"));
        let help = command.clone().render_long_help().to_string();
        for name in MACHINES.iter().map(|given| given.name).chain(cohabit_access::synthetic::kinds().map(|kind| kind.0))
        {
            assert!(help.contains(name), "{name}");
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same() {
        let machine = Machine::load("harpertown").unwrap();
        let recording = open_recording("synthetic:ring:4:4:2").unwrap();
        let placements: Vec<_> =
            (0..5).map(|shift| (shift.to_string(), (0..4).map(|n| (n + shift) % 8).collect())).collect();
        let run = |threads| {
            let all = all(&*recording, &machine, placements.clone(), &Options::default(), threads).unwrap();
            all.into_iter().map(|one| (one.name, one.report)).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(3));
    }

    fn asked(mappers: &[&str], objective: &str, share_cores: bool) -> Simulate {
        Simulate {
            recording: RecordingArgs::default(),
            machine: String::new(),
            mapping: Vec::new(),
            mapper: mappers.iter().map(ToString::to_string).collect(),
            weight: TRANSFERS.to_owned(),
            objective: objective.to_owned(),
            free_locks: false,
            share_cores,
            memory: String::new(),
            classify: false,
            window: None,
            output: None,
            sensitivity: None,
            sample: None,
            seed: 1,
            threads: 1,
            json: JsonArgs::none(),
        }
    }

    #[test]
    fn mappers_are_tried_for_what_they_know_and_with_cores_shared() {
        let names = |mappers: &[&str], objective: &str, share_cores| -> Result<Vec<String>> {
            let asked = asked(mappers, objective, share_cores);
            Ok(asked.arms(&asked.mapper)?.iter().map(Arm::name).collect())
        };
        assert_eq!(names(&["packed", "best"], DISTANCE, false).unwrap(), ["packed", "best"]);
        let all = ["packed", "best", "best --objective congestion"];
        assert_eq!(names(&["packed", "best"], "congestion", false).unwrap(), all);
        let shared = all.map(|name| format!("{name} --share-cores"));
        assert_eq!(names(&["packed", "best"], "congestion", true).unwrap()[3..], shared);
        let error = names(&["packed"], "congestion", false).unwrap_err();
        assert_eq!(error.remedy.as_deref(), Some("add --mapper best or exact"));
    }

    /// Mappers that are said not to look at communication give the same with it and without; all others have it.
    #[test]
    fn communication_is_found_out_where_a_mapper_looks_at_it() {
        let machine = Machine::load("harpertown").unwrap();
        let (nothing, options) = (Matrix::zero(8), MapOptions::default());
        let pairs = Matrix::from_triplets(8, (0..8).map(|task| (task, (task + 4) % 8, 100)));
        let load = [1, 2, 3, 4, 5, 6, 7, 8];
        let need = |name: &str, weight: &Matrix| {
            let arm =
                Arm { mapper: mapper(name).unwrap(), objective: objective(DISTANCE).unwrap(), share_cores: false };
            need_communication(&[arm], weight, &machine.topology).unwrap()
        };
        for name in WITHOUT_COMMUNICATION {
            assert!(!need(name, &nothing), "{name}");
            let map = |weight: &Matrix, load: &[u64]| {
                let problem = Problem { weight, load, periods: &[], topology: &machine.topology, options: &options };
                mapper(name).unwrap().map(&problem).unwrap()
            };
            assert_eq!(map(&nothing, &[]), map(&pairs, &load), "{name}");
            assert!(need(name, &Matrix::zero(9)), "nine tasks share PUs by their load: {name}");
        }
        for other in MAPPERS.iter().filter(|other| !WITHOUT_COMMUNICATION.contains(&other.name())) {
            assert!(need(other.name(), &nothing), "{}", other.name());
        }
    }

    /// DeLoc's mapper needs to know when: two pairs that communicate at the same time go to different nodes.
    #[test]
    fn deloc_is_told_what_happens_at_the_same_time() {
        let machine = Machine::load("purple").unwrap();
        let recording = open_recording("synthetic:pairs:4:1:2").unwrap();
        let simulate = asked(&["deloc"], DISTANCE, false);
        let found = simulate.placements(&*recording, &machine, &Options::default()).unwrap();
        let node = |task: usize| found[0].1[task] / 28;
        assert_eq!((node(0), node(2)), (node(1), node(3)));
        assert_ne!(node(0), node(2));
    }

    #[test]
    fn a_sample_has_a_pu_for_each_task() {
        assert!(one_a_pu("packed", &[0, 5, 3]).is_ok());
        let error = one_a_pu("packed", &[0, 5, 0]).unwrap_err();
        assert!(error.to_string().contains("packed has several tasks on a PU"), "{error}");
    }
}
