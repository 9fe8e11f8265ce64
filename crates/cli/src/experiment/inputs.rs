//! The programs of an experiment, and their recordings.

use crate::output::note;
use crate::recording::open_recording;
use cohabit_access::Recording;
use cohabit_evaluate::experiment::suite::{self, Scale};
use cohabit_evaluate::experiment::{Experiment, file::slug};
use cohabit_model::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where programs are, and which.
pub struct Inputs {
    /// `--program`; empty: all that there are.
    pub programs: Vec<String>,
    /// Where the suite's programs are, `mg.S` among them.
    pub suite: Option<PathBuf>,
    /// Where recordings are, `mg.S.8.rec` among them; those that are made go there.
    pub recordings: PathBuf,
    /// The class that is run.
    pub class: String,
    /// Tasks of each program.
    pub tasks: usize,
}

/// A program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// As cells and tables name it.
    pub name: String,
    /// Its recording: what [`open_recording`] takes.
    pub recording: String,
    /// What makes the recording, where it is not there yet.
    pub command: Option<PathBuf>,
    /// How much smaller it is than in the paper.
    pub scale: Scale,
    /// Whether it is of the suite, so that its scale is known.
    pub is_of_suite: bool,
}

impl Inputs {
    /// The programs that were asked for; of the suite, those of which there is a program or a recording where none are named.
    ///
    /// # Errors
    /// A program is nowhere.
    pub fn programs(&self, experiment: &Experiment) -> Result<Vec<Program>> {
        let suite = suite::named(&experiment.suite)?;
        let of_suite = |name: &str| -> Result<Option<Program>> {
            let file = format!("{name}.{}", self.class);
            let recording = self.recordings.join(format!("{file}.{}.rec", self.tasks));
            let command = self.suite.as_ref().map(|folder| folder.join(&file)).filter(|path| path.is_file());
            if command.is_none() && !recording.is_file() {
                return Ok(None);
            }
            let known = suite.program(name).ok_or_else(|| Error::new(format!("the suite has no {name}")))?;
            let scale = known.scale(&self.class, &experiment.class)?;
            let recording = recording.to_string_lossy().into_owned();
            Ok(Some(Program { name: name.to_owned(), recording, command, scale, is_of_suite: true }))
        };
        let mut found = Vec::new();
        let option = format!("--{}", experiment.suite);
        for name in &self.programs {
            if experiment.programs.contains(name) {
                found.push(of_suite(name)?.ok_or_else(|| {
                    Error::new(format!("there is neither a program {name}.{} nor a recording of it", self.class))
                        .remedy(format!("name the folder that has it: {option} DIR, or --recordings DIR"))
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
                "name the folder that has {}.{} and others: {option} DIR; or a recording: --program r.rec",
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
    Program {
        name: stem.replace('/', "-"),
        recording: name.to_owned(),
        command: None,
        scale: Scale::NONE,
        is_of_suite: false,
    }
}

/// The recording of a program, which is made where it is not there.
///
/// # Errors
/// It cannot be made or read, or has other tasks than asked for.
pub fn recorded(program: &Program, tasks: usize) -> Result<Box<dyn Recording>> {
    let path = Path::new(&program.recording);
    if let (false, Some(command)) = (path.is_file(), &program.command) {
        record(command, path, tasks)?;
    }
    let recording = open_recording(&program.recording)?;
    let found = recording.tasks().len();
    if program.is_of_suite && found != tasks {
        return Err(Error::new(format!("{}: a recording of {found} tasks, where {tasks} are wanted", path.display()))
            .remedy("name the number with --tasks, or another folder with --recordings"));
    }
    Ok(recording)
}

fn record(command: &Path, to: &Path, tasks: usize) -> Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|error| cohabit_model::file::cannot_write(folder, &error))?;
    }
    note(&format!("recording {}, into {}", command.display(), to.display()));
    let mut record = Command::new(std::env::current_exe().map_err(Error::from)?);
    record.args(["--quiet", "record", "-o"]).arg(to).arg("--").arg(command);
    record.env("OMP_NUM_THREADS", tasks.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    let ran = record.output().map_err(Error::from)?;
    // Some of the suite's programs end with a status of their own although all went well.
    if !to.is_file() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let line = said.lines().find(|line| line.starts_with("cohabit:")).unwrap_or("cohabit: nothing was said");
        return Err(Error::new(format!(
            "{} was not recorded ({}): {}",
            command.display(),
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
            suite: Some(folder.to_owned()),
            recordings: folder.join("recordings"),
            class: "S".into(),
            tasks: 8,
        }
    }

    #[test]
    fn programs_are_found_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::named("tlb2012").unwrap();
        let of = |programs: &[&str]| inputs(programs, folder.path()).programs(&experiment);
        assert!(of(&[]).unwrap_err().cause.contains("no program of class S"));
        std::fs::write(folder.path().join("mg.S"), "").unwrap();
        let found = of(&[]).unwrap();
        assert_eq!((found.len(), found[0].name.as_str(), found[0].scale.size), (1, "mg", 8.0));
        assert!(found[0].recording.ends_with("recordings/mg.S.8.rec"));
        let made_up = of(&["mg", "synthetic:ring:8"]).unwrap();
        assert_eq!((made_up[1].name.as_str(), made_up[1].scale), ("synthetic:ring:8", Scale::NONE));
        for (programs, cause) in [(&["bt"][..], "bt.S"), (&["solver"], "solver"), (&["mg", "mg"], "two programs")] {
            let error = of(programs).unwrap_err();
            assert!(error.cause.contains(cause) && error.remedy.is_some(), "{}", error.cause);
        }
    }
}
