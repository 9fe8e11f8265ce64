//! What the tests of the search make their problems with.

use super::layout::{Layout, Tree};
use super::net::Net;
use super::subgraph::Subgraph;
use crate::Options;
use crate::graph::Graph;
use crate::levels::Levels;
use crate::random::Random;
use crate::slots::Slots;
use crate::testing::problem;
use cohabit_model::{Matrix, Topology};

/// A problem as the search sees it.
pub struct Ready {
    pub slots: Slots,
    pub layout: Layout,
    pub net: Net,
}

/// The tasks of a matrix and the PUs of a topology, which may share cores, with costs up to 100.
pub fn ready(weight: &Matrix, topology: &Topology) -> Ready {
    let options = Options { share_cores: true, ..Options::default() };
    let slots = Slots::new(&problem(weight, topology, &options)).unwrap();
    let levels = Levels::new(topology, &slots).unwrap();
    let layout = Layout::of_tree(Tree::new(&levels, slots.len()), &levels.distance, 1);
    let net = Net::new(&Graph::new(weight), slots.len(), 100);
    Ready { slots, layout, net }
}

/// J of groups of any sizes, each pair once.
pub fn cost_of_groups(net: &Net, layout: &Layout, group_of: &[u32]) -> i64 {
    let pays = |vertex: usize| {
        let distances = &layout.distance[group_of[vertex] as usize * layout.groups()..][..layout.groups()];
        let row = net.row(vertex).iter();
        row.map(|arc| i64::from(arc.1) * i64::from(distances[group_of[arc.0 as usize] as usize])).sum::<i64>()
    };
    (0..group_of.len()).map(pays).sum::<i64>() / 2
}

/// Tasks of which up to so many pairs communicate, both ways unalike.
pub fn communicating(tasks: usize, pairs: usize, random: &mut Random) -> Matrix {
    let mut end = || random.below(tasks) as u32;
    let pairs: Vec<_> = (0..pairs).map(|_| (end(), end())).filter(|pair| pair.0 != pair.1).collect();
    let entries = pairs.into_iter().flat_map(|(a, b)| [(a, b, u64::from(1 + a + b)), (b, a, 1)]);
    Matrix::from_triplets(tasks, entries)
}

/// A graph to cut in which about eight others are neighbours of a vertex, with vertices of up to so many slots.
pub fn drawn(count: usize, largest: usize, random: &mut Random) -> Subgraph {
    let mut weight = vec![0; count * count];
    for _ in 0..4 * count {
        let (a, b) = (random.below(count), random.below(count));
        if a != b {
            let more = 1 + random.below(90) as i32;
            weight[a * count + b] += more;
            weight[b * count + a] += more;
        }
    }
    let mut subgraph = Subgraph { starts: vec![0], ..Subgraph::default() };
    for row in weight.chunks_exact(count) {
        let arcs = row.iter().enumerate().filter(|arc| *arc.1 > 0);
        subgraph.arcs.extend(arcs.map(|(other, &weight)| (other as u32, weight)));
        subgraph.starts.push(subgraph.arcs.len() as u32);
        subgraph.size.push(1 + random.below(largest) as i32);
        subgraph.bias.push(random.below(60) as i32 - 30);
    }
    subgraph
}
