//! The machines given are machines, as their papers have them; what is no machine is refused with cause and remedy.

use cohabit_access::synthetic;
use cohabit_memory::machine::given::MACHINES;
use cohabit_memory::{Machine, Options, simulate};

#[test]
fn the_given_machines_are_as_their_papers_say() {
    // PUs, cores, last caches, memory nodes, and sets of the last cache.
    for (name, wanted) in [
        ("harpertown", [8, 8, 4, 1, 12_288]),
        ("xeon32", [32, 16, 2, 2, 16_384]),
        ("xeon64", [64, 32, 4, 4, 12_288]),
        ("purple", [56, 28, 2, 2, 28_672]),
        ("deloc", [64, 64, 4, 4, 28_672]),
        ("epyc", [128, 128, 32, 2, 16_384]),
        ("mesh", [256, 64, 32, 1, 1_024]),
    ] {
        let machine = Machine::load(name).unwrap();
        let last = &machine.levels[machine.levels.len() - 1];
        let found =
            [machine.core_of_pu.len(), machine.cores, machine.domains(), machine.memory.nodes, last.sets as usize];
        assert_eq!(found, wanted, "{name}");
    }
}

/// Every line with a number says where it is from, but for what needs no source.
#[test]
fn every_value_names_its_source() {
    for given in MACHINES {
        for line in given.text.lines().filter(|line| line.contains('=')) {
            let key = line.split('=').next().unwrap_or_default().trim();
            let plain = ["format", "about", "level", "shared_by", "page"].contains(&key) || line.starts_with('#');
            assert!(plain || line.contains('#'), "{}: {line}", given.name);
        }
    }
}

#[test]
fn all_given_machines_run_a_program() {
    for given in MACHINES {
        let machine = Machine::load(given.name).unwrap();
        let recording = synthetic::parse("ring:8:4:2").unwrap();
        let mapping: Vec<usize> = (0..8).collect();
        let report = simulate(&recording, &machine, &mapping, &Options::default()).unwrap();
        assert!(report.time_fs > 0, "{}", given.name);
        assert_eq!(report.total.loads + report.total.stores, 8 * 2 * 3 * 512, "{}", given.name);
        assert!(report.cache_to_cache() + report.total.last_misses.coherence > 0, "{}", given.name);
    }
}

const SMALL: &str = r#"
about = "small"
topology = "pack:2 core:2 pu:1"
[core]
frequency_ghz = 1
instructions_per_cycle = 1
window = 0
fill_buffers = 4
[[cache]]
level = 1
shared_by = "core"
size = "1 KiB"
ways = 2
latency_cycles = 1
[[cache]]
level = 2
shared_by = "package"
size = "4 KiB"
ways = 4
latency_cycles = 10
[transfer_ns]
machine = 50
[memory]
latency_ns = { machine = 100 }
"#;

#[test]
fn what_is_no_machine_is_refused() {
    assert!(Machine::parse(SMALL, None).is_ok());
    for (from, to, cause) in [
        ("window = 0", "window = 0\nwidth = 4", "line 8: unknown field `width`"),
        ("ways = 2", "ways = 0", "cache level 1: ways = 0"),
        ("ways = 2", "ways = 3", "cache level 1: 1024 bytes are no whole number of sets of 3 lines"),
        ("size = \"1 KiB\"", "size = 0", "cache level 1: 0 bytes are no whole number"),
        ("size = \"1 KiB\"", "size = \"1 kB\"", "cache level 1: \"1 kB\" is no size"),
        (
            "size = \"1 KiB\"",
            "size = \"99999999999999999999 KiB\"",
            "cache level 1: \"99999999999999999999 KiB\" is no size",
        ),
        ("size = \"4 KiB\"", "size = \"64 GiB\"", "cache level 2: 68719476736 bytes in 4 ways: too large"),
        ("ways = 2", "ways = 2\nline = 48", "cache level 1: lines of 48 bytes"),
        ("ways = 4", "ways = 4\nline = 128", "cache level 2: lines of 128 bytes, of level 1 64"),
        ("level = 2", "level = 3", "cache level 3 is described where level 2 was expected"),
        ("shared_by = \"package\"", "shared_by = \"l3\"", "cache level 2: the topology has no \"l3\""),
        ("shared_by = \"core\"", "shared_by = \"package\"", "level 1 is shared by several cores"),
        ("frequency_ghz = 1", "frequency_ghz = 0", "core: frequency_ghz = 0"),
        ("frequency_ghz = 1", "frequency_ghz = nan", "core: frequency_ghz = NaN"),
        ("fill_buffers = 4", "fill_buffers = 0", "core: fill_buffers = 0"),
        ("window = 0", "window = 0\nsmt_throughput = 1.5", "core: smt_throughput = 1.5 with 1 PUs a core"),
        ("machine = 50", "package = 50", "transfer_ns says nothing of what is shared by one machine only"),
        ("machine = 100", "machine = -1", "memory: latency_ns: machine = -1"),
        ("machine = 100 }", "machine = 100 }\nbandwidth_gb_s = 0", "memory: bandwidth_gb_s = 0"),
        ("machine = 100 }", "machine = 100 }\ncurve = [[0.5, 1], [0.2, 2]]", "memory: curve: a share of 0.2"),
        ("latency_cycles = 1\n", "latency_cycles = 1\nwrite = \"through\"\n", "cache level 1: write-through"),
        ("latency_cycles = 1\n", "latency_cycles = 1\ncontents = \"exclusive\"\n", "cache level 1: exclusive of what?"),
        ("about", "format = 2\nabout", "machine format 2, but this version knows formats up to 1"),
        ("pack:2 core:2 pu:1", "pack:2 core:2", "topology: "),
        ("pack:2 core:2 pu:1", "pack:2 core:800 pu:1", "topology: 1600 cores"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let error = Machine::parse(&SMALL.replacen(from, to, 1), None).unwrap_err();
        assert!(error.cause.starts_with(cause), "{to}: {}", error.cause);
        assert!(error.remedy.is_some(), "{to}: no remedy");
    }
    let error = Machine::load("nowhere.toml").unwrap_err();
    assert!(error.remedy.unwrap().contains("harpertown"));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let machine = Machine::parse(SMALL, None).unwrap();
    let recording = synthetic::parse("pairs:2:1:1").unwrap();
    for (mapping, cause) in
        [(vec![0], "a mapping of 1 tasks for a recording of 2"), (vec![0, 4], "PU 4 of a machine with 4")]
    {
        let error = simulate(&recording, &machine, &mapping, &Options::default()).unwrap_err();
        assert_eq!(error.cause, cause);
    }
}
