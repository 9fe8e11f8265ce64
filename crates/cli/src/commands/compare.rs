//! `cohabit compare`: a program under the system's placement and under mappings, run by run and side by side.

use super::Outcome;
use crate::comparing::args::{MeasureArgs, MemoryArgs, mapper_with_profile, named_file};
use crate::comparing::files::FileArgs;
use crate::comparing::outcome;
use crate::comparing::results::Results;
use crate::comparing::runner::Runner;
use crate::comparing::session::{Enough, Wanted, go};
use crate::comparing::{arms, table};
use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::machine::MachineArgs;
use crate::mapping::{MappingArgs, mapper_names};
use crate::output::note;
use crate::progress::{read_mapping, read_profile};
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Mapping, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cohabit compare --mapping m.json -- ./solver input
      the mapping beside the system's placement
  cohabit compare --mapper best --mapper packed --profile p.npz -- ./solver
  cohabit compare --mapping m.json --metric 'Time in seconds = +([0-9.]+)' -- ./cg.A.x
      by what the program prints
  cohabit compare --mapping m.json --precision 0.5% --budget 1h -- ./solver
  cohabit compare --mapping m.json --resume -- ./solver
      go on where it was cut off
  cohabit compare --mapping m.json -- mpirun -n 8 ./solver
      ranks, by mpirun's own options
  cohabit compare --memory first-touch --memory interleave --mapping m.json -- ./solver
      every placement under both

Every block has each arm once, in an order drawn at random, and only runs of one
block are compared (docs/compare.md). Less than 0.2 % is never called a
difference: two processes of one program differ by as much.";

/// Where every run is kept unless the user says.
const DEFAULT_OUTPUT: &str = "cohabit-compare.json";

/// Arguments of `cohabit compare`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Run the program as this mapping says; may be repeated
    #[arg(long, value_name = "MAP")]
    mapping: Vec<PathBuf>,
    /// Map --profile with this mapper, and run the program so; may be repeated
    #[arg(long, value_name = "M", value_parser = mapper_names())]
    mapper: Vec<String>,
    /// The profile that --mapper maps
    #[arg(long, value_name = "P")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten, next_help_heading = "Further arms")]
    memory: MemoryArgs,
    #[command(flatten, next_help_heading = "What is measured, and how long")]
    measure: MeasureArgs,
    /// Run each arm so often, whatever --precision and --budget say
    #[arg(long, value_name = "N", conflicts_with_all = ["precision", "budget"], value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Keep every run in FILE
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_OUTPUT)]
    output: PathBuf,
    /// Go on with the runs that are kept there
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    json: JsonArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Compare {
    /// Runs until it is enough, and prints what follows.
    pub fn run(self) -> Outcome {
        self.files.check()?;
        self.json.check()?;
        named_file("-o", &self.output).map_err(Failure::usage)?;
        check_writable(&self.output)?;
        self.files.check_apart_from(&self.output).map_err(Failure::usage)?;
        mapper_with_profile(&self.mapper, self.profile.as_ref()).map_err(Failure::usage)?;
        if let (Some(option), None) = (self.machine.given(), &self.profile) {
            let cause = format!("{option} does nothing here: a mapping has its own machine, and no profile is mapped");
            return Err(Failure::usage(
                Error::new(cause).remedy(format!("leave {option} out, or add --mapper and --profile")),
            ));
        }
        let terms = self.measure.terms();
        let arms = arms::crossed(self.mappings()?, &self.memory.memory, &self.memory.numa_balancing);
        arms::check(&arms).map_err(Failure::usage)?;
        let by = self.measure.what();
        let treatment = self.measure.treatment();
        let new = Results { treatment, ..Results::new(&self.command, self.seed, by, terms.higher_is_better, arms) };
        let mut results = begun(&self.output, self.resume, new)?;
        let input = self.measure.input.clone();
        let placing = self.measure.placing();
        let mut runner = Runner::new(&self.command, &results.arms, results.by.clone(), placing, input)?;
        let wanted = Wanted {
            blocks: self.runs.map(|runs| runs as usize),
            precision: self.measure.precision,
            budget: self.measure.budget,
            warm_up: self.measure.warm_up,
            terms,
        };
        let ended = go(&mut results, &self.output, &mut runner, &wanted)
            .map_err(|error| kept(error, &self.output, &results))?;
        // Settings are put back before anything else can fail.
        drop(runner);
        let outcome = outcome::Outcome::new(&results, terms);
        self.files.write(&outcome)?;
        self.json.emit("compare", outcome.fields(), &table::text(&outcome))?;
        Ok(match ended {
            Enough::Done => End::Done,
            Enough::OutOfTime => {
                note(&format!(
                    "the time was over before all intervals were within {} %: --resume with a longer --budget goes on",
                    100.0 * wanted.precision
                ));
                End::Done
            }
            Enough::Stopped(signal) => {
                note(&format!(
                    "stopped; {} kept in {}: --resume goes on",
                    runs_are(results.runs.len()),
                    self.output.display()
                ));
                End::Killed(signal)
            }
        })
    }

    /// Each with a name of its own.
    fn mappings(&self) -> Result<Vec<(String, Mapping)>> {
        let named = |path: &PathBuf| Ok((stem(path), read_mapping(path)?));
        let mut mappings = self.mapping.iter().map(named).collect::<Result<Vec<_>>>()?;
        if let Some(path) = &self.profile {
            let (profile, topology) = (read_profile(path)?, self.machine.load()?);
            for mapper in &self.mapper {
                let made =
                    MappingArgs::of(&["--mapper", mapper]).map(&profile, &topology, self.machine.level_costs()?)?;
                mappings.push((mapper.clone(), made.mapping));
            }
        }
        arms::unlike(&mut mappings);
        Ok(mappings)
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "mapping".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The runs to go on with, or none yet: what is kept already is not written over.
fn begun(path: &Path, resume: bool, new: Results) -> Result<Results> {
    if !path.exists() {
        return Ok(new);
    }
    if !resume {
        let text = format!("{} is there already", path.display());
        return Err(Error::new(text).remedy("--resume goes on with its runs; -o names another file; or remove it"));
    }
    let kept = Results::read(path)?;
    kept.check_same(&new).map_err(|error| error.at(path.display()))?;
    Ok(kept)
}

fn runs_are(count: usize) -> String {
    if count == 1 { "1 run is".to_owned() } else { format!("{count} runs are") }
}

/// An error that ends a comparison, with what is not lost by it.
fn kept(error: Error, path: &Path, results: &Results) -> Error {
    if results.runs.is_empty() {
        return error;
    }
    let kept = format!("{} kept in {}: --resume goes on", runs_are(results.runs.len()), path.display());
    let remedy = error.remedy.as_ref().map_or(kept.clone(), |remedy| format!("{remedy}; {kept}"));
    error.remedy(remedy)
}
