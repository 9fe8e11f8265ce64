//! MPICH's Hydra: what each rank of a host is bound to (`mpiexec -bind-to -help`), and the machinefile.

use super::hosts::{names, same_on_each};
use super::tasks::{joined, ranks};
use super::{Exporter, Placement};
use cohabit_model::Result;

/// `-bind-to user:`, PUs by OS index, `+` between several of one rank.
pub struct Binding;

impl Exporter for Binding {
    fn name(&self) -> &'static str {
        "mpich-binding"
    }
    fn about(&self) -> &'static str {
        "-bind-to user:... of MPICH's mpiexec"
    }
    fn usage(&self) -> &'static str {
        "mpiexec $(cat FILE) -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        let sets: Vec<String> = ranks.iter().map(|rank| joined(rank.pus.iter().copied(), "+")).collect();
        Ok(format!("-bind-to user:{}\n", same_on_each(&ranks, &sets, self.name())?.join(",")))
    }
}

/// The machinefile: which host the ranks run on, in their order.
pub struct Hosts;

impl Exporter for Hosts {
    fn name(&self) -> &'static str {
        "mpich-hosts"
    }
    fn about(&self) -> &'static str {
        "machinefile of MPICH's mpiexec: the host of each rank; PUs are mpich-binding's"
    }
    fn usage(&self) -> &'static str {
        "mpiexec -f FILE -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        let mut runs: Vec<(&str, usize)> = Vec::new();
        for host in names(placement.topology, &ranks)? {
            match runs.last_mut() {
                Some((last, count)) if *last == host => *count += 1,
                _ => runs.push((host, 1)),
            }
        }
        Ok(runs.iter().map(|(host, count)| format!("{host}:{count}\n")).collect())
    }
}
