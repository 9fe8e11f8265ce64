//! How fast the time-stamp counter ticks: the client stamps events with it, the series is in nanoseconds.

use cohabit_model::Result;
use std::time::{Duration, Instant};

/// How long the counter is watched: with readings good to some 100 ns this gives five digits.
const WATCHED: Duration = Duration::from_millis(10);

/// Ticks of the time-stamp counter in a second of CLOCK_MONOTONIC (what `Instant` reads).
///
/// # Errors
/// Where there is no such counter: the processor is not an x86-64.
#[cfg(target_arch = "x86_64")]
pub fn ticks_per_second() -> Result<u64> {
    let (start_ticks, start) = reading();
    std::thread::sleep(WATCHED);
    let (end_ticks, end) = reading();
    let ticks = u128::from(end_ticks.wrapping_sub(start_ticks));
    let ns = end.duration_since(start).as_nanos().max(1);
    Ok(u64::try_from(ticks * 1_000_000_000 / ns).unwrap_or(u64::MAX).max(1))
}

/// The tightest of a few pairs of readings: one that was interrupted between the two clocks is dropped.
#[cfg(target_arch = "x86_64")]
fn reading() -> (u64, Instant) {
    let pair = || {
        // SAFETY: the instruction only reads a counter, which every x86-64 processor has.
        let before = unsafe { std::arch::x86_64::_rdtsc() };
        let time = Instant::now();
        // SAFETY: as above.
        let after = unsafe { std::arch::x86_64::_rdtsc() };
        (after.wrapping_sub(before), before, time)
    };
    let (width, before, time) = (0..8).map(|_| pair()).min_by_key(|&(width, ..)| width).expect("eight pairs");
    (before.wrapping_add(width / 2), time)
}

/// There is none.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks_per_second() -> Result<u64> {
    Err(cohabit_model::Error::new(format!("the exact profiler is for x86-64, this is {}", std::env::consts::ARCH))
        .remedy("profile on an x86-64 machine: the profile can be mapped onto any other"))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #[test]
    fn the_counter_is_a_processor_s() {
        let ticks = super::ticks_per_second().unwrap();
        assert!((100_000_000..20_000_000_000).contains(&ticks), "{ticks}");
    }
}
