//! Tasks that wait for others, asleep or polling, and who wakes them.

use crate::clock::{NEVER, Time};
use crate::engine::{Engine, Observer};
use crate::task::{State, Task, Work};
use cohabit_model::{Error, Result};

impl<'a, O: Observer> Engine<'a, '_, O> {
    /// The time at which a task had made so many accesses; none where it has not, or is the one that runs.
    pub(crate) fn passed(&self, on: usize, position: u64) -> Option<Time> {
        self.tasks[on].as_ref().and_then(|task| task.passed(position))
    }

    /// Whether a task may wait for another's position.
    pub(crate) fn check_wait(&self, task: &Task, on: usize, position: u64) -> Result<()> {
        let damaged = |what: String| {
            Err(Error::new(format!("the recording is damaged: task {} waits for {what}", task.number))
                .remedy("record it again"))
        };
        if on >= self.tasks.len() {
            return damaged(format!("task {on}, which is not in it"));
        }
        if on == task.number && position > task.position {
            return damaged("itself".to_owned());
        }
        Ok(())
    }

    /// A wait, in its turn. True where the task cannot go on.
    pub(crate) fn wait(
        &mut self,
        task: &mut Task<'a>,
        on: usize,
        position: u64,
        polled: Option<u64>,
        now: Time,
    ) -> Result<bool> {
        task.work = Work::Nothing;
        if on == task.number {
            return Ok(false);
        }
        if let Some(passed) = self.passed(on, position) {
            task.report.waiting_fs += passed.saturating_sub(task.clock.time);
            task.clock.time = task.clock.time.max(passed);
            return Ok(false);
        }
        let other = self.tasks[on].as_mut().expect("the one that runs is another");
        if other.state == State::Ended {
            return Err(never(task.number, on, position));
        }
        other.waiters.push((position, task.number));
        task.clock.drain();
        let since = task.clock.time;
        match polled {
            None => {
                task.state = State::Asleep { on, position, since };
                self.leave(task.pu, since);
            }
            Some(address) => {
                let line = address >> self.machine.line_bits;
                task.state = State::Polls { on, position, since, line };
                self.read_polled(task, line, now);
                self.order.set(task.pu, self.until_switch(task.pu));
            }
        }
        Ok(true)
    }

    /// When the task that polls on a PU may have to make room.
    pub(crate) fn until_switch(&self, pu: usize) -> Time {
        let pu = &self.pus[pu];
        pu.next_ready().map_or(NEVER, |ready| ready.max(pu.slice_end))
    }

    pub(crate) fn read_polled(&mut self, task: &mut Task<'a>, line: u64, now: Time) {
        if O::WATCHES {
            self.observer.access(task.number, task.core, line, false);
        }
        if self.caches.hits_first(task.core, line, false) {
            if O::WATCHES {
                self.caches.note_hit(task.core, line, false);
            }
        } else {
            let outcome = self.caches.access(task.core, line, false, now);
            task.report.snoops += outcome.snoops;
            task.report.polls += 1;
        }
        self.tell_losers(now);
    }

    /// A task that polls finds its line changed, or has its PU again.
    pub(crate) fn poll(&mut self, number: usize, pu: usize, line: u64, now: Time) {
        let mut task = self.tasks[number].take().expect("no other runs");
        task.clock.time = task.clock.time.max(now);
        self.order.set(pu, self.until_switch(pu));
        self.read_polled(&mut task, line, now);
        self.tasks[number] = Some(task);
    }

    /// Tells tasks that poll, and counts, that copies were taken away.
    pub(crate) fn tell_losers(&mut self, now: Time) {
        while let Some((core, line)) = self.caches.lost.pop() {
            for &pu in &self.pus_of_core[core] {
                let Some(task) = self.pus[pu].current.and_then(|number| self.tasks[number].as_mut()) else { continue };
                task.report.copies_lost += 1;
                if matches!(task.state, State::Polls { line: polled, .. } if polled == line) {
                    self.order.set(pu, self.order.time(pu).min(now.max(task.clock.time)));
                }
            }
        }
    }

    /// A task wants its PU from a time on.
    pub(crate) fn enter(&mut self, pu: usize, number: usize, time: Time) {
        self.pus[pu].enter(number, time);
        let next = match self.pus[pu].current {
            None => time.max(self.pus[pu].free_from),
            Some(current) => match self.tasks[current].as_ref().map(|task| task.state) {
                Some(State::Polls { .. }) => time.max(self.pus[pu].slice_end),
                _ => NEVER,
            },
        };
        self.order.set(pu, self.order.time(pu).min(next));
    }

    /// Wakes those whose wait for the task is over.
    pub(crate) fn wake_waiters(&mut self, task: &mut Task<'a>) {
        let mut index = 0;
        while index < task.waiters.len() {
            let (position, waiter) = task.waiters[index];
            match task.passed(position) {
                Some(time) => {
                    task.waiters.remove(index);
                    self.wake(waiter, time);
                }
                None => index += 1,
            }
        }
    }

    pub(crate) fn wake(&mut self, number: usize, time: Time) {
        let task = self.tasks[number].as_mut().expect("the one that runs is another");
        let state = std::mem::replace(&mut task.state, State::Runs);
        let pu = task.pu;
        let time = time.max(task.clock.time);
        match state {
            State::Asleep { since, .. } => {
                task.report.waiting_fs += time - since;
                task.clock.time = time;
                self.enter(pu, number, time);
            }
            State::Polls { since, .. } => {
                task.report.polling_fs += time - since;
                task.clock.time = time;
                if self.pus[pu].current == Some(number) {
                    self.order.set(pu, time);
                }
            }
            State::Runs | State::Ended => {}
        }
    }
}

/// The recording wants what never happens.
pub(crate) fn never(task: usize, on: usize, position: u64) -> Error {
    Error::new(format!(
        "the recording cannot go on: task {task} waits for task {on} to have made {position} accesses, which never happens"
    ))
    .remedy("record it again")
}
