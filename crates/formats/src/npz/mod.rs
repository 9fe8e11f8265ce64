//! Profiles as files: `.npz`, a zip of `.npy` arrays that `numpy.load` reads, format 1, described in docs/formats.md.
//!
//! Follows NumPy's own description of its formats (numpy.lib.format) and PKWARE's APPNOTE by way of the `zip` crate.
//! Everything read is bounded before it is believed: see [`archive`].

pub mod archive;
mod arrays;
pub mod npy;
mod read;
mod write;

pub use arrays::{Counts, write_arrays};
pub use read::read_profile;
pub use write::write_profile;

/// Up to so many tasks a matrix is stored dense, `[N,N]`; above as X_source, X_destination, X_value.
pub const DENSE_TASKS: usize = 4096;

/// The member that holds the JSON.
const META: &str = "meta";
/// The matrices; all but the first two may be absent.
const MATRICES: [&str; 5] = ["messages", "bytes", "invalidations", "sharing", "transfers"];
/// The endings of a matrix stored as triplets.
const TRIPLET: [&str; 3] = ["_source", "_destination", "_value"];
/// The columns of the series.
const SERIES: [&str; 5] = ["series_bin", "series_source", "series_destination", "series_messages", "series_bytes"];
/// The columns of the message sizes.
const SIZES: [&str; 5] = ["size_source", "size_destination", "size_class", "size_messages", "size_bytes"];
/// The columns of the phases.
const PHASES: [&str; 6] =
    ["phase_number", "phase_source", "phase_destination", "phase_class", "phase_messages", "phase_bytes"];
/// Columns of the phases that profiles of before them lack.
const PHASE_ORDER: &str = "phase_order";
const PHASE_COLLECTIVE: &str = "phase_collective";
/// The columns of a trace: of its messages, and of its operations, those of a task in their order.
const TRACE_MESSAGES: [&str; 3] = ["trace_source", "trace_destination", "trace_bytes"];
const TRACE_OPERATIONS: [&str; 3] = ["trace_task", "trace_does", "trace_message"];
/// The columns of visits: when ranks called MPI from where.
const VISITS: [&str; 5] = ["visit_task", "visit_place", "visit_begin_ns", "visit_end_ns", "visit_calls"];
/// What is known of each task.
const PER_TASK: [&str; 7] = [
    "task_accessed_bytes",
    "task_polled_bytes",
    "task_alone_bytes",
    "task_loads",
    "task_stores",
    "task_mpi_ns",
    "task_run_ns",
];

/// Whether this version gives the array a meaning of its own.
fn is_known(name: &str) -> bool {
    let in_matrix =
        |matrix: &str| name.strip_prefix(matrix).is_some_and(|ending| ending.is_empty() || TRIPLET.contains(&ending));
    let columns = SERIES.contains(&name)
        || SIZES.contains(&name)
        || PHASES.contains(&name)
        || [PHASE_ORDER, PHASE_COLLECTIVE].contains(&name)
        || TRACE_MESSAGES.contains(&name)
        || TRACE_OPERATIONS.contains(&name)
        || VISITS.contains(&name);
    name == META || columns || PER_TASK.contains(&name) || MATRICES.into_iter().any(in_matrix)
}

#[cfg(test)]
mod tests;
