//! Who is who: the processes and threads of the run as they come and go, and the task each of them is.
//!
//! Processes are recognised by the program that they execute, where the plan knows it: wrappers and launchers in
//! between are nobody. A process forked without exec runs its creator's program. Of several that run the same program
//! the n-th is the n-th of the plan; one that comes when all of them run is a rival.
//!
//! Knows nothing of how their starts were noticed, and changes nothing.

use super::plan::{Key, Keys, LaunchPlan, file_name};
use std::collections::HashMap;

/// A thread that runs now.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    /// Its process, by index.
    pub(crate) process: u32,
    /// The planned task it is, by index into the plan.
    pub(crate) task: Option<usize>,
    threads_created: u32,
    processes_created: u32,
}

#[derive(Debug)]
struct Process {
    pid: i32,
    threads_started: u32,
    alive: bool,
    /// Tasks of the plan that are to come in this process.
    unseen: usize,
    /// The file name of its executable; empty where it is not known.
    program: String,
    /// The process of the plan that it is.
    planned: Option<u32>,
    /// It was recognised as a fork, and may yet execute something else.
    tentative: bool,
}

/// What a process is found to be when it has started or executed a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A process of the plan; its main thread is this task.
    Planned(Option<usize>),
    /// What it was before.
    Same,
    /// One more of a program of which all that the plan has are running.
    Rival,
    /// None of the plan's.
    Nobody,
}

/// A process of the plan.
#[derive(Debug, Default)]
struct PlannedProcess {
    /// Its tasks, by index into the plan.
    tasks: Vec<usize>,
    main: Option<usize>,
    program: String,
    /// The process of the run that it is now, by index.
    owner: Option<u32>,
    started: bool,
}

/// The threads of the run.
#[derive(Debug)]
pub(crate) struct Census {
    keys: Keys,
    /// Process of each planned task.
    planned_processes: Vec<u32>,
    planned: Vec<PlannedProcess>,
    by_program: bool,
    /// Which tasks have started, of the processes that run now.
    seen: Vec<bool>,
    /// Which have ever started.
    ever_seen: Vec<bool>,
    unseen: usize,
    processes: Vec<Process>,
    by_pid: HashMap<i32, u32>,
    threads: HashMap<i32, Thread>,
}

impl Census {
    pub(crate) fn new(plan: &LaunchPlan) -> Self {
        let by_program = plan.programs.iter().any(|program| !program.is_empty());
        let mut planned: Vec<PlannedProcess> = Vec::new();
        for (index, task) in plan.tasks.iter().enumerate().filter(|_| by_program) {
            let process = task.process as usize;
            if let Some(program) = plan.programs.get(process) {
                planned.resize_with(planned.len().max(process + 1), PlannedProcess::default);
                planned[process].tasks.push(index);
                planned[process].program = file_name(program).to_owned();
                if task.spawn_index == 0 {
                    planned[process].main = Some(index);
                }
            }
        }
        Self {
            keys: Keys::new(plan),
            planned_processes: plan.tasks.iter().map(|planned| planned.process).collect(),
            planned,
            by_program,
            seen: vec![false; plan.tasks.len()],
            ever_seen: vec![false; plan.tasks.len()],
            unseen: plan.tasks.len(),
            processes: Vec::new(),
            by_pid: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    /// A process began, and executes `program`; without a creator it is the command (the first), or one whose creator
    /// is not known.
    pub(crate) fn process_started(&mut self, creator: Option<i32>, pid: i32, program: &str) -> Found {
        let index = self.processes.len() as u32;
        let created_by = creator.and_then(|creator| self.threads.get_mut(&creator)).map(|creator| {
            creator.processes_created += 1;
            (creator.task, creator.processes_created - 1, creator.process)
        });
        let parent = created_by.map(|(.., process)| &self.processes[process as usize]);
        let forked = parent.is_some_and(|parent| parent.program == program);
        let process = Process {
            pid,
            threads_started: 1,
            alive: true,
            unseen: 0,
            program: program.to_owned(),
            planned: None,
            tentative: forked,
        };
        self.processes.push(process);
        self.by_pid.insert(pid, index);
        let created_by = created_by.map(|(task, rank, _)| (task, rank));
        let found = match self.by_program {
            true => self.by_program(index, created_by, forked),
            false => self.by_order(index, created_by),
        };
        let task = if let Found::Planned(task) = found { task } else { None };
        self.threads.insert(pid, Thread { process: index, task, threads_created: 0, processes_created: 0 });
        found
    }

    /// Recognises a process by its place in the order of starts, or in the tree.
    fn by_order(&mut self, index: u32, created_by: Option<(Option<usize>, u32)>) -> Found {
        let by_order = if index == 0 { Key::Command } else { Key::Order { process: index, spawn_index: 0 } };
        let task = self.recognise(Some(by_order), created_by, |parent, rank| Key::ProcessOf { parent, rank });
        // In the tree a process may be another one of the plan than its place in the order says.
        let planned_as = task.map_or(index, |task| self.planned_processes[task]);
        let unseen = (0..self.seen.len()).filter(|&t| self.planned_processes[t] == planned_as && !self.seen[t]).count();
        let process = &mut self.processes[index as usize];
        (process.unseen, process.planned) = (unseen, Some(planned_as));
        task.map_or(Found::Nobody, |task| Found::Planned(Some(task)))
    }

    /// Recognises a process by its program; of several that the plan has, by the tree, else by their order.
    fn by_program(&mut self, index: u32, created_by: Option<(Option<usize>, u32)>, forked: bool) -> Found {
        let program = self.processes[index as usize].program.clone();
        let by_tree = created_by.and_then(|(parent, rank)| self.keys.task(Key::ProcessOf { parent: parent?, rank }));
        let by_tree = by_tree.map(|task| self.planned_processes[task] as usize);
        let same: Vec<usize> = (0..self.planned.len())
            .filter(|&process| !program.is_empty() && self.planned[process].program == program)
            .collect();
        let free = |process: &&usize| self.planned[**process].owner.is_none();
        let new = |process: &&usize| free(process) && !self.planned[**process].started;
        let chosen = same.iter().filter(new).find(|&&process| Some(process) == by_tree);
        // A fork is one more of the plan or none of it: it does not stand for one that has ended.
        let chosen = chosen.or_else(|| same.iter().find(new));
        let chosen = chosen.or_else(|| same.iter().filter(|_| !forked).find(free));
        match chosen {
            Some(&process) => Found::Planned(self.take(index, process)),
            None if forked || same.is_empty() => Found::Nobody,
            None => Found::Rival,
        }
    }

    /// Process `index` is the plan's `process`, of which nothing has started then; its main thread's task.
    fn take(&mut self, index: u32, process: usize) -> Option<usize> {
        for &task in &self.planned[process].tasks {
            self.unseen += usize::from(std::mem::replace(&mut self.seen[task], false));
        }
        let planned = &mut self.planned[process];
        (planned.owner, planned.started) = (Some(index), true);
        let (main, count) = (planned.main, planned.tasks.len());
        let found = &mut self.processes[index as usize];
        found.planned = Some(process as u32);
        found.unseen = count - usize::from(main.is_some());
        if let Some(main) = main {
            self.see(main);
        }
        main
    }

    /// Process `index` is no longer the one of the plan that it was.
    fn leave(&mut self, index: u32) {
        let process = &mut self.processes[index as usize];
        process.unseen = 0;
        let Some(planned) = process.planned.take() else { return };
        let tentative = process.tentative;
        let Some(planned) = self.planned.get_mut(planned as usize) else { return };
        planned.owner = None;
        if tentative {
            planned.started = false;
            for &task in &planned.tasks {
                self.unseen += usize::from(std::mem::replace(&mut self.seen[task], false));
                self.ever_seen[task] = false;
            }
        }
    }

    fn see(&mut self, task: usize) {
        self.seen[task] = true;
        self.ever_seen[task] = true;
        self.unseen -= 1;
    }

    /// Thread `tid` of process `pid`, which is known, began. The creator is unknown to a watcher of /proc.
    pub(crate) fn thread_started(&mut self, creator: Option<i32>, pid: i32, tid: i32) -> Option<usize> {
        let process = *self.by_pid.get(&pid)?;
        let found = &mut self.processes[process as usize];
        let spawn_index = found.threads_started;
        found.threads_started += 1;
        let planned = if self.by_program { found.planned } else { Some(process) };
        let created_by = creator.and_then(|creator| self.threads.get_mut(&creator)).map(|creator| {
            creator.threads_created += 1;
            (creator.task, creator.threads_created - 1)
        });
        let by_order = planned.map(|process| Key::Order { process, spawn_index });
        let task = self.recognise(by_order, created_by, |parent, rank| Key::ThreadOf { parent, rank });
        if task.is_some() {
            let unseen = &mut self.processes[process as usize].unseen;
            *unseen = unseen.saturating_sub(1);
        }
        self.threads.insert(tid, Thread { process, task, threads_created: 0, processes_created: 0 });
        task
    }

    /// The task with one of the two keys: a plan holds keys of one sort only. Each task is found once.
    fn recognise(
        &mut self,
        by_order: Option<Key>,
        created_by: Option<(Option<usize>, u32)>,
        tree_key: impl Fn(usize, u32) -> Key,
    ) -> Option<usize> {
        let by_tree = created_by.and_then(|(parent, rank)| Some(tree_key(parent?, rank)));
        let task = by_order.and_then(|key| self.keys.task(key)).or_else(|| self.keys.task(by_tree?))?;
        if self.seen[task] {
            return None;
        }
        self.see(task);
        Some(task)
    }

    /// Thread `former` of process `pid` executed `program`: the others are gone, and it is the main thread now.
    /// Threads that the new program starts are counted on from those of the old.
    pub(crate) fn executed(&mut self, former: i32, pid: i32, program: &str) -> Found {
        let Some(&index) = self.by_pid.get(&pid) else { return Found::Nobody };
        let Some(mut survivor) = self.threads.get(&former).cloned() else { return Found::Nobody };
        self.threads.retain(|_, thread| thread.process != index);
        let process = &mut self.processes[index as usize];
        let same = process.program == program && process.planned.is_some() && !process.tentative;
        let found = if !self.by_program || same {
            Found::Same
        } else {
            process.program = program.to_owned();
            self.leave(index);
            let found = self.by_program(index, None, false);
            self.processes[index as usize].tentative = false;
            survivor.task = if let Found::Planned(task) = found { task } else { None };
            found
        };
        self.threads.insert(pid, survivor);
        found
    }

    /// A thread ended; a main thread's end is reported when its whole process has ended.
    pub(crate) fn ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
        if let Some(index) = self.by_pid.remove(&tid) {
            let process = &mut self.processes[index as usize];
            process.alive = false;
            if let Some(planned) = process.planned.and_then(|planned| self.planned.get_mut(planned as usize)) {
                planned.owner = planned.owner.filter(|&owner| owner != index);
            }
            self.threads.retain(|_, thread| thread.process != index);
        }
    }

    /// The process of the plan that a known thread is in.
    pub(crate) fn planned_process(&self, tid: i32) -> Option<u32> {
        self.threads.get(&tid).and_then(|thread| self.processes[thread.process as usize].planned)
    }

    /// The program that process `pid` executes, as far as it is known here.
    pub(crate) fn program(&self, pid: i32) -> Option<&str> {
        self.by_pid.get(&pid).map(|&index| self.processes[index as usize].program.as_str())
    }

    /// Whether processes are recognised by their programs.
    pub(crate) fn knows_programs(&self) -> bool {
        self.by_program
    }

    /// The processes of the plan that run this program.
    pub(crate) fn planned_as(&self, program: &str) -> Vec<u32> {
        let of = |(process, planned): (usize, &PlannedProcess)| (planned.program == program).then_some(process as u32);
        self.planned.iter().enumerate().filter_map(of).collect()
    }

    /// Whether a process that has just started is none of the plan's.
    pub(crate) fn is_nobody(&self, pid: i32) -> bool {
        let has_task = self.threads.get(&pid).is_some_and(|thread| thread.task.is_some());
        !(has_task || self.by_program && self.planned_process(pid).is_some())
    }

    /// Whether a process that thread `creator` starts may be one of the plan's.
    pub(crate) fn expects_processes(&self, creator: i32) -> bool {
        match self.by_program {
            true => {
                let is_to_come = |planned: &PlannedProcess| !planned.started && !planned.tasks.is_empty();
                self.planned_process(creator).is_none() || self.planned.iter().any(is_to_come)
            }
            false => !self.is_complete(),
        }
    }

    /// Whether every planned task has been seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.unseen == 0
    }

    /// Whether the process of this thread is to have planned threads that have not started yet.
    pub(crate) fn expects_threads(&self, tid: i32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| self.processes[thread.process as usize].unseen > 0)
    }

    /// Planned tasks that have never been seen, by index into the plan.
    pub(crate) fn missing(&self) -> Vec<usize> {
        (0..self.seen.len()).filter(|&task| !self.ever_seen[task]).collect()
    }

    pub(crate) fn thread(&self, tid: i32) -> Option<&Thread> {
        self.threads.get(&tid)
    }

    /// The process a known thread is in.
    pub(crate) fn pid_of(&self, tid: i32) -> Option<i32> {
        self.threads.get(&tid).map(|thread| self.processes[thread.process as usize].pid)
    }

    pub(crate) fn knows_process(&self, pid: i32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// The process ids of those that run, in the order of their start.
    pub(crate) fn running(&self) -> Vec<i32> {
        self.processes.iter().filter(|process| process.alive).map(|process| process.pid).collect()
    }

    /// The known threads of a process.
    pub(crate) fn threads_of(&self, pid: i32) -> Vec<i32> {
        let Some(&process) = self.by_pid.get(&pid) else { return Vec::new() };
        self.threads.iter().filter(|(_, thread)| thread.process == process).map(|(&tid, _)| tid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Census, Found};
    use crate::launch::plan::{Identify, LaunchPlan, PlannedTask};
    use cohabit_host::affinity::CpuMask;
    use proptest::prelude::*;

    fn main_task(found: Found) -> Option<usize> {
        if let Found::Planned(task) = found { task } else { None }
    }

    /// The task ids that were recognised, in the order of the starts.
    ///
    /// Rows of the plan are (process, spawn index, parent); starts are (creator, pid, tid), a process where pid = tid.
    fn recognised(
        identify: Identify,
        rows: &[(u32, u32, Option<u32>)],
        starts: &[(i32, i32, i32)],
    ) -> (Vec<Option<usize>>, Census) {
        let task = |(task, &(process, spawn_index, parent)): (usize, &(u32, u32, Option<u32>))| PlannedTask {
            task: task as u32,
            process,
            spawn_index,
            parent,
            pu: 0,
            pus: CpuMask::single(0),
            name: String::new(),
        };
        let tasks = rows.iter().enumerate().map(task).collect();
        let plan = LaunchPlan { tasks, identify, ..LaunchPlan::default() };
        plan.check().unwrap();
        let mut census = Census::new(&plan);
        let start = |&(creator, pid, tid): &(i32, i32, i32)| {
            let creator = (creator != 0).then_some(creator);
            match pid == tid {
                true => main_task(census.process_started(creator, pid, "")),
                false => census.thread_started(creator, pid, tid),
            }
        };
        let tasks = starts.iter().map(start).collect();
        (tasks, census)
    }

    #[test]
    fn threads_are_recognised() {
        use Identify::{Order, Tree};
        // A main thread with two children, each of which creates one more: rows 3 and 4.
        let nested = [(0, 0, None), (0, 1, Some(0)), (0, 2, Some(0)), (0, 3, Some(1)), (0, 4, Some(2))];
        let forked = [(0, 0, None), (1, 0, Some(0)), (1, 1, Some(1)), (2, 0, Some(0))];
        for (identify, rows, starts, tasks) in [
            (
                Order,
                &nested[..],
                vec![(0, 9, 9), (9, 9, 10), (9, 9, 11), (10, 9, 12), (11, 9, 13)],
                vec![0, 1, 2, 3, 4],
            ),
            // The second child is the first to create its own.
            (Order, &nested, vec![(0, 9, 9), (9, 9, 10), (9, 9, 11), (11, 9, 12), (10, 9, 13)], vec![0, 1, 2, 3, 4]),
            (Tree, &nested, vec![(0, 9, 9), (9, 9, 10), (9, 9, 11), (11, 9, 12), (10, 9, 13)], vec![0, 1, 2, 4, 3]),
            // The first child creates before there is a second.
            (Tree, &nested, vec![(0, 9, 9), (9, 9, 10), (10, 9, 11), (9, 9, 12), (12, 9, 13)], vec![0, 1, 3, 2, 4]),
            (Order, &forked, vec![(0, 9, 9), (9, 10, 10), (9, 11, 11), (10, 10, 12)], vec![0, 1, 3, 2]),
            (Tree, &forked, vec![(0, 9, 9), (9, 10, 10), (10, 10, 12), (9, 11, 11)], vec![0, 1, 2, 3]),
        ] {
            let (found, census) = recognised(identify, rows, &starts);
            assert_eq!(found, tasks.into_iter().map(Some).collect::<Vec<_>>(), "{identify:?} {starts:?}");
            assert!(census.is_complete());
        }
    }

    #[test]
    fn threads_beyond_the_plan_are_nobody() {
        for identify in [Identify::Order, Identify::Tree] {
            let starts = [(0, 9, 9), (9, 9, 10), (9, 9, 11), (11, 9, 12), (9, 13, 13)];
            let (found, census) = recognised(identify, &[(0, 0, None), (0, 1, Some(0))], &starts);
            assert_eq!(found, [Some(0), Some(1), None, None, None]);
            assert_eq!(census.missing(), Vec::<usize>::new());
        }
    }

    #[test]
    fn exec_keeps_the_process_and_drops_its_other_threads() {
        let rows = [(0, 0, None), (0, 1, Some(0)), (0, 2, Some(1))];
        for identify in [Identify::Order, Identify::Tree] {
            let (_, mut census) = recognised(identify, &rows, &[(0, 9, 9), (9, 9, 10)]);
            assert!(census.expects_threads(9));
            assert_eq!(census.executed(10, 9, ""), Found::Same);
            assert_eq!(census.threads_of(9), [9]);
            assert_eq!(census.thread(9).unwrap().task, Some(1), "the thread that executed lives on as the main thread");
            assert_eq!(census.thread_started(Some(9), 9, 11), Some(2));
            assert!(!census.expects_threads(9));
            census.ended(9);
            assert_eq!(census.running(), Vec::<i32>::new());
        }
    }

    /// A plan of processes with these programs, each with as many threads.
    fn census(programs: &[(&str, u32)]) -> Census {
        let mut tasks = Vec::new();
        for (process, &(_, threads)) in (0..).zip(programs) {
            for spawn_index in 0..threads {
                let (task, pus) = (tasks.len() as u32, CpuMask::single(0));
                let parent = spawn_index.checked_sub(1).map(|_| task - spawn_index);
                tasks.push(PlannedTask { task, process, spawn_index, parent, pu: 0, pus, name: String::new() });
            }
        }
        let programs = programs.iter().map(|(program, _)| format!("/somewhere/else/{program}")).collect();
        Census::new(&LaunchPlan { tasks, programs, ..LaunchPlan::default() })
    }

    #[test]
    fn a_program_is_known_by_its_executable_behind_wrappers() {
        let mut census = census(&[("solver", 2)]);
        assert_eq!(census.process_started(None, 9, "cohabit"), Found::Nobody);
        assert_eq!(census.executed(9, 9, "sh"), Found::Nobody);
        assert!(census.expects_processes(9), "a wrapper's child may be the program");
        assert_eq!(census.process_started(Some(9), 10, "sh"), Found::Nobody);
        assert_eq!(census.executed(10, 10, "solver"), Found::Planned(Some(0)));
        assert!(census.expects_threads(10) && !census.expects_processes(10));
        assert_eq!(census.thread_started(Some(10), 10, 11), Some(1));
        assert_eq!(census.thread_started(Some(10), 10, 12), None, "one more than is known");
        assert_eq!(census.process_started(Some(11), 13, "solver"), Found::Nobody, "a fork is no rival");
        assert_eq!(census.process_started(Some(9), 14, "sh"), Found::Nobody);
        assert_eq!(census.executed(14, 14, "solver"), Found::Rival);
        for pid in [14, 13, 10] {
            census.ended(pid);
        }
        assert_eq!(census.process_started(Some(9), 15, "sh"), Found::Nobody);
        assert_eq!(census.executed(15, 15, "solver"), Found::Planned(Some(0)), "one after the other, both are it");
        assert_eq!(census.thread_started(Some(15), 15, 16), Some(1));
        assert_eq!(census.missing(), Vec::<usize>::new());
    }

    #[test]
    fn programs_of_several_processes_are_told_apart() {
        // A pipeline of a shell, and a program whose workers are forks.
        let mut pipeline = census(&[("sh", 1), ("producer", 1), ("consumer", 1)]);
        assert_eq!(pipeline.process_started(None, 9, "cohabit"), Found::Nobody);
        assert_eq!(pipeline.executed(9, 9, "sh"), Found::Planned(Some(0)));
        for pid in [10, 11] {
            assert_eq!(pipeline.process_started(Some(9), pid, "sh"), Found::Nobody);
        }
        assert_eq!(pipeline.executed(11, 11, "consumer"), Found::Planned(Some(2)), "whoever comes first");
        assert_eq!(pipeline.executed(10, 10, "producer"), Found::Planned(Some(1)));
        assert!(pipeline.is_complete() && !pipeline.expects_processes(9));

        let mut pool = census(&[("python3", 1), ("python3", 1), ("python3", 1)]);
        pool.process_started(None, 9, "cohabit");
        assert_eq!(pool.executed(9, 9, "python3"), Found::Planned(Some(0)));
        assert_eq!(pool.process_started(Some(9), 10, "python3"), Found::Planned(Some(1)));
        assert_eq!(pool.executed(10, 10, "ls"), Found::Nobody, "it was only on its way to another program");
        assert_eq!(pool.missing(), [1, 2]);
        assert_eq!(pool.process_started(Some(9), 11, "python3"), Found::Planned(Some(1)));
    }

    #[test]
    fn a_program_that_never_ran_is_missing() {
        let mut census = census(&[("solver", 2)]);
        census.process_started(None, 9, "cohabit");
        assert_eq!(census.executed(9, 9, "other"), Found::Nobody);
        assert_eq!(census.thread_started(Some(9), 9, 10), None);
        assert_eq!(census.missing(), [0, 1]);
    }

    proptest! {
        /// In whatever order a tree of threads comes up, the tree identity of each is that of its place in the tree.
        #[test]
        fn the_tree_does_not_depend_on_the_order(
            parents in proptest::collection::vec(any::<proptest::sample::Index>(), 1..40),
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 40),
        ) {
            let mut rows = vec![(0, 0, None)];
            for (index, parent) in parents.iter().enumerate() {
                rows.push((0, index as u32 + 1, Some(parent.index(index + 1) as u32)));
            }
            // Another order in which each creates its own children in turn: pick any whose elder siblings are there.
            let mut order = vec![0usize];
            let ready = |order: &Vec<usize>, task: usize| {
                let parent = rows[task].2.map(|parent| parent as usize);
                !order.contains(&task) && parent.is_some_and(|parent| order.contains(&parent))
                    && (1..task).all(|elder| rows[elder].2 != rows[task].2 || order.contains(&elder))
            };
            while order.len() < rows.len() {
                let candidates: Vec<usize> = (1..rows.len()).filter(|&task| ready(&order, task)).collect();
                order.push(candidates[picks[order.len()].index(candidates.len())]);
            }
            let tid = |task: usize| 100 + task as i32;
            let starts: Vec<_> = order
                .iter()
                .map(|&task| (rows[task].2.map_or(0, |parent| tid(parent as usize)), tid(0), tid(task)))
                .collect();
            let (found, _) = recognised(Identify::Tree, &rows, &starts);
            prop_assert_eq!(found, order.into_iter().map(Some).collect::<Vec<_>>());
        }
    }
}
