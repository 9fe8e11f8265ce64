//! Our own mapper: multilevel division over the tree, then repartitioning of pairs of subtrees until the steps or the
//! time are used up.
//!
//! On a tree J is the sum over levels of (distance across the level - distance across the next) * weight cut there, so
//! dividing the tasks level by level with small cuts ([`divide`], [`bisect`]) is a good start. It is never the end: what
//! is best at one level is not for all, nor is halving again and again best for many parts. So subtrees that talk, two to
//! four at a time, are cut and filled anew ([`repartition`]), swaps make the most of it ([`anneal::descend`]), and where
//! nothing gets better two grown regions change places. A table of what every task would pay everywhere ([`state`]) makes
//! a swap cost a few additions. Distances that are no tree's are searched with tabu ([`tabu`]) and annealed ([`anneal`]).
//!
//! What is returned is never worse than `packed`, `complace` or, where it is allowed, the present placement.

mod anneal;
mod bisect;
pub(crate) mod clock;
mod coarsen;
mod divide;
mod gains;
mod large;
mod layout;
mod net;
mod piece;
mod prepare;
mod refine;
mod repartition;
mod search;
mod state;
mod tabu;

use crate::graph::Graph;
use crate::load::settled;
use crate::mappers::complace;
use crate::random::Random;
use crate::seating::{Seating, nearest_to};
use crate::slots::Slots;
use crate::stay::{self, moves};
use crate::{Mapper, Problem};
use clock::Clock;
use cohabit_model::{Result, cost};
use prepare::Prepared;
use search::{Found, Ground};

/// The mapper `best`.
pub struct Best;

impl Mapper for Best {
    fn name(&self) -> &'static str {
        "best"
    }

    fn about(&self) -> &'static str {
        "our own: divides over the tree, then repartitions pairs of subtrees; the longer the better (--budget, --steps)"
    }

    fn source(&self) -> &'static str {
        "this project (docs/benchmarks-mapping.md)"
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let mut clock = Clock::new(problem.options, 500 + 4 * slots.len() as u64);
        let graph = Graph::new(problem.weight);
        let greedy = complace::greedy(&graph, problem.topology, &slots);
        let mut packed = Seating::new(&slots);
        packed.fill(packed.waiting(), 0..slots.len());
        let mut candidates = vec![greedy.clone(), packed.finish()];
        candidates.extend(present(problem, &slots));
        if slots.len() > 1 {
            let found = search(problem, &slots, &graph, &candidates, &mut clock)?;
            candidates.push(found);
        }
        if !problem.options.present.is_empty() {
            let near = candidates.iter().map(|slot_of| stay::nearest(problem, &slots, slot_of));
            candidates = near.collect();
        }
        let placements = candidates.iter().map(|slot_of| settled(problem, &slots, slot_of));
        let placements = placements.collect::<Result<Vec<_>>>()?;
        Ok(placements.into_iter().min_by_key(|placement| price(problem, placement)).unwrap_or_default())
    }
}

/// J and the moves' price, and then the moves: what the better of two mappings has less of.
fn price(problem: &Problem, placement: &[usize]) -> (u128, usize) {
    let moved = moves(&problem.options.present, placement);
    let toll = u128::from(problem.options.move_cost) * moved as u128;
    (cost::distance_cost(problem.weight, problem.topology, placement).saturating_add(toll), moved)
}

/// The slots of the present placement, where it is known for every task and allowed.
fn present(problem: &Problem, slots: &Slots) -> Option<Vec<usize>> {
    let present = &problem.options.present;
    if present.len() < slots.tasks() {
        return None;
    }
    let mut seating = Seating::new(slots);
    for task in seating.waiting() {
        let pu = present[task]?;
        let slot = seating.first_of(slots.of_pus(&(pu..pu + 1)))?;
        seating.take(slot, task);
    }
    let placed = seating.finish();
    let as_before = placed.iter().zip(present).all(|(&slot, &pu)| Some(slots.pu[slot]) == pu);
    as_before.then_some(placed)
}

/// The best slots that are found in the time given. `starts` are known good ones, the greedy one first, the present last.
fn search(
    problem: &Problem,
    slots: &Slots,
    graph: &Graph,
    starts: &[Vec<usize>],
    clock: &mut Clock,
) -> Result<Vec<usize>> {
    let prepared = Prepared::new(problem, slots, graph)?;
    let random = Random::new(problem.options.seed);
    if let Some(levels) = prepared.levels.as_ref().filter(|levels| large::is_large(levels, slots.len())) {
        let slot_of = large::search(&prepared, levels, slots, &starts[0], clock, random);
        return Ok(slot_of);
    }
    let layout = prepared.layout(problem, slots);
    let rules = prepared.rules(problem, slots, &layout.tree);
    let ground = Ground { net: &prepared.net, layout: &layout, rules: &rules };
    let divides = layout.tree.levels() > 0 && !rules.held.iter().any(|&held| held);
    let start = match (starts.get(2), divides) {
        // Where moves cost something the present placement is the best to start from.
        (Some(present), _) if rules.move_cost > 0 => Some(permutation(present, slots.len())),
        (_, false) => Some(permutation(&starts[0], slots.len())),
        (_, true) => None,
    };
    let found = in_threads(problem.options.threads.max(1), clock, &random, |clock, mut random| {
        ground.search(start.as_deref(), clock, &mut random)
    });
    let wished: Vec<usize> = found.slot_of[..slots.tasks()].iter().map(|&slot| slot as usize).collect();
    // Within a group of several units the search does not care which slots stay empty; the rules do.
    Ok(nearest_to(problem.topology, slots, &wished))
}

/// Runs a search in several threads, each with its own random numbers; the best of them, the first among equals.
fn in_threads(
    threads: usize,
    clock: &mut Clock,
    random: &Random,
    search: impl Fn(&mut Clock, Random) -> Found + Sync,
) -> Found {
    let others = std::thread::scope(|scope| {
        let spawn = |number: usize| {
            let (mut clock, random, search) = (clock.clone(), random.fork(number as u64), &search);
            scope.spawn(move || search(&mut clock, random))
        };
        let others: Vec<_> = (1..threads).map(spawn).collect();
        let own = search(&mut clock.clone(), random.fork(0));
        let mut all = vec![own];
        all.extend(others.into_iter().filter_map(|other| other.join().ok()));
        all
    });
    others.into_iter().min_by_key(|found| found.total).expect("the first search is there")
}

/// A slot for every vertex: the tasks' own, and the others for the empty ones.
fn permutation(slot_of: &[usize], slots: usize) -> Vec<u32> {
    let mut taken = vec![false; slots];
    slot_of.iter().for_each(|&slot| taken[slot] = true);
    let empty = (0..slots).filter(|&slot| !taken[slot]);
    slot_of.iter().copied().chain(empty).map(|slot| slot as u32).collect()
}
