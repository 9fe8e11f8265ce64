//! What `cohabit compare-detectors --json` found, read back: each detector's matrix, and how it agrees.

use cohabit_model::{Error, Matrix, Result};
use serde::Deserialize;
use std::path::Path;

/// Tasks of the largest recording: what a document says of them is not believed beyond.
const MOST_TASKS: usize = 1 << 16;

/// The document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Detectors {
    /// The recording, as given.
    pub recording: String,
    /// The program that was recorded for it; none where there was a file.
    #[serde(default)]
    pub program: Option<Vec<String>>,
    /// The arguments of the command; none in documents before it.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// How many tasks it has.
    pub tasks: usize,
    /// The topology that was mapped for.
    pub topology: String,
    /// The detectors.
    pub detectors: Vec<Detector>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Detector {
    /// Its name.
    pub name: String,
    /// It saw one stretch in so many; none: all of the run.
    #[serde(default)]
    pub sampled: Option<u64>,
    /// Where it was published.
    #[serde(default)]
    pub source: String,
    /// Events that it saw.
    pub events: f64,
    /// How it agrees with exact communication.
    pub with_communication: Agreement,
    /// And with exact sharing.
    pub with_sharing: Agreement,
    /// What it costs, as a share; none where there is no figure.
    #[serde(default)]
    pub overhead: Option<f64>,
    /// J of exact communication under the mapping that it leads to; none where it saw nothing.
    #[serde(default)]
    pub distance_cost: Option<f64>,
    /// What that mapping takes, simulated.
    #[serde(default)]
    pub simulated_ns: Option<f64>,
    /// `[source, destination, value]` of what is not 0; none in documents before it.
    #[serde(default)]
    pub matrix: Option<Vec<(u32, u32, u64)>>,
}

/// Coefficients of correlation; none where one side is the same for all pairs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Agreement {
    /// Pearson's.
    pub correlation: Option<f64>,
    /// Spearman's.
    pub rank_correlation: Option<f64>,
}

impl Detectors {
    /// Reads one.
    ///
    /// # Errors
    /// Where it is none, or names tasks that it has not.
    pub fn read(path: &Path) -> Result<Self> {
        let found: Self = super::read(path, &["compare-detectors"])?;
        found.checked().map_err(|error| error.at(path.display()))
    }

    fn checked(self) -> Result<Self> {
        let within = |detector: &Detector| {
            let cells = detector.matrix.iter().flatten();
            cells.clone().all(|&(a, b, _)| a.max(b) < self.tasks as u32)
        };
        if self.tasks > MOST_TASKS || self.detectors.is_empty() || !self.detectors.iter().all(within) {
            return Err(Error::new("a damaged document: matrices of tasks that are not there")
                .remedy("make it again by 'cohabit compare-detectors --json FILE'"));
        }
        Ok(self)
    }

    /// Each detector's matrix.
    ///
    /// # Errors
    /// Where the document is of a version that kept none.
    pub fn matrices(&self) -> Result<Vec<(String, Matrix)>> {
        let one = |detector: &Detector| {
            let cells = detector.matrix.as_ref()?;
            Some(Matrix::from_triplets(self.tasks, cells.iter().copied()))
        };
        let matrices = self.detectors.iter().map(|row| Some((row.label(), one(row)?))).collect::<Option<_>>();
        matrices.ok_or_else(|| {
            Error::new("the document has no matrices: it is of an older cohabit")
                .remedy("make it again by 'cohabit compare-detectors --json FILE'")
        })
    }
}

impl Detector {
    /// As the table of the command calls it.
    pub fn label(&self) -> String {
        self.sampled.map_or(self.name.clone(), |every| format!("{} 1/{every}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Detectors> {
        super::super::parse::<Detectors>(text, &["compare-detectors"]).and_then(Detectors::checked)
    }

    #[test]
    fn matrices_are_of_tasks_that_are_there() {
        let text = |tasks: usize, matrix: &str| {
            format!(
                r#"{{"format":1,"command":"compare-detectors","recording":"r","tasks":{tasks},"topology":"t","detectors":[
                {{"name":"exact","events":3,"with_communication":{{"correlation":1,"rank_correlation":null}},
                "with_sharing":{{"correlation":null,"rank_correlation":null}}{matrix}}}]}}"#
            )
        };
        let found = parsed(&text(2, r#","matrix":[[0,1,3]]"#)).unwrap();
        assert_eq!(found.matrices().unwrap()[0].1.get(0, 1), 3);
        assert!(parsed(&text(2, "")).unwrap().matrices().unwrap_err().cause.contains("older"));
        assert!(parsed(&text(1, r#","matrix":[[0,1,3]]"#)).unwrap_err().cause.contains("not there"));
        assert!(parsed(&text(1 << 40, "")).is_err());
    }
}
