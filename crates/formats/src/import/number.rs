//! Counts as other tools write them. A count is a whole number from 0 to 2^64 - 1; anything else is an error that says
//! what was found, since a matrix silently rounded is a matrix silently wrong.

use cohabit_model::{Error, Result};

/// A count from text: `12`, `+12`, `12.0`, `1.2e3`; spaces around it are ignored.
///
/// # Errors
/// When it is empty, no number, negative, fractional, not finite or too large.
pub fn from_text(text: &str) -> Result<u64> {
    let text = text.trim();
    if let Ok(count) = text.strip_prefix('+').unwrap_or(text).parse() {
        return Ok(count);
    }
    if text.is_empty() {
        return Err(Error::new("a number is missing").remedy("write 0 where nothing was counted"));
    }
    match text.parse::<f64>() {
        // An integer too long for u64 also parses as a float: both end in the same message.
        Ok(value) => from_float(value),
        Err(_) => Err(Error::new(format!("{text:?} is not a number"))
            .remedy("write counts in digits, as 1500 or 1.5e3, and 0 where nothing was counted")),
    }
}

/// A count from a floating-point number that is one exactly.
///
/// # Errors
/// When it is negative, fractional, not finite or 2^64 and more.
pub fn from_float(value: f64) -> Result<u64> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    let refuse =
        |why: &str| Err(Error::new(format!("{value} {why}")).remedy("scale or round the matrix to counts first"));
    if !value.is_finite() {
        refuse("is not finite, a count must be")
    } else if value < 0.0 {
        refuse("is negative, a count cannot be")
    } else if value.fract() != 0.0 {
        refuse("is not a whole number")
    } else if value >= LIMIT {
        refuse("does not fit into 64 bits")
    } else {
        Ok(value as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_what_is_none() {
        let good = [("0", 0), (" 12 ", 12), ("+7", 7), ("12.0", 12), ("1.2e3", 1200), ("-0", 0)];
        for (text, expected) in good.into_iter().chain([("18446744073709551615", u64::MAX)]) {
            assert_eq!(from_text(text).unwrap(), expected, "{text}");
        }
        let bad = [
            ("", "missing"),
            ("x", "\"x\" is not a number"),
            ("nan", "not finite"),
            ("inf", "not finite"),
            ("-3", "negative"),
            ("0.5", "whole number"),
            ("18446744073709551616", "64 bits"),
            ("1e999", "not finite"),
        ];
        for (text, expected) in bad {
            let error = from_text(text).unwrap_err();
            assert!(error.cause.contains(expected), "{text}: {}", error.cause);
        }
    }
}
