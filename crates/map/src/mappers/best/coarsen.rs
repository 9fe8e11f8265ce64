//! Making graphs smaller by merging vertices that communicate much: a matching by the rating of Holtgrewe, Sanders and
//! Schulz ("Engineering a scalable high quality graph partitioner", IPDPS 2010), the weight's square over the product
//! of sizes, which keeps the merged vertices alike in size. Where cuts are made again and again it is their number that
//! counts: each vertex in a random order takes the best that is left (heavy-edge matching of Karypis and Kumar, "A fast
//! and high quality multilevel scheme for partitioning irregular graphs", 1998). A graph that is cut once gets the
//! better matching, that of falling rating, found with the suitor algorithm of Manne and Halappanavar ("New effective
//! multithreaded matching algorithms", IPDPS 2014).

use super::subgraph::Subgraph;
use crate::random::Random;

/// A graph and the vertex of the coarser one that each of its vertices is part of.
pub struct Coarser {
    /// The coarser graph.
    pub graph: Subgraph,
    /// For each vertex of the finer graph its vertex in the coarser one.
    pub part_of: Vec<u32>,
}

impl Coarser {
    /// Whether coarsening was worth it.
    pub fn is_smaller_than(&self, graph: &Subgraph) -> bool {
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
pub fn coarsen(graph: &Subgraph, largest: i32, group_of: Option<&[u32]>, random: &mut Random) -> Coarser {
    let mut candidates: Vec<Candidate> =
        graph.size.iter().map(|&size| Candidate { factor: 1.0 / size as f32, offer: 0.0, size, group: 0 }).collect();
    if let Some(group_of) = group_of {
        candidates.iter_mut().zip(group_of).for_each(|(candidate, &group)| candidate.group = group);
    }
    let pairs = if graph.is_cut_once {
        suitor_matching(graph, candidates, largest, random)
    } else {
        random_matching(graph, candidates, largest, random)
    };
    let mut part_of = vec![0; graph.len()];
    for (part, &[a, b]) in pairs.iter().enumerate() {
        part_of[a as usize] = part as u32;
        part_of[b as usize] = part as u32;
    }
    let members = |part: usize| if pairs[part][0] == pairs[part][1] { &pairs[part][..1] } else { &pairs[part][..] };
    Coarser { graph: merged(graph, &part_of, pairs.len(), members), part_of }
}

const NONE: u32 = u32::MAX;

/// What merging needs to know of a vertex, in one place.
#[derive(Clone, Copy)]
struct Candidate {
    /// One over its size; where matching is by falling rating with a little noise, which breaks ties and makes every
    /// hierarchy another one; [`MERGED`].
    factor: f32,
    /// The rating of the proposal that it holds.
    offer: f32,
    size: i32,
    group: u32,
}

/// No rating: the vertex has been merged.
const MERGED: f32 = 0.0;

/// How much ratings vary, as a part of them.
const NOISE: f32 = 0.05;

/// The best that a vertex can be merged with, and the rating, if that is more than what is on offer there where there
/// are offers (else what all of the vertex's ratings have in common is left out).
#[inline(always)]
fn best<const OFFERS: bool>(
    graph: &Subgraph,
    vertex: usize,
    candidates: &[Candidate],
    largest: i32,
) -> Option<(u32, f32)> {
    let own = candidates[vertex];
    let room = largest - own.size;
    // Rating and vertex in one number, the rating above: positive floats are in the order of their bits.
    let mut best = 0_u64;
    for &(other, weight) in graph.neighbours(vertex) {
        let candidate = candidates[other as usize];
        let weight = weight as f32;
        let factor = if OFFERS { own.factor * candidate.factor } else { candidate.factor };
        let rating = (weight * weight * factor).to_bits();
        let fits = (candidate.size <= room) & (candidate.group == own.group);
        let fits = fits & (!OFFERS || rating > candidate.offer.to_bits());
        let found = (u64::from(rating) << 32) | u64::from(other);
        best = best.max(if fits { found } else { 0 });
    }
    (best >> 32 > 0).then_some((best as u32, f32::from_bits((best >> 32) as u32)))
}

/// Pairs, a vertex that stays alone being one with itself: in random order each takes the best that is left.
fn random_matching(
    graph: &Subgraph,
    mut candidates: Vec<Candidate>,
    largest: i32,
    random: &mut Random,
) -> Vec<[u32; 2]> {
    let mut order: Vec<u32> = (0..graph.len() as u32).collect();
    random.shuffle(&mut order);
    let mut pairs = Vec::with_capacity(graph.len());
    for vertex in order {
        if candidates[vertex as usize].factor == MERGED {
            continue;
        }
        let partner = best::<false>(graph, vertex as usize, &candidates, largest).map_or(vertex, |best| best.0);
        candidates[vertex as usize].factor = MERGED;
        candidates[partner as usize].factor = MERGED;
        pairs.push([vertex, partner]);
    }
    pairs
}

/// The same as taking pairs by falling rating would give, found without sorting: every vertex proposes to the best that
/// has no better suitor, and who loses his place proposes again.
fn suitor_matching(
    graph: &Subgraph,
    mut candidates: Vec<Candidate>,
    largest: i32,
    random: &mut Random,
) -> Vec<[u32; 2]> {
    candidates
        .iter_mut()
        .for_each(|candidate| candidate.factor *= 1.0 + NOISE * (random.draw() >> 40) as f32 / (1 << 24) as f32);
    let mut suitor = vec![NONE; graph.len()];
    for start in 0..graph.len() {
        let mut vertex = start;
        while let Some((other, rating)) = best::<true>(graph, vertex, &candidates, largest) {
            candidates[other as usize].offer = rating;
            let loser = std::mem::replace(&mut suitor[other as usize], vertex as u32);
            if loser == NONE {
                break;
            }
            vertex = loser as usize;
        }
    }
    let is_mutual = |vertex: u32, other: u32| other != NONE && suitor[other as usize] == vertex;
    let partner = |vertex: u32| match suitor[vertex as usize] {
        other if is_mutual(vertex, other) => other,
        _ => vertex,
    };
    (0..graph.len() as u32).map(|vertex| [vertex, partner(vertex)]).filter(|pair| pair[0] <= pair[1]).collect()
}

/// The graph of `count` parts, each with the vertices that it is merged of.
#[inline(always)]
pub fn merged<'a>(
    subgraph: &Subgraph,
    part_of: &[u32],
    count: usize,
    members: impl Fn(usize) -> &'a [u32],
) -> Subgraph {
    let mut coarse = Subgraph { is_cut_once: subgraph.is_cut_once, ..Subgraph::default() };
    coarse.starts.reserve(count + 1);
    coarse.starts.push(0);
    // One place more, for what is within a part.
    let within = subgraph.arcs.len() as u32;
    coarse.arcs = vec![(0, 0); subgraph.arcs.len() + 1];
    // One more than where the arc to a vertex is, if that is in the row at hand.
    let mut place = vec![0_u32; count];
    let mut end = 0_u32;
    for own in 0..count {
        let (begin, members) = (end, members(own));
        place[own] = within + 1;
        for &member in members {
            for &(other, weight) in subgraph.neighbours(member as usize) {
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
        coarse.size.push(members.iter().map(|&member| subgraph.size[member as usize]).sum());
        coarse.bias.push(members.iter().map(|&member| subgraph.bias[member as usize]).sum());
    }
    coarse.arcs.truncate(end as usize);
    coarse
}

#[cfg(test)]
mod tests {
    use super::super::testing::drawn;
    use super::*;
    use std::collections::BTreeMap;

    /// The weight between any two vertices.
    fn weights(subgraph: &Subgraph) -> Vec<i32> {
        let mut weights = vec![0; subgraph.len() * subgraph.len()];
        for vertex in 0..subgraph.len() {
            subgraph
                .neighbours(vertex)
                .iter()
                .for_each(|arc| weights[vertex * subgraph.len() + arc.0 as usize] += arc.1);
        }
        weights
    }

    #[test]
    fn the_coarser_graph_is_what_the_parts_add_up_to() {
        let mut random = Random::new(5);
        for (count, largest, room) in [(1, 1, 2), (2, 1, 2), (30, 1, 2), (60, 3, 4), (60, 3, 100)] {
            let subgraph = drawn(count, largest, &mut random);
            let Coarser { graph, part_of } = coarsen(&subgraph, room, None, &mut random);
            let (fine, mut expected) = (weights(&subgraph), vec![0; graph.len() * graph.len()]);
            let (mut size, mut bias) = (vec![0; graph.len()], vec![0; graph.len()]);
            for a in 0..count {
                let own = part_of[a] as usize;
                size[own] += subgraph.size[a];
                bias[own] += subgraph.bias[a];
                for b in (0..count).filter(|&b| part_of[b] != part_of[a]) {
                    expected[own * graph.len() + part_of[b] as usize] += fine[a * count + b];
                }
            }
            assert_eq!((weights(&graph), &graph.size, &graph.bias), (expected, &size, &bias), "{count} vertices");
            // Every pair of parts once.
            let mut arcs: Vec<_> =
                (0..graph.len()).flat_map(|own| graph.neighbours(own).iter().map(move |arc| (own, arc.0))).collect();
            let all = arcs.len();
            arcs.sort_unstable();
            arcs.dedup();
            assert_eq!((arcs.len(), graph.arcs.len()), (all, all));
        }
    }

    #[test]
    fn pairs_communicate_and_fit_and_none_is_left_that_could_be_one() {
        let mut random = Random::new(6);
        for (room, by) in [
            (2, random_matching as Matching),
            (4, random_matching),
            (5, random_matching),
            (2, suitor_matching),
            (4, suitor_matching),
            (5, suitor_matching),
        ] {
            let subgraph = drawn(80, 3, &mut random);
            let candidates =
                (0..80).map(|vertex| Candidate { group: random.below(3) as u32, ..candidate(&subgraph, vertex) });
            let candidates: Vec<Candidate> = candidates.collect();
            let weight = weights(&subgraph);
            let may = |a: usize, b: usize| {
                let fits =
                    candidates[a].size + candidates[b].size <= room && candidates[a].group == candidates[b].group;
                weight[a * 80 + b] > 0 && fits
            };
            let partner = partners(by(&subgraph, candidates.clone(), room, &mut random));
            let is_alone = |vertex: usize| partner[vertex] as usize == vertex;
            for vertex in (0..80).filter(|&vertex| !is_alone(vertex)) {
                let other = partner[vertex] as usize;
                assert!(partner[other] as usize == vertex && may(vertex, other), "{vertex} and {other}");
            }
            let alone: Vec<usize> = (0..80).filter(|&vertex| is_alone(vertex)).collect();
            assert!(alone.iter().all(|&a| alone.iter().all(|&b| !may(a, b))));
            assert!(alone.len() < 70, "{alone:?}");
        }
    }

    /// A matching.
    type Matching = fn(&Subgraph, Vec<Candidate>, i32, &mut Random) -> Vec<[u32; 2]>;

    /// Who each vertex is in a pair with; every vertex has to be in one.
    fn partners(pairs: Vec<[u32; 2]>) -> Vec<u32> {
        let mut partner = BTreeMap::new();
        for [a, b] in pairs {
            assert!(partner.insert(a, b).is_none() && (a == b || partner.insert(b, a).is_none()));
        }
        assert!(partner.keys().copied().eq(0..partner.len() as u32));
        partner.into_values().collect()
    }

    fn candidate(subgraph: &Subgraph, vertex: usize) -> Candidate {
        let size = subgraph.size[vertex];
        Candidate { factor: 1.0 / size as f32, offer: 0.0, size, group: 0 }
    }

    #[test]
    fn suitors_get_what_taking_by_falling_rating_gives() {
        let mut random = Random::new(7);
        for count in [2, 9, 60, 200] {
            let subgraph = drawn(count, 3, &mut random);
            let candidates: Vec<Candidate> = (0..count).map(|vertex| candidate(&subgraph, vertex)).collect();
            let found = partners(suitor_matching(&subgraph, candidates.clone(), 5, &mut Random::new(count as u64)));
            // The same noise.
            let mut noise = Random::new(count as u64);
            let factor: Vec<f32> = candidates
                .iter()
                .map(|candidate| candidate.factor * (1.0 + NOISE * (noise.draw() >> 40) as f32 / (1 << 24) as f32))
                .collect();
            let mut pairs = Vec::new();
            for a in 0..count {
                for &(b, weight) in subgraph.neighbours(a).iter().filter(|arc| arc.0 as usize > a) {
                    let weight = weight as f32;
                    pairs.push((weight * weight * (factor[a] * factor[b as usize]), a, b as usize));
                }
            }
            pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
            let mut expected: Vec<u32> = (0..count as u32).collect();
            for (_, a, b) in pairs {
                let are_alone = expected[a] as usize == a && expected[b] as usize == b;
                if are_alone && subgraph.size[a] + subgraph.size[b] <= 5 {
                    (expected[a], expected[b]) = (b as u32, a as u32);
                }
            }
            assert_eq!(found, expected, "{count} vertices");
        }
    }

    #[test]
    fn of_two_neighbours_it_is_the_one_with_the_better_rating() {
        // In the middle of three: a weight of 3 to one of size 1, of 5 to one of size 4; squares over sizes are 9 and
        // 6.25.
        let subgraph = Subgraph {
            starts: vec![0, 1, 3, 4],
            arcs: vec![(1, 3), (0, 3), (2, 5), (1, 5)],
            size: vec![1, 1, 4],
            bias: vec![0; 3],
            is_cut_once: false,
            is_exact: false,
        };
        let candidates: Vec<Candidate> = (0..3).map(|vertex| candidate(&subgraph, vertex)).collect();
        let partner = |vertex, largest| best::<true>(&subgraph, vertex, &candidates, largest).map(|best| best.0);
        assert_eq!((partner(1, 9), partner(0, 9), partner(2, 4)), (Some(0), Some(1), None));
    }
}
