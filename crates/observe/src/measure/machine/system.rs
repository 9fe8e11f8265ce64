//! What the operating system adds: a page that is touched for the first time, a change from one task to another.

use super::super::busy::{Busy, Disturbance};
use super::super::pages::{PAGE, Pages};
use super::joined;
use cohabit_host::affinity::CpuMask;
use nix::sys::mman::MmapAdvise;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Pages that are touched.
const PAGES: usize = 2048;
/// Times that is done; the fastest counts.
const REPEATS: usize = 5;
/// Changes between two clocks.
const CHANGES: usize = 200;

/// Seconds of the first touch of a page of 4 KiB.
///
/// # Errors
/// Memory that cannot be had.
pub(super) fn fault_seconds(busy: &mut Busy) -> io::Result<f64> {
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let mut pages = Pages::untouched((PAGES * PAGE) as u64, MmapAdvise::MADV_NOHUGEPAGE)?;
        let words = pages.words_mut();
        let began = Instant::now();
        (0..PAGES).for_each(|page| words[page * PAGE / size_of::<u64>()] = 1);
        times.push(began.elapsed().as_secs_f64());
        std::hint::black_box(&words[0]);
    }
    times.sort_by(f64::total_cmp);
    busy.add(Disturbance { lost: 0.0, spread: times[REPEATS / 2] / times[0] });
    Ok(times[0] / PAGES as f64)
}

/// Seconds from one task to another on the same PU: two that wake each other through pipes (lmbench, `lat_ctx`), the
/// calls taken off that the same number of bytes takes one task alone.
///
/// # Errors
/// A PU that a thread may not run on; no pipes.
pub(super) fn switch_seconds(pu: u32, time: Duration, busy: &mut Busy) -> io::Result<f64> {
    let (mut there_out, mut there_in) = pipe()?;
    let (mut back_out, mut back_in) = pipe()?;
    let mut of_two = std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let pinned = CpuMask::single(pu).apply(0);
            let mut byte = [0];
            // Ends when the other end of the pipe is closed.
            while there_out.read_exact(&mut byte).is_ok() && back_in.write_all(&byte).is_ok() {}
            pinned
        });
        let one = scope.spawn(move || {
            let pinned = CpuMask::single(pu).apply(0);
            let found = rounds(time, || {
                there_in.write_all(&[1])?;
                back_out.read_exact(&mut [0])
            });
            drop(there_in);
            pinned.and(found)
        });
        let found = joined(one);
        joined(other)?;
        found
    })?;
    let (mut out, mut to) = pipe()?;
    let mut alone = rounds(time, || {
        to.write_all(&[1])?;
        out.read_exact(&mut [0])
    })?;
    of_two.sort_by(f64::total_cmp);
    alone.sort_by(f64::total_cmp);
    let median = |times: &[f64]| times[times.len() / 2];
    busy.add(Disturbance { lost: 0.0, spread: median(&of_two) / of_two[of_two.len() / 4] });
    // Two writes, two reads and two changes, and one write and one read.
    Ok((median(&of_two) / 2.0 - median(&alone)).max(0.0))
}

/// The end to read from, and the end to write to.
fn pipe() -> io::Result<(File, File)> {
    let (out, to) = nix::unistd::pipe()?;
    Ok((out.into(), to.into()))
}

/// Seconds a round, of groups of rounds.
fn rounds(time: Duration, mut round: impl FnMut() -> io::Result<()>) -> io::Result<Vec<f64>> {
    let (mut found, began) = (Vec::new(), Instant::now());
    while found.len() < 5 || began.elapsed() < time {
        let started = Instant::now();
        for _ in 0..CHANGES {
            round()?;
        }
        found.push(started.elapsed().as_secs_f64() / CHANGES as f64);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_changes_take_some_time() {
        let mut busy = Busy::begin();
        assert!((1e-8..1e-3).contains(&fault_seconds(&mut busy).unwrap()));
        let pu = CpuMask::of_thread(0).unwrap().pus()[0];
        assert!((0.0..1e-3).contains(&switch_seconds(pu, Duration::from_millis(1), &mut busy).unwrap()));
        assert!(switch_seconds(1 << 16, Duration::ZERO, &mut busy).is_err());
    }
}
