//! Making a cut better by passes of moves that go on through worse states (Fiduccia and Mattheyses, "A linear-time
//! heuristic for improving network partitions", 1982). What a vertex gains is kept from pass to pass, so that a pass
//! costs no more than its moves. Few vertices are left to [`super::small_tabu`].

use super::context::{Context, Part};
use super::gain_table::{GainTable, NONE};
use super::small_tabu;
use super::subgraph::Subgraph;

/// Makes a cut cheaper by moves of single vertices; side 0 ends with `first` slots where vertex sizes allow.
pub fn refine(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) {
    if !context.uses(Part::SmallTabu) || !small_tabu::refine(subgraph, side, first, context) {
        pass_by_pass(subgraph, side, first, context);
    }
}

/// Moves vertices until no pass makes the cut cheaper.
fn pass_by_pass(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { pass_by_pass_avx2(subgraph, side, first, context) };
    }
    pass_by_pass_anywhere(subgraph, side, first, context);
}

/// [`pass_by_pass_anywhere`], eight gains an instruction: x86's baseline has no maximum of 32-bit integers.
///
/// # Safety
/// The processor must have AVX2: the caller has asked it. The code is safe but for that.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn pass_by_pass_avx2(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) {
    pass_by_pass_anywhere(subgraph, side, first, context);
}

#[inline(always)]
fn pass_by_pass_anywhere(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) {
    let mut passes = Passes::new(subgraph, side, first, context.bisection.patience);
    for _ in 0..context.bisection.passes {
        if !passes.run(side) {
            break;
        }
    }
}

/// Slots that a side may have too many where vertices are of different sizes.
pub fn slack(subgraph: &Subgraph) -> i32 {
    if subgraph.is_exact {
        return 0;
    }
    match subgraph.size.iter().copied().max() {
        None | Some(1) => 0,
        Some(largest) => largest,
    }
}

/// Passes over all vertices, with what they need.
struct Passes<'a> {
    subgraph: &'a Subgraph,
    first: i32,
    /// Slots that side 0 may have more or less than `first`.
    slack: i32,
    /// Slots on side 0.
    filled: i32,
    /// What a move of each vertex gains, in the row of the side that it is on; less [`LOCKED`] once it has moved in a
    /// pass.
    gain: GainTable,
    /// The same where the cut was best, if there are few.
    kept: Option<GainTable>,
    moves: Vec<u32>,
    patience: usize,
}

/// More than any gain: see [`super::divide`]'s bound of the weights of a subgraph.
const LOCKED: i32 = 1 << 29;

impl<'a> Passes<'a> {
    #[inline(always)]
    fn new(subgraph: &'a Subgraph, side: &[u8], first: i32, patience: usize) -> Self {
        let count = subgraph.len();
        let mut gains = GainTable::new(2, count);
        let mut filled = 0;
        for vertex in 0..count {
            let own = side[vertex];
            let signed = |arc: &(u32, i32)| if side[arc.0 as usize] == own { -arc.1 } else { arc.1 };
            let gain = subgraph.neighbours(vertex).iter().map(signed).sum::<i32>();
            let place = gains.place(usize::from(own), vertex);
            if own == 0 {
                gains.set(place, gain - subgraph.bias[vertex]);
                filled += subgraph.size[vertex];
            } else {
                gains.set(place, gain + subgraph.bias[vertex]);
            }
        }
        let kept = gains.are_few().then(|| gains.clone());
        let (moves, patience) = (Vec::with_capacity(count), patience + count / 64);
        Self { subgraph, first, slack: slack(subgraph), filled, gain: gains, kept, moves, patience }
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
        let (before, mut filled) = (self.off(), self.filled);
        let (mut total, mut best, mut best_off, mut kept) = (0_i64, 0_i64, before, 0);
        while self.moves.len() < self.subgraph.len() {
            let Some((vertex, gain)) = self.next() else { break };
            if let Some(saved) = self.kept.as_mut().filter(|_| self.moves.len() == kept) {
                saved.copy_from(&self.gain);
            }
            total += i64::from(gain);
            self.go(vertex, side, gain, LOCKED);
            self.moves.push(vertex as u32);
            let off = self.off();
            if off < best_off || (off == best_off && total > best) {
                (best, best_off, kept, filled) = (total, off, self.moves.len(), self.filled);
            } else if self.moves.len() > kept + self.patience {
                break;
            }
        }
        if self.moves.len() > kept {
            self.go_back(kept, filled, side);
        }
        for &vertex in &self.moves[..kept] {
            let vertex = vertex as usize;
            self.gain.add(self.gain.place(usize::from(side[vertex]), vertex), LOCKED);
        }
        best > 0 || best_off < before
    }

    /// Takes back all moves but the first.
    #[inline(always)]
    fn go_back(&mut self, kept: usize, filled: i32, side: &mut [u8]) {
        if let Some(saved) = &self.kept {
            self.gain.copy_from(saved);
            self.filled = filled;
            self.moves[kept..].iter().for_each(|&vertex| side[vertex as usize] ^= 1);
            return;
        }
        for at in (kept..self.moves.len()).rev() {
            let vertex = self.moves[at] as usize;
            let gain = self.gain.get(self.gain.place(usize::from(side[vertex]), vertex)) + LOCKED;
            self.go(vertex, side, gain, 0);
        }
    }

    /// The vertex to move: from the side that has too much, or else the better of both sides.
    #[inline(always)]
    fn next(&self) -> Option<(usize, i32)> {
        let open = |side: usize| self.gain.largest(side).filter(|found| found.1 > -LOCKED / 2);
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
        self.filled += if from == 0 { -self.subgraph.size[vertex] } else { self.subgraph.size[vertex] };
        self.gain.set(self.gain.place(usize::from(from), vertex), NONE);
        self.gain.set(self.gain.place(usize::from(from ^ 1), vertex), -gain - lock);
        for &(other, weight) in self.subgraph.neighbours(vertex) {
            let there = side[other as usize];
            let more = if there == from { 2 * weight } else { -2 * weight };
            self.gain.add(self.gain.place(usize::from(there), other as usize), more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::random::Random;

    /// What the cut costs more when a vertex goes to the other side.
    fn change(subgraph: &Subgraph, side: &[u8], vertex: usize) -> i32 {
        let row = subgraph.neighbours(vertex).iter();
        let kept: i32 = row.map(|arc| if side[arc.0 as usize] == side[vertex] { arc.1 } else { -arc.1 }).sum();
        if side[vertex] == 0 { kept + subgraph.bias[vertex] } else { kept - subgraph.bias[vertex] }
    }

    /// The same passes, every gain counted again for every move.
    fn slowly(subgraph: &Subgraph, side: &mut Vec<u8>, first: i32) {
        let off = |side: &[u8]| {
            let filled: i32 =
                subgraph.size.iter().zip(side).filter(|(_, side)| **side == 0).map(|(size, _)| size).sum();
            (filled - first, ((filled - first).abs() - slack(subgraph)).max(0))
        };
        for _ in 0..Context::DEFAULT.bisection.passes {
            let start = (off(side).1, subgraph.cost(side));
            let (mut now, mut best, mut kept) = (side.clone(), start, 0);
            let mut moved = Vec::new();
            while moved.len() < subgraph.len()
                && moved.len() <= kept + Context::DEFAULT.bisection.patience + subgraph.len() / 64
            {
                let more = off(&now).0;
                let may = |vertex: &usize| match now[*vertex] {
                    0 => more >= -slack(subgraph),
                    _ => more <= slack(subgraph),
                };
                let price = |&vertex: &usize| (change(subgraph, &now, vertex), now[vertex], vertex);
                let open = (0..subgraph.len()).filter(|vertex| !moved.contains(vertex));
                let Some(vertex) = open.filter(may).min_by_key(price) else { break };
                now[vertex] ^= 1;
                moved.push(vertex);
                let next = (off(&now).1, subgraph.cost(&now));
                if next < best {
                    (best, kept) = (next, moved.len());
                    side.clone_from(&now);
                }
            }
            if best == start {
                break;
            }
        }
    }

    #[test]
    fn what_is_kept_from_move_to_move_is_what_counting_again_gives() {
        for (count, largest, runs) in [(1, 1, 1), (9, 1, 20), (40, 1, 20), (40, 5, 20), (600, 1, 1)] {
            let mut random = Random::new(count as u64);
            for _ in 0..runs {
                let subgraph = drawn(count, largest, &mut random);
                let first = subgraph.size.iter().sum::<i32>() / 2;
                let mut side: Vec<u8> = (0..count).map(|at| u8::from(at >= count / 2)).collect();
                let mut slow = side.clone();
                pass_by_pass(&subgraph, &mut side, first, &Context::DEFAULT);
                slowly(&subgraph, &mut slow, first);
                assert_eq!(side, slow, "{count} vertices of up to {largest} slots");
            }
        }
    }
}
