//! Of samples that are made up.

use super::*;

/// `mov [rbx], rax` and `mov rax, [rbx]`.
const STORE: Code = Code { start: 0x40_1000, bytes: &[0x48, 0x89, 0x03] };
const LOAD: Code = Code { start: 0x40_1000, bytes: &[0x48, 0x8b, 0x03] };

const NO_VALUE: fn(u64) -> Option<u64> = |_| None;

fn at(address: u64) -> Registers {
    let mut general = [0; 16];
    general[3] = address;
    Registers { instruction: 0x40_1000, general }
}

/// Pairs with events, and how many.
fn taken(sampler: &mut Sampler) -> Vec<(u32, u32, u64)> {
    let taken = sampler.take(Duration::ZERO).into_iter().filter(|seen| seen.kind == Kind::Sampled);
    taken.map(|seen| (seen.pair.0, seen.pair.1, seen.count)).collect()
}

#[test]
fn samples_of_the_same_place_are_events() {
    let mut sampler = Sampler::default();
    let mut sample = |time, task, address| {
        sampler.add(
            (Duration::from_secs(time), Taken::Regularly),
            task,
            &at(address),
            &STORE,
            |address| Some((1, address)),
            NO_VALUE,
        );
        taken(&mut sampler)
    };
    assert_eq!(sample(1, 5, 0x1000), []);
    assert_eq!(sample(2, 3, 0x1000), [(3, 5, 1)]);
    assert_eq!(sample(3, 7, 0), []);
    assert_eq!(sampler.sums, Sums { samples: 3, telling: 2, meeting: 1, accesses: 2, events: 1, ..Sums::default() });
    // Those after switches are counted by themselves.
    let after = (Duration::from_secs(3), Taken::AfterSwitch);
    assert!(sampler.add(after, 3, &at(0x8000), &STORE, |address| Some((1, address)), NO_VALUE));
    assert!(!sampler.add(after, 3, &at(0), &STORE, |address| Some((1, address)), NO_VALUE));
    assert_eq!((sampler.sums.samples, sampler.sums.after_switches, sampler.sums.telling_after_switches), (3, 2, 1));
    // Tasks that have ended, and what is forgotten, are nobody's partners.
    sampler.end(&BTreeSet::from([3]));
    sampler.add(
        (Duration::from_secs(4), Taken::Regularly),
        6,
        &at(0x1000),
        &STORE,
        |address| Some((1, address)),
        NO_VALUE,
    );
    assert_eq!(taken(&mut sampler), [(5, 6, 1)]);
    sampler.forget();
    sampler.add(
        (Duration::from_secs(5), Taken::Regularly),
        7,
        &at(0x1000),
        &STORE,
        |address| Some((1, address)),
        NO_VALUE,
    );
    assert_eq!(taken(&mut sampler), []);
}

#[test]
fn readers_alone_count_less() {
    let events = |code: Code| {
        let mut sampler = Sampler::default();
        for second in 0..100 {
            sampler.add(
                (Duration::from_secs(second), Taken::Regularly),
                second as u32 % 2,
                &at(0x1000),
                &code,
                |address| Some((1, address)),
                NO_VALUE,
            );
        }
        taken(&mut sampler)[0].2
    };
    assert_eq!(events(STORE) / 3, events(LOAD));
}

#[test]
fn a_sample_is_one_event_however_many_accesses_are_in_one_place() {
    // mov [rbx], rax; add rbx, 8; jmp back: eight accesses of one block; and then of two blocks, a page apart.
    let round = [0x48, 0x89, 0x03, 0x48, 0x83, 0xc3, 8, 0xeb, 0xf7];
    let code = Code { start: 0x40_1000, bytes: &round };
    let mut sampler = Sampler::default();
    for task in 0..2 {
        sampler.add(
            (Duration::from_secs(task.into()), Taken::Regularly),
            task,
            &at(0x1000),
            &code,
            |address| Some((1, address)),
            NO_VALUE,
        );
    }
    assert_eq!((taken(&mut sampler), sampler.sums.accesses), (vec![(0, 1, 1)], 16));
    for task in 2..4 {
        let memory = |address: u64| Some((2 + (address >> 5 & 1), address));
        sampler.add((Duration::from_secs(task.into()), Taken::Regularly), task, &at(0x1000), &code, memory, NO_VALUE);
    }
    assert_eq!(taken(&mut sampler), [(2, 3, 1)]);
}

#[test]
fn samples_are_recent_until_there_are_enough_of_them() {
    // How many samples there are, when another task comes to the place of the first, and whether they meet.
    for (samples, milliseconds, meet) in
        [(300, 400, true), (300, 600, false), (20, 600, true), (20, 1900, true), (20, 2100, false)]
    {
        let mut sampler = Sampler::default();
        let mut sample = |time: u64, task, place: u64| {
            let now = Duration::from_millis(10_000 + time);
            sampler.add(
                (now, Taken::Regularly),
                task,
                &at(0x1000 + (place << 22)),
                &STORE,
                |address| Some((1, address)),
                NO_VALUE,
            );
        };
        (0..samples).for_each(|at| sample(at, 3, at));
        sample(milliseconds, 5, 0);
        let found = sampler.take(Duration::ZERO);
        let met: u64 = found.iter().filter(|seen| seen.kind == Kind::Met).map(|seen| seen.count).sum();
        assert_eq!(met > 0, meet, "{samples} samples, {milliseconds} ms");
    }
}

#[test]
fn accesses_of_a_line_are_one() {
    let accesses = [
        ((1, 0x1008), false, false),
        ((1, 0x103f), true, true),
        ((2, 0x1008), false, false),
        ((1, 0x1040), true, false),
    ];
    let addresses: Vec<u64> = (0..accesses.len() as u64).collect();
    let found = lines(&accesses, &addresses).into_iter().map(|line| (line.place, line.writes, line.updates));
    let lines_found = [((1, 0x1008), true, true), ((2, 0x1008), false, false), ((1, 0x1040), true, false)];
    assert_eq!(found.collect::<Vec<_>>(), lines_found);
    assert_eq!(lines(&accesses, &addresses)[0].address, 0);
}

#[test]
fn a_bound_that_a_loop_reads_is_not_waited_for() {
    // cmp qword [rbx], rdx; inc rdx; jmp back: until it has come to the bound.
    let counts = Code { start: 0x40_1000, bytes: &[0x48, 0x39, 0x13, 0x48, 0xff, 0xc2, 0xeb, 0xf8] };
    // cmp qword [rbx], rcx; inc rdx; jmp back: until somebody else has written there.
    let waits = Code { start: 0x40_1000, bytes: &[0x48, 0x39, 0x0b, 0x48, 0xff, 0xc2, 0xeb, 0xf8] };
    let waiting = |code: &Code, value: fn(u64) -> u64, is_shared: bool| {
        let mut sampler = Sampler::default();
        for second in 0..100 {
            let place = |address| is_shared.then_some((1, address));
            let now = (Duration::from_secs(second), Taken::Regularly);
            assert!(!sampler.add(now, 3, &at(0x1000), code, place, |_| Some(value(second))));
        }
        (sampler.sums.samples, sampler.sums.waiting)
    };
    assert_eq!(waiting(&waits, |_| 600_000_000, true), (100, 0));
    assert_eq!(waiting(&waits, |second| second, true), (100, 100));
    assert_eq!(waiting(&waits, |second| second, false), (100, 0));
    // The next bound is another one, and nobody was waited for.
    assert_eq!(waiting(&counts, |second| second, true), (100, 0));
    // addsd xmm0, xmm1 besides: a bound that all read is nothing that they share, and nobody waits.
    let code =
        Code { start: 0x40_1000, bytes: &[0xf2, 0x0f, 0x58, 0xc1, 0x48, 0x39, 0x13, 0x48, 0xff, 0xc2, 0xeb, 0xf4] };
    let mut sampler = Sampler::default();
    for second in 0..100 {
        let now = (Duration::from_secs(second), Taken::Regularly);
        let task = second as u32 % 4;
        assert!(!sampler.add(now, task, &at(0x1000), &code, |address| Some((1, address)), |_| Some(second)));
    }
    assert_eq!((taken(&mut sampler), sampler.sums), (vec![], Sums { samples: 100, ..Sums::default() }));
}

#[test]
fn memory_of_one_task_says_nothing() {
    let mut sampler = Sampler::default();
    for task in 0..4 {
        assert!(!sampler.add((Duration::ZERO, Taken::Regularly), task, &at(0x1000), &STORE, |_| None, NO_VALUE));
    }
    assert_eq!((taken(&mut sampler), sampler.sums), (Vec::new(), Sums { samples: 4, ..Sums::default() }));
}

#[test]
fn nothing_is_shared_between_memories() {
    let mut sampler = Sampler::default();
    for task in 0..8 {
        sampler.add(
            (Duration::ZERO, Taken::Regularly),
            task,
            &at(0x1000),
            &STORE,
            |address| Some((task.into(), address)),
            NO_VALUE,
        );
    }
    assert_eq!(taken(&mut sampler), []);
}

#[test]
fn where_tasks_were_seen_is_told_once_and_who_else_is_near() {
    let mut sampler = Sampler::default();
    let mut sample = |second, task, code| {
        let at = (Duration::from_secs(second), Taken::Regularly);
        sampler.add(at, task, &super::tests::at(0x1000), &code, |address| Some((1, address + 7)), NO_VALUE);
        sampler.take_sightings()
    };
    let seen = |task, writes, near| vec![Sighting { task, address: 0x1000, writes, updates: false, near }];
    assert_eq!(sample(1, 3, STORE), seen(3, true, (0, 0)));
    assert_eq!(sample(2, 5, LOAD), seen(5, false, (1, 1)));
    assert_eq!(sample(3, 5, STORE), seen(5, true, (2, 1)));
    // lock xadd [rbx], rax
    let updates = Code { start: 0x40_1000, bytes: &[0xf0, 0x48, 0x0f, 0xc1, 0x03] };
    assert!(sample(4, 3, updates)[0].updates);
    for second in 0..3 * SIGHTINGS as u64 {
        let at = (Duration::from_secs(10 + second), Taken::Regularly);
        sampler.add(at, 3, &super::tests::at(second << 22), &STORE, |address| Some((1, address)), NO_VALUE);
    }
    assert_eq!(sampler.take_sightings().len(), SIGHTINGS);
}

/// PERF_MEM_S: a load, a store, one that locks, a load that hit a line which another core had written to, what is not
/// told, and a fetch of code.
const LOADED: DataSource = DataSource(0x2 | 0x2 << 19);
const STORED: DataSource = DataSource(0x4);
const LOCKED: DataSource = DataSource(0x2 | 0x2 << 24);
const FROM_ANOTHER: DataSource = DataSource(0x2 | 0x10 << 19);
const UNKNOWN: DataSource = DataSource(0x1 | 0x1 << 19);
const FETCHED: DataSource = DataSource(0x10);

#[test]
fn accesses_of_a_pmu_are_samples_as_others_are() {
    let mut sampler = Sampler::default();
    let mut access = |second, task, address, source| {
        let place = |address| (address != 0x9000).then_some((1, address));
        let tells = sampler.add_access(Duration::from_secs(second), task, address, source, place);
        (tells, taken(&mut sampler))
    };
    assert_eq!(access(1, 5, 0x1000, STORED), (true, vec![]));
    assert_eq!(access(2, 3, 0x1000, LOADED), (true, vec![(3, 5, 1)]));
    // What is no access of a program to data, or to memory that nobody else can come to, tells nothing.
    for (address, source) in [(0x1000, FETCHED), (0, UNKNOWN), (0xffff_8000_0000_1000, LOADED), (0x9000, LOADED)] {
        assert_eq!(access(3, 7, address, source), (false, vec![]));
    }
    let sums = Sums { by_pmu: 6, telling_by_pmu: 2, accesses: 2, events: 1, ..Sums::default() };
    assert_eq!(sampler.sums, sums);
    let sighting = |task, writes, near| Sighting { task, address: 0x1000, writes, updates: false, near };
    assert_eq!(sampler.take_sightings(), [sighting(5, true, (0, 0)), sighting(3, false, (1, 1))]);
    // They and a timer's lie near one another; what locks, writes.
    let at = |second| (Duration::from_secs(second), Taken::Regularly);
    sampler.add(at(4), 8, &super::tests::at(0x8000_0000), &LOAD, |address| Some((1, address)), NO_VALUE);
    sampler.add_access(Duration::from_secs(5), 9, 0x8000_0000, LOCKED, |address| Some((1, address)));
    assert_eq!(taken(&mut sampler), [(8, 9, 1)]);
    assert!(sampler.take_sightings()[1].updates);
    assert_eq!((sampler.sums.samples, sampler.sums.telling, sampler.sums.by_pmu), (1, 1, 7));
}

#[test]
fn what_came_from_another_core_is_an_event_of_another() {
    const SAMPLES: u64 = 40;
    let events = |source| {
        let mut sampler = Sampler::default();
        let mut access = |second, task, address, source| {
            sampler.add_access(Duration::from_secs(second), task, address, source, |address| Some((1, address)));
        };
        access(0, 5, 0x1000, STORED);
        // Far more of its own lie around it.
        (1..SAMPLES).for_each(|second| access(second, 3, 0x1400 + second % 4 * 64, LOADED));
        (0..SAMPLES).for_each(|second| access(SAMPLES + second, 3, 0x1400 + second % 4 * 64, source));
        let found = taken(&mut sampler);
        assert!(found.iter().all(|&(a, b, _)| (a, b) == (3, 5)));
        (found.iter().map(|pair| pair.2).sum::<u64>(), sampler.sums.from_another)
    };
    let (of_loads, none) = events(LOADED);
    let (all, from_another) = events(FROM_ANOTHER);
    // The first few of its own find the other among few neighbours in either case.
    assert!(of_loads < SAMPLES / 8 && (SAMPLES..=SAMPLES + of_loads).contains(&all), "{of_loads} {all}");
    assert_eq!((none, from_another), (0, SAMPLES));
    // Of whom else it is cannot be said where nobody else was seen.
    let mut alone = Sampler::default();
    alone.add_access(Duration::ZERO, 3, 0x1000, FROM_ANOTHER, |address| Some((1, address)));
    alone.add_access(Duration::from_secs(1), 3, 0x1000, FROM_ANOTHER, |address| Some((1, address)));
    assert_eq!((taken(&mut alone), alone.take_sightings()[1].near), (vec![], (0, 0)));
}
