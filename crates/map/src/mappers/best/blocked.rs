//! Tasks in blocks that nobody would part, such as the threads of ranks: each block is mapped as one task onto as many
//! slots in a row. A block is never moved by moves of single tasks, and there are fewer blocks than tasks to try.

use super::clock::Clock;
use super::context::{Context, Part};
use super::large::{self, Large};
use super::layout::{Layout, Tree};
use super::memetic::Dense;
use super::net::Net;
use super::prepare::Prepared;
use super::search::Instance;
use super::state::Rules;
use super::{are_all_open, in_threads, tiling};
use crate::blocks::Blocks;
use crate::graph::Graph;
use crate::grid::Grid;
use crate::levels::Levels;
use crate::random::Random;
use crate::slots::Slots;
use crate::{Options, Problem};

/// The slots of the tasks, if they are in blocks and all slots are for them to choose from.
pub fn placed(
    problem: &Problem,
    slots: &Slots,
    prepared: &Prepared,
    graph: &Graph,
    context: &Context,
    clock: &mut Clock,
) -> Option<Vec<usize>> {
    if !context.uses(Part::Blocks) {
        return None;
    }
    let levels = prepared.levels.as_ref().filter(|_| are_all_open(slots))?;
    let blocks = Blocks::of(graph, |size| levels.of_blocks(size).is_some())?;
    let levels = levels.of_blocks(blocks.size)?;
    let graph = graph.of_groups(&blocks.of, blocks.count());
    let grid = if context.uses(Part::Tiling) { Grid::of(&graph) } else { None };
    let tiled = grid.and_then(|grid| tiling::tile(&grid, &levels, blocks.count(), context.tiling.cuts));
    let place_of = tiled.unwrap_or_else(|| {
        let greatest = levels.distance.first().copied().unwrap_or(1);
        let net = Net::new(&graph, blocks.count(), greatest / prepared.scale);
        let prepared = Prepared { net, levels: Some(levels.clone()), scale: prepared.scale };
        search(problem.options, &prepared, &levels, context, &mut clock.most(context.blocks.rest))
    });
    Some(unfold(&blocks, &place_of))
}

/// The best places of the blocks that are found in the time given.
fn search(options: &Options, prepared: &Prepared, levels: &Levels, context: &Context, clock: &mut Clock) -> Vec<usize> {
    let (count, threads, random) = (prepared.net.len(), options.threads.max(1), Random::new(options.seed));
    let held = vec![false; count];
    let place_of = if large::is_large(levels, count, context) {
        let large = Large { prepared, levels, held, context, threads };
        large.search((0..count as u32).collect(), true, clock, &random)
    } else {
        let layout = Layout::of_tree(Tree::new(levels, count), &levels.distance, prepared.scale);
        let rules = Rules::holding(held, layout.groups());
        let instance =
            Instance { net: &prepared.net, layout: &layout, rules: &rules, dense: Dense::of_blocks(context), context };
        in_threads(threads, clock, &random, |clock, mut random| instance.search(None, clock, &mut random)).slot_of
    };
    place_of.into_iter().map(|place| place as usize).collect()
}

/// The slots of the tasks of blocks that are at these places.
fn unfold(blocks: &Blocks, place_of: &[usize]) -> Vec<usize> {
    let mut next: Vec<usize> = place_of.iter().map(|place| place * blocks.size).collect();
    let slot = |&block: &u32| {
        let next = &mut next[block as usize];
        *next += 1;
        *next - 1
    };
    blocks.of.iter().map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{in_blocks, slow_cost, tree};
    use cohabit_model::Matrix;
    use std::collections::BTreeSet;

    /// Blocks in a ring, mapped by `best` in a few steps: block and PU of each task, and J between blocks. The first
    /// block communicates with the one on the other side of the ring, too, if there is to be no grid.
    fn mapped(size: usize, arities: &[usize], is_grid: bool) -> (Vec<u32>, Vec<usize>, u128) {
        let (weight, block_of) = in_blocks(64 / size, size, &mut Random::new(3));
        let of = |block: usize| block_of.iter().position(|&of| of as usize == block).unwrap() as u32;
        let across = (of(0), of(32 / size), if is_grid { 0 } else { size as u64 });
        let weight = Matrix::from_triplets(64, weight.iter().chain([across]));
        let (topology, options) =
            (tree(arities, &[100, 10, 1]), Options { steps: Some(20), share_cores: true, ..Options::default() });
        let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
        let placement = crate::mapper("best").unwrap().map(&problem).unwrap();
        let within = |a: u32, b: u32| u64::from(block_of[a as usize] == block_of[b as usize]);
        let inside = weight.iter().map(|(a, b, value)| (a, b, value * within(a, b)));
        let between = slow_cost(&weight, &topology, &placement)
            - slow_cost(&Matrix::from_triplets(weight.tasks(), inside), &topology, &placement);
        (block_of, placement, between)
    }

    #[test]
    fn blocks_stay_whole_and_neighbours_are_near() {
        // Size of a block, tree, tasks of the subtrees that blocks are to be within, J between blocks: each block is
        // joined with the next by as many edges of weight 1 as it has tasks.
        let cases: [(usize, &[usize], usize, u128); 4] = [
            (4, &[2, 4, 8], 8, 4 * (2 * 100 + 6 * 10 + 8)),
            (8, &[2, 4, 8], 8, 8 * (2 * 100 + 6 * 10)),
            // Several groups of the last level to a block.
            (8, &[2, 8, 4], 4, 8 * (2 * 100 + 6 * 10)),
            (2, &[4, 2, 8], 8, 2 * (4 * 100 + 4 * 10 + 24)),
        ];
        for (is_grid, (size, arities, within, expected)) in
            [true, false].into_iter().flat_map(|is_grid| cases.map(|case| (is_grid, case)))
        {
            let (block_of, placement, between) = mapped(size, arities, is_grid);
            // Opposite blocks cannot be in one half.
            let across = if is_grid { 0 } else { 100 * size as u128 };
            assert_eq!(between, expected + across, "{size} {arities:?}");
            let mut subtrees = vec![BTreeSet::new(); 64 / size];
            for (task, &block) in block_of.iter().enumerate() {
                subtrees[block as usize].insert(placement[task] / within);
            }
            assert!(subtrees.iter().all(|subtrees| subtrees.len() == size.div_ceil(within)), "{size} {arities:?}");
        }
    }

    #[test]
    fn what_is_pinned_or_has_room_to_choose_is_left_to_the_search() {
        let (weight, _) = in_blocks(8, 4, &mut Random::new(3));
        let is_placed = |arities: &[usize], options: Options| {
            let topology = tree(arities, &[100, 10, 1]);
            let problem = Problem { weight: &weight, load: &[], periods: &[], topology: &topology, options: &options };
            let (slots, graph) = (Slots::new(&problem).unwrap(), Graph::new(&weight));
            let prepared = Prepared::new(&problem, &slots, &graph).unwrap();
            placed(&problem, &slots, &prepared, &graph, &Context::DEFAULT, &mut Clock::new(&options, 20)).is_some()
        };
        let usual = || Options { share_cores: true, ..Options::default() };
        assert!(is_placed(&[2, 4, 4], usual()));
        assert!(!is_placed(&[2, 5, 4], usual()));
        assert!(!is_placed(&[2, 4, 4], Options { pins: vec![(3, 5)], ..usual() }));
    }
}
