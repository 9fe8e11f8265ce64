//! From a machine file's tables to a machine: every number checked, every level of the tree found.

use super::file::{CacheTable, LinkTable, MachineFile, MemoryTable, TlbLevel as TlbLevelTable, TlbTable};
use super::{Contents, Core, Level, Link, MAX_CORES, Machine, Memory, Mesh, System, Tlb, TlbLevel, Write};
use crate::clock::{self, Time};
use cohabit_model::topology::{Level as TreeLevel, NodeId, Topology};
use cohabit_model::{Error, Result, counted};
use std::collections::BTreeMap;
use std::path::Path;

/// Lines of the largest cache: 16 GiB of 64 bytes.
const MAX_LINES: u64 = 1 << 28;
/// No number is larger; of ns it is a second.
const MOST: f64 = 1e9;

pub(super) fn build(file: &MachineFile, folder: Option<&Path>) -> Result<Machine> {
    let topology = load_topology(&file.topology, folder)?;
    let tree = Tree::of(&topology)?;
    let cycle_ns = 1.0 / positive(file.core.frequency_ghz, "core: frequency_ghz")?;
    let cycles = |value: f64, what: &str| Ok(clock::from_ns(not_negative(value, what)? * cycle_ns));
    let levels = levels(&file.cache, &tree, &cycles)?;
    let private_levels = levels.iter().take_while(|level| level.caches == tree.cores.len()).count();
    if private_levels == 0 {
        return Err(Error::new("level 1 is shared by several cores").remedy("write shared_by = \"core\" for it"));
    }
    if levels.len() - private_levels > 1 {
        return Err(Error::new("two levels of caches that several cores share")
            .remedy("one can be simulated, as the last level: leave the other out"));
    }
    let line_bits = file.cache[0].line.trailing_zeros();
    let core = core(file, &topology, &tree)?;
    let transfer = tree.between_cores(&file.transfer_ns)?;
    let memory = memory(&file.memory, &tree, file.cache[0].line)?;
    let links = file.link.iter().map(|link| self::link(link, &tree, &memory)).collect::<Result<_>>()?;
    let tlb = file.tlb.as_ref().map(|table| tlb(table, &cycles)).transpose()?;
    let domains = levels[levels.len() - 1].caches;
    let mesh = match &file.mesh {
        None => None,
        Some(mesh) => Some(Mesh {
            columns: above_zero(mesh.columns, "mesh: columns")? as usize,
            tiles: domains,
            hop: cycles(mesh.hop_cycles, "mesh: hop_cycles")?,
        }),
    };
    let bus_gb_s = file.bus.as_ref().map(|bus| rate(bus.bandwidth_gb_s, "bus: bandwidth_gb_s")).transpose()?;
    // In units of so many ns.
    let time =
        |value: f64, ns: f64, what: &str| Ok::<_, Error>(clock::from_ns(between(value, false, MOST / ns, what)? * ns));
    let (us, ms) = (1e3, 1e6);
    let system = System {
        slice: time(positive(file.system.slice_us, "system: slice_us")?, us, "system: slice_us")?,
        switch: time(file.system.switch_us, us, "system: switch_us")?,
        fault: time(file.system.fault_us, us, "system: fault_us")?,
        numa_scan_period: {
            let period = positive(file.system.numa_scan_period_ms, "system: numa_scan_period_ms")?;
            time(period, ms, "system: numa_scan_period_ms")?
        },
        numa_scan_bytes: above_zero(file.system.numa_scan_mib, "system: numa_scan_mib")?.min(1 << 24) << 20,
        numa_fault: time(file.system.numa_fault_us, us, "system: numa_fault_us")?,
        numa_migrate: time(file.system.numa_migrate_us, us, "system: numa_migrate_us")?,
    };
    let (core_of_pu, cores) = (tree.core_of_pu.clone(), tree.cores.len());
    let about = file.about.clone();
    let (protocol, search) = (file.coherence.protocol, file.coherence.by);
    Ok(Machine {
        about,
        core_of_pu,
        cores,
        core,
        levels,
        private_levels,
        line_bits,
        protocol,
        search,
        transfer,
        tlb,
        memory,
        links,
        bus_gb_s,
        mesh,
        system,
        topology,
    })
}

fn load_topology(text: &str, folder: Option<&Path>) -> Result<Topology> {
    let beside = folder.map(|folder| folder.join(text)).filter(|path| path.is_file());
    let topology = match beside {
        Some(path) => Topology::load(&path.to_string_lossy())?,
        None => Topology::parse_text(text).map_err(|error| error.at("topology"))?,
    };
    if !topology.names.is_empty() || topology.matrix.is_some() {
        return Err(Error::new("topology: a cluster or a matrix of distances")
            .remedy("give one machine: a synthetic string or hwloc's XML"));
    }
    Ok(topology)
}

fn core(file: &MachineFile, topology: &Topology, tree: &Tree) -> Result<Core> {
    let table = &file.core;
    let cycle_ns = 1.0 / positive(table.frequency_ghz, "core: frequency_ghz")?;
    let alone_ns = cycle_ns / positive(table.instructions_per_cycle, "core: instructions_per_cycle")?;
    let throughput = positive(table.smt_throughput, "core: smt_throughput")?;
    let threads = (0..tree.cores.len()).map(|core| tree.core_of_pu.iter().filter(|&&of| of == core).count());
    let threads = threads.max().unwrap_or(1);
    if throughput < 1.0 || throughput > threads as f64 {
        return Err(Error::new(format!("core: smt_throughput = {throughput} with {} a core", counted(threads, "PU")))
            .remedy(if threads == 1 {
                "write 1, or leave it out".to_owned()
            } else {
                format!("write a number from 1 to {threads}")
            }));
    }
    if table.dependences && table.window == 0 {
        return Err(Error::new("core: dependences = true with window = 0: there each load is waited for anyhow")
            .remedy("write a window above 0, or leave dependences out"));
    }
    let instruction = |running: usize| match running {
        0 | 1 => clock::from_ns(alone_ns),
        // All PUs busy reach the throughput; fewer, a straight line's share of it.
        n => {
            let share = 1.0 + (throughput - 1.0) * (n - 1) as f64 / (threads - 1).max(1) as f64;
            clock::from_ns(alone_ns * n as f64 / share)
        }
    };
    debug_assert_eq!(topology.pus.len(), tree.core_of_pu.len());
    Ok(Core {
        cycle: clock::from_ns(cycle_ns),
        instruction: (0..=threads).map(instruction).collect(),
        window: table.window,
        fill_buffers: above_zero(table.fill_buffers, "core: fill_buffers")?.min(1 << 16) as usize,
        dependences: table.dependences,
    })
}

type Cycles<'a> = dyn Fn(f64, &str) -> Result<Time> + 'a;

fn levels(tables: &[CacheTable], tree: &Tree, cycles: &Cycles) -> Result<Vec<Level>> {
    if tables.is_empty() {
        return Err(Error::new("no [[cache]]").remedy("describe at least level 1"));
    }
    let mut levels: Vec<Level> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let at = |error: Error| error.at(format!("cache level {}", table.level));
        let level = level(table, tree, cycles).map_err(at)?;
        if usize::from(table.level) != index + 1 {
            let cause = format!("cache level {} is described where level {} was expected", table.level, index + 1);
            return Err(Error::new(cause).remedy("describe levels 1, 2, ... in this order, each once"));
        }
        if table.line != tables[0].line {
            return Err(at(Error::new(format!("lines of {} bytes, of level 1 {}", table.line, tables[0].line)))
                .remedy("all levels have lines of one size here"));
        }
        if let Some(below) = levels.last() {
            check_nested(below, &level, tree).map_err(at)?;
        }
        levels.push(level);
    }
    if levels[0].contents == Contents::Exclusive {
        return Err(Error::new("cache level 1: exclusive of what?").remedy("leave contents out"));
    }
    for (index, level) in levels.iter().enumerate().filter(|(_, level)| level.write == Write::Through) {
        let inclusive = levels.get(1).is_some_and(|next| next.contents == Contents::Inclusive);
        if index > 0 || !inclusive {
            return Err(Error::new(format!("cache level {}: write-through", index + 1))
                .remedy("level 1 alone may write through, to an inclusive level 2"));
        }
        debug_assert_eq!(level.number, 1);
    }
    Ok(levels)
}

/// Whether whoever shares a cache shares the next level's too.
fn check_nested(below: &Level, level: &Level, tree: &Tree) -> Result<()> {
    let mut above = BTreeMap::new();
    for core in 0..tree.cores.len() {
        let cache = level.cache_of_core[core];
        if *above.entry(below.cache_of_core[core]).or_insert(cache) != cache {
            return Err(Error::new(format!("cores that share level {} do not share it", below.number))
                .remedy("a level is shared by as many cores as the level before, or more"));
        }
    }
    Ok(())
}

fn level(table: &CacheTable, tree: &Tree, cycles: &Cycles) -> Result<Level> {
    let size = table.size.bytes()?;
    let line = above_zero(table.line, "line")?;
    if !line.is_power_of_two() || !(16..=4096).contains(&line) {
        return Err(Error::new(format!("lines of {line} bytes")).remedy("write a power of two from 16 to 4096"));
    }
    let ways = above_zero(table.ways, "ways")?;
    let lines = size / line;
    if size == 0 || size % line != 0 || lines % ways != 0 {
        return Err(Error::new(format!("{size} bytes are no whole number of sets of {ways} lines of {line} bytes"))
            .remedy("size = sets x ways x line"));
    }
    if lines > MAX_LINES || ways > 64 && table.replacement == super::Replacement::TreePlru || ways > 1024 {
        return Err(Error::new(format!("{size} bytes in {ways} ways: too large to be simulated"))
            .remedy("at most 2^28 lines, 1,024 ways, and 64 with tree-plru"));
    }
    let (cache_of_core, caches) = tree.caches_at(&table.shared_by)?;
    Ok(Level {
        number: table.level,
        sets: lines / ways,
        ways: ways as usize,
        latency: cycles(table.latency_cycles, "latency_cycles")?,
        replacement: table.replacement,
        contents: table.contents,
        write: table.write,
        cache_of_core,
        caches,
    })
}

fn tlb(table: &TlbTable, cycles: &Cycles) -> Result<Tlb> {
    let page = table.page.bytes().map_err(|error| error.at("tlb: page"))?;
    if !page.is_power_of_two() || !(512..=1 << 30).contains(&page) {
        return Err(Error::new(format!("tlb: pages of {page} bytes")).remedy("write a power of two, as in \"4 KiB\""));
    }
    let level = |table: &TlbLevelTable, name: &str| -> Result<TlbLevel> {
        let entries = above_zero(table.entries, &format!("tlb.{name}: entries"))?;
        let ways = above_zero(table.ways, &format!("tlb.{name}: ways"))?;
        if entries % ways != 0 || entries > 1 << 20 {
            return Err(Error::new(format!("tlb.{name}: {entries} entries in sets of {ways}"))
                .remedy("entries = sets x ways, at most 2^20"));
        }
        let latency = cycles(table.latency_cycles, &format!("tlb.{name}: latency_cycles"))?;
        Ok(TlbLevel { sets: entries / ways, ways: ways as usize, latency })
    };
    Ok(Tlb {
        page_bits: page.trailing_zeros(),
        data: level(&table.data, "data")?,
        code: table.code.as_ref().map(|table| level(table, "code")).transpose()?,
        second: table.second.as_ref().map(|table| level(table, "second")).transpose()?,
        walk: cycles(table.walk_cycles, "tlb: walk_cycles")?,
    })
}

fn memory(table: &MemoryTable, tree: &Tree, line: u64) -> Result<Memory> {
    let controllers = above_zero(table.controllers, "memory: controllers")?;
    if controllers > line {
        return Err(Error::new(format!("memory: {controllers} controllers a node")).remedy("write 64 at most"));
    }
    let gb_s = rate(table.bandwidth_gb_s, "memory: bandwidth_gb_s")? / controllers as f64;
    let mut last = -1.0;
    let mut curve = Vec::new();
    for &(share, ns) in &table.curve {
        if !(share > last && share <= 1.0) || share < 0.0 {
            return Err(Error::new(format!("memory: curve: a share of {share}"))
                .remedy("write points [share of the bandwidth, ns more] with rising shares from 0 to 1"));
        }
        last = share;
        curve.push((share, clock::from_ns(not_negative(ns, "memory: curve")?)));
    }
    let latency = tree.to_memory(&table.latency_ns)?;
    Ok(Memory {
        nodes: tree.nodes.len(),
        node_of_core: tree.node_of_core.clone(),
        latency,
        controllers: controllers as usize,
        gb_s,
        curve,
    })
}

fn link(table: &LinkTable, tree: &Tree, memory: &Memory) -> Result<Link> {
    let level = tree.level(&table.level).map_err(|error| error.at("link"))?;
    let ids: Vec<_> = tree.topology.nodes_at(level).collect();
    let place = |node: NodeId| {
        let mut above = tree.topology.ancestors(node);
        above.find_map(|node| ids.iter().position(|&id| id == node))
    };
    debug_assert_eq!(memory.nodes, tree.nodes.len());
    Ok(Link {
        name: level.name().to_owned(),
        count: ids.len(),
        of_core: tree.cores.iter().map(|&core| place(core)).collect(),
        of_node: tree.nodes.iter().map(|&node| place(node)).collect(),
        gb_s: rate(table.bandwidth_gb_s, "link: bandwidth_gb_s")?,
    })
}

/// The parts of the tree that the engine asks for.
struct Tree<'a> {
    topology: &'a Topology,
    cores: Vec<NodeId>,
    core_of_pu: Vec<usize>,
    /// Places of memory: NUMA nodes, or the root.
    nodes: Vec<NodeId>,
    node_of_core: Vec<usize>,
}

impl<'a> Tree<'a> {
    fn of(topology: &'a Topology) -> Result<Self> {
        let mut cores: Vec<NodeId> = Vec::new();
        let mut core_of_pu = Vec::new();
        for pu in 0..topology.pus.len() {
            let core = topology.core_of(pu);
            if cores.last() != Some(&core) {
                cores.push(core);
            }
            core_of_pu.push(cores.len() - 1);
        }
        if cores.len() > MAX_CORES {
            return Err(Error::new(format!("topology: {} cores", cores.len()))
                .remedy(format!("at most {MAX_CORES} can be simulated")));
        }
        let mut nodes: Vec<NodeId> = topology.nodes_at(TreeLevel::Numa).collect();
        if nodes.is_empty() {
            nodes.push(0);
        }
        let near = |&core: &NodeId| {
            let mut above = topology.ancestors(core);
            above.find_map(|node| nodes.iter().position(|&id| id == node))
        };
        let node_of_core: Option<Vec<_>> = cores.iter().map(near).collect();
        let node_of_core = node_of_core.ok_or_else(|| {
            Error::new("topology: a core that is in no NUMA node")
                .remedy("put NUMA nodes around all cores, or leave them out")
        })?;
        Ok(Self { topology, cores, core_of_pu, nodes, node_of_core })
    }

    /// The level of a name, which the tree has to have.
    fn level(&self, name: &str) -> Result<TreeLevel> {
        let mut known: Vec<(TreeLevel, &str)> = vec![(TreeLevel::Machine, "machine")];
        for node in &self.topology.nodes {
            if let Some(key) = node.level.key().filter(|_| known.iter().all(|&(level, _)| level != node.level)) {
                known.push((node.level, key));
            }
        }
        known.sort_unstable();
        let found = known.iter().find(|(_, key)| *key == name);
        found.map(|&(level, _)| level).ok_or_else(|| {
            let names: Vec<_> = known.iter().map(|&(_, key)| key).collect();
            Error::new(format!("the topology has no {name:?}")).remedy(format!("it has {}", names.join(", ")))
        })
    }

    /// Which node of the named level each core is in, and how many there are.
    fn caches_at(&self, name: &str) -> Result<(Vec<usize>, usize)> {
        let level = self.level(name)?;
        let mut found: Vec<NodeId> = Vec::new();
        let mut of_core = Vec::new();
        for &core in &self.cores {
            let node = self.topology.ancestors(core).find(|&id| self.topology.nodes[id].level == level);
            // Where cores are not a level of their own, the PU is the core.
            let node = node.or((level == TreeLevel::Core).then_some(core)).ok_or_else(|| {
                Error::new(format!("a core is in no {name:?}")).remedy("name a level that is around all cores")
            })?;
            if found.last() != Some(&node) {
                found.push(node);
            }
            of_core.push(found.len() - 1);
        }
        Ok((of_core, found.len()))
    }

    /// ns by level as a function of two nodes: that of the lowest common one, else of the next one outwards.
    fn by_level(&self, table: &BTreeMap<String, f64>, what: &str) -> Result<Vec<Option<Time>>> {
        let mut at_level = BTreeMap::new();
        for (name, &ns) in table {
            let level = self.level(name).map_err(|error| error.at(what))?;
            at_level.insert(level, clock::from_ns(not_negative(ns, &format!("{what}: {name}"))?));
        }
        let of_node = |id: NodeId| {
            let mut above = self.topology.ancestors(id);
            above.find_map(|id| at_level.get(&self.topology.nodes[id].level).copied())
        };
        Ok((0..self.topology.nodes.len()).map(of_node).collect())
    }

    fn common(&self, a: NodeId, b: NodeId) -> NodeId {
        let (a, b) = (&self.topology.nodes[a].pus, b);
        let mut above = self.topology.ancestors(b);
        above
            .find(|&id| {
                let pus = &self.topology.nodes[id].pus;
                pus.start <= a.start && a.end <= pus.end
            })
            .unwrap_or(0)
    }

    fn between_cores(&self, table: &BTreeMap<String, f64>) -> Result<Vec<Time>> {
        let by_node = self.by_level(table, "transfer_ns")?;
        let mut all = Vec::with_capacity(self.cores.len().pow(2));
        for &from in &self.cores {
            for &to in &self.cores {
                let node = self.common(from, to);
                let time = if from == to { Some(0) } else { by_node[node] };
                all.push(time.ok_or_else(|| missing("transfer_ns", self.topology.nodes[node].level))?);
            }
        }
        Ok(all)
    }

    fn to_memory(&self, table: &BTreeMap<String, f64>) -> Result<Vec<Time>> {
        let by_node = self.by_level(table, "memory: latency_ns")?;
        let mut all = Vec::with_capacity(self.cores.len() * self.nodes.len());
        for &core in &self.cores {
            for &memory in &self.nodes {
                let node = self.common(core, memory);
                all.push(by_node[node].ok_or_else(|| missing("memory: latency_ns", self.topology.nodes[node].level))?);
            }
        }
        Ok(all)
    }
}

fn missing(table: &str, level: TreeLevel) -> Error {
    let key = level.key().unwrap_or("machine");
    Error::new(format!("{table} says nothing of what is shared by one {level} only"))
        .remedy(format!("add {key} = (ns), or any level around it"))
}

fn positive(value: f64, what: &str) -> Result<f64> {
    between(value, true, MOST, what)
}

fn not_negative(value: f64, what: &str) -> Result<f64> {
    between(value, false, MOST, what)
}

/// A number from 0, which it may not be where it is to be `above`, to `most`.
fn between(value: f64, above: bool, most: f64, what: &str) -> Result<f64> {
    let good = value.is_finite() && value <= most && if above { value > 0.0 } else { value >= 0.0 };
    if good {
        return Ok(value);
    }
    let from = if above { "above 0 and up" } else { "from 0" };
    Err(Error::new(format!("{what} = {}", shown(value))).remedy(format!("write a number {from} to {}", shown(most))))
}

/// Large numbers with an exponent, as people write them.
fn shown(value: f64) -> String {
    if value.is_finite() && value.abs() >= 1e6 { format!("{value:e}") } else { value.to_string() }
}

fn above_zero(value: u64, what: &str) -> Result<u64> {
    if value > 0 { Ok(value) } else { Err(Error::new(format!("{what} = 0")).remedy("write a number above 0")) }
}

/// 10^9 bytes/s; infinite where nothing is said.
fn rate(value: Option<f64>, what: &str) -> Result<f64> {
    value.map_or(Ok(f64::INFINITY), |value| positive(value, what))
}
