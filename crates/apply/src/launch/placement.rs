//! Puts threads where the plan says as their starts are reported, and keeps the account of it.
//!
//! Three rules beyond "thread i goes to PU p":
//! - A thread the plan does not know gets the affinity the command was started with where it has inherited a planned
//!   thread's single PU; where the program chose its affinity, it keeps that.
//! - A main thread whose process is to have more planned threads begins on its PU but, once the program is loaded,
//!   keeps the whole affinity until the first of them starts: language and OpenMP runtimes count their processors in
//!   the main thread's affinity, and would start one thread where the profile has many.
//! - A thread that cannot be placed is reported and left alone; so is a process that something else has bound, and one
//!   that runs several times at once where the plan has it once.
//! - No two threads share a PU while another is idle: where fewer run than are planned, they are let loose
//!   ([`Crowding`]).

use super::census::{Census, Found};
use super::crowding::{Crowding, Spread};
use super::phases::Phases;
use super::plan::LaunchPlan;
use super::{PlacedReport, Refusal, Repinned, UnknownThread, procfs, sys};
use cohabit_host::affinity::{Allowed, CpuMask};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

/// Unknown threads are listed up to this many; all are counted.
const UNKNOWN_LISTED: usize = 1024;

/// Why a thread cannot be placed: the kernel reserves time for it on all PUs together (sched(7)).
const DEADLINE: &str = "it is scheduled by deadline (SCHED_DEADLINE), which the kernel allows on all PUs only";

/// A thread whose affinity is ours: which task it is, and what we last read back.
#[derive(Debug, Clone)]
struct Hold {
    task: usize,
    mask: CpuMask,
}

/// The plan being carried out.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) plan: LaunchPlan,
    pub(crate) census: Census,
    /// What the command was started with.
    original: Allowed,
    hold_main_from_start: bool,
    holds: HashMap<i32, Hold>,
    /// The affinities that threads have had of us, or have inherited from such: those that what they start may have.
    given: HashMap<i32, HashSet<CpuMask>>,
    /// By process those of threads that have ended.
    formerly: HashMap<i32, HashSet<CpuMask>>,
    crowding: Crowding,
    pub(crate) phases: Phases,
    reports: BTreeMap<usize, PlacedReport>,
    /// Processes of the plan that are left alone.
    left: BTreeSet<u32>,
    /// Programs of the plan of which more ran at once than it has.
    pub(crate) rivals: BTreeSet<String>,
    /// Programs that something else had bound, and to what.
    pub(crate) bound: BTreeMap<String, CpuMask>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) repinned: BTreeMap<u32, Repinned>,
    pub(crate) unknown: Vec<UnknownThread>,
    pub(crate) unknown_count: u64,
    /// Programs that tracing has kept from the rights they are meant to have.
    pub(crate) deprived: BTreeSet<PathBuf>,
}

impl Placement {
    pub(crate) fn new(plan: &LaunchPlan, original: Allowed, hold_main_from_start: bool) -> Self {
        Self {
            census: Census::new(plan),
            crowding: Crowding::new(plan, &original.pus),
            phases: Phases::default(),
            plan: plan.clone(),
            original,
            hold_main_from_start,
            holds: HashMap::new(),
            given: HashMap::new(),
            formerly: HashMap::new(),
            reports: BTreeMap::new(),
            left: BTreeSet::new(),
            rivals: BTreeSet::new(),
            bound: BTreeMap::new(),
            refusals: Vec::new(),
            repinned: BTreeMap::new(),
            unknown: Vec::new(),
            unknown_count: 0,
            deprived: BTreeSet::new(),
        }
    }

    /// A process began and has not run yet: the command (the first), or one created by thread `creator`. It executes
    /// what its creator does.
    pub(crate) fn process_started(&mut self, creator: Option<i32>, pid: i32) {
        let program = procfs::program(pid);
        let found = self.census.process_started(creator, pid, &program);
        self.inherits(creator, pid, pid);
        match found {
            // By the order of starts the program is yet to be loaded, and a fork has it already.
            Found::Planned(Some(task)) if !self.census.knows_programs() => self.hold(task, pid, true),
            Found::Planned(task) => self.recognised(creator, pid, task),
            _ => self.release_unknown(creator, pid, pid),
        }
        self.note_rival(found, &program);
        self.spread_out();
    }

    /// A process began and runs already, so that no later moment is known at which it has its program loaded.
    pub(crate) fn process_found(&mut self, creator: Option<i32>, pid: i32) {
        self.process_started(creator, pid);
        self.widen_main(pid);
    }

    /// Looks whether a process that runs has executed another program since it was last seen.
    pub(crate) fn check_program(&mut self, pid: i32) {
        let changed = self.census.knows_programs()
            && self.census.program(pid).is_some_and(|known| {
                let program = procfs::program(pid);
                !program.is_empty() && program != known
            });
        if changed {
            self.executed(pid, pid);
        }
    }

    /// Thread `tid` of process `pid` began.
    pub(crate) fn thread_started(&mut self, creator: Option<i32>, pid: i32, tid: i32) {
        let task = self.census.thread_started(creator, pid, tid);
        self.inherits(creator, pid, tid);
        self.hold_main(pid);
        match task {
            Some(task) => self.hold(task, tid, true),
            None => self.release_unknown(creator, pid, tid),
        }
        self.spread_out();
    }

    /// Thread `former` of process `pid` has executed another program, which has not run yet.
    pub(crate) fn executed(&mut self, former: i32, pid: i32) {
        let hold = self.holds.remove(&former);
        let given = self.given.remove(&former);
        for tid in self.census.threads_of(pid) {
            self.holds.remove(&tid);
            self.formerly.entry(pid).or_default().extend(self.given.remove(&tid).into_iter().flatten());
        }
        self.given.extend(given.map(|given| (pid, given)));
        let program = procfs::program(pid);
        let found = self.census.executed(former, pid, &program);
        if let Some(hold) = hold {
            self.holds.insert(pid, hold);
        }
        match found {
            Found::Same => self.widen_main(pid),
            Found::Planned(task) => self.recognised(Some(pid), pid, task),
            Found::Rival | Found::Nobody => self.let_go(pid),
        }
        self.note_rival(found, &program);
        self.spread_out();
    }

    /// Process `pid` turned out to be one of the plan, its program loaded. Its affinity is that of the command or one
    /// that we have set, unless what started it has bound it (taskset, a launcher): that is then not ours to change.
    fn recognised(&mut self, creator: Option<i32>, pid: i32, task: Option<usize>) {
        let Ok(mask) = CpuMask::of_thread(pid) else { return };
        if mask != self.original.pus && !self.is_inherited(creator, pid, &mask) {
            self.bound.insert(procfs::program(pid), mask);
            self.left.extend(self.census.planned_process(pid));
            return;
        }
        match task {
            Some(task) => {
                self.hold(task, pid, self.hold_main_from_start || !self.census.expects_threads(pid));
            }
            None => self.let_go(pid),
        }
    }

    /// Of a program that runs more often at once than in the plan, nobody knows which is which: none is placed.
    fn note_rival(&mut self, found: Found, program: &str) {
        if found != Found::Rival || !self.rivals.insert(program.to_owned()) {
            return;
        }
        self.left.extend(self.census.planned_as(program));
        let of_it = |tid: &i32| self.census.planned_process(*tid).is_some_and(|process| self.left.contains(&process));
        let held: Vec<i32> = self.holds.keys().copied().filter(of_it).collect();
        held.into_iter().for_each(|tid| self.let_go(tid));
    }

    /// A thread that was placed gets the affinity of the command back, unless the program has chosen another.
    fn let_go(&mut self, tid: i32) {
        let Some(hold) = self.holds.remove(&tid) else { return };
        self.reports.remove(&hold.task);
        if CpuMask::of_thread(tid).is_ok_and(|mask| mask == hold.mask) {
            // One that has ended meanwhile needs nothing.
            let _ = self.original.apply(tid);
        }
    }

    /// Thread `tid` ended.
    pub(crate) fn ended(&mut self, tid: i32) {
        for thread in self.census.threads_of(tid) {
            self.holds.remove(&thread);
            self.given.remove(&thread);
        }
        self.holds.remove(&tid);
        self.formerly.remove(&tid);
        if let (Some(given), Some(pid)) = (self.given.remove(&tid), self.census.pid_of(tid)) {
            self.formerly.entry(pid).or_default().extend(given);
        }
        self.census.ended(tid);
        self.spread_out();
    }

    /// Forgets a process that nobody will report the end of.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.ended(pid);
    }

    /// Notes every placed thread whose affinity is no longer what was set: the program's own doing.
    pub(crate) fn check_repinned(&mut self) {
        for (&tid, hold) in &self.holds {
            let Ok(mask) = CpuMask::of_thread(tid) else { continue };
            if mask != hold.mask {
                let planned = &self.plan.tasks[hold.task];
                let (pu, pus) = (planned.pu, hold.mask.pus());
                let report = Repinned { task: planned.task, tid, pu, pus, affinity: mask.pus() };
                self.repinned.insert(planned.task, report);
            }
        }
    }

    /// What became of the placed tasks, by place in the plan.
    pub(crate) fn placed(&self) -> Vec<PlacedReport> {
        self.reports.values().cloned().collect()
    }

    /// The ids of planned tasks that never started.
    pub(crate) fn missing(&self) -> Vec<u32> {
        self.census.missing().into_iter().map(|task| self.plan.tasks[task].task).collect()
    }

    /// Gives a main thread the whole affinity back while its process is to have more planned threads.
    fn widen_main(&mut self, pid: i32) {
        if self.hold_main_from_start || !self.census.expects_threads(pid) {
            return;
        }
        if let Some(task) = self.holds.get(&pid).map(|hold| hold.task) {
            self.hold(task, pid, false);
        }
    }

    /// Puts a widened main thread on its PU for good, unless the program has chosen otherwise in the meantime.
    fn hold_main(&mut self, pid: i32) {
        let Some(Hold { task, mask }) = self.holds.get(&pid).cloned() else { return };
        let widened = self.reports.get(&task).is_some_and(|report| !report.held);
        if widened && CpuMask::of_thread(pid).is_ok_and(|now| now == mask) {
            self.hold(task, pid, true);
        }
    }

    /// Sets a planned thread's affinity, to what it is confined to or (not `held`) to all PUs, and reads it back.
    fn hold(&mut self, task: usize, tid: i32, held: bool) {
        let planned = &self.plan.tasks[task];
        if self.left.contains(&planned.process) {
            return;
        }
        let mask = if held { self.crowding.mask(&self.plan, task).clone() } else { self.original.pus.clone() };
        let applied = match sys::is_deadline(tid) {
            true => Err(DEADLINE.to_owned()),
            false => self.confine(tid, &mask).and_then(|()| CpuMask::of_thread(tid)).map_err(|error| error.to_string()),
        };
        match applied {
            Ok(affinity) => {
                let (pu, pus) = (planned.pu, mask.pus());
                let report = PlacedReport { task: planned.task, tid, pu, pus, affinity: affinity.pus(), held };
                self.reports.insert(task, report);
                if affinity != self.original.pus {
                    self.given.entry(tid).or_default().insert(affinity.clone());
                }
                self.holds.insert(tid, Hold { task, mask: affinity });
            }
            Err(cause) if self.refusals.iter().any(|refusal| refusal.tid == tid && refusal.cause == cause) => {}
            Err(cause) => self.refusals.push(Refusal { task: planned.task, tid, pu: planned.pu, cause }),
        }
    }

    /// Confines a thread to these PUs, or to nothing where they are all that the command has.
    fn confine(&self, tid: i32, mask: &CpuMask) -> std::io::Result<()> {
        if *mask == self.original.pus { self.original.apply(tid) } else { mask.apply(tid) }
    }

    /// The threads that are held, by task; a widened main thread has not begun its part.
    fn held(&self) -> BTreeMap<usize, i32> {
        let is_held = |hold: &Hold| self.reports.get(&hold.task).is_some_and(|report| report.held);
        self.holds.iter().filter(|(_, hold)| is_held(hold)).map(|(&tid, hold)| (hold.task, tid)).collect()
    }

    /// Sees to it that no two held threads share a PU while another is idle.
    fn spread_out(&mut self) {
        if !self.crowding.can_happen() {
            return;
        }
        let held = self.held();
        let tasks: Vec<usize> = held.keys().copied().collect();
        if self.crowding.changed(&self.plan, &tasks) {
            held.into_iter().for_each(|(task, tid)| self.hold_again(task, tid));
        }
    }

    /// The program says that a phase begins: its threads go to where the plan has them in it, and those that start
    /// later as well. In a phase that the plan does not have they stay. How many that run were to go elsewhere.
    pub(crate) fn phase_began(&mut self, number: u64) -> usize {
        let Some(seats) = self.plan.phases.get(&number) else {
            self.phases.unknown(number);
            return 0;
        };
        let mut moved = BTreeSet::new();
        for (task, (planned, seat)) in self.plan.tasks.iter_mut().zip(seats).enumerate() {
            planned.pu = seat.pu;
            if planned.pus != seat.pus {
                planned.pus = seat.pus.clone();
                moved.insert(task);
            }
        }
        let held = self.held();
        held.iter().filter(|(task, _)| moved.contains(task)).for_each(|(&task, &tid)| self.hold_again(task, tid));
        self.spread_out();
        let placed = held.keys().filter_map(|task| self.reports.get(task).cloned()).collect();
        self.phases.carried_out(number, placed);
        held.keys().filter(|task| moved.contains(task)).count()
    }

    /// The tasks whose affinity is ours, by their ids, and their threads.
    pub(crate) fn tasks(&self) -> Vec<(u32, i32)> {
        self.holds.iter().map(|(&tid, hold)| (self.plan.tasks[hold.task].task, tid)).collect()
    }

    /// The tasks that run, by their ids, where they are to be mapped again: they are loose, and have been the same
    /// since the last time this was asked.
    pub(crate) fn wants_mapping(&mut self) -> Option<Vec<u32>> {
        if !self.crowding.is_loose() {
            return None;
        }
        let tasks = self.crowding.settled(self.held().into_keys().collect())?;
        Some(tasks.into_iter().map(|task| self.plan.tasks[task].task).collect())
    }

    /// What these tasks were mapped to again, if they are still those that run.
    pub(crate) fn mapped_again(&mut self, ids: &[u32], masks: Vec<CpuMask>) {
        let held = self.held();
        let same = held.keys().map(|&task| self.plan.tasks[task].task).eq(ids.iter().copied());
        if same && self.crowding.mapped_again(held.keys().copied().zip(masks).collect()) {
            held.into_iter().for_each(|(task, tid)| self.hold_again(task, tid));
        }
    }

    /// How the threads were spread when most of them ran, and how many those were.
    pub(crate) fn spread(&self) -> (Spread, usize) {
        self.crowding.at_its_peak()
    }

    /// Holds a held thread again, unless the program has chosen otherwise in the meantime.
    fn hold_again(&mut self, task: usize, tid: i32) {
        if self.holds.get(&tid).is_some_and(|hold| CpuMask::of_thread(tid).is_ok_and(|now| now == hold.mask)) {
            self.hold(task, tid, true);
        }
    }

    /// An unknown thread that has inherited a planned one's PU gets the command's own affinity.
    fn release_unknown(&mut self, creator: Option<i32>, pid: i32, tid: i32) {
        if self.plan.tasks.is_empty() {
            return;
        }
        let Ok(mut mask) = CpuMask::of_thread(tid) else { return };
        if mask != self.original.pus && self.is_inherited(creator, pid, &mask) && self.original.apply(tid).is_ok() {
            mask = self.original.pus.clone();
        }
        // Where programs are known, wrappers and what they start otherwise are none that the plan could have had.
        let of_program = creator.is_some_and(|creator| self.census.planned_process(creator).is_some());
        if self.census.knows_programs() && !of_program && self.census.planned_process(tid).is_none() {
            return;
        }
        self.unknown_count += 1;
        if self.unknown.len() < UNKNOWN_LISTED {
            self.unknown.push(UnknownThread { pid, tid, affinity: mask.pus() });
        }
    }

    /// A thread may have what its creator has had of us. Whoever looks at /proc finds it later: the creator may be
    /// elsewhere by then, have been let go as an unknown one, or have ended.
    fn inherits(&mut self, creator: Option<i32>, pid: i32, tid: i32) {
        let given: HashSet<CpuMask> = self.inheritable(creator, pid).cloned().collect();
        if !given.is_empty() {
            self.given.entry(tid).or_default().extend(given);
        }
    }

    /// Whether `mask` is one we have set, which a thread has inherited.
    fn is_inherited(&self, creator: Option<i32>, pid: i32, mask: &CpuMask) -> bool {
        self.inheritable(creator, pid).any(|given| given == mask)
    }

    /// What `creator` may leave to others of what we have set; where it is not known, any thread of the process.
    fn inheritable(&self, creator: Option<i32>, pid: i32) -> impl Iterator<Item = &CpuMask> {
        let creators = match creator {
            Some(creator) => vec![creator],
            None => self.census.threads_of(pid),
        };
        let process = creator.map_or(Some(pid), |creator| self.census.pid_of(creator));
        let formerly = process.and_then(|process| self.formerly.get(&process));
        creators.into_iter().filter_map(|creator| self.given.get(&creator)).chain(formerly).flatten()
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
