//! What `cohabit compare` and `cohabit tune` are both asked.

use super::arms::{MemoryArg, Switch};
use super::results::By;
use crate::number;
use clap::ValueEnum;
use cohabit_evaluate::compare::{CONFIDENCES, SAME_PROGRAM, Terms};
use cohabit_model::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured, and how long.
#[derive(clap::Args, Debug, Clone)]
pub struct MeasureArgs {
    /// Compare by this number that the program prints, the last one that REGEX finds: its group is around the number
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    /// Which metric is the better one [default: lower]
    #[arg(long, value_name = "WHICH", value_enum, requires = "metric")]
    better: Option<Better>,
    /// What else to compare by than the time from start to end
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "metric")]
    by: Option<Time>,
    /// How narrow the interval of each change is to be: half its width
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    pub precision: f64,
    /// No new block is begun that would not end within this time, but for the few without which nothing can be said
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = number::duration)]
    pub budget: Duration,
    /// How sure intervals and claims are to be
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = confidence)]
    confidence: f64,
    /// Runs of each arm at the start that do not count
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// What every run reads as its standard input [default: nothing]
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Exit statuses of a program that went well
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "0")]
    status: Vec<u8>,
    /// How closely threads are confined, as with 'cohabit run'
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Pinning::Auto)]
    pinning: Pinning,
    /// Keep the main thread to its PU from its first instruction on, as with 'cohabit run'
    #[arg(long)]
    hold_main: bool,
}

/// Further arms.
#[derive(clap::Args, Debug, Clone)]
pub struct MemoryArgs {
    /// Where memory comes from, for every placement; several make an arm each
    #[arg(long, value_name = "FROM", value_enum)]
    pub memory: Vec<MemoryArg>,
    /// The kernel's NUMA balancing, for every placement, put back afterwards; both make an arm each
    #[arg(long, value_name = "STATE", value_enum)]
    pub numa_balancing: Vec<Switch>,
}

/// `--better`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Better {
    /// A time, say
    Lower,
    /// A rate, say
    Higher,
}

/// `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Time {
    /// From start to end
    Wall,
    /// CPU time of all that the program starts
    Cpu,
}

/// How runs are made.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// `--pinning always` of `cohabit run`, where an arm is placed.
    pub always: bool,
    /// Its `--hold-main`.
    pub hold_main: bool,
    /// Exit statuses of a program that went well.
    pub statuses: Vec<u8>,
}

impl How {
    /// Whether a program went well: its status, as documents have it.
    pub fn is_well(&self, status: &Value) -> bool {
        status["exited"].as_u64().is_some_and(|status| self.statuses.iter().any(|&known| u64::from(known) == status))
    }

    /// A program that ended with a status that is not among these: `cause` says so.
    pub fn ill(&self, cause: String, status: u8) -> Error {
        let known: Vec<String> = self.statuses.iter().chain([&status]).map(u8::to_string).collect();
        let option = format!("--status {}", known.join(","));
        Error::new(cause)
            .remedy(format!("mend what makes it fail; where it ends so when all went well, {option} says that"))
    }
}

/// `--pinning`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pinning {
    /// As far as the mapping gains by it
    Auto,
    /// Each to its one PU
    Always,
}

impl MeasureArgs {
    /// What is compared.
    pub fn what(&self) -> By {
        match (&self.metric, self.by) {
            (Some(text), _) => By::Metric(text.clone()),
            (None, Some(Time::Cpu)) => By::Cpu,
            (None, _) => By::Wall,
        }
    }

    /// How every run is made.
    pub fn how(&self) -> How {
        How { always: self.pinning == Pinning::Always, hold_main: self.hold_main, statuses: self.status.clone() }
    }

    /// How arms are placed and what each run reads, as the results keep it.
    pub fn treatment(&self) -> String {
        let always = (self.pinning == Pinning::Always).then(|| "--pinning always".to_owned());
        let hold = self.hold_main.then(|| "--hold-main".to_owned());
        let input = self.input.as_ref().map(|path| format!("--input {}", path.display()));
        [always, hold, input].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// How it is judged.
    pub fn terms(&self) -> Terms {
        Terms {
            confidence: self.confidence,
            floor: SAME_PROGRAM,
            higher_is_better: self.better == Some(Better::Higher),
        }
    }
}

/// `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 0.01));
    let share = number.parse::<f64>().map(|number| number * scale);
    share
        .ok()
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "write a share between 0 and 1, as in 1% or 0.01".to_owned())
}

/// A share that many blocks can show.
fn confidence(text: &str) -> Result<f64, String> {
    share(text)
        .ok()
        .filter(|share| CONFIDENCES.contains(share))
        .ok_or_else(|| "write a share from 50% to 99.99%, as in 99%".to_owned())
}

/// Refuses `-` as the name of a file that is read again: there is no standard output to go on from.
///
/// # Errors
/// Says which option.
pub fn named_file(option: &str, path: &Path) -> Result<()> {
    match path == Path::new("-") {
        true => Err(Error::new(format!("{option} -: what it writes is kept in a file, to be read again"))
            .remedy("name a file; --json - writes what was found to standard output")),
        false => Ok(()),
    }
}

/// Refuses names that mean nothing without others.
///
/// # Errors
/// Says which.
pub fn mapper_with_profile(mappers: &[String], profile: Option<&PathBuf>) -> Result<()> {
    match (mappers.is_empty(), profile) {
        (false, None) => Err(Error::new("--mapper needs the profile that is to be mapped")
            .remedy("add --profile p.npz, or leave --mapper out")),
        (true, Some(_)) => Err(Error::new("--profile needs the mapper that is to map it")
            .remedy("add --mapper best, or leave --profile out")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_either_way() {
        for (text, expected) in [
            ("1%", Some(0.01)),
            ("0.01", Some(0.01)),
            ("2.5 %", Some(0.025)),
            ("0", None),
            ("100%", None),
            ("x", None),
            ("-1%", None),
        ] {
            assert_eq!(
                share(text).ok().map(|share| (share * 1e6).round()),
                expected.map(|share: f64| (share * 1e6).round()),
                "{text}"
            );
        }
        assert!(confidence("95%").is_ok() && confidence("20%").is_err() && confidence("99.999%").is_err());
    }
}
