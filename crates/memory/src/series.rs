//! A run over time: what was done in each window of simulated time ([`crate::Options::window`]).
//!
//! What a task does from one turn to the next is spread evenly over the time that it takes; a turn is at most as long
//! as what a task may run ahead, or one step. A server is at work when it is; what a request waits is counted where it
//! comes.

use crate::clock::Time;
use crate::report::{Served, ServedCounts};
use crate::task::Task;
use serde::{Serialize, Serializer};

/// Most windows of a run.
pub const MOST_WINDOWS: u64 = 100_000;

/// What a simulation did over time: a number for each window.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// How long a window is.
    pub window_fs: u64,
    /// How many there are: the last one has the end of the run in it.
    pub windows: usize,
    /// Instructions, `[task][window]`.
    pub instructions: Vec<Vec<u64>>,
    /// Loads of all tasks by where they were served.
    pub loads_served: ByPlace<Vec<u64>>,
    /// What loads that missed the L1 took, all together.
    pub load_latency_fs: Vec<u64>,
    /// Controllers, links, bus.
    pub servers: Vec<ServerSeries>,
}

/// One server over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServerSeries {
    /// As in [`crate::report::ServerReport`].
    pub name: String,
    /// Time at work.
    pub busy_fs: Vec<u64>,
    /// What requests that came then waited, together.
    pub wait_fs: Vec<u64>,
    /// Bytes of these requests.
    pub bytes: Vec<u64>,
}

/// Something for each place that serves loads ([`Served::ALL`]); a map of the places' names where it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByPlace<T>(pub [T; Served::ALL.len()]);

impl<T: Serialize> Serialize for ByPlace<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Served::ALL.iter().map(|served| served.key()).zip(&self.0))
    }
}

impl<T> ByPlace<T> {
    /// That of one place.
    pub fn at(&self, served: Served) -> &T {
        &self.0[served as usize]
    }
}

/// A count over time.
#[derive(Debug, Clone, Default)]
struct Counts(Vec<u64>);

impl Counts {
    fn add(&mut self, window: u64, count: u64) {
        if count == 0 {
            return;
        }
        let window = window.min(MOST_WINDOWS) as usize;
        if self.0.len() <= window {
            self.0.resize(window + 1, 0);
        }
        self.0[window] += count;
    }

    /// Spreads a count evenly over a time.
    fn spread(&mut self, window_fs: Time, from: Time, to: Time, count: u64) {
        let (first, last) = (from / window_fs, to.saturating_sub(1).max(from) / window_fs);
        if first == last || count == 0 {
            return self.add(first, count);
        }
        let mut before = 0;
        for window in first..=last {
            let passed = to.min((window + 1).saturating_mul(window_fs)) - from;
            let share = (u128::from(count) * u128::from(passed) / u128::from(to - from)) as u64;
            self.add(window, share - before);
            before = share;
            if window > MOST_WINDOWS {
                return;
            }
        }
    }

    fn padded(&self, windows: usize) -> Vec<u64> {
        let mut counts = self.0.clone();
        counts.resize(windows, 0);
        counts
    }
}

/// What a task had done when it was last looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    time: Time,
    instructions: u64,
    loads: ServedCounts,
    latency: u64,
}

/// The tasks over time.
#[derive(Debug)]
pub(crate) struct TaskSeries {
    window: Time,
    before: Vec<Done>,
    instructions: Vec<Counts>,
    loads: [Counts; Served::ALL.len()],
    latency: Counts,
}

impl TaskSeries {
    pub fn new(window: Time, tasks: usize) -> Self {
        Self {
            window,
            before: vec![Done::default(); tasks],
            instructions: vec![Counts::default(); tasks],
            loads: Default::default(),
            latency: Counts::default(),
        }
    }

    /// A task goes on.
    pub fn begin(&mut self, task: &Task) {
        self.before[task.number].time = task.clock.time;
    }

    /// A task has done something since.
    pub fn note(&mut self, task: &Task) {
        let now = Done {
            time: task.clock.time,
            instructions: task.clock.begun,
            loads: task.report.loads_served,
            latency: task.report.load_latency_fs,
        };
        let mut before = std::mem::replace(&mut self.before[task.number], now);
        let (from, to) = (before.time, now.time);
        let counts = &mut self.instructions[task.number];
        counts.spread(self.window, from, to, now.instructions - before.instructions);
        let mut loads = now.loads;
        for (served, counts) in Served::ALL.into_iter().zip(&mut self.loads) {
            counts.spread(self.window, from, to, *loads.at(served) - *before.loads.at(served));
        }
        self.latency.spread(self.window, from, to, now.latency - before.latency);
    }

    /// What was found, of a run of so long.
    pub fn finish(self, time: Time, servers: Vec<ServerSeries>) -> Series {
        let longest = |counts: &Counts| counts.0.len();
        let of_tasks = self.instructions.iter().chain(&self.loads).map(longest).max().unwrap_or(0);
        let of_servers = servers.iter().flat_map(|one| [one.busy_fs.len(), one.bytes.len()]).max().unwrap_or(0);
        let windows = (time.div_ceil(self.window) as usize).max(of_tasks).max(of_servers);
        let pad = |mut server: ServerSeries| {
            for counts in [&mut server.busy_fs, &mut server.wait_fs, &mut server.bytes] {
                counts.resize(windows, 0);
            }
            server
        };
        Series {
            window_fs: self.window,
            windows,
            instructions: self.instructions.iter().map(|counts| counts.padded(windows)).collect(),
            loads_served: ByPlace(self.loads.each_ref().map(|counts| counts.padded(windows))),
            load_latency_fs: self.latency.padded(windows),
            servers: servers.into_iter().map(pad).collect(),
        }
    }
}

/// A server's counts over time.
#[derive(Debug, Clone)]
pub(crate) struct ServerCounts {
    window: Time,
    busy: Counts,
    wait: Counts,
    bytes: Counts,
}

impl ServerCounts {
    pub fn new(window: Time) -> Self {
        Self { window, busy: Counts::default(), wait: Counts::default(), bytes: Counts::default() }
    }

    /// A request of `now`, which is served from `begin` on for `time`.
    pub fn note(&mut self, bytes: u64, now: Time, wait: Time, begin: Time, time: Time) {
        self.bytes.add(now / self.window, bytes);
        self.wait.add(now / self.window, wait);
        self.busy.spread(self.window, begin, begin + time, time);
    }

    pub fn report(&self, name: &str) -> ServerSeries {
        let [busy_fs, wait_fs, bytes] = [&self.busy, &self.wait, &self.bytes].map(|counts| counts.0.clone());
        ServerSeries { name: name.to_owned(), busy_fs, wait_fs, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::NS;
    use crate::{Machine, Options, Report, simulate};
    use cohabit_access::{AccessKind, InMemory, Step, StridedAccess, synthetic};

    #[test]
    fn counts_are_spread_evenly_and_none_is_lost() {
        let spread = |from, to, count| {
            let mut counts = Counts::default();
            counts.spread(10, from, to, count);
            counts.0
        };
        assert_eq!(spread(0, 10, 7), [7]);
        assert_eq!(spread(5, 25, 4), [1, 2, 1]);
        assert_eq!(spread(12, 12, 3), [0, 3]);
        assert_eq!(spread(9, 11, 3), [1, 2]);
        assert_eq!(spread(3, 1000, 997).iter().sum::<u64>(), 997);
        assert_eq!(spread(0, u64::MAX, 5).len(), 0, "what is too far on is nowhere");
    }

    fn run(text: &str, steps: Vec<Vec<Step>>, window: Time) -> Report {
        let machine = Machine::parse(text, None).unwrap();
        let mapping: Vec<usize> = (0..steps.len()).collect();
        let options = Options { window: Some(window), ..Options::default() };
        simulate(&InMemory::new(steps), &machine, &mapping, &options).unwrap()
    }

    const MACHINE: &str = "about = 'two'\ntopology = 'core:2 pu:1'\n[core]\nfrequency_ghz = 1\ninstructions_per_cycle = 1\n\
        window = 0\nfill_buffers = 2\n[[cache]]\nlevel = 1\nshared_by = 'core'\nsize = 128\nways = 2\nlatency_cycles = 1\n\
        [transfer_ns]\nmachine = 50\n[memory]\nlatency_ns = { machine = 100 }\nbandwidth_gb_s = 6.4\n";

    /// 250 instructions of 1 ns; then a load at 251 of 100 ns, 10 of which the controller is at work: windows of 100
    /// ns.
    #[test]
    fn windows_by_hand() {
        let read = Step::access(StridedAccess::new(AccessKind::Read, 64, 8));
        let report = run(MACHINE, vec![vec![Step::compute(250), read], vec![]], 100 * NS);
        let series = report.series.as_ref().unwrap();
        assert_eq!((report.time_fs / NS, series.windows), (351, 4));
        assert_eq!(series.instructions[0], [100, 100, 51, 0]);
        assert_eq!(series.instructions[1], [0; 4]);
        assert_eq!(series.loads_served.at(Served::LocalMemory), &[0, 0, 1, 0]);
        assert_eq!(series.load_latency_fs, [0, 0, 100 * NS, 0]);
        let memory = &series.servers[0];
        assert_eq!((memory.name.as_str(), &memory.busy_fs[..]), ("memory 0.0", &[0, 0, 10 * NS, 0][..]));
        assert_eq!((&memory.bytes[..], &memory.wait_fs[..]), (&[0, 0, 64, 0][..], &[0; 4][..]));
        // Both ask at once: the second waits for 10 ns, and the controller is at work across a window's end.
        let late = |n: u64| {
            let read = Step::access(StridedAccess::new(AccessKind::Read, 64 * n, 8));
            vec![Step::compute(94), read]
        };
        let memory = &run(MACHINE, vec![late(1), late(2)], 100 * NS).series.unwrap().servers[0];
        assert_eq!((memory.wait_fs[0], &memory.busy_fs[..2]), (10 * NS, &[5 * NS, 15 * NS][..]));
    }

    /// All windows together are the run; and the run is the same with and without them.
    #[test]
    fn windows_add_up_to_the_run() {
        for (machine, kind) in [("harpertown", "pairs:8:4:6"), ("purple", "all:8:4:2")] {
            let machine = Machine::load(machine).unwrap();
            let recording = synthetic::parse(kind).unwrap();
            let mapping = [3, 1, 4, 0, 5, 7, 2, 6];
            let of =
                |window| simulate(&recording, &machine, &mapping, &Options { window, ..Options::default() }).unwrap();
            let plain = of(None);
            for window in [NS * 70, NS * 10_000, NS * 100_000_000] {
                let mut report = of(Some(window));
                let series = report.series.take().unwrap();
                assert_eq!(report, plain);
                assert!(series.windows as u64 >= report.time_fs.div_ceil(window));
                for (task, counts) in report.tasks.iter().zip(&series.instructions) {
                    assert_eq!(counts.iter().sum::<u64>(), task.instructions, "{kind} {}", task.name);
                }
                let mut loads = report.total.loads_served;
                for served in Served::ALL {
                    assert_eq!(series.loads_served.at(served).iter().sum::<u64>(), *loads.at(served), "{served:?}");
                }
                assert_eq!(series.load_latency_fs.iter().sum::<u64>(), report.total.load_latency_fs);
                for (server, series) in report.servers.iter().zip(&series.servers) {
                    assert_eq!(server.name, series.name);
                    let sums =
                        [&series.busy_fs, &series.wait_fs, &series.bytes].map(|counts| counts.iter().sum::<u64>());
                    assert_eq!(
                        sums,
                        [server.usage.busy_fs, server.usage.wait_fs, server.usage.bytes],
                        "{}",
                        server.name
                    );
                    assert!(series.busy_fs.iter().all(|&busy| busy <= window), "{}", server.name);
                }
            }
        }
    }

    #[test]
    fn windows_that_are_too_many_are_refused() {
        let machine = Machine::parse(MACHINE, None).unwrap();
        let recording = InMemory::new(vec![vec![Step::compute(1000); 1000]]);
        let options = |window| Options { window: Some(window), ..Options::default() };
        let error = simulate(&recording, &machine, &[0], &options(NS)).unwrap_err();
        assert!(error.to_string().contains("100000 windows"), "{error}");
        assert!(simulate(&recording, &machine, &[0], &options(10 * NS)).is_ok());
        assert!(simulate(&recording, &machine, &[0], &options(0)).is_err());
    }
}
