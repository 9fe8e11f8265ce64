//! What can be asked of an online session.

use crate::number;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cohabit_online::allowance::OVERHEAD_PERCENT;
use cohabit_online::evidence::{KINDS, Kind};
use cohabit_online::ways::{Wanted, Way};
use std::path::PathBuf;
use std::time::Duration;

/// How to detect, and whether to move.
#[derive(clap::Args, Debug, Clone)]
pub struct OnlineArgs {
    /// Move whenever a mapping saves more than chance may, and do not undo what hurts (for experiments)
    #[arg(long)]
    pub always: bool,
    /// Say what would be moved, and move nothing
    #[arg(long, conflicts_with = "always")]
    pub dry_run: bool,
    /// Write what was seen to P as a profile
    #[arg(short, long, value_name = "P")]
    pub output: Option<PathBuf>,
    /// Bytes of memory in which two faults count as communication: a power of two from 16 to 2097152
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = block_bytes)]
    pub block: u32,
    /// Width of a bin of the profile's time series
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = number::duration)]
    pub window: Duration,
    /// What shows who shares memory, besides the program's own page faults
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = ways())]
    pub faults: Wanted,
    /// How much of the programs' CPU time detection may take, in percent, its start apart; 1 if not given
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub overhead: Option<f64>,
    /// Of the pages in use, how many extra faults a second the agent may cause, in percent; up to 500 for each task are
    /// allowed however little is in use, and all of it within --overhead
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub fault_budget: f64,
    /// Leave kinds of evidence out (for experiments: what each of them contributes)
    #[arg(long, value_name = "KIND", value_parser = kinds(), value_delimiter = ',', hide = true)]
    pub without: Vec<LeftOut>,
    /// End the observation, as Ctrl-C does, as soon as it is known of every pair of tasks whether it communicates
    #[arg(long)]
    pub until_sure: bool,
}

/// `--without`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// A kind of evidence. Samples that do not count still say where to watch.
    Kind(Kind),
    /// Of samples, those after switches.
    Switches,
}

/// Its name.
const SWITCHES: &str = "switches";

/// Samples after switches, and the kinds that count by themselves, by their names.
fn kinds() -> impl TypedValueParser<Value = LeftOut> {
    let kinds = || KINDS.iter().filter(|row| row.of.is_none());
    let names = kinds().map(|row| PossibleValue::new(row.name).help(row.about));
    let switches = PossibleValue::new(SWITCHES).help("of samples, those after switches");
    let known = PossibleValuesParser::new(names.chain([switches]).collect::<Vec<_>>());
    known.map(move |name| kinds().find(|row| row.name == name).map_or(LeftOut::Switches, |row| LeftOut::Kind(row.kind)))
}

/// The ways of looking, by their names.
fn ways() -> impl TypedValueParser<Value = Wanted> {
    let names = Wanted::all().map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).map(|name| Wanted::named(&name).unwrap_or(Wanted::Auto))
}

impl OnlineArgs {
    /// How much detection may take, in percent.
    pub fn overhead(&self) -> f64 {
        self.overhead.unwrap_or(OVERHEAD_PERCENT)
    }

    /// Whether evidence of a kind counts.
    pub fn counts(&self, kind: Kind) -> bool {
        !self.without.contains(&LeftOut::Kind(kind.row().of.unwrap_or(kind)))
    }

    /// Whether a way of looking is asked for, and anything that it gives counts.
    pub fn takes(&self, way: Way) -> bool {
        self.faults.has(way) && way.row().gives.iter().any(|&kind| self.counts(kind))
    }

    /// Whether samples may be taken after switches.
    pub fn may_sample_switches(&self) -> bool {
        !self.without.contains(&LeftOut::Switches)
    }
}

fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two() && (16..=1 << 21).contains(bytes));
    bytes.ok_or_else(|| "write a power of two from 16 to 2097152".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to 100".to_owned())
}
