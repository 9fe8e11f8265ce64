//! Making a cut better by passes of moves that go on through worse states (Fiduccia and Mattheyses, "A linear-time heuristic
//! for improving network partitions", 1982). What a vertex gains is kept from pass to pass, so that a pass costs no more
//! than its moves.

use super::gains::{Gains, NONE};
use super::piece::Piece;

/// Passes at most.
const PASSES: usize = 12;

/// A pass ends after so many moves, and one for 64 vertices, that led to nothing better.
const PATIENCE: usize = 16;

/// Moves vertices until no pass makes the cut cheaper; side 0 ends with `first` slots where vertex sizes allow.
pub fn refine(piece: &Piece, side: &mut [u8], first: i32) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { refine_avx2(piece, side, first) };
    }
    refine_anywhere(piece, side, first);
}

/// [`refine_anywhere`], eight gains an instruction: x86's baseline has no maximum of 32-bit integers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn refine_avx2(piece: &Piece, side: &mut [u8], first: i32) {
    refine_anywhere(piece, side, first);
}

#[inline(always)]
fn refine_anywhere(piece: &Piece, side: &mut [u8], first: i32) {
    let mut passes = Passes::new(piece, side, first);
    for _ in 0..PASSES {
        if !passes.run(side) {
            break;
        }
    }
}

/// Slots that a side may have too many where vertices are of different sizes.
pub fn slack(piece: &Piece) -> i32 {
    match piece.size.iter().copied().max() {
        None | Some(1) => 0,
        Some(largest) => largest,
    }
}

/// Passes over all vertices, with what they need.
struct Passes<'a> {
    piece: &'a Piece,
    first: i32,
    /// Slots that side 0 may have more or less than `first`.
    slack: i32,
    /// Slots on side 0.
    filled: i32,
    /// What a move of each vertex gains, kept with the side that it is on; less [`LOCKED`] once it has moved in a pass.
    gain: [Gains; 2],
    moves: Vec<u32>,
    patience: usize,
}

/// More than any gain: see [`super::divide`]'s bound of the weights of a piece.
const LOCKED: i32 = 1 << 29;

impl<'a> Passes<'a> {
    #[inline(always)]
    fn new(piece: &'a Piece, side: &[u8], first: i32) -> Self {
        let count = piece.len();
        let (mut zero, mut one) = (vec![NONE; count], vec![NONE; count]);
        let mut filled = 0;
        for vertex in 0..count {
            let own = side[vertex];
            let signed = |arc: &(u32, i32)| if side[arc.0 as usize] == own { -arc.1 } else { arc.1 };
            let gain = piece.neighbours(vertex).iter().map(signed).sum::<i32>();
            if own == 0 {
                zero[vertex] = gain - piece.bias[vertex];
                filled += piece.size[vertex];
            } else {
                one[vertex] = gain + piece.bias[vertex];
            }
        }
        let gain = [Gains::of(zero), Gains::of(one)];
        let patience = PATIENCE + count / 64;
        Self { piece, first, slack: slack(piece), filled, gain, moves: Vec::with_capacity(count), patience }
    }

    /// Slots by which side 0 is further from `first` than it may be.
    #[inline(always)]
    fn off(&self) -> i32 {
        ((self.filled - self.first).abs() - self.slack).max(0)
    }

    /// Whether the pass found something better.
    #[inline(always)]
    fn run(&mut self, side: &mut [u8]) -> bool {
        self.moves.clear();
        let before = self.off();
        let (mut total, mut best, mut best_off, mut kept) = (0_i64, 0_i64, before, 0);
        while self.moves.len() < self.piece.len() {
            let Some((vertex, gain)) = self.next() else { break };
            total += i64::from(gain);
            self.go(vertex, side, gain, LOCKED);
            self.moves.push(vertex as u32);
            let off = self.off();
            if off < best_off || (off == best_off && total > best) {
                (best, best_off, kept) = (total, off, self.moves.len());
            } else if self.moves.len() > kept + self.patience {
                break;
            }
        }
        for at in (kept..self.moves.len()).rev() {
            let vertex = self.moves[at] as usize;
            let gain = self.gain[side[vertex] as usize].get(vertex) + LOCKED;
            self.go(vertex, side, gain, 0);
        }
        for &vertex in &self.moves[..kept] {
            self.gain[side[vertex as usize] as usize].add(vertex as usize, LOCKED);
        }
        best > 0 || best_off < before
    }

    /// The vertex to move: from the side that has too much, or else the better of both sides.
    #[inline(always)]
    fn next(&self) -> Option<(usize, i32)> {
        let open = |side: usize| self.gain[side].largest().filter(|found| found.1 > -LOCKED / 2);
        if self.filled > self.first + self.slack {
            open(0)
        } else if self.filled < self.first - self.slack {
            open(1)
        } else {
            let (a, b) = (open(0), open(1));
            if b.map(|b| b.1) > a.map(|a| a.1) { b } else { a }
        }
    }

    /// Moves a vertex to the other side and counts its gain `lock` less there.
    #[inline(always)]
    fn go(&mut self, vertex: usize, side: &mut [u8], gain: i32, lock: i32) {
        let from = side[vertex];
        side[vertex] ^= 1;
        self.filled += if from == 0 { -self.piece.size[vertex] } else { self.piece.size[vertex] };
        self.gain[from as usize].set(vertex, NONE);
        self.gain[usize::from(from ^ 1)].set(vertex, -gain - lock);
        for &(other, weight) in self.piece.neighbours(vertex) {
            let there = side[other as usize];
            let more = if there == from { 2 * weight } else { -2 * weight };
            self.gain[there as usize & 1].add(other as usize, more);
        }
    }
}
