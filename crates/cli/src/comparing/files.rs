//! `--csv` and `--markdown`.

use super::args::named_file;
use super::outcome::Outcome;
use super::results::Results;
use super::table;
use crate::json::write_text;
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files beside `--json`.
#[derive(clap::Args, Debug, Clone)]
pub struct FileArgs {
    /// Write every run to FILE, a line each
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the tables to FILE, in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl FileArgs {
    /// Makes sure that both can be written before anything runs.
    ///
    /// # Errors
    /// Where one could not.
    pub fn check(&self) -> Result<()> {
        [&self.csv, &self.markdown].into_iter().flatten().try_for_each(|path| check_writable(path))
    }

    /// That no table takes the place of the runs.
    ///
    /// # Errors
    /// The option that names their file.
    pub fn check_apart_from(&self, runs: &Path) -> Result<()> {
        let given = [("--csv", &self.csv), ("--markdown", &self.markdown)];
        for (option, path) in given {
            path.as_deref().map_or(Ok(()), |path| named_file(option, path))?;
        }
        match given.iter().find(|(_, path)| path.as_deref() == Some(runs)) {
            Some((option, _)) => Err(Error::new(format!("{option} and -o name the same file, {}", runs.display()))
                .remedy("the runs are kept in the one of -o: name another for the table")),
            None => Ok(()),
        }
    }

    /// Writes what was asked for.
    ///
    /// # Errors
    /// Where one cannot be written.
    pub fn write(&self, outcome: &Outcome) -> Result<()> {
        if let Some(path) = &self.csv {
            write_text(path, &csv(outcome.results))?;
        }
        self.markdown.as_ref().map_or(Ok(()), |path| write_text(path, &table::markdown(outcome)))
    }
}

/// A line for each run, warm-up runs among them.
fn csv(results: &Results) -> String {
    let all = |of: fn(&super::results::Run) -> Vec<&String>| {
        results.runs.iter().flat_map(of).cloned().collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>()
    };
    let counts = all(|run| run.usage.counts.keys().collect());
    let zones = all(|run| run.usage.energy_j.keys().collect());
    let mut text = "block,arm,warm_up,value,wall_s,user_s,system_s,voluntary_switches,involuntary_switches,minor_faults,major_faults".to_owned();
    counts.iter().for_each(|name| text.push_str(&format!(",{name}")));
    zones.iter().for_each(|name| text.push_str(&format!(",{}", quoted(&format!("{name}_j")))));
    text.push('\n');
    for run in &results.runs {
        let usage = &run.usage;
        let mut cells = vec![
            run.block.to_string(),
            quoted(&results.arms[run.arm].name),
            run.warm_up.to_string(),
            run.value.to_string(),
            usage.wall_s.to_string(),
            usage.user_s.to_string(),
            usage.system_s.to_string(),
            usage.voluntary_switches.to_string(),
            usage.involuntary_switches.to_string(),
            usage.minor_faults.to_string(),
            usage.major_faults.to_string(),
        ];
        let cell = |value: Option<&f64>| value.map(f64::to_string).unwrap_or_default();
        cells.extend(counts.iter().map(|name| cell(usage.counts.get(name))));
        cells.extend(zones.iter().map(|name| cell(usage.energy_j.get(name))));
        text.push_str(&(cells.join(",") + "\n"));
    }
    text
}

/// RFC 4180: what holds a comma, a quote or a line's end stands in quotes.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
