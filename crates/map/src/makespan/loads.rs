//! What every port and switch carries under a mapping, kept up to date while tasks move: the fast twin of
//! `cohabit_network::estimate`.
//!
//! Times and bytes are whole numbers (a phase's longest conceivable time is 2^52 ticks), so that what is taken away
//! is exactly what was added, however long the search.

use super::routes::{Kind, NONE, Routes};
use cohabit_model::Pattern;
use cohabit_network::estimator::NORM;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Ticks of everything that a phase sends, at the lowest bandwidth and with the highest latency there is.
const TICKS: f64 = (1u64 << 52) as f64;
/// Which norm of all resources' times stands for the longest of them in a search: one that leads to mappings that wait
/// less.
const STEEP: i32 = 16;

/// Two tasks that exchange messages in one direction.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Sender.
    pub source: usize,
    /// Receiver.
    pub destination: usize,
    bytes: i64,
    /// (length, count) of its messages.
    messages: Vec<(f64, f64)>,
    /// Ticks through the kinds of ports that it has met so far, by kind: measured clusters have a kind for every port.
    ticks: Vec<(u32, i64)>,
}

impl Pair {
    /// Ticks through ports of a kind.
    fn through(&mut self, kind: u32, routes: &Routes, tick_s: f64) -> i64 {
        match self.ticks.binary_search_by_key(&kind, |known| known.0) {
            Ok(at) => self.ticks[at].1,
            Err(at) => {
                let port = &routes.kinds[kind as usize];
                let seconds: f64 = self.messages.iter().map(|&(length, count)| port.seconds(length) * count).sum();
                let ticks = (seconds / tick_s).round() as i64;
                self.ticks.insert(at, (kind, ticks));
                ticks
            }
        }
    }
}

/// What a resource carries.
#[derive(Debug, Clone, Default)]
struct Load {
    bytes: i64,
    /// Ticks of each sending task, by task; none of 0.
    senders: Vec<(u32, i64)>,
    seconds: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Of (seconds / scale)^[`STEEP`] over resources.
    steep: f64,
    /// Of (seconds / scale)^[`NORM`] over wires.
    norm: f64,
}

/// One phase.
#[derive(Debug, Clone)]
struct Phase {
    weight: f64,
    tick_s: f64,
    pairs: Vec<Pair>,
    /// The pairs that a task is in, by task.
    of_task: Vec<Vec<u32>>,
    loads: Vec<Load>,
    /// Seconds by wire: the longest of its resources.
    wires: Vec<f64>,
    /// What times are divided by in the norms.
    scale_s: f64,
    least_scale_s: f64,
    sums: Sums,
    remembered: Sums,
    /// Resources whose load has changed since the sum was made.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

/// All phases under one mapping.
#[derive(Debug, Clone)]
pub struct Loads<'a> {
    routes: Cow<'a, Routes>,
    phases: Vec<Phase>,
    /// The processing element of each task.
    element: Vec<usize>,
}

impl<'a> Loads<'a> {
    /// The loads of a mapping: `element[task]` is a processing element.
    pub fn new(routes: impl Into<Cow<'a, Routes>>, phases: &[cohabit_network::Phase], element: &[usize]) -> Self {
        let routes = routes.into();
        let phases = phases.iter().filter(|phase| phase.weight > 0.0);
        let phases = phases.map(|phase| Phase::new(phase.weight, &phase.pattern, &routes)).collect();
        let mut loads = Self { routes, phases, element: element.to_vec() };
        for phase in &mut loads.phases {
            for at in 0..phase.pairs.len() {
                phase.carry(&loads.routes, &loads.element, at, 1);
            }
            phase.settle(&loads.routes);
        }
        loads.refresh();
        loads
    }

    /// Puts tasks on other elements.
    pub fn place(&mut self, moves: &[(usize, usize)]) {
        self.carry(moves, -1);
        moves.iter().for_each(|&(task, element)| self.element[task] = element);
        self.carry(moves, 1);
        let Self { routes, phases, .. } = self;
        phases.iter_mut().for_each(|phase| phase.settle(routes));
    }

    /// Adds or takes away all pairs that the moved tasks are in, each once.
    fn carry(&mut self, moves: &[(usize, usize)], sign: i64) {
        for phase in &mut self.phases {
            for (number, &(task, _)) in moves.iter().enumerate() {
                for at in 0..phase.of_task[task].len() {
                    let pair = phase.of_task[task][at] as usize;
                    let Pair { source, destination, .. } = phase.pairs[pair];
                    let done = moves[..number].iter().any(|&(other, _)| other == source || other == destination);
                    if !done {
                        phase.carry(&self.routes, &self.element, pair, sign);
                    }
                }
            }
        }
    }

    /// The element that a task is on.
    pub fn element(&self, task: usize) -> usize {
        self.element[task]
    }

    /// Seconds of all phases: what the estimator says.
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.weight * phase.longest()).sum()
    }

    /// A little more than [`Loads::seconds`], and different where other ports than the last are less busy.
    pub fn smooth(&self) -> f64 {
        let norm = |phase: &Phase| phase.weight * phase.root(phase.sums.steep, STEEP);
        self.phases.iter().map(norm).sum()
    }

    /// How full all ports and switches are: the estimator's norm of all phases.
    pub fn norm(&self) -> f64 {
        self.phases.iter().map(|phase| phase.weight * phase.root(phase.sums.norm, NORM)).sum()
    }

    /// Sums the norms up again: additions and subtractions have left them a little wrong.
    pub fn refresh(&mut self) {
        for phase in &mut self.phases {
            phase.scale_s = phase.longest().max(phase.least_scale_s);
            let steep = phase.loads.iter().map(|load| phase.power(load.seconds, STEEP)).sum();
            let norm = phase.wires.iter().map(|&seconds| phase.power(seconds, NORM)).sum();
            phase.sums = Sums { steep, norm };
        }
    }

    /// Remembers the norms, for [`Loads::undone`].
    pub fn remember(&mut self) {
        self.phases.iter_mut().for_each(|phase| phase.remembered = phase.sums);
    }

    /// Takes what was remembered: the mapping is that of then again, and the way there and back was rounded.
    pub fn undone(&mut self) {
        self.phases.iter_mut().for_each(|phase| phase.sums = phase.remembered);
    }

    /// Pairs whose messages go through what a phase waits for, as (sender, receiver): one that `pick` chooses. None
    /// where nothing is sent.
    pub fn critical(&self, mut pick: impl FnMut(usize) -> usize) -> Option<(usize, usize)> {
        let phase = self.phases.get(pick(self.phases.len()))?;
        let last = (0..phase.loads.len()).max_by(|&a, &b| phase.loads[a].seconds.total_cmp(&phase.loads[b].seconds))?;
        let load = &phase.loads[last];
        let candidates: &[u32] = match load.senders.is_empty() {
            true => return None,
            false => &phase.of_task[load.senders[pick(load.senders.len())].0 as usize],
        };
        // Pairs of the sender that do go through it; a few are tried.
        for _ in 0..8 {
            let pair = &phase.pairs[candidates[pick(candidates.len())] as usize];
            let mut passes = false;
            self.routes.along(self.element[pair.source], self.element[pair.destination], |at| passes |= at == last);
            if passes {
                return Some((pair.source, pair.destination));
            }
        }
        None
    }

    /// A pair that communicates; none where nothing is sent.
    pub fn any_pair(&self, mut pick: impl FnMut(usize) -> usize) -> Option<(usize, usize)> {
        let phase = self.phases.get(pick(self.phases.len()))?;
        let pair = phase.pairs.get(pick(phase.pairs.len()))?;
        Some((pair.source, pair.destination))
    }
}

impl Phase {
    fn new(weight: f64, pattern: &Pattern, routes: &Routes) -> Self {
        let mut by_pair: BTreeMap<(usize, usize), Vec<(f64, f64)>> = BTreeMap::new();
        for messages in pattern.messages.iter().filter(|messages| messages.source != messages.destination) {
            let entry = by_pair.entry((messages.source, messages.destination)).or_default();
            entry.push((messages.length, messages.count as f64));
        }
        let bytes_of = |messages: &Vec<(f64, f64)>| messages.iter().map(|(length, count)| length * count).sum::<f64>();
        let bytes: f64 = by_pair.values().map(bytes_of).sum();
        let count: f64 = by_pair.values().flatten().map(|messages| messages.1).sum();
        let worst = routes.kinds.iter().map(Kind::slowest).fold((0.0f64, 0.0f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let total = bytes * worst.0 + count * worst.1;
        let slowest = routes.resources.iter().map(|resource| resource.seconds_per_byte).fold(0.0, f64::max);
        let conceivable_s = total.max(bytes * slowest);
        let tick_s = if total > 0.0 { total / TICKS } else { 1.0 };
        let mut of_task = vec![Vec::new(); pattern.tasks];
        let mut pairs = Vec::with_capacity(by_pair.len());
        for ((source, destination), messages) in by_pair {
            of_task[source].push(pairs.len() as u32);
            of_task[destination].push(pairs.len() as u32);
            let bytes = bytes_of(&messages).round() as i64;
            pairs.push(Pair { source, destination, bytes, messages, ticks: Vec::new() });
        }
        let count = routes.resources.len();
        Self {
            weight,
            tick_s,
            pairs,
            of_task,
            loads: vec![Load::default(); count],
            wires: vec![0.0; routes.wires.len()],
            scale_s: 1.0,
            // Where nothing has to wait yet, a millionth of the longest conceivable time.
            least_scale_s: if conceivable_s > 0.0 { conceivable_s * 1e-6 } else { 1.0 },
            sums: Sums::default(),
            remembered: Sums::default(),
            touched: Vec::new(),
            is_touched: vec![false; count],
        }
    }

    /// Adds (`sign` 1) a pair to what is on its way, or takes it away (-1).
    fn carry(&mut self, routes: &Routes, element: &[usize], pair: usize, sign: i64) {
        let Self { pairs, loads, touched, is_touched, tick_s, .. } = self;
        let pair = &mut pairs[pair];
        routes.along(element[pair.source], element[pair.destination], |at| {
            if !std::mem::replace(&mut is_touched[at], true) {
                touched.push(at as u32);
            }
            let load = &mut loads[at];
            load.bytes += sign * pair.bytes;
            let kind = routes.resources[at].kind;
            if kind != NONE {
                load.add(pair.source as u32, sign * pair.through(kind, routes, *tick_s));
            }
        });
    }

    /// Works out the times of all that was touched.
    fn settle(&mut self, routes: &Routes) {
        let tick_s = self.tick_s;
        for at in std::mem::take(&mut self.touched) {
            let at = at as usize;
            self.is_touched[at] = false;
            let load = &self.loads[at];
            let longest = load.senders.iter().map(|sender| sender.1).max().unwrap_or(0) as f64 * tick_s;
            let seconds = longest.max(load.bytes as f64 * routes.resources[at].seconds_per_byte);
            self.sums.steep += self.power(seconds, STEEP) - self.power(load.seconds, STEEP);
            self.loads[at].seconds = seconds;
            let wire = routes.resources[at].wire as usize;
            let of_wire = routes.wires[wire].iter().map(|&at| self.loads[at as usize].seconds).fold(0.0, f64::max);
            self.sums.norm += self.power(of_wire, NORM) - self.power(self.wires[wire], NORM);
            self.wires[wire] = of_wire;
        }
    }

    fn longest(&self) -> f64 {
        self.loads.iter().map(|load| load.seconds).fold(0.0, f64::max)
    }

    fn power(&self, seconds: f64, norm: i32) -> f64 {
        (seconds / self.scale_s).powi(norm)
    }

    /// What a sum of such powers stands for, in seconds.
    fn root(&self, sum: f64, norm: i32) -> f64 {
        self.scale_s * sum.max(0.0).powf(1.0 / f64::from(norm))
    }
}

impl Load {
    fn add(&mut self, task: u32, ticks: i64) {
        match self.senders.binary_search_by_key(&task, |sender| sender.0) {
            Ok(at) => {
                self.senders[at].1 += ticks;
                if self.senders[at].1 == 0 {
                    self.senders.remove(at);
                }
            }
            Err(at) if ticks != 0 => self.senders.insert(at, (task, ticks)),
            Err(_) => {}
        }
    }
}
