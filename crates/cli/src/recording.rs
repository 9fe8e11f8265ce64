//! What a user names as a recording, programs that are recorded, and what mappers are told of it.

use crate::exit::{End, Failure};
use crate::json::JsonArgs;
use crate::narration::Narration;
use crate::output::{self, note};
use crate::progress;
use clap::ValueEnum;
use cohabit_access::file::RecordingFile;
use cohabit_access::{Dependences, Recording, Step, Steps, StridedAccess, TaskInfo, check, synthetic};
use cohabit_cluster::Options;
use cohabit_detect::communication::{Communication, communication, whole};
use cohabit_formats::import::Format;
use cohabit_map::objective::{Case, Objective, map_for};
use cohabit_map::{Mapper, Problem};
use cohabit_model::profile::{Kind, Meta, Task, TaskKind};
use cohabit_model::{Error, Matrix, Period, Profile, Result};
use cohabit_observe::mpi::launcher::is_launcher;
use cohabit_observe::{dbi, hybrid};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Begins the name of a recording that is made up.
const SYNTHETIC: &str = "synthetic:";
/// Mappers that do not look at what tasks communicate, unless they have to share PUs.
pub const WITHOUT_COMMUNICATION: [&str; 3] = ["packed", "scatter", "random"];
/// Bytes of a message: a line.
const LINE_BYTES: u64 = 64;

/// A recording that is there, or a program of which one is made.
#[derive(clap::Args, Debug, Default)]
pub struct RecordingArgs {
    /// The recording (`cohabit record`), or one that is made up: synthetic:KIND:TASKS[:KIB[:ROUNDS]], KIND being ring,
    /// pairs, distant, all or alone
    #[arg(value_name = "R")]
    recording: Option<String>,
    /// Record this program first, into a file that is deleted at the end
    #[arg(last = true, value_name = "CMD", conflicts_with = "recording")]
    command: Vec<OsString>,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Region {
    /// Between the program's own markers.
    Markers,
    /// Between MPI_Init and MPI_Finalize.
    Mpi,
}

/// What [`RecordingArgs`] name.
pub struct Named {
    /// As the user wrote it.
    pub name: String,
    /// The program that was recorded for it.
    pub program: Option<Vec<String>>,
    /// It.
    pub recording: Box<dyn Recording>,
    /// Its tasks are ranks that a launcher started, and nobody knows where they wait for messages.
    work_while_waiting: bool,
    /// How the program ended that was recorded for it.
    status: Option<ExitStatus>,
    /// Its order is by blocks ([`RecordingFile::is_by_words`]).
    pub by_blocks: bool,
    /// It has the code that ran ([`RecordingFile::has_code`]).
    has_code: bool,
    /// Where it lies meanwhile, if a program was recorded for it.
    _folder: Option<TempDir>,
}

impl Named {
    /// How a command ends that did what it was asked to: as the program did, where one ran.
    pub fn end(&self) -> End {
        self.status.map_or(End::Done, End::of)
    }

    /// Says what is to be known of times on a machine whose instructions wait for one another.
    pub fn warn_of_dependences(&self) {
        if !self.has_code {
            note(
                "this recording does not tell which instructions wait for which, so that times are by the machine's rate of \
                 instructions alone: record again, with this version (docs/recording.md)",
            );
        }
    }

    /// Says what is to be known of simulated times before they are printed.
    pub fn warn_of_times(&self) {
        if self.by_blocks {
            note(
                "in this recording tasks that use other words of a block wait for one another, so that times may be far too long: record \
                 again, with this version and no --block above 64 (docs/recording.md)",
            );
        }
        if self.work_while_waiting {
            note(
                "the tasks are ranks of an MPI library whose progress function is not known: what they did while they waited for \
                 messages is simulated as if it were work, so times say little of them (docs/recording.md)",
            );
        }
    }
}

impl RecordingArgs {
    /// Opens the recording, or records the program. `json` says whether standard output is free for the program.
    ///
    /// # Errors
    /// As [`open_recording`] and [`record`]; a recording that is not sound.
    pub fn open(&self, json: &JsonArgs) -> Result<Named, Failure> {
        if let Some(name) = &self.recording {
            let Opened { recording, work_while_waiting, by_blocks, has_code } = open(name)?;
            check_filled(&*recording, name)?;
            return Ok(Named {
                name: name.clone(),
                program: None,
                recording,
                work_while_waiting,
                status: None,
                by_blocks,
                has_code,
                _folder: None,
            });
        }
        if self.command.is_empty() {
            let error = Error::new("neither a recording nor a program to record");
            return Err(Failure::usage(error.remedy("name one that 'cohabit record' wrote, or a program after --")));
        }
        if json.takes_stdout() {
            let error = Error::new("--json - is where the program writes as well");
            return Err(Failure::usage(error.remedy("name a file: --json FILE")));
        }
        let failed = |error: std::io::Error| Error::new(format!("cannot make a folder for the recording: {error}"));
        let folder = tempfile::Builder::new().prefix("cohabit-recording-").tempdir().map_err(failed)?;
        let path = folder.path().join("recording");
        let outcome = record(&self.command, &path, dbi::Options::default().block_bytes, None)?;
        // What follows is a filter's output again.
        output::die_of_closed_pipes();
        outcome.notes.iter().for_each(|line| note(line));
        if let Some(why) = outcome.status.signal().and_then(|_| unsound(&path)) {
            return Err(
                Error::new(format!("a signal ended the program, and what was recorded is not sound: {why}")).into()
            );
        }
        if !outcome.status.success() {
            note(&format!("the program failed ({}); what follows is of what it did until then", outcome.status));
        }
        let recorded = RecordingFile::open(&path)?;
        let words: Vec<String> = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        check_filled(&recorded, &words.join(" "))?;
        Ok(Named {
            name: words.join(" "),
            program: Some(words),
            work_while_waiting: works_while_waiting(&recorded),
            status: Some(outcome.status),
            by_blocks: !recorded.is_by_words(),
            has_code: recorded.has_code(),
            recording: Box::new(recorded),
            _folder: Some(folder),
        })
    }
}

/// Runs a program, recording what its tasks do to memory: in a region, or all of it. Of a launcher's program
/// it is the ranks on this node that are recorded.
///
/// # Errors
/// It cannot be run or recorded.
pub fn record(
    command: &[OsString],
    output: &Path,
    block_bytes: u32,
    region: Option<Region>,
) -> Result<dbi::Outcome, Failure> {
    let (_narration, on_begin) = Narration::of_time(["thread", "threads"]);
    let options = dbi::Options {
        on_begin,
        block_bytes,
        region: region == Some(Region::Markers),
        region_of_mpi: region == Some(Region::Mpi),
        series_bound: 0,
        recording: Some(output.to_owned()),
        pass_signals: true,
        ..dbi::Options::default()
    };
    let outcome = match is_launcher(command) {
        true => hybrid::record(command, &options),
        false => dbi::profile(command, &options),
    };
    outcome.map_err(Failure::from)
}

/// Why a recording cannot be used; none where it can. A program that a signal ends leaves off wherever its tasks are.
pub fn unsound(path: &Path) -> Option<String> {
    let checked = RecordingFile::open(path).and_then(|recording| check::check(&recording).map(drop));
    checked.err().map(|error| error.cause)
}

/// The recording that a user names: a file, or one that is made up, such as `synthetic:ring:8`.
///
/// # Errors
/// Where it cannot be read, or is none.
pub fn open_recording(path: &str) -> Result<Box<dyn Recording>> {
    open(path).map(|opened| opened.recording)
}

/// A recording, and what is to be known of simulated times ([`Named`]).
struct Opened {
    recording: Box<dyn Recording>,
    work_while_waiting: bool,
    by_blocks: bool,
    has_code: bool,
}

/// Refuses a recording in which no task does anything: every time would be 0.
fn check_filled(recording: &dyn Recording, name: &str) -> Result<()> {
    let accesses: Option<u64> = recording.tasks().iter().map(|task| task.accesses).sum();
    match accesses {
        Some(0) => Err(Error::new(format!("{name}: nothing was recorded: it has no access to memory"))
            .remedy("record again without --roi, or mark a region in the program (cohabit_roi_begin in cohabit.h)")),
        _ => Ok(()),
    }
}

fn open(path: &str) -> Result<Opened> {
    if let Some(text) = path.strip_prefix(SYNTHETIC) {
        let recording = Box::new(synthetic::parse(text)?);
        return Ok(Opened { recording, work_while_waiting: false, by_blocks: false, has_code: false });
    }
    let file = RecordingFile::open(Path::new(path))?;
    let (work_while_waiting, by_blocks) = (works_while_waiting(&file), !file.is_by_words());
    let has_code = file.has_code();
    Ok(Opened { recording: Box::new(file), work_while_waiting, by_blocks, has_code })
}

/// Whether the tasks are ranks that a launcher started, of which nobody knows where they wait for messages.
fn works_while_waiting(recording: &RecordingFile) -> bool {
    let command: Vec<OsString> = recording.meta().command.iter().map(OsString::from).collect();
    let known = recording.meta().images.iter().any(|image| image.mpi.is_some());
    is_launcher(&command) && !known
}

/// Accesses that are read before it is said how far the reading is.
const SAID_EVERY: u64 = 1 << 20;

/// Does `work`, which reads `recording` so many times, under a line that says how far it is and how long the rest
/// takes.
pub fn read_under_progress<T>(
    what: &str,
    recording: &dyn Recording,
    times: usize,
    work: impl FnOnce(&dyn Recording) -> T,
) -> T {
    let once: Option<u64> = recording.tasks().iter().map(|task| task.accesses).sum();
    let Some(once) = once else { return progress::during(what, || work(recording)) };
    progress::counted(what, |say| {
        let all = usize::try_from(once.saturating_mul(times as u64)).unwrap_or(usize::MAX);
        let read = AtomicUsize::new(0);
        let add = |accesses: u64| {
            let accesses = usize::try_from(accesses).unwrap_or(usize::MAX);
            // What ends early is not read to its end, and a simulation may begin anew.
            say(read.fetch_add(accesses, Ordering::Relaxed).saturating_add(accesses).min(all), all);
        };
        work(&Counted { recording, add: &add })
    })
}

/// A recording that tells how much of it is read.
struct Counted<'a> {
    recording: &'a dyn Recording,
    add: &'a (dyn Fn(u64) + Sync),
}

/// The steps of one of its tasks.
struct CountedSteps<'a> {
    steps: Box<dyn Steps + 'a>,
    add: &'a (dyn Fn(u64) + Sync),
    unsaid: u64,
}

impl Recording for Counted<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.recording.tasks()
    }

    fn steps(&self, task: u32) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(CountedSteps { steps: self.recording.steps(task)?, add: self.add, unsaid: 0 }))
    }

    fn steps_with(&self, task: u32, core: Dependences) -> Result<Box<dyn Steps + '_>> {
        Ok(Box::new(CountedSteps { steps: self.recording.steps_with(task, core)?, add: self.add, unsaid: 0 }))
    }
}

impl Steps for CountedSteps<'_> {
    fn next_step(&mut self) -> Result<Option<Step>> {
        let step = self.steps.next_step()?;
        self.unsaid = self.unsaid.saturating_add(step.as_ref().map_or(0, Step::access_count));
        if self.unsaid >= SAID_EVERY || step.is_none() {
            (self.add)(std::mem::take(&mut self.unsaid));
        }
        Ok(step)
    }

    fn recycle(&mut self, accesses: Vec<StridedAccess>) {
        self.steps.recycle(accesses);
    }
}

/// Of `cohabit import`: what the tasks of a recording communicate, through memory, pipes and sockets.
pub const FORMAT: Format = Format {
    name: "recording",
    extensions: &["rec"],
    of_directories: false,
    about: "what `cohabit record` writes: its tasks' exact communication, that through pipes and sockets with it",
    read: profile_of,
};

/// The exact communication of a recording as a profile, which has no series: nothing says when things happened.
///
/// # Errors
/// It cannot be read, or is not sound.
fn profile_of(path: &Path) -> Result<Profile> {
    let recording = RecordingFile::open(path)?;
    let known = communication(&recording)?;
    let about = recording.meta();
    let mut seen = HashMap::new();
    let task = |(id, task): (u32, &cohabit_access::file::Task)| {
        let next = seen.entry(task.process).or_insert(0u32);
        let image = task.pieces.last().and_then(|piece| about.images.get(piece.image as usize));
        let spawn_index = std::mem::replace(next, *next + 1);
        Task {
            host: about.host.clone(),
            process: task.process,
            pid: image.map_or(0, |image| image.pid),
            tid: task.tid,
            parent: task.start.map(|start| start.task),
            spawn_index,
            ..Task::new(id, TaskKind::Thread, &task.name)
        }
    };
    let tasks: Vec<Task> = (0..).zip(&about.tasks).map(task).collect();
    let processes = seen.len();
    let kind = if processes > 1 && processes == tasks.len() { Kind::Processes } else { Kind::Threads };
    let program = |process: u32| {
        let of = about.tasks.iter().filter(|task| task.process == process).flat_map(|task| task.pieces.last());
        of.filter_map(|piece| about.images.get(piece.image as usize)).map(|image| image.program.clone()).next()
    };
    let programs =
        (0..).map_while(|process| (process < processes as u32).then(|| program(process).unwrap_or_default()));
    let mut meta = Meta { programs: programs.collect(), ..Meta::new(kind, "recording", tasks) };
    meta.block_bytes = LINE_BYTES;
    meta.command.clone_from(&about.command);
    meta.hosts = vec![about.host.clone()];
    meta.coverage.events_lost = about.events_lost;
    meta.coverage.exact = about.events_lost == 0 && about.not_seen.is_empty();
    meta.coverage.not_seen.clone_from(&about.not_seen);
    Ok(Profile {
        transfers: Some(known.transfers),
        accessed_bytes: known.work.accessed_bytes,
        alone_bytes: known.work.alone_bytes,
        ..Profile::new(meta, known.messages, known.bytes)
    })
}

/// What happens at the same time: clusters of its windows, as DeLoc finds them, with what is exchanged in each:
/// transfers, or messages. Empty where nothing is communicated.
///
/// # Errors
/// They cannot be found.
pub fn periods(known: &Communication, of_transfers: bool) -> Result<Vec<Period>> {
    if known.series.is_empty() {
        return Ok(Vec::new());
    }
    let meta = Meta { window_ns: known.window_accesses, ..Meta::new(Kind::Threads, "recording", Vec::new()) };
    let profile = Profile::new(meta, known.messages.clone(), known.messages.clone());
    let profile = Profile { series: known.series.clone(), ..profile };
    let periods = cohabit_cluster::periods::of_clusters(&profile, &Options::default())?.2.periods;
    let with_bytes = |period: Period| {
        let messages = if of_transfers { whole(&period.bytes) } else { period.messages };
        let bytes = messages.iter().map(|(a, b, count)| (a, b, count.saturating_mul(LINE_BYTES)));
        Period { bytes: Matrix::from_triplets(messages.tasks(), bytes), messages, ..period }
    };
    Ok(periods.into_iter().map(with_bytes).collect())
}

/// A placement on a machine whose ports have no speeds of their own.
///
/// # Errors
/// The mapper fails, or knows no such objective.
pub fn place(problem: &Problem, mapper: &dyn Mapper, objective: &dyn Objective) -> Result<Vec<usize>> {
    map_for(&Case { problem, network: None, memory: &[] }, mapper, objective)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_access::file::{FORMAT, Image, Meta, MpiCode, Writer};
    use std::sync::Mutex;

    /// Of a launcher's command the tasks are ranks; of one that only mentions it they are not. Where the progress
    /// function of their library is known their waiting is.
    #[test]
    fn ranks_are_known_by_the_command_and_their_waiting_by_their_library() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.rec");
        let image = |mpi: bool| Image {
            program: "a".into(),
            pid: 1,
            tasks: Vec::new(),
            before: Vec::new(),
            accesses: Vec::new(),
            segments: 0,
            number: 0,
            in_run: Vec::new(),
            mappings: 0,
            mpi: mpi.then(|| MpiCode { progress: vec![4096], ..MpiCode::default() }),
        };
        let launched = &["/usr/bin/mpirun", "-n", "2", "./a"][..];
        for (command, known, expected) in
            [(launched, false, true), (launched, true, false), (&["./a", "mpirun"], false, false)]
        {
            let meta = Meta {
                format: FORMAT,
                command: command.iter().map(ToString::to_string).collect(),
                host: String::new(),
                images: vec![image(false), image(known)],
                tasks: Vec::new(),
                events_lost: 0,
                not_seen: Vec::new(),
                channels: 0,
            };
            let mut writer = Writer::new(std::fs::File::create(&path).unwrap());
            (0..2).for_each(|image| writer.segments(image, &[]).unwrap());
            writer.finish(&meta).unwrap();
            assert_eq!(open(path.to_str().unwrap()).unwrap().work_while_waiting, expected, "{command:?} {known}");
        }
    }

    /// The same steps, and in all as many accesses as were read.
    #[test]
    fn what_is_counted_is_what_is_read() {
        let recording = open_recording("synthetic:ring:3:256:40").unwrap();
        let said = Mutex::new(Vec::new());
        let add = |accesses| said.lock().unwrap().push(accesses);
        let counted = Counted { recording: &*recording, add: &add };
        let mut all = 0;
        for (task, info) in (0..).zip(recording.tasks()) {
            let (mut same, mut steps) = (recording.steps(task).unwrap(), counted.steps(task).unwrap());
            while let Some(step) = same.next_step().unwrap() {
                assert_eq!(steps.next_step().unwrap(), Some(step));
            }
            assert_eq!(steps.next_step().unwrap(), None);
            all += info.accesses.unwrap();
        }
        assert_eq!(said.lock().unwrap().iter().sum::<u64>(), all);
        let read = read_under_progress("reading", &*recording, 1, |counted| counted.tasks().len());
        assert_eq!(read, 3);
    }
}
