//! From a profile and a topology to a mapping: what `cohabit map` shows and `cohabit run --profile` uses at once.

use crate::output::note;
use crate::phased::Phased;
use crate::timeline::{ClusterArgs, Parts};
use crate::{hosts, number, progress};
use clap::builder::{PossibleValue, PossibleValuesParser};
use cohabit_evaluate::comparison;
use cohabit_evaluate::phases::{self, bursts};
use cohabit_evaluate::verdict::{hopeless, hopeless_as_seen, little, rooms};
use cohabit_host::CpuMask;
use cohabit_map::makespan::Time;
use cohabit_map::objective::{Case, congestion};
use cohabit_map::per_phase::{Sequence, per_phase};
use cohabit_map::usable::preference;
use cohabit_map::{MAPPERS, Mapper, OBJECTIVES, Options, Problem, lower_bound, mapper, objective};
use cohabit_model::cost::distance_cost;
use cohabit_model::mapping::{Cost, FORMAT, Placed, Seat, Weight};
use cohabit_model::profile::Kind;
use cohabit_model::series::Window;
use cohabit_model::timeline::By;
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Error, Hct, Mapping, Matrix, Period, Profile, Result, Task, Timeline, Topology, counted};
use cohabit_network::Traffic;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Phases that a search by time takes into account: what every port carries is kept for each.
const MOST_PHASES: usize = 64;

/// How to map.
#[derive(clap::Args, Debug, Clone)]
pub struct MappingArgs {
    /// The algorithm; `cohabit mappers` says more of each
    #[arg(long, value_name = "M", default_value = default_mapper(), value_parser = mapper_names())]
    mapper: String,
    /// Seed of whatever is random: the same seed gives the same mapping
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// What the distance cost counts [default: bytes for MPI ranks; for threads and processes transfers, where the
    /// profile has them, else messages]
    #[arg(long, value_name = "WHAT", value_parser = ["messages", "bytes", "transfers"])]
    weight: Option<String>,
    /// What is to be small (docs/estimator.md, docs/time.md)
    #[arg(long, value_name = "WHAT", default_value = DISTANCE, value_parser = objective_names())]
    objective: String,
    /// With --objective time: take each burst of the profile's time series by itself (at most 64: others are joined)
    #[arg(long)]
    bursts: bool,
    #[command(flatten)]
    clusters: ClusterArgs,
    /// Put this task on this PU (its OS index, in a cluster HOST:PU); may be repeated
    #[arg(long, value_name = "TASK=PU", value_parser = pin)]
    pin: Vec<(usize, String)>,
    /// Leave these PUs (OS indices, in a cluster HOST:PU) empty
    #[arg(long, value_name = "PU,PU,...", value_delimiter = ',', value_parser = pu)]
    forbid: Vec<String>,
    /// Let two tasks share a core while another core is free
    #[arg(long)]
    share_cores: bool,
    /// How long a mapper that searches may search, in steps: the same steps give the same mapping
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    steps: Option<u64>,
    /// How long it may search, as time (10ms): what it finds then depends on the machine's speed
    #[arg(long, value_name = "TIME", value_parser = number::duration)]
    budget: Option<Duration>,
    /// With how many threads it may search; the same number gives the same mapping for the same steps
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
}

/// A mapping and what it was made from.
pub struct Made {
    /// What is written to a file.
    pub mapping: Mapping,
    /// Where each task goes: indices into [`Topology::pus`].
    pub placement: Vec<usize>,
    /// What the distance cost counts.
    pub weight: Matrix,
    /// What the mapper was asked for.
    pub options: Options,
    /// What communication is estimated to take so, and with the linear mapping, where the topology says how fast its
    /// ports are.
    pub times: Option<[comparison::Cost; 2]>,
    /// J of what was found by distance, where a placement of larger J was preferred to it.
    pub set_aside: Option<u128>,
    /// What is traded where congestion was to be small: of this mapping, of packed and of scatter.
    pub trades: Option<[congestion::Trade; 3]>,
    /// What is exchanged at the same time, where the mapper or the objective asks for that.
    pub periods: Vec<Period>,
    /// [`Profile::work`]: no PU gets more of it than a good balance allows.
    pub work: Vec<u64>,
}

/// The objectives that have something of their own to say here.
const DISTANCE: &str = "distance";
const TIME: &str = "time";

impl MappingArgs {
    /// As if these words stood on the command line of `cohabit map`, all else by default.
    pub fn of(words: &[&str]) -> Self {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            how: MappingArgs,
        }
        <Alone as clap::Parser>::parse_from(std::iter::once("map").chain(words.iter().copied())).how
    }

    /// The same by another mapper, and by distance, which every mapper knows.
    pub fn by(&self, mapper: &str) -> Self {
        Self { mapper: mapper.to_owned(), objective: DISTANCE.to_owned(), bursts: false, ..self.clone() }
    }

    /// Maps the tasks of `profile` to the PUs of `topology`.
    ///
    /// # Errors
    /// Where a pin or a forbidden PU is not there, or the mapper fails.
    pub fn map(&self, profile: &Profile, topology: &Topology, level_costs: Vec<u64>) -> Result<Made> {
        let (weight, matrix) = weight_of(self.weight.as_deref(), profile)?;
        let mut options = self.options(profile.tasks(), topology)?;
        if let Some(line) = hosts::keep_to_one(profile, topology, &mut options)? {
            note(&line);
        }
        let (algorithm, wanted) = (mapper(&self.mapper)?, objective(&self.objective)?);
        let periods = match algorithm.needs_periods() || wanted.asks_for_periods() {
            true if !profile.series.is_empty() => {
                if let Window::Instructions(_) = profile.meta.window() {
                    note(
                        "windows are of each task's own instructions: what is in the same one is taken to happen at the same time",
                    );
                }
                progress::during("looking for clusters in time", || self.clusters.timeline(profile, None))?.periods
            }
            true if wanted.asks_for_periods() => {
                note("the profile has no time series: all is taken to happen at the same time");
                vec![Period::whole(profile.messages.clone(), profile.bytes.clone())]
            }
            _ => Vec::new(),
        };
        let work = profile.work();
        let problem = Problem { weight: matrix, load: &work, periods: &periods, topology, options: &options };
        let hct = topology.hct();
        let default = mapper("packed")?.map(&Problem { load: &[], ..problem })?;
        let traffic = self.traffic(profile, topology, hct.as_ref().ok(), &default)?;
        objective::check(algorithm, wanted)?;
        if self.objective == TIME {
            hct.as_ref().map_err(Error::clone)?;
        }
        let network = hct.as_ref().ok().map(|hct| Time { hct, traffic: &traffic });
        let case = Case { problem: &problem, network, memory: &[] };
        let beaten = format!("mapping; J of packed {}", distance_cost(matrix, topology, &default));
        let found = progress::during(&beaten, || objective::least_for(&case, algorithm, wanted))?;
        let found_j = distance_cost(matrix, topology, &found);
        let placement = wanted.preferred(&case, algorithm, found)?;
        let trades = match wanted.asks_for_periods() {
            true => Some(
                [&placement, &mapper("packed")?.map(&problem)?, &mapper("scatter")?.map(&problem)?]
                    .map(|one| congestion::trade(&case, one)),
            ),
            false => None,
        };
        let time = |placement: &[usize]| {
            let cost = |hct: &Hct| comparison::cost(hct, &traffic, &elements(topology, placement));
            hct.as_ref().ok().map(cost).transpose()
        };
        if let Some(line) = hosts::parted_ranks(profile, topology, &placement) {
            note(&line);
        }
        let times = || -> Result<_> { Ok(time(&placement)?.zip(time(&default)?).map(<[_; 2]>::from)) };
        let times = progress::during("estimating", times)?;
        let lower_bound = Some(lower_bound(&problem)?);
        let same_host = profile.meta.tasks.windows(2).all(|pair| pair[0].host == pair[1].host);
        let usable = usable(topology, &options);
        // Who gains nothing is confined to nothing.
        let no_gain = hopeless_as_seen(profile, matrix, &usable).or_else(|| little(profile, matrix));
        let rooms = rooms(matrix, &usable, &placement, &fixed(&options), no_gain.is_some());
        let mut lists: HashMap<NodeId, String> = HashMap::new();
        let mut place = |((task, &pu), room): ((&Task, &usize), NodeId)| {
            // Where it is to run, which need not be where it ran.
            let host = topology.host_of(pu).map_or(if same_host { task.host.as_str() } else { "" }, |host| host);
            // Nobody goes to another host. A million tasks have few rooms.
            let room = within_host(&usable, room, pu);
            let pus = match room == topology.pus[pu].node {
                true => String::new(),
                false => lists.entry(room).or_insert_with(|| pus_of(&usable, room).to_string()).clone(),
            };
            Placed { host: host.to_owned(), pus, ..Placed::new(task, topology.pus[pu].os_index) }
        };
        let mapping = Mapping {
            format: FORMAT,
            mapper: self.mapper.clone(),
            seed: self.seed,
            weight,
            objective: self.objective.clone(),
            level_costs,
            topology: topology.text.clone(),
            programs: profile.meta.programs.clone(),
            no_gain,
            tasks: profile.meta.tasks.iter().zip(&placement).zip(rooms).map(&mut place).collect(),
            cost: Cost {
                distance: distance_cost(matrix, topology, &placement),
                lower_bound,
                predicted_ns: times.as_ref().map(|[time, _]| time.run.total.seconds * 1e9),
                ..Cost::default()
            },
            phases: None,
            unknown: serde_json::Map::default(),
        };
        let weight = matrix.clone();
        let set_aside = Some(found_j).filter(|&found| found < mapping.cost.distance && self.objective == DISTANCE);
        Ok(Made { mapping, placement, weight, options, times, set_aside, trades, periods, work })
    }

    /// Maps some of the tasks of a profile, and leaves the others out: the PUs that each of them may use.
    ///
    /// # Errors
    /// As [`MappingArgs::map`].
    pub fn map_some(&self, profile: &Profile, topology: &Topology, ids: &[u32]) -> Result<Vec<CpuMask>> {
        let (_, matrix) = weight_of(self.weight.as_deref(), profile)?;
        let place: HashMap<u32, u32> = (0..).zip(ids).map(|(place, &id)| (id, place)).collect();
        let some = |matrix: &Matrix| {
            let kept = matrix.iter().filter_map(|(a, b, value)| Some((*place.get(&a)?, *place.get(&b)?, value)));
            Matrix::from_triplets(ids.len(), kept)
        };
        let (weight, algorithm) = (some(matrix), mapper(&self.mapper)?);
        let mut periods = match algorithm.needs_periods() {
            true => self.clusters.timeline(profile, None)?.periods,
            false => Vec::new(),
        };
        for period in &mut periods {
            (period.messages, period.bytes) = (some(&period.messages), some(&period.bytes));
        }
        let all = self.options(profile.tasks(), topology)?;
        let pins = all.pins.iter().filter_map(|&(task, pu)| Some((*place.get(&(task as u32))? as usize, pu))).collect();
        let options = Options { pins, ..all };
        let usable = usable(topology, &options);
        let work = profile.work();
        let load: Vec<u64> = ids.iter().filter_map(|&id| work.get(id as usize).copied()).collect();
        let load = if load.len() == ids.len() { &load[..] } else { &[] };
        let placement =
            algorithm.map(&Problem { weight: &weight, load, periods: &periods, topology, options: &options })?;
        let hopeless = hopeless(&weight, &usable).is_some();
        let rooms = rooms(&weight, &usable, &placement, &fixed(&options), hopeless);
        Ok(rooms.into_iter().map(|room| pus_of(&usable, room)).collect())
    }

    /// A mapping for each part of the run, beside the one in `made`.
    ///
    /// # Errors
    /// The profile has no such parts, they are too many, tasks cannot move, or the mapper fails.
    pub fn per_phase(&self, made: &Made, profile: &Profile, topology: &Topology, by: Option<By>) -> Result<Phased> {
        if topology.hosts().count() > 1 {
            return Err(Error::new(
                "--per-phase on several hosts: tasks cannot move from one to another while they run",
            )
            .remedy("leave --per-phase out, or map onto one machine"));
        }
        let parts = progress::during("looking for phases", || self.clusters.for_mappings(profile, by))?;
        let Parts { timeline, order, begins_at } = parts;
        let problem = Problem {
            weight: &made.weight,
            load: &made.work,
            periods: &timeline.periods,
            topology,
            options: &made.options,
        };
        let case = Case { problem: &problem, network: None, memory: &[] };
        let asked = (mapper(&self.mapper)?, objective(&self.objective)?);
        let (usable, fixed) = (usable(topology, &made.options), fixed(&made.options));
        let is_bytes = made.mapping.weight == Weight::Bytes;
        let of = |period: &Period| hopeless(if is_bytes { &period.bytes } else { &period.messages }, &usable).is_some();
        let indifferent: Vec<bool> = timeline.periods.iter().map(of).collect();
        let sequence = Sequence { order: &order, indifferent: &indifferent };
        let found = progress::during("mapping phase by phase", || {
            per_phase(&case, asked, made.mapping.weight, sequence, &made.placement)
        })?;
        let mut seats: Vec<Vec<Seat>> = Vec::new();
        for (number, placement) in found.placements.iter().enumerate() {
            // Confined no more than all phases of this mapping need it.
            let with = timeline.periods.iter().zip(&found.of_phase).filter(|with| *with.1 == number);
            let weight = match number {
                0 => made.weight.clone(),
                _ => Matrix::from_triplets(
                    profile.tasks(),
                    with.flat_map(|(period, _)| if is_bytes { period.bytes.iter() } else { period.messages.iter() }),
                ),
            };
            let rooms = rooms(&weight, &usable, placement, &fixed, hopeless(&weight, &usable).is_some());
            let seat = |((placed, &pu), room): ((&Placed, &usize), NodeId)| {
                let alone = room == topology.pus[pu].node;
                let pus = if alone { String::new() } else { pus_of(&usable, room).to_string() };
                Seat { task: placed.task, pu: topology.pus[pu].os_index, pus }
            };
            seats.push(made.mapping.tasks.iter().zip(placement).zip(rooms).map(seat).collect());
        }
        Ok(Phased { timeline, order, begins_at, found, seats })
    }

    /// What is exchanged at the same time, by what is asked for or preferred.
    ///
    /// # Errors
    /// The profile has no series, or no phases of the program where these are asked for.
    pub fn timeline(&self, profile: &Profile, by: Option<By>) -> Result<Timeline> {
        progress::during("looking for clusters in time", || self.clusters.timeline(profile, by))
    }

    /// Whether the user has said where tasks go.
    pub fn has_pins(&self) -> bool {
        !self.pin.is_empty()
    }

    /// What the rule that fast cores come first costs in J, where some tasks could be nearer to each other on slower
    /// ones.
    ///
    /// # Errors
    /// Where the mapper fails.
    pub fn fast_or_near(&self, made: &Made, topology: &Topology) -> Result<Option<String>> {
        let fastness = |pu: usize| preference(topology, pu);
        let open: Vec<usize> =
            topology.allowed().into_iter().filter(|pu| !made.options.forbidden.contains(pu)).collect();
        let Some(fastest) = open.iter().map(|&pu| fastness(pu)).max() else { return Ok(None) };
        let are_alike = open.iter().all(|&pu| fastness(pu) == fastest);
        if are_alike || made.placement.len() >= open.len() {
            return Ok(None);
        }
        let on_slow = |placement: &[usize]| placement.iter().filter(|&&pu| fastness(pu) < fastest).count();
        let mut alike = topology.clone();
        alike.pus.iter_mut().for_each(|pu| (pu.capacity, pu.core_kind) = (1.0, 0));
        // However long the mapping was searched for, this need not be.
        let options = Options { budget: None, steps: None, ..made.options.clone() };
        let problem = Problem {
            weight: &made.weight,
            load: &made.work,
            periods: &made.periods,
            topology: &alike,
            options: &options,
        };
        let near = progress::during("mapping", || mapper(&self.mapper)?.map(&problem))?;
        let (cost, near_cost) = (made.mapping.cost.distance, distance_cost(&made.weight, topology, &near));
        let slow = on_slow(&made.placement);
        let rule = match slow {
            0 => "fast cores come first, and all tasks are on these".to_owned(),
            slow => format!("fast cores come first; {slow} of {} tasks are on slower ones", made.placement.len()),
        };
        Ok(Some(match near_cost < cost {
            false => format!("{rule}: no smaller J was found with any others"),
            true => {
                let percent = 100.0 * (1.0 - near_cost as f64 / cost as f64);
                format!("{rule}: with {} on slower ones J would be {near_cost}, {percent:.0} % less", on_slow(&near))
            }
        }))
    }

    /// What is sent, in the phases that it is taken to be sent in.
    fn traffic(&self, profile: &Profile, topology: &Topology, hct: Option<&Hct>, default: &[usize]) -> Result<Traffic> {
        if self.bursts && self.objective != TIME {
            return Err(Error::new("--bursts without --objective time")
                .remedy("the distance cost knows no time: add --objective time, or leave --bursts out"));
        }
        if self.bursts && profile.series.is_empty() {
            return Err(Error::new("the profile has no time series").remedy("leave --bursts out"));
        }
        match hct {
            Some(hct) if self.bursts => Ok(bursts(profile, hct, &elements(topology, default), MOST_PHASES)?.into()),
            _ => Ok(phases::traffic(profile)),
        }
    }

    fn options(&self, tasks: usize, topology: &Topology) -> Result<Options> {
        let pin = |(task, pu): &(usize, String)| {
            if *task >= tasks {
                let cause = format!("--pin {task}={pu}: the profile has {}, numbered from 0", counted(tasks, "task"));
                return Err(Error::new(cause).remedy("'cohabit show' lists the tasks"));
            }
            Ok((*task, topology.pu_named(pu).map_err(|error| error.at(format!("--pin {task}={pu}")))?))
        };
        let searching =
            [(self.steps.is_some(), "--steps"), (self.budget.is_some(), "--budget"), (self.threads > 1, "--threads")];
        if let Some((_, given)) =
            searching.iter().find(|(given, _)| *given && !mapper(&self.mapper).is_ok_and(Mapper::searches))
        {
            return Err(Error::new(format!("{given} with --mapper {}, which does not search", self.mapper))
                .remedy(format!("leave {given} out, or take a mapper that searches: --mapper {}", default_mapper())));
        }
        let forbid = |pu: &String| topology.pu_named(pu).map_err(|error| error.at("--forbid"));
        Ok(Options {
            seed: self.seed,
            pins: self.pin.iter().map(pin).collect::<Result<_>>()?,
            forbidden: self.forbid.iter().map(forbid).collect::<Result<_>>()?,
            share_cores: self.share_cores,
            steps: self.steps,
            budget: self.budget,
            threads: usize::from(self.threads),
            ..Options::default()
        })
    }
}

/// The topology with the forbidden PUs not allowed.
pub fn usable(topology: &Topology, options: &Options) -> Topology {
    let mut usable = topology.clone();
    for &pu in &options.forbidden {
        usable.pus[pu].allowed = false;
    }
    usable
}

/// The tasks that the user pins.
fn fixed(options: &Options) -> HashSet<usize> {
    options.pins.iter().map(|&(task, _)| task).collect()
}

/// A node, or as much of it as is on the host of a PU below it.
fn within_host(topology: &Topology, node: NodeId, pu: usize) -> NodeId {
    let host = if topology.names.is_empty() { None } else { topology.ancestor(pu, Level::Machine) };
    host.filter(|&host| topology.nodes[host].pus.len() < topology.nodes[node].pus.len()).unwrap_or(node)
}

/// The PUs of a node that may be used.
fn pus_of(usable: &Topology, node: NodeId) -> CpuMask {
    let pus = usable.nodes[node].pus.clone().filter(|&pu| usable.pus[pu].allowed);
    CpuMask::from_pus(pus.map(|pu| usable.pus[pu].os_index))
}

/// What J counts: what `--weight` says, else what suits the tasks.
///
/// # Errors
/// Transfers are asked for, and the profile does not have them.
pub fn weight_of<'a>(given: Option<&str>, profile: &'a Profile) -> Result<(Weight, &'a Matrix)> {
    let weight = match given {
        Some("bytes") => Weight::Bytes,
        Some("transfers") => Weight::Transfers,
        Some(_) => Weight::Messages,
        None => default_weight(profile),
    };
    let matrix = match weight {
        Weight::Messages => &profile.messages,
        Weight::Bytes => &profile.bytes,
        Weight::Transfers => transfers(profile)?,
    };
    Ok((weight, matrix))
}

/// From whom tasks get what they read.
///
/// # Errors
/// The profile does not know it.
pub fn transfers(profile: &Profile) -> Result<&Matrix> {
    profile.transfers.as_ref().ok_or_else(|| {
        let of_ranks = profile.meta.kind == Kind::Ranks;
        let cause = "the profile has no transfers: recordings have them, and what 'cohabit profile' makes of threads and processes";
        Error::new(cause).remedy(if of_ranks { "take --weight bytes" } else { "take --weight messages, or profile again" })
    })
}

/// Bytes for ranks, where they are known (page faults tell of no bytes); else transfers, where these are; else
/// messages.
pub fn default_weight(profile: &Profile) -> Weight {
    let of_ranks = matches!(profile.meta.kind, Kind::Ranks | Kind::Hybrid);
    let is_unknown = profile.bytes.entries() == 0 && profile.messages.entries() > 0;
    match (of_ranks && !is_unknown, &profile.transfers) {
        (true, _) => Weight::Bytes,
        (false, Some(_)) => Weight::Transfers,
        (false, None) => Weight::Messages,
    }
}

/// The mapping that launchers make by default: tasks side by side in the order of their numbers.
///
/// # Errors
/// Where no PU may be used.
pub fn linear(weight: &Matrix, topology: &Topology) -> Result<Vec<usize>> {
    mapper("packed")?.map(&Problem { weight, load: &[], periods: &[], topology, options: &Options::default() })
}

/// The processing element of each task: element k is node k of the topology.
pub fn elements(topology: &Topology, placement: &[usize]) -> Vec<usize> {
    placement.iter().map(|&pu| topology.pus[pu].node).collect()
}

/// `best` once there is one; until then the paper's greedy.
fn default_mapper() -> &'static str {
    MAPPERS.iter().map(|mapper| mapper.name()).find(|&name| name == "best").unwrap_or("complace")
}

/// The names of all mappers, as clap takes them.
pub fn mapper_names() -> PossibleValuesParser {
    let name = |mapper: &&'static dyn cohabit_map::Mapper| PossibleValue::new(mapper.name()).help(mapper.about());
    PossibleValuesParser::new(MAPPERS.iter().map(name))
}

fn objective_names() -> PossibleValuesParser {
    let name = |objective: &&'static dyn cohabit_map::objective::Objective| {
        PossibleValue::new(objective.name()).help(objective.about())
    };
    PossibleValuesParser::new(OBJECTIVES.iter().map(name))
}

fn pin(text: &str) -> Result<(usize, String), String> {
    let parsed = text.split_once('=').and_then(|(task, name)| Some((task.parse().ok()?, pu(name).ok()?)));
    parsed.ok_or_else(|| "write a task and a PU, as in 3=17, or in a cluster 3=node01:17".to_owned())
}

fn pu(text: &str) -> Result<String, String> {
    let number = text.rsplit(':').next().and_then(|number| number.parse::<u32>().ok());
    number.map(|_| text.to_owned()).ok_or_else(|| "write an OS index, as in 17, or in a cluster node01:17".to_owned())
}
