//! Random traces on random machines: the engine and the slow, obvious reference count the same, access for access, and
//! the engine keeps every task's order and all waits.

#[path = "common/reference/mod.rs"]
mod reference;

use cohabit_access::{AccessKind, InMemory, Reason, Recording, Step, Steps, StridedAccess};
use cohabit_memory::machine::Write;
use cohabit_memory::report::{Served, ServedCounts, TaskReport};
use cohabit_memory::{Exchange, Machine, Observer, Options, Placement, Report, simulate_observed};
use proptest::prelude::*;
use reference::{Counts, Reference};
use std::ops::Range;

/// What a task does, line by line.
#[derive(Debug, Clone, PartialEq)]
enum Event {
    Touches(u64, bool),
    /// Not before that task has made so many of its events.
    Waits(usize, usize),
}

fn events(recording: &InMemory, line_bits: u32) -> Vec<Vec<Event>> {
    let tasks = recording.tasks().len();
    let mut all = Vec::new();
    // Positions as numbers of events.
    let mut at: Vec<Vec<usize>> = vec![vec![0]; tasks];
    for (task, at) in (0..).zip(&mut at) {
        let mut found = Vec::new();
        let mut steps = recording.steps(task).unwrap();
        while let Some(step) = Steps::next_step(&mut *steps).unwrap() {
            match step {
                Step::Loop { accesses, iterations } => {
                    for iteration in 0..iterations {
                        for access in &accesses {
                            let first = access.address(iteration) >> line_bits;
                            let last = (access.address(iteration) + u64::from(access.size_bytes) - 1) >> line_bits;
                            found.extend((first..=last).map(|line| Event::Touches(line, access.kind.writes())));
                            at.push(found.len());
                        }
                    }
                }
                Step::Wait { task: on, position, .. } => found.push(Event::Waits(on as usize, position as usize)),
                _ => {}
            }
        }
        all.push(found);
    }
    for found in &mut all {
        for event in found {
            if let Event::Waits(on, position) = event {
                *position = at[*on][*position];
            }
        }
    }
    all
}

struct Follower<'a> {
    reference: Reference<'a>,
    events: Vec<Vec<Event>>,
    next: Vec<usize>,
}

impl Observer for Follower<'_> {
    fn access(&mut self, task: usize, core: usize, line: u64, write: bool) {
        while let Some(Event::Waits(on, events)) = self.events[task].get(self.next[task]) {
            assert!(self.next[*on] >= *events, "task {task} does not wait for task {on}");
            self.next[task] += 1;
        }
        assert_eq!(self.events[task].get(self.next[task]), Some(&Event::Touches(line, write)), "task {task}");
        self.next[task] += 1;
        self.reference.access(task, core, line, write);
    }

    fn unmap(&mut self, _: &Range<u64>) {}

    fn migrate(&mut self, lines: &Range<u64>, node: usize) {
        self.reference.migrate(lines, node);
    }
}

/// What the reference knows of too.
fn counts(report: &TaskReport, with_nodes: bool) -> Counts {
    let merged = |mut counts: ServedCounts| {
        counts.l1 += std::mem::take(counts.at(Served::FillBuffer));
        if !with_nodes {
            counts.local_memory += std::mem::take(&mut counts.remote_memory);
        }
        counts
    };
    Counts {
        loads: merged(report.loads_served),
        stores: merged(report.stores_served),
        private: report.private_misses,
        last: report.last_misses,
        upgrades: report.upgrades,
        invalidations: report.invalidations,
        misses: report.misses.clone(),
    }
}

fn compare(recording: &InMemory, machine: &Machine, mapping: &[usize], options: &Options) -> Report {
    let events = events(recording, machine.line_bits);
    let tasks = recording.tasks().len();
    let mut follower = Follower { reference: Reference::new(machine, tasks), events, next: vec![0; tasks] };
    let report = simulate_observed(recording, machine, mapping, options, &mut follower).unwrap();
    for (task, found) in report.tasks.iter().enumerate() {
        let mut wanted = follower.reference.counts[task].clone();
        let with_nodes = machine.tlb.is_none();
        if !with_nodes {
            for counts in [&mut wanted.loads, &mut wanted.stores] {
                counts.local_memory += std::mem::take(&mut counts.remote_memory);
            }
        }
        wanted.misses.retain(|_| !found.misses.is_empty());
        assert_eq!(counts(found, with_nodes), wanted, "task {task}");
        if options.classify {
            assert_eq!(found.data_tlb.total(), found.data_tlb_misses, "task {task}");
        }
        let left = &follower.events[task][follower.next[task]..];
        assert!(left.iter().all(|event| matches!(event, Event::Waits(..))), "task {task} did not do all");
    }
    let caches = follower.reference.own.iter().flatten().chain(&follower.reference.last);
    for (found, wanted) in report.caches.iter().zip(caches) {
        let found_counts = [found.fills, found.evictions, found.invalidations, found.back_invalidations];
        let wanted = [wanted.fills, wanted.evictions, wanted.invalidations, wanted.back_invalidations];
        assert_eq!(found_counts, wanted, "level {} cache {}", found.level, found.number);
    }
    let last = machine.levels.len() as u8;
    let written: u64 = report.caches.iter().filter(|cache| cache.level == last).map(|cache| cache.write_backs).sum();
    assert_eq!(written, follower.reference.memory_writes, "lines written to memory");
    for misses in &report.total.misses {
        assert_eq!(misses.total(), misses.by_copies.total());
        // A store to a line that a write-through L1 has only read is served by the L2 without any miss.
        let through = misses.level == 1 && machine.levels[0].write == Write::Through;
        assert!(misses.total() == report.misses(misses.level) || through, "level {}", misses.level);
    }
    report
}

/// Shown as its text.
struct Small {
    machine: Machine,
    text: String,
}

impl std::fmt::Debug for Small {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A machine small enough that everything happens.
fn machine() -> impl Strategy<Value = Small> {
    let shape = prop::sample::select(vec![
        // Topology, what has an L2, what has an L3 (none: no L3), L2's contents, L3's contents.
        ("pack:2 [numa] l2:2 core:2 pu:1", "l2", "", "any", ""),
        ("pack:2 [numa] l2:2 core:2 pu:1", "l2", "", "inclusive", ""),
        ("pack:2 [numa] core:2 pu:2", "core", "package", "own", "any"),
        ("pack:3 [numa] core:2 pu:1", "core", "package", "own", "any"),
        ("core:4 pu:1", "core", "", "own", ""),
        ("core:4 pu:1", "core", "machine", "own", "any"),
    ]);
    let contents = prop::sample::select(vec!["inclusive", "exclusive", "neither"]);
    let replacement = || prop::sample::select(vec!["lru", "tree-plru", "random"]);
    let sizes = (1u64..4, 1u64..4, 1u64..6, 1u64..4, 1u64..9, 1u64..6);
    let other = (
        prop::sample::select(vec!["MESI", "MOESI", "MESIF"]),
        prop::sample::select(vec!["directory", "snooping"]),
        prop::sample::select(vec![0u64, 4, 50]),
        any::<bool>(),
        any::<bool>(),
    );
    (shape, contents.clone(), contents, (replacement(), replacement(), replacement()), sizes, other).prop_map(
        |(shape, l2, l3, (r1, r2, r3), (s1, w1, s2, w2, s3, w3), (protocol, by, window, tlb, through))| {
            let (topology, l2_by, l3_by, l2_kind, l3_kind) = shape;
            let l2 = if l2_kind == "inclusive" { l2_kind } else { l2 };
            let write = if through && l2 == "inclusive" { "through" } else { "back" };
            let level = |number, by, sets: u64, ways: u64, replacement, contents: &str, latency| {
                format!(
                    "[[cache]]\nlevel = {number}\nshared_by = \"{by}\"\nsize = {}\nways = {ways}\nlatency_cycles = {latency}\n\
                     replacement = \"{replacement}\"\ncontents = \"{contents}\"\n",
                    sets * ways * 64
                )
            };
            let mut text = format!(
                "about = \"small\"\ntopology = \"{topology}\"\n[core]\nfrequency_ghz = 1\ninstructions_per_cycle = 1\n\
                 window = {window}\nfill_buffers = 3\n[coherence]\nprotocol = \"{protocol}\"\nby = \"{by}\"\n\
                 [transfer_ns]\nmachine = 90\n[memory]\nlatency_ns = {{ machine = 100 }}\nbandwidth_gb_s = 5\n"
            );
            text += &level(1, "core", s1, w1, r1, "neither", 2);
            text += &format!("write = \"{write}\"\n");
            text += &level(2, l2_by, s2, w2, r2, l2, 8);
            if !l3_by.is_empty() {
                text += &level(3, l3_by, s3, w3, r3, if l3_kind == "any" { l3 } else { l3_kind }, 20);
            }
            if tlb {
                text += "[tlb]\npage = 512\ndata = { entries = 2, ways = 2 }\nwalk_cycles = 20\n";
            }
            text += "[system]\nnuma_scan_period_ms = 1\nnuma_scan_mib = 1\nnuma_fault_us = 0.02\nnuma_migrate_us = 0.1\n";
            Small { machine: Machine::parse(&text, None).unwrap(), text }
        },
    )
}

/// Steps in one order of all tasks: the wait of each is for what comes before it.
fn recording(tasks: usize) -> impl Strategy<Value = InMemory> {
    let kind = prop::sample::select(vec![AccessKind::Read, AccessKind::Read, AccessKind::Write, AccessKind::ReadWrite]);
    let access = (kind, 0u64..40, 0u64..64, prop::sample::select(vec![0i64, 4, 8, -8, 64, 72]), 1u32..12, 0u32..9);
    let access = access.prop_map(|(kind, line, offset, stride, size_bytes, instructions)| StridedAccess {
        kind,
        atomic: instructions == 8,
        unconditional: false,
        size_bytes,
        base: 1 << 20 | line << 6 | offset,
        stride,
        instructions,
        // No machine here makes instructions wait.
        latency: 300,
    });
    let step =
        (0..tasks, prop::collection::vec(access, 1..4), 1u64..30, prop::option::weighted(0.3, 0..tasks), 0u64..300);
    prop::collection::vec(step, 1..60).prop_map(move |list| {
        let mut steps = vec![Vec::new(); tasks];
        let mut positions = vec![0; tasks];
        for (task, accesses, iterations, on, instructions) in list {
            if let Some(on) = on.filter(|&on| on != task && positions[on] > 0) {
                steps[task].push(Step::Wait {
                    task: on as u32,
                    position: positions[on],
                    reason: Reason::Data,
                    polled: None,
                });
            }
            if instructions > 250 {
                steps[task].push(Step::compute(instructions));
            }
            positions[task] += iterations * accesses.len() as u64;
            steps[task].push(Step::Loop { accesses, iterations });
        }
        InMemory::new(steps)
    })
}

proptest! {
    #[test]
    fn engine_and_reference_count_the_same(
        small in machine(),
        recording in (1usize..6).prop_flat_map(recording),
        pus in prop::collection::vec(0usize..4, 6),
        lookahead in prop::sample::select(vec![0u64, 20_000_000, 1_000_000_000]),
        balanced in any::<bool>(),
        exchanges in prop::collection::vec((0u64..40_000, 0usize..4, 0usize..4), 0..4),
    ) {
        let tasks = recording.tasks().len();
        let mapping: Vec<usize> = pus[..tasks].to_vec();
        let exchange = |(ns, a, b): (u64, usize, usize)| Exchange { at: ns * 1_000_000, pus: [a, b] };
        let exchanges = exchanges.into_iter().map(exchange).collect();
        let placement = if balanced { Placement::AutoNuma(1000) } else { Placement::FirstTouch };
        let options = Options { placement, lookahead, exchanges, classify: true, ..Options::default() };
        let report = compare(&recording, &small.machine, &mapping, &options);
        // Again, without telling misses apart: all else is the same.
        let plain = compare(&recording, &small.machine, &mapping, &Options { classify: false, ..options });
        let stripped = |mut report: Report| {
            for task in report.tasks.iter_mut().chain([&mut report.total]) {
                task.misses.clear();
                (task.data_tlb, task.code_tlb) = Default::default();
            }
            report
        };
        prop_assert!(plain.total.misses.is_empty());
        prop_assert_eq!(stripped(report), plain);
    }
}
