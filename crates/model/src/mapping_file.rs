//! The mapping as a file: JSON, format 1, or 2 where it changes from phase to phase, described in docs/formats.md.

use crate::file::{read_text, write_whole};
use crate::mapping::{FORMAT, PHASED_FORMAT, Phases};
use crate::timeline::By;
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
        check_format(found, PHASED_FORMAT, "mapping")?;
        let mapping: Self =
            serde_json::from_str(text).map_err(|error| Error::new(format!("not a mapping: {error}")))?;
        let mut seen = HashSet::new();
        if let Some(twice) = mapping.tasks.iter().find(|placed| !seen.insert(placed.task)) {
            return Err(Error::new(format!("task {} is placed twice", twice.task)));
        }
        mapping.check_phases()?;
        Ok(mapping)
    }

    /// Whether the format is that of what is in it, and every phase places the same tasks, once.
    fn check_phases(&self) -> Result<()> {
        let refused = |cause: String| Err(Error::new(cause).remedy("make the mapping again (cohabit map --per-phase)"));
        let Some(phases) = &self.phases else {
            return match self.format {
                FORMAT => Ok(()),
                format => refused(format!("mapping format {format} without \"phases\"")),
            };
        };
        if self.format == FORMAT {
            return refused(format!("mapping format {FORMAT} with \"phases\", which are of format {PHASED_FORMAT}"));
        }
        let (mut numbers, mut places) = (HashSet::new(), HashSet::new());
        for phase in &phases.mappings {
            if (phases.by == By::Calls) == phase.begins_at.is_empty() {
                return refused(match phases.by {
                    By::Calls => format!("phase {} begins at no call site", phase.number),
                    _ => format!("phase {} begins at call sites, by which no phase is told here", phase.number),
                });
            }
            if let Some(twice) = phase.begins_at.iter().find(|place| !places.insert(*place)) {
                return refused(format!("two phases begin at {twice}"));
            }
            if !numbers.insert(phase.number) {
                return refused(format!("phase {} is mapped twice", phase.number));
            }
            let same = phase.tasks.iter().map(|seat| seat.task).eq(self.tasks.iter().map(|placed| placed.task));
            if !same {
                return refused(format!(
                    "phase {} places other tasks than the mapping, or in another order",
                    phase.number
                ));
            }
        }
        self.check_signatures(phases).or_else(refused)
    }

    /// Whether each phase can be known again by what is said of it, or none is said to be.
    fn check_signatures(&self, phases: &Phases) -> std::result::Result<(), String> {
        let signatures =
            || phases.mappings.iter().filter_map(|phase| Some((phase.number, phase.recognised_by.as_ref()?)));
        let count = signatures().count();
        if count == 0 {
            return Ok(());
        }
        if matches!(phases.by, By::Markers | By::Calls) {
            return Err("phases are recognised here, and announced as well".to_owned());
        }
        if count < phases.mappings.len() {
            return Err("some phases can be recognised, and others cannot".to_owned());
        }
        let tasks: HashSet<u32> = self.tasks.iter().map(|placed| placed.task).collect();
        for (number, signature) in signatures() {
            let mut seen = HashSet::new();
            let (mut sum, mappings) = (0.0, phases.mappings.len() + 1);
            for &(a, b, share) in &signature.pairs {
                if a >= b || ![a, b].iter().all(|task| tasks.contains(task)) || !seen.insert((a, b)) {
                    return Err(format!(
                        "phase {number} is recognised by {a} and {b}, which are no pair of tasks, or not in order, or come twice"
                    ));
                }
                if !(share > 0.0 && share <= 1.0) {
                    return Err(format!("the share of {a} and {b} in phase {number} is {share}"));
                }
                sum += share;
            }
            // Shares are rounded.
            if !(sum > 0.0 && sum <= 1.001) {
                return Err(format!("the shares of the pairs in phase {number} come to {sum}"));
            }
            let is_time = |seconds: &f64| seconds.is_finite() && *seconds >= 0.0;
            for (times, what) in [(&signature.takes_s, "takes_s"), (&signature.moves_s, "moves_s")] {
                if times.len() != mappings || !times.iter().all(is_time) {
                    return Err(format!("\"{what}\" of phase {number} is no list of {mappings} times"));
                }
            }
            if signature.seconds.is_some_and(|seconds| !is_time(&seconds) || seconds == 0.0) {
                return Err(format!("phase {number} lasts no time"));
            }
        }
        Ok(())
    }

    /// The one mapping of a file for whoever knows no phases.
    ///
    /// # Errors
    /// It changes from phase to phase: `who` would be about a part of it only.
    pub fn unphased(self, who: &str) -> Result<Self> {
        match self.phases {
            None => Ok(self),
            Some(_) => Err(Error::new(format!(
                "the mapping changes from phase to phase, and {who} takes one for the whole run"
            ))
            .remedy("make one without --per-phase; 'cohabit run --mapping' follows phases")),
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
    use crate::calls::CallPlace;
    use crate::mapping::{Cost, PhaseMapping, Phases, Placed, Seat, Signature, Weight};

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
            phases: None,
            unknown: Default::default(),
        }
    }

    /// With tasks 0 and 1 elsewhere in phase 7.
    fn phased() -> Mapping {
        let seat = |(task, pu)| Seat { task, pu, pus: String::new() };
        let tasks = [(0, 1), (1, 3)].map(seat).into();
        let mapping =
            PhaseMapping { number: 7, tasks, begins_at: Vec::new(), recognised_by: None, unknown: Default::default() };
        let phases = Phases { by: By::Markers, mappings: vec![mapping], unknown: Default::default() };
        Mapping { format: PHASED_FORMAT, phases: Some(phases), ..example() }
    }

    fn place() -> CallPlace {
        CallPlace { module: "solver".into(), offset: 31 }
    }

    #[test]
    fn call_sites_of_phases_come_back() {
        let mut mapping = phased();
        let phases = mapping.phases.as_mut().unwrap();
        (phases.by, phases.mappings[0].begins_at) = (By::Calls, vec![place()]);
        let text = mapping.to_json();
        assert!(text.contains("\"by\": \"calls\"") && text.contains("\"module\": \"solver\""), "{text}");
        assert_eq!(Mapping::from_json(&text).unwrap(), mapping);
    }

    /// The same phase, known again by what its two tasks exchange.
    fn recognised() -> Mapping {
        let mut mapping = phased();
        let phases = mapping.phases.as_mut().unwrap();
        phases.by = By::Recurring;
        phases.mappings[0].recognised_by = Some(Signature {
            seconds: Some(1.25),
            pairs: vec![(0, 1, 0.995)],
            takes_s: vec![0.1, 1.0 / 3.0],
            moves_s: vec![0.001, 0.0],
            unknown: Default::default(),
        });
        mapping
    }

    #[test]
    fn what_phases_are_recognised_by_comes_back_and_is_checked() {
        let mut mapping = recognised();
        let signature = mapping.phases.as_mut().unwrap().mappings[0].recognised_by.as_mut().unwrap();
        signature.unknown.insert("later".into(), serde_json::json!({"spread": 1.5}));
        let text = mapping.to_json();
        assert!(text.contains("\"recognised_by\"") && !phased().to_json().contains("recognised_by"), "{text}");
        assert_eq!(Mapping::from_json(&text).unwrap(), mapping);
        let with = |change: fn(&mut Signature)| {
            let mut mapping = recognised();
            change(mapping.phases.as_mut().unwrap().mappings[0].recognised_by.as_mut().unwrap());
            Mapping::from_json(&mapping.to_json()).map(drop).map_err(|error| error.cause)
        };
        assert_eq!(with(|signature| signature.seconds = None), Ok(()));
        for (change, expected) in [
            ((|signature| signature.pairs.clear()) as fn(&mut Signature), "come to 0"),
            (|signature| signature.pairs.push((0, 1, 0.001)), "come twice"),
            (|signature| signature.pairs[0] = (1, 0, 0.5), "not in order"),
            (|signature| signature.pairs[0].1 = 2, "no pair of tasks"),
            (|signature| signature.pairs[0].2 = 1.5, "share of 0 and 1 in phase 7 is 1.5"),
            (|signature| signature.pairs[0].2 = 0.0, "share of 0 and 1 in phase 7 is 0"),
            (|signature| signature.takes_s.truncate(1), "\"takes_s\" of phase 7 is no list of 2 times"),
            (|signature| signature.moves_s[1] = -0.5, "\"moves_s\" of phase 7 is no list of 2 times"),
            (|signature| signature.seconds = Some(0.0), "phase 7 lasts no time"),
        ] {
            let cause = with(change).unwrap_err();
            assert!(cause.contains(expected), "{cause}");
        }
        let mut announced = recognised();
        announced.phases.as_mut().unwrap().by = By::Markers;
        let cause = Mapping::from_json(&announced.to_json()).unwrap_err().cause;
        assert!(cause.contains("announced as well"), "{cause}");
        let mut some = recognised();
        let phases = &mut some.phases.as_mut().unwrap().mappings;
        let other = PhaseMapping { number: 8, recognised_by: None, ..phases[0].clone() };
        phases.push(other);
        let cause = Mapping::from_json(&some.to_json()).unwrap_err().cause;
        assert!(cause.contains("some phases can be recognised, and others cannot"), "{cause}");
    }

    #[test]
    fn phases_come_back_and_whoever_knows_none_refuses_them() {
        let mapping = phased();
        assert_eq!(Mapping::from_json(&mapping.to_json()).unwrap(), mapping);
        let error = mapping.unphased("'cohabit plot'").unwrap_err();
        assert!(error.cause.contains("from phase to phase") && error.remedy.is_some());
        assert_eq!(example().unphased("nobody").unwrap(), example());
        // As versions that know format 1 only do.
        let error = check_format(PHASED_FORMAT, FORMAT, "mapping").unwrap_err();
        assert_eq!(error.cause, "mapping format 2, but this version knows formats up to 1");
    }

    #[test]
    fn phases_that_contradict_the_mapping_are_refused() {
        let with = |change: fn(&mut Mapping)| {
            let mut mapping = phased();
            change(&mut mapping);
            Mapping::from_json(&mapping.to_json()).unwrap_err().cause
        };
        fn of(mapping: &mut Mapping) -> &mut Vec<PhaseMapping> {
            &mut mapping.phases.as_mut().unwrap().mappings
        }
        for (change, expected) in [
            ((|mapping| mapping.format = FORMAT) as fn(&mut Mapping), "format 1 with \"phases\""),
            (|mapping| mapping.phases = None, "format 2 without \"phases\""),
            (|mapping| of(mapping)[0].tasks.truncate(1), "phase 7 places other tasks"),
            (|mapping| of(mapping)[0].tasks[1].task = 0, "phase 7 places other tasks"),
            (
                |mapping| {
                    let again = of(mapping)[0].clone();
                    of(mapping).push(again);
                },
                "phase 7 is mapped twice",
            ),
            (|mapping| mapping.phases.as_mut().unwrap().by = By::Calls, "phase 7 begins at no call site"),
            (|mapping| of(mapping)[0].begins_at.push(place()), "phase 7 begins at call sites, by which"),
            (
                |mapping| {
                    mapping.phases.as_mut().unwrap().by = By::Calls;
                    of(mapping)[0].begins_at = vec![place(), place()];
                },
                "two phases begin at solver+0x1f",
            ),
        ] {
            let cause = with(change);
            assert!(cause.contains(expected), "{cause}");
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
        let newer = example().to_json().replace("\"format\": 1", "\"format\": 3");
        let cases = [
            ("", "line 1 column 0"),
            ("{\"format\": 1,\n \"mapper\": }", "line 2 column 12"),
            ("{}", "no \"format\" number"),
            ("{\"format\": \"1\"}", "no \"format\" number"),
            ("{\"format\": 1}", "missing field `mapper`"),
            ("{\"format\": 0}", "format 0"),
            (newer.as_str(), "mapping format 3"),
            (twice.as_str(), "task 0 is placed twice"),
        ];
        for (text, expected) in cases {
            let error = Mapping::from_json(text).unwrap_err();
            assert!(error.cause.contains(expected), "{text:?}: {}", error.cause);
        }
    }
}
