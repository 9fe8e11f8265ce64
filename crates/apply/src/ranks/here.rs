//! Ranks that run on this host: their PUs have to be among those that are allowed here.

use super::given::Given;
use crate::room::{listed, not_allowed};
use cohabit_host::CpuMask;
use cohabit_model::launcher::Launcher;
use cohabit_model::{Mapping, Result, Topology};

/// Variables by which resource managers tell launchers of hosts.
pub(super) const MANAGERS: [&str; 4] = ["SLURM_JOB_ID", "PBS_NODEFILE", "LSB_MCPU_HOSTS", "PE_HOSTFILE"];

/// Whether a launcher starts all ranks of a mapping on this host, as far as its command says; `host` is what this one is
/// called.
pub fn are_here(launcher: Launcher, given: &Given, topology: &Topology, host: &str) -> bool {
    let is_this = |name: &str| {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        ["localhost", "127.0.0.1"].contains(&name) || !host.is_empty() && short(name) == short(host)
    };
    let managed = launcher == Launcher::Srun || MANAGERS.iter().any(|name| std::env::var_os(name).is_some());
    match (&given.hosts, topology.names.is_empty()) {
        (Some(hosts), true) => hosts.iter().all(|host| is_this(&host.name)),
        (None, true) => !managed,
        (_, false) => topology.hosts().all(|(_, name)| is_this(name)),
    }
}

/// Leaves ranks that run here no PUs but those `allowed`, in each phase.
///
/// # Errors
/// The first task whose own PU is not among these.
pub fn keep_allowed(mapping: &mut Mapping, allowed: &CpuMask) -> Result<()> {
    let keep = |task: u32, pu: u32, pus: &mut String| {
        if !allowed.contains(pu) {
            return Err(not_allowed(task, pu, allowed));
        }
        if !pus.is_empty() {
            let both = listed(task, pu, pus)?.pus().into_iter().filter(|&pu| allowed.contains(pu));
            *pus = CpuMask::from_pus(both).to_string();
        }
        Ok(())
    };
    for placed in &mut mapping.tasks {
        keep(placed.task, placed.pu, &mut placed.pus)?;
    }
    let in_phases = mapping.phases.iter_mut().flat_map(|phases| &mut phases.mappings);
    for seat in in_phases.flat_map(|phase| &mut phase.tasks) {
        keep(seat.task, seat.pu, &mut seat.pus)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::given::tests::given;
    use super::*;

    #[test]
    fn ranks_are_here_where_no_other_host_is_named() {
        let machine = Topology::load("pack:2 core:2 pu:1").unwrap();
        let here = |launcher, line| are_here(launcher, &given(launcher, line), &machine, "n1.cluster");
        for (line, is_here) in
            [("mpiexec -n 2 true", true), ("mpiexec -hosts n1 true", true), ("mpiexec -hosts n2 true", false)]
        {
            assert_eq!(here(Launcher::Hydra, line), is_here, "{line}");
        }
        assert!(!here(Launcher::Srun, "srun -n 2 true"));
    }
}
