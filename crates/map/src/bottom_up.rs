//! From the PUs up: tasks are grouped into the smallest parts of the tree, these groups into the next larger parts, and
//! so on to the root. What makes a good group is the mapper's; trees of any arity and parts of different sizes are
//! dealt with here, the same for all of them.

use crate::Problem;
use crate::affinity::Affinity;
use crate::graph::Graph;
use crate::levels::Levels;
use crate::partial_mapping::nearest_to;
use crate::slots::Slots;
use cohabit_model::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Groups the items into as many groups as there are sizes, each of its size; the sizes add up to the items.
pub type Grouping<'a> = &'a dyn Fn(&Affinity, &[usize]) -> Vec<Vec<usize>>;

/// The slot of every task. `mapper` is for the error.
///
/// # Errors
/// Distances that are no tree's, or more slots than `most`.
pub fn map(problem: &Problem, slots: &Slots, mapper: &str, most: usize, group: Grouping) -> Result<Vec<usize>> {
    let Some(levels) = Levels::new(problem.topology, slots) else {
        return Err(Error::new(format!("the mapper `{mapper}` needs a tree whose costs fall towards the PUs"))
            .remedy("take the mapper `best` or `exact` for arbitrary distances"));
    };
    if slots.len() > most {
        return Err(Error::new(format!("the mapper `{mapper}` is for up to {most} PUs, not {}", slots.len()))
            .remedy("take the mapper `best`, which is for any number"));
    }
    let items = order(&Graph::new(problem.weight), &levels, slots.len(), group);
    let mut wished = vec![0; slots.tasks()];
    for (slot, item) in items.into_iter().enumerate().filter(|&(_, item)| item < slots.tasks()) {
        wished[item] = slot;
    }
    Ok(nearest_to(problem.topology, slots, &wished))
}

/// The items (tasks, then empty slots) in the order of the slots.
fn order(graph: &Graph, levels: &Levels, slots: usize, group: Grouping) -> Vec<usize> {
    let mut affinity = Affinity::new(graph, slots);
    // The parts of the level at hand: what shape they have, and the items that fill one of that shape.
    let mut parts: Vec<Range<usize>> = (0..slots).map(|slot| slot..slot + 1).collect();
    let mut shapes = vec![0; slots];
    let mut contents: Vec<Vec<usize>> = (0..slots).map(|item| vec![item]).collect();
    let mut content_shapes = vec![0; slots];
    for level in (0..levels.depth()).rev() {
        let whole = std::iter::once(0..slots).collect();
        let above = level.checked_sub(1).map_or(&whole, |above| &levels.groups[above]);
        let places: Vec<Range<usize>> = above.iter().map(|parent| places(parent, &parts)).collect();
        let chosen = choose(&affinity, &shapes, &content_shapes, &places, group);
        affinity = affinity.merged(&chosen);
        let join = |members: &Vec<usize>| members.iter().flat_map(|&member| contents[member].clone()).collect();
        contents = chosen.iter().map(join).collect();
        shapes = numbered(places.iter().map(|places| shapes[places.clone()].to_vec()));
        content_shapes.clone_from(&shapes);
        parts.clone_from(above);
    }
    contents.into_iter().flatten().collect()
}

/// Which of the parts lie in their parent.
fn places(parent: &Range<usize>, parts: &[Range<usize>]) -> Range<usize> {
    parts.partition_point(|part| part.start < parent.start)..parts.partition_point(|part| part.end <= parent.end)
}

/// For every parent its contents, one for each of its places and of the place's shape.
fn choose(
    affinity: &Affinity,
    shapes: &[usize],
    content_shapes: &[usize],
    parents: &[Range<usize>],
    group: Grouping,
) -> Vec<Vec<usize>> {
    let mut queues: Vec<BTreeMap<usize, Vec<usize>>> = vec![BTreeMap::new(); parents.len()];
    let all: std::collections::BTreeSet<usize> = shapes.iter().copied().collect();
    for shape in all {
        let contents: Vec<usize> = (0..content_shapes.len()).filter(|&at| content_shapes[at] == shape).collect();
        let count = |places: &Range<usize>| shapes[places.clone()].iter().filter(|&&other| other == shape).count();
        let sizes: Vec<usize> = parents.iter().map(count).collect();
        let needing: Vec<usize> = (0..parents.len()).filter(|&parent| sizes[parent] > 0).collect();
        let sizes: Vec<usize> = needing.iter().map(|&parent| sizes[parent]).collect();
        let singles: Vec<Vec<usize>> = contents.iter().map(|&content| vec![content]).collect();
        let groups: Vec<Vec<usize>> = if sizes.iter().all(|&size| size == 1) || sizes.len() == 1 {
            let mut left = contents.iter().copied();
            sizes.iter().map(|&size| left.by_ref().take(size).collect()).collect()
        } else {
            let chosen = group(&affinity.merged(&singles), &sizes);
            chosen.into_iter().map(|members| members.into_iter().map(|at| contents[at]).collect()).collect()
        };
        for (parent, mut members) in needing.into_iter().zip(groups) {
            members.reverse();
            queues[parent].insert(shape, members);
        }
    }
    let fill = |(places, queue): (&Range<usize>, &mut BTreeMap<usize, Vec<usize>>)| {
        let next = |shape: &usize| queue.get_mut(shape).and_then(Vec::pop).expect("a content for every place");
        shapes[places.clone()].iter().map(next).collect()
    };
    parents.iter().zip(&mut queues).map(fill).collect()
}

/// Numbers for descriptions, equal ones for equal.
fn numbered(descriptions: impl Iterator<Item = Vec<usize>>) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let number = |description| {
        let next = numbers.len();
        *numbers.entry(description).or_insert(next)
    };
    descriptions.map(number).collect()
}
