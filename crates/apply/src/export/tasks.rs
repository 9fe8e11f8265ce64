//! The tasks of a mapping as launchers number them: MPI ranks (or processes), or the threads of one process.

use super::Placement;
use crate::room::listed;
use cohabit_model::mapping::Placed;
use cohabit_model::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// A rank, or a process where there are no ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank<'a> {
    /// The host it runs on; empty where the mapping names none.
    pub host: &'a str,
    /// OS indices of the PUs of all its tasks, ascending.
    pub pus: Vec<u32>,
    /// OS indices of the PUs that it may use, ascending: those of its tasks; of a rank with one task all that serve it
    /// as well ([`Placed::pus`]), where there are more of them than tasks. Where there is none to spare, a PU each
    /// keeps the scheduler from putting two ranks on one.
    pub room: Vec<u32>,
    /// The PU of each of its tasks, in the order in which they are started.
    pub threads: Vec<u32>,
    /// How many tasks it has: 1, or its threads.
    tasks: usize,
    /// Its number.
    number: usize,
}

impl Rank<'_> {
    /// Its PU, for a format that gives a rank only one.
    ///
    /// # Errors
    /// Where its threads are on several.
    pub fn pu(&self, format: &str) -> Result<u32> {
        match self.pus[..] {
            [pu] => Ok(pu),
            _ => {
                let (number, tasks) = (self.number, self.tasks);
                let pus = self.pus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                let cause = format!("rank {number} has {tasks} threads on PUs {pus}, and {format} gives a rank one PU");
                Err(Error::new(cause).remedy(
                    "a rank with several PUs can be said to open-mpi-4, open-mpi-5, mpich-binding, slurm-mask-cpu and taskset",
                ))
            }
        }
    }
}

/// The ranks, by number; processes where no task has a rank.
///
/// # Errors
/// Where the tasks are threads of one process, some have a rank and some have none, or the numbers have gaps.
pub fn ranks<'a>(placement: &Placement<'a>, format: &str) -> Result<Vec<Rank<'a>>> {
    let tasks = some_tasks(placement)?;
    let ranked = tasks.iter().filter(|task| task.rank.is_some()).count();
    if ranked == 0 && tasks.len() > 1 && tasks.iter().all(|task| task.process == tasks[0].process) {
        let cause = format!("the {} tasks are threads of one process, and {format} places ranks", tasks.len());
        return Err(Error::new(cause).remedy(
            "export omp-places, gomp-cpu-affinity, kmp-affinity, likwid-pin or taskset; \
             a matrix between ranks is imported with --kind ranks",
        ));
    }
    if ranked != 0 && ranked != tasks.len() {
        let without = tasks.iter().find(|task| task.rank.is_none()).map_or(0, |task| task.task);
        let cause = format!("task {without} has no rank, and {format} places ranks");
        return Err(Error::new(cause).remedy("make the profile of the ranks alone"));
    }
    let mut found: BTreeMap<u32, Rank> = BTreeMap::new();
    let mut in_order: Vec<&Placed> = tasks.iter().collect();
    in_order.sort_by_key(|task| task.spawn_index);
    for task in in_order {
        let number = task.rank.unwrap_or(task.process);
        let rank = found.entry(number).or_insert_with(|| Rank {
            host: &task.host,
            pus: Vec::new(),
            room: Vec::new(),
            threads: Vec::new(),
            tasks: 0,
            number: number as usize,
        });
        if rank.host != task.host {
            let cause = format!("rank {number} has threads on the hosts {:?} and {:?}", rank.host, task.host);
            return Err(Error::new(cause).remedy("make the mapping again from its profile"));
        }
        rank.tasks += 1;
        rank.pus.push(task.pu);
        rank.threads.push(task.pu);
    }
    let ranks: Vec<Rank> = found.into_values().collect();
    if let Some((expected, rank)) = ranks.iter().enumerate().find(|(expected, rank)| rank.number != *expected) {
        let cause = format!("there is no rank {expected}, but a rank {}", rank.number);
        return Err(
            Error::new(cause).remedy("map the profile of the whole run: launchers number ranks from 0 without gaps")
        );
    }
    with_room(ranks.into_iter().map(Rank::sorted).collect(), tasks)
}

/// Gives each rank the PUs that it may use.
fn with_room<'a>(mut ranks: Vec<Rank<'a>>, tasks: &'a [Placed]) -> Result<Vec<Rank<'a>>> {
    let mut taken: HashMap<&str, Vec<u32>> = HashMap::new();
    tasks.iter().for_each(|task| taken.entry(&task.host).or_default().push(task.pu));
    for rank in &mut ranks {
        rank.room.clone_from(&rank.pus);
    }
    // Ranks have few different rooms: the tasks in each are counted once.
    let mut has_spare: HashMap<(&str, &str), bool> = HashMap::new();
    for task in tasks.iter().filter(|task| !task.pus.is_empty()) {
        let rank = &mut ranks[task.rank.unwrap_or(task.process) as usize];
        if rank.tasks > 1 {
            continue;
        }
        let listed = listed(task.task, task.pu, &task.pus)?;
        let has_spare = has_spare.entry((&task.host, &task.pus)).or_insert_with(|| {
            let tasks = taken[task.host.as_str()].iter().filter(|&&pu| listed.contains(pu)).count();
            tasks < listed.pus().len()
        });
        if *has_spare {
            rank.room = listed.pus();
        }
    }
    Ok(ranks)
}

impl Rank<'_> {
    fn sorted(mut self) -> Self {
        self.pus.sort_unstable();
        self.pus.dedup();
        self
    }
}

/// The PU of each thread, by thread number: 0 is the main thread, then in the order they are started.
///
/// # Errors
/// Where the tasks are of several processes, or threads are missing.
pub fn threads(placement: &Placement, format: &str) -> Result<Vec<u32>> {
    let tasks = some_tasks(placement)?;
    let process_of = |task: &Placed| (task.rank, task.process, task.host.clone());
    if let Some(other) = tasks.iter().find(|task| process_of(task) != process_of(&tasks[0])) {
        let (first, other) = (tasks[0].task, other.task);
        let cause = format!("tasks {first} and {other} are of two processes, and {format} places the threads of one");
        return Err(Error::new(cause).remedy(
            "for ranks export open-mpi-4, open-mpi-5, mpich-binding, slurm-map-cpu or taskset; \
             `cohabit run --mapping` places threads of several processes",
        ));
    }
    let mut pus: Vec<(u32, u32)> = tasks.iter().map(|task| (task.spawn_index, task.pu)).collect();
    pus.sort_unstable();
    if let Some((expected, &(found, _))) = (0u32..).zip(&pus).find(|(expected, (found, _))| found != expected) {
        let cause = if found < expected {
            format!("two tasks are thread {found} of the process")
        } else {
            format!("the mapping has no thread {expected} of the process, but a thread {found}")
        };
        return Err(Error::new(cause).remedy("`cohabit run --mapping` places threads by the order they are started in"));
    }
    Ok(pus.into_iter().map(|(_, pu)| pu).collect())
}

fn some_tasks<'a>(placement: &Placement<'a>) -> Result<&'a [Placed]> {
    match &placement.mapping.tasks[..] {
        [] => {
            Err(Error::new("the mapping has no task: there is nothing to launch").remedy("map a profile that has some"))
        }
        tasks => Ok(tasks),
    }
}

/// Numbers with a separator between them.
pub fn joined(numbers: impl IntoIterator<Item = u32>, separator: &str) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(separator)
}
