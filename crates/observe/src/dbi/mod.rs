//! The exact profiler: runs a program under DynamoRIO with the client of `native/dbi` and turns what the client leaves
//! behind into a profile.
//!
//! `program` looks at the command before it is run, `install` finds the client, `launch` runs the program and waits,
//! `part` reads the records the client left (`native/abi.h`), one for each program image, and `merge` makes one profile
//! of them. COMPROF (sections III and IV) is the model: communication by instrumentation of every access.

#[allow(missing_docs, non_camel_case_types, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[rustfmt::skip]
pub(crate) mod abi;
mod clock;
mod coverage;
pub(crate) mod directory;
mod hot;
pub(crate) mod image;
pub mod launch;
mod merge;
pub(crate) mod part;
pub(crate) mod program;
pub(crate) mod tasks;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cohabit_host::install::Installation;
pub(crate) use coverage::cut_short;
pub use directory::remove_abandoned;
pub(crate) use image::thread_ids;
pub use launch::profile;
pub use program::{Program, check_profilable};

use crate::begin::OnBegin;
use cohabit_model::Profile;
use cohabit_model::series::Window;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Instructions of a window at least: a task's count is right to a block of code, which has some hundred at most.
pub const LEAST_INSTRUCTIONS: u64 = 1000;

/// What to count, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of a block: a power of two from 16 to 4096.
    pub block_bytes: u32,
    /// A bin of the time series: at least 1 us, or [`LEAST_INSTRUCTIONS`].
    pub window: Window,
    /// Rows the series may have before its windows are doubled; 0: no series.
    pub series_bound: u64,
    /// Count sharing too.
    pub sharing: bool,
    /// Follow the hottest blocks to their data and code.
    pub hot: bool,
    /// Count only within the program's own markers (`cohabit.h`).
    pub region: bool,
    /// And between MPI_Init and MPI_Finalize: a region that begins where the one returns, and ends where the other is
    /// called.
    pub region_of_mpi: bool,
    /// A signal to the program that begins and ends counting, in turn.
    pub region_signal: Option<i32>,
    /// Count for the first time, not for the second, over and over.
    pub burst: Option<(Duration, Duration)>,
    /// A directory for the access streams, a file for each program image (`cohabit_stream_t` in `native/abi.h`).
    pub record: Option<PathBuf>,
    /// Record what each task does to this file (`cohabit_access::file`).
    pub recording: Option<PathBuf>,
    /// Of what a launcher of ranks starts only the ranks are recorded.
    pub ranks: bool,
    /// The command as it was typed, where another is run for it.
    pub typed: Option<Vec<OsString>>,
    /// Variables of the program's environment, beside those that it inherits.
    pub environment: Vec<(OsString, OsString)>,
    /// Signals that somebody sends to this process are passed on to the program; those of the terminal reach it by
    /// themselves, and this process outlives them. What a command line tool wants: handlers are installed meanwhile.
    pub pass_signals: bool,
    /// Called once the program is about to be started.
    pub on_begin: OnBegin,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_bytes: 64,
            window: Window::Time(1_000_000),
            series_bound: cohabit_model::series::DEFAULT_BOUND as u64,
            sharing: false,
            hot: false,
            region: false,
            region_of_mpi: false,
            region_signal: None,
            burst: None,
            record: None,
            recording: None,
            ranks: false,
            typed: None,
            environment: Vec::new(),
            pass_signals: false,
            on_begin: OnBegin::default(),
        }
    }
}

/// What came of profiling a program.
#[derive(Debug)]
pub struct Outcome {
    /// What it did.
    pub profile: Profile,
    /// How it ended.
    pub status: ExitStatus,
    /// What the user should know besides, a sentence each.
    pub notes: Vec<String>,
    /// Accesses that were recorded, where that was asked for.
    pub recorded_accesses: u64,
}
