//! What is in the parentheses of a level: `(size=32KB)`, `(memory=8GiB indexes=2*4:4*2)`.

use crate::{Error, Result};

/// The attributes that say something about the tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes<'a> {
    /// `size` of a cache or `memory` of a NUMA node; 0 where not given.
    pub size_bytes: u64,
    /// The text of `indexes`.
    pub indexes: Option<&'a str>,
}

/// Reads attributes, which are separated by blanks. Those of other names say nothing about the tree.
pub(super) fn parse(text: &str) -> Result<Attributes<'_>> {
    let mut attributes = Attributes::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("size" | "memory", size)) => attributes.size_bytes = bytes(size)?,
            Some(("indexes", indexes)) => attributes.indexes = Some(indexes),
            _ => {}
        }
    }
    Ok(attributes)
}

/// A size with hwloc's units: `32kB` is 32,000 bytes, `32KiB` 32,768.
fn bytes(text: &str) -> Result<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000u64.pow(2),
        "gb" => 1000u64.pow(3),
        "tb" => 1000u64.pow(4),
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(Error::new(format!("{text:?} is no size")).remedy("write bytes, or a unit: 32KiB, 8GB")),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.ok_or_else(|| Error::new(format!("{text:?} is no size, or too large a one")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("size=32768", 32768),
            ("memory=8GB", 8_000_000_000),
            ("memory=8GiB memorysidecachesize=1GB", 8 << 30),
            ("size=48kb", 48_000),
            ("", 0),
            ("type=Cluster", 0),
        ] {
            assert_eq!(parse(text).unwrap(), Attributes { size_bytes: expected, indexes: None }, "{text}");
        }
        for text in ["size=", "size=x", "size=1XB", "size=99999999999999999999", "memory=99999999999TiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("size=1 indexes=1,0").unwrap(), Attributes { size_bytes: 1, indexes: Some("1,0") });
    }
}
