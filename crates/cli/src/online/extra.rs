//! What shows more than the program's own page faults: extra faults, NUMA balancing's and the agent's, and how many
//! there may be, and watchpoints.

use super::Log;
use super::args::OnlineArgs;
use super::hints::Hints;
use super::tasks::Tasks;
use cohabit_online::allowance::own_time;
use cohabit_online::evidence::{Evidence, Kind};
use cohabit_online::faults::{ARM_EVERY, Agent, LEAST_A_TASK, Others, PageAllowance, PageBudget, Watched};
use cohabit_online::ledger::Ledger;
use cohabit_online::sampling::{Sighting, Sums, Switches, Telling};
use cohabit_online::threads;
use cohabit_online::watch::{self, Watcher};
use cohabit_online::ways::{Wanted, Way};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// Pairs that watchpoints have shown when the agent may do as little as where a mapping has held for long.
const ENOUGH_WATCHED: u64 = 50;
/// The mapping interval then.
const LITTLE_TO_FIND_OUT: Duration = Duration::from_secs(2);

/// Pairs that hint faults or watchpoints have shown when the agent is not all there is to go by.
const ENOUGH_OTHERS: u64 = 200;

/// Of running time, how much there is from one look at all samples to the next, and at those that come at regular
/// times: what these lack is made up for by others before anything else is.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOK_SOON: Duration = Duration::from_millis(500);

/// How often it protects pages, at most, while samples tell enough: those that processes share.
const SELDOM: Duration = Duration::from_millis(50);

/// How many times as much watchpoints may take where there are neither hint faults nor samples: what these might have
/// taken, too.
const WITHOUT_HINT_FAULTS: f64 = 1.5;

/// What makes extra faults in a session, and watches.
pub struct Extra {
    watcher: Option<Watcher>,
    agent: Option<Agent>,
    /// What the agent may do: the share that was asked for, in percent, and what that is now.
    percent: f64,
    pages: PageBudget,
    allowance: PageAllowance,
    hints: Hints,
    /// How long the tasks have run, when last looked at.
    ran: Duration,
    /// What else than the agent there is, and how many pairs it has shown.
    others: Others,
    others_show: u64,
    /// Whether it is known of every pair of tasks whether it communicates: then nothing is watched while samples tell.
    pub is_sure: bool,
    /// Whether several processes are followed, which may share memory.
    has_several: bool,
    /// Whether these are MPI ranks of which all messages are known.
    pub ranks_are_counted: bool,
    /// While samples tell what the programs do, nothing is watched, and no fault is caused but a few on memory that
    /// processes share: there is little of it, messages go through it, and samples seldom find a task there.
    samples: Telling,
    /// Those that come at regular times, alone: where they tell too little, others are taken shortly after switches.
    regular: Telling,
    /// Whether these show more than the others.
    switches: Switches,
    /// Whether they may be taken.
    may_sample_switches: bool,
}

impl Extra {
    /// Gets ready what was asked for, as far as it works here, and says so. The agent is for programs that are run.
    /// `samples` is whether the source of faults samples tasks, too, and `may_change` whether settings of the machine
    /// may be changed that nobody asked for.
    pub fn start(
        args: &OnlineArgs,
        runs_program: bool,
        (samples, may_change): (bool, bool),
        ledger: &mut Ledger,
        log: &mut Log,
    ) -> Self {
        let hints = match args.takes(Way::Hint) && (may_change || args.faults == Wanted::Only(Way::Hint)) {
            true => Hints::start(args.overhead(), samples, ledger, log),
            false => Hints::none(args.overhead()),
        };
        say_what_faults_miss(args.faults, log);
        let times = if hints.are_there() || samples { 1.0 } else { WITHOUT_HINT_FAULTS };
        let watcher = if args.takes(Way::Watch) { watcher(args.overhead() * times, samples, log) } else { None };
        let others = if hints.are_there() || watcher.is_some() { Others::Few } else { Others::None };
        Self {
            watcher,
            agent: if args.takes(Way::Agent) && runs_program { agent(log) } else { None },
            percent: args.fault_budget,
            pages: PageBudget::new(args.fault_budget),
            allowance: PageAllowance::new(others, args.overhead()),
            others,
            hints,
            ran: Duration::ZERO,
            others_show: 0,
            is_sure: false,
            has_several: false,
            ranks_are_counted: false,
            samples: Telling::new(samples, LOOK_EVERY),
            regular: Telling::new(samples, LOOK_SOON),
            switches: Switches::default(),
            may_sample_switches: samples && args.may_sample_switches(),
        }
    }

    /// How long the tasks have run, and what samples have shown.
    pub fn ran(&mut self, ran: Duration, sampled: Sums) {
        self.ran = ran;
        self.regular.look(ran, sampled.telling);
        self.switches.look(ran, &sampled);
        self.samples.look(ran, sampled.telling + sampled.telling_after_switches);
    }

    /// Whether samples are to be taken after switches too: where the others tell too little, and, until it is known who
    /// communicates, where they show more of that.
    pub fn wants_switches(&self) -> bool {
        self.may_sample_switches && (self.needs_switches() || !self.is_sure && self.switches.are_wanted(self.ran))
    }

    /// Whether samples at regular times tell too little.
    pub fn needs_switches(&self) -> bool {
        !self.regular.tells()
    }

    /// Whether samples after switches show more than the others.
    pub fn switches_show_more(&self) -> bool {
        self.switches.are_worth()
    }

    /// What the environment of a program needs for the agent.
    pub fn environment(&self) -> impl Iterator<Item = (String, OsString)> {
        let agent = self.agent.as_ref().map(Agent::environment);
        agent.into_iter().flatten().map(|(name, value)| (name.to_owned(), value))
    }

    /// Looks at the programs again; to be called a few times a second. `faults` is how many there have been, `interval`
    /// the mapping interval.
    pub fn refresh(&mut self, now: Duration, faults: u64, interval: Duration, tasks: &Tasks, log: &mut Log) {
        let shown = self.watched().events;
        let Some(agent) = &mut self.agent else { return };
        let before = agent.announced;
        agent.welcome(|process| tasks.living.values().any(|living| living.process == process));
        if before == 0 && agent.announced > 0 {
            let text = format!(
                "extra faults by the agent{} (userfaultfd: writes; at most {} % of the pages in use a second, or {} a task)",
                if self.samples.are_taken() {
                    " while samples tell too little, and on what processes share"
                } else {
                    ""
                },
                self.percent,
                LEAST_A_TASK
            );
            log.tell(now, "setting", text, Vec::new());
        }
        let mut count: BTreeMap<i32, usize> = BTreeMap::new();
        tasks.living.values().for_each(|living| *count.entry(living.process).or_default() += 1);
        self.has_several = count.len() > 1 && !self.ranks_are_counted;
        if self.samples.tells() && !self.has_several {
            return agent.forget(|process| !count.contains_key(&process));
        }
        agent.refresh(self.samples.tells());
        let watched = |(process, tasks)| Watched { process, tasks, resident_pages: threads::resident_pages(process) };
        let watched: Vec<Watched> = count.into_iter().map(watched).collect();
        // Watchpoints and samples show what the agent would, and more of it.
        let interval =
            if shown >= ENOUGH_WATCHED || self.samples.tells() { interval.max(LITTLE_TO_FIND_OUT) } else { interval };
        self.pages.update(now, faults, agent.armed_pages, interval, &watched);
    }

    /// Turns hint faults on where they are needed, and holds them to what they may take.
    pub fn limit_hint_faults(&mut self, now: Duration, ledger: &mut Ledger, log: &mut Log) {
        self.hints.limit(now, self.ran, self.samples.tells(), ledger, log);
    }

    /// Watches places of the programs' memory, as far as that may take time: when to come again, where it does.
    pub fn watch(&mut self, now: Duration, tasks: &Tasks) -> Option<Duration> {
        let living = tasks.living.iter();
        let living = living.map(|(&task, living)| watch::Living { task, tid: living.tid, process: living.process });
        let is_needed = !self.is_sure || !self.samples.tells();
        let watcher = self.watcher.as_mut().filter(|watcher| is_needed || watcher.is_watching())?;
        Some(watcher.step(now, self.ran, living))
    }

    /// Tasks were seen at these places by samples.
    pub fn see(&mut self, now: Duration, sightings: &[Sighting], tasks: &Tasks) {
        if let Some(watcher) = &mut self.watcher {
            watcher.see(now, sightings, |task| Some(tasks.living.get(&task)?.process));
        }
    }

    /// Who used the same places since the last call.
    pub fn take_watched(&mut self, now: Duration) -> Vec<Evidence> {
        self.watcher.as_mut().map(|watcher| watcher.take(now).collect()).unwrap_or_default()
    }

    /// Pairs that were seen, by whatever.
    pub fn saw(&mut self, seen: &[Evidence]) {
        let is_other = |seen: &&Evidence| matches!(seen.kind, Kind::Used | Kind::Watched | Kind::Sampled);
        self.others_show += seen.iter().filter(is_other).map(|seen| seen.count).sum::<u64>();
        if self.others == Others::Few && self.others_show >= ENOUGH_OTHERS {
            self.others = Others::Many;
        }
    }

    /// What was watched so far.
    pub fn watched(&self) -> watch::Sums {
        self.watcher.as_ref().map(|watcher| watcher.sums).unwrap_or_default()
    }

    /// Protects pages of programs with the agent, as far as the budget goes. When to come again, where there are such
    /// programs.
    pub fn protect(&mut self, now: Duration) -> Option<Duration> {
        let tells = self.samples.tells();
        let agent = self.agent.as_mut().filter(|agent| (!tells || self.has_several) && agent.has_processes())?;
        let (began, before) = (own_time(), agent.armed_pages);
        let is_left = self.allowance.is_left(if tells { Others::Many } else { self.others }, self.ran);
        agent.arm(now, |process| if is_left { self.pages.rate(process) } else { 0.0 });
        self.allowance.take(agent.armed_pages - before, own_time().saturating_sub(began));
        Some(self.pages.pace(if tells { SELDOM } else { ARM_EVERY }))
    }

    /// Pages that the agent has protected.
    pub fn pages_protected(&self) -> u64 {
        self.agent.as_ref().map_or(0, |agent| agent.armed_pages)
    }

    /// Programs whose agent has answered.
    pub fn programs_with_agent(&self) -> u64 {
        self.agent.as_ref().map_or(0, |agent| agent.announced)
    }
}

/// Says what page faults alone cannot show here.
fn say_what_faults_miss(which: Wanted, log: &mut Log) {
    let mut tell = |what, text: &str| log.tell(Duration::ZERO, what, text.to_owned(), Vec::new());
    if which == Wanted::Nothing {
        tell("source", "no extra faults: each page is seen once, when it is first touched");
    }
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if which.has(Way::Hint) && huge.contains("[always]") {
        tell(
            "warning",
            "transparent huge pages are on: a fault shows 2 MiB as one place, so less is seen of memory in them",
        );
    }
}

/// Watchpoints, if they work here, which is said.
fn watcher(overhead_percent: f64, samples: bool, log: &mut Log) -> Option<Watcher> {
    let mut tell = |what, text: String| log.tell(Duration::ZERO, what, text, Vec::new());
    match Watcher::start(overhead_percent) {
        Ok(watcher) => {
            let places = if samples {
                "where samples have seen a task, until all pairs are told apart"
            } else {
                "drawn at random"
            };
            tell("source", format!("watchpoints: who reads or writes the same places, {places}"));
            Some(watcher)
        }
        Err(error) => {
            let remedy = error.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            tell("warning", format!("no watchpoints: {}{remedy}", error.cause));
            None
        }
    }
}

/// The agent, where it works here.
fn agent(log: &mut Log) -> Option<Agent> {
    match Agent::start() {
        Ok(agent) => Some(agent),
        Err(error) => {
            log.tell(Duration::ZERO, "warning", format!("no agent: {}", error.cause), Vec::new());
            None
        }
    }
}
