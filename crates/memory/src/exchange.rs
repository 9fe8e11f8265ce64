//! The operating system moving tasks while they run: at a given time, what two PUs have changes places.
//!
//! A task comes to its new core with nothing in that core's caches and TLBs but what others have left there; loads
//! under way are waited for, and a change of task is paid. Where one of the PUs is idle this is the move of one task.

use crate::clock::{NEVER, Time};
use crate::engine::{Engine, Observer};
use crate::task::State;
use cohabit_model::{Error, Result};

/// Two PUs that change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When.
    pub at: Time,
    /// Indices into the topology's PUs.
    pub pus: [usize; 2],
}

/// Exchanges that are yet to come.
#[derive(Debug)]
pub(crate) struct Exchanges {
    all: Vec<Exchange>,
    next: usize,
}

impl Exchanges {
    pub fn new(all: &[Exchange], pus: usize) -> Result<Self> {
        if all.iter().any(|exchange| exchange.pus.iter().any(|&pu| pu >= pus)) {
            return Err(Error::new(format!("an exchange of a PU that a machine with {pus} does not have")));
        }
        let mut all = all.to_vec();
        all.sort_by_key(|exchange| exchange.at);
        Ok(Self { all, next: 0 })
    }

    /// When the next one is.
    pub fn next_at(&self) -> Time {
        self.all.get(self.next).map_or(NEVER, |exchange| exchange.at)
    }

    /// The next one, where it comes before anything else at `now`.
    pub fn due(&mut self, now: Time) -> Option<Exchange> {
        let exchange = self.all.get(self.next).copied().filter(|exchange| exchange.at <= now)?;
        self.next += 1;
        Some(exchange)
    }

    /// How many there were.
    pub fn done(&self) -> u64 {
        self.next as u64
    }
}

impl<O: Observer> Engine<'_, '_, O> {
    /// Lets two PUs change places; called between turns, so that no task runs.
    pub(crate) fn exchange(&mut self, Exchange { at, pus: [a, b] }: Exchange) {
        if a == b {
            return;
        }
        self.pus.swap(a, b);
        let cores = [a, b].map(|pu| self.machine.core_of_pu[pu]);
        for core in cores {
            self.busy[core] = self.pus_of_core[core].iter().filter(|&&pu| self.pus[pu].current.is_some()).count();
        }
        let (time_a, time_b) = (self.order.time(a), self.order.time(b));
        self.order.set(a, time_b);
        self.order.set(b, time_a);
        for task in self.tasks.iter_mut().flatten().filter(|task| task.state != State::Ended) {
            let Some(place) = [a, b].iter().position(|&pu| pu == task.pu) else { continue };
            task.pu = [b, a][place];
            task.core = self.machine.core_of_pu[task.pu];
            task.page = (u64::MAX, u64::MAX);
            task.walk.hits = 0;
            task.report.moves += 1;
            task.clock.drain();
            let on = self.pus[task.pu].current == Some(task.number);
            if on {
                task.clock.time = task.clock.time.max(at).saturating_add(self.machine.system.switch);
                // A task that polls looks again from its new core: the line that it has read is not there.
                let due = self.order.time(task.pu);
                let polls = matches!(task.state, State::Polls { .. });
                self.order.set(task.pu, if polls || due != NEVER { task.clock.time } else { due });
            }
        }
        let in_use: Vec<usize> =
            self.tasks.iter().flatten().filter(|task| task.state != State::Ended).map(|task| task.pu).collect();
        let buffers = cores.map(|core| self.buffers(core, |pu| in_use.contains(&pu)));
        for task in self.tasks.iter_mut().flatten() {
            if let Some(index) = cores.iter().position(|&core| core == task.core) {
                task.clock.set_buffers(buffers[index]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::{Options, Report, simulate};
    use cohabit_access::synthetic;

    const MS: u64 = 1_000_000_000;

    fn run(mapping: &[usize], exchanges: Vec<Exchange>) -> Report {
        let machine = Machine::load("harpertown").unwrap();
        let recording = synthetic::parse("pairs:8:4:40").unwrap();
        simulate(&recording, &machine, mapping, &Options { exchanges, ..Options::default() }).unwrap()
    }

    /// Pairs that share no L2 are put together in mid-run: it then takes what is between the two, and ends after them.
    #[test]
    fn what_is_moved_runs_where_it_was_moved_to() {
        let (apart, together) = ([0, 2, 1, 3, 4, 6, 5, 7], [0, 1, 2, 3, 4, 5, 6, 7]);
        let swap = |at, a, b| Exchange { at, pus: [a, b] };
        let (slow, fast) = (run(&apart, vec![]), run(&together, vec![]));
        assert!(fast.time_fs < slow.time_fs);
        let half = slow.time_fs / 2;
        let mixed = run(&apart, vec![swap(half, 1, 2), swap(half, 5, 6)]);
        assert!(fast.time_fs < mixed.time_fs && mixed.time_fs < slow.time_fs, "{}", mixed.time_fs);
        assert!(mixed.cache_to_cache() < slow.cache_to_cache());
        assert_eq!((mixed.exchanges, mixed.total.moves), (2, 4));
        // At once: the better placement, but for what moving takes. After the end: nothing.
        let at_once = run(&apart, vec![swap(0, 1, 2), swap(0, 5, 6)]);
        assert!(at_once.time_fs < mixed.time_fs);
        let late = run(&apart, vec![swap(1000 * MS, 1, 2)]);
        assert_eq!((late.time_fs, late.exchanges), (slow.time_fs, 0));
    }

    /// Moving to an idle PU is an exchange with nobody.
    #[test]
    fn a_task_moves_to_an_idle_pu() {
        let machine = Machine::load("harpertown").unwrap();
        let recording = synthetic::parse("pairs:2:4:40").unwrap();
        let of = |mapping: &[usize], exchanges| {
            simulate(&recording, &machine, mapping, &Options { exchanges, ..Options::default() }).unwrap()
        };
        let apart = of(&[0, 4], vec![]);
        let moved = of(&[0, 4], vec![Exchange { at: apart.time_fs / 4, pus: [4, 1] }]);
        assert!(moved.time_fs < apart.time_fs);
        assert_eq!(moved.tasks.iter().map(|task| task.moves).collect::<Vec<_>>(), [0, 1]);
        let none = Options { exchanges: vec![Exchange { at: 0, pus: [0, 8] }], ..Options::default() };
        assert!(simulate(&recording, &machine, &[0, 4], &none).is_err());
    }
}
