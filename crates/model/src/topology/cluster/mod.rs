//! Clusters: a TOML file of hosts, switches and ports (docs/cluster.md) as one tree, switches above hosts above
//! packages, and as the hardware communication topology of the IBM report (3.1).
//!
//! `file` is the TOML, `hostlist` the names in it, `quantity` the bandwidths, `slurm` Slurm's topology.conf, `tree` who
//! is above whom, `ports` what is known of ports and switches.

mod file;
pub mod hostlist;
mod ports;
mod quantity;
mod slurm;
#[cfg(test)]
mod tests;
mod tree;

pub use file::{ClusterFile, HostTable, MEMORY_KEYS, MemoryTable, Names, PlaceTable, PortTable, SwitchTable};

use super::builder::Builder;
use super::synthetic::MAX_NODES;
use super::{Level, Topology, costs, matrix};
use crate::file::read_text;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use tree::{Member, Tree};

/// A cluster file, with the XML of its hosts in other files, is far smaller.
const LIMIT_BYTES: u64 = 64 << 20;

/// Whether a text is that of a cluster file: neither hwloc's XML nor a synthetic string has such a table.
pub(super) fn is_cluster(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("[[host]]"))
}

/// Reads a cluster file and the files that it names, which lie relative to it. Also returns what in them is not used.
///
/// # Errors
/// Where a file cannot be read, or they do not describe a cluster.
pub fn load(path: &Path) -> Result<(Topology, Vec<String>)> {
    let (file, notes) = read(path)?;
    Ok((build(&file).map_err(|error| error.at(path.display()))?, notes))
}

/// The tables of a cluster file, with what other files say put in its place. Also returns what in them is not used.
///
/// # Errors
/// Where a file cannot be read, or is no such file.
pub fn read(path: &Path) -> Result<(ClusterFile, Vec<String>)> {
    let at = |error: Error| error.at(path.display());
    let mut file = ClusterFile::parse(&read_text(path, LIMIT_BYTES)?).map_err(at)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for host in &mut file.host {
        host.topology = host_text(&host.topology, folder).map_err(at)?;
    }
    let mut notes = Vec::new();
    if let Some(name) = file.slurm.take() {
        if !file.switch.is_empty() {
            return Err(at(
                Error::new("switches both in [[switch]] and in Slurm's file").remedy("leave one of them out")
            ));
        }
        let slurm = folder.join(name);
        let read = slurm::parse(&read_text(&slurm, LIMIT_BYTES)?).map_err(|error| error.at(slurm.display()))?;
        file.switch = read.0;
        notes.extend(read.1.into_iter().map(|note| format!("{}: {note}", slurm.display())));
    }
    Ok((file, notes))
}

/// What one host is, as text that needs no file.
fn host_text(text: &str, folder: &Path) -> Result<String> {
    let file = folder.join(text);
    if text == "live" {
        return Ok(Topology::load(text)?.text);
    }
    if text.ends_with(".xml") || (!text.contains('\n') && file.is_file()) {
        return read_text(&file, LIMIT_BYTES);
    }
    Ok(text.to_owned())
}

/// Reads the text of a cluster whose hosts are described in it: what [`Topology::text`] of a cluster is.
///
/// # Errors
/// As [`load`]; where it names another file.
pub fn parse(text: &str) -> Result<Topology> {
    build(&ClusterFile::parse(text)?)
}

/// The topology of a file that names no other.
///
/// # Errors
/// Where it does not describe a cluster.
pub fn build(file: &ClusterFile) -> Result<Topology> {
    if file.slurm.is_some() {
        return Err(Error::new("the switches are in another file").remedy("read the cluster file itself"));
    }
    let shapes = file.host.iter().enumerate().map(|(table, host)| shape(table, &host.topology));
    let shapes = shapes.collect::<Result<Vec<_>>>()?;
    let tree = Tree::new(file)?;
    let nodes: u64 = tree.hosts.iter().map(|host| shapes[host.table].nodes.len() as u64).sum();
    if nodes > MAX_NODES {
        return Err(Error::new(format!("a cluster of {nodes} nodes; at most {MAX_NODES} are supported")));
    }
    let mut growing = Growing {
        tree: &tree,
        shapes: &shapes,
        builder: Builder::default(),
        costs: Vec::new(),
        names: BTreeMap::new(),
    };
    growing.add(tree.root);
    let Growing { builder, costs, names, .. } = growing;
    let mut topology = builder.finish_hosts(file.to_toml())?;
    for (node, cost) in topology.nodes.iter_mut().zip(costs) {
        node.cost = cost.unwrap_or(0);
    }
    costs::set_switch_costs(&mut topology);
    topology.names = names;
    ports::Ports::new(file, &topology)?;
    Ok(topology)
}

/// What the hosts of a table look like.
fn shape(table: usize, text: &str) -> Result<Topology> {
    let failed = |error: Error| error.at(format!("[[host]] {}", table + 1));
    if is_cluster(text) || text.starts_with(matrix::PREFIX) {
        return Err(failed(
            Error::new("a host is no cluster and no matrix of distances")
                .remedy("give hwloc XML, a synthetic string or live"),
        ));
    }
    Topology::parse_text(text).map_err(failed)
}

/// A topology that is built from the root down.
struct Growing<'a> {
    tree: &'a Tree,
    shapes: &'a [Topology],
    builder: Builder,
    /// The cost of each node of a host; none of a switch.
    costs: Vec<Option<u64>>,
    names: BTreeMap<usize, String>,
}

impl Growing<'_> {
    fn add(&mut self, member: Member) {
        let name = self.tree.name(member).to_owned();
        match member {
            Member::Host(host) => {
                let shape = &self.shapes[self.tree.hosts[host].table];
                self.names.insert(self.costs.len(), name);
                self.costs.extend(shape.nodes.iter().map(|node| Some(node.cost)));
                self.builder.graft(shape, 0);
            }
            Member::Switch(switch) => {
                let id = self.builder.enter(Level::Switch, None, 0);
                if !name.is_empty() {
                    self.names.insert(id, name);
                }
                self.costs.push(None);
                for &member in &self.tree.switches[switch].members {
                    self.add(member);
                }
                self.builder.leave();
            }
        }
    }
}
