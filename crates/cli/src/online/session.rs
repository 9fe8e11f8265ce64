//! An online session: a source of faults, the policy, and moving, joined. One thread does it all, and sleeps in
//! between.

mod deciding;
mod reading;
mod saying;
mod watching;

use super::Log;
use super::args::OnlineArgs;
use super::ending::Decisions;
use super::extra::Extra;
use super::following::Following;
use super::messages::Messages;
use super::node::{Node, WELCOME_EVERY, WELCOMED_SOON};
use super::report::{Report, own_cpu};
use super::sources::source;
use super::tasks::Tasks;
use super::words::tell_restored;
use crate::machine::MachineArgs;
use cohabit_host::perf_event::Instructions;
use cohabit_model::{Error, Result, Topology};
use cohabit_online::aging::AgedMatrix;
use cohabit_online::faults::{Counters, ProgressPage, Recorder, Source};
use cohabit_online::ledger::{self, Ledger};
use cohabit_online::placer::Placer;
use cohabit_online::policy::{Policy, Settings, are_alike};
use cohabit_online::progress::Progress;
use cohabit_online::sure::Sureness;
use cohabit_online::ways::Way;
use cohabit_online::weigh::Weigher;
use std::collections::BTreeMap;
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
    weigher: Weigher,
    /// Events since tasks last communicated otherwise than before, not faded, and when that was.
    since_change: BTreeMap<(u32, u32), f64>,
    changed: Duration,
    sure: Sureness,
    /// When it was first known of all pairs.
    sure_at: Option<Duration>,
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
    said_pmu: bool,
    said_switches: bool,
    /// Whether samples after switches were tried and could not be had.
    no_switches: bool,
    /// Whether it was tried to see what processes copy.
    tried_copies: bool,
    /// Where ranks are handed over by other cohabits.
    node: Option<Node>,
    /// The phases of a mapping that are to be recognised: then nothing else is decided.
    following: Option<Following>,
    next_look: Duration,
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
    /// How sure it is who communicates.
    pub sure: Sureness,
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
    /// Gets everything ready for a program that is to be run, or for those that run; nobody is followed yet. What
    /// killed cohabits have left is put back first.
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
        let (mut ledger, restored) = Ledger::open(ledger::folders())?;
        tell_restored(&mut log, &restored);
        let source = source(args, &mut log)?;
        // Nothing that others would notice is done where nothing can be gained by it.
        let may_change = !are_alike(&topology, &[]);
        let extra = Extra::start(args, runs_program, (source.samples(), may_change), &mut ledger, &mut log);
        let messages = command.filter(|_| args.takes(Way::Messages));
        let messages = messages.and_then(|command| Messages::start(command, &mut log));
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
            weigher: Weigher::default(),
            since_change: BTreeMap::new(),
            changed: Duration::ZERO,
            sure: Sureness::default(),
            sure_at: None,
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
            said_pmu: false,
            said_switches: false,
            no_switches: false,
            tried_copies: false,
            node: None,
            following: None,
            next_look: Duration::ZERO,
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

    /// Decides nothing by itself, but recognises these phases.
    pub fn follow_phases(&mut self, following: Following) {
        self.following = Some(following);
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
            if let (Some(slice), true) = (self.slice(), now >= self.next_decision) {
                self.recognise(now);
                self.next_decision = now + slice;
            } else if now >= self.next_decision {
                self.decide(now)?;
                if self.args.until_sure && self.sure.is_sure() {
                    break;
                }
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
        for (tid, cause) in self.placer.let_all_go(&mut self.ledger)?.failed {
            let text =
                format!("the affinity of thread {tid} could not be put back: {cause}; 'cohabit restore' tries again");
            self.log.tell(time, "warning", text, Vec::new());
        }
        for (path, value) in self.ledger.reset_settings()? {
            self.log.tell(time, "restored", format!("{} is {value} again", path.display()), Vec::new());
        }
        // The profile keeps the first ones only, where there are very many.
        let task_count = self.tasks.started as usize;
        let tasks = self.recorder.tasks().iter().take(TASKS_LISTED).cloned().collect();
        let and_sampled =
            if self.counters.sampled.samples + self.counters.sampled.by_pmu > 0 { ", and samples" } else { "" };
        let and_watched = if self.extra.watched().windows > 0 { ", and watchpoints" } else { "" };
        let messages = self.messages.map(|messages| messages.sums).unwrap_or_default();
        let and_counted = if messages.messages > 0 { ", and messages" } else { "" };
        let made_by = format!("{}{and_sampled}{and_watched}{and_counted}", self.source.name());
        let of_kinds = self.recorder.of_kinds();
        let profile = self.recorder.profile(self.args.block, &made_by, &self.weigher.weights());
        let mut usable = self.topology;
        self.forbidden.iter().for_each(|&pu| usable.pus[pu].allowed = false);
        let ending = self.decisions.ending(task_count, &usable);
        Ok(Report {
            profile,
            tasks,
            task_count,
            log: self.log,
            followed: self.following.map(Following::finish),
            counters: self.counters,
            source: self.source.name(),
            of_kinds,
            weights: self.weigher.weights(),
            sure: self.sure,
            sure_at: self.sure_at,
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

    fn snapshot(&self, time: Duration) -> Snapshot<'_> {
        Snapshot {
            time,
            topology: &self.topology,
            tasks: &self.tasks,
            matrix: &self.matrix,
            counters: self.counters,
            log: &self.log,
            sure: self.sure,
            interval: self.policy.interval.get(),
            moves: self.moves,
            pages_protected: self.extra.pages_protected(),
            source: self.source.name(),
            own_cpu: own_cpu(),
        }
    }
}
