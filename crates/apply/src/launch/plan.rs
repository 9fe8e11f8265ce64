//! Which thread of a run goes on which PU, and how a thread is recognised.

use super::phases::PhaseSeat;
use crate::room::{listed, not_allowed};
use cohabit_host::affinity::CpuMask;
use cohabit_model::mapping::{PhaseMapping, Placed, Seat};
use cohabit_model::timeline::By;
use cohabit_model::{Error, Mapping, Result};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// How a thread of a new run is matched with a task of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identify {
    /// By its process (in the order processes start) and the order of creation within it.
    #[default]
    Order,
    /// By the thread that created it and its place among that thread's children: right where several threads create
    /// others at once, so that the order over the whole process varies.
    Tree,
}

/// A task and the PU it is to run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTask {
    /// The task's id in the profile: what reports call it, and what [`PlannedTask::parent`] refers to.
    pub task: u32,
    /// Index of its process, in the order processes start; 0 is the command itself.
    pub process: u32,
    /// Order of creation within its process; 0 is the main thread.
    pub spawn_index: u32,
    /// The task that created it; none for the main thread of the command.
    pub parent: Option<u32>,
    /// OS index of the PU (hwloc P#).
    pub pu: u32,
    /// The PUs it is confined to: its own, or all that serve as well.
    pub pus: CpuMask,
    /// Its name, for messages.
    pub name: String,
}

/// How closely threads are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pinning {
    /// As far as the distance cost needs it: a thread that gains nothing anywhere runs wherever the system puts it.
    #[default]
    Needed,
    /// Each thread to the one PU of its task.
    Always,
}

/// Where each thread of a run goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaunchPlan {
    /// The tasks. With none of them the command runs as it is.
    pub tasks: Vec<PlannedTask>,
    /// How they are recognised.
    pub identify: Identify,
    /// The executable of each process, by [`PlannedTask::process`]; empty where it is not known. Where any is known,
    /// processes are recognised by what they execute, whoever starts them, else by the order in which they start.
    pub programs: Vec<String>,
    /// Threads stay where the plan has them even where two share a PU while another is idle.
    pub may_crowd: bool,
    /// Where each of the tasks goes, in their order, in the phases that the program announces by these numbers, or that
    /// a [`Conductor`](super::phases::Conductor) does.
    pub phases: BTreeMap<u64, Vec<PhaseSeat>>,
}

impl LaunchPlan {
    /// The plan that a mapping made on one machine amounts to, where the command may use the PUs `allowed`. A task that
    /// may run on any of them is not in it.
    ///
    /// # Errors
    /// When the mapping spans hosts, or its tasks cannot be told apart (see [`LaunchPlan::check`]).
    pub fn from_mapping(mapping: &Mapping, identify: Identify, pinning: Pinning, allowed: &CpuMask) -> Result<Self> {
        let hosts: HashSet<&str> = mapping.tasks.iter().map(|placed| placed.host.as_str()).collect();
        if hosts.len() > 1 {
            return Err(Error::new(format!("the mapping places tasks on {} hosts", hosts.len())).remedy(
                "write a file for the MPI launcher with `cohabit map --export`, and start the program with it",
            ));
        }
        let planned = |placed: &Placed| {
            Ok(PlannedTask {
                task: placed.task,
                process: placed.process,
                spawn_index: placed.spawn_index,
                parent: placed.parent,
                pu: placed.pu,
                pus: room((placed.task, placed.pu, &placed.pus), pinning, allowed)?,
                name: placed.name.clone(),
            })
        };
        let tasks = mapping.tasks.iter().map(planned).collect::<Result<_>>()?;
        let may_crowd = pinning == Pinning::Always;
        let phases = phases_of(mapping, pinning, allowed)?;
        let mut plan = Self { tasks, identify, programs: mapping.programs.clone(), may_crowd, phases };
        plan.check()?;
        let is_free = |pus: &CpuMask| pus == allowed;
        if plan.tasks.iter().all(|planned| is_free(&planned.pus))
            && plan.phases.values().flatten().all(|seat| is_free(&seat.pus))
        {
            plan.tasks.clear();
            plan.phases.clear();
        }
        Ok(plan)
    }

    /// Whether each task can be recognised: no two are the same thread, and with [`Identify::Tree`] every task hangs
    /// on the command's main thread by its parents.
    ///
    /// # Errors
    /// The first task that cannot.
    pub fn check(&self) -> Result<()> {
        let mut by_order = HashMap::new();
        let mut by_id = HashMap::new();
        for planned in &self.tasks {
            if let Some(other) = by_order.insert((planned.process, planned.spawn_index), planned.task) {
                return Err(Error::new(format!(
                    "tasks {other} and {} are both thread {} of process {}",
                    planned.task, planned.spawn_index, planned.process
                ))
                .remedy("make the mapping again from its profile"));
            }
            if by_id.insert(planned.task, planned.process).is_some() {
                return Err(Error::new(format!("task {} is in the mapping twice", planned.task))
                    .remedy("make the mapping again from its profile"));
            }
        }
        match self.identify {
            Identify::Order => Ok(()),
            Identify::Tree => self.check_tree(),
        }
    }

    fn check_tree(&self) -> Result<()> {
        let keys = Keys::new(self);
        let reached = keys.reached_from_the_command();
        match (0..self.tasks.len()).find(|&index| !reached[index]) {
            None => Ok(()),
            Some(index) => Err(Error::new(format!(
                "task {} has no line of parents back to the command's main thread",
                self.tasks[index].task
            ))
            .remedy("identify threads by their order (`--identify order`), or profile the program again")),
        }
    }

    /// Whether `allowed` holds every PU of the plan.
    ///
    /// # Errors
    /// The first task whose PU it lacks.
    pub fn check_allowed(&self, allowed: &CpuMask) -> Result<()> {
        let at_first = self.tasks.iter().map(|planned| (planned.task, planned.pu));
        let in_phases = self.phases.values().flat_map(|seats| self.tasks.iter().zip(seats));
        let mut all = at_first.chain(in_phases.map(|(planned, seat)| (planned.task, seat.pu)));
        match all.find(|&(_, pu)| !allowed.contains(pu)) {
            None => Ok(()),
            Some((task, pu)) => Err(not_allowed(task, pu, allowed)),
        }
    }
}

/// Where each task goes in each phase that is announced or recognised.
fn phases_of(mapping: &Mapping, pinning: Pinning, allowed: &CpuMask) -> Result<BTreeMap<u64, Vec<PhaseSeat>>> {
    let Some(phases) = &mapping.phases else { return Ok(BTreeMap::new()) };
    let is_recognised = phases.mappings.iter().all(|phase| phase.recognised_by.is_some());
    match phases.by {
        By::Markers => {}
        By::Calls => {
            return Err(Error::new("the mapping changes at call sites of MPI, to which ranks come and not threads").remedy(
                "mark the program's phases by cohabit_phase (include/cohabit.h), profile and map it again, or map without --per-phase",
            ));
        }
        By::Recurring | By::Clusters if is_recognised => {}
        By::Recurring | By::Clusters => {
            let of = if phases.by == By::Recurring { "windows that come again" } else { "clusters in time" };
            let cause = format!("the mapping changes between {of}, and does not say by what they are recognised");
            return Err(Error::new(cause).remedy("make it again with this version (cohabit map --per-phase)"));
        }
    }
    let seat =
        |seat: &Seat| Ok(PhaseSeat { pu: seat.pu, pus: room((seat.task, seat.pu, &seat.pus), pinning, allowed)? });
    let phase = |phase: &PhaseMapping| Ok((phase.number, phase.tasks.iter().map(seat).collect::<Result<_>>()?));
    phases.mappings.iter().map(phase).collect()
}

/// The PUs that a task is confined to, of its PU and those that serve as well.
fn room((task, pu, pus): (u32, u32, &str), pinning: Pinning, allowed: &CpuMask) -> Result<CpuMask> {
    if pinning == Pinning::Always || pus.is_empty() {
        return Ok(CpuMask::single(pu));
    }
    let listed = listed(task, pu, pus)?.pus();
    Ok(CpuMask::from_pus(listed.into_iter().filter(|&pu| allowed.contains(pu))))
}

/// The file name of an executable: the same program may lie elsewhere on another machine.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What a thread is recognised by. Tasks are indices into [`LaunchPlan::tasks`] here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The main thread of the command.
    Command,
    /// Thread `spawn_index` of process `process`.
    Order { process: u32, spawn_index: u32 },
    /// The `rank`-th thread that `parent` created.
    ThreadOf { parent: usize, rank: u32 },
    /// The main thread of the `rank`-th process that `parent` created.
    ProcessOf { parent: usize, rank: u32 },
}

/// The task of each key.
#[derive(Debug)]
pub(crate) struct Keys {
    tasks: HashMap<Key, usize>,
    count: usize,
}

impl Keys {
    pub(crate) fn new(plan: &LaunchPlan) -> Self {
        let tasks = match plan.identify {
            Identify::Order => order_keys(&plan.tasks),
            Identify::Tree => tree_keys(&plan.tasks),
        };
        Self { tasks, count: plan.tasks.len() }
    }

    pub(crate) fn task(&self, key: Key) -> Option<usize> {
        self.tasks.get(&key).copied()
    }

    /// For each task, whether its parents lead back to the command. Parents in a circle lead nowhere.
    fn reached_from_the_command(&self) -> Vec<bool> {
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        for (key, &task) in &self.tasks {
            match key {
                Key::ThreadOf { parent, .. } | Key::ProcessOf { parent, .. } => {
                    children.entry(*parent).or_default().push(task);
                }
                Key::Command | Key::Order { .. } => {}
            }
        }
        let mut reached = vec![false; self.count];
        let mut queue: VecDeque<usize> = self.task(Key::Command).into_iter().collect();
        while let Some(task) = queue.pop_front() {
            if !std::mem::replace(&mut reached[task], true) {
                queue.extend(children.remove(&task).unwrap_or_default());
            }
        }
        reached
    }
}

fn order_keys(tasks: &[PlannedTask]) -> HashMap<Key, usize> {
    let key = |planned: &PlannedTask| match (planned.process, planned.spawn_index) {
        (0, 0) => Key::Command,
        (process, spawn_index) => Key::Order { process, spawn_index },
    };
    tasks.iter().enumerate().map(|(index, planned)| (key(planned), index)).collect()
}

/// A child's rank is its place among its parent's children of the same sort, in the order they were created.
fn tree_keys(tasks: &[PlannedTask]) -> HashMap<Key, usize> {
    let by_id: HashMap<u32, usize> = tasks.iter().enumerate().map(|(index, planned)| (planned.task, index)).collect();
    let mut created: Vec<usize> = (0..tasks.len()).collect();
    created.sort_by_key(|&index| (tasks[index].process, tasks[index].spawn_index));
    let (mut threads, mut processes) = (vec![0u32; tasks.len()], vec![0u32; tasks.len()]);
    let mut keys = HashMap::new();
    for index in created {
        let planned = &tasks[index];
        match planned.parent.and_then(|parent| by_id.get(&parent).copied()) {
            None if planned.parent.is_none() && (planned.process, planned.spawn_index) == (0, 0) => {
                keys.insert(Key::Command, index);
            }
            None => {}
            Some(parent) if tasks[parent].process == planned.process => {
                keys.insert(Key::ThreadOf { parent, rank: threads[parent] }, index);
                threads[parent] += 1;
            }
            Some(parent) => {
                keys.insert(Key::ProcessOf { parent, rank: processes[parent] }, index);
                processes[parent] += 1;
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::{Identify, LaunchPlan, PlannedTask};
    use cohabit_host::affinity::CpuMask;

    /// A plan of rows (process, spawn index, parent), task ids from 0 on, all on PU 0.
    fn plan(identify: Identify, rows: &[(u32, u32, Option<u32>)]) -> LaunchPlan {
        let task = |(task, &(process, spawn_index, parent)): (usize, &(u32, u32, Option<u32>))| PlannedTask {
            task: task as u32,
            process,
            spawn_index,
            parent,
            pu: 0,
            pus: CpuMask::single(0),
            name: String::new(),
        };
        LaunchPlan { tasks: rows.iter().enumerate().map(task).collect(), identify, ..LaunchPlan::default() }
    }

    #[test]
    fn tasks_that_cannot_be_told_apart_are_refused() {
        use Identify::{Order, Tree};
        for (identify, rows, cause) in [
            (Order, vec![], None),
            (Order, vec![(0, 0, None), (0, 1, None)], None),
            (Order, vec![(0, 1, None), (0, 1, None)], Some("tasks 0 and 1 are both thread 1 of process 0")),
            (Tree, vec![(0, 0, None), (0, 1, Some(0)), (1, 0, Some(1))], None),
            (Tree, vec![(0, 0, None), (0, 1, None)], Some("task 1 has no line of parents")),
            (Tree, vec![(0, 0, None), (0, 1, Some(7))], Some("task 1 has no line of parents")),
            (Tree, vec![(0, 0, None), (0, 1, Some(2)), (0, 2, Some(1))], Some("task 1 has no line of parents")),
        ] {
            let error = plan(identify, &rows).check().err().map(|error| error.cause);
            match (cause, &error) {
                (None, None) => {}
                (Some(cause), Some(error)) if error.starts_with(cause) => {}
                _ => panic!("{identify:?} {rows:?}: {error:?} instead of {cause:?}"),
            }
        }
    }

    #[test]
    fn a_pu_that_is_not_allowed_is_refused() {
        let mut plan = plan(Identify::Order, &[(0, 0, None), (0, 1, None)]);
        assert_eq!(plan.check_allowed(&CpuMask::from_pus(0..4)), Ok(()));
        plan.tasks[1].pu = 9;
        let error = plan.check_allowed(&CpuMask::from_pus(0..4)).unwrap_err();
        assert_eq!(
            error.cause,
            "task 1 is to run on PU 9, but only PUs 0-3 are allowed here (cpuset, cgroup or taskset)"
        );
    }
}
