//! `cohabit map`: where each task of a profile should run, what that costs, and whether it is worth anything.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::export::ExportArgs;
use crate::json::JsonArgs;
use crate::machine::MachineArgs;
use crate::mapping::{Made, MappingArgs, usable};
use crate::number::seconds as seconds_of;
use crate::output::note;
use crate::phased::Phased;
use crate::picture::text::clean;
use crate::progress::read_profile;
use crate::words::{noun, tasks_of};
use clap::builder::{PossibleValue, PossibleValuesParser};
use cohabit_apply::Placement;
use cohabit_cluster::calls::of_calls;
use cohabit_evaluate::verdict::{Costs, Verdict, advised, verdict};
use cohabit_map::objective::congestion::Trade;
use cohabit_map::usable::preference;
use cohabit_map::{Problem, mapper};
use cohabit_model::cost::distance_cost;
use cohabit_model::file::check_writable;
use cohabit_model::metrics::advice::Advice;
use cohabit_model::profile::{Coverage, Kind, Meta};
use cohabit_model::timeline::By;
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Mapping, Profile, Result, Topology};
use cohabit_network::estimator::SAME;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit map p.npz                        on this machine
  cohabit map p.npz --topology node.xml    on a saved one (lstopo node.xml)
  cohabit map p.npz --topology \"pack:2 core:14 pu:2\"
  cohabit map p.npz -o m.json              to a file for 'cohabit run'
  cohabit map p.npz --export open-mpi-4=rankfile --export svg=p.svg
                                           for mpirun, and as a picture
  cohabit map p.npz --topology cluster.toml --objective time
                                           ranks over hosts, by estimated time
  cohabit map p.npz --objective congestion
                                           what happens at once not at one memory
  cohabit map p.npz --per-phase -o m.json  a mapping a phase, where moving pays
  cohabit map p.npz --pin 0=3 --forbid 1   with task 0 on PU 3, and PU 1 empty

Which PUs stay empty is part of the search, within two rules: no core has two
tasks while another has none (unless --share-cores), and no slow core has one
while a faster core has none. What the second costs in J is printed.";

/// `--per-phase` without a value: by the first that there is.
const PREFERRED: &str = "preferred";

/// Longest line of the table.
const WIDTH: usize = 100;

/// Arguments of `cohabit map`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Map {
    /// The profile (.npz)
    #[arg(value_name = "P")]
    profile: PathBuf,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    how: MappingArgs,
    /// A mapping for each phase of the run where moving pays for itself; phases are those that the program names, else
    /// those that begin at MPI call sites, else windows that come again, else clusters in time (docs/time.md), or of the
    /// kind that is named: markers, calls, recurring, clusters
    #[arg(long, value_name = "BY", num_args = 0..=1, require_equals = true, default_missing_value = PREFERRED)]
    #[arg(value_parser = kinds_of_phases(), hide_possible_values = true, conflicts_with = "export")]
    per_phase: Option<String>,
    /// Write the mapping to FILE, for `cohabit run --mapping`
    #[arg(short, long, value_name = "MAP")]
    output: Option<PathBuf>,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// The values of `--per-phase`: none stands for the first that there is, by a name that nobody is told.
fn kinds_of_phases() -> PossibleValuesParser {
    let named = ["markers", "calls", "recurring", "clusters"].map(PossibleValue::new);
    [PossibleValue::new(PREFERRED).hide(true)].into_iter().chain(named).collect::<Vec<_>>().into()
}

/// What `--json` adds to format and command. Costs may be beyond 64 bits, which only a direct serialisation takes.
#[derive(Serialize)]
struct Fields<'a> {
    mapping: &'a Mapping,
    /// What a mapping for each phase comes to, where it was asked for.
    per_phase: Option<Value>,
    distance_cost: Costs,
    /// Estimated seconds, where the topology says how fast its ports are.
    time: Option<Value>,
    /// What is traded where congestion was to be small.
    congestion: Option<Value>,
    verdict: &'a Verdict,
    /// What is said of fast cores where there are slow ones.
    fast_or_near: Option<&'a str>,
    coverage: &'a Coverage,
}

impl Map {
    /// Maps, compares with packed and scatter, prints, and writes the mapping where it was asked for.
    pub fn run(self) -> Outcome {
        let exported_to_stdout = self.export.takes_stdout(self.json.takes_stdout()).map_err(Failure::usage)?;
        if let Some(path) = &self.output {
            check_writable(path)?;
        }
        self.export.check()?;
        self.json.check()?;
        let profile = read_profile(&self.profile)?;
        let topology = self.machine.load()?;
        let mut made = self.how.map(&profile, &topology, self.machine.level_costs()?)?;
        let usable = usable(&topology, &made.options);
        let costs = costs(&made, &topology)?;
        let unseen = &profile.meta.unseen_channels;
        let mut verdict =
            verdict(&made.weight, &usable, costs, &made.mapping.mapper).beside(unseen, made.weight.tasks(), &usable);
        let by = (self.per_phase.as_deref() == Some("clusters")).then_some(By::Clusters);
        let timeline = (!profile.series.is_empty()).then(|| self.how.timeline(&profile, by)).transpose()?;
        verdict = verdict.advised(advised(&profile, timeline.as_ref(), &made.weight, None), unseen);
        let advice = match &verdict.advice {
            // What is done is not advised.
            Advice::Congestion | Advice::Both if made.trades.is_some() => None,
            Advice::Congestion | Advice::Both | Advice::Repair { .. } => Some(clean(&verdict.advice.sentence())),
            Advice::Nothing | Advice::Locality | Advice::Together => None,
        };
        if let (Some(text), true) =
            (timed(&made).or_else(|| congested(&made)).or_else(|| slower(&made)), verdict.can_gain)
        {
            verdict.text = text;
        }
        let rule = self.how.fast_or_near(&made, &topology)?;
        self.export.write(&Placement::new(&made.mapping, &topology, &made.weight)?)?;
        let phased = self.phased(&made, &profile, &topology)?;
        if let Some(phased) = &phased {
            phased.put_into(&mut made.mapping);
        }
        if let Some(path) = &self.output {
            made.mapping.write(path)?;
        }
        let text = match exported_to_stdout {
            true => String::new(),
            false => {
                let sentences = [advice.as_ref(), Some(&verdict.text), rule.as_ref()];
                let text = text(&made, &topology, costs, sentences, &profile.meta);
                text + &phased.as_ref().map_or(String::new(), |phased| phased.text(&made, table, &topology))
            }
        };
        let fields = Fields {
            mapping: &made.mapping,
            per_phase: phased.as_ref().map(|phased| phased.fields(&made)),
            distance_cost: costs,
            time: made.times.as_ref().map(
                |[mapped, linear]| json!({"mapped": mapped.run.total.seconds, "linear": linear.run.total.seconds}),
            ),
            congestion: made.trades.map(|trades| {
                let [mapped, packed, scatter] = trades.map(|Trade { seconds, remote, busiest }| {
                    json!({"seconds": seconds, "remote_share": remote, "busiest_share": busiest})
                });
                json!({"mapped": mapped, "packed": packed, "scatter": scatter})
            }),
            verdict: &verdict,
            fast_or_near: rule.as_deref(),
            coverage: &profile.meta.coverage,
        };
        self.json.emit("map", fields, &text)?;
        Ok(End::Done)
    }
}

impl Map {
    /// A mapping for each phase, where that is asked for.
    fn phased(&self, made: &Made, profile: &Profile, topology: &Topology) -> Result<Option<Phased>> {
        let by = match self.per_phase.as_deref() {
            None => return Ok(None),
            Some("markers") => Some(By::Markers),
            Some("recurring") => Some(By::Recurring),
            Some("clusters") => Some(By::Clusters),
            Some("calls") => Some(By::Calls),
            Some(_) => None,
        };
        let phased = self.how.per_phase(made, profile, topology, by)?;
        if by.is_none() && profile.meta.kind == Kind::Ranks && !matches!(phased.timeline.by, By::Calls | By::Markers) {
            let why = of_calls(profile).err().map_or(String::new(), |error| format!(": {}", error.cause));
            note(&format!("phases by MPI call sites are left out{why}"));
        }
        Ok(Some(phased))
    }
}

/// J of the mapping and of the two mappers that ignore who communicates, under the same pins, forbidden PUs and work.
pub(super) fn costs(made: &Made, topology: &Topology) -> Result<Costs> {
    let cost_by = |name: &str| -> Result<u128> {
        let problem =
            Problem { weight: &made.weight, load: &made.work, periods: &[], topology, options: &made.options };
        Ok(distance_cost(&made.weight, topology, &mapper(name)?.map(&problem)?))
    };
    Ok(Costs { mapped: made.mapping.cost.distance, packed: cost_by("packed")?, scatter: cost_by("scatter")? })
}

/// What a mapping by time is worth; none of one by distance.
fn timed(made: &Made) -> Option<String> {
    let [time, linear] = made.times.as_ref().filter(|_| made.mapping.objective == "time")?;
    let [seconds, linear_s] = [time, linear].map(|cost| cost.run.total.seconds);
    Some(match 100.0 * (1.0 - seconds / linear_s) {
        percent if percent >= 0.1 => {
            format!("its time is {percent:.1} % below linear; 'cohabit evaluate' says whether that is enough to tell")
        }
        _ => "linear takes no longer: the tasks' order already suits the cluster".to_owned(),
    })
}

/// What a mapping by congestion is worth; none of another.
fn congested(made: &Made) -> Option<String> {
    let [own, packed, scatter] = made.trades?.map(|trade| trade.seconds);
    Some(format!("its congestion is {} of packed and {} of scatter", against(own, packed), against(own, scatter)))
}

/// How a cost compares with another, in words that the other's name follows.
fn against(own: f64, other: f64) -> String {
    match 100.0 * (1.0 - own / other) {
        percent if percent >= 0.1 => format!("{percent:.1} % below that"),
        percent if percent <= -0.1 => format!("{:.1} % above that", -percent),
        _ => "that".to_owned(),
    }
}

/// That a mapping by distance takes longer than the linear one by its own estimate; none where it does not.
fn slower(made: &Made) -> Option<String> {
    let [time, linear] = made.times.as_ref().filter(|_| made.mapping.objective == "distance")?;
    let [seconds, linear_s] = [time, linear].map(|cost| cost.run.total.seconds);
    let is_slower = seconds > linear_s * (1.0 + SAME);
    is_slower.then(|| {
        let [seconds, linear] = [seconds, linear_s].map(seconds_of);
        format!(
            "J is smaller, but by the estimate linear is faster ({linear}; this mapping {seconds}): take '--objective time', or '--mapper packed'"
        )
    })
}

/// What mappings have in common, where that can cost J.
fn rule(made: &Made, topology: &Topology) -> String {
    let open: Vec<usize> = topology.allowed().into_iter().filter(|pu| !made.options.forbidden.contains(pu)).collect();
    let shared = topology.nodes.iter().any(|node| node.level == Level::Core && node.pus.len() > 1);
    let fastness = |pu: &usize| preference(topology, *pu);
    let has_fast = open.iter().map(fastness).min() != open.iter().map(fastness).max();
    let tasks = made.placement.len();
    let rules = [
        (shared && !made.options.share_cores, "without --share-cores"),
        (has_fast && tasks < open.len(), "that takes the fast cores first"),
        (tasks > open.len(), "that gives each PU as many tasks"),
        (!made.options.forbidden.is_empty() || !made.options.pins.is_empty(), "that keeps to --pin and --forbid"),
    ];
    let rules: Vec<&str> = rules.into_iter().filter(|(holds, _)| *holds).map(|(_, rule)| rule).collect();
    if rules.is_empty() { String::new() } else { format!(" {}", rules.join(" and ")) }
}

fn text(made: &Made, topology: &Topology, costs: Costs, sentences: [Option<&String>; 3], meta: &Meta) -> String {
    let weight = serde_json::to_value(made.mapping.weight).ok().and_then(|name| name.as_str().map(str::to_owned));
    let weight = weight.unwrap_or_default();
    let [one, several] = noun(meta.kind);
    let mut text = format!(
        "{} on {} PUs, by {}, seed {}; weight: {weight}{}\n",
        tasks_of(meta.kind, made.placement.len()),
        topology.allowed().len(),
        made.mapping.mapper,
        made.mapping.seed,
        if meta.coverage.exact { "" } else { " (the profile is not exact: see its coverage)" },
    );
    text.push_str(&format!("PU:{several}\n{}", table(&made.placement, topology)));
    text.push_str(&format!("J, the distance cost: {weight} of each pair times the distance of its PUs\n"));
    let bound = made.mapping.cost.lower_bound.filter(|&bound| bound > 0);
    let mapper = made.mapping.mapper.as_str();
    let found = made.set_aside.map(|found| 100.0 * (1.0 - found as f64 / costs.mapped as f64));
    let others = [
        ("found", made.set_aside, format!("{:.1} % less: too little to tell in time", found.unwrap_or(0.0))),
        ("packed", Some(costs.packed), format!("{one} after {one}, side by side")),
        ("scatter", Some(costs.scatter), "as far apart as they can be".to_owned()),
        ("at least", bound, format!("no mapping{} costs less", rule(made, topology))),
    ];
    let others = others.into_iter().filter(|other| other.0 != mapper);
    let others = others.filter_map(|(name, cost, what)| Some((name, cost?, what)));
    let rows: Vec<_> = std::iter::once((mapper, costs.mapped, "this mapping".to_owned())).chain(others).collect();
    let width = rows.iter().map(|row| row.1.to_string().len()).max().unwrap_or(0);
    for (name, cost, what) in rows {
        writeln!(text, "J  {name:<9} {cost:>width$}  {what}").expect("a String takes everything");
    }
    if let Some([time, linear]) = &made.times {
        let rows = [(made.mapping.mapper.as_str(), time.run.total.seconds), ("linear", linear.run.total.seconds)];
        for (name, seconds) in rows {
            writeln!(text, "time  {name:<9} {:>9}", seconds_of(seconds)).expect("a String takes everything");
        }
    }
    if let Some(trades) = &made.trades {
        for (name, trade) in [mapper, "packed", "scatter"].iter().zip(trades) {
            let Trade { seconds, remote, busiest } = trade;
            let [remote, busiest] = [remote, busiest].map(|share| format!("{:.0} %", 100.0 * share));
            text.push_str(&format!(
                "congestion  {name:<9} {:>9}  {remote} of it between memories, {busiest} from the busiest\n",
                seconds_of(*seconds)
            ));
        }
    }
    sentences.into_iter().flatten().for_each(|sentence| text.extend([sentence.as_str(), "\n"]));
    text
}

/// A line for each part of the machine that the root of the branching leads to: `P3:0,5` puts tasks 0 and 5 on PU 3.
fn table(placement: &[usize], topology: &Topology) -> String {
    let mut tasks_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (task, &pu) in placement.iter().enumerate() {
        tasks_of.entry(pu).or_default().push(task);
    }
    let mut parts: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for (pu, tasks) in &tasks_of {
        let tasks: Vec<String> = tasks.iter().map(ToString::to_string).collect();
        let entry = format!("P{}:{}", topology.pus[*pu].os_index, tasks.join(","));
        parts.entry(topology.part_of(*pu)).or_default().push(entry);
    }
    let names: BTreeMap<NodeId, String> = parts.keys().map(|&node| (node, name_of(node, topology))).collect();
    let width = names.values().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (node, entries) in parts {
        let mut name = names[&node].as_str();
        for line in wrapped(&entries, WIDTH - width - 4) {
            writeln!(text, "  {name:<width$}  {line}").expect("a String takes everything");
            name = "";
        }
    }
    text
}

fn name_of(node: NodeId, topology: &Topology) -> String {
    let level = topology.nodes[node].level;
    if let Some(name) = topology.names.get(&node) {
        return name.clone();
    }
    match topology.nodes[node].os_index {
        Some(index) => format!("{level} {index}"),
        None => {
            let before = topology.nodes[..node].iter().filter(|other| other.level == level).count();
            format!("{level} {before}")
        }
    }
}

/// Entries in lines of at most `width` characters, two blanks between them.
fn wrapped(entries: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + entry.len() <= width => {
                line.push_str("  ");
                line.push_str(entry);
            }
            _ => lines.push(entry.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_equal_is_not_called_less() {
        assert_eq!(super::against(90.0, 100.0), "10.0 % below that");
        assert_eq!(super::against(104.0, 100.0), "4.0 % above that");
        assert_eq!([super::against(100.0, 100.0), super::against(0.0, 0.0)], ["that", "that"]);
    }

    #[test]
    fn the_table_has_a_line_for_each_package() {
        let topology = Topology::load("pack:2 core:2 pu:1").unwrap();
        assert_eq!(table(&[2, 0, 2], &topology), "  package 0  P0:1\n  package 1  P2:0,2\n");
    }

    #[test]
    fn long_lines_are_wrapped() {
        let entries: Vec<String> = ["aaaa", "bb", "c", "dddddddddd"].map(String::from).into();
        assert_eq!(wrapped(&entries, 8), ["aaaa  bb", "c", "dddddddddd"]);
    }
}
