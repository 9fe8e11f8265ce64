//! The detector in the kernel: tasks are followed and pairs are counted by `native/bpf`; here they are named and read.

use super::abi::{self, cohabit_sample as Sample, cohabit_task_event as Event};
use super::mappings::{self, Range};
use super::object::{self, as_bytes, refused};
use super::perf::online_pus;
use super::pmu::Pmu;
use super::ring::{Record, Rings};
use super::{Counters, Options, Reading, Source, TaskEvent, follow};
use crate::evidence::{Evidence, Kind};
use crate::sampling::{Code, DELAYS, DRAWN, DataSource, Delays, Registers, Sampler, Sighting, Sums, Taken};
use crate::threads;
use cohabit_host::perf_event::Clock;
use cohabit_model::{Error, Result};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ProgramInput, RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

/// Pairs read from the kernel at a time.
const BATCH: u32 = 4096;

/// Page faults through eBPF. Detaches when dropped.
pub struct BpfFaults {
    _links: Vec<Link>,
    /// What sees copies, once that was wanted; none where the kernel refuses it.
    copies: Option<Vec<Link>>,
    events: Records<Event>,
    samples: Option<Records<Sample>>,
    /// What samples accesses besides, and the rings that they come by.
    pmu: Option<(Pmu, Rings)>,
    /// Where any of both are taken.
    sampler: Option<Sampler>,
    /// Samples after switches: what delays have shown, whether the timers are ready, and the program, as long as it is
    /// attached.
    delays: Delays,
    timers_are_ready: bool,
    switches: Option<Link>,
    maps: Maps,
    /// Slots in use, with the task in each.
    slots: HashMap<u32, Living>,
    /// Slots of the threads that live, by thread id.
    tids: HashMap<i32, u32>,
    /// Slots of the tasks that ended last, oldest first.
    ended: VecDeque<u32>,
    /// Slots of tasks that have ended since the pairs were last read.
    unread: Vec<u32>,
    /// The counters when the pairs were last read; the kernel's own count of events and bytes, of which some may have
    /// come since.
    known: Counters,
    kernels_events: u64,
    /// What the kernel was told last.
    state: abi::cohabit_fault_state,
    next_task: u32,
    processes: BTreeMap<i32, Process>,
    /// Events of pairs that no living task stands behind any more.
    stale: u64,
    /// Samples that found no room in the rings.
    lost_by_pmu: u64,
    /// Processes of whose shared memory the kernel could not be told.
    untold: u64,
    /// Starts and ends that the kernel had no room to tell of, as far as it has been looked who is there, and how often
    /// that is to be done again.
    lost: [u64; 2],
    looks_left: u32,
    /// Slots that the kernel did not have any more when it was last looked.
    missing: HashSet<u32>,
    /// Slots whose end was lost, and is to be told.
    gone: Vec<u32>,
    /// When following began, in clock ticks of the machine.
    began: u64,
    object: Object,
}

/// A process of which tasks are followed.
#[derive(Default)]
struct Process {
    /// How many live, or have not been read of as having ended.
    tasks: usize,
    /// The shared mappings that the kernel was told of.
    shared: Vec<Range>,
    /// It would not take them.
    is_untold: bool,
    /// What nobody can write to.
    fixed: Vec<(u64, u64)>,
    /// Stacks of threads, where a PMU samples.
    stacks: Vec<(u64, u64)>,
    /// How large its address space was when its mappings were read, as the kernel says it.
    size: String,
    /// After how many looks at its size its mappings are to be read again, changed or not.
    looks_left: u32,
}

#[derive(Clone, Copy)]
struct Living {
    task: u32,
    tid: i32,
    process: i32,
}

/// What a sample shows.
enum Seen {
    /// Where a task was.
    At(Box<Sample>),
    /// Which address a thread used, and where the data came from.
    Access(i32, u64, DataSource),
}

impl Process {
    fn reach(&self, process: i32) -> mappings::Reach<'_> {
        mappings::Reach { shared: &self.shared, fixed: &self.fixed, process, threads: self.tasks }
    }
}

struct Maps {
    followed: MapHandle,
    free_slots: MapHandle,
    matrix: MapHandle,
    counters: MapHandle,
    shared: MapHandle,
    state: MapHandle,
}

impl BpfFaults {
    /// Loads the detector and attaches it; nobody is followed yet.
    ///
    /// # Errors
    /// Where the object is missing, or the kernel or this user's rights do not suffice.
    pub fn start(options: &Options) -> Result<Self> {
        if !options.block_bytes.is_power_of_two() || !(16..=1 << 21).contains(&options.block_bytes) {
            return Err(Error::new(format!("a block of {} bytes", options.block_bytes))
                .remedy("name a power of two from 16 to 2097152"));
        }
        let object = object::load(&object::find()?, options)?;
        let map = |name: &str| object::map(&object, name);
        let maps = Maps {
            followed: map("followed")?,
            free_slots: map("free_slots")?,
            matrix: map("matrix")?,
            counters: map("counters")?,
            shared: map("shared")?,
            state: map(".data.user")?,
        };
        let events = Records::of(&map("task_events")?)?;
        let samples = match options.sampling {
            Some(_) => Some(Records::of(&map("samples")?)?),
            None => None,
        };
        let pmu = Pmu::start(options, Clock::Monotonic)?.map(|pmu| (pmu, Rings::default()));
        let links = object::attach(&object, samples.is_some())?;
        let (slots, processes) = (HashMap::new(), BTreeMap::new());
        Ok(Self {
            _links: links,
            copies: None,
            events,
            sampler: (samples.is_some() || pmu.is_some()).then(Sampler::default),
            samples,
            pmu,
            delays: Delays::default(),
            timers_are_ready: false,
            switches: None,
            maps,
            slots,
            tids: HashMap::new(),
            ended: VecDeque::new(),
            unread: Vec::new(),
            known: Counters::default(),
            kernels_events: 0,
            state: abi::cohabit_fault_state { any_shared: 0, slots_given: 0, delays: [0; DRAWN] },
            next_task: 0,
            processes,
            stale: 0,
            lost_by_pmu: 0,
            untold: 0,
            lost: [0; 2],
            looks_left: 0,
            missing: HashSet::new(),
            gone: Vec::new(),
            began: threads::now_ticks(),
            object,
        })
    }

    /// Reads from /proc what processes share where their address spaces have changed in size, now and then in any case,
    /// and tells the kernel where that has changed.
    ///
    /// # Errors
    /// Where the kernel does not take it.
    pub fn refresh_mappings(&mut self) -> Result<()> {
        let mut changed = Vec::new();
        for (&process, known) in &mut self.processes {
            let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
            let size = pages.split(' ').next().unwrap_or_default();
            known.looks_left = known.looks_left.saturating_sub(1);
            if known.looks_left == 0 || known.size != size {
                (known.size, known.looks_left) = (size.to_owned(), LOOKS_AT_SIZE);
                changed.push(process);
            }
        }
        for process in changed {
            // One that has ended has none; its entry goes with its last task.
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
            self.share(process, &maps)?;
        }
        Ok(())
    }

    /// Takes note of a process's memory, by the text of its `maps` file.
    pub(super) fn share(&mut self, process: i32, maps: &str) -> Result<()> {
        let mut ranges = mappings::shared(maps);
        ranges.truncate(abi::COHABIT_MAX_RANGES as usize);
        let memory = self.processes.entry(process).or_default();
        memory.fixed = mappings::fixed(maps);
        memory.stacks = if self.pmu.is_some() { mappings::stacks(maps) } else { Vec::new() };
        let known = &mut memory.shared;
        if *known == ranges && !memory.is_untold {
            return Ok(());
        }
        *known = ranges;
        let nothing = abi::cohabit_range { start: 0, end: 0, object: 0, offset: 0 };
        let mut record = abi::cohabit_ranges { count: known.len() as u32, padding: 0, range: [nothing; MAX_RANGES] };
        for (to, from) in record.range.iter_mut().zip(known.iter()) {
            *to = abi::cohabit_range { start: from.start, end: from.end, object: from.object, offset: from.offset };
        }
        let told = self.maps.shared.update(&process.to_ne_bytes(), as_bytes(&record), MapFlags::ANY);
        // Its table is full, or it has no memory: what it would have seen there is lost, and there may be room later.
        let was_untold = std::mem::replace(&mut memory.is_untold, told.is_err());
        self.untold += u64::from(told.is_err() && !was_untold);
        self.state.any_shared = 1;
        self.tell_state()
    }

    /// Where the kernel had no room to tell of starts and ends, looks who is there: follows whom it does not, and ends
    /// those that it follows no longer.
    fn look_who_is_there(&mut self) -> Result<()> {
        let lost = [self.counter(abi::COHABIT_COUNT_TASKS_LOST)?, self.counter(abi::COHABIT_COUNT_ENDS_LOST)?];
        if std::mem::replace(&mut self.lost, lost) != lost {
            self.looks_left = LOOKS_FOR_LOST;
        }
        if self.looks_left == 0 {
            return Ok(());
        }
        self.looks_left -= 1;
        let (mut tids, mut slots) = (HashSet::new(), HashSet::new());
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
        for key in self.maps.followed.keys() {
            let slot = self.maps.followed.lookup(&key, MapFlags::ANY);
            let slot = slot.map_err(|error| refused("reading the tasks of", &error))?;
            tids.extend(number(&key).map(|tid| tid as i32));
            slots.extend(slot.and_then(|slot| number(&slot)));
        }
        let over: HashSet<u32> = self.ended.iter().chain(&self.unread).chain(&self.gone).copied().collect();
        let missing = self.slots.keys().copied().filter(|slot| !slots.contains(slot) && !over.contains(slot));
        // An end may be told at this moment, but is by the next time.
        let (gone, missing): (Vec<u32>, Vec<u32>) = missing.partition(|slot| self.missing.contains(slot));
        self.gone.extend(gone);
        self.missing = missing.into_iter().collect();
        let known = self.processes.keys().copied();
        let processes = known.chain(follow::unknown_below(|pid| self.processes.contains_key(&pid), self.began));
        let is_new = |tid: &i32| !tids.contains(tid);
        let new = processes.flat_map(|pid| follow::living(pid).into_iter().filter(is_new).map(move |tid| (pid, tid)));
        for (process, tid) in new.collect::<Vec<_>>() {
            if !self.follow_thread(process, tid)? {
                // It has no room for more: that is counted, and no news.
                self.lost[0] = self.counter(abi::COHABIT_COUNT_TASKS_LOST)?;
                break;
            }
        }
        Ok(())
    }

    /// Follows a thread; whether there is room for it.
    fn follow_thread(&self, process: i32, tid: i32) -> Result<bool> {
        let record = abi::cohabit_follow { tid: tid as u32, process: process as u32 };
        match self.run("follow", as_bytes(&record))? {
            abi::COHABIT_NOT_FOLLOWED => return Ok(false),
            // Its end may have been before.
            abi::COHABIT_FOLLOWED if follow::is_ending(process, tid) => {
                self.run("unfollow", as_bytes(&record))?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// Has the kernel follow a thread no longer and say nothing of it, as where it has no room to.
    #[cfg(test)]
    pub(crate) fn lose(&mut self, tid: i32) {
        self.maps.followed.delete(&tid.to_ne_bytes()).unwrap();
        self.lost = [u64::MAX; 2];
    }

    #[cfg(test)]
    pub(crate) fn is_untold(&self, process: i32) -> bool {
        self.processes[&process].is_untold
    }

    /// Fills the kernel's table of shared memory, or empties it again.
    #[cfg(test)]
    pub(crate) fn fill_shared(&self, full: bool) {
        let record = vec![0; size_of::<abi::cohabit_ranges>()];
        for key in (0..self.maps.shared.max_entries()).map(|number| (u32::MAX - number).to_ne_bytes()) {
            match full {
                true => self.maps.shared.update(&key, &record, MapFlags::ANY).unwrap(),
                false => self.maps.shared.delete(&key).unwrap(),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn slots_in_use(&self) -> usize {
        self.slots.len() - self.ended.len() - self.unread.len()
    }

    fn tell_state(&self) -> Result<()> {
        let told = self.maps.state.update(&[0; 4], as_bytes(&self.state), MapFlags::ANY);
        told.map_err(|error| refused("setting", &error))
    }

    /// Hands the detector a fault that never was: on block `block` of a page, or on the block of so many bits where
    /// that is 0.
    #[cfg(test)]
    pub(crate) fn replay(&self, (memory, byte, shift): (u64, u64, u32), block: u8, slot: u32) -> Result<()> {
        let (block, kind) = (block.into(), u32::from(block > 0));
        self.run("replay", as_bytes(&abi::cohabit_replay { memory, byte, shift, slot, block, kind })).map(drop)
    }

    /// Runs a program that takes a record; what it returns.
    fn run(&self, name: &str, record: &[u8]) -> Result<u32> {
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let program = program.ok_or_else(|| Error::new(format!("{} has no program {name}", object::OBJECT)))?;
        let mut record = record.to_vec();
        let input = ProgramInput { context_in: Some(&mut record), ..ProgramInput::default() };
        program.test_run(input).map(|output| output.return_value).map_err(|error| refused("running", &error))
    }

    fn counter(&self, counter: u32) -> Result<u64> {
        let values = self.maps.counters.lookup_percpu(&counter.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|error| refused("reading the counters of", &error))?.unwrap_or_default();
        Ok(values.iter().filter_map(|value| value.as_slice().try_into().ok().map(u64::from_ne_bytes)).sum())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters {
            faults: self.counter(abi::COHABIT_COUNT_FAULTS)?,
            code: self.counter(abi::COHABIT_COUNT_CODE)?,
            private: self.counter(abi::COHABIT_COUNT_PRIVATE)?,
            events: self.counter(abi::COHABIT_COUNT_EVENTS)? + self.sampled().events,
            new_blocks: self.counter(abi::COHABIT_COUNT_NEW_BLOCKS)?,
            evictions: self.counter(abi::COHABIT_COUNT_EVICTIONS)?,
            events_lost: self.counter(abi::COHABIT_COUNT_PAIRS_LOST)?
                + self.counter(abi::COHABIT_COUNT_RACES)?
                + self.counter(abi::COHABIT_COUNT_SAMPLES_LOST)?
                + self.stale
                + self.lost_by_pmu
                + self.untold,
            tasks_lost: self.counter(abi::COHABIT_COUNT_TASKS_LOST)? + self.counter(abi::COHABIT_COUNT_ENDS_LOST)?,
            tasks_not_sampled: 0,
            tasks_without_pmu: self.known.tasks_without_pmu,
            copied: match self.copies {
                Some(_) => Some(self.counter(abi::COHABIT_COUNT_COPIED)?),
                None => None,
            },
            sampled: self.sampled(),
        })
    }

    /// Takes the pairs out of the kernel's matrix, so that it holds no more than what one interval brings.
    pub(super) fn take_pairs(&mut self, now: Duration) -> Result<Vec<Evidence>> {
        let taken = self.maps.matrix.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let taken = taken.map_err(|error| refused("reading the matrix of", &error))?;
        let mut pairs = Vec::new();
        for (key, value) in taken {
            let Ok(key) = key.as_slice().try_into() else { continue };
            let key = u32::from_ne_bytes(key);
            let mut events = value.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
            let mut next = || events.next().unwrap_or(0);
            let (used, written, copied) = (next(), next(), next());
            match (self.slots.get(&(key >> 16)), self.slots.get(&(key & 0xffff))) {
                (Some(a), Some(b)) => {
                    let counts = [(Kind::Used, used), (Kind::Written, written), (Kind::Passed, copied)];
                    let seen = counts.into_iter().filter(|counted| counted.1 > 0);
                    pairs.extend(seen.map(|(kind, count)| Evidence::of(kind, (a.task, b.task), count, now)));
                }
                _ => self.stale += used + written,
            }
        }
        Ok(pairs)
    }

    fn sampled(&self) -> Sums {
        self.sampler.as_ref().map(|sampler| sampler.sums).unwrap_or_default()
    }

    /// Finds out what the tasks did that were sampled, by the timer and by a PMU, in the order of time.
    fn take_samples(&mut self) -> Result<()> {
        let mut taken = Vec::new();
        if let Some(records) = &mut self.samples {
            taken.extend(records.take()?.into_iter().map(|sample| (sample.time_ns, Seen::At(Box::new(sample)))));
        }
        let accesses = self.pmu.as_mut().map(|(_, rings)| rings.read()).unwrap_or_default();
        for record in accesses {
            match record {
                Record::Access { time, tid, address, source } => taken.push((time, Seen::Access(tid, address, source))),
                Record::Lost { count } => self.lost_by_pmu += count,
                _ => {}
            }
        }
        taken.sort_by_key(|(time, _)| *time);
        for (time, seen) in taken {
            let now = Duration::from_nanos(time);
            match seen {
                Seen::At(sample) => self.sample(now, &sample),
                Seen::Access(tid, address, source) => self.access(now, tid, address, source),
            }
        }
        Ok(())
    }

    fn sample(&mut self, now: Duration, sample: &Sample) {
        let (Some(living), Some(sampler)) = (self.slots.get(&sample.slot), &mut self.sampler) else { return };
        let process = sample.process as i32;
        let known = self.processes.get(&process);
        let reach = known
            .map_or(mappings::Reach { shared: &[], fixed: &[], process, threads: 0 }, |known| known.reach(process));
        let registers = Registers { instruction: sample.instruction, general: sample.registers };
        let place = |address| reach.place(address);
        let code = Code { start: sample.code_start, bytes: &sample.code[..sample.code_bytes as usize] };
        let by_tick = sample.delay == abi::COHABIT_BY_TICK;
        let taken = if by_tick { Taken::Regularly } else { Taken::AfterSwitch };
        let value = |address| super::perf::word(process, address);
        let tells = sampler.add((now, taken), living.task, &registers, &code, place, value);
        if !by_tick {
            self.delays.add(sample.delay as usize, tells);
        }
    }

    fn access(&mut self, now: Duration, tid: i32, address: u64, source: DataSource) {
        let living = self.tids.get(&tid).and_then(|slot| self.slots.get(slot));
        let (Some(living), Some(sampler)) = (living, &mut self.sampler) else { return };
        let Some(known) = self.processes.get(&living.process) else { return };
        let reach = known.reach(living.process);
        sampler.add_access(now, living.task, address, source, |address| reach.place_off(&known.stacks, address));
    }

    /// What happened to tasks, and the slots of those that ended.
    fn take_tasks(&mut self) -> Result<(Vec<TaskEvent>, Vec<u32>)> {
        let events = self.events.take()?;
        let (mut told, mut ended) = (Vec::new(), Vec::new());
        for event in events {
            match event.kind {
                abi::COHABIT_TASK_STARTED => told.push(self.started(&event)),
                abi::COHABIT_TASK_ENDED => ended.push((told.len(), event.slot)),
                abi::COHABIT_TASK_EXEC => {
                    // The other threads end, and that is told of each.
                    let known = self.processes.entry(event.process as i32).or_default();
                    *known = Process { tasks: known.tasks, ..Process::default() };
                    if let Some(living) = self.slots.get_mut(&event.slot) {
                        self.tids.remove(&living.tid);
                        living.tid = event.tid as i32;
                        self.tids.insert(living.tid, event.slot);
                        told.push(TaskEvent::Exec { task: living.task, tid: living.tid });
                    }
                }
                _ => {}
            }
        }
        ended.extend(std::mem::take(&mut self.gone).into_iter().map(|slot| (told.len(), slot)));
        // In the order in which they happened.
        let mut slots = Vec::new();
        for (shift, (place, slot)) in ended.into_iter().enumerate() {
            if let Some(living) = self.slots.get(&slot) {
                if let Some(process) = self.processes.get_mut(&living.process) {
                    process.tasks = process.tasks.saturating_sub(1);
                }
                // Another may have its id by now.
                if self.tids.get(&living.tid) == Some(&slot) {
                    self.tids.remove(&living.tid);
                }
                told.insert(place + shift, TaskEvent::Ended { task: living.task });
                slots.push(slot);
            }
        }
        Ok((told, slots))
    }

    fn started(&mut self, event: &Event) -> TaskEvent {
        let (task, tid, process) = (self.next_task, event.tid as i32, event.process as i32);
        self.next_task += 1;
        let parent = (event.parent_slot != event.slot).then(|| self.slots.get(&event.parent_slot)).flatten();
        let parent = parent.map(|living| living.task);
        self.slots.insert(event.slot, Living { task, tid, process });
        self.tids.insert(tid, event.slot);
        self.processes.entry(process).or_default().tasks += 1;
        TaskEvent::Started { task, tid, process, parent }
    }

    /// Slots whose counts have been read may be given out again, but for those of the tasks that ended last: blocks
    /// remember them, and others that come to these blocks are credited with them.
    fn free(&mut self, ended: Vec<u32>) -> Result<()> {
        let mut left: Vec<i32> =
            ended.iter().filter_map(|slot| self.slots.get(slot)).map(|gone| gone.process).collect();
        self.ended.extend(ended);
        while self.ended.len() > ENDED_KEPT {
            let Some(slot) = self.ended.pop_front() else { break };
            self.slots.remove(&slot);
            let place = self.state.slots_given & (abi::COHABIT_FREE_SLOTS - 1);
            let given = self.maps.free_slots.update(&place.to_ne_bytes(), &slot.to_ne_bytes(), MapFlags::ANY);
            given.map_err(|error| refused("giving a slot back to", &error))?;
            self.state.slots_given = self.state.slots_given.wrapping_add(1);
        }
        self.tell_state()?;
        left.sort_unstable();
        left.dedup();
        let over: HashSet<u32> = self.ended.iter().copied().collect();
        left.retain(|process| {
            !self.slots.iter().any(|(slot, living)| living.process == *process && !over.contains(slot))
        });
        for process in left {
            self.processes.remove(&process);
            // It has no entry where it shared nothing.
            let _ = self.maps.shared.delete(&process.to_ne_bytes());
        }
        Ok(())
    }
}

/// Looks at the size of an address space, 250 ms apart, from one reading of its mappings to the next.
const LOOKS_AT_SIZE: u32 = 8;
/// How often it is looked who is there after the kernel had no room to tell: once more for ends that were being told.
const LOOKS_FOR_LOST: u32 = 2;
/// Tasks that have ended and are still known.
const ENDED_KEPT: usize = 256;
const MAX_RANGES: usize = abi::COHABIT_MAX_RANGES as usize;
const _: () = assert!(DELAYS == abi::COHABIT_DELAYS as usize);

impl Source for BpfFaults {
    fn name(&self) -> &'static str {
        "page faults, by eBPF"
    }

    fn samples(&self) -> bool {
        self.samples.is_some()
    }

    fn follow(&mut self, process: i32) -> Result<()> {
        let mut tids = Vec::new();
        follow::threads(process, |tid| {
            tids.push(tid);
            match self.follow_thread(process, tid)? {
                true => Ok(()),
                false => Err(Error::new("too many tasks are followed already")),
            }
        })?;
        if let Some((pmu, rings)) = &mut self.pmu {
            self.known.tasks_without_pmu += pmu.follow(&tids, &online_pus(), rings);
        }
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        self.share(process, &maps)
    }

    fn read(&mut self, now: Duration, with_pairs: bool) -> Result<Reading> {
        let (tasks, ended) = self.take_tasks()?;
        self.unread.extend(ended);
        self.take_samples()?;
        if let Some(sampler) = &mut self.sampler {
            sampler.end(&super::ended(&tasks));
        }
        if !with_pairs {
            return Ok(Reading { tasks, seen: Vec::new(), counters: self.known });
        }
        // Going through the kernel's matrix takes longer than asking whether there is anything in it.
        let events = self.counter(abi::COHABIT_COUNT_EVENTS)? + self.counter(abi::COHABIT_COUNT_COPIED)?;
        let has_pairs = std::mem::replace(&mut self.kernels_events, events) != events;
        let mut seen = if has_pairs { self.take_pairs(now)? } else { Vec::new() };
        seen.extend(self.sampler.as_mut().map(|sampler| sampler.take(now)).unwrap_or_default());
        let ended = std::mem::take(&mut self.unread);
        self.free(ended)?;
        self.known = self.counters()?;
        Ok(Reading { tasks, seen, counters: self.known })
    }

    fn wait(&self, at_most: Duration) {
        // SAFETY: the ring's descriptor is open as long as the ring is.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.events.ring.epoll_fd()) };
        // Rounded up: waking too early would be waking again and again.
        let timeout = PollTimeout::try_from(at_most.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        // Interrupted by a signal, or too early: the caller looks at the clock.
        let _ = poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], timeout);
    }

    fn refresh(&mut self) -> Result<()> {
        self.refresh_mappings()?;
        self.look_who_is_there()
    }

    fn sample_switches(&mut self, wanted: bool) -> Result<bool> {
        if !wanted || self.samples.is_none() {
            self.switches = None;
            return Ok(false);
        }
        self.state.delays = self.delays.drawn();
        self.tell_state()?;
        if !self.timers_are_ready {
            for pu in 0..object::pus() {
                if self.run("ready_timer", as_bytes(&abi::cohabit_timer { pu }))? != abi::COHABIT_READY {
                    return Err(Error::new(format!("the kernel gives no timer for PU {pu}")));
                }
            }
            self.timers_are_ready = true;
        }
        if self.switches.is_none() {
            self.switches = Some(object::attach_switches(&self.object)?);
        }
        Ok(true)
    }

    fn see_copies(&mut self) -> Result<()> {
        self.copies = Some(object::attach_copiers(&object::find()?, &self.object)?);
        Ok(())
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

/// A ring of records of one kind.
struct Records<T> {
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<T>>>,
}

impl<T: Copy + 'static> Records<T> {
    /// `T` is a record of `abi`, which the eBPF programs put into this ring.
    fn of(map: &MapHandle) -> Result<Self> {
        let records = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&records);
        let collect = move |bytes: &[u8]| {
            if bytes.len() >= size_of::<T>() {
                // SAFETY: the record is plain integers, and as many bytes are there.
                into.borrow_mut().push(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) });
            }
            0
        };
        let mut builder = RingBufferBuilder::new();
        builder.add(map, collect).map_err(|error| refused("reading", &error))?;
        let ring = builder.build().map_err(|error| refused("reading", &error))?;
        Ok(Self { ring, records })
    }

    /// Those that have come since the last call.
    fn take(&mut self) -> Result<Vec<T>> {
        self.ring.consume().map_err(|error| refused("reading the events of", &error))?;
        Ok(std::mem::take(&mut *self.records.borrow_mut()))
    }
}
