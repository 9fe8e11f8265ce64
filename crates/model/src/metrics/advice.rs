//! What the metrics come to: whether placement can gain, and by what (DeLoc, section III), or what is to be mended
//! first.
//!
//! The thresholds stand here and nowhere else. [`LEAST_COMMUNICATION`] is where the simulator's gains of half of 115
//! pairs of program and machine allow it (docs/verdict.md has how often the other half is right; `benches/advice.py`).
//! The others follow the paper's words (higher CommLoc: gain by locality; higher CommR, CommC and DramR: gain by
//! spreading): no others were right oftener.

use super::table::{Known, metric};
use super::{Structure, metrics};
use crate::data::sharing;
use crate::{Matrix, Profile};
use serde::Serialize;

/// Bytes communicated below this part of all bytes accessed are too few to matter wherever tasks run.
pub const LEAST_COMMUNICATION: f64 = 1e-4;
/// Pairs differ enough for locality from this CommLoc on.
pub const LOCALITY: f64 = 0.02;
/// So much of all bytes accessed has to be communicated for congestion to come of it.
pub const CONGESTING_COMMUNICATION: f64 = 0.01;
/// So much of all tasks have to communicate at a time.
pub const CONCURRENCY: f64 = 0.5;
/// And so much of all bytes accessed have to come from DRAM: where that is not known, nothing is said of congestion.
pub const DRAM: f64 = 0.01;
/// An object with such a part of all messages, most of whose reads are false sharing, is mended before anything is
/// placed.
pub const FALSE_SHARING: f64 = 0.25;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Advice {
    /// Every placement is as good, as far as communication goes.
    Nothing,
    /// Put those together that communicate.
    Locality,
    /// All pairs are alike, or nearly: where PUs are more than tasks, put all tasks together.
    Together,
    /// Put those apart that communicate at the same time.
    Congestion,
    /// Some of both: trade one against the other.
    Both,
    /// Repair the false sharing first: placement only hides it.
    Repair {
        /// The data, by symbol or by the calls that allocate it.
        object: String,
        /// `FILE:LINE` of the code that writes it most; the object again where nothing is known of lines.
        place: String,
        /// Its part of all messages.
        share: f64,
    },
}

impl Advice {
    /// One sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Nothing => "nothing to gain from placement".into(),
            Self::Locality => "locality: put tasks that communicate close together (map)".into(),
            Self::Together => {
                "together: pairs differ little; where PUs are more than tasks, put all tasks close together (map)"
                    .into()
            }
            Self::Congestion => {
                "congestion: put tasks that communicate at the same time apart (map --objective congestion)".into()
            }
            Self::Both => {
                "locality and congestion: close together, but not all at one memory (map --objective congestion)".into()
            }
            Self::Repair { place, share, .. } => {
                format!(
                    "repair the false sharing at {place} first: {:.0} % of all messages are through it",
                    100.0 * share
                )
            }
        }
    }
}

/// The advice on a profile, its pattern judged by `weight`.
pub fn advice(known: &Known, weight: &Matrix) -> Advice {
    if let Some(repair) = repair(known.profile) {
        return repair;
    }
    let value = |key: &str| (metric(key).value)(known).ok();
    let structure = metrics(weight).structure();
    let communicated = value("communication_to_memory");
    if structure == Structure::Silent || communicated.is_some_and(|share| share < LEAST_COMMUNICATION) {
        return Advice::Nothing;
    }
    let by_locality = structure.can_gain() && metrics(weight).locality >= LOCALITY;
    // Without knowing that much comes from memory nothing is said to be congested: of 32 programs and machines
    // simulated whose tasks all communicate at a time, none was faster for being spread (docs/time.md).
    let by_congestion = value("communication_concurrency").is_some_and(|value| value >= CONCURRENCY)
        && communicated.is_none_or(|share| share >= CONGESTING_COMMUNICATION)
        && value("dram_to_memory").is_some_and(|value| value >= DRAM)
        && metrics(weight).pairs > 1;
    match (by_locality, by_congestion) {
        (true, true) => Advice::Both,
        (true, false) => Advice::Locality,
        (false, true) => Advice::Congestion,
        // A pattern of which some placement may be better by a little.
        (false, false) if structure.can_gain() => Advice::Locality,
        // Of which tasks are together nothing is gained; whether anything is of which PUs stay idle, the machine
        // decides.
        (false, false) => Advice::Together,
    }
}

/// The data through which most is falsely shared, where that is enough.
fn repair(profile: &Profile) -> Option<Advice> {
    let data = profile.meta.data.as_ref()?;
    let share = |messages: u64| messages as f64 / data.messages.max(1) as f64;
    let objects = data.by_name();
    let falsely = objects.iter().filter(|object| sharing(object.true_reads, object.false_reads) == Some(false));
    let worst = falsely.max_by_key(|object| object.messages)?;
    let share = share(worst.messages);
    let line = worst.writers.iter().chain(&worst.readers).map(|site| &site.line).find(|line| !line.is_empty());
    let place = line.unwrap_or(&worst.object).clone();
    (share >= FALSE_SHARING).then(|| Advice::Repair { object: worst.object.clone(), place, share })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{CodeSite, Data, DataObject, Kind, Meta};
    use crate::series::Window;
    use crate::timeline::{By, Period, Timeline};

    fn profile(tasks: u32, value: impl Fn(u32, u32) -> u64) -> Profile {
        let value = &value;
        let entries = (0..tasks).flat_map(|a| (0..tasks).map(move |b| (a, b, value(a, b))));
        let matrix = Matrix::from_triplets(tasks as usize, entries);
        let mut profile = Profile::new(Meta::new(Kind::Threads, "test", Vec::new()), matrix.clone(), matrix);
        profile.accessed_bytes = vec![1000; tasks as usize];
        profile
    }

    /// All that is communicated at once.
    fn at_once(profile: &Profile) -> Timeline {
        let (messages, bytes) = (profile.messages.clone(), profile.bytes.clone());
        let spans = std::iter::once(0..1).collect();
        Timeline {
            by: By::Clusters,
            window: Window::Time(1),
            periods: vec![Period { number: 0, spans, messages, bytes }],
        }
    }

    fn of(profile: &Profile, timeline: Option<&Timeline>, dram_bytes: Option<u64>) -> Advice {
        advice(&Known { profile, timeline, dram_bytes }, &profile.messages)
    }

    #[test]
    fn each_is_told_from_the_others() {
        let ring = profile(8, |a, b| if (a + 1) % 8 == b { 500 } else { 0 });
        let all = profile(8, |a, b| if a == b { 0 } else { 500 });
        let silent = profile(8, |_, _| 0);
        let pair = profile(2, |a, b| u64::from(a < b) * 500);
        let little = profile(8, |a, b| u64::from(a == 0 && b == 1) * 10_000 / 10_000);
        let little = Profile { accessed_bytes: vec![1 << 40; 8], ..little };
        for (name, profile, is_timed, dram, expected) in [
            ("silent", &silent, true, None, Advice::Nothing),
            ("too little", &little, true, None, Advice::Nothing),
            ("a ring, no series", &ring, false, None, Advice::Locality),
            ("a ring at once", &ring, true, None, Advice::Locality),
            ("a ring at once, from memory", &ring, true, Some(8000), Advice::Both),
            ("a ring in the caches", &ring, true, Some(1), Advice::Locality),
            ("all alike", &all, true, None, Advice::Together),
            ("all alike, from memory", &all, true, Some(8000), Advice::Congestion),
            ("all alike, no series", &all, false, None, Advice::Together),
            ("two tasks", &pair, true, None, Advice::Locality),
        ] {
            let timeline = at_once(profile);
            assert_eq!(of(profile, is_timed.then_some(&timeline), dram), expected, "{name}");
            assert!(!expected.sentence().contains('\n'));
        }
    }

    #[test]
    fn false_sharing_goes_first() {
        let mut ring = profile(4, |a, b| if (a + 1) % 4 == b { 500 } else { 0 });
        let line = |line: &str| CodeSite { function: "f".into(), line: line.into(), events: 1, tasks: vec![0] };
        let object = |line_of: &str, messages, false_reads| DataObject {
            object: "counters".into(),
            messages,
            looked_at: messages,
            false_reads,
            true_reads: 100 - false_reads,
            writers: vec![line(""), line(line_of)],
            ..DataObject::default()
        };
        for (messages, false_reads, at, expected) in [
            (900, 99, "a.c:7", Some("a.c:7")),
            (900, 99, "", Some("counters")),
            (900, 50, "a.c:7", None),
            (100, 99, "a.c:7", None),
        ] {
            ring.meta.data = Some(Data::new(1000, 1000, 1, vec![object(at, messages, false_reads)], &[]));
            match (of(&ring, None, None), expected) {
                (Advice::Repair { place, share, .. }, Some(expected)) => {
                    assert_eq!((place.as_str(), share), (expected, 0.9))
                }
                (other, expected) => assert_eq!((other, expected), (Advice::Locality, None)),
            }
        }
    }
}
