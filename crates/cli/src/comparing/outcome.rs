//! What follows from the runs: of each arm, of each beside the first, and what is worth a line.

use super::results::{By, Results, Run};
use cohabit_evaluate::compare::summary::median;
use cohabit_evaluate::compare::{Claim, Difference, Interval, Summary, Terms, differences, least_blocks, summary};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What is said of all runs.
pub struct Outcome<'a> {
    /// The runs.
    pub results: &'a Results,
    /// How they were judged.
    pub terms: Terms,
    /// How many complete blocks there are.
    pub blocks: usize,
    /// Each arm; none without a complete block.
    pub arms: Vec<Option<Summary>>,
    /// Each arm after the first, beside it.
    pub differences: Vec<Difference>,
    /// What is worth knowing, a line each.
    pub notes: Vec<String>,
}

/// Something that is counted besides, of a run.
type Counted = (&'static str, fn(&Run) -> Option<f64>);

/// What every table and document has of each arm, with the name of its column.
pub const COUNTED: [Counted; 11] = [
    ("wall s", |run| Some(run.usage.wall_s)),
    ("CPU s", |run| Some(run.usage.cpu_s())),
    ("waits", |run| Some(run.usage.voluntary_switches as f64)),
    ("preempted", |run| Some(run.usage.involuntary_switches as f64)),
    ("migrations", |run| run.usage.counts.get("migrations").copied()),
    ("minor faults", |run| Some(run.usage.minor_faults as f64)),
    ("major faults", |run| Some(run.usage.major_faults as f64)),
    ("instructions", |run| run.usage.counts.get("instructions").copied()),
    ("cache misses", |run| run.usage.counts.get("cache_misses").copied()),
    ("remote loads", |run| run.usage.counts.get("remote_loads").copied()),
    ("energy J", energy),
];

/// Packages and memory together: a package's parts are in it already.
fn energy(run: &Run) -> Option<f64> {
    let counted = |name: &&String| name.starts_with("package") || name.starts_with("dram");
    let zones: Vec<f64> = run.usage.energy_j.keys().filter(counted).map(|name| run.usage.energy_j[name]).collect();
    (!zones.is_empty()).then(|| zones.iter().sum())
}

/// Said beside energy.
const ENERGY: &str = "energy is of all that ran on the machine meanwhile, and mostly of the time it took: it says little of what \
                      communication costs (COMPLACE, VI-A)";

impl<'a> Outcome<'a> {
    /// From all complete blocks.
    pub fn new(results: &'a Results, terms: Terms) -> Self {
        let values = results.values();
        let of = |arm: usize| values.iter().map(|block| block[arm]).collect::<Vec<f64>>();
        let arms = (0..results.arms.len()).map(|arm| summary(&of(arm), terms.confidence, results.seed)).collect();
        let mut outcome = Self {
            results,
            terms,
            blocks: values.len(),
            arms,
            differences: differences(&values, &terms),
            notes: Vec::new(),
        };
        outcome.notes = outcome.worth_a_line();
        outcome
    }

    /// The median of what is counted in an arm's runs; none where it is not known here.
    pub fn counted(&self, arm: usize, of: fn(&Run) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.results.runs_of(arm).into_iter().map(of).collect();
        values.filter(|values| !values.is_empty()).map(|values| median(&values))
    }

    /// What an arm is said to be, in a word.
    pub fn word(&self, difference: &Difference) -> &'static str {
        let is_time = !matches!(self.results.by, By::Metric(_));
        match difference.claim {
            Claim::Better if is_time => "faster",
            Claim::Worse if is_time => "slower",
            Claim::Better => "better",
            Claim::Worse => "worse",
            Claim::NotShown if self.blocks < least_blocks(self.terms.confidence, self.differences.len()) => {
                "too few blocks to show any"
            }
            Claim::NotShown => "no difference shown",
        }
    }

    fn worth_a_line(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.outliers());
        lines.extend(self.outputs());
        lines.extend(self.said_of_arms());
        if self.results.runs.iter().any(|run| !run.usage.energy_j.is_empty()) {
            lines.push(ENERGY.to_owned());
        }
        lines.extend(self.not_known());
        lines
    }

    fn outliers(&self) -> Vec<String> {
        let line = |(arm, summary): (usize, &Option<Summary>)| {
            let summary = summary.as_ref().filter(|summary| !summary.outliers.is_empty())?;
            let values: Vec<f64> = self.results.runs_of(arm).iter().map(|run| run.value).collect();
            let some: Vec<String> =
                summary.outliers.iter().take(4).map(|&at| value(values[at], &self.results.by)).collect();
            let more = if summary.outliers.len() > some.len() { ", ..." } else { "" };
            let name = &self.results.arms[arm].name;
            let (is, counts) = if summary.outliers.len() == 1 { ("is", "counts") } else { ("are", "count") };
            Some(format!(
                "{} of {} runs of {name} {is} out of the ordinary, and {counts}: {}{more}",
                summary.outliers.len(),
                values.len(),
                some.join(", ")
            ))
        };
        self.arms.iter().enumerate().filter_map(line).collect()
    }

    /// Whether the program writes the same each time.
    fn outputs(&self) -> Option<String> {
        let runs: Vec<&Run> = self.results.runs.iter().filter(|run| !run.output.text.is_empty()).collect();
        let distinct = |of: fn(&Run) -> &str| runs.iter().map(|run| of(run)).collect::<BTreeSet<_>>().len();
        let texts = distinct(|run| &run.output.text);
        let words = distinct(|run| &run.output.words);
        if texts < 2 {
            return None;
        }
        let mut by_arm: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for run in &runs {
            by_arm.entry(run.arm).or_default().insert(&run.output.text);
        }
        let several = runs.len() > self.results.arms.len();
        Some(match (words, by_arm.values().all(|texts| texts.len() == 1) && several) {
            (_, true) => "the program's output depends on the arm, and is the same in all runs of one: does placement change its result?".to_owned(),
            (1, _) => "numbers in the program's output differ from run to run: times, or results that are not the same each time".to_owned(),
            _ => format!("the program's output is not the same each time ({texts} different ones in {} runs): it may not do the same work", runs.len()),
        })
    }

    /// What `cohabit run` said, once for each arm.
    fn said_of_arms(&self) -> Vec<String> {
        let mut said: BTreeSet<(usize, &str)> = BTreeSet::new();
        for run in &self.results.runs {
            said.extend(run.notes.iter().map(|note| (run.arm, note.as_str())));
        }
        said.into_iter().map(|(arm, note)| format!("{}: {note}", self.results.arms[arm].name)).collect()
    }

    /// What this machine does not count, reasons that are the same together.
    fn not_known(&self) -> Vec<String> {
        let Some(run) = self.results.runs.last() else { return Vec::new() };
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, reason) in &run.usage.not_known {
            by_reason.entry(reason).or_default().push(name.replace('_', " "));
        }
        by_reason
            .into_iter()
            .map(|(reason, names)| format!("not known here: {} ({reason})", names.join(", ")))
            .collect()
    }

    /// For `--json`.
    pub fn fields(&self) -> Value {
        let interval =
            |interval: &Option<Interval>| interval.map_or(Value::Null, |found| json!([found.low, found.high]));
        let arm = |(at, summary): (usize, &Option<Summary>)| {
            let counted: serde_json::Map<String, Value> = COUNTED
                .iter()
                .map(|(name, of)| (name.replace(' ', "_").to_lowercase(), json!(self.counted(at, *of))))
                .collect();
            let difference = at.checked_sub(1).and_then(|at| self.differences.get(at));
            json!({
                "name": self.results.arms[at].name,
                "count": summary.as_ref().map_or(0, |summary| summary.count),
                "mean": summary.as_ref().map(|summary| summary.mean),
                "mean_interval": summary.as_ref().map(|summary| interval(&summary.mean_interval)),
                "t_interval": summary.as_ref().map(|summary| interval(&summary.t_interval)),
                "median": summary.as_ref().map(|summary| summary.median),
                "median_interval": summary.as_ref().map(|summary| interval(&summary.median_interval)),
                "standard_deviation": summary.as_ref().and_then(|summary| summary.deviation),
                "least": summary.as_ref().map(|summary| summary.least),
                "largest": summary.as_ref().map(|summary| summary.largest),
                "outliers": summary.as_ref().map(|summary| &summary.outliers),
                "medians": counted,
                "change": difference.map(|difference| json!({
                    "ratio_less_1": difference.change,
                    "interval": interval(&difference.interval),
                    "p": difference.p,
                    "p_holm": difference.p_holm,
                    "claim": match difference.claim {
                        Claim::Better => "better",
                        Claim::Worse => "worse",
                        Claim::NotShown => "not shown",
                    },
                })),
            })
        };
        json!({
            "program": self.results.program,
            "by": self.results.by,
            "higher_is_better": self.results.higher_is_better,
            "seed": self.results.seed,
            "confidence": self.terms.confidence,
            "floor": self.terms.floor,
            "blocks": self.blocks,
            "arms": self.arms.iter().enumerate().map(arm).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

/// A value for people, with its unit.
pub fn value(value: f64, by: &By) -> String {
    match by {
        By::Wall | By::Cpu => crate::number::seconds(value),
        By::Metric(_) => number(value),
    }
}

/// Four digits, and no more.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e7).contains(&size) => format!("{value:.3e}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `-8.1 %`.
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}
