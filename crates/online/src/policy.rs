//! Whether to move the tasks, and when to look again (CDSM, section 4, and "do no harm"). Pure: time, the matrix, the
//! tasks and the mapper come from outside, so that tests run it on simulated time.
//!
//! A mapping is applied where what was seen has structure, the gain is certain and worth the moves, and it was not
//! tried before and found to hurt. After a move the program's progress is watched, and a move that hurts is undone.

use super::aging::{AgedMatrix, LEAST_EVENTS_PER_TASK, UNITS_PER_EVENT};
use super::gain::{Gain, structure};
use super::interval::{Interval, SHORTEST};
use super::progress::{Effect, Progress};
use cohabit_model::cost::MOVE;
use cohabit_model::{Matrix, Result, Topology};
use std::collections::BTreeMap;
use std::time::Duration;

/// A gain or a structure is believed from this many standard deviations on.
const DEVIATIONS: f64 = 3.0;
/// Of the present distance cost, the least that has to be saved.
const LEAST_SHARE: f64 = 0.05;
/// What transfers of cache lines over the machine's longest distance take that one event of page faults or watchpoints
/// stands for: 100, of 100 ns. A page faults once a scan and is used all the time in between; this is on the low side,
/// so that gains are not overrated.
const EVENT: Duration = Duration::from_micros(10);
/// Of the time that a sample stands for, how much the program is taken to wait for such transfers where it uses memory
/// with others: on the low side, too.
const WAITS: f64 = 0.1;

/// What an event stands for, of `events` of which `sampled` come of samples, with `apart` of running time from one
/// sample to the next.
pub fn time_of_event(events: f64, sampled: f64, apart: Duration) -> Duration {
    let sampled = if events > 0.0 { (sampled / events).clamp(0.0, 1.0) } else { 0.0 };
    EVENT.mul_f64(1.0 - sampled) + apart.mul_f64(WAITS * sampled)
}
/// A mapping is expected to hold as long as the program has run, and at most this long.
const LONGEST_HORIZON: Duration = Duration::from_secs(60);
/// How long progress is watched after a move, and how much of it is left out while caches fill.
const WATCH: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_millis(100);
/// Of the communication, in a hundred, how much a mapping has at the same distances as one that was tried to be as good
/// as that.
const SAME: u128 = 95;
/// Placements that hurt which are remembered.
const REMEMBERED: usize = 16;

/// What the user asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// Apply every mapping that saves anything for certain, and do not undo it.
    pub always: bool,
    /// Apply none.
    pub dry_run: bool,
}

/// A task that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewTask {
    /// Its number.
    pub task: u32,
    /// Where it is: an index into the topology's PUs.
    pub present: Option<usize>,
    /// Whether it was put there by cohabit.
    pub placed: bool,
    /// The program holds it there, and it is left alone.
    pub fixed: bool,
    /// Its work lately, in any unit.
    pub load: u64,
}

/// All that is known of the moment.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Since following began.
    pub now: Duration,
    /// The machine.
    pub topology: &'a Topology,
    /// The tasks that can be mapped.
    pub tasks: &'a [ViewTask],
    /// PUs (indices) that are not to be used.
    pub forbidden: &'a [usize],
    /// The events, faded.
    pub matrix: &'a AgedMatrix,
    /// Whether tasks communicate otherwise than when last decided ([`AgedMatrix::look_for_change`]).
    pub has_changed: bool,
    /// What transfers over the longest distance take that an event stands for ([`time_of_event`]).
    pub event: Duration,
    /// The program's progress so far.
    pub progress: &'a Progress,
}

/// What the mapper is asked.
#[derive(Debug)]
pub struct Request<'a> {
    /// Communication in the order of the tasks.
    pub weight: &'a Matrix,
    /// Their work.
    pub load: &'a [u64],
    /// The machine.
    pub topology: &'a Topology,
    /// Where they are.
    pub present: &'a [Option<usize>],
    /// Tasks that stay where they are: (task, PU), as indices.
    pub fixed: &'a [(usize, usize)],
    /// PUs (indices) that are not to be used.
    pub forbidden: &'a [usize],
    /// What a move costs, in units of the distance cost.
    pub move_cost: u64,
}

/// Maps tasks: a PU (index) for each.
pub type MapTasks<'a> = dyn Fn(&Request) -> Result<Vec<usize>> + 'a;

/// What was decided, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// All PUs that may be used are equally far from one another: wherever tasks are is as good.
    AllAlike,
    /// Fewer events than would say anything.
    TooFewEvents,
    /// Every task communicates with every other alike, as far as can be told.
    NoStructure,
    /// The tasks are where the mapping has them, or somewhere as good.
    Holds,
    /// The mapping would have tasks share a PU while another is idle.
    Crowds,
    /// There may be a gain, and it may be chance.
    Uncertain(Gain),
    /// There is a gain, and it is not worth the moves: so much of the tasks' time is saved a second.
    NotWorth(Gain, Duration),
    /// The mapping was tried, and hurt.
    TriedBefore(Gain),
    /// There is a gain, and how the program does without it is not known yet.
    TooSoon(Gain),
    /// A move is being watched.
    Watching,
    /// Tasks move.
    Moved(Gain),
    /// Tasks would move, if they were to be.
    WouldMove(Gain),
    /// A move did no harm, and stays.
    Proved(Effect),
    /// A move hurt, and is undone.
    Undone(Effect),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Why.
    pub verdict: Verdict,
    /// Tasks to place on a PU (index), or to let go.
    pub moves: Vec<(u32, Option<usize>)>,
    /// The mapping that was computed, if one was: a PU (index) a task of the view.
    pub mapping: Vec<(u32, usize)>,
}

impl Decision {
    fn nothing(verdict: Verdict) -> Self {
        Self { verdict, moves: Vec::new(), mapping: Vec::new() }
    }
}

/// A move whose effect is not known yet.
#[derive(Debug, Clone)]
struct Trial {
    moved: Duration,
    /// Where the tasks that moved were.
    before: Vec<(u32, Option<usize>)>,
    placement: BTreeMap<u32, usize>,
}

/// The state of deciding.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    settings: Settings,
    /// Until the next decision.
    pub interval: Interval,
    trial: Option<Trial>,
    hurtful: Vec<BTreeMap<u32, usize>>,
}

impl Policy {
    /// Nothing decided yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Decides, and sets the interval until the next decision.
    ///
    /// # Errors
    /// Those of the mapper.
    pub fn decide(&mut self, view: &View, map: &MapTasks) -> Result<Decision> {
        if let Some(decision) = self.judge_trial(view) {
            return Ok(decision);
        }
        let decision = self.consider(view, map)?;
        match decision.verdict {
            Verdict::Moved(_) => self.interval.changed(),
            // The mapping may be another one as soon as more is seen.
            _ if view.has_changed => self.interval.changed(),
            _ => self.interval.held(),
        }
        Ok(decision)
    }

    /// Says what came of the last move, once that can be told.
    fn judge_trial(&mut self, view: &View) -> Option<Decision> {
        let trial = self.trial.as_ref()?;
        if view.now < trial.moved + WATCH {
            return Some(Decision::nothing(Verdict::Watching));
        }
        let trial = self.trial.take()?;
        let effect = view.progress.effect(trial.moved, SETTLE);
        if !effect.hurts() {
            return Some(Decision::nothing(Verdict::Proved(effect)));
        }
        self.hurtful.truncate(REMEMBERED - 1);
        self.hurtful.insert(0, trial.placement);
        self.interval.changed();
        let alive = |task: u32| view.tasks.iter().any(|other| other.task == task);
        let moves = trial.before.into_iter().filter(|&(task, _)| alive(task)).collect();
        Some(Decision { verdict: Verdict::Undone(effect), moves, mapping: Vec::new() })
    }

    fn consider(&mut self, view: &View, map: &MapTasks) -> Result<Decision> {
        if !self.settings.always && are_alike(view.topology, view.forbidden) {
            return Ok(Decision::nothing(Verdict::AllAlike));
        }
        let numbers: Vec<u32> = view.tasks.iter().map(|task| task.task).collect();
        let weight = view.matrix.matrix(&numbers);
        let talking = talking(&weight);
        let events: f64 = weight.total() as f64 / UNITS_PER_EVENT;
        if talking < 2 || events < LEAST_EVENTS_PER_TASK * talking as f64 {
            return Ok(Decision::nothing(Verdict::TooFewEvents));
        }
        if structure(&weight) < DEVIATIONS {
            return Ok(Decision::nothing(Verdict::NoStructure));
        }
        let present: Vec<Option<usize>> = view.tasks.iter().map(|task| task.present).collect();
        let load: Vec<u64> = view.tasks.iter().map(|task| task.load).collect();
        let fixed = view.tasks.iter().enumerate().filter(|(_, task)| task.fixed);
        let fixed: Vec<(usize, usize)> = fixed.filter_map(|(index, task)| Some((index, task.present?))).collect();
        let placement = map(&Request {
            weight: &weight,
            load: &load,
            topology: view.topology,
            present: &present,
            fixed: &fixed,
            forbidden: view.forbidden,
            // One event over the whole machine: of mappings that are as good, the one that moves least.
            move_cost: view.topology.farthest().max(1) * UNITS_PER_EVENT as u64,
        })?;
        if !self.settings.always && crowds(view, &placement) {
            return Ok(Decision::nothing(Verdict::Crowds));
        }
        let gain = Gain::of(&weight, view.topology, &present, &placement);
        let mapping: Vec<(u32, usize)> = numbers.iter().copied().zip(placement.iter().copied()).collect();
        let moves = moves(view.tasks, &placement);
        let verdict = self.verdict(view, gain, &moves, &mapping, &weight);
        let moves = match verdict {
            Verdict::Moved(_) => moves,
            _ => Vec::new(),
        };
        if let Verdict::Moved(_) = verdict {
            self.moved(view, &moves, &mapping);
        }
        Ok(Decision { verdict, moves, mapping })
    }

    fn verdict(
        &self,
        view: &View,
        gain: Gain,
        moves: &[(u32, Option<usize>)],
        mapping: &[(u32, usize)],
        weight: &Matrix,
    ) -> Verdict {
        if moves.is_empty() || gain.saved() <= 0.0 {
            return Verdict::Holds;
        }
        // Even for experiments: what two equivalent mappings differ by is chance, and tasks would go to and fro by it.
        if !gain.is_certain(DEVIATIONS) {
            return Verdict::Uncertain(gain);
        }
        if !self.settings.always {
            if gain.share() < LEAST_SHARE || !is_worth(gain, moves.len(), view) {
                return Verdict::NotWorth(
                    gain,
                    Duration::try_from_secs_f64(saved_a_second(gain, view)).unwrap_or_default(),
                );
            }
            if self.hurtful.iter().any(|tried| is_as_tried(view.topology, tried, mapping, weight)) {
                return Verdict::TriedBefore(gain);
            }
            if !view.progress.is_known() && !self.settings.dry_run {
                return Verdict::TooSoon(gain);
            }
        }
        if self.settings.dry_run { Verdict::WouldMove(gain) } else { Verdict::Moved(gain) }
    }

    fn moved(&mut self, view: &View, moves: &[(u32, Option<usize>)], mapping: &[(u32, usize)]) {
        if self.settings.always {
            return;
        }
        let before = |task: u32| {
            let found = view.tasks.iter().find(|other| other.task == task).filter(|other| other.placed);
            (task, found.and_then(|task| task.present))
        };
        let before = moves.iter().map(|&(task, _)| before(task)).collect();
        self.trial = Some(Trial { moved: view.now, before, placement: mapping.iter().copied().collect() });
    }
}

/// Whether every two of the PUs that may be used are equally far from one another. What a mapping then saves is only
/// that tasks take turns on a PU, and that is worse than it looks.
pub fn are_alike(topology: &Topology, forbidden: &[usize]) -> bool {
    let usable: Vec<usize> = topology.allowed().into_iter().filter(|pu| !forbidden.contains(pu)).collect();
    let mut distances: Box<dyn Iterator<Item = u64>> = match topology.matrix {
        Some(_) => Box::new(usable.iter().flat_map(|&a| {
            let others = usable.iter().filter(move |&&b| a != b);
            others.map(move |&b| topology.distance(a, b))
        })),
        // PUs are in the tree's order: every node at which two of them part is one at which neighbours do.
        None => Box::new(usable.windows(2).map(|pair| topology.distance(pair[0], pair[1]))),
    };
    let first = distances.next();
    distances.all(|distance| Some(distance) == first)
}

/// Whether a mapping puts a task beside another on a PU while one that may be used has none: then both wait for that
/// PU, whatever the distances save. Those that the program holds where they are count, and nobody can help where they
/// are.
fn crowds(view: &View, placement: &[usize]) -> bool {
    let mut tasks = vec![0; view.topology.pus.len()];
    placement.iter().for_each(|&pu| tasks[pu] += 1);
    let is_idle = |pu: &usize| tasks[*pu] == 0 && !view.forbidden.contains(pu);
    let crowded = |(task, pu): (&ViewTask, &usize)| !task.fixed && tasks[*pu] > 1;
    view.tasks.iter().zip(placement).any(crowded) && view.topology.allowed().iter().any(is_idle)
}

/// Tasks that communicate.
fn talking(weight: &Matrix) -> usize {
    let mut talks = vec![false; weight.tasks()];
    weight.iter().for_each(|(a, b, _)| (talks[a as usize], talks[b as usize]) = (true, true));
    talks.into_iter().filter(|&talks| talks).count()
}

/// The tasks to move: those that are elsewhere, or where they are by chance.
fn moves(tasks: &[ViewTask], placement: &[usize]) -> Vec<(u32, Option<usize>)> {
    let moves = tasks.iter().zip(placement);
    let moves = moves.filter(|(task, pu)| !task.fixed && (!task.placed || task.present != Some(**pu)));
    moves.map(|(task, &pu)| (task.task, Some(pu))).collect()
}

/// Whether the time saved while the mapping holds pays for the moves.
fn is_worth(gain: Gain, moves: usize, view: &View) -> bool {
    let horizon = view.now.min(LONGEST_HORIZON).as_secs_f64();
    saved_a_second(gain, view) * horizon > moves as f64 * MOVE.as_secs_f64()
}

/// Seconds of the tasks' time that a mapping saves in each.
fn saved_a_second(gain: Gain, view: &View) -> f64 {
    let events = gain.saved() / view.topology.farthest().max(1) as f64;
    events / view.matrix.seconds().max(SHORTEST.as_secs_f64()) * view.event.as_secs_f64()
}

/// Whether a mapping keeps those who talk as far apart as one that was tried did: nearly all of the communication
/// counts, for tasks that hardly talk are now here and now there.
fn is_as_tried(topology: &Topology, tried: &BTreeMap<u32, usize>, mapping: &[(u32, usize)], weight: &Matrix) -> bool {
    let (mut same, mut all) = (0, 0);
    for (a, b, units) in weight.iter() {
        let ((a, now_a), (b, now_b)) = (mapping[a as usize], mapping[b as usize]);
        all += u128::from(units);
        if let (Some(&then_a), Some(&then_b)) = (tried.get(&a), tried.get(&b)) {
            if topology.distance(now_a, now_b) == topology.distance(then_a, then_b) {
                same += u128::from(units);
            }
        }
    }
    100 * same >= SAME * all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pus_are_alike_where_one_distance_is_between_them() {
        for (machine, forbidden, alike) in [
            ("pack:1 core:2 pu:1", &[][..], true),
            ("l3:1 core:4 pu:1", &[], true),
            ("pu:1", &[], true),
            ("pack:2 core:2 pu:1", &[], false),
            ("pack:2 core:2 pu:1", &[2, 3], true),
            ("pack:2 core:2 pu:1", &[1, 3], true),
            ("pack:2 core:2 pu:1", &[3], false),
        ] {
            assert_eq!(are_alike(&Topology::load(machine).unwrap(), forbidden), alike, "{machine} {forbidden:?}");
        }
    }

    #[test]
    fn who_hardly_talks_does_not_make_a_mapping_another_one() {
        let topology = Topology::load("pack:2 core:3 pu:1").unwrap().with_level_costs(&[10, 1]).unwrap();
        let weight = |light: u64| Matrix::from_triplets(5, [(0, 1, 500), (2, 3, 500), (1, 4, light)]);
        let tried: BTreeMap<u32, usize> = [(10, 0), (11, 1), (12, 3), (13, 4), (14, 2)].into();
        let mapping = |pus: [usize; 5]| -> Vec<(u32, usize)> { (10..).zip(pus).collect() };
        for (what, mapping, light, is_same) in [
            ("the same", mapping([0, 1, 3, 4, 2]), 30, true),
            ("packages exchanged", mapping([3, 4, 0, 1, 5]), 30, true),
            ("one who hardly talks elsewhere", mapping([0, 1, 3, 4, 5]), 30, true),
            ("one who talks elsewhere", mapping([0, 1, 3, 4, 5]), 300, false),
            ("a pair apart", mapping([0, 3, 1, 4, 2]), 30, false),
        ] {
            assert_eq!(is_as_tried(&topology, &tried, &mapping, &weight(light)), is_same, "{what}");
        }
        // One that has come since, and talks much.
        let fewer: BTreeMap<u32, usize> = tried.into_iter().filter(|&(task, _)| task != 10).collect();
        assert!(!is_as_tried(&topology, &fewer, &mapping([0, 1, 3, 4, 2]), &weight(30)));
    }
}
