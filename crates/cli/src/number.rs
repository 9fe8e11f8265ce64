//! Numbers on the command line and in JSON.

use serde_json::{Value, json};
use std::time::Duration;

/// A sum as JSON: exact up to 64 bits, and beyond that as near as a floating-point number is.
pub fn sum(sum: u128) -> Value {
    u64::try_from(sum).map_or_else(|_| json!(sum as f64), |sum| json!(sum))
}

/// A time for people: `3.46 s`, `12.3 ms`, `0 s`.
pub fn seconds(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or((1.0, "s"));
    let value = seconds / unit;
    let decimals = if value >= 100.0 || value == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {name}")
}

/// A time with its unit: `100us`, `1ms`, `2s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time with its unit, as in 100us, 1ms or 2s".to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn seconds_have_three_digits_and_a_unit() {
        for (seconds, expected) in [
            (0.0, "0 s"),
            (3.456, "3.46 s"),
            (0.0123, "12.3 ms"),
            (4.5e-7, "450 ns"),
            (1234.5, "1234 s"),
            (1e-12, "0.00 s"),
        ] {
            assert_eq!(super::seconds(seconds), expected);
        }
    }
}
