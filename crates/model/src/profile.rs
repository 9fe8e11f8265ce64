//! What was observed: who communicated with whom, how much, when, and how sure that is.
//!
//! The file format (`.npz`) is in docs/formats.md; reading and writing it is `observe`'s.

use crate::calls::{CallPlace, Visit};
pub use crate::data::{CallSite, CodeSite, Data, DataObject, HotBlock, PairSites};
use crate::{Matrix, Trace};
use serde::{Deserialize, Serialize};

/// The format number in every profile file.
pub const FORMAT: u64 = 1;

/// What the tasks of a profile are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Threads of one or several processes.
    Threads,
    /// Processes.
    Processes,
    /// MPI ranks.
    Ranks,
    /// MPI ranks and their threads.
    Hybrid,
}

/// What one task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// A thread.
    Thread,
    /// A process, all its threads together.
    Process,
    /// An MPI rank, all its threads together.
    Rank,
}

/// One thread, process or MPI rank. Its `id` is its index in every matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Index in every array of the profile.
    pub id: u32,
    /// What it is.
    pub kind: TaskKind,
    /// The name the operating system had for it (`comm`), or one made from its number.
    pub name: String,
    /// Host it ran on.
    #[serde(default)]
    pub host: String,
    /// Index of its process within the run, in the order processes were started.
    #[serde(default)]
    pub process: u32,
    /// Process id on its host.
    #[serde(default)]
    pub pid: u32,
    /// Thread id on its host.
    #[serde(default)]
    pub tid: u32,
    /// The task that started it; none for the first.
    #[serde(default)]
    pub parent: Option<u32>,
    /// World rank, for MPI.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Order of creation within its process; 0 is the main thread.
    #[serde(default)]
    pub spawn_index: u32,
    /// The MPI world it is in: 0 is the first, others were spawned ([`Meta::worlds`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub world: u32,
    /// The processors it was allowed when MPI had begun, as the kernel writes lists (`0-3,8`); empty where that is not
    /// known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpus: String,
    /// MPI made this thread for itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub of_mpi: bool,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

impl std::fmt::Display for TaskKind {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Process => "process",
            Self::Rank => "rank",
        })
    }
}

impl Task {
    /// A task of which nothing else is known.
    pub fn new(id: u32, kind: TaskKind, name: impl Into<String>) -> Self {
        Self {
            id,
            kind,
            name: name.into(),
            host: String::new(),
            process: 0,
            pid: 0,
            tid: 0,
            parent: None,
            rank: None,
            spawn_index: 0,
            world: 0,
            cpus: String::new(),
            of_mpi: false,
            unknown: Default::default(),
        }
    }
}

/// How complete the figures are. It travels with every output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Whether every event was seen.
    pub exact: bool,
    /// Share of the run, or of the events, that was looked at: 1 when all of it.
    pub sample_rate: f64,
    /// Events known to be lost.
    pub events_lost: u64,
    /// What the detector cannot see, in words.
    pub not_seen: Vec<String>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { exact: true, sample_rate: 1.0, events_lost: 0, not_seen: Vec::new(), unknown: Default::default() }
    }
}

/// Everything about a profile that is not an array; the `meta` member of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// [`FORMAT`].
    pub format: u64,
    /// What the tasks are.
    pub kind: Kind,
    /// Which detector made the profile.
    pub detector: String,
    /// Block size in bytes; 0 where blocks mean nothing (MPI).
    #[serde(default)]
    pub block_bytes: u64,
    /// Width of one bin of the series, in ns; 0 where its windows are of instructions.
    #[serde(default)]
    pub window_ns: u64,
    /// Width of one bin of the series in instructions of each task; 0 where its windows are of time ([`Meta::window`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_instructions: u64,
    /// Which clock the series follows, and whether instrumentation stretched the time.
    #[serde(default)]
    pub clock: String,
    /// The observed command line.
    #[serde(default)]
    pub command: Vec<String>,
    /// The arguments of the command that made it, those of [`Meta::command`] among them; empty in profiles before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The executable of each process, by [`Task::process`]: after exec the last one; empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Host names.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The tasks, by id.
    pub tasks: Vec<Task>,
    /// The hottest blocks, hottest first.
    #[serde(default)]
    pub hot: Vec<HotBlock>,
    /// Through which data the messages went; none where that was not looked at, and in profiles of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// When the program said that a phase begins, ascending; empty where it said nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub markers: Vec<Marker>,
    /// How complete the figures are.
    #[serde(default)]
    pub coverage: Coverage,
    /// When it was made, RFC 3339.
    #[serde(default)]
    pub created: String,
    /// The width of window that was asked for, in ns, where windows had to be doubled ([`crate::series`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_window_ns: Option<u64>,
    /// The same in instructions, of windows of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_window_instructions: Option<u64>,
    /// What tasks had beside memory to exchange data through and nobody looked into: sockets, pipes, files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen_channels: Vec<String>,
    /// Names of the files that a matrix was imported from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported_from: Vec<String>,
    /// Of MPI: how collectives are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectives: Option<Collectives>,
    /// What the MPI calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_library: Option<String>,
    /// The greatest level of thread support that a rank was given: MPI_THREAD_SINGLE is 0, MPI_THREAD_MULTIPLE 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_thread_level: Option<u32>,
    /// Of MPI, where processes were spawned: the worlds, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worlds: Vec<World>,
    /// Of MPI: where the heaviest pairs called it, heaviest first; none where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<Vec<PairSites>>,
    /// Of MPI: the places in the code that call it, in a fixed order; empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call_places: Vec<CallPlace>,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// Whether a field is as it is without a word in the file.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How the messages of MPI's collectives are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collectives {
    /// As the MPI library itself counted what it sent for them.
    Monitored,
    /// By the algorithm that such a collective usually takes (docs/mpi.md).
    Decomposed,
}

/// The ranks of one MPI world: those of one launch or of one spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// The task that is its rank 0.
    pub first_task: u32,
    /// Its ranks, one task each.
    pub tasks: u32,
}

/// The program says that it is in a phase from now on (`cohabit_phase`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The number that it gives the phase.
    pub number: u64,
    /// Since the beginning of the run, as windows of the series are.
    pub at_ns: u64,
}

/// One entry of the time series: what `source` gave `destination` in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesRow {
    /// The window: bin k covers [k, k+1) windows ([`Meta::window`]), of time since the program's start.
    pub bin: u64,
    /// Writer or sender.
    pub source: u32,
    /// Reader or receiver.
    pub destination: u32,
    /// Events in that window.
    pub messages: u64,
    /// Bytes in that window.
    pub bytes: u64,
}

/// Sorts the rows of a time series, and makes those of the same window and pair one. Counts saturate.
pub fn merge_series(rows: &mut Vec<SeriesRow>) {
    rows.sort_unstable();
    rows.dedup_by(|row, kept| {
        let same = (row.bin, row.source, row.destination) == (kept.bin, kept.source, kept.destination);
        if same {
            kept.messages = kept.messages.saturating_add(row.messages);
            kept.bytes = kept.bytes.saturating_add(row.bytes);
        }
        same
    });
}

/// Messages of one size class between two tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeRow {
    /// Sender.
    pub source: u32,
    /// Receiver.
    pub destination: u32,
    /// Class k holds messages of [2^k, 2^(k+1)) bytes; class 0 the empty ones too.
    pub class: u32,
    /// Messages of that class.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What two tasks exchange in one phase, in messages of one size class. Messages of different phases do not wait for
/// one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhaseRow {
    /// Which phase, counted from 0 in the order in which ranks came to them.
    pub phase: u32,
    /// Messages and bytes, all that there are in the phase, however often it came.
    pub size: SizeRow,
    /// Their place among what the sender sends in the phase at a time, 0 the first; [`NO_ORDER`] where it is not known.
    pub order: u32,
    /// Who sent them.
    pub by: SentBy,
}

/// Who sends the messages of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SentBy {
    /// The program, or not known.
    #[default]
    Program,
    /// A collective, all at once.
    Collective,
    /// A collective, step by step: in each every task sends one message and waits for one.
    Steps,
}

/// [`PhaseRow::order`] of messages of which it is not known.
pub const NO_ORDER: u32 = u32::MAX;

/// A whole profile. Every matrix is `[source][destination]` with one row and column a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// All that is not an array.
    pub meta: Meta,
    /// Communication events.
    pub messages: Matrix,
    /// Bytes of the reading accesses, or of the messages.
    pub bytes: Matrix,
    /// Writer -> holder of a copy that the write made stale, where known.
    pub invalidations: Option<Matrix>,
    /// Blocks both touched within a window, symmetric, where known.
    pub sharing: Option<Matrix>,
    /// The reads counted in `messages`, each shared out among all that held the value then, the writer and earlier
    /// readers: `[holder][reader]`; where known.
    pub transfers: Option<Matrix>,
    /// The series over time, sorted by bin, source, destination; empty where not recorded.
    pub series: Vec<SeriesRow>,
    /// Message sizes, sorted by source, destination, class; empty where not known.
    pub sizes: Vec<SizeRow>,
    /// What is sent in which phase, sorted; together as much as in `sizes`. Empty where that is not known.
    pub phases: Vec<PhaseRow>,
    /// What tasks did with messages, one after another, where that is known; of a long run its beginning.
    pub trace: Option<Trace>,
    /// When ranks called MPI from which of [`Meta::call_places`], sorted; empty where that is not known.
    pub visits: Vec<Visit>,
    /// Bytes each task accessed (MemV), where known; else empty.
    pub accessed_bytes: Vec<u64>,
    /// Those of them that each task read in loops that wait for another, where known; else empty.
    pub polled_bytes: Vec<u64>,
    /// Those of them that each task accessed before its process had a second thread, where known; else empty.
    pub alone_bytes: Vec<u64>,
    /// Loads of each task, where known; else empty.
    pub loads: Vec<u64>,
    /// Stores of each task, where known; else empty.
    pub stores: Vec<u64>,
    /// Time each rank spent in MPI, in ns, where known; else empty.
    pub mpi_ns: Vec<u64>,
    /// Time each rank ran, from the end of MPI_Init on, in ns, where known; else empty.
    pub run_ns: Vec<u64>,
    /// Arrays of a later version, kept as they were.
    pub unknown: Vec<UnknownArray>,
}

/// An array of the file that this version has no name for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownArray {
    /// Its name, without `.npy`.
    pub name: String,
    /// The whole `.npy` member: header and data.
    pub npy: Vec<u8>,
}

impl Meta {
    /// The description of a run by `detector`, with nothing else known.
    pub fn new(kind: Kind, detector: impl Into<String>, tasks: Vec<Task>) -> Self {
        Self {
            format: FORMAT,
            kind,
            detector: detector.into(),
            block_bytes: 0,
            window_ns: 0,
            window_instructions: 0,
            clock: String::new(),
            command: Vec::new(),
            arguments: Vec::new(),
            programs: Vec::new(),
            hosts: Vec::new(),
            tasks,
            hot: Vec::new(),
            data: None,
            markers: Vec::new(),
            coverage: Coverage::default(),
            created: String::new(),
            requested_window_ns: None,
            requested_window_instructions: None,
            unseen_channels: Vec::new(),
            imported_from: Vec::new(),
            collectives: None,
            mpi_library: None,
            mpi_thread_level: None,
            worlds: Vec::new(),
            sites: None,
            call_places: Vec::new(),
            unknown: Default::default(),
        }
    }
}

impl Profile {
    /// A profile of two matrices, with nothing else known.
    pub fn new(meta: Meta, messages: Matrix, bytes: Matrix) -> Self {
        Self {
            meta,
            messages,
            bytes,
            invalidations: None,
            transfers: None,
            sharing: None,
            series: Vec::new(),
            sizes: Vec::new(),
            phases: Vec::new(),
            trace: None,
            visits: Vec::new(),
            accessed_bytes: Vec::new(),
            polled_bytes: Vec::new(),
            alone_bytes: Vec::new(),
            loads: Vec::new(),
            stores: Vec::new(),
            mpi_ns: Vec::new(),
            run_ns: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Messages and bytes of each phase, in their order; none where no two are told apart.
    pub fn phase_totals(&self) -> Vec<(u64, u64)> {
        let sum = |rows: &[PhaseRow], value: fn(&SizeRow) -> u64| {
            rows.iter().map(|row| value(&row.size)).fold(0, u64::saturating_add)
        };
        let phases = self.phases.chunk_by(|a, b| a.phase == b.phase);
        let totals = phases.map(|rows| (sum(rows, |size| size.messages), sum(rows, |size| size.bytes)));
        Some(totals.collect::<Vec<_>>()).filter(|totals| totals.len() > 1).unwrap_or_default()
    }

    /// How much each task has to do beside the others, as far as that is known: bytes that it accesses, without what it
    /// reads in loops that wait, and what it did before its process had a second thread. Else empty.
    pub fn work(&self) -> Vec<u64> {
        let of = |known: &[u64], task: usize| known.get(task).copied().unwrap_or(0);
        let work = |(task, &all): (usize, &u64)| {
            all.saturating_sub(of(&self.polled_bytes, task)).saturating_sub(of(&self.alone_bytes, task))
        };
        self.accessed_bytes.iter().enumerate().map(work).collect()
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.messages.tasks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_is_done_beside_others() {
        let nothing = || Matrix::zero(2);
        let profile = Profile::new(Meta::new(Kind::Threads, "test", Vec::new()), nothing(), nothing());
        assert!(profile.work().is_empty());
        let profile = Profile { accessed_bytes: vec![100, 50], ..profile };
        assert_eq!(profile.work(), [100, 50]);
        let profile = Profile { polled_bytes: vec![5, 60], alone_bytes: vec![70, 0], ..profile };
        assert_eq!(profile.work(), [25, 0]);
    }
}
