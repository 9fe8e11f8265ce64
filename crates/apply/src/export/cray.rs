//! Cray MPICH's `MPICH_RANK_ORDER` (intro_mpi(3), MPICH_RANK_REORDER_METHOD): ranks in the order in which slots are
//! filled, host by host. It says which ranks share a host and in what order; where on the host is the launcher's
//! business.

use super::tasks::{joined, ranks};
use super::{Exporter, Placement};
use cohabit_model::{Error, Result};

/// Ranks on a line: as many as keep a file readable.
const PER_LINE: usize = 16;

/// The file `MPICH_RANK_ORDER`.
pub struct RankOrder;

impl Exporter for RankOrder {
    fn name(&self) -> &'static str {
        "mpich-rank-order"
    }
    fn about(&self) -> &'static str {
        "MPICH_RANK_ORDER of Cray MPICH: the order in which ranks fill the hosts, and the PUs of each"
    }
    fn usage(&self) -> &'static str {
        "cp FILE MPICH_RANK_ORDER; MPICH_RANK_REORDER_METHOD=3 srun -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        let mut hosts: Vec<&str> = Vec::new();
        let mut slots = Vec::new();
        for (number, rank) in (0u32..).zip(&ranks) {
            let pu = rank.pu(self.name())?;
            let place = placement.topology.pu_on(rank.host, pu).unwrap_or(usize::MAX);
            let host = hosts.iter().position(|host| *host == rank.host).unwrap_or_else(|| {
                hosts.push(rank.host);
                hosts.len() - 1
            });
            slots.push((host, place, number));
        }
        let count = |host: usize| slots.iter().filter(|slot| slot.0 == host).count();
        if let Some(other) = (1..hosts.len().saturating_sub(1)).find(|&host| count(host) != count(0)) {
            let cause = format!(
                "hosts {} and {} have {} and {} ranks, and {} fills each with as many",
                hosts[0],
                hosts[other],
                count(0),
                count(other),
                self.name()
            );
            return Err(Error::new(cause).remedy("export slurm-hosts, which names the host of each rank"));
        }
        slots.sort_unstable();
        let order: Vec<u32> = slots.into_iter().map(|(_, _, number)| number).collect();
        Ok(order.chunks(PER_LINE).map(|line| joined(line.iter().copied(), ",") + "\n").collect())
    }
}
