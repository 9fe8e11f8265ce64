//! Puts threads on PUs while they run (sched_setaffinity(2)), leaves those alone that the program places itself, and
//! puts every affinity back.
//!
//! A new thread inherits the affinity of the one that creates it; what it inherits from one that was moved is taken off
//! it again, so that it is free until it is placed itself.

use super::ledger::{ChangedAffinity, Ledger, let_go};
use super::threads::start_ticks;
use cohabit_host::affinity::CpuMask;
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
    /// What threads might use when they were first seen, before anybody placed them.
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

    /// A thread is followed: `parent` created it, if that is known. Takes off it what it inherited from a parent that
    /// we moved.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn started(&mut self, ledger: &mut Ledger, tid: i32, parent: Option<i32>) -> Result<()> {
        let Ok(now) = CpuMask::of_thread(tid) else { return Ok(()) };
        let inherited = parent.and_then(|parent| ledger.entry.affinities.get(&parent)).cloned();
        if let Some(changed) = inherited {
            let parents = CpuMask::parse(&changed.before).filter(|parents| *parents != now);
            if let (true, Some(parents)) = (now == CpuMask::single(changed.pu), parents) {
                if parents.apply(tid).is_ok() {
                    self.allowed.insert(tid, parents);
                    return Ok(());
                }
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
            // The program, or somebody from outside: it is theirs from now on.
            ledger.entry.affinities.remove(&tid);
            self.own.insert(tid);
            return Held::Own;
        }
        // One that may run on other PUs, as a rank that its launcher has bound to another package, is not taken from
        // them.
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
            // As it is at this moment, for it may be another than when the thread was looked at.
            let now = || CpuMask::of_thread(tid).ok().map(|mask| mask.to_string());
            let earlier = formerly.get(&tid);
            let Some(before) = earlier.map(|changed| changed.before.clone()).or_else(now) else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_testing::sleeper;

    #[test]
    fn what_a_thread_may_use_when_it_is_moved_is_given_back() {
        let all = CpuMask::of_thread(0).unwrap();
        let &[first, second, ..] = all.pus().as_slice() else {
            println!("skipped: what_a_thread_may_use_when_it_is_moved_is_given_back: one PU");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, _) = Ledger::open(folder.path().join("ledger")).unwrap();
        let (mut placer, creator) = (Placer::new(), sleeper());
        let tid = creator.id() as i32;
        // Seen while the program holds it on a PU for a moment.
        CpuMask::single(first).apply(tid).unwrap();
        placer.started(&mut ledger, tid, None).unwrap();
        assert_eq!(placer.look(&mut ledger, tid, &all), Held::Own);
        all.apply(tid).unwrap();
        assert_eq!(placer.look(&mut ledger, tid, &all), Held::Free);
        for pu in [first, second] {
            assert_eq!(placer.place(&mut ledger, &[(tid, Some(pu))]).unwrap(), []);
            assert_eq!(placer.look(&mut ledger, tid, &all), Held::Ours(pu));
        }
        // One that it creates inherits the PU, and is let go to where its creator may run.
        let child = sleeper();
        let created = child.id() as i32;
        CpuMask::single(second).apply(created).unwrap();
        placer.started(&mut ledger, created, Some(tid)).unwrap();
        assert_eq!(CpuMask::of_thread(created).unwrap(), all);
        assert_eq!(placer.place(&mut ledger, &[(tid, None)]).unwrap(), []);
        assert_eq!(CpuMask::of_thread(tid).unwrap(), all);
    }
}
