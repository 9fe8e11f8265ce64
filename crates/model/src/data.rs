//! Through which data tasks communicate, and from which code: data objects, and some of their blocks in detail.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Fewer reads than this, looked at byte by byte, say nothing about true and false sharing.
pub const READS_TO_TELL: u64 = 16;
/// The two-sided 95 % quantile of the normal distribution.
const QUANTILE: f64 = 1.959_964;

/// Through which data the messages in memory went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The messages in memory.
    pub messages: u64,
    /// So many of them were looked at; each counts to one object.
    pub looked_at: u64,
    /// One message of so many was looked at, on average, at the least.
    pub interval: u64,
    /// The objects, those with the most messages first.
    pub objects: Vec<DataObject>,
}

/// What is communicated through one data object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataObject {
    /// A symbol, the calls that allocate it, or what else is known of the memory.
    pub object: String,
    /// The process it belongs to ([`crate::Task::process`]).
    #[serde(default)]
    pub process: u32,
    /// Bytes of the object, of the longest where a call allocates several; 0 where they are not known.
    #[serde(default)]
    pub bytes: u64,
    /// Messages through it: [`Data::messages`] in the proportion of those looked at.
    pub messages: u64,
    /// So many of them were looked at.
    pub looked_at: u64,
    /// Its blocks that were followed, so that their reads were looked at byte by byte.
    #[serde(default)]
    pub blocks: u64,
    /// Reads of these that needed what others had written.
    #[serde(default)]
    pub true_reads: u64,
    /// Reads of these that met only what nobody else had written.
    #[serde(default)]
    pub false_reads: u64,
    /// Code that writes these, most active first.
    #[serde(default)]
    pub writers: Vec<CodeSite>,
    /// Code that reads these, most active first.
    #[serde(default)]
    pub readers: Vec<CodeSite>,
}

/// A block through which much was communicated, or one of some of an object: what it holds and which code touches it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotBlock {
    /// Address of the block's first byte.
    pub block: u64,
    /// The process the address belongs to ([`crate::Task::process`]).
    #[serde(default)]
    pub process: u32,
    /// The data object that most of its reads are of: a symbol, or the call stack that allocated the heap block.
    pub object: String,
    /// The block's first byte counted from the object's; negative where the object begins within the block.
    #[serde(default)]
    pub offset: i64,
    /// Bytes of the object, 0 where they are not known.
    #[serde(default)]
    pub object_bytes: u64,
    /// Other symbols in the block that were accessed while it was followed.
    #[serde(default)]
    pub neighbours: Vec<String>,
    /// Messages through this block, by those looked at.
    #[serde(default)]
    pub messages: u64,
    /// Code that writes it, most active first.
    pub writers: Vec<CodeSite>,
    /// Code that reads it, most active first.
    pub readers: Vec<CodeSite>,
    /// [`sharing`] of the reads below.
    pub sharing: Option<bool>,
    /// Reads that were looked at and needed what others had written.
    #[serde(default)]
    pub true_reads: u64,
    /// Reads that were looked at and met only what nobody else had written.
    #[serde(default)]
    pub false_reads: u64,
    /// Keys of a later version, kept as they were.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, serde_json::Value>,
}

/// A place in the code that reads or writes data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSite {
    /// Function, demangled, or the module and offset where no symbol is known.
    pub function: String,
    /// `file:line`, empty where there is no debug information.
    #[serde(default)]
    pub line: String,
    /// Events at this place.
    pub events: u64,
    /// The tasks that ran it, ascending.
    #[serde(default)]
    pub tasks: Vec<u32>,
}

/// True sharing, false sharing, or none where the reads that were looked at are too few or too mixed to tell: nine in
/// ten of them are of the one kind.
pub fn sharing(true_reads: u64, false_reads: u64) -> Option<bool> {
    let reads = true_reads.saturating_add(false_reads);
    let other = u128::from(true_reads.min(false_reads));
    (reads >= READS_TO_TELL && 10 * other <= u128::from(reads)).then_some(true_reads > false_reads)
}

/// Wilson's interval for a share of which `part` of `whole` samples were seen, with 95 % confidence; from 0 to 1 of
/// none.
pub fn confidence(part: u64, whole: u64) -> (f64, f64) {
    if whole == 0 {
        return (0.0, 1.0);
    }
    let (part, whole, square) = (part.min(whole) as f64, whole as f64, QUANTILE * QUANTILE);
    let centre = (part + square / 2.0) / (whole + square);
    let half = QUANTILE / (whole + square) * (part * (whole - part) / whole + square / 4.0).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

/// Sites in the same place are one, the most active first.
pub fn join_sites(sites: impl IntoIterator<Item = CodeSite>) -> Vec<CodeSite> {
    let mut places: BTreeMap<(String, String), CodeSite> = BTreeMap::new();
    for site in sites {
        let (function, line) = (site.function.clone(), site.line.clone());
        let empty = CodeSite { function, line, events: 0, tasks: Vec::new() };
        let sum = places.entry((site.function, site.line)).or_insert(empty);
        sum.events = sum.events.saturating_add(site.events);
        sum.tasks.extend(site.tasks);
    }
    let mut found: Vec<CodeSite> = places.into_values().collect();
    for site in &mut found {
        site.tasks.sort_unstable();
        site.tasks.dedup();
    }
    found.sort_by_key(|site| Reverse(site.events));
    found
}

impl DataObject {
    /// Messages through it that are falsely shared, by the reads that were looked at; none where these are too few.
    pub fn false_sharing(&self) -> Option<u64> {
        let reads = self.true_reads.saturating_add(self.false_reads);
        let part = u128::from(self.messages) * u128::from(self.false_reads) / u128::from(reads.max(1));
        (reads >= READS_TO_TELL).then(|| u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Takes in what another object has: of the same name, or of a block of it.
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.max(other.bytes);
        self.true_reads = self.true_reads.saturating_add(other.true_reads);
        self.false_reads = self.false_reads.saturating_add(other.false_reads);
        self.messages = self.messages.saturating_add(other.messages);
        self.looked_at = self.looked_at.saturating_add(other.looked_at);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.writers.extend(other.writers);
        self.readers.extend(other.readers);
    }
}

/// What a block shows of its object, but for the messages: these are counted for objects too.
fn detail_of(block: &HotBlock) -> DataObject {
    DataObject {
        object: block.object.clone(),
        process: block.process,
        bytes: block.object_bytes,
        blocks: 1,
        true_reads: block.true_reads,
        false_reads: block.false_reads,
        writers: block.writers.clone(),
        readers: block.readers.clone(),
        ..DataObject::default()
    }
}

/// Objects with the same key are one, those with the most messages first.
fn join<K: Ord>(objects: impl IntoIterator<Item = DataObject>, key: fn(&DataObject) -> K) -> Vec<DataObject> {
    let mut found: BTreeMap<K, DataObject> = BTreeMap::new();
    for object in objects {
        let empty = DataObject { object: object.object.clone(), process: object.process, ..DataObject::default() };
        found.entry(key(&object)).or_insert(empty).add(object);
    }
    let mut found: Vec<DataObject> = found.into_values().collect();
    for object in &mut found {
        object.writers = join_sites(std::mem::take(&mut object.writers));
        object.readers = join_sites(std::mem::take(&mut object.readers));
    }
    found.sort_by_key(|object| Reverse(object.messages));
    found
}

impl Data {
    /// The objects with what is known of their blocks, those of one name in one process being one.
    pub fn new(messages: u64, looked_at: u64, interval: u64, objects: Vec<DataObject>, blocks: &[HotBlock]) -> Self {
        let details = blocks.iter().map(detail_of);
        let objects = join(objects.into_iter().chain(details), |object| (object.object.clone(), object.process));
        Self { messages, looked_at, interval, objects }
    }

    /// The objects of all processes, those of one name being one.
    pub fn by_name(&self) -> Vec<DataObject> {
        join(self.objects.iter().cloned(), |object| object.object.clone())
    }

    /// The share of an object's messages: the least and the most that it is with 95 % confidence. Exact where every
    /// message was looked at.
    pub fn share(&self, object: &DataObject) -> (f64, f64) {
        let share = object.messages as f64 / self.messages.max(1) as f64;
        if self.looked_at >= self.messages {
            return (share, share);
        }
        let samples = (self.messages / self.interval.max(1)).clamp(1, self.looked_at.max(1));
        let (low, high) = confidence((share * samples as f64).round() as u64, samples);
        // What was looked at is not uncertain (Cochran, "Sampling Techniques", 2.6).
        let rest = (1.0 - self.looked_at as f64 / self.messages as f64).sqrt();
        (share - rest * (share - low), share + rest * (high - share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn true_and_false_sharing_need_some_reads_to_tell() {
        for (true_reads, false_reads, expected) in [
            (0, 0, None),
            (15, 0, None),
            (16, 0, Some(true)),
            (0, 16, Some(false)),
            (1, 30, Some(false)),
            (10, 12, None),
            (500, 500, None),
            (600, 400, None),
            (90, 10, Some(true)),
            (89, 11, None),
            (u64::MAX, 1, Some(true)),
        ] {
            assert_eq!(sharing(true_reads, false_reads), expected, "{true_reads} {false_reads}");
        }
    }

    #[test]
    fn what_was_looked_at_is_certain() {
        let object = DataObject { messages: 500, ..DataObject::default() };
        let width = |looked_at| {
            let data = Data { messages: 1000, looked_at, interval: 100, ..Data::default() };
            let (low, high) = data.share(&object);
            assert!(low <= 0.5 && high >= 0.5);
            high - low
        };
        assert_eq!(width(1000), 0.0);
        assert!(width(980) < 0.15 * width(0) && width(500) < width(100));
    }

    /// Figures from Brown, Cai and DasGupta, Interval estimation for a binomial proportion (2001), formula 4.
    #[test]
    fn intervals_hold_the_share() {
        for (part, whole, low, high) in
            [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (0, 0, 0.0, 1.0)]
        {
            let found = confidence(part, whole);
            assert!((found.0 - low).abs() < 1e-4 && (found.1 - high).abs() < 1e-4, "{part} of {whole}: {found:?}");
        }
    }

    fn object(name: &str, process: u32, messages: u64) -> DataObject {
        DataObject { object: name.into(), process, messages, looked_at: messages / 10, ..DataObject::default() }
    }

    #[test]
    fn objects_are_joined_by_name_and_take_the_details_of_their_blocks() {
        let site = |task| CodeSite { function: "f".into(), line: String::new(), events: 2, tasks: vec![task] };
        let block = |task, false_reads| HotBlock {
            block: 64,
            process: 0,
            object: "a".into(),
            offset: 0,
            object_bytes: 8,
            neighbours: Vec::new(),
            messages: 9,
            writers: vec![site(task)],
            readers: Vec::new(),
            sharing: None,
            true_reads: 10,
            false_reads,
            unknown: Default::default(),
        };
        let objects = vec![object("b", 0, 40), object("a", 0, 30), object("a", 1, 30)];
        let data = Data::new(100, 10, 10, objects, &[block(1, 10), block(0, 20)]);
        let found: Vec<_> =
            data.objects.iter().map(|object| (object.object.as_str(), object.process, object.messages)).collect();
        assert_eq!(found, [("b", 0, 40), ("a", 0, 30), ("a", 1, 30)]);
        let all = data.by_name();
        let a = &all[0];
        assert_eq!((a.object.as_str(), a.messages, a.blocks, a.true_reads, a.false_reads), ("a", 60, 2, 20, 30));
        assert_eq!((a.bytes, a.false_sharing(), all[1].false_sharing()), (8, Some(36), None));
        assert_eq!(a.writers, [CodeSite { events: 4, tasks: vec![0, 1], ..site(0) }]);
        let (low, high) = data.share(a);
        assert!(low < 0.6 && high > 0.6 && low > 0.3 && high < 0.9, "{low} {high}");
        assert_eq!(Data { looked_at: 100, ..data.clone() }.share(a), (0.6, 0.6));
    }
}

/// Where a pair of ranks called MPI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairSites {
    /// Sender.
    pub source: u32,
    /// Receiver.
    pub destination: u32,
    /// Messages of the pair.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The call sites, heaviest first.
    pub sites: Vec<CallSite>,
}

/// A place that calls MPI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSite {
    /// Function.
    pub function: String,
    /// `FILE:LINE`, empty where it is not known.
    #[serde(default)]
    pub line: String,
    /// Messages from there.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}
