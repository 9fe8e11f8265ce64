//! Programs by suite and class: how large, and how long.
//!
//! Two scales follow. Caches are made smaller by what the working set is smaller than in the paper's class: the last cache over the
//! working set is then as in the paper. Intervals of detectors are made shorter by what the run is shorter, so that there are as
//! many in it.

use cohabit_model::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Its programs.
    pub program: Vec<Program>,
}

/// A program of it, by class.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name.
    pub name: String,
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

/// The suite of a name.
///
/// # Errors
/// That there is none.
pub fn named(name: &str) -> Result<Suite> {
    match name {
        "npb-omp" => toml::from_str(include_str!("../../../../testdata/experiments/npb-omp.toml"))
            .map_err(|error| Error::new(error.message().to_owned())),
        _ => Err(Error::new(format!("there is no suite {name:?}"))),
    }
}

impl Suite {
    /// The program of a name.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.program.iter().find(|program| program.name == name)
    }
}

impl Program {
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
        let suite = named("npb-omp").unwrap();
        for (name, ours, paper, size, time) in [
            ("mg", "S", "W", 8.0, 80.0),
            ("bt", "S", "W", 8.0, 8.0 * 200.0 / 60.0),
            ("ep", "S", "W", 1.0, 2.0),
            ("is", "W", "W", 1.0, 1.0),
            ("is", "W", "S", 1.0, 1.0),
        ] {
            let scale = suite.program(name).unwrap().scale(ours, paper).unwrap();
            assert!((scale.size - size).abs() < 1e-9 && (scale.time - time).abs() < 1e-9, "{name}: {scale:?}");
        }
        assert!(suite.program("mg").unwrap().scale("X", "W").is_err());
    }
}
