//! `cohabit plot`: pictures of profiles, placements and comparisons, for papers and pages.

use super::Outcome;
use crate::comparing::outcome;
use crate::comparing::results::Results;
use crate::exit::{End, Failure};
use crate::json::{JsonArgs, name_of};
use crate::machine::MachineArgs;
use crate::mapping::MappingArgs;
use crate::plotting::{gains, matrix, output, series};
use crate::progress::read_profile;
use clap::ValueEnum;
use cohabit_apply::{Placement, exporter, topology_svg};
use cohabit_evaluate::compare::Terms;
use cohabit_model::file::check_writable;
use cohabit_model::{Error, Mapping, Matrix, Result, Topology};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  cohabit plot p.npz --what matrix -o matrix.pdf       who writes, who reads
  cohabit plot p.npz --what series -o series.svg       how much, and when
  cohabit plot p.npz --what placement -o placement.svg
      the machine with its tasks, as 'best' maps them; --mapping m.json: as it says
  cohabit plot cohabit-compare.json --what gains -o gains.png
      what 'cohabit compare' found, with intervals

Pictures are 85 mm wide, a column of a paper, in a map of colours that reads in
grey. A picture that ends in .png or .pdf needs a font on this machine.";

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The matrix of a profile, as a heat map
    Matrix,
    /// Its messages over time
    Series,
    /// Its tasks in the machine's boxes, heavy edges between them
    Placement,
    /// The machine's boxes
    Topology,
    /// The changes that comparisons found, with intervals
    Gains,
}

/// Arguments of `cohabit plot`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Plot {
    /// The profile (.npz), or for gains what `cohabit compare -o` kept, one or several
    #[arg(value_name = "P")]
    inputs: Vec<PathBuf>,
    /// What is drawn
    #[arg(long, value_name = "WHAT", value_enum)]
    what: What,
    /// The picture: .svg, .png or .pdf
    #[arg(short, long, value_name = "F")]
    output: PathBuf,
    /// Its width in millimetres (of matrix, series and gains)
    #[arg(long, value_name = "MM", default_value_t = 85, value_parser = clap::value_parser!(u16).range(30..=1000))]
    width: u16,
    /// Of matrix: bytes instead of messages
    #[arg(long)]
    bytes: bool,
    /// Of placement: the mapping to draw [default: what `best` says]
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
        check_writable(&self.output)?;
        self.json.check()?;
        let svg = self.svg()?;
        output::write(&self.output, &svg)?;
        let name = self.what.to_possible_value().map(|value| value.get_name().to_owned());
        self.json.emit("plot", json!({ "what": name, "picture": name_of(&self.output) }), "")?;
        Ok(End::Done)
    }

    fn svg(&self) -> Result<String, Failure> {
        let width_mm = f64::from(self.width);
        Ok(match self.what {
            What::Matrix => {
                let profile = read_profile(self.profile()?)?;
                let (matrix, unit) =
                    if self.bytes { (&profile.bytes, "bytes") } else { (&profile.messages, "messages") };
                matrix::svg(matrix, unit, width_mm)?
            }
            What::Series => series::svg(&read_profile(self.profile()?)?, width_mm)?,
            What::Placement => self.placement()?,
            What::Topology => topology_svg(&self.machine.load()?),
            What::Gains => self.gains(width_mm)?,
        })
    }

    /// The one file that all but gains need.
    fn profile(&self) -> Result<&Path, Failure> {
        match &self.inputs[..] {
            [path] => Ok(path),
            [] => {
                Err(Failure::usage(Error::new("no profile is named").remedy("name one: cohabit plot p.npz --what ...")))
            }
            _ => Err(Failure::usage(Error::new("several profiles").remedy("name one; of gains there may be several"))),
        }
    }

    fn placement(&self) -> Result<String, Failure> {
        let profile = read_profile(self.profile()?)?;
        let (mapping, topology, weight): (Mapping, Topology, Matrix) = match &self.mapping {
            Some(path) => {
                let mapping = Mapping::read(path)?;
                let topology = Topology::parse_text(&mapping.topology)?;
                (mapping, topology, profile.messages.clone())
            }
            None => {
                let topology = self.machine.load()?;
                let made = MappingArgs::of(&[]).map(&profile, &topology, self.machine.level_costs()?)?;
                (made.mapping, topology, made.weight)
            }
        };
        Ok(exporter("svg")?.export(&Placement::new(&mapping, &topology, &weight)?)?)
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
        let outcome = |(name, results): &'_ (String, Results)| -> (String, Terms) {
            (name.clone(), Terms { higher_is_better: results.higher_is_better, ..Terms::default() })
        };
        let terms: Vec<_> = kept.iter().map(outcome).collect();
        let outcomes: Vec<_> = kept
            .iter()
            .zip(terms)
            .map(|((_, results), (name, terms))| (name, outcome::Outcome::new(results, terms)))
            .collect();
        Ok(gains::svg(&outcomes, width_mm)?)
    }
}
