//! Puts threads on PUs while they run (sched_setaffinity(2)), leaves those alone that the program places itself, and puts
//! every affinity back.
//!
//! A new thread inherits the affinity of the one that creates it; what it inherits from one that was moved is taken off it
//! again, so that it is free until it is placed itself.

use super::ledger::{ChangedAffinity, Ledger, let_go};
use super::threads::start_ticks;
use crate::affinity::CpuMask;
use cohabit_model::Result;
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

/// The affinities of followed threads.
#[derive(Debug)]
pub struct Placer {
    /// What threads may use that nobody has placed; grows no narrower than the first thread seen of a process.
    allowed: BTreeMap<i32, CpuMask>,
    own: BTreeSet<i32>,
}

impl Default for Placer {
    fn default() -> Self {
        Self::new()
    }
}

impl Placer {
    /// Nobody is placed yet.
    pub fn new() -> Self {
        Self { allowed: BTreeMap::new(), own: BTreeSet::new() }
    }

    /// A thread is followed: `parent` created it, if that is known. Takes off it what it inherited from a parent that we
    /// moved.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn started(&mut self, ledger: &mut Ledger, tid: i32, parent: Option<i32>) -> Result<()> {
        let Ok(now) = CpuMask::of_thread(tid) else { return Ok(()) };
        let inherited = parent.and_then(|parent| ledger.entry.affinities.get(&parent)).cloned();
        let parents = parent.and_then(|parent| self.allowed.get(&parent)).cloned();
        if let (Some(changed), Some(parents)) = (inherited, parents) {
            if now == CpuMask::single(changed.pu) && parents != now && parents.apply(tid).is_ok() {
                self.allowed.insert(tid, parents);
                return Ok(());
            }
        }
        self.allowed.insert(tid, now);
        Ok(())
    }

    /// A thread has ended.
    pub fn ended(&mut self, ledger: &mut Ledger, tid: i32) {
        self.allowed.remove(&tid);
        self.own.remove(&tid);
        ledger.entry.affinities.remove(&tid);
    }

    /// Looks at a thread's affinity. `usual` is what most threads of the program may use: one that may not use all of it, and
    /// was not placed by us, was placed by the program or its launcher. So was one that is not where we put it any more, for good.
    pub fn look(&mut self, ledger: &mut Ledger, tid: i32, usual: &CpuMask) -> Held {
        if self.own.contains(&tid) {
            return Held::Own;
        }
        let Ok(now) = CpuMask::of_thread(tid) else { return Held::Free };
        if let Some(changed) = ledger.entry.affinities.get(&tid) {
            if now == CpuMask::single(changed.pu) {
                return Held::Ours(changed.pu);
            }
            // The program, or somebody from outside: it is theirs from now on.
            ledger.entry.affinities.remove(&tid);
            self.own.insert(tid);
            return Held::Own;
        }
        // One that may run on other PUs, as a rank that its launcher has bound to another package, is not taken from them.
        if usual.pus().into_iter().all(|pu| now.contains(pu)) { Held::Free } else { Held::Own }
    }

    /// What most threads may use; the calling thread's affinity where there are none.
    pub fn usual(&self) -> CpuMask {
        let mut count: BTreeMap<String, (usize, &CpuMask)> = BTreeMap::new();
        for mask in self.allowed.values() {
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
        for &(tid, pu) in moves {
            let (Some(pu), Some(ticks)) = (pu, start_ticks(tid)) else { continue };
            let Some(before) = self.allowed.get(&tid) else { continue };
            let from = formerly.get(&tid).map(|changed| changed.pu);
            let changed = ChangedAffinity { start_ticks: ticks, before: before.to_string(), pu, from };
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
                    if let Some(changed) = ledger.entry.affinities.remove(&tid) {
                        let _ = let_go(tid, &changed);
                    }
                }
            }
        }
        ledger.entry.affinities.values_mut().for_each(|changed| changed.from = None);
        ledger.write()?;
        Ok(failed)
    }

    /// Gives every thread the affinity back that it had; how many.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn let_all_go(&mut self, ledger: &mut Ledger) -> Result<usize> {
        let mut count = 0;
        for (tid, changed) in std::mem::take(&mut ledger.entry.affinities) {
            count += usize::from(let_go(tid, &changed).unwrap_or(false));
        }
        ledger.write()?;
        Ok(count)
    }
}
