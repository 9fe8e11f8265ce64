//! The programs of an experiment, and their recordings.

use crate::output::note;
use crate::recording::open_recording;
use cohabit_access::Recording;
use cohabit_evaluate::experiment::suite::{self, Scale};
use cohabit_evaluate::experiment::{Experiment, file::slug};
use cohabit_model::{Error, Result, counted};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What lets Open MPI start more ranks than there are cores: 4 and 5. MPICH does.
const MORE_RANKS_THAN_CORES: [(&str, &str); 2] =
    [("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")];

/// Where programs are, and which.
pub struct Inputs {
    /// `--program`; empty: all that there are.
    pub programs: Vec<String>,
    /// Where the programs of each suite are, `mg.S` among them.
    pub suites: BTreeMap<String, PathBuf>,
    /// Where recordings are, `mg.S.8.rec` among them; those that are made go there.
    pub recordings: PathBuf,
    /// The class that is run.
    pub class: String,
}

/// A program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// As cells and tables name it.
    pub name: String,
    /// How much smaller it is than in the paper.
    pub scale: Scale,
    /// Where its accesses come from.
    source: Source,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// A recording that was named: what [`open_recording`] takes.
    Recording(String),
    /// A program of a suite, whose recordings are kept by the number of tasks.
    Suite { program: suite::Program, ranks: bool, class: String, recordings: PathBuf, folder: Option<PathBuf> },
}

impl Program {
    /// The recording of so many tasks: what [`open_recording`] takes.
    pub fn recording(&self, tasks: usize) -> String {
        match &self.source {
            Source::Recording(path) => path.clone(),
            Source::Suite { program, ranks, class, recordings, .. } => {
                let tasks = program.tasks(tasks);
                let end = if *ranks { "mpi.rec" } else { "rec" };
                recordings.join(format!("{}.{class}.{tasks}.{end}", program.name)).to_string_lossy().into_owned()
            }
        }
    }

    /// What is recorded for so many tasks, if the program is there.
    fn command(&self, tasks: usize) -> Option<Command> {
        let Source::Suite { program, ranks, class, folder, .. } = &self.source else { return None };
        let tasks = program.tasks(tasks);
        let (folder, name) = (folder.as_ref()?, program.file(class, tasks));
        // As NPB names it up to 3.3, and since 3.4, where one program is for any number of ranks.
        let since_3_4 = format!("{}.x", name.strip_suffix(&format!(".{tasks}")).unwrap_or(&name));
        let file = [name, since_3_4].map(|name| folder.join(name)).into_iter().find(|file| file.is_file());
        file.map(|file| {
            let mut command = Command::new(if *ranks { Path::new("mpirun") } else { file.as_path() });
            if *ranks {
                command.args(["-n", &tasks.to_string()]).arg(&file).envs(MORE_RANKS_THAN_CORES);
            } else {
                command.env("OMP_NUM_THREADS", tasks.to_string());
            }
            command.args(program.arguments(class, tasks));
            command
        })
    }

    /// The part of its run that is recorded.
    fn region(&self) -> Option<&'static str> {
        matches!(self.source, Source::Suite { ranks: true, .. }).then_some("--roi=mpi")
    }
}

impl Inputs {
    /// The programs that were asked for; of the suites, those of which there is a program or a recording where none are
    /// named. Only machines `on` count.
    ///
    /// # Errors
    /// A program is nowhere.
    pub fn programs(&self, experiment: &Experiment, on: &[String]) -> Result<Vec<Program>> {
        let of_suite = |name: &str| -> Result<Option<Program>> {
            let known = suite::program(&experiment.suites, name)?;
            let of = suite::suite_of(&experiment.suites, name);
            let ranks = of.is_some_and(|suite| suite::named(suite).is_ok_and(|suite| suite.ranks));
            let folder = of.and_then(|suite| self.suites.get(suite)).cloned();
            let scale = known.scale(&self.class, &experiment.class)?;
            let (class, recordings) = (self.class.clone(), self.recordings.clone());
            let source = Source::Suite { program: known, ranks, class, recordings, folder };
            let program = Program { name: name.to_owned(), scale, source };
            let is_there = |machine: &String| {
                let tasks = experiment.tasks_on(machine);
                program.command(tasks).is_some() || Path::new(&program.recording(tasks)).is_file()
            };
            Ok(on.iter().all(is_there).then_some(program))
        };
        let mut found = Vec::new();
        let options = experiment.suites.iter().map(|suite| format!("--{suite} DIR")).collect::<Vec<_>>().join(", ");
        for name in &self.programs {
            if experiment.programs.contains(name) {
                found.push(of_suite(name)?.ok_or_else(|| {
                    Error::new(format!("there is neither a program {name}.{} nor a recording of it", self.class))
                        .remedy(format!("name the folder that has it: {options}, or --recordings DIR"))
                })?);
            } else if name.contains(':') || Path::new(name).is_file() {
                found.push(of_path(name));
            } else {
                return Err(Error::new(format!("--program {name}: no program of the experiment, and no recording"))
                    .remedy(format!("one of {}, or a recording", experiment.programs.join(", "))));
            }
        }
        if self.programs.is_empty() {
            for name in &experiment.programs {
                found.extend(of_suite(name)?);
            }
        }
        if found.is_empty() {
            return Err(Error::new(format!("no program of class {} is there", self.class)).remedy(format!(
                "name the folder that has {}.{} and others: {options}; or a recording: --program r.rec",
                experiment.programs[0], self.class
            )));
        }
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        for program in &found {
            let count = by_name.entry(slug(&program.name)).or_default();
            *count += 1;
            if *count > 1 {
                return Err(Error::new(format!("two programs are called {}", program.name)).remedy("name each once"));
            }
        }
        Ok(found)
    }
}

/// A recording that is named by itself.
fn of_path(name: &str) -> Program {
    let stem = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
    Program { name: stem.replace('/', "-"), scale: Scale::NONE, source: Source::Recording(name.to_owned()) }
}

/// The recording of a program with so many tasks, which is made where it is not there.
///
/// # Errors
/// It cannot be made or read, or has other tasks than asked for.
pub fn recorded(program: &Program, tasks: usize) -> Result<Box<dyn Recording>> {
    let name = program.recording(tasks);
    let path = Path::new(&name);
    if let (false, Some(command)) = (path.is_file(), program.command(tasks)) {
        record(&command, program.region(), path)?;
    }
    let recording = open_recording(&name)?;
    let found = recording.tasks().len();
    let Source::Suite { program, .. } = &program.source else { return Ok(recording) };
    let wanted = program.tasks(tasks);
    if found != wanted {
        return Err(Error::new(format!(
            "{name}: a recording of {}, where {wanted} are wanted",
            counted(found, "task")
        ))
        .remedy("name the number with --tasks, or another folder with --recordings"));
    }
    Ok(recording)
}

fn record(command: &Command, region: Option<&str>, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cohabit_model::file::cannot_write(folder, &error))?;
    }
    let program = Path::new(command.get_program());
    note(&format!("recording {}, into {}", program.display(), to.display()));
    let mut record = Command::new(std::env::current_exe().map_err(Error::from)?);
    record.args(["--quiet", "record"]).args(region).arg("-o").arg(to).arg("--").arg(program).args(command.get_args());
    record.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    record.stdin(Stdio::null()).stdout(Stdio::null());
    let ran = record.output().map_err(Error::from)?;
    // Some of the suite's programs end with a status of their own although all went well.
    if !to.is_file() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let line = said.lines().find(|line| line.starts_with("cohabit:")).unwrap_or("cohabit: nothing was said");
        return Err(Error::new(format!(
            "{} was not recorded ({}): {}",
            program.display(),
            ran.status,
            &line["cohabit:".len()..]
        ))
        .remedy("'cohabit record' says more"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(programs: &[&str], folder: &Path) -> Inputs {
        Inputs {
            programs: programs.iter().map(|&name| name.to_owned()).collect(),
            suites: BTreeMap::from([("npb-omp".to_owned(), folder.to_owned())]),
            recordings: folder.join("recordings"),
            class: "S".into(),
        }
    }

    #[test]
    fn programs_are_found_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::named("tlb2012").unwrap();
        let of = |programs: &[&str]| inputs(programs, folder.path()).programs(&experiment, &experiment.machines);
        assert!(of(&[]).unwrap_err().cause.contains("no program of class S"));
        std::fs::write(folder.path().join("mg.S"), "").unwrap();
        let found = of(&[]).unwrap();
        assert_eq!((found.len(), found[0].name.as_str(), found[0].scale.size), (1, "mg", 8.0));
        assert!(found[0].recording(8).ends_with("recordings/mg.S.8.rec"));
        // As NPB 3.4 names it.
        std::fs::write(folder.path().join("cg.S.x"), "").unwrap();
        let found = of(&["cg"]).unwrap();
        assert_eq!(found[0].command(8).unwrap().get_program(), folder.path().join("cg.S.x").as_os_str());
        let made_up = of(&["mg", "synthetic:ring:8"]).unwrap();
        assert_eq!((made_up[1].name.as_str(), made_up[1].scale), ("synthetic:ring:8", Scale::NONE));
        for (programs, cause) in [(&["bt"][..], "bt.S"), (&["solver"], "solver"), (&["mg", "mg"], "two programs")] {
            let error = of(programs).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.is_some(), "{}", error.cause);
        }
    }
}
