//! The simulation: each task in its own time, and in one order whatever is not a core's own affair.
//!
//! What a core's L1 and first TLB serve is done as soon as the task comes to it, up to [`Options::lookahead`] ahead of
//! all others; everything else waits for its turn: the earliest first, the lowest PU among equals. So a copy that is
//! taken away by another core's store may still be read for that long, and not longer. One host thread does one
//! simulation: the result depends on nothing but the recording, the machine, the mapping and the options.

use crate::balancing::Scans;
use crate::clock::{LONGEST, NEVER, NS, Time};
use crate::coherence::{Hierarchy, Miss};
use crate::core::CoreClock;
use crate::exchange::{Exchange, Exchanges};
use crate::machine::Machine;
use crate::order::Order;
use crate::pages::Placement;
use crate::report::{MissKinds, Report, TaskReport};
use crate::sample::{Common, Cuts, Sample};
use crate::scheduler::Pu;
use crate::series::{MOST_WINDOWS, TaskSeries};
use crate::task::{State, Task, Work};
use crate::tlb::Tlb;
use crate::waiting::never;
use cohabit_access::{Recording, Step};
use cohabit_model::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// How to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where pages go.
    pub placement: Placement,
    /// How far a task may run ahead of all others with what its own L1 serves.
    pub lookahead: Time,
    /// Whether misses are told apart by kind: each access then costs twice as much or more.
    pub classify: bool,
    /// How long the windows are in which it is counted what is done over time; none: nothing is.
    pub window: Option<Time>,
    /// What the operating system moves while the program runs, the earliest first.
    pub exchanges: Vec<Exchange>,
    /// That the recording is the excerpt of this sample, from which the whole run is estimated.
    pub sample: Option<Arc<Sample>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            placement: Placement::FirstTouch,
            lookahead: 100 * NS,
            classify: false,
            window: None,
            exchanges: Vec::new(),
            sample: None,
        }
    }
}

/// Is told what happens, in the order in which it does.
pub trait Observer {
    /// Whether it wants to be told.
    const WATCHES: bool = true;
    /// A task touches a line from a core. Polling counts.
    fn access(&mut self, task: usize, core: usize, line: u64, write: bool);
    /// The memory at these addresses is new from now on.
    fn unmap(&mut self, range: &Range<u64>);
    /// A page of these lines moves to a node: no cache has any of them from now on.
    fn migrate(&mut self, _lines: &Range<u64>, _node: usize) {}
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    const WATCHES: bool = false;
    fn access(&mut self, _: usize, _: usize, _: u64, _: bool) {}
    fn unmap(&mut self, _: &Range<u64>) {}
}

/// Nobody; but each access is looked at, as telling misses apart needs it.
struct EachAccess;

impl Observer for EachAccess {
    fn access(&mut self, _: usize, _: usize, _: u64, _: bool) {}
    fn unmap(&mut self, _: &Range<u64>) {}
}

/// Simulates a recording on a machine, task `n` on PU `mapping[n]` (an index into the topology's PUs).
///
/// # Errors
/// The mapping does not fit; the recording cannot be read or contradicts itself; it takes more than an hour there.
pub fn simulate(recording: &dyn Recording, machine: &Machine, mapping: &[usize], options: &Options) -> Result<Report> {
    match options.classify {
        false => simulate_observed(recording, machine, mapping, options, &mut Unobserved),
        true => simulate_observed(recording, machine, mapping, options, &mut EachAccess),
    }
}

/// The same, and tells an observer. Misses are told apart only under one that watches.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_observed<O: Observer>(
    recording: &dyn Recording,
    machine: &Machine,
    mapping: &[usize],
    options: &Options,
    observer: &mut O,
) -> Result<Report> {
    let mut engine = Engine::new(recording, machine, mapping, options, observer)?;
    engine.run_all()?;
    engine.check_ended()?;
    Ok(engine.report())
}

/// Why a task cannot go on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is too far ahead.
    Ahead,
    /// What is next has to be done in its turn.
    Turn,
    /// It sleeps until then.
    Sleeps(Time),
    /// It has ended.
    Ended,
}

pub(crate) struct Engine<'a, 'o, O> {
    pub(crate) machine: &'a Machine,
    pub(crate) lookahead: Time,
    /// None: that one runs right now.
    pub(crate) tasks: Vec<Option<Box<Task<'a>>>>,
    pub(crate) pus: Vec<Pu>,
    /// PUs of each core.
    pub(crate) pus_of_core: Vec<Vec<usize>>,
    /// PUs of each core on which a task is.
    pub(crate) busy: Vec<usize>,
    pub(crate) tlbs: Vec<Tlb>,
    pub(crate) caches: Hierarchy<'a>,
    pub(crate) order: Order,
    switches: u64,
    pub(crate) exchanges: Exchanges,
    /// Memory is balanced over nodes, where it is.
    pub(crate) scans: Option<Scans>,
    /// When the operating system moves something next.
    next_event: Time,
    /// The processes that there are.
    pub(crate) processes: Vec<u32>,
    /// The tasks over time, where that is asked for.
    series: Option<Box<TaskSeries>>,
    /// What is noted of a sample, where the run is one.
    cuts: Option<Box<Cuts>>,
    /// Later than this it takes too long.
    longest: Time,
    pub(crate) observer: &'o mut O,
}

impl<'a, 'o, O: Observer> Engine<'a, 'o, O> {
    fn new(
        recording: &'a dyn Recording,
        machine: &'a Machine,
        mapping: &[usize],
        options: &Options,
        observer: &'o mut O,
    ) -> Result<Self> {
        check_mapping(recording, machine, mapping)?;
        if options.window == Some(0) {
            return Err(Error::new("windows of no time").remedy("give a time above 0"));
        }
        options.placement.check(machine.memory.nodes)?;
        let placement = match (&options.sample, &options.placement) {
            (Some(sample), Placement::FirstTouch) => {
                sample.placement(|task| machine.memory.node_of_core[machine.core_of_pu[mapping[task]]])
            }
            (_, placement) => placement.clone(),
        };
        let mut pus_of_core = vec![Vec::new(); machine.cores];
        machine.core_of_pu.iter().enumerate().for_each(|(pu, &core)| pus_of_core[core].push(pu));
        let mut engine = Self {
            machine,
            lookahead: options.lookahead,
            tasks: Vec::new(),
            pus: (0..machine.core_of_pu.len()).map(|_| Pu::default()).collect(),
            busy: vec![0; machine.cores],
            tlbs: machine
                .tlb
                .iter()
                .flat_map(|tlb| vec![Tlb::new(tlb, options.classify && O::WATCHES); machine.cores])
                .collect(),
            caches: Hierarchy::new(machine, placement, options.classify && O::WATCHES),
            order: Order::new(machine.core_of_pu.len()),
            switches: 0,
            exchanges: Exchanges::new(&options.exchanges, machine.core_of_pu.len())?,
            scans: None,
            next_event: NEVER,
            processes: Vec::new(),
            series: options.window.map(|window| Box::new(TaskSeries::new(window, mapping.len()))),
            cuts: options.sample.as_ref().map(|sample| Box::new(Cuts::new(Arc::clone(sample), mapping.len()))),
            longest: options.window.map_or(LONGEST, |window| window.saturating_mul(MOST_WINDOWS).min(LONGEST)),
            pus_of_core,
            observer,
        };
        engine.processes = recording.tasks().iter().map(|info| info.process).collect();
        engine.processes.sort_unstable();
        engine.processes.dedup();
        if let Placement::AutoNuma(factor) = options.placement {
            // Linux balances nothing where there is one node.
            let scans = Scans::new(&machine.system, factor, machine.page_bits(), engine.processes.len())?;
            engine.scans = Some(scans).filter(|_| machine.memory.nodes > 1);
        }
        engine.find_next_event();
        if let Some(window) = options.window {
            engine.caches.fabric.note_over_time(window);
        }
        for (number, info) in recording.tasks().iter().enumerate() {
            let pu = mapping[number];
            let core = machine.core_of_pu[pu];
            let clock = CoreClock::new(machine.core.window, engine.buffers(core, |pu| mapping.contains(&pu)));
            let report = TaskReport { name: info.name.clone(), pu, ..TaskReport::default() };
            let steps = match machine.dependences() {
                Some(core) => recording.steps_with(number as u32, core)?,
                None => recording.steps(number as u32)?,
            };
            let task = Task::new(steps, number, info.process, core, clock, report);
            engine.tasks.push(Some(Box::new(task)));
            engine.pus[pu].enter(number, 0);
            engine.order.set(pu, 0);
        }
        Ok(engine)
    }

    /// Fill buffers of a task: SMT siblings in use share the core's evenly.
    pub(crate) fn buffers(&self, core: usize, in_use: impl Fn(usize) -> bool) -> usize {
        let sharing = self.pus_of_core[core].iter().filter(|&&pu| in_use(pu)).count().max(1);
        (self.machine.core.fill_buffers / sharing).max(1)
    }

    fn run_all(&mut self) -> Result<()> {
        // All begin at once: none has its core to itself because its siblings have not been looked at yet.
        for pu in 0..self.pus.len() {
            self.take_next(pu, 0);
        }
        loop {
            let (now, pu) = self.order.first();
            if now == NEVER {
                return Ok(());
            }
            if self.next_event <= now {
                self.event(now);
                continue;
            }
            if now > self.longest {
                return Err(self.takes_too_long());
            }
            self.turn(pu, now)?;
        }
    }

    /// What the operating system does before anything else at `now`.
    fn event(&mut self, now: Time) {
        if self.scans.as_ref().is_some_and(|scans| scans.next <= now) {
            self.scan(now);
        } else if let Some(exchange) = self.exchanges.due(now) {
            self.exchange(exchange);
        }
        self.find_next_event();
    }

    fn find_next_event(&mut self) {
        self.next_event = self.exchanges.next_at().min(self.scans.as_ref().map_or(NEVER, |scans| scans.next));
    }

    fn takes_too_long(&self) -> Error {
        match self.longest < LONGEST {
            true => {
                Error::new(format!("the program takes more than {MOST_WINDOWS} windows")).remedy("give a longer window")
            }
            false => {
                Error::new("the program takes more than an hour of simulated time").remedy("simulate a part of it")
            }
        }
    }

    /// A PU's turn.
    fn turn(&mut self, pu: usize, now: Time) -> Result<()> {
        if let Some(task) = self.pus[pu].current.filter(|_| self.pus[pu].must_switch(now)) {
            self.leave(pu, now);
            self.pus[pu].enter(task, now);
        }
        if self.pus[pu].current.is_none() && !self.take_next(pu, now) {
            return Ok(());
        }
        let Some(number) = self.pus[pu].current else { return Ok(()) };
        let task = self.tasks[number].as_ref().expect("no other runs");
        match task.state {
            State::Polls { line, .. } => self.poll(number, pu, line, now),
            _ if task.clock.time > now => self.order.set(pu, task.clock.time),
            _ => self.run(number, pu, now)?,
        }
        Ok(())
    }

    /// Puts the task that has been ready for longest on a free PU, where there is one.
    fn take_next(&mut self, pu: usize, now: Time) -> bool {
        let Some((since, number)) = self.pus[pu].take(now) else {
            self.order.set(pu, self.pus[pu].next_ready().unwrap_or(NEVER));
            return false;
        };
        let place = &mut self.pus[pu];
        let changes = place.last.is_some_and(|last| last != number);
        place.current = Some(number);
        place.last = Some(number);
        self.busy[self.machine.core_of_pu[pu]] += 1;
        let task = self.tasks[number].as_mut().expect("no other runs");
        task.report.queued_fs += now - since;
        task.clock.time = task.clock.time.max(now);
        if changes {
            self.switches += 1;
            task.clock.time += self.machine.system.switch;
        }
        self.pus[pu].slice_end = task.clock.time.saturating_add(self.machine.system.slice);
        self.order.set(pu, task.clock.time);
        task.clock.time == now
    }

    /// The current task leaves its PU.
    pub(crate) fn leave(&mut self, pu: usize, now: Time) {
        self.busy[self.machine.core_of_pu[pu]] -= 1;
        let place = &mut self.pus[pu];
        (place.current, place.free_from) = (None, now);
        self.order.set(pu, place.next_ready().map_or(NEVER, |ready| ready.max(now)));
    }

    /// Runs a task until others come first.
    fn run(&mut self, number: usize, pu: usize, mut now: Time) -> Result<()> {
        let mut task = self.tasks[number].take().expect("no other runs");
        self.order.set(pu, NEVER);
        let each = self.machine.core.instruction[self.busy[task.core]];
        // Others may have come in between: what the L1 served before, it need not serve again.
        task.walk.hits = 0;
        if let Some(series) = &mut self.series {
            series.begin(&task);
        }
        loop {
            task.note(now);
            let waits = self.begin_turn(&mut task, each, now)?;
            self.note_series(&task);
            if waits {
                break;
            }
            task.note(now);
            let stop = self.go_on(&mut task, each, now.saturating_add(self.lookahead))?;
            task.note(now);
            self.note_series(&task);
            self.wake_waiters(&mut task);
            match stop {
                Stop::Ended => {
                    task.state = State::Ended;
                    task.report.end_fs = task.clock.time;
                    self.leave(pu, task.clock.time);
                    break;
                }
                Stop::Sleeps(until) => {
                    self.leave(pu, task.clock.time);
                    task.clock.time = until;
                    self.enter(pu, number, until);
                    break;
                }
                Stop::Ahead | Stop::Turn => {}
            }
            let next = task.clock.time;
            let first = self.order.first();
            if (next, pu) > first || self.pus[pu].must_switch(next) || next > self.longest || self.next_event <= next {
                self.order.set(pu, next);
                break;
            }
            now = next;
        }
        self.tasks[number] = Some(task);
        Ok(())
    }

    fn note_series(&mut self, task: &Task<'a>) {
        if let Some(series) = &mut self.series {
            series.note(task);
        }
    }

    /// What has to be done in its turn, now. True where the task cannot go on.
    fn begin_turn(&mut self, task: &mut Task<'a>, each: Time, now: Time) -> Result<bool> {
        match &task.work {
            Work::Walk if task.walk.begun && task.walk.line <= task.walk.last => {
                if self.access_alone(task) {
                    task.walk.line += 1;
                } else {
                    self.access_in_turn(task);
                }
                if task.walk.line > task.walk.last {
                    self.finish_access(task, each, now);
                }
                self.tell_losers(now);
                Ok(false)
            }
            Work::Step(Step::Wait { task: on, position, polled, .. }) => {
                let (on, position, polled) = (*on as usize, *position, *polled);
                self.wait(task, on, position, polled, now)
            }
            Work::Step(Step::Unmap { range }) => {
                let range = range.clone();
                for page in self.caches.unmap(&range) {
                    let key = crate::tlb::key(task.process, page);
                    self.tlbs.iter_mut().for_each(|tlb| tlb.forget(key));
                }
                if O::WATCHES {
                    self.observer.unmap(&range);
                }
                task.page = (u64::MAX, u64::MAX);
                task.work = Work::Nothing;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// A task comes to where it was to be noted.
    pub(crate) fn note_cut(&mut self, task: &Task<'a>, number: u64) {
        let Some(cuts) = &mut self.cuts else { return };
        if cuts.note(task.number, number, task.clock.time, counted(task)) {
            let (caches, servers) = (self.caches.report(), self.caches.fabric.report());
            cuts.note_common(number, Common { caches, servers, switches: self.switches });
        }
    }

    fn check_ended(&self) -> Result<()> {
        for task in self.tasks.iter().flatten() {
            if let State::Asleep { on, position, .. } | State::Polls { on, position, .. } = task.state {
                return Err(never(task.number, on, position));
            }
        }
        Ok(())
    }

    fn report(self) -> Report {
        let cycle = self.machine.core.cycle;
        let tasks: Vec<_> = self.tasks.into_iter().flatten().map(|task| finished(*task, cycle)).collect();
        let mut total = TaskReport { name: "all".to_owned(), ..TaskReport::default() };
        tasks.iter().for_each(|task| total.add(task));
        total.set_rate(cycle);
        let report = Report {
            time_fs: total.end_fs,
            tasks,
            caches: self.caches.report(),
            servers: self.caches.fabric.report(),
            switches: self.switches,
            exchanges: self.exchanges.done(),
            series: self.series.map(|series| series.finish(total.end_fs, self.caches.fabric.series())),
            total,
            sampled: None,
        };
        match self.cuts {
            None => report,
            Some(cuts) => cuts.whole(report, cycle),
        }
    }
}

/// What a task has done until now.
fn counted(task: &Task) -> TaskReport {
    TaskReport { stalled_fs: task.clock.stalled, instructions: task.clock.begun, ..task.report.clone() }
}

fn finished(task: Task, cycle: Time) -> TaskReport {
    let mut report = counted(&task);
    report.finish(cycle);
    report
}

/// Counts a miss by its kind.
pub(crate) fn count_miss(kinds: &mut MissKinds, miss: Option<Miss>) {
    match miss {
        None => {}
        Some(Miss::Compulsory) => kinds.compulsory += 1,
        Some(Miss::Replacement) => kinds.replacement += 1,
        Some(Miss::Coherence) => kinds.coherence += 1,
    }
}

fn check_mapping(recording: &dyn Recording, machine: &Machine, mapping: &[usize]) -> Result<()> {
    let (tasks, pus) = (recording.tasks().len(), machine.core_of_pu.len());
    if mapping.len() != tasks {
        return Err(Error::new(format!(
            "a mapping of {} for a recording of {tasks}",
            cohabit_model::counted(mapping.len(), "task")
        ))
        .remedy("make the mapping again from this recording"));
    }
    match mapping.iter().find(|&&pu| pu >= pus) {
        None => Ok(()),
        Some(pu) => {
            Err(Error::new(format!("PU {pu} of a machine with {pus}"))
                .remedy("make the mapping again for this machine"))
        }
    }
}
