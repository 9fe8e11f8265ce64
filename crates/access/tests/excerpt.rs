//! Outlines and excerpts of made-up runs: what is told is what the tasks do, in an order that can be kept.

use cohabit_access::order::{Event, in_turns};
use cohabit_access::outline::Outline;
use cohabit_access::{
    AccessKind, Dependences, Excerpt, InMemory, Part, Reason, Recording, Step, Steps, StridedAccess, TaskInfo,
};
use cohabit_model::{Error, Result};

/// Numbers that look drawn (Marsaglia's xorshift64).
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A run of four tasks that wait for one another, and for nothing that never comes.
fn run(seed: u64) -> InMemory {
    let mut drawn = Drawn(seed * 0x9e37_79b9 + 1);
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); 4];
    let mut positions = [0; 4];
    for _ in 0..4000 {
        let task = drawn.below(4) as usize;
        let step = match drawn.below(10) {
            0 => {
                let on = (task + 1 + drawn.below(3) as usize) % 4;
                let position = positions[on];
                Step::Wait { task: on as u32, position, reason: Reason::Data, polled: None }
            }
            1 => {
                let instructions = drawn.below(3000) + 1;
                Step::Compute { instructions, latency: 3 * instructions + 1 }
            }
            2 => Step::Idle { time_ns: drawn.below(500) + 1 },
            3 => Step::Polled { accesses: drawn.below(20) + 1 },
            4 => Step::Code { page: drawn.below(4) },
            _ => {
                let count = drawn.below(3) + 1;
                let mut one = |_| StridedAccess {
                    stride: drawn.below(200) as i64 - 100,
                    instructions: drawn.below(40) as u32,
                    latency: 700,
                    ..StridedAccess::new(
                        [AccessKind::Read, AccessKind::Write][drawn.below(2) as usize],
                        (1 << 20) + drawn.below(1 << 16),
                        8,
                    )
                };
                Step::Loop { accesses: (0..count).map(&mut one).collect(), iterations: drawn.below(30) + 1 }
            }
        };
        positions[task] += step.access_count();
        steps[task].push(step);
    }
    InMemory::new(steps)
}

const CORE: Dependences = Dependences { window: 224, load: 1024 };

/// Tells its steps only to whoever asks how long instructions wait for one another.
struct Asked<'a>(&'a InMemory);

impl Recording for Asked<'_> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }

    fn steps(&self, _: u32) -> Result<Box<dyn Steps + '_>> {
        Err(Error::new("nobody asked"))
    }

    fn steps_with(&self, task: u32, core: Dependences) -> Result<Box<dyn Steps + '_>> {
        assert_eq!(core, CORE);
        self.0.steps(task)
    }
}

fn latency(step: &Step) -> u64 {
    match step {
        Step::Loop { accesses, iterations } => {
            iterations * accesses.iter().map(|access| u64::from(access.latency)).sum::<u64>()
        }
        Step::Compute { latency, .. } => *latency,
        _ => 0,
    }
}

fn all(recording: &dyn Recording, task: u32) -> Vec<Step> {
    rest(recording.steps(task).unwrap())
}

fn rest(mut steps: Box<dyn Steps + '_>) -> Vec<Step> {
    std::iter::from_fn(|| Steps::next_step(&mut *steps).unwrap()).collect()
}

/// The accesses that steps make, each with the position that it is made at.
fn made(steps: &[Step]) -> Vec<(u64, u64, AccessKind)> {
    let (mut position, mut made) = (0, Vec::new());
    for step in steps {
        if let Step::Loop { accesses, iterations } = step {
            for iteration in 0..*iterations {
                for access in accesses {
                    made.push((
                        position + made_since(step, iteration, accesses.len()),
                        access.address(iteration),
                        access.kind,
                    ));
                }
            }
            // Those of an iteration are told apart by their order alone.
        }
        position += step.access_count();
    }
    made
}

fn made_since(_: &Step, iteration: u64, accesses: usize) -> u64 {
    iteration * accesses as u64
}

fn sum(steps: &[Step], of: impl Fn(&Step) -> u64) -> u64 {
    steps.iter().map(of).sum()
}

fn idle(step: &Step) -> u64 {
    if let Step::Idle { time_ns } = step { *time_ns } else { 0 }
}

#[test]
fn all_parts_together_are_the_run() {
    for seed in 0..5 {
        let recording = run(seed);
        let outline = Outline::of(&recording, 16).unwrap();
        let count = outline.intervals.len();
        assert!((16..32).contains(&count), "{count}");
        let part = |begin: usize, end: usize| Part { begin, marks: (begin..=end).collect(), end };
        for parts in [vec![part(0, count)], vec![part(0, 3), part(3, 7), part(7, count)]] {
            let cuts = parts.iter().map(|part| part.marks.len()).sum::<usize>() as u64;
            let excerpt = Excerpt::new(&recording, &outline, parts.clone());
            let asked = Asked(&recording);
            let excerpt_of_asked = Excerpt::new(&asked, &outline, parts);
            for task in 0..4 {
                let (told, wanted) = (all(&excerpt, task), all(&recording, task));
                assert_eq!(made(&told).len(), made(&wanted).len());
                let accesses =
                    |steps| made(steps).into_iter().map(|(_, address, kind)| (address, kind)).collect::<Vec<_>>();
                assert_eq!(accesses(&told), accesses(&wanted), "seed {seed}, task {task}");
                let asked = excerpt_of_asked.steps_with(task, CORE).unwrap();
                assert_eq!(rest(asked), told);
                for of in [Step::access_count, Step::instruction_count, idle, latency] {
                    assert_eq!(sum(&told, of), sum(&wanted, of));
                }
                let numbers: Vec<u64> = told
                    .iter()
                    .filter_map(|step| if let Step::Cut { number } = step { Some(*number) } else { None })
                    .collect();
                assert_eq!(numbers, (0..cuts).collect::<Vec<_>>());
            }
        }
    }
}

/// What lies before a cut waits for nothing that lies behind it, so that any parts can be gone through.
#[test]
fn parts_can_be_gone_through_without_what_is_left_out() {
    for seed in 0..20 {
        let recording = run(seed);
        let outline = Outline::of(&recording, 16).unwrap();
        let count = outline.intervals.len();
        let mut drawn = Drawn(seed + 7);
        let mut parts: Vec<Part> = Vec::new();
        let mut at = drawn.below(3) as usize;
        while at < count {
            let end = (at + 1 + drawn.below(3) as usize).min(count);
            parts.push(Part { begin: at, marks: vec![at, end], end });
            at = end + drawn.below(4) as usize;
        }
        let excerpt = Excerpt::new(&recording, &outline, parts.clone());
        in_turns(&excerpt, 8, &mut |_| Ok(())).unwrap();
        for task in 0..4 {
            let told = all(&excerpt, task);
            let end = outline.place(parts.last().unwrap().end, task as usize).position;
            assert_eq!(sum(&told, Step::access_count), end, "positions are those of the run");
            // Between the two marks of a part, what the run does there and nothing else.
            let wanted = made(&all(&recording, task));
            for (number, part) in parts.iter().enumerate() {
                let cut = |number: usize| told.iter().position(|step| *step == Step::Cut { number: number as u64 });
                let within = &told[cut(2 * number).unwrap()..cut(2 * number + 1).unwrap()];
                let (from, to) = (outline.place(part.begin, task as usize), outline.place(part.end, task as usize));
                let run: Vec<_> = wanted.iter().filter(|one| (from.position..to.position).contains(&one.0)).collect();
                let addresses = |made: Vec<&(u64, u64, AccessKind)>| made.iter().map(|one| one.1).collect::<Vec<_>>();
                assert_eq!(addresses(made(within).iter().collect()), addresses(run), "seed {seed}, task {task}");
            }
        }
    }
}

/// Lines that are touched in what is left out, and by whom they are written.
#[test]
fn caches_have_what_is_left_out() {
    let recording = run(3);
    let outline = Outline::of(&recording, 16).unwrap();
    let count = outline.intervals.len();
    let (begin, end) = (count / 2, count / 2 + 1);
    let excerpt = Excerpt::new(&recording, &outline, vec![Part { begin, marks: vec![begin], end }]);
    for task in 0..4 {
        let before = outline.place(begin, task as usize).position;
        let lines = |steps: &[Step], writes: bool| {
            let of = |one: &&(u64, u64, AccessKind)| one.2 == AccessKind::Write || !writes;
            let both = |one: &(u64, u64, AccessKind)| [one.1 >> 6, (one.1 + 7) >> 6];
            made(steps).iter().filter(of).flat_map(both).collect::<std::collections::BTreeSet<_>>()
        };
        let (mut position, mut run) = (0, Vec::new());
        for step in all(&recording, task) {
            let left = before - position;
            position += step.access_count();
            if position > before {
                run.extend(if left > 0 { step.split(left).0 } else { Vec::new() });
                break;
            }
            run.push(step);
        }
        let told = all(&excerpt, task);
        let warm = &told[..told.iter().position(|step| matches!(step, Step::Cut { .. })).unwrap()];
        assert_eq!(lines(warm, false), lines(&run, false));
        // A line that straddling accesses write counts as written.
        assert_eq!(lines(warm, true), lines(&run, true), "task {task}");
    }
}

#[test]
fn first_touches_are_of_whoever_comes_first() {
    let write = |base| Step::access(StridedAccess::new(AccessKind::Write, base, 8));
    let wait = |task, position| Step::Wait { task, position, reason: Reason::Data, polled: None };
    let recording = InMemory::new(vec![
        vec![wait(1, 2), write(0x1000), write(0x5008)],
        vec![write(0x1ff8), write(0x2ffc), write(0x7000)],
    ]);
    let outline = Outline::of(&recording, 1).unwrap();
    let mut pages = outline.first_touch.clone();
    pages.sort_unstable();
    assert_eq!(pages, [(1, 1), (2, 1), (3, 1), (5, 0), (7, 1)]);
}

#[test]
fn a_circle_is_refused() {
    let write = || Step::access(StridedAccess::new(AccessKind::Write, 0, 8));
    let wait = |task| Step::Wait { task, position: 1, reason: Reason::Data, polled: None };
    let recording = InMemory::new(vec![vec![wait(1), write()], vec![wait(0), write()]]);
    let error = Outline::of(&recording, 4).unwrap_err().to_string();
    assert!(error.contains("never comes"), "{error}");
    let recording = InMemory::new(vec![vec![Step::Wait { task: 9, position: 1, reason: Reason::Data, polled: None }]]);
    assert!(Outline::of(&recording, 4).unwrap_err().to_string().contains("not in it"));
    let mut told = 0;
    in_turns(&run(1), 4, &mut |event| {
        told += u64::from(matches!(event, Event::Access(_)));
        Ok(())
    })
    .unwrap();
    assert!(told > 0);
}
