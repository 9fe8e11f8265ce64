//! Numbers on the command line and in JSON.

use serde_json::{Value, json};
use std::time::Duration;

/// A sum as JSON: exact up to 64 bits, and beyond that as near as a floating-point number is.
pub fn sum(sum: u128) -> Value {
    u64::try_from(sum).map_or_else(|_| json!(sum as f64), |sum| json!(sum))
}

/// A time with its unit: `100us`, `1ms`, `2s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time with its unit, as in 100us, 1ms or 2s".to_owned())
}
