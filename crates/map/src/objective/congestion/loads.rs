//! What every resource carries in each part of the run under a placement, kept up to date while tasks move.
//!
//! Times are whole numbers of ticks (all that a part sends, over the slowest of all, is 2^52), so that what is taken away is
//! exactly what was added.

use super::resources::{Resources, Speeds};
use crate::mappers::deloc::size;
use crate::objective::State;
use cohabit_model::topology::NodeId;
use cohabit_model::{Matrix, Period};
use std::collections::BTreeMap;

const TICKS: f64 = (1_u64 << 52) as f64;
/// Which norm of all resources' times stands for the longest, and which for how full all are.
const STEEP: i32 = 16;
const FULL: i32 = 4;

struct Pair {
    source: usize,
    destination: usize,
    /// By kind of resource.
    ticks: Vec<i64>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    steep: f64,
    full: f64,
}

struct Part {
    /// How long the busiest task takes at its own port, wherever it is.
    floor_s: f64,
    tick_s: f64,
    pairs: Vec<Pair>,
    of_task: Vec<Vec<u32>>,
    loads: Vec<i64>,
    scale: f64,
    sums: Sums,
    remembered: Sums,
}

/// All parts of a run under one placement.
pub(super) struct Loads {
    resources: Resources,
    parts: Vec<Part>,
    node: Vec<NodeId>,
}

impl Loads {
    /// Of a placement: `node[task]` is that of its PU. Without periods the whole run is one part.
    pub fn new(resources: Resources, speeds: &Speeds, weight: &Matrix, periods: &[Period], node: &[NodeId]) -> Self {
        let parts = match periods {
            [] => vec![Part::new(&resources, speeds, weight, &Matrix::zero(weight.tasks()))],
            _ => periods.iter().map(|period| Part::new(&resources, speeds, size(period), &period.messages)).collect(),
        };
        let mut loads = Self { resources, parts, node: node.to_vec() };
        for part in &mut loads.parts {
            (0..part.pairs.len()).for_each(|pair| part.carry(&loads.resources, &loads.node, pair, 1));
        }
        loads.refresh();
        loads
    }

    /// What no placement takes less than: every part's busiest port.
    pub fn floor(&self) -> f64 {
        self.parts.iter().map(|part| part.floor_s).sum()
    }

    fn carry(&mut self, moves: &[(usize, NodeId)], sign: i64) {
        let Self { resources, parts, node } = self;
        for part in parts {
            for (number, &(task, _)) in moves.iter().enumerate() {
                for at in 0..part.of_task[task].len() {
                    let pair = part.of_task[task][at] as usize;
                    let Pair { source, destination, .. } = part.pairs[pair];
                    // A pair of two that are moved is carried once.
                    if !moves[..number].iter().any(|&(other, _)| other == source || other == destination) {
                        part.carry(resources, node, pair, sign);
                    }
                }
            }
        }
    }
}

impl Part {
    fn new(resources: &Resources, speeds: &Speeds, bytes: &Matrix, messages: &Matrix) -> Self {
        let tasks = bytes.tasks();
        let mut of_pair: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for (a, b, value) in bytes.iter().filter(|&(a, b, _)| a != b) {
            of_pair.entry((a as usize, b as usize)).or_default().0 += value as f64;
        }
        for (&(a, b), pair) in &mut of_pair {
            pair.1 = messages.get(a, b).max(1) as f64;
        }
        let mut ports = vec![[0.0_f64; 2]; tasks];
        for (&(a, b), &(bytes, _)) in &of_pair {
            ports[a][0] += bytes / speeds.port;
            ports[b][1] += bytes / speeds.port;
        }
        let seconds = |kind: usize, bytes: f64, count: f64| resources.kinds[kind].seconds(bytes / count, count);
        let slowest = |&(bytes, count): &(f64, f64)| {
            (0..resources.kinds.len()).map(|kind| seconds(kind, bytes, count)).fold(0.0, f64::max)
        };
        let total: f64 = of_pair.values().map(slowest).sum();
        let tick_s = if total > 0.0 { total / TICKS } else { 1.0 };
        let (mut pairs, mut of_task) = (Vec::with_capacity(of_pair.len()), vec![Vec::new(); tasks]);
        for ((source, destination), (bytes, count)) in of_pair {
            of_task[source].push(pairs.len() as u32);
            of_task[destination].push(pairs.len() as u32);
            let ticks = (0..resources.kinds.len()).map(|kind| (seconds(kind, bytes, count) / tick_s).round() as i64);
            pairs.push(Pair { source, destination, ticks: ticks.collect() });
        }
        Self {
            floor_s: ports.into_iter().flatten().fold(0.0, f64::max),
            tick_s,
            pairs,
            of_task,
            loads: vec![0; resources.all.len()],
            scale: 1.0,
            sums: Sums::default(),
            remembered: Sums::default(),
        }
    }

    fn carry(&mut self, resources: &Resources, node: &[NodeId], pair: usize, sign: i64) {
        let Self { pairs, loads, scale, sums, .. } = self;
        let pair = &pairs[pair];
        resources.along(node[pair.source], node[pair.destination], |at| {
            let before = loads[at] as f64 / *scale;
            loads[at] += sign * pair.ticks[resources.all[at].1 as usize];
            let after = loads[at] as f64 / *scale;
            sums.steep += after.powi(STEEP) - before.powi(STEEP);
            sums.full += after.powi(FULL) - before.powi(FULL);
        });
    }

    fn busiest(&self) -> i64 {
        self.loads.iter().copied().max().unwrap_or(0)
    }

    fn seconds(&self) -> f64 {
        self.floor_s.max(self.busiest() as f64 * self.tick_s)
    }

    fn refresh(&mut self) {
        self.scale = (self.busiest() as f64).max(TICKS * 1e-6);
        let sum = |power: i32| self.loads.iter().map(|&load| (load as f64 / self.scale).powi(power)).sum();
        self.sums = Sums { steep: sum(STEEP), full: sum(FULL) };
    }

    fn root(&self, sum: f64, power: i32) -> f64 {
        self.tick_s * self.scale * sum.max(0.0).powf(1.0 / f64::from(power))
    }
}

impl State for Loads {
    fn cost(&self) -> f64 {
        self.parts.iter().map(Part::seconds).sum()
    }

    fn smooth(&self) -> f64 {
        self.parts.iter().map(|part| part.root(part.sums.steep, STEEP)).sum()
    }

    fn norm(&self) -> f64 {
        self.parts.iter().map(|part| part.root(part.sums.full, FULL)).sum()
    }

    fn at(&self, task: usize) -> NodeId {
        self.node[task]
    }

    fn place(&mut self, moves: &[(usize, NodeId)]) {
        self.carry(moves, -1);
        moves.iter().for_each(|&(task, node)| self.node[task] = node);
        self.carry(moves, 1);
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
        let busiest = (0..part.loads.len()).max_by_key(|&at| part.loads[at])?;
        // A few pairs are tried for one that passes it.
        for _ in 0..8 {
            let pair = part.pairs.get(pick(part.pairs.len()))?;
            let mut passes = false;
            self.resources.along(self.node[pair.source], self.node[pair.destination], |at| passes |= at == busiest);
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
