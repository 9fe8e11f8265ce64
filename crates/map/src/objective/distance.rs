//! The distance cost J: the sum over pairs of weight times distance.

use super::{Case, Changing, Objective, State};
use crate::graph::Graph;
use crate::{Mapper, lower_bound};
use cohabit_model::cost::{distance_cost, seconds_of_distance};
use cohabit_model::topology::NodeId;
use cohabit_model::{Result, Topology};

/// The objective `distance`.
pub struct Distance;

impl Objective for Distance {
    fn name(&self) -> &'static str {
        "distance"
    }

    fn about(&self) -> &'static str {
        "the distance cost J, a sum over pairs"
    }

    fn unit(&self) -> &'static str {
        "weight x distance"
    }

    fn changing(&self, topology: &Topology, lines: f64) -> Option<Changing> {
        Some(Changing { seconds_per_cost: seconds_of_distance(topology, lines), adds_up: true })
    }

    fn cost(&self, case: &Case, placement: &[usize]) -> Result<f64> {
        Ok(distance_cost(case.problem.weight, case.problem.topology, placement) as f64)
    }

    fn bound(&self, case: &Case) -> Result<Option<f64>> {
        Ok(Some(lower_bound(case.problem)? as f64))
    }

    fn state<'a>(&self, case: &'a Case, placement: &[usize]) -> Result<Box<dyn State + 'a>> {
        let cost = distance_cost(case.problem.weight, case.problem.topology, placement) as i128;
        let (graph, topology) = (Graph::new(case.problem.weight), case.problem.topology);
        let edges = graph.edges().map(|(a, b, _)| (a, b)).collect();
        Ok(Box::new(Pairs { graph, edges, topology, placement: placement.to_vec(), cost, remembered: cost }))
    }

    fn least(&self, case: &Case, mapper: &dyn Mapper) -> Result<Vec<usize>> {
        mapper.map(case.problem)
    }
}

/// J of a placement.
struct Pairs<'a> {
    graph: Graph,
    edges: Vec<(usize, usize)>,
    topology: &'a Topology,
    placement: Vec<usize>,
    cost: i128,
    remembered: i128,
}

impl Pairs<'_> {
    /// What a task pays for its pairs; distances may differ there and back, and weights are the sum of both.
    fn of(&self, task: usize) -> i128 {
        let here = self.placement[task];
        let distance = |other: usize| i128::from(self.topology.distance(here, self.placement[other]));
        self.graph.row(task).map(|(other, weight)| i128::from(weight) * distance(other)).sum()
    }
}

impl State for Pairs<'_> {
    fn cost(&self) -> f64 {
        self.cost as f64
    }

    fn smooth(&self) -> f64 {
        self.cost as f64
    }

    fn norm(&self) -> f64 {
        self.cost as f64
    }

    fn at(&self, task: usize) -> NodeId {
        self.topology.pus[self.placement[task]].node
    }

    fn place(&mut self, moves: &[(usize, NodeId)]) {
        for &(task, node) in moves {
            self.cost -= self.of(task);
            self.placement[task] = self.topology.nodes[node].pus.start;
            self.cost += self.of(task);
        }
    }

    fn refresh(&mut self) {}

    fn remember(&mut self) {
        self.remembered = self.cost;
    }

    fn undone(&mut self) {
        self.cost = self.remembered;
    }

    fn critical(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)> {
        self.any_pair(pick)
    }

    fn any_pair(&self, pick: &mut dyn FnMut(usize) -> usize) -> Option<(usize, usize)> {
        self.edges.get(pick(self.edges.len())).copied()
    }
}
