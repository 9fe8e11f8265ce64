//! The file that every run is kept in, written whole after each: what a comparison goes on from, and what is plotted
//! (docs/compare.md).

use super::arms::Arm;
use cohabit_apply::usage::Usage;
use cohabit_evaluate::compare::{CONFIDENCES, SAME_PROGRAM, Terms};
use cohabit_model::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// The format number in every such file.
const FORMAT: u64 = 1;
/// Where one comes from.
const REMEDY: &str = "give the file that 'cohabit compare -o' wrote";
/// No file is longer.
const LONGEST_BYTES: u64 = 1 << 30;
/// No comparison has more blocks.
const MOST_BLOCKS: usize = u32::MAX as usize;

/// What is compared, and every run of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u64,
    /// `comparison`: what tells it from other files.
    pub kind: String,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Of the order of runs.
    pub seed: u64,
    /// What is compared.
    pub by: By,
    /// Whether more of that is better.
    pub higher_is_better: bool,
    /// How sure what is said of them is to be; as usual in files before it.
    #[serde(default = "usual_confidence")]
    pub confidence: f64,
    /// How arms are placed and what each run reads: runs of different ones are not of one comparison. Empty in files
    /// before it.
    #[serde(default)]
    pub treatment: String,
    /// The arguments of the command that began; empty in files before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// How many blocks were settled before the first of them; none where what they show decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<usize>,
    /// The ways; the first is the one that the others are held against.
    pub arms: Vec<Arm>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The time from start to end, in seconds.
    Wall,
    /// CPU time of all that the program started, in seconds.
    Cpu,
    /// A number that the program prints: the expression that finds it.
    Metric(String),
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Which block it belongs to; of runs that warm up it says nothing.
    pub block: usize,
    /// Which arm, from 0.
    pub arm: usize,
    /// Made to warm up: it does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// What is compared.
    pub value: f64,
    /// What it took.
    pub usage: Usage,
    /// What it wrote.
    pub output: Output,
    /// What `cohabit run` had to say of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a run wrote to standard output, as two sums: the same sum is the same text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Of all.
    pub text: String,
    /// Of all but the digits.
    pub words: String,
}

fn usual_confidence() -> f64 {
    Terms::default().confidence
}

impl Results {
    /// Without a run.
    pub fn new(command: &[OsString], seed: u64, by: By, terms: &Terms, arms: Vec<Arm>) -> Self {
        let program = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Self {
            format: FORMAT,
            kind: "comparison".to_owned(),
            program,
            seed,
            by,
            higher_is_better: terms.higher_is_better,
            confidence: terms.confidence,
            treatment: String::new(),
            arguments: Vec::new(),
            settled: None,
            arms,
            runs: Vec::new(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Where it is none of these, or is damaged.
    pub fn read(path: &Path) -> Result<Self> {
        let text = file::read_text(path, LONGEST_BYTES)
            .map_err(|error| if error.remedy.is_none() { error.remedy(REMEDY) } else { error })?;
        Self::parse(&text).map_err(|error| error.at(path.display()))
    }

    /// From the text of such a file.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub fn parse(text: &str) -> Result<Self> {
        let found: Self = serde_json::from_str(text)
            .map_err(|error| Error::new(format!("no runs of a comparison: {error}")).remedy(REMEDY))?;
        if found.format != FORMAT || found.kind != "comparison" {
            return Err(Error::new(format!("runs in format {}, this is for {FORMAT}", found.format)).remedy(REMEDY));
        }
        let is_sound = |run: &Run| {
            run.arm < found.arms.len() && run.block <= MOST_BLOCKS && run.value.is_finite() && run.value > 0.0
        };
        if !CONFIDENCES.contains(&found.confidence) {
            return Err(Error::new(format!("runs with a confidence of {}", found.confidence)).remedy(REMEDY));
        }
        if found.arms.is_empty() || !found.runs.iter().all(is_sound) {
            return Err(Error::new("runs of arms that are not there, or values that are none").remedy(REMEDY));
        }
        Ok(found)
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| Error::new(format!("cannot write JSON: {error}")))?;
        file::write_whole(path, &text)
    }

    /// Makes sure that these runs are of the same comparison, which then goes on.
    ///
    /// # Errors
    /// What differs.
    pub fn check_same(&self, other: &Self) -> Result<()> {
        let differs = |what: &str| {
            Err(Error::new(format!("the runs kept there are of another {what}"))
                .remedy("repeat the command as it was, or name another file with -o"))
        };
        match () {
            () if self.program != other.program => differs("program"),
            () if (&self.by, self.higher_is_better) != (&other.by, other.higher_is_better) => differs("metric"),
            () if self.arms != other.arms => differs("set of arms"),
            () if self.treatment != other.treatment => differs("--pinning, --hold-main or --input"),
            () if self.seed != other.seed => differs("seed"),
            () => Ok(()),
        }
    }

    /// How they are judged.
    pub fn terms(&self) -> Terms {
        Terms { confidence: self.confidence, floor: SAME_PROGRAM, higher_is_better: self.higher_is_better }
    }

    /// The runs that count, of each block that has every arm, in the order of the blocks' numbers: places in `runs`.
    pub fn blocks(&self) -> Vec<Vec<usize>> {
        let mut blocks: BTreeMap<usize, Vec<Option<usize>>> = BTreeMap::new();
        for (place, run) in self.runs.iter().enumerate().filter(|(_, run)| !run.warm_up) {
            blocks.entry(run.block).or_insert_with(|| vec![None; self.arms.len()])[run.arm] = Some(place);
        }
        blocks.into_values().filter_map(|block| block.into_iter().collect::<Option<Vec<usize>>>()).collect()
    }

    /// The block to go on with: one that was cut off is not gone on with, since what was there meanwhile is not the
    /// same.
    pub fn next_block(&self) -> usize {
        self.runs.iter().filter(|run| !run.warm_up).map(|run| run.block + 1).max().unwrap_or(0)
    }

    /// The values of complete blocks, `[block][arm]`.
    pub fn values(&self) -> Vec<Vec<f64>> {
        let value = |&place: &usize| self.runs[place].value;
        self.blocks().iter().map(|block| block.iter().map(value).collect()).collect()
    }

    /// The runs of an arm that count, in complete blocks.
    pub fn runs_of(&self, arm: usize) -> Vec<&Run> {
        self.blocks().iter().map(|block| &self.runs[block[arm]]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(block: usize, arm: usize, value: f64) -> Run {
        Run { block, arm, warm_up: false, value, usage: Usage::default(), output: Output::default(), notes: Vec::new() }
    }

    fn results() -> Results {
        let arm = |name: &str| Arm { name: name.to_owned(), mapping: None, memory: None, numa_balancing: None };
        let mut results =
            Results::new(&["./p".into()], 1, By::Wall, &Terms::default(), vec![arm("system"), arm("other")]);
        results.runs = vec![run(0, 1, 2.0), run(0, 0, 1.0), run(1, 0, 1.5), run(2, 0, 1.0), run(2, 1, 3.0)];
        results
    }

    #[test]
    fn only_complete_blocks_count() {
        let results = results();
        assert_eq!(results.values(), [[1.0, 2.0], [1.0, 3.0]]);
        assert_eq!(results.next_block(), 3);
        let mut warm = results.clone();
        warm.runs.iter_mut().for_each(|run| run.warm_up = true);
        assert_eq!((warm.values().len(), warm.next_block()), (0, 0));
    }

    #[test]
    fn files_come_back_as_they_were_and_damaged_ones_are_refused() {
        let text = serde_json::to_string(&results()).unwrap();
        assert_eq!(Results::parse(&text).unwrap(), results());
        for (from, to) in [
            ("\"format\":1", "\"format\":2"),
            ("\"confidence\":0.95", "\"confidence\":1.0"),
            ("comparison", "profile"),
            ("\"arm\":1", "\"arm\":7"),
            ("\"value\":3.0", "\"value\":-3.0"),
            ("\"block\":2", "\"block\":99999999999999999999999"),
            ("\"block\":2", "\"block\":4294967296"),
            ("{", ""),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert!(damaged != text && Results::parse(&damaged).is_err(), "{from} -> {to}");
        }
        // No number of blocks makes it ask for memory.
        let far = text.replace("\"block\":2", "\"block\":4294967295");
        assert_eq!(Results::parse(&far).unwrap().values(), [[1.0, 2.0], [1.0, 3.0]]);
    }

    #[test]
    fn runs_of_something_else_are_not_gone_on_with() {
        let mut other = results();
        assert!(other.check_same(&results()).is_ok());
        other.program = vec!["./q".to_owned()];
        assert!(other.check_same(&results()).unwrap_err().cause.contains("another program"));
    }
}
