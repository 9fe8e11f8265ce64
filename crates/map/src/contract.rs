//! The contract that every row of [`MAPPERS`] keeps, judged by slow routines of its own.

use crate::load::Balance;
use crate::mappers::best::Best;
use crate::mappers::best::context::{Context, PARTS, PRESETS};
use crate::testing::{periods_of, problem, slow_cost, tree};
use crate::usable::Usable;
use crate::{MAPPERS, Mapper, Options, Problem};
use cohabit_model::topology::Level;
use cohabit_model::{Matrix, Topology, cost};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Maps the problem with every mapper and judges what comes out; what happens when is made up.
fn check_all(problem: &Problem) {
    let periods = periods_of(problem.weight);
    let problem = &Problem { periods: &periods, ..*problem };
    for mapper in MAPPERS.iter().filter(|mapper| mapper.name() != "exact" || problem.weight.tasks() <= 8) {
        match mapper.map(problem) {
            Ok(placement) => judge(*mapper, problem, &placement),
            Err(error) => assert!(error.remedy.is_some(), "{}: {}", mapper.name(), error.cause),
        }
    }
}

fn judge(mapper: &dyn Mapper, problem: &Problem, placement: &[usize]) {
    judge_placement(mapper.name(), problem, placement);
    assert_eq!(mapper.map(problem).unwrap(), placement, "{}: same seed, same mapping", mapper.name());
}

/// Judges a placement, whoever made it.
pub(crate) fn judge_placement(name: &str, problem: &Problem, placement: &[usize]) {
    let (topology, options) = (problem.topology, problem.options);
    assert_eq!(placement.len(), problem.weight.tasks(), "{name}: a PU for every task");
    for &pu in placement {
        assert!(topology.pus[pu].allowed && !options.forbidden.contains(&pu), "{name}: PU {pu} may not be used");
    }
    for &(task, pu) in &options.pins {
        assert_eq!(placement[task], pu, "{name}: task {task} is pinned");
    }
    let expected = slow_cost(problem.weight, topology, placement);
    assert_eq!(cost::distance_cost(problem.weight, topology, placement), expected, "{name}: J");
    assert_eq!(capacity_fault(problem, placement), None, "{name}");
}

/// All placements that keep the contract, by trying them all.
pub(crate) fn legal_placements<'a>(problem: &'a Problem<'a>) -> impl Iterator<Item = Vec<usize>> + 'a {
    let (tasks, pus) = (problem.weight.tasks(), problem.topology.pus.len());
    let placements = (0..pus.pow(tasks as u32))
        .map(move |number| (0..tasks).map(|task| number / pus.pow(task as u32) % pus).collect::<Vec<_>>());
    let usable = Usable::new(problem).unwrap();
    placements.filter(move |placement| {
        placement
            .iter()
            .enumerate()
            .all(|(task, &pu)| usable.pus.contains(&pu) && usable.pin[task].is_none_or(|pin| pin == pu))
            && capacity_fault(problem, placement).is_none()
    })
}

/// The least J of them.
fn brute_force(problem: &Problem) -> u128 {
    let costs = legal_placements(problem).map(|placement| slow_cost(problem.weight, problem.topology, &placement));
    costs.min().expect("one placement is legal")
}

/// What breaks the rules of capacity: a PU has more than its share, or a core is shared while one is free.
fn capacity_fault(problem: &Problem, placement: &[usize]) -> Option<String> {
    let usable = Usable::new(problem).unwrap();
    if let Some(balance) = Balance::new(problem).unwrap() {
        let work = balance.work(placement);
        let over = work.iter().any(|&work| work > balance.limit * (1.0 + 1e-9));
        if over || placement.len() >= 2 * usable.pus.len() {
            return over.then(|| format!("{work:?}"));
        }
    }
    let mut count = BTreeMap::new();
    placement.iter().for_each(|&pu| *count.entry(pu).or_insert(0_usize) += 1);
    let share = placement.len().div_ceil(usable.pus.len().max(1));
    let alike = problem.topology.pus.iter().all(|pu| pu.capacity == 1.0);
    let over = count.iter().find(|&(&pu, &count)| alike && count > share.max(usable.pinned[pu]));
    if let Some((pu, count)) = over {
        return Some(format!("{count} tasks on PU {pu}"));
    }
    let floor = placement.len() / usable.pus.len().max(1);
    let few_pins = usable.pinned.iter().all(|&pinned| pinned <= floor);
    let under = usable
        .pus
        .iter()
        .find(|&pu| alike && few_pins && usable.crowded() && count.get(pu).is_none_or(|&count| count < floor));
    if let Some(pu) = under {
        return Some(format!("fewer than {floor} tasks on PU {pu}"));
    }
    // In a crowd a slow PU may get nothing while a fast one gets two.
    if problem.options.share_cores || (!alike && usable.crowded()) {
        return None;
    }
    core_fault(problem.topology, &usable, placement)
}

fn core_fault(topology: &Topology, usable: &Usable, placement: &[usize]) -> Option<String> {
    let core = |pu: usize| {
        let on_core = |node: &&cohabit_model::topology::Node| node.level == Level::Core && node.pus.contains(&pu);
        topology.nodes.iter().find(on_core).map_or(pu, |node| node.pus.start)
    };
    let used: BTreeSet<usize> = placement.iter().map(|&pu| core(pu)).collect();
    let free = usable.pus.iter().any(|&pu| !used.contains(&core(pu)));
    let mut unpinned = placement.iter().enumerate().filter(|&(task, _)| usable.pin[task].is_none());
    let shared = unpinned
        .find(|&(task, &pu)| placement.iter().enumerate().any(|(other, &at)| other != task && core(at) == core(pu)));
    shared.filter(|_| free).map(|(task, _)| format!("task {task} shares a core, another is free"))
}

#[test]
fn trivial_problems_have_their_obvious_answer() {
    let topology = tree(&[2, 2, 2], &[100, 10, 1]);
    let options = Options::default();
    for weight in [
        Matrix::zero(0),
        Matrix::zero(1),
        Matrix::zero(8),
        Matrix::zero(21),
        Matrix::from_triplets(1, [(0, 0, u64::MAX)]),
        Matrix::from_triplets(2, [(0, 1, u64::MAX), (1, 0, u64::MAX)]),
    ] {
        check_all(&problem(&weight, &topology, &options));
    }
    let alone = tree(&[1], &[]);
    check_all(&problem(&Matrix::from_triplets(3, [(0, 1, 5)]), &alone, &options));
}

#[test]
fn no_task_needs_no_pu() {
    let topology = tree(&[2], &[]);
    let options = Options { forbidden: vec![0, 1], ..Options::default() };
    for mapper in MAPPERS.iter().filter(|mapper| !may_refuse(**mapper, 0)) {
        assert_eq!(mapper.map(&problem(&Matrix::zero(0), &topology, &options)), Ok(vec![]), "{}", mapper.name());
        let error = mapper.map(&problem(&Matrix::zero(1), &topology, &options)).unwrap_err();
        assert!(error.cause.contains("no PU is left"), "{}: {}", mapper.name(), error.cause);
    }
}

/// Whether a mapper may answer with an error: this build lacks its library, or it is for a few tasks only.
fn may_refuse(mapper: &dyn Mapper, tasks: usize) -> bool {
    (mapper.name() == "exact" && tasks > 8)
        || (mapper.name() == "scotch" && cfg!(not(feature = "scotch")))
        || (mapper.name() == "metis" && cfg!(not(feature = "metis")))
}

#[test]
fn weights_near_the_limit_do_not_overflow() {
    let topology = tree(&[2, 2, 2], &[u64::MAX >> 33, 10, 1]);
    let dense = Matrix::from_dense(8, &[u64::MAX; 64]);
    check_all(&problem(&dense, &topology, &Options::default()));
    let topology = tree(&[2, 2, 2], &[u64::MAX, u64::MAX / 2, 1]);
    let pair = Matrix::from_triplets(8, [(0, 1, u64::MAX), (2, 7, 1)]);
    check_all(&problem(&pair, &topology, &Options::default()));
}

#[test]
fn a_mapper_that_exists_maps_a_plain_problem() {
    let topology = tree(&[2, 2, 2], &[100, 10, 1]);
    let weight = Matrix::from_triplets(8, (0..8).map(|task| (task, (task + 3) % 8, 10)));
    for mapper in MAPPERS.iter().filter(|mapper| !may_refuse(**mapper, weight.tasks())) {
        let options = Options { steps: Some(50), ..Options::default() };
        let periods = periods_of(&weight);
        let problem = Problem { periods: &periods, ..problem(&weight, &topology, &options) };
        judge(*mapper, &problem, &mapper.map(&problem).unwrap());
    }
}

prop_compose! {
    /// A topology of up to 24 PUs, some of which are outside the cpuset, slow, or cut off unevenly.
    fn topologies()(
        arities in prop::collection::vec(1_usize..4, 1..4),
        lacking in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        slow in prop::collection::vec(any::<prop::sample::Index>(), 0..2),
    ) -> Topology {
        let mut topology = tree(&arities, &[]);
        let count = topology.pus.len();
        lacking.iter().for_each(|at| topology.pus[at.index(count)].allowed = false);
        slow.iter().for_each(|at| topology.pus[at.index(count)].capacity = 0.6);
        topology
    }
}

/// Weights of up to 30 tasks, small, large or near the limit, in any number of components.
fn weights() -> impl Strategy<Value = Matrix> {
    let value = prop_oneof![1_u64..100, Just(1), (u64::MAX - 5)..=u64::MAX];
    (0_u32..30).prop_flat_map(move |tasks| {
        let entry = (0..tasks.max(1), 0..tasks.max(1), value.clone());
        let count = if tasks == 0 { 0..1 } else { 0..80_usize };
        prop::collection::vec(entry, count).prop_map(move |entries| Matrix::from_triplets(tasks as usize, entries))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_problem_is_mapped_or_refused(
        topology in topologies(),
        weight in weights(),
        pins in prop::collection::vec((0_usize..30, 0_usize..24), 0..4),
        forbidden in prop::collection::vec(0_usize..24, 0..3),
        loads in prop::option::of(prop::collection::vec(prop_oneof![0_u64..50, Just(u64::MAX)], 30)),
        present in prop::option::of(prop::collection::vec(prop::option::of(0_usize..40), 0..30)),
        share_cores in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let present = present.unwrap_or_default();
        let options =
            Options { seed, pins, forbidden, share_cores, steps: Some(20), present, move_cost: 3, ..Options::default() };
        let load = loads.map(|loads| loads[..weight.tasks()].to_vec()).unwrap_or_default();
        check_all(&Problem { load: &load, ..problem(&weight, &topology, &options) });
    }

    #[test]
    fn plain_problems_are_mapped(topology in topologies(), weight in weights(), seed in any::<u64>()) {
        let options = Options { seed, steps: Some(20), ..Options::default() };
        prop_assume!(topology.pus.iter().any(|pu| pu.allowed));
        for mapper in MAPPERS.iter().filter(|mapper| !may_refuse(**mapper, weight.tasks())) {
            let periods = periods_of(&weight);
            let problem = Problem { periods: &periods, ..problem(&weight, &topology, &options) };
            judge(*mapper, &problem, &mapper.map(&problem).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn exact_agrees_with_brute_force_and_none_is_better(
        arities in prop::sample::select(vec![vec![2, 3], vec![3, 2], vec![6], vec![2, 1, 2], vec![2]]),
        entries in prop::collection::vec((0_u32..6, 0_u32..6, 1_u64..50), 0..20),
        tasks in 1_u32..=6,
        pins in prop::collection::vec((0_usize..6, 0_usize..6), 0..2),
        matrix in prop::option::of(prop::collection::vec(1_u64..20, 36)),
        share_cores in any::<bool>(),
    ) {
        // Slots take the PUs of a core for equal, so arbitrary distances are for PUs without cores.
        let mut topology = if matrix.is_some() { tree(&[6], &[]) } else { tree(&arities, &[]) };
        let pus = topology.pus.len();
        topology.matrix = matrix.map(|values| distances(&values, pus));
        let within = |&(a, b, _): &(u32, u32, u64)| a < tasks && b < tasks;
        let weight = Matrix::from_triplets(tasks as usize, entries.into_iter().filter(within));
        let pins = pins.into_iter().filter(|&(task, pu)| task < tasks as usize && pu < pus).take(1).collect();
        let options = Options { pins, share_cores, steps: Some(30), ..Options::default() };
        let problem = problem(&weight, &topology, &options);
        let least = brute_force(&problem);
        for mapper in MAPPERS {
            let Ok(placement) = mapper.map(&problem) else { continue };
            let cost = slow_cost(&weight, &topology, &placement);
            prop_assert!(cost >= least, "{}: {cost} < {least}", mapper.name());
            prop_assert!(mapper.name() != "exact" || cost == least, "exact: {cost} > {least}");
        }
        let bound = crate::lower_bound(&problem).unwrap();
        prop_assert!(bound <= least, "bound {bound} > {least}");
    }
}

/// A distance matrix of `size` PUs from any values: zero on the diagonal, not the same there and back.
fn distances(values: &[u64], size: usize) -> Vec<u64> {
    let value = |a: usize, b: usize| if a == b { 0 } else { values[a * 6 + b] };
    (0..size * size).map(|at| value(at / size, at % size)).collect()
}

/// The least J of all ways to put the tasks on PUs of their own, by trying them all.
fn least_of_permutations(problem: &Problem, placement: &mut Vec<usize>) -> u128 {
    if placement.len() == problem.weight.tasks() {
        let (weight, topology) = (problem.weight, problem.topology);
        let pairs = weight.iter().filter(|&(a, b, _)| a != b);
        return pairs
            .map(|(a, b, w)| {
                u128::from(w) * u128::from(topology.distance(placement[a as usize], placement[b as usize]))
            })
            .sum();
    }
    let mut least = u128::MAX;
    for pu in 0..problem.topology.pus.len() {
        if !placement.contains(&pu) {
            placement.push(pu);
            least = least.min(least_of_permutations(problem, placement));
            placement.pop();
        }
    }
    least
}

#[test]
fn exact_agrees_with_brute_force_up_to_eight_tasks() {
    let mut random = crate::random::Random::new(3);
    for (arities, costs, tasks) in [
        (vec![2, 2, 2], vec![100, 10, 1], 8),
        (vec![2, 4], vec![10, 1], 8),
        (vec![4, 2], vec![7, 3], 7),
        (vec![8], vec![], 8),
    ] {
        for density in [10, 40] {
            let mut draw = || (random.below(tasks) as u32, random.below(tasks) as u32, 1 + random.below(50) as u64);
            let entries: Vec<_> = (0..density).map(|_| draw()).collect();
            let weight = Matrix::from_triplets(tasks, entries);
            let mut topology = tree(&arities, &costs);
            if arities.len() == 1 {
                let distance = |at: usize| if at / 8 == at % 8 { 0 } else { 1 + random.below(20) as u64 };
                topology.matrix = Some((0..64).map(distance).collect());
            }
            let options = Options { share_cores: true, ..Options::default() };
            let problem = problem(&weight, &topology, &options);
            let found = slow_cost(&weight, &topology, &crate::mapper("exact").unwrap().map(&problem).unwrap());
            assert_eq!(found, least_of_permutations(&problem, &mut Vec::new()), "{arities:?} {density}");
        }
    }
}

#[test]
fn threads_and_steps_give_the_same_bytes_again() {
    let mut random = crate::random::Random::new(5);
    let mut entries = Vec::new();
    for a in 0..48_u32 {
        (0..4).for_each(|_| entries.push((a, random.below(48) as u32, 1 + random.below(30) as u64)));
    }
    let weight = Matrix::from_triplets(48, entries);
    let mut grid = tree(&[48], &[]);
    let hops = |a: usize, b: usize| (a / 8).abs_diff(b / 8) + (a % 8).abs_diff(b % 8);
    grid.matrix = Some((0..48 * 48).map(|at| hops(at / 48, at % 48) as u64).collect());
    for topology in [tree(&[4, 6, 2], &[100, 10, 1]), grid] {
        let cost = |threads: usize| {
            let options = Options { seed: 2, steps: Some(60), threads, ..Options::default() };
            let problem = problem(&weight, &topology, &options);
            let placement = crate::mapper("best").unwrap().map(&problem).unwrap();
            judge(crate::mapper("best").unwrap(), &problem, &placement);
            slow_cost(&weight, &topology, &placement)
        };
        // The first thread searches as it would alone.
        let alone = cost(1);
        assert!(cost(2) <= alone && cost(3) <= alone);
    }
}

#[test]
fn best_is_never_worse_than_the_plain_mappers() {
    let topology = tree(&[2, 3, 2], &[100, 10, 1]);
    let mut random = crate::random::Random::new(8);
    for seed in 0..20 {
        let entries: Vec<_> = (0..40).map(|_| (random.below(12) as u32, random.below(12) as u32, 7)).collect();
        let weight = Matrix::from_triplets(12, entries);
        let options = Options { seed, steps: Some(0), ..Options::default() };
        let problem = problem(&weight, &topology, &options);
        let cost = |name: &str| slow_cost(&weight, &topology, &crate::mapper(name).unwrap().map(&problem).unwrap());
        assert!(cost("best") <= cost("packed").min(cost("complace")), "{seed}");
    }
}

#[test]
fn best_keeps_the_contract_without_any_of_its_parts() {
    let mut random = crate::random::Random::new(12);
    let mut drawn = |tasks: usize, pairs: usize| {
        let mut end = || random.below(tasks) as u32;
        Matrix::from_triplets(tasks, (0..pairs).map(|at| (end(), end(), 1 + at as u64 % 9)).collect::<Vec<_>>())
    };
    let ring = Matrix::from_triplets(64, (0..64).map(|task| (task, (task + 1) % 64, 1)));
    let (blocks, _) = crate::testing::in_blocks(16, 4, &mut crate::random::Random::new(3));
    let mut mesh = tree(&[16], &[]);
    let hops = |a: usize, b: usize| (a / 4).abs_diff(b / 4) + (a % 4).abs_diff(b % 4);
    mesh.matrix = Some((0..256).map(|at| hops(at / 16, at % 16) as u64).collect());
    let (wide, small) = (tree(&[4, 2, 8], &[100, 10, 1]), tree(&[2, 3, 2], &[100, 10, 1]));
    let usual = || Options { seed: 4, steps: Some(12), ..Options::default() };
    let pinned = || Options { pins: vec![(1, 5), (3, 0)], ..usual() };
    let shared = || Options { share_cores: true, ..usual() };
    let problems = [
        (&wide, drawn(64, 150), usual()),
        (&wide, drawn(64, 2_000), usual()),
        (&wide, drawn(50, 150), shared()),
        (&wide, ring, usual()),
        (&wide, blocks, usual()),
        (&small, drawn(9, 20), usual()),
        (&small, drawn(12, 40), pinned()),
        (&small, drawn(30, 60), usual()),
        (&mesh, drawn(16, 50), usual()),
        (&mesh, drawn(13, 50), usual()),
    ];
    let all = PARTS.iter().map(|row| Context::DEFAULT.without(row.0));
    for context in all.chain(PRESETS.iter().map(|row| *row.1)) {
        for (topology, weight, options) in &problems {
            let problem = problem(weight, topology, options);
            let best = Best { context };
            judge(&best, &problem, &best.map(&problem).unwrap());
        }
    }
}

prop_compose! {
    /// A tree of up to 24 PUs with two kinds of cores, of which only ranks are known, and some PUs outside the cpuset.
    fn uneven_trees()(
        arities in prop::sample::select(vec![vec![2, 2, 3, 1], vec![2, 4, 3, 1], vec![3, 4, 1], vec![2, 3, 2], vec![2, 2, 2, 2], vec![5, 2]]),
        lacking in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        slow in prop::option::of(any::<prop::sample::Index>()),
    ) -> Topology {
        let mut topology = tree(&arities, &[]);
        let count = topology.pus.len();
        lacking.iter().for_each(|at| topology.pus[at.index(count)].allowed = false);
        let first_fast = slow.map_or(0, |at| at.index(count));
        topology.pus[first_fast..].iter_mut().for_each(|pu| pu.core_kind = 1);
        topology
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn best_is_as_good_as_exact_up_to_ten_tasks(
        topology in uneven_trees(),
        tasks in 2_u32..=10,
        edges in prop::collection::vec((0_u32..10, 0_u32..10, 1_u64..100), 1..18),
        pins in prop::collection::vec((0_usize..10, 0_usize..10), 0..2),
        forbidden in prop::collection::vec(0_usize..10, 0..2),
        share_cores in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let within = edges.into_iter().filter(|&(a, b, _)| a < tasks && b < tasks);
        let weight = Matrix::from_triplets(tasks as usize, within);
        let pins = pins.into_iter().filter(|&(task, _)| task < tasks as usize).collect();
        let options = Options { seed, pins, forbidden, share_cores, ..Options::default() };
        let problem = problem(&weight, &topology, &options);
        let map = |name: &str| crate::mapper(name).unwrap().map(&problem);
        if let Ok(exact) = map("exact") {
            let best = map("best").unwrap();
            judge_placement("best", &problem, &best);
            prop_assert_eq!(slow_cost(&weight, &topology, &best), slow_cost(&weight, &topology, &exact));
        }
    }
}

#[test]
fn which_slots_stay_empty_is_searched_for_with_more_tasks_than_can_be_proven() {
    // Pairs and triples that communicate, on subtrees that neither fills: none is to be parted, whatever else is asked
    // for.
    let fill = |size: u32, tasks: u32| {
        let volume = move |(a, b): &(u32, u32)| a / size == b / size && a != b;
        let entries = (0..tasks).flat_map(move |a| (0..tasks).map(move |b| (a, b))).filter(volume);
        // Names that say nothing of groups.
        let name = move |task: u32| (task * 11) % tasks;
        Matrix::from_triplets(tasks as usize, entries.map(|(a, b)| (name(a), name(b), 10)))
    };
    // Children of each level, PUs of a subtree that groups fit into, and what is in a group.
    for (arities, wide, size, tasks, options) in [
        (vec![2, 4, 3, 1], 3, 2, 16, Options::default()),
        (vec![4, 4, 4, 1], 4, 3, 48, Options::default()),
        (vec![4, 4, 5, 1], 5, 3, 45, Options::default()),
        (vec![2, 8, 3], 3, 2, 32, Options { share_cores: true, ..Options::default() }),
        (vec![8, 4, 1], 4, 3, 21, Options { forbidden: vec![0], ..Options::default() }),
        // Every core has to have a task before one has two.
        (vec![8, 2, 2], 4, 3, 24, Options::default()),
    ] {
        let (topology, weight) = (tree(&arities, &[]), fill(size, tasks));
        let problem = problem(&weight, &topology, &options);
        let placement = crate::mapper("best").unwrap().map(&problem).unwrap();
        judge_placement("best", &problem, &placement);
        let parted = weight.iter().filter(|&(a, b, _)| placement[a as usize] / wide != placement[b as usize] / wide);
        assert_eq!(parted.count(), 0, "{arities:?}: {placement:?}");
    }
}

#[test]
fn exact_proves_a_dozen_tasks_on_a_symmetric_tree() {
    let topology = tree(&[2, 3, 2], &[100, 10, 1]);
    let weight = Matrix::from_triplets(12, (0..12).flat_map(|a| [(a, (a * 5 + 1) % 12, 3), (a, (a + 4) % 12, 2)]));
    let options = Options::default();
    let problem = problem(&weight, &topology, &options);
    let placement = crate::mapper("exact").unwrap().map(&problem).unwrap();
    judge(crate::mapper("exact").unwrap(), &problem, &placement);
}
