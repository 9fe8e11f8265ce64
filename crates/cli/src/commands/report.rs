//! `cohabit report`: all that is known of a program on one page.

use super::Outcome;
use crate::command_line::shell;
use crate::comparing::results::Results;
use crate::documents::detectors::Detectors;
use crate::documents::simulation::Simulation;
use crate::exit::{End, Failure};
use crate::json::{JsonArgs, name_of, write_text};
use crate::machine::MachineArgs;
use crate::output;
use crate::progress::{during, read_mapping, read_profile};
use crate::report::{Measured, Observed, Page, Placed};
use crate::show::Dram;
use cohabit_cluster::{Options, periods};
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Profile, Result, Topology};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cohabit report p.npz -o p.html             open it in any browser
  cohabit report p.npz --mapping m.json --compare cohabit-compare.json -o p.html
      with the mapping beside the system's order, and what was measured
  cohabit report p.npz --simulate s.json --detectors d.json -o p.html
      with what 'cohabit simulate --json' and 'compare-detectors --json' found
  cohabit report small.npz large.npz -o p.html    two runs on one page
  cohabit report p.npz -o - | gzip > p.html.gz

The page fetches nothing, and is whole without scripts and on paper. Keys work
in it: arrows in the matrix, Shift and arrows in the line of time.";

/// Arguments of `cohabit report`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// The profiles (.npz)
    #[arg(value_name = "P", required = true)]
    profiles: Vec<PathBuf>,
    /// What `cohabit compare -o` kept; may be repeated
    #[arg(long, value_name = "C")]
    compare: Vec<PathBuf>,
    /// What `cohabit simulate --json` found; may be repeated
    #[arg(long, value_name = "S")]
    simulate: Vec<PathBuf>,
    /// What `cohabit compare-detectors --json` found; may be repeated
    #[arg(long, value_name = "D")]
    detectors: Vec<PathBuf>,
    /// The mapping to show, of the one profile [default: the one with the least J of all mappers]
    #[arg(long, value_name = "MAP")]
    mapping: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    /// The page; `-` is standard output
    #[arg(short, long, value_name = "F")]
    output: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

impl Report {
    /// Reads everything, then writes the page whole.
    pub fn run(self) -> Outcome {
        self.check().map_err(Failure::usage)?;
        self.json.check()?;
        if !self.to_stdout() {
            check_writable(&self.output)?;
        }
        let measured = Measured {
            comparisons: all(&self.compare, Results::read)?,
            simulations: all(&self.simulate, Simulation::read)?,
            detectors: all(&self.detectors, Detectors::read)?,
        };
        let observed =
            self.profiles.iter().map(|path| self.observed(path, &measured.simulations)).collect::<Result<Vec<_>>>()?;
        let html = Page { observed: &observed, measured: &measured, made_by: self.command() }.html();
        if self.to_stdout() {
            output::print(&html)?;
            return Ok(End::Done);
        }
        write_text(&self.output, &html)?;
        let fields = json!({
            "page": name_of(&self.output), "bytes": html.len(), "profiles": self.profiles.iter().map(|path| name_of(path)).collect::<Vec<_>>(),
        });
        self.json.emit("report", fields, "")?;
        Ok(End::Done)
    }

    fn to_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    fn check(&self) -> Result<()> {
        if self.to_stdout() && self.json.takes_stdout() {
            return Err(Error::new("several results for standard output").remedy("name a file for one of them"));
        }
        let Some(_) = &self.mapping else { return Ok(()) };
        if self.profiles.len() > 1 {
            return Err(Error::new("one mapping for several profiles").remedy("name the profile that it is of alone"));
        }
        match self.machine.given() {
            Some(option) => Err(Error::new(format!("{option} with --mapping, which has its own machine"))
                .remedy(format!("leave {option} out, or leave --mapping out"))),
            None => Ok(()),
        }
    }

    fn observed(&self, path: &Path, simulations: &[(String, Simulation)]) -> Result<Observed> {
        let profile = read_profile(path)?;
        let timeline = match profile.series.is_empty() {
            true => None,
            false => {
                Some(during("looking for clusters in time", || periods::preferred(&profile, &Options::default()))?)
            }
        };
        let periods = timeline.as_ref().map_or(&[][..], |timeline| &timeline.periods);
        let placed = self.placed(&profile, periods);
        // What the user asked for is there or said at once; what a page shows besides may be missing.
        let placed = match placed {
            Err(error) if self.mapping.is_some() || self.machine.given().is_some() => return Err(error),
            placed => placed.map_err(|error| error.cause),
        };
        let dram = self.dram(&profile, simulations);
        Ok(Observed { path: path.display().to_string(), profile, timeline, placed, dram })
    }

    /// What comes from DRAM, by the first simulation that is of the profile's program: of as many tasks, and where there
    /// are several profiles of the same command.
    fn dram(&self, profile: &Profile, simulations: &[(String, Simulation)]) -> Option<Dram> {
        let is_of = |program: &Option<Vec<String>>| match program {
            Some(program) => profile.meta.command.is_empty() || *program == profile.meta.command,
            None => self.profiles.len() == 1,
        };
        let mut of_program = simulations.iter().filter(|(_, simulation)| is_of(&simulation.program));
        of_program.find_map(|(_, simulation)| Dram::of(simulation, profile))
    }

    fn placed(&self, profile: &Profile, periods: &[cohabit_model::Period]) -> Result<Placed> {
        match &self.mapping {
            Some(path) => {
                let mapping = read_mapping(path)?;
                let topology = Topology::parse_text(&mapping.topology)?;
                let topology = match &mapping.level_costs[..] {
                    [] => topology,
                    costs => topology.with_level_costs(costs)?,
                };
                Placed::new(profile, periods, topology, Some((path.display().to_string(), &mapping)))
            }
            None => Placed::new(profile, periods, self.machine.load()?, None),
        }
    }

    /// This command.
    fn command(&self) -> String {
        let mut words = vec!["cohabit".to_owned(), "report".to_owned()];
        let name = |path: &PathBuf| path.display().to_string();
        words.extend(self.profiles.iter().map(name));
        let given = [("--compare", &self.compare), ("--simulate", &self.simulate), ("--detectors", &self.detectors)];
        for (option, paths) in given {
            words.extend(paths.iter().flat_map(|path| [option.to_owned(), name(path)]));
        }
        words.extend(self.mapping.iter().flat_map(|path| ["--mapping".to_owned(), name(path)]));
        words.extend(self.machine.words());
        words.extend(["-o".to_owned(), name(&self.output)]);
        shell(words)
    }
}

fn all<T>(paths: &[PathBuf], read: fn(&Path) -> Result<T>) -> Result<Vec<(String, T)>> {
    paths.iter().map(|path| Ok((path.display().to_string(), read(path)?))).collect()
}
