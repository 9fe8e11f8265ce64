//! Launcher files: a mapping in the words of the program that is to carry it out, or in those of a tool that looks at
//! it. One file an [`Exporter`], one row in [`EXPORTERS`]; `--export`, `cohabit exporters` and the contract tests
//! iterate the table. docs/launchers.md says with which versions each was proved.

mod cray;
mod dot;
mod gomp;
mod graphml;
pub(crate) mod hosts;
mod hwloc_bind;
mod kmp;
mod likwid;
mod matrix_market;
mod metis;
mod mpich;
mod omp_places;
mod open_mpi;
mod script;
mod slurm;
pub mod svg;
pub(crate) mod tasks;
mod taskset;
mod xml;

#[cfg(test)]
mod tests;

use cohabit_model::{Error, Mapping, Matrix, Result, Topology, counted};

/// What is exported: where each task goes, on which machine, and what the tasks have to do with one another.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    mapping: &'a Mapping,
    topology: &'a Topology,
    weight: &'a Matrix,
}

impl<'a> Placement<'a> {
    /// A mapping with the machine it is for and what J counts, `[source][destination]`.
    ///
    /// # Errors
    /// Where these do not belong together: another number of tasks, a PU that the machine lacks.
    pub fn new(mapping: &'a Mapping, topology: &'a Topology, weight: &'a Matrix) -> Result<Self> {
        let (placed, known) = (mapping.tasks.len(), weight.tasks());
        let remedy = "make the mapping again from its profile";
        if placed != known {
            return Err(
                Error::new(format!("the mapping has {}, the matrix {known}", counted(placed, "task"))).remedy(remedy)
            );
        }
        match mapping.tasks.iter().find(|task| topology.pu_on(&task.host, task.pu).is_none()) {
            Some(task) => {
                let host = if topology.names.is_empty() { String::new() } else { format!(" of host {:?}", task.host) };
                let cause = format!("task {} is on PU {}{host}, which is not there", task.task, task.pu);
                Err(Error::new(cause).remedy(remedy))
            }
            None => Ok(Self { mapping, topology, weight }),
        }
    }

    /// The machine or cluster.
    pub fn topology(&self) -> &'a Topology {
        self.topology
    }
}

/// A format that another program reads.
pub trait Exporter: Sync + std::panic::RefUnwindSafe {
    /// The name that `--export NAME=FILE` takes.
    fn name(&self) -> &'static str;
    /// One line for `cohabit exporters` and the documentation.
    fn about(&self) -> &'static str;
    /// A command that uses FILE.
    fn usage(&self) -> &'static str;
    /// The file's content.
    ///
    /// # Errors
    /// Where the format cannot say what the mapping says, with what can.
    fn export(&self, placement: &Placement) -> Result<String>;
}

/// Every format there is.
pub static EXPORTERS: &[&dyn Exporter] = &[
    &open_mpi::Rankfile4,
    &open_mpi::Rankfile5,
    &mpich::Binding,
    &mpich::Hosts,
    &cray::RankOrder,
    &slurm::HostFile,
    &slurm::MapCpu,
    &slurm::MaskCpu,
    &omp_places::OmpPlaces,
    &gomp::GompCpuAffinity,
    &kmp::KmpAffinity,
    &likwid::LikwidPin,
    &taskset::Taskset,
    &hwloc_bind::HwlocBind,
    &metis::Metis,
    &matrix_market::MatrixMarket,
    &graphml::GraphMl,
    &dot::Dot,
    &svg::Svg,
];

/// The format of a name.
///
/// # Errors
/// That there is none, with the names there are.
pub fn exporter(name: &str) -> Result<&'static dyn Exporter> {
    let names = || EXPORTERS.iter().map(|exporter| exporter.name()).collect::<Vec<_>>().join(", ");
    let found = EXPORTERS.iter().copied().find(|exporter| exporter.name() == name);
    found
        .ok_or_else(|| Error::new(format!("there is no export format {name:?}")).remedy(format!("one of: {}", names())))
}
