//! What every resource carries in each part of the run under a placement, and how long every task is busy, kept up to
//! date while tasks move.
//!
//! Times are whole numbers of ticks (all that a part does, at its slowest, is 2^52), so that what is taken away is
//! exactly what was added.

use super::resources::{Resources, Speeds, moved};
use crate::mappers::deloc::size;
use crate::objective::State;
use cohabit_model::topology::NodeId;
use cohabit_model::{Matrix, Period, Topology};
use std::collections::BTreeMap;

const TICKS: f64 = (1_u64 << 52) as f64;
/// Which norm of all times stands for the longest, and which for how full all resources are.
const STEEP: i32 = 16;
const FULL: i32 = 4;
/// What fullness counts beside waiting where both are to be small: it decides between what waits equally long.
const FULL_BESIDE_NEAR: f64 = 1e-3;

/// How much longer a task's work takes while another works on its core, on another PU: two take 1.6 times as long, so
/// that they do 1.25 times as much as one. Published gains by simultaneous multithreading lie around that, between 1.0
/// and 1.5.
const BESIDE: f64 = 0.6;

/// What is known of tasks beside what they say to each other, in bytes by task; empty where not known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own<'a> {
    /// What it accesses in the whole run.
    pub accessed: &'a [u64],
    /// What of that comes from memory.
    pub memory: &'a [u64],
}

impl Own<'_> {
    fn of(bytes: &[u64], task: usize) -> f64 {
        bytes.get(task).map_or(0.0, |&bytes| bytes as f64)
    }
}

struct Pair {
    source: usize,
    destination: usize,
    /// At each kind of resource.
    ticks: Vec<i64>,
    /// Of the reader, for each unit of distance.
    wait: i64,
}

/// What a task does by itself in a part.
struct Alone {
    /// At its core.
    work: i64,
    /// At its memory's controller, by kind of resource.
    memory: Vec<i64>,
    /// At caches and controllers, by kind of resource, as if all it accesses came through these.
    accesses: Vec<i64>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    steep: f64,
    full: f64,
}

struct Part {
    /// How long the busiest port takes, wherever its task is.
    floor_s: f64,
    tick_s: f64,
    pairs: Vec<Pair>,
    of_task: Vec<Vec<u32>>,
    alone: Vec<Alone>,
    /// What tasks work on average. Who works more than the others does so at an unknown time, perhaps while they sleep:
    /// that is not taken to hide what they wait for.
    work: i64,
    /// Of the resources, and then of the tasks: work, what others on the core add to it, and waiting.
    loads: Vec<i64>,
    /// What would pass resources if all accesses came through them.
    accesses: Vec<i64>,
    /// All waiting for what others wrote.
    waiting: i64,
    busiest_at: usize,
    scale: f64,
    sums: Sums,
    remembered: Sums,
    /// Loads that the sums are without just now.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
}

/// All parts of a run under one placement.
pub(super) struct Loads<'a> {
    topology: &'a Topology,
    resources: Resources,
    parts: Vec<Part>,
    node: Vec<NodeId>,
    /// The tasks on each core.
    on_core: Vec<Vec<u32>>,
}

impl<'a> Loads<'a> {
    /// Of a placement: `node[task]` is that of its PU. Without periods the whole run is one part.
    pub fn new(
        topology: &'a Topology,
        resources: Resources,
        speeds: &Speeds,
        weight: &Matrix,
        periods: &[Period],
        own: Own,
        node: &[NodeId],
    ) -> Self {
        let windows = |period: &Period| period.spans.iter().map(|span| span.end - span.start).sum::<u64>() as f64;
        let all = periods.iter().map(windows).sum::<f64>().max(1.0);
        let far = topology.nodes.iter().map(|node| node.cost).max().unwrap_or(0);
        let far = topology.matrix.iter().flatten().copied().max().unwrap_or(far);
        let new = |bytes: &Matrix, messages: &Matrix, share: f64| {
            Part::new(&resources, speeds, [bytes, messages], (own, share), far)
        };
        let parts = match periods {
            [] => vec![new(weight, &Matrix::zero(weight.tasks()), 1.0)],
            _ => periods.iter().map(|period| new(size(period), &period.messages, windows(period) / all)).collect(),
        };
        let on_core = vec![Vec::new(); topology.nodes.len()];
        let mut loads = Self { topology, resources, parts, node: node.to_vec(), on_core };
        for part in &mut loads.parts {
            (0..part.pairs.len()).for_each(|pair| part.carry(topology, &loads.resources, &loads.node, pair, 1));
        }
        (0..node.len()).for_each(|task| loads.add_task(task));
        loads.refresh();
        loads
    }

    /// What no placement takes less than: every part's busiest port, and its busiest task if all it reads were as near
    /// as anything is.
    pub fn floor(&self) -> f64 {
        let topology = self.topology;
        let near = match &topology.matrix {
            _ if self.node.len() > topology.pus.len() => 0,
            Some(matrix) => matrix.iter().copied().filter(|&distance| distance > 0).min().unwrap_or(0),
            None => {
                topology.nodes.iter().filter(|node| node.children.len() > 1).map(|node| node.cost).min().unwrap_or(0)
            }
        };
        let floor = |part: &Part| {
            let mut busy = vec![part.work; part.alone.len()];
            part.pairs.iter().for_each(|pair| busy[pair.destination] += pair.wait * near as i64);
            part.floor_s.max(busy.into_iter().max().unwrap_or(0) as f64 * part.tick_s)
        };
        self.parts.iter().map(floor).sum()
    }

    /// How long tasks wait for what others wrote, all of them together: J in seconds.
    pub fn waiting(&self) -> f64 {
        self.parts.iter().map(|part| part.waiting as f64 * part.tick_s).sum()
    }

    /// How full resources are.
    pub fn full(&self) -> f64 {
        self.parts.iter().map(|part| part.root(part.sums.full, FULL)).sum()
    }

    fn carry(&mut self, moves: &[(usize, NodeId)], sign: i64) {
        let Self { topology, resources, parts, node, .. } = self;
        for part in parts {
            for (number, &(task, _)) in moves.iter().enumerate() {
                for at in 0..part.of_task[task].len() {
                    let pair = part.of_task[task][at] as usize;
                    let Pair { source, destination, .. } = part.pairs[pair];
                    // A pair of two that are moved is carried once.
                    if !moves[..number].iter().any(|&(other, _)| other == source || other == destination) {
                        part.carry(topology, resources, node, pair, sign);
                    }
                }
            }
        }
    }

    /// Puts a task on its core.
    fn add_task(&mut self, task: usize) {
        let core = self.resources.core(self.node[task]);
        self.beside(task, core, 1);
        self.on_core[core].push(task as u32);
    }

    /// Takes a task from its core.
    fn remove_task(&mut self, task: usize) {
        let core = self.resources.core(self.node[task]);
        self.on_core[core].retain(|&other| other != task as u32);
        self.beside(task, core, -1);
    }

    /// A task comes to the others on a core, or leaves them, and to its memory.
    fn beside(&mut self, task: usize, core: NodeId, sign: i64) {
        let (resources, node) = (&self.resources, self.node[task]);
        let first = resources.all.len();
        for part in &mut self.parts {
            for &other in &self.on_core[core] {
                let other = other as usize;
                // For as long as both work.
                let both = part.alone[task].work.min(part.alone[other].work);
                let longer = if self.node[other] == node { both } else { (both as f64 * BESIDE).round() as i64 };
                part.add(first + other, sign * longer);
                part.add(first + task, sign * longer);
            }
            let kind = |at: usize| resources.all[at].1 as usize;
            let controller = resources.controller(node);
            part.add(controller, sign * part.alone[task].memory[kind(controller)]);
            for at in [Some(controller), resources.cache(node)].into_iter().flatten() {
                part.access(at, sign * part.alone[task].accesses[kind(at)]);
            }
        }
    }
}

impl Part {
    /// Of bytes and messages, and a share of what tasks do by themselves; no distance is above `far`.
    fn new(
        resources: &Resources,
        speeds: &Speeds,
        [bytes, messages]: [&Matrix; 2],
        (own, share): (Own, f64),
        far: u64,
    ) -> Self {
        let tasks = bytes.tasks();
        let mut of_pair: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for (a, b, value) in bytes.iter().filter(|&(a, b, _)| a != b) {
            of_pair.entry((a as usize, b as usize)).or_default().0 += value as f64;
        }
        for (&(a, b), pair) in &mut of_pair {
            pair.1 = messages.get(a, b) as f64;
        }
        let mut ports = vec![[0.0_f64; 2]; tasks];
        for (&(a, b), &(bytes, _)) in &of_pair {
            ports[a][0] += bytes / speeds.port;
            ports[b][1] += bytes / speeds.port;
        }
        let at_kind = |kind: usize, bytes: f64, count: f64| resources.kinds[kind].seconds(bytes, count);
        let at_kinds = |bytes: f64, count: f64| (0..resources.kinds.len()).map(move |kind| at_kind(kind, bytes, count));
        let wait = |bytes: f64, count: f64| moved(bytes, count) / speeds.task / resources.own_distance;
        let slowest =
            |&(bytes, count): &(f64, f64)| at_kinds(bytes, count).fold(wait(bytes, count) * far as f64, f64::max);
        let work = |task: usize| share * Own::of(own.accessed, task) / speeds.task;
        let alone = |task: usize| {
            let memory = share * Own::of(own.memory, task);
            work(task).max(at_kinds(memory, 0.0).fold(memory / speeds.task, f64::max))
        };
        // No sum is larger: what tasks do by themselves may count at each other, on one core.
        let total: f64 = of_pair.values().map(slowest).sum::<f64>() + (0..tasks).map(alone).sum::<f64>();
        let tick_s = if total > 0.0 { total / TICKS } else { 1.0 };
        let ticks = |seconds: f64| (seconds / tick_s).round() as i64;
        let (mut pairs, mut of_task) = (Vec::with_capacity(of_pair.len()), vec![Vec::new(); tasks]);
        for ((source, destination), (bytes, count)) in of_pair {
            of_task[source].push(pairs.len() as u32);
            of_task[destination].push(pairs.len() as u32);
            let at_kinds = at_kinds(bytes, count).map(ticks).collect();
            pairs.push(Pair { source, destination, ticks: at_kinds, wait: ticks(wait(bytes, count)) });
        }
        let alone = |task: usize| {
            let by_kind = |bytes: f64| at_kinds(bytes, 0.0).map(ticks).collect();
            let memory = share * Own::of(own.memory, task);
            // Reading the memory of the own node is part of the work; where that is more than is accessed, it is the
            // work.
            let work = ticks(work(task).max(memory / speeds.task));
            Alone { work, memory: by_kind(memory), accesses: by_kind(share * Own::of(own.accessed, task)) }
        };
        let alone: Vec<Alone> = (0..tasks).map(alone).collect();
        let shared = resources.all.len();
        let work = alone.iter().map(|alone| alone.work).sum::<i64>() / tasks.max(1) as i64;
        Self {
            floor_s: ports.into_iter().flatten().fold(0.0, f64::max),
            tick_s,
            pairs,
            of_task,
            alone,
            work,
            loads: std::iter::repeat_n(0, shared).chain(std::iter::repeat_n(work, tasks)).collect(),
            accesses: vec![0; shared],
            waiting: 0,
            busiest_at: 0,
            scale: 1.0,
            sums: Sums::default(),
            remembered: Sums::default(),
            touched: Vec::new(),
            is_touched: vec![false; shared + tasks],
        }
    }

    /// A pair's messages are added to what they pass, or taken away.
    fn carry(&mut self, topology: &Topology, resources: &Resources, node: &[NodeId], pair: usize, sign: i64) {
        let Pair { source, destination, wait, .. } = self.pairs[pair];
        let (from, to) = (node[source], node[destination]);
        let pu = |node: NodeId| topology.nodes[node].pus.start;
        let wait = sign * wait * topology.distance(pu(from), pu(to)) as i64;
        self.waiting += wait;
        self.add(resources.all.len() + destination, wait);
        resources.along(from, to, |at| {
            let ticks = self.pairs[pair].ticks[resources.all[at].1 as usize];
            self.add(at, sign * ticks);
        });
    }

    #[inline]
    fn add(&mut self, at: usize, ticks: i64) {
        self.touch(at);
        self.loads[at] += ticks;
    }

    fn access(&mut self, at: usize, ticks: i64) {
        self.touch(at);
        self.accesses[at] += ticks;
    }

    /// Takes what a load adds to the sums away, until it is [`Part::settle`]d: many pairs pass the same few resources.
    #[inline]
    fn touch(&mut self, at: usize) {
        if !self.is_touched[at] {
            self.is_touched[at] = true;
            self.touched.push(at as u32);
            self.sums.steep -= self.steepness(at);
            self.sums.full -= self.fullness(at);
        }
    }

    fn settle(&mut self) {
        while let Some(at) = self.touched.pop() {
            let at = at as usize;
            self.is_touched[at] = false;
            self.sums.steep += self.steepness(at);
            self.sums.full += self.fullness(at);
        }
    }

    #[inline]
    fn steepness(&self, at: usize) -> f64 {
        (self.loads[at] as f64 / self.scale).powi(STEEP)
    }

    /// What a resource adds to the norm of all; tasks are none.
    #[inline]
    fn fullness(&self, at: usize) -> f64 {
        let own = self.accesses.get(at);
        own.map_or(0.0, |own| ((self.loads[at] + own) as f64 / self.scale).powi(FULL))
    }

    fn busiest(&self) -> i64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    fn seconds(&self) -> f64 {
        self.floor_s.max(self.busiest() as f64 * self.tick_s)
    }

    fn refresh(&mut self) {
        self.busiest_at = (0..self.loads.len()).max_by_key(|&at| self.loads[at]).unwrap_or(0);
        self.scale = (self.busiest() as f64).max(TICKS * 1e-6);
        self.settle();
        let steep = (0..self.loads.len()).map(|at| self.steepness(at)).sum();
        self.sums = Sums { steep, full: (0..self.accesses.len()).map(|at| self.fullness(at)).sum() };
    }

    fn root(&self, sum: f64, power: i32) -> f64 {
        self.tick_s * self.scale * sum.max(0.0).powf(1.0 / f64::from(power))
    }
}

impl State for Loads<'_> {
    fn cost(&self) -> f64 {
        self.parts.iter().map(Part::seconds).sum()
    }

    fn smooth(&self) -> f64 {
        self.parts.iter().map(|part| part.root(part.sums.steep, STEEP)).sum()
    }

    fn norm(&self) -> f64 {
        self.waiting() + FULL_BESIDE_NEAR * self.full()
    }

    fn at(&self, task: usize) -> NodeId {
        self.node[task]
    }

    fn place(&mut self, moves: &[(usize, NodeId)]) {
        self.carry(moves, -1);
        moves.iter().for_each(|&(task, _)| self.remove_task(task));
        moves.iter().for_each(|&(task, node)| self.node[task] = node);
        moves.iter().for_each(|&(task, _)| self.add_task(task));
        self.carry(moves, 1);
        self.parts.iter_mut().for_each(Part::settle);
    }

    fn refresh(&mut self) {
        self.parts.iter_mut().for_each(Part::refresh);
    }

    fn remember(&mut self) {
        self.parts.iter_mut().for_each(|part| part.remembered = part.sums);
    }

    fn undone(&mut self) {
        self.parts.iter_mut().for_each(|part| part.sums = part.remembered);
    }

    fn critical(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)> {
        let part = self.parts.get(pick(self.parts.len()))?;
        // As of the last refresh: to look for it at each proposal would take longer than what it is proposed for.
        let busiest = part.busiest_at;
        let task = busiest.checked_sub(self.resources.all.len());
        // A few pairs are tried for one that passes it.
        for _ in 0..8 {
            let pair = match task {
                Some(task) => &part.pairs[*part.of_task[task].get(pick(part.of_task[task].len()))? as usize],
                None => part.pairs.get(pick(part.pairs.len()))?,
            };
            let mut passes = task == Some(pair.destination);
            if task.is_none() {
                self.resources.along(self.node[pair.source], self.node[pair.destination], |at| passes |= at == busiest);
            }
            if passes {
                return Some((pair.source, pair.destination));
            }
        }
        None
    }

    fn any_pair(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)> {
        let part = self.parts.get(pick(self.parts.len()))?;
        let pair = part.pairs.get(pick(part.pairs.len()))?;
        Some((pair.source, pair.destination))
    }
}
