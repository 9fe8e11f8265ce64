//! The operating system's placement, modelled: each part of the machine gets as many tasks as the others, which ones is
//! drawn; and while the program runs, at a stated rate, two PUs change places, or a task moves to an idle core.

use cohabit_model::Topology;
use cohabit_model::topology::NodeId;

/// Draws a placement in which no part of the machine has two tasks more than another part of the same size.
pub fn placement(tasks: usize, topology: &Topology, draw: u32) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(u64::from(draw) ^ 0x0b5e_55ed);
    let mut order: Vec<usize> = (0..tasks).collect();
    random.shuffle(&mut order);
    let mut placement = vec![0; tasks];
    share(topology, 0, &order, &mut random, &mut placement);
    placement
}

fn share(topology: &Topology, node: NodeId, tasks: &[usize], random: &mut fastrand::Rng, placement: &mut [usize]) {
    let tree = &topology.nodes[node];
    if tree.children.is_empty() {
        tasks.iter().for_each(|&task| placement[task] = tree.pus.start);
        return;
    }
    // The next task goes to the emptiest child for its size, at random among equals.
    let mut given: Vec<Vec<usize>> = vec![Vec::new(); tree.children.len()];
    for &task in tasks {
        let full =
            |child: usize| given[child].len() as f64 / topology.nodes[tree.children[child]].pus.len().max(1) as f64;
        let least = (0..given.len()).map(full).fold(f64::INFINITY, f64::min);
        let open: Vec<usize> = (0..given.len()).filter(|&child| full(child) == least).collect();
        given[open[random.usize(..open.len())]].push(task);
    }
    for (&child, tasks) in tree.children.iter().zip(&given) {
        share(topology, child, tasks, random, placement);
    }
}

/// A migration: a moment, as a share of the run, and the two PUs that change places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Migration {
    /// From 0 to 1.
    pub at: f64,
    /// Indices into the topology's PUs; the second may be idle.
    pub pus: [usize; 2],
}

/// Draws the migrations of a run that lasts as long as `expected` of them: evenly over the run, independent of each
/// other. `core_of_pu` says which PUs are of one core: a task moves to an idle PU only where the whole core is idle.
pub fn migrations(placement: &[usize], core_of_pu: &[usize], expected: f64, draw: u32) -> Vec<Migration> {
    let mut random = fastrand::Rng::with_seed(u64::from(draw) ^ 0x316_7a7e);
    let mut at: Vec<f64> = (0..poisson(expected, &mut random)).map(|_| random.f64()).collect();
    at.sort_by(f64::total_cmp);
    let mut occupied: Vec<usize> = placement.to_vec();
    let one = |at: f64| {
        let task = random.usize(..occupied.len().max(1));
        let from = *occupied.get(task)?;
        let is_busy = |core: usize| occupied.iter().any(|&pu| core_of_pu[pu] == core);
        let open =
            |pu: &usize| core_of_pu[*pu] != core_of_pu[from] && (occupied.contains(pu) || !is_busy(core_of_pu[*pu]));
        let open: Vec<usize> = (0..core_of_pu.len()).filter(open).collect();
        let to = *open.get(random.usize(..open.len().max(1)))?;
        for pu in &mut occupied {
            *pu = if *pu == from {
                to
            } else if *pu == to {
                from
            } else {
                *pu
            };
        }
        Some(Migration { at, pus: [from, to] })
    };
    at.into_iter().filter_map(one).collect()
}

/// A number drawn from Poisson's distribution (Knuth's way, for small means; at most ten times the mean and 10).
fn poisson(mean: f64, random: &mut fastrand::Rng) -> usize {
    let most = (10.0 * mean) as usize + 10;
    let (mut count, mut left) = (0, mean);
    loop {
        // The times between events are exponential.
        left += (1.0 - random.f64()).ln();
        if left < 0.0 || count == most {
            return count;
        }
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn placements_are_balanced_and_differ() {
        let topology = Topology::parse_text("pack:2 core:4 pu:2").unwrap();
        for tasks in [1, 2, 5, 8, 11, 16, 20] {
            let mut seen = BTreeSet::new();
            for draw in 0..20 {
                let placement = placement(tasks, &topology, draw);
                for node in &topology.nodes {
                    let children = node
                        .children
                        .iter()
                        .map(|&child| placement.iter().filter(|&pu| topology.nodes[child].pus.contains(pu)).count());
                    let counts: Vec<_> = children.collect();
                    let spread = counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
                    assert!(spread <= 1, "{placement:?}");
                }
                seen.insert(placement);
            }
            assert!(seen.len() > 5, "{tasks}: {}", seen.len());
        }
        assert_eq!(placement(5, &topology, 3), placement(5, &topology, 3));
    }

    #[test]
    fn migrations_come_at_their_rate_and_keep_one_task_a_pu() {
        let cores = [0, 0, 1, 1, 2, 2, 3, 3];
        let mut count = 0;
        for draw in 0..400 {
            let mut placement = vec![0, 2, 4];
            for migration in migrations(&placement, &cores, 2.5, draw) {
                let [from, to] = migration.pus;
                assert!(placement.contains(&from) && cores[from] != cores[to] && (0.0..1.0).contains(&migration.at));
                for pu in &mut placement {
                    *pu = if *pu == from {
                        to
                    } else if *pu == to {
                        from
                    } else {
                        *pu
                    };
                }
                let used: BTreeSet<_> = placement.iter().map(|&pu| cores[pu]).collect();
                assert_eq!(used.len(), 3, "an idle sibling of a busy core is taken by nobody");
                count += 1;
            }
        }
        // Within five standard deviations of the mean: fixed seeds, so no luck is needed.
        assert!((f64::from(count) - 1000.0).abs() < 5.0 * 1000f64.sqrt(), "{count}");
        assert!(migrations(&[0, 2], &cores, 0.0, 1).is_empty());
        assert!(migrations(&[0], &[0, 0], 5.0, 1).is_empty());
    }
}
