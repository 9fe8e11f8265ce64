//! `--topology` and `--level-costs`, which several commands take.

use crate::{output, progress};
use cohabit_model::topology::cluster;
use cohabit_model::topology::costs::parse_level_costs;
use cohabit_model::{Result, Topology};
use std::path::Path;

/// The machine that this is.
const LIVE: &str = "live";

/// Where the tasks are to run.
#[derive(clap::Args, Debug, Clone)]
pub struct MachineArgs {
    /// The machine: `live`, an hwloc XML file, a synthetic string ("pack:2 core:14 pu:2"), a cluster file (.toml,
    /// docs/cluster.md) or matrix:FILE.csv [default: live]
    #[arg(long, value_name = "T")]
    topology: Option<String>,
    #[command(flatten)]
    costs: LevelCostArgs,
}

/// Distances of the user's own.
#[derive(clap::Args, Debug, Clone)]
pub struct LevelCostArgs {
    /// Distances instead of the topology's own: one for each level at which it branches, from the root down (100,10,1)
    #[arg(long, value_name = "C,C,...")]
    level_costs: Option<String>,
}

impl MachineArgs {
    /// The topology, with the distances that were asked for.
    ///
    /// # Errors
    /// Where it cannot be read, or the costs do not fit it.
    pub fn load(&self) -> Result<Topology> {
        self.costs.load(self.named())
    }

    fn named(&self) -> &str {
        self.topology.as_deref().unwrap_or(LIVE)
    }

    /// The option of these that was given, where one was.
    pub fn given(&self) -> Option<&'static str> {
        match self.topology {
            Some(_) => Some("--topology"),
            None => self.costs.level_costs.as_ref().map(|_| "--level-costs"),
        }
    }

    /// These options as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let topology = self.topology.iter().flat_map(|text| ["--topology".to_owned(), text.clone()]);
        let costs = self.costs.level_costs.iter().flat_map(|text| ["--level-costs".to_owned(), text.clone()]);
        topology.chain(costs).collect()
    }

    /// Whether it is another machine than this one, whose topology is `loaded`.
    ///
    /// # Errors
    /// Where this one's cannot be read.
    pub fn is_another(&self, loaded: &Topology) -> Result<bool> {
        Ok(self.named() != LIVE && loaded.text != Topology::load(LIVE)?.text)
    }

    /// `--level-costs` as numbers; empty where the topology's own distances hold.
    ///
    /// # Errors
    /// Where one is no number.
    pub fn level_costs(&self) -> Result<Vec<u64>> {
        self.costs.numbers()
    }
}

impl LevelCostArgs {
    /// The topology that `text` names, with the distances that were asked for.
    ///
    /// # Errors
    /// Where it cannot be read, or the costs do not fit it.
    pub fn load(&self, text: &str) -> Result<Topology> {
        let topology = progress::during("reading the topology", || load(text))?;
        match self.level_costs {
            Some(_) => topology.with_level_costs(&self.numbers()?),
            None => Ok(topology),
        }
    }

    /// The topology of a mapping's text, with the distances that were asked for, else those that the mapping was made
    /// with.
    ///
    /// # Errors
    /// Where it is no topology, or the costs do not fit it.
    pub fn parse(&self, text: &str, level_costs: &[u64]) -> Result<Topology> {
        let topology = progress::during("reading the topology", || Topology::parse_text(text))?;
        let given = self.numbers()?;
        match if given.is_empty() { level_costs } else { &given } {
            [] => Ok(topology),
            costs => topology.with_level_costs(costs),
        }
    }

    fn numbers(&self) -> Result<Vec<u64>> {
        self.level_costs.as_deref().map_or(Ok(Vec::new()), parse_level_costs)
    }
}

/// The topology that a user names; what a cluster file has that is not used is told.
fn load(text: &str) -> Result<Topology> {
    let path = Path::new(text);
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("toml")) {
        return Topology::load(text);
    }
    let (topology, notes) = cluster::load(path)?;
    notes.iter().for_each(|note| output::note(note));
    Ok(topology)
}
