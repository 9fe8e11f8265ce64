//! The machines given are machines, as their papers have them; what is no machine is refused with cause and remedy.

use cohabit_access::{AccessKind, InMemory, Step, StridedAccess, synthetic};
use cohabit_memory::machine::given::MACHINES;
use cohabit_memory::{Machine, Options, simulate};
use std::path::Path;
use std::process::{Command, Output};

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
        ("window = 0", "window = 0\ndependences = true", "core: dependences = true with window = 0"),
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
        ("size = \"4 KiB\"", "size = \"1 TiB\"", "cache level 2: 1099511627776 bytes in 4 ways: too large"),
        ("frequency_ghz = 1", "frequency_ghz = 1e30", "core: frequency_ghz = 1e30"),
        ("about", "system = { slice_us = 2e6 }\nabout", "system: slice_us = 2e6"),
        ("ways = 2", "ways = \"two\"", "line 13: invalid type: string \"two\", expected a whole number"),
        ("ways = 2", "ways = -2", "line 13: invalid value: integer `-2`, expected a whole number"),
        ("window = 0", "window = \"x\"", "line 7: invalid type: string \"x\", expected a whole number"),
        ("frequency_ghz = 1", "frequency_ghz = true", "line 5: invalid type: boolean `true`, expected a number"),
        ("size = \"4 KiB\"", "size = \"64 GiB\"", "cache level 2: 68719476736 bytes in 4 ways: too large"),
        ("ways = 2", "ways = 2\nline = 48", "cache level 1: lines of 48 bytes"),
        ("ways = 4", "ways = 4\nline = 128", "cache level 2: lines of 128 bytes, of level 1 64"),
        ("level = 2", "level = 3", "cache level 3 is described where level 2 was expected"),
        ("shared_by = \"package\"", "shared_by = \"l3\"", "cache level 2: the topology has no \"l3\""),
        ("shared_by = \"core\"", "shared_by = \"package\"", "level 1 is shared by several cores"),
        ("frequency_ghz = 1", "frequency_ghz = 0", "core: frequency_ghz = 0"),
        ("frequency_ghz = 1", "frequency_ghz = nan", "core: frequency_ghz = NaN"),
        ("fill_buffers = 4", "fill_buffers = 0", "core: fill_buffers = 0"),
        ("window = 0", "window = 0\nsmt_throughput = 1.5", "core: smt_throughput = 1.5 with 1 PU a core"),
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
        let remedy = error.remedy.unwrap_or_else(|| panic!("{to}: no remedy"));
        assert!(!error.cause.starts_with("line ") || remedy.contains("docs/machines.md"), "{to}: {remedy}");
        assert!(to != "frequency_ghz = 1e30" || remedy == "write a number above 0 and up to 1e9", "{remedy}");
    }
    let error = Machine::load("nowhere.toml").unwrap_err();
    assert!(error.remedy.unwrap().contains("harpertown"));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let machine = Machine::parse(SMALL, None).unwrap();
    let recording = synthetic::parse("pairs:2:1:1").unwrap();
    for (mapping, cause) in
        [(vec![0], "a mapping of 1 task for a recording of 2"), (vec![0, 4], "PU 4 of a machine with 4")]
    {
        let error = simulate(&recording, &machine, &mapping, &Options::default()).unwrap_err();
        assert_eq!(error.cause, cause);
    }
}

/// One task, one cache: an independent program misses as often, loads and stores apart. tests/common/walk.c has only
/// accesses that lie in one line, since valgrind's cachegrind counts an access of two lines as one miss at most.
#[test]
fn a_cache_misses_as_often_as_in_cachegrind() {
    let skip = |reason: &str| println!("skipped: a_cache_misses_as_often_as_in_cachegrind: {reason}");
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return skip("the walk is for Linux on x86-64");
    }
    let folder = std::env::temp_dir().join(format!("cohabit-walk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("walk");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/walk.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-nostdlib", "-static", "-fno-stack-protector", "-mno-sse", "-o"]).arg(&program).arg(source);
    let found = match compiler.output() {
        Err(_) => Err("no cc here".to_owned()),
        Ok(made) if !made.status.success() => Err(format!("cc cannot make it: {}", text(&made.stderr))),
        Ok(_) => beside_cachegrind(&program),
    };
    std::fs::remove_dir_all(&folder).unwrap();
    if let Err(reason) = found {
        skip(&reason);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn valgrind(arguments: &[&str], program: &Path) -> Result<Output, String> {
    let ran =
        Command::new("valgrind").args(arguments).arg(program).output().map_err(|_| "no valgrind here".to_owned())?;
    match ran.status.success() {
        true => Ok(ran),
        false => Err(format!("valgrind cannot run it: {}", text(&ran.stderr))),
    }
}

/// The accesses as valgrind's lackey tells them, simulated, beside what cachegrind says. An error is a reason to skip.
fn beside_cachegrind(program: &Path) -> Result<(), String> {
    let trace = text(&valgrind(&["--tool=lackey", "--trace-mem=yes", "--log-fd=1"], program)?.stdout);
    let access = |line: &str| {
        let kind = match line.get(..3)? {
            " L " => AccessKind::Read,
            " S " => AccessKind::Write,
            " M " => panic!("nothing is changed in place: {line}"),
            _ => return None,
        };
        let (address, bytes) = line[3..].split_once(',')?;
        let (address, bytes) = (u64::from_str_radix(address, 16).ok()?, bytes.parse().ok()?);
        assert_eq!(address >> 6, (address + u64::from(bytes) - 1) >> 6, "{line}");
        Some(Step::access(StridedAccess::new(kind, address, bytes)))
    };
    let steps: Vec<Step> = trace.lines().filter_map(access).collect();
    assert!(steps.len() > 30_000, "{}", steps.len());
    let recording = InMemory::new(vec![steps]);
    // Sets from one to 256, ways that are no power of two.
    for (size, ways) in [(4096, 4), (4096, 1), (3072, 3), (4096, 64), (32_768, 8), (131_072, 8)] {
        let machine = format!(
            "about = \"one cache\"\ntopology = \"core:1 pu:1\"\n[core]\nfrequency_ghz = 1\ninstructions_per_cycle = 1\n\
             window = 0\nfill_buffers = 1\n[[cache]]\nlevel = 1\nshared_by = \"core\"\nsize = {size}\nways = {ways}\n\
             latency_cycles = 1\n[memory]\nlatency_ns = {{ machine = 100 }}\n"
        );
        let machine = Machine::parse(&machine, None).unwrap();
        let total = simulate(&recording, &machine, &[0], &Options::default()).unwrap().total;
        let missed = |made: u64, served: cohabit_memory::report::ServedCounts| made - served.l1 - served.fill_buffer;
        let ours = [missed(total.loads, total.loads_served), missed(total.stores, total.stores_served)];
        let cache = format!("--D1={size},{ways},64");
        let ran = valgrind(
            &["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", &cache, "--log-fd=1"],
            program,
        )?;
        let said = text(&ran.stdout);
        let of = |name: &str| -> Option<[u64; 2]> {
            let line = said.lines().find(|line| line.contains(name))?;
            let (_, both) = line.split_once('(')?;
            let mut numbers = both.split('+').map(|one| {
                let digits: String = one.chars().filter(char::is_ascii_digit).collect();
                digits.parse::<u64>().ok()
            });
            Some([numbers.next()??, numbers.next()??])
        };
        let (Some(made), Some(theirs)) = (of("D   refs:"), of("D1  misses:")) else {
            return Err(format!("this cachegrind says something else: {said}"));
        };
        assert_eq!([total.loads, total.stores], made, "{size} bytes, {ways} ways");
        assert_eq!(ours, theirs, "{size} bytes, {ways} ways");
        assert!(theirs[0] > 1_000 && theirs[1] > 1_000, "{theirs:?}");
    }
    Ok(())
}
