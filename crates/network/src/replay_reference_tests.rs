//! A slow reference: it looks through everything that is on its way for what happens next and for what a connection has
//! where, and works out the way again at every port.

use super::tests::{exact, post, profile, replay, send, wait};
use super::*;
use crate::tcp::{BUFFER, INITIAL, NEW, QUEUED, QUEUED_S, UNUSED};
use cohabit_model::hct::{Bandwidth, Port};
use cohabit_model::trace::{Message, Trace};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What is put into a port at once.
#[derive(Clone, Copy)]
struct Thing {
    message: usize,
    what: What,
    bytes: f64,
    is_last: bool,
    sent_s: f64,
}

/// Where something is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In the port that has so many before it on the way.
    Port(usize),
    /// Behind the last.
    Behind,
    /// It is with the other task, and what says so is not yet back.
    Acknowledging,
}

/// What one task has for another, in bytes.
#[derive(Clone)]
struct Given {
    waiting: Vec<Thing>,
    on_its_way: Vec<f64>,
    window: f64,
    most: f64,
    round_trips_s: Vec<f64>,
    given: f64,
    acknowledged: f64,
    /// Messages, with what had been given then, of which not all is in the buffer.
    outside: Vec<(f64, usize)>,
    came_s: f64,
}

impl Given {
    fn new() -> Self {
        Self {
            waiting: Vec::new(),
            on_its_way: Vec::new(),
            window: INITIAL,
            most: 0.0,
            round_trips_s: Vec::new(),
            given: 0.0,
            acknowledged: 0.0,
            outside: Vec::new(),
            came_s: 0.0,
        }
    }

    /// How much may be in the first port.
    fn queue(&self) -> f64 {
        let Some((&first, rest)) = self.round_trips_s.split_first() else { return QUEUED[1] };
        let round_trip_s = rest.iter().fold(first, |mean, &new| (1.0 - NEW) * mean + NEW * new);
        (QUEUED_S * self.window / round_trip_s).clamp(QUEUED[0], QUEUED[1])
    }
}

/// A port on the way of a message.
struct Hop {
    element: usize,
    wire: (usize, Direction),
    byte_s: f64,
    latency_s: f64,
    /// What the message takes longer alone than among others.
    later_s: f64,
}

/// The slow reference.
struct Slow<'a> {
    hct: &'a Hct,
    mapping: &'a [usize],
    trace: &'a Trace,
    is_late: bool,
    random: u64,
    now_s: f64,
    over_s: f64,
    /// What is on its way: when it leaves where it is, and how many were planned before it.
    under_way: Vec<(f64, u64, Thing, Place)>,
    planned: u64,
    /// When each of those that came to a port is through it.
    queues: BTreeMap<(usize, Direction), Vec<f64>>,
    given: BTreeMap<(usize, usize), Given>,
    done: Vec<usize>,
    states: Vec<State>,
}

impl<'a> Slow<'a> {
    fn new(hct: &'a Hct, trace: &'a Trace, mapping: &'a [usize], is_late: bool, run: u64) -> Self {
        let is_posted = |message: u32| trace.operations.iter().flatten().any(|&done| done == post(message));
        let state = |message: u32| State { is_ready: !is_posted(message), ..State::default() };
        Self {
            hct,
            mapping,
            trace,
            is_late,
            random: run << 32,
            now_s: 0.0,
            over_s: 0.0,
            under_way: Vec::new(),
            planned: 0,
            queues: BTreeMap::new(),
            given: BTreeMap::new(),
            done: vec![0; trace.operations.len()],
            states: (0..trace.messages.len() as u32).map(state).collect(),
        }
    }

    /// Up from one element to where the ways meet, and down to the other.
    fn elements(&self, (from, to): (usize, usize)) -> Vec<(usize, Direction)> {
        let above = |task: usize| std::iter::successors(Some(self.mapping[task]), |&at| self.hct.parent(at));
        let (up, down): (Vec<usize>, Vec<usize>) = (above(from).collect(), above(to).collect());
        let out = up.iter().filter(|element| !down.contains(element)).map(|&element| (element, Direction::Out));
        let into = down.iter().rev().filter(|element| !up.contains(element)).map(|&element| (element, Direction::In));
        out.chain(into).collect()
    }

    fn way(&self, between: (usize, usize), bytes: f64) -> Vec<Hop> {
        let (wires, mut hops) = (self.hct.wires(), Vec::<Hop>::new());
        for (element, direction) in self.elements(between) {
            let (port, wire) = (self.hct.port(element), wires.of(element, direction));
            let byte_s = port.limit(direction).map_or(0.0, |limit| 1.0 / limit);
            let alone_s = port.towards(direction).at(bytes).map_or(0.0, |rate| bytes / rate);
            let among_s = port.limit(direction).map_or(0.0, |limit| bytes / limit);
            let later_s = (alone_s - among_s).max(0.0);
            hops.push(Hop { element, wire, byte_s, latency_s: port.latency_s, later_s });
        }
        hops
    }

    /// Of the way only what may take its time.
    fn counted(&self, between: (usize, usize)) -> Vec<Hop> {
        let mut hops = self.way(between, 0.0);
        let slowest_s = hops.iter().map(|hop| hop.byte_s).fold(0.0, f64::max);
        hops.retain(|hop| hop.byte_s * self.behind(hop.element) > SHARE * slowest_s);
        // Ports that are one wire are next to each other.
        let is_slower = |hop: &Hop, other: &Hop| hop.wire == other.wire && hop.byte_s > other.byte_s;
        let slower: Vec<bool> = hops.iter().map(|hop| hops.iter().any(|other| is_slower(other, hop))).collect();
        let mut slower = slower.into_iter();
        hops.retain(|_| !slower.next().unwrap());
        hops.dedup_by_key(|hop| hop.wire);
        hops
    }

    /// How many tasks are on an element or below it.
    fn behind(&self, element: usize) -> f64 {
        let is_behind = |task: &usize| {
            std::iter::successors(Some(self.mapping[*task]), |&at| self.hct.parent(at)).any(|at| at == element)
        };
        (0..self.mapping.len()).filter(is_behind).count() as f64
    }

    /// Who sends it to whom.
    fn between(&self, thing: &Thing) -> (usize, usize) {
        let message = self.trace.messages[thing.message];
        let (source, destination) = (message.source as usize, message.destination as usize);
        if thing.what == What::Answer { (destination, source) } else { (source, destination) }
    }

    fn late_s(&mut self, between: (usize, usize)) -> f64 {
        let slowest_s = self.counted(between).iter().map(|hop| hop.byte_s).fold(0.0, f64::max);
        delay(&mut self.random, if self.is_late { FRAME * slowest_s } else { 0.0 })
    }

    fn run(mut self) -> f64 {
        self.all_go_on();
        loop {
            if self.under_way.is_empty() {
                // Nothing happens any more: what waits for an answer gets it, as if its destination were ready.
                let held = |message: &usize| self.states[*message].is_asked && !self.states[*message].is_ready;
                let held: Vec<usize> = (0..self.states.len()).filter(held).collect();
                for &message in &held {
                    self.states[message].is_ready = true;
                    self.answer_if_ready(message);
                }
                if held.is_empty() {
                    return self.over_s;
                }
                continue;
            }
            let when = |at: &usize| (self.under_way[*at].0, self.under_way[*at].1);
            let earlier = |one: &usize, other: &usize| when(one).partial_cmp(&when(other)).unwrap();
            let first = (0..self.under_way.len()).min_by(earlier).unwrap();
            let (at_s, _, thing, place) = self.under_way.remove(first);
            self.now_s = at_s;
            if place == Place::Behind {
                self.over_s = at_s;
            }
            match (place, thing.what) {
                (Place::Port(port), _) => {
                    if port == 0 {
                        self.fill(self.between(&thing));
                    }
                    self.come_to(thing, port + 1);
                }
                (Place::Acknowledging, _) => self.acknowledge(thing),
                (Place::Behind, What::Question) => {
                    self.states[thing.message].is_asked = true;
                    self.answer_if_ready(thing.message);
                }
                (Place::Behind, What::Answer) => self.give_all(thing.message),
                (Place::Behind, What::Piece) => {
                    self.states[thing.message].has_come = true;
                    self.all_go_on();
                }
            }
        }
    }

    /// Every task does what it can, until there is none that can do anything.
    fn all_go_on(&mut self) {
        let mut task = 0;
        while task < self.done.len() {
            let Some(&Operation { does, message }) = self.trace.operations[task].get(self.done[task]) else {
                task += 1;
                continue;
            };
            let number = message as usize;
            let Message { source, destination, bytes } = self.trace.messages[number];
            let is_over =
                if destination as usize == task { self.states[number].has_come } else { self.states[number].has_left };
            if does == Does::Wait && !is_over {
                task += 1;
                continue;
            }
            self.done[task] += 1;
            if does == Does::Post && !self.states[number].is_ready {
                self.states[number].is_ready = true;
                self.answer_if_ready(number);
            }
            if does == Does::Send {
                let elements = self.elements((source as usize, destination as usize));
                let asks = |&(element, _): &(usize, Direction)| {
                    self.hct.port(element).asks_from.is_some_and(|length| bytes as f64 >= length)
                };
                if elements.iter().any(asks) {
                    self.give(Thing {
                        message: number,
                        what: What::Question,
                        bytes: CONTROL,
                        is_last: true,
                        sent_s: 0.0,
                    });
                } else {
                    self.states[number].has_left = true;
                    self.give_all(number);
                }
            }
            // Anyone may be able to go on now.
            task = 0;
        }
    }

    fn answer_if_ready(&mut self, message: usize) {
        if self.states[message].is_asked && self.states[message].is_ready {
            self.give(Thing { message, what: What::Answer, bytes: CONTROL, is_last: true, sent_s: 0.0 });
        }
    }

    fn acknowledge(&mut self, thing: Thing) {
        let between = self.between(&thing);
        let given = self.given.get_mut(&between).unwrap();
        given.round_trips_s.push(self.now_s - thing.sent_s);
        if given.window < UNUSED * given.most {
            given.window += thing.bytes;
        }
        given.acknowledged += given.on_its_way.remove(0);
        self.fill(between);
        self.leave(between);
    }

    /// Who waits for its messages to be in the buffer goes on.
    fn leave(&mut self, between: (usize, usize)) {
        let given = self.given.get_mut(&between).unwrap();
        let (room, acknowledged) = (BUFFER * given.window, given.acknowledged);
        let is_in = |&(given, _): &(f64, usize)| given - acknowledged <= room;
        for &(_, message) in given.outside.iter().take_while(|outside| is_in(outside)) {
            self.states[message].has_left = true;
            self.over_s = self.now_s;
        }
        given.outside.retain(|outside| !is_in(outside));
        self.all_go_on();
    }

    fn put(&mut self, at_s: f64, thing: Thing, place: Place) {
        self.under_way.push((at_s, self.planned, thing, place));
        self.planned += 1;
    }

    /// A message is there to be sent, in its pieces.
    fn give_all(&mut self, message: usize) {
        let bytes = self.trace.messages[message].bytes as f64;
        let pieces = (bytes / FRAME).ceil().clamp(1.0, MOST_OF_ONE) as usize;
        for piece in 1..=pieces {
            let thing = Thing {
                message,
                what: What::Piece,
                bytes: bytes / pieces as f64,
                is_last: piece == pieces,
                sent_s: 0.0,
            };
            self.hand(thing);
        }
        let Message { source, destination, .. } = self.trace.messages[message];
        let between = (source as usize, destination as usize);
        if !self.states[message].has_left {
            let given = self.given.get_mut(&between).unwrap();
            given.outside.push((given.given, message));
        }
        self.fill(between);
        self.leave(between);
    }

    fn give(&mut self, thing: Thing) {
        self.hand(thing);
        self.fill(self.between(&thing));
    }

    fn hand(&mut self, thing: Thing) {
        let given = self.given.entry(self.between(&thing)).or_insert_with(Given::new);
        given.given += thing.bytes;
        given.waiting.push(thing);
    }

    /// As much as there may be of what one task sends another goes on its way.
    fn fill(&mut self, between: (usize, usize)) {
        while let Some(&thing) = self.given.get(&between).and_then(|given| given.waiting.first()) {
            let own = self
                .under_way
                .iter()
                .filter(|(_, _, thing, place)| *place == Place::Port(0) && self.between(thing) == between);
            let inside: f64 = own.map(|(_, _, thing, _)| thing.bytes).sum();
            let given = self.given.get_mut(&between).unwrap();
            let is_full = inside > 0.0 && inside + thing.bytes > given.queue();
            let on_its_way = given.on_its_way.iter().sum::<f64>();
            if is_full || !given.on_its_way.is_empty() && on_its_way + thing.bytes > given.window {
                return;
            }
            given.waiting.remove(0);
            given.most = given.most.max(on_its_way + thing.bytes);
            given.on_its_way.push(thing.bytes);
            self.come_to(Thing { sent_s: self.now_s, ..thing }, 0);
        }
    }

    /// Something comes to a port, behind all that came there before; or there is none any more.
    fn come_to(&mut self, thing: Thing, port: usize) {
        let between = self.between(&thing);
        if let Some(hop) = self.counted(between).get(port) {
            let queue = self.queues.entry(hop.wire).or_default();
            let begin_s = queue.last().copied().unwrap_or(0.0).max(self.now_s);
            queue.push(begin_s + thing.bytes * hop.byte_s);
            self.put(begin_s + thing.bytes * hop.byte_s, thing, Place::Port(port));
            return;
        }
        let latency_s: f64 = self.way(between, 0.0).iter().map(|hop| hop.latency_s).sum();
        if port == 0 {
            let given = self.given.get_mut(&between).unwrap();
            given.acknowledged += given.on_its_way.remove(0);
        } else {
            self.put(self.now_s + 2.0 * latency_s, thing, Place::Acknowledging);
        }
        if thing.is_last {
            let is_message = thing.what == What::Piece;
            let bytes = if is_message { self.trace.messages[thing.message].bytes as f64 } else { CONTROL };
            let way = self.way(between, bytes);
            let later_s = way.iter().map(|hop| hop.later_s).fold(0.0, f64::max);
            let late_s = self.late_s(between);
            let came_s = &mut self.given.get_mut(&between).unwrap().came_s;
            *came_s = came_s.max(self.now_s + (latency_s + later_s) + late_s);
            let at_s = *came_s;
            self.put(at_s, thing, Place::Behind);
        }
    }
}

/// Source, destination and bytes of a message; how many messages later it is posted, and how much later still its
/// source and its destination wait for it, or never.
type Sending = (usize, usize, u64, Option<usize>, Option<usize>, Option<usize>);

fn sendings() -> impl Strategy<Value = Vec<Sending>> {
    let bytes = prop_oneof![0..3000u64, 0..100_000u64];
    let later = || prop::option::of(0..4usize);
    prop::collection::vec((0..6usize, 0..6usize, bytes, later(), later(), later()), 1..25)
}

/// What is done later is done in the order of all: whoever waits for a message finds it sent and posted. If waits are
/// early they may come before the post, and tasks would wait for ever for what is asked for.
fn program(tasks: usize, sendings: &[Sending], is_early: bool) -> Trace {
    let mut trace = Trace { messages: Vec::new(), operations: vec![Vec::new(); tasks] };
    for now in 0..sendings.len() + 8 {
        if let Some(&(source, destination, bytes, ..)) = sendings.get(now) {
            let (source, destination) = (source % tasks, destination % tasks);
            trace.messages.push(Message { source: source as u32, destination: destination as u32, bytes });
            trace.operations[source].push(send(now as u32));
        }
        for (number, &(source, destination, _, posted, left, come)) in sendings.iter().enumerate().take(now + 1) {
            let waits_from = number + if is_early { 0 } else { posted.unwrap_or(0) };
            let due = |from: usize, later: Option<usize>| later.is_some_and(|later| from + later == now);
            if due(number, posted) {
                trace.operations[destination % tasks].push(post(number as u32));
            }
            for (task, waits) in [(source % tasks, left), (destination % tasks, come)] {
                if due(waits_from, waits) {
                    trace.operations[task].push(wait(number as u32));
                }
            }
        }
    }
    trace.check().unwrap();
    trace
}

/// A star, or hosts of two processing elements each, all of whose ports have other rates, some of which are less for
/// short messages. But two hosts have one kind of port, the same both ways: what leaves one enters the other. Ports
/// inside are so many times as fast.
fn tree(hosts: usize, rates: &[u32], speed: f64, inside: f64, asks_from: Option<u64>) -> (Hct, Vec<usize>) {
    let asks_from = asks_from.map(|bytes| bytes as f64);
    let mut rates = rates.iter().zip(1..).map(|(&rate, number)| speed * (f64::from(rate) + 0.001 * f64::from(number)));
    let bandwidth = |rate: f64, slower: bool| {
        let short = (100.0, if slower { rate / 3.0 } else { rate });
        Bandwidth::new(vec![short, (20_000.0, rate)]).unwrap()
    };
    let mut number = 0;
    let mut port = |times: f64| {
        number += 1;
        let [out, inwards] = [0, 1].map(|way| bandwidth(times * rates.next().unwrap(), (number + way) % 3 == 0));
        Port { out, inwards, latency_s: 0.01 * f64::from(number % 4) / speed, asks_from, ..Port::default() }
    };
    let mut hct = Hct::new(None).unwrap();
    if hosts < 2 {
        let leaves = (0..5).map(|_| hct.add_processing(0, port(1.0)).unwrap()).collect();
        return (hct, leaves);
    }
    let first = port(1.0);
    let both = Port { inwards: first.out.clone(), ..first };
    let mut leaves = Vec::new();
    for _ in 0..hosts {
        let host = hct.add_switch(0, if hosts == 2 { both.clone() } else { port(1.0) }, None).unwrap();
        leaves.extend((0..2).map(|_| hct.add_processing(host, port(inside)).unwrap()));
    }
    (hct, leaves)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn it_is_what_a_simulation_without_haste_says(
        (hosts, inside) in (1..5usize, prop::sample::select(vec![0.5, 3.0, 10.0])),
        // How much is in a first port is a matter of time.
        speed in prop::sample::select(vec![1.0, 1e4, 1e6]),
        rates in prop::collection::vec(1000..10_000u32, 26),
        asks_from in prop::option::of(1..60_000u64),
        (tasks, sendings, is_early) in (2..7usize, sendings(), prop::bool::weighted(0.2)),
        places in prop::collection::vec(0..100usize, 6),
        times in 1..4u64,
    ) {
        let (hct, leaves) = tree(hosts, &rates, speed, inside, asks_from);
        let mapping: Vec<usize> = places[..tasks].iter().map(|&place| leaves[place % leaves.len()]).collect();
        let trace = program(tasks, &sendings, is_early);
        prop_assume!(trace.bytes() > 0);
        let replay = Replay::of(&profile(trace.clone(), times * trace.bytes() as u64)).unwrap();
        let slow = |is_late: bool, run: u64| Slow::new(&hct, &trace, &mapping, is_late, run).run();
        let mean = times as f64 * (0..4).map(|run| slow(true, run)).sum::<f64>() / 4.0;
        let slow = slow(false, 0);
        for (found, expected) in
            [(exact(&hct, &replay, &mapping), slow), (replay.seconds(&hct, &mapping).unwrap(), mean)]
        {
            prop_assert!((found - expected).abs() <= 1e-9 * expected, "{found} for {expected}");
        }
    }

    #[test]
    fn no_port_carries_more_than_it_can(
        hosts in 1..5usize,
        // None is eight times as fast as another: all ports count on all ways.
        rates in prop::collection::vec(1000..7000u32, 26),
        asks_from in prop::option::of(1..60_000u64),
        (tasks, sendings) in (2..7usize, sendings()),
        places in prop::collection::vec(0..100usize, 6),
    ) {
        let (hct, leaves) = tree(hosts, &rates, 1.0, 1.0, asks_from);
        let mapping: Vec<usize> = places[..tasks].iter().map(|&place| leaves[place % leaves.len()]).collect();
        let trace = program(tasks, &sendings, false);
        prop_assume!(trace.bytes() > 0);
        let mut bytes: BTreeMap<(usize, Direction), f64> = BTreeMap::new();
        for message in &trace.messages {
            for port in hct.path(mapping[message.source as usize], mapping[message.destination as usize]).0 {
                *bytes.entry(port).or_default() += message.bytes as f64;
            }
        }
        let replay = replay(trace);
        let found = [exact(&hct, &replay, &mapping), replay.seconds(&hct, &mapping).unwrap()];
        for ((element, direction), bytes) in bytes {
            let least = bytes / hct.port(element).limit(direction).unwrap();
            prop_assert!(found.iter().all(|&found| found >= least * (1.0 - 1e-9)), "{found:?} for {least}");
        }
    }
}
