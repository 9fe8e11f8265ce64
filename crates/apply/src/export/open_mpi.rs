//! Rankfiles of Open MPI (mpirun(1) of 4.1, "Rankfiles"; of 5.0, "Rankfiles" in the PRRTE chapter).
//!
//! The syntax of a line is the same in both. In 4.x slots are logical unless `rmaps_rank_file_physical` is set, and
//! then they are PUs by OS index. PRRTE, which starts the ranks of 5.x, knows logical slots only.

use super::hosts::names;
use super::tasks::{Rank, joined, ranks};
use super::{Exporter, Placement};
use cohabit_model::topology::NodeId;
use cohabit_model::{Error, Result, Topology};
use std::collections::HashMap;

/// For Open MPI 4.x: physical slots.
pub struct Rankfile4;

impl Exporter for Rankfile4 {
    fn name(&self) -> &'static str {
        "open-mpi-4"
    }
    fn about(&self) -> &'static str {
        "rankfile of Open MPI 4.x"
    }
    fn usage(&self) -> &'static str {
        "mpirun --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile FILE -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        rankfile(placement.topology, &ranks, |_, pu| Ok(pu))
    }
}

/// For Open MPI 5.x: logical slots.
pub struct Rankfile5;

impl Exporter for Rankfile5 {
    fn name(&self) -> &'static str {
        "open-mpi-5"
    }
    fn about(&self) -> &'static str {
        "rankfile of Open MPI 5.x"
    }
    fn usage(&self) -> &'static str {
        "mpirun --host localhost:N --map-by rankfile:file=FILE:hwtcpus -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let slots = logical_slots(placement.topology);
        let slot = |host: &str, pu: u32| {
            let unknown = || Error::new(format!("PU {pu} is not among those that may be used"));
            let host = if placement.topology.names.is_empty() { "" } else { host };
            slots.get(&(host, pu)).copied().ok_or_else(unknown)
        };
        let ranks = ranks(placement, self.name())?;
        rankfile(placement.topology, &ranks, slot)
    }
}

/// The number of each PU (host and OS index) among those of its host that may be used: hwloc, and with it PRRTE, leaves
/// out the PUs that the cpuset forbids.
fn logical_slots(topology: &Topology) -> HashMap<(&str, u32), u32> {
    let hosts: Vec<(NodeId, &str)> = topology.hosts().collect();
    let hosts = if hosts.is_empty() { vec![(0, "")] } else { hosts };
    let mut slots = HashMap::new();
    for (node, name) in hosts {
        let allowed = topology.pus[topology.nodes[node].pus.clone()].iter().filter(|pu| pu.allowed);
        slots.extend(allowed.zip(0..).map(|(pu, slot)| ((name, pu.os_index), slot)));
    }
    slots
}

fn rankfile(topology: &Topology, ranks: &[Rank], slot: impl Fn(&str, u32) -> Result<u32>) -> Result<String> {
    let mut text = String::new();
    for (number, (rank, host)) in ranks.iter().zip(names(topology, ranks)?).enumerate() {
        let slots = rank.room.iter().map(|&pu| slot(rank.host, pu)).collect::<Result<Vec<_>>>()?;
        text += &format!("rank {number}={host} slot={}\n", joined(slots, ","));
    }
    Ok(text)
}
