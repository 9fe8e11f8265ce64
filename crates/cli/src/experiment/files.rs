//! What a cell found, as a file: written whole or not at all, and taken again only where it was made from the same.

use crate::json::write_text;
use cohabit_evaluate::experiment::results::Values;
use cohabit_evaluate::experiment::{Cell, Results};
use cohabit_model::mapping_file::check_format;
use cohabit_model::{Error, Matrix, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The format number of a cell's file.
const FORMAT: u64 = 1;
/// Bytes of the largest cell that is read: a matrix of 1,024 tasks.
const MOST_BYTES: u64 = 64 << 20;

/// A cell's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// [`FORMAT`].
    pub format: u64,
    /// The experiment.
    pub experiment: String,
    /// The cell's name.
    pub cell: String,
    /// What it was made from: the recording, the machine, the arm.
    pub made_from: String,
    /// Where each task began: indices into the machine's PUs.
    pub pus: Vec<usize>,
    /// How often two PUs changed places.
    pub exchanges: usize,
    /// Simulated time.
    pub time_fs: u64,
    /// By arm (in the cell of detection by detector), then measure.
    pub values: BTreeMap<String, Values>,
    /// In the cell of detection: what each detector saw, (source, destination, events).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detected: BTreeMap<String, Vec<(u32, u32, u64)>>,
}

impl Found {
    /// Of a cell.
    pub fn new(experiment: &str, cell: &Cell, made_from: String) -> Self {
        Self {
            format: FORMAT,
            experiment: experiment.to_owned(),
            cell: cell.name(),
            made_from,
            pus: Vec::new(),
            exchanges: 0,
            time_fs: 0,
            values: BTreeMap::new(),
            detected: BTreeMap::new(),
        }
    }

    /// What a detector saw.
    ///
    /// # Errors
    /// It is not there.
    pub fn matrix(&self, detector: &str) -> Result<Matrix> {
        let triplets = self.detected.get(detector).ok_or_else(|| {
            Error::new(format!("{}: there is nothing of a detector {detector}", self.cell))
                .remedy("remove its file, and run it again")
        })?;
        let tasks = self.pus.len();
        if triplets.iter().any(|&(a, b, _)| a.max(b) as usize >= tasks) {
            return Err(
                Error::new(format!("{}: a task beyond {tasks}", self.cell)).remedy("remove its file, and run it again")
            );
        }
        Ok(Matrix::from_triplets(tasks, triplets.iter().copied()))
    }
}

/// The folder that cells are kept in.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// Below what `-o` names.
    pub fn new(output: &Path) -> Self {
        Self(output.join("cells"))
    }

    /// Makes it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(&self) -> Result<()> {
        std::fs::create_dir_all(&self.0).map_err(|error| cohabit_model::file::cannot_write(&self.0, &error))
    }

    /// What a cell found; none where it has not run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, cell: &Cell) -> Result<Option<Found>> {
        let path = self.0.join(cell.file());
        if !path.exists() {
            return Ok(None);
        }
        let text = cohabit_model::file::read_text(&path, MOST_BYTES)?;
        let damaged = |what: String| {
            Error::new(what).at(path.display().to_string()).remedy("remove it: its cell is then run again")
        };
        let found: Found = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        check_format(found.format, FORMAT, "cell")?;
        if found.cell != cell.name() {
            return Err(damaged(format!("it is of the cell {}", found.cell)));
        }
        Ok(Some(found))
    }

    /// The same where it was made from that.
    ///
    /// # Errors
    /// As [`Folder::read`].
    pub fn read_made_from(&self, cell: &Cell, made_from: &str) -> Result<Option<Found>> {
        Ok(self.read(cell)?.filter(|found| found.made_from == made_from))
    }

    /// Keeps what a cell found.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, cell: &Cell, found: &Found) -> Result<()> {
        let text =
            serde_json::to_string_pretty(found).map_err(|error| Error::new(format!("cannot write JSON: {error}")))?;
        write_text(&self.0.join(cell.file()), &(text + "\n"))
    }

    /// All that there is of these cells, and how many of them that are. Of programs that are
    /// `as_large` as the paper's scaled caches are the same ones, where other programs have these.
    ///
    /// # Errors
    /// As [`Folder::read`].
    pub fn results(&self, cells: &[Cell], as_large: &[&str]) -> Result<(Results, usize)> {
        let read = |cell: &Cell| Ok(self.read(cell)?.map(|found| (cell.clone(), found.values)));
        let found: Vec<(Cell, BTreeMap<String, Values>)> =
            cells.iter().filter_map(|cell| read(cell).transpose()).collect::<Result<_>>()?;
        let count = found.len();
        let is_scaled: BTreeSet<String> =
            found.iter().filter(|(cell, _)| cell.scaled).map(|(cell, _)| cell.machine.clone()).collect();
        let mut results = Results::default();
        for (cell, values) in found {
            if as_large.contains(&cell.program.as_str()) && is_scaled.contains(&cell.machine) {
                results.take(&Cell { scaled: true, ..cell.clone() }, values.clone());
            }
            results.take(&cell, values);
        }
        Ok((results, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_as_it_was_written_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::new(folder.path());
        files.create().unwrap();
        let cell = Cell { program: "mg".into(), machine: "m".into(), scaled: false, arm: "OS".into(), draw: 3 };
        assert_eq!(files.read(&cell).unwrap(), None);
        let mut found = Found::new("tlb2012", &cell, "this".into());
        found.pus = vec![1, 0];
        found.values.insert("OS".into(), Values::from([("time".into(), 1.5)]));
        found.detected.insert("exact".into(), vec![(0, 1, 7)]);
        files.write(&cell, &found).unwrap();
        assert_eq!(files.read(&cell).unwrap(), Some(found.clone()));
        assert_eq!(files.read_made_from(&cell, "that").unwrap(), None);
        assert_eq!(found.matrix("exact").unwrap().get(0, 1), 7);
        assert!(found.matrix("cdsm").is_err());
        let (_, count) = files.results(&[cell.clone(), Cell { draw: 4, ..cell.clone() }], &[]).unwrap();
        assert_eq!(count, 1);
        // Of a program that is as large as the paper's, scaled caches are the same ones, once others have them.
        let other = Cell { program: "bt".into(), scaled: true, ..cell.clone() };
        let places = |as_large| {
            let (results, count) = files.results(&[cell.clone(), other.clone()], as_large).unwrap();
            (results.places().map(|place| (place.program.clone(), place.scaled)).collect::<Vec<_>>(), count)
        };
        assert_eq!(places(&["mg"]), (vec![("mg".into(), false)], 1));
        files
            .write(&other, &Found { values: found.values.clone(), ..Found::new("tlb2012", &other, "".into()) })
            .unwrap();
        assert_eq!(places(&[]).0, [("mg".into(), false), ("bt".into(), true)]);
        assert_eq!(places(&["mg"]), (vec![("mg".into(), false), ("bt".into(), true), ("mg".into(), true)], 2));
        found.detected.insert("exact".into(), vec![(0, 2, 7)]);
        assert!(found.matrix("exact").is_err());
        for text in ["", "{}", "[1]", "{\"format\": 9}"] {
            std::fs::write(folder.path().join("cells").join(cell.file()), text).unwrap();
            assert!(files.read(&cell).unwrap_err().remedy.is_some(), "{text}");
        }
    }
}
