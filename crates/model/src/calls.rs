//! From where in their code ranks call MPI, and when: what a run of MPI knows the beginnings of phases by.

use serde::{Deserialize, Serialize};

/// A place in the code that calls MPI. It is the same in every run of a program, wherever that is loaded, until the
/// program is compiled anew.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallPlace {
    /// The file that the code lies in, an executable or a library, without its folders; of its name the first 55 bytes.
    pub module: String,
    /// The address that the call returns to, from where the file is loaded on.
    pub offset: u64,
}

/// The longest name of a module, in bytes (`native/mpi/abi.h`).
pub const MODULE_BYTES: usize = 55;

/// A time in which a rank calls from one place again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Visit {
    /// The rank's task.
    pub task: u32,
    /// The place: an index into [`Meta::call_places`](crate::profile::Meta::call_places).
    pub place: u32,
    /// The first call, in ns since the start of the run, as windows of the series are.
    pub begin_ns: u64,
    /// The last one.
    pub end_ns: u64,
    /// How many calls.
    pub calls: u64,
}

impl std::fmt::Display for CallPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{:#x}", self.module, self.offset)
    }
}
