//! Which tasks of a run are in its recording, and what they are called there.

use crate::dbi::image::Image;
use crate::dbi::tasks::{OF_MPI, Tasks};
use std::collections::{BTreeMap, HashMap};

/// A task of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its number in the run.
    pub id: u32,
    pub name: String,
    /// The number of its process in the recording.
    pub process: u32,
}

/// The tasks of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub tasks: Vec<Entry>,
    /// By the number in the run: that in the recording.
    numbers: HashMap<u32, u32>,
}

impl Kept {
    fn new(tasks: Vec<Entry>) -> Self {
        let numbers = tasks.iter().zip(0..).map(|(entry, number)| (entry.id, number)).collect();
        Self { tasks, numbers }
    }

    /// The number in the recording of a task of the run; none where it is left out.
    pub fn number(&self, id: u32) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// All of them, by their own names.
    pub fn all(found: &Tasks) -> Self {
        let entry = |task: &cohabit_model::Task| Entry { id: task.id, name: task.name.clone(), process: task.process };
        Self::new(found.tasks.iter().map(entry).collect())
    }

    /// Ranks with their threads, rank by rank: without the launcher, and threads that MPI made for itself. `ranks` are those of the
    /// images' processes. Where a rank is started by a script only processes that load MPI are ranks. None where there is none.
    pub fn ranks(found: &Tasks, images: &[Image], ranks: &[Option<u32>]) -> Option<Self> {
        let mut of_process: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        for ((image, rank), &process) in images.iter().zip(ranks).zip(&found.process) {
            let Some(rank) = *rank else { continue };
            let entry = of_process.entry(process).or_insert((rank, false));
            *entry = (rank, entry.1 || loads_mpi(image));
        }
        let some_load = of_process.values().any(|(_, loads)| *loads);
        let chosen = of_process.iter().filter(|(_, (_, loads))| *loads || !some_load);
        let mut processes: Vec<(u32, u32)> = chosen.map(|(&process, &(rank, _))| (rank, process)).collect();
        processes.sort_unstable();
        let mut tasks = Vec::new();
        for (number, &(rank, process)) in (0..).zip(&processes) {
            let several = processes.iter().filter(|(other, _)| *other == rank).count() > 1;
            let own = found.tasks.iter().filter(|task| task.process == process);
            for (at, task) in own.filter(|task| !task.unknown.contains_key(OF_MPI)).enumerate() {
                let name = match (at, several) {
                    (0, false) => format!("rank {rank}"),
                    _ => format!("rank {rank}, {}", task.name),
                };
                tasks.push(Entry { id: task.id, name, process: number });
            }
        }
        (!tasks.is_empty()).then(|| Self::new(tasks))
    }
}

fn loads_mpi(image: &Image) -> bool {
    let name = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("libmpi"));
    image.modules.iter().any(|module| name(&module.path))
}
