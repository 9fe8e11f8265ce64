//! The tasks as the search sees them: weights in 32 bits, and a vertex for every slot, so that a mapping is a
//! permutation. Vertices beyond the tasks stand for slots that stay empty.

use crate::graph::Graph;

/// An undirected graph in compressed rows.
#[derive(Debug, Clone)]
pub struct Net {
    starts: Vec<u32>,
    arcs: Vec<(u32, i32)>,
    /// Vertices below this are tasks, the others empty slots.
    pub tasks: usize,
    /// Bits that weights were shifted right by.
    shift: u32,
}

impl Net {
    /// The net of a graph with as many vertices as slots. Weights are shifted right so that what a vertex pays stays
    /// far from the limits of 32 bits at any distance up to `greatest`.
    pub fn new(graph: &Graph, slots: usize, greatest: u64) -> Self {
        let tasks = graph.tasks();
        let heaviest = (0..tasks).map(|task| graph.row(task).map(|(_, weight)| u128::from(weight)).sum::<u128>()).max();
        let most = heaviest.unwrap_or(0).saturating_mul(u128::from(greatest.max(1)));
        let shift = (u128::BITS - most.leading_zeros()).saturating_sub(27);
        let mut net =
            Self { starts: Vec::with_capacity(slots + 1), arcs: Vec::with_capacity(2 * graph.pairs()), tasks, shift };
        net.starts.push(0);
        for task in 0..tasks {
            let arcs = graph.row(task).map(|(other, weight)| (other as u32, rounded(weight, shift)));
            net.arcs.extend(arcs.filter(|arc| arc.1 > 0));
            net.starts.push(net.arcs.len() as u32);
        }
        net.starts.resize(slots + 1, net.arcs.len() as u32);
        net
    }

    /// The net of some of the vertices (tasks first), by their places in the list.
    pub fn part(&self, vertices: &[u32], local: &mut [u32]) -> Self {
        vertices.iter().enumerate().for_each(|(at, &vertex)| local[vertex as usize] = at as u32);
        let tasks = vertices.iter().filter(|&&vertex| (vertex as usize) < self.tasks).count();
        let mut net = Self { starts: vec![0], arcs: Vec::new(), tasks, shift: self.shift };
        for &vertex in vertices {
            let inside = self.row(vertex as usize).iter().map(|arc| (local[arc.0 as usize], arc.1));
            net.arcs.extend(inside.filter(|arc| arc.0 != u32::MAX));
            net.starts.push(net.arcs.len() as u32);
        }
        vertices.iter().for_each(|&vertex| local[vertex as usize] = u32::MAX);
        net
    }

    /// Any cost in the units of the weights, far from the limits of 32 bits.
    pub fn scaled(&self, cost: u128) -> i32 {
        (cost.checked_shr(self.shift).unwrap_or(0)).min(1 << 26) as i32
    }

    /// The number of vertices.
    #[inline]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether a vertex stands for an empty slot.
    #[inline]
    pub fn is_empty_slot(&self, vertex: usize) -> bool {
        vertex >= self.tasks
    }

    /// The neighbours of a vertex with their weights.
    #[inline]
    pub fn row(&self, vertex: usize) -> &[(u32, i32)] {
        &self.arcs[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    /// The weight between two vertices.
    #[inline]
    pub fn weight(&self, a: usize, b: usize) -> i32 {
        let (a, b) = if self.row(a).len() <= self.row(b).len() { (a, b) } else { (b, a) };
        self.row(a).iter().find(|arc| arc.0 as usize == b).map_or(0, |arc| arc.1)
    }

    /// The mean weight of an edge, at least 1.
    pub fn mean_weight(&self) -> f64 {
        let sum: f64 = self.arcs.iter().map(|arc| f64::from(arc.1)).sum();
        (sum / self.arcs.len().max(1) as f64).max(1.0)
    }

    /// Vertices that have neighbours.
    pub fn communicating(&self) -> Vec<u32> {
        (0..self.tasks as u32).filter(|&vertex| !self.row(vertex as usize).is_empty()).collect()
    }
}

/// A weight shifted right, to the nearest.
fn rounded(weight: u64, shift: u32) -> i32 {
    match shift {
        0 => weight as i32,
        _ => ((u128::from(weight) + (1 << (shift - 1))) >> shift) as i32,
    }
}
