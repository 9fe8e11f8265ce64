//! The tasks that live: who they are, MPI ranks included, where they run and how much.

use cohabit_model::{Result, Topology};
use cohabit_online::faults::TaskEvent;
use cohabit_online::ledger::Ledger;
use cohabit_online::placer::{Held, Placer};
use cohabit_online::policy::ViewTask;
use cohabit_online::progress::Sample;
use cohabit_online::threads;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// One that lives.
#[derive(Debug, Clone)]
pub struct Living {
    /// Thread id.
    pub tid: i32,
    /// Process id.
    pub process: i32,
    /// Its name; of a rank's threads, which rank and thread it is.
    pub name: String,
    /// The MPI rank that its process is.
    pub rank: Option<u32>,
    /// Which of its process's threads it is, 0 being the main one.
    thread: u32,
    /// Where it last ran (OS index).
    pub pu: Option<u32>,
    /// Who placed it.
    pub held: Held,
    /// How long it had run and waited for a PU when last looked at: what it would have run alone.
    wanted: Option<Duration>,
    /// How long it wanted to run between the last two looks, in us: who shares a PU with many runs little, and is no
    /// lighter for it.
    load: u64,
    /// How long it has run since it is followed.
    pub ran: Duration,
    waited: Duration,
    /// What it had run and waited before that.
    before: (Duration, Duration),
}

/// A process that lives.
#[derive(Debug, Default)]
struct Process {
    rank: Option<u32>,
    /// Threads that live, and that there have been.
    living: u32,
    started: u32,
    /// How often it is to be asked yet for the rank that it is.
    asks: u32,
}

/// How often a process is asked for its rank when it is looked at, where it was none when it became its program: perf
/// events tell of that before the kernel has given it its environment.
const ASKS: u32 = 3;

/// A clock tick of proc_pid_stat(5), as Linux has it everywhere (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// All that live, by their number.
#[derive(Debug, Default)]
pub struct Tasks {
    /// By number.
    pub living: BTreeMap<u32, Living>,
    /// How many there have been.
    pub started: u64,
    /// By process id, those that live.
    processes: HashMap<i32, Process>,
    /// Ranks that were seen, and how many their job has.
    pub ranks: BTreeMap<u32, Option<u32>>,
    /// What tasks that have ended ran and waited.
    ended_ran: Duration,
    ended_waited: Duration,
}

impl Living {
    fn new(tid: i32, name: String) -> Self {
        let (ran, waited) = (Duration::ZERO, Duration::ZERO);
        let (rank, thread, pu, held, wanted, load) = (None, 0, None, Held::Free, None, 0);
        Self { tid, process: tid, name, rank, thread, pu, held, wanted, load, ran, waited, before: (ran, waited) }
    }

    /// Takes note of how long it has wanted to run so far.
    fn wants(&mut self, wanted: Duration) {
        let before = self.wanted.replace(wanted).unwrap_or(wanted);
        self.load = u64::try_from(wanted.saturating_sub(before).as_micros()).unwrap_or(u64::MAX);
    }

    /// `rank 3`, and its further threads `rank 3.1`, `rank 3.2`.
    fn name_by_rank(&mut self) {
        match (self.rank, self.thread) {
            (Some(rank), 0) => self.name = format!("rank {rank}"),
            (Some(rank), thread) => self.name = format!("rank {rank}.{thread}"),
            (None, _) => {}
        }
    }
}

impl Tasks {
    /// A task has come or gone.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn event(&mut self, event: &TaskEvent, placer: &mut Placer, ledger: &mut Ledger) -> Result<()> {
        match *event {
            TaskEvent::Started { task, tid, process, parent } => {
                let parent = parent.and_then(|parent| self.living.get(&parent)).map(|parent| parent.tid);
                placer.started(ledger, tid, process, parent);
                let is_known = self.processes.contains_key(&process);
                if !is_known {
                    let rank = self.rank_of(process);
                    self.processes.insert(process, Process { rank, asks: ASKS, ..Process::default() });
                }
                let process_of = self.processes.entry(process).or_default();
                let (rank, thread) = (process_of.rank, process_of.started);
                process_of.living += 1;
                process_of.started += 1;
                let name = threads::look(tid).map(|thread| thread.name).unwrap_or_default();
                // One that no followed task has started was there before, and may have run for hours.
                let before = parent.is_none().then(|| threads::run_and_wait(tid)).flatten().unwrap_or_default();
                let mut living = Living { process, rank, thread, before, ..Living::new(tid, name) };
                living.name_by_rank();
                self.living.insert(task, living);
                self.started += 1;
            }
            TaskEvent::Ended { task } => {
                if let Some(gone) = self.living.remove(&task) {
                    self.ended_ran += gone.ran;
                    self.ended_waited += gone.waited;
                    placer.ended(ledger, gone.tid);
                    if let Some(process) = self.processes.get_mut(&gone.process) {
                        process.living -= 1;
                        if process.living == 0 {
                            self.processes.remove(&gone.process);
                        }
                    }
                }
            }
            TaskEvent::Exec { task, tid } => {
                let known = self.living.get(&task).map(|living| (living.process, living.tid));
                let Some((process, former)) = known else { return Ok(()) };
                placer.executed(ledger, former, tid)?;
                // A launcher's child becomes a rank by it.
                let rank = self.rank_of(process);
                if let Some(process) = self.processes.get_mut(&process) {
                    (process.rank, process.started, process.asks) = (rank, 1, ASKS);
                }
                if let Some(living) = self.living.get_mut(&task) {
                    (living.tid, living.rank, living.thread) = (tid, rank, 0);
                    living.name_by_rank();
                }
            }
        }
        Ok(())
    }

    /// What a task is called where something is said of it: its number, or which rank it is.
    pub fn label(&self, task: u32) -> String {
        let rank = self.living.get(&task).filter(|living| living.rank.is_some());
        rank.map_or_else(|| task.to_string(), |living| living.name.clone())
    }

    /// Whether there are ranks, and all of them were bound by somebody else.
    pub fn ranks_are_bound(&self) -> bool {
        let mut ranks = self.living.values().filter(|living| living.rank.is_some()).peekable();
        ranks.peek().is_some() && ranks.all(|living| living.held == Held::Own)
    }

    fn rank_of(&mut self, process: i32) -> Option<u32> {
        let place = threads::rank_place(process)?;
        self.ranks.insert(place.rank, place.size);
        Some(place.rank)
    }

    /// Asks the processes that are no ranks, as far as is known, a few times more.
    fn ask_again(&mut self) {
        let mut unsure = Vec::new();
        for (&pid, process) in
            self.processes.iter_mut().filter(|(_, process)| process.rank.is_none() && process.asks > 0)
        {
            process.asks -= 1;
            unsure.push(pid);
        }
        for pid in unsure {
            let rank = self.rank_of(pid);
            self.processes.entry(pid).and_modify(|process| process.rank = rank);
        }
    }

    /// A task that lives, for tests.
    #[cfg(test)]
    pub fn add_for_test(&mut self, task: u32, name: &str, pu: u32, held: Held) {
        self.living.insert(task, Living { pu: Some(pu), held, ..Living::new(1, name.to_owned()) });
    }

    /// Looks at all that live.
    pub fn look(&mut self, placer: &mut Placer, ledger: &mut Ledger) {
        self.ask_again();
        let usual = placer.usual();
        for living in self.living.values_mut() {
            let Some(thread) = threads::look(living.tid) else { continue };
            let run_and_wait = threads::run_and_wait(living.tid);
            // Where the kernel does not say how long it waited, what it ran.
            living.wants(run_and_wait.map_or(TICK * thread.ticks as u32, |(ran, waited)| ran + waited));
            living.name = thread.name;
            living.rank = self.processes.get(&living.process).and_then(|process| process.rank);
            living.name_by_rank();
            living.held = placer.look(ledger, living.tid, &usual);
            living.pu = match living.held {
                Held::Ours(pu) => Some(pu),
                Held::Free | Held::Own => Some(thread.pu),
            };
            if let Some((ran, waited)) = run_and_wait {
                let (ran_before, waited_before) = living.before;
                (living.ran, living.waited) = (ran.saturating_sub(ran_before), waited.saturating_sub(waited_before));
            }
        }
    }

    /// What the policy is to see: those that talk or run.
    pub fn view(&self, topology: &Topology, talks: impl Fn(u32) -> bool) -> Vec<ViewTask> {
        let index = |pu: u32| topology.pu_index(pu).filter(|&pu| topology.pus[pu].allowed);
        let seen = self.living.iter().filter(|(task, living)| living.load > 0 || talks(**task));
        seen.map(|(&task, living)| ViewTask {
            task,
            present: living.pu.and_then(index),
            placed: matches!(living.held, Held::Ours(_)),
            fixed: living.held == Held::Own,
            load: living.load + 1,
        })
        .collect()
    }

    /// How many processes live.
    pub fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// How far the program has come, by what the scheduler tells.
    pub fn progress(&self, time: Duration) -> Sample {
        let (ran, waited) = (self.ended_ran, self.ended_waited);
        let sum =
            |start: Duration, part: fn(&Living) -> Duration| start + self.living.values().map(part).sum::<Duration>();
        Sample {
            time,
            reported: None,
            instructions: None,
            ran: sum(ran, |living| living.ran),
            waited: sum(waited, |living| living.waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_testing::{Killed, sleeping};
    use std::process::{Command, Stdio};

    #[test]
    fn ranks_and_their_threads_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(vec![folder.path().join("ledger")]).unwrap();
        let (mut placer, mut tasks) = (Placer::new(), Tasks::default());
        let sleeper = Killed::spawn(sleeping().env("PMI_RANK", "7").env("PMI_SIZE", "9"));
        let (rank, other) = (sleeper.id() as i32, i32::MAX);
        // Its environment is there once it is the program.
        while !std::fs::read_to_string(format!("/proc/{rank}/environ")).is_ok_and(|text| text.contains("PMI_RANK=7")) {
            std::thread::yield_now();
        }
        let started = |task: u32, tid: i32, process: i32| TaskEvent::Started { task, tid, process, parent: None };
        for event in [started(0, rank, rank), started(1, other - 1, rank), started(2, other, other)] {
            tasks.event(&event, &mut placer, &mut ledger).unwrap();
        }
        let names = |tasks: &Tasks| tasks.living.values().map(|living| living.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&tasks), ["rank 7", "rank 7.1", ""]);
        tasks.look(&mut placer, &mut ledger);
        assert_eq!(names(&tasks), ["rank 7", "rank 7.1", ""]);
        assert_eq!(tasks.ranks, BTreeMap::from([(7, Some(9))]));
        for task in 0..3 {
            tasks.event(&TaskEvent::Ended { task }, &mut placer, &mut ledger).unwrap();
        }
        assert!(tasks.processes.is_empty() && tasks.living.is_empty());
    }

    #[test]
    fn a_process_that_has_its_environment_late_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(vec![folder.path().join("ledger")]).unwrap();
        let (mut placer, mut tasks) = (Placer::new(), Tasks::default());
        let script = "read line; PMI_RANK=7 PMI_SIZE=9 exec sleep 1000";
        let mut late = Killed::spawn(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()));
        let process = late.id() as i32;
        tasks
            .event(&TaskEvent::Started { task: 0, tid: process, process, parent: None }, &mut placer, &mut ledger)
            .unwrap();
        tasks.look(&mut placer, &mut ledger);
        assert_eq!(tasks.living[&0].rank, None);
        drop(late.stdin.take());
        while !std::fs::read_to_string(format!("/proc/{process}/environ")).is_ok_and(|text| text.contains("PMI_RANK=7"))
        {
            std::thread::yield_now();
        }
        tasks.look(&mut placer, &mut ledger);
        assert_eq!((tasks.living[&0].rank, tasks.living[&0].name.as_str()), (Some(7), "rank 7"));
        // And no more often than that.
        assert_eq!(tasks.processes[&process].asks, ASKS - 2);
    }

    /// Five threads on one PU run a fifth of the time each: a mapper that took them for light would leave them there.
    #[test]
    fn who_waits_for_a_pu_is_as_heavy_as_who_runs() {
        let millis = Duration::from_millis;
        let mut tasks = Tasks::default();
        for (task, ran, waited) in [(0, 100, 0), (1, 20, 80)] {
            tasks.add_for_test(task, "t", 0, Held::Free);
            let living = tasks.living.get_mut(&task).unwrap();
            living.wants(millis(7));
            assert_eq!(living.load, 0);
            living.wants(millis(7 + ran + waited));
        }
        let view = tasks.view(&Topology::load("core:2 pu:1").unwrap(), |_| false);
        assert_eq!(view.iter().map(|task| task.load).collect::<Vec<_>>(), [100_001, 100_001]);
    }

    #[test]
    fn what_ran_before_it_was_followed_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(vec![folder.path().join("ledger")]).unwrap();
        let (mut placer, mut tasks) = (Placer::new(), Tasks::default());
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; kill -STOP $$";
        let busy = Killed::spawn(Command::new("sh").args(["-c", script]));
        let tid = busy.id() as i32;
        while !std::fs::read_to_string(format!("/proc/{tid}/stat")).is_ok_and(|text| text.contains(") T ")) {
            std::thread::yield_now();
        }
        let (ran, waited) = threads::run_and_wait(tid).expect("the kernel tells what tasks have run");
        assert!(ran > Duration::ZERO);
        let (found, started) = (tid, tid);
        for (task, tid, parent) in [(0, found, None), (1, started, Some(0))] {
            tasks.event(&TaskEvent::Started { task, tid, process: tid, parent }, &mut placer, &mut ledger).unwrap();
        }
        tasks.look(&mut placer, &mut ledger);
        let sample = tasks.progress(Duration::ZERO);
        assert_eq!(tasks.living[&0].ran, Duration::ZERO);
        assert_eq!((sample.ran, sample.waited), (ran, waited));
    }
}
