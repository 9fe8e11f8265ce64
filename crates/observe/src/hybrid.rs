//! MPI programs with threads: ranks and their threads in one profile, in one unit.
//!
//! The exact profiler follows the threads of all ranks, and the library for MPI ranks, preloaded into them, counts
//! their messages. Within a call of MPI what a thread does in memory that processes share is MPI's transport: the
//! profiler leaves that out (`native/mpi/abi.h`: the marks), so that a message counts once, however it travels: through
//! shared memory, by cross-memory attach or over a network. A message counts as the values of so many blocks as it has
//! bytes for, and goes from the first thread of its sender to the first of its receiver.

use crate::mpi::Called;
use crate::{dbi, mpi};
use cohabit_model::command::CommandError;
use cohabit_model::profile::{CodeSite, Data, DataObject, HotBlock, Kind, SeriesRow, SizeRow, TaskKind};
use cohabit_model::series::{DEFAULT_BOUND, bound_profile_series};
use cohabit_model::{Matrix, Profile, Task};
use std::collections::HashMap;
use std::ffi::OsString;

const DETECTOR: &str = "dbi,mpi";
/// MPI_THREAD_SERIALIZED; it and MPI_THREAD_MULTIPLE allow calls by other threads than the first.
const SERIALIZED: u32 = 2;
/// What ranks' libraries are asked for, where the user asks for nothing else. PMIx, by which Open MPI 5 starts ranks,
/// wants its data at one address in all processes, where the profiler's memory may be; its other store has no such
/// wish. UCX starts a thread for its virtual file system as it is loaded, before any call of MPI: it would count as the
/// program's.
const ASKED_FOR: [(&str, &str); 2] = [("PMIX_MCA_gds", "hash"), ("UCX_VFS_ENABLE", "n")];
const WHICH_THREAD: &str = "which thread of a rank sent and received its messages: its first is named for all";
const WHICH_RECEIVER: &str = "which thread of a rank received its messages (but by one-sided calls), and in the time series also which \
                              one sent them: its first is named";

/// Runs a launcher, or one rank's program, and says which threads communicated: in memory, and by the messages of their
/// ranks.
///
/// # Errors
/// Those of [`dbi::profile`] and of [`mpi::profile`].
pub fn profile(
    command: &[OsString],
    memory: &dbi::Options,
    ranks: &mpi::Options,
) -> Result<dbi::Outcome, CommandError> {
    let prepared = mpi::prepare(command, ranks)?;
    let mut options =
        dbi::Options { environment: prepared.environment.clone(), typed: Some(command.to_vec()), ..memory.clone() };
    options.environment.push(("COHABIT_MPI_CALLERS".into(), "1".into()));
    options.environment.extend(asked_for());
    let threads = dbi::profile(&prepared.words, &options)?;
    let (messages, called) = mpi::collect(&prepared, command, threads.status)?;
    let mut notes = threads.notes;
    notes.extend(messages.notes);
    Ok(dbi::Outcome {
        profile: join(threads.profile, messages.profile, &called),
        status: threads.status,
        notes,
        recorded_accesses: 0,
    })
}

fn asked_for() -> impl Iterator<Item = (OsString, OsString)> {
    let asked_for = ASKED_FOR.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    asked_for.map(|(name, value)| (name.into(), value.into()))
}

/// Runs a launcher and records what its ranks do in memory, MPI's own transport among it (`options.recording`). The
/// profile is that of all processes.
///
/// # Errors
/// Those of [`dbi::profile`]; there is no library for the launcher's MPI.
pub fn record(command: &[OsString], options: &dbi::Options) -> Result<dbi::Outcome, CommandError> {
    let marked = mpi::mark(command)?;
    let (environment, typed) = (marked.environment.clone(), Some(command.to_vec()));
    let mut options = dbi::Options { environment, ranks: true, typed, ..options.clone() };
    options.environment.extend(asked_for());
    dbi::profile(&marked.words, &options)
}

/// The threads of `threads` that are of the ranks of `ranks`, with the communication of both. Messages go between the
/// first threads of their ranks but where `called` knows another.
pub fn join(threads: Profile, ranks: Profile, called: &[Called]) -> Profile {
    let numbering = Numbering::of(&threads, &ranks);
    let count = numbering.tasks.len();
    let block_bytes = threads.meta.block_bytes.max(1);
    let blocks = |messages: u64, bytes: u64| blocks(messages, bytes, block_bytes);
    let in_memory = |matrix: &Matrix| -> Vec<(u32, u32, u64)> {
        let renumber = |(source, destination, value)| {
            Some((*numbering.of_thread.get(&source)?, *numbering.of_thread.get(&destination)?, value))
        };
        matrix.iter().filter_map(renumber).collect()
    };
    let mut sizes = credited(&ranks, called, &numbering);
    let sent: Vec<_> = sizes.iter().map(|row| (row.source, row.destination, blocks(row.messages, row.bytes))).collect();
    let messages = [in_memory(&threads.messages), sent.clone()].concat();
    let mut bytes = in_memory(&threads.bytes);
    bytes.extend(sizes.iter().map(|row| (row.source, row.destination, row.bytes)));
    let matrix = |triplets: Vec<(u32, u32, u64)>| {
        Matrix::from_triplets(count, triplets.into_iter().filter(|(source, destination, _)| source != destination))
    };
    let mut profile = Profile::new(threads.meta.clone(), matrix(messages), matrix(bytes));
    profile.invalidations = threads.invalidations.as_ref().map(|found| matrix(in_memory(found)));
    // What is sent has one reader.
    let transfers = threads.transfers.as_ref().map(in_memory);
    profile.transfers = transfers.map(|found| matrix([found, sent].concat()));
    profile.sharing = threads.sharing.as_ref().map(|found| matrix(in_memory(found)));
    profile.series = series(&threads, &ranks, &numbering, blocks);
    sizes.sort_unstable();
    profile.sizes = sizes;
    let totals = |values: &[u64]| -> Vec<u64> {
        let mut chosen = vec![0; if values.is_empty() { 0 } else { count }];
        for (&old, &new) in numbering.of_thread.iter().filter(|_| !values.is_empty()) {
            chosen[new as usize] = values[old as usize];
        }
        chosen
    };
    profile.accessed_bytes = totals(&threads.accessed_bytes);
    profile.polled_bytes = totals(&threads.polled_bytes);
    profile.alone_bytes = totals(&threads.alone_bytes);
    profile.loads = totals(&threads.loads);
    profile.stores = totals(&threads.stores);
    describe(&mut profile, &threads, ranks, numbering, !called.is_empty());
    let window_ns = profile.meta.window_ns;
    bound_profile_series(&mut profile, window_ns, DEFAULT_BOUND);
    profile
}

/// The sizes of the messages of ranks, between threads.
fn credited(ranks: &Profile, called: &[Called], numbering: &Numbering) -> Vec<SizeRow> {
    let mut by_pair: HashMap<(u32, u32, u32), Vec<&Called>> = HashMap::new();
    for one in called {
        by_pair.entry((one.source, one.destination, one.class)).or_default().push(one);
    }
    let first = |rank: u32| numbering.of_rank[rank as usize];
    let mut found = Vec::new();
    for row in &ranks.sizes {
        let mut left = SizeRow { source: first(row.source), destination: first(row.destination), ..*row };
        for one in by_pair.get(&(row.source, row.destination, row.class)).into_iter().flatten() {
            let rank = if one.sends { row.source } else { row.destination };
            let Some(&thread) = numbering.of_tid.get(&(rank, one.tid)) else { continue };
            // What a collective was decomposed into may be more than what was monitored.
            let (messages, bytes) = (one.messages.min(left.messages), one.bytes.min(left.bytes));
            let (source, destination) = if one.sends { (thread, left.destination) } else { (left.source, thread) };
            found.push(SizeRow { source, destination, messages, bytes, ..left });
            (left.messages, left.bytes) = (left.messages - messages, left.bytes - bytes);
        }
        found.push(left);
    }
    found.retain(|row| row.messages > 0 || row.bytes > 0);
    // Several calls of one thread, and the rest of another, may meet in one row.
    found.sort_unstable();
    found.dedup_by(|next, row| {
        let same = (row.source, row.destination, row.class) == (next.source, next.destination, next.class);
        if same {
            (row.messages, row.bytes) = (row.messages + next.messages, row.bytes + next.bytes);
        }
        same
    });
    found
}

/// Values that so many messages of so many bytes in all are; of an empty one, one.
fn blocks(messages: u64, bytes: u64, block_bytes: u64) -> u64 {
    messages.saturating_mul(bytes.div_ceil(messages.max(1)).div_ceil(block_bytes).max(1))
}

/// The tasks of the joined profile, and who they were in the others.
struct Numbering {
    tasks: Vec<Task>,
    of_thread: HashMap<u32, u32>,
    of_rank: Vec<u32>,
    of_process: HashMap<u32, u32>,
    /// By the task of the rank and the thread's id.
    of_tid: HashMap<(u32, u32), u32>,
}

impl Numbering {
    /// Rank by rank, its threads in the order in which they were made. Threads that MPI made for itself are left out,
    /// and so is what is no rank: the launcher. A rank that the profiler did not follow (on another host) is one task.
    fn of(threads: &Profile, ranks: &Profile) -> Self {
        let (of_thread, of_process, of_tid) = Default::default();
        let mut found = Self { tasks: Vec::new(), of_thread, of_rank: Vec::new(), of_process, of_tid };
        for rank in &ranks.meta.tasks {
            let first = found.tasks.len() as u32;
            found.of_rank.push(first);
            let own = |task: &&Task| task.pid == rank.pid && task.host == rank.host && rank.pid != 0;
            for thread in threads.meta.tasks.iter().filter(own).filter(|task| !task.of_mpi) {
                found.of_thread.insert(thread.id, found.tasks.len() as u32);
                found.of_process.insert(thread.process, rank.process);
                found.of_tid.insert((rank.id, thread.tid), found.tasks.len() as u32);
                found.tasks.push(Task {
                    id: found.tasks.len() as u32,
                    process: rank.process,
                    rank: rank.rank,
                    world: rank.world,
                    cpus: rank.cpus.clone(),
                    unknown: rank.unknown.clone(),
                    ..thread.clone()
                });
            }
            if found.tasks.len() as u32 == first {
                found.tasks.push(Task { id: first, ..rank.clone() });
            }
        }
        for task in &mut found.tasks {
            task.parent = task.parent.and_then(|parent| found.of_thread.get(&parent).copied());
        }
        found
    }
}

/// Both series in the threads' windows. The ranks' begins where the run was started, as the threads' does to some
/// milliseconds.
fn series(
    threads: &Profile,
    ranks: &Profile,
    numbering: &Numbering,
    blocks: impl Fn(u64, u64) -> u64,
) -> Vec<SeriesRow> {
    let of_thread = |row: &SeriesRow| {
        let (source, destination) = (numbering.of_thread.get(&row.source)?, numbering.of_thread.get(&row.destination)?);
        Some(SeriesRow { source: *source, destination: *destination, ..*row })
    };
    let mut found: Vec<SeriesRow> = threads.series.iter().filter_map(of_thread).collect();
    let window_ns = u128::from(threads.meta.window_ns.max(1));
    let of_rank = |row: &SeriesRow| SeriesRow {
        bin: u64::try_from(u128::from(row.bin) * u128::from(ranks.meta.window_ns) / window_ns).unwrap_or(u64::MAX),
        source: numbering.of_rank[row.source as usize],
        destination: numbering.of_rank[row.destination as usize],
        messages: blocks(row.messages, row.bytes),
        bytes: row.bytes,
    };
    if threads.meta.window_ns > 0 {
        found.extend(ranks.series.iter().map(of_rank).filter(|row| row.source != row.destination));
    }
    found
}

fn describe(profile: &mut Profile, threads: &Profile, ranks: Profile, numbering: Numbering, callers_known: bool) {
    let meta = &mut profile.meta;
    meta.kind = Kind::Hybrid;
    meta.detector = DETECTOR.to_owned();
    meta.command = ranks.meta.command;
    meta.hosts = ranks.meta.hosts;
    // What MPI sends, it sends through these.
    meta.unseen_channels.clear();
    meta.coverage.events_lost = meta.coverage.events_lost.saturating_add(ranks.meta.coverage.events_lost);
    meta.coverage.exact &= ranks.meta.coverage.exact;
    meta.coverage.not_seen.extend(ranks.meta.coverage.not_seen);
    if ranks.meta.mpi_thread_level.is_none_or(|level| level >= SERIALIZED) {
        let what = if callers_known { WHICH_RECEIVER } else { WHICH_THREAD };
        meta.coverage.not_seen.push(what.to_owned());
    }
    meta.coverage.not_seen.push("memory that threads of MPI's own touched: they are left out".to_owned());
    if numbering.tasks.iter().any(|task| task.kind == TaskKind::Rank) {
        meta.coverage.not_seen.push("threads of ranks on other hosts: such a rank is one task".to_owned());
    }
    meta.collectives = ranks.meta.collectives;
    meta.mpi_library = ranks.meta.mpi_library;
    meta.mpi_thread_level = ranks.meta.mpi_thread_level;
    meta.worlds = ranks.meta.worlds;
    meta.sites = ranks.meta.sites;
    for (name, value) in ranks.meta.unknown {
        meta.unknown.entry(name).or_insert(value);
    }
    let renumber = |sites: &[CodeSite]| -> Vec<CodeSite> {
        let tasks =
            |site: &CodeSite| site.tasks.iter().filter_map(|task| numbering.of_thread.get(task).copied()).collect();
        sites.iter().map(|site| CodeSite { tasks: tasks(site), ..site.clone() }).collect()
    };
    let hot = threads.meta.hot.iter().filter_map(|hot| {
        let process = *numbering.of_process.get(&hot.process)?;
        Some(HotBlock { process, writers: renumber(&hot.writers), readers: renumber(&hot.readers), ..hot.clone() })
    });
    meta.hot = hot.collect();
    meta.data = threads.meta.data.as_ref().map(|data| {
        let objects = data.objects.iter().filter_map(|object| {
            let process = *numbering.of_process.get(&object.process)?;
            let (writers, readers) = (renumber(&object.writers), renumber(&object.readers));
            Some(DataObject { process, writers, readers, ..object.clone() })
        });
        let objects: Vec<DataObject> = objects.collect();
        let messages = objects.iter().map(|object| object.messages).fold(0, u64::saturating_add);
        let looked_at = objects.iter().map(|object| object.looked_at).fold(0, u64::saturating_add);
        Data { messages, looked_at, interval: data.interval, objects }
    });
    meta.tasks = numbering.tasks;
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::profile::Meta;

    fn task(id: u32, pid: u32, spawn_index: u32) -> Task {
        Task {
            host: "h".to_owned(),
            process: pid,
            pid,
            tid: pid + spawn_index,
            parent: (spawn_index > 0).then_some(id - spawn_index),
            spawn_index,
            ..Task::new(id, TaskKind::Thread, format!("t{id}"))
        }
    }

    fn threads() -> Profile {
        // The launcher, two ranks with two threads and a helper of MPI's, in which rank 1 was started first.
        let mut tasks =
            vec![task(0, 10, 0), task(1, 12, 0), task(2, 12, 1), task(3, 12, 2), task(4, 11, 0), task(5, 11, 1)];
        tasks[2].of_mpi = true;
        let rows = [(0, 1, 100), (1, 3, 7), (2, 1, 50), (5, 4, 8), (4, 3, 2)];
        let mut meta = Meta::new(Kind::Threads, "dbi", tasks);
        (meta.block_bytes, meta.window_ns) = (64, 1000);
        let mut profile = Profile::new(meta, Matrix::from_triplets(6, rows), Matrix::from_triplets(6, rows));
        profile.loads = vec![1, 2, 3, 4, 5, 6];
        profile.series = vec![SeriesRow { bin: 3, source: 1, destination: 3, messages: 7, bytes: 7 }];
        profile
    }

    fn ranks() -> Profile {
        let rank = |id: u32, pid| Task { kind: TaskKind::Rank, rank: Some(id), process: id, ..task(id, pid, 0) };
        let tasks = vec![rank(0, 11), rank(1, 12), Task { host: "other".to_owned(), ..rank(2, 12) }];
        let rows = [(0, 1, 1000), (1, 0, 3), (0, 2, 64)];
        let messages = [(0, 1, 10), (1, 0, 3), (0, 2, 1)];
        let mut meta = Meta::new(Kind::Ranks, "mpi", tasks);
        (meta.window_ns, meta.command) = (2000, vec!["mpirun".to_owned()]);
        let mut profile = Profile::new(meta, Matrix::from_triplets(3, messages), Matrix::from_triplets(3, rows));
        let size = |((source, destination, bytes), (_, _, messages))| SizeRow {
            source,
            destination,
            class: 3,
            messages,
            bytes,
        };
        profile.sizes = rows.into_iter().zip(messages).map(size).collect();
        profile.series = vec![SeriesRow { bin: 2, source: 0, destination: 1, messages: 10, bytes: 1000 }];
        profile
    }

    #[test]
    fn threads_have_ranks_and_messages_have_blocks() {
        let joined = join(threads(), ranks(), &[]);
        let who: Vec<_> =
            joined.meta.tasks.iter().map(|task| (task.id, task.rank, task.spawn_index, task.parent)).collect();
        assert_eq!(
            who,
            [
                (0, Some(0), 0, None),
                (1, Some(0), 1, Some(0)),
                (2, Some(1), 0, None),
                (3, Some(1), 2, Some(2)),
                (4, Some(2), 0, None)
            ]
        );
        // In memory as it was; 1,000 bytes in 10 messages are 20 blocks of 64, 3 in 3 are 3.
        let messages: Vec<_> = joined.messages.iter().collect();
        assert_eq!(messages, [(0, 2, 20), (0, 3, 2), (0, 4, 1), (1, 0, 8), (2, 0, 3), (2, 3, 7)]);
        let bytes: Vec<_> = joined.bytes.iter().collect();
        assert_eq!(bytes, [(0, 2, 1000), (0, 3, 2), (0, 4, 64), (1, 0, 8), (2, 0, 3), (2, 3, 7)]);
        assert_eq!(joined.loads, [5, 6, 2, 4, 0]);
        let series: Vec<_> =
            joined.series.iter().map(|row| (row.bin, row.source, row.destination, row.messages)).collect();
        assert_eq!(series, [(3, 2, 3, 7), (4, 0, 2, 20)]);
        assert_eq!((joined.meta.detector.as_str(), joined.meta.command.join(" ")), ("dbi,mpi", "mpirun".to_owned()));
    }
    #[test]
    fn messages_go_to_the_threads_that_are_known() {
        // Of the 10 messages of rank 0 to rank 1 its second thread (tid 12) sent 6, and a thread that nobody knows one;
        // rank 1's (tid 14) fetched the 3 from itself to rank 0 for the other: a class beyond its row takes no more
        // than there is.
        let called = |source, destination, tid, sends, messages, bytes| Called {
            source,
            destination,
            class: 3,
            tid,
            sends,
            messages,
            bytes,
        };
        let known = [
            called(0, 1, 12, true, 6, 600),
            called(0, 1, 99, true, 1, 100),
            called(1, 0, 12, false, 5, 500),
            called(0, 2, 12, true, 0, 0),
        ];
        let joined = join(threads(), ranks(), &known);
        let sizes: Vec<_> =
            joined.sizes.iter().map(|row| (row.source, row.destination, row.messages, row.bytes)).collect();
        assert_eq!(sizes, [(0, 2, 4, 400), (0, 4, 1, 64), (1, 2, 6, 600), (2, 1, 3, 3)]);
        assert_eq!((joined.bytes.get(1, 2), joined.bytes.get(0, 2), joined.messages.get(1, 2)), (600, 400, 12));
        assert!(joined.meta.coverage.not_seen.iter().any(|line| line == WHICH_RECEIVER));
    }
}
