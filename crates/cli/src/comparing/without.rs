//! How to have a placement without cohabit: the file of whatever starts the program, and the command that uses it.

use crate::json::write_text;
use cohabit_apply::{Placement, exporter};
use cohabit_model::command::find;
use cohabit_model::launcher::Launcher;
use cohabit_model::{Mapping, Matrix, Result, Topology};
use cohabit_observe::mpi::launcher::{is_launcher, version};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a program that OpenMP's runtime starts threads for has in it.
const OPENMP: [&[u8]; 2] = [b"GOMP_parallel", b"__kmpc_fork_call"];

/// A file, and how it is used.
pub struct Without {
    /// The format.
    pub format: &'static str,
    /// The file.
    pub file: PathBuf,
    /// A command.
    pub usage: String,
}

/// Formats that may do, the most fitting one first.
fn formats(command: &[OsString]) -> Vec<&'static str> {
    if is_launcher(command) {
        return match version(command) {
            Ok((Launcher::OpenMpi, major)) if major >= 5 => vec!["open-mpi-5"],
            Ok((Launcher::OpenMpi, _)) => vec!["open-mpi-4"],
            Ok((Launcher::Hydra, _)) => vec!["mpich-binding", "mpich-hosts"],
            Ok((Launcher::Srun, _)) => vec!["slurm-map-cpu", "slurm-mask-cpu", "slurm-hosts"],
            _ => Vec::new(),
        };
    }
    match is_openmp(command) {
        true => vec!["omp-places", "taskset"],
        false => vec!["taskset"],
    }
}

fn is_openmp(command: &[OsString]) -> bool {
    let Some(content) = find(command).ok().and_then(|path| std::fs::read(path).ok()) else { return false };
    OPENMP.iter().any(|name| content.windows(name.len()).any(|window| window == *name))
}

/// Writes the mapping for the program's own launcher beside `path`; none where no format can say what the mapping says.
///
/// # Errors
/// Where the file cannot be written, or the mapping is of no machine.
pub fn write(mapping: &Mapping, command: &[OsString], path: &Path) -> Result<Option<Without>> {
    let topology = Topology::parse_text(&mapping.topology)?;
    let weight = Matrix::zero(mapping.tasks.len());
    let placement = Placement::new(mapping, &topology, &weight)?;
    for format in formats(command) {
        let exporter = exporter(format)?;
        let Ok(content) = exporter.export(&placement) else { continue };
        let file = path.with_extension(format);
        write_text(&file, &content)?;
        let usage = usage(exporter.usage(), &file.to_string_lossy(), command);
        return Ok(Some(Without { format, file, usage }));
    }
    Ok(None)
}

/// The exporter's words with the file and the program in them.
fn usage(words: &str, file: &str, command: &[OsString]) -> String {
    let joined = |words: &[OsString]| words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    match is_launcher(command) {
        true => words.replace("FILE", file).replace("-n N CMD", &joined(&command[1..])),
        false => {
            // Threads that run already are what some files are for.
            let own = words.split("for threads: ").last().unwrap_or(words);
            // The shell looks for a file to read in PATH alone where its name has no slash.
            let read = if file.contains('/') { file.to_owned() } else { format!("./{file}") };
            own.replace("./FILE", &read).replace("FILE", file).replace("CMD", &joined(command))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_names_the_file_and_the_program() {
        let command = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (words, line, expected) in [
            (". ./FILE; CMD", "./solver in", ". /d/f; ./solver in"),
            ("mpirun -n N sh FILE CMD; for threads: sh FILE PID", "./solver", "sh /d/f PID"),
            ("mpirun --rankfile FILE -n N CMD", "mpirun -n 4 ./p x", "mpirun --rankfile /d/f -n 4 ./p x"),
        ] {
            assert_eq!(usage(words, "/d/f", &command(line)), expected);
        }
        assert_eq!(usage(". ./FILE; CMD", "f", &command("./solver in")), ". ./f; ./solver in");
    }
}
