//! Cutting a small graph in two parts of given sizes with as little weight between as can be: coarsened until few
//! vertices are left (Karypis and Kumar 1998), parts grown there, and refined on the way back. What several such cuts
//! agree on is merged, and the graph of what is left cut again: the recombination of KaFFPaE (Sanders and Schulz,
//! "Distributed evolutionary graph partitioning", 2012), which finds what no single one does.

use super::coarsen::{Coarser, coarsen};
use super::context::{Context, Part};
use super::gain_table::{GainTable, NONE};
use super::refine::{refine, slack};
use super::subgraph::Subgraph;
use crate::random::Random;

/// A cut with `first` slots on side 0; `tries` of the coarsest graph.
pub fn bisect(subgraph: &Subgraph, first: i32, tries: usize, context: &Context, random: &mut Random) -> Vec<u8> {
    cycled(subgraph, first, tries, 0, context, random)
}

/// A better cut for a little more time: two are made and recombined where the graph has become small.
pub fn bisect_well(subgraph: &Subgraph, first: i32, tries: usize, context: &Context, random: &mut Random) -> Vec<u8> {
    cycled(subgraph, first, tries, context.bisection.recombined, context, random)
}

fn cycled(
    subgraph: &Subgraph,
    first: i32,
    tries: usize,
    cycle: usize,
    context: &Context,
    random: &mut Random,
) -> Vec<u8> {
    let coarsest = context.bisection.coarsest;
    if subgraph.len() > coarsest {
        let total: i32 = subgraph.size.iter().sum();
        let coarser = coarsen(subgraph, (3 * total / (2 * coarsest as i32)).max(2), None, random);
        if coarser.is_smaller_than(subgraph) {
            let sides = if subgraph.len() > cycle && coarser.graph.len() <= cycle {
                agreed(&coarser.graph, first, tries, 2, None, context, random)
            } else {
                cycled(&coarser.graph, first, tries, cycle, context, random)
            };
            return refined(subgraph, &coarser, &sides, first, context);
        }
    }
    let mut best = Best::new(subgraph, first, context);
    for attempt in 0..tries.max(1) {
        let next = if attempt % 3 == 0 {
            grown(subgraph, first, (attempt > 0).then_some(context.bisection.jump), random)
        } else {
            best.disturbed(random)
        };
        best.offer(next);
    }
    best.side
}

/// The best of `parents` cuts, one of which may be given, and of what they agree on; of two cuts only where that
/// promises something.
pub fn agreed(
    subgraph: &Subgraph,
    first: i32,
    tries: usize,
    parents: usize,
    start: Option<Vec<u8>>,
    context: &Context,
    random: &mut Random,
) -> Vec<u8> {
    let was_cut = start.is_some();
    let mut best = start.unwrap_or_else(|| bisect(subgraph, first, tries, context, random));
    if parents < 2 || !context.uses(Part::Recombination) {
        return best;
    }
    let mut cost = subgraph.cost(&best);
    let mut labels: Vec<u32> = best.iter().map(|&side| u32::from(side)).collect();
    for _ in 1..parents {
        let side = bisect(subgraph, first, tries, context, random);
        labels.iter_mut().zip(&side).for_each(|(label, &side)| *label = 2 * *label + u32::from(side));
        let next = subgraph.cost(&side);
        if was_cut && parents == 2 && (next == cost || (cost > 0 && next > context.bisection.far * cost)) {
            return best;
        }
        if next < cost {
            (cost, best) = (next, side);
        }
    }
    let side = recombined(subgraph, first, &best, &labels, context, random);
    if subgraph.cost(&side) <= cost { side } else { best }
}

/// A cut from a given one, where vertices of different labels are not merged.
fn recombined(
    subgraph: &Subgraph,
    first: i32,
    start: &[u8],
    labels: &[u32],
    context: &Context,
    random: &mut Random,
) -> Vec<u8> {
    if subgraph.len() > context.bisection.coarsest_agreed {
        let total: i32 = subgraph.size.iter().sum();
        let coarser = coarsen(subgraph, (total / 4).max(2), Some(labels), random);
        if coarser.is_smaller_than(subgraph) {
            let (start, labels) = (coarser.project(start), coarser.project(labels));
            let sides = recombined(&coarser.graph, first, &start, &labels, context, random);
            return refined(subgraph, &coarser, &sides, first, context);
        }
    }
    recut(subgraph, first, start.to_vec(), context.bisection.tries_agreed, context, random)
}

/// The best of `tries` cuts of a small graph, refined: a given one, some near the best so far, and some from scratch.
pub fn recut(
    subgraph: &Subgraph,
    first: i32,
    start: Vec<u8>,
    tries: usize,
    context: &Context,
    random: &mut Random,
) -> Vec<u8> {
    let mut best = Best::new(subgraph, first, context);
    best.offer(start);
    for attempt in 1..tries {
        let next = if attempt % 2 == 0 {
            grown(subgraph, first, (attempt % 4 == 0).then_some(context.bisection.jump), random)
        } else {
            best.disturbed(random)
        };
        best.offer(next);
    }
    best.side
}

/// Another cut near a given one: a region of a graph coarsened to some depth is turned over, and all refined.
pub fn varied(subgraph: &Subgraph, side: &[u8], first: i32, context: &Context, random: &mut Random) -> Vec<u8> {
    if subgraph.len() > 7 && random.below(4) > 0 {
        let labels: Vec<u32> = side.iter().map(|&side| u32::from(side)).collect();
        let total: i32 = subgraph.size.iter().sum();
        let coarser = coarsen(subgraph, (total / 4).max(2), Some(&labels), random);
        if coarser.is_smaller_than(subgraph) {
            let sides = varied(&coarser.graph, &coarser.project(side), first, context, random);
            return refined(subgraph, &coarser, &sides, first, context);
        }
    }
    let mut side = side.to_vec();
    disturb(subgraph, &mut side, random);
    refine(subgraph, &mut side, first, context);
    side
}

/// A cut of the coarser graph brought to the finer one.
fn refined(subgraph: &Subgraph, coarser: &Coarser, sides: &[u8], first: i32, context: &Context) -> Vec<u8> {
    let mut side: Vec<u8> = coarser.part_of.iter().map(|&part| sides[part as usize]).collect();
    refine(subgraph, &mut side, first, context);
    side
}

/// The best of some cuts of a graph: the least uneven, and then the cheapest.
struct Best<'a> {
    subgraph: &'a Subgraph,
    context: &'a Context,
    first: i32,
    slack: i32,
    price: (i32, i64),
    side: Vec<u8>,
}

impl<'a> Best<'a> {
    fn new(subgraph: &'a Subgraph, first: i32, context: &'a Context) -> Self {
        Self { subgraph, context, first, slack: slack(subgraph), price: (i32::MAX, i64::MAX), side: Vec::new() }
    }

    /// Refines a cut and keeps it if it is no worse.
    fn offer(&mut self, mut side: Vec<u8>) {
        refine(self.subgraph, &mut side, self.first, self.context);
        let price = (((self.subgraph.filled(&side) - self.first).abs() - self.slack).max(0), self.subgraph.cost(&side));
        if price <= self.price {
            (self.price, self.side) = (price, side);
        }
    }

    fn disturbed(&self, random: &mut Random) -> Vec<u8> {
        let mut side = self.side.clone();
        disturb(self.subgraph, &mut side, random);
        side
    }
}

/// Turns over a random region of up to a quarter of the vertices.
fn disturb(subgraph: &Subgraph, side: &mut [u8], random: &mut Random) {
    let size = 1 + random.below((subgraph.len() / 4).max(2));
    let mut region = vec![random.below(subgraph.len()) as u32];
    let mut at = 0;
    side[region[0] as usize] ^= 1;
    let turned = |region: &[u32], vertex: u32| region.contains(&vertex);
    while at < region.len() && region.len() < size {
        for arc in subgraph.neighbours(region[at] as usize) {
            if region.len() < size && !turned(&region, arc.0) {
                region.push(arc.0);
                side[arc.0 as usize] ^= 1;
            }
        }
        at += 1;
    }
}

/// Side 0 grown from a random vertex, always by the vertex that costs least, or, once in `jump` vertices, somewhere
/// else.
pub fn grown(subgraph: &Subgraph, first: i32, jump: Option<usize>, random: &mut Random) -> Vec<u8> {
    let count = subgraph.len();
    let mut side = vec![1; count];
    let mut gains = GainTable::new(1, count);
    for vertex in 0..count {
        let row = subgraph.neighbours(vertex);
        // What J gains when the vertex joins side 0; those without neighbours come last.
        let gain = subgraph.bias[vertex] - row.iter().map(|arc| arc.1).sum::<i32>();
        gains.set(vertex, if row.is_empty() { NONE + 1 } else { gain });
    }
    let start = random.below(count);
    let volume = |vertex: &usize| !subgraph.neighbours(*vertex).is_empty();
    let mut next = (start..count).chain(0..start).find(volume).unwrap_or(start);
    let mut filled = 0;
    while filled < first {
        if filled + subgraph.size[next] <= first || filled == 0 {
            side[next] = 0;
            filled += subgraph.size[next];
            for &(other, weight) in subgraph.neighbours(next) {
                let gain = gains.get(other as usize);
                if gain > NONE {
                    gains.set(other as usize, gain + 2 * weight);
                }
            }
        }
        gains.set(next, NONE);
        let Some((place, _)) = gains.largest(0) else { break };
        next = place;
        if jump.is_some_and(|jump| random.below(jump) == 0) {
            let jump = random.below(count);
            if gains.get(jump) > NONE {
                next = jump;
            }
        }
    }
    side
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;

    #[test]
    fn what_cuts_agree_on_is_never_worse_than_any_of_them() {
        let (mut random, mut below_nothing) = (Random::new(8), 0);
        for count in [20, 40, 90, 200] {
            for attempt in 0..20 {
                let mut subgraph = drawn(count, 1, &mut random);
                // Some pay for being on side 0, so that cuts may cost less than nothing.
                subgraph.bias.iter_mut().for_each(|bias| *bias -= 200 * (attempt % 4));
                let first = count as i32 / 2;
                let start: Vec<u8> = (0..count).map(|at| u8::from(at >= count / 2)).collect();
                let start =
                    if attempt < 10 { start } else { bisect(&subgraph, first, 1, &Context::DEFAULT, &mut random) };
                let second = bisect(&subgraph, first, 1, &Context::DEFAULT, &mut random.clone());
                let least = subgraph.cost(&start).min(subgraph.cost(&second));
                let side = agreed(&subgraph, first, 1, 2, Some(start), &Context::DEFAULT, &mut random);
                assert!(subgraph.cost(&side) <= least, "{count} vertices");
                assert_eq!(side.iter().filter(|&&side| side == 0).count(), count / 2);
                below_nothing += usize::from(least < 0);
            }
        }
        assert!(below_nothing > 10);
    }
}
