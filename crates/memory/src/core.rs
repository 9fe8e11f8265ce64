//! What a core makes of one task's instructions: how fast they are begun, and what holds them up.
//!
//! Instructions are begun at a given rate, in order. A load that is not served by the L1 takes a fill buffer until its
//! line is there; so many instructions as the window has are begun behind it, then the core waits for it. Stores wait
//! in the store buffer: they take a fill buffer and hold up nobody.
//!
//! Where it is known how long instructions wait for one another, a piece of about a window of them takes so long at least:
//! within a window they wait while others, and loads, are under way.

use crate::clock::Time;

/// A line under way.
#[derive(Debug, Clone, Copy)]
struct Fill {
    line: u64,
    done: Time,
    /// The instruction that wants it, where that is a load.
    load: Option<u64>,
}

/// The clock of one task.
#[derive(Debug, Clone)]
pub(crate) struct CoreClock {
    /// When the next instruction is begun.
    pub time: Time,
    /// Instructions begun.
    pub begun: u64,
    /// How long it was held up.
    pub stalled: Time,
    window: u64,
    buffers: usize,
    /// In the order in which they were asked for.
    fills: Vec<Fill>,
    /// When the first of them is there, and the last; which instruction the oldest load of them lets begin, + 1. All of
    /// them hold until the first is there, or [`CoreClock::look`] is called.
    first_done: Time,
    last_done: Time,
    room_until: u64,
    /// The piece of a window under way: when it began, with which instruction it is over, and how long its instructions
    /// have waited for one another.
    piece_began: Time,
    piece_end: u64,
    piece_takes: Time,
    /// By how much that is longer than what begins and loads would have taken of the piece until now: what comes in it
    /// is begun meanwhile.
    ahead: Time,
}

impl CoreClock {
    pub fn new(window: u64, buffers: usize) -> Self {
        Self {
            time: 0,
            begun: 0,
            stalled: 0,
            window,
            buffers,
            fills: Vec::new(),
            first_done: 0,
            last_done: 0,
            room_until: 0,
            piece_began: 0,
            piece_end: window,
            piece_takes: 0,
            ahead: 0,
        }
    }

    /// The instructions begun last end so much later than those before them, because they wait for what others make.
    #[inline]
    pub fn depend(&mut self, takes: Time) {
        self.piece_takes = self.piece_takes.saturating_add(takes);
        let until = self.piece_began.saturating_add(self.piece_takes);
        if until > self.time {
            let waits = until - self.time;
            self.ahead += waits;
            self.stalled += waits;
            self.time = until;
        }
        if self.begun >= self.piece_end {
            (self.piece_began, self.piece_takes, self.ahead) = (self.time, 0, 0);
            self.piece_end = self.begun.saturating_add(self.window);
        }
    }

    /// Lines under way have changed.
    fn look(&mut self) {
        self.first_done = self.fills.iter().map(|fill| fill.done).min().unwrap_or(0);
        self.last_done = self.fills.iter().map(|fill| fill.done).max().unwrap_or(0);
        let oldest = self.fills.iter().find_map(|fill| fill.load);
        self.room_until = oldest.map_or(u64::MAX, |begun| begun.saturating_add(self.window));
    }

    /// Goes on with so many fill buffers.
    pub fn set_buffers(&mut self, buffers: usize) {
        self.buffers = buffers;
    }

    fn wait_until(&mut self, time: Time) {
        if time > self.time {
            self.stalled += time - self.time;
            self.time = time;
            self.ahead = 0;
        } else {
            self.ahead = self.ahead.min(self.time - time);
        }
    }

    /// Something takes so long, as far as that is not over already. What is left of it.
    #[inline]
    fn pass(&mut self, time: Time) -> Time {
        let left = time.saturating_sub(self.ahead);
        self.ahead = self.ahead.saturating_sub(time);
        self.time += left;
        left
    }

    /// Begins `count` instructions, each of which takes `each`.
    #[inline]
    pub fn advance(&mut self, count: u64, each: Time) {
        let free = self.time < self.first_done && count <= self.room_until.saturating_sub(self.begun);
        if free || self.fills.is_empty() {
            self.begun += count;
            self.pass(count * each);
        } else {
            self.advance_behind_loads(count, each);
        }
    }

    fn advance_behind_loads(&mut self, mut count: u64, each: Time) {
        loop {
            let time = self.time;
            if time >= self.first_done {
                self.fills.retain(|fill| fill.done > time);
                self.look();
            }
            let oldest = self.fills.iter().find_map(|fill| Some((fill.load?, fill.done)));
            let room = oldest.map_or(u64::MAX, |(begun, _)| (begun + self.window).saturating_sub(self.begun));
            let now = count.min(room);
            self.begun += now;
            self.pass(now * each);
            count -= now;
            match oldest {
                Some((_, done)) if count > 0 => self.wait_until(done),
                _ => return,
            }
        }
    }

    /// Whether the line is under way; a load of it waits for it as the one before does.
    #[inline]
    pub fn joins(&mut self, line: u64, load: bool) -> bool {
        if self.fills.is_empty() || self.time >= self.last_done {
            return false;
        }
        let Some(index) = self.fills.iter().position(|fill| fill.line == line && fill.done > self.time) else {
            return false;
        };
        if load && self.fills[index].load.is_none() {
            let fill = self.fills.remove(index);
            self.fills.push(Fill { load: Some(self.begun), ..fill });
            self.look();
        }
        true
    }

    /// How long the line is still under way.
    pub fn under_way(&self, line: u64) -> Time {
        let fill = self.fills.iter().find(|fill| fill.line == line);
        fill.map_or(0, |fill| fill.done.saturating_sub(self.time))
    }

    /// Waits for a free fill buffer.
    pub fn wait_for_buffer(&mut self) {
        let time = self.time;
        if time >= self.first_done {
            self.fills.retain(|fill| fill.done > time);
            self.look();
        }
        if self.fills.len() >= self.buffers {
            let next = self.fills.iter().map(|fill| fill.done).min().unwrap_or(time);
            self.wait_until(next);
        }
    }

    /// Waits for all lines under way.
    pub fn drain(&mut self) {
        if let Some(last) = self.fills.iter().map(|fill| fill.done).max() {
            self.wait_until(last);
            self.fills.clear();
        }
    }

    /// Held up for so long by something else.
    pub fn stall(&mut self, time: Time) {
        self.stalled += self.pass(time);
    }

    /// A line is under way from now on.
    pub fn start(&mut self, line: u64, latency: Time, load: bool) {
        let (done, first) = (self.time + latency, self.fills.is_empty());
        self.fills.push(Fill { line, done, load: load.then_some(self.begun) });
        if first {
            self.look();
        } else {
            self.first_done = self.first_done.min(done);
            self.last_done = self.last_done.max(done);
            if load && self.room_until == u64::MAX {
                self.room_until = self.begun.saturating_add(self.window);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions of 1, loads of 100: by hand.
    #[test]
    fn loads_hold_up_what_is_beyond_the_window() {
        for (window, buffers, after, stalled) in [
            // In order: the load begins at 1, the next instruction not before 101.
            (0, 10, 111, 100),
            // Four instructions behind it, at 5; six more from 101 on.
            (4, 10, 107, 96),
            (10, 10, 11, 0),
            (200, 1, 11, 0),
        ] {
            let mut clock = CoreClock::new(window, buffers);
            clock.advance(1, 1);
            clock.start(7, 100, true);
            clock.advance(10, 1);
            assert_eq!((clock.time, clock.stalled), (after, stalled), "window {window}");
            // A second line needs a second buffer.
            clock.wait_for_buffer();
            assert_eq!(clock.time, if buffers == 1 { 101 } else { after });
        }
    }

    /// Instructions of 1, pieces of ten: each takes what is the longer, beginning, loads, or waiting for one another.
    #[test]
    fn a_piece_takes_as_long_as_its_instructions_wait_for_one_another() {
        let mut clock = CoreClock::new(10, 10);
        for (count, takes, time) in [
            (5, 3, 5),
            (3, 9, 12),
            // The piece is over: what it has waited is not waited for in the next one.
            (2, 0, 12),
            (5, 0, 17),
            (5, 30, 42),
            // Longer than a window: a piece by itself.
            (100, 90, 142),
            (100, 120, 262),
        ] {
            clock.advance(count, 1);
            clock.depend(takes);
            assert_eq!(clock.time, time, "{count} {takes}");
        }
        // A load holds them up for 90 while they wait for 95, in the same piece.
        let mut clock = CoreClock::new(10, 10);
        clock.advance(1, 1);
        clock.start(7, 100, true);
        clock.advance(10, 1);
        clock.depend(0);
        clock.advance(1, 1);
        clock.depend(95);
        assert_eq!((clock.time, clock.begun), (106, 12));
    }

    #[test]
    fn stores_hold_up_nobody_until_somebody_reads_or_drains() {
        let mut clock = CoreClock::new(2, 10);
        clock.start(7, 100, false);
        clock.advance(10, 1);
        assert_eq!(clock.time, 10);
        assert!(clock.joins(7, true) && !clock.joins(8, true));
        assert_eq!(clock.under_way(7), 90);
        clock.advance(3, 1);
        assert_eq!(clock.time, 101);
        clock.start(9, 50, false);
        clock.drain();
        assert_eq!(clock.time, 151);
    }
}
