//! Pairs of groups cut again by clusters: vertices that communicate much are merged within their groups, so that two
//! groups are a graph of some twenty vertices instead of a hundred, which is cut in a few microseconds. Clusters are of
//! different sizes, so that groups can stay exactly as full as they are. Where nothing better is found by one
//! clustering, another one is made (iterated multilevel search: Walshaw, "Multilevel refinement for combinatorial
//! optimisation problems", 2004); and after the third some pair is cut in another way, and those around it again, which
//! stays where J is not much more than before, the less the less time is left (threshold accepting: Dueck and Scheuer,
//! 1990), and in the end no more.

use super::bisect::{grown, recut};
use super::clock::Clock;
use super::coarsen::merged;
use super::context::{self, Context, Part};
use super::layout::Layout;
use super::net::Net;
use super::refine::refine;
use super::subgraph::Subgraph;
use crate::random::Random;
use std::ops::Range;

/// Pairs of groups between two looks at the clock.
const LOOK: usize = 16;

/// The weights between all vertices add up to less than this, and what those of two groups may pay.
const MOST_ALL: i64 = 1 << 30;
const MOST_OF_PAIR: i64 = 1 << 24;

/// Not in the pair at hand, or no number yet.
const NONE: u32 = u32::MAX;

/// Makes J of groups less; each stays as full as it is. With `perturbations` a good part of the time is used, otherwise
/// little.
pub fn improve(
    net: &Net,
    layout: &Layout,
    group_of: &mut [u32],
    perturbations: bool,
    context: &Context,
    clock: &mut Clock,
    random: &mut Random,
) {
    let numbers = &context.clusters;
    let groups = layout.groups();
    let inside = |group: usize| layout.distance[group * groups + group];
    let most = net.len().div_ceil(groups).div_ceil(numbers.part);
    // What merged vertices pay each other is left out, so that it has to be the same in every group.
    if groups < 3 || most < 2 || (1..groups).any(|group| inside(group) != inside(0)) {
        return;
    }
    let mut fine = Subgraph::of_net(net);
    // A dense graph's clusters all communicate with each other.
    if fine.arcs.len() >= context.evolution.dense_others * net.tasks {
        return;
    }
    let all: i64 = fine.arcs.iter().map(|arc| i64::from(arc.1)).sum();
    fine.scale_down(all / MOST_ALL + 1);
    let mut perturbations =
        (perturbations && context.uses(Part::ClusterPerturbation) && groups >= numbers.least_perturbed)
            .then(|| Perturbations::new(clock, numbers, pays_apart(&fine, layout)));
    let mut best = group_of.to_vec();
    // How much more J is than the best.
    let (mut worse, mut stale) = (0, 0);
    for number in 0.. {
        let slack = perturbations
            .as_mut()
            .and_then(|perturbations| perturbations.slack(number >= numbers.before_perturbation, clock));
        if clock.is_over() || (slack.is_none() && (number >= numbers.clusterings || stale == numbers.stale)) {
            break;
        }
        let cluster_of = clusters(&fine, group_of, most, numbers.rounds, random);
        let mut cuts = Cuts::new(&fine, &cluster_of, group_of, layout, context);
        let gain = cuts.run(clock, random);
        worse -= gain;
        stale = if gain > 0 { 0 } else { stale + 1 };
        if let Some(slack) = slack.filter(|_| number >= numbers.before_perturbation) {
            for _ in 0..groups {
                let gain = if clock.steps(numbers.steps) { cuts.perturb(slack, random) } else { break };
                let Some(gain) = gain else {
                    (perturbations, stale) = (None, numbers.stale);
                    break;
                };
                worse -= gain;
            }
        }
        group_of.iter_mut().zip(&cluster_of).for_each(|(group, &cluster)| *group = cuts.group_of[cluster as usize]);
        if worse <= 0 {
            best.copy_from_slice(group_of);
            worse = 0;
        }
    }
    group_of.copy_from_slice(&best);
}

/// What a vertex would pay on average, more than now, if all that it communicates with were as far away as can be.
fn pays_apart(fine: &Subgraph, layout: &Layout) -> f64 {
    let all: i64 = fine.arcs.iter().map(|arc| i64::from(arc.1)).sum();
    let farther = layout.distance.iter().max().copied().unwrap_or(0) - layout.distance[0];
    all as f64 * f64::from(farther) / fine.len() as f64
}

/// The time for perturbations.
struct Perturbations {
    /// What is to be left of all time when it ends, and how much there is of it until then.
    end: u128,
    all: u128,
    /// How much of it was left when the last round began.
    last: Option<u128>,
    /// How much more J may be after a perturbation at first.
    slack: f64,
    least_rounds: u128,
}

impl Perturbations {
    fn new(clock: &Clock, numbers: &context::Clusters, pays_apart: f64) -> Self {
        let left = clock.left();
        let all = left * numbers.time / 100;
        Self {
            end: left - all,
            all,
            last: None,
            slack: numbers.threshold * pays_apart,
            least_rounds: numbers.least_rounds,
        }
    }

    /// How much more J may be after each perturbation, where a round of them begins now or is not due yet; none where
    /// the time is over.
    fn slack(&mut self, is_round: bool, clock: &Clock) -> Option<i64> {
        let left = clock.left().checked_sub(self.end).filter(|&left| left > 0)?;
        let are_many = self.last.is_some_and(|last| last.saturating_sub(left) * self.least_rounds <= left);
        self.last = is_round.then_some(left);
        Some(if are_many { (self.slack * left as f64 / self.all as f64) as i64 } else { 0 })
    }
}

/// A cluster for each vertex, none in two groups or of more than `most` vertices: in a random order each goes where the
/// most is that it communicates with (size-constrained label propagation: Meyerhenke, Sanders, Schulz, "Partitioning
/// complex networks via size-constrained clustering", SEA 2014).
fn clusters(fine: &Subgraph, group_of: &[u32], most: usize, rounds: usize, random: &mut Random) -> Vec<u32> {
    let count = fine.len();
    let mut cluster_of: Vec<u32> = (0..count as u32).collect();
    let mut size = vec![1; count];
    // What the vertex at hand communicates with each cluster.
    let mut volume = vec![0; count];
    let mut order = cluster_of.clone();
    random.shuffle(&mut order);
    for &vertex in order.iter().cycle().take(rounds * count) {
        let (group, own) = (group_of[vertex as usize], cluster_of[vertex as usize]);
        let row = fine.neighbours(vertex as usize);
        let mut best = (0, own);
        for &(other, weight) in row {
            let there = cluster_of[other as usize];
            let all = &mut volume[there as usize];
            *all += weight;
            let fits = (group_of[other as usize] == group) & ((size[there as usize] < most) | (there == own));
            best = if fits & (*all > best.0) { (*all, there) } else { best };
        }
        row.iter().for_each(|arc| volume[cluster_of[arc.0 as usize] as usize] = 0);
        size[own as usize] -= 1;
        size[best.1 as usize] += 1;
        cluster_of[vertex as usize] = best.1;
    }
    numbered(&mut cluster_of);
    cluster_of
}

/// Numbers clusters from nothing on.
fn numbered(cluster_of: &mut [u32]) {
    let mut number = vec![NONE; cluster_of.len()];
    let mut next = 0;
    for cluster in cluster_of {
        let number = &mut number[*cluster as usize];
        if *number == NONE {
            *number = next;
            next += 1;
        }
        *cluster = *number;
    }
}

/// Groups of clusters, of which pairs are cut again.
struct Cuts<'a> {
    context: &'a Context,
    layout: &'a Layout,
    graph: Subgraph,
    /// The group of each cluster, and the clusters of each group.
    group_of: Vec<u32>,
    members: Vec<Vec<u32>>,
    /// Clusters that communicate with others.
    communicating: Vec<u32>,
    /// What each communicates with all others.
    volume: Vec<i64>,
    /// The greatest distance.
    greatest: i64,
    /// Place of each cluster in the pair at hand.
    local: Vec<u32>,
    /// The clusters of the pair at hand, those of its first group first, and their graph.
    pair: Vec<u32>,
    subgraph: Subgraph,
    /// The groups that have been changed since the last perturbation, and what was in each before it.
    changed: Vec<(usize, Vec<u32>)>,
}

impl<'a> Cuts<'a> {
    fn new(fine: &Subgraph, cluster_of: &[u32], groups: &[u32], layout: &'a Layout, context: &'a Context) -> Self {
        let count = cluster_of.iter().max().map_or(0, |&last| last as usize + 1);
        let (vertices, places) = by_cluster(cluster_of, count);
        let graph = merged(fine, cluster_of, count, |cluster| &vertices[places[cluster].clone()]);
        let group_of: Vec<u32> = places.iter().map(|place| groups[vertices[place.start] as usize]).collect();
        let mut members = vec![Vec::new(); layout.groups()];
        group_of.iter().enumerate().for_each(|(cluster, &group)| members[group as usize].push(cluster as u32));
        let volume = |cluster| graph.neighbours(cluster).iter().map(|arc| i64::from(arc.1)).sum::<i64>();
        Self {
            context,
            layout,
            group_of,
            members,
            communicating: (0..count as u32)
                .filter(|&cluster| !graph.neighbours(cluster as usize).is_empty())
                .collect(),
            volume: (0..count).map(volume).collect(),
            greatest: layout.distance.iter().copied().max().map_or(0, i64::from),
            local: vec![NONE; count],
            pair: Vec::new(),
            subgraph: Subgraph { is_exact: true, ..Subgraph::default() },
            changed: Vec::new(),
            graph,
        }
    }

    /// Cuts pairs of groups that communicate again until nothing gets better; by how much less J is.
    fn run(&mut self, clock: &Clock, random: &mut Random) -> i64 {
        let (mut stale, mut gained) = (0, 0);
        for drawn in 1.. {
            if stale == self.layout.groups() || (drawn % LOOK == 0 && clock.is_over()) {
                break;
            }
            let Some((a, b)) = self.pair_of(&self.communicating, random) else { break };
            let gain = self.cut(a, b, self.context.clusters.tries, random);
            (stale, gained) = if gain > 0 { (0, gained + gain) } else { (stale + 1, gained) };
        }
        gained
    }

    /// Two groups that communicate, of the first of which one of some clusters is; none if that is hard to find.
    fn pair_of(&self, clusters: &[u32], random: &mut Random) -> Option<(usize, usize)> {
        (0..self.context.clusters.draws).take_while(|_| !clusters.is_empty()).find_map(|_| {
            let cluster = clusters[random.below(clusters.len())] as usize;
            let row = self.graph.neighbours(cluster);
            let other = if row.is_empty() { cluster } else { row[random.below(row.len())].0 as usize };
            let (a, b) = (self.group_of[cluster] as usize, self.group_of[other] as usize);
            (a != b).then_some((a, b))
        })
    }

    /// Cuts two groups again; by how much less J is.
    fn cut(&mut self, a: usize, b: usize, tries: usize, random: &mut Random) -> i64 {
        let Pair { first, old, unit } = self.take(a, b);
        let before = self.subgraph.cost(&old);
        let side = recut(&self.subgraph, first, old, tries, self.context, random);
        let gain = (before - self.subgraph.cost(&side)) * unit;
        if gain > 0 {
            self.put(a, b, &side);
        }
        gain
    }

    /// Cuts some pair in another way, and those around it again; takes it back if J became more than `slack` more. By
    /// how much less J is; none where no groups communicate.
    fn perturb(&mut self, slack: i64, random: &mut Random) -> Option<i64> {
        let (a, b) = self.pair_of(&self.communicating, random)?;
        let Pair { first, old, unit } = self.take(a, b);
        let mut side = grown(&self.subgraph, first, None, random);
        refine(&self.subgraph, &mut side, first, self.context);
        if side == old || self.subgraph.filled(&side) != first {
            return Some(0);
        }
        let mut gain = (self.subgraph.cost(&old) - self.subgraph.cost(&side)) * unit;
        self.changed.clear();
        self.put(a, b, &side);
        let mut stale = 0;
        while stale < self.context.clusters.patience {
            let around = self.changed[random.below(self.changed.len())].0;
            let Some((a, b)) = self.pair_of(&self.members[around], random) else { break };
            let more = self.cut(a, b, self.context.clusters.tries_perturbed, random);
            (stale, gain) = if more > 0 { (0, gain + more) } else { (stale + 1, gain) };
        }
        if gain < -slack {
            for (group, members) in std::mem::take(&mut self.changed) {
                members.iter().for_each(|&cluster| self.group_of[cluster as usize] = group as u32);
                self.members[group] = members;
            }
            gain = 0;
        }
        Some(gain)
    }

    /// Puts the clusters of the pair in hand to the groups that sides say, and notes what those were.
    fn put(&mut self, a: usize, b: usize, side: &[u8]) {
        for group in [a, b] {
            let old = std::mem::take(&mut self.members[group]);
            if self.changed.iter().all(|changed| changed.0 != group) {
                self.changed.push((group, old));
            }
        }
        for (&cluster, &side) in self.pair.iter().zip(side) {
            let group = if side == 0 { a } else { b };
            self.members[group].push(cluster);
            self.group_of[cluster as usize] = group as u32;
        }
    }

    /// Takes two groups in hand: their clusters, and the graph whose cuts cost what J is more or less by.
    fn take(&mut self, a: usize, b: usize) -> Pair {
        self.pair.clear();
        self.pair.extend_from_slice(&self.members[a]);
        self.pair.extend_from_slice(&self.members[b]);
        self.pair.iter().enumerate().for_each(|(at, &cluster)| self.local[cluster as usize] = at as u32);
        let groups = self.layout.groups();
        let row = |group: usize| &self.layout.distance[group * groups..(group + 1) * groups];
        let (to_a, to_b) = (row(a), row(b));
        let others_are_alike = self.layout.differing(a, b).iter().all(|range| range.len() == 1);
        let apart = i64::from(to_a[b] - to_a[a]);
        let (factor, greatest) = if others_are_alike { (1, 1) } else { (apart, self.greatest) };
        let all = greatest * self.pair.iter().map(|&cluster| self.volume[cluster as usize]).sum::<i64>();
        let divisor = all / MOST_OF_PAIR + 1;
        let scaled = |pays: i64| if divisor == 1 { pays } else { pays / divisor } as i32;
        let subgraph = &mut self.subgraph;
        subgraph.clear();
        for &cluster in &self.pair {
            let mut bias = 0;
            for &(other, weight) in self.graph.neighbours(cluster as usize) {
                let at = self.local[other as usize];
                if at != NONE {
                    subgraph.arcs.push((at, scaled(i64::from(weight) * factor)));
                } else if !others_are_alike {
                    let there = self.group_of[other as usize] as usize;
                    bias += i64::from(weight) * i64::from(to_b[there] - to_a[there]);
                }
            }
            subgraph.starts.push(subgraph.arcs.len() as u32);
            subgraph.size.push(self.graph.size[cluster as usize]);
            subgraph.bias.push(scaled(bias));
        }
        self.pair.iter().for_each(|&cluster| self.local[cluster as usize] = NONE);
        let count = self.members[a].len();
        let old: Vec<u8> = (0..self.pair.len()).map(|at| u8::from(at >= count)).collect();
        Pair { first: subgraph.filled(&old), old, unit: if others_are_alike { apart } else { 1 } * divisor }
    }
}

/// Two groups in hand.
struct Pair {
    /// How full the first one is.
    first: i32,
    /// On which side each cluster is.
    old: Vec<u8>,
    /// What a unit of a cut's cost is of J.
    unit: i64,
}

/// All vertices in the order of their clusters, and where those of each of `count` clusters are.
fn by_cluster(cluster_of: &[u32], count: usize) -> (Vec<u32>, Vec<Range<usize>>) {
    let mut places = vec![0..0; count];
    cluster_of.iter().for_each(|&cluster| places[cluster as usize].end += 1);
    let mut end = 0;
    for place in &mut places {
        (place.start, end) = (end, end + place.end);
        place.end = place.start;
    }
    let mut vertices = vec![0; cluster_of.len()];
    for (vertex, &cluster) in cluster_of.iter().enumerate() {
        let place = &mut places[cluster as usize];
        vertices[place.end] = vertex as u32;
        place.end += 1;
    }
    (vertices, places)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ready, communicating, cost_of_groups, ready};
    use super::*;
    use crate::Options;
    use crate::testing::tree;
    use cohabit_model::Matrix;

    /// Eight tasks a group that communicate with each other, and little with others.
    fn knots(groups: usize, random: &mut Random) -> Matrix {
        let tasks = 8 * groups;
        let mut entries: Vec<_> =
            (0..tasks).flat_map(|a| (0..8).map(move |b| (a as u32, (a / 8 * 8 + b) as u32, 20_u64))).collect();
        entries.retain(|entry| entry.0 != entry.1);
        entries.extend((0..tasks).map(|_| (random.below(tasks) as u32, random.below(tasks) as u32, 1)));
        Matrix::from_triplets(tasks, entries)
    }

    fn shuffled(tasks: usize, group_of_slot: &[u32], random: &mut Random) -> Vec<u32> {
        let mut slots: Vec<u32> = (0..tasks as u32).collect();
        random.shuffle(&mut slots);
        slots.into_iter().map(|slot| group_of_slot[slot as usize]).collect()
    }

    #[test]
    fn clusters_are_within_groups_and_no_larger_than_they_may_be() {
        let mut random = Random::new(3);
        let weight = communicating(120, 500, &mut random);
        let Ready { net, layout, .. } = ready(&weight, &tree(&[4, 30], &[10, 1]));
        let group_of = shuffled(120, &layout.tree.group_of_slots(), &mut random);
        let cluster_of = clusters(&Subgraph::of_net(&net), &group_of, 6, 2, &mut random);
        let count = *cluster_of.iter().max().unwrap() as usize + 1;
        assert!(count < 80, "{count} clusters");
        let (vertices, places) = by_cluster(&cluster_of, count);
        let mut all = vertices.clone();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..120));
        for (cluster, place) in places.into_iter().enumerate() {
            let own = &vertices[place];
            assert!((1..=6).contains(&own.len()), "{} vertices", own.len());
            assert!(own.iter().all(|&vertex| cluster_of[vertex as usize] as usize == cluster));
            assert!(own.iter().all(|&vertex| group_of[vertex as usize] == group_of[own[0] as usize]));
        }
    }

    #[test]
    fn what_a_cut_costs_more_or_less_is_what_the_definition_says() {
        let mut random = Random::new(4);
        // How much more a unit of weight pays where others are alike, as they are but for groups of different nodes.
        for (arities, costs, more) in [(&[5, 12][..], &[70, 1][..], [69; 3]), (&[2, 2, 15], &[100, 10, 1], [9, 1, 1])] {
            let weight = communicating(60, 300, &mut random);
            let Ready { net, layout, .. } = ready(&weight, &tree(arities, costs));
            let group_of = shuffled(60, &layout.tree.group_of_slots(), &mut random);
            let fine = Subgraph::of_net(&net);
            let cluster_of = clusters(&fine, &group_of, 3, 2, &mut random);
            let mut cuts = Cuts::new(&fine, &cluster_of, &group_of, &layout, &Context::DEFAULT);
            for ((a, b), more) in [(0, 1), (2, 0), (1, 3)].into_iter().zip(more) {
                assert_eq!(cuts.take(a, b).unit, more);
                let old: Vec<u8> = (0..cuts.pair.len()).map(|at| u8::from(at >= cuts.members[a].len())).collect();
                let side: Vec<u8> = old.iter().map(|&old| if random.below(3) == 0 { 1 - old } else { old }).collect();
                let mut then = group_of.clone();
                for (&cluster, &side) in cuts.pair.iter().zip(&side) {
                    let own = (0..60).filter(|&vertex| cluster_of[vertex] == cluster);
                    own.for_each(|vertex| then[vertex] = [a, b][usize::from(side)] as u32);
                }
                let cost = |group_of: &[u32]| cost_of_groups(&net, &layout, group_of);
                assert_eq!(
                    more * (cuts.subgraph.cost(&side) - cuts.subgraph.cost(&old)),
                    cost(&then) - cost(&group_of)
                );
            }
        }
    }

    #[test]
    fn groups_find_together_and_stay_as_full_as_they_are() {
        for (arities, perturbations) in [(&[12, 16][..], false), (&[12, 16], true), (&[6, 2, 16], true)] {
            let mut random = Random::new(5);
            let weight = knots(24, &mut random);
            let Ready { net, layout, .. } = ready(&weight, &tree(arities, &[100, 10, 1][3 - arities.len()..]));
            // Knots are whole, but in any group.
            let mut knots: Vec<u32> = (0..24).collect();
            random.shuffle(&mut knots);
            let start: Vec<u32> = (0..192).map(|task| knots[task / 8] / 2).collect();
            let mut group_of = start.clone();
            let mut clock = Clock::new(&Options::default(), 300);
            improve(&net, &layout, &mut group_of, perturbations, &Context::DEFAULT, &mut clock, &mut random);
            let cost = |group_of: &[u32]| cost_of_groups(&net, &layout, group_of);
            assert!(cost(&group_of) < cost(&start), "{} and {}", cost(&group_of), cost(&start));
            assert!((0..12).all(|group| group_of.iter().filter(|&&own| own == group).count() == 16));
            assert_eq!(clock.left() < 300, perturbations);
        }
    }

    #[test]
    fn perturbations_make_j_more_by_no_more_than_they_may() {
        let mut random = Random::new(6);
        let weight = communicating(96, 250, &mut random);
        let Ready { net, layout, .. } = ready(&weight, &tree(&[3, 4, 8], &[100, 10, 1]));
        let group_of = shuffled(96, &layout.tree.group_of_slots(), &mut random);
        let fine = Subgraph::of_net(&net);
        let cluster_of = clusters(&fine, &group_of, 2, 2, &mut random);
        let mut cuts = Cuts::new(&fine, &cluster_of, &group_of, &layout, &Context::DEFAULT);
        cuts.run(&Clock::new(&Options::default(), 1), &mut random);
        let now = |cuts: &Cuts| -> Vec<u32> {
            assert!(cuts.members.iter().enumerate().all(|(group, members)| {
                members.iter().all(|&cluster| cuts.group_of[cluster as usize] as usize == group)
            }));
            cluster_of.iter().map(|&cluster| cuts.group_of[cluster as usize]).collect()
        };
        let (mut before, mut taken_back, mut less, mut more) = (now(&cuts), 0, 0, 0);
        let cost = |group_of: &[u32]| cost_of_groups(&net, &layout, group_of);
        let step = cost(&before) / 100;
        for slack in [vec![0; 200], vec![step; 200]].concat() {
            let gain = cuts.perturb(slack, &mut random).unwrap();
            let then = now(&cuts);
            assert!(gain == cost(&before) - cost(&then) && gain >= -slack, "{gain}");
            taken_back += usize::from(then == before);
            less += usize::from(gain > 0);
            more += usize::from(gain < 0);
            before = then;
        }
        assert!(taken_back > 20 && less > 0 && more > 0, "{taken_back} taken back, {less} less, {more} more");
    }

    #[test]
    fn what_perturbations_may_cost_becomes_less_and_nothing_in_the_end() {
        let mut clock = Clock::new(&Options::default(), 1_000);
        let mut perturbations = Perturbations::new(&clock, &context::Clusters::DEFAULT, 300.0);
        // Nobody knows yet how long a round takes.
        assert_eq!((perturbations.slack(false, &clock), perturbations.slack(true, &clock)), (Some(0), Some(0)));
        let mut round = || {
            clock.steps(100);
            perturbations.slack(true, &clock)
        };
        let slack: Vec<i64> = std::iter::from_fn(&mut round).collect();
        // The time is over after 750; four more rounds fit in three times.
        assert_eq!(slack, [65, 55, 45, 0, 0, 0, 0]);
    }

    #[test]
    fn where_perturbations_went_too_far_the_best_is_taken() {
        let mut random = Random::new(7);
        let weight = communicating(192, 500, &mut random);
        let Ready { net, layout, .. } = ready(&weight, &tree(&[12, 16], &[10, 1]));
        let cost = |group_of: &[u32]| cost_of_groups(&net, &layout, group_of);
        let mut group_of = shuffled(192, &layout.tree.group_of_slots(), &mut random);
        // From what is good already it is seldom that anything better is found in the end.
        for _ in 0..20 {
            let before = cost(&group_of);
            let mut clock = Clock::new(&Options::default(), 4_000);
            improve(&net, &layout, &mut group_of, true, &Context::DEFAULT, &mut clock, &mut random);
            assert!(cost(&group_of) <= before, "{} and {before}", cost(&group_of));
        }
    }

    #[test]
    fn groups_that_do_not_communicate_are_left_alone() {
        let mut clock = Clock::new(&Options::default(), 100);
        let of_groups = (0..192_u32).flat_map(|task| [(task, task / 16 * 16, 3), (task, task / 16 * 16 + 5, 2)]);
        for entries in [of_groups.filter(|entry| entry.0 != entry.1).collect(), Vec::new()] {
            let weight = Matrix::from_triplets(192, entries);
            let Ready { net, layout, .. } = ready(&weight, &tree(&[12, 16], &[10, 1]));
            let start: Vec<u32> = (0..192).map(|task| task / 16).collect();
            let mut group_of = start.clone();
            improve(&net, &layout, &mut group_of, true, &Context::DEFAULT, &mut clock, &mut Random::new(1));
            assert_eq!(group_of, start);
        }
    }
}
