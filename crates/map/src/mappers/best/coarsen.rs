//! Making graphs smaller by merging vertices that talk much: a matching by the rating of Holtgrewe, Sanders and Schulz
//! ("Engineering a scalable high quality graph partitioner", IPDPS 2010), the weight's square over the product of sizes,
//! which keeps the merged vertices alike in size; found with the suitor algorithm of Manne and Halappanavar ("New
//! effective multithreaded matching algorithms", IPDPS 2014).

use super::piece::Piece;
use crate::random::Random;

/// A graph and the vertex of the coarser one that each of its vertices is part of.
pub struct Coarser {
    /// The coarser graph.
    pub graph: Piece,
    /// For each vertex of the finer graph its vertex in the coarser one.
    pub part_of: Vec<u32>,
}

impl Coarser {
    /// Whether coarsening was worth it.
    pub fn is_smaller_than(&self, graph: &Piece) -> bool {
        self.graph.len() * 20 < graph.len() * 19
    }

    /// What merged vertices have in common.
    pub fn project<T: Copy + Default>(&self, values: &[T]) -> Vec<T> {
        let mut below = vec![T::default(); self.graph.len()];
        self.part_of.iter().zip(values).for_each(|(&part, &value)| below[part as usize] = value);
        below
    }
}

/// Merges pairs of vertices of together at most `largest` slots, only within one group where `group_of` is given.
///
/// The pairs are those that taking edges by falling rating would give, found without sorting: every vertex proposes to the
/// best that has no better suitor, and who loses his place proposes anew.
pub fn coarsen(graph: &Piece, largest: i32, group_of: Option<&[u32]>, random: &mut Random) -> Coarser {
    let count = graph.len();
    let suitor = suitors(graph, largest, group_of, random);
    let mut part_of = vec![NONE; count];
    let mut members: Vec<(u32, u32)> = Vec::with_capacity(count);
    for vertex in 0..count {
        if part_of[vertex] != NONE {
            continue;
        }
        let mut partner = suitor[vertex] as usize;
        if partner == NONE as usize || suitor[partner] as usize != vertex {
            partner = vertex;
        }
        part_of[vertex] = members.len() as u32;
        part_of[partner] = members.len() as u32;
        members.push((vertex as u32, partner as u32));
    }
    Coarser { graph: merged(graph, &part_of, &members), part_of }
}

const NONE: u32 = u32::MAX;

/// What a proposal needs to know of a vertex, in one place.
#[derive(Clone, Copy)]
struct Seat {
    /// One over its size, and a little noise, which breaks ties and makes every hierarchy another one.
    factor: f32,
    /// The rating of the proposal that it holds.
    offer: f32,
    size: i32,
    group: u32,
}

/// For each vertex the one whose proposal it holds.
fn suitors(graph: &Piece, largest: i32, group_of: Option<&[u32]>, random: &mut Random) -> Vec<u32> {
    let count = graph.len();
    let mut seats: Vec<Seat> = graph
        .size
        .iter()
        .map(|&size| {
            let noise = 1.0 + NOISE * (random.draw() >> 40) as f32 / (1 << 24) as f32;
            Seat { factor: noise / size as f32, offer: 0.0, size, group: 0 }
        })
        .collect();
    if let Some(group_of) = group_of {
        seats.iter_mut().zip(group_of).for_each(|(seat, &group)| seat.group = group);
    }
    let mut suitor = vec![NONE; count];
    for start in 0..count {
        let mut vertex = start;
        loop {
            let own = seats[vertex];
            let room = largest - own.size;
            // Rating and vertex in one number, the rating above: positive floats are in the order of their bits.
            let mut best = 0_u64;
            for &(other, weight) in graph.neighbours(vertex) {
                let seat = seats[other as usize];
                let weight = weight as f32;
                let rating = weight * weight * (own.factor * seat.factor);
                let fits = (rating > seat.offer) & (seat.size <= room) & (seat.group == own.group);
                let found = (u64::from(rating.to_bits()) << 32) | u64::from(other);
                best = best.max(if fits { found } else { 0 });
            }
            if best == 0 {
                break;
            }
            let other = best as u32 as usize;
            seats[other].offer = f32::from_bits((best >> 32) as u32);
            let loser = std::mem::replace(&mut suitor[other], vertex as u32);
            if loser == NONE {
                break;
            }
            vertex = loser as usize;
        }
    }
    suitor
}

/// How much ratings vary, as a part of them.
const NOISE: f32 = 0.05;

/// The graph of merged pairs; a vertex that stays alone is a pair with itself.
fn merged(piece: &Piece, set: &[u32], members: &[(u32, u32)]) -> Piece {
    let mut coarse = Piece::default();
    coarse.starts.reserve(members.len() + 1);
    coarse.starts.push(0);
    coarse.arcs.reserve(piece.arcs.len());
    // One more than where the arc to a vertex is, if that is in the row at hand.
    let mut at = vec![0_u32; members.len()];
    for (own, &(a, b)) in members.iter().enumerate() {
        let begin = coarse.arcs.len();
        let both = [a, b];
        let members = if a == b { &both[..1] } else { &both[..] };
        for &(other, weight) in members.iter().flat_map(|&member| piece.neighbours(member as usize)) {
            let other = set[other as usize];
            let place = at[other as usize] as usize;
            if place > begin {
                coarse.arcs[place - 1].1 += weight;
            } else if other as usize != own {
                coarse.arcs.push((other, weight));
                at[other as usize] = coarse.arcs.len() as u32;
            }
        }
        coarse.starts.push(coarse.arcs.len() as u32);
        coarse.size.push(members.iter().map(|&member| piece.size[member as usize]).sum());
        coarse.bias.push(members.iter().map(|&member| piece.bias[member as usize]).sum());
    }
    coarse
}
