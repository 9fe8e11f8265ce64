//! The policy on simulated time: programs whose communication is made up, mapped by trying everything.

use super::aging::AgedMatrix;
use super::policy::{Decision, Policy, Request, Settings, Verdict, View, ViewTask, time_of_event};
use super::progress::{Progress, Sample};
use cohabit_model::cost::distance_cost;
use cohabit_model::{Result, Topology};
use std::time::Duration;

const RING: [(u32, u32); 4] = [(0, 2), (2, 1), (1, 3), (3, 0)];
const PAIRS: [(u32, u32); 2] = [(0, 2), (1, 3)];
const OTHER_PAIRS: [(u32, u32); 2] = [(0, 1), (2, 3)];
const ALL: [(u32, u32); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// The cheapest permutation; of those, the one that moves least.
fn cheapest(request: &Request) -> Result<Vec<usize>> {
    let mut best: Option<(u128, Vec<usize>)> = None;
    let tasks = request.weight.tasks();
    let pus = request.topology.pus.len();
    for code in 0..pus.pow(tasks as u32) {
        let placement: Vec<usize> = (0..tasks).map(|task| code / pus.pow(task as u32) % pus).collect();
        let twice = (0..tasks).any(|a| (0..a).any(|b| placement[a] == placement[b]));
        let forbidden = placement.iter().any(|pu| request.forbidden.contains(pu));
        let unfixed = request.fixed.iter().any(|&(task, pu)| placement[task] != pu);
        if twice || forbidden || unfixed {
            continue;
        }
        let moves =
            placement.iter().zip(request.present).filter(|(now, before)| before.is_some_and(|b| b != **now)).count();
        let cost =
            distance_cost(request.weight, request.topology, &placement) + u128::from(request.move_cost) * moves as u128;
        // A hundredth of a unit a move: of equal ones the nearest.
        let cost = cost * 100 + moves as u128;
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, placement));
        }
    }
    Ok(best.map(|(_, placement)| placement).unwrap_or_default())
}

/// A program of four tasks on two packages of two cores.
struct Simulation {
    topology: Topology,
    policy: Policy,
    matrix: AgedMatrix,
    progress: Progress,
    tasks: Vec<ViewTask>,
    now: Duration,
    done: f64,
    /// Progress per second, from where the tasks are.
    speed: fn(&[ViewTask]) -> f64,
    forbidden: Vec<usize>,
    map: fn(&Request) -> Result<Vec<usize>>,
    log: Vec<(u128, Verdict)>,
}

fn simulation(settings: Settings) -> Simulation {
    let topology = Topology::load("pack:2 core:2 pu:1").unwrap().with_level_costs(&[10, 1]).unwrap();
    let task = |task: u32| ViewTask { task, present: Some(task as usize), placed: false, fixed: false, load: 1 };
    Simulation {
        topology,
        policy: Policy::new(settings),
        matrix: AgedMatrix::default(),
        progress: Progress::default(),
        tasks: (0..4).map(task).collect(),
        now: Duration::ZERO,
        done: 0.0,
        speed: |_| 100.0,
        forbidden: Vec::new(),
        map: cheapest,
        log: Vec::new(),
    }
}

impl Simulation {
    /// One interval of a program in which each of `pairs` has `events` per second.
    fn interval(&mut self, pairs: &[(u32, u32)], events: u64) -> Decision {
        let elapsed = self.policy.interval.get();
        self.now += elapsed;
        self.matrix.fade(elapsed);
        let events = (events as f64 * elapsed.as_secs_f64()) as u64;
        pairs.iter().for_each(|&(a, b)| self.matrix.add(a, b, events));
        self.done += (self.speed)(&self.tasks) * elapsed.as_secs_f64();
        let has_changed = self.matrix.look_for_change();
        self.progress.add(Sample { time: self.now, instructions: Some(self.done), ..Sample::default() });
        let view = View {
            event: time_of_event(1.0, 0.0, Duration::ZERO),
            now: self.now,
            topology: &self.topology,
            tasks: &self.tasks,
            forbidden: &self.forbidden,
            matrix: &self.matrix,
            has_changed,
            progress: &self.progress,
        };
        let decision = self.policy.decide(&view, &self.map).unwrap();
        for &(task, pu) in &decision.moves {
            // The scheduler puts who is let go where it was.
            let at = pu.unwrap_or(task as usize);
            let task = &mut self.tasks[task as usize];
            (task.present, task.placed) = (Some(at), pu.is_some());
        }
        if !decision.moves.is_empty() {
            self.matrix.migrated();
        }
        self.log.push((self.now.as_millis(), decision.verdict));
        decision
    }

    fn run(&mut self, pairs: &[(u32, u32)], events: u64, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.interval(pairs, events);
        }
    }

    fn are_together(&self, pairs: &[(u32, u32)]) -> bool {
        let package = |task: u32| self.tasks[task as usize].present.map(|pu| pu / 2);
        pairs.iter().all(|&(a, b)| package(a) == package(b))
    }

    fn count(&self, is: fn(&Verdict) -> bool) -> usize {
        self.log.iter().filter(|(_, verdict)| is(verdict)).count()
    }
}

const fn settings(always: bool, dry_run: bool) -> Settings {
    Settings { always, dry_run }
}

#[test]
fn tasks_that_talk_are_brought_together_once() {
    for always in [false, true] {
        let mut program = simulation(settings(always, false));
        program.run(&PAIRS, 1000, 10);
        assert!(program.are_together(&PAIRS), "{:?}", program.log);
        assert_eq!(program.count(|verdict| matches!(verdict, Verdict::Moved(_))), 1);
        assert!(program.policy.interval.get() > Duration::from_millis(500));
    }
}

#[test]
fn a_change_is_followed_within_three_intervals() {
    let mut program = simulation(settings(true, false));
    program.run(&PAIRS, 1000, 60);
    assert_eq!(program.policy.interval.get(), Duration::from_secs(2));
    let mut intervals = 0;
    while !program.are_together(&OTHER_PAIRS) {
        program.interval(&OTHER_PAIRS, 1000);
        intervals += 1;
        assert!(intervals <= 3, "{:?}", &program.log[program.log.len() - 4..]);
    }
}

#[test]
fn nothing_moves_without_cause() {
    // Nobody talks; too little is seen; all talk alike; a ring has no better place than the one it is in.
    type Case = (&'static str, &'static [(u32, u32)], u64, fn(&Verdict) -> bool);
    let cases: [Case; 3] = [
        ("silence", &PAIRS, 0, |verdict| matches!(verdict, Verdict::TooFewEvents)),
        ("all to all", &ALL, 1000, |verdict| matches!(verdict, Verdict::NoStructure | Verdict::TooFewEvents)),
        ("together already", &OTHER_PAIRS, 1000, |verdict| matches!(verdict, Verdict::Holds | Verdict::TooFewEvents)),
    ];
    for (what, pairs, events, expected) in cases {
        let mut program = simulation(Settings::default());
        program.run(pairs, events, 10);
        assert!(program.log.iter().all(|(_, verdict)| expected(verdict)), "{what}: {:?}", program.log);
        assert!(program.tasks.iter().all(|task| !task.placed), "{what}");
    }
}

/// Together on one PU tasks are as near as can be, and each waits for the others.
fn all_on_one(request: &Request) -> Result<Vec<usize>> {
    Ok(vec![0; request.weight.tasks()])
}

#[test]
fn nobody_is_crowded_while_pus_are_idle() {
    // But for experiments.
    for (always, moves) in [(false, 0), (true, 1)] {
        let mut program = simulation(settings(always, false));
        program.map = all_on_one;
        program.run(&PAIRS, 1000, 10);
        assert_eq!(program.count(|verdict| matches!(verdict, Verdict::Moved(_))), moves, "{:?}", program.log);
    }
}

#[test]
fn where_all_pus_are_alike_nothing_moves() {
    let two = |request: &Request| -> Result<Vec<usize>> { Ok((0..request.weight.tasks()).map(|at| at % 2).collect()) };
    for (forbidden, topology) in [(vec![], "l3:1 core:2 pu:1"), (vec![2, 3], "pack:2 core:2 pu:1")] {
        let mut program = simulation(Settings::default());
        program.tasks.iter_mut().for_each(|task| task.present = Some(task.task as usize / 2));
        (program.map, program.forbidden, program.topology) = (two, forbidden, Topology::load(topology).unwrap());
        program.run(&PAIRS, 1000, 10);
        assert!(program.log.iter().all(|(_, verdict)| *verdict == Verdict::AllAlike), "{:?}", program.log);
        assert!(program.tasks.iter().all(|task| !task.placed));
    }
}

#[test]
fn a_gain_too_small_for_its_moves_is_left() {
    let mut program = simulation(Settings::default());
    // Seen for certain, after a while, and worth next to nothing.
    program.run(&PAIRS, 21, 5);
    assert!(program.tasks.iter().all(|task| !task.placed), "{:?}", program.log);
    assert!(
        program.count(|verdict| matches!(verdict, Verdict::NotWorth(..) | Verdict::Uncertain(_))) > 0,
        "{:?}",
        program.log
    );
}

#[test]
fn a_move_that_hurts_is_undone_and_not_made_again() {
    let mut program = simulation(Settings::default());
    program.run(&PAIRS, 0, 3);
    program.speed = |tasks| if tasks.iter().any(|task| task.placed) { 50.0 } else { 100.0 };
    program.run(&PAIRS, 1000, 20);
    assert_eq!(program.count(|verdict| matches!(verdict, Verdict::Moved(_))), 1, "{:?}", program.log);
    assert_eq!(program.count(|verdict| matches!(verdict, Verdict::Undone(_))), 1);
    assert!(program.count(|verdict| matches!(verdict, Verdict::TriedBefore(_))) > 0);
    assert!(program.tasks.iter().all(|task| !task.placed));
}

#[test]
fn a_move_that_helps_stays() {
    let mut program = simulation(Settings::default());
    program.run(&PAIRS, 0, 3);
    program.speed = |tasks| if tasks.iter().any(|task| task.placed) { 120.0 } else { 100.0 };
    program.run(&PAIRS, 1000, 20);
    assert_eq!(program.count(|verdict| matches!(verdict, Verdict::Proved(_))), 1, "{:?}", program.log);
    assert!(program.are_together(&PAIRS));
}

#[test]
fn a_dry_run_moves_nothing() {
    let mut program = simulation(settings(false, true));
    program.run(&PAIRS, 1000, 5);
    assert!(program.count(|verdict| matches!(verdict, Verdict::WouldMove(_))) > 0);
    assert!(program.tasks.iter().all(|task| !task.placed));
}

#[test]
fn tasks_that_the_program_pins_stay() {
    let mut program = simulation(settings(true, false));
    program.tasks[0].fixed = true;
    program.run(&RING, 1000, 5);
    program.run(&PAIRS, 1000, 20);
    assert_eq!((program.tasks[0].present, program.tasks[0].placed), (Some(0), false));
    assert!(program.are_together(&PAIRS), "{:?}", program.log);
}

#[test]
fn equivalent_mappings_are_not_changed_for_one_another() {
    // A ring can be cut in two ways, all-to-all in three, and it is chance that says which is better at the moment.
    for (what, pairs, most_moves) in [("ring", &RING[..], 1), ("all to all", &ALL[..], 0)] {
        for always in [false, true] {
            let mut program = simulation(settings(always, false));
            let mut random = 7u64;
            for step in 0..300 {
                for &(a, b) in pairs {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // As Poisson counts spread about 100.
                    program.matrix.add(a, b, 85 + (random >> 33) % 31);
                }
                program.interval(&[], 0);
                let moves = program.count(|verdict| matches!(verdict, Verdict::Moved(_)));
                assert!(moves <= most_moves, "{what}, always {always}, step {step}: {:?}", program.log.last());
            }
        }
    }
}

#[test]
fn an_event_of_samples_stands_for_more_where_they_are_far_apart() {
    let ms = Duration::from_millis;
    let us = Duration::from_micros;
    // Of faults 10 us, of samples a tenth of the time between two.
    assert_eq!((time_of_event(0.0, 0.0, ms(4)), time_of_event(10.0, 0.0, ms(4))), (us(10), us(10)));
    assert_eq!((time_of_event(10.0, 10.0, ms(4)), time_of_event(10.0, 5.0, ms(4))), (us(400), us(205)));
    // Faults may count for less than they are.
    assert_eq!(time_of_event(5.0, 10.0, ms(4)), us(400));
}
