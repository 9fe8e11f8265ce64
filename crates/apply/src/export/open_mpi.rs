//! Rankfiles of Open MPI (mpirun(1) of 4.1, "Rankfiles"; of 5.0, "Rankfiles" in the PRRTE chapter).
//!
//! The syntax of a line is the same in both. In 4.x slots are logical unless `rmaps_rank_file_physical` is set, and then
//! they are PUs by OS index. PRRTE, which starts the ranks of 5.x, knows logical slots only.

use super::hosts::names;
use super::tasks::{Rank, joined, ranks};
use super::{Exporter, Placement};
use cohabit_model::{Error, Result};
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
        rankfile(&ranks, Ok)
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
        let pus = &placement.topology.pus;
        // hwloc, and with it PRRTE, leaves out the PUs that the cpuset forbids.
        let logical: HashMap<u32, u32> = pus.iter().filter(|pu| pu.allowed).map(|pu| pu.os_index).zip(0..).collect();
        let slot = |pu: u32| {
            let unknown = || Error::new(format!("PU {pu} is not among those that may be used"));
            logical.get(&pu).copied().ok_or_else(unknown)
        };
        let ranks = ranks(placement, self.name())?;
        rankfile(&ranks, slot)
    }
}

fn rankfile(ranks: &[Rank], slot: impl Fn(u32) -> Result<u32>) -> Result<String> {
    let mut text = String::new();
    for (number, (rank, host)) in ranks.iter().zip(names(ranks)?).enumerate() {
        let slots = rank.pus.iter().map(|&pu| slot(pu)).collect::<Result<Vec<_>>>()?;
        text += &format!("rank {number}={host} slot={}\n", joined(slots, ","));
    }
    Ok(text)
}
