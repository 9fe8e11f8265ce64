//! Bandwidths as people write them: bytes/s as a number, a number with its unit ("100 Mbit/s"), or either by message
//! length (`{ 64 = 1.0e7, 64KiB = "1 GB/s" }`).

use crate::hct::Bandwidth;
use crate::{Error, Result};
use toml::Value;

/// What a bandwidth looks like, for errors.
const FORM: &str = "write bytes/s as a number, or with a unit: \"100 Mbit/s\", \"12.5 MB/s\", \"1.2 GiB/s\"";
/// What a length looks like, for errors.
const LENGTH: &str = "write message lengths in bytes, or with a unit: 64, 64KiB, 1MB";

/// Bytes in a unit, longest names first where one is the end of another.
const UNITS: [(&str, f64); 14] = [
    ("kbit", 125.0),
    ("Mbit", 125e3),
    ("Gbit", 125e6),
    ("Tbit", 125e9),
    ("bit", 0.125),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
];

/// A table by length, or one bandwidth for all.
///
/// # Errors
/// Where it is neither, or a number is not above 0.
pub fn bandwidth(value: &Value) -> Result<Bandwidth> {
    let Value::Table(table) = value else { return Bandwidth::flat(rate(value)?) };
    if table.is_empty() {
        return Err(Error::new("a table of bandwidths without any").remedy("write { 64 = 1.0e7, 65536 = 1.2e8 }"));
    }
    let points = table.iter().map(|(length, value)| Ok((bytes(length)?, rate(value)?))).collect::<Result<Vec<_>>>()?;
    Bandwidth::new(points)
}

/// Bytes/s.
///
/// # Errors
/// Where it is no number with or without a unit of bandwidth, or not above 0.
pub fn rate(value: &Value) -> Result<f64> {
    let found = match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::String(text) => with_unit(text, "/s"),
        _ => None,
    };
    let found = found.ok_or_else(|| Error::new(format!("{value} is no bandwidth")).remedy(FORM))?;
    match found.is_finite() && found > 0.0 {
        true => Ok(found),
        false => Err(Error::new(format!("a bandwidth of {value}"))
            .remedy("it must be above 0; leave the port out where it limits nothing")),
    }
}

/// The length of a message, as a number of bytes or with a unit.
///
/// # Errors
/// Where it is neither, or not from 0 on.
pub fn length(value: &Value) -> Result<f64> {
    let found = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::String(text) => bytes(text)?,
        _ => f64::NAN,
    };
    match found.is_finite() && found >= 0.0 {
        true => Ok(found),
        false => Err(Error::new(format!("{value} is no message length")).remedy(LENGTH)),
    }
}

/// The length of a message.
fn bytes(text: &str) -> Result<f64> {
    let found = text.parse().ok().or_else(|| with_unit(text, ""));
    found.ok_or_else(|| Error::new(format!("{text:?} is no message length")).remedy(LENGTH))
}

/// A number and a unit that ends with `ending`.
fn with_unit(text: &str, ending: &str) -> Option<f64> {
    let text = text.trim().strip_suffix(ending)?;
    let (name, factor) = UNITS.iter().find(|(name, _)| text.ends_with(name))?;
    let number: f64 = text.strip_suffix(name)?.trim().parse().ok()?;
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        format!("x = {text}").parse::<toml::Table>().unwrap().remove("x").unwrap()
    }

    #[test]
    fn bandwidths_have_units() {
        for (text, expected) in [
            ("1000", 1e3),
            ("1.25e7", 1.25e7),
            ("'100 Mbit/s'", 12.5e6),
            ("'8bit/s'", 1.0),
            ("'2 kB/s'", 2e3),
            ("'1.5 GiB/s'", 1.5 * 1073741824.0),
            ("'200 Gbit/s'", 25e9),
            ("'64 B/s'", 64.0),
        ] {
            assert_eq!(rate(&value(text)).unwrap(), expected, "{text}");
        }
        let table = bandwidth(&value("{ 64 = 10, '64KiB' = '1 kB/s' }")).unwrap();
        assert_eq!([64.0, 65536.0].map(|length| table.at(length).unwrap()), [10.0, 1000.0]);
    }

    #[test]
    fn what_is_no_bandwidth_says_what_would_be() {
        for (text, cause) in [
            ("0", "a bandwidth of 0"),
            ("-1.5", "a bandwidth of -1.5"),
            ("nan", "a bandwidth of nan"),
            ("inf", "a bandwidth of inf"),
            ("'0 Mbit/s'", "a bandwidth of \"0 Mbit/s\""),
            ("'fast'", "\"fast\" is no bandwidth"),
            ("'100 Mbit'", "\"100 Mbit\" is no bandwidth"),
            ("'100 Mb/s'", "\"100 Mb/s\" is no bandwidth"),
            ("true", "true is no bandwidth"),
            ("{}", "a table of bandwidths without any"),
            ("{ x = 1 }", "\"x\" is no message length"),
            ("{ 64 = 'x' }", "\"x\" is no bandwidth"),
            ("{ 64 = 0 }", "a bandwidth of 0"),
            ("{ 0 = 5 }", "a bandwidth of 5 bytes/s for messages of 0 bytes"),
        ] {
            let error = bandwidth(&value(text)).unwrap_err();
            assert!(error.cause == cause && error.remedy.is_some(), "{text}: {error}");
        }
    }
}
