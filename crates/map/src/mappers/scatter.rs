//! Tasks as far apart as can be: round robin at every level of the tree, what `OMP_PROC_BIND=spread` is for.

use crate::load::settled;
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::{Result, Topology};

/// The mapper `scatter`.
pub struct Scatter;

impl Mapper for Scatter {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn about(&self) -> &'static str {
        "tasks as far apart as can be, round robin at every level"
    }

    fn source(&self) -> &'static str {
        "OpenMP 5.2, proc_bind(spread)"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("looks at no communication")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let mut partial = PartialMapping::new(&slots);
        partial.fill(partial.waiting(), scattered(problem.topology, &slots));
        settled(problem, &slots, &partial.finish())
    }
}

/// The slots in round-robin order: first slots of PUs before second ones, then from the machine's children in turn,
/// within each of them from its children in turn, and so on.
fn scattered(topology: &Topology, slots: &Slots) -> Vec<usize> {
    // Slots of each node in its own round-robin order; children come after their parents, so they are ready first.
    let mut orders: Vec<Vec<usize>> = vec![Vec::new(); topology.nodes.len()];
    for (id, node) in topology.nodes.iter().enumerate().rev() {
        orders[id] = if node.children.is_empty() {
            slots.of_pus(&node.pus).collect()
        } else {
            dealt(node.children.iter().map(|&child| std::mem::take(&mut orders[child])).collect())
        };
    }
    let mut order = orders.into_iter().next().unwrap_or_default();
    let mut turn = vec![0; slots.len()];
    for slot in 1..slots.len() {
        turn[slot] = if slots.pu[slot] == slots.pu[slot - 1] { turn[slot - 1] + 1 } else { 0 };
    }
    order.sort_by_key(|&slot| turn[slot]);
    order
}

/// One from each list in turn.
fn dealt(lists: Vec<Vec<usize>>) -> Vec<usize> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| lists.iter().filter_map(move |list| list.get(at).copied())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::testing::{problem, tree};
    use cohabit_model::Matrix;

    #[test]
    fn tasks_go_round_robin_at_every_level() {
        let topology = tree(&[2, 2, 2], &[]);
        let check = |tasks: usize, expected: &[usize]| {
            let (weight, options) = (Matrix::zero(tasks), Options::default());
            assert_eq!(Scatter.map(&problem(&weight, &topology, &options)).unwrap(), expected);
        };
        check(3, &[0, 4, 2]);
        check(6, &[0, 4, 2, 6, 1, 5]);
        check(9, &[0, 4, 2, 6, 1, 5, 3, 7, 0]);
    }
}
