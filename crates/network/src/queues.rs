//! A phase followed message by message: what waits in a port behind what came before it, which depends on the order in
//! which tasks send.
//!
//! Not in the IBM report, whose estimator ignores order (section 5) and what is said before a message is sent (its
//! third footnote). Where every task sends to every other the estimator has most mappings alike; which ports stand idle
//! at first and have too much to do later is a matter of who is sent to first. Here ports serve first what comes first
//! and hold as much as waits. A message that is asked for first
//! ([`Port::asks_from`](cohabit_model::hct::Port::asks_from)) is sent when the answer has come back, behind what the
//! other task sends the same way. Where a collective goes step by step a task's next message waits for the one before
//! it, and for what the task is sent meanwhile.

use crate::Phase;
use crate::estimator::{self, check};
use cohabit_model::Hct;
use cohabit_model::Result;
use cohabit_model::hct::{Direction, Numbers};
use cohabit_model::pattern::Pattern;
use cohabit_model::profile::SentBy;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// Messages go through ports in pieces of so many bytes, but in [`MOST_PIECES`] at most.
const PIECE: f64 = 4.0 * 1024.0;
const MOST_PIECES: f64 = 16.0;

/// So much of a message is in its sender's port at a time: two segments of 64 KiB with Linux's TCP (its small queues).
const WINDOW: f64 = 128.0 * 1024.0;

/// Of a question and of an answer.
pub(crate) const CONTROL: f64 = 64.0;

/// Tasks do not begin, and answer, at the same moment: up to so late, in times that a message takes. What they send is
/// followed so many times, with other delays each time, and the mean counts: where all are in step, small things decide
/// much.
const LATE: f64 = 0.5;
const RUNS: u64 = 8;

/// Pieces that are followed at most; in larger phases order is ignored.
const MOST: f64 = 1e5;

/// Messages of one task to another, at one place among what it sends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flow {
    source: usize,
    destination: usize,
    length: f64,
    /// Messages of one time: one or less.
    count: f64,
}

impl Flow {
    /// In how many pieces it goes.
    fn pieces(&self) -> f64 {
        (self.length * self.count / PIECE).ceil().clamp(1.0, MOST_PIECES)
    }
}

/// A phase that was followed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Followed {
    /// How long it takes.
    pub seconds: f64,
    /// Whether any of its messages is asked for first.
    pub asks: bool,
}

/// How long a phase takes under a mapping where messages wait for those before them: at least as long as
/// [`crate::estimate`] says. None where the order of messages is not known ([`Pattern::order`]), or they are too many.
///
/// The phase is taken to come as often as the pair with the most messages has any, with an equal share of every pair's
/// each time.
///
/// # Errors
/// As for [`crate::estimate`].
pub fn follow(hct: &Hct, pattern: &Pattern, mapping: &[usize]) -> Result<Option<Followed>> {
    check(hct, pattern, mapping)?;
    let Some((times, flows)) = flows(pattern) else { return Ok(None) };
    if flows.iter().map(Flow::pieces).sum::<f64>() > MOST {
        return Ok(None);
    }
    let steps = pattern.by == SentBy::Steps;
    let network = |run| Network::new(hct, &flows, mapping, Ranks { late: LATE, steps, seed: run });
    let asks = network(0).ways.iter().any(|way| !way.question.is_empty());
    let seconds = times * (0..RUNS).map(|run| network(run).run()).sum::<f64>() / RUNS as f64;
    let least = estimator::estimate(hct, pattern, mapping)?.seconds;
    Ok(Some(Followed { seconds: seconds.max(least), asks }))
}

/// How many pieces of messages are followed for an estimate of these phases; 0 where the order of messages is known of
/// none.
pub fn work(phases: &[Phase]) -> f64 {
    let pieces = |phase: &Phase| flows(&phase.pattern).map_or(0.0, |(_, flows)| flows.iter().map(Flow::pieces).sum());
    let followed = phases.iter().map(pieces).filter(|&pieces: &f64| pieces <= MOST);
    RUNS as f64 * followed.sum::<f64>()
}

/// How often the phase comes, and what is sent each time, each source's messages in their order; none where that is not
/// known.
fn flows(pattern: &Pattern) -> Option<(f64, Vec<Flow>)> {
    if pattern.messages.is_empty() || pattern.order.len() != pattern.messages.len() {
        return None;
    }
    let mut found: BTreeMap<(usize, u32, usize), (f64, f64)> = BTreeMap::new();
    for (messages, &order) in pattern.messages.iter().zip(&pattern.order) {
        let sum = found.entry((messages.source, order, messages.destination)).or_default();
        sum.0 += messages.count as f64;
        sum.1 += messages.length * messages.count as f64;
    }
    let times = found.values().map(|sum| sum.0).fold(0.0, f64::max);
    found.retain(|_, sum| sum.0 > 0.0);
    let flow = |((source, _, destination), (count, bytes)): ((usize, u32, usize), (f64, f64))| Flow {
        source,
        destination,
        length: bytes / count,
        count: count / times,
    };
    (times > 0.0).then(|| (times, found.into_iter().map(flow).collect()))
}

/// Something that goes through a port as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    /// A part of a message.
    Piece,
    /// Whether it may be sent.
    Question,
    /// That it may.
    Answer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    flow: usize,
    what: What,
    /// How many ports it has behind it.
    hop: usize,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    /// A task begins with the first of its flows.
    Begin(usize),
    /// A part is through all ports behind it.
    Through(Part),
    /// A port can begin with something.
    Ready(usize),
    /// A task answers.
    Answer(Part),
}

/// One direction of a port.
#[derive(Debug, Clone, Default)]
struct Server {
    waiting: VecDeque<Part>,
    free_s: f64,
    /// When the last of each task's is through: its own go one after another.
    own_s: HashMap<usize, f64>,
}

/// How the tasks go about it.
#[derive(Debug, Clone, Copy, Default)]
struct Ranks {
    /// They are up to so many times as long as a message takes late.
    late: f64,
    /// Each message waits for the one before it, and for what comes meanwhile.
    steps: bool,
    /// Delays are different for each.
    seed: u64,
}

/// The steps of a task.
#[derive(Debug, Clone, Default)]
struct Steps {
    /// Its first flow.
    first: usize,
    /// How many flows it sends.
    count: usize,
    /// Which step it is at.
    at: usize,
    /// By step, how many flows that it sends or that are sent to it have not come.
    open: Vec<u32>,
}

/// How a flow's messages go.
struct Way {
    /// The ports out of [`Network::servers`], in order, with seconds of a piece alone and among others.
    ports: Vec<(usize, f64, f64)>,
    /// The same of a question and, the other way round, an answer; empty where none is asked.
    question: Vec<(usize, f64, f64)>,
    answer: Vec<(usize, f64, f64)>,
    /// Pieces that are not in the first port yet; one more is when one is through so many ports.
    left: usize,
    gate: usize,
    /// Pieces that have not come.
    open: usize,
}

/// The ports, the clock, and what is on its way.
struct Network<'a> {
    flows: &'a [Flow],
    ways: Vec<Way>,
    servers: Vec<Server>,
    events: BinaryHeap<Reverse<Planned<Event>>>,
    planned: u64,
    now_s: f64,
    /// What is at most between the time that a task could begin or answer and when it does.
    late_s: f64,
    /// Of the numbers that delays are drawn by.
    state: u64,
    /// By task; none where they do not go step by step.
    steps: BTreeMap<usize, Steps>,
    /// By flow: at which step its source sends it.
    step_of: Vec<usize>,
}

impl<'a> Network<'a> {
    fn new(hct: &Hct, flows: &'a [Flow], mapping: &[usize], ranks: Ranks) -> Self {
        let mut servers = Numbers::new(hct);
        let mut way = |flow: &Flow| {
            let mut path = |from: usize, to: usize, length: f64, count: f64| {
                let timed = |(element, direction): (usize, Direction)| {
                    let port = hct.port(element);
                    let alone = port.towards(direction).at(length).map_or(0.0, |rate| length / rate) + port.latency_s;
                    let shared = port.limit(direction).map_or(0.0, |limit| length / limit);
                    (element, direction, (alone * count, shared * count))
                };
                let timed = hct.way(mapping[from], mapping[to]).into_iter().map(timed);
                let timed = timed.filter(|(_, _, (alone_s, shared_s))| alone_s.max(*shared_s) > 0.0);
                let path = servers.along(timed, |one, other| (one.0.max(other.0), one.1.max(other.1)));
                path.into_iter().map(|(server, (alone_s, shared_s))| (server, alone_s, shared_s)).collect::<Vec<_>>()
            };
            let (from, to) = (flow.source, flow.destination);
            let asks = hct
                .way(mapping[from], mapping[to])
                .iter()
                .any(|&(element, _)| hct.port(element).asks_from.is_some_and(|length| flow.length >= length));
            let pieces = flow.pieces();
            let ports = path(from, to, flow.length, flow.count / pieces);
            let mut control = |from, to| if asks { path(from, to, CONTROL, flow.count) } else { Vec::new() };
            // Up to what takes half as long as the slowest and more: what is before that is the host's own.
            let slowest = ports.iter().map(|port| port.2).fold(0.0, f64::max);
            let gate = ports.iter().position(|port| port.2 >= slowest / 2.0).map_or(0, |port| port + 1);
            Way {
                ports,
                question: control(from, to),
                answer: control(to, from),
                left: pieces as usize,
                gate,
                open: pieces as usize,
            }
        };
        let ways: Vec<Way> = flows.iter().map(&mut way).collect();
        let slowest_s = |way: &Way| way.left as f64 * way.ports.iter().map(|port| port.2).fold(0.0, f64::max);
        let late_s = ranks.late * ways.iter().map(slowest_s).sum::<f64>() / flows.len() as f64;
        let servers = vec![Server::default(); servers.count()];
        let (steps, step_of) = if ranks.steps { steps(flows) } else { Default::default() };
        let (events, state) = (BinaryHeap::new(), ranks.seed << 32);
        Self { flows, ways, servers, events, planned: 0, now_s: 0.0, late_s, state, steps, step_of }
    }

    /// When all is through, in seconds.
    fn run(mut self) -> f64 {
        for first in 0..self.flows.len() {
            if first == 0 || self.flows[first].source != self.flows[first - 1].source {
                let late_s = delay(&mut self.state, self.late_s);
                self.plan(late_s, Event::Begin(first));
            }
        }
        while let Some(Reverse(Planned { at_s, event, .. })) = self.events.pop() {
            self.now_s = at_s;
            match event {
                Event::Begin(first) => self.begin(first),
                Event::Through(part) => self.through(part),
                Event::Ready(server) => self.serve(server),
                Event::Answer(part) => self.go_on(part),
            }
        }
        self.now_s
    }

    /// Sends all that a task does not have to ask for, and asks for the rest, in order; or its first message.
    fn begin(&mut self, first: usize) {
        let source = self.flows[first].source;
        let count = match self.steps.get(&source) {
            Some(_) => 1,
            None => self.flows[first..].iter().take_while(|flow| flow.source == source).count(),
        };
        for flow in first..first + count {
            if self.ways[flow].question.is_empty() {
                self.send(flow);
            } else {
                self.go_on(Part { flow, what: What::Question, hop: 0 });
            }
        }
    }

    /// A piece has come. Where all of a step have, the task goes on to the next.
    fn come(&mut self, flow: usize) {
        self.ways[flow].open -= 1;
        if self.ways[flow].open > 0 || self.steps.is_empty() {
            return;
        }
        let step = self.step_of[flow];
        for task in [self.flows[flow].source, self.flows[flow].destination] {
            let Some(steps) = self.steps.get_mut(&task) else { continue };
            steps.open[step] -= 1;
            let before = steps.at;
            while steps.open.get(steps.at) == Some(&0) {
                steps.at += 1;
            }
            let next = steps.first + before + 1..steps.first + steps.count.min(steps.at + 1);
            for flow in next {
                let at_s = self.now_s + delay(&mut self.state, self.late_s);
                self.plan(at_s, Event::Begin(flow));
            }
        }
    }

    fn plan(&mut self, at_s: f64, event: Event) {
        self.events.push(Reverse(Planned { at_s, number: self.planned, event }));
        self.planned += 1;
    }

    /// Puts as much of a flow into its first port as there may be at a time.
    fn send(&mut self, flow: usize) {
        let Flow { length, count, .. } = self.flows[flow];
        let piece = length * count / self.flows[flow].pieces();
        // What goes through no port that takes time is there at once.
        let is_held = piece > 0.0 && !self.ways[flow].ports.is_empty();
        let most = if is_held { (WINDOW / piece).max(1.0) as usize } else { usize::MAX };
        for _ in 0..most.min(self.ways[flow].left) {
            self.send_one(flow);
        }
    }

    fn send_one(&mut self, flow: usize) {
        if self.ways[flow].left > 0 {
            self.ways[flow].left -= 1;
            self.go_on(Part { flow, what: What::Piece, hop: 0 });
        }
    }

    /// The ports of a part's way.
    fn way(&self, part: Part) -> &[(usize, f64, f64)] {
        let way = &self.ways[part.flow];
        match part.what {
            What::Piece => &way.ports,
            What::Question => &way.question,
            What::Answer => &way.answer,
        }
    }

    /// The task that has sent a part.
    fn sender(&self, part: Part) -> usize {
        let flow = &self.flows[part.flow];
        if part.what == What::Answer { flow.destination } else { flow.source }
    }

    /// A part comes to its next port, or has come through the last.
    fn go_on(&mut self, part: Part) {
        match self.way(part).get(part.hop) {
            Some(&(server, ..)) => {
                self.servers[server].waiting.push_back(part);
                self.serve(server);
            }
            None if part.what == What::Question => {
                let at_s = self.now_s + delay(&mut self.state, self.late_s);
                self.plan(at_s, Event::Answer(Part { what: What::Answer, hop: 0, ..part }));
            }
            None if part.what == What::Answer => self.send(part.flow),
            None => self.come(part.flow),
        }
    }

    fn through(&mut self, part: Part) {
        if part.what == What::Piece && part.hop == self.ways[part.flow].gate {
            self.send_one(part.flow);
        }
        self.go_on(part);
    }

    /// Begins with the first that waits and whose sender has nothing under way there, if the port is free.
    fn serve(&mut self, server: usize) {
        let now_s = self.now_s;
        let state = &self.servers[server];
        if state.waiting.is_empty() || state.free_s > now_s {
            return;
        }
        let own_s = |part: &Part| state.own_s.get(&self.sender(*part)).copied().unwrap_or(0.0);
        let Some(place) = state.waiting.iter().position(|part| own_s(part) <= now_s) else {
            let first_s = state.waiting.iter().map(own_s).fold(f64::INFINITY, f64::min);
            self.plan(first_s, Event::Ready(server));
            return;
        };
        let part = state.waiting[place];
        let (_, alone_s, shared_s) = self.way(part)[part.hop];
        let (sender, through_s) = (self.sender(part), now_s + alone_s.max(shared_s));
        let state = &mut self.servers[server];
        state.waiting.remove(place);
        state.free_s = now_s + shared_s;
        state.own_s.insert(sender, through_s);
        let free_s = state.free_s;
        self.plan(through_s, Event::Through(Part { hop: part.hop + 1, ..part }));
        self.plan(free_s, Event::Ready(server));
    }
}

/// How late a task is, by splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) fn delay(state: &mut u64, most_s: f64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    most_s * ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

/// The steps of each task, and of each flow the step in which it is sent: each task sends one flow a step.
fn steps(flows: &[Flow]) -> (BTreeMap<usize, Steps>, Vec<usize>) {
    let mut steps: BTreeMap<usize, Steps> = BTreeMap::new();
    let mut step_of = Vec::with_capacity(flows.len());
    for (at, flow) in flows.iter().enumerate() {
        let own = steps.entry(flow.source).or_default();
        if own.count == 0 {
            own.first = at;
        }
        let step = own.count;
        own.count += 1;
        step_of.push(step);
        for task in [flow.source, flow.destination] {
            let open = &mut steps.entry(task).or_default().open;
            open.resize(open.len().max(step + 1), 0);
            open[step] += 1;
        }
    }
    (steps, step_of)
}

/// Events in order: by time, then as they were planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned<Event> {
    pub at_s: f64,
    pub number: u64,
    pub event: Event,
}

impl<Event: PartialEq> Eq for Planned<Event> {}

impl<Event: PartialEq> Ord for Planned<Event> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.number.cmp(&other.number))
    }
}

impl<Event: PartialEq> PartialOrd for Planned<Event> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
#[path = "queues_tests.rs"]
mod tests;
