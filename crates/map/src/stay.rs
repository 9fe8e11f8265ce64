//! Staying put: of all mappings that cost the same because the tree is symmetric, the one nearest to where the tasks
//! are now, so that nobody migrates for a relabelling.
//!
//! Bottom up, for every group of the mapping and every group of the same shape where some of its tasks are at home, the
//! most tasks that can stay if the one takes the place of the other: an assignment problem over the children.

mod assignment;

use crate::Problem;
use crate::shapes::Shapes;
use crate::slots::Slots;
pub use assignment::heaviest_assignment;
use std::collections::BTreeMap;

/// How many tasks are not where they were; tasks of which that is unknown do not count.
pub fn moves(present: &[Option<usize>], placement: &[usize]) -> usize {
    present.iter().zip(placement).filter(|(before, now)| before.is_some_and(|before| before != **now)).count()
}

/// What is known of putting one group in the place of another: the tasks that stay, and which child goes where.
struct Fit {
    value: i64,
    children: Vec<usize>,
}

/// The slots of the nearest equivalent mapping; pinned tasks stay where they are.
pub fn nearest(problem: &Problem, slots: &Slots, slot_of: &[usize]) -> Vec<usize> {
    let present = &problem.options.present;
    if slot_of.len() <= present.len() && slot_of.iter().zip(present).all(|(&slot, &pu)| pu == Some(slots.pu[slot])) {
        return slot_of.to_vec();
    }
    let Some(shapes) = Shapes::new(problem.topology, slots) else { return slot_of.to_vec() };
    let levels = &shapes.levels;
    let Some(last) = levels.len().checked_sub(1) else { return slot_of.to_vec() };
    // A pin weighs more than all that may stay.
    let heavy = slots.len() as i64 + 1;
    let mut fits: Vec<BTreeMap<(usize, usize), Fit>> = vec![stays(problem, slots, slot_of, heavy)];
    for level in (0..last).rev() {
        let fit = parents(&shapes, level + 1, &fits[0]);
        fits.insert(0, fit);
    }
    let top = (0..levels[0].len()).collect::<Vec<_>>();
    let mut goes = assign(&shapes, 0, &top, &top, &fits[0]).children;
    for level in 1..=last {
        goes = below(&shapes, level, &goes, &fits[level - 1]);
    }
    slot_of.iter().map(|&slot| goes[slot]).collect()
}

/// For single slots: (slot of the mapping, slot at home) of every task whose home is a slot.
fn stays(problem: &Problem, slots: &Slots, slot_of: &[usize], heavy: i64) -> BTreeMap<(usize, usize), Fit> {
    let mut fits = BTreeMap::new();
    let mut add = |pair: (usize, usize), value: i64| {
        fits.entry(pair).or_insert(Fit { value: 0, children: Vec::new() }).value += value;
    };
    for (task, &slot) in slot_of.iter().enumerate() {
        if slots.pinned[task].is_some() {
            add((slot, slot), heavy);
        } else if let Some(&Some(pu)) = problem.options.present.get(task) {
            slots.of_pus(&(pu..pu + 1)).for_each(|home| add((slot, home), 1));
        }
    }
    fits
}

/// The fits of the groups above `level`, from those of `level`.
fn parents(shapes: &Shapes, level: usize, fits: &BTreeMap<(usize, usize), Fit>) -> BTreeMap<(usize, usize), Fit> {
    let parent = |group: usize| shapes.levels[level][group].1;
    let above = &shapes.levels[level - 1];
    let pairs = fits.keys().map(|&(a, b)| (parent(a), parent(b))).filter(|&(a, b)| above[a].2 == above[b].2);
    let pairs: std::collections::BTreeSet<_> = pairs.collect();
    let children = shapes.children(level);
    pairs.into_iter().map(|(a, b)| ((a, b), assign(shapes, level, &children[a], &children[b], fits))).collect()
}

/// The best assignment of groups to places of the same shapes.
fn assign(
    shapes: &Shapes,
    level: usize,
    groups: &[usize],
    places: &[usize],
    fits: &BTreeMap<(usize, usize), Fit>,
) -> Fit {
    let shape = |group: usize| shapes.levels[level][group].2;
    let value = |row: usize, column: usize| {
        let (group, place) = (groups[row], places[column]);
        (shape(group) == shape(place)).then(|| fits.get(&(group, place)).map_or(0, |fit| fit.value))
    };
    let (value, columns) = heaviest_assignment(groups.len(), value);
    Fit { value, children: columns.into_iter().map(|column| places[column]).collect() }
}

/// Where the groups of `level` go, from where those above go.
fn below(shapes: &Shapes, level: usize, above: &[usize], fits_above: &BTreeMap<(usize, usize), Fit>) -> Vec<usize> {
    let children = shapes.children(level);
    let mut goes = vec![0; shapes.levels[level].len()];
    for (group, &place) in above.iter().enumerate() {
        match fits_above.get(&(group, place)) {
            Some(fit) => children[group].iter().zip(&fit.children).for_each(|(&child, &to)| goes[child] = to),
            // Nobody is at home there: in the same order, which has the same shapes.
            None => children[group].iter().zip(&children[place]).for_each(|(&child, &to)| goes[child] = to),
        }
    }
    goes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::testing::{problem, slow_cost, tree};
    use crate::{Options, mapper};
    use cohabit_model::Matrix;

    #[test]
    fn a_relabelled_mapping_comes_back_to_where_it_was() {
        let topology = tree(&[3, 2, 2], &[100, 10, 1]);
        let options = Options { present: (0..12).map(Some).collect(), ..Options::default() };
        let weight = Matrix::zero(12);
        let problem = problem(&weight, &topology, &options);
        let slots = Slots::new(&problem).unwrap();
        // Packages, cores and PUs changed places: 4 5 6 7 | 8 .. 11 | 0 .. 3 with their halves turned.
        let relabelled: Vec<usize> = (0..12).map(|slot| ((slot + 4) % 12) ^ 3).collect();
        assert_eq!(nearest(&problem, &slots, &relabelled), (0..12).collect::<Vec<_>>());
        assert_eq!(moves(&options.present, &relabelled), 12);
    }

    #[test]
    fn the_nearest_costs_the_same_and_moves_no_more() {
        let topology = tree(&[2, 3, 2], &[100, 10, 1]);
        let mut random = Random::new(5);
        for _ in 0..50 {
            let mut present: Vec<usize> = (0..12).collect();
            random.shuffle(&mut present);
            let options = Options { present: present.iter().copied().map(Some).collect(), ..Options::default() };
            let entries: Vec<_> = (0..20).map(|_| (random.below(12) as u32, random.below(12) as u32, 5)).collect();
            let weight = Matrix::from_triplets(12, entries);
            let problem = problem(&weight, &topology, &options);
            let slots = Slots::new(&problem).unwrap();
            let mut before: Vec<usize> = (0..12).collect();
            random.shuffle(&mut before);
            let after = nearest(&problem, &slots, &before);
            assert_eq!(slow_cost(&weight, &topology, &after), slow_cost(&weight, &topology, &before));
            assert!(moves(&options.present, &after) <= moves(&options.present, &before));
        }
    }

    #[test]
    fn nobody_moves_for_less_than_it_costs() {
        let topology = tree(&[2, 2], &[10, 1]);
        let weight = Matrix::from_triplets(4, [(0, 2, 3), (1, 3, 3)]);
        let present = vec![Some(0), Some(1), Some(2), Some(3)];
        for (move_cost, moved) in [(0, 2), (26, 2), (28, 0)] {
            let options = Options { present: present.clone(), move_cost, steps: Some(50), ..Options::default() };
            let placement = mapper("best").unwrap().map(&problem(&weight, &topology, &options)).unwrap();
            // Together they pay 3 + 3, apart 30 + 30; two moves bring them together.
            assert_eq!(moves(&present, &placement), moved, "{move_cost}");
        }
    }
}
