//! hwloc's XML (versions 1 to 3, as `lstopo machine.xml` writes it) to a topology.
//!
//! Read here and not by libhwloc, which trusts such files, while mapping files, which people pass on, carry this text.
//! Tried with hwloc 2.9, both of its XML parsers: a file whose objects lack `complete_cpuset` crashes lstopo; one whose
//! cpusets contradict its tree is taken as it is, and ends in an assertion where hwloc_topology_check is called, as
//! the hwlocality crate does in debug builds.
//!
//! What is read: the objects, which PUs are allowed, NUMA distances that mean latency, and kinds of cores. Objects that
//! hold no PUs (devices, memory without PUs) and kinds that say nothing about where PUs part (instruction caches,
//! memory-side caches) are left out.

mod element;

use super::builder::Builder;
use super::cpukinds::{self, CpuKind};
use super::cpuset::CpuSet;
use super::numa::NumaDistances;
use super::{Level, Pu, Topology};
use crate::Result;
use element::Element;
use std::str::FromStr;

/// Latency bit of a distance structure's kind (HWLOC_DISTANCES_KIND_MEANS_LATENCY).
const MEANS_LATENCY: u64 = 1 << 2;

/// Reads a topology from the text of an hwloc XML file.
///
/// # Errors
/// Where it is not XML, not hwloc's, or describes no machine; the place is given as line:column.
pub(super) fn parse(text: &str) -> Result<Topology> {
    let root = &element::parse(text)?;
    if root.tag != "topology" {
        let cause = format!("not hwloc's XML: its root is <{}>", root.tag);
        return Err(root.error(cause).remedy("write one by: lstopo machine.xml"));
    }
    let Some(machine) = root.all("object").find(|object| object.attribute("type") == Some("Machine")) else {
        return Err(root.error("hwloc's XML without a machine"));
    };
    let allowed = set(machine, "allowed_cpuset")?;
    let memory_beside_tree = root.attribute("version").is_some_and(|version| !version.starts_with('1'));
    let mut reader = Reader { builder: Builder::default(), allowed, memory_beside_tree };
    reader.object(machine)?;
    let mut topology = reader.builder.finish(text.into())?;
    for distances in root.all("distances2") {
        if let Some(distances) = numa_distances(distances)? {
            distances.apply(&mut topology)?;
            break;
        }
    }
    let kinds = root.all("cpukind").map(cpu_kind);
    cpukinds::apply(kinds.collect::<Result<_>>()?, &mut topology);
    Ok(topology)
}

struct Reader {
    builder: Builder,
    /// None where the file does not say: all are allowed.
    allowed: Option<CpuSet>,
    /// Since hwloc 2, NUMA nodes are children of what has their PUs; before, they were levels of the tree.
    memory_beside_tree: bool,
}

impl Reader {
    /// Adds an object and all below it.
    fn object(&mut self, object: &Element) -> Result<()> {
        if object.attribute("type") == Some("PU") {
            return self.pu(object);
        }
        let memories = if self.memory_beside_tree { memories(object)? } else { Vec::new() };
        // hwloc makes a group for a NUMA node whose PUs no other object has; the node takes that place itself.
        let level = level_of(object)?.filter(|&level| level != Level::Group || memories.is_empty());
        // The first memory is the default one: innermost, so that a PU's nearest NUMA node is that.
        let mut places: Vec<_> = memories.iter().rev().map(|&memory| (Level::Numa, memory)).collect();
        if let Some(level) = level {
            // A NUMA node lies inside a package, but around the cache with the same PUs: that is what is nearest to
            // them.
            let at = if level > Level::Numa { places.len() } else { 0 };
            places.insert(at, (level, object));
        }
        for &(level, object) in &places {
            self.enter(level, object)?;
        }
        let beside = self.memory_beside_tree;
        for child in object.all("object").filter(|child| !(beside && is_memory(child))) {
            self.object(child)?;
        }
        places.iter().for_each(|_| self.builder.leave());
        Ok(())
    }

    fn enter(&mut self, level: Level, object: &Element) -> Result<()> {
        let size = if level == Level::Numa { "local_memory" } else { "cache_size" };
        let size_bytes = number(object, size)?.unwrap_or(0);
        self.builder.enter(level, number(object, "os_index")?, size_bytes);
        Ok(())
    }

    fn pu(&mut self, object: &Element) -> Result<()> {
        let os_index = number(object, "os_index")?.ok_or_else(|| object.error("a PU without os_index"))?;
        let allowed = self.allowed.as_ref().is_none_or(|set| set.contains(os_index));
        self.builder.pu(Pu { allowed, ..Pu::plain(os_index) });
        Ok(())
    }
}

/// The level an object is of; none for those that are no place of PUs.
fn level_of(object: &Element) -> Result<Option<Level>> {
    let Some(kind) = object.attribute("type") else { return Err(object.error("an object without a type")) };
    Ok(match kind {
        "Machine" => Some(Level::Machine),
        "Package" | "Socket" => Some(Level::Package),
        "Die" => Some(Level::Die),
        "Group" => Some(Level::Group),
        "NUMANode" => Some(Level::Numa),
        "L5Cache" => Some(Level::L5),
        "L4Cache" => Some(Level::L4),
        "L3Cache" => Some(Level::L3),
        "L2Cache" => Some(Level::L2),
        "L1Cache" => Some(Level::L1),
        // Version 1: the depth beside the type; cache_type 2 is an instruction cache.
        "Cache" if object.attribute("cache_type") != Some("2") => match number::<u32>(object, "depth")? {
            Some(1) => Some(Level::L1),
            Some(2) => Some(Level::L2),
            Some(3) => Some(Level::L3),
            Some(4) => Some(Level::L4),
            Some(5) => Some(Level::L5),
            _ => None,
        },
        "Core" => Some(Level::Core),
        _ => None,
    })
}

/// The NUMA nodes attached to an object, also through memory-side caches; those without PUs left out.
fn memories(object: &Element) -> Result<Vec<&Element>> {
    let mut nodes = Vec::new();
    for memory in object.all("object").filter(|child| is_memory(child)) {
        if memory.attribute("type") == Some("NUMANode") && !set(memory, "cpuset")?.is_some_and(|set| set.is_empty()) {
            nodes.push(memory);
        }
        nodes.extend(memories(memory)?);
    }
    Ok(nodes)
}

fn is_memory(object: &Element) -> bool {
    matches!(object.attribute("type"), Some("NUMANode" | "MemCache"))
}

/// A structure of distances, where it is of NUMA nodes by OS index and means latency.
fn numa_distances(element: &Element) -> Result<Option<NumaDistances>> {
    let kind: u64 = number(element, "kind")?.unwrap_or(0);
    let of_nodes = element.attribute("type") == Some("NUMANode") && element.attribute("indexing") == Some("os");
    if !of_nodes || kind & MEANS_LATENCY == 0 {
        return Ok(None);
    }
    let os_indices: Vec<u32> = numbers(element, "indexes")?;
    let values: Vec<u64> = numbers(element, "u64values")?;
    if os_indices.len().checked_mul(os_indices.len()) != Some(values.len()) {
        let (nodes, given) = (os_indices.len(), values.len());
        return Err(element.error(format!("{given} distances between {nodes} NUMA nodes")));
    }
    Ok(Some(NumaDistances { os_indices, values }))
}

/// The numbers in the text of all children with this tag.
fn numbers<T: FromStr>(element: &Element, tag: &str) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    for child in element.all(tag) {
        for word in child.text.split_whitespace() {
            numbers.push(word.parse().map_err(|_| child.error(format!("{word:?} is no number")))?);
        }
    }
    Ok(numbers)
}

fn cpu_kind(element: &Element) -> Result<CpuKind> {
    let info = |name: &str| {
        let infos = element.all("info");
        infos.into_iter().find(|info| info.attribute("name") == Some(name)).and_then(|info| info.attribute("value"))
    };
    let figure = |name: &str| info(name).and_then(|value| value.parse::<u64>().ok());
    Ok(CpuKind {
        cpuset: set(element, "cpuset")?.ok_or_else(|| element.error("a kind of cores without cpuset"))?,
        forced_efficiency: element.attribute("forced_efficiency").and_then(|value| value.parse().ok()),
        linux_capacity: figure("LinuxCapacity"),
        intel_core: info("CoreType").map(|core_type| core_type == "IntelCore"),
        max_mhz: figure("FrequencyMaxMHz"),
        base_mhz: figure("FrequencyBaseMHz"),
    })
}

/// An attribute that is a set; none where it is not there.
fn set(element: &Element, name: &str) -> Result<Option<CpuSet>> {
    let Some(text) = element.attribute(name) else { return Ok(None) };
    CpuSet::parse(text).map(Some).ok_or_else(|| element.error(format!("{name} {text:?} is no set of hwloc's")))
}

/// An attribute that is a number; none where it is not there. hwloc's -1 for "unknown" is none, too.
fn number<T: FromStr>(element: &Element, name: &str) -> Result<Option<T>> {
    let Some(text) = element.attribute(name).filter(|&text| text != "-1") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| element.error(format!("{name} {text:?} is no number, or too large a one")))
}
