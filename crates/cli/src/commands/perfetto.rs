//! `cohabit perfetto`: what is known of time as a trace that Perfetto opens.

use super::Outcome;
use crate::documents::run::Run;
use crate::exit::{End, Failure};
use crate::json::{JsonArgs, name_of, write_text};
use crate::output::{self, note};
use crate::progress::{during, read_profile};
use crate::trace_events::{self, Source};
use cohabit_cluster::{Options, periods};
use cohabit_model::file::check_writable;
use cohabit_model::series::Window;
use cohabit_model::{Error, Result};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cohabit perfetto p.npz -o p.trace.json     when tasks communicate, and with whom most
  cohabit run --json run.json -- ./solver
  cohabit perfetto run.json -o run.trace.json     who was moved when
  cohabit perfetto p.npz run.json -o both.trace.json

Open the file at ui.perfetto.dev (it stays in the browser) or in chrome://tracing.
Each file counts its own time from 0.";

/// Arguments of `cohabit perfetto`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Perfetto {
    /// Profiles (.npz) with a time series, and what `cohabit run --json`, `attach` and `top` left of runs that were
    /// watched
    #[arg(value_name = "P", required = true)]
    inputs: Vec<PathBuf>,
    /// The trace, in Chrome's JSON; `-` is standard output
    #[arg(short, long, value_name = "F")]
    output: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

impl Perfetto {
    /// Reads and writes.
    pub fn run(self) -> Outcome {
        let to_stdout = self.output == Path::new("-");
        if to_stdout && self.json.takes_stdout() {
            let error = Error::new("several results for standard output").remedy("name a file for one of them");
            return Err(Failure::usage(error));
        }
        self.json.check()?;
        if !to_stdout {
            check_writable(&self.output)?;
        }
        let sources = self.inputs.iter().map(|path| source(path)).collect::<Result<Vec<_>>>()?;
        let trace = trace_events::trace(&sources);
        trace.notes.iter().for_each(|line| note(line));
        if to_stdout {
            output::print(&trace.text)?;
            return Ok(End::Done);
        }
        write_text(&self.output, &trace.text)?;
        self.json.emit("perfetto", json!({ "trace": name_of(&self.output), "events": trace.events }), "")?;
        Ok(End::Done)
    }
}

/// By the ending of the name: documents are JSON, all else is read as a profile.
fn source(path: &Path) -> Result<Source> {
    let name = path.display().to_string();
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        return Ok(Source::Run(name, Run::read(path)?));
    }
    let profile = read_profile(path)?;
    if let Window::Instructions(_) = profile.meta.window() {
        let cause = format!("{name}: its windows are of instructions, and Perfetto shows time");
        return Err(Error::new(cause).remedy("profile again with windows of time (--window 1ms)"));
    }
    let timeline = during("looking for clusters in time", || periods::preferred(&profile, &Options::default()))
        .map_err(|error| error.at(&name))?;
    Ok(Source::Profile(name, Box::new(profile), timeline))
}
