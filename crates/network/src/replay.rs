//! A run done over again under another mapping, message by message: how long its communication takes where each task
//! goes on only when what it waits for has come.
//!
//! Not in the IBM report, whose estimator ignores order and blocking (section 5). The profile's [trace](crate::Trace)
//! says what each task does one after another; ports serve first what comes first. Computing takes no time: it is the
//! same under every mapping. What is changed against hardware, and what it is worth, is in docs/estimator.md, "The
//! replay".

use crate::estimator::check;
use crate::queues::{CONTROL, Planned, What, delay};
use crate::tcp::{Connection, FRAME};
use cohabit_model::hct::{Direction, Numbers};
use cohabit_model::trace::{Does, Operation};
use cohabit_model::{Hct, Pattern};
use cohabit_model::{Profile, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Messages go through ports in pieces, each a frame. Of one message there are at most [`MOST_OF_ONE`], and fewer where
/// there are more than [`MOST`] in all.
const MOST_OF_ONE: f64 = 128.0;
const MOST: f64 = 1e6;

/// A task notices what comes later than it could, by up to the time that a piece takes. The run is done so many times,
/// with other delays each time, and the mean counts; fewer times where there are many pieces.
const RUNS: f64 = 4.0;

/// Of a message's way only ports count that, with as much for each task behind them, take more than this share of the
/// time that the slowest does.
const SHARE: f64 = 1.0 / 8.0;

/// A trace made ready to be done over again.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    operations: Vec<Vec<Operation>>,
    messages: Vec<Sent>,
    /// The tasks that messages go from and to. Each is followed by the one the other way round.
    connections: Vec<(usize, usize)>,
    /// How often what the trace holds is in the run.
    times: f64,
    most_of_one: f64,
    runs: u64,
}

/// A message of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sent {
    connection: usize,
    destination: usize,
    bytes: f64,
    /// Whether its destination says when it is ready; else it always is.
    is_posted: bool,
}

impl Sent {
    /// In how many pieces it goes.
    fn pieces(&self, most: f64) -> f64 {
        (self.bytes / FRAME).ceil().clamp(1.0, most)
    }
}

impl Replay {
    /// Of a profile that has a trace with anything in it. What is not in the trace is taken to be sent as what is.
    pub fn of(profile: &Profile) -> Option<Self> {
        let trace = profile.trace.as_ref().filter(|trace| trace.bytes() > 0)?;
        let mut numbers: HashMap<(u32, u32), usize> = HashMap::new();
        let mut connections = Vec::new();
        let mut messages = Vec::with_capacity(trace.messages.len());
        for message in &trace.messages {
            let (from, to) = (message.source, message.destination);
            let connection = *numbers.entry((from, to)).or_insert_with(|| {
                connections.extend([(from as usize, to as usize), (to as usize, from as usize)]);
                connections.len() - 2
            });
            numbers.entry((to, from)).or_insert(connection + 1);
            messages.push(Sent { connection, destination: to as usize, bytes: message.bytes as f64, is_posted: false });
        }
        for operation in trace.operations.iter().flatten().filter(|operation| operation.does == Does::Post) {
            messages[operation.message as usize].is_posted = true;
        }
        let pieces = |most: f64| messages.iter().map(|message| message.pieces(most)).sum::<f64>();
        let mut most_of_one = MOST_OF_ONE;
        while most_of_one > 1.0 && pieces(most_of_one) > MOST {
            most_of_one /= 2.0;
        }
        let runs = (MOST / pieces(most_of_one)).clamp(1.0, RUNS) as u64;
        let times = (profile.bytes.total() as f64 / trace.bytes() as f64).max(1.0);
        Some(Self { operations: trace.operations.clone(), messages, connections, times, most_of_one, runs })
    }

    /// How many pieces and operations are followed for each mapping.
    pub fn work(&self) -> f64 {
        let pieces: f64 = self.messages.iter().map(|message| message.pieces(self.most_of_one)).sum();
        let operations: usize = self.operations.iter().map(Vec::len).sum();
        self.runs as f64 * (pieces + operations as f64)
    }

    /// Seconds that the run's communication takes under a mapping. Where tasks would wait for one another for ever, as
    /// those of a program may that relies on MPI to take long messages before they are received, what is asked for is
    /// sent all the same.
    ///
    /// # Errors
    /// The mapping does not have a processing element of `hct` for every task.
    pub fn seconds(&self, hct: &Hct, mapping: &[usize]) -> Result<f64> {
        check(hct, &Pattern { tasks: self.operations.len(), ..Pattern::default() }, mapping)?;
        let ways = Ways::new(self, hct, mapping);
        let seconds: f64 = (0..self.runs).map(|run| Network::new(self, &ways, run).run()).sum();
        Ok(self.times * seconds / self.runs as f64)
    }
}

/// How messages go under a mapping.
struct Ways {
    /// By connection: the ports that count, one for each wire, with seconds of a byte among others.
    ports: Vec<Vec<(usize, f64)>>,
    /// By message: seconds by which it comes later than its last piece is through the last port, and whether it is
    /// asked for.
    lag_s: Vec<f64>,
    asks: Vec<bool>,
    /// The same of what asks, by connection.
    control_lag_s: Vec<f64>,
    /// How late what comes is noticed at most, and how much later than the last port it is acknowledged, by connection.
    late_s: Vec<f64>,
    acknowledged_s: Vec<f64>,
    servers: usize,
}

/// The ports of one way.
struct Way {
    ports: Vec<(usize, f64)>,
    latency_s: f64,
    asks_from: f64,
    /// All of them.
    elements: Vec<(usize, Direction)>,
}

impl Ways {
    fn new(replay: &Replay, hct: &Hct, mapping: &[usize]) -> Self {
        let mut behind = vec![0.0; hct.elements()];
        for &element in mapping {
            std::iter::successors(Some(element), |&element| hct.parent(element)).for_each(|at| behind[at] += 1.0);
        }
        let mut servers = Numbers::new(hct);
        let mut way = |&(from, to): &(usize, usize)| {
            let elements = hct.way(mapping[from], mapping[to]);
            let asks_from = elements.iter().filter_map(|&(element, _)| hct.port(element).asks_from);
            let asks_from = asks_from.fold(f64::INFINITY, f64::min);
            let latency_s = elements.iter().map(|&(element, _)| hct.port(element).latency_s).sum();
            let byte_s = |&(element, direction): &(usize, Direction)| {
                hct.port(element).limit(direction).map_or(0.0, |limit| 1.0 / limit)
            };
            let slowest_s = elements.iter().map(byte_s).fold(0.0, f64::max);
            let counts = |port: &&(usize, Direction)| byte_s(port) * behind[port.0] > SHARE * slowest_s;
            let counted = elements.iter().filter(counts).map(|port| (port.0, port.1, byte_s(port)));
            let ports = servers.along(counted, |one, other| one.max(*other));
            Way { ports, latency_s, asks_from, elements }
        };
        let ways: Vec<Way> = replay.connections.iter().map(&mut way).collect();
        // A message alone may take longer than its bytes among others: bandwidths of short messages are lower.
        let lag_s = |way: &Way, bytes: f64| {
            let later = |&(element, direction): &(usize, Direction)| {
                let port = hct.port(element);
                let alone = port.towards(direction).at(bytes).map_or(0.0, |rate| bytes / rate);
                alone - port.limit(direction).map_or(0.0, |limit| bytes / limit)
            };
            way.latency_s + way.elements.iter().map(later).fold(0.0, f64::max)
        };
        Self {
            lag_s: replay.messages.iter().map(|message| lag_s(&ways[message.connection], message.bytes)).collect(),
            asks: replay.messages.iter().map(|message| message.bytes >= ways[message.connection].asks_from).collect(),
            control_lag_s: ways.iter().map(|way| lag_s(way, CONTROL)).collect(),
            late_s: ways.iter().map(|way| FRAME * way.ports.iter().map(|port| port.1).fold(0.0, f64::max)).collect(),
            acknowledged_s: ways.iter().map(|way| 2.0 * way.latency_s).collect(),
            ports: ways.into_iter().map(|way| way.ports).collect(),
            servers: servers.count(),
        }
    }
}

/// A piece on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    message: usize,
    what: What,
    bytes: f64,
    is_last: bool,
    /// How many ports it has behind it.
    hop: usize,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    /// A piece is through all ports behind it.
    Through(Part),
    /// A message, or what is asked or answered, is with the other task.
    Come(usize, What),
    /// What a connection sent first is acknowledged.
    Acknowledged(usize),
}

/// What is to be put into the first port of a connection.
struct Burst {
    part: Part,
    /// How many such pieces.
    left: u64,
}

/// One direction between two tasks.
struct Line {
    connection: Connection,
    waiting: VecDeque<Burst>,
    /// When the last of what has come came.
    came_s: f64,
}

/// What has become of a message.
#[derive(Clone, Copy, Default)]
struct State {
    is_ready: bool,
    is_asked: bool,
    has_left: bool,
    has_come: bool,
}

impl State {
    /// It is asked for, and not answered, for its destination is not ready.
    fn is_held(self) -> bool {
        self.is_asked && !self.is_ready
    }
}

/// The ports, the clock, the tasks, and what is on its way.
struct Network<'a> {
    replay: &'a Replay,
    ways: &'a Ways,
    /// By task, how many operations it has behind it.
    at: Vec<usize>,
    states: Vec<State>,
    lines: Vec<Line>,
    /// When each port is free.
    free_s: Vec<f64>,
    events: BinaryHeap<Reverse<Planned<Event>>>,
    planned: u64,
    now_s: f64,
    /// When the last message came, or was wholly in its sender's buffer.
    over_s: f64,
    /// Of the numbers that delays are drawn by.
    random: u64,
}

impl<'a> Network<'a> {
    fn new(replay: &'a Replay, ways: &'a Ways, run: u64) -> Self {
        let state = |message: &Sent| State { is_ready: !message.is_posted, ..State::default() };
        let line = |_: &_| Line { connection: Connection::new(), waiting: VecDeque::new(), came_s: 0.0 };
        Self {
            replay,
            ways,
            at: vec![0; replay.operations.len()],
            states: replay.messages.iter().map(state).collect(),
            lines: replay.connections.iter().map(line).collect(),
            free_s: vec![0.0; ways.servers],
            events: BinaryHeap::new(),
            planned: 0,
            now_s: 0.0,
            over_s: 0.0,
            random: run << 32,
        }
    }

    /// When all is over, in seconds.
    fn run(mut self) -> f64 {
        (0..self.at.len()).for_each(|task| self.go_on(task));
        loop {
            self.follow();
            let held: Vec<usize> = (0..self.states.len()).filter(|&message| self.states[message].is_held()).collect();
            if held.is_empty() {
                return self.over_s;
            }
            held.into_iter().for_each(|message| self.ready(message));
        }
    }

    /// What happens until nothing does any more.
    fn follow(&mut self) {
        while let Some(Reverse(Planned { at_s, event, .. })) = self.events.pop() {
            self.now_s = at_s;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Through(part) => self.through(part),
            Event::Come(message, what) => self.come(message, what),
            Event::Acknowledged(connection) => {
                self.lines[connection].connection.acknowledge(self.now_s);
                self.pump(connection);
                self.buffer(connection);
            }
        }
    }

    /// What a message's destination is ready to receive may be sent.
    fn ready(&mut self, message: usize) {
        let is_held = self.states[message].is_held();
        self.states[message].is_ready = true;
        if is_held {
            self.answer(message);
        }
    }

    fn plan(&mut self, at_s: f64, event: Event) {
        self.events.push(Reverse(Planned { at_s, number: self.planned, event }));
        self.planned += 1;
    }

    /// A task does what it can, up to the first that it has to wait for.
    fn go_on(&mut self, task: usize) {
        while let Some(&Operation { does, message }) = self.replay.operations[task].get(self.at[task]) {
            let message = message as usize;
            match does {
                Does::Send => self.send(message),
                Does::Post => self.ready(message),
                Does::Wait => {
                    let state = &self.states[message];
                    let receives = self.replay.messages[message].destination == task;
                    if !(if receives { state.has_come } else { state.has_left }) {
                        return;
                    }
                }
            }
            self.at[task] += 1;
        }
    }

    fn send(&mut self, message: usize) {
        if self.ways.asks[message] {
            self.control(self.replay.messages[message].connection, message, What::Question);
        } else {
            self.states[message].has_left = true;
            self.put(message);
        }
    }

    fn control(&mut self, connection: usize, message: usize, what: What) {
        let part = Part { message, what, bytes: CONTROL, is_last: true, hop: 0 };
        self.give(connection, Burst { part, left: 1 });
        self.pump(connection);
    }

    fn give(&mut self, connection: usize, burst: Burst) {
        let line = &mut self.lines[connection];
        line.connection.give(burst.part.bytes * burst.left as f64);
        line.waiting.push_back(burst);
    }

    fn put(&mut self, message: usize) {
        let Sent { connection, bytes, .. } = self.replay.messages[message];
        let pieces = self.replay.messages[message].pieces(self.replay.most_of_one);
        let part = Part { message, what: What::Piece, bytes: bytes / pieces, is_last: false, hop: 0 };
        self.give(connection, Burst { part, left: pieces as u64 });
        if !self.states[message].has_left {
            self.lines[connection].connection.wait_for_buffer(message);
        }
        self.pump(connection);
    }

    /// Sends as much as may be on its way.
    fn pump(&mut self, number: usize) {
        let has_ports = !self.ways.ports[number].is_empty();
        loop {
            let line = &mut self.lines[number];
            let Some(burst) = line.waiting.front_mut() else { return };
            if has_ports && !line.connection.lets(burst.part.bytes) {
                return;
            }
            burst.left -= 1;
            let part = Part { is_last: burst.left == 0, ..burst.part };
            if part.is_last {
                line.waiting.pop_front();
            }
            line.connection.send(part.bytes, self.now_s);
            if !has_ports {
                line.connection.through(part.bytes);
                line.connection.acknowledge(self.now_s);
            }
            self.pass(number, part);
        }
    }

    /// Tasks go on that waited for their messages to be in the buffer.
    fn buffer(&mut self, number: usize) {
        while let Some(message) = self.lines[number].connection.next_in_buffer() {
            self.over_s = self.now_s;
            self.states[message].has_left = true;
            self.go_on(self.replay.connections[number].0);
        }
    }

    fn connection_of(&self, part: Part) -> usize {
        let connection = self.replay.messages[part.message].connection;
        if part.what == What::Answer { connection ^ 1 } else { connection }
    }

    /// A piece comes to its next port, or is through the last.
    fn pass(&mut self, connection: usize, part: Part) {
        if let Some(&(server, byte_s)) = self.ways.ports[connection].get(part.hop) {
            let through_s = self.free_s[server].max(self.now_s) + part.bytes * byte_s;
            self.free_s[server] = through_s;
            self.plan(through_s, Event::Through(Part { hop: part.hop + 1, ..part }));
            return;
        }
        if part.hop > 0 {
            self.plan(self.now_s + self.ways.acknowledged_s[connection], Event::Acknowledged(connection));
        }
        if part.is_last {
            let lag_s = if part.what == What::Piece {
                self.ways.lag_s[part.message]
            } else {
                self.ways.control_lag_s[connection]
            };
            // Nothing overtakes what was sent before it.
            let late_s = delay(&mut self.random, self.ways.late_s[connection]);
            let came_s = &mut self.lines[connection].came_s;
            *came_s = came_s.max(self.now_s + lag_s + late_s);
            let at_s = *came_s;
            self.plan(at_s, Event::Come(part.message, part.what));
        }
    }

    fn through(&mut self, part: Part) {
        let connection = self.connection_of(part);
        if part.hop == 1 {
            self.lines[connection].connection.through(part.bytes);
            self.pump(connection);
        }
        self.pass(connection, part);
    }

    fn come(&mut self, message: usize, what: What) {
        self.over_s = self.now_s;
        match what {
            What::Question => {
                self.states[message].is_asked = true;
                if self.states[message].is_ready {
                    self.answer(message);
                }
            }
            What::Answer => {
                self.put(message);
                self.buffer(self.replay.messages[message].connection);
            }
            What::Piece => {
                self.states[message].has_come = true;
                self.go_on(self.replay.messages[message].destination);
            }
        }
    }

    fn answer(&mut self, message: usize) {
        let connection = self.replay.messages[message].connection ^ 1;
        self.control(connection, message, What::Answer);
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "replay_reference_tests.rs"]
mod reference_tests;
