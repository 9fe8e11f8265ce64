//! A server that works off one request after another: a memory controller, a direction of a link, a bus.
//!
//! The time of one request is fixed, so that requests that come at random wait as in an M/D/1 queue: rho / (2 mu (1 -
//! rho)). Requests come in nearly the order of time; one that comes late in the order may use a time in which nothing
//! was done.

use crate::clock::{self, Time};
use crate::report::Usage;
use crate::series::ServerCounts;
use std::collections::VecDeque;

/// Idle times that are remembered.
const MOST_GAPS: usize = 32;
/// How long the share in use is looked at before it decides what a curve adds.
const WINDOW: Time = 1000 * clock::NS;

#[derive(Debug, Clone)]
pub(crate) struct Queue {
    gb_s: f64,
    /// Time for 64 bytes and for 8, which are nearly all there is.
    line_bytes: u64,
    line_time: Time,
    free_at: Time,
    /// Idle times before `free_at`, ascending.
    gaps: VecDeque<(Time, Time)>,
    curve: Vec<(f64, Time)>,
    window_end: Time,
    busy_in_window: Time,
    share: f64,
    pub usage: Usage,
    /// The same over time, where that is asked for.
    pub series: Option<Box<ServerCounts>>,
}

impl Queue {
    /// A server of so many 10^9 bytes/s.
    pub fn new(gb_s: f64, line_bytes: u64, curve: &[(f64, Time)]) -> Self {
        Self {
            gb_s,
            line_bytes,
            line_time: clock::of_bytes(line_bytes, gb_s),
            free_at: 0,
            gaps: VecDeque::new(),
            curve: curve.to_vec(),
            window_end: WINDOW,
            busy_in_window: 0,
            share: 0.0,
            usage: Usage::default(),
            series: None,
        }
    }

    /// A request of `bytes` at `now`; how long it waits before it is served. With a curve, at least what that says.
    pub fn serve(&mut self, bytes: u64, now: Time) -> Time {
        self.usage.requests += 1;
        self.usage.bytes += bytes;
        if self.gb_s.is_infinite() && self.curve.is_empty() {
            if let Some(series) = &mut self.series {
                series.note(bytes, now, 0, now, 0);
            }
            return 0;
        }
        let time = if bytes == self.line_bytes { self.line_time } else { clock::of_bytes(bytes, self.gb_s) };
        let begin = self.begin(now, time);
        let mut wait = begin - now;
        if !self.curve.is_empty() {
            wait = wait.max(self.by_curve(now, time));
        }
        self.usage.busy_fs += time;
        self.usage.wait_fs += wait;
        if let Some(series) = &mut self.series {
            series.note(bytes, now, wait, begin, time);
        }
        wait
    }

    /// When a request of `now` that takes `time` begins.
    fn begin(&mut self, now: Time, time: Time) -> Time {
        if now >= self.free_at {
            if now > self.free_at {
                self.gaps.push_back((self.free_at, now));
                self.forget_gaps();
            }
            self.free_at = now + time;
            return now;
        }
        for index in 0..self.gaps.len() {
            let (from, to) = self.gaps[index];
            let begin = from.max(now);
            if begin + time <= to {
                // What is left of the idle time, before and after.
                let (before, after) = (from < begin, begin + time < to);
                match (before, after) {
                    (false, false) => drop(self.gaps.remove(index)),
                    (true, false) => self.gaps[index] = (from, begin),
                    (_, true) => self.gaps[index] = (begin + time, to),
                }
                if before && after {
                    self.gaps.insert(index, (from, begin));
                    self.forget_gaps();
                }
                return begin;
            }
        }
        let begin = self.free_at;
        self.free_at += time;
        begin
    }

    /// The oldest idle times go: each search stays short.
    fn forget_gaps(&mut self) {
        if self.gaps.len() > MOST_GAPS {
            self.gaps.pop_front();
        }
    }

    fn by_curve(&mut self, now: Time, time: Time) -> Time {
        if now >= self.window_end {
            let whole = (now - self.window_end) / WINDOW;
            // Nothing at all in the windows between.
            self.share = if whole > 0 { 0.0 } else { (self.busy_in_window as f64 / WINDOW as f64).min(1.0) };
            self.window_end += (whole + 1) * WINDOW;
            self.busy_in_window = 0;
        }
        self.busy_in_window += time;
        interpolate(&self.curve, self.share)
    }
}

fn interpolate(curve: &[(f64, Time)], share: f64) -> Time {
    let above = curve.iter().position(|&(at, _)| at >= share);
    match above {
        None => curve[curve.len() - 1].1,
        Some(0) => curve[0].1,
        Some(index) => {
            let ((x0, y0), (x1, y1)) = (curve[index - 1], curve[index]);
            y0 + ((y1 as f64 - y0 as f64) * (share - x0) / (x1 - x0)) as Time
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::NS;

    #[test]
    fn one_after_another_by_hand() {
        // 64 bytes at 6.4 GB/s: 10 ns.
        let mut queue = Queue::new(6.4, 64, &[]);
        for (at, waits) in [(0, 0), (0, 10), (5, 15), (30, 0), (100, 0), (40, 0), (45, 5), (60, 0), (61, 9), (92, 18)] {
            assert_eq!(queue.serve(64, at * NS) / NS, waits, "at {at}");
        }
        assert_eq!(queue.usage.requests, 10);
        assert_eq!(queue.usage.bytes, 640);
        assert_eq!(Queue::new(f64::INFINITY, 64, &[]).serve(1 << 40, 0), 0);
    }

    #[test]
    fn idle_times_that_are_remembered_are_few() {
        let mut queue = Queue::new(6.4, 64, &[]);
        queue.serve(64, 0);
        queue.serve(64, 1_000_000 * NS);
        // Each late request splits an idle time in two.
        for n in 0..10_000 {
            queue.serve(64, (999_000 - n * 30) * NS);
            assert!(queue.gaps.len() <= MOST_GAPS);
        }
    }

    /// M/D/1: mean wait rho / (2 mu (1 - rho)) within 1 %.
    #[test]
    fn random_arrivals_wait_as_in_m_d_1() {
        for rho in [0.2, 0.5, 0.8] {
            let mut queue = Queue::new(6.4, 64, &[]);
            let (mut now, mut state, mut sum) = (0.0, 12345u64, 0.0);
            let requests = 2_000_000;
            for _ in 0..requests {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let uniform = ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                now += -uniform.ln() * 10.0 / rho;
                sum += clock::to_ns(queue.serve(64, clock::from_ns(now)));
            }
            let (mean, wanted) = (sum / f64::from(requests), rho * 10.0 / (2.0 * (1.0 - rho)));
            assert!((mean / wanted - 1.0).abs() < 0.01, "rho {rho}: {mean} ns, wanted {wanted} ns");
        }
    }

    #[test]
    fn a_curve_adds_what_it_says() {
        let curve = [(0.0, 0), (0.5, 20 * NS), (1.0, 100 * NS)];
        for (share, adds) in [(0.0, 0), (0.25, 10), (0.5, 20), (0.75, 60), (1.0, 100)] {
            assert_eq!(interpolate(&curve, share), adds * NS, "{share}");
        }
        // 10 ns of each 20: half in use, and no wait without the curve.
        let mut queue = Queue::new(6.4, 64, &curve);
        let waits: Vec<_> = (0..400).map(|n| queue.serve(64, n * 20 * NS) / NS).collect();
        assert_eq!((waits[0], waits[399]), (0, 20));
    }
}
