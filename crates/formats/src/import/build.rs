//! From matrices to a profile.

use super::TASKS_LIMIT;
use cohabit_model::profile::{Kind, Meta, TaskKind};
use cohabit_model::{Error, Matrix, Profile, Result, Task, counted};
use std::path::{Path, PathBuf};

/// What is said of a file that does not say how its counts came about.
pub const UNSAID: &str = "how complete the counts are: the imported file does not say";
/// So many tasks may be silent, whatever else there is; where there are more, a task in this many must communicate.
const SILENT: (usize, usize) = (1 << 16, 16);

/// What was found in the files of another tool.
pub struct Imported {
    /// What the tasks are.
    pub kind: Kind,
    /// Name of the format, for the profile's detector.
    pub format: &'static str,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Names of the tasks; empty where there were none.
    pub labels: Vec<String>,
    /// Numbers that the file has for the tasks, such as thread ids; empty where they are numbered from 0.
    pub numbers: Vec<u32>,
    /// Matrices found; at least one.
    pub found: Found,
    /// Whether the files show that every event was counted. No matrix does by itself.
    pub exact: bool,
    /// What the tool did not see or say.
    pub not_seen: Vec<String>,
}

/// Which matrices were found.
pub enum Found {
    /// One, that the file calls messages.
    Messages(Matrix),
    /// One, that the file calls bytes.
    Bytes(Matrix),
    /// One, of a meaning the file does not say.
    Either(Matrix),
    /// Messages and bytes.
    Both(Matrix, Matrix),
}

impl Imported {
    /// What was found, with nothing else known.
    pub fn new(format: &'static str, kind: Kind, files: Vec<PathBuf>, found: Found) -> Self {
        let (labels, numbers, not_seen) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, format, files, labels, numbers, found, exact: false, not_seen }
    }

    /// The profile. A matrix that is alone stands for messages and bytes, and coverage says so.
    pub fn profile(mut self) -> Result<Profile> {
        let stands = |what: &str| format!("{what}: the imported matrix stands for it");
        let (messages, bytes) = match self.found {
            Found::Both(messages, bytes) => (messages, bytes),
            Found::Messages(matrix) => {
                self.not_seen.push(stands("bytes"));
                (matrix.clone(), matrix)
            }
            Found::Bytes(matrix) => {
                self.not_seen.push(stands("messages"));
                (matrix.clone(), matrix)
            }
            Found::Either(matrix) => {
                self.not_seen.push("messages and bytes are told apart by no file: one matrix stands for both".into());
                (matrix.clone(), matrix)
            }
        };
        if messages.tasks() != bytes.tasks() {
            let cause = format!("messages have {}, bytes {}", counted(messages.tasks(), "task"), bytes.tasks());
            return Err(Error::new(cause).remedy("move one of the two files away to import the other alone"));
        }
        check_extent(&messages, &bytes)?;
        if !self.numbers.is_empty() {
            self.not_seen.push("tasks that no line names: its numbers are taken for ids of threads".into());
        }
        let number = |id: u32| self.numbers.get(id as usize).copied();
        let task = |id: u32| task(id, self.kind, number(id), self.labels.get(id as usize));
        let tasks = (0..messages.tasks() as u32).map(task).collect();
        let mut meta = Meta::new(self.kind, format!("import:{}", self.format), tasks);
        meta.coverage.exact = self.exact;
        meta.coverage.not_seen = self.not_seen;
        meta.imported_from = self.files.iter().map(|file| file_name(file)).collect();
        Ok(Profile::new(meta, messages, bytes))
    }
}

/// The profile with its tasks called threads, processes or ranks: a matrix alone does not say what its tasks are.
///
/// # Errors
/// Where the profile was not imported from a matrix: then it knows what its tasks are.
pub fn relabelled(mut profile: Profile, kind: Kind) -> Result<Profile> {
    let was = profile.meta.kind;
    if !profile.meta.detector.starts_with("import:") && was != kind {
        let cause = "the file is a profile, which says itself what its tasks are";
        return Err(Error::new(cause).remedy("leave --kind out"));
    }
    let has_numbers = profile.meta.tasks.iter().any(|known| known.tid != 0);
    for known in &mut profile.meta.tasks {
        let number = has_numbers.then_some(known.tid);
        let old_default = task(known.id, was, number, None).name;
        let label = Some(&known.name).filter(|name| **name != old_default).cloned();
        *known = task(known.id, kind, number, label.as_ref());
    }
    profile.meta.kind = kind;
    Ok(profile)
}

/// The file's name without its directory: a profile is no place for paths of the machine it was made on.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Refuses more tasks than are imported.
pub fn check_tasks(tasks: u64) -> Result<usize> {
    if tasks > TASKS_LIMIT as u64 {
        return Err(Error::new(format!("{tasks} tasks; at most {TASKS_LIMIT} are imported")));
    }
    Ok(tasks as usize)
}

/// Refuses a matrix without tasks, and one with far more than communicate: a number somewhere is none of a task's.
fn check_extent(messages: &Matrix, bytes: &Matrix) -> Result<()> {
    let (tasks, pairs) = (messages.tasks(), messages.entries().max(bytes.entries()));
    if tasks == 0 {
        return Err(Error::new("there is no task in it").remedy("a matrix has one row and one column a task"));
    }
    let (few, times) = SILENT;
    if tasks > few && tasks / times > pairs {
        let cause = format!("{tasks} tasks, of which at most {} communicate", 2 * pairs);
        return Err(Error::new(cause).remedy("number the tasks from 0, without gaps"));
    }
    Ok(())
}

/// A task that the file calls `number`, or nothing but its place.
fn task(id: u32, kind: Kind, number: Option<u32>, label: Option<&String>) -> Task {
    let called = number.unwrap_or(id);
    let (noun, rank) = match kind {
        Kind::Ranks | Kind::Hybrid => (TaskKind::Rank, Some(called)),
        Kind::Processes => (TaskKind::Process, None),
        Kind::Threads => (TaskKind::Thread, None),
    };
    Task {
        process: if kind == Kind::Threads { 0 } else { id },
        pid: if kind == Kind::Processes { number.unwrap_or(0) } else { 0 },
        tid: number.unwrap_or(0),
        rank,
        spawn_index: if kind == Kind::Threads { id } else { 0 },
        ..Task::new(id, noun, label.cloned().unwrap_or_else(|| format!("{noun} {called}")))
    }
}
