//! `cohabit measure --machine`: a machine file of the machine at hand. Each value says where it comes from: measured, told
//! by the kernel, or assumed where neither is to be had.

use super::calibration::Calibrated;
use cohabit_memory::machine::file::{
    BusTable, CacheTable, CoherenceTable, Contents, CoreTable, FORMAT, LinkTable, MachineFile, MemoryTable, Protocol,
    Replacement, Search, Size, SystemTable, TlbLevel, TlbTable, Write,
};
use cohabit_model::Topology;
use cohabit_model::topology::{Level, NodeId};
use cohabit_observe::measure::machine::{Cache, Measured};
use std::collections::BTreeMap;

const MEASURED: &str = "measured";
const KERNEL: &str = "the kernel's word";

/// A machine file under way: the tables, and where values come from.
pub struct Draft {
    pub file: MachineFile,
    sources: BTreeMap<String, String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Draft {
    /// Of what was measured on a machine.
    pub fn new(measured: &Measured, live: &Topology) -> Self {
        let mut said = Said::default();
        let cpu = Cpu::here();
        let core = core(measured, live, &mut said);
        let cycles = |ns: f64| round(ns * core.frequency_ghz);
        let cache = caches(measured, live, cpu.amd, &cycles, &mut said);
        let tlb = measured.tlbs.map(|found| {
            said.measured("tlb.walk_cycles");
            said.is("tlb.page", "assumed: the smallest");
            said.is("tlb.data.entries", MEASURED);
            said.is("tlb.data.ways", "assumed");
            said.is("tlb.code.entries", "assumed: as data");
            let data = tlb_level(found.entries, 0.0);
            let second = found.second.map(|(entries, ns)| {
                said.is("tlb.second.entries", MEASURED);
                said.is("tlb.second.ways", "assumed");
                said.is("tlb.second.latency_cycles", MEASURED);
                tlb_level(entries, cycles(ns))
            });
            let page = Size::of(4096);
            TlbTable { page, code: Some(data.clone()), data, second, walk_cycles: cycles(found.walk_ns) }
        });
        if tlb.is_none() {
            said.notes.push("no TLB was seen: translation of addresses is taken to be free".to_owned());
        }
        let transfer_ns = by_level("transfer_ns", &measured.transfers_ns, &mut said);
        let memory = memory(measured, &mut said);
        let link = links(measured, live, &mut said);
        let system = system(measured, live.pus.len(), &mut said);
        let protocol = match (cpu.amd, cpu.intel) {
            (true, _) => Protocol::Moesi,
            (_, true) => Protocol::Mesif,
            _ => Protocol::Mesi,
        };
        said.is("coherence.protocol", "assumed: the vendor's");
        said.is("coherence.by", "assumed");
        let file = MachineFile {
            format: FORMAT,
            about: format!("{}, {} PUs", cpu.name, live.pus.len()),
            topology: text_of(live),
            core,
            cache,
            coherence: CoherenceTable { protocol, by: Search::Directory },
            transfer_ns,
            tlb,
            memory,
            link,
            bus: None::<BusTable>,
            mesh: None,
            system,
        };
        said.notes.extend(measured.memory.notes.iter().cloned());
        Self { file, sources: said.sources, notes: said.notes }
    }

    /// Takes the rate of instructions that a program was found to have; the file says where it comes from, or why there
    /// is none and the assumed one stays.
    pub fn set_rate(&mut self, found: &Calibrated) {
        if let Some(rate) = found.rate() {
            self.file.core.instructions_per_cycle = rate;
        }
        self.sources.insert("core.instructions_per_cycle".to_owned(), found.source());
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        self.file.to_toml(|key| self.sources.get(key).cloned())
    }
}

/// Where values come from, and what the user should know.
#[derive(Default)]
struct Said {
    sources: BTreeMap<String, String>,
    notes: Vec<String>,
}

impl Said {
    fn is(&mut self, key: &str, source: &str) {
        self.sources.insert(key.to_owned(), source.to_owned());
    }

    fn measured(&mut self, key: &str) {
        self.is(key, MEASURED);
    }

    /// What was measured, else what is assumed.
    fn or<T>(&mut self, key: &str, found: Option<T>, assumed: T) -> T {
        self.is(key, if found.is_some() { MEASURED } else { "assumed" });
        found.unwrap_or(assumed)
    }
}

/// Of /proc/cpuinfo.
struct Cpu {
    name: String,
    amd: bool,
    intel: bool,
}

impl Cpu {
    fn here() -> Self {
        Self::of(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let value = |key: &str| {
            let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let vendor = value("vendor_id").unwrap_or_default();
        Self {
            name: value("model name").unwrap_or_else(|| "a processor".to_owned()),
            amd: ["AuthenticAMD", "HygonGenuine"].contains(&vendor.as_str()),
            intel: vendor == "GenuineIntel",
        }
    }
}

fn core(measured: &Measured, live: &Topology, said: &mut Said) -> CoreTable {
    let siblings = (1..live.pus.len()).any(|pu| live.core_of(pu) == live.core_of(pu - 1));
    said.is("core.instructions_per_cycle", "assumed: what compiled loops reach");
    said.is("core.dependences", "as far as recordings tell them, by latencies of recent cores");
    said.is("core.smt_throughput", if siblings { "assumed" } else { "one PU a core" });
    CoreTable {
        frequency_ghz: round(said.or("core.frequency_ghz", measured.frequency_ghz, 2.0)),
        instructions_per_cycle: 2.0,
        smt_throughput: if siblings { 1.25 } else { 1.0 },
        window: said.or("core.window", measured.window, 192),
        fill_buffers: said.or("core.fill_buffers", measured.fill_buffers, 10),
        dependences: true,
    }
}

/// The caches that the simulator has: those of each core, and one level that cores share.
fn caches(
    measured: &Measured,
    live: &Topology,
    amd: bool,
    cycles: &dyn Fn(f64) -> f64,
    said: &mut Said,
) -> Vec<CacheTable> {
    let cores = |cache: &Cache| {
        let mut cores: Vec<NodeId> =
            cache.pus.iter().filter_map(|&pu| live.pu_index(pu)).map(|pu| live.core_of(pu)).collect();
        cores.dedup();
        cores.len()
    };
    let (own, shared): (Vec<_>, Vec<_>) = measured.caches.iter().partition(|(cache, _)| cores(cache) <= 1);
    for (cache, _) in shared.iter().rev().skip(1) {
        said.notes
            .push(format!("the caches of level {} are left out: one level that cores share is simulated", cache.level));
    }
    let mut tables: Vec<CacheTable> = Vec::new();
    let line = measured.caches.iter().find_map(|(cache, _)| cache.line_bytes).filter(|line| line.is_power_of_two());
    for (cache, ns) in own.into_iter().chain(shared.into_iter().next_back()) {
        let level = tables.len() as u8 + 1;
        let key = |key: &str| format!("cache {level}.{key}");
        let line = line.unwrap_or(64);
        // A number of ways that the size is not whole sets of cannot be.
        let known = cache.ways.filter(|ways| cache.size_bytes / line % ways == 0);
        let ways = known.unwrap_or_else(|| if cache.size_bytes / line % 8 == 0 { 8 } else { 1 });
        said.is(&key("size"), KERNEL);
        said.is(&key("shared_by"), KERNEL);
        said.is(&key("ways"), if known.is_some() { KERNEL } else { "assumed" });
        let assumed = [4.0, 14.0, 45.0][usize::from(level - 1).min(2)];
        let latency_cycles = said.or(&key("latency_cycles"), ns.map(cycles), assumed);
        // What processors say of it is whether a cache holds all of those below.
        let contents = match cache.inclusive {
            _ if level == 1 => Contents::Neither,
            Some(true) => Contents::Inclusive,
            Some(false) if amd && level > 2 => Contents::Exclusive,
            _ => Contents::Neither,
        };
        if level > 1 {
            let told = if cache.inclusive.is_some() { "the processor's word (cpuid)" } else { "assumed" };
            let of_amd = contents == Contents::Exclusive;
            said.is(&key("contents"), if of_amd { "assumed: AMD's hold what the L2s drop" } else { told });
        }
        said.is(&key("replacement"), "assumed");
        tables.push(CacheTable {
            level,
            shared_by: place_of(cache, live),
            size: Size::of(cache.size_bytes),
            line,
            ways,
            latency_cycles,
            replacement: Replacement::Lru,
            contents,
            write: Write::Back,
        });
    }
    if tables.is_empty() {
        said.notes.push("the kernel tells nothing of caches: one of 32 KiB a core is assumed".to_owned());
        tables.push(CacheTable {
            level: 1,
            shared_by: place_of(&Cache::default(), live),
            size: Size::of(32 << 10),
            line: 64,
            ways: 8,
            latency_cycles: 4.0,
            replacement: Replacement::Lru,
            contents: Contents::Neither,
            write: Write::Back,
        });
    }
    tables
}

/// The level of the tree whose places share such a cache: the lowest one that holds all of its PUs.
fn place_of(cache: &Cache, live: &Topology) -> String {
    let pus: Vec<usize> = cache.pus.iter().filter_map(|&pu| live.pu_index(pu)).collect();
    let own = if live.nodes_at(Level::Core).next().is_some() { "core" } else { "pu" };
    let Some((&first, rest)) = pus.split_first() else { return own.to_owned() };
    let core = live.core_of(first);
    if rest.iter().all(|&pu| live.core_of(pu) == core) {
        return own.to_owned();
    }
    let holds = |node: NodeId| rest.iter().all(|pu| live.nodes[node].pus.contains(pu));
    let found = live.ancestors(live.pus[first].node).find(|&node| holds(node));
    found.map_or("machine", |node| key_of(live.nodes[node].level)).to_owned()
}

fn key_of(level: Level) -> &'static str {
    level.key().unwrap_or("machine")
}

fn tlb_level(entries: u64, latency_cycles: f64) -> TlbLevel {
    // Small ones are searched as a whole; of large ones sets of eight are usual.
    let (entries, ways) = if entries <= 96 { (entries, entries) } else { (entries / 8 * 8, 8) };
    TlbLevel { entries, ways, latency_cycles }
}

/// ns by level; the whole machine is as slow as the slowest of what was measured.
fn by_level(table: &str, found: &[(Level, f64)], said: &mut Said) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for &(level, ns) in found {
        said.measured(&format!("{table}.{}", key_of(level)));
        all.insert(key_of(level).to_owned(), round(ns));
    }
    if let Some(slowest) = all.values().copied().reduce(f64::max).filter(|_| !all.contains_key("machine")) {
        said.is(&format!("{table}.machine"), "the slowest of those measured");
        all.insert("machine".to_owned(), slowest);
    }
    all
}

fn memory(measured: &Measured, said: &mut Said) -> MemoryTable {
    let mut latency_ns = by_level("memory.latency_ns", &measured.memory_ns, said);
    if latency_ns.is_empty() {
        said.notes.push("the latency of memory was not measured: 100 ns are assumed".to_owned());
        said.is("memory.latency_ns.machine", "assumed");
        latency_ns.insert("machine".to_owned(), 100.0);
    }
    let bandwidth = measured.memory.speeds.node;
    said.is("memory.bandwidth_gb_s", "measured: what all PUs of a node read");
    said.is("memory.controllers", "assumed: as one queue");
    MemoryTable {
        latency_ns,
        bandwidth_gb_s: bandwidth.map(|rate| round(rate / 1e9)),
        controllers: 1,
        curve: Vec::new(),
    }
}

fn links(measured: &Measured, live: &Topology, said: &mut Said) -> Vec<LinkTable> {
    let Some(remote) = measured.memory.speeds.remote.filter(|_| live.nodes_at(Level::Numa).nth(1).is_some()) else {
        return Vec::new();
    };
    said.is("link.bandwidth_gb_s", "measured: what a node's PUs read of another's memory");
    vec![LinkTable { level: "numa".to_owned(), bandwidth_gb_s: Some(round(remote / 1e9)) }]
}

fn system(measured: &Measured, pus: usize, said: &mut Said) -> SystemTable {
    said.measured("system.switch_us");
    said.measured("system.fault_us");
    said.is("system.slice_us", "Linux: 0.75 ms, more by a factor that grows with the PUs");
    // Linux, sched_init_granularity: times 1 + log2 of the PUs, of which eight count at most.
    let factor = 1 + pus.clamp(1, 8).ilog2();
    SystemTable {
        slice_us: 750.0 * f64::from(factor),
        switch_us: round(measured.switch_ns / 1e3),
        fault_us: round(measured.fault_ns / 1e3),
        ..SystemTable::default()
    }
}

/// Three digits: no figure is more exact.
pub fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    // Divided by whole powers, so that 0.1 is written as such.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit }
}

/// The tree in a line, where that says the same; else what it was made from, without the firmware's distances, which a
/// machine file has in ns.
fn text_of(live: &Topology) -> String {
    let line = synthetic(live);
    match line.filter(|line| Topology::parse_text(line).is_ok_and(|read| is_same(&read, live))) {
        Some(line) => line,
        None => without_distances(&live.text),
    }
}

fn is_same(a: &Topology, b: &Topology) -> bool {
    let levels =
        |topology: &Topology| -> Vec<_> { topology.nodes.iter().map(|node| (node.level, node.pus.clone())).collect() };
    let pus = |topology: &Topology| -> Vec<_> { topology.pus.iter().map(|pu| pu.os_index).collect() };
    levels(a) == levels(b) && pus(a) == pus(b)
}

/// `package:2 numa:1 core:4 pu:2`; none where not all nodes of a level have as many below.
fn synthetic(live: &Topology) -> Option<String> {
    let (mut words, mut depth) = (Vec::new(), vec![0]);
    loop {
        let below: Vec<NodeId> = depth.iter().flat_map(|&node| live.nodes[node].children.iter().copied()).collect();
        let Some(&first) = below.first() else { return Some(words.join(" ")) };
        let (level, count) = (live.nodes[first].level, live.nodes[depth[0]].children.len());
        let is_regular = depth.iter().all(|&node| live.nodes[node].children.len() == count)
            && below.iter().all(|&node| live.nodes[node].level == level);
        words.push(format!("{}:{count}", level.key().filter(|_| is_regular)?));
        depth = below;
    }
}

fn without_distances(text: &str) -> String {
    let (mut left, mut kept) = (text, String::new());
    while let Some(begin) = left.find("<distances2") {
        let Some(end) = left[begin..]
            .find("</distances2")
            .and_then(|at| left[begin + at..].find('>').map(|close| begin + at + close + 1))
        else {
            break;
        };
        kept += &left[..begin];
        left = &left[end..];
    }
    kept + left
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_memory::Machine;
    use cohabit_observe::measure::Busy;
    use cohabit_observe::measure::machine::Tlbs;

    fn cache(
        level: u8,
        size_bytes: u64,
        ways: Option<u64>,
        pus: std::ops::Range<u32>,
        inclusive: Option<bool>,
    ) -> Cache {
        Cache { level, size_bytes, ways, line_bytes: Some(64), pus: pus.collect(), inclusive }
    }

    fn measured() -> Measured {
        Measured {
            frequency_ghz: Some(3.456),
            caches: vec![
                (cache(1, 32 << 10, Some(8), 0..1, None), Some(1.2)),
                (cache(2, 512 << 10, Some(8), 0..1, Some(true)), Some(4.1)),
                (cache(3, 32 << 20, None, 0..4, Some(false)), None),
            ],
            window: None,
            fill_buffers: Some(22),
            tlbs: Some(Tlbs { entries: 64, second: Some((2047, 2.0)), walk_ns: 12.34 }),
            transfers_ns: vec![(Level::L3, 25.0), (Level::Machine, 110.0)],
            memory_ns: vec![(Level::Numa, 91.24)],
            memory: Default::default(),
            fault_ns: 512.0,
            switch_ns: 1234.0,
            busy: Busy::default(),
        }
    }

    #[test]
    fn a_file_of_what_was_measured_is_a_machine_and_says_where_values_come_from() {
        let live = Topology::load("pack:2 numa:1 l3:1 core:4 pu:1").unwrap();
        let draft = Draft::new(&measured(), &live);
        let text = draft.to_toml();
        let machine = Machine::parse(&text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((machine.cores, machine.levels.len(), machine.private_levels), (8, 3, 2));
        assert_eq!(machine.topology.nodes.len(), live.nodes.len());
        let line =
            |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}\n{text}"));
        for (key, wanted) in [
            ("frequency_ghz", "3.46"),
            ("frequency_ghz", "# measured"),
            ("instructions_per_cycle", "# assumed: what compiled loops reach"),
            ("window", "192"),
            ("window", "# assumed"),
            ("fill_buffers", "22"),
            ("walk_cycles", "42.7"),
            ("l3 = ", "25.0"),
            ("switch_us", "1.23"),
        ] {
            assert!(line(key).contains(wanted), "{key}: {}", line(key));
        }
        // 2,047 pages are no whole number of sets of eight.
        assert!(
            text.contains("entries = 2040") && text.contains("contents = \"exclusive\"") == Cpu::here().amd,
            "{text}"
        );
        assert_eq!(draft.notes, [""; 0]);
    }

    #[test]
    fn where_nothing_is_known_it_is_a_machine_still_and_said() {
        let nothing = Measured {
            frequency_ghz: None,
            caches: Vec::new(),
            fill_buffers: None,
            tlbs: None,
            transfers_ns: Vec::new(),
            memory_ns: Vec::new(),
            ..measured()
        };
        let draft = Draft::new(&nothing, &Topology::load("pu:1").unwrap());
        Machine::parse(&draft.to_toml(), None).unwrap_or_else(|error| panic!("{error}\n{}", draft.to_toml()));
        for wanted in ["no TLB", "latency of memory", "nothing of caches"] {
            assert!(draft.notes.iter().any(|note| note.contains(wanted)), "{:?}", draft.notes);
        }
        assert!(Draft::new(&measured(), &Topology::load("core:4 pu:1").unwrap()).notes.is_empty());
    }

    #[test]
    fn a_second_level_that_cores_share_is_left_out_and_said() {
        let mut found = measured();
        found.caches.insert(2, (cache(3, 4 << 20, Some(16), 0..2, None), Some(9.0)));
        found.caches[3].0.level = 4;
        let draft = Draft::new(&found, &Topology::load("pack:1 l3:2 core:2 pu:1").unwrap());
        assert_eq!(draft.file.cache.len(), 3);
        assert_eq!(draft.file.cache[2].shared_by, "package");
        assert!(draft.notes[0].contains("level 3 are left out"), "{:?}", draft.notes);
    }

    #[test]
    fn the_tree_is_a_line_or_what_it_was_made_from() {
        for text in ["pack:2 numa:1 l3:2 core:4 pu:2", "core:3 pu:1"] {
            assert_eq!(text_of(&Topology::load(text).unwrap()), text.replace("pack:", "package:"));
        }
        let with = "<topology>\n<object/>\n<distances2 nbobjs=\"2\">\n<u64values>10 21</u64values>\n</distances2>\n<distances2hetero a=\"1\">x</distances2hetero>\n</topology>";
        assert_eq!(without_distances(with), "<topology>\n<object/>\n\n\n</topology>");
        assert_eq!(without_distances("<a/>"), "<a/>");
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, wanted) in
            [(0.0, 0.0), (0.123456, 0.123), (91.249, 91.2), (12345.0, 12300.0), (2.0, 2.0), (0.00051249, 0.000512)]
        {
            assert!((round(value) - wanted).abs() < 1e-12, "{value}: {}", round(value));
        }
    }

    #[test]
    fn processors_are_named_as_the_kernel_does() {
        let cpu = Cpu::of("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: a name\n");
        assert_eq!((cpu.name.as_str(), cpu.amd, cpu.intel), ("Xeon: a name", false, true));
        assert_eq!(Cpu::of("").name, "a processor");
    }
}
