//! Evidence of several kinds as one count of independent events for each pair.
//!
//! One principle: an event of any kind counts as many independent ones as it is worth, so that the sum over the kinds
//! is a count with the uncertainty that chance leaves (Poisson's), whatever it is made of. With n events of a kind,
//! spread over the pairs in parts s, parts of independent events would be off by chance, the sum of their variances
//! being (1 - sum of s^2) / n. Two things make them worth less, and both are measured in the run:
//!
//! - **They come in bursts.** Within each reading the events of a pair differ from its part of all by more than chance
//!   has it; that many times the variance of independent events is theirs (the index of dispersion, McCullagh and
//!   Nelder 1989, section 4.5.1: of a multinomial with overdispersion the variances are a multiple of those without).
//! - **They are off.** Faults show who comes first, samples who lies near whom. What their parts differ from those of
//!   the kinds that are exact, which see the very same bytes used (`evidence`), by more than the chance of both
//!   explains, is their error, and stays however many there are.
//!
//! So n events are worth as many as would be off as much by chance alone. While there is little that is exact, nothing
//! is known to be off, and all count; of a kind that is off there comes a point at which more of it adds nothing.

use crate::aging::AGING;
use crate::evidence::{Evidence, KINDS, Kind};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is as good as no event.
const FORGOTTEN: f64 = 1e-3;
/// What a whole event may lack by rounding.
const ROUNDING: f64 = 1e-6;
/// Pairs of which anything is kept.
const MOST_PAIRS: usize = 1 << 20;

/// A pair of tasks, the smaller number first.
type Pair = (u32, u32);

/// What an event of each kind counts, from 0 to 1; bytes are those of events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights([f64; KINDS.len()]);

impl Default for Weights {
    fn default() -> Self {
        Self([1.0; KINDS.len()])
    }
}

impl Weights {
    /// What an event of a kind counts.
    pub fn of(&self, kind: Kind) -> f64 {
        self.0[kind as usize]
    }

    /// What something that was seen comes to.
    pub fn events(&self, seen: &Evidence) -> f64 {
        seen.kind.row().of_an_event.map_or(0.0, |of_one| self.of(seen.kind) * seen.count as f64 / of_one as f64)
    }

    /// All that was seen of each pair, in whole events.
    pub fn join(&self, seen: impl Iterator<Item = Evidence>) -> BTreeMap<Pair, u64> {
        let mut joined: BTreeMap<Pair, f64> = BTreeMap::new();
        seen.for_each(|seen| *joined.entry(seen.pair).or_default() += self.events(&seen));
        let whole = joined.into_iter().map(|(pair, events)| (pair, (events + 0.5) as u64));
        whole.filter(|&(_, events)| events > 0).collect()
    }
}

/// Makes one count of all.
#[derive(Debug, Default)]
pub struct Weigher {
    kinds: [Tally; KINDS.len()],
    weights: Weights,
    weighed_at: Duration,
    /// What is left over of events that did not make a whole one, so that none is lost.
    fractions: BTreeMap<Pair, f64>,
}

/// Events of a kind, faded.
#[derive(Debug, Default, Clone)]
struct Tally {
    pairs: BTreeMap<Pair, OfPair>,
    /// All events, and over the readings: the sums of the squares of the events of each pair, and of all of them.
    events: f64,
    squares: f64,
    squares_of_all: f64,
}

#[derive(Debug, Default, Clone, Copy)]
struct OfPair {
    events: f64,
    /// Over the readings: its events times all of the reading.
    times_all: f64,
}

impl Tally {
    fn fade(&mut self, left: f64) {
        self.pairs.retain(|_, pair| {
            (pair.events, pair.times_all) = (pair.events * left, pair.times_all * left);
            pair.events > FORGOTTEN
        });
        for sum in [&mut self.events, &mut self.squares, &mut self.squares_of_all] {
            *sum *= left;
        }
    }

    fn add(&mut self, reading: &BTreeMap<Pair, f64>) {
        let all: f64 = reading.values().sum();
        self.events += all;
        self.squares_of_all += all * all;
        for (&pair, &events) in reading {
            self.squares += events * events;
            let of_pair = self.pairs.entry(pair).or_default();
            of_pair.events += events;
            of_pair.times_all += events * all;
        }
    }

    /// The part of all events that a pair has.
    fn part(&self, pair: Pair) -> f64 {
        self.pairs.get(&pair).map_or(0.0, |of_pair| of_pair.events / self.events)
    }

    /// What independent events would be off by, as the sum of the variances of all parts times their number.
    fn variance(&self) -> f64 {
        1.0 - self.pairs.values().map(|of_pair| (of_pair.events / self.events).powi(2)).sum::<f64>()
    }

    /// How many times the variance of independent events is theirs, at least 1: over the readings, with all N events of
    /// each, of which a pair has n and its part s on the whole, the sum of (n - N s)^2 over the sum of N (1 - sum of
    /// s^2).
    fn dispersion(&self) -> f64 {
        let (mut crossed, mut squares) = (0.0, 0.0);
        for of_pair in self.pairs.values() {
            let part = of_pair.events / self.events;
            crossed += part * of_pair.times_all;
            squares += part * part;
        }
        let found = self.squares - 2.0 * crossed + self.squares_of_all * squares;
        let expected = self.events * (1.0 - squares);
        if expected > 0.0 { (found / expected).max(1.0) } else { 1.0 }
    }

    /// By chance, what the parts are off by: the sum of their variances.
    fn chance(&self) -> f64 {
        self.dispersion() * self.variance() / self.events
    }

    /// How many independent events are as good, where `exact` are off by chance alone.
    fn worth(&self, exact: Option<&Self>) -> f64 {
        let (variance, chance) = (self.variance(), self.chance());
        if variance <= 0.0 || chance <= 0.0 {
            return self.events;
        }
        let off = exact.map_or(0.0, |exact| {
            let pairs = self.pairs.keys().chain(exact.pairs.keys().filter(|pair| !self.pairs.contains_key(pair)));
            let differs: f64 = pairs.map(|&pair| (self.part(pair) - exact.part(pair)).powi(2)).sum();
            // What independent events of both would differ by anyway.
            (differs - chance - exact.chance()).max(0.0)
        });
        (variance / (chance + off)).min(self.events)
    }
}

impl Weigher {
    /// The events of each pair that has any, weighed. `now` is since any moment.
    pub fn weigh(&mut self, now: Duration, seen: &[Evidence]) -> Vec<(u32, u32, u64)> {
        if seen.is_empty() {
            return Vec::new();
        }
        self.learn(now, seen);
        if self.fractions.len() > MOST_PAIRS {
            self.fractions.clear();
        }
        let mut added: BTreeMap<Pair, f64> = BTreeMap::new();
        for seen in seen {
            *added.entry(seen.pair).or_default() += self.weights.events(seen);
        }
        let mut pairs = Vec::with_capacity(added.len());
        for (pair, events) in added.into_iter().filter(|added| added.1 > 0.0) {
            let fraction = self.fractions.entry(pair).or_default();
            *fraction += events;
            let whole = (*fraction + ROUNDING).floor();
            *fraction -= whole;
            if whole >= 1.0 {
                pairs.push((pair.0, pair.1, whole as u64));
            }
        }
        pairs
    }

    /// What events count now.
    pub fn weights(&self) -> Weights {
        self.weights
    }

    fn learn(&mut self, now: Duration, seen: &[Evidence]) {
        // As what is decided on fades: programs change.
        let left = AGING.powf(now.saturating_sub(self.weighed_at).as_secs_f64());
        self.weighed_at = now;
        let mut readings: [BTreeMap<Pair, f64>; KINDS.len()] = Default::default();
        for seen in seen {
            let events = seen.kind.row().of_an_event.map_or(0.0, |of_one| seen.count as f64 / of_one as f64);
            if events > 0.0 {
                *readings[seen.kind as usize].entry(seen.pair).or_default() += events;
            }
        }
        for (tally, reading) in self.kinds.iter_mut().zip(&readings) {
            tally.fade(left);
            if tally.pairs.len() < MOST_PAIRS {
                tally.add(reading);
            }
        }
        // Bytes are known of pairs of processes alone: of the others they say nothing.
        let exact = &self.kinds[Kind::Watched as usize];
        let exact = (exact.events > 0.0).then_some(exact);
        let mut weights = Weights::default();
        for (row, tally) in KINDS.iter().zip(&self.kinds) {
            if row.kind != Kind::Passed && tally.events > 0.0 {
                let exact = exact.filter(|_| !row.is_exact);
                weights.0[row.kind as usize] = (tally.worth(exact) / tally.events).clamp(0.0, 1.0);
            }
        }
        self.weights = weights;
    }

    /// Tasks communicate otherwise than before: what was known of the kinds is forgotten.
    pub fn forget(&mut self) {
        self.kinds = Default::default();
        self.weights = Weights::default();
    }

    /// Forgets the tasks of which it is not so: where tasks come and go they would be many soon.
    pub fn retain(&mut self, lives: impl Fn(u32) -> bool) {
        let both = |&(a, b): &Pair| lives(a) && lives(b);
        for tally in &mut self.kinds {
            // What is left stands for itself.
            let before: f64 = tally.events;
            tally.pairs.retain(|pair, _| both(pair));
            tally.events = tally.pairs.values().map(|of_pair| of_pair.events).sum();
            let left = if before > 0.0 { tally.events / before } else { 0.0 };
            tally.squares *= left;
            tally.squares_of_all *= left;
        }
        self.fractions.retain(|pair, _| both(pair));
    }
}

#[cfg(test)]
#[path = "weigh_tests.rs"]
mod tests;
