//! The tables of an experiment: as text and as Markdown, from the same rows.

use cohabit_evaluate::experiment::results::Place;
use cohabit_evaluate::experiment::{Experiment, Judged, MEASURES, Results, Summary, Verdict};

/// A table: its head and its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What stands above it.
    pub title: String,
    /// Names of columns.
    pub head: Vec<String>,
    /// As many cells as columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// For terminals: columns side by side.
    pub fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| self.lines().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = format!("{}\n\n", self.title);
        for row in self.lines() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    /// For pages.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
        };
        let rule: Vec<String> = self.head.iter().map(|_| "---".to_owned()).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}\n\n{}{}{rows}", self.title, line(&self.head), line(&rule))
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.head).chain(&self.rows)
    }
}

/// As people read it, to three digits.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    if let (Some((unit, name)), true) = (units.into_iter().find(|(unit, _)| size >= *unit), size >= 1e4) {
        return format!("{}{name}", digits(value / unit));
    }
    let decimals = if value == 0.0 || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

/// A change: `-8.1 %`.
pub fn percent(value: f64) -> String {
    if value.abs() < 0.05 { "0 %".to_owned() } else { format!("{value:+.1} %") }
}

/// How caches are, in words.
pub fn scaling(scaled: bool) -> &'static str {
    if scaled { "last caches scaled" } else { "last caches as they are" }
}

/// The machine and scalings that there are results of.
fn machines(results: &Results) -> Vec<(String, bool)> {
    let mut found: Vec<_> = results.places().map(|place| (place.machine.clone(), place.scaled)).collect();
    found.dedup();
    found
}

/// What each arm came to, a table for each machine and scaling: the baseline's values with their spread, the others'
/// changes.
pub fn of_arms(experiment: &Experiment, results: &Results) -> Vec<Table> {
    let table = |(machine, scaled): (String, bool)| {
        let places: Vec<&Place> =
            results.places().filter(|place| place.machine == machine && place.scaled == scaled).collect();
        let summary = |place: &Place, arm: &str, measure: &str| results.summary(experiment, place, arm, measure);
        let measures: Vec<_> = MEASURES
            .iter()
            .filter(|measure| !measure.of_detector)
            .filter(|measure| {
                let arms = || experiment.arm.iter().map(|arm| &arm.name);
                places
                    .iter()
                    .any(|place| arms().any(|arm| summary(place, arm, measure.name).is_some_and(|s| s.value != 0.0)))
            })
            .collect();
        let mut head = vec!["program".to_owned(), "arm".to_owned()];
        head.extend(measures.iter().map(|measure| match measure.unit {
            "" => measure.name.to_owned(),
            unit => format!("{} ({unit})", measure.name),
        }));
        let mut rows = Vec::new();
        for place in &places {
            for arm in &experiment.arm {
                let cells: Vec<String> = measures
                    .iter()
                    .map(|measure| {
                        let of = summary(place, &arm.name, measure.name);
                        let base = summary(place, &experiment.baseline, measure.name);
                        cell(of, base.filter(|_| arm.name != experiment.baseline))
                    })
                    .collect();
                if cells.iter().any(|cell| cell != "-") || results.saw_nothing(experiment, place, &arm.name) {
                    rows.push([place.program.clone(), arm.name.clone()].into_iter().chain(cells).collect());
                }
            }
        }
        let title = format!(
            "{machine}, {}: {} in numbers, the others as changes over it",
            scaling(scaled),
            experiment.baseline
        );
        Table { title, head, rows }
    };
    machines(results).into_iter().map(table).filter(|table| !table.rows.is_empty()).collect()
}

/// A value: over another as a change, else as a number; of several draws with their standard deviation.
fn cell(of: Option<Summary>, over: Option<Summary>) -> String {
    let Some(of) = of else { return "-".to_owned() };
    let spread = |share: f64| format!(" (± {:.1} %)", 100.0 * share);
    let deviation = of.deviation.filter(|_| of.value != 0.0).map(|deviation| deviation / of.value);
    match over {
        Some(over) if over.value != 0.0 => {
            percent(100.0 * (of.value / over.value - 1.0)) + &deviation.map(spread).unwrap_or_default()
        }
        _ => digits(of.value) + &deviation.map(spread).unwrap_or_default(),
    }
}

/// What detectors saw, a table for each machine and scaling.
pub fn of_detectors(experiment: &Experiment, results: &Results, detectors: &[&str]) -> Vec<Table> {
    let measures: Vec<_> = MEASURES.iter().filter(|measure| measure.of_detector).collect();
    let table = |(machine, scaled): (String, bool)| {
        let mut rows = Vec::new();
        for place in results.places().filter(|place| place.machine == machine && place.scaled == scaled) {
            for detector in detectors {
                let of = |name: &str| results.summary(experiment, place, detector, name);
                let cells: Vec<String> = measures
                    .iter()
                    .map(|measure| of(measure.name).map_or("-".to_owned(), |found| digits(found.value)))
                    .collect();
                if cells.iter().any(|cell| cell != "-") {
                    rows.push([place.program.clone(), (*detector).to_owned()].into_iter().chain(cells).collect());
                }
            }
        }
        let head = measures.iter().map(|measure| match measure.unit {
            "" => measure.name.to_owned(),
            unit => format!("{} ({unit})", measure.name),
        });
        let head = ["program".to_owned(), "detector".to_owned()].into_iter().chain(head).collect();
        Table { title: format!("{machine}, {}", scaling(scaled)), head, rows }
    };
    machines(results).into_iter().map(table).filter(|table| !table.rows.is_empty()).collect()
}

/// A row for each statement, what was found on each machine and scaling beside it.
pub fn of_claims(judged: &[Judged]) -> Table {
    let found = |one: &Judged| -> String {
        let number = |value: f64| if one.in_percent { percent(value) } else { digits(value) };
        let all: Vec<String> = match one.ours.as_slice() {
            [(_, value)] => vec![number(*value)],
            several => several.iter().map(|(program, value)| format!("{program} {}", number(*value))).collect(),
        };
        if all.is_empty() { "-".to_owned() } else { all.join(", ") }
    };
    let row = |one: &Judged| {
        let place = match (&one.machine, one.scaled) {
            (Some(machine), Some(scaled)) => format!("{machine}, {}", if scaled { "scaled" } else { "unscaled" }),
            _ => "-".to_owned(),
        };
        vec![
            one.says.clone(),
            one.source.clone(),
            place,
            one.paper_percent.map_or("-".to_owned(), percent),
            found(one),
            verdict(&one.verdict),
        ]
    };
    let head = ["statement", "source", "machine", "paper", "here", "outcome"].map(str::to_owned).to_vec();
    // Of what nothing was run, the count is enough.
    let is_told = |one: &&Judged| !one.ours.is_empty() || !matches!(one.verdict, Verdict::NoResult(_));
    Table { title: counted(judged), head, rows: judged.iter().filter(is_told).map(row).collect() }
}

/// In words.
pub fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::CameOut => "came out".to_owned(),
        Verdict::DidNot => "did not".to_owned(),
        Verdict::NoResult(missing) => format!("no result: {missing}"),
        Verdict::CannotJudge(unseen) => format!("cannot be judged: nothing was detected in {unseen}"),
        Verdict::CannotTry(why) => format!("cannot be tried here: {why}"),
    }
}

/// How many of each.
pub fn counted(judged: &[Judged]) -> String {
    let count = |wanted: fn(&Verdict) -> bool| judged.iter().filter(|one| wanted(&one.verdict)).count();
    let unjudged = match count(|verdict| matches!(verdict, Verdict::CannotJudge(_))) {
        0 => String::new(),
        some => format!("{some} cannot be judged, "),
    };
    format!(
        "{} came out, {} did not, {unjudged}{} cannot be tried here; {} have no result",
        count(|verdict| *verdict == Verdict::CameOut),
        count(|verdict| *verdict == Verdict::DidNot),
        count(|verdict| matches!(verdict, Verdict::CannotTry(_))),
        count(|verdict| matches!(verdict, Verdict::NoResult(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (1234.0, "1234"),
            (12_345.0, "12.3k"),
            (2.5e9, "2.50G"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!([-8.06, 0.01, 3.0].map(percent), ["-8.1 %", "0 %", "+3.0 %"]);
    }

    #[test]
    fn cells_are_changes_over_the_baseline() {
        let one = |value, deviation| Some(Summary { value, deviation, draws: 2 });
        assert_eq!(cell(one(9.0, None), one(10.0, Some(1.0))), "-10.0 %");
        assert_eq!(cell(one(10.0, Some(1.0)), None), "10.0 (± 10.0 %)");
        assert_eq!(cell(one(3.0, None), one(0.0, None)), "3.00");
        assert_eq!(cell(None, None), "-");
    }

    #[test]
    fn both_forms_have_the_same_cells() {
        let table =
            Table { title: "t".into(), head: vec!["a".into(), "b".into()], rows: vec![vec!["x|y".into(), "1".into()]] };
        assert_eq!(table.text(), "t\n\na    b\nx|y  1\n");
        assert_eq!(table.markdown(), "t\n\n| a | b |\n| --- | --- |\n| x\\|y | 1 |\n");
    }
}
