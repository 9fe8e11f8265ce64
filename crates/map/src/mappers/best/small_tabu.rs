//! Making a cut of a few vertices better by tabu search over moves of single vertices (Glover, "Tabu search, part I",
//! 1989), the sides staying as full as they are to be. What [`super::refine`] does in passes over graphs of any size
//! this does for up to 256 vertices on rows of fixed width: the best move out of a side is one scan without a branch,
//! since each gain says whose it is in its lowest bits.

use super::context::Context;
use super::refine::slack;
use super::subgraph::Subgraph;

/// Moves for which a vertex stays where it went, at most.
pub const MOST_TENURE: usize = 16;

/// Numbers that are compared at a time.
const LANES: usize = 16;

/// No gain: the vertex is on the other side.
const NONE: i32 = i32::MIN;

/// How much less a move gains where the vertex has moved lately. More than twice what any gains.
const CLOSED: i32 = 1 << 30;

/// From here on down a gain is none, or of a vertex that has moved lately.
pub const SHUT: i32 = -CLOSED / 2;

/// All that a vertex could gain or lose is less than this, in units.
const MOST_GAIN: i64 = 1 << 28;

/// What a move of each of up to `WIDE` vertices gains, in the row of the side that it is on. Gains are in units of
/// `WIDE`, below which is which vertex it is.
pub struct Gains<const WIDE: usize> {
    rows: [Row<WIDE>; 2],
    /// The side of each vertex.
    pub side: [u8; WIDE],
    /// Who moved lately, and where in it is who moved longest ago, if so many have.
    moved: [u8; MOST_TENURE],
    oldest: usize,
    is_full: bool,
    tenure: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row<const WIDE: usize>([i32; WIDE]);

impl<const WIDE: usize> Gains<WIDE> {
    const UNIT: i32 = WIDE as i32;

    /// No gains yet, where there are going to be `count`, and a vertex stays for `tenure` moves where it went.
    #[inline(always)]
    pub fn new(count: usize, tenure: usize) -> Self {
        let tenure = tenure.min(MOST_TENURE).min(count / 3).max(1);
        Self {
            rows: [Row([NONE; WIDE]); 2],
            side: [0; WIDE],
            moved: [0; MOST_TENURE],
            oldest: 0,
            is_full: false,
            tenure,
        }
    }

    /// Whether all that a vertex could gain or lose fits.
    #[inline(always)]
    pub fn fits(all: i64) -> bool {
        all < MOST_GAIN / i64::from(Self::UNIT)
    }

    /// Puts a vertex on a side.
    #[inline(always)]
    pub fn put(&mut self, vertex: usize, side: u8, gain: i32) {
        self.side[vertex] = side;
        self.rows[usize::from(side)].0[vertex] = gain.wrapping_mul(Self::UNIT).wrapping_add(vertex as i32);
    }

    /// Keeps a vertex where it is.
    #[inline(always)]
    pub fn fix(&mut self, vertex: usize) {
        self.rows[usize::from(self.side[vertex])].0[vertex] = NONE;
    }

    /// The best move out of a side: [`SHUT`] or less where there is none.
    #[inline(always)]
    pub fn best(&self, side: usize) -> i32 {
        let mut most = [NONE; LANES];
        for chunk in self.rows[side].0.chunks_exact(LANES) {
            most.iter_mut().zip(chunk).for_each(|(most, &gain)| *most = (*most).max(gain));
        }
        most.into_iter().fold(NONE, i32::max)
    }

    /// The better of the best moves out of both sides.
    #[inline(always)]
    pub fn best_of_both(&self) -> i32 {
        let (a, b) = (self.best(0), self.best(1));
        if b >> Self::UNIT.ilog2() > a >> Self::UNIT.ilog2() { b } else { a }
    }

    /// Does a move: which vertex it was of, and what it gained. `neighbours` are those of a vertex, with a number which
    /// `times` is what two of them gain more by a move while they are apart than while they are not.
    #[inline(always)]
    pub fn go<'a>(&mut self, found: i32, times: i32, neighbours: impl Fn(usize) -> &'a [(u32, i32)]) -> (usize, i32) {
        let vertex = (found & (Self::UNIT - 1)) as usize;
        let gain = found - vertex as i32;
        let from = self.side[vertex];
        self.side[vertex] ^= 1;
        self.rows[usize::from(from)].0[vertex] = NONE;
        self.rows[usize::from(from ^ 1)].0[vertex] = vertex as i32 - gain - CLOSED;
        for &(other, weight) in neighbours(vertex) {
            let there = self.side[other as usize];
            let more = if there == from { times * Self::UNIT } else { -times * Self::UNIT } * weight;
            let gain = &mut self.rows[usize::from(there)].0[other as usize];
            *gain = if *gain == NONE { NONE } else { *gain + more };
        }
        self.open();
        self.moved[self.oldest] = vertex as u8;
        self.oldest += 1;
        if self.oldest == self.tenure {
            (self.oldest, self.is_full) = (0, true);
        }
        (vertex, gain / Self::UNIT)
    }

    /// Lets the vertex move again that moved longest ago.
    #[inline(always)]
    fn open(&mut self) {
        if self.is_full {
            let vertex = usize::from(self.moved[self.oldest]);
            let gain = &mut self.rows[usize::from(self.side[vertex])].0[vertex];
            if *gain < SHUT && *gain != NONE {
                *gain += CLOSED;
            }
        }
    }
}

/// Makes a cut better; false, and nothing is done, where there are too many vertices or weights are too large.
pub fn refine(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) -> bool {
    match subgraph.len() {
        0..=1 => true,
        2..=16 => fitting::<16>(subgraph, side, first, context),
        17..=32 => fitting::<32>(subgraph, side, first, context),
        33..=64 => fitting::<64>(subgraph, side, first, context),
        65..=128 => fitting::<128>(subgraph, side, first, context),
        129..=256 => fitting::<256>(subgraph, side, first, context),
        _ => false,
    }
}

fn fitting<const WIDE: usize>(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { fitting_avx2::<WIDE>(subgraph, side, first, context) };
    }
    fitting_anywhere::<WIDE>(subgraph, side, first, context)
}

/// [`fitting_anywhere`], eight gains an instruction: x86's baseline has no maximum of 32-bit integers.
///
/// # Safety
/// The processor must have AVX2: the caller has asked it. The code is safe but for that.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fitting_avx2<const WIDE: usize>(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) -> bool {
    fitting_anywhere::<WIDE>(subgraph, side, first, context)
}

#[inline(always)]
fn fitting_anywhere<const WIDE: usize>(subgraph: &Subgraph, side: &mut [u8], first: i32, context: &Context) -> bool {
    let Some((mut gains, mut filled)) = gains_of::<WIDE>(subgraph, side, context.bisection.tabu_tenure) else {
        return false;
    };
    let slack = slack(subgraph);
    let off = |filled: i32| ((filled - first).abs() - slack).max(0);
    let patience = context.bisection.tabu_patience + subgraph.len() / context.bisection.tabu_patience_vertices;
    let (mut total, mut since) = (0_i64, 0);
    let (mut best_off, mut best, mut kept) = (off(filled), 0_i64, gains.side);
    while since < patience {
        let found = if filled > first + slack {
            gains.best(0)
        } else if filled < first - slack {
            gains.best(1)
        } else {
            gains.best_of_both()
        };
        if found <= SHUT {
            // Whoever could go has moved lately.
            break;
        }
        let (vertex, gain) = gains.go(found, 2, |vertex| subgraph.neighbours(vertex));
        filled += if gains.side[vertex] == 0 { subgraph.size[vertex] } else { -subgraph.size[vertex] };
        total += i64::from(gain);
        since += 1;
        let now = off(filled);
        if now < best_off || (now == best_off && total > best) {
            (best_off, best, kept, since) = (now, total, gains.side, 0);
        }
    }
    side.iter_mut().zip(&kept).for_each(|(side, &kept)| *side = kept);
    true
}

/// The gains of a cut, and how many slots its side 0 has; none where they do not fit.
#[inline(always)]
fn gains_of<const WIDE: usize>(subgraph: &Subgraph, side: &[u8], tenure: usize) -> Option<(Gains<WIDE>, i32)> {
    let mut gains = Gains::new(subgraph.len(), tenure);
    let (mut filled, mut greatest) = (0, 0);
    for (vertex, &own) in side.iter().enumerate() {
        let (mut gain, mut all) = (0_i64, i64::from(subgraph.bias[vertex].abs()));
        for &(other, weight) in subgraph.neighbours(vertex) {
            all += i64::from(weight);
            gain += i64::from(if side[other as usize] == own { -weight } else { weight });
        }
        let bias = i64::from(subgraph.bias[vertex]);
        gains.put(vertex, own, (gain + if own == 0 { -bias } else { bias }) as i32);
        greatest = greatest.max(all);
        filled += if own == 0 { subgraph.size[vertex] } else { 0 };
    }
    Gains::<WIDE>::fits(greatest).then_some((gains, filled))
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use crate::random::Random;

    /// The same search, every gain counted again for every move.
    fn slowly(subgraph: &Subgraph, side: &mut [u8], first: i32) {
        let off = |side: &[u8]| {
            let filled: i32 =
                subgraph.size.iter().zip(side).filter(|(_, side)| **side == 0).map(|(size, _)| size).sum();
            (filled - first, ((filled - first).abs() - slack(subgraph)).max(0))
        };
        let numbers = Context::DEFAULT.bisection;
        let tenure = numbers.tabu_tenure.min(subgraph.len() / 3).max(1);
        let mut now = side.to_vec();
        let mut best = (off(&now).1, subgraph.cost(&now));
        let mut moved: Vec<usize> = Vec::new();
        let mut since = 0;
        while since < numbers.tabu_patience + subgraph.len() / numbers.tabu_patience_vertices {
            let change = |vertex: usize| {
                let mut other = now.clone();
                other[vertex] ^= 1;
                subgraph.cost(&other) - subgraph.cost(&now)
            };
            let lately = &moved[moved.len().saturating_sub(tenure)..];
            let more = off(&now).0;
            let may = |&vertex: &usize| {
                let suits = match now[vertex] {
                    0 => more >= -slack(subgraph),
                    _ => more <= slack(subgraph),
                };
                suits && !lately.contains(&vertex)
            };
            // Of equals side 0 is taken, and on a side the last vertex.
            let key = |&vertex: &usize| (change(vertex), now[vertex], subgraph.len() - vertex);
            let Some(vertex) = (0..subgraph.len()).filter(may).min_by_key(key) else { break };
            now[vertex] ^= 1;
            moved.push(vertex);
            since += 1;
            let next = (off(&now).1, subgraph.cost(&now));
            if next < best {
                (best, since) = (next, 0);
                side.copy_from_slice(&now);
            }
        }
    }

    #[test]
    fn the_search_is_the_one_that_counts_every_gain_again() {
        for (count, largest, runs) in [(2, 1, 5), (9, 1, 20), (40, 1, 20), (40, 5, 20), (90, 3, 4), (200, 1, 2)] {
            let mut random = Random::new(count as u64);
            for _ in 0..runs {
                let subgraph = drawn(count, largest, &mut random);
                let first = subgraph.size.iter().sum::<i32>() / 2;
                let mut side: Vec<u8> = (0..count).map(|at| u8::from(at >= count / 2)).collect();
                let mut slow = side.clone();
                assert!(refine(&subgraph, &mut side, first, &Context::DEFAULT));
                slowly(&subgraph, &mut slow, first);
                assert_eq!(side, slow, "{count} vertices of up to {largest} slots");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_alone() {
        let mut random = Random::new(1);
        let mut heavy = drawn(20, 1, &mut random);
        heavy.arcs.iter_mut().for_each(|arc| arc.1 <<= 20);
        let many = drawn(257, 1, &mut random);
        for subgraph in [heavy, many] {
            let mut side: Vec<u8> = (0..subgraph.len()).map(|at| (at % 2) as u8).collect();
            let before = side.clone();
            assert!(!refine(&subgraph, &mut side, subgraph.len() as i32 / 2, &Context::DEFAULT));
            assert_eq!(side, before);
        }
    }
}
