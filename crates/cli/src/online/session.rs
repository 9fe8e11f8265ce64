//! An online session: a source of faults, the policy, and moving, joined. One thread does it all, and sleeps in between.

use super::Log;
use super::args::{ExtraFaults, OnlineArgs};
use super::ending::Decisions;
use super::extra::Extra;
use super::messages::Messages;
use super::node::{Node, WELCOME_EVERY, WELCOMED_SOON};
use super::report::{Report, own_cpu};
use super::sources::source;
use super::tasks::Tasks;
use super::words::{list, not_worth, saves, shown, tell_restored};
use crate::machine::MachineArgs;
use cohabit_host::CpuMask;
use cohabit_host::perf_event::Instructions;
use cohabit_map::{Options, Problem, mapper};
use cohabit_model::{Error, Result, Topology};
use cohabit_online::aging::AgedMatrix;
use cohabit_online::faults::{self, Counters, ProgressPage, Reading, Recorder, Source};
use cohabit_online::ledger::{self, Ledger};
use cohabit_online::placer::Placer;
use cohabit_online::policy::{Decision, Policy, Request, Settings, Verdict, View, are_alike, time_of_event};
use cohabit_online::progress::{Progress, Reported, Sample};
use cohabit_online::sampling::Sums;
use cohabit_online::threads;
use cohabit_online::weigh::{Scales, Seen};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest sleep: somebody may have asked to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// How often what processes share is read again.
const MAPPINGS_EVERY: Duration = Duration::from_millis(250);
/// How soon after a process has started or become another program.
const MAPPINGS_SOON: Duration = Duration::from_millis(20);
/// New tasks are looked at no more often than this: one that inherits its creator's PU is let go so much later.
const BETWEEN_ARRIVALS: Duration = Duration::from_millis(2);
/// How long the mapper may search at each interval.
const MAP_BUDGET: Duration = Duration::from_micros(500);

/// Tasks that are listed by name at the end.
const TASKS_LISTED: usize = 1024;

/// A session that follows programs.
pub struct Session {
    source: Box<dyn Source>,
    extra: Extra,
    /// What MPI ranks send one another, where any are run.
    messages: Option<Messages>,
    /// What the program says of its progress, where one is run.
    page: Option<ProgressPage>,
    instructions: Instructions,
    ledger: Ledger,
    placer: Placer,
    policy: Policy,
    matrix: AgedMatrix,
    progress: Progress,
    tasks: Tasks,
    scales: Scales,
    /// Since pairs were last read.
    some_ended: bool,
    /// Events so far, as they were weighed.
    weighed: f64,
    recorder: Recorder,
    topology: Topology,
    /// What happened.
    pub log: Log,
    args: OnlineArgs,
    started: Instant,
    faded: Duration,
    next_decision: Duration,
    next_mappings: Duration,
    counters: Counters,
    moves: u64,
    undone: u64,
    last_mapping: Vec<(u32, usize)>,
    decisions: Decisions,
    /// PUs that could not be used at the last decision.
    forbidden: Vec<usize>,
    said_crowded: bool,
    said_bound: bool,
    said_leads: bool,
    said_samples: bool,
    said_switches: bool,
    /// Whether samples after switches were tried and could not be had.
    no_switches: bool,
    /// Whether it was tried to see what processes copy.
    tried_copies: bool,
    /// Where ranks are handed over by other cohabits.
    node: Option<Node>,
}

/// The moment, for a viewer.
pub struct Snapshot<'a> {
    /// Since following began.
    pub time: Duration,
    /// The machine.
    pub topology: &'a Topology,
    /// The tasks that live.
    pub tasks: &'a Tasks,
    /// The events, faded.
    pub matrix: &'a AgedMatrix,
    /// Sums so far.
    pub counters: Counters,
    /// What happened.
    pub log: &'a Log,
    /// Until the next decision.
    pub interval: Duration,
    /// Tasks that were moved.
    pub moves: u64,
    /// Pages that were write-protected.
    pub pages_protected: u64,
    /// What the faults come from.
    pub source: &'static str,
    /// CPU time of this process.
    pub own_cpu: Duration,
}

impl Session {
    /// Gets everything ready for a program that is to be run, or for those that run; nobody is followed yet. What killed cohabits have
    /// left is put back first.
    ///
    /// # Errors
    /// Where there is no source of faults, the topology cannot be read, or nothing can be written down.
    pub fn start(args: &OnlineArgs, machine: &MachineArgs, silent: bool, command: Option<&[OsString]>) -> Result<Self> {
        let runs_program = command.is_some();
        let topology = machine.load()?;
        if !args.dry_run && machine.is_another(&topology)? {
            return Err(Error::new("tasks can only be moved on this machine, and --topology names another one")
                .remedy("add --dry-run to see what would be done there"));
        }
        let mut log = Log::new(silent);
        let (mut ledger, restored) = Ledger::open(ledger::folder())?;
        tell_restored(&mut log, &restored);
        let samples = matches!(args.faults, ExtraFaults::Auto | ExtraFaults::Sample);
        let options = faults::Options {
            block_bytes: args.block,
            sampling: samples.then_some(args.overhead),
            ..faults::Options::default()
        };
        let source = source(options, &mut log)?;
        // Nothing that others would notice is done where nothing can be gained by it.
        let may_change = !are_alike(&topology, &[]);
        let extra = Extra::start(args, runs_program, (source.samples(), may_change), &mut ledger, &mut log);
        let messages = command.and_then(|command| Messages::start(args.faults, command, &mut log));
        Ok(Self {
            source,
            extra,
            messages,
            // Without it the program is judged by what can be seen from outside.
            page: if runs_program { ProgressPage::new().ok() } else { None },
            instructions: Instructions::default(),
            ledger,
            placer: Placer::new(),
            policy: Policy::new(Settings { always: args.always, dry_run: args.dry_run }),
            matrix: AgedMatrix::default(),
            progress: Progress::default(),
            tasks: Tasks::default(),
            scales: Scales::default(),
            some_ended: false,
            weighed: 0.0,
            recorder: match args.output {
                Some(_) => Recorder::new(args.window),
                None => Recorder::new(args.window).without_series(),
            },
            topology,
            log,
            args: args.clone(),
            started: Instant::now(),
            faded: Duration::ZERO,
            next_decision: Duration::ZERO,
            next_mappings: Duration::ZERO,
            counters: Counters::default(),
            moves: 0,
            undone: 0,
            last_mapping: Vec::new(),
            decisions: Decisions::default(),
            forbidden: Vec::new(),
            said_crowded: false,
            said_bound: false,
            said_leads: false,
            said_samples: false,
            said_switches: false,
            no_switches: false,
            tried_copies: false,
            node: None,
        })
    }

    /// What the environment of a program that is to be run needs.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        let page = self.page.as_ref().map(ProgressPage::environment).map(|(name, value)| (name.to_owned(), value));
        let mut environment: Vec<(String, OsString)> = self.extra.environment().chain(page).collect();
        if let Some(messages) = &self.messages {
            messages.add_to(&mut environment);
        }
        environment
    }

    /// Follows the ranks that other cohabits of this node hand over, too.
    pub fn lead(&mut self, node: Node) {
        self.node = Some(node);
    }

    /// Follows a process and all that it starts.
    ///
    /// # Errors
    /// Where it is gone, or not this user's.
    pub fn follow(&mut self, process: i32) -> Result<()> {
        self.source.follow(process)?;
        self.count_instructions(process);
        self.read(true)?;
        self.say_of_samples(self.started.elapsed());
        Ok(())
    }

    /// Detects, maps and moves until all tasks have ended, or `stop` is set.
    ///
    /// # Errors
    /// Where the source or the mapper breaks down, or nothing can be written down.
    pub fn run(&mut self, stop: &AtomicBool, view: &mut dyn FnMut(&Snapshot)) -> Result<()> {
        while !stop.load(Ordering::SeqCst) {
            self.welcome()?;
            let due = self.started.elapsed() >= self.next_decision.min(self.next_mappings);
            let somebody_came = self.read(due)?;
            if self.tasks.living.is_empty() && self.tasks.started > 0 {
                break;
            }
            let now = self.started.elapsed();
            if now >= self.next_mappings {
                self.source.refresh()?;
                let (interval, ran) = (self.policy.interval.get(), self.tasks.progress(now).ran);
                self.extra.ran(ran, self.counters.sampled);
                self.sample_switches(now);
                self.see_copies(now);
                self.extra.refresh(now, self.counters.faults, interval, &self.tasks, &mut self.log);
                self.extra.limit_hint_faults(now, &mut self.ledger, &mut self.log);
                self.next_mappings = now + MAPPINGS_EVERY;
                view(&self.snapshot(now));
            }
            if now >= self.next_decision {
                self.decide(now)?;
                self.next_decision = self.started.elapsed() + self.policy.interval.get();
            }
            let next = self.next_decision.min(self.next_mappings);
            let sleep = next.saturating_sub(self.started.elapsed()).min(LONGEST_SLEEP);
            let sleep = self.extra.protect(now).map_or(sleep, |pace| sleep.min(pace));
            let sightings = self.source.take_sightings();
            self.extra.see(now, &sightings, &self.tasks);
            let watch_again = self.extra.watch(now, &self.tasks);
            let sleep = watch_again.map_or(sleep, |next| sleep.min(next.saturating_sub(self.started.elapsed())));
            let ranks_may_come = self.node.is_some() && now < WELCOMED_SOON;
            let sleep = if ranks_may_come { sleep.min(WELCOME_EVERY) } else { sleep };
            if somebody_came {
                // Where many come and go, they are taken together.
                thread::sleep(sleep.min(BETWEEN_ARRIVALS));
            }
            self.source.wait(if somebody_came { sleep.saturating_sub(BETWEEN_ARRIVALS) } else { sleep });
        }
        if let Some(messages) = &mut self.messages {
            messages.come_to_an_end();
        }
        self.read(true).map(drop)
    }

    /// Puts everything back and says how it went.
    ///
    /// # Errors
    /// Where something cannot be put back; it stays written down for `cohabit restore`.
    pub fn finish(mut self) -> Result<Report> {
        let time = self.started.elapsed();
        self.say_of_other_nodes(time);
        self.placer.let_all_go(&mut self.ledger)?;
        for (path, value) in self.ledger.reset_settings()? {
            self.log.tell(time, "restored", format!("{} is {value} again", path.display()), Vec::new());
        }
        // The profile keeps the first ones only, where there are very many.
        let task_count = self.tasks.started as usize;
        let tasks = self.recorder.tasks().iter().take(TASKS_LISTED).cloned().collect();
        let and_sampled = if self.counters.sampled.samples > 0 { ", and samples" } else { "" };
        let and_watched = if self.extra.watched().windows > 0 { ", and watchpoints" } else { "" };
        let messages = self.messages.map(|messages| messages.sums).unwrap_or_default();
        let and_counted = if messages.messages > 0 { ", and messages" } else { "" };
        let made_by = format!("{}{and_sampled}{and_watched}{and_counted}", self.source.name());
        let profile = self.recorder.profile(self.args.block, &made_by);
        let mut usable = self.topology;
        self.forbidden.iter().for_each(|&pu| usable.pus[pu].allowed = false);
        let ending = self.decisions.ending(task_count, &usable);
        Ok(Report {
            profile,
            tasks,
            task_count,
            log: self.log,
            counters: self.counters,
            source: self.source.name(),
            moves: self.moves,
            undone: self.undone,
            ending,
            time,
            own_cpu: own_cpu(),
            pages_protected: self.extra.pages_protected(),
            watched: self.extra.watched(),
            messages,
            programs_with_agent: self.extra.programs_with_agent(),
        })
    }

    /// Follows the processes that other cohabits of this node have handed over, and lets them become their programs.
    fn welcome(&mut self) -> Result<()> {
        let newcomers = self.node.as_ref().map(Node::newcomers).unwrap_or_default();
        for newcomer in newcomers {
            let now = self.started.elapsed();
            if !self.said_leads {
                self.said_leads = true;
                self.log.tell(now, "source", "watching the other ranks on this node too".to_owned(), Vec::new());
            }
            if let Err(error) = self.source.follow(newcomer.pid) {
                let text = format!("process {} goes on unwatched: {}", newcomer.pid, error.cause);
                self.log.tell(now, "warning", text, Vec::new());
            }
            self.count_instructions(newcomer.pid);
            newcomer.answer(&self.environment());
        }
        Ok(())
    }

    /// Has samples taken after switches while the others tell too little. Where that cannot be had, the rest goes on.
    fn sample_switches(&mut self, now: Duration) {
        let wanted = self.extra.wants_switches() && !self.no_switches;
        let (what, text) = match self.source.sample_switches(wanted) {
            Ok(false) => return,
            Ok(true) if std::mem::replace(&mut self.said_switches, true) => return,
            Ok(true) => ("source", switches_too(self.counters.sampled).to_owned()),
            Err(error) => {
                self.no_switches = true;
                ("warning", format!("no samples after switches to tasks: {}", error.cause))
            }
        };
        self.log.tell(now, what, text, Vec::new());
    }

    /// Has what processes copy from one another seen, once there are several; that of ranks that are counted is known.
    fn see_copies(&mut self, now: Duration) {
        if self.tried_copies || self.messages.is_some() || self.tasks.process_count() < 2 {
            return;
        }
        self.tried_copies = true;
        let (what, text) = match self.source.see_copies() {
            Ok(()) => ("source", "what processes copy from one another's memory (process_vm_readv)".to_owned()),
            Err(error) => {
                ("warning", format!("what processes copy from one another's memory is not seen: {}", error.cause))
            }
        };
        self.log.record(now, what, text, self.args.verbose);
    }

    /// Says whether tasks are left out of the samples.
    fn say_of_samples(&mut self, now: Duration) {
        let left_out = self.counters.tasks_not_sampled;
        if left_out > 0 && !std::mem::replace(&mut self.said_samples, true) {
            let text = format!(
                "{left_out} tasks are not sampled: too many files would be open (ulimit -Hn); eBPF, as root, needs none"
            );
            self.log.tell(now, "warning", text, Vec::new());
        }
    }

    /// Says what of a job cannot be seen or placed from here.
    fn say_of_ranks(&mut self, now: Duration) {
        if !self.said_bound && self.tasks.ranks_are_bound() {
            self.said_bound = true;
            let text = "the launcher binds its ranks, so they stay where they are (--bind-to none, or srun's --cpu-bind=none, leaves them to cohabit)";
            self.log.tell(now, "warning", text.to_owned(), Vec::new());
        }
    }

    fn say_of_other_nodes(&mut self, now: Duration) {
        let (seen, size) = (self.tasks.ranks.len(), self.tasks.ranks.values().flatten().max());
        let missing = size.map_or(0, |&size| (size as usize).saturating_sub(seen));
        if self.node.is_none() && missing > 0 {
            let text = format!(
                "{missing} of {} ranks were not seen: they ran on other nodes (`mpirun ... cohabit run -- CMD` watches on each)",
                seen + missing
            );
            self.log.tell(now, "warning", text, Vec::new());
        }
    }

    fn snapshot(&self, time: Duration) -> Snapshot<'_> {
        Snapshot {
            time,
            topology: &self.topology,
            tasks: &self.tasks,
            matrix: &self.matrix,
            counters: self.counters,
            log: &self.log,
            interval: self.policy.interval.get(),
            moves: self.moves,
            pages_protected: self.extra.pages_protected(),
            source: self.source.name(),
            own_cpu: own_cpu(),
        }
    }

    /// Takes what was seen; whether tasks came or went.
    fn read(&mut self, with_pairs: bool) -> Result<bool> {
        let Reading { tasks, pairs: mut seen, mut counters } = self.source.read(with_pairs)?;
        let now = self.started.elapsed();
        if let Some(messages) = &mut self.messages {
            messages.see(&tasks);
        }
        if with_pairs {
            seen.extend(self.extra.take_watched());
            self.take_messages(now, &mut seen);
        }
        self.extra.saw(&seen);
        counters.events += self.extra.watched().events;
        let pairs = self.scales.weigh(now, &seen);
        self.weighed += pairs.iter().map(|pair| pair.2 as f64).sum::<f64>();
        self.recorder.add_tasks(&tasks);
        self.recorder.add(&seen, &pairs, counters, now);
        let (mut ended, any) = (BTreeSet::new(), !tasks.is_empty());
        for event in tasks {
            // Another program or process maps its memory soon.
            let maps_soon = match event {
                faults::TaskEvent::Exec { .. } => true,
                faults::TaskEvent::Started { tid, process, .. } => tid == process,
                faults::TaskEvent::Ended { .. } => false,
            };
            if maps_soon {
                self.next_mappings = self.next_mappings.min(now + MAPPINGS_SOON);
            }
            self.tasks.event(&event, &mut self.placer, &mut self.ledger)?;
            self.name_task(&event);
            if let faults::TaskEvent::Ended { task } = event {
                ended.insert(task);
            }
        }
        self.matrix.forget(&ended);
        self.some_ended |= !ended.is_empty();
        if with_pairs {
            if std::mem::take(&mut self.some_ended) {
                self.scales.retain(|task| self.tasks.living.contains_key(&task));
            }
            // Not each time somebody comes or goes, which may be thousands of times a second.
            self.matrix.fade(now - self.faded);
            self.faded = now;
        }
        // Blocks remember tasks for a while after they have ended.
        let lives = |task: u32| self.tasks.living.contains_key(&task);
        let living = pairs.into_iter().filter(|&(a, b, _)| lives(a) && lives(b));
        living.for_each(|(a, b, events)| self.matrix.add(a, b, events));
        for seen in seen.iter().filter(|seen| seen.met + seen.sampled > 0 && lives(seen.pair.0) && lives(seen.pair.1)) {
            self.matrix.tell_change_by(seen.pair.0, seen.pair.1, seen.met, seen.sampled);
        }
        self.counters = counters;
        Ok(any)
    }

    /// Adds what ranks have sent one another. What faults show of these is the same, seen less well.
    fn take_messages(&mut self, now: Duration, seen: &mut Vec<Seen>) {
        let Some(messages) = &mut self.messages else { return };
        let (sent, are_new) = messages.take(now, &mut self.log);
        self.extra.ranks_are_counted |= !sent.is_empty();
        let process = |task: u32| self.tasks.living.get(&task).map_or(0, |living| living.process);
        for seen in seen.iter_mut().filter(|seen| messages.know(process(seen.pair.0), process(seen.pair.1))) {
            (seen.used, seen.written) = (0, 0);
        }
        if are_new {
            let ranks = self.tasks.living.iter().filter(|(_, living)| living.rank.is_some());
            self.matrix.forget(&ranks.map(|(&task, _)| task).collect());
            self.recorder.forget_faults(|a, b| messages.know(a, b));
        }
        seen.extend(sent);
    }

    /// Of all threads of a process that are there, and so of all that comes of them.
    fn count_instructions(&mut self, process: i32) {
        for tid in threads::of_process(process) {
            if !self.instructions.follow(tid) {
                return;
            }
        }
    }

    /// How far the program has come.
    fn sample(&mut self, now: Duration) -> Sample {
        let reported = self.page.as_ref().and_then(ProgressPage::read);
        let reported = reported.map(|(units, reports)| Reported { units: units as f64, reports: reports as f64 });
        Sample { reported, instructions: self.instructions.total(), ..self.tasks.progress(now) }
    }

    /// As they are called now; those of ranks by their ranks.
    fn name_tasks(&mut self) {
        for (&task, living) in self.tasks.living.iter().filter(|(_, living)| !living.name.is_empty()) {
            self.recorder.name(task, &living.name);
            self.recorder.rank(task, living.rank);
            self.recorder.ran(task, living.ran);
        }
    }

    /// Names a task that has come or changed: it may end before the next decision.
    fn name_task(&mut self, event: &faults::TaskEvent) {
        let (faults::TaskEvent::Started { task, .. } | faults::TaskEvent::Exec { task, .. }) = *event else { return };
        if let Some(living) = self.tasks.living.get(&task).filter(|living| !living.name.is_empty()) {
            self.recorder.name(task, &living.name);
            self.recorder.rank(task, living.rank);
        }
    }

    fn decide(&mut self, now: Duration) -> Result<()> {
        self.tasks.look(&mut self.placer, &mut self.ledger);
        self.name_tasks();
        self.say_of_ranks(now);
        let sample = self.sample(now);
        self.progress.add(sample);
        let has_changed = self.matrix.look_for_change();
        if has_changed {
            let text = "tasks communicate otherwise than before, which is forgotten".to_owned();
            self.log.record(now, "changed", text, self.args.verbose);
            self.source.forget_samples();
        }
        let talking: BTreeSet<u32> = self.matrix.iter().flat_map(|(a, b, _)| [a, b]).collect();
        let tasks = self.tasks.view(&self.topology, |task| talking.contains(&task));
        let forbidden = self.forbidden(tasks.len());
        let view = View {
            now,
            topology: &self.topology,
            tasks: &tasks,
            forbidden: &forbidden,
            matrix: &self.matrix,
            has_changed,
            event: self.time_of_event(sample.ran),
            progress: &self.progress,
        };
        let decision = self.policy.decide(&view, &map)?;
        if !decision.mapping.is_empty() {
            self.last_mapping.clone_from(&decision.mapping);
        }
        self.decisions.add(decision.verdict);
        self.forbidden = forbidden;
        self.apply(now, decision)
    }

    /// What an event stands for, on average, where the tasks have run so long.
    fn time_of_event(&self, ran: Duration) -> Duration {
        let sampled = self.counters.sampled;
        let apart = ran.checked_div(sampled.samples.try_into().unwrap_or(u32::MAX)).unwrap_or_default();
        // Samples after switches find tasks at work more often than they are.
        let telling = (sampled.telling + sampled.telling_after_switches).max(1);
        let apart = apart.mul_f64(sampled.telling as f64 / telling as f64);
        time_of_event(self.weighed, sampled.events as f64, apart)
    }

    /// PUs that are not to be used: those that the program may not use, and those that other cohabits have put threads on,
    /// as long as enough are left.
    fn forbidden(&mut self, tasks: usize) -> Vec<usize> {
        let usable: CpuMask = self.placer.usual();
        let is_allowed = |pu: &usize| self.args.dry_run || usable.contains(self.topology.pus[*pu].os_index);
        let (allowed, mut forbidden): (Vec<usize>, Vec<usize>) = (0..self.topology.pus.len()).partition(is_allowed);
        let theirs: BTreeSet<u32> = self.ledger.used_by_others().into_iter().collect();
        let (taken, left): (Vec<usize>, Vec<usize>) =
            allowed.into_iter().partition(|pu| theirs.contains(&self.topology.pus[*pu].os_index));
        if left.len() >= tasks {
            forbidden.extend(taken);
        } else if !taken.is_empty() && !self.said_crowded {
            self.said_crowded = true;
            let text = "other cohabits use PUs here, and too few are free: they are shared".to_owned();
            self.log.tell(self.started.elapsed(), "warning", text, Vec::new());
        }
        forbidden
    }

    fn apply(&mut self, now: Duration, decision: Decision) -> Result<()> {
        let os = |pu: usize| self.topology.pus[pu].os_index;
        let told: Vec<(u32, Option<u32>)> = decision.moves.iter().map(|&(task, pu)| (task, pu.map(os))).collect();
        let moves: Vec<(i32, Option<u32>)> =
            told.iter().filter_map(|&(task, pu)| Some((self.tasks.living.get(&task)?.tid, pu))).collect();
        if !moves.is_empty() {
            for (tid, cause) in self.placer.place(&mut self.ledger, &moves)? {
                self.log.tell(now, "warning", format!("thread {tid} could not be moved: {cause}"), Vec::new());
            }
            self.matrix.migrated();
            self.moves += moves.len() as u64;
        }
        self.say(now, &decision, told);
        Ok(())
    }

    fn say(&mut self, now: Duration, decision: &Decision, moves: Vec<(u32, Option<u32>)>) {
        let keep = |log: &mut Log, reason: &'static str, text: String| log.keep(now, reason, text, self.args.verbose);
        let log = &mut self.log;
        match decision.verdict {
            Verdict::AllAlike => {
                keep(log, "alike", "all PUs are equally far from one another, so nothing is moved".to_owned());
            }
            Verdict::TooFewEvents => keep(log, "few", "too few events yet to say anything".to_owned()),
            Verdict::NoStructure => {
                keep(log, "flat", "no structure: all tasks communicate alike, so no placement is better".to_owned());
            }
            Verdict::Holds => keep(log, "holds", "the tasks are where the mapping has them".to_owned()),
            Verdict::Uncertain(gain) => keep(log, "uncertain", format!("{}: it may be chance", saves(gain))),
            Verdict::NotWorth(gain, saved) => keep(log, "not worth", not_worth(gain, saved)),
            Verdict::TriedBefore(gain) => keep(log, "tried", format!("{}, but it was tried and hurt", saves(gain))),
            Verdict::TooSoon(gain) => {
                keep(log, "too soon", format!("{}: first it is seen how the program does without", saves(gain)));
            }
            Verdict::Watching => keep(log, "watching", "the last move is being watched".to_owned()),
            Verdict::Moved(gain) => {
                log.tell(now, "moved", format!("moved {}: {}", list(&moves, &self.tasks), saves(gain)), moves);
                log.forget_kept();
            }
            Verdict::WouldMove(gain) => {
                let os = |pu: usize| self.topology.pus[pu].os_index;
                let moves: Vec<(u32, Option<u32>)> =
                    decision.mapping.iter().map(|&(task, pu)| (task, Some(os(pu)))).collect();
                let text = format!("would move {}: {}", list(&moves, &self.tasks), saves(gain));
                // Over and over, as nothing is done about it.
                if log.entries.last().is_none_or(|last| last.what != "would-move") || self.args.verbose {
                    log.tell(now, "would-move", text, moves);
                }
            }
            Verdict::Proved(effect) => log.tell(now, "proved", format!("the move stays: {}", shown(effect)), moves),
            Verdict::Undone(effect) => {
                self.undone += 1;
                log.tell(now, "undone", format!("undone, for it hurt: {}", shown(effect)), moves);
                log.forget_kept();
            }
        }
    }
}

/// That samples are taken shortly after switches too, and what the others show that tell too little.
fn switches_too(sampled: Sums) -> &'static str {
    if sampled.waiting > sampled.samples / 2 {
        "samples shortly after switches to tasks too, while the others mostly find them waiting"
    } else {
        "samples shortly after switches to tasks too, while the others tell too little"
    }
}

/// The mapper's own terms for what the policy asks.
fn map(request: &Request) -> Result<Vec<usize>> {
    let options = Options {
        pins: request.fixed.to_vec(),
        forbidden: request.forbidden.to_vec(),
        present: request.present.to_vec(),
        move_cost: request.move_cost,
        budget: Some(MAP_BUDGET),
        ..Options::default()
    };
    let problem = Problem {
        weight: request.weight,
        load: request.load,
        periods: &[],
        topology: request.topology,
        options: &options,
    };
    mapper("best")?.map(&problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_said_to_wait_where_no_sample_shows_it() {
        for (samples, waiting, says_so) in [(0, 0, false), (100, 0, false), (100, 40, false), (100, 60, true)] {
            let text = switches_too(Sums { samples, waiting, ..Sums::default() });
            assert_eq!(text.contains("waiting"), says_so, "{samples} {waiting}");
        }
    }
}
