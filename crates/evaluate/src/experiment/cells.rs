//! The cells of an experiment: what is run by itself, and can be run by a command of its own.

use super::file::{Experiment, slug};
use cohabit_model::{Error, Result};

/// The arm of the cell in which detectors look on.
pub const DETECTION: &str = "detection";

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The program.
    pub program: String,
    /// The machine.
    pub machine: String,
    /// Whether its last caches are scaled.
    pub scaled: bool,
    /// The arm, or [`DETECTION`].
    pub arm: String,
    /// Which draw.
    pub draw: u32,
}

/// Which cells are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Programs.
    pub programs: Vec<String>,
    /// Machines.
    pub machines: Vec<String>,
    /// Unscaled and scaled caches.
    pub scaled: Vec<bool>,
    /// Draws of each arm at most.
    pub draws: u32,
}

/// All cells, those that others need first.
pub fn cells(experiment: &Experiment, part: &Part) -> Vec<Cell> {
    let mut cells = Vec::new();
    let arms = || {
        let detection = std::iter::once((DETECTION, 1));
        detection.chain(experiment.arm.iter().map(|arm| (arm.name.as_str(), experiment.draws(arm))))
    };
    for machine in &part.machines {
        for &scaled in &part.scaled {
            for program in &part.programs {
                for (arm, draws) in arms() {
                    cells.extend((0..draws.min(part.draws)).map(|draw| Cell {
                        program: program.clone(),
                        machine: machine.clone(),
                        scaled,
                        arm: arm.to_owned(),
                        draw,
                    }));
                }
            }
        }
    }
    cells
}

impl Cell {
    /// As `--cell` takes it: `mg/harpertown/scaled/SM/0`.
    pub fn name(&self) -> String {
        let scaled = if self.scaled { "scaled" } else { "unscaled" };
        format!("{}/{}/{scaled}/{}/{}", self.program, self.machine, self.arm, self.draw)
    }

    /// The name of its file.
    pub fn file(&self) -> String {
        slug(&self.name()) + ".json"
    }

    /// The cell among `cells` that has this name.
    ///
    /// # Errors
    /// None has.
    pub fn find(cells: &[Self], name: &str) -> Result<Self> {
        cells.iter().find(|cell| cell.name() == name).cloned().ok_or_else(|| {
            Error::new(format!("there is no cell {name:?}"))
                .remedy("--cells lists them; name the same programs and machines")
        })
    }

    /// The cell in which detectors look on, for this one.
    pub fn detection(&self) -> Self {
        Self { arm: DETECTION.to_owned(), draw: 0, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cells_have_names_of_their_own() {
        for given in super::super::EXPERIMENTS {
            let experiment = Experiment::named(given.name).unwrap();
            let part = Part {
                programs: experiment.programs.clone(),
                machines: experiment.machines.clone(),
                scaled: vec![false, true],
                draws: u32::MAX,
            };
            let cells = cells(&experiment, &part);
            let files: BTreeSet<_> = cells.iter().map(Cell::file).collect();
            assert_eq!(files.len(), cells.len(), "{}", given.name);
            for cell in &cells {
                assert_eq!(&Cell::find(&cells, &cell.name()).unwrap(), cell);
                assert!(cells.contains(&cell.detection()));
            }
            assert!(Cell::find(&cells, "mg").is_err());
        }
    }
}
