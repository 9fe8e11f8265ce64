//! MPICH's Hydra: what each rank of a host is bound to (`mpiexec -bind-to -help`), and the machinefile ("Using the
//! Hydra Process Manager": hosts, `binding=`).

use super::hosts::names;
use super::tasks::{joined, ranks};
use super::{Exporter, Placement};
use cohabit_model::{Error, Result};

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
        // With a machinefile the list begins again at each of its lines.
        if let Some(other) = ranks.iter().position(|rank| rank.host != ranks[0].host) {
            let (name, first, host) = (self.name(), ranks[0].host, ranks[other].host);
            let cause = format!("{name} is for one host, and ranks 0 and {other} are on {first} and {host}");
            return Err(Error::new(cause).remedy("export mpich-hosts, which says the PUs too"));
        }
        let sets: Vec<String> = ranks.iter().map(|rank| joined(rank.room.iter().copied(), "+")).collect();
        Ok(format!("-bind-to user:{}\n", sets.join(",")))
    }
}

/// The machinefile: which host the ranks run on, in their order, and to which of its PUs they are bound.
pub struct Hosts;

impl Exporter for Hosts {
    fn name(&self) -> &'static str {
        "mpich-hosts"
    }
    fn about(&self) -> &'static str {
        "machinefile of MPICH's mpiexec: the host of each rank, and its PUs there"
    }
    fn usage(&self) -> &'static str {
        "mpiexec -f FILE -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        let mut runs: Vec<(&str, Vec<String>)> = Vec::new();
        for (host, rank) in names(placement.topology, &ranks)?.into_iter().zip(&ranks) {
            let pus = joined(rank.room.iter().copied(), "+");
            match runs.last_mut() {
                Some((last, sets)) if *last == host => sets.push(pus),
                _ => runs.push((host, vec![pus])),
            }
        }
        // Each line has a process manager of its own, and a list of its own: hosts may differ, and come again.
        let line =
            |(host, sets): &(&str, Vec<String>)| format!("{host}:{} binding=user:{}\n", sets.len(), sets.join(","));
        Ok(runs.iter().map(line).collect())
    }
}
