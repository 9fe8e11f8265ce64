//! What must not change a result, and what may change it in one direction only.

use cohabit_access::{AccessKind, InMemory, Reason, Recording, Step, Steps, StridedAccess, synthetic};
use cohabit_memory::clock::NS;
use cohabit_memory::report::TaskReport;
use cohabit_memory::{Machine, Options, Report, simulate};
use proptest::prelude::*;

fn run(machine: &Machine, recording: &InMemory, mapping: &[usize]) -> Report {
    simulate(recording, machine, mapping, &Options::default()).unwrap()
}

/// The same tasks under other numbers: task `n` becomes `names[n]`.
fn renamed(recording: &InMemory, names: &[usize]) -> InMemory {
    let mut all = vec![Vec::new(); names.len()];
    for (task, &name) in names.iter().enumerate() {
        let mut steps = recording.steps(task as u32).unwrap();
        while let Some(step) = Steps::next_step(&mut *steps).unwrap() {
            all[name].push(match step {
                Step::Wait { task, position, reason, polled } => {
                    Step::Wait { task: names[task as usize] as u32, position, reason, polled }
                }
                step => step,
            });
        }
    }
    InMemory::new(all)
}

fn without_name(report: &TaskReport) -> TaskReport {
    TaskReport { name: String::new(), pu: 0, ..report.clone() }
}

#[test]
fn renaming_tasks_together_with_their_mapping_changes_nothing() {
    for name in ["harpertown", "purple", "epyc"] {
        let machine = Machine::load(name).unwrap();
        for kind in ["ring:8:4:3", "all:8:1:2", "distant:8:4:3"] {
            let recording = synthetic::parse(kind).unwrap();
            let mapping = [3, 1, 4, 0, 5, 7, 2, 6];
            let names = [5, 2, 7, 1, 0, 3, 6, 4];
            let mut mapping_of_names = [0; 8];
            names.iter().zip(mapping).for_each(|(&name, pu)| mapping_of_names[name] = pu);
            let before = run(&machine, &recording, &mapping);
            let after = run(&machine, &renamed(&recording, &names), &mapping_of_names);
            assert_eq!(before.time_fs, after.time_fs, "{name} {kind}");
            assert_eq!((&before.caches, &before.servers), (&after.caches, &after.servers), "{name} {kind}");
            for (task, &name) in names.iter().enumerate() {
                assert_eq!(without_name(&before.tasks[task]), without_name(&after.tasks[name]));
            }
        }
    }
}

/// Parts of the machine that are alike: whatever runs on one may run on the other, the order of PUs being kept.
#[test]
fn a_symmetric_relabelling_of_the_machine_changes_nothing() {
    for (name, here, there) in [
        ("harpertown", [0, 1, 2, 3], [4, 5, 6, 7]),
        ("purple", [0, 1, 2, 4], [28, 29, 30, 32]),
        ("epyc", [0, 1, 4, 8], [64, 65, 68, 72]),
    ] {
        let machine = Machine::load(name).unwrap();
        for kind in ["ring:4:8:3", "all:4:4:2"] {
            let recording = synthetic::parse(kind).unwrap();
            let (a, b) = (run(&machine, &recording, &here), run(&machine, &recording, &there));
            for (a, b) in a.tasks.iter().zip(&b.tasks) {
                assert_eq!(without_name(a), without_name(b), "{name} {kind}");
            }
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_in_any_number_of_threads() {
    let machine = Machine::load("xeon32").unwrap();
    let recording = synthetic::parse("ring:16:4:3").unwrap();
    let mappings: Vec<Vec<usize>> = (0..4).map(|shift| (0..16).map(|task| (task + shift) % 32).collect()).collect();
    let alone: Vec<Report> = mappings.iter().map(|mapping| run(&machine, &recording, mapping)).collect();
    let together: Vec<Report> = std::thread::scope(|scope| {
        let (machine, recording) = (&machine, &recording);
        let threads: Vec<_> =
            mappings.iter().map(|mapping| scope.spawn(move || run(machine, recording, mapping))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

/// Zero latency and infinite bandwidth: the time is that of the longest path through the recorded order.
#[test]
fn a_perfect_machine_takes_the_critical_path() {
    let text = "
about = 'perfect'
topology = 'pack:2 [numa] core:4 pu:1'
[core]
frequency_ghz = 1
instructions_per_cycle = 1
window = 0
fill_buffers = 4
[[cache]]
level = 1
shared_by = 'core'
size = '1 KiB'
ways = 2
latency_cycles = 0
[[cache]]
level = 2
shared_by = 'package'
size = '4 KiB'
ways = 4
latency_cycles = 0
[transfer_ns]
machine = 0
[memory]
latency_ns = { machine = 0 }
";
    let machine = Machine::parse(text, None).unwrap();
    let rounds = 3;
    let accesses = 512 * 4;
    let recording = synthetic::parse(&format!("ring:8:16:{rounds}")).unwrap();
    // In each round all write, then read two blocks: three walks of 3 instructions an access, nobody waiting.
    let report = run(&machine, &recording, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(report.time_fs / NS, rounds * 3 * accesses * 3);
    // A chain: each begins when the one before has ended.
    let walk = |base| {
        let access = StridedAccess { stride: 8, ..StridedAccess::new(AccessKind::Write, base, 8) };
        Step::Loop { accesses: vec![access], iterations: 1000 }
    };
    let wait = |task| Step::Wait { task, position: 1000, reason: Reason::Data, polled: None };
    let chain = |task: u32| if task == 0 { vec![walk(0)] } else { vec![wait(task - 1), walk(u64::from(task) << 20)] };
    let report = run(&machine, &InMemory::new((0..8).map(chain).collect()), &[0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!(report.time_fs / NS, 8000);
}

/// A machine whose numbers can be changed one by one.
#[derive(Debug, Clone)]
struct Numbers {
    l1: u64,
    l2: u64,
    last_kib: u64,
    last: u64,
    memory: u64,
    bandwidth: f64,
    frequency: f64,
    walk: u64,
    window: u64,
    buffers: u64,
}

impl Numbers {
    fn machine(&self) -> Machine {
        let Self { l1, l2, last_kib, last, memory, bandwidth, frequency, walk, window, buffers } = self;
        let text = format!(
            "
about = 'numbers'
topology = 'core:2 pu:1'
[core]
frequency_ghz = {frequency}
instructions_per_cycle = 2
window = {window}
fill_buffers = {buffers}
[[cache]]
level = 1
shared_by = 'core'
size = 512
ways = 2
latency_cycles = {l1}
[[cache]]
level = 2
shared_by = 'core'
size = '1 KiB'
ways = 4
latency_cycles = {l2}
[[cache]]
level = 3
shared_by = 'machine'
size = '{last_kib} KiB'
ways = 8
latency_cycles = {last}
[transfer_ns]
machine = 50
[tlb]
page = 512
data = {{ entries = 4, ways = 4 }}
walk_cycles = {walk}
[memory]
latency_ns = {{ machine = {memory} }}
bandwidth_gb_s = {bandwidth}
"
        );
        Machine::parse(&text, None).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_faster_or_larger_component_never_slows_a_single_task(
        loops in prop::collection::vec((0u64..64, -64i64..64, 1u64..200, any::<bool>()), 1..20),
        window in prop::sample::select(vec![0u64, 20]),
    ) {
        let step = |&(line, stride, iterations, write): &(u64, i64, u64, bool)| {
            let kind = if write { AccessKind::Write } else { AccessKind::Read };
            let access = StridedAccess { stride, instructions: 2, ..StridedAccess::new(kind, (1 << 20) + line * 64, 4) };
            Step::Loop { accesses: vec![access], iterations }
        };
        let recording = InMemory::new(vec![loops.iter().map(step).collect()]);
        let plain = Numbers {
            l1: 4, l2: 10, last_kib: 2, last: 30, memory: 100, bandwidth: 2.0, frequency: 1.0, walk: 20, window, buffers: 2,
        };
        let time = |numbers: &Numbers| run(&numbers.machine(), &recording, &[0]).time_fs;
        let before = time(&plain);
        for (what, better) in [
            ("L1", Numbers { l1: 2, ..plain.clone() }),
            ("L2", Numbers { l2: 6, ..plain.clone() }),
            ("L3", Numbers { last: 15, ..plain.clone() }),
            ("memory", Numbers { memory: 50, ..plain.clone() }),
            ("bandwidth", Numbers { bandwidth: 8.0, ..plain.clone() }),
            ("page walk", Numbers { walk: 5, ..plain.clone() }),
            ("buffers", Numbers { buffers: 4, ..plain.clone() }),
            ("window", Numbers { window: window + 30, ..plain.clone() }),
        ] {
            let after = time(&better);
            prop_assert!(after <= before, "a better {}: {} ns, before {}", what, after / NS, before / NS);
        }
        // Twice the sets with as many ways: what was there before still is (LRU). With limited bandwidth a line that is
        // written back later may be in the way of another.
        let plain = Numbers { bandwidth: 1e6, ..plain };
        let (before, after) = (time(&plain), time(&Numbers { last_kib: 4, ..plain.clone() }));
        prop_assert!(after <= before, "a larger L3: {} ns, before {}", after / NS, before / NS);
    }
}
