//! Where the libraries that are preloaded into MPI ranks are: beside the exact profiler's parts (see `dbi::install`).
//!
//! ```text
//! libcohabit-mpi-openmpi.so  libcohabit-mpi-mpich.so  mpi/  (the sources, for `cohabit mpi build`)
//! cohabit-mpi-pingpong-openmpi  cohabit-mpi-pingpong-mpich  (for `cohabit measure`)
//! ```

use cohabit_host::install::{LIBDIR_VARIABLE, candidates};
use cohabit_model::launcher::Family;
use cohabit_model::{Error, Result};
use std::env;
use std::path::PathBuf;

/// Names the library to preload, instead of the one that was built for the launcher's MPI.
pub const LIBRARY_VARIABLE: &str = "COHABIT_MPI_LIBRARY";

/// The library for an MPI: what `COHABIT_MPI_LIBRARY` names, else the one beside the other parts.
///
/// # Errors
/// It is not there; with where it was looked for, and how to build it.
pub fn library(family: Family) -> Result<PathBuf> {
    if let Some(own) = env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from) {
        if own.is_file() {
            return Ok(std::path::absolute(own)?);
        }
        let cause = format!("{LIBRARY_VARIABLE}={}: no such file", own.display());
        return Err(Error::new(cause).remedy("unset it, or name what `cohabit mpi build` wrote"));
    }
    let name = format!("libcohabit-mpi-{}.so", family.name());
    let places = folders();
    places.iter().map(|place| place.join(&name)).find(|path| path.is_file()).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Error::new(format!("there is no library for ranks of {}: no {name} in {}", family.title(), places.join(" or ")))
            .remedy(format!("build it: `cohabit mpi build --mpicc CC -o FILE`, and name FILE with {LIBRARY_VARIABLE}"))
    })
}

/// The folder with the library's sources.
///
/// # Errors
/// It is nowhere.
pub fn sources() -> Result<PathBuf> {
    let installed = folders().into_iter().map(|folder| folder.join("mpi"));
    let program = env::current_exe().unwrap_or_default();
    let tree = program.ancestors().find(|ancestor| ancestor.file_name().is_some_and(|name| name == "target"));
    let tree = tree.and_then(|target| target.parent()).map(|tree| tree.join("native/mpi"));
    installed.chain(tree).find(|folder| folder.join("lifecycle.c").is_file()).ok_or_else(|| {
        Error::new("the sources of the library for MPI ranks are not installed")
            .remedy(format!("install cohabit again, or name its lib/cohabit with {LIBDIR_VARIABLE}"))
    })
}

/// Names the program that measures messages, instead of the one that was built for the launcher's MPI.
pub const PINGPONG_VARIABLE: &str = "COHABIT_MPI_PINGPONG";

/// The program that measures messages under an MPI: what `COHABIT_MPI_PINGPONG` names, else the one beside the other
/// parts.
///
/// # Errors
/// It is not there; with where it was looked for, and how to build it.
pub fn pingpong(family: Family) -> Result<PathBuf> {
    if let Some(own) = env::var_os(PINGPONG_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from) {
        if own.is_file() {
            return Ok(std::path::absolute(own)?);
        }
        return Err(Error::new(format!("{PINGPONG_VARIABLE}={}: no such file", own.display()))
            .remedy("unset it, or name what mpicc made of mpi/pingpong/pingpong.c"));
    }
    let name = format!("cohabit-mpi-pingpong-{}", family.name());
    let places = folders();
    places.iter().map(|place| place.join(&name)).find(|path| path.is_file()).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Error::new(format!("there is no {name} in {}", places.join(" or "))).remedy(format!(
            "build it with that MPI's compiler: mpicc mpi/pingpong/pingpong.c, and name it with {PINGPONG_VARIABLE}"
        ))
    })
}

fn folders() -> Vec<PathBuf> {
    if let Some(own) = env::var_os(LIBDIR_VARIABLE).filter(|value| !value.is_empty()) {
        return vec![PathBuf::from(own)];
    }
    candidates(&env::current_exe().unwrap_or_default())
}
