//! Whom a sample's neighbours show to share memory: at several scales, and how much each of them counts.
//!
//! The nearest neighbour alone is the least likely to lie in somebody else's memory beside what is shared, and shows
//! little; sixteen show more, and reach farther. Which is better depends on the program: how finely the tasks' parts of
//! the memory are interleaved, and how many samples there are. So pairs are credited at each scale, and the scales are
//! weighed by how far each is expected to be off: by chance, of which the number of events tells, and by reaching too
//! far, of which it tells how differently its events are spread over the pairs than those of the nearest neighbours.

use super::neighbourhoods::{LINE_BYTES, MOST_NEIGHBOURS, Neighbour};
use std::collections::BTreeMap;

/// Neighbours at each scale.
const SCALES: [usize; 5] = [1, 2, 4, 8, MOST_NEIGHBOURS];
/// What each scale adds to the one before it: the ranks of its neighbours.
const BANDS: [(usize, usize); 5] = [(0, 1), (1, 2), (2, 4), (4, 8), (8, MOST_NEIGHBOURS)];
/// What a pair of accesses counts of which neither writes: values go from writers to readers, and readers of the same
/// memory only share what is in their caches.
const READERS: f64 = 1.0 / 3.0;
/// Of the samples of a short time, neighbours among which tasks meet.
pub(super) const MEETING: usize = 4;
/// What a whole event may lack by rounding.
const ROUNDING: f64 = 1e-6;
/// Events of nearest neighbours that tell anything of what the other scales are worth.
const LEAST_EVENTS: f64 = 8.0;
/// The scales are weighed again when there are so many times as many.
const WEIGH_AGAIN: f64 = 1.1;
/// Pairs that are kept: some 20 MiB.
const MOST_PAIRS: usize = 1 << 17;

/// By scale or by band.
type Each = [f64; SCALES.len()];

/// Whole events of a pair, and how often its tasks met lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The smaller number first.
    pub(super) pair: (u32, u32),
    pub(super) sampled: u64,
    pub(super) met: u64,
}

/// What the pairs of tasks were credited with.
#[derive(Debug)]
pub(super) struct Scales {
    pairs: BTreeMap<(u32, u32), Pair>,
    /// Pairs that were credited since events were last taken, each once.
    credited: Vec<(u32, u32)>,
    /// By band, of the neighbours beyond the line: the sum of the squares of what was added, over all pairs.
    squares: Each,
    most: usize,
    /// Of the nearest neighbours beyond the line: all that was added.
    nearest: f64,
    /// Events of nearest neighbours when the scales were last weighed, and what came of it; they add up to 1.
    weighed_at: f64,
    weights: Each,
}

#[derive(Debug, Default)]
struct Pair {
    /// By scale.
    credit: Each,
    /// By band, of the neighbours beyond the line.
    plain: Each,
    /// How often they met.
    met: f64,
    /// Since events were last taken.
    is_credited: bool,
    /// Events and meetings that have been taken.
    taken: (u64, u64),
}

impl Default for Scales {
    fn default() -> Self {
        Self {
            pairs: BTreeMap::new(),
            credited: Vec::new(),
            squares: Each::default(),
            most: MOST_PAIRS,
            nearest: 0.0,
            weighed_at: 0.0,
            weights: weights(SCALES.map(|neighbours| 1.0 / neighbours as f64)),
        }
    }
}

impl Scales {
    /// A task was seen at these places at one moment: whether it writes there, and its neighbours, the nearest first.
    ///
    /// No more than one event in all, so that chance has with them what it has with counts: shared out among the
    /// places, and at each among those who were seen there (`shares`).
    pub(super) fn add(&mut self, task: u32, places: &[(bool, Vec<Neighbour>)]) {
        if self.pairs.len() >= self.most {
            self.forget_half();
        }
        for (writes, near) in places.iter().filter(|(_, near)| near.iter().any(|near| near.task != task)) {
            self.add_at(task, *writes, near, 1.0 / places.len() as f64);
        }
    }

    fn add_at(&mut self, task: u32, writes: bool, near: &[Neighbour], part: f64) {
        // Of each of the others, so that its pair is looked for once.
        let mut added: Vec<(u32, Each, Each)> = Vec::with_capacity(near.len());
        for (rank, near) in near.iter().enumerate().filter(|(_, near)| near.task != task) {
            let at = added.iter().position(|&(other, ..)| other == near.task).unwrap_or_else(|| {
                added.push((near.task, Each::default(), Each::default()));
                added.len() - 1
            });
            if near.distance >= LINE_BYTES {
                self.add_plain(&mut added[at].2, weight(writes || near.writes), rank);
            }
        }
        for (scale, neighbours) in SCALES.into_iter().enumerate() {
            // Where there are fewer, they are all of the larger scales.
            for ((_, share), (_, credit, _)) in
                shares(task, writes, &near[..neighbours.min(near.len())]).zip(&mut added)
            {
                credit[scale] = part * share;
            }
        }
        for (other, credit, plain) in added {
            let pair = self.credited(task, other);
            (0..SCALES.len()).for_each(|scale| {
                pair.credit[scale] += credit[scale];
                pair.plain[scale] += plain[scale];
            });
        }
    }

    /// The pair, credited.
    fn credited(&mut self, a: u32, b: u32) -> &mut Pair {
        let key = (a.min(b), a.max(b));
        let pair = self.pairs.entry(key).or_default();
        if !std::mem::replace(&mut pair.is_credited, true) {
            self.credited.push(key);
        }
        pair
    }

    /// A task was seen near others of the same short time: they meet.
    pub(super) fn meet(&mut self, task: u32, places: &[(bool, Vec<Neighbour>)]) {
        for (writes, near) in places {
            for (other, share) in shares(task, *writes, &near[..MEETING.min(near.len())]) {
                self.credited(task, other).met += share / places.len() as f64;
            }
        }
    }

    fn add_plain(&mut self, plain: &mut Each, weight: f64, rank: usize) {
        let Some(band) = BANDS.iter().position(|&(_, end)| rank < end) else { return };
        let part = weight / (BANDS[band].1 - BANDS[band].0) as f64;
        plain[band] += part;
        self.squares[band] += part * part;
        if band == 0 {
            self.nearest += part;
        }
    }

    /// Whole events and meetings since the last call. Where the scales have come to be weighed otherwise, a pair may
    /// have had too many events: it has none then until they are made up for.
    pub(super) fn take(&mut self) -> Vec<Seen> {
        let mut credited = std::mem::take(&mut self.credited);
        if self.nearest >= LEAST_EVENTS && self.nearest >= WEIGH_AGAIN * self.weighed_at {
            self.weigh();
            credited = self.pairs.keys().copied().collect();
        } else {
            credited.sort_unstable();
        }
        let mut taken = Vec::new();
        for (a, b) in credited {
            let Some(pair) = self.pairs.get_mut(&(a, b)) else { continue };
            pair.is_credited = false;
            let credit: f64 = pair.credit.iter().zip(self.weights).map(|(credit, weight)| credit * weight).sum();
            let new = |all: f64, taken: &mut u64| {
                let new = ((all + ROUNDING) as u64).saturating_sub(*taken);
                *taken += new;
                new
            };
            let (sampled, met) = (new(credit, &mut pair.taken.0), new(pair.met, &mut pair.taken.1));
            if sampled + met > 0 {
                taken.push(Seen { pair: (a, b), sampled, met });
            }
        }
        taken
    }

    /// Forgets what pairs were credited with; what the scales are worth stays until it is known better.
    pub(super) fn forget(&mut self) {
        let (weights, most) = (self.weights, self.most);
        *self = Self { weights, most, ..Self::default() };
    }

    /// Makes room: the half of the pairs that was credited least goes.
    fn forget_half(&mut self) {
        let credit = |pair: &Pair| pair.credit.iter().sum::<f64>();
        let mut credits: Vec<f64> = self.pairs.values().map(credit).collect();
        let middle = credits.len() / 2;
        let (_, &mut middle, _) = credits.select_nth_unstable_by(middle, f64::total_cmp);
        self.pairs.retain(|_, pair| credit(pair) > middle);
    }

    /// Forgets the pairs of a task.
    pub(super) fn end(&mut self, ended: impl Fn(u32) -> bool) {
        self.pairs.retain(|&(a, b), _| !ended(a) && !ended(b));
    }

    /// Weighs the scales by the mean square error of each that is to be expected, of what part of the events a pair
    /// has.
    ///
    /// By chance it is the sum of the squares over the square of the sum, the variance of the parts. Because a scale
    /// has the neighbours of the smaller ones, chance alone lets it differ from the smallest by the difference of their
    /// variances; what it differs more by is what it is off.
    fn weigh(&mut self) {
        self.weighed_at = self.nearest;
        // Of each scale: of all that its bands add, what a neighbour counts.
        let cumulated = |band: &Each, power: i32| -> Each {
            let mut sum = 0.0;
            std::array::from_fn(|scale| {
                let (start, end) = BANDS[scale];
                sum += band[scale] * ((end - start) as f64).powi(power);
                sum / (SCALES[scale] as f64).powi(power)
            })
        };
        let of_pairs: Vec<Each> = self.pairs.values().map(|pair| cumulated(&pair.plain, 1)).collect();
        let sums: Each = std::array::from_fn(|scale| of_pairs.iter().map(|pair| pair[scale]).sum());
        let squares = cumulated(&self.squares, 2);
        let variances: Each = std::array::from_fn(|scale| squares[scale] / sums[scale].powi(2));
        let errors: Each = std::array::from_fn(|scale| {
            let differs = |pair: &Each| (pair[scale] / sums[scale] - pair[0] / sums[0]).powi(2);
            let differ: f64 = of_pairs.iter().map(differs).sum();
            (differ - (variances[0] - variances[scale]).max(0.0)).max(0.0) + variances[scale]
        });
        if errors.iter().all(|error| error.is_finite() && *error > 0.0) {
            self.weights = weights(errors);
        }
    }
}

/// What a task that was seen near these, writing or not, shares with each of the others, at most 1 in all: as much as
/// there are others' samples among them, shared out among the others, in the order in which they come.
fn shares(task: u32, writes: bool, near: &[Neighbour]) -> impl Iterator<Item = (u32, f64)> {
    let mut others: Vec<(u32, bool)> = Vec::new();
    let mut count = 0;
    for near in near.iter().filter(|near| near.task != task) {
        count += 1;
        match others.iter_mut().find(|other| other.0 == near.task) {
            // Of one that was seen several times, writing comes first.
            Some(other) => other.1 |= near.writes,
            None => others.push((near.task, near.writes)),
        }
    }
    let share = f64::from(count) / (near.len() * others.len()).max(1) as f64;
    others.into_iter().map(move |(other, others)| (other, share * weight(writes || others)))
}

/// What a scale counts with such an error, of 1.
fn weights(errors: Each) -> Each {
    let weights = errors.map(|error| error.powi(-2));
    let sum: f64 = weights.iter().sum();
    weights.map(|weight| weight / sum)
}

fn weight(any_writes: bool) -> f64 {
    if any_writes { 1.0 } else { READERS }
}
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn near(tasks: &[u32], writes: bool, distance: u64) -> Vec<Neighbour> {
        tasks.iter().map(|&task| Neighbour { task, writes, distance }).collect()
    }

    /// The definition: what a task and its neighbours at a place are credited with at a scale.
    fn share(task: u32, other: u32, (writes, near): &(bool, Vec<Neighbour>), neighbours: usize) -> f64 {
        let near = &near[..neighbours.min(near.len())];
        let all = near.len();
        let near: Vec<&Neighbour> = near.iter().filter(|near| near.task != task).collect();
        let others: BTreeSet<u32> = near.iter().map(|near| near.task).collect();
        if !others.contains(&other) {
            return 0.0;
        }
        let any_writes = *writes || near.iter().any(|near| near.task == other && near.writes);
        near.len() as f64 / all as f64 / others.len() as f64 * if any_writes { 1.0 } else { 1.0 / 3.0 }
    }

    /// The task's number is even, and then odd: two in a row have a region of their own, the next two another.
    fn regions(reach: usize) -> Scales {
        let mut scales = Scales::default();
        for sample in 0..4000u32 {
            let task = sample % 8;
            // The nearest are of the region; those farther away than `reach` are of anybody.
            let others = (0..MOST_NEIGHBOURS as u32).map(|rank| {
                if (rank as usize) < reach {
                    task ^ (sample / 8 + rank) & 1
                } else {
                    (sample / 8 * 5 + rank * 3 + sample) % 8
                }
            });
            let near = others.map(|task| Neighbour { task, writes: true, distance: 1000 }).collect();
            scales.add(task, &[(true, near)]);
            if sample % 100 == 0 {
                scales.take();
            }
        }
        scales
    }

    #[test]
    fn a_moment_is_one_event_and_readers_alone_are_less() {
        let mut scales = Scales::default();
        scales.add(5, &[(true, near(&[3], false, 0))]);
        assert_eq!(scales.take(), [Seen { pair: (3, 5), sampled: 1, met: 0 }]);
        assert_eq!(scales.take(), []);
        // At two places, of two others; the task's own samples leave less.
        scales.add(5, &[(false, near(&[3, 7], true, 0)), (true, near(&[7, 3], false, 0))]);
        scales.add(5, &[(false, near(&[3, 7, 5, 5], true, 0))]);
        let credit = |scales: &Scales, pair| scales.pairs[&pair].credit;
        assert_eq!(credit(&scales, (5, 7)), [0.5, 0.25 + 0.25 + 0.5, 0.75, 0.75, 0.75]);
        for _ in 0..3 {
            scales.add(1, &[(false, near(&[2], false, 0))]);
        }
        assert!(scales.take().contains(&Seen { pair: (1, 2), sampled: 1, met: 0 }));
        // Nobody else there.
        scales.add(9, &[(true, near(&[9, 9], true, 0)), (true, Vec::new())]);
        assert!(!scales.pairs.keys().any(|pair| pair.1 == 9));
    }

    #[test]
    fn scales_that_reach_into_others_memory_count_little() {
        // As many neighbours as tell the truth is what counts most.
        let weights_of = |reach| regions(reach).weights;
        let most = |weights: Each| (0..SCALES.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap();
        for (scale, neighbours) in SCALES.into_iter().enumerate() {
            assert_eq!(most(weights_of(neighbours)), scale, "{:?}", weights_of(neighbours));
        }
        assert!((weights_of(4).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // And so partners have nearly all events.
        let scales = regions(1);
        let events = |partners| {
            let of = scales.pairs.iter().filter(|((a, b), _)| (a ^ 1 == *b) == partners);
            of.map(|(_, pair)| pair.taken.0).sum::<u64>()
        };
        assert!(events(true) > 10 * events(false), "{} {}", events(true), events(false));
    }

    #[test]
    fn what_was_too_much_is_made_up_for() {
        let mut scales = Scales::default();
        // Far neighbours alone show the pair of 0 and 2, and at first they count most.
        let place = [(true, near(&[&[1][..], &[2; 15]].concat(), true, 0))];
        (0..64).for_each(|_| scales.add(0, &place));
        let events =
            |taken: Vec<Seen>| taken.into_iter().find(|taken| taken.pair == (0, 2)).map_or(0, |taken| taken.sampled);
        let before = events(scales.take());
        scales.weights = [1.0, 0.0, 0.0, 0.0, 0.0];
        (0..64).for_each(|_| scales.add(0, &place));
        assert_eq!((before > 20, events(scales.take())), (true, 0));
        assert_eq!(scales.pairs[&(0, 1)].taken.0, 128);
    }

    #[test]
    fn the_pairs_that_were_credited_least_make_room() {
        let mut scales = Scales { most: 100, ..Scales::default() };
        for other in 1..1000 {
            scales.add(0, &[(true, near(&[other], true, 0))]);
            scales.add(0, &[(true, near(&[1], true, 0))]);
            assert!(scales.pairs.len() <= 101);
        }
        assert_eq!(scales.pairs[&(0, 1)].credit[0], 1000.0);
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let mut scales = regions(1);
        let weights = scales.weights;
        scales.end(|task| task == 3);
        assert!(scales.pairs.keys().all(|&(a, b)| a != 3 && b != 3) && scales.pairs.contains_key(&(0, 1)));
        scales.forget();
        assert_eq!((scales.pairs.len(), scales.take(), scales.weights), (0, vec![], weights));
    }

    proptest! {
        #[test]
        fn credit_is_as_the_definition_says(
            moments in prop::collection::vec(
                (0..4u32, prop::collection::vec(
                    (any::<bool>(), prop::collection::vec((0..4u32, any::<bool>(), 0..200u64), 0..=MOST_NEIGHBOURS)), 0..4)),
                0..20),
        ) {
            let mut scales = Scales::default();
            let mut credit: BTreeMap<(u32, u32), Each> = BTreeMap::new();
            for (task, places) in moments {
                let neighbour = |(task, writes, distance)| Neighbour { task, writes, distance };
                let places: Vec<(bool, Vec<Neighbour>)> =
                    places.into_iter().map(|(writes, near)| (writes, near.into_iter().map(neighbour).collect())).collect();
                scales.add(task, &places);
                for place in &places {
                    for other in (0..4).filter(|&other| other != task) {
                        let credit = credit.entry((task.min(other), task.max(other))).or_default();
                        for (scale, neighbours) in SCALES.into_iter().enumerate() {
                            credit[scale] += share(task, other, place, neighbours) / places.len() as f64;
                        }
                    }
                }
            }
            for (pair, expected) in credit {
                let found = scales.pairs.get(&pair).map(|pair| pair.credit).unwrap_or_default();
                prop_assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{:?} {:?}", found, expected);
            }
        }
    }
}
