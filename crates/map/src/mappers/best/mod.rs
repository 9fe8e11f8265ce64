//! Our own mapper: multilevel division over the tree, then repartitioning of pairs of subtrees until the steps or the
//! time are used up.
//!
//! On a tree J is the sum over levels of (distance across the level - distance across the next) * weight cut there, so
//! dividing the tasks level by level with small cuts ([`divide`], [`bisect`]) is a good start. It is never the end:
//! what is best at one level is not for all, nor is halving again and again best for many parts. So the outermost
//! subtrees, where most of J is cut, are searched by themselves first ([`outer`]). There pairs of subtrees are cut
//! again by clusters of tasks ([`clusters`]). Then, and there too, subtrees that communicate, two to
//! four at a time, are cut and filled again ([`repartition`]), groups of tasks go round among several subtrees
//! ([`rotation`]), swaps make the most of it ([`anneal::descend`]), and where nothing gets better two grown regions
//! change places. Small and dense problems begin with ejection chains ([`ejection`]), and with what the divisions found
//! so have in common ([`memetic`]). Where there is time for it, several divisions are gone on with for a while, and
//! then the best of them; where that leads to nothing more, there is a restart ([`search`]). A table of what every
//! task would pay everywhere ([`state`]) makes a swap cost a few additions. A grid is laid over the tree in boxes
//! instead ([`tiling`]), and blocks of tasks that nobody would part are mapped as one task each first ([`blocked`]).
//! Distances that are no tree's are searched with tabu ([`tabu`]) and annealed ([`anneal`]).
//!
//! Which slots stay empty is part of all this: an empty slot is a vertex that communicates with nobody, which is cut,
//! exchanged and rotated like a task, within what the units of slots allow ([`Rules`](state::Rules)). Subtrees that
//! look like others and that nobody needs are left out before ([`narrowed`]). Few tasks are mapped by branch and bound,
//! where that comes to an end ([`Few`]).
//!
//! What is returned is never worse than `packed`, `complace` or, where it is allowed, the present placement; nor, where
//! slots stay empty or subtrees are unequal and there is time, than any other mapper ([`rivals`]).

mod anneal;
mod bisect;
mod blocked;
pub(crate) mod clock;
mod clusters;
mod coarsen;
pub mod context;
mod divide;
mod ejection;
mod gain_table;
mod large;
mod layout;
mod memetic;
mod net;
mod outer;
mod prepare;
mod profile;
mod refine;
mod repartition;
mod rivals;
mod rotation;
mod search;
mod small_tabu;
mod state;
mod subgraph;
mod tabu;
#[cfg(test)]
mod testing;
mod tiling;

use crate::graph::Graph;
use crate::grid::Grid;
use crate::levels::{Codes, Levels};
use crate::load::Balance;
use crate::mappers::{complace, exact};
use crate::partial_mapping::{PartialMapping, nearest_to};
use crate::random::Random;
use crate::shapes::narrowed;
use crate::slots::Slots;
use crate::stay::{self, moves};
use crate::{Mapper, Problem};
use clock::Clock;
use cohabit_model::{Result, cost};
use context::{Context, Part};
use large::Large;
use memetic::Dense;
use prepare::Prepared;
use search::{Instance, Solution};

/// The mapper `best`.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    /// What it does, and for how long.
    pub context: Context,
}

impl Mapper for Best {
    fn name(&self) -> &'static str {
        "best"
    }

    fn about(&self) -> &'static str {
        "our own: divides over the tree, then repartitions pairs of subtrees; the longer the better (--budget, --steps)"
    }

    fn source(&self) -> &'static str {
        "this project (benches/mapping.md)"
    }

    fn searches(&self) -> bool {
        true
    }

    fn only_distance(&self) -> Option<&'static str> {
        None
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = match problem.options.present[..] {
            [] => narrowed(problem.topology, Slots::new(problem)?),
            _ => Slots::new(problem)?,
        };
        let context = &self.context;
        let usual = usual_steps(&slots, context);
        let mut clock = Clock::new(problem.options, usual);
        let graph = Graph::new(problem.weight);
        let greedy = complace::greedy(&graph, problem.topology, &slots);
        let mut packed = PartialMapping::new(&slots);
        packed.fill(packed.waiting(), 0..slots.len());
        let present = present(problem, &slots);
        let prepared = Prepared::new(problem, &slots, &graph)?;
        let tiled = tiled(&prepared, &slots, &graph, context);
        let is_open = present.is_none() && tiled.is_none();
        let blocked =
            is_open.then(|| blocked::placed(problem, &slots, &prepared, &graph, context, &mut clock)).flatten();
        // Few tasks are divided as well as in boxes at once, and better where the sides of the grid do not suit the
        // tree.
        let boxes = tiled.as_deref().filter(|_| slots.len() >= context.tiling.least_slots);
        let start = boxes.or(blocked.as_deref());
        let starts = Starts { greedy: &greedy, present: present.as_deref(), good: start };
        let levels = prepared.levels.as_ref().filter(|_| graph.is_exact());
        let codes = levels.and_then(|levels| Codes::new(levels, slots.len()));
        let choice = Choice { problem, slots: &slots, graph: &graph, codes, balance: Balance::new(problem)? };
        let cost = |slot_of: &[usize]| choice.cost(slot_of);
        let packed = packed.finish();
        let rival = rivals::best_of(problem, &slots, prepared.levels.as_ref(), context, &clock, cost);
        let few = Few::new(problem, &slots, usual, context);
        let mut early = None;
        if few.are_few {
            let known = [Some(&greedy), Some(&packed), rival.as_ref()].into_iter().flatten().cloned().collect();
            let (found, is_proven) = few.searched(choice.best_of(known), &clock)?;
            if is_proven {
                return Ok(found);
            }
            early = Some(found);
        }
        let find = |starts, clock: &mut Clock| search(problem, &slots, &prepared, starts, context, clock);
        let found = (slots.len() > 1).then(|| find(starts, &mut clock));
        let rival = rival.filter(|rival| found.as_ref().is_none_or(|found| cost(rival) < cost(found)));
        let further = rival.as_deref().map(|rival| find(Starts { good: Some(rival), ..starts }, &mut clock));
        let mut candidates = vec![greedy.clone(), packed];
        candidates.extend([found, rival, further].into_iter().flatten());
        candidates.extend([&present, &tiled, &blocked].into_iter().flatten().cloned());
        let late = choice.best_of(candidates);
        let paid = |placement: &[usize]| cost::distance_cost(problem.weight, problem.topology, placement);
        let early = early.filter(|early| paid(early) < paid(&late));
        Ok(few.searched(early.unwrap_or(late), &clock)?.0)
    }
}

/// Few tasks, of which the best mapping is found by branch and bound: before all else, and where that did not end once
/// more from what was found.
struct Few<'a> {
    problem: &'a Problem<'a>,
    are_few: bool,
    branches: u64,
    /// What the tables of the search take, in nanoseconds, about.
    tables: u128,
}

impl<'a> Few<'a> {
    /// The tasks of a problem that is searched in so many steps where nothing else is asked for.
    fn new(problem: &'a Problem<'a>, slots: &Slots, usual: u64, context: &Context) -> Self {
        let options = problem.options;
        let numbers = &context.proof;
        let are_few =
            context.uses(Part::Proof) && exact::to_place(problem) <= numbers.tasks && options.present.is_empty();
        let steps = if options.budget.is_some() { u64::MAX } else { options.steps.unwrap_or(usual) };
        let branches = steps.saturating_mul(numbers.branches).min(exact::MOST_BRANCHES);
        Self { problem, are_few, branches, tables: numbers.table_ns * (slots.len() as u128).pow(2) }
    }

    /// The best from a placement on, and whether there is no better one.
    fn searched(&self, first: Vec<usize>, clock: &Clock) -> Result<(Vec<usize>, bool)> {
        let has_time = clock.counts() || clock.left() / 2 > self.tables;
        if !self.are_few || !has_time {
            return Ok((first, false));
        }
        // Half of the time is for the search that cannot prove anything.
        let until = clock.left() / 2;
        exact::improved(self.problem, first, self.branches, &|| clock.counts() || clock.left() > until)
    }
}

/// Steps of such a search. A step sees two groups or more, which are the slots of PUs where these are shared: many
/// tasks on few PUs make it a long one.
fn usual_steps(slots: &Slots, context: &Context) -> u64 {
    let (count, pus) = (slots.len(), slots.pu.chunk_by(|a, b| a == b).count().max(1));
    let two = (2 * count).div_ceil(pus).max(1);
    let seen = if count > context.effort.many_shared && two > 4 { two.max(count / 2) } else { two };
    (500 + 4 * count).min(context.effort.usual_vertices / seen) as u64
}

/// The choice among mappings that have been found.
struct Choice<'a> {
    problem: &'a Problem<'a>,
    slots: &'a Slots,
    graph: &'a Graph,
    codes: Option<Codes>,
    balance: Option<Balance>,
}

impl Choice<'_> {
    /// The placement of the best, loads balanced, nearest to where the tasks are.
    fn best_of(&self, candidates: Vec<Vec<usize>>) -> Vec<usize> {
        let mut candidates: Vec<(u128, Vec<usize>)> =
            candidates.into_iter().map(|slot_of| (self.cost(&slot_of), slot_of)).collect();
        candidates.sort_by_key(|candidate| candidate.0);
        let mut best: Option<((u128, usize), Vec<usize>)> = None;
        for (cost, slot_of) in candidates {
            // Staying near does not change J, and moves only add to it.
            if self.balance.is_none() && best.as_ref().is_some_and(|best| cost > best.0.0) {
                break;
            }
            let slot_of = match self.problem.options.present[..] {
                [] => slot_of,
                _ => stay::nearest(self.problem, self.slots, &slot_of),
            };
            let placement = self.slots.pus_of(&slot_of);
            let (cost, placement) = match &self.balance {
                None => (cost, placement),
                Some(balance) => {
                    let placement = balance.repaired(self.problem, placement);
                    (cost::distance_cost(self.problem.weight, self.problem.topology, &placement), placement)
                }
            };
            let price = price(self.problem, cost, &placement);
            if best.as_ref().is_none_or(|best| price < best.0) {
                best = Some((price, placement));
            }
        }
        best.map_or(Vec::new(), |best| best.1)
    }

    /// J of a choice of slots.
    fn cost(&self, slot_of: &[usize]) -> u128 {
        match &self.codes {
            Some(codes) => codes.cost(self.graph, slot_of),
            None => cost::distance_cost(self.problem.weight, self.problem.topology, &self.slots.pus_of(slot_of)),
        }
    }
}

/// J and the moves' price, and then the moves: what the better of two mappings has less of.
fn price(problem: &Problem, cost: u128, placement: &[usize]) -> (u128, usize) {
    let moved = moves(&problem.options.present, placement);
    let toll = u128::from(problem.options.move_cost) * moved as u128;
    (cost.saturating_add(toll), moved)
}

/// The slots of the present placement, where it is known for every task and allowed.
fn present(problem: &Problem, slots: &Slots) -> Option<Vec<usize>> {
    let present = &problem.options.present;
    if present.len() < slots.tasks() {
        return None;
    }
    let present: Option<Vec<usize>> = present[..slots.tasks()].iter().copied().collect();
    rivals::slots_of(slots, &present?)
}

/// Whether every slot is for every task to choose from, and none stays empty.
fn are_all_open(slots: &Slots) -> bool {
    slots.len() == slots.tasks() && slots.pinned.iter().all(Option::is_none)
}

/// The slots of tasks that communicate on a grid, if they do and all slots are for them to choose from.
fn tiled(prepared: &Prepared, slots: &Slots, graph: &Graph, context: &Context) -> Option<Vec<usize>> {
    let suits = context.uses(Part::Tiling) && are_all_open(slots);
    let levels = prepared.levels.as_ref().filter(|_| suits)?;
    tiling::tile(&Grid::of(graph)?, levels, slots.len(), context.tiling.cuts)
}

/// Known mappings to start from.
#[derive(Debug, Clone, Copy)]
struct Starts<'a> {
    greedy: &'a [usize],
    present: Option<&'a [usize]>,
    /// One that is not to be expected to become better by dividing the tasks over the tree.
    good: Option<&'a [usize]>,
}

/// The best slots that are found in the time given.
fn search(
    problem: &Problem,
    slots: &Slots,
    prepared: &Prepared,
    starts: Starts,
    context: &Context,
    clock: &mut Clock,
) -> Vec<usize> {
    let random = Random::new(problem.options.seed);
    if let Some(levels) = prepared.levels.as_ref().filter(|levels| large::is_large(levels, slots.len(), context)) {
        return search_large(problem, slots, prepared, levels, starts, context, clock);
    }
    let layout = prepared.layout(problem, slots);
    let rules = prepared.rules(problem, slots, &layout.tree);
    let instance =
        Instance { net: &prepared.net, layout: &layout, rules: &rules, dense: Dense::of_tasks(context), context };
    let divides = layout.tree.levels() > 0 && !rules.held.iter().any(|&held| held);
    // Where moves cost something the present placement is the best to start from.
    let start = starts.present.filter(|_| rules.move_cost > 0).or(starts.good);
    let start = start.or((!divides).then_some(starts.greedy)).map(|start| permutation(start, slots.len()));
    let found = in_threads(problem.options.threads.max(1), clock, &random, |clock, mut random| {
        instance.search(start.as_deref(), clock, &mut random)
    });
    let wished: Vec<usize> = found.slot_of[..slots.tasks()].iter().map(|&slot| slot as usize).collect();
    // Within a group of several units the search does not care which slots stay empty; the rules do.
    nearest_to(problem.topology, slots, &wished)
}

/// The same where the tables would not fit. What is pinned stays, and so do empty slots where not every one may be
/// empty.
fn search_large(
    problem: &Problem,
    slots: &Slots,
    prepared: &Prepared,
    levels: &Levels,
    starts: Starts,
    context: &Context,
    clock: &mut Clock,
) -> Vec<usize> {
    let mut held: Vec<bool> = slots.pinned.iter().map(Option::is_some).collect();
    held.resize(slots.len(), prepare::must_be_taken(slots));
    let threads = problem.options.threads.max(1);
    let large = Large { prepared, levels, held, context, threads };
    let start = permutation(starts.good.unwrap_or(starts.greedy), slots.len());
    let random = Random::new(problem.options.seed);
    let slot_of = large.search(start, starts.good.is_none(), clock, &random);
    let wished: Vec<usize> = slot_of[..slots.tasks()].iter().map(|&slot| slot as usize).collect();
    nearest_to(problem.topology, slots, &wished)
}

/// Runs a search in several threads, each with its own random numbers; the best of them, the first among equals.
fn in_threads(
    threads: usize,
    clock: &mut Clock,
    random: &Random,
    search: impl Fn(&mut Clock, Random) -> Solution + Sync,
) -> Solution {
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
