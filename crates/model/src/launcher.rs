//! Launchers of MPI ranks, which `observe` watches the ranks of and `apply` tells where to put them.

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
