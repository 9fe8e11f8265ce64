use super::*;
use proptest::prelude::*;

const TASKS: u32 = 8;

fn tasks(count: u32) -> BTreeSet<u32> {
    (0..count).collect()
}

/// Pairs of tasks, task t with `partner(t)`, alike.
fn pairs(count: u32, partner: impl Fn(u32) -> u32) -> BTreeMap<Pair, f64> {
    let pairs: BTreeSet<Pair> = (0..count).map(|task| (task.min(partner(task)), task.max(partner(task)))).collect();
    let share = 1.0 / pairs.len() as f64;
    pairs.into_iter().map(|pair| (pair, share)).collect()
}

fn near() -> BTreeMap<Pair, f64> {
    pairs(TASKS, |task| task ^ 1)
}

fn far() -> BTreeMap<Pair, f64> {
    pairs(TASKS, |task| task ^ 4)
}

/// So many events of a phase, a part of which is of any pair, in bursts of so many; a quarter of them of the very same
/// bytes.
fn drawn(random: &mut fastrand::Rng, phase: &BTreeMap<Pair, f64>, (count, noise, burst): (u32, f64, u32)) -> Seen {
    Seen {
        exact: drawn_of_class(random, phase, (count / 4, noise, burst)),
        near: drawn_of_class(random, phase, (count - count / 4, noise, burst)),
    }
}

fn drawn_of_class(
    random: &mut fastrand::Rng,
    phase: &BTreeMap<Pair, f64>,
    (count, noise, burst): (u32, f64, u32),
) -> BTreeMap<Pair, f64> {
    let mut events = BTreeMap::new();
    for _ in 0..count / burst {
        let any = || (0..TASKS).flat_map(|a| (a + 1..TASKS).map(move |b| (a, b)));
        let pair = if random.f64() < noise || phase.is_empty() {
            any().nth(random.usize(0..any().count())).unwrap()
        } else {
            let mut left = random.f64() * phase.values().sum::<f64>();
            let found = phase.iter().find(|(_, share)| {
                left -= **share;
                left <= 0.0
            });
            *found.or(phase.iter().next()).unwrap().0
        };
        *events.entry(pair).or_default() += f64::from(burst);
    }
    events
}

fn recogniser(phases: Vec<BTreeMap<Pair, f64>>) -> Recogniser {
    Recogniser::new(phases, Duration::from_secs(10), Duration::from_millis(200))
}

/// Slices until it is sure of a phase after so many of another, and whether it ever was sure of a wrong one.
fn delay(seed: u64, how: (u32, f64, u32)) -> (u32, bool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found = recogniser(vec![near(), far()]);
    let mut wrong = false;
    for _ in 0..60 {
        let events = drawn(&mut random, &near(), how);
        found.step(&tasks(TASKS), &events);
        wrong |= found.sure() == Some(1);
    }
    wrong |= found.sure() != Some(0);
    for slice in 1..=60 {
        let events = drawn(&mut random, &far(), how);
        found.step(&tasks(TASKS), &events);
        if found.sure() == Some(1) {
            return (slice, wrong);
        }
    }
    (u32::MAX, wrong)
}

#[test]
fn phases_are_recognised_soon_and_none_that_is_not_there() {
    // Events in a slice, the part that is of any pair, and how many come at once; slices until it is known.
    for (how, soon) in [((40, 0.1, 1), 5), ((40, 0.4, 1), 7), ((12, 0.2, 1), 8), ((40, 0.2, 5), 12)] {
        for seed in 0..40 {
            let (slices, wrong) = delay(seed, how);
            assert!(slices <= soon && !wrong, "{how:?}, seed {seed}: {slices} {wrong}");
        }
    }
}

/// However much a slice has, it takes several; and they are as many as is said of the odds.
#[test]
fn no_slice_alone_is_believed_and_the_delay_is_bounded() {
    let mut found = recogniser(vec![near(), far()]);
    let many = |phase: &BTreeMap<Pair, f64>| Seen {
        exact: phase.iter().map(|(&pair, share)| (pair, share * 1e6)).collect(),
        near: BTreeMap::new(),
    };
    (0..50).for_each(|_| found.step(&tasks(TASKS), &many(&near())));
    assert_eq!(found.sure(), Some(0));
    let slices = (1..50).find(|_| {
        found.step(&tasks(TASKS), &many(&far()));
        found.sure() == Some(1)
    });
    // From nine tenths of one in fifty, the part that changes to it, to ninety-nine in a hundred, by three a slice.
    let least = ((99.0_f64.ln() - (0.9_f64 / 50.0).ln()) / MOST_A_SLICE).ceil() as u32;
    assert!(slices.is_some_and(|slices| (least..=least + 1).contains(&slices)), "{slices:?} {least}");
}

/// What is of any pair, and nothing, change nothing; in bursts it looks like a phase once in some thousand slices, as a
/// bound of 0.99 has it.
#[test]
fn noise_and_silence_are_no_phase() {
    for (burst, most) in [(1, 0), (4, 2)] {
        let is_fooled = |seed: &u64| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let mut found = recogniser(vec![near(), far()]);
            (0..500).any(|_| {
                found.step(&tasks(TASKS), &drawn(&mut random, &BTreeMap::new(), (24, 1.0, burst)));
                found.sure().is_some()
            })
        };
        let fooled = (0..20).filter(is_fooled).count();
        println!("bursts of {burst}: {fooled} of 20");
        assert!(fooled <= most, "bursts of {burst}: {fooled} of 20 runs of 500 slices");
    }
    let mut found = recogniser(vec![near(), far()]);
    (0..10_000).for_each(|_| found.step(&tasks(TASKS), &Seen::default()));
    let [near, far] = [0, 1].map(|phase| found.belief()[phase]);
    assert!(found.sure().is_none() && (near - far).abs() < 1e-9, "{near} {far}");
}

#[test]
fn a_pattern_of_neither_phase_is_neither() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut found = recogniser(vec![near(), far()]);
    let other = pairs(TASKS, |task| task ^ 2);
    for _ in 0..300 {
        found.step(&tasks(TASKS), &drawn(&mut random, &other, (40, 0.2, 1)));
        assert!(found.sure().is_none() && found.likeliest().is_none(), "{:?}", found.belief());
    }
}

#[test]
fn phases_that_are_alike_are_never_told_apart() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut found = recogniser(vec![near(), near(), far()]);
    assert_eq!((found.alike(), recogniser(vec![near(), far()]).alike()), (Some((0, 1)), None));
    for _ in 0..500 {
        found.step(&tasks(TASKS), &drawn(&mut random, &near(), (40, 0.1, 1)));
        assert!(!matches!(found.sure(), Some(0 | 1)), "{:?}", found.belief());
    }
}

/// Where some tasks do not run, what the others do tells.
#[test]
fn tasks_that_do_not_run_tell_nothing() {
    let mut found = recogniser(vec![near(), far()]);
    let exact = BTreeMap::from([((0, 1), 9.0), ((2, 3), 8.0), ((5, 6), 40.0)]);
    let events = Seen { exact, near: BTreeMap::new() };
    (0..20).for_each(|_| found.step(&tasks(4), &events));
    assert_eq!(found.sure(), Some(0));
    // Of two there is one pair, which says nothing.
    let mut found = recogniser(vec![near(), far()]);
    (0..50).for_each(|_| found.step(&tasks(2), &events));
    assert_eq!(found.sure(), None);
}

/// The same by the definition: the sum over all ways through the states, each as likely as its steps and its events.
fn by_all_ways(states: usize, levels: usize, leaves: f64, said: &[Vec<f64>]) -> Vec<f64> {
    let all = states * levels;
    let mut sums = vec![0.0; states];
    // Two phases, and what is neither: one change in ten is to that.
    let turns = |from: usize, to: usize| match (from, to) {
        _ if from == to => 1.0 - leaves,
        (2, _) => leaves / 2.0,
        (_, 2) => 0.1 * leaves,
        _ => 0.9 * leaves,
    };
    for way in 0..all.pow(said.len() as u32 + 1) {
        let state = |slice: usize| {
            let both = way / all.pow(slice as u32) % all;
            (both / levels, both % levels)
        };
        let mut likely = 1.0 / all as f64;
        for (slice, said) in said.iter().enumerate() {
            let ((phase, noise), (to, becomes)) = (state(slice), state(slice + 1));
            likely *= turns(phase, to);
            // Drawn anew from all, itself too.
            likely *= NOISE_CHANGES / levels as f64 + if noise == becomes { 1.0 - NOISE_CHANGES } else { 0.0 };
            likely *= said[to * levels + becomes].exp();
        }
        sums[state(said.len()).0] += likely;
    }
    let all: f64 = sums.iter().sum();
    sums.into_iter().map(|sum| sum / all).collect()
}

fn signature(pairs: BTreeMap<Pair, f64>, takes_s: [f64; 3], moves_s: [f64; 3]) -> Signature {
    Signature {
        seconds: Some(10.0),
        pairs: pairs.into_iter().map(|((a, b), share)| (a, b, share)).collect(),
        takes_s: takes_s.into(),
        moves_s: moves_s.into(),
        unknown: Default::default(),
    }
}

/// Looks of a run of phases, each of so many slices: what came of them but nothing.
fn followed(signatures: &[Signature], run: &[(Option<bool>, u32)]) -> Vec<Look> {
    let mut follower = Follower::new(signatures);
    let mut random = fastrand::Rng::with_seed(4);
    let (mut looks, mut now) = (Vec::new(), Duration::ZERO);
    for &(is_far, slices) in run {
        let phase = is_far.map_or(BTreeMap::new(), |is_far| if is_far { far() } else { near() });
        for _ in 0..slices {
            now += follower.slice();
            let look = follower.look(now, &tasks(TASKS), &drawn(&mut random, &phase, (40, 0.2, 1)));
            looks.extend((look != Look::Nothing).then_some(look));
        }
    }
    looks
}

#[test]
fn tasks_move_where_the_rest_of_the_phase_pays_for_it() {
    let (near, far) = (near(), far());
    // The one mapping is that of the near pairs.
    let worth = [
        signature(near.clone(), [0.1, 0.1, 1.0], [0.0, 0.0, 0.002]),
        signature(far.clone(), [1.0, 1.0, 0.1], [0.002, 0.002, 0.0]),
    ];
    let run = [(Some(false), 40), (Some(true), 40), (Some(false), 40), (None, 200)];
    assert_eq!(followed(&worth, &run), [Look::There(0), Look::Move(1), Look::Move(0)]);
    // It gains less than it costs; and nothing.
    let little = [
        signature(near.clone(), [0.1, 0.1, 0.1005], [0.0, 0.0, 0.002]),
        signature(far.clone(), [0.1005, 0.1005, 0.1], [0.002, 0.002, 0.0]),
    ];
    assert_eq!(followed(&little, &run), [Look::There(0), Look::NotWorth(1), Look::There(0)]);
    let same = [signature(near, [0.1; 3], [0.0; 3]), signature(far, [0.1; 3], [0.0; 3])];
    assert_eq!(followed(&same, &run), [Look::There(0), Look::There(1), Look::There(0)]);
    // Nothing to see: nothing is done, and nothing recognised.
    assert_eq!(followed(&worth, &[(None, 300)]), []);
}

/// One that goes on pays in the end.
#[test]
fn a_phase_that_lasts_longer_than_any_before_is_worth_more() {
    let (near, far) = (near(), far());
    let signatures = [
        signature(near, [0.1, 0.1, 0.103], [0.0, 0.0, 0.004]),
        signature(far, [0.103, 0.103, 0.1], [0.004, 0.004, 0.0]),
    ];
    let run = [(Some(false), 50), (Some(true), 40)];
    assert_eq!(followed(&signatures, &run), [Look::There(0), Look::NotWorth(1)]);
    let run = [(Some(false), 50), (Some(true), 200)];
    assert_eq!(followed(&signatures, &run), [Look::There(0), Look::NotWorth(1), Look::Move(1)]);
}

#[test]
fn slices_are_short_for_short_phases() {
    let slices = [0.1, 10.0, 600.0].map(|seconds| slice_for(Duration::from_secs_f64(seconds)).as_millis());
    assert_eq!(slices, [100, 200, 500]);
}

proptest! {
    /// The forward recursion is the sum over all ways through the states.
    #[test]
    fn the_recursion_is_the_sum_over_all_ways(
        slices in prop::collection::vec(prop::collection::vec((0..4_u32, 0..4_u32, 1..6_u32, any::<bool>()), 0..6), 1..4),
        seconds in 1..40_u32,
    ) {
        let phases = vec![pairs(4, |task| task ^ 1), pairs(4, |task| task ^ 2)];
        let mean = Duration::from_secs(u64::from(seconds));
        let noise = [vec![0.05, 0.4], vec![0.5, 0.1]];
        let mut found = Recogniser::with_noise((phases.clone(), mean, Duration::from_millis(200)), noise);
        // What a slice may say is no part of the model.
        found.most_a_slice = f64::INFINITY;
        let leaves = 0.2 / f64::from(seconds);
        let mut said = Vec::new();
        for slice in &slices {
            let mut seen = Seen::default();
            for &(a, b, count, exact) in slice.iter().filter(|slice| slice.0 != slice.1) {
                let events = if exact { &mut seen.exact } else { &mut seen.near };
                *events.entry((a.min(b), a.max(b))).or_default() += f64::from(count);
            }
            found.step(&tasks(4), &seen);
            // Shares of two pairs each, and noise over six.
            let of = |state: usize, noise: &[f64; 2]| -> f64 {
                let chance = |noise: f64, pair: &Pair| match phases.get(state) {
                    Some(phase) => (1.0 - noise) * phase.get(pair).copied().unwrap_or(0.0) + noise / 6.0,
                    None => 1.0 / 6.0,
                };
                let of_class = |(class, events): (usize, &BTreeMap<Pair, f64>)| -> f64 {
                    let all = events.iter().map(|(pair, count)| count * chance(noise[class], pair).ln());
                    all.sum::<f64>() / found.spread[class].get()
                };
                [&seen.exact, &seen.near].into_iter().enumerate().map(of_class).sum()
            };
            let both = [[0.05, 0.5], [0.05, 0.1], [0.4, 0.5], [0.4, 0.1]];
            said.push((0..3).flat_map(|state| both.map(|noise| of(state, &noise))).collect());
        }
        let expected = by_all_ways(3, 4, leaves, &said);
        for (found, expected) in found.belief.iter().zip(&expected) {
            prop_assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    /// Which phase has which number makes no difference, and neither have the tasks.
    #[test]
    fn beliefs_do_not_depend_on_the_order(seed in 0..1_000_u64, burst in 1..6_u32) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut found, mut turned) = (recogniser(vec![near(), far()]), recogniser(vec![far(), near()]));
        for slice in 0..20 {
            let phase = if slice % 7 < 4 { near() } else { far() };
            let events = drawn(&mut random, &phase, (20, 0.3, burst));
            found.step(&tasks(TASKS), &events);
            turned.step(&tasks(TASKS), &events);
            prop_assert!((found.belief()[0] - turned.belief()[1]).abs() < 1e-9);
            prop_assert!(found.belief().iter().all(|belief| (0.0..=1.0).contains(belief)));
        }
    }
}
