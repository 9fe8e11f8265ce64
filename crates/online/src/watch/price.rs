//! What watching takes of the program, beside cohabit's own time, by what it takes on this machine.
//!
//! The kernel loads the debug registers of a task that is given a PU. And on some processors a store that crosses a
//! cache line takes several times as long while a data breakpoint is set, wherever that is (ten times, found on an
//! Intel Xeon of 2021), which nobody is told of: programs lose up to a seventh of the time that they are watched. So
//! such stores are timed at the start.

use cohabit_host::perf_event::{Stops, Watchpoints};
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

/// What a switch between tasks takes longer while they are watched (benches/online-seen.md).
const SWITCH: Duration = Duration::from_nanos(2500);
/// Of the time that a program runs, how much it is in stores that cross a cache line, about (benches/online.md).
const CROSSING: f64 = 0.01;
/// Bytes from the start of one cache line to that of the next.
const LINE: usize = 64;
/// Bytes that are stored to: they stay in the first cache.
const STORED: usize = 8192;
/// Times that all of them are stored to, watched and not: the least time of each counts.
const TIMES: usize = 20;
/// So many times as long as otherwise no store takes: the clock was off, or the thread was interrupted each time.
const MOST: f64 = 50.0;

/// What watching takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Price {
    /// Of the time that tasks run while they are watched, how much they lose.
    pub(super) lost: f64,
}

impl Price {
    /// Of this machine, by stores of this thread, which is watched meanwhile.
    ///
    /// # Errors
    /// Where it cannot be watched.
    pub(super) fn measured() -> io::Result<Self> {
        let word = 0u64;
        let mut bytes = vec![0; STORED];
        let watched = Watchpoints::open(
            nix::unistd::gettid().as_raw(),
            std::iter::once(((&raw const word).addr() as u64, Stops::Accesses)),
        )?;
        let slow = least_time(&mut bytes);
        drop(watched);
        let usual = least_time(&mut bytes);
        Ok(Self::of(slow.as_secs_f64() / usual.as_secs_f64().max(1e-9)))
    }

    /// Where a store that crosses a cache line takes so many times as long while a place is watched.
    fn of(times: f64) -> Self {
        Self { lost: CROSSING * (times.clamp(1.0, MOST) - 1.0) }
    }

    /// What tasks have lost that were watched while they ran so long, in so many turns.
    pub(super) fn lost(&self, ran: Duration, turns: u64) -> Duration {
        ran.mul_f64(self.lost) + SWITCH * u32::try_from(turns).unwrap_or(u32::MAX)
    }
}

/// The least time for a store across the end of each cache line.
fn least_time(bytes: &mut [u8]) -> Duration {
    let start = bytes.as_ptr().align_offset(LINE) + LINE - size_of::<u64>() / 2;
    let time = |round: usize| {
        let began = Instant::now();
        for at in (start..bytes.len() - size_of::<u64>()).step_by(LINE) {
            // One store of eight bytes.
            bytes[at..at + size_of::<u64>()].copy_from_slice(&black_box(round as u64).to_ne_bytes());
        }
        black_box(&*bytes);
        began.elapsed()
    };
    (0..TIMES).map(time).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_what_crossing_stores_take_longer() {
        assert_eq!(Price::of(0.9), Price { lost: 0.0 });
        let (ran, turns) = (Duration::from_secs(2), 1000);
        assert_eq!(Price::of(1.0).lost(ran, turns), SWITCH * 1000);
        assert_eq!(Price::of(11.0).lost(ran, 0), ran.mul_f64(10.0 * CROSSING));
        assert_eq!(Price::of(f64::INFINITY), Price::of(MOST));
        assert_eq!(Price::of(2.0).lost(Duration::ZERO, u64::MAX), SWITCH * u32::MAX);
    }
}
