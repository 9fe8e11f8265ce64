//! `cohabit mpi build`: the library for MPI ranks, for a site's own MPI.

use super::Outcome;
use crate::exit::{End, Failure};
use crate::json::{JsonArgs, name_of};
use cohabit_model::Error;
use cohabit_model::file::check_writable;
use cohabit_observe::mpi::install::{LIBRARY_VARIABLE, sources};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  cohabit mpi build --mpicc /opt/mpi/bin/mpicc -o libcohabit-mpi.so
  COHABIT_MPI_LIBRARY=libcohabit-mpi.so cohabit profile -- mpirun -n 8 ./solver";

/// Arguments of `cohabit mpi`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Mpi {
    /// What to do
    #[arg(value_name = "ACTION")]
    action: Action,
    /// The compiler of the MPI
    #[arg(long, value_name = "CC", default_value = "mpicc")]
    mpicc: PathBuf,
    /// Write the library to F
    #[arg(short, long, value_name = "F", default_value = "libcohabit-mpi.so")]
    output: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

/// What can be done.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Build the library that `cohabit profile` preloads into ranks
    Build,
}

impl Mpi {
    /// Carries the command out.
    pub fn run(self) -> Outcome {
        match self.action {
            Action::Build => self.build(),
        }
    }

    fn build(self) -> Outcome {
        let folder = sources()?;
        let files = c_files(&folder)?;
        check_writable(&self.output)?;
        self.json.check()?;
        let output = std::path::absolute(&self.output).map_err(Error::from)?;
        let flags =
            "-O2 -g -std=gnu11 -D_GNU_SOURCE -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec -pthread";
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(flags.split(' ')).arg("-Wl,--as-needed").arg("-o").arg(&output).args(&files).arg("-ldl");
        let made = compiler.stdin(Stdio::null()).output().map_err(|error| {
            Error::new(format!("{}: {error}", self.mpicc.display())).remedy("name your MPI's C compiler with --mpicc")
        })?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            let first = said.lines().find(|line| line.contains("error")).or(said.lines().next()).unwrap_or("nothing");
            let cause = format!("{} could not compile the library: {first}", self.mpicc.display());
            return Err(Failure::from(Error::new(cause).remedy("it must be the C compiler of an Open MPI or MPICH")));
        }
        let text = format!("{}: name it with {LIBRARY_VARIABLE}\n", self.output.display());
        self.json.emit("mpi build", json!({"library": name_of(&self.output)}), &text)?;
        Ok(End::Done)
    }
}

fn c_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "c"));
    files.sort();
    Ok(files)
}
