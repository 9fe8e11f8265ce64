//! Where slots stay empty, or subtrees are of unequal sizes, what the other mappers make of the problem: those that go
//! from pairs upwards leave the right ones empty where a pattern is of groups that do not fill a subtree, however many
//! there are. Their best is searched on from where it is better than what was found.

use super::clock::Clock;
use super::context::{Context, Part};
use crate::levels::Levels;
use crate::mappers::MAPPERS;
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use crate::{Options, Problem};
use std::ops::Range;

/// The slots of the best of the other mappers by `cost`; none where no slot stays empty and subtrees are
/// alike, or there is no time.
pub fn best_of(
    problem: &Problem,
    slots: &Slots,
    levels: Option<&Levels>,
    context: &Context,
    clock: &Clock,
    cost: impl Fn(&[usize]) -> u128,
) -> Option<Vec<usize>> {
    let is_even = levels.is_some_and(|levels| levels.groups.iter().all(|groups| are_alike(groups)));
    let suits = (slots.len() > slots.tasks() || !is_even) && slots.len() <= context.rivals.slots;
    let has_time = clock.counts() || clock.left() > context.rivals.cube_ns * (slots.len() as u128).pow(3);
    if !context.uses(Part::Rivals)
        || !suits
        || !has_time
        || !problem.load.is_empty()
        || !problem.options.present.is_empty()
    {
        return None;
    }
    let topology = problem.topology;
    // Slots that are not needed are left out here, too.
    let forbidden = (0..topology.pus.len()).filter(|pu| slots.pu.binary_search(pu).is_err()).collect();
    let options = Options { forbidden, ..problem.options.clone() };
    let problem = Problem { options: &options, ..*problem };
    let rivals = MAPPERS.iter().filter(|mapper| !["best", "exact"].contains(&mapper.name()));
    let placed =
        rivals.filter_map(|rival| rival.map(&problem).ok()).filter_map(|placement| slots_of(slots, &placement));
    placed.min_by_key(|slot_of| cost(slot_of))
}

/// Whether groups are of one size.
fn are_alike(groups: &[Range<usize>]) -> bool {
    groups.windows(2).all(|two| two[0].len() == two[1].len())
}

/// The slots of a placement; none where it is not allowed.
pub fn slots_of(slots: &Slots, placement: &[usize]) -> Option<Vec<usize>> {
    let mut partial = PartialMapping::new(slots);
    for task in partial.waiting() {
        let pu = placement[task];
        let slot = partial.first_of(slots.of_pus(&(pu..pu + 1)))?;
        partial.take(slot, task);
    }
    let placed = partial.finish();
    placed.iter().zip(placement).all(|(&slot, &pu)| slots.pu[slot] == pu).then_some(placed)
}
