//! Which task is on which PU when there are more tasks than PUs.
//!
//! Tasks stay on the PU that the mapping gives them. A PU runs the task that has been ready for longest; it keeps the
//! PU until it sleeps, ends, or its slice is over and another is ready. Whoever polls keeps the PU like whoever works.

use crate::clock::Time;

/// One PU.
#[derive(Debug, Default)]
pub(crate) struct Pu {
    /// The task that is on it.
    pub current: Option<usize>,
    /// The task that was on it last.
    pub last: Option<usize>,
    /// When the last task left it.
    pub free_from: Time,
    /// When the current task may have to go.
    pub slice_end: Time,
    /// Tasks that want it, with when from; in the order in which they came.
    ready: Vec<(Time, usize)>,
}

impl Pu {
    /// The task wants the PU from this time on.
    pub fn enter(&mut self, task: usize, time: Time) {
        self.ready.push((time, task));
    }

    /// From when on a task wants the PU that is not on it.
    pub fn next_ready(&self) -> Option<Time> {
        self.ready.iter().map(|&(time, _)| time).min()
    }

    /// The task that has been ready for longest, by `now`, and since when.
    pub fn take(&mut self, now: Time) -> Option<(Time, usize)> {
        let index = (0..self.ready.len()).min_by_key(|&index| self.ready[index].0)?;
        (self.ready[index].0 <= now).then(|| self.ready.remove(index))
    }

    /// Whether the current task has to go at `now`.
    pub fn must_switch(&self, now: Time) -> bool {
        now >= self.slice_end && self.next_ready().is_some_and(|time| time <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_longest_is_next() {
        let mut pu = Pu::default();
        for (task, time) in [(3, 5), (1, 2), (2, 2)] {
            pu.enter(task, time);
        }
        assert_eq!(pu.take(1), None);
        assert_eq!(pu.next_ready(), Some(2));
        assert_eq!([pu.take(4), pu.take(4), pu.take(4), pu.take(5)], [Some((2, 1)), Some((2, 2)), None, Some((5, 3))]);
        pu.slice_end = 10;
        pu.enter(4, 12);
        assert_eq!([9, 11, 12].map(|now| pu.must_switch(now)), [false, false, true]);
    }
}
