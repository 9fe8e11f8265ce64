//! Cache to cache: loads of lines that another core has just written.

use super::super::busy::{Busy, Disturbance};
use super::super::pages::Pages;
use super::chase::{Random, lay_cycle, lines_of};
use super::joined;
use cohabit_host::affinity::CpuMask;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are written in a turn: few enough for the writer's first cache to have all of them still.
const BYTES: usize = 8 << 10;
/// Turns, at least.
const TURNS: u64 = 100;
/// Looks at a flag before the processor is offered to others.
const SPINS: u32 = 20_000;

/// Whose turn it is, on a line of its own.
#[repr(align(128))]
struct Turn(AtomicU64);

impl Turn {
    fn wait_for(&self, turn: u64) {
        let mut spins = 0;
        while self.0.load(Ordering::Acquire) != turn {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Seconds that a load takes on a PU (OS index) of a line that the other PU has written: the median of the turns.
///
/// # Errors
/// A PU that a thread may not run on, memory that cannot be had.
pub(super) fn transfer_seconds(writer: u32, reader: u32, time: Duration, busy: &mut Busy) -> io::Result<f64> {
    let places = lines_of(BYTES);
    let mut pages = Pages::new(BYTES as u64, None)?;
    lay_cycle(pages.words_mut(), &places, &mut Random::new());
    let words: Vec<AtomicU64> = pages.words().iter().map(|&word| AtomicU64::new(word)).collect();
    let (turn, words) = (Turn(AtomicU64::new(0)), &words[..]);
    let mut found = std::thread::scope(|scope| {
        let turns = scope.spawn(|| {
            // Whoever cannot be pinned takes part all the same: the other waits for it.
            let pinned = CpuMask::single(writer).apply(0);
            let mut number = 0;
            loop {
                for &place in &lines_of(BYTES) {
                    // The same again: a line that is written is its writer's alone, whatever is written.
                    words[place].store(words[place].load(Ordering::Relaxed), Ordering::Relaxed);
                }
                turn.0.store(2 * number + 1, Ordering::Release);
                number += 1;
                let mut spins = 0;
                loop {
                    match turn.0.load(Ordering::Acquire) {
                        u64::MAX => return pinned,
                        now if now == 2 * number => break,
                        _ => {}
                    }
                    spins += 1;
                    if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
                }
            }
        });
        let times = scope.spawn(|| {
            let pinned = CpuMask::single(reader).apply(0);
            let (mut times, began, mut number) = (Vec::new(), Instant::now(), 0);
            while number < TURNS || began.elapsed() < time {
                turn.wait_for(2 * number + 1);
                let started = Instant::now();
                let mut at = places[0];
                for _ in 0..places.len() {
                    at = words[at].load(Ordering::Relaxed) as usize;
                }
                black_box(at);
                times.push(started.elapsed().as_secs_f64());
                number += 1;
                turn.0.store(2 * number, Ordering::Release);
            }
            turn.wait_for(2 * number + 1);
            turn.0.store(u64::MAX, Ordering::Release);
            pinned.map(|()| times)
        });
        let times = joined(times);
        joined(turns)?;
        times
    })?;
    found.sort_by(f64::total_cmp);
    let (median, quarter) = (found[found.len() / 2], found[found.len() / 4]);
    busy.add(Disturbance { lost: 0.0, spread: median / quarter });
    // Reading the clock is a part of each turn.
    let clock = clock_seconds();
    Ok((median - clock).max(0.0) / places.len() as f64)
}

/// What it takes to read the clock.
fn clock_seconds() -> f64 {
    let mut took: Vec<f64> = (0..101).map(|_| Instant::now().elapsed().as_secs_f64()).collect();
    took.sort_by(f64::total_cmp);
    took[50]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it takes depends on the machine; that it is a time, and that both threads end, does not.
    #[test]
    fn two_pus_are_measured_and_one_that_is_not_there_is_refused() {
        let affinity = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let pus: Vec<u32> = (0..1024).filter(|&pu| affinity.is_set(pu as usize).unwrap_or(false)).take(2).collect();
        let [first, second] = pus[..] else { return println!("skipped: there is only one PU to use") };
        let mut busy = Busy::begin();
        let found = transfer_seconds(first, second, Duration::from_millis(1), &mut busy).unwrap();
        assert!(found > 0.0 && found < 1e-3, "{found}");
        for (writer, reader) in [(first, 1023), (1023, second)] {
            assert!(transfer_seconds(writer, reader, Duration::ZERO, &mut busy).is_err());
        }
    }
}
