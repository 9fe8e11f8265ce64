//! Cutting a small graph in two parts of given sizes with as little weight between as can be: region growing, then
//! passes of moves that go on through worse states (Fiduccia and Mattheyses, "A linear-time heuristic for improving
//! network partitions", 1982); larger graphs are coarsened first (Karypis and Kumar 1998).

use super::gains::{Gains, NONE};
use crate::random::Random;

/// A graph to cut. Weights are in units of J.
#[derive(Debug, Clone, Default)]
pub struct Piece {
    /// Start of each vertex's arcs, and the number of arcs at the end.
    pub starts: Vec<u32>,
    /// Neighbour and weight.
    pub arcs: Vec<(u32, i32)>,
    /// Slots that each vertex takes.
    pub size: Vec<i32>,
    /// What a vertex pays more on side 1 than on side 0 to those who are in neither.
    pub bias: Vec<i32>,
}

/// Coarsening ends at this number of vertices.
const COARSEST: usize = 48;

impl Piece {
    /// The number of vertices.
    pub fn len(&self) -> usize {
        self.size.len()
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
    pub fn neighbours(&self, vertex: usize) -> &[(u32, i32)] {
        self.row(vertex)
    }

    #[inline]
    fn row(&self, vertex: usize) -> &[(u32, i32)] {
        &self.arcs[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    /// What a cut costs: the weight between the sides and the bias of side 1.
    pub fn cost(&self, side: &[u8]) -> i64 {
        let mut twice = 0_i64;
        let mut bias = 0_i64;
        for vertex in 0..self.len() {
            let across = self.row(vertex).iter().filter(|arc| side[arc.0 as usize] != side[vertex]);
            twice += across.map(|arc| i64::from(arc.1)).sum::<i64>();
            bias += i64::from(self.bias[vertex]) * i64::from(side[vertex]);
        }
        twice / 2 + bias
    }
}

/// A cut with `first` slots on side 0: the best of `tries`.
pub fn bisect(piece: &Piece, first: i32, tries: usize, random: &mut Random) -> Vec<u8> {
    if piece.len() > 2 * COARSEST {
        let (coarse, set) = coarsened(piece, random);
        if coarse.len() * 10 < piece.len() * 9 {
            let sides = bisect(&coarse, first, tries, random);
            let mut side: Vec<u8> = set.iter().map(|&set| sides[set as usize]).collect();
            refine(piece, &mut side, first);
            return side;
        }
    }
    let mut best = (i64::MAX, Vec::new());
    for _ in 0..tries.div_ceil(4).max(1) {
        let mut side = grown(piece, first, random);
        refine(piece, &mut side, first);
        let cost = piece.cost(&side);
        if cost < best.0 {
            best = (cost, side);
        }
    }
    for _ in 1..tries {
        let mut side = best.1.clone();
        disturb(piece, &mut side, random);
        refine(piece, &mut side, first);
        let cost = piece.cost(&side);
        if cost <= best.0 {
            best = (cost, side);
        }
    }
    best.1
}

/// Turns over a random region of up to a quarter of the vertices.
pub fn disturb(piece: &Piece, side: &mut [u8], random: &mut Random) {
    let size = 2 + random.below((piece.len() / 4).max(1));
    let mut region = vec![random.below(piece.len()) as u32];
    let mut at = 0;
    side[region[0] as usize] ^= 1;
    let turned = |region: &[u32], vertex: u32| region.contains(&vertex);
    while at < region.len() && region.len() < size {
        for arc in piece.neighbours(region[at] as usize) {
            if region.len() < size && !turned(&region, arc.0) {
                region.push(arc.0);
                side[arc.0 as usize] ^= 1;
            }
        }
        at += 1;
    }
}

/// Side 0 grown from a random vertex, always by the vertex that costs least.
fn grown(piece: &Piece, first: i32, random: &mut Random) -> Vec<u8> {
    let count = piece.len();
    let mut side = vec![1; count];
    let mut gains = Gains::new(count);
    for vertex in 0..count {
        let row = piece.row(vertex);
        // What J gains when the vertex joins side 0; those without neighbours come last.
        let gain = piece.bias[vertex] - row.iter().map(|arc| arc.1).sum::<i32>();
        gains.set(vertex, if row.is_empty() { NONE + 1 } else { gain });
    }
    let start = random.below(count);
    let talks = |vertex: &usize| !piece.row(*vertex).is_empty();
    let mut next = (start..count).chain(0..start).find(talks).unwrap_or(start);
    let mut filled = 0;
    while filled < first {
        if filled + piece.size[next] <= first || filled == 0 {
            side[next] = 0;
            filled += piece.size[next];
            for &(other, weight) in piece.row(next) {
                let gain = gains.get(other as usize);
                if gain > NONE {
                    gains.set(other as usize, gain + 2 * weight);
                }
            }
        }
        gains.set(next, NONE);
        let Some((place, _)) = gains.largest() else { break };
        next = place;
    }
    side
}

/// Moves vertices until no pass makes the cut cheaper; side 0 ends with `first` slots where vertex sizes allow.
pub fn refine(piece: &Piece, side: &mut [u8], first: i32) {
    let mut pass = Pass::new(piece, first);
    for _ in 0..12 {
        if !pass.run(side) {
            break;
        }
    }
}

/// One pass over all vertices, with what it needs.
struct Pass<'a> {
    piece: &'a Piece,
    first: i32,
    /// Slots that side 0 may have more or less than `first`.
    slack: i32,
    /// What a move of each vertex gains, by the side it is on; the least number where it may not move.
    gain: [Gains; 2],
    moves: Vec<u32>,
}

impl<'a> Pass<'a> {
    fn new(piece: &'a Piece, first: i32) -> Self {
        let largest = piece.size.iter().copied().max().unwrap_or(1);
        let slack = if largest == 1 { 0 } else { largest };
        let gain = [Gains::new(piece.len()), Gains::new(piece.len())];
        Self { piece, first, slack, gain, moves: Vec::with_capacity(piece.len()) }
    }

    /// Whether the pass found something better.
    fn run(&mut self, side: &mut [u8]) -> bool {
        let mut filled = self.prepare(side);
        let off = |filled: i32, first: i32, slack: i32| ((filled - first).abs() - slack).max(0);
        let before = off(filled, self.first, self.slack);
        let (mut total, mut best, mut best_off, mut kept) = (0_i64, 0_i64, before, 0);
        let patience = 24 + self.piece.len() / 8;
        while self.moves.len() < self.piece.len() {
            let Some((vertex, gain)) = self.next(filled) else { break };
            let from = side[vertex] as usize;
            filled += if from == 0 { -self.piece.size[vertex] } else { self.piece.size[vertex] };
            total += i64::from(gain);
            self.go(vertex, side);
            let off = off(filled, self.first, self.slack);
            if off < best_off || (off == best_off && total > best) {
                (best, best_off, kept) = (total, off, self.moves.len());
            } else if self.moves.len() > kept + patience {
                break;
            }
        }
        for &vertex in &self.moves[kept..] {
            side[vertex as usize] ^= 1;
        }
        best > 0 || best_off < before
    }

    /// Sets the gains up; the slots on side 0.
    fn prepare(&mut self, side: &[u8]) -> i32 {
        self.moves.clear();
        self.gain.iter_mut().for_each(Gains::clear);
        let mut filled = 0;
        for vertex in 0..self.piece.len() {
            let own = side[vertex];
            let signed = |arc: &(u32, i32)| if side[arc.0 as usize] == own { -arc.1 } else { arc.1 };
            let bias = if own == 0 { -self.piece.bias[vertex] } else { self.piece.bias[vertex] };
            self.gain[own as usize].set(vertex, self.piece.row(vertex).iter().map(signed).sum::<i32>() + bias);
            filled += if own == 0 { self.piece.size[vertex] } else { 0 };
        }
        filled
    }

    /// The vertex to move: from the side that has too much, or else the better of both sides.
    fn next(&self, filled: i32) -> Option<(usize, i32)> {
        let best = |side: usize| self.gain[side].largest();
        let slack = self.slack;
        if filled > self.first + slack {
            best(0)
        } else if filled < self.first - slack {
            best(1)
        } else {
            let (a, b) = (best(0), best(1));
            if b.map(|b| b.1) > a.map(|a| a.1) { b } else { a }
        }
    }

    fn go(&mut self, vertex: usize, side: &mut [u8]) {
        let from = side[vertex];
        side[vertex] ^= 1;
        self.gain[from as usize].set(vertex, NONE);
        self.moves.push(vertex as u32);
        for &(other, weight) in self.piece.row(vertex) {
            let there = side[other as usize];
            let gains = &mut self.gain[there as usize];
            let gain = gains.get(other as usize);
            if gain > NONE {
                gains.set(other as usize, if there == from { gain + 2 * weight } else { gain - 2 * weight });
            }
        }
    }
}

/// The graph of heavy pairs, and the pair of each vertex.
fn coarsened(piece: &Piece, random: &mut Random) -> (Piece, Vec<u32>) {
    let count = piece.len();
    let total: i32 = piece.size.iter().sum();
    let largest = (total / (COARSEST as i32 / 2)).max(2);
    let mut order: Vec<u32> = (0..count as u32).collect();
    random.shuffle(&mut order);
    let mut set = vec![u32::MAX; count];
    let mut members: Vec<(u32, u32)> = Vec::with_capacity(count);
    for &vertex in &order {
        if set[vertex as usize] != u32::MAX {
            continue;
        }
        let own = piece.size[vertex as usize];
        let free = |arc: &&(u32, i32)| set[arc.0 as usize] == u32::MAX && own + piece.size[arc.0 as usize] <= largest;
        let partner =
            piece.row(vertex as usize).iter().filter(free).max_by_key(|arc| arc.1).map_or(vertex, |arc| arc.0);
        set[vertex as usize] = members.len() as u32;
        set[partner as usize] = members.len() as u32;
        members.push((vertex, partner));
    }
    (merged(piece, &set, &members), set)
}

fn merged(piece: &Piece, set: &[u32], members: &[(u32, u32)]) -> Piece {
    let mut coarse = Piece::default();
    coarse.starts.push(0);
    coarse.arcs.reserve(piece.arcs.len());
    let mut at = vec![0_u32; members.len()];
    for (own, &(a, b)) in members.iter().enumerate() {
        let begin = coarse.arcs.len();
        let both = [a, b];
        let members = if a == b { &both[..1] } else { &both[..] };
        for &(other, weight) in members.iter().flat_map(|&member| piece.row(member as usize)) {
            let other = set[other as usize];
            let place = at[other as usize] as usize;
            if other as usize == own {
                continue;
            } else if place >= begin && place < coarse.arcs.len() && coarse.arcs[place].0 == other {
                coarse.arcs[place].1 += weight;
            } else {
                at[other as usize] = coarse.arcs.len() as u32;
                coarse.arcs.push((other, weight));
            }
        }
        coarse.starts.push(coarse.arcs.len() as u32);
        coarse.size.push(members.iter().map(|&member| piece.size[member as usize]).sum());
        coarse.bias.push(members.iter().map(|&member| piece.bias[member as usize]).sum());
    }
    coarse
}
