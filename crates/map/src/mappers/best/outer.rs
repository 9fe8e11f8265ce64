//! The outermost subtrees first: most of J is what is cut between them, and to divide the tasks over these alone is a
//! smaller problem, with fewer groups and one kind of cut. So most of the time goes to that where distances allow it,
//! and the rest to all levels together, from there.

use super::context::{Context, Part};
use super::layout::Layout;
use super::net::Net;
use super::rotation;
use super::state::Rules;

/// The layout of the subtrees that tasks are to be divided over first, and their level; none where the groups are their
/// only parts, or what is cut within them costs more than what is cut between.
pub fn outer(net: &Net, layout: &Layout, rules: &Rules, context: &Context) -> Option<(usize, Layout)> {
    let level = layout.tree.levels().checked_sub(2)?;
    let are_held = rules.held.iter().any(|&held| held) || !rules.home.is_empty();
    if !context.uses(Part::Outer) || are_held || !rules.leave_any_slot_empty(net, layout) {
        return None;
    }
    let above = layout.above(level);
    let suits = above.groups() < layout.groups() && rotation::suits(&above, context) && is_worth_it(&above, layout);
    suits.then_some((level, above))
}

/// Whether going from one of the outer subtrees to another is a step as far as any within one.
fn is_worth_it(above: &Layout, layout: &Layout) -> bool {
    let groups = above.groups();
    let pairs = (0..groups).flat_map(|a| (0..a).map(move |b| a * groups + b));
    let apart = pairs.map(|at| above.distance[at]).min();
    let within = |layout: &Layout, group: usize| layout.distance[group * layout.groups() + group];
    let inside = (0..groups).map(|group| within(above, group)).max();
    let inmost = (0..layout.groups()).map(|group| within(layout, group)).min();
    match (apart, inside, inmost) {
        (Some(apart), Some(inside), Some(inmost)) => apart - inside >= inside - inmost,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ready, communicating, ready};
    use super::*;
    use crate::random::Random;
    use crate::testing::tree;

    /// How many subtrees come first.
    fn first(arities: &[usize], costs: &[u64], tasks: usize) -> Option<usize> {
        let weight = communicating(tasks, 4 * tasks, &mut Random::new(1));
        let Ready { layout, net, .. } = ready(&weight, &tree(arities, costs));
        let rules = Rules::holding(vec![false; net.len()], layout.groups());
        outer(&net, &layout, &rules, &Context::DEFAULT).map(|(level, above)| {
            assert_eq!(level, 0);
            above.groups()
        })
    }

    #[test]
    fn subtrees_come_first_where_most_is_paid_between_them() {
        assert_eq!(first(&[4, 2, 8], &[100, 10, 1], 64), Some(4));
        assert_eq!(first(&[4, 2, 8], &[100, 10, 1], 50), Some(4));
        // Sockets matter more than nodes.
        assert_eq!(first(&[4, 2, 8], &[100, 90, 1], 64), None);
        // Nothing goes round between two, and there is nothing within a group.
        assert_eq!((first(&[2, 4, 8], &[100, 10, 1], 64), first(&[4, 8], &[100, 1], 32)), (None, None));
    }

    #[test]
    fn what_is_held_stays_with_all_levels() {
        let weight = communicating(64, 200, &mut Random::new(1));
        let Ready { layout, net, .. } = ready(&weight, &tree(&[4, 2, 8], &[100, 10, 1]));
        let mut held = vec![false; 64];
        held[3] = true;
        assert!(outer(&net, &layout, &Rules::holding(held, layout.groups()), &Context::DEFAULT).is_none());
    }
}
