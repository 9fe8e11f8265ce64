//! The distance cost J: the sum over pairs of weight times distance.

use super::{Case, Changing, Objective, State};
use crate::graph::Graph;
use crate::mappers::packed::Packed;
use crate::mappers::scatter::Scatter;
use crate::{Mapper, Problem, lower_bound};
use cohabit_model::cost::{distance_cost, seconds_of_distance};
use cohabit_model::topology::NodeId;
use cohabit_model::{Result, Topology};

/// Mappings whose J differs by this part take the same time as far as J can tell.
pub(super) const NEARLY: f64 = 0.02;
/// Waits that differ by this part are as long.
const AS_LONG: f64 = 0.01;

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

    fn preferred(&self, case: &Case, mapper: &dyn Mapper, found: Vec<usize>) -> Result<Vec<usize>> {
        match mapper.searches() && case.problem.options.present.is_empty() {
            true => shortest_wait(case.problem, found),
            false => Ok(found),
        }
    }
}

/// Of the mapping found, `packed` and `scatter` those whose J is above the least by [`NEARLY`] at most; of these the
/// one in which the task that waits longest for what it reads waits least, and where that hardly differs, too, `packed`
/// first and `scatter` last.
///
/// J is a sum, and a part of a run takes as long as the task that waits longest. So a small difference of J says little
/// of time. And what J does not count is for `packed`: tasks of neighbouring numbers often use the same memory.
fn shortest_wait(problem: &Problem, found: Vec<usize>) -> Result<Vec<usize>> {
    let mut left = vec![Packed.map(problem)?, found, Scatter.map(problem)?];
    keep_nearly_least(&mut left, NEARLY, |placement| distance_cost(problem.weight, problem.topology, placement));
    keep_nearly_least(&mut left, AS_LONG, |placement| longest_wait(problem, placement));
    Ok(left.swap_remove(0))
}

/// Keeps the placements of which something is no more than `slack` (a share) above the least.
fn keep_nearly_least(left: &mut Vec<Vec<usize>>, slack: f64, of: impl Fn(&[usize]) -> u128) {
    let least = left.iter().map(|placement| of(placement)).min().unwrap_or(0) as f64;
    left.retain(|placement| of(placement) as f64 <= least * (1.0 + slack));
}

/// What the task that reads the most from the farthest pays of J.
fn longest_wait(problem: &Problem, placement: &[usize]) -> u128 {
    let mut waits = vec![0_u128; placement.len()];
    for (source, reader, weight) in problem.weight.iter() {
        let distance = problem.topology.distance(placement[source as usize], placement[reader as usize]);
        waits[reader as usize] += u128::from(weight) * u128::from(distance);
    }
    waits.into_iter().max().unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::map_for;
    use crate::testing::{problem, tree};
    use crate::{Options, mapper, objective};
    use cohabit_model::Matrix;

    fn found(weight: &Matrix) -> [Vec<usize>; 3] {
        let (topology, options) = (tree(&[2, 4], &[100, 10]), Options::default());
        let problem = problem(weight, &topology, &options);
        let case = Case { problem: &problem, network: None, memory: &[] };
        let by = |name: &str| map_for(&case, mapper(name).unwrap(), objective("distance").unwrap()).unwrap();
        [by("best"), by("packed"), mapper("best").unwrap().map(&problem).unwrap()]
    }

    /// Where all pairs are alike, whatever `best` finds is no nearer than `packed`.
    #[test]
    fn what_is_no_nearer_than_packed_is_packed() {
        let all = |weight: u64| (0..8).flat_map(move |a| (0..8).filter(move |&b| b != a).map(move |b| (a, b, weight)));
        let [best, packed, _] = found(&Matrix::from_triplets(8, all(1000)));
        assert_eq!(best, packed);
        // Two tasks of both halves that exchange 2 % more than the others: 0.05 % of J.
        let few = all(1000).map(|(a, b, weight)| (a, b, weight + if (a, b) == (0, 7) { 20 } else { 0 }));
        let [best, packed, _] = found(&Matrix::from_triplets(8, few));
        assert_eq!(best, packed);
    }

    /// Tasks that all communicate alike, on 16 and 16 PUs: 28 are as many on either side, which is 1.7 % of J more than
    /// 16 and 12, and nobody waits as long as the 12 would. 18 are together, but for two.
    #[test]
    fn nobody_waits_longer_than_needed_where_that_hardly_costs() {
        let on_one_side = |tasks: u32| {
            let (topology, options) = (tree(&[2, 16], &[100, 10]), Options::default());
            let all = (0..tasks).flat_map(|a| (0..tasks).filter(move |&b| b != a).map(move |b| (a, b, 10)));
            let weight = Matrix::from_triplets(tasks as usize, all);
            let problem = problem(&weight, &topology, &options);
            let case = Case { problem: &problem, network: None, memory: &[] };
            let found = map_for(&case, mapper("best").unwrap(), objective("distance").unwrap()).unwrap();
            let first = found.iter().filter(|&&pu| pu < 16).count();
            first.max(tasks as usize - first)
        };
        assert_eq!([28, 18].map(on_one_side), [14, 16]);
    }

    /// Pairs across the halves of the machine are not, nor is one task that waits longest, however little it is of J.
    #[test]
    fn what_is_nearer_is_kept() {
        let pairs = Matrix::from_triplets(8, (0..4).map(|task| (task, task + 4, 100)));
        let [best, packed, of_mapper] = found(&pairs);
        assert_eq!(best, of_mapper);
        assert_ne!(best, packed);
        let neighbours =
            [(0, 1, 10_000), (2, 3, 10_000), (4, 5, 10_000), (6, 7, 10_000), (1, 0, 10_000), (3, 2, 10_000)];
        let far = Matrix::from_triplets(8, neighbours.into_iter().chain([(5, 1, 40)]));
        let [best, packed, of_mapper] = found(&far);
        assert_eq!(best, of_mapper, "4,000 of 604,000, and the task that waits longest waits for it");
        assert_ne!(best, packed);
    }
}
