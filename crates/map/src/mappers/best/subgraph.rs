//! A part of the tasks' graph that is cut, coarsened or both.

use super::net::Net;

/// A graph to cut. Weights are in units of J.
#[derive(Debug, Clone, Default)]
pub struct Subgraph {
    /// Start of each vertex's arcs, and the number of arcs at the end.
    pub starts: Vec<u32>,
    /// Neighbour and weight.
    pub arcs: Vec<(u32, i32)>,
    /// Slots that each vertex takes.
    pub size: Vec<i32>,
    /// What a vertex pays more on side 1 than on side 0 to those who are in neither.
    pub bias: Vec<i32>,
    /// Whether it is cut once, and not again and again: a better cut is worth more time then.
    pub is_cut_once: bool,
    /// Whether its sides are to be exactly as full as they should although its vertices are of different sizes.
    pub is_exact: bool,
}

impl Subgraph {
    /// The number of vertices.
    #[inline]
    pub fn len(&self) -> usize {
        self.size.len()
    }

    /// Makes it a graph without vertices again, whose memory is kept.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.starts.push(0);
        self.arcs.clear();
        self.size.clear();
        self.bias.clear();
    }

    /// The graph of a net, a slot a vertex.
    pub fn of_net(net: &Net) -> Self {
        let count = net.len();
        let mut subgraph = Self { size: vec![1; count], bias: vec![0; count], ..Self::default() };
        subgraph.starts.push(0);
        for vertex in 0..count {
            subgraph.arcs.extend_from_slice(net.row(vertex));
            subgraph.starts.push(subgraph.arcs.len() as u32);
        }
        subgraph
    }

    /// The graph between some of the vertices; `local` has room for all, and is none but in here.
    pub fn part(&self, vertices: &[u32], local: &mut [u32]) -> Self {
        vertices.iter().enumerate().for_each(|(at, &vertex)| local[vertex as usize] = at as u32);
        let mut part = Self { is_cut_once: self.is_cut_once, ..Self::default() };
        part.starts.push(0);
        for &vertex in vertices {
            let inside = self.neighbours(vertex as usize).iter().map(|arc| (local[arc.0 as usize], arc.1));
            part.arcs.extend(inside.filter(|arc| arc.0 != u32::MAX));
            part.starts.push(part.arcs.len() as u32);
            part.size.push(self.size[vertex as usize]);
            part.bias.push(self.bias[vertex as usize]);
        }
        vertices.iter().for_each(|&vertex| local[vertex as usize] = u32::MAX);
        part
    }

    /// Divides all weights, so that sums of them fit; what is not zero does not become zero.
    pub fn scale_down(&mut self, divisor: i64) {
        if divisor > 1 {
            let scaled = |weight: i32| (i64::from(weight) / divisor) as i32;
            self.arcs.iter_mut().for_each(|arc| arc.1 = scaled(arc.1).max(1));
            self.bias.iter_mut().for_each(|bias| *bias = scaled(*bias));
        }
    }

    /// Neighbours and weights of a vertex.
    #[inline]
    pub fn neighbours(&self, vertex: usize) -> &[(u32, i32)] {
        &self.arcs[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    /// Slots that side 0 of a cut takes.
    pub fn filled(&self, side: &[u8]) -> i32 {
        self.size.iter().zip(side).map(|(&size, &side)| if side == 0 { size } else { 0 }).sum()
    }

    /// What a cut costs: the weight between the sides and the bias of side 1.
    pub fn cost(&self, side: &[u8]) -> i64 {
        let mut twice = 0_i64;
        let mut bias = 0_i64;
        for vertex in 0..self.len() {
            let across = self.neighbours(vertex).iter().filter(|arc| side[arc.0 as usize] != side[vertex]);
            twice += across.map(|arc| i64::from(arc.1)).sum::<i64>();
            bias += i64::from(self.bias[vertex]) * i64::from(side[vertex]);
        }
        twice / 2 + bias
    }
}
