//! Making graphs smaller by merging vertices that talk much: heavy-edge matching in a random order (Karypis and Kumar, "A fast
//! and high quality multilevel scheme for partitioning irregular graphs", 1998) by the rating of Holtgrewe, Sanders and
//! Schulz ("Engineering a scalable high quality graph partitioner", IPDPS 2010), the weight's square over the product of
//! sizes, which keeps the merged vertices alike in size. Matching by falling rating takes twice as long for less in all.

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

/// Merges pairs of vertices of together at most `largest` slots, only within one group where `group_of` is given: each vertex,
/// in random order, with the best that is still alone.
pub fn coarsen(graph: &Piece, largest: i32, group_of: Option<&[u32]>, random: &mut Random) -> Coarser {
    let count = graph.len();
    let mut seats: Vec<Seat> = (0..count)
        .map(|vertex| {
            let size = graph.size[vertex];
            Seat { factor: 1.0 / size as f32, size, group: group_of.map_or(0, |group_of| group_of[vertex]) }
        })
        .collect();
    let mut order: Vec<u32> = (0..count as u32).collect();
    random.shuffle(&mut order);
    let mut part_of = vec![0; count];
    let mut members: Vec<(u32, u32)> = Vec::with_capacity(count);
    for vertex in order {
        let own = std::mem::replace(&mut seats[vertex as usize].factor, MERGED);
        if own == MERGED {
            continue;
        }
        let partner = partner(graph, vertex, &seats, largest).unwrap_or(vertex);
        seats[partner as usize].factor = MERGED;
        part_of[vertex as usize] = members.len() as u32;
        part_of[partner as usize] = members.len() as u32;
        members.push((vertex, partner));
    }
    Coarser { graph: merged(graph, &part_of, &members), part_of }
}

/// What merging needs to know of a vertex, in one place.
#[derive(Clone, Copy)]
struct Seat {
    /// One over its size, or [`MERGED`].
    factor: f32,
    size: i32,
    group: u32,
}

/// No rating: the vertex has been merged.
const MERGED: f32 = 0.0;

/// The best that a vertex can be merged with, if any.
#[inline]
fn partner(graph: &Piece, vertex: u32, seats: &[Seat], largest: i32) -> Option<u32> {
    let own = seats[vertex as usize];
    let room = largest - own.size;
    // Rating and vertex in one number, the rating above: positive floats are in the order of their bits.
    let mut best = 0_u64;
    for &(other, weight) in graph.neighbours(vertex as usize) {
        let seat = seats[other as usize];
        let weight = weight as f32;
        let rating = weight * weight * seat.factor;
        let fits = (seat.size <= room) & (seat.group == own.group);
        let found = (u64::from(rating.to_bits()) << 32) | u64::from(other);
        best = best.max(if fits { found } else { 0 });
    }
    (best >> 32 > 0).then_some(best as u32)
}

/// The graph of merged pairs; a vertex that stays alone is a pair with itself.
fn merged(piece: &Piece, part_of: &[u32], members: &[(u32, u32)]) -> Piece {
    let mut coarse = Piece::default();
    coarse.starts.reserve(members.len() + 1);
    coarse.starts.push(0);
    // One place more, for what is within a pair.
    let within = piece.arcs.len() as u32;
    coarse.arcs = vec![(0, 0); piece.arcs.len() + 1];
    // One more than where the arc to a vertex is, if that is in the row at hand.
    let mut place = vec![0_u32; members.len()];
    let mut end = 0_u32;
    for (own, &(a, b)) in members.iter().enumerate() {
        let begin = end;
        let both = [a, b];
        let members = if a == b { &both[..1] } else { &both[..] };
        place[own] = within + 1;
        for &member in members {
            for &(other, weight) in piece.neighbours(member as usize) {
                let other = part_of[other as usize];
                // Without a branch: nobody could guess it.
                let place = &mut place[other as usize];
                let at = if *place > begin { *place - 1 } else { end };
                end += u32::from(*place <= begin);
                *place = at + 1;
                let arc = &mut coarse.arcs[at as usize];
                arc.0 = other;
                arc.1 += weight;
            }
        }
        place[own] = 0;
        coarse.starts.push(end);
        coarse.size.push(members.iter().map(|&member| piece.size[member as usize]).sum());
        coarse.bias.push(members.iter().map(|&member| piece.bias[member as usize]).sum());
    }
    coarse.arcs.truncate(end as usize);
    coarse
}
