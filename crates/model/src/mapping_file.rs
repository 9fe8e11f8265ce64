//! The mapping as a file: JSON, format 1, described in docs/formats.md.

use crate::file::{read_text, write_whole};
use crate::mapping::FORMAT;
use crate::{Error, Mapping, Result};
use std::collections::HashSet;
use std::path::Path;

/// A mapping of a million tasks, with an hwloc XML text of its machine, stays far below this.
const LIMIT_BYTES: u64 = 1 << 30;

impl Mapping {
    /// Reads a mapping file.
    ///
    /// # Errors
    /// Where it is damaged (line and column), of a newer format, or contradicts itself (a task placed twice).
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_json(&read_text(path, LIMIT_BYTES)?).map_err(|error| error.at(path.display()))
    }

    /// Writes it whole or not at all.
    ///
    /// # Errors
    /// The path with the system's reason.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_whole(path, self.to_json().as_bytes())
    }

    /// From the text of a mapping file.
    ///
    /// # Errors
    /// As [`Mapping::read`].
    pub fn from_json(text: &str) -> Result<Self> {
        let found = format_of(text, "mapping")?;
        check_format(found, FORMAT, "mapping")?;
        let mapping: Self =
            serde_json::from_str(text).map_err(|error| Error::new(format!("not a mapping: {error}")))?;
        let mut seen = HashSet::new();
        match mapping.tasks.iter().find(|placed| !seen.insert(placed.task)) {
            Some(twice) => Err(Error::new(format!("task {} is placed twice", twice.task))),
            None => Ok(mapping),
        }
    }

    /// The text of a mapping file, indented, with a final newline.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a mapping has only string keys and finite numbers");
        text.push('\n');
        text
    }
}

/// The format number of a JSON object (`"format": N`), read before anything that a later format may have changed.
///
/// # Errors
/// When the text is not JSON (line and column), or has no such number.
pub fn format_of(text: &str, noun: &str) -> Result<u64> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: Option<serde_json::Value>,
    }
    let not_one = |error| Error::new(format!("not a {noun}: {error}"));
    let format: Format = serde_json::from_str(text).map_err(not_one)?;
    let number = format.format.as_ref().and_then(serde_json::Value::as_u64);
    number.ok_or_else(|| Error::new(format!("not a {noun} of cohabit: it has no \"format\" number")))
}

/// Refuses a format that this version does not know, by name.
///
/// # Errors
/// When `found` is not between 1 and `known`.
pub fn check_format(found: u64, known: u64, noun: &str) -> Result<()> {
    if found > known {
        let cause = format!("{noun} format {found}, but this version knows formats up to {known}");
        return Err(Error::new(cause).remedy("use a newer cohabit, or make the file again with this one"));
    }
    if found == 0 {
        return Err(Error::new(format!("{noun} format 0 does not exist")).remedy("make the file again"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Cost, Placed, Weight};

    fn placed(task: u32, pu: u32) -> Placed {
        Placed {
            task,
            name: format!("worker {task}"),
            host: "here".into(),
            process: 0,
            rank: None,
            spawn_index: task,
            parent: task.checked_sub(1),
            pu,
            pus: format!("{pu},{}", pu + 4),
            unknown: Default::default(),
        }
    }

    fn example() -> Mapping {
        Mapping {
            format: FORMAT,
            mapper: "packed".into(),
            seed: 7,
            weight: Weight::Messages,
            objective: "distance".into(),
            level_costs: vec![100, 10],
            topology: "pack:2 pu:2".into(),
            programs: vec!["/opt/solver".into()],
            no_gain: Some("all alike".into()),
            tasks: vec![placed(0, 3), placed(1, 1)],
            cost: Cost { distance: u128::from(u64::MAX) * 3, lower_bound: Some(1), ..Cost::default() },
            unknown: Default::default(),
        }
    }

    #[test]
    fn comes_back_as_it_went_with_sums_beyond_64_bits_and_later_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map.json");
        let mut mapping = example();
        mapping.unknown.insert("later".into(), serde_json::json!({"a": [1, 2.5]}));
        mapping.tasks[1].unknown.insert("niceness".into(), serde_json::json!(3));
        mapping.cost.unknown.insert("joules".into(), serde_json::json!(0.25));
        mapping.write(&path).unwrap();
        assert_eq!(Mapping::read(&path).unwrap(), mapping);
    }

    /// Numbers that no 64 bits hold, or whose shortest form is another one.
    const NUMBERS: [&str; 8] = [
        "18446744073709551616",
        "-9223372036854775809",
        "0.1000000000000000055511151231257827",
        "2.2250738585072011e-308",
        "9007199254740993.0",
        "1.50",
        "-0",
        "1e+400", // serde_json writes 1e400 so, too: the same number
    ];

    #[test]
    fn numbers_that_are_not_understood_stay_as_they_are_written() {
        for number in NUMBERS {
            for (key, before) in
                [("format", "\"later\": "), ("task", "\"later\": [1, "), ("distance", "\"later\": {\"a\": ")]
            {
                let end = before.replace("\"later\": ", "").replace("[1, ", "]").replace("{\"a\": ", "}");
                let text = example().to_json().replacen(
                    &format!("\"{key}\":"),
                    &format!("{before}{number}{end}, \"{key}\":"),
                    1,
                );
                let read = Mapping::from_json(&text).unwrap_or_else(|error| panic!("{number}: {}", error.cause));
                let again = read.to_json();
                assert!(again.contains(number), "{number}: {again}");
                assert_eq!(Mapping::from_json(&again).unwrap().to_json(), again, "{number}");
            }
        }
    }

    #[test]
    fn times_come_back_to_the_last_bit() {
        let mut random = 7_u64;
        for _ in 0..1_000 {
            // Marsaglia, "Xorshift RNGs", 2003.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let ns = f64::from_bits(random & (u64::MAX >> 1));
            let cost = Cost { predicted_ns: Some(ns).filter(|ns| ns.is_finite()), ..Cost::default() };
            let mapping = Mapping { cost, ..example() };
            assert_eq!(Mapping::from_json(&mapping.to_json()).unwrap(), mapping);
        }
    }

    #[test]
    fn bad_files_are_refused_with_the_place() {
        let twice = Mapping { tasks: vec![placed(0, 3), placed(0, 1)], ..example() }.to_json();
        let newer = example().to_json().replace("\"format\": 1", "\"format\": 2");
        let cases = [
            ("", "line 1 column 0"),
            ("{\"format\": 1,\n \"mapper\": }", "line 2 column 12"),
            ("{}", "no \"format\" number"),
            ("{\"format\": \"1\"}", "no \"format\" number"),
            ("{\"format\": 1}", "missing field `mapper`"),
            ("{\"format\": 0}", "format 0"),
            (newer.as_str(), "mapping format 2"),
            (twice.as_str(), "task 0 is placed twice"),
        ];
        for (text, expected) in cases {
            let error = Mapping::from_json(text).unwrap_err();
            assert!(error.cause.contains(expected), "{text:?}: {}", error.cause);
        }
    }
}
