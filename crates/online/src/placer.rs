//! Puts threads on PUs while they run (sched_setaffinity(2)), leaves those alone that the program places itself, and
//! puts every affinity back.
//!
//! A new thread inherits the affinity of the one that creates it; what it inherits from one that was moved is taken off
//! it again, so that it is free until it is placed itself. What comes of it meanwhile has inherited the same.

use super::inherited::{self, Inherited};
use super::ledger::{Before, ChangedAffinity, Ledger, let_go};
use super::threads::{now_ticks, process, start_ticks};
use cohabit_host::affinity::{Allowed, CpuMask};
use cohabit_model::Result;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Who places a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nobody: the scheduler.
    Free,
    /// We, on this PU (OS index).
    Ours(u32),
    /// The program itself: to fewer PUs than its process may use.
    Own,
}

/// What became of threads that were let go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetGo {
    /// How many have their affinity back.
    pub threads: usize,
    /// Those that could not be let go, and why.
    pub failed: Vec<(i32, String)>,
}

/// The affinities of followed threads.
#[derive(Debug, Default)]
pub struct Placer {
    threads: BTreeMap<i32, Known>,
    own: BTreeSet<i32>,
    /// How many threads of each process are known.
    processes: BTreeMap<i32, usize>,
    /// When a thread was first put on a PU, in clock ticks of the machine.
    since: Option<u64>,
}

/// A followed thread.
#[derive(Debug, Clone)]
struct Known {
    process: i32,
    /// What it might use when it was first seen, before anybody placed it.
    at_first: CpuMask,
    /// What it may use but for us.
    rightful: Allowed,
    /// The PUs (OS indices) that it was put on, or whom it comes from: those that what it creates may have of us.
    pus: BTreeSet<u32>,
}

impl Placer {
    /// Nobody is placed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A thread of a process is followed: `parent` created it, if that is known. Takes off it what it inherited from
    /// one that we moved.
    pub fn started(&mut self, ledger: &mut Ledger, tid: i32, process: i32, parent: Option<i32>) {
        let Ok(now) = CpuMask::of_thread(tid) else { return };
        let creator = parent.and_then(|parent| self.threads.get(&parent));
        let (pus, before) = match creator {
            Some(creator) => {
                let is_inherited =
                    now != creator.rightful.pus && now.only().is_some_and(|pu| creator.pus.contains(&pu));
                (creator.pus.clone(), is_inherited.then(|| creator.rightful.clone()))
            }
            // Whoever it was is of the same process, or of the one that this comes from.
            None => match self.inherited(ledger, process) {
                Some(inherited) => (inherited.pus.keys().copied().collect(), inherited.before(&now)),
                None => (BTreeSet::new(), None),
            },
        };
        // Whether that is all is asked when it is moved.
        let as_it_is = || Allowed { pus: now, is_all: false };
        let rightful = before.filter(|before| before.apply(tid).is_ok()).unwrap_or_else(as_it_is);
        for &pu in &pus {
            may_inherit(ledger, process, pu, &rightful);
        }
        let known = Known { process, at_first: rightful.pus.clone(), rightful, pus };
        *self.processes.entry(process).or_default() += 1;
        if let Some(former) = self.threads.insert(tid, known) {
            self.left(ledger, former.process);
        }
    }

    /// What threads of a process may have inherited.
    fn inherited<'a>(&self, ledger: &'a Ledger, process: i32) -> Option<&'a Inherited> {
        let known = &ledger.entry.processes;
        if known.is_empty() || known.contains_key(&process) || self.processes.contains_key(&process) {
            return known.get(&process);
        }
        known.get(&self::process(process)?.parent)
    }

    /// A thread has ended.
    pub fn ended(&mut self, ledger: &mut Ledger, tid: i32) {
        self.own.remove(&tid);
        ledger.entry.affinities.remove(&tid);
        if let Some(known) = self.threads.remove(&tid) {
            self.left(ledger, known.process);
        }
    }

    /// A thread, which was called `former`, is the main one of its process and runs another program: it is let go, for
    /// what was seen was of another program, and this one may count PUs.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn executed(&mut self, ledger: &mut Ledger, former: i32, tid: i32) -> Result<()> {
        let changed = ledger.entry.affinities.remove(&former);
        if self.own.remove(&former) {
            self.own.insert(tid);
        }
        let Some(known) = self.threads.remove(&former) else { return Ok(()) };
        let now = CpuMask::of_thread(tid).ok();
        let is_ours =
            now.is_some_and(|now| now != known.rightful.pus && now.only().is_some_and(|pu| known.pus.contains(&pu)));
        let failed = is_ours && !self.own.contains(&tid) && known.rightful.apply(tid).is_err();
        if let (Some(changed), Some(start_ticks), true) = (&changed, start_ticks(tid), failed) {
            // It has the former main thread's start, too.
            ledger.entry.affinities.insert(tid, ChangedAffinity { start_ticks, ..changed.clone() });
        }
        if let Some(leader) = self.threads.insert(tid, known) {
            self.left(ledger, leader.process);
        }
        if changed.is_some() { ledger.write() } else { Ok(()) }
    }

    /// A thread is no longer one of its process.
    fn left(&mut self, ledger: &mut Ledger, process: i32) {
        let Some(count) = self.processes.get_mut(&process) else { return };
        *count -= 1;
        if *count == 0 {
            self.processes.remove(&process);
            ledger.entry.processes.remove(&process);
        }
    }

    /// Looks at a thread's affinity. `usual` is what most threads of the program may use: one that may not use all of
    /// it, and was not placed by us, was placed by the program or its launcher. So was one that is not where we put it
    /// any more, for good.
    pub fn look(&mut self, ledger: &mut Ledger, tid: i32, usual: &CpuMask) -> Held {
        if self.own.contains(&tid) {
            return Held::Own;
        }
        let Ok(now) = CpuMask::of_thread(tid) else { return Held::Free };
        if let Some(changed) = ledger.entry.affinities.get(&tid) {
            if now == CpuMask::single(changed.pu) {
                return Held::Ours(changed.pu);
            }
            if changed.is_pushed_out(tid, &now) {
                return Held::Free;
            }
            // The program, or somebody from outside: it is theirs from now on.
            ledger.entry.affinities.remove(&tid);
            self.own.insert(tid);
            self.may_use(tid, now);
            return Held::Own;
        }
        // One that may run on other PUs, as a rank that its launcher has bound to another package, is not taken from
        // them.
        let held = if usual.pus().into_iter().all(|pu| now.contains(pu)) { Held::Free } else { Held::Own };
        self.may_use(tid, now);
        held
    }

    /// Somebody else has given a thread this affinity, which what it creates inherits by right.
    fn may_use(&mut self, tid: i32, now: CpuMask) {
        if let Some(known) = self.threads.get_mut(&tid).filter(|known| known.rightful.pus != now) {
            known.rightful = Allowed { pus: now, is_all: false };
        }
    }

    /// What most threads may use; the calling thread's affinity where there are none.
    pub fn usual(&self) -> CpuMask {
        let mut count: BTreeMap<String, (usize, &CpuMask)> = BTreeMap::new();
        for mask in self.threads.values().map(|known| &known.at_first) {
            count.entry(mask.to_string()).or_insert((0, mask)).0 += 1;
        }
        let most = count.into_values().max_by_key(|(count, mask)| (*count, mask.pus().len()));
        most.map(|(_, mask)| mask.clone()).or_else(|| CpuMask::of_thread(0).ok()).unwrap_or_else(|| CpuMask::single(0))
    }

    /// Puts threads on PUs (OS indices), or lets them go where none is named. Returns those that could not be, and why.
    ///
    /// # Errors
    /// Where the ledger cannot be written: nothing was changed then.
    pub fn place(&mut self, ledger: &mut Ledger, moves: &[(i32, Option<u32>)]) -> Result<Vec<(i32, String)>> {
        let formerly = ledger.entry.affinities.clone();
        ledger.entry.seen_until = now_ticks();
        self.since.get_or_insert(ledger.entry.seen_until);
        for &(tid, pu) in moves {
            let (Some(pu), Some(ticks)) = (pu, start_ticks(tid)) else { continue };
            // As it is at this moment, for it may be another than when the thread was looked at.
            let now = || Allowed::of_thread(tid).ok().map(|allowed| Before::of(&allowed));
            let earlier = formerly.get(&tid);
            let Some(before) = earlier.map(|changed| changed.before.clone()).or_else(now) else { continue };
            if let (Some(known), Some(rightful)) = (self.threads.get_mut(&tid), before.allowed()) {
                may_inherit(ledger, known.process, pu, &rightful);
                known.pus.insert(pu);
                known.rightful = rightful;
            }
            let changed = ChangedAffinity { start_ticks: ticks, before, pu, from: earlier.map(|changed| changed.pu) };
            ledger.entry.affinities.insert(tid, changed);
        }
        // Written before anything is done.
        ledger.write()?;
        let mut failed = Vec::new();
        for &(tid, pu) in moves {
            match pu {
                Some(pu) if ledger.entry.affinities.contains_key(&tid) => {
                    if let Err(error) = CpuMask::single(pu).apply(tid) {
                        match formerly.get(&tid) {
                            Some(changed) => ledger.entry.affinities.insert(tid, changed.clone()),
                            None => ledger.entry.affinities.remove(&tid),
                        };
                        failed.push((tid, error.to_string()));
                    }
                }
                Some(_) => {}
                None => {
                    let Some(changed) = ledger.entry.affinities.get(&tid) else { continue };
                    match let_go(tid, changed) {
                        Ok(_) => drop(ledger.entry.affinities.remove(&tid)),
                        // It stays written down.
                        Err(error) => failed.push((tid, error.to_string())),
                    }
                }
            }
        }
        ledger.entry.affinities.values_mut().for_each(|changed| changed.from = None);
        ledger.write()?;
        Ok(failed)
    }

    /// Gives every thread the affinity back that it had. What cannot be given back stays written down.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn let_all_go(&mut self, ledger: &mut Ledger) -> Result<LetGo> {
        let mut gone = LetGo::default();
        ledger.entry.affinities.retain(|&tid, changed| match let_go(tid, changed) {
            Ok(done) => {
                gone.threads += usize::from(done);
                false
            }
            Err(error) => {
                gone.failed.push((tid, error.to_string()));
                true
            }
        });
        if let Some(since) = self.since {
            // Those that have started since it was last asked who has.
            let found = inherited::let_go(&ledger.entry.processes, since, |tid| self.threads.contains_key(&tid));
            gone.threads += found.threads;
            if found.failed.is_empty() {
                ledger.entry.processes.clear();
            }
            gone.failed.extend(found.failed.into_iter().map(|(tid, error)| (tid, error.to_string())));
        }
        ledger.write()?;
        Ok(gone)
    }
}

/// What a process's threads that have this PU may use, where they have inherited it.
fn may_inherit(ledger: &mut Ledger, pid: i32, pu: u32, rightful: &Allowed) {
    let inherited = match ledger.entry.processes.entry(pid) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let Some(process) = process(pid) else { return };
            new.insert(Inherited { start_ticks: process.start_ticks, pus: BTreeMap::new() })
        }
    };
    inherited.pus.entry(pu).or_insert_with(|| Before::of(rightful));
}

#[cfg(test)]
#[path = "placer_tests.rs"]
mod tests;
