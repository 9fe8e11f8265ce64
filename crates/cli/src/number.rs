//! Numbers on the command line and in JSON.

use cohabit_model::series::Window;
use cohabit_observe::dbi::LEAST_INSTRUCTIONS;
use serde_json::{Value, json};
use std::time::Duration;

/// A sum as JSON: exact up to 64 bits, and beyond that as near as a floating-point number is.
pub fn sum(sum: u128) -> Value {
    u64::try_from(sum).map_or_else(|_| json!(sum as f64), |sum| json!(sum))
}

/// A share in percent, as it was typed: of 58 % nothing is left of what doubles cannot hold.
pub fn percent(share: f64) -> f64 {
    (1e6 * share).round() / 1e4
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

/// So many windows of a series: a time, or instructions (`12.3 M instructions`).
pub fn windows(window: Window, count: f64) -> String {
    match window {
        Window::Time(ns) => seconds(count * ns as f64 * 1e-9),
        Window::Instructions(width) => instructions(count * width as f64),
    }
}

/// Instructions for people: `12.3 M instr`.
fn instructions(count: f64) -> String {
    let units = [(1e9, " G instr"), (1e6, " M instr"), (1e3, " k instr"), (1.0, " instr")];
    let (unit, name) = units.into_iter().find(|(unit, _)| count >= *unit).unwrap_or((1.0, " instr"));
    let value = count / unit;
    let decimals = if value >= 100.0 || value == 0.0 || unit == 1.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.decimals$}{name}")
}

/// A window of a time series: a time, or instructions as in `1Minstr`.
pub fn window(text: &str) -> Result<Window, String> {
    let Some(count) = text.strip_suffix("instr") else {
        let time = humantime::parse_duration(text).map_err(|_| {
            "write a time with its unit, as in 100us, 1ms or 2s, or instructions, as in 100kinstr or 1Minstr".to_owned()
        })?;
        return match u64::try_from(time.as_nanos()) {
            Ok(ns) if ns >= 1000 => Ok(Window::Time(ns)),
            Ok(_) => Err("it must be 1us or more".to_owned()),
            Err(_) => Err("it must be less than 500 years".to_owned()),
        };
    };
    let (digits, unit) = match count.as_bytes().last() {
        Some(b'k') => (&count[..count.len() - 1], 1_000),
        Some(b'M') => (&count[..count.len() - 1], 1_000_000),
        Some(b'G') => (&count[..count.len() - 1], 1_000_000_000),
        _ => (count, 1),
    };
    let number: Option<u64> = digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    let instructions = number.and_then(|number| number.checked_mul(unit));
    match instructions.ok_or("write instructions as a whole number of k, M or G, as in 100kinstr or 1Minstr")? {
        0..LEAST_INSTRUCTIONS => Err(format!("it must be {LEAST_INSTRUCTIONS}instr or more")),
        instructions => Ok(Window::Instructions(instructions)),
    }
}

/// A time with its unit: `100us`, `1ms`, `2s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time with its unit, as in 100us, 1ms or 2s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::window;
    use cohabit_model::series::Window;

    #[test]
    fn windows_are_of_time_or_of_instructions() {
        let (time, instructions) = (Window::Time, Window::Instructions);
        for (text, expected, said) in [
            ("1us", time(1000), "1.00 us"),
            ("100us", time(100_000), "100 us"),
            ("2s", time(2_000_000_000), "2.00 s"),
            ("1000instr", instructions(1000), "1.00 k instr"),
            ("250kinstr", instructions(250_000), "250 k instr"),
            ("1Minstr", instructions(1_000_000), "1.00 M instr"),
            ("12Ginstr", instructions(12_000_000_000), "12.0 G instr"),
        ] {
            assert_eq!(window(text), Ok(expected), "{text}");
            assert_eq!(super::windows(expected, 1.0), said);
        }
        assert_eq!(super::windows(instructions(1000), 0.0), "0 instr");
        for text in [
            "999ns",
            "0s",
            "1",
            "ms",
            "-1ms",
            "",
            "instr",
            "Minstr",
            "1minstr",
            "+1Minstr",
            "1.5Minstr",
            "999instr",
            "0kinstr",
            "99999999999Ginstr",
            "1M instr",
            "600000000000s",
        ] {
            assert!(window(text).is_err(), "{text}");
        }
    }

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
