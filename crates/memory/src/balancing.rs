//! The operating system balancing memory over NUMA nodes while the program runs, as Linux does (AutoNUMA).
//!
//! At a fixed rate pages are unmapped for sampling: whoever touches one next takes a hint fault, and pays for it. A
//! page whose hint fault comes from the same node as the one before, and which is on another, moves to that node (the
//! two-stage filter of `should_numa_migrate_memory`): its lines are read from the one memory and written to the other
//! by the task that took the fault, which waits for it. Left out: groups of tasks, tasks that are moved to their
//! memory, scan periods that adapt (the shortest one is taken), and what scanning itself takes.

use crate::clock::{NS, Time, to_ns};
use crate::engine::{Engine, Observer};
use crate::machine::System;
use crate::task::Task;
use cohabit_model::{Error, Result};
use std::ops::Range;

/// The shortest time between two scans: as long as a task may run ahead.
const SHORTEST: Time = 100 * NS;

/// When pages are unmapped next, and which.
#[derive(Debug)]
pub(crate) struct Scans {
    period: Time,
    /// Pages a time.
    pages: usize,
    /// When the next ones are due.
    pub next: Time,
    /// Where the last ones ended.
    from: u64,
}

impl Scans {
    /// `factor` times as often as Linux does, of `processes` processes.
    ///
    /// # Errors
    /// Where that is more often than each 100 ns.
    pub fn new(system: &System, factor: u32, page_bits: u32, processes: usize) -> Result<Self> {
        let period = system.numa_scan_period / u64::from(factor);
        if period < SHORTEST {
            let ns = to_ns(period);
            return Err(Error::new(format!(
                "memory is scanned each {ns} ns, {factor} times as often as the machine says"
            ))
            .remedy("write a smaller factor, or a longer numa_scan_period_ms in the machine file"));
        }
        let pages = (system.numa_scan_bytes >> page_bits).max(1).saturating_mul(processes as u64);
        Ok(Self { period, pages: usize::try_from(pages).unwrap_or(usize::MAX), next: period, from: 0 })
    }
}

impl<'a, O: Observer> Engine<'a, '_, O> {
    /// Unmaps the next pages for sampling; called between turns, so that no task runs.
    pub(crate) fn scan(&mut self, now: Time) {
        let Some(scans) = &mut self.scans else { return };
        // While all sleep nobody scans.
        let missed = (now - scans.next) / scans.period;
        scans.next = scans.next.saturating_add((missed + 1).saturating_mul(scans.period));
        let pages = self.caches.pages.hint(&mut scans.from, scans.pages);
        for &page in &pages {
            for &process in &self.processes {
                let key = crate::tlb::key(process, page);
                self.tlbs.iter_mut().for_each(|tlb| tlb.forget(key));
            }
        }
        if !pages.is_empty() {
            self.tasks.iter_mut().flatten().for_each(|task| task.page = (u64::MAX, u64::MAX));
        }
    }

    /// A task touches a page that may have been unmapped for sampling. True where that took time.
    pub(crate) fn hint_fault(&mut self, task: &mut Task<'a>, page: u64, near: usize) -> bool {
        let access = (task.position, task.walk.line);
        if task.faulted == access {
            // Unmapped again while the fault was handled: the access goes on, else it might never.
            self.caches.pages.unhint(page);
            return false;
        }
        let Some(from) = self.caches.pages.take_hint(page, near) else { return false };
        task.faulted = access;
        let before = task.clock.time;
        let system = &self.machine.system;
        task.report.hint_faults += 1;
        task.clock.stall(system.numa_fault);
        if let Some(from) = from {
            task.report.page_migrations += 1;
            task.clock.stall(system.numa_migrate);
            let time = self.caches.migrate(task.core, page, from, near, task.clock.time);
            task.clock.stall(time);
            if O::WATCHES {
                self.observer.migrate(&self.caches.lines_of(page), near);
            }
        }
        task.clock.time > before
    }
}

impl crate::coherence::Hierarchy<'_> {
    /// The lines of a page.
    pub fn lines_of(&self, page: u64) -> Range<u64> {
        let bits = self.machine().page_bits() - self.machine().line_bits;
        page << bits..(page + 1) << bits
    }

    /// A core moves a page from one node to another: how long that takes. It asks for as many lines at a time as it has
    /// fill buffers; nobody waits for what is written. What caches hold of the page is of its old place: it goes.
    pub fn migrate(&mut self, core: usize, page: u64, from: usize, to: usize, now: Time) -> Time {
        let (machine, lines) = (self.machine(), self.lines_of(page));
        let domain = machine.domain(core);
        let mut time = 0;
        let mut first = lines.start;
        while first < lines.end {
            let batch = first..lines.end.min(first + machine.core.fill_buffers as u64);
            first = batch.end;
            let read = |line: u64| self.fabric.read(core, from, line, now + time);
            let longest = batch.clone().map(read).max().unwrap_or(0);
            time += longest;
            batch.for_each(|line| self.fabric.write(domain, to, line, now + time));
        }
        lines.for_each(|line| self.drop_line(line, false));
        time
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::NS;
    use crate::{Machine, Options, Placement, Report, simulate};
    use cohabit_access::{AccessKind, InMemory, Step, StridedAccess};

    /// Two nodes of a core; pages of 512 bytes: 8 lines, by 2 fill buffers in 4 rounds. A scan each us.
    const MACHINE: &str = "about = 'two nodes'\ntopology = 'pack:2 [numa] core:1 pu:1'\n[core]\nfrequency_ghz = 1\n\
        instructions_per_cycle = 1\nwindow = 0\nfill_buffers = 2\n[[cache]]\nlevel = 1\nshared_by = 'core'\nsize = 4096\nways = 4\n\
        latency_cycles = 1\n[transfer_ns]\nmachine = 90\n[memory]\nlatency_ns = { numa = 100, machine = 150 }\n\
        bandwidth_gb_s = 64\n[[link]]\nlevel = 'package'\nbandwidth_gb_s = 72\n\
        [tlb]\npage = 512\ndata = { entries = 16, ways = 16 }\nwalk_cycles = 0\n\
        [system]\nnuma_scan_period_ms = 1\nnuma_scan_mib = 1\nnuma_fault_us = 0.3\nnuma_migrate_us = 0.7\n";

    fn read(line: u64) -> Step {
        Step::access(StridedAccess::new(AccessKind::Read, line * 64, 8))
    }

    fn compute(instructions: u64) -> Step {
        Step::compute(instructions)
    }

    fn run(text: &str, steps: Vec<Vec<Step>>, placement: Placement) -> Report {
        let machine = Machine::parse(text, None).unwrap();
        let mapping: Vec<usize> = (0..steps.len()).collect();
        simulate(&InMemory::new(steps), &machine, &mapping, &Options { placement, ..Options::default() }).unwrap()
    }

    /// Task 0 touches the page first; task 1 has it to itself from then on.
    fn handed_over(reads: usize) -> Vec<Vec<Step>> {
        let mut later = Vec::new();
        for _ in 0..reads {
            later.extend([compute(1000), read(1)]);
        }
        vec![vec![read(0)], later]
    }

    #[test]
    fn a_page_moves_at_the_second_fault_from_a_node_by_hand() {
        let balanced = |reads| run(MACHINE, handed_over(reads), Placement::AutoNuma(1000));
        let counts = |report: &Report| {
            let task = &report.tasks[1];
            (task.hint_faults, task.page_migrations, task.loads_served.remote_memory, task.loads_served.local_memory)
        };
        // The first read comes at 1001, after a scan at 1000: a fault (300), then 150 from the other node.
        let first = balanced(1);
        assert_eq!((counts(&first), first.tasks[1].end_fs / NS), ((1, 0, 1, 0), 1001 + 300 + 150));
        // The second at 2452, after a scan at 2000: a fault, and the page moves (700). Eight lines by two: four rounds
        // of 151, as of two lines that are asked for at once one waits a ns for the controller (64 GB/s). Then its own
        // memory: 100, and the 2 ns in which that still writes the last two lines.
        let second = balanced(2);
        let (fault, copy) = (300, 700 + 4 * 151);
        assert_eq!((counts(&second), second.tasks[1].page_migrations), ((2, 1, 1, 1), 1));
        assert_eq!(second.tasks[1].end_fs / NS, 2452 + fault + copy + 100 + 2);
        // What the copy took: eight lines from the one memory and to the other, beside two reads of the one and one of
        // the other.
        let bytes: Vec<u64> = second.servers.iter().map(|server| server.usage.bytes).collect();
        let names: Vec<&str> = second.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(
            names,
            ["memory 0.0", "memory 1.0", "package 0 in", "package 0 out", "package 1 in", "package 1 out"]
        );
        assert_eq!((bytes[0], bytes[1]), ((2 + 8) * 64, (8 + 1) * 64));
        // Nine lines left package 0, and nine questions came there.
        assert_eq!((bytes[2], bytes[3]), (9 * 8, 9 * 72));
        assert_eq!((bytes[4], bytes[5]), (9 * 72, 9 * 8));
        // It stays there, whatever faults it still takes.
        let fourth = balanced(4);
        assert_eq!((fourth.tasks[1].page_migrations, fourth.total.page_migrations), (1, 1));
    }

    /// A fault takes longer than the time between two scans: each access takes one, and goes on.
    #[test]
    fn a_fault_is_taken_once() {
        let text = MACHINE.replace("numa_fault_us = 0.3", "numa_fault_us = 5");
        let report = run(&text, handed_over(3), Placement::AutoNuma(1000));
        assert_eq!((report.tasks[1].hint_faults, report.tasks[1].page_migrations), (3, 1));
    }

    #[test]
    fn a_page_that_two_nodes_share_stays() {
        let turns = |first: u64| (0..8).flat_map(|_| [compute(1000), read(first)]).collect::<Vec<_>>();
        let mut late = turns(1);
        late.insert(0, compute(500));
        let report = run(MACHINE, vec![turns(0), late], Placement::AutoNuma(1000));
        // Each in turns: no two faults one after the other are from one node.
        assert!(report.total.hint_faults >= 4, "{}", report.total.hint_faults);
        assert_eq!(report.total.page_migrations, 0);
    }

    /// With nothing to move, nothing but the faults is paid; with one node, or scans after its end, a run is as by
    /// first touch.
    #[test]
    fn what_is_at_home_stays_there() {
        let alone: Vec<Step> = (0..20).flat_map(|n| [compute(500), read(n % 4)]).collect();
        let (text, steps) = (MACHINE, vec![alone.clone(), vec![]]);
        let plain = run(text, steps.clone(), Placement::FirstTouch);
        let balanced = run(text, steps.clone(), Placement::AutoNuma(1000));
        assert!(balanced.total.hint_faults > 0 && balanced.total.page_migrations == 0);
        assert_eq!(balanced.time_fs, plain.time_fs + balanced.total.hint_faults * 300 * NS);
        assert_eq!(run(text, steps.clone(), Placement::AutoNuma(1)), plain);
        let one = text
            .replace("'pack:2 [numa] core:1 pu:1'", "'core:2 pu:1'")
            .replace("numa = 100, machine = 150", "machine = 100");
        let one = one.replace("[[link]]\nlevel = 'package'\nbandwidth_gb_s = 72\n", "");
        assert_eq!(run(&one, steps.clone(), Placement::AutoNuma(1000)), run(&one, steps, Placement::FirstTouch));
        let machine = Machine::parse(text, None).unwrap();
        let often = Options { placement: Placement::AutoNuma(100_000), ..Options::default() };
        let error = simulate(&InMemory::new(vec![vec![], vec![]]), &machine, &[0, 1], &often).unwrap_err();
        assert!(error.to_string().contains("each 10 ns") && error.remedy.is_some(), "{error}");
        // Machines without TLBs fault as well.
        let (head, tail) = text.split_once("[tlb]").unwrap();
        let without = format!("{head}{}", &tail[tail.find("[system]").unwrap()..]);
        assert!(run(&without, vec![alone, vec![]], Placement::AutoNuma(1000)).total.hint_faults > 0);
    }
}
