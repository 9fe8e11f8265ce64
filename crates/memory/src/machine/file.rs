//! The tables of a machine file (docs/machines.md), as TOML has them.

use cohabit_model::file::in_words;
use cohabit_model::mapping_file::check_format;
use cohabit_model::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format number of a machine file.
pub const FORMAT: u64 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// [`FORMAT`].
    #[serde(default = "format")]
    pub format: u64,
    /// What it is, in a line.
    pub about: String,
    /// A synthetic string, hwloc's XML, or a file of either beside this one.
    pub topology: String,
    /// What a core does.
    pub core: CoreTable,
    /// The caches, a table a level.
    pub cache: Vec<CacheTable>,
    /// How they are kept the same.
    #[serde(default)]
    pub coherence: CoherenceTable,
    /// ns from cache to cache, by the lowest level of the tree that holds both cores.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transfer_ns: BTreeMap<String, f64>,
    /// Translation of addresses; none: free.
    pub tlb: Option<TlbTable>,
    /// Memory and its controllers.
    pub memory: MemoryTable,
    /// What joins parts of the machine with the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkTable>,
    /// One bus for all that leaves the last caches.
    pub bus: Option<BusTable>,
    /// Last caches as tiles of a mesh.
    pub mesh: Option<MeshTable>,
    /// What the operating system adds.
    #[serde(default)]
    pub system: SystemTable,
}

/// A core.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoreTable {
    /// Cycles a ns.
    pub frequency_ghz: f64,
    /// Of one task alone on the core, where nothing holds it up.
    pub instructions_per_cycle: f64,
    /// Of all its PUs together, relative to one of them.
    #[serde(default = "one")]
    pub smt_throughput: f64,
    /// Instructions that are begun behind a load that is not there yet: the reorder buffer; 0: each load is waited for.
    pub window: u64,
    /// Lines under way at a time, of all PUs of the core.
    pub fill_buffers: u64,
    /// Whether instructions wait for those that make what they need.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dependences: bool,
}

/// A level of caches.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheTable {
    /// 1 is nearest to the core.
    pub level: u8,
    /// The level of the tree whose nodes have one each: `core`, `l2`, `package`, ...
    pub shared_by: String,
    /// Bytes, or `"32 KiB"`.
    pub size: Size,
    /// Bytes of a line.
    #[serde(default = "line")]
    pub line: u64,
    /// Lines of a set.
    pub ways: u64,
    /// From an instruction that loads to one that uses.
    pub latency_cycles: f64,
    /// Which line of a set goes.
    #[serde(default)]
    pub replacement: Replacement,
    /// What it holds of what the caches below hold.
    #[serde(default)]
    pub contents: Contents,
    /// When the next level sees what is written.
    #[serde(default)]
    pub write: Write,
}

/// Bytes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a size is a number of bytes, or a string such as \"32 KiB\"")]
pub enum Size {
    /// As a number.
    Bytes(u64),
    /// With a unit.
    Text(String),
}

/// Which line of a full set makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was not used for longest.
    #[default]
    Lru,
    /// A binary tree of bits that point away from what was used; where the ways are no power of two, the tree is that
    /// of the next one, and is never followed to ways that are not there.
    TreePlru,
    /// Any, by a generator that is the same in each run.
    Random,
}

/// What a cache holds of what the caches below it hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contents {
    /// All: what it drops, they drop.
    Inclusive,
    /// Nothing: what they drop goes here, what they take goes from here.
    Exclusive,
    /// Filled with what passes, and forgets by itself.
    #[default]
    Neither,
}

/// When the next level sees what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Write {
    /// When the line goes.
    #[default]
    Back,
    /// At once.
    Through,
}

/// How caches are kept the same.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoherenceTable {
    /// Which states a line has.
    #[serde(default)]
    pub protocol: Protocol,
    /// Who is asked.
    #[serde(default)]
    pub by: Search,
}

/// States that a line has in a last cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub enum Protocol {
    /// Modified, exclusive, shared: a modified line that is read elsewhere is written to memory.
    #[default]
    #[serde(rename = "MESI")]
    Mesi,
    /// Also owned: a modified line that is read elsewhere stays so, and its owner gives it to whoever asks.
    #[serde(rename = "MOESI")]
    Moesi,
    /// Also forward: the last to have read a shared line gives it to the next.
    #[serde(rename = "MESIF")]
    Mesif,
}

/// Who is asked for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Those that have it.
    #[default]
    Directory,
    /// All other last caches.
    Snooping,
}

/// Translation of addresses.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlbTable {
    /// Bytes of a page, or `"4 KiB"`.
    pub page: Size,
    /// Of loads and stores.
    pub data: TlbLevel,
    /// Of instructions.
    pub code: Option<TlbLevel>,
    /// Asked by both when they miss.
    pub second: Option<TlbLevel>,
    /// To walk the page table when all miss.
    pub walk_cycles: f64,
}

/// One TLB of each core.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlbLevel {
    /// Pages.
    pub entries: u64,
    /// Pages of a set.
    pub ways: u64,
    /// To find a page here (a second TLB).
    #[serde(default)]
    pub latency_cycles: f64,
}

/// Memory and its controllers.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTable {
    /// ns of a load from idle memory, by the lowest level of the tree that holds both the core and the memory.
    pub latency_ns: BTreeMap<String, f64>,
    /// 10^9 bytes/s of all controllers of a node together; none: infinite.
    pub bandwidth_gb_s: Option<f64>,
    /// Controllers of a node, lines going to them in turns.
    #[serde(default = "one_u64")]
    pub controllers: u64,
    /// Points (share of the bandwidth in use, ns more) of a measured curve; between them a straight line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, f64)>,
}

/// What joins each node of a level with the rest of the machine.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTable {
    /// The level: `package`, `l3`, ...
    pub level: String,
    /// 10^9 bytes/s in each direction; none: infinite.
    pub bandwidth_gb_s: Option<f64>,
}

/// A bus.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BusTable {
    /// 10^9 bytes/s; none: infinite.
    pub bandwidth_gb_s: Option<f64>,
}

/// Tiles in rows.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeshTable {
    /// Tiles of a row.
    pub columns: u64,
    /// From a tile to the next.
    pub hop_cycles: f64,
}

/// What the operating system adds.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SystemTable {
    /// How long a task keeps its PU while others want it.
    #[serde(default = "slice")]
    pub slice_us: f64,
    /// To change from a task to another.
    #[serde(default = "switching")]
    pub switch_us: f64,
    /// To give a page that is touched for the first time.
    #[serde(default)]
    pub fault_us: f64,
    /// How often pages of a process are unmapped for sampling where memory is balanced.
    #[serde(default = "numa_scan_period")]
    pub numa_scan_period_ms: f64,
    /// How much of them at a time.
    #[serde(default = "numa_scan")]
    pub numa_scan_mib: u64,
    /// To take the fault when such a page is touched.
    #[serde(default = "numa_fault")]
    pub numa_fault_us: f64,
    /// To move a page, beside copying it.
    #[serde(default = "numa_migrate")]
    pub numa_migrate_us: f64,
}

impl Default for SystemTable {
    fn default() -> Self {
        Self {
            slice_us: slice(),
            switch_us: switching(),
            fault_us: 0.0,
            numa_scan_period_ms: numa_scan_period(),
            numa_scan_mib: numa_scan(),
            numa_fault_us: numa_fault(),
            numa_migrate_us: numa_migrate(),
        }
    }
}

fn format() -> u64 {
    FORMAT
}

fn one() -> f64 {
    1.0
}

fn one_u64() -> u64 {
    1
}

fn line() -> u64 {
    64
}

/// The least that Linux's scheduler (EEVDF, `base_slice_ns`) takes: 0.75 ms, times 4 for 8 PUs and more.
fn slice() -> f64 {
    3000.0
}

/// lmbench's order of magnitude on such machines.
fn switching() -> f64 {
    2.0
}

/// Linux, `numa_balancing/scan_period_min_ms`: the shortest time between two scans of a process.
fn numa_scan_period() -> f64 {
    1000.0
}

/// Linux, `numa_balancing/scan_size_mb`.
fn numa_scan() -> u64 {
    256
}

/// Inference: a minor fault of Linux that gives no page and zeroes none.
fn numa_fault() -> f64 {
    0.5
}

/// Inference: a page of 4 KiB that Linux moves takes a few us, of which copying it takes a part.
fn numa_migrate() -> f64 {
    3.0
}

impl MachineFile {
    /// Reads TOML.
    ///
    /// # Errors
    /// Where it is none, or has keys that a machine file does not; the line is named. A newer format.
    pub fn parse(text: &str) -> Result<Self> {
        let read = toml::from_str::<Self>(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1;
            let cause = in_words(error.message());
            Error::new(format!("line {line}: {cause}")).remedy("docs/machines.md describes the file")
        })?;
        check_format(read.format, FORMAT, "machine")?;
        Ok(read)
    }
}

impl MachineFile {
    /// As TOML, `about` and what `source` says of a value behind each: it is asked by table and key, as
    /// `core.frequency_ghz`, `cache 1.size` or `tlb.data`.
    pub fn to_toml(&self, source: impl Fn(&str) -> Option<String>) -> String {
        let text = toml::to_string(self).expect("a machine file has no value that TOML lacks");
        let (mut table, mut caches, mut written) = (String::new(), 0, String::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[') {
                name.trim_matches(['[', ']']).clone_into(&mut table);
                if table == "cache" {
                    caches += 1;
                    table = format!("cache {caches}");
                }
            }
            let key = line
                .split_once(" = ")
                .map(|(key, _)| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") });
            match key.and_then(|key| source(&key)) {
                Some(source) => written += &format!("{line:<52} # {source}\n"),
                None => written += &format!("{line}\n"),
            }
        }
        written
    }
}

impl Size {
    /// So many bytes, in the largest unit of which they are a whole number.
    pub fn of(bytes: u64) -> Self {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes % (1 << shift) == 0);
        unit.map_or(Self::Bytes(bytes), |(shift, name)| Self::Text(format!("{} {name}", bytes >> shift)))
    }

    /// As a number of bytes.
    ///
    /// # Errors
    /// Where the text is none.
    pub fn bytes(&self) -> Result<u64> {
        let text = match self {
            Self::Bytes(bytes) => return Ok(*bytes),
            Self::Text(text) => text.trim(),
        };
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let factor = match unit.trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => 0u64,
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        match bytes {
            Some(bytes) if factor > 0 => Ok(bytes),
            _ => Err(Error::new(format!("{text:?} is no size"))
                .remedy("write a whole number of bytes, KiB, MiB, GiB or TiB, as in \"32 KiB\"")),
        }
    }
}
