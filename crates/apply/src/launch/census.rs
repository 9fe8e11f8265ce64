//! Who is who: the processes and threads of the run as they come and go, and the task each of them is.
//!
//! Knows nothing of how their starts were noticed, and changes nothing.

use super::plan::{Key, Keys, LaunchPlan};
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
}

/// The threads of the run.
#[derive(Debug)]
pub(crate) struct Census {
    keys: Keys,
    /// Process of each planned task.
    planned_processes: Vec<u32>,
    seen: Vec<bool>,
    unseen: usize,
    processes: Vec<Process>,
    by_pid: HashMap<i32, u32>,
    threads: HashMap<i32, Thread>,
}

impl Census {
    pub(crate) fn new(plan: &LaunchPlan) -> Self {
        Self {
            keys: Keys::new(plan),
            planned_processes: plan.tasks.iter().map(|planned| planned.process).collect(),
            seen: vec![false; plan.tasks.len()],
            unseen: plan.tasks.len(),
            processes: Vec::new(),
            by_pid: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    /// A process began; without a creator it is the command (the first), or one whose creator is not known.
    pub(crate) fn process_started(&mut self, creator: Option<i32>, pid: i32) -> Option<usize> {
        let index = self.processes.len() as u32;
        let created_by = creator.and_then(|creator| self.threads.get_mut(&creator)).map(|creator| {
            creator.processes_created += 1;
            (creator.task, creator.processes_created - 1)
        });
        let by_order = if index == 0 { Key::Command } else { Key::Order { process: index, spawn_index: 0 } };
        let task = self.recognise(by_order, created_by, |parent, rank| Key::ProcessOf { parent, rank });
        // In the tree a process may be another one of the plan than its place in the order says.
        let planned_as = task.map_or(index, |task| self.planned_processes[task]);
        let unseen = (0..self.seen.len()).filter(|&t| self.planned_processes[t] == planned_as && !self.seen[t]).count();
        self.processes.push(Process { pid, threads_started: 1, alive: true, unseen });
        self.by_pid.insert(pid, index);
        self.threads.insert(pid, Thread { process: index, task, threads_created: 0, processes_created: 0 });
        task
    }

    /// A thread of process `pid` began. The creator is unknown to a watcher of /proc.
    pub(crate) fn thread_started(&mut self, creator: Option<i32>, pid: i32, tid: i32) -> Option<usize> {
        let Some(&process) = self.by_pid.get(&pid) else { return self.process_started(creator, pid) };
        let spawn_index = self.processes[process as usize].threads_started;
        self.processes[process as usize].threads_started += 1;
        let created_by = creator.and_then(|creator| self.threads.get_mut(&creator)).map(|creator| {
            creator.threads_created += 1;
            (creator.task, creator.threads_created - 1)
        });
        let by_order = Key::Order { process, spawn_index };
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
        by_order: Key,
        created_by: Option<(Option<usize>, u32)>,
        tree_key: impl Fn(usize, u32) -> Key,
    ) -> Option<usize> {
        let by_tree = created_by.and_then(|(parent, rank)| Some(tree_key(parent?, rank)));
        let task = self.keys.task(by_order).or_else(|| self.keys.task(by_tree?))?;
        if std::mem::replace(&mut self.seen[task], true) {
            return None;
        }
        self.unseen -= 1;
        Some(task)
    }

    /// Thread `former` of process `pid` executed another program: the others are gone, and it is the main thread now.
    /// Threads that the new program starts are counted on from those of the old.
    pub(crate) fn executed(&mut self, former: i32, pid: i32) {
        let Some(&process) = self.by_pid.get(&pid) else { return };
        let Some(survivor) = self.threads.get(&former).cloned() else { return };
        self.threads.retain(|_, thread| thread.process != process);
        self.threads.insert(pid, survivor);
    }

    /// A thread ended; a main thread's end is reported when its whole process has ended.
    pub(crate) fn ended(&mut self, tid: i32) {
        self.threads.remove(&tid);
        if let Some(process) = self.by_pid.remove(&tid) {
            self.processes[process as usize].alive = false;
            self.threads.retain(|_, thread| thread.process != process);
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

    /// Planned tasks that have not been seen, by index into the plan.
    pub(crate) fn missing(&self) -> Vec<usize> {
        (0..self.seen.len()).filter(|&task| !self.seen[task]).collect()
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
    use super::Census;
    use crate::launch::plan::{Identify, LaunchPlan, PlannedTask};
    use proptest::prelude::*;

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
            name: String::new(),
        };
        let plan = LaunchPlan { tasks: rows.iter().enumerate().map(task).collect(), identify };
        plan.check().unwrap();
        let mut census = Census::new(&plan);
        let start = |&(creator, pid, tid): &(i32, i32, i32)| {
            let creator = (creator != 0).then_some(creator);
            if pid == tid { census.process_started(creator, pid) } else { census.thread_started(creator, pid, tid) }
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
            census.executed(10, 9);
            assert_eq!(census.threads_of(9), [9]);
            assert_eq!(census.thread(9).unwrap().task, Some(1), "the thread that executed lives on as the main thread");
            assert_eq!(census.thread_started(Some(9), 9, 11), Some(2));
            assert!(!census.expects_threads(9));
            census.ended(9);
            assert_eq!(census.running(), Vec::<i32>::new());
        }
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
