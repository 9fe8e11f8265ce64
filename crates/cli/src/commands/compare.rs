//! `cohabit compare`: a program under the system's placement and under mappings, run by run and side by side.

use super::Outcome;
use crate::command_line::given;
use crate::comparing::args::{MeasureArgs, MemoryArgs, mapper_with_profile, named_file};
use crate::comparing::cells::{self, CellArgs};
use crate::comparing::files::FileArgs;
use crate::comparing::kept::{begun, goes_on, kept};
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
use crate::progress::{read_phased_mapping, read_profile};
use cohabit_evaluate::compare::Terms;
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
  cohabit compare --mapping m.json --runs 20 --cells -- ./solver > blocks.sh
      a command for each block, for a job runner; --collect in the place of
      --cells then joins what they found

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
    #[command(flatten, next_help_heading = "Block by block, for a job runner")]
    part: CellArgs,
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
        let new = Results { treatment, arguments: given(), ..Results::new(&self.command, self.seed, by, &terms, arms) };
        let wanted = Wanted {
            blocks: self.runs.map(|runs| runs as usize),
            precision: self.measure.precision,
            budget: self.measure.budget,
            warm_up: self.measure.warm_up,
            terms,
        };
        let runs = self.runs.unwrap_or_default();
        if self.part.cells {
            crate::output::print(&cells::commands(std::env::args_os(), runs)?)?;
            return Ok(End::Done);
        }
        if self.part.collect {
            let results = cells::collect(&self.output, runs, new)?;
            let done = results.blocks().len();
            if done < runs as usize {
                note(&format!("{done} of {runs} blocks have run"));
            }
            self.tell(&results, terms)?;
            return Ok(End::Done);
        }
        let new = if self.part.cell.is_some() { new } else { begun(&self.output, self.resume, new)? };
        let measure = &self.measure;
        let mut runner = Runner::new(&self.command, &new.arms, new.by.clone(), measure.how(), measure.input.clone())?;
        if let Some(number) = self.part.cell {
            return Ok(match cells::run(&self.output, number, new, &mut runner, &wanted)? {
                Enough::Stopped(signal) => End::Killed(signal),
                _ => End::Done,
            });
        }
        let mut results = new;
        arms::alike(&results.arms, self.measure.how().always).iter().for_each(|line| note(line));
        let ended = go(&mut results, &self.output, &mut runner, &wanted).map_err(|error| kept(error, &self.output))?;
        // Settings are put back before anything else can fail.
        drop(runner);
        self.tell(&results, terms)?;
        Ok(match ended {
            Enough::Done => End::Done,
            Enough::OutOfTime => {
                note(&format!(
                    "the time was over before all intervals were within {} %: --resume with a longer --budget goes on",
                    crate::number::percent(wanted.precision)
                ));
                End::Done
            }
            Enough::Stopped(signal) => {
                note(&format!("stopped; {}", goes_on(&self.output, &results)));
                End::Killed(signal)
            }
        })
    }

    /// Writes and prints what follows from the runs.
    fn tell(&self, results: &Results, terms: Terms) -> Result<()> {
        let outcome = outcome::Outcome::new(results, terms);
        self.files.write(&outcome)?;
        self.json.emit("compare", outcome.fields(), &table::text(&outcome))
    }

    /// Each with a name of its own.
    fn mappings(&self) -> Result<Vec<(String, Mapping)>> {
        let named = |path: &PathBuf| Ok((stem(path), read_phased_mapping(path)?));
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
