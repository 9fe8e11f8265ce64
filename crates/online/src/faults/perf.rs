//! Page faults as perf events (perf_event_open(2)): needs no privilege for one's own programs where
//! kernel.perf_event_paranoid is 2 or less. The detector is the one in Rust. One ring a PU, which all threads share.

use super::follow;
use super::mappings::{self, Range};
use super::pmu::Pmu;
use super::ring::{Record, Rings};
use super::table::{Table, private_key, shared_key, within_page};
use super::{Counters, Options, Reading, Source, TaskEvent};
use crate::evidence::{Evidence, Kind};
use crate::sampling::{By, Code, DataSource, Registers, Sampler, Sighting, Taken, between};
use crate::threads;
use cohabit_host::CpuMask;
use cohabit_host::perf_event::{Clock, files_allowed, page_faults, refused, registers};
use cohabit_model::{Error, Result};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// An instruction fault's address is the instruction's own, or, where it crosses into the next page, near it.
const LONGEST_INSTRUCTION: u64 = 16;

/// Of the files that this process may open, how many samples may take. Faults need the others.
const FILES_FOR_SAMPLES: f64 = 0.5;
/// No more in any case: the kernel takes one or two KiB for each.
const MOST_FILES_FOR_SAMPLES: f64 = 65536.0;
/// Bytes of code that are read before an instruction, and as many from there on.
const CODE_BYTES: usize = 128;

/// Page faults through perf events.
pub struct PerfFaults {
    /// What single threads' events write to.
    rings: Rings,
    table: Table,
    block_shift: u32,
    /// Of a thread's time, how much there is from one sample of its registers to the next.
    every: Option<Duration>,
    pmu: Option<Pmu>,
    /// Where any of both are taken.
    sampler: Option<Sampler>,
    /// Thread id to number.
    tasks: HashMap<i32, Living>,
    processes: BTreeMap<i32, Process>,
    next_task: u32,
    counters: Counters,
    told: Vec<TaskEvent>,
    /// Threads that were there when it was last looked, and of which no record told.
    untold: HashSet<i32>,
    /// Records were lost since it was last looked who is there.
    some_lost: bool,
    /// When following began, in clock ticks of the machine.
    began: u64,
}

#[derive(Clone, Copy)]
struct Living {
    task: u32,
    process: i32,
}

#[derive(Clone, Default)]
struct Process {
    threads: usize,
    /// With the id, what tells it from a later one; 0 until it is known.
    start_ticks: u64,
    shared: Vec<Range>,
    /// What nobody can write to.
    fixed: Vec<(u64, u64)>,
    /// Stacks of threads, where a PMU samples.
    stacks: Vec<(u64, u64)>,
}

impl PerfFaults {
    /// Nobody is followed yet.
    ///
    /// # Errors
    /// Where perf events are not allowed, or the kernel has none.
    pub fn start(options: &Options) -> Result<Self> {
        // Tried on this process, so that the refusal comes before anything is run.
        let own = std::process::id() as i32;
        page_faults(own, -1).map_err(refused)?;
        let every = options.sampling.map(|percent| between(By::Clock, percent));
        if let Some(every) = every {
            registers(own, -1, every).map_err(refused)?;
        }
        let pmu = Pmu::start(options, Clock::Default)?;
        Ok(Self {
            rings: Rings::default(),
            table: Table::new(options.blocks),
            block_shift: options.block_bytes.ilog2(),
            every,
            sampler: (every.is_some() || pmu.is_some()).then(Sampler::default),
            pmu,
            tasks: HashMap::new(),
            processes: BTreeMap::new(),
            next_task: 0,
            counters: Counters::default(),
            told: Vec::new(),
            untold: HashSet::new(),
            some_lost: false,
            began: threads::now_ticks(),
        })
    }

    fn started(&mut self, tid: i32, process: i32, parent: Option<i32>) {
        if self.tasks.contains_key(&tid) {
            return;
        }
        let creator = parent.and_then(|parent| self.tasks.get(&parent)).map(|parent| parent.task);
        let task = self.next_task;
        self.next_task += 1;
        let parents =
            parent.and_then(|tid| self.tasks.get(&tid)).and_then(|parent| self.processes.get(&parent.process));
        // A new process has the mappings of its parent.
        let inherited =
            parents.map(|parent| Process { threads: 0, start_ticks: 0, ..parent.clone() }).unwrap_or_default();
        self.tasks.insert(tid, Living { task, process });
        self.processes.entry(process).or_insert(inherited).threads += 1;
        self.told.push(TaskEvent::Started { task, tid, process, parent: creator });
    }

    fn ended(&mut self, tid: i32) {
        let Some(gone) = self.tasks.remove(&tid) else { return };
        self.told.push(TaskEvent::Ended { task: gone.task });
        if let Some(process) = self.processes.get_mut(&gone.process) {
            process.threads -= 1;
            if process.threads == 0 {
                self.processes.remove(&gone.process);
            }
        }
    }

    /// A record tells that a thread has ended.
    fn exited(&mut self, tid: i32) {
        let Some(living) = self.tasks.get(&tid).copied() else { return };
        let process = self.processes.get(&living.process);
        let last = process.filter(|process| process.threads == 1 && process.start_ticks != 0);
        // Where its process goes on, another thread has executed a program and has its id.
        let goes_on = last.is_some_and(|process| {
            threads::process(living.process).is_some_and(|now| now.start_ticks == process.start_ticks)
                && !follow::is_ending(living.process, living.process)
        });
        if goes_on { self.becomes_main(tid) } else { self.ended(tid) }
    }

    /// A process executes another program: its threads have ended, and whoever did it is the main one.
    fn executed(&mut self, process: i32) {
        let of_process = self.tasks.iter().filter(|(_, living)| living.process == process);
        let known = if self.tasks.contains_key(&process) {
            Some(process)
        } else {
            // The former main thread has ended, and the others have unless that was lost.
            of_process.max_by_key(|(_, living)| living.task).map(|(&tid, _)| tid)
        };
        match known {
            Some(tid) => self.becomes_main(tid),
            None if follow::is_ending(process, process) => {}
            None => self.started(process, process, None),
        }
    }

    /// A task is the main thread of its process with another program from now on.
    fn becomes_main(&mut self, tid: i32) {
        let Some(living) = self.tasks.remove(&tid) else { return };
        self.tasks.insert(living.process, living);
        self.told.push(TaskEvent::Exec { task: living.task, tid: living.process });
    }

    /// Looks who is there. Follows those of whom no record told: it was lost. Ends those who are there no longer and
    /// whose end no record told: it was lost, came before that of the beginning (rings are read one after another), or
    /// before the event was open or had a ring.
    fn look_who_is_there(&mut self) {
        self.find_the_lost();
        let (mut there, mut untold) = (HashSet::new(), HashSet::new());
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            let start_ticks = threads::process(pid).map_or(0, |process| process.start_ticks);
            if process.start_ticks == 0 {
                process.start_ticks = start_ticks;
            }
            // Another has its id by now.
            let listed = if process.start_ticks == start_ticks { follow::listed(pid) } else { None };
            let (known, new): (Vec<i32>, Vec<i32>) =
                listed.into_iter().flatten().partition(|tid| self.tasks.contains_key(tid));
            let new: Vec<i32> = new.into_iter().filter(|&tid| !follow::is_ending(pid, tid)).collect();
            // A record may still come, but by the next time.
            let (new, young): (Vec<i32>, Vec<i32>) =
                new.into_iter().partition(|tid| known.is_empty() || self.untold.contains(tid));
            // Before those that are gone end: what they have left, the new ones may have.
            new.iter().for_each(|&tid| self.started(tid, pid, None));
            there.extend(known.into_iter().chain(new));
            untold.extend(young);
        }
        self.untold = untold;
        let gone: Vec<i32> = self.tasks.keys().copied().filter(|tid| !there.contains(tid)).collect();
        gone.into_iter().for_each(|tid| self.ended(tid));
    }

    /// Follows processes that have come of followed ones, where the record that told it may have been lost.
    fn find_the_lost(&mut self) {
        if !std::mem::take(&mut self.some_lost) {
            return;
        }
        for pid in follow::unknown_below(|pid| self.processes.contains_key(&pid), self.began) {
            follow::living(pid).into_iter().for_each(|tid| self.started(tid, pid, None));
        }
    }

    fn fault(&mut self, tid: i32, instruction: u64, address: u64) {
        let Some(living) = self.tasks.get(&tid).copied() else { return };
        self.counters.faults += 1;
        if address.wrapping_sub(instruction) < LONGEST_INSTRUCTION {
            self.counters.code += 1;
            return;
        }
        let Some(process) = self.processes.get(&living.process) else { return };
        // What made it fault is not told; mostly it is the agent.
        let (block, shift) = within_page(address, self.block_shift);
        let key = match mappings::find(&process.shared, address) {
            Some(range) => shared_key(range.object, address - range.start + range.offset, shift),
            None if process.threads > 1 => private_key(living.process as u32, address, shift),
            None => {
                self.counters.private += 1;
                return;
            }
        };
        self.table.touch(key, block, living.task);
    }

    /// Samples threads, all of them or, where that takes too many files, none: then faults are what there is.
    fn sample_threads(&mut self, tids: &[i32], pus: &[u32]) {
        let Some(every) = self.every else { return };
        if !has_room(&self.rings, tids.len() * pus.len()) {
            self.counters.tasks_not_sampled += tids.len() as u64;
            return;
        }
        for (&tid, &pu) in tids.iter().flat_map(|tid| pus.iter().map(move |pu| (tid, pu))) {
            // A thread that has ended, or a PU that has gone.
            let Ok(event) = registers(tid, pu as i32, every) else { continue };
            let _ = self.rings.add(pu, event);
        }
    }

    fn sample(&mut self, time: u64, tid: i32, registers: &Registers) {
        let (Some(living), Some(sampler)) = (self.tasks.get(&tid), &mut self.sampler) else { return };
        let Some(process) = self.processes.get(&living.process) else { return };
        // Nothing that it could show: its code need not be read.
        if process.threads < 2 && process.shared.is_empty() {
            return;
        }
        let mut code = [0; 2 * CODE_BYTES];
        let code = code_around(living.process, registers.instruction, &mut code);
        let reach = process.reach(living.process);
        let place = |address| reach.place(address);
        let value = |address| word(living.process, address);
        sampler.add((Duration::from_nanos(time), Taken::Regularly), living.task, registers, &code, place, value);
    }

    fn access(&mut self, time: u64, tid: i32, address: u64, source: DataSource) {
        let (Some(living), Some(sampler)) = (self.tasks.get(&tid), &mut self.sampler) else { return };
        let Some(process) = self.processes.get(&living.process) else { return };
        let reach = process.reach(living.process);
        let place = |address| reach.place_off(&process.stacks, address);
        sampler.add_access(Duration::from_nanos(time), living.task, address, source, place);
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::Fork { tid, process, parent, .. } => self.started(tid, process, Some(parent)),
            Record::Exit { tid, .. } => self.exited(tid),
            Record::Exec { process, .. } => self.executed(process),
            Record::Fault { tid, instruction, address, .. } => self.fault(tid, instruction, address),
            Record::Sample { time, tid, registers } => self.sample(time, tid, &registers),
            Record::Access { time, tid, address, source } => self.access(time, tid, address, source),
            Record::Lost { count } => {
                self.counters.events_lost += count;
                self.some_lost = true;
            }
        }
    }
}

impl Process {
    fn reach(&self, process: i32) -> mappings::Reach<'_> {
        mappings::Reach { shared: &self.shared, fixed: &self.fixed, process, threads: self.threads }
    }
}

/// Whether samples may take so many files more.
pub(super) fn has_room(rings: &Rings, more: usize) -> bool {
    let most = (FILES_FOR_SAMPLES * files_allowed() as f64).min(MOST_FILES_FOR_SAMPLES);
    (rings.files() + more) as f64 <= most
}

impl Source for PerfFaults {
    fn name(&self) -> &'static str {
        "page faults, by perf events"
    }

    fn samples(&self) -> bool {
        self.every.is_some()
    }

    fn follow(&mut self, process: i32) -> Result<()> {
        let (pus, _) = (online_pus(), files_allowed());
        let mut tids = Vec::new();
        follow::threads(process, |tid| {
            for &pu in &pus {
                let event = match page_faults(tid, pu as i32) {
                    Ok(event) => event,
                    // The thread ended meanwhile, or the PU went.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => continue,
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_of_another_user(process) => {
                        return Err(Error::new(format!(
                            "process {process} is another user's, and so is not to be watched"
                        ))
                        .remedy("run cohabit as that user, or as root"));
                    }
                    Err(error) => return Err(refused(error)),
                };
                self.rings.add(pu, event).map_err(refused)?;
            }
            tids.push(tid);
            Ok(())
        })?;
        self.sample_threads(&tids, &pus);
        if let Some(pmu) = &self.pmu {
            self.counters.tasks_without_pmu += pmu.follow(&tids, &pus, &mut self.rings);
        }
        tids.into_iter().for_each(|tid| self.started(tid, process, None));
        self.refresh()
    }

    fn read(&mut self, now: Duration, _with_pairs: bool) -> Result<Reading> {
        self.rings.read().into_iter().for_each(|record| self.record(record));
        // Mostly it is the agent that makes them fault.
        let seen = |(a, b, written)| Evidence::of(Kind::Written, (a, b), written, now);
        let told = std::mem::take(&mut self.told);
        let sampled = self.sampler.as_mut().map(|sampler| {
            sampler.end(&super::ended(&told));
            sampler.take(now)
        });
        let sampled = sampled.unwrap_or_default();
        self.counters.sampled = self.sampler.as_ref().map(|sampler| sampler.sums).unwrap_or_default();
        self.counters.events = self.table.events + self.counters.sampled.events;
        self.counters.new_blocks = self.table.new_blocks;
        self.counters.evictions = self.table.evictions;
        let seen = self.table.take_pairs().into_iter().map(seen).chain(sampled).collect();
        Ok(Reading { tasks: told, seen, counters: self.counters })
    }

    fn wait(&self, at_most: Duration) {
        // Rings wake nobody: a wake-up a fault would cost more than the fault.
        std::thread::sleep(at_most.min(Duration::from_millis(20)));
    }

    fn refresh(&mut self) -> Result<()> {
        for (pid, process) in &mut self.processes {
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            process.shared = mappings::shared(&maps);
            process.fixed = mappings::fixed(&maps);
            process.stacks = if self.pmu.is_some() { mappings::stacks(&maps) } else { Vec::new() };
        }
        self.look_who_is_there();
        Ok(())
    }

    fn sample_switches(&mut self, _wanted: bool) -> Result<bool> {
        Ok(false)
    }

    fn see_copies(&mut self) -> Result<()> {
        Err(Error::new("perf events do not show it"))
    }

    fn take_sightings(&mut self) -> Vec<Sighting> {
        self.sampler.as_mut().map(Sampler::take_sightings).unwrap_or_default()
    }

    fn forget_samples(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.forget();
        }
    }
}

/// A process's code around an instruction, or from there on, as far as it can be read.
fn code_around(process: i32, instruction: u64, bytes: &mut [u8; 2 * CODE_BYTES]) -> Code<'_> {
    let before = instruction.saturating_sub(CODE_BYTES as u64);
    // What is before may be in a page that is not there; reading ends before such a one.
    let (start, length) = match read(process, before, bytes) {
        length if length > CODE_BYTES => (before, length),
        _ => (instruction, read(process, instruction, bytes)),
    };
    Code { start, bytes: &bytes[..length] }
}

/// Eight bytes of a process's memory; fewer, and then zeroes, where the rest cannot be read.
pub(super) fn word(process: i32, address: u64) -> Option<u64> {
    let mut bytes = [0; size_of::<u64>()];
    (read(process, address, &mut bytes) > 0).then(|| u64::from_ne_bytes(bytes))
}

/// Reads memory of a process: how many bytes could be read.
fn read(process: i32, address: u64, bytes: &mut [u8]) -> usize {
    let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
    process_vm_readv(Pid::from_raw(process), &mut [IoSliceMut::new(bytes)], &remote).unwrap_or(0)
}

fn is_of_another_user(process: i32) -> bool {
    let owner = std::fs::metadata(format!("/proc/{process}")).map(|metadata| metadata.uid());
    owner.is_ok_and(|owner| owner != nix::unistd::geteuid().as_raw())
}

/// The PUs (OS indices) that run.
pub(super) fn online_pus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    CpuMask::parse(&text).map(|mask| mask.pus()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_testing::Killed;
    use std::process::{Command, Stdio};

    fn started() -> Option<PerfFaults> {
        PerfFaults::start(&Options::default()).map_err(|error| println!("skipped: {}", error.cause)).ok()
    }

    /// Loses what the rings hold.
    fn lose(source: &mut PerfFaults) {
        let records = source.rings.read();
        source.record(Record::Lost { count: records.len() as u64 });
    }

    /// The threads (or main threads) that are said to have started.
    fn starts(source: &mut PerfFaults) -> Vec<i32> {
        let tasks = source.read(Duration::ZERO, true).unwrap().tasks;
        let tid = |event| if let TaskEvent::Started { tid, .. } = event { Some(tid) } else { None };
        tasks.into_iter().filter_map(tid).collect()
    }

    #[test]
    fn who_starts_unseen_is_found() {
        let Some(mut source) = started() else { return };
        // A process that creates another, and that one more.
        let script = "read line; sh -c 'sleep 60 & wait' & wait";
        let mut shell = Killed::spawn(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()));
        let pid = shell.id() as i32;
        source.follow(pid).unwrap();
        assert_eq!(starts(&mut source), [pid]);
        drop(shell.stdin.take());
        let child_of = |parent: i32| loop {
            if let Some(child) = threads::processes().into_iter().find(|process| process.parent == parent) {
                return child.pid;
            }
            std::thread::yield_now();
        };
        let child = child_of(pid);
        let grandchild = child_of(child);
        lose(&mut source);
        source.refresh().unwrap();
        let mut found = starts(&mut source);
        found.sort_unstable();
        let mut expected = [child, grandchild];
        expected.sort_unstable();
        assert_eq!(found, expected);
        for pid in expected {
            let _ = nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::SIGKILL);
        }
    }

    #[test]
    fn threads_that_start_unseen_are_found() {
        let Some(mut source) = started() else { return };
        let own = std::process::id() as i32;
        source.follow(own).unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        lose(&mut source);
        source.refresh().unwrap();
        source.refresh().unwrap();
        assert!(starts(&mut source).contains(&tid));
        drop(end);
        thread.join().unwrap();
    }
}
