//! Matrices of other tools, turned into profiles. One file a format and a row in [`FORMATS`]; help and documentation
//! iterate the table.
//!
//! Every entry must be a count. Where a tool knows only one of messages and bytes, its matrix stands for both and the
//! profile's coverage says so; `imported_from` in its meta names the files. A profile is exact only where the files show it.

mod build;
mod csv;
mod edges;
mod labels;
mod matrix_market;
mod npz;
mod numalize;
pub mod number;
mod open_mpi;
mod pair;
mod perf_script;
mod table;

pub use build::relabelled;

use cohabit_model::{Error, Profile, Result};
use std::path::Path;

/// A format that can be imported.
pub struct Format {
    /// What `--format` takes.
    pub name: &'static str,
    /// Endings of file names that mean this format, without the first dot.
    pub extensions: &'static [&'static str],
    /// One line of help.
    pub about: &'static str,
    read: fn(&Path) -> Result<Profile>,
}

/// Every format. Where two match a file name, the first counts.
pub const FORMATS: &[Format] = &[
    Format {
        name: "npz",
        extensions: &["npz", "npy"],
        about: "NumPy: a profile of cohabit, or square arrays of counts",
        read: npz::read,
    },
    Format {
        name: "numalize",
        extensions: &["comm.csv"],
        about: "numalize's communication matrix: symmetric, last thread in the first row",
        read: numalize::read,
    },
    Format {
        name: "csv",
        extensions: &["csv", "tsv", "txt"],
        about: "a square matrix with or without labels, or lines under a heading source, destination, value",
        read: csv::read,
    },
    Format {
        name: "matrix-market",
        extensions: &["mtx", "mm"],
        about: "Matrix Market: coordinate or array; integer, real or pattern; general or symmetric",
        read: matrix_market::read,
    },
    Format {
        name: "open-mpi",
        extensions: &["prof"],
        about: "Open MPI's monitoring (pml_monitoring_enable_output 3): all files NAME.RANK.prof of the run",
        read: open_mpi::read_prof,
    },
    Format {
        name: "open-mpi-matrix",
        extensions: &["mat"],
        about: "matrices that Open MPI's monitoring_prof and profile2mat.pl write: the _msg and the _size file",
        read: open_mpi::read_matrix,
    },
    Format {
        name: "cohabit-mpi-parts",
        extensions: &["mpi-gathered", "mpi-part"],
        about: "what MPI ranks leave that `cohabit profile` ran: a directory with parts, or one file",
        read: crate::mpi::import,
    },
    Format {
        name: "perf-script",
        extensions: &["perf", "perfscript"],
        about: "memory samples of `perf mem record`, as `perf script` prints them",
        read: perf_script::read,
    },
];

/// Most tasks that are imported: what the text formats may declare without holding it.
const TASKS_LIMIT: usize = 1 << 20;
/// Longest text file that is read.
const TEXT_LIMIT_BYTES: u64 = 1 << 30;

/// Reads a file of another tool; `format` is a name in [`FORMATS`], or none to go by the file's name.
///
/// # Errors
/// An unknown format; or the file, the line and what is wrong there: no number, a negative, fractional or infinite one,
/// a matrix that is not square, a file cut short.
pub fn import(path: &Path, format: Option<&str>) -> Result<Profile> {
    let format = match format {
        Some(name) => by_name(name)?,
        None if path.is_dir() => by_name("cohabit-mpi-parts")?,
        None => by_file_name(path)?,
    };
    (format.read)(path).map_err(|error| {
        let named = error.cause.contains(&path.display().to_string());
        if named { error } else { error.at(path.display()) }
    })
}

fn by_name(name: &str) -> Result<&'static Format> {
    let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        Error::new(format!("there is no import format {name:?}")).remedy(format!("use one of: {}", names.join(", ")))
    })
}

fn by_file_name(path: &Path) -> Result<&'static Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let matches = |format: &&Format| format.extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")));
    FORMATS.iter().find(matches).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        let cause = format!("{}: the file's name does not say its format", path.display());
        Error::new(cause).remedy(format!("name it with --format: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests;
