//! hwloc's XML (versions 1 to 3, as `lstopo machine.xml` writes it) to a topology.
//!
//! Read here and not by libhwloc, which trusts such files: where sets contradict the tree it aborts by an assertion, where
//! some are missing version 2.9 crashes, and mapping files, which people pass on, carry this text. What is read: the objects, which PUs are
//! allowed, NUMA distances that mean latency, and kinds of cores. Objects that hold no PUs (devices, memory without PUs)
//! and kinds that say nothing about where PUs part (instruction caches, memory-side caches) are left out.

use super::builder::Builder;
use super::cpukinds::{self, CpuKind};
use super::cpuset::CpuSet;
use super::numa::NumaDistances;
use super::{Level, Pu, Topology};
use crate::{Error, Result};
use roxmltree::{Document, Node, ParsingOptions};
use std::str::FromStr;

/// Objects inside each other: machines have some ten levels, files made to break readers have more.
const MAX_DEPTH: usize = 64;

/// XML nodes in one file; a PU with its core and caches takes about ten.
const MAX_XML_NODES: u32 = 1 << 25;

/// Latency bit of a distance structure's kind (HWLOC_DISTANCES_KIND_MEANS_LATENCY).
const MEANS_LATENCY: u64 = 1 << 2;

/// Reads a topology from the text of an hwloc XML file.
///
/// # Errors
/// Where it is not XML, not hwloc's, or describes no machine; the place is given as line:column.
pub(super) fn parse(text: &str) -> Result<Topology> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MAX_XML_NODES };
    let document =
        Document::parse_with_options(text, options).map_err(|error| Error::new(format!("not XML: {error}")))?;
    let root = document.root_element();
    if !root.has_tag_name("topology") {
        let tag = root.tag_name().name();
        return Err(
            at(root, format!("not hwloc's XML: its root is <{tag}>")).remedy("write one by: lstopo machine.xml")
        );
    }
    let Some(machine) = objects(root).find(|object| object.attribute("type") == Some("Machine")) else {
        return Err(at(root, "hwloc's XML without a machine"));
    };
    let allowed = set(machine, "allowed_cpuset")?;
    let memory_beside_tree = root.attribute("version").is_some_and(|version| !version.starts_with('1'));
    let mut reader = Reader { builder: Builder::default(), allowed, memory_beside_tree };
    reader.object(machine, 0)?;
    let mut topology = reader.builder.finish(text.into())?;
    for distances in root.children().filter(|child| child.has_tag_name("distances2")) {
        if let Some(distances) = numa_distances(distances)? {
            distances.apply(&mut topology)?;
            break;
        }
    }
    let kinds = root.children().filter(|child| child.has_tag_name("cpukind")).map(cpu_kind);
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
    fn object(&mut self, object: Node, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(at(object, format!("objects nested more than {MAX_DEPTH} deep")));
        }
        if object.attribute("type") == Some("PU") {
            return self.pu(object);
        }
        let mut opened = 0;
        let memories = if self.memory_beside_tree { memories(object, depth)? } else { Vec::new() };
        let level = level_of(object)?;
        // hwloc makes a group for a NUMA node whose PUs no other object has; the node takes that place itself.
        if let Some(level) = level.filter(|&level| level != Level::Group || memories.is_empty()) {
            self.enter(level, object)?;
            opened += 1;
        }
        // The first memory is the default one: innermost, so that a PU's nearest NUMA node is that.
        for &memory in memories.iter().rev() {
            self.enter(Level::Numa, memory)?;
            opened += 1;
        }
        let beside = self.memory_beside_tree;
        for child in objects(object).filter(|&child| !(beside && is_memory(child))) {
            self.object(child, depth + 1)?;
        }
        (0..opened).for_each(|_| self.builder.leave());
        Ok(())
    }

    fn enter(&mut self, level: Level, object: Node) -> Result<()> {
        let size = if level == Level::Numa { "local_memory" } else { "cache_size" };
        let size_bytes = number(object, size)?.unwrap_or(0);
        self.builder.enter(level, number(object, "os_index")?, size_bytes);
        Ok(())
    }

    fn pu(&mut self, object: Node) -> Result<()> {
        let os_index = number(object, "os_index")?.ok_or_else(|| at(object, "a PU without os_index"))?;
        let allowed = self.allowed.as_ref().is_none_or(|set| set.contains(os_index));
        self.builder.pu(Pu { allowed, ..Pu::plain(os_index) });
        Ok(())
    }
}

/// The level an object is of; none for those that are no place of PUs.
fn level_of(object: Node) -> Result<Option<Level>> {
    let Some(kind) = object.attribute("type") else { return Err(at(object, "an object without a type")) };
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
fn memories<'a, 'input>(object: Node<'a, 'input>, depth: usize) -> Result<Vec<Node<'a, 'input>>> {
    let mut nodes = Vec::new();
    for memory in objects(object).filter(|&child| is_memory(child)) {
        if depth > MAX_DEPTH {
            return Err(at(memory, format!("objects nested more than {MAX_DEPTH} deep")));
        }
        if memory.attribute("type") == Some("NUMANode") && !set(memory, "cpuset")?.is_some_and(|set| set.is_empty()) {
            nodes.push(memory);
        }
        nodes.extend(memories(memory, depth + 1)?);
    }
    Ok(nodes)
}

fn is_memory(object: Node) -> bool {
    matches!(object.attribute("type"), Some("NUMANode" | "MemCache"))
}

fn objects<'a, 'input: 'a>(parent: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    parent.children().filter(|child| child.has_tag_name("object"))
}

/// A structure of distances, where it is of NUMA nodes by OS index and means latency.
fn numa_distances(element: Node) -> Result<Option<NumaDistances>> {
    let kind: u64 = number(element, "kind")?.unwrap_or(0);
    let of_nodes = element.attribute("type") == Some("NUMANode") && element.attribute("indexing") == Some("os");
    if !of_nodes || kind & MEANS_LATENCY == 0 {
        return Ok(None);
    }
    let os_indices: Vec<u32> = numbers(element, "indexes")?;
    let values: Vec<u64> = numbers(element, "u64values")?;
    if os_indices.len().checked_mul(os_indices.len()) != Some(values.len()) {
        let (nodes, given) = (os_indices.len(), values.len());
        return Err(at(element, format!("{given} distances between {nodes} NUMA nodes")));
    }
    Ok(Some(NumaDistances { os_indices, values }))
}

/// The numbers in the text of all children with this tag.
fn numbers<T: FromStr>(element: Node, tag: &str) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    for child in element.children().filter(|child| child.has_tag_name(tag)) {
        for word in child.text().unwrap_or_default().split_whitespace() {
            numbers.push(word.parse().map_err(|_| at(child, format!("{word:?} is no number")))?);
        }
    }
    Ok(numbers)
}

fn cpu_kind(element: Node) -> Result<CpuKind> {
    let info = |name: &str| {
        let infos = element.children().filter(|child| child.has_tag_name("info"));
        infos.into_iter().find(|info| info.attribute("name") == Some(name)).and_then(|info| info.attribute("value"))
    };
    let figure = |name: &str| info(name).and_then(|value| value.parse::<u64>().ok());
    Ok(CpuKind {
        cpuset: set(element, "cpuset")?.ok_or_else(|| at(element, "a kind of cores without cpuset"))?,
        forced_efficiency: element.attribute("forced_efficiency").and_then(|value| value.parse().ok()),
        linux_capacity: figure("LinuxCapacity"),
        intel_core: info("CoreType").map(|core_type| core_type == "IntelCore"),
        max_mhz: figure("FrequencyMaxMHz"),
        base_mhz: figure("FrequencyBaseMHz"),
    })
}

/// An attribute that is a set; none where it is not there.
fn set(element: Node, name: &str) -> Result<Option<CpuSet>> {
    let Some(text) = element.attribute(name) else { return Ok(None) };
    CpuSet::parse(text).map(Some).ok_or_else(|| at(element, format!("{name} {text:?} is no set of hwloc's")))
}

/// An attribute that is a number; none where it is not there. hwloc's -1 for "unknown" is none, too.
fn number<T: FromStr>(element: Node, name: &str) -> Result<Option<T>> {
    let Some(text) = element.attribute(name).filter(|&text| text != "-1") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| at(element, format!("{name} {text:?} is no number, or too large a one")))
}

/// An error at an element's place.
fn at(element: Node, cause: impl Into<String>) -> Error {
    Error::new(cause).at(element.document().text_pos_at(element.range().start))
}
