//! The tables of a cluster file (docs/cluster.md), as TOML has them.

use super::hostlist;
use crate::file::in_words;
use crate::hct::MemorySpeeds;
use crate::mapping_file::check_format;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The format number of a cluster file; one without a number has this one.
pub const FORMAT: u64 = 1;

/// The keys of [`MemoryTable`] that are speeds.
pub const MEMORY_KEYS: [&str; 4] = ["node", "remote", "task", "cache"];

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// [`FORMAT`].
    #[serde(default = "format")]
    pub format: u64,
    /// Slurm's topology.conf, which then has the switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<String>,
    /// Hosts that are alike, a table each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<HostTable>,
    /// Switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switch: Vec<SwitchTable>,
    /// Places inside hosts that messages go through: caches, NUMA nodes, packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<PlaceTable>,
    /// How fast the memory of hosts is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryTable>,
    /// Ports of hosts, of switches, and of places inside hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port: Vec<PortTable>,
}

/// Hosts that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// Their names; none: all that switches name and no other table describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Names>,
    /// What each is: hwloc XML (a file of it beside the cluster file), a synthetic string, or `live`.
    pub topology: String,
    /// Bytes/s through the host in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bandwidth: Option<toml::Value>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTable {
    /// Its name.
    pub name: String,
    /// Hosts and switches below it.
    pub members: Names,
    /// Bytes/s through the switch in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bandwidth: Option<toml::Value>,
}

/// Places inside hosts that messages go through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceTable {
    /// Hosts; none: all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Names>,
    /// What they are.
    pub level: String,
    /// Bytes/s through each of them in all.
    pub max_bandwidth: toml::Value,
}

/// How fast the memory of hosts is: bytes/s that are read of it ([`MemorySpeeds`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTable {
    /// Hosts; none: all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Names>,
    /// Of a NUMA node, by all of its own PUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<toml::Value>,
    /// Of a NUMA node, by all PUs of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<toml::Value>,
    /// By one PU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<toml::Value>,
    /// Of what lies in a shared cache, by all PUs below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<toml::Value>,
}

/// What joins a host, a switch or a place inside hosts to what is above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortTable {
    /// Hosts or switches; none: all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Names>,
    /// The places inside those hosts whose ports these are; none: the hosts' and switches' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Of each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Messages of this length and longer are asked for before they are sent through it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_from: Option<toml::Value>,
    /// Bytes/s in each direction when several pairs share the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bandwidth: Option<toml::Value>,
    /// Bytes/s in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<toml::Value>,
    /// Bytes/s towards what is below.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub inwards: Option<toml::Value>,
    /// Bytes/s towards what is above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<toml::Value>,
}

/// A list of names, or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "names are a string such as \"node[01-08]\", or an array of such strings")]
pub enum Names {
    /// `"node[01-08]"`.
    One(String),
    /// `["node[01-08]", "login"]`.
    Several(Vec<String>),
}

fn format() -> u64 {
    FORMAT
}

impl ClusterFile {
    /// Reads TOML.
    ///
    /// # Errors
    /// Where it is none, or has keys that a cluster file does not; the line is named. A newer format.
    pub fn parse(text: &str) -> Result<Self> {
        let read = toml::from_str::<Self>(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
            let cause = in_words(error.message());
            Error::new(format!("line {line}: {cause}")).remedy("docs/cluster.md describes the file")
        })?;
        check_format(read.format, FORMAT, "cluster")?;
        Ok(read)
    }

    /// As TOML; reading it gives the same file again.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("tables of strings and numbers are TOML")
    }
}

impl ClusterFile {
    /// A file of these tables.
    pub fn new(host: Vec<HostTable>, switch: Vec<SwitchTable>, port: Vec<PortTable>) -> Self {
        Self { format: FORMAT, slurm: None, host, switch, place: Vec::new(), memory: Vec::new(), port }
    }
}

impl SwitchTable {
    /// Says how many bytes/s go through it in all.
    pub fn limit(&mut self, rate: f64) {
        self.max_bandwidth = Some(toml::Value::Float(rounded(rate)));
    }
}

impl HostTable {
    /// Says how many bytes/s go through each host in all.
    pub fn limit(&mut self, rate: f64) {
        self.max_bandwidth = Some(toml::Value::Float(rounded(rate)));
    }
}

impl PlaceTable {
    /// The places of a level in all hosts, with the bytes/s that were measured through one.
    pub fn measured(level: &str, rate: f64) -> Self {
        Self { of: None, level: level.to_owned(), max_bandwidth: toml::Value::Float(rounded(rate)) }
    }
}

impl MemoryTable {
    /// Of all hosts, as measured.
    pub fn measured(speeds: &MemorySpeeds) -> Self {
        let [node, remote, task, cache] = speeds.all().map(|rate| Some(toml::Value::Float(rounded(rate?))));
        Self { of: None, node, remote, task, cache }
    }

    /// All values, in the order of [`MEMORY_KEYS`].
    pub fn all(&self) -> [Option<&toml::Value>; 4] {
        [self.node.as_ref(), self.remote.as_ref(), self.task.as_ref(), self.cache.as_ref()]
    }
}

impl PortTable {
    /// A port that was measured: bytes/s in each direction by message length, and of several pairs at once.
    pub fn measured(of: Option<String>, level: Option<&str>, points: &[(u64, f64)], max: Option<f64>) -> Self {
        let entry = |&(length, rate): &(u64, f64)| (length.to_string(), toml::Value::Float(rounded(rate)));
        Self {
            of: of.map(Names::One),
            level: level.map(str::to_owned),
            latency_ns: None,
            asks_from: None,
            max_bandwidth: max.map(|max| toml::Value::Float(rounded(max))),
            bandwidth: Some(toml::Value::Table(points.iter().map(entry).collect())),
            inwards: None,
            out: None,
        }
    }
}

impl PortTable {
    /// From which length on messages are asked for before they are sent through the port; none: they are not.
    pub fn set_asks_from(&mut self, length: Option<u64>) {
        self.asks_from = length.and_then(|length| i64::try_from(length).ok()).map(toml::Value::Integer);
    }
}

/// To four digits: no measurement has more.
fn rounded(rate: f64) -> f64 {
    format!("{rate:.3e}").parse().unwrap_or(rate)
}

impl Names {
    /// One list.
    pub fn one(list: impl Into<String>) -> Self {
        Self::One(list.into())
    }

    /// The lists as they are written.
    pub fn lists(&self) -> &[String] {
        match self {
            Self::One(list) => std::slice::from_ref(list),
            Self::Several(lists) => lists,
        }
    }

    /// All names, in order.
    ///
    /// # Errors
    /// As [`hostlist::expand`].
    pub fn expand(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for list in self.lists() {
            names.extend(hostlist::expand(list)?);
            hostlist::check_count(names.len())?;
        }
        Ok(names)
    }
}
