//! Simulated time: whole femtoseconds, so that sums do not depend on the order in which they are made.
//!
//! 64 bits hold five hours, a quarter of which can be simulated. Whatever would be later is [`NEVER`], and refused by
//! the engine.

/// A moment, or a length of time, in fs.
pub type Time = u64;

/// 1 ns.
pub const NS: Time = 1_000_000;

/// Later than everything.
pub const NEVER: Time = Time::MAX;

/// What the engine takes for too long: a quarter of what fits, so that sums of two or three do.
pub const LONGEST: Time = 1 << 62;

/// The nearest whole number of fs, at most [`LONGEST`].
pub fn from_ns(ns: f64) -> Time {
    (ns * NS as f64).round().clamp(0.0, LONGEST as f64) as Time
}

/// As people read it.
pub fn to_ns(time: Time) -> f64 {
    time as f64 / NS as f64
}

/// How long `bytes` take at `gigabytes_s` (10^9 bytes/s); 0 where the rate is infinite.
pub fn of_bytes(bytes: u64, gigabytes_s: f64) -> Time {
    if gigabytes_s.is_infinite() { 0 } else { from_ns(bytes as f64 / gigabytes_s) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_femtoseconds() {
        for (ns, time) in [(0.0, 0), (1.0, 1_000_000), (1.0 / 3.0, 333_333), (-1.0, 0), (f64::INFINITY, LONGEST)] {
            assert_eq!(from_ns(ns), time);
        }
        assert_eq!(of_bytes(64, 12.8), 5 * NS);
        assert_eq!(of_bytes(64, f64::INFINITY), 0);
    }
}
