//! `cohabit plot`: pictures of profiles, placements, comparisons and simulations, for papers and pages.

use super::Outcome;
use crate::comparing::outcome;
use crate::comparing::results::Results;
use crate::documents::detectors::Detectors;
use crate::documents::simulation::Simulation;
use crate::exit::{End, Failure};
use crate::json::{JsonArgs, name_of};
use crate::machine::MachineArgs;
use crate::mapping::MappingArgs;
use crate::plotting::matrix::Order;
use crate::plotting::{as_wide, detectors, gains, graph, matrix, order, output, series, simulation};
use crate::progress::{during, read_mapping, read_profile};
use clap::ValueEnum;
use cohabit_apply::{Placement, exporter, topology_svg};
use cohabit_cluster::{Options, periods};
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Mapping, Matrix, Profile, Result, Topology};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cohabit plot p.npz --what matrix -o matrix.pdf       who writes, who reads
  cohabit plot p.npz --what matrix --order cluster -o matrix.pdf
      the same, those that communicate side by side; --order placement: by PUs
  cohabit plot p.npz --what graph -o graph.svg         edges between those that do most
  cohabit plot p.npz --what series -o series.svg       how much, and when
  cohabit plot p.npz --what placement -o placement.svg
      the machine with its tasks, as 'best' maps them; --mapping m.json: as it says
  cohabit plot cohabit-compare.json --what gains -o gains.png
      what 'cohabit compare' found, with intervals
  cohabit plot d.json --what detectors -o detectors.pdf
      what 'cohabit compare-detectors --json d.json' found, matrices side by side
  cohabit plot s.json --what simulation -o simulation.pdf
      what 'cohabit simulate --json s.json' found: times, and where from

Pictures are 85 mm wide, a column of a paper, in a map of colours that reads in
grey. A picture that ends in .png or .pdf needs a font on this machine.";

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The matrix of a profile, as a heat map
    Matrix,
    /// Its tasks on a circle, edges from a tenth of the strongest on
    Graph,
    /// Its messages over time, in the colours of the run's parts
    Series,
    /// Its tasks in the machine's boxes, heavy edges between them
    Placement,
    /// The machine's boxes
    Topology,
    /// The changes that comparisons found, with intervals
    Gains,
    /// The matrices of detectors on one run, side by side
    Detectors,
    /// Simulated times of mappings, and where accesses were served
    Simulation,
}

/// In which order the tasks of a matrix or a graph stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// As they are numbered
    Number,
    /// As their PUs stand in the machine, which parts them by its outermost level
    Placement,
    /// Those that communicate much side by side, whatever the machine
    Cluster,
}

/// Arguments of `cohabit plot`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Plot {
    /// The profile (.npz); for gains what `cohabit compare -o` kept, one or several; for detectors and simulation a
    /// document
    #[arg(value_name = "P")]
    inputs: Vec<PathBuf>,
    /// What is drawn
    #[arg(long, value_name = "WHAT", value_enum)]
    what: What,
    /// The picture: .svg, .png or .pdf
    #[arg(short, long, value_name = "F")]
    output: PathBuf,
    /// Its width in millimetres
    #[arg(long, value_name = "MM", default_value_t = 85, value_parser = clap::value_parser!(u16).range(30..=1000))]
    width: u16,
    /// Of matrix and graph: bytes instead of messages
    #[arg(long)]
    bytes: bool,
    /// Of matrix and graph: in which order the tasks stand [default: number]
    #[arg(long, value_name = "BY", value_enum)]
    order: Option<By>,
    /// Of placement, and of matrix and graph by placement: the mapping to draw [default: what `best` says]
    #[arg(long, value_name = "MAP")]
    mapping: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    json: JsonArgs,
}

impl Plot {
    /// Draws and writes.
    pub fn run(self) -> Outcome {
        output::format(&self.output).map_err(Failure::usage)?;
        self.check_used().map_err(Failure::usage)?;
        check_writable(&self.output)?;
        self.json.check()?;
        let svg = self.svg()?;
        output::write(&self.output, &svg)?;
        self.json.emit("plot", json!({ "what": self.named(), "picture": name_of(&self.output) }), "")?;
        Ok(End::Done)
    }

    fn named(&self) -> String {
        self.what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// No option is taken and then not used.
    fn check_used(&self) -> Result<()> {
        let what = self.what;
        let ordered = matches!(what, What::Matrix | What::Graph);
        let placed = what == What::Placement || ordered && self.order == Some(By::Placement);
        let machine = what == What::Topology || placed && self.mapping.is_none();
        let unused = [
            (self.bytes && !ordered, "--bytes"),
            (self.order.is_some() && !ordered, "--order"),
            (self.mapping.is_some() && !placed, "--mapping"),
            (self.machine.given().is_some() && !machine, self.machine.given().unwrap_or_default()),
        ];
        let found = unused.into_iter().find(|(is_unused, _)| *is_unused);
        match found {
            Some((_, option)) if placed && self.mapping.is_some() => {
                Err(Error::new(format!("{option} with --mapping, which has its own machine"))
                    .remedy(format!("leave {option} out, or draw what 'best' says: leave --mapping out")))
            }
            Some((_, option)) => Err(Error::new(format!("{option} does nothing for --what {}", self.named()))
                .remedy(format!("leave {option} out"))),
            None if what == What::Topology && !self.inputs.is_empty() => {
                Err(Error::new("--what topology draws a machine, no file")
                    .remedy("name the machine by --topology; --what placement draws a profile's tasks in it"))
            }
            None => Ok(()),
        }
    }

    fn svg(&self) -> Result<String, Failure> {
        let width_mm = f64::from(self.width);
        Ok(match self.what {
            What::Matrix | What::Graph => {
                let profile = read_profile(self.input("profile", "p.npz")?)?;
                let (matrix, unit) =
                    if self.bytes { (&profile.bytes, "bytes") } else { (&profile.messages, "messages") };
                let order = self.order(&profile)?;
                match self.what {
                    What::Graph => graph::svg(matrix, unit, &order, width_mm)?,
                    _ => matrix::svg(matrix, unit, &order, width_mm)?,
                }
            }
            What::Series => {
                let profile = read_profile(self.input("profile", "p.npz")?)?;
                let timeline =
                    during("looking for clusters in time", || periods::preferred(&profile, &Options::default()));
                series::svg(&profile, timeline.ok().as_ref(), width_mm)?
            }
            What::Placement => as_wide(&self.placement()?, width_mm),
            What::Topology => as_wide(&topology_svg(&self.machine.load()?), width_mm),
            What::Gains => self.gains(width_mm)?,
            What::Detectors => {
                let found = Detectors::read(self.input("document of 'cohabit compare-detectors --json'", "d.json")?)?;
                detectors::svg(&found.matrices()?, width_mm)?
            }
            What::Simulation => {
                let found = Simulation::read(self.input("document of 'cohabit simulate --json'", "s.json")?)?;
                simulation::svg(&found, width_mm)?
            }
        })
    }

    /// The one file that all but gains need.
    fn input(&self, noun: &str, example: &str) -> Result<&Path, Failure> {
        match &self.inputs[..] {
            [path] => Ok(path),
            [] => Err(Failure::usage(
                Error::new(format!("no {noun} is named"))
                    .remedy(format!("name one: cohabit plot {example} --what ...")),
            )),
            _ => Err(Failure::usage(
                Error::new("several files").remedy(format!("name one {noun}; of gains there may be several")),
            )),
        }
    }

    fn placement(&self) -> Result<String, Failure> {
        let profile = read_profile(self.input("profile", "p.npz")?)?;
        let (mapping, topology, weight) = self.mapped(&profile)?;
        Ok(exporter("svg")?.export(&Placement::new(&mapping, &topology, &weight)?)?)
    }

    /// The mapping that is drawn, its machine, and what it weighs.
    fn mapped(&self, profile: &Profile) -> Result<(Mapping, Topology, Matrix), Failure> {
        Ok(match &self.mapping {
            Some(path) => {
                let mapping = read_mapping(path)?;
                let topology = Topology::parse_text(&mapping.topology)?;
                (mapping, topology, profile.messages.clone())
            }
            None => {
                let topology = self.machine.load()?;
                let made = MappingArgs::of(&[]).map(profile, &topology, self.machine.level_costs()?)?;
                (made.mapping, topology, made.weight)
            }
        })
    }

    fn order(&self, profile: &Profile) -> Result<Order, Failure> {
        Ok(match self.order {
            None | Some(By::Number) => Order::default(),
            Some(By::Cluster) => during("looking for who belongs together", || order::by_cluster(&profile.messages))?,
            Some(By::Placement) => {
                let (mapping, topology, weight) = self.mapped(profile)?;
                Placement::new(&mapping, &topology, &weight)?;
                order::by_placement(&mapping, &topology)
            }
        })
    }

    fn gains(&self, width_mm: f64) -> Result<String, Failure> {
        if self.inputs.is_empty() {
            return Err(Failure::usage(
                Error::new("no comparison is named").remedy("name what 'cohabit compare -o' kept"),
            ));
        }
        let read = |path: &PathBuf| {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            Ok((name, Results::read(path)?))
        };
        let kept = self.inputs.iter().map(read).collect::<Result<Vec<_>>>()?;
        let outcomes: Vec<_> = kept
            .iter()
            .map(|(name, results)| (name.clone(), outcome::Outcome::new(results, results.terms())))
            .collect();
        Ok(gains::svg(&outcomes, width_mm)?)
    }
}
