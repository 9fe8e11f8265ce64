//! `cohabit topology`: the machine as a tree with distances, as text, SVG or JSON.

use super::Outcome;
use crate::exit::End;
use crate::json::{JsonArgs, write_text};
use crate::machine::LevelCostArgs;
use crate::picture;
use cohabit_model::Topology;
use cohabit_model::file::check_writable;
use cohabit_model::topology::Branching;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  cohabit topology                                     this machine
  cohabit topology \"pack:2 core:14 pu:2\" --svg t.svg   another, also as a picture
  cohabit topology node.xml --level-costs 100,10,1     with distances of one's own
  cohabit topology cluster.toml                        hosts and switches";

/// Arguments of `cohabit topology`.
#[derive(clap::Args)]
#[command(name = "topology", after_help = EXAMPLES)]
pub struct TopologyCommand {
    /// The machine: `live`, an hwloc XML file, a synthetic string ("pack:2 core:14 pu:2"), a cluster file (.toml,
    /// docs/cluster.md) or matrix:FILE.csv
    #[arg(value_name = "T", default_value = "live")]
    topology: String,
    #[command(flatten)]
    costs: LevelCostArgs,
    /// Draw the tree to FILE as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

impl TopologyCommand {
    /// Prints the tree, and draws it where that was asked for.
    pub fn run(self) -> Outcome {
        if let Some(path) = &self.svg {
            check_writable(path)?;
        }
        self.json.check()?;
        let topology = self.costs.load(&self.topology)?;
        if let Some(path) = &self.svg {
            write_text(path, &cohabit_apply::topology_svg(&topology))?;
        }
        self.json.emit("topology", fields(&topology), &picture::topology_text(&topology))?;
        Ok(End::Done)
    }
}

/// The fields of the document. They are made while they are written: all at once those of a million PUs would be
/// gibibytes.
#[derive(Serialize)]
struct Fields<'a> {
    branching: Vec<Value>,
    nodes: Nodes<'a>,
    pus: Pus<'a>,
    has_matrix: bool,
    text: &'a str,
}

/// The nodes, one after another.
struct Nodes<'a>(&'a Topology);

/// The PUs, one after another.
struct Pus<'a>(&'a Topology);

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(topology) = self;
        serializer.collect_seq(topology.nodes.iter().enumerate().map(|(id, node)| {
            json!({
                "level": node.level.name(), "os_index": node.os_index, "parent": node.parent, "distance": node.cost,
                "size_bytes": node.size_bytes, "name": topology.names.get(&id),
            })
        }))
    }
}

impl Serialize for Pus<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(topology) = self;
        serializer.collect_seq(topology.pus.iter().enumerate().map(|(index, pu)| {
            json!({
                "os_index": pu.os_index, "node": pu.node, "allowed": pu.allowed, "core_kind": pu.core_kind,
                "capacity": pu.capacity, "host": topology.host_of(index),
            })
        }))
    }
}

fn fields(topology: &Topology) -> Fields<'_> {
    let level = |level: &Branching| json!({ "level": level.level.name(), "nodes": level.nodes, "arity": level.arity, "distance": level.cost });
    Fields {
        branching: topology.branching().iter().map(level).collect(),
        nodes: Nodes(topology),
        pus: Pus(topology),
        has_matrix: topology.matrix.is_some(),
        text: &topology.text,
    }
}
