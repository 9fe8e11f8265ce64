//! DeLoc's mapping: Algorithm 1 (section II-D) of "DeLoc: A Locality and Memory-Congestion-Aware Task Mapping Method
//! for Modern NUMA Systems", 2020. The two tasks of a pair go to one NUMA node, and the next pair of those that
//! communicate at the same time to the next node: groups by their load Lc, pairs of a group by their load Wp
//! ([`cohabit_model::timeline::groups`]).
//!
//! Where the paper is open: a pair of which either task is mapped already is skipped (a chain of 56 equal links on 2
//! nodes of 28 then has 27 links remote, by the other readings 53 or 1), and a task that is left over goes to the node
//! of its heaviest partner that has room, those that communicate most first. A pair needs two free cores, else the next
//! node is taken. The current node goes on after each pair, through all groups, and after the last node comes the
//! first. Within a node, PUs follow one another, the second ones of cores last. Wp and Lc are of bytes, as in the
//! paper, and of messages where no bytes are known.

use crate::graph::Graph;
use crate::load::settled;
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::timeline::groups;
use cohabit_model::topology::{Level, NodeId};
use cohabit_model::{Error, Matrix, Period, Result, Topology};
use std::cmp::Reverse;
use std::ops::Range;

/// The mapper `deloc`.
pub struct DeLoc;

impl Mapper for DeLoc {
    fn name(&self) -> &'static str {
        "deloc"
    }

    fn about(&self) -> &'static str {
        "pairs that communicate at the same time to NUMA nodes in turn: needs the profile's time series"
    }

    fn source(&self) -> &'static str {
        "DeLoc, section II-D, Algorithm 1"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("a published algorithm, which trades locality for balance by its own rule")
    }

    fn needs_periods(&self) -> bool {
        true
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let communicates = problem.weight.iter().any(|(a, b, _)| a != b);
        if problem.periods.is_empty() && communicates {
            return Err(Error::new(
                "the mapper deloc needs to know what happens at the same time, and the profile has no time series",
            )
            .remedy("profile with 'cohabit profile', or take --mapper balance, which needs no series"));
        }
        let nodes = memory_nodes(problem.topology);
        let open: Vec<Vec<usize>> =
            nodes.iter().map(|pus| in_order(problem.topology, &slots, &slots.of_pus(pus))).collect();
        let mut map = Map {
            partial: PartialMapping::new(&slots),
            next: vec![0; open.len()],
            open,
            node_of: vec![None; slots.tasks()],
            current: 0,
        };
        for task in 0..slots.tasks() {
            let slot = map.partial.slot_of(task);
            map.node_of[task] = slot.and_then(|slot| map.open.iter().position(|node| node.contains(&slot)));
        }
        for group in groups(problem.periods.iter().map(size)) {
            for (a, b, _) in group.pairs {
                map.pair(a as usize, b as usize);
            }
        }
        map.rest(&Graph::new(problem.weight));
        settled(problem, &slots, &map.partial.finish())
    }
}

/// What is exchanged in a part of the run: bytes, and messages where no bytes are known.
pub(crate) fn size(period: &Period) -> &Matrix {
    if period.bytes.entries() > 0 { &period.bytes } else { &period.messages }
}

/// The PUs of each NUMA node, or of each child of the root.
pub(crate) fn memory_nodes(topology: &Topology) -> Vec<Range<usize>> {
    memory_node_ids(topology).into_iter().map(|node| topology.nodes[node].pus.clone()).collect()
}

/// The NUMA nodes, where every PU is in one; else the children of the topmost node that branches, or all there is.
pub(crate) fn memory_node_ids(topology: &Topology) -> Vec<NodeId> {
    let is_numa = |&node: &NodeId| topology.nodes[node].level == Level::Numa;
    let numa: Vec<NodeId> = (0..topology.nodes.len()).filter(is_numa).collect();
    if numa.iter().map(|&node| topology.nodes[node].pus.len()).sum::<usize>() == topology.pus.len() && !numa.is_empty()
    {
        return numa;
    }
    let mut node = 0;
    while let [only] = topology.nodes[node].children[..] {
        node = only;
    }
    match &topology.nodes[node].children[..] {
        [] => vec![node],
        children => children.to_vec(),
    }
}

/// The slots of a node, those of the first PUs of its cores first.
fn in_order(topology: &Topology, slots: &Slots, range: &Range<usize>) -> Vec<usize> {
    let mut order: Vec<usize> = range.clone().collect();
    let sibling = |slot: usize| slots.pu[slot] - topology.nodes[topology.core_of(slots.pu[slot])].pus.start;
    order.sort_by_key(|&slot| (sibling(slot), slot));
    order
}

struct Map<'a> {
    partial: PartialMapping<'a>,
    /// The slots of each node, in the order in which they are taken.
    open: Vec<Vec<usize>>,
    /// Where in these a slot may still be taken: what may not be taken now never may, but for what is given back.
    next: Vec<usize>,
    node_of: Vec<Option<usize>>,
    current: usize,
}

impl Map<'_> {
    fn first_of(&mut self, node: usize) -> Option<usize> {
        let (slots, partial) = (&self.open[node], &self.partial);
        let from = self.next[node];
        let found = slots[from..].iter().position(|&slot| partial.may_take(slot));
        self.next[node] = found.map_or(slots.len(), |found| from + found);
        slots.get(self.next[node]).copied()
    }

    fn take(&mut self, node: usize, task: usize) -> bool {
        let Some(slot) = self.first_of(node) else { return false };
        self.partial.take(slot, task);
        self.node_of[task] = Some(node);
        true
    }

    /// Puts a pair on the current node, or the next one after it that has two slots free.
    fn pair(&mut self, a: usize, b: usize) {
        if self.node_of[a].is_some() || self.node_of[b].is_some() {
            return;
        }
        let (count, current) = (self.open.len(), self.current);
        for node in (0..count).map(|step| (current + step) % count) {
            let next = self.next[node];
            if !self.take(node, a) {
                continue;
            }
            if self.take(node, b) {
                self.current = (node + 1) % count;
                return;
            }
            self.partial.give_back(a);
            self.node_of[a] = None;
            self.next[node] = next;
        }
    }

    /// Puts the others near their partners.
    fn rest(&mut self, graph: &Graph) {
        let total = |task: usize| graph.row(task).map(|(_, weight)| u128::from(weight)).sum::<u128>();
        let mut waiting = self.partial.waiting();
        waiting.sort_by_key(|&task| (Reverse(total(task)), task));
        let (count, current) = (self.open.len(), self.current);
        for task in waiting {
            let mut partners: Vec<(usize, u64)> = graph.row(task).collect();
            partners.sort_by_key(|&(other, weight)| (Reverse(weight), other));
            let near: Vec<usize> = partners.into_iter().filter_map(|(other, _)| self.node_of[other]).collect();
            let any = (0..count).map(|step| (current + step) % count);
            let found = near.into_iter().chain(any).any(|node| self.take(node, task));
            assert!(found, "there is a slot for every task");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};

    fn period(number: u64, tasks: usize, pairs: &[(u32, u32, u64)]) -> Period {
        let bytes = Matrix::from_triplets(tasks, pairs.iter().copied());
        Period { number, spans: std::iter::once(number..number + 1).collect(), messages: bytes.clone(), bytes }
    }

    fn map(arities: &[usize], tasks: usize, periods: &[Period], options: &Options) -> Vec<usize> {
        let all = periods.iter().flat_map(|period| period.bytes.iter().collect::<Vec<_>>());
        let (topology, weight) = (tree(arities, &[]), Matrix::from_triplets(tasks, all));
        DeLoc.map(&Problem { periods, ..problem(&weight, &topology, options) }).unwrap()
    }

    #[test]
    fn pairs_of_a_group_go_to_nodes_in_turn() {
        // The heavier group first: 4-5 to node 0, 6-7 to node 1; then 0-1 to node 0 and 2-3 to node 1.
        let groups = [period(0, 8, &[(0, 1, 5), (2, 3, 4)]), period(1, 8, &[(6, 7, 10), (5, 4, 20)])];
        let expected = [2, 3, 6, 7, 0, 1, 4, 5];
        assert_eq!(map(&[2, 4, 1], 8, &groups, &Options::default()), expected);
        // A pair may be in several groups; the heaviest decides.
        let groups = [period(0, 4, &[(0, 1, 5), (2, 3, 9)]), period(1, 4, &[(0, 1, 7)])];
        assert_eq!(map(&[2, 2, 1], 4, &groups, &Options::default()), [2, 3, 0, 1]);
    }

    #[test]
    fn a_chain_that_fills_two_nodes_has_27_links_remote() {
        let links: Vec<_> = (0..55).map(|task| (task, task + 1, 3)).collect();
        let placement = map(&[2, 14, 2], 56, &[period(0, 56, &links)], &Options::default());
        let remote = placement.windows(2).filter(|pair| (pair[0] < 28) != (pair[1] < 28)).count();
        assert_eq!(remote, 27);
    }

    #[test]
    fn what_is_left_over_goes_to_its_heaviest_partner() {
        // 2 says most to 1, which was mapped with 0; 3 says nothing. The second PUs of cores are taken last.
        let groups = [period(0, 4, &[(0, 1, 9), (1, 2, 5)])];
        let sharing = Options { share_cores: true, ..Options::default() };
        assert_eq!(map(&[2, 2, 2], 4, &groups, &sharing), [0, 2, 1, 4]);
        // No node has room for two: each where its partner is, as long as there is room.
        let pinned = Options { pins: vec![(0, 0), (3, 2)], ..Options::default() };
        assert_eq!(map(&[2, 2, 1], 4, &[period(0, 4, &[(1, 2, 9), (0, 1, 1)])], &pinned), [0, 1, 3, 2]);
    }

    #[test]
    fn without_a_series_it_is_refused() {
        let (topology, weight, options) =
            (tree(&[2, 2], &[]), Matrix::from_triplets(2, [(0, 1, 1)]), Options::default());
        let error = DeLoc.map(&problem(&weight, &topology, &options)).unwrap_err();
        assert!(error.cause.contains("no time series") && error.remedy.is_some());
        assert_eq!(DeLoc.map(&problem(&Matrix::zero(1), &topology, &options)).unwrap(), [0]);
    }
}
