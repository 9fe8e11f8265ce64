//! What a cluster file says of ports and switches, and with it the hardware communication topology (IBM report, 3.1):
//! an element for each node of the topology, with the same number.

use super::file::{ClusterFile, MEMORY_KEYS, MemoryTable, Names, PlaceTable, PortTable};
use super::quantity;
use crate::hct::{Hct, MemorySpeeds, Port};
use crate::topology::{Level, NodeId, Topology};
use crate::{Error, Result};
use std::collections::HashMap;

/// Levels inside a host that have ports.
const LEVELS: [Level; 11] = [
    Level::Package,
    Level::Die,
    Level::Group,
    Level::Numa,
    Level::L5,
    Level::L4,
    Level::L3,
    Level::L2,
    Level::L1,
    Level::Core,
    Level::Pu,
];

/// Ports, maximum bandwidths and speeds of memory by node.
pub struct Ports {
    ports: HashMap<NodeId, Port>,
    max_bandwidth: HashMap<NodeId, f64>,
    /// By host.
    memory: HashMap<NodeId, MemorySpeeds>,
}

impl Ports {
    /// Of the nodes of the topology that the file became.
    ///
    /// # Errors
    /// A port of what is not there, a second port, a bandwidth or latency that is no number above 0.
    pub fn new(file: &ClusterFile, topology: &Topology) -> Result<Self> {
        let node_of: HashMap<&str, NodeId> = topology.names.iter().map(|(&node, name)| (name.as_str(), node)).collect();
        let mut found = Self { ports: HashMap::new(), max_bandwidth: HashMap::new(), memory: HashMap::new() };
        for table in &file.port {
            let name = described(table);
            let port = port(table).map_err(|error| error.at(&name))?;
            for node in nodes(table, topology, &node_of).map_err(|error| error.at(&name))? {
                if found.ports.insert(node, port.clone()).is_some() {
                    let of = topology.names.get(&node).map_or("a place in a host", String::as_str);
                    return Err(Error::new(format!("{name}: {of} has two ports upwards"))
                        .remedy("one [[port]] says all of a port: out, in, latency_ns, max_bandwidth"));
                }
            }
        }
        for table in &file.switch {
            found.limit(&table.name, table.max_bandwidth.as_ref(), &node_of)?;
        }
        for (table, host) in file.host.iter().enumerate().filter(|(_, host)| host.max_bandwidth.is_some()) {
            let tree = super::Tree::new(file)?;
            for named in tree.hosts.iter().filter(|named| named.table == table) {
                found.limit(&named.name, host.max_bandwidth.as_ref(), &node_of)?;
            }
        }
        for table in &file.place {
            found
                .limit_places(table, topology, &node_of)
                .map_err(|error| error.at(format!("place {}", table.level)))?;
        }
        for table in &file.memory {
            let speeds = memory(table).map_err(|error| error.at("memory"))?;
            for node in named(table.of.as_ref(), topology, &node_of).map_err(|error| error.at("memory"))? {
                let name = topology.names.get(&node).map_or("a host", String::as_str);
                if topology.hosts().all(|host| host.0 != node) {
                    return Err(Error::new(format!("memory: {name} is no host")).remedy("'of' names hosts"));
                }
                if found.memory.insert(node, speeds).is_some() {
                    return Err(Error::new(format!("memory: {name} is described twice"))
                        .remedy("one [[memory]] says all of a host's memory"));
                }
            }
        }
        Ok(found)
    }

    fn limit_places(&mut self, table: &PlaceTable, topology: &Topology, node_of: &HashMap<&str, NodeId>) -> Result<()> {
        let rate = quantity::rate(&table.max_bandwidth).map_err(|error| error.at("max_bandwidth"))?;
        if Level::Pu.key() == Some(&table.level) {
            return Err(Error::new("messages end at a PU, and none go through it")
                .remedy("[[port]] level = \"pu\" says how fast its port is"));
        }
        for node in places(&named(table.of.as_ref(), topology, node_of)?, &table.level, topology)? {
            if self.max_bandwidth.insert(node, rate).is_some() {
                return Err(
                    Error::new("a place has two maximum bandwidths").remedy("one [[place]] says all of a place")
                );
            }
        }
        Ok(())
    }

    fn limit(&mut self, name: &str, limit: Option<&toml::Value>, node_of: &HashMap<&str, NodeId>) -> Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        let rate = quantity::rate(limit).map_err(|error| error.at(format!("{name}: max_bandwidth")))?;
        self.max_bandwidth.extend(node_of.get(name).map(|&node| (node, rate)));
        Ok(())
    }
}

impl Topology {
    /// The hardware communication topology of a cluster: element k is node k, and PUs are the processing elements.
    /// Nodes of which the cluster file says nothing limit nothing.
    ///
    /// # Errors
    /// Where the topology is not that of a cluster file: nothing else says how fast ports are.
    pub fn hct(&self) -> Result<Hct> {
        if !super::is_cluster(&self.text) {
            return Err(Error::new("the topology does not say how fast its ports and switches are")
                .remedy("give a cluster file (docs/cluster.md): 'cohabit measure -o cluster.toml' writes one"));
        }
        let ports = Ports::new(&ClusterFile::parse(&self.text)?, self)?;
        let mut hct = Hct::new(ports.max_bandwidth.get(&0).copied())?;
        ports.memory.get(&0).map_or(Ok(()), |speeds| hct.set_memory(0, *speeds))?;
        for (id, node) in self.nodes.iter().enumerate().skip(1) {
            let parent = node.parent.unwrap_or(0);
            let port = ports.ports.get(&id).cloned().unwrap_or_default();
            match node.level {
                Level::Pu => hct.add_processing(parent, port)?,
                _ => hct.add_switch(parent, port, ports.max_bandwidth.get(&id).copied())?,
            };
            ports.memory.get(&id).map_or(Ok(()), |speeds| hct.set_memory(id, *speeds))?;
        }
        Ok(hct)
    }
}

/// What a table is called in errors.
fn described(table: &PortTable) -> String {
    let of = table.of.as_ref().map_or_else(|| "all hosts".to_owned(), |names| names.lists().join(","));
    match &table.level {
        Some(level) => format!("port of {level} in {of}"),
        None => format!("port of {of}"),
    }
}

fn port(table: &PortTable) -> Result<Port> {
    let given = |key: &str, value: Option<&toml::Value>| {
        value.map(|value| quantity::bandwidth(value).map_err(|error| error.at(key))).transpose()
    };
    let both = given("bandwidth", table.bandwidth.as_ref())?;
    let (inwards, out) = (given("in", table.inwards.as_ref())?, given("out", table.out.as_ref())?);
    let max =
        table.max_bandwidth.as_ref().map(|value| quantity::rate(value).map_err(|error| error.at("max_bandwidth")));
    let max_bandwidth = max.transpose()?;
    if both.is_some() && (inwards.is_some() || out.is_some()) {
        return Err(Error::new("bandwidth beside in or out").remedy("bandwidth is for both directions"));
    }
    if both.is_none() && inwards.is_none() && out.is_none() && max_bandwidth.is_none() && table.latency_ns.is_none() {
        return Err(Error::new("nothing is said of it").remedy("give bandwidth, in, out, latency_ns or max_bandwidth"));
    }
    let asks_from =
        table.asks_from.as_ref().map(|value| quantity::length(value).map_err(|error| error.at("asks_from")));
    let latency_ns = table.latency_ns.unwrap_or(0.0);
    if !(latency_ns.is_finite() && latency_ns >= 0.0) {
        return Err(Error::new(format!("a latency of {latency_ns} ns")).remedy("it must be a number from 0 on"));
    }
    Ok(Port {
        out: out.or_else(|| both.clone()).unwrap_or_default(),
        inwards: inwards.or(both).unwrap_or_default(),
        latency_s: latency_ns * 1e-9,
        max_bandwidth,
        asks_from: asks_from.transpose()?,
    })
}

fn memory(table: &MemoryTable) -> Result<MemorySpeeds> {
    let mut rates = [None; 4];
    for ((rate, value), key) in rates.iter_mut().zip(table.all()).zip(MEMORY_KEYS) {
        *rate = value.map(|value| quantity::rate(value).map_err(|error| error.at(key))).transpose()?;
    }
    if rates.iter().all(Option::is_none) {
        return Err(Error::new("nothing is said of it").remedy(format!("give {}", MEMORY_KEYS.join(", "))));
    }
    let [node, remote, task, cache] = rates;
    Ok(MemorySpeeds { node, remote, task, cache })
}

/// The nodes whose port the table describes.
fn nodes(table: &PortTable, topology: &Topology, node_of: &HashMap<&str, NodeId>) -> Result<Vec<NodeId>> {
    let named = named(table.of.as_ref(), topology, node_of)?;
    match &table.level {
        Some(level) => places(&named, level, topology),
        None if named.contains(&0) => {
            Err(Error::new(format!("nothing is above {}, so it has no port upwards", topology.names[&0]))
                .remedy("max_bandwidth in its own table says what it lets through in all"))
        }
        None => Ok(named),
    }
}

/// The hosts and switches of these names, or all hosts.
fn named(names: Option<&Names>, topology: &Topology, node_of: &HashMap<&str, NodeId>) -> Result<Vec<NodeId>> {
    let Some(names) = names else { return Ok(topology.hosts().map(|(node, _)| node).collect()) };
    let node = |name: String| {
        node_of.get(name.as_str()).copied().ok_or_else(|| {
            Error::new(format!("{name} is neither a host nor a switch"))
                .remedy("'of' names hosts or switches; 'level' is for places inside hosts")
        })
    };
    names.expand()?.into_iter().map(node).collect()
}

/// The places of a level inside those hosts, or below those switches.
fn places(named: &[NodeId], level: &str, topology: &Topology) -> Result<Vec<NodeId>> {
    let Some(level) = LEVELS.into_iter().find(|known| known.key() == Some(level)) else {
        let known = LEVELS.map(|level| level.key().unwrap_or_default()).join(", ");
        return Err(Error::new(format!("{level:?} is no level inside a host")).remedy(format!("one of: {known}")));
    };
    let mut found = Vec::new();
    for &node in named {
        let before = found.len();
        found.extend(topology.below(node).filter(|&below| topology.nodes[below].level == level));
        if found.len() == before {
            let name = topology.names.get(&node).map_or("a host", String::as_str);
            return Err(Error::new(format!("{name} has no {level}")).remedy("'cohabit topology' shows its levels"));
        }
    }
    Ok(found)
}
