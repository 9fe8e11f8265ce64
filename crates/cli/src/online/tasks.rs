//! The tasks that live: who they are, where they run and how much.

use cohabit_apply::online::ledger::Ledger;
use cohabit_apply::online::placer::{Held, Placer};
use cohabit_apply::online::policy::ViewTask;
use cohabit_apply::online::progress::Sample;
use cohabit_apply::online::threads;
use cohabit_model::{Result, Topology};
use cohabit_observe::faults::TaskEvent;
use std::collections::BTreeMap;
use std::time::Duration;

/// One that lives.
#[derive(Debug, Clone)]
pub struct Living {
    /// Thread id.
    pub tid: i32,
    /// Process id.
    pub process: i32,
    /// Its name.
    pub name: String,
    /// Where it last ran (OS index).
    pub pu: Option<u32>,
    /// Who placed it.
    pub held: Held,
    ticks: u64,
    /// Clock ticks it ran between the last two looks.
    load: u64,
    ran: Duration,
    waited: Duration,
}

/// All that live, by their number.
#[derive(Debug, Default)]
pub struct Tasks {
    /// By number.
    pub living: BTreeMap<u32, Living>,
    /// How many there have been.
    pub started: u64,
    /// What tasks that have ended ran and waited.
    ended_ran: Duration,
    ended_waited: Duration,
}

impl Tasks {
    /// A task has come or gone.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub fn event(&mut self, event: &TaskEvent, placer: &mut Placer, ledger: &mut Ledger) -> Result<()> {
        match *event {
            TaskEvent::Started { task, tid, process, parent } => {
                let parent = parent.and_then(|parent| self.living.get(&parent)).map(|parent| parent.tid);
                placer.started(ledger, tid, parent)?;
                let name = threads::look(tid).map(|thread| thread.name).unwrap_or_default();
                let (ran, waited) = (Duration::ZERO, Duration::ZERO);
                let living = Living { tid, process, name, pu: None, held: Held::Free, ticks: 0, load: 0, ran, waited };
                self.living.insert(task, living);
                self.started += 1;
            }
            TaskEvent::Ended { task } => {
                if let Some(gone) = self.living.remove(&task) {
                    self.ended_ran += gone.ran;
                    self.ended_waited += gone.waited;
                    placer.ended(ledger, gone.tid);
                }
            }
            TaskEvent::Exec { task, tid } => {
                if let Some(living) = self.living.get_mut(&task) {
                    living.tid = tid;
                }
            }
        }
        Ok(())
    }

    /// A task that lives, for tests.
    #[cfg(test)]
    pub fn add_for_test(&mut self, task: u32, name: &str, pu: u32, held: Held) {
        let (ran, waited, name) = (Duration::ZERO, Duration::ZERO, name.to_owned());
        let living = Living { tid: 1, process: 1, name, pu: Some(pu), held, ticks: 0, load: 0, ran, waited };
        self.living.insert(task, living);
    }

    /// Looks at all that live.
    pub fn look(&mut self, placer: &mut Placer, ledger: &mut Ledger) {
        let usual = placer.usual();
        for living in self.living.values_mut() {
            let Some(thread) = threads::look(living.tid) else { continue };
            living.load = if living.ticks == 0 { 0 } else { thread.ticks.saturating_sub(living.ticks) };
            (living.ticks, living.name) = (thread.ticks, thread.name);
            living.held = placer.look(ledger, living.tid, &usual);
            living.pu = match living.held {
                Held::Ours(pu) => Some(pu),
                Held::Free | Held::Own => Some(thread.pu),
            };
            if let Some((ran, waited)) = threads::run_and_wait(living.tid) {
                (living.ran, living.waited) = (ran, waited);
            }
        }
    }

    /// What the policy is to see: those that talk or run.
    pub fn view(&self, topology: &Topology, talks: impl Fn(u32) -> bool) -> Vec<ViewTask> {
        let index = |pu: u32| topology.pu_index(pu).filter(|&pu| topology.pus[pu].allowed);
        let seen = self.living.iter().filter(|(task, living)| living.load > 0 || talks(**task));
        seen.map(|(&task, living)| ViewTask {
            task,
            present: living.pu.and_then(index),
            placed: matches!(living.held, Held::Ours(_)),
            fixed: living.held == Held::Own,
            load: living.load + 1,
        })
        .collect()
    }

    /// How far the program has come.
    pub fn progress(&self, time: Duration) -> Sample {
        let (ran, waited) = (self.ended_ran, self.ended_waited);
        let sum =
            |start: Duration, part: fn(&Living) -> Duration| start + self.living.values().map(part).sum::<Duration>();
        Sample { time, done: None, ran: sum(ran, |living| living.ran), waited: sum(waited, |living| living.waited) }
    }
}
