//! What the tests of this crate share: small topologies, random problems, the slow judge of a mapping.

use crate::random::Random;
use crate::{Options, Problem};
use cohabit_model::topology::{Level, Node, Pu};
use cohabit_model::{Matrix, Period, Topology};

/// A symmetric tree: children of each level from the root down, and a cost a level (100, 10, 1 from the PUs up where
/// `costs` is empty). The last level is PUs, the one above it cores.
pub fn tree(arities: &[usize], costs: &[u64]) -> Topology {
    let depth = arities.len();
    let cost = |level: usize| match costs {
        [] => 10_u64.pow((depth - 1 - level) as u32),
        _ => costs[level],
    };
    let mut topology =
        Topology { nodes: Vec::new(), pus: Vec::new(), matrix: None, names: Default::default(), text: String::new() };
    let mut above: Vec<usize> = Vec::new();
    for level in 0..=depth {
        let count: usize = arities[..level].iter().product();
        let below: usize = arities[level..].iter().product();
        let first = topology.nodes.len();
        for index in 0..count {
            let parent = (level > 0).then(|| above[index / arities[level - 1]]);
            let node = Node {
                level: level_at(level, depth),
                os_index: Some(index as u32),
                parent,
                children: Vec::new(),
                pus: index * below..(index + 1) * below,
                cost: if level == depth { 0 } else { cost(level) },
                size_bytes: 0,
            };
            if let Some(parent) = parent {
                topology.nodes[parent].children.push(first + index);
            }
            topology.nodes.push(node);
        }
        above = (first..first + count).collect();
    }
    topology.pus = above.iter().enumerate().map(|(index, &node)| pu(index, node)).collect();
    topology
}

fn level_at(level: usize, depth: usize) -> Level {
    match depth - level {
        0 => Level::Pu,
        1 if depth > 1 => Level::Core,
        _ if level == 0 => Level::Machine,
        _ => Level::Group,
    }
}

fn pu(index: usize, node: usize) -> Pu {
    Pu { os_index: index as u32, node, allowed: true, core_kind: 0, capacity: 1.0 }
}

/// A problem without loads.
pub fn problem<'a>(weight: &'a Matrix, topology: &'a Topology, options: &'a Options) -> Problem<'a> {
    Problem { weight, load: &[], periods: &[], topology, options }
}

/// The pairs of a matrix in three parts of a run.
pub fn periods_of(weight: &Matrix) -> Vec<Period> {
    let part = |number: u64| {
        let own = weight.iter().filter(|&(a, b, _)| u64::from(a + b) % 3 == number);
        let bytes = Matrix::from_triplets(weight.tasks(), own);
        Period { number, spans: std::iter::once(number..number + 1).collect(), messages: bytes.clone(), bytes }
    };
    (0..3).map(part).collect()
}

/// J by the definition, pair by pair, with distances found by walking the tree from the root down.
pub fn slow_cost(weight: &Matrix, topology: &Topology, placement: &[usize]) -> u128 {
    let dense = weight.to_dense();
    let tasks = weight.tasks();
    let mut sum = 0;
    for (a, b) in (0..tasks).flat_map(|a| (0..tasks).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        sum += u128::from(dense[a * tasks + b]) * u128::from(slow_distance(topology, placement[a], placement[b]));
    }
    sum
}

fn slow_distance(topology: &Topology, a: usize, b: usize) -> u64 {
    if let Some(matrix) = &topology.matrix {
        return if a == b { 0 } else { matrix[a * topology.pus.len() + b] };
    }
    let holds = |node: &Node| node.pus.contains(&a) && node.pus.contains(&b);
    let lowest = topology.nodes.iter().filter(|node| holds(node)).min_by_key(|node| (node.pus.len(), node.cost));
    if a == b { 0 } else { lowest.expect("the root holds every PU").cost }
}

/// Tasks in blocks under names at random, and the block of each. All of a block communicate much, and each block with
/// the next.
pub fn in_blocks(blocks: usize, size: usize, random: &mut Random) -> (Matrix, Vec<u32>) {
    let mut name: Vec<u32> = (0..(blocks * size) as u32).collect();
    random.shuffle(&mut name);
    let mut entries = Vec::new();
    let mut block_of = vec![0; name.len()];
    for (at, &task) in name.iter().enumerate() {
        block_of[task as usize] = (at / size) as u32;
        entries.extend(name[at / size * size..at].iter().map(|&other| (task, other, 100 + random.below(50) as u64)));
        entries.push((task, name[(at + size) % name.len()], 1));
    }
    (Matrix::from_triplets(name.len(), entries), block_of)
}
