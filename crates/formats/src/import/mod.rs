//! Matrices of other tools, turned into profiles. One file a format and a row in [`FORMATS`]; help and documentation
//! iterate the table. Rooms whose own records are imported, too, have rows of their own.
//!
//! Every entry must be a count. Where a tool knows only one of messages and bytes, its matrix stands for both and the
//! profile's coverage says so; `imported_from` in its meta names the files. A profile is exact only where the files
//! show it.

pub mod build;
mod csv;
mod edges;
mod labels;
mod matrix_market;
mod npz;
mod numalize;
pub mod number;
mod open_mpi;
mod pair;
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
    /// Whether it is a directory that is meant, where one is given without a format.
    pub of_directories: bool,
    /// One line of help.
    pub about: &'static str,
    /// Reads a file or directory of this format.
    pub read: fn(&Path) -> Result<Profile>,
}

/// Every format. Where two match a file name, the first counts.
pub const FORMATS: &[Format] = &[
    Format {
        name: "npz",
        extensions: &["npz", "npy"],
        of_directories: false,
        about: "NumPy: a profile of cohabit, or square arrays of counts",
        read: npz::read,
    },
    Format {
        name: "numalize",
        extensions: &["comm.csv"],
        of_directories: false,
        about: "numalize's communication matrix: symmetric, last thread in the first row",
        read: numalize::read,
    },
    Format {
        name: "csv",
        extensions: &["csv", "tsv", "txt"],
        of_directories: false,
        about: "a square matrix with or without labels, or lines under a heading source, destination, value",
        read: csv::read,
    },
    Format {
        name: "matrix-market",
        extensions: &["mtx", "mm"],
        of_directories: false,
        about: "Matrix Market: coordinate or array; integer, real or pattern; general or symmetric",
        read: matrix_market::read,
    },
    Format {
        name: "open-mpi",
        extensions: &["prof"],
        of_directories: false,
        about: "Open MPI's monitoring (pml_monitoring_enable_output 3): all files NAME.RANK.prof of the run",
        read: open_mpi::read_prof,
    },
    Format {
        name: "open-mpi-matrix",
        extensions: &["mat"],
        of_directories: false,
        about: "matrices that Open MPI's monitoring_prof and profile2mat.pl write: the _msg and the _size file",
        read: open_mpi::read_matrix,
    },
];

/// Most tasks that are imported: what the text formats may declare without holding it.
pub const TASKS_LIMIT: usize = 1 << 20;
/// Longest text file that is read.
pub const TEXT_LIMIT_BYTES: u64 = 1 << 30;

/// Reads a file of another tool; `format` is a name in `formats`, or none to go by the file's name.
///
/// # Errors
/// An unknown format; or the file, the line and what is wrong there: no number, a negative, fractional or infinite one,
/// a matrix that is not square, a file cut short.
pub fn import(formats: &[&Format], path: &Path, format: Option<&str>) -> Result<Profile> {
    let format = match format {
        Some(name) => by_name(formats, name)?,
        None => by_path(formats, path)?,
    };
    (format.read)(path).map_err(|error| {
        let named = error.cause.contains(&path.display().to_string());
        if named { error } else { error.at(path.display()) }
    })
}

fn by_name<'a>(formats: &[&'a Format], name: &str) -> Result<&'a Format> {
    let names: Vec<_> = formats.iter().map(|format| format.name).collect();
    formats.iter().copied().find(|format| format.name == name).ok_or_else(|| {
        Error::new(format!("there is no import format {name:?}")).remedy(format!("use one of: {}", names.join(", ")))
    })
}

fn by_path<'a>(formats: &[&'a Format], path: &Path) -> Result<&'a Format> {
    if let Some(format) = formats.iter().find(|format| format.of_directories && path.is_dir()) {
        return Ok(format);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let matches =
        |format: &&&Format| format.extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")));
    formats.iter().find(matches).copied().ok_or_else(|| {
        let names: Vec<_> = formats.iter().map(|format| format.name).collect();
        let cause = format!("{}: the file's name does not say its format", path.display());
        Error::new(cause).remedy(format!("name it with --format: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests;
