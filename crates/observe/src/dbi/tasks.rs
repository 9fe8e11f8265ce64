//! Whose parts are whose: images to processes, and their tasks to the tasks of the profile.
//!
//! Processes are numbered in the order they were started in, which is not always the one in which they come to be seen:
//! of two children of a process the second may be the first to run. A process that calls exec stays one: its main
//! thread goes on, the threads of the later image are new ones. A forked child is a process of its own.

use super::abi;
use super::image::Image;
use cohabit_model::Task;
use cohabit_model::profile::TaskKind;
use std::collections::HashMap;

/// The tasks of the whole run, and where those of each image are among them.
pub struct Tasks {
    /// By id.
    pub tasks: Vec<Task>,
    /// For each image, in the order given, the ids of its tasks.
    pub ids: Vec<Vec<u32>>,
    /// For each image its process.
    pub process: Vec<u32>,
    /// The number of processes.
    pub processes: u32,
    /// The tasks by their number in memory that processes share.
    common: HashMap<u32, u32>,
}

impl Tasks {
    /// The id of a partner of a task of image `at`; none where the part that tells who it is was lost.
    pub fn partner(&self, at: usize, partner: u32) -> Option<u32> {
        match partner.checked_sub(abi::COHABIT_COMMON_TASKS) {
            None => self.ids[at].get(partner as usize).copied(),
            Some(common) => self.common.get(&common).copied(),
        }
    }

    /// Messages of partners of whom nothing is known.
    pub fn of_unknown(&self, images: &[Image]) -> u64 {
        let of_image = |(at, image): (usize, &Image)| {
            let cells = image.tasks.iter().flat_map(|task| &task.cells);
            let unknown = cells.filter(|(partner, _)| self.partner(at, *partner).is_none());
            unknown.fold(0, |sum, (_, cell)| u64::saturating_add(sum, cell.messages))
        };
        images.iter().enumerate().map(of_image).fold(0, u64::saturating_add)
    }
}

/// Numbers the tasks of `images`, which are in the order in which they were seen first.
pub fn identify(images: &[Image], host: &str) -> Tasks {
    let (process, processes) = processes(images);
    let ids = vec![Vec::new(); images.len()];
    let found = Tasks { tasks: Vec::new(), ids, process, processes, common: HashMap::new() };
    let mut numbering = Numbering { images, host, found, main_threads: Vec::new() };
    for process in 0..processes {
        numbering.number_process(process);
    }
    numbering.name_borrowed();
    let mut found = numbering.found;
    for (image, ids) in images.iter().zip(&found.ids) {
        let numbered = image.tasks.iter().zip(ids).filter_map(|(task, &id)| Some((task.common?, id)));
        found.common.extend(numbered);
    }
    found
}

/// The numbering under way.
struct Numbering<'a> {
    images: &'a [Image],
    host: &'a str,
    found: Tasks,
    /// Of each process numbered so far; none where its images have no tasks.
    main_threads: Vec<Option<u32>>,
}

/// Stands for a task of another process until all have their numbers.
const BORROWED: u32 = u32::MAX;

impl Numbering<'_> {
    fn number_process(&mut self, process: u32) {
        let starter = parent_process(self.images, &self.found.process, process);
        let starter = starter.and_then(|starter| *self.main_threads.get(starter as usize)?);
        let (mut main_thread, mut spawn_index) = (None, 0);
        for at in 0..self.images.len() {
            if self.found.process[at] != process {
                continue;
            }
            for task in 0..self.images[at].tasks.len() {
                let id = match main_thread {
                    Some(main) if task == 0 => self.goes_on(main, at),
                    _ if self.owner(at, task).is_some() => BORROWED,
                    _ => {
                        let parent = if spawn_index == 0 { starter } else { self.creator(at, task).or(main_thread) };
                        spawn_index += 1;
                        self.add(at, task, parent, spawn_index - 1)
                    }
                };
                main_thread.get_or_insert(id);
                self.found.ids[at].push(id);
            }
        }
        self.main_threads.push(main_thread);
    }

    fn add(&mut self, at: usize, task: usize, parent: Option<u32>, spawn_index: u32) -> u32 {
        let image = &self.images[at];
        let id = self.found.tasks.len() as u32;
        let name = match image.tasks[task].name.as_str() {
            "" => format!("thread {spawn_index}"),
            name => name.to_owned(),
        };
        self.found.tasks.push(Task {
            host: self.host.to_owned(),
            process: self.found.process[at],
            pid: image.head.pid,
            tid: image.tasks[task].tid,
            parent,
            spawn_index,
            of_mpi: image.tasks[task].of_mpi,
            ..Task::new(id, TaskKind::Thread, name)
        });
        id
    }

    /// After exec the main thread is called what the new program is called.
    fn goes_on(&mut self, main: u32, at: usize) -> u32 {
        let name = &self.images[at].tasks[0].name;
        if !name.is_empty() {
            self.found.tasks[main as usize].name.clone_from(name);
        }
        main
    }

    fn creator(&self, at: usize, task: usize) -> Option<u32> {
        let creator = self.images[at].tasks[task].parent.filter(|&creator| (creator as usize) < task)?;
        Some(self.found.ids[at][creator as usize]).filter(|&id| id != BORROWED)
    }

    /// The later image that a task turned out to belong to: between vfork (posix_spawn) and exec a new process runs in
    /// its parent's memory, and is seen there as a task that no thread created.
    fn owner(&self, at: usize, task: usize) -> Option<usize> {
        let seen = &self.images[at].tasks[task];
        let child = |image: &Image| image.head.pid == seen.tid && seen.tid != self.images[at].head.pid;
        if task == 0 || seen.parent.is_some() {
            return None;
        }
        (at + 1..self.images.len()).find(|&later| child(&self.images[later]))
    }

    /// Gives tasks that belong to other processes those processes' main threads.
    fn name_borrowed(&mut self) {
        for at in 0..self.images.len() {
            for task in 0..self.found.ids[at].len() {
                if self.found.ids[at][task] == BORROWED {
                    let process = self.owner(at, task).map_or(0, |owner| self.found.process[owner]);
                    let own = self.found.ids[at][0];
                    self.found.ids[at][task] = self.main_threads[process as usize].unwrap_or(own);
                }
            }
        }
    }
}

/// For each image its process: a new one, unless it is what the latest image of the same process id became by exec. And
/// how many there are.
fn processes(images: &[Image]) -> (Vec<u32>, u32) {
    let mut process: Vec<u32> = Vec::with_capacity(images.len());
    let mut firsts = Vec::new();
    for (at, image) in images.iter().enumerate() {
        let earlier = (0..at).rev().find(|&earlier| images[earlier].head.pid == image.head.pid);
        let before_exec = earlier.filter(|&earlier| images[earlier].head.end == abi::COHABIT_END_EXEC);
        process.push(before_exec.map_or(firsts.len() as u32, |earlier| process[earlier]));
        if before_exec.is_none() {
            firsts.push(image);
        }
    }
    let mut number = vec![0; firsts.len()];
    for (new, old) in by_birth(&firsts).into_iter().enumerate() {
        number[old] = new as u32;
    }
    (process.into_iter().map(|old| number[old as usize]).collect(), number.len() as u32)
}

/// Process ids that are further apart than this, of one clock tick, are on both sides of the largest: the kernel begins
/// again.
const AROUND: u32 = 1 << 14;

/// The processes, of which these are the first images, in the order of their birth: by clock tick and, within one, by
/// process id, which the kernel gives out in turn. The first is the command, and stays. As they are where the kernel
/// did not tell of all when they were born.
fn by_birth(firsts: &[&Image]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..firsts.len()).collect();
    if firsts.iter().any(|image| image.head.born == 0) {
        return order;
    }
    let mut largest: HashMap<u64, u32> = HashMap::new();
    for image in firsts {
        let largest = largest.entry(image.head.born).or_default();
        *largest = image.head.pid.max(*largest);
    }
    order.sort_by_key(|&at| {
        let head = &firsts[at].head;
        let again = largest[&head.born] - head.pid > AROUND;
        (at > 0, head.born, again, head.pid)
    });
    order
}

/// The process that started process `number`: the latest before it with its parent's process id.
fn parent_process(images: &[Image], process: &[u32], number: u32) -> Option<u32> {
    let first = process.iter().position(|&found| found == number)?;
    let parent = (0..first).rev().find(|&earlier| images[earlier].head.pid == images[first].head.ppid)?;
    Some(process[parent])
}
