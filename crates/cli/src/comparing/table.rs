//! The outcome for people: as a table in a terminal, and the same in Markdown.

use super::outcome::{COUNTED, Outcome, number, percent, value};
use super::results::By;
use cohabit_evaluate::compare::Interval;

/// A table: the first row is its head.
pub type Rows = Vec<Vec<String>>;

/// What the terminal shows.
pub fn text(outcome: &Outcome) -> String {
    let mut text = head(outcome);
    if outcome.blocks == 0 {
        return text;
    }
    text.push('\n');
    text.push_str(&aligned(&values(outcome)));
    text.push('\n');
    text.push_str(&aligned(&counts(outcome)));
    for line in &outcome.notes {
        text.extend([line.as_str(), "\n"]);
    }
    text
}

/// The same for a page.
pub fn markdown(outcome: &Outcome) -> String {
    let mut text = head(outcome);
    for rows in [values(outcome), counts(outcome)] {
        text.push('\n');
        for (at, row) in rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
            if at == 0 {
                text.push_str(&format!("|{}\n", "---|".repeat(row.len())));
            }
        }
    }
    text.push('\n');
    for line in &outcome.notes {
        text.push_str(&format!("- {line}\n"));
    }
    text
}

/// What was compared, in a line.
pub fn head(outcome: &Outcome) -> String {
    let results = outcome.results;
    let what = match &results.by {
        By::Wall => "time from start to end".to_owned(),
        By::Cpu => "CPU time".to_owned(),
        By::Metric(text) => {
            format!("'{text}', {} is better", if results.higher_is_better { "higher" } else { "lower" })
        }
    };
    let blocks = match outcome.blocks {
        0 => "no block was finished: there is nothing to compare yet".to_owned(),
        1 => "1 block".to_owned(),
        blocks => format!("{blocks} blocks"),
    };
    let confidence = crate::number::percent(outcome.terms.confidence);
    if outcome.blocks == 0 {
        return format!("{}: {blocks}\n", results.program.join(" "));
    }
    format!("{}: {blocks}, each arm once in each; {what}; {confidence} % intervals\n", results.program.join(" "))
}

/// Of each arm, and of each beside the first.
pub fn values(outcome: &Outcome) -> Rows {
    let by = &outcome.results.by;
    let mut rows = vec![["arm", "median", "mean", "change", "p", ""].map(str::to_owned).to_vec()];
    let within = |interval: Option<Interval>, show: &dyn Fn(f64) -> String| match interval {
        Some(Interval { low, high }) => format!(" ({} to {})", show(low), show(high)),
        None => String::new(),
    };
    for (at, summary) in outcome.arms.iter().enumerate() {
        let Some(summary) = summary else { continue };
        let show = |shown: f64| value(shown, by);
        let mut row = vec![
            outcome.results.arms[at].name.clone(),
            format!("{}{}", show(summary.median), within(summary.median_interval, &show)),
            format!("{}{}", show(summary.mean), within(summary.mean_interval, &show)),
        ];
        match at.checked_sub(1).and_then(|at| outcome.differences.get(at)) {
            None => row.extend(["", "", ""].map(str::to_owned)),
            Some(found) => row.extend([
                format!("{}{}", percent(found.change), within(found.interval, &percent)),
                if found.p_holm < 0.001 { "< 0.001".to_owned() } else { format!("{:.3}", found.p_holm) },
                outcome.word(found).to_owned(),
            ]),
        }
        rows.push(row);
    }
    rows
}

/// Medians of what is counted: columns that are known of no arm are left out.
pub fn counts(outcome: &Outcome) -> Rows {
    let arms = 0..outcome.arms.len();
    let columns: Vec<_> = COUNTED
        .iter()
        .filter_map(|(name, of)| {
            let values: Vec<Option<f64>> = arms.clone().map(|arm| outcome.counted(arm, *of)).collect();
            values.iter().any(Option::is_some).then_some((*name, values))
        })
        .collect();
    let mut rows = vec![
        std::iter::once("medians").chain(columns.iter().map(|column| column.0)).map(str::to_owned).collect::<Vec<_>>(),
    ];
    for arm in arms {
        let mut row = vec![outcome.results.arms[arm].name.clone()];
        row.extend(columns.iter().map(|column| column.1[arm].map_or_else(|| "-".to_owned(), number)));
        rows.push(row);
    }
    rows
}

/// Columns under one another, two blanks between them.
fn aligned(rows: &Rows) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
