//! Words for nodes and PUs, the same in every picture.

use super::{Level, NodeId, Pu, Topology};

/// `L3 35 MiB`, `package P#1`, `NUMA node P#0 64 GiB`, `host node01`: OS index and name only where `single`, when it
/// stands for one node.
pub fn node(topology: &Topology, id: NodeId, single: bool) -> String {
    let node = &topology.nodes[id];
    let is_host = node.level == Level::Machine && topology.names.contains_key(&id);
    let mut label = if is_host { "host" } else { node.level.name() }.to_owned();
    if let Some(name) = topology.names.get(&id).filter(|_| single) {
        label += &format!(" {name}");
    }
    let numbered = matches!(node.level, Level::Package | Level::Die | Level::Numa | Level::Core | Level::Pu);
    if let Some(os_index) = node.os_index.filter(|_| single && numbered) {
        label += &format!(" P#{os_index}");
    }
    if node.size_bytes > 0 {
        label += &format!(" {}", size(node.size_bytes));
    }
    label
}

/// What is special about a PU: ` (not allowed)`, ` (kind 0, speed 0.75)`; nothing for most.
pub fn peculiarity(topology: &Topology, pu: &Pu) -> String {
    let mut words = Vec::new();
    if !pu.allowed {
        words.push("not allowed".to_owned());
    }
    if topology.pus.iter().any(|other| other.core_kind != pu.core_kind) {
        words.push(format!("kind {}", pu.core_kind));
    }
    if pu.capacity < 1.0 {
        words.push(format!("speed {:.2}", pu.capacity));
    }
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// `48 KiB`, `1.2 GiB`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (0..units.len()).rev().find(|&unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    let tenths = format!("{value:.1}");
    format!("{} {}", tenths.strip_suffix(".0").unwrap_or(&tenths), units[unit])
}

/// OS indices as the kernel writes lists of CPUs: `0-13,28-41`.
pub fn list(mut indices: Vec<u32>) -> String {
    indices.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(index) => *end = index,
            _ => ranges.push((index, index)),
        }
    }
    let range = |&(start, end): &(u32, u32)| if start == end { start.to_string() } else { format!("{start}-{end}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_that_fits() {
        for (bytes, expected) in [
            (1, "1 B"),
            (1 << 10, "1 KiB"),
            (1280 << 10, "1.2 MiB"),
            (5_329_080_320, "5 GiB"),
            (35 << 20, "35 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn neighbouring_indices_are_a_range() {
        assert_eq!(list(vec![3, 0, 1, 2, 7, 9, 8]), "0-3,7-9");
        assert_eq!(list(vec![5]), "5");
        assert_eq!(list(vec![u32::MAX, u32::MAX - 1]), "4294967294-4294967295");
    }
}
