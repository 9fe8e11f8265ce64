//! Times, worked out by hand: what each place takes, what waits for what, who shares a PU.

use cohabit_access::{AccessKind, InMemory, PARTS_OF_A_CYCLE, Reason, Step, StridedAccess};
use cohabit_memory::clock::NS;
use cohabit_memory::{Machine, Options, Placement, Report, simulate};

/// One instruction a ns, loads waited for; L1 1, L2 10, L3 30 ns; near 40, far 90, memory 100 and 150.
const MACHINE: &str = r#"
about = "round numbers"
topology = "pack:2 [numa] core:2 pu:2"
[core]
frequency_ghz = 1
instructions_per_cycle = 1
window = 0
fill_buffers = 2
[[cache]]
level = 1
shared_by = "core"
size = 128
ways = 2
latency_cycles = 1
[[cache]]
level = 2
shared_by = "core"
size = 512
ways = 8
latency_cycles = 10
[[cache]]
level = 3
shared_by = "package"
size = 4096
ways = 64
latency_cycles = 30
contents = "inclusive"
[transfer_ns]
package = 40
machine = 90
[memory]
latency_ns = { numa = 100, machine = 150 }
[system]
slice_us = 1
switch_us = 0.5
"#;

fn read(line: u64) -> Step {
    Step::access(StridedAccess::new(AccessKind::Read, line * 64, 8))
}

fn write(line: u64) -> Step {
    Step::access(StridedAccess::new(AccessKind::Write, line * 64, 8))
}

fn atomic(line: u64) -> Step {
    Step::access(StridedAccess { atomic: true, ..StridedAccess::new(AccessKind::ReadWrite, line * 64, 8) })
}

fn wait(task: u32, position: u64) -> Step {
    Step::Wait { task, position, reason: Reason::Data, polled: None }
}

fn compute(instructions: u64) -> Step {
    Step::compute(instructions)
}

fn run(text: &str, steps: Vec<Vec<Step>>, mapping: &[usize]) -> Report {
    let machine = Machine::parse(text, None).unwrap();
    simulate(&InMemory::new(steps), &machine, mapping, &Options::default()).unwrap()
}

/// When each task ends, in ns.
fn ends(report: &Report) -> Vec<u64> {
    report.tasks.iter().map(|task| task.end_fs / NS).collect()
}

#[test]
fn each_place_takes_its_time() {
    // A load begins 1 ns after what was before it, and is there after its latency.
    for (steps, ns) in [
        (vec![compute(7)], 7),
        (vec![read(1)], 101),
        (vec![read(1), read(1)], 102),
        // Three lines of an L1 of two: the first comes from the L2.
        (vec![read(1), read(2), read(3), read(1)], 3 * 101 + 11),
        // Nine of an L2 of eight (and an L1 of two): from the L3.
        ((1..=9).chain([1]).map(read).collect(), 9 * 101 + 31),
        // Stores hold up nobody, but the end waits for them.
        (vec![write(1), compute(10)], 101),
        (vec![write(1), compute(500)], 501),
        // Two fill buffers: the third store waits for the first.
        (vec![write(1), write(2), write(3)], 201),
        // An atomic access waits for what was before it, and is waited for.
        (vec![write(1), atomic(2), compute(1)], 202),
        // A load of a line that a store has asked for is there with it.
        (vec![write(1), read(1), compute(1)], 102),
        (vec![Step::Idle { time_ns: 1000 }, compute(5)], 1005),
    ] {
        assert_eq!(ends(&run(MACHINE, vec![steps.clone()], &[0])), [ns], "{steps:?}");
    }
    let far = Machine::parse(MACHINE, None).unwrap();
    let options = Options { placement: Placement::Bind(1), ..Options::default() };
    let report = simulate(&InMemory::new(vec![vec![read(1)]]), &far, &[0], &options).unwrap();
    assert_eq!(ends(&report), [151]);
    assert_eq!(report.total.loads_served.remote_memory, 1);
}

#[test]
fn a_window_hides_what_does_not_wait() {
    let wide = MACHINE.replace("window = 0", "window = 50");
    for (steps, ns) in [
        // Both loads are under way at once.
        (vec![read(1), read(2)], 102),
        // The third needs a buffer.
        (vec![read(1), read(2), read(3)], 201),
        // 50 instructions behind the load, the rest after it.
        (vec![read(1), compute(60)], 111),
        (vec![read(1), compute(40)], 101),
    ] {
        assert_eq!(ends(&run(&wide, vec![steps.clone()], &[0])), [ns], "{steps:?}");
    }
    let report = run(&wide, vec![vec![read(1), read(1), read(1), compute(60), read(1)]], &[0]);
    assert_eq!((report.total.loads_served.fill_buffer, report.total.loads_served.l1), (2, 1));
}

/// Task 0 does something to line 1, then task 1, 1,000 ns later: where that is served, by protocol, near and far.
#[test]
fn transitions_take_their_time() {
    let second = |step: Step| vec![wait(0, 1), compute(1000), step, compute(1)];
    let (load, store) = (read as fn(u64) -> Step, write as fn(u64) -> Step);
    // Protocol, first, second, PUs, ns of the second, memory written.
    for (protocol, first, then, pus, ns, written) in [
        // Exclusive elsewhere in the package: the L3 gives it when the core has said that it is not changed.
        ("MESI", load, load, [0, 2], 40, 0),
        ("MESI", store, load, [0, 2], 40, 0),
        ("MESI", load, load, [0, 4], 90, 0),
        ("MESI", store, load, [0, 4], 90, 1),
        ("MOESI", store, load, [0, 4], 90, 0),
        ("MESIF", store, load, [0, 4], 90, 1),
        // SMT siblings share all.
        ("MESI", store, load, [0, 1], 0, 0),
    ] {
        let text = MACHINE.replace("[memory]", &format!("[coherence]\nprotocol = \"{protocol}\"\n[memory]"));
        let report = run(&text, vec![vec![first(1)], second(then(1))], &pus);
        let start = report.tasks[1].waiting_fs / NS;
        assert_eq!(ends(&report)[1], start + 1000 + 2 + ns, "{protocol} {pus:?}");
        let memory: u64 = report.caches.iter().filter(|cache| cache.level == 3).map(|cache| cache.write_backs).sum();
        assert_eq!(memory, written, "{protocol} {pus:?}");
        // The first access; and the second, where that is in the other package.
        assert_eq!(report.misses(3), if pus[1] == 4 { 2 } else { 1 }, "{protocol} {pus:?}");
    }
    // A shared line that a third package reads: MESI asks memory, MESIF the last reader.
    let text = MACHINE.replace("pack:2", "pack:3");
    for (protocol, far, memory) in [("MESI", 1, 2), ("MOESI", 1, 2), ("MESIF", 2, 1)] {
        let text = text.replace("[memory]", &format!("[coherence]\nprotocol = \"{protocol}\"\n[memory]"));
        let later = |n: u64| vec![compute(1000 * n), read(1)];
        let report = run(&text, vec![later(0), later(1), later(2)], &[0, 4, 8]);
        let served = report.total.loads_served;
        assert_eq!((served.far_cache, served.local_memory + served.remote_memory), (far, memory), "{protocol}");
    }
}

#[test]
fn stores_take_copies_away() {
    let later = |n: u64, step: Step| vec![compute(1000 * n), step];
    let steps = vec![
        later(0, read(1)),
        later(1, read(1)),
        later(2, read(1)),
        vec![compute(3000), write(1), compute(1000), write(1)],
    ];
    // Readers on cores 0 and 1 of package 0, and on package 1; the writer is there too.
    let report = run(MACHINE, steps, &[0, 2, 4, 6]);
    let writer = &report.tasks[3];
    // Three cores' copies and the other package's L3; its own package's L3 gives the line.
    assert_eq!(writer.invalidations, 4);
    assert_eq!(writer.stores_served.l3, 1);
    assert_eq!(writer.stores_served.l1, 1);
    let report = run(MACHINE, vec![later(0, read(1)), vec![compute(1000), read(1), compute(100), write(1)]], &[0, 2]);
    assert_eq!((report.tasks[1].upgrades, report.tasks[1].invalidations), (1, 1));
    // 1000 + 1 + 40 for the load, 100 + 1 + 40 for the store.
    assert_eq!(ends(&report)[1], 1182);
}

#[test]
fn whoever_waits_goes_on_when_the_other_has_passed() {
    // Task 0 passes its first access at 501 and ends at 601; task 1 begins then.
    let report = run(MACHINE, vec![vec![compute(500), read(1)], vec![wait(0, 1), compute(10)]], &[0, 4]);
    assert_eq!(ends(&report), [601, 511]);
    assert_eq!(report.tasks[1].waiting_fs, 501 * NS);
    // One that comes later does not wait.
    let report = run(MACHINE, vec![vec![compute(500), read(1)], vec![compute(2000), wait(0, 1), compute(10)]], &[0, 4]);
    assert_eq!(ends(&report)[1], 2010);
    // A poll takes the line, and what is written to it is read again.
    let polls = Step::Wait { task: 0, position: 3, reason: Reason::Wake, polled: Some(64) };
    let report = run(
        MACHINE,
        vec![vec![compute(500), write(1), compute(500), write(1), compute(500), read(9)], vec![polls, compute(10)]],
        &[0, 4],
    );
    assert_eq!(report.tasks[1].polls, 3);
    assert_eq!((report.tasks[0].upgrades, report.tasks[0].invalidations), (1, 4));
    assert!(report.tasks[1].polling_fs > 1500 * NS);
}

#[test]
fn tasks_take_turns_on_a_pu() {
    // 1 us each, 0.5 us to change: 0-1000 task 0, 1500-2500 task 1, 3000-3900 task 0, 4400-5300 task 1.
    let report = run(MACHINE, vec![vec![compute(100); 19], vec![compute(100); 19]], &[0, 0]);
    assert_eq!(ends(&report), [3900, 5300]);
    assert_eq!(report.switches, 3);
    // One that waits leaves the PU to the other, which it waits for.
    let report = run(MACHINE, vec![vec![wait(1, 1), compute(10)], vec![compute(100), read(1)]], &[0, 0]);
    assert_eq!(ends(&report), [1201 + 10, 701]);
    // One that polls keeps it until its slice is over.
    let polls = Step::Wait { task: 1, position: 1, reason: Reason::Wake, polled: Some(640) };
    let report = run(MACHINE, vec![vec![polls, compute(10)], vec![compute(100), read(1)]], &[0, 0]);
    assert!(ends(&report)[1] >= 1000 + 500 + 201, "{:?}", ends(&report));
}

#[test]
fn instructions_a_cycle_are_of_the_time_that_a_task_runs() {
    let rate = |report: &Report, task: usize| {
        let task = &report.tasks[task];
        (task.instructions, task.running_fs / NS, (task.instructions_per_cycle * 1000.0).round())
    };
    // One instruction of 1 ns, then 100 ns for its line: 1 of 101 cycles.
    assert_eq!(rate(&run(MACHINE, vec![vec![read(1)]], &[0]), 0), (1, 101, 10.0));
    assert_eq!(rate(&run(MACHINE, vec![vec![]], &[0]), 0), (0, 0, 0.0));
    // A cycle is half as long, and so are instructions; memory takes as long as before: 1 of 201 cycles.
    let fast = MACHINE.replace("frequency_ghz = 1", "frequency_ghz = 2");
    assert_eq!(rate(&run(&fast, vec![vec![read(1)]], &[0]), 0), (1, 100, 5.0));
    // Waiting until 501, then 10 instructions; idle for 1,000 ns, then 5; of all: 516 instructions in 616 cycles.
    let steps = vec![
        vec![compute(500), read(1)],
        vec![wait(0, 1), compute(10)],
        vec![Step::Idle { time_ns: 1000 }, compute(5)],
    ];
    let report = run(MACHINE, steps, &[0, 4, 6]);
    assert_eq!([0, 1, 2].map(|task| rate(&report, task)), [(501, 601, 834.0), (10, 10, 1000.0), (5, 5, 1000.0)]);
    assert_eq!((report.total.instructions, report.total.running_fs / NS), (516, 616));
    assert!((report.total.instructions_per_cycle - 516.0 / 616.0).abs() < 1e-12);
    // Two tasks on one PU: what one is queued the other runs; the change is paid by whoever comes.
    let report = run(MACHINE, vec![vec![compute(100); 19], vec![compute(100); 19]], &[0, 0]);
    assert_eq!([0, 1].map(|task| rate(&report, task).1), [1900 + 500, 1900 + 1000]);
}

#[test]
fn siblings_share_their_core() {
    let shared = MACHINE.replace("window = 0", "window = 0\nsmt_throughput = 1.25");
    // 1.25 instructions a ns for both: each takes 1.6 ns.
    let machine = Machine::parse(&shared, None).unwrap();
    let recording = InMemory::new(vec![vec![compute(10); 100], vec![compute(10); 100]]);
    let options = Options { lookahead: 0, ..Options::default() };
    assert_eq!(simulate(&recording, &machine, &[0, 1], &options).unwrap().time_fs / NS, 1600);
    assert_eq!(run(&shared, vec![vec![compute(10); 100], vec![compute(10); 100]], &[0, 2]).time_fs / NS, 1000);
}

#[test]
fn circles_and_what_never_happens_are_refused() {
    let machine = Machine::parse(MACHINE, None).unwrap();
    for steps in [
        vec![vec![wait(1, 1), write(0)], vec![wait(0, 1), write(8)]],
        vec![vec![wait(1, 5)], vec![write(8)]],
        vec![vec![wait(0, 5), write(1)]],
        vec![vec![wait(7, 1)]],
        vec![vec![Step::Idle { time_ns: u64::MAX }, read(1)], vec![]],
        vec![vec![compute(u64::MAX), read(1)], vec![]],
    ] {
        let mapping: Vec<usize> = (0..steps.len()).collect();
        let error = simulate(&InMemory::new(steps.clone()), &machine, &mapping, &Options::default()).unwrap_err();
        assert!(error.remedy.is_some(), "{steps:?}: {error}");
    }
}

#[test]
fn instructions_wait_for_one_another_where_the_machine_says_so() {
    let wide = MACHINE.replace("window = 0", "window = 50");
    let waiting = wide.replace("window = 50", "window = 50\ndependences = true");
    let cycles = |cycles: u64| cycles * PARTS_OF_A_CYCLE;
    let access = |iterations, latency: u64, instructions| {
        let latency = cycles(latency) as u32;
        let access = StridedAccess { latency, instructions, ..StridedAccess::new(AccessKind::Read, 64, 8) };
        Step::Loop { accesses: vec![access], iterations }
    };
    for (steps, without, with) in [
        (vec![Step::Compute { instructions: 7, latency: cycles(20) }], 7, 20),
        (vec![Step::Compute { instructions: 7, latency: cycles(3) }], 7, 7),
        // A load of 100 is hidden by what waits for 3 an iteration.
        (vec![access(100, 3, 1)], 150, 300),
        // Rate and chain at a time, whichever is the longer, a window at a time.
        (vec![access(1, 0, 1), compute(149), access(90, 3, 5)], 650, 650),
        (vec![access(1, 0, 1), compute(149), access(90, 3, 1)], 290, 470),
    ] {
        let ns = |text: &str| ends(&run(text, vec![steps.clone()], &[0]))[0];
        assert_eq!((ns(&wide), ns(&waiting)), (without, with), "{steps:?}");
    }
}
