//! The five metrics of DeLoc (section III) and one beside them, a row each: a new one is a row here, and `show`, JSON
//! and docs have it.
//!
//! Where the paper leaves something open: its S is taken with both directions told apart in equations 4 and 5, and with
//! their sum in 8 and 9; the variance of equation 9 is that of a sample of a task's T - 1 others, without the diagonal
//! (other readings differ by up to 27 % for a ring of 8). Equation 6 divides by T, of which the sentence above it says
//! nothing. Equation 7 divides sizes, its text numbers of accesses: an access to DRAM is a line of 64 bytes.

use super::metrics;
use crate::Profile;
use crate::timeline::{Group, Timeline, groups};
use std::collections::{BTreeMap, BTreeSet};

/// What metrics are made of.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Its clusters in time; none where they were not looked for, or the profile has no series.
    pub timeline: Option<&'a Timeline>,
    /// Bytes of all accesses to DRAM, by counters or by the simulator; none where nobody counted them.
    pub dram_bytes: Option<u64>,
}

/// A metric, or why it is not known.
pub type Value = Result<f64, &'static str>;

/// A row.
pub struct Metric {
    /// The key in JSON.
    pub key: &'static str,
    /// The paper's symbol.
    pub symbol: &'static str,
    /// What people call it.
    pub name: &'static str,
    /// The equation, as text.
    pub equation: &'static str,
    /// Its unit: `bytes`, or empty where it is a share or a number.
    pub unit: &'static str,
    /// What the profile has to have.
    pub needs: &'static str,
    /// What a high value says, in a few words.
    pub says: &'static str,
    /// Its value.
    pub value: fn(&Known) -> Value,
}

/// Every metric there is.
pub static METRICS: &[Metric] = &[
    Metric {
        key: "communication_load",
        symbol: "Lcomm",
        name: "communication load",
        equation: "sum over i, j of Scomm[i][j] (4)",
        unit: "bytes",
        needs: "the bytes of each pair",
        says: "bytes that tasks give one another",
        value: communication_load,
    },
    Metric {
        key: "communication_to_memory",
        symbol: "CommR",
        name: "share of memory",
        equation: "Lcomm / sum over i of MemV[i] (5)",
        unit: "",
        needs: "the bytes of each pair, and those that each task accesses",
        says: "of all bytes accessed are communicated",
        value: communication_to_memory,
    },
    Metric {
        key: "communication_concurrency",
        symbol: "CommC",
        name: "concurrency",
        equation: "sum over groups g of TaskN[g] / (T G) (6)",
        unit: "",
        needs: "a time series",
        says: "of all tasks communicate at a time, on average",
        value: concurrency,
    },
    Metric {
        key: "window_concurrency",
        symbol: "CommW",
        name: "concurrency in windows",
        equation: "sum over windows w of TaskN[w] / (T W): (6), of windows with events instead of groups; ours",
        unit: "",
        needs: "a time series",
        says: "of all tasks communicate in the same window, on average",
        value: window_concurrency,
    },
    Metric {
        key: "dram_to_memory",
        symbol: "DramR",
        name: "DRAM share",
        equation: "sum over i of DramV[i] / sum over i of MemV[i] (7)",
        unit: "",
        needs: "bytes from DRAM by performance counters or the simulator, and those that each task accesses",
        says: "of all bytes accessed come from DRAM",
        value: dram_to_memory,
    },
    Metric {
        key: "locality",
        symbol: "CommLoc",
        name: "locality",
        equation: "sum over i of var(Snorm[i][1..T]) / T, Snorm = Scomm / max(Scomm) (8, 9)",
        unit: "",
        needs: "the matrix",
        says: "0: all pairs alike; the more, the more a few pairs stand out",
        value: locality,
    },
];

/// The row of a key.
///
/// # Panics
/// There is none: keys are named in code.
pub fn metric(key: &str) -> &'static Metric {
    METRICS.iter().find(|metric| metric.key == key).expect("a metric of that key")
}

/// A simulation may be at hand: whoever takes one says by which option.
pub const NO_COUNTER: &str = "no counter was read";
const NO_BYTES: &str = "the detector counts no bytes";
const NO_ACCESSES: &str = "what each task accesses is not counted (ranks: no MemV)";

/// The bytes that all tasks accessed, without what they read again and again while they waited: how much that is depends
/// on how long they waited.
fn accessed(profile: &Profile) -> Result<f64, &'static str> {
    let sum = |bytes: &[u64]| bytes.iter().map(|&bytes| u128::from(bytes)).sum::<u128>();
    let accessed = sum(&profile.accessed_bytes).saturating_sub(sum(&profile.polled_bytes));
    if accessed > 0 { Ok(accessed as f64) } else { Err(NO_ACCESSES) }
}

fn communication_load(known: &Known) -> Value {
    let (messages, bytes) = (known.profile.messages.total(), known.profile.bytes.between());
    if bytes == 0 && messages > 0 { Err(NO_BYTES) } else { Ok(bytes as f64) }
}

fn communication_to_memory(known: &Known) -> Value {
    Ok(communication_load(known)? / accessed(known.profile)?)
}

/// The groups of a timeline, by messages: which pairs communicate does not depend on how much.
fn groups_of(timeline: &Timeline) -> Vec<Group> {
    groups(timeline.periods.iter().map(|period| &period.messages))
}

fn concurrency(known: &Known) -> Value {
    let timeline = known.timeline.ok_or("the profile has no time series")?;
    let (groups, tasks) = (groups_of(timeline), known.profile.tasks());
    if groups.is_empty() || tasks == 0 {
        return Err("nothing is communicated");
    }
    let sum: usize = groups.iter().map(|group| group.tasks).sum();
    Ok(sum as f64 / (tasks * groups.len()) as f64)
}

/// A group is of a stretch of the run in which every task may communicate once, at its own time; a window is as short
/// as was profiled.
fn window_concurrency(known: &Known) -> Value {
    let profile = known.profile;
    if profile.series.is_empty() {
        return Err("the profile has no time series");
    }
    let mut in_window: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for row in profile.series.iter().filter(|row| row.source != row.destination && row.messages > 0) {
        in_window.entry(row.bin).or_default().extend([row.source, row.destination]);
    }
    if in_window.is_empty() {
        return Err("nothing is communicated");
    }
    let sum: usize = in_window.values().map(BTreeSet::len).sum();
    Ok(sum as f64 / (profile.tasks() * in_window.len()) as f64)
}

fn dram_to_memory(known: &Known) -> Value {
    let bytes = known.dram_bytes.ok_or(NO_COUNTER)?;
    Ok(bytes as f64 / accessed(known.profile)?)
}

fn locality(known: &Known) -> Value {
    let profile = known.profile;
    let has_bytes = profile.bytes.total() > 0;
    Ok(metrics(if has_bytes { &profile.bytes } else { &profile.messages }).locality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::profile::{Kind, Meta, SeriesRow};
    use crate::series::Window;
    use crate::timeline::{By, Period};

    fn value(key: &str, known: &Known) -> Value {
        (metric(key).value)(known)
    }

    #[test]
    fn every_row_is_its_equation() {
        let first = Matrix::from_triplets(4, [(0, 1, 60), (1, 0, 20)]);
        let second = Matrix::from_triplets(4, [(0, 1, 10), (2, 3, 10), (1, 2, 0)]);
        let bytes = Matrix::from_triplets(4, first.iter().chain(second.iter()));
        let meta = Meta::new(Kind::Threads, "test", Vec::new());
        let mut profile = Profile::new(meta, bytes.clone(), bytes);
        let period = |number, matrix: &Matrix| Period {
            number,
            spans: std::iter::once(number..number + 1).collect(),
            messages: matrix.clone(),
            bytes: matrix.clone(),
        };
        let periods = vec![period(0, &first), period(1, &second)];
        let timeline = Timeline { by: By::Clusters, window: Window::Time(1), periods };
        let known = Known { profile: &profile, timeline: Some(&timeline), dram_bytes: Some(50) };
        assert_eq!(value("communication_load", &known), Ok(100.0));
        let mut to_itself = profile.clone();
        to_itself.bytes = Matrix::from_triplets(4, profile.bytes.iter().chain([(2, 2, 7)]));
        assert_eq!(value("communication_load", &Known { profile: &to_itself, ..known }), Ok(100.0));
        assert_eq!(value("communication_to_memory", &known), Err(NO_ACCESSES));
        assert_eq!(value("dram_to_memory", &known), Err(NO_ACCESSES));
        // Two of four tasks in the one group, all in the other.
        assert_eq!(value("communication_concurrency", &known), Ok(6.0 / 8.0));
        // By windows it is whoever communicates there: two of four in one, three in the other, and a task with itself
        // in a third.
        assert!(value("window_concurrency", &known).unwrap_err().contains("no time series"));
        let row = |bin, source, destination| SeriesRow { bin, source, destination, messages: 3, bytes: 24 };
        profile.series = vec![row(0, 0, 1), row(0, 1, 0), row(7, 0, 1), row(7, 1, 3), row(9, 2, 2)];
        let known = Known { profile: &profile, timeline: None, dram_bytes: None };
        assert_eq!(value("window_concurrency", &known), Ok(5.0 / 8.0));
        profile.series.clear();
        profile.accessed_bytes = vec![100, 100, 100, 100];
        let known = Known { profile: &profile, timeline: None, dram_bytes: None };
        assert_eq!(value("communication_to_memory", &known), Ok(0.25));
        // How long a task has waited says nothing of how much it communicates.
        let polling = Profile { accessed_bytes: vec![10_100, 100, 600, 100], ..profile.clone() };
        let polling = Profile { polled_bytes: vec![10_000, 0, 500, 0], ..polling };
        let known = Known { profile: &polling, ..known };
        assert_eq!(value("communication_to_memory", &known), Ok(0.25));
        let known = Known { profile: &profile, ..known };
        assert!(value("communication_concurrency", &known).unwrap_err().contains("no time series"));
        assert!(value("dram_to_memory", &known).unwrap_err().contains("counter"));
        let known = Known { dram_bytes: Some(40), ..known };
        assert_eq!(value("dram_to_memory", &known), Ok(0.1));
        // Pairs 90 and 10 of sums: of 0 and 1 (1, 0, 0), of 2 and 3 (1/9, 0, 0).
        let of = |one: f64| (one * one - one * one / 3.0) / 2.0;
        assert!((value("locality", &known).unwrap() - (of(1.0) + of(1.0 / 9.0)) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn rows_are_complete_and_told_apart() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(
                ![metric.key, metric.symbol, metric.name, metric.equation, metric.needs, metric.says].contains(&"")
            );
            assert!(METRICS[..at].iter().all(|other| other.key != metric.key && other.symbol != metric.symbol));
        }
        let silent = Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), Matrix::zero(0), Matrix::zero(0));
        let known = Known { profile: &silent, timeline: None, dram_bytes: None };
        METRICS.iter().for_each(|metric| {
            assert!((metric.value)(&known).is_err() || metric.unit == "bytes" || metric.key == "locality")
        });
    }
}
