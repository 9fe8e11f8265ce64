//! Which of the known phases of a program it is in, by what is seen of it while it runs (`cohabit map --per-phase`).
//!
//! A hidden Markov model (Rabiner, "A tutorial on hidden Markov models", Proc. IEEE 77, 1989, the forward recursion).
//! Each phase draws its events from the pairs of tasks by their shares in the profile, or, some of them, from all pairs
//! alike: barriers, locks, neighbours in memory that share nothing. How many these are differs from program to program,
//! and between what is seen at the very same bytes and the rest, so it is part of the state, and changes seldom. Beside
//! the phases there is one of which nothing is known, whose events are of all pairs alike. Phases change as often as
//! they did in the profile, to each other one alike, so that however long nothing is seen, none comes to be likelier
//! than another.
//!
//! Events of a slice are not independent: they come in bursts, and are put together of parts that are seen one by one.
//! So what they tell is divided by how many times as far as by chance they are from the state that fits them best
//! (quasi-likelihood: McCullagh and Nelder, "Generalized linear models", 1989, section 9.2), and no slice tells more than
//! [`MOST_A_SLICE`].

use cohabit_model::mapping::Signature;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Evidence of two classes: where the very same bytes were used, and the rest.
const CLASSES: usize = 2;
/// Of the events of each class in a phase, those that are of any pair: what is thought possible.
const NOISE: [&[f64]; CLASSES] = [&[0.05, 0.2, 0.4, 0.6], &[0.1, 0.3, 0.5, 0.7, 0.9]];
/// How likely that is to become another in a slice.
const NOISE_CHANGES: f64 = 0.01;
/// Of the changes, those to something that is none of the phases: the profile has no such.
const UNKNOWN: f64 = 0.1;
/// It is sure that the program is in a phase where that is likelier than this.
pub const SURE: f64 = 0.99;
/// What a slice says for one state against another, at most, as the logarithm of their odds: a slice alone is no proof.
const MOST_A_SLICE: f64 = 3.0;
/// How many times as far as by chance slices are from what fits them best: what is kept at each, the least and the most,
/// and the events that a slice has to have for it.
const KEPT: f64 = 0.8;
const BURSTS_KEPT: f64 = 0.95;
const SPREAD: (f64, f64) = (1.0, 20.0);
const ENOUGH: f64 = 4.0;
/// Slices of a phase at least, so that it is known again before much of it is over, and how long they are.
const SLICES_A_PHASE: u32 = 50;
const SLICE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));
/// Phases that are told apart by less than this, in each event (the logarithm of their odds, on the mean, where a quarter
/// is noise), are alike.
const ALIKE: f64 = 0.05;
const USUAL_NOISE: f64 = 0.25;
/// Where the profile has no clock.
const UNKNOWN_SECONDS: f64 = 10.0;

/// A phase that is shorter is mostly over before it is known that it has begun: where it was measured that took 0.4 to 1.3
/// seconds in the median (docs/time.md).
pub const SHORTEST: Duration = Duration::from_secs(1);

/// A pair of tasks, the smaller number first.
pub type Pair = (u32, u32);

/// How long a slice is for phases that last so long.
pub fn slice_for(mean: Duration) -> Duration {
    (mean / SLICES_A_PHASE).clamp(SLICE.0, SLICE.1)
}

/// What was seen in a slice: events of pairs, by class.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Where two used the very same bytes.
    pub exact: BTreeMap<Pair, f64>,
    /// Whatever else shows them near one another.
    pub near: BTreeMap<Pair, f64>,
}

/// How likely each phase is.
#[derive(Debug, Clone)]
pub struct Recogniser {
    /// Of each phase, the share of each pair.
    phases: Vec<BTreeMap<Pair, f64>>,
    /// How likely the phase is to be another one in the next slice.
    leaves: f64,
    /// The noise that is thought possible, of each class.
    noise: [Vec<f64>; CLASSES],
    /// Of each phase, and last of none of them, with each of both classes' noise: those of the last class lie next to each
    /// other.
    joint: Vec<Vec<f64>>,
    /// The sums of that.
    belief: Vec<f64>,
    spread: [Spread; CLASSES],
    most_a_slice: f64,
    /// The tasks that run, and the part of each phase's events that is between these.
    tasks: BTreeSet<u32>,
    between: Vec<f64>,
}

impl Recogniser {
    /// Phases by the shares of their pairs, which last so long on the mean; slices that last so long.
    pub fn new(phases: Vec<BTreeMap<Pair, f64>>, mean: Duration, slice: Duration) -> Self {
        Self::with_noise((phases, mean, slice), NOISE.map(<[f64]>::to_vec))
    }

    fn with_noise(
        (phases, mean, slice): (Vec<BTreeMap<Pair, f64>>, Duration, Duration),
        noise: [Vec<f64>; CLASSES],
    ) -> Self {
        let leaves = slice.as_secs_f64() / mean.as_secs_f64().max(1e-9);
        let (states, levels) = (phases.len() + 1, noise.iter().map(Vec::len).product::<usize>());
        Self {
            belief: vec![1.0 / states as f64; states],
            joint: vec![vec![1.0 / (states * levels) as f64; levels]; states],
            leaves: leaves.clamp(1e-6, 0.5),
            noise,
            spread: Default::default(),
            most_a_slice: MOST_A_SLICE,
            tasks: BTreeSet::new(),
            between: vec![0.0; phases.len()],
            phases,
        }
    }

    /// A slice in which these tasks ran, and this was seen of them.
    pub fn step(&mut self, tasks: &BTreeSet<u32>, seen: &Seen) {
        if *tasks != self.tasks {
            self.tasks.clone_from(tasks);
            let runs = |&(a, b): &Pair| tasks.contains(&a) && tasks.contains(&b);
            let between = |phase: &BTreeMap<Pair, f64>| -> f64 {
                phase.iter().filter(|(pair, _)| runs(pair)).map(|(_, share)| share).sum()
            };
            self.between = self.phases.iter().map(between).collect();
        }
        let of_those = |events: &BTreeMap<Pair, f64>| -> Vec<(Pair, f64)> {
            let counts =
                |&(&(a, b), &events): &(&Pair, &f64)| events > 0.0 && a < b && tasks.contains(&a) && tasks.contains(&b);
            events.iter().filter(counts).map(|(&pair, &events)| (pair, events)).collect()
        };
        let events = [of_those(&seen.exact), of_those(&seen.near)];
        let [exact, near] = [0, 1].map(|class| self.says(class, &events[class]));
        let both = |(exact, near): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> {
            exact.iter().flat_map(|exact| near.iter().map(move |near| exact + near)).collect()
        };
        let said: Vec<Vec<f64>> = exact.iter().zip(&near).map(both).collect();
        // Of each phase how likely the slice is in it, whatever its noise, and how likely each noise then is.
        let mut joint = self.passed();
        let mut tells = Vec::with_capacity(joint.len());
        for (joint, said) in joint.iter_mut().zip(&said) {
            let before: f64 = joint.iter().sum();
            let best = said.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            joint.iter_mut().zip(said).for_each(|(joint, said)| *joint *= (said - best).exp());
            let after: f64 = joint.iter().sum();
            joint.iter_mut().for_each(|joint| *joint /= after);
            tells.push((before, best + (after / before).ln()));
        }
        let most = tells.iter().map(|tells| tells.1).fold(f64::NEG_INFINITY, f64::max);
        let weigh = |&(before, tells): &(f64, f64)| before * (tells - most).max(-self.most_a_slice).exp();
        let weighed: Vec<f64> = tells.iter().map(weigh).collect();
        let sum: f64 = weighed.iter().sum();
        self.belief = weighed.into_iter().map(|weighed| weighed / sum).collect();
        for (joint, belief) in joint.iter_mut().zip(&self.belief) {
            joint.iter_mut().for_each(|joint| *joint *= belief);
        }
        self.joint = joint;
    }

    /// What events of a class say for each state, with each noise: the logarithm of how likely they are.
    fn says(&mut self, class: usize, events: &[(Pair, f64)]) -> Vec<Vec<f64>> {
        let shares: Vec<Option<Vec<f64>>> = (0..self.belief.len()).map(|state| self.shares(state, events)).collect();
        self.learn_spread(class, events, &shares);
        let spread = self.spread[class].get();
        let with = |shares: &Option<Vec<f64>>, noise: f64| -> f64 {
            let share = |at: usize| shares.as_ref().map(|all| all[at]);
            events.iter().enumerate().map(|(at, event)| event.1 * self.chance(share(at), noise).ln()).sum()
        };
        let of_state = |shares| self.noise[class].iter().map(|&noise| with(shares, noise) / spread).collect();
        shares.iter().map(of_state).collect()
    }

    /// How likely each is before anything is seen of the next slice: a phase was that one, or another one that was left
    /// for it, and so was its noise.
    fn passed(&self) -> Vec<Vec<f64>> {
        let levels = self.joint[0].len();
        let phase_passed = |to: usize| -> Vec<f64> {
            let mut sums = vec![0.0; levels];
            for (from, joint) in self.joint.iter().enumerate() {
                let becomes = self.becomes(from, to);
                sums.iter_mut().zip(joint).for_each(|(sum, joint)| *sum += becomes * joint);
            }
            sums
        };
        let noise_passed = |joint: Vec<f64>| -> Vec<f64> {
            let any = joint.iter().sum::<f64>() / levels as f64;
            joint.into_iter().map(|joint| joint * (1.0 - NOISE_CHANGES) + any * NOISE_CHANGES).collect()
        };
        (0..self.joint.len()).map(|to| noise_passed(phase_passed(to))).collect()
    }

    /// How likely one state is to be another one in the next slice.
    fn becomes(&self, from: usize, to: usize) -> f64 {
        let phases = self.phases.len();
        let others = (phases.max(2) - 1) as f64;
        let leaves = match (from == phases, to == phases) {
            (true, _) => self.leaves / phases.max(1) as f64,
            (false, true) => self.leaves * UNKNOWN,
            (false, false) => self.leaves * (1.0 - UNKNOWN) / others,
        };
        match from == to {
            false => leaves,
            true if from == phases => 1.0 - if phases > 0 { self.leaves } else { 0.0 },
            true => 1.0 - self.leaves * (UNKNOWN + if phases > 1 { 1.0 - UNKNOWN } else { 0.0 }),
        }
    }

    /// The phase that it is sure the program is in.
    pub fn sure(&self) -> Option<usize> {
        (0..self.phases.len()).find(|&phase| self.belief[phase] > SURE)
    }

    /// The likeliest phase; none where none of them is.
    pub fn likeliest(&self) -> Option<usize> {
        let best = (0..self.belief.len()).max_by(|&a, &b| self.belief[a].total_cmp(&self.belief[b]));
        best.filter(|&state| state < self.phases.len())
    }

    /// How likely each phase is.
    pub fn belief(&self) -> &[f64] {
        &self.belief[..self.phases.len()]
    }

    /// Two phases that are too much alike to be told apart, if there are any.
    pub fn alike(&self) -> Option<(usize, usize)> {
        let phases = self.phases.len();
        let all = (0..phases).flat_map(|a| (a + 1..phases).map(move |b| (a, b)));
        all.into_iter().find(|&(a, b)| self.tells(a, b).min(self.tells(b, a)) < ALIKE)
    }

    /// What an event of one phase says for it against the other, on the mean (Kullback and Leibler's divergence), as if
    /// noise were of the pairs that either has: what it is of depends on how many tasks run.
    fn tells(&self, phase: usize, other: usize) -> f64 {
        let pairs: BTreeSet<&Pair> = self.phases[phase].keys().chain(self.phases[other].keys()).collect();
        let chance = |phase: usize, pair: &Pair| {
            let all = self.phases[phase].values().sum::<f64>().max(f64::MIN_POSITIVE);
            let share = self.phases[phase].get(pair).copied().unwrap_or(0.0) / all;
            (1.0 - USUAL_NOISE) * share + USUAL_NOISE / pairs.len() as f64
        };
        let terms = pairs.iter().map(|pair| (chance(phase, pair), chance(other, pair)));
        terms.map(|(own, others)| own * (own / others).ln()).sum()
    }

    /// Of each event the share that its pair has in a state; none where nothing is known of that, as of a phase whose tasks
    /// do not run.
    fn shares(&self, state: usize, events: &[(Pair, f64)]) -> Option<Vec<f64>> {
        let (phase, between) = self.phases.get(state).zip(self.between.get(state).filter(|between| **between > 0.0))?;
        Some(events.iter().map(|(pair, _)| phase.get(pair).copied().unwrap_or(0.0) / between).collect())
    }

    /// How likely an event is of a pair with this share, or of any pair, where there is so much noise.
    fn chance(&self, share: Option<f64>, noise: f64) -> f64 {
        let tasks = self.tasks.len() as f64;
        let alike = 2.0 / (tasks * (tasks - 1.0)).max(2.0);
        share.map_or(alike, |share| (1.0 - noise) * share + noise * alike)
    }

    /// How likely each noise of a class is in a state.
    fn likely_noise(&self, class: usize, state: usize) -> Vec<f64> {
        let near = self.noise[CLASSES - 1].len();
        let mut sums = vec![0.0; self.noise[class].len()];
        for (at, joint) in self.joint[state].iter().enumerate() {
            sums[if class + 1 == CLASSES { at % near } else { at / near }] += joint;
        }
        sums
    }

    /// How far events are from what is expected: where there are many, by Pearson's chi-squared over its degrees of freedom
    /// in the state that fits them best, and by how many a pair has at once, which shows bursts where there are few: of
    /// independent ones the sum of the squares is, on the mean, the sum of n (1 + (N - 1) q), for n of N events where q is
    /// expected by what is believed.
    fn learn_spread(&mut self, class: usize, events: &[(Pair, f64)], shares: &[Option<Vec<f64>>]) {
        let tasks = self.tasks.len() as f64;
        let freedom = tasks * (tasks - 1.0) / 2.0 - 1.0;
        let total: f64 = events.iter().map(|event| event.1).sum();
        if freedom <= 0.0 || total <= 0.0 {
            return;
        }
        let (mut chi_squared, mut together) = (f64::INFINITY, 0.0);
        for (state, shares) in shares.iter().enumerate() {
            for (noise, likely) in self.noise[class].iter().zip(self.likely_noise(class, state)) {
                let mut squares = 0.0;
                for (at, &(_, events)) in events.iter().enumerate() {
                    let chance = self.chance(shares.as_ref().map(|all| all[at]), *noise);
                    squares += events * events / (total * chance);
                    together += likely * events * (1.0 + (total - 1.0).max(0.0) * chance);
                }
                chi_squared = chi_squared.min(squares - total);
            }
        }
        let spread = &mut self.spread[class];
        spread.squares = BURSTS_KEPT * spread.squares + events.iter().map(|event| event.1 * event.1).sum::<f64>();
        spread.together = BURSTS_KEPT * spread.together + together;
        if total >= ENOUGH {
            let now = chi_squared / freedom;
            // What is farther off is believed at once.
            spread.off = now.max(KEPT * spread.off + (1.0 - KEPT) * now);
        }
    }
}

/// How many times as far as by chance events are from what is expected.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    off: f64,
    squares: f64,
    together: f64,
}

impl Spread {
    fn get(&self) -> f64 {
        let bursts = if self.together > 0.0 { self.squares / self.together } else { 1.0 };
        self.off.max(bursts).clamp(SPREAD.0, SPREAD.1)
    }
}

/// What a look has come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Look {
    /// It is not sure which phase it is, or the one that it was.
    Nothing,
    /// Another phase is recognised; tasks are where it has them, or as well off.
    There(usize),
    /// Another phase is recognised, in which tasks are better off elsewhere: they are to move.
    Move(usize),
    /// Another phase is recognised; what is left of it does not pay for moving.
    NotWorth(usize),
}

/// Follows a program from phase to phase.
#[derive(Debug, Clone)]
pub struct Follower {
    recogniser: Recogniser,
    phases: Vec<Known>,
    slice: Duration,
    /// The mapping that tasks have: 0 the one for the whole run, 1 that of the first phase, and so on.
    present: usize,
    /// The phase that was recognised last.
    recognised: Option<usize>,
    /// The likeliest phase, and since when.
    likeliest: Option<usize>,
    since: Duration,
    /// When the phase that was recognised last began, by what is known.
    began: Duration,
}

/// What is known of a phase.
#[derive(Debug, Clone)]
struct Known {
    /// How long it lasts, by the profile.
    seconds: f64,
    takes_s: Vec<f64>,
    moves_s: Vec<f64>,
    /// How often it has come and gone in this run, and how long that took.
    visits: u32,
    visits_s: f64,
}

impl Known {
    /// How long it lasts on the mean: in this run, where it is known, for the profiler stretches time.
    fn mean_s(&self) -> f64 {
        if self.visits > 0 { self.visits_s / f64::from(self.visits) } else { self.seconds }
    }

    /// How much of a visit is left of one that has lasted so long: the rest of the mean, and of one that is longer than
    /// that, as much as it has lasted.
    fn left(&self, elapsed_s: f64) -> f64 {
        (self.mean_s() - elapsed_s).max(elapsed_s) / self.mean_s()
    }
}

impl Follower {
    /// The phases of a mapping.
    pub fn new<'a>(signatures: impl IntoIterator<Item = &'a Signature>) -> Self {
        let (mut phases, mut shares) = (Vec::new(), Vec::new());
        for signature in signatures {
            shares.push(signature.pairs.iter().map(|&(a, b, share)| ((a, b), share)).collect());
            phases.push(Known {
                seconds: signature.seconds.unwrap_or(UNKNOWN_SECONDS),
                takes_s: signature.takes_s.clone(),
                moves_s: signature.moves_s.clone(),
                visits: 0,
                visits_s: 0.0,
            });
        }
        let mean = phases.iter().map(|phase| phase.seconds).sum::<f64>() / phases.len().max(1) as f64;
        let mean = Duration::from_secs_f64(mean.clamp(1e-3, 1e6));
        let slice = slice_for(mean);
        Self {
            recogniser: Recogniser::new(shares, mean, slice),
            phases,
            slice,
            present: 0,
            recognised: None,
            likeliest: None,
            since: Duration::ZERO,
            began: Duration::ZERO,
        }
    }

    /// How long it is from one look to the next.
    pub fn slice(&self) -> Duration {
        self.slice
    }

    /// See [`Recogniser`].
    pub fn recogniser(&self) -> &Recogniser {
        &self.recogniser
    }

    /// What was seen since the last look of the tasks that run.
    pub fn look(&mut self, now: Duration, tasks: &BTreeSet<u32>, seen: &Seen) -> Look {
        self.recogniser.step(tasks, seen);
        let likeliest = self.recogniser.likeliest();
        if likeliest != self.likeliest {
            (self.likeliest, self.since) = (likeliest, now.saturating_sub(self.slice));
        }
        let Some(phase) = self.recogniser.sure() else { return Look::Nothing };
        let is_new = self.recognised != Some(phase);
        if is_new {
            if let Some(last) = self.recognised.replace(phase) {
                let lasted = self.since.saturating_sub(self.began).as_secs_f64();
                if lasted > 0.0 {
                    self.phases[last].visits += 1;
                    self.phases[last].visits_s += lasted;
                }
            }
            self.began = self.since;
        }
        let known = &self.phases[phase];
        let gain_s = known.takes_s[self.present] - known.takes_s[phase + 1];
        let price_s = known.moves_s[self.present];
        let elapsed_s = now.saturating_sub(self.began).as_secs_f64();
        // Nothing that is shorter is recognised before it is over.
        let is_told = known.mean_s().max(elapsed_s) >= SHORTEST.as_secs_f64();
        let pays = is_told && gain_s > 0.0 && gain_s * known.left(elapsed_s) > price_s;
        match (price_s <= 0.0, pays, is_new) {
            // Wherever it has them alike.
            (true, _, true) => Look::There(phase),
            (false, true, _) => {
                self.present = phase + 1;
                Look::Move(phase)
            }
            (false, false, true) if gain_s <= 0.0 => Look::There(phase),
            (false, false, true) => Look::NotWorth(phase),
            (_, _, false) => Look::Nothing,
        }
    }
}

#[cfg(test)]
#[path = "recognise_tests.rs"]
mod tests;
