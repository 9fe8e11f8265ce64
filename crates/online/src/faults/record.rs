//! What an online run has seen, as a profile: the matrix of the whole run and its series, both symmetric, because
//! neither page faults nor watchpoints tell who wrote.
//!
//! The matrix is weighed (`weigh`) as all of it came to be weighed in the end, the rows of the series as they come.

use super::{Counters, TaskEvent, ranks};
use crate::evidence::{Evidence, Kind as Shown};
use crate::weigh::Weights;
use cohabit_model::profile::{Coverage, Kind, Meta, SeriesRow, TaskKind};
use cohabit_model::series::{bound_profile_series, bound_series};
use cohabit_model::{Matrix, Profile, Task};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Most tasks that are kept: an hour of threads that come and go must not fill the memory.
const MOST_TASKS: usize = 1 << 16;
/// Most pairs that are kept.
const MOST_PAIRS: usize = 4 << 20;
/// Most rows of the series that are kept, 16 MiB, and how many are gathered before they are merged: an observer that
/// runs for hours beside the program must stay small.
const MOST_ROWS: usize = 1 << 19;
const ROWS_BETWEEN_MERGES: usize = 1 << 20;

/// Gathers readings.
#[derive(Debug)]
pub struct Recorder {
    tasks: Vec<Task>,
    /// How long each has run, as far as that is known.
    ran: Vec<Duration>,
    /// From a source's number to the index in `tasks`.
    index: HashMap<u32, u32>,
    /// Process ids in the order in which they were first seen, and how many tasks each has had.
    processes: HashMap<i32, (u32, u32)>,
    seen: BTreeMap<((u32, u32), Shown), u64>,
    series: Vec<SeriesRow>,
    /// Whether the series is kept at all.
    keeps_series: bool,
    /// So many rows are to be merged.
    merge_at: usize,
    window: Duration,
    requested_window: Duration,
    lost: u64,
    /// Tasks that found no room.
    pub tasks_forgotten: u64,
    counters: Counters,
}

impl Recorder {
    /// Nothing seen yet; `window` is the width of a bin of the series.
    pub fn new(window: Duration) -> Self {
        let window = window.max(Duration::from_micros(1));
        Self {
            tasks: Vec::new(),
            ran: Vec::new(),
            index: HashMap::new(),
            processes: HashMap::new(),
            seen: BTreeMap::new(),
            series: Vec::new(),
            keeps_series: true,
            merge_at: ROWS_BETWEEN_MERGES,
            window,
            requested_window: window,
            lost: 0,
            tasks_forgotten: 0,
            counters: Counters::default(),
        }
    }

    /// The same where nobody wants the series.
    #[must_use]
    pub fn without_series(self) -> Self {
        Self { keeps_series: false, ..self }
    }

    /// Adds who has come.
    pub fn add_tasks(&mut self, tasks: &[TaskEvent]) {
        tasks.iter().for_each(|event| self.task(event));
    }

    /// Adds what was seen up to `now` (since following began), for the matrix, and the same weighed, for the series.
    pub fn add(&mut self, seen: &[Evidence], weighed: &[(u32, u32, u64)], counters: Counters, now: Duration) {
        let bin = (now.as_nanos() / self.window.as_nanos()) as u64;
        for seen in seen {
            let known = |task| self.index.get(&task).copied();
            let pair = known(seen.pair.0).zip(known(seen.pair.1));
            let key = pair.map(|pair| (pair, seen.kind));
            let is_full = |key| self.seen.len() >= MOST_PAIRS && !self.seen.contains_key(&key);
            match key.filter(|&key| !is_full(key)) {
                Some(key) => *self.seen.entry(key).or_default() += seen.count,
                None => self.lost += seen.events(),
            }
        }
        for &(a, b, events) in weighed.iter().filter(|_| self.keeps_series) {
            let (Some(&a), Some(&b)) = (self.index.get(&a), self.index.get(&b)) else { continue };
            let first = ((a.min(b), a.max(b)), Shown::Used);
            if self.seen.range(first..).next().is_none_or(|(key, _)| key.0 != first.0) {
                continue;
            }
            for (source, destination) in [(a, b), (b, a)] {
                self.series.push(SeriesRow { bin, source, destination, messages: events, bytes: 0 });
            }
        }
        if self.series.len() >= self.merge_at {
            self.merge_series();
        }
        self.counters = counters;
    }

    /// Forgets what faults have shown of pairs of processes (by their ids) of which more is known.
    pub fn forget_faults(&mut self, is_known: impl Fn(i32, i32) -> bool) {
        let process = |task: u32| self.tasks[task as usize].pid as i32;
        self.seen.retain(|((a, b), kind), _| !kind.is_of_faults() || !is_known(process(*a), process(*b)));
    }

    /// Names a task as it is called now.
    pub fn name(&mut self, task: u32, name: &str) {
        if let Some(&index) = self.index.get(&task) {
            let known = &mut self.tasks[index as usize].name;
            if *known != name {
                name.clone_into(known);
            }
        }
    }

    /// Says which MPI rank a task is part of, if any.
    pub fn rank(&mut self, task: u32, rank: Option<u32>) {
        if let Some(&index) = self.index.get(&task) {
            self.tasks[index as usize].rank = rank;
        }
    }

    /// Says how long a task has run.
    pub fn ran(&mut self, task: u32, time: Duration) {
        if let Some(&index) = self.index.get(&task) {
            self.ran.resize(self.ran.len().max(index as usize + 1), Duration::ZERO);
            self.ran[index as usize] = time;
        }
    }

    /// The tasks so far.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task in [`Recorder::tasks`] that a source calls by this number.
    pub fn task_of(&self, number: u32) -> Option<&Task> {
        self.tasks.get(*self.index.get(&number)? as usize)
    }

    /// What was seen of each kind, in its own unit.
    pub fn of_kinds(&self) -> BTreeMap<Shown, u64> {
        let mut of_kinds = BTreeMap::new();
        self.seen.iter().for_each(|((_, kind), count)| *of_kinds.entry(*kind).or_default() += count);
        of_kinds
    }

    /// The profile of all that was seen, weighed so.
    pub fn profile(mut self, block_bytes: u32, detector: &str, weights: &Weights) -> Profile {
        self.merge_series();
        let seen = std::mem::take(&mut self.seen).into_iter();
        let mut pairs = weights.join(seen.map(|((pair, kind), count)| Evidence::of(kind, pair, count, Duration::ZERO)));
        let others = ranks::keep_ranks(&mut self.tasks, &mut pairs, &mut self.series, &self.ran);
        let both = pairs.iter().flat_map(|(&(a, b), &events)| [(a, b, events), (b, a, events)]);
        let matrix = Matrix::from_triplets(self.tasks.len(), both);
        let processes = self.tasks.iter().all(|task| task.spawn_index == 0) && self.tasks.len() > 1;
        let ranks = self.tasks.iter().any(|task| task.rank.is_some());
        let kind = match (ranks, processes) {
            (true, true) => Kind::Ranks,
            (true, false) => Kind::Hybrid,
            (false, true) => Kind::Processes,
            (false, false) => Kind::Threads,
        };
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        self.tasks.iter_mut().for_each(|task| task.host.clone_from(&host));
        let tasks = self.tasks.len();
        let mut meta = Meta::new(kind, detector, self.tasks);
        meta.block_bytes = u64::from(block_bytes);
        // As asked for; widened below where rows were merged.
        meta.window_ns = self.requested_window.as_nanos() as u64;
        meta.clock = "monotonic, not stretched".to_owned();
        meta.hosts = vec![host];
        meta.coverage = Coverage {
            exact: false,
            // Which share of the accesses a page fault stands for is not known: "not exact" is all that can be said.
            sample_rate: 1.0,
            events_lost: self.counters.events_lost + self.lost,
            not_seen: not_seen(&self.counters, self.tasks_forgotten, others),
            ..Coverage::default()
        };
        let mut profile = Profile::new(meta, matrix.clone(), Matrix::zero(tasks));
        profile.sharing = Some(matrix);
        profile.series = self.series;
        let window_ns = self.window.as_nanos() as u64;
        bound_profile_series(&mut profile, window_ns, MOST_ROWS);
        profile
    }

    fn merge_series(&mut self) {
        let rows = std::mem::take(&mut self.series);
        let before = self.window.as_nanos() as u64;
        let (rows, window_ns) = bound_series(rows, before, MOST_ROWS);
        // More may be left where there are as many pairs.
        self.merge_at = (2 * rows.len()).max(ROWS_BETWEEN_MERGES);
        self.series = rows;
        self.window = Duration::from_nanos(window_ns);
    }

    fn task(&mut self, event: &TaskEvent) {
        let TaskEvent::Started { task, tid, process, parent } = *event else { return };
        if self.tasks.len() >= MOST_TASKS {
            self.tasks_forgotten += 1;
            return;
        }
        let next = self.processes.len() as u32;
        let (number, threads) = self.processes.entry(process).or_insert((next, 0));
        let id = self.tasks.len() as u32;
        self.index.insert(task, id);
        let kind = if tid == process { TaskKind::Process } else { TaskKind::Thread };
        self.tasks.push(Task {
            process: *number,
            pid: process as u32,
            tid: tid as u32,
            parent: parent.and_then(|parent| self.index.get(&parent).copied()),
            spawn_index: *threads,
            ..Task::new(id, kind, format!("task {id}"))
        });
        *threads += 1;
    }
}

fn not_seen(counters: &Counters, tasks_forgotten: u64, others: u64) -> Vec<String> {
    let mut not_seen = vec![
        "accesses between two faults on a page: what was counted is a sample".to_owned(),
        "who wrote and who read: the matrix is symmetric, and no bytes are known".to_owned(),
    ];
    for (count, what) in [
        (counters.evictions, "blocks were pushed out of the table"),
        (counters.tasks_lost, "tasks could not be followed"),
        (tasks_forgotten, "tasks came after as many as are kept"),
        (others, "tasks are of no rank, or threads of ranks that do nothing, and were left out"),
    ] {
        if count > 0 {
            not_seen.push(format!("{count} {what}"));
        }
    }
    not_seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(task: u32, tid: i32, process: i32, parent: Option<u32>) -> TaskEvent {
        TaskEvent::Started { task, tid, process, parent }
    }

    #[test]
    fn a_long_series_gets_wider_windows() {
        let window = Duration::from_millis(1);
        let rows = (MOST_ROWS + ROWS_BETWEEN_MERGES) as u64 / 2;
        let gather = |mut recorder: Recorder| {
            let tasks = vec![started(0, 10, 10, None), started(1, 11, 10, Some(0))];
            recorder.add_tasks(&tasks);
            let seen = [Evidence::of(Shown::Used, (0, 1), 1, Duration::ZERO)];
            for bin in 0..rows {
                recorder.add(&seen, &[(0, 1, 1)], Counters::default(), window * bin as u32);
                assert!(recorder.series.len() <= ROWS_BETWEEN_MERGES);
            }
            recorder.profile(256, "page faults", &Weights::default())
        };
        let profile = gather(Recorder::new(window));
        assert!(profile.series.len() <= MOST_ROWS);
        assert_eq!(profile.meta.window_ns, 4_000_000);
        assert_eq!(profile.meta.requested_window_ns, Some(1_000_000));
        assert_eq!(profile.series.iter().map(|row| row.messages).sum::<u64>(), 2 * rows);
        let profile = gather(Recorder::new(window).without_series());
        assert_eq!((profile.series.len(), profile.messages.get(0, 1)), (0, rows));
    }

    #[test]
    fn readings_become_a_profile() {
        let mut recorder = Recorder::new(Duration::from_millis(100));
        let tasks = vec![started(0, 10, 10, None), started(1, 11, 10, Some(0)), started(2, 20, 20, Some(1))];
        let used = |a, b, used| Evidence::of(Shown::Used, (a, b), used, Duration::ZERO);
        recorder.add_tasks(&tasks);
        recorder.add(&[used(0, 1, 5)], &[(0, 1, 5)], Counters::default(), Duration::from_millis(50));
        let counters = Counters { events_lost: 3, evictions: 7, ..Counters::default() };
        // Task 9 was never seen to start.
        let seen = [used(0, 1, 2), used(1, 2, 1), used(0, 9, 4)];
        recorder.add(&seen, &[(0, 1, 2), (1, 2, 1), (0, 9, 4)], counters, Duration::from_millis(250));
        recorder.name(1, "worker");
        assert_eq!(recorder.of_kinds(), BTreeMap::from([(Shown::Used, 8)]));
        let profile = recorder.profile(256, "page faults", &Weights::default());
        assert_eq!(profile.messages.iter().collect::<Vec<_>>(), [(0, 1, 7), (1, 0, 7), (1, 2, 1), (2, 1, 1)]);
        assert_eq!((profile.meta.kind, profile.meta.coverage.events_lost), (Kind::Threads, 7));
        let places: Vec<_> =
            profile.meta.tasks.iter().map(|task| (task.process, task.spawn_index, task.parent)).collect();
        assert_eq!(places, [(0, 0, None), (0, 1, Some(0)), (1, 0, Some(1))]);
        assert_eq!(profile.meta.tasks[1].name, "worker");
        let bins: Vec<_> =
            profile.series.iter().map(|row| (row.bin, row.source, row.destination, row.messages)).collect();
        assert_eq!(bins, [(0, 0, 1, 5), (0, 1, 0, 5), (2, 0, 1, 2), (2, 1, 0, 2), (2, 1, 2, 1), (2, 2, 1, 1)]);
        assert!(profile.meta.coverage.not_seen.iter().any(|text| text.contains("7 blocks")));
    }
}
