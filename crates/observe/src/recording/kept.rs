//! Which tasks of a run are in its recording, and what they are called there.

use crate::dbi::image::Image;
use crate::dbi::tasks::Tasks;
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

    /// Ranks with their threads, rank by rank: without the launcher, and threads that MPI made for itself. `ranks` are
    /// those of the images' processes. Where a rank is started by a script only processes that load MPI are ranks. None
    /// where there is none.
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
            for (at, task) in own.filter(|task| !task.of_mpi).enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbi::abi::COHABIT_END_EXEC;
    use crate::dbi::tasks::identify;
    use crate::dbi::testing::PartBuilder;

    /// A launcher (process 5), two ranks by exec, the second one by way of a script that goes on, with a thread of
    /// MPI's own.
    fn run(mpi: &str) -> (Vec<Image>, Vec<Option<u32>>) {
        let exec = |mut part: PartBuilder| {
            part.head.end = COHABIT_END_EXEC;
            part
        };
        let rank = |pid, ppid, at| {
            let part = PartBuilder::new(pid, ppid, at).task(None, "a.out").task(Some(0), "t");
            part.with(|task| task.of_mpi = 1).task(Some(0), "worker").module(0, 4096, 0, mpi)
        };
        let parts = [
            (PartBuilder::new(5, 1, 100).task(None, "mpirun").task(Some(0), "t"), None),
            (exec(PartBuilder::new(6, 5, 200).task(None, "mpirun")), None),
            (exec(PartBuilder::new(7, 5, 300).task(None, "mpirun")), None),
            (PartBuilder::new(7, 5, 400).task(None, "sh"), Some(0)),
            (rank(6, 5, 500), Some(1)),
            (rank(8, 7, 600), Some(0)),
        ];
        let image = |part: PartBuilder| Image::read(&part.finish()[..]).expect("a good part").expect("not empty");
        parts.into_iter().map(|(part, rank)| (image(part), rank)).unzip()
    }

    #[test]
    fn ranks_are_kept_in_their_order() {
        let (images, ranks) = run("/usr/lib/libmpi.so.40");
        let found = identify(&images, "h");
        let kept = Kept::ranks(&found, &images, &ranks).expect("ranks");
        let told: Vec<_> = kept.tasks.iter().map(|entry| (entry.name.as_str(), entry.process)).collect();
        assert_eq!(told, [("rank 0", 0), ("rank 0, worker", 0), ("rank 1", 1), ("rank 1, worker", 1)]);
        let pids: Vec<_> = kept.tasks.iter().map(|entry| found.tasks[entry.id as usize].pid).collect();
        assert_eq!(pids, [8, 8, 6, 6]);
        assert_eq!((kept.number(found.ids[5][2]), kept.number(found.ids[0][0])), (Some(1), None));
    }

    #[test]
    fn where_no_process_loads_mpi_all_that_have_a_rank_are_kept() {
        let (images, ranks) = run("/usr/lib/libc.so.6");
        let found = identify(&images, "h");
        let kept = Kept::ranks(&found, &images, &ranks).expect("ranks");
        let names: Vec<_> = kept.tasks.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["rank 0, sh", "rank 0, a.out", "rank 0, worker", "rank 1", "rank 1, worker"]);
        assert_eq!(Kept::ranks(&found, &images, &[None; 6]), None);
        assert_eq!(Kept::all(&found).tasks.len(), found.tasks.len());
    }
}
