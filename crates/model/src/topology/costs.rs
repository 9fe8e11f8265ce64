//! What distance two PUs have: the default of every level, and costs the user gives (`--level-costs`).
//!
//! Defaults are on the scale of ACPI's System Locality Information Table (ACPI 6.5, section 5.2.17), where 10 is a NUMA
//! node's own memory; so a firmware's NUMA distances ([`super::Topology::load`] takes them where hwloc has them) go
//! with them as they are. 20 is what Linux assumes of a remote node where the firmware says nothing (REMOTE_DISTANCE in
//! include/linux/topology.h).
//!
//! Values other than those two are chosen, not measured: whole numbers between them in the order of the levels, with L1
//! well below L2 and L3 (the simulated Harpertown of Cruz et al., TLB 2012, table II: L1 2 cycles, L2 8). Who needs a
//! machine's real ratios gives `--level-costs`; for measurements of such latencies see Molka et al., Memory Performance
//! and Cache Coherency Effects on an Intel Nehalem Multiprocessor System, PACT 2009.
//!
//! What matters most to a mapping is that distances grow from PU to root, and they do
//! strictly: a level that branches always costs more than what branches below it.

use super::{Level, Topology};
use crate::{Error, Result, counted};

/// No distance a user gives is larger: sums of weight times distance then fit `u128` (see [`crate::cost`]).
pub const MAX_DISTANCE: u64 = u32::MAX as u64;

/// Distance of a link between a host and a switch, or between two switches.
const LINK: u64 = 100;

/// (level, cost inside one NUMA node or where none is known, cost where it holds several NUMA nodes).
const DEFAULTS: [(Level, u64, u64); 13] = [
    (Level::Pu, 0, 0),
    (Level::Core, 1, 1),
    (Level::L1, 2, 2),
    (Level::L2, 3, 3),
    (Level::L3, 5, 12),
    (Level::L4, 6, 13),
    (Level::L5, 7, 13),
    (Level::Group, 8, 14),
    (Level::Die, 8, 14),
    (Level::Package, 9, 15),
    (Level::Numa, 10, 16),
    (Level::Machine, 20, 20),
    // Between hosts, far above anything inside one: 100 for each link on the way up and down.
    (Level::Switch, 2 * LINK, 2 * LINK),
];

/// The default distance of two PUs whose lowest common node is of `level`, before it is raised above what it holds.
pub fn default_cost(level: Level, holds_numa_nodes: bool) -> u64 {
    let row = DEFAULTS.iter().find(|row| row.0 == level);
    row.map_or(0, |&(_, inside, above)| if holds_numa_nodes { above } else { inside })
}

/// Sets every node's default cost: that of its level, raised where a branching node below it costs as much.
pub(super) fn set_defaults(topology: &mut Topology) {
    let mut numa_nodes = vec![0usize; topology.nodes.len()];
    for id in (0..topology.nodes.len()).rev() {
        let node = &topology.nodes[id];
        numa_nodes[id] = node.children.iter().map(|&child| numa_nodes[child]).sum();
        let default = default_cost(node.level, numa_nodes[id] > 1);
        if node.level == Level::Numa {
            // Nodes of several memories on the same PUs (HBM beside DRAM) are one place.
            numa_nodes[id] = numa_nodes[id].max(1);
        }
        topology.nodes[id].cost = default.max(least_cost(topology, id));
    }
}

/// Sets the cost of every switch, those of hosts being there: [`LINK`] for each link between hosts that are farthest
/// apart there.
pub(super) fn set_switch_costs(topology: &mut Topology) {
    let mut tiers = vec![0u64; topology.nodes.len()];
    for id in (0..topology.nodes.len()).rev() {
        let node = &topology.nodes[id];
        if node.level != Level::Switch {
            continue;
        }
        tiers[id] = 1 + node.children.iter().map(|&child| tiers[child]).max().unwrap_or(0);
        topology.nodes[id].cost = (2 * LINK * tiers[id]).max(least_cost(topology, id));
    }
}

/// The least that `id` may cost so that distances grow towards the root, and strictly where the tree branches.
fn least_cost(topology: &Topology, id: usize) -> u64 {
    let node = &topology.nodes[id];
    let below = node.children.iter().map(|&child| topology.nodes[child].cost).max().unwrap_or(0);
    below + u64::from(node.children.len() > 1)
}

/// Reads `--level-costs`: whole numbers, separated by commas, from the root down.
///
/// # Errors
/// Where one is no number of 0 to [`MAX_DISTANCE`].
pub fn parse_level_costs(text: &str) -> Result<Vec<u64>> {
    let cost = |word: &str| match word.trim().parse::<u64>() {
        Ok(cost) if cost <= MAX_DISTANCE => Ok(cost),
        _ => Err(Error::new(format!("level costs {text:?}: {word:?} is no whole number of 0 to {MAX_DISTANCE}"))
            .remedy("write one cost for each level at which the tree branches, from the root down: 100,10,1")),
    };
    text.split(',').map(cost).collect()
}

impl Topology {
    /// The topology with these distances instead of its own: one cost for each level at which the tree branches, from
    /// the root down ([`Topology::branching`] lists them). A matrix of distances is dropped. `text` stays as it is.
    ///
    /// # Errors
    /// Where there are more or fewer costs than such levels, or a cost is larger than the one before it.
    pub fn with_level_costs(mut self, costs: &[u64]) -> Result<Self> {
        let levels = self.branching_keys();
        if levels.len() != costs.len() {
            let names: Vec<_> = levels.iter().map(|key| key.to_string()).collect();
            let names = if names.is_empty() { "at none".into() } else { format!("at {}", names.join(", ")) };
            let (given, wanted) = (counted(costs.len(), "level cost"), levels.len());
            let remedy = match wanted {
                0 => "leave them out".to_owned(),
                1 => "give 1 cost".to_owned(),
                _ => format!("give {wanted} costs, from the root down"),
            };
            let times = counted(wanted, "time");
            return Err(Error::new(format!("{given} for a tree that branches {times} ({names})")).remedy(remedy));
        }
        if let Some(pair) = costs.windows(2).find(|pair| pair[0] < pair[1]) {
            return Err(Error::new(format!("level cost {} comes before the larger {}", pair[0], pair[1]))
                .remedy("begin at the root, where distances are largest: 100,10,1"));
        }
        let keys = self.keys();
        for id in (0..self.nodes.len()).rev() {
            let below = self.nodes[id].children.iter().map(|&child| self.nodes[child].cost).max().unwrap_or(0);
            let own = levels.iter().position(|level| *level == keys[id]).map(|at| costs[at]);
            self.nodes[id].cost = if self.nodes[id].level == Level::Pu { 0 } else { own.unwrap_or(below).max(below) };
        }
        self.matrix = None;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branching_costs(topology: &Topology) -> Vec<u64> {
        topology.branching().iter().map(|level| level.cost).collect()
    }

    #[test]
    fn defaults_grow_from_the_pu_to_the_root() {
        for (text, expected) in [
            ("pack:2 core:14 pu:2", vec![20, 9, 1]),
            ("pack:2 l2:2 core:2 pu:1", vec![20, 9, 3]),
            ("pack:2 numa:4 l3:4 core:4 pu:2", vec![20, 15, 10, 5, 1]),
            ("numa:2 pack:2 core:2 pu:1", vec![20, 10, 9]),
            ("l3:2 numa:2 core:2 pu:1", vec![20, 12, 10]),
            ("l2:2 core:2 pu:2", vec![20, 3, 1]),
            ("l3:2 group:2 core:2 pu:1", vec![20, 9, 8]),
            ("group:2 group:2 group:2 pu:2", vec![20, 10, 9, 8]),
        ] {
            assert_eq!(branching_costs(&Topology::load(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn level_costs_replace_the_defaults() {
        let topology = Topology::load("pack:2 l2:1 core:4 pu:2").unwrap().with_level_costs(&[100, 10, 1]).unwrap();
        assert_eq!(branching_costs(&topology), [100, 10, 1]);
        assert_eq!([1, 2, 8].map(|other| topology.distance(0, other)), [1, 10, 100]);
        let same = Topology::load("core:4 pu:1").unwrap().with_level_costs(&[0]).unwrap();
        assert_eq!(same.distance(0, 3), 0);
    }

    #[test]
    fn wrong_level_costs_name_the_levels() {
        let topology = Topology::load("pack:2 core:4 pu:2").unwrap();
        let error = topology.clone().with_level_costs(&[10, 1]).unwrap_err();
        assert_eq!(error.cause, "2 level costs for a tree that branches 3 times (at machine, package, core)");
        let error = topology.with_level_costs(&[1, 10, 100]).unwrap_err();
        assert_eq!(error.cause, "level cost 1 comes before the larger 10");
        let single = Topology::load("pu:1").unwrap();
        assert!(single.clone().with_level_costs(&[]).is_ok());
        let error = single.with_level_costs(&[1]).unwrap_err();
        assert_eq!(error.cause, "1 level cost for a tree that branches 0 times (at none)");
        assert_eq!(error.remedy.as_deref(), Some("leave them out"));
        let one = Topology::load("core:2 pu:1").unwrap().with_level_costs(&[2, 1]).unwrap_err();
        assert_eq!(one.cause, "2 level costs for a tree that branches 1 time (at machine)");
        assert_eq!(one.remedy.as_deref(), Some("give 1 cost"));
    }

    #[test]
    fn level_costs_are_whole_numbers() {
        assert_eq!(parse_level_costs("100, 10,1"), Ok(vec![100, 10, 1]));
        for text in ["", "1,,2", "x", "-1", "1.5", "4294967296"] {
            assert!(parse_level_costs(text).is_err(), "{text}");
        }
    }
}
