//! `cohabit show`: a profile as heat map, totals, metrics and verdict.

use super::Outcome;
use crate::documents::simulation::Simulation;
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::mapping::transfers;
use crate::output::is_verbose;
use crate::plotting::output as picture;
use crate::progress::{during, read_profile};
use crate::show::{Dram, ShowOptions, document, show, svg, time};
use crate::timeline::ClusterArgs;
use cohabit_model::file::check_writable;
use cohabit_model::mapping::Weight;
use cohabit_model::timeline::By;
use cohabit_model::{Error, Profile, Result, counted};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cohabit show p.npz          who communicates with whom, and whether placement can help
  cohabit show p.npz --hot    also through which data and from which code
  cohabit show p.npz --time -o time.svg
                              when they do, in the terminal and as a picture
  cohabit show p.npz -v       also what was not seen, and every rank's time in MPI";

/// Arguments of `cohabit show`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Show {
    /// The profile
    #[arg(value_name = "P")]
    profile: PathBuf,
    /// List the data and code that communicate: objects, the hottest blocks, true or false sharing, call sites of ranks
    #[arg(long)]
    hot: bool,
    /// How many of the strongest pairs, data objects and hottest blocks to list
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Which matrix to draw and judge [default: messages for threads and processes, bytes for MPI ranks]
    #[arg(long, value_name = "WHAT", value_parser = ["messages", "bytes", "transfers"])]
    weight: Option<String>,
    /// What 'cohabit simulate --json' found of the same program: what comes from DRAM (DramR), of the first mapping
    #[arg(long, value_name = "S")]
    simulated: Option<PathBuf>,
    /// When tasks communicate: events over time, and a matrix of each part of the run (docs/time.md)
    #[arg(long)]
    time: bool,
    /// By what parts of the run are told apart [default: the phases that the program names, else clusters in time]
    #[arg(long, value_name = "WHAT", requires = "time", value_parser = ["markers", "clusters", "recurring", "calls"])]
    by: Option<String>,
    #[command(flatten)]
    clusters: ClusterArgs,
    /// Write events over time as a picture to FILE: .svg, .png or .pdf
    #[arg(short, long, value_name = "FILE", requires = "time")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

impl Show {
    /// Prints the profile.
    pub fn run(self) -> Outcome {
        self.json.check()?;
        if let Some(path) = &self.output {
            picture::format(path).map_err(Failure::usage)?;
            check_writable(path)?;
        }
        let profile = read_profile(&self.profile)?;
        let (hot, top, verbose) = (self.hot, self.top, is_verbose());
        let mut options = ShowOptions { hot, top, verbose, ..ShowOptions::detect(&profile) };
        match self.weight.as_deref() {
            Some("bytes") => options.weight = Weight::Bytes,
            Some("transfers") => {
                transfers(&profile)?;
                options.weight = Weight::Transfers;
            }
            Some(_) => options.weight = Weight::Messages,
            None => {}
        }
        options.dram = self.simulated.as_deref().map(|path| dram(path, &profile)).transpose()?;
        let by = match self.by.as_deref() {
            Some("markers") => Some(By::Markers),
            Some("recurring") => Some(By::Recurring),
            Some("calls") => Some(By::Calls),
            Some(_) => Some(By::Clusters),
            None => None,
        };
        if let (Some(option), true) = (self.clusters.given(), profile.series.is_empty()) {
            let cause = format!("{option} does nothing here: the profile has no time series");
            return Err(Failure::usage(Error::new(cause).remedy("leave it out")));
        }
        if self.time || !profile.series.is_empty() {
            let timeline = || self.clusters.timeline(&profile, by);
            options.timeline = Some(during("looking for clusters in time", timeline)?);
        }
        if let (Some(path), Some(timeline)) = (&self.output, &options.timeline) {
            picture::write(path, &svg(&profile, timeline))?;
        }
        let text = match &options.timeline {
            Some(timeline) if self.time => time(&profile, timeline, &options),
            _ => show(&profile, &options),
        };
        self.json.emit("show", document(&profile, &options), &text)?;
        Ok(End::Done)
    }
}

/// What comes from DRAM under the first mapping of a simulation of the profile's program.
///
/// # Errors
/// It is none, or one of another number of tasks.
fn dram(path: &Path, profile: &Profile) -> Result<Dram> {
    let simulation = Simulation::read(path)?;
    Dram::of(&simulation, profile).ok_or_else(|| {
        let tasks = counted(simulation.mappings[0].pus.len(), "task");
        Error::new(format!("the simulation is of {tasks}, the profile of {}", profile.tasks()))
            .remedy("record and simulate the profile's program (cohabit simulate --json S)")
            .at(path.display())
    })
}
