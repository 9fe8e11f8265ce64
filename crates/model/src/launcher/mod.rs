//! Launchers of MPI ranks, which `observe` watches the ranks of and `apply` tells where to put them; and by which
//! variables of its environment a process knows its rank (mpirun(1), the PMI and PMIx standards, srun(1)).

pub mod words;

/// An MPI whose binary interface a library is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH.
    Mpich,
}

impl Family {
    /// As in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// As it calls itself.
    pub fn title(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }
}

/// How ranks are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// mpirun of Open MPI.
    OpenMpi,
    /// Hydra, MPICH's mpiexec.
    Hydra,
    /// Slurm's srun.
    Srun,
    /// None: the program is a rank by itself.
    Singleton,
}

/// A command that starts ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognised {
    /// How.
    pub launcher: Launcher,
    /// The MPI of its ranks.
    pub family: Family,
    /// The launcher's major version, where it says one; 0 where it does not.
    pub major: u32,
}

/// Where launchers write a process's rank; the first that is there counts.
pub const RANK_VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", SLURM_RANK];
/// Slurm sets it for whatever runs in a job; a rank it is in a step (srun) only.
const SLURM_RANK: &str = "SLURM_PROCID";
const SLURM_STEP: [&str; 2] = ["SLURM_STEP_ID", "SLURM_STEPID"];
/// How many ranks the job has, and how many of them are on this node.
const SIZE_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
const LOCAL_SIZE_VARIABLES: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];
/// What names a job.
const JOB_VARIABLES: [&str; 3] = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"];

/// A process among those that a launcher started, by its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPlace {
    /// Its rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// How many ranks the job has, where the launcher says so.
    pub size: Option<u32>,
    /// Whether all of them are on this node; none where nothing tells.
    pub one_node: Option<bool>,
    /// The job's name, where it has one.
    pub job: Option<String>,
}

impl RankPlace {
    /// From a process's environment; none where no launcher of ranks has started it.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
        let number = |names: &[&str]| first(names)?.trim().parse::<u32>().ok();
        let step = first(&SLURM_STEP);
        let rank = RANK_VARIABLES.iter().filter(|name| **name != SLURM_RANK || step.is_some());
        let rank = rank.filter_map(|name| number(&[name])).next()?;
        let size = number(&SIZE_VARIABLES);
        let nodes = number(&["SLURM_STEP_NUM_NODES"]);
        let one_node = match (number(&LOCAL_SIZE_VARIABLES), size) {
            (Some(local), Some(size)) => Some(local >= size),
            _ => nodes.map(|nodes| nodes == 1),
        };
        let slurm = || Some(format!("{}.{}", variable("SLURM_JOB_ID")?, step.clone()?));
        Some(Self { rank, size, one_node, job: first(&JOB_VARIABLES).or_else(slurm) })
    }
}

#[cfg(test)]
mod tests {
    use super::RankPlace;

    #[test]
    fn ranks_are_told_by_their_environment() {
        type Row = (&'static str, Option<(u32, Option<u32>, Option<bool>, Option<&'static str>)>);
        let rows: [Row; 9] = [
            ("HOME=/ PATH=/bin", None),
            (
                "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=77 PMIX_RANK=3",
                Some((3, Some(4), Some(true), Some("77"))),
            ),
            (
                "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_SIZE=2",
                Some((0, Some(8), Some(false), None)),
            ),
            ("PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2", Some((1, Some(2), Some(true), None))),
            ("PMIX_RANK=2 PMIX_NAMESPACE=slurm.pmix.5.0", Some((2, None, None, Some("slurm.pmix.5.0")))),
            (
                "SLURM_PROCID=5 SLURM_STEP_ID=0 SLURM_JOB_ID=9 SLURM_STEP_NUM_TASKS=6 SLURM_STEP_NUM_NODES=3",
                Some((5, Some(6), Some(false), Some("9.0"))),
            ),
            // A batch script is no step.
            ("SLURM_PROCID=0 SLURM_JOB_ID=9", None),
            // mpirun in a job: its rank, not the step's.
            ("SLURM_PROCID=0 SLURM_STEP_ID=1 SLURM_JOB_ID=9 PMI_RANK=6", Some((6, None, None, Some("9.1")))),
            ("PMI_RANK=x", None),
        ];
        for (environment, expected) in rows {
            let variable = |name: &str| {
                let words = environment.split(' ').filter_map(|word| word.split_once('='));
                words.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).next()
            };
            let found = RankPlace::of(variable);
            let expected = expected.map(|(rank, size, one_node, job)| RankPlace {
                rank,
                size,
                one_node,
                job: job.map(str::to_owned),
            });
            assert_eq!(found, expected, "{environment}");
        }
    }
}
