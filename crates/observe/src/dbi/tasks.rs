//! Whose parts are whose: images to processes, and their tasks to the tasks of the profile.
//!
//! Processes are numbered in the order they were started in. A process that calls exec stays one: its main thread goes
//! on, the threads of the later image are new ones. A forked child is a process of its own.

use super::abi;
use super::image::Image;
use cohabit_model::Task;

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
}

/// Numbers the tasks of `images`, which are in the order of their start.
pub fn identify(images: &[Image], host: &str) -> Tasks {
    let process = processes(images);
    let count = process.iter().max().map_or(0, |last| last + 1);
    let mut found = Tasks { tasks: Vec::new(), ids: vec![Vec::new(); images.len()], process, processes: count };
    let mut main_thread = vec![None; count as usize];
    for number in 0..count {
        let parent = parent_process(images, &found.process, number).and_then(|parent| main_thread[parent as usize]);
        let mut spawn_index = 0;
        for (at, image) in images.iter().enumerate().filter(|(at, _)| found.process[*at] == number) {
            for task in 0..image.tasks.len() {
                let id = match (task, main_thread[number as usize]) {
                    (0, Some(main)) => {
                        rename(&mut found.tasks[main as usize], image);
                        main
                    }
                    _ => {
                        let id = found.tasks.len() as u32;
                        main_thread[number as usize].get_or_insert(id);
                        let creator = image.tasks[task].parent.filter(|&creator| (creator as usize) < task);
                        let creator = creator.map(|creator| found.ids[at][creator as usize]);
                        found.tasks.push(Task {
                            id,
                            kind: "thread".to_owned(),
                            name: name(image, task, spawn_index),
                            host: host.to_owned(),
                            process: number,
                            pid: image.head.pid,
                            tid: image.tasks[task].tid,
                            parent: if spawn_index == 0 { parent } else { creator },
                            rank: None,
                            spawn_index,
                            unknown: Default::default(),
                        });
                        spawn_index += 1;
                        id
                    }
                };
                found.ids[at].push(id);
            }
        }
    }
    found
}

/// For each image its process: a new one, unless it is what the latest image of the same process id became by exec.
fn processes(images: &[Image]) -> Vec<u32> {
    let mut process: Vec<u32> = Vec::with_capacity(images.len());
    let mut count = 0;
    for (at, image) in images.iter().enumerate() {
        let earlier = (0..at).rev().find(|&earlier| images[earlier].head.pid == image.head.pid);
        let before_exec = earlier.filter(|&earlier| images[earlier].head.end == abi::COHABIT_END_EXEC);
        process.push(before_exec.map_or(count, |earlier| process[earlier]));
        count = count.max(process[at] + 1);
    }
    process
}

/// The process that started process `number`: the latest before it with its parent's process id.
fn parent_process(images: &[Image], process: &[u32], number: u32) -> Option<u32> {
    let first = process.iter().position(|&found| found == number)?;
    let parent = (0..first).rev().find(|&earlier| images[earlier].head.pid == images[first].head.ppid)?;
    Some(process[parent])
}

fn name(image: &Image, task: usize, spawn_index: u32) -> String {
    match image.tasks[task].name.as_str() {
        "" if spawn_index == 0 => "main".to_owned(),
        "" => format!("thread {spawn_index}"),
        name => name.to_owned(),
    }
}

/// After exec the main thread is called what the new program is called.
fn rename(task: &mut Task, image: &Image) {
    if let Some(main) = image.tasks.first().filter(|main| !main.name.is_empty()) {
        task.name.clone_from(&main.name);
    }
}
