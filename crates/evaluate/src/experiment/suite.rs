//! Programs by suite and class: how large, and how long.
//!
//! Two scales follow. Caches are made smaller by what the working set is smaller than in the paper's class: the last
//! cache over the working set is then as in the paper. Intervals of detectors are made shorter by what the run is
//! shorter, so that there are as many in it.

use cohabit_model::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Its programs are of MPI: their tasks are ranks.
    #[serde(default)]
    pub ranks: bool,
    /// Its programs.
    pub program: Vec<Program>,
}

/// A program of it, by class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Where it is in the suite's folder; by default its name and class, `mg.S`. `{class}` and `{tasks}` stand for
    /// these.
    pub file: Option<String>,
    /// Its arguments by class; `{tasks}` stands for the number of tasks.
    #[serde(default)]
    pub arguments: BTreeMap<String, Vec<String>>,
    /// Whether it takes numbers of tasks that are powers of two only.
    #[serde(default)]
    pub power_of_two: bool,
    /// Whether it takes square numbers of tasks only.
    #[serde(default)]
    pub square: bool,
    /// What its working set grows with.
    pub size: BTreeMap<String, f64>,
    /// How often it goes over that.
    pub iterations: BTreeMap<String, f64>,
}

/// How much smaller a class is than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Its working set.
    pub size: f64,
    /// Its run.
    pub time: f64,
}

impl Scale {
    /// Nothing is smaller.
    pub const NONE: Self = Self { size: 1.0, time: 1.0 };
}

/// Every suite there is: its name, and its file.
pub static SUITES: &[(&str, &str)] = &[
    ("npb-omp", include_str!("../../../../testdata/experiments/npb-omp.toml")),
    ("npb-mpi", include_str!("../../../../testdata/experiments/npb-mpi.toml")),
    ("splash", include_str!("../../../../testdata/experiments/splash.toml")),
];

/// The suite of a name.
///
/// # Errors
/// That there is none.
pub fn named(name: &str) -> Result<Suite> {
    let (_, text) = SUITES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| Error::new(format!("there is no suite {name:?}")))?;
    toml::from_str(text).map_err(|error| Error::new(error.message().to_owned()))
}

/// The program of a name in one of these suites.
///
/// # Errors
/// None has it.
pub fn program(suites: &[String], name: &str) -> Result<Program> {
    for suite in suites {
        if let Some(found) = named(suite)?.program.into_iter().find(|program| program.name == name) {
            return Ok(found);
        }
    }
    Err(Error::new(format!("the suites have no {name}")))
}

/// The suite among these that has a program.
pub fn suite_of<'a>(suites: &'a [String], name: &str) -> Option<&'a str> {
    let has = |suite: &&String| named(suite).is_ok_and(|found| found.program.iter().any(|one| one.name == name));
    suites.iter().find(has).map(String::as_str)
}

impl Program {
    /// Where it is in the suite's folder.
    pub fn file(&self, class: &str, tasks: usize) -> String {
        match &self.file {
            Some(file) => file.replace("{class}", class).replace("{tasks}", &tasks.to_string()),
            None => format!("{}.{class}", self.name),
        }
    }

    /// Its arguments for so many tasks.
    pub fn arguments(&self, class: &str, tasks: usize) -> Vec<String> {
        let given = self.arguments.get(class).map_or(&[][..], Vec::as_slice);
        given.iter().map(|word| word.replace("{tasks}", &tasks.to_string())).collect()
    }

    /// How many tasks it takes where there is room for so many.
    pub fn tasks(&self, room: usize) -> usize {
        match room {
            1.. if self.power_of_two => 1 << room.ilog2(),
            1.. if self.square => room.isqrt().pow(2),
            _ => room,
        }
    }

    /// How much smaller class `ours` is than class `paper`; never larger.
    ///
    /// # Errors
    /// There is no such class.
    pub fn scale(&self, ours: &str, paper: &str) -> Result<Scale> {
        let of = |table: &BTreeMap<String, f64>, class: &str| {
            table.get(class).copied().ok_or_else(|| {
                let classes: Vec<_> = table.keys().map(String::as_str).collect();
                Error::new(format!("{} has no class {class}", self.name))
                    .remedy(format!("one of {}", classes.join(", ")))
            })
        };
        let size = of(&self.size, paper)? / of(&self.size, ours)?;
        let time = size * of(&self.iterations, paper)? / of(&self.iterations, ours)?;
        Ok(Scale { size: size.max(1.0), time: time.max(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_scaled_by_size_and_by_work() {
        let suites = ["npb-omp".to_owned(), "splash".to_owned()];
        for (name, ours, paper, size, time) in [
            ("mg", "S", "W", 8.0, 80.0),
            ("bt", "S", "W", 8.0, 8.0 * 200.0 / 60.0),
            ("ep", "S", "W", 1.0, 2.0),
            ("is", "W", "W", 1.0, 1.0),
            ("is", "W", "S", 1.0, 1.0),
            ("ocean", "S", "W", 66564.0 / 16900.0, 66564.0 / 16900.0),
        ] {
            let scale = program(&suites, name).unwrap().scale(ours, paper).unwrap();
            assert!((scale.size - size).abs() < 1e-9 && (scale.time - time).abs() < 1e-9, "{name}: {scale:?}");
        }
        assert!(program(&suites, "mg").unwrap().scale("X", "W").is_err());
    }

    #[test]
    fn programs_know_their_files_and_arguments() {
        let suites = ["npb-omp".to_owned(), "splash".to_owned()];
        let mg = program(&suites, "mg").unwrap();
        assert_eq!((mg.file("W", 8), mg.arguments("W", 8), mg.tasks(56)), ("mg.W".to_owned(), vec![], 56));
        let ocean = program(&suites, "ocean").unwrap();
        assert!(ocean.arguments("S", 32).contains(&"-p32".to_owned()));
        assert_eq!([1, 2, 31, 32, 56].map(|room| ocean.tasks(room)), [1, 2, 16, 32, 32]);
        assert_eq!((suite_of(&suites, "ocean"), suite_of(&suites, "x")), (Some("splash"), None));
        let ranks = ["npb-mpi".to_owned()];
        let (bt, cg) = (program(&ranks, "bt").unwrap(), program(&ranks, "cg").unwrap());
        assert_eq!([1, 2, 15, 16, 32].map(|room| bt.tasks(room)), [1, 1, 9, 16, 25]);
        assert_eq!([1, 15, 32].map(|room| cg.tasks(room)), [1, 8, 32]);
        assert_eq!(cg.file("S", 16), "cg.S.16");
        assert!(named("npb-mpi").unwrap().ranks && !named("npb-omp").unwrap().ranks);
        assert!(program(&suites[..1], "ocean").is_err() && named("hpcc").is_err());
    }
}
