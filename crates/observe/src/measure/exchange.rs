//! Messages between pinned threads through shared memory: a copy into a buffer, a flag, a copy out of it.

use super::busy::{Busy, Disturbance};
use super::{Point, Way};
use cohabit_host::affinity::CpuMask;
use nix::time::{ClockId, clock_gettime};
use std::cell::UnsafeCell;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds before the clock runs.
const WARM_UP: u64 = 4;
/// Times each figure is measured; the least disturbed counts.
const REPEATS: usize = 3;
/// Looks at a flag before the processor is offered to others.
const SPINS: u32 = 20_000;

/// One direction between two threads: two buffers in turns, so that a message can be written while the one before is
/// read.
#[repr(align(128))]
struct Channel {
    /// How many messages were sent.
    sent: AtomicU64,
    buffers: [UnsafeCell<Vec<u8>>; 2],
}

// SAFETY: a buffer is written by the sender before it raises `sent` and read by the receiver after it has seen that; it
// is written again only two messages later, when the receiver has answered the message after it.
unsafe impl Sync for Channel {}

impl Channel {
    fn new(length: usize) -> Self {
        let buffer = || UnsafeCell::new(vec![0; length]);
        Self { sent: AtomicU64::new(0), buffers: [buffer(), buffer()] }
    }

    /// Sends message `number` (from 1 on).
    fn send(&self, number: u64, from: &[u8]) {
        // SAFETY: see `Sync`.
        unsafe { (*self.buffers[(number % 2) as usize].get()).copy_from_slice(from) };
        self.sent.store(number, Ordering::Release);
    }

    /// Waits for message `number`.
    fn receive(&self, number: u64, to: &mut [u8]) {
        let mut spins = 0;
        while self.sent.load(Ordering::Acquire) < number {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        // SAFETY: see `Sync`.
        to.copy_from_slice(unsafe { &*self.buffers[(number % 2) as usize].get() });
        std::hint::black_box(to);
    }
}

/// Measures one length between pairs of PUs (OS indices), all pairs at once. The threads are the measurement's own:
/// nobody else's affinity is touched.
///
/// # Errors
/// A PU that a thread may not run on.
pub fn measure(pairs: &[(u32, u32)], length: u64, way: Way, time: Duration, busy: &mut Busy) -> io::Result<Point> {
    let mut rounds = 8;
    loop {
        let mut best = run(pairs, length as usize, way, rounds)?;
        let took = best.slowest() * rounds as f64;
        if took >= time.as_secs_f64() || rounds >= 1 << 24 {
            let mut longest = best.slowest();
            for _ in 1..REPEATS {
                let again = run(pairs, length as usize, way, rounds)?;
                longest = longest.max(again.slowest());
                best = if again.slowest() < best.slowest() { again } else { best };
            }
            busy.add(Disturbance { lost: best.lost, spread: longest / best.slowest() });
            // A message of a one-way exchange takes half the round trip.
            let messages = if way == Way::OneWay { 2.0 } else { 1.0 };
            return Ok(Point { length, seconds: best.seconds.into_iter().map(|seconds| seconds / messages).collect() });
        }
        let wanted = time.as_secs_f64() / took.max(1e-9) * 1.2;
        rounds = (rounds as f64 * wanted.clamp(2.0, 100.0)) as u64;
    }
}

/// One run.
struct Run {
    /// Seconds a round of each pair.
    seconds: Vec<f64>,
    /// Of the time, the part in which the thread that ran least did not run.
    lost: f64,
}

impl Run {
    fn slowest(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}

fn run(pairs: &[(u32, u32)], length: usize, way: Way, rounds: u64) -> io::Result<Run> {
    let channels: Vec<[Channel; 2]> = pairs.iter().map(|_| [Channel::new(length), Channel::new(length)]).collect();
    let start = Barrier::new(2 * pairs.len());
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (&(first, second), [there, back]) in pairs.iter().zip(&channels) {
            for (pu, out, inwards, begins) in [(first, there, back, true), (second, back, there, false)] {
                let start = &start;
                let thread = std::thread::Builder::new().name("cohabit-measure".to_owned());
                threads.push(thread.spawn_scoped(scope, move || {
                    // Whoever cannot be pinned takes part all the same: the others wait for it.
                    let pinned = CpuMask::single(pu).apply(0);
                    let (own, mut other) = (vec![1u8; length], vec![0u8; length]);
                    let mut round = |number: u64| match way {
                        Way::OneWay if !begins => {
                            inwards.receive(number, &mut other);
                            out.send(number, &own);
                        }
                        _ => {
                            out.send(number, &own);
                            inwards.receive(number, &mut other);
                        }
                    };
                    (1..=WARM_UP).for_each(&mut round);
                    start.wait();
                    let (began, ran) = (Instant::now(), cpu_seconds());
                    (WARM_UP + 1..=WARM_UP + rounds).for_each(&mut round);
                    let (took, ran) = (began.elapsed().as_secs_f64(), cpu_seconds() - ran);
                    pinned.map(|()| (took / rounds as f64, (1.0 - ran / took).clamp(0.0, 1.0)))
                })?);
            }
        }
        let times = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread broke down"))));
        let times = times.collect::<io::Result<Vec<(f64, f64)>>>()?;
        // Both ends of a pair saw the same rounds.
        let seconds = times.chunks(2).map(|ends| ends[0].0.max(ends[1].0)).collect();
        Ok(Run { seconds, lost: times.iter().map(|time| time.1).fold(0.0, f64::max) })
    })
}

/// What the calling thread has run.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    time.as_secs_f64()
}
