//! Puts threads where the plan says as their starts are reported, and keeps the account of it.
//!
//! Three rules beyond "thread i goes to PU p":
//! - A thread the plan does not know gets the affinity the command was started with where it has inherited a planned
//!   thread's single PU; where the program chose its affinity, it keeps that.
//! - A main thread whose process is to have more planned threads begins on its PU but, once the program is loaded, keeps
//!   the whole affinity until the first of them starts: language and OpenMP runtimes count their processors in the
//!   main thread's affinity, and would start one thread where the profile has many.
//! - A thread that cannot be placed is reported and left alone.

use super::census::Census;
use super::plan::LaunchPlan;
use super::{PlacedReport, Refusal, Repinned, UnknownThread};
use crate::affinity::CpuMask;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// Unknown threads are listed up to this many; all are counted.
const UNKNOWN_LISTED: usize = 1024;

/// A thread whose affinity is ours: which task it is, and what we last read back.
#[derive(Debug, Clone)]
struct Hold {
    task: usize,
    mask: CpuMask,
}

/// The plan being carried out.
#[derive(Debug)]
pub(crate) struct Placement {
    plan: LaunchPlan,
    pub(crate) census: Census,
    /// The affinity the command was started with.
    original: CpuMask,
    hold_main_from_start: bool,
    holds: HashMap<i32, Hold>,
    reports: BTreeMap<usize, PlacedReport>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) repinned: BTreeMap<u32, Repinned>,
    pub(crate) unknown: Vec<UnknownThread>,
    pub(crate) unknown_count: u64,
    /// Programs that tracing has kept from the rights they are meant to have.
    pub(crate) deprived: BTreeSet<PathBuf>,
}

impl Placement {
    pub(crate) fn new(plan: &LaunchPlan, original: CpuMask, hold_main_from_start: bool) -> Self {
        Self {
            census: Census::new(plan),
            plan: plan.clone(),
            original,
            hold_main_from_start,
            holds: HashMap::new(),
            reports: BTreeMap::new(),
            refusals: Vec::new(),
            repinned: BTreeMap::new(),
            unknown: Vec::new(),
            unknown_count: 0,
            deprived: BTreeSet::new(),
        }
    }

    /// A process began and has not run yet: the command (the first), or one created by thread `creator`.
    pub(crate) fn process_started(&mut self, creator: Option<i32>, pid: i32) {
        match self.census.process_started(creator, pid) {
            Some(task) => self.hold(task, pid, true),
            None => self.release_unknown(creator, pid, pid),
        }
    }

    /// A process began and runs already, so that no later moment is known at which it has its program loaded.
    pub(crate) fn process_found(&mut self, creator: Option<i32>, pid: i32) {
        self.process_started(creator, pid);
        self.widen_main(pid);
    }

    /// Thread `tid` of process `pid` began.
    pub(crate) fn thread_started(&mut self, creator: Option<i32>, pid: i32, tid: i32) {
        let task = self.census.thread_started(creator, pid, tid);
        self.hold_main(pid);
        match task {
            Some(task) => self.hold(task, tid, true),
            None => self.release_unknown(creator, pid, tid),
        }
    }

    /// Thread `former` of process `pid` has executed another program, which has not run yet.
    pub(crate) fn executed(&mut self, former: i32, pid: i32) {
        let hold = self.holds.remove(&former);
        for tid in self.census.threads_of(pid) {
            self.holds.remove(&tid);
        }
        self.census.executed(former, pid);
        if let Some(hold) = hold {
            self.holds.insert(pid, hold);
            self.widen_main(pid);
        }
    }

    /// Thread `tid` ended.
    pub(crate) fn ended(&mut self, tid: i32) {
        for thread in self.census.threads_of(tid) {
            self.holds.remove(&thread);
        }
        self.holds.remove(&tid);
        self.census.ended(tid);
    }

    /// Notes every placed thread whose affinity is no longer what was set: the program's own doing.
    pub(crate) fn check_repinned(&mut self) {
        for (&tid, hold) in &self.holds {
            let Ok(mask) = CpuMask::of_thread(tid) else { continue };
            if mask != hold.mask {
                let planned = &self.plan.tasks[hold.task];
                let report = Repinned { task: planned.task, tid, pu: planned.pu, affinity: mask.pus() };
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

    /// Sets a planned thread's affinity, to its PU or (not `held`) to all of them, and reads it back.
    fn hold(&mut self, task: usize, tid: i32, held: bool) {
        let planned = &self.plan.tasks[task];
        let mask = if held { CpuMask::single(planned.pu) } else { self.original.clone() };
        match mask.apply(tid).and_then(|()| CpuMask::of_thread(tid)) {
            Ok(read_back) => {
                let report = PlacedReport { task: planned.task, tid, pu: planned.pu, affinity: read_back.pus(), held };
                self.reports.insert(task, report);
                self.holds.insert(tid, Hold { task, mask: read_back });
            }
            Err(error) => {
                self.refusals.push(Refusal { task: planned.task, tid, pu: planned.pu, cause: error.to_string() });
            }
        }
    }

    /// An unknown thread that has inherited a planned one's PU gets the command's own affinity.
    fn release_unknown(&mut self, creator: Option<i32>, pid: i32, tid: i32) {
        if self.plan.tasks.is_empty() {
            return;
        }
        let Ok(mut mask) = CpuMask::of_thread(tid) else { return };
        if mask != self.original && self.is_inherited(creator, pid, &mask) && self.original.apply(tid).is_ok() {
            mask = self.original.clone();
        }
        self.unknown_count += 1;
        if self.unknown.len() < UNKNOWN_LISTED {
            self.unknown.push(UnknownThread { pid, tid, affinity: mask.pus() });
        }
    }

    /// Whether `mask` is one we have set: the creator's where it is known, else that of any thread it may come from.
    fn is_inherited(&self, creator: Option<i32>, pid: i32, mask: &CpuMask) -> bool {
        match creator {
            Some(creator) => self.holds.get(&creator).is_some_and(|hold| hold.mask == *mask),
            None => {
                let process = self.census.thread(pid).map(|thread| thread.process);
                let of_process = |tid: i32| self.census.thread(tid).map(|thread| thread.process) == process;
                self.holds.iter().any(|(&tid, hold)| hold.mask == *mask && of_process(tid))
            }
        }
    }
}
