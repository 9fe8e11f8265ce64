//! The file of parameters of an experiment, and those that are given.

use super::results::MEASURES;
use cohabit_model::mapping_file::check_format;
use cohabit_model::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The format number of such a file.
pub const FORMAT: u64 = 1;

/// An experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// [`FORMAT`].
    pub format: u64,
    /// Its name.
    pub name: String,
    /// What it shows, in a line.
    pub about: String,
    /// Which paper it is from.
    pub paper: String,
    /// The suites that its programs are of ([`super::suite`]).
    pub suites: Vec<String>,
    /// The programs, by their names in the suites.
    pub programs: Vec<String>,
    /// Tasks of each program.
    pub tasks: usize,
    /// Of each program on machines where there were others than `tasks`.
    #[serde(default)]
    pub tasks_on: BTreeMap<String, usize>,
    /// The class that the paper ran.
    pub class: String,
    /// Machines, as the simulator names them.
    pub machines: Vec<String>,
    /// Detectors that look on besides those that arms and statements name.
    #[serde(default)]
    pub detectors: Vec<String>,
    /// The arm that others are compared with.
    pub baseline: String,
    /// Changes up to this are none.
    pub floor_percent: f64,
    /// The operating system's placement.
    pub system: System,
    /// Ways to place tasks.
    pub arm: Vec<Arm>,
    /// Changes that the paper gives as numbers.
    #[serde(default)]
    pub change: Vec<Change>,
    /// Statements in words.
    #[serde(default)]
    pub claim: Vec<Claim>,
    /// Statements that cannot be tried.
    #[serde(default)]
    pub not_tried: Vec<NotTried>,
}

/// How the operating system places and moves tasks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Placements drawn.
    pub draws: u32,
    /// Of the whole machine, each second of the paper's run.
    pub migrations_per_s: f64,
    /// How long each program runs in the paper: so many migrations there are in a run here.
    #[serde(default)]
    pub run_s: BTreeMap<String, f64>,
}

/// What places tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A mapper.
    #[default]
    Mapper,
    /// The operating system, as modelled.
    System,
    /// Distinct placements, by J of exact communication: draw k is the k-th.
    Ranked,
}

/// What is taken of several draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// Their mean.
    #[default]
    Mean,
    /// That of the draw that takes least time.
    Fastest,
}

/// A way to place tasks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// What places.
    #[serde(default)]
    pub by: By,
    /// Which mapper.
    pub mapper: Option<String>,
    /// Instead of one: draw k is by the k-th of them.
    #[serde(default)]
    pub mappers: Vec<String>,
    /// What the mapper is to make small.
    pub objective: Option<String>,
    /// Whose matrix the mapper has.
    #[serde(default = "exact")]
    pub detector: String,
    /// Whether two tasks may share a core while another is free.
    #[serde(default)]
    pub share_cores: bool,
    /// Where memory comes from, as `cohabit simulate --memory` takes it; by default from the node that touches it
    /// first.
    pub memory: Option<String>,
    /// Draws; of a mapper, with other seeds.
    pub draws: Option<u32>,
    /// What is taken of them.
    #[serde(default)]
    pub take: Take,
}

/// Changes in numbers: a statement for each program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Of what ([`MEASURES`]).
    pub measure: String,
    /// Under which arm.
    pub arm: String,
    /// Over which.
    pub over: String,
    /// Where the paper says so.
    pub source: String,
    /// By program.
    pub percent: BTreeMap<String, f64>,
}

/// What is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// By more than the floor.
    Less,
    /// By more than the floor.
    More,
    /// But for the floor.
    Same,
    /// Less, or the same but for the floor.
    NotMore,
}

/// A statement in words.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What it says.
    pub says: String,
    /// Where.
    pub source: String,
    /// Of what ([`MEASURES`]).
    pub measure: String,
    /// Of which programs, each of them; none named: all.
    #[serde(default)]
    pub programs: Vec<String>,
    /// On which machine; none: on each.
    pub machine: Option<String>,
    /// Under which arm, or of which detector.
    pub arm: String,
    /// Compared with which; none: with `than`.
    pub over: Option<String>,
    /// A number to compare with.
    pub than: Option<f64>,
    /// Of the mean over all its programs, instead of each.
    #[serde(default)]
    pub average: bool,
    /// What it says of the comparison.
    pub expect: Expect,
}

/// A statement that cannot be tried.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotTried {
    /// What it says.
    pub says: String,
    /// Where.
    pub source: String,
    /// Why it cannot be tried.
    pub reason: String,
}

fn exact() -> String {
    "exact".to_owned()
}

/// A given experiment.
pub struct Given {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! given {
    ($($name:literal),*) => {
        &[$(Given { name: $name, text: include_str!(concat!("../../../../testdata/experiments/", $name, ".toml")) }),*]
    };
}

/// Every experiment there is.
pub static EXPERIMENTS: &[Given] =
    given!["tlb2012", "cdsm2015", "cdsm2015-mpi", "deloc2020", "deloc2020-mpi", "complace", "beyond"];

impl Experiment {
    /// The experiment of a name.
    ///
    /// # Errors
    /// That there is none, with the names there are.
    pub fn named(name: &str) -> Result<Self> {
        let given = EXPERIMENTS.iter().find(|given| given.name == name).ok_or_else(|| {
            let names: Vec<_> = EXPERIMENTS.iter().map(|given| given.name).collect();
            Error::new(format!("there is no experiment {name:?}")).remedy(format!("one of: {}", names.join(", ")))
        })?;
        Self::parse(given.text).map_err(|error| error.at(name))
    }

    /// Reads TOML.
    ///
    /// # Errors
    /// Where it is no such file, or names arms and measures that are not there.
    pub fn parse(text: &str) -> Result<Self> {
        let read: Self = toml::from_str(text).map_err(|error| Error::new(error.message().replace('\n', " ")))?;
        check_format(read.format, FORMAT, "experiment")?;
        read.check()?;
        Ok(read)
    }

    /// The arm of a name.
    pub fn arm(&self, name: &str) -> Option<&Arm> {
        self.arm.iter().find(|arm| arm.name == name)
    }

    /// How many draws an arm has.
    pub fn draws(&self, arm: &Arm) -> u32 {
        let own = match arm.by {
            By::System => self.system.draws,
            _ => u32::try_from(arm.mappers.len()).unwrap_or(u32::MAX).max(1),
        };
        arm.draws.unwrap_or(own)
    }

    /// Whether a detector looks on: it is named, or an arm or a statement names it. Exact communication is always
    /// known.
    pub fn wants(&self, detector: &str) -> bool {
        let of_claims = self.claim.iter().flat_map(|claim| std::iter::once(&claim.arm).chain(&claim.over));
        let of_arms = self.arm.iter().map(|arm| &arm.detector);
        detector == "exact" || self.detectors.iter().chain(of_arms).chain(of_claims).any(|name| name == detector)
    }

    /// How many tasks each program has on a machine.
    pub fn tasks_on(&self, machine: &str) -> usize {
        self.tasks_on.get(machine).copied().unwrap_or(self.tasks)
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(what));
        if let Some(machine) = self.tasks_on.keys().find(|name| !self.machines.contains(name)) {
            return wrong(format!("tasks_on: there is no machine {machine:?}"));
        }
        if self.arm(&self.baseline).is_none() {
            return wrong(format!("baseline: there is no arm {:?}", self.baseline));
        }
        for arm in &self.arm {
            let named = usize::from(arm.mapper.is_some()) + usize::from(!arm.mappers.is_empty());
            if named != usize::from(arm.by == By::Mapper) {
                return wrong(format!("arm {:?}: a mapper is named where one places, and only there", arm.name));
            }
            if self.arm.iter().filter(|other| slug(&other.name) == slug(&arm.name)).count() > 1 {
                return wrong(format!("arm {:?}: two arms of that name", arm.name));
            }
        }
        let measures = self.change.iter().map(|change| &change.measure);
        for measure in measures.chain(self.claim.iter().map(|claim| &claim.measure)) {
            if !MEASURES.iter().any(|known| known.name == measure) {
                return wrong(format!("there is no measure {measure:?}"));
            }
        }
        for claim in &self.claim {
            if claim.over.is_some() == claim.than.is_some() {
                return wrong(format!("{:?}: compare it with an arm or with a number", claim.says));
            }
        }
        Ok(())
    }
}

/// A name as part of a file's name.
pub fn slug(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::suite;

    #[test]
    fn given_experiments_are_sound() {
        for given in EXPERIMENTS {
            let experiment = Experiment::named(given.name).unwrap();
            assert_eq!(experiment.name, given.name);
            for program in &experiment.programs {
                let found = suite::program(&experiment.suites, program).unwrap();
                assert!(found.size.contains_key(&experiment.class), "{program}");
            }
            let detectors = ["exact", "deloc", "sharing", "cdsm", "tlb-sm", "tlb-sm-1", "tlb-hm"];
            let known = |name: &str| experiment.arm(name).is_some() || detectors.contains(&name);
            for claim in &experiment.claim {
                assert!(known(&claim.arm) && claim.over.as_deref().is_none_or(known), "{}", claim.says);
                assert!(claim.programs.iter().all(|program| experiment.programs.contains(program)), "{}", claim.says);
                assert!(claim.machine.iter().all(|machine| experiment.machines.contains(machine)), "{}", claim.says);
            }
            assert!(detectors.iter().all(|name| experiment.arm(name).is_none()), "results are told apart by name");
            assert!(experiment.arm.iter().all(|arm| experiment.wants(&arm.detector)) && experiment.wants("exact"));
            assert_eq!(experiment.wants("tlb-hm"), ["tlb2012", "beyond"].contains(&given.name), "{}", given.name);
            for change in &experiment.change {
                assert!(experiment.arm(&change.arm).is_some() && experiment.arm(&change.over).is_some());
            }
        }
        let error = Experiment::named("ibm").unwrap_err();
        assert!(error.remedy.unwrap().contains("tlb2012"));
    }

    #[test]
    fn what_is_none_is_refused() {
        let text = EXPERIMENTS[0].text;
        for (from, to) in [
            ("format = 1", "format = 99"),
            ("baseline = \"OS\"", "baseline = \"os2\""),
            ("measure = \"time\"", "measure = \"joy\""),
            ("name = \"SM-1\"", "name = \"SM 1\"\ncolour = 3"),
            ("name = \"SM-1\"", "name = \"sm\""),
            ("mapper = \"matching\"", "mapper = \"matching\"\nmappers = [\"packed\"]"),
            ("tasks = 8", "tasks = 8\ntasks_on = { moon = 9 }"),
        ] {
            assert!(Experiment::parse(&text.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
