//! The communication that counts now: events between pairs of tasks, fading. CDSM ages its matrix by 0.75 after a
//! migration; here it fades by as much each second too, or a pattern that changes without a migration would never fade.
//!
//! Fading alone takes seconds to forget. So what came since each of the last looks is compared with what was there
//! before it (`change`), and where tasks communicate otherwise than before, only what came since counts. For that,
//! events of the last looks are counted in full: faded, those of a few seconds would be too few to say anything where
//! few come, and faded counts spread less than chance has it.

use super::change::Change;
use cohabit_model::Matrix;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// What is left after a migration, and after each second.
pub const AGING: f64 = 0.75;
/// A pair with less than this is forgotten.
const NOTHING: f64 = 0.01;
/// Weights are integers to the mappers: this many to an event, so that faded ones keep their differences.
pub const UNITS_PER_EVENT: f64 = 256.0;
/// Fewer events than this a task say nothing.
pub const LEAST_EVENTS_PER_TASK: f64 = 4.0;

/// Looks of which the events are kept each, besides those of all the looks before them.
const LOOKS_KEPT: usize = 8;
/// Fewer events than this a task are left to the next look.
const LEAST_A_LOOK: f64 = 1.0;

/// Events of pairs, the smaller number first.
pub(super) type Pairs = BTreeMap<(u32, u32), f64>;

/// Events between tasks, faded.
#[derive(Debug, Clone, Default)]
pub struct AgedMatrix {
    all: Part,
    /// Those that tell a change: those that came between the looks that found any, the earlier ones together, which
    /// fade; the last ones each; and since.
    looks: VecDeque<Look>,
    recent: Part,
    change: Change,
}

/// What came between two looks.
#[derive(Debug, Clone, Default)]
struct Look {
    part: Part,
    /// What would be left of it, had it faded since.
    left: f64,
}

/// Events and the time in which they came, faded alike.
#[derive(Debug, Clone, Default)]
struct Part {
    pairs: Pairs,
    seconds: f64,
}

impl Part {
    fn scale(&mut self, by: f64) {
        self.pairs.values_mut().for_each(|events| *events *= by);
        self.pairs.retain(|_, events| *events >= NOTHING);
        self.seconds *= by;
    }

    fn pass(&mut self, elapsed: Duration) {
        self.scale(AGING.powf(elapsed.as_secs_f64()));
        // Not faded, as what came in it is not either.
        self.seconds += elapsed.as_secs_f64();
    }

    fn add(&mut self, more: &Self) {
        for (&pair, &events) in &more.pairs {
            *self.pairs.entry(pair).or_default() += events;
        }
        self.seconds += more.seconds;
    }

    fn total(&self) -> f64 {
        self.pairs.values().sum()
    }
}

impl AgedMatrix {
    /// Adds events between two tasks.
    pub fn add(&mut self, a: u32, b: u32, events: u64) {
        if a != b {
            for part in [&mut self.all, &mut self.recent] {
                *part.pairs.entry((a.min(b), a.max(b))).or_default() += events as f64;
            }
        }
    }

    /// Adds events that tell no change: such as show of all time what they show.
    pub fn add_untelling(&mut self, a: u32, b: u32, events: u64) {
        if a != b {
            *self.all.pairs.entry((a.min(b), a.max(b))).or_default() += events as f64;
        }
    }

    /// Adds events that tell a change, and nothing else: such as show less, and sooner.
    pub fn tell_change(&mut self, a: u32, b: u32, events: f64) {
        if a != b {
            *self.recent.pairs.entry((a.min(b), a.max(b))).or_default() += events;
        }
    }

    /// Time has passed.
    pub fn fade(&mut self, elapsed: Duration) {
        self.all.pass(elapsed);
        self.recent.seconds += elapsed.as_secs_f64();
        self.fade_looks(AGING.powf(elapsed.as_secs_f64()));
    }

    /// Tasks have moved.
    pub fn migrated(&mut self) {
        self.all.scale(AGING);
        self.fade_looks(AGING);
    }

    fn fade_looks(&mut self, by: f64) {
        self.looks.iter_mut().for_each(|look| look.left *= by);
        if let Some(first) = self.looks.front_mut() {
            first.part.scale(by);
        }
    }

    /// These tasks have ended.
    pub fn forget(&mut self, tasks: &BTreeSet<u32>) {
        if !tasks.is_empty() {
            let looks = self.looks.iter_mut().map(|look| &mut look.part);
            for part in [&mut self.all, &mut self.recent].into_iter().chain(looks) {
                part.pairs.retain(|(a, b), _| !tasks.contains(a) && !tasks.contains(b));
            }
        }
    }

    /// Looks whether tasks communicate otherwise than before, once enough has come since the last look to say so. If
    /// they do, what was before is forgotten. Tasks that are new are no change.
    pub fn look_for_change(&mut self) -> bool {
        let seen = &self.recent.pairs;
        if seen.is_empty() || self.recent.total() < LEAST_A_LOOK * tasks(seen).len() as f64 {
            return false;
        }
        let recent = std::mem::take(&mut self.recent);
        self.looks.push_back(Look { part: recent, left: 1.0 });
        let known = self.looks.front().map(|first| tasks(&first.part.pairs)).unwrap_or_default();
        let is_known = |&(&(a, b), _): &(&(u32, u32), &f64)| known.contains(&a) && known.contains(&b);
        let of_known =
            |part: &Part| part.pairs.iter().filter(is_known).map(|(&pair, &events)| (pair, events)).collect();
        let samples: Vec<Pairs> = self.looks.iter().map(|look| of_known(&look.part)).collect();
        let new = self.change.first_of_new(&samples);
        if let Some(first) = new {
            self.looks.drain(..first);
            self.all = Part::default();
            for look in &self.looks {
                let mut part = look.part.clone();
                part.scale(look.left);
                self.all.add(&part);
            }
        } else if self.looks.len() > LOOKS_KEPT {
            if let Some(first) = self.looks.pop_front() {
                self.looks[0].part.add(&first.part);
            }
        }
        new.is_some()
    }

    /// Faded events in all.
    pub fn total(&self) -> f64 {
        self.all.total()
    }

    /// The time in which they came, faded as they are: of a second that was a second ago, 0.75; 3.5 in all after a
    /// while.
    pub fn seconds(&self) -> f64 {
        self.all.seconds
    }

    /// Every pair that has any, the smaller number first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, f64)> + '_ {
        self.all.pairs.iter().map(|(&(a, b), &events)| (a, b, events))
    }

    /// The pairs of these tasks as a matrix in their order, in [`UNITS_PER_EVENT`]; each pair is in its upper half.
    pub fn matrix(&self, tasks: &[u32]) -> Matrix {
        let index: HashMap<u32, u32> = tasks.iter().enumerate().map(|(index, &task)| (task, index as u32)).collect();
        let entries = self.iter().filter_map(|(a, b, events)| {
            let (a, b) = (*index.get(&a)?, *index.get(&b)?);
            Some((a.min(b), a.max(b), (events * UNITS_PER_EVENT).round() as u64))
        });
        Matrix::from_triplets(tasks.len(), entries)
    }
}

fn tasks(pairs: &Pairs) -> BTreeSet<u32> {
    pairs.keys().flat_map(|&(a, b)| [a, b]).collect()
}

/// Whether there are so many events that they say something of so many tasks.
pub(super) fn are_enough(events: f64, tasks: usize) -> bool {
    events >= LEAST_EVENTS_PER_TASK * tasks as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight events a second, which fade as fast as they come before there are four a task before and after.
    #[test]
    fn a_change_is_told_where_few_events_come() {
        let mut matrix = AgedMatrix::default();
        let mut told = Vec::new();
        for look in 0..40 {
            let pairs = if look < 25 { [(0, 1), (2, 3)] } else { [(0, 2), (1, 3)] };
            matrix.fade(Duration::from_millis(500));
            pairs.iter().for_each(|&(a, b)| matrix.add(a, b, 2));
            if matrix.look_for_change() {
                told.push(look);
            }
        }
        // At the second look, of which two before are taken for the new pattern too.
        assert_eq!(told, [26]);
        // What came since has faded as all has.
        let left: f64 = (0..15).map(|ago| 2.0 * AGING.powf(0.5 * f64::from(ago))).sum();
        for (a, b, events) in matrix.iter() {
            let is_new = (a, b) == (0, 2) || (a, b) == (1, 3);
            assert!(if is_new { (events - left).abs() < 0.01 } else { events < 0.1 * left }, "{a} {b} {events} {left}");
        }
    }

    #[test]
    fn events_fade() {
        let mut matrix = AgedMatrix::default();
        matrix.add(2, 1, 100);
        matrix.add(1, 2, 60);
        matrix.add(3, 3, 5);
        matrix.fade(Duration::from_secs(1));
        assert_eq!(matrix.iter().collect::<Vec<_>>(), [(1, 2, 120.0)]);
        matrix.migrated();
        assert_eq!(matrix.matrix(&[2, 7, 1]).iter().collect::<Vec<_>>(), [(0, 2, 90 * 256)]);
        matrix.fade(Duration::from_secs(60));
        assert_eq!(matrix.total(), 0.0);
    }

    #[test]
    fn what_was_before_a_change_is_forgotten() {
        let mut matrix = AgedMatrix::default();
        let mut second = |pairs: [(u32, u32); 2], events| {
            matrix.fade(Duration::from_secs(1));
            pairs.iter().for_each(|&(a, b)| matrix.add(a, b, events));
            let has_changed = matrix.look_for_change();
            (has_changed, matrix.iter().map(|(a, b, _)| (a, b)).collect::<Vec<_>>())
        };
        let (near, far) = ([(0, 1), (2, 3)], [(0, 2), (1, 3)]);
        for _ in 0..5 {
            assert_eq!(second(near, 20), (false, near.to_vec()));
        }
        assert_eq!(second(far, 20), (true, far.to_vec()));
        assert_eq!(second(far, 20), (false, far.to_vec()));
        // Too few to say so at first: four for each task.
        assert!(!second(near, 7).0 && second(near, 5).0);
    }

    #[test]
    fn tasks_that_are_new_are_no_change() {
        let mut matrix = AgedMatrix::default();
        for second in 0..20 {
            matrix.fade(Duration::from_secs(1));
            // Two who stay, and two others every two seconds, of whom one talks to them.
            let new = 10 + second / 2 * 2;
            [(0, 1), (new, new + 1), (0, new)].iter().for_each(|&(a, b)| matrix.add(a, b, 20));
            assert!(!matrix.look_for_change(), "{second}");
            if second % 2 == 1 {
                matrix.forget(&BTreeSet::from([new, new + 1]));
            }
        }
    }

    #[test]
    fn two_half_intervals_are_as_one() {
        let mut at_once = AgedMatrix::default();
        at_once.add(0, 1, 1000);
        let mut in_steps = at_once.clone();
        at_once.fade(Duration::from_secs(2));
        (0..40).for_each(|_| in_steps.fade(Duration::from_millis(50)));
        assert!((at_once.total() - in_steps.total()).abs() < 1e-6);
        // Of a second that was a second ago three quarters count, and so on: the integral of 0.75^t.
        (0..400).for_each(|_| in_steps.fade(Duration::from_millis(50)));
        assert!((in_steps.seconds() - 1.0 / -AGING.ln()).abs() < 0.03, "{}", in_steps.seconds());
    }

    #[test]
    fn who_has_ended_is_forgotten() {
        let mut matrix = AgedMatrix::default();
        [(0, 1), (1, 2), (0, 2)].iter().for_each(|&(a, b)| matrix.add(a, b, 1));
        matrix.forget(&BTreeSet::from([1, 9]));
        assert_eq!(matrix.iter().map(|(a, b, _)| (a, b)).collect::<Vec<_>>(), [(0, 2)]);
    }
}
