//! MPI ranks: runs a launcher (mpirun, mpiexec, srun) with the library of `native/mpi` preloaded into the ranks, and
//! makes a profile of what they leave.
//!
//! `launcher` recognises the command and says how its ranks are given an environment, `scripts` finds a launcher that a
//! script calls, `install` finds the library, `launch` runs the command, `live` reads what ranks count while they run,
//! `callers` says which threads called, `files` and `part` read the records (`native/mpi/abi.h`), `worlds` tells whose
//! ranks they are, `placement` reads back where ranks are and counts nothing, `follow` tells them where to be from phase
//! to phase, `monitoring` and `scale` make collectives exact with Open MPI's own counts, `phases` tells apart what is
//! not sent at the same time, `trace` finds which send and which receive are one message, `visits` says when ranks
//! called from where, and `merge` makes one profile. The IBM report (sections 3.2 and 6.1) is the model: message counts
//! by size and pair from the profiling interface.

#[allow(missing_docs, non_camel_case_types, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[rustfmt::skip]
pub(crate) mod abi;
mod callers;
mod files;
mod follow;
pub mod install;
mod launch;
pub mod launcher;
mod live;
#[cfg(test)]
mod many_tests;
mod merge;
mod monitoring;
mod part;
mod phases;
mod placement;
mod scale;
pub mod scripts;
mod sites;
mod trace;
mod visits;
mod worlds;

pub use callers::Called;
pub(crate) use files::PART;
pub use follow::{Followed, Phase};
pub use launch::{LEFT_WITHOUT, Options, profile};
pub(crate) use launch::{collect, mark, prepare};
pub use live::{Messages, Sent};
pub use part::Amount;
pub use placement::{Ended, Placed, Ran, run};

use cohabit_formats::import::Format;
use cohabit_model::{Profile, Result};
use std::collections::HashMap;
use std::path::Path;

/// The row for `cohabit import`.
pub const FORMAT: Format = Format {
    name: "cohabit-mpi-parts",
    extensions: &["mpi-part"],
    of_directories: true,
    about: "what MPI ranks leave that `cohabit profile` ran: a directory with parts, or one of them",
    read: import,
};

/// Joins the parts in a directory, or reads one.
///
/// # Errors
/// The path, and what is wrong there.
pub fn import(path: &Path) -> Result<Profile> {
    let monitored = if path.is_dir() { monitoring::read(path) } else { HashMap::new() };
    merge::merge(files::read(path)?, &merge::Run { command: Vec::new(), monitored })
}
