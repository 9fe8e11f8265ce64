//! `cohabit compare-detectors`: all detectors on one recorded run.

use super::Outcome;
use crate::command_line::given;
use crate::json::JsonArgs;
use crate::machine::MachineArgs;
use crate::output::note;
use crate::recording::{RecordingArgs, place, read_under_progress};
use cohabit_access::Recording;
use cohabit_detect::compare::{Agreement, Compared, Found, compare};
use cohabit_detect::{Setting, Tlb};
use cohabit_map::objective::objective;
use cohabit_map::{Options, Problem, mapper};
use cohabit_memory::{Machine, Options as SimulationOptions, simulate};
use cohabit_model::cost::distance_cost;
use cohabit_model::{Error, Matrix, Result, Topology};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const EXAMPLES: &str = "\
Examples:
  cohabit record -o r.rec -- ./solver
  cohabit compare-detectors r.rec --topology \"pack:2 core:4 pu:1\"
  cohabit compare-detectors --topology \"pack:2 core:4 pu:1\" -- ./solver
  cohabit compare-detectors r.rec --sampled 20        each of them also seeing a twentieth
  cohabit compare-detectors r.rec --time-scale 1000   for runs much shorter than the papers'
  cohabit compare-detectors r.rec --simulate purple   what each one's mapping takes there

J is the distance cost of exact communication under the mapping that `best`
makes of each detector's matrix: what it would have cost to rely on it.";

/// Arguments of `cohabit compare-detectors`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareDetectors {
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Simulate the mapping that each detector leads to on this machine (as `cohabit simulate --machine`), and map for
    /// it
    #[arg(long, value_name = "M", conflicts_with_all = ["topology", "level_costs"])]
    simulate: Option<String>,
    /// Bytes of a block, for detectors that look at blocks: a power of two from 16 to 4096
    #[arg(long, value_name = "N", default_value = "64", value_parser = super::profile::block_bytes)]
    block: u32,
    /// Divide the papers' intervals (10 ms, 10 million cycles) by this
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = positive)]
    time_scale: f64,
    /// Cycles that an access takes, the instructions around it counted in
    #[arg(long, value_name = "X", default_value_t = 4.0, value_parser = positive)]
    cycles_per_access: f64,
    /// Entries of each core's TLB
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    tlb_entries: u32,
    /// Entries of one of its sets
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    tlb_ways: u32,
    /// Bytes of a page: 4k or 2m
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = ["4k", "2m"])]
    page: String,
    /// Show each detector also as it is when it sees one stretch of 10,000 accesses in N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    sampled: Option<u64>,
    #[command(flatten)]
    json: JsonArgs,
}

/// What a detector's matrix leads to: nothing where it saw nothing.
struct Led {
    found: Found,
    placement: Option<Vec<usize>>,
    cost: Option<u128>,
    /// Simulated, in fs.
    time_fs: Option<u64>,
}

impl CompareDetectors {
    /// Prints the table.
    pub fn run(self) -> Outcome {
        let machine = self.simulate.as_deref().map(Machine::load).transpose()?;
        let topology = match &machine {
            Some(machine) => machine.topology.clone(),
            None => self.machine.load()?,
        };
        self.json.check()?;
        self.setting(1)?;
        let named = self.recording.open(&self.json)?;
        let recording = &named.recording;
        let setting = self.setting(recording.tasks().len())?;
        let Compared { found, work } =
            read_under_progress("detecting", &**recording, 1, |read| compare(read, &setting))?;
        let exact = found
            .iter()
            .find(|found| found.row.name == "exact" && found.sampled.is_none())
            .map(|found| found.detected.matrix.clone());
        let exact = exact.unwrap_or_else(|| Matrix::zero(setting.tasks));
        let mut led = found
            .into_iter()
            .map(|found| led(found, &exact, &work.beside_others(), &topology))
            .collect::<Result<Vec<_>>>()?;
        if let Some(machine) = &machine {
            named.warn_of_times();
            let placements: BTreeSet<_> = led.iter().filter_map(|led| led.placement.clone()).collect();
            let simulate_all = |read: &dyn Recording| simulate_all(&mut led, read, machine);
            read_under_progress("simulating", &**recording, placements.len(), simulate_all)?;
        }
        if exact.total() == 0 {
            note("no two tasks communicate in this recording: there is nothing that a detector could find");
        }
        let rows: Vec<_> = led.iter().map(Led::json).collect();
        let fields = json!({ "arguments": given(), "recording": named.name, "program": named.program, "tasks": setting.tasks, "topology": topology.text, "detectors": rows });
        self.json.emit("compare-detectors", fields, &table(&led))?;
        Ok(named.end())
    }

    fn setting(&self, tasks: usize) -> Result<Setting> {
        let tlb = Tlb {
            entries: self.tlb_entries as usize,
            ways: self.tlb_ways as usize,
            page_shift: if self.page == "2m" { 21 } else { 12 },
        };
        if tlb.entries % tlb.ways != 0 {
            return Err(Error::new(format!("a TLB of {} entries has no whole sets of {}", tlb.entries, tlb.ways))
                .remedy("give a multiple of --tlb-ways for --tlb-entries"));
        }
        Ok(Setting {
            block_bytes: self.block.into(),
            cycles_per_access: self.cycles_per_access,
            time_scale: self.time_scale,
            tlb,
            sampled: self.sampled,
            ..Setting::new(tasks)
        })
    }
}

fn led(found: Found, exact: &Matrix, load: &[u64], topology: &Topology) -> Result<Led> {
    if found.detected.matrix.total() == 0 {
        return Ok(Led { found, placement: None, cost: None, time_fs: None });
    }
    let best = mapper("best")?;
    let options = Options::default();
    let problem = Problem { weight: &found.detected.matrix, load, periods: &[], topology, options: &options };
    let placement = place(&problem, best, objective("distance")?)?;
    let cost = Some(distance_cost(exact, topology, &placement));
    Ok(Led { cost, placement: Some(placement), time_fs: None, found })
}

/// Simulates the mapping of each; the same one once.
fn simulate_all(led: &mut [Led], recording: &dyn Recording, machine: &Machine) -> Result<()> {
    for index in 0..led.len() {
        let (before, rest) = led.split_at_mut(index);
        let now = &mut rest[0];
        let Some(placement) = &now.placement else { continue };
        now.time_fs = match before.iter().find(|other| other.placement.as_ref() == Some(placement)) {
            Some(same) => same.time_fs,
            None => Some(simulate(recording, machine, placement, &SimulationOptions::default())?.time_fs),
        };
    }
    Ok(())
}

impl Led {
    fn json(&self) -> Value {
        let Found { row, sampled, detected, with_communication, with_sharing } = &self.found;
        let agreement = |agreement: &Agreement| json!({ "correlation": agreement.correlation, "rank_correlation": agreement.rank_correlation });
        json!({
            "name": row.name, "sampled": sampled, "source": row.source, "events": crate::number::sum(detected.matrix.total()),
            "matrix": detected.matrix.iter().collect::<Vec<_>>(), "looked": detected.looked, "occasions": detected.occasions, "overhead": detected.overhead,
            "with_communication": agreement(with_communication), "with_sharing": agreement(with_sharing),
            "distance_cost": self.cost.map(crate::number::sum), "simulated_ns": self.time_fs.map(|time| time as f64 / 1e6),
        })
    }
}

fn table(led: &[Led]) -> String {
    let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.3} %", 100.0 * value));
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let best = led.iter().filter_map(|led| led.cost).min().unwrap_or(0);
    let shortest = led.iter().filter_map(|led| led.time_fs).min();
    let mut text = format!(
        "{:<20} {:>13} {:>13} {:>10}  {:>15}  {:>15}  {:>8}{}\n",
        "",
        "looked at",
        "events",
        "overhead",
        "communication",
        "sharing",
        "J/best",
        if shortest.is_some() { "  simulated  /best" } else { "" },
    );
    text +=
        &format!("{:<20} {:>13} {:>13} {:>10}  {:>7} {:>7}  {:>7} {:>7}\n", "", "", "", "", "r", "ranks", "r", "ranks");
    for Led { found, cost, time_fs, .. } in led {
        let simulated = match (time_fs, shortest) {
            (Some(time), Some(shortest)) => format!(
                "  {:>9}  {:>5.3}",
                crate::number::seconds(*time as f64 / 1e15),
                *time as f64 / shortest.max(1) as f64
            ),
            (None, Some(_)) => format!("  {:>9}  {:>5}", "-", "-"),
            _ => String::new(),
        };
        let ratio =
            cost.filter(|_| best > 0).map_or("-".to_owned(), |cost| format!("{:.3}", cost as f64 / best as f64));
        text += &format!(
            "{:<20} {:>13} {:>13} {:>10}  {:>7} {:>7}  {:>7} {:>7}  {ratio:>8}{simulated}\n",
            name(found),
            found.detected.looked,
            found.detected.matrix.total(),
            percent(found.detected.overhead),
            number(found.with_communication.correlation),
            number(found.with_communication.rank_correlation),
            number(found.with_sharing.correlation),
            number(found.with_sharing.rank_correlation),
        );
    }
    text
}

/// As in `cohabit detectors`, with what it was sampled by.
fn name(found: &Found) -> String {
    found.sampled.map_or(found.row.name.to_owned(), |every| format!("{} 1/{every}", found.row.name))
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("write a number greater than 0".to_owned()),
    }
}
