//! The tree level by level with METIS: a partition into the subtrees of the root, then each part into the subtrees
//! below, and so on (Karypis, Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs",
//! 1998).
//!
//! Parts are made by METIS's recursive bisection with the least imbalance it takes. It may still overfill a part; what
//! is too many goes to where it costs least.

#[cfg(feature = "metis")]
mod library;

use crate::{Mapper, Problem};
use cohabit_model::Result;

/// The mapper `metis`.
pub struct Metis;

impl Mapper for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }

    fn about(&self) -> &'static str {
        "graph partitioning level by level with the METIS library"
    }

    fn source(&self) -> &'static str {
        "Karypis and Kumar, SIAM J. Sci. Comput. 1998; libmetis"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("the library's own objective is the weight that is cut")
    }

    #[cfg(feature = "metis")]
    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        use crate::{graph::Graph, levels::Levels, load::settled, slots::Slots};
        use cohabit_model::Error;
        let slots = Slots::new(problem)?;
        let Some(levels) = Levels::new(problem.topology, &slots) else {
            return Err(Error::new("the mapper `metis` needs a tree whose costs fall towards the PUs")
                .remedy("take the mapper `best` or `exact` for arbitrary distances"));
        };
        settled(problem, &slots, &partitioned(problem, &slots, &Graph::new(problem.weight), &levels)?)
    }

    #[cfg(not(feature = "metis"))]
    fn map(&self, _: &Problem) -> Result<Vec<usize>> {
        Err(cohabit_model::Error::new("this build has no mapper `metis`: it was built without libmetis")
            .remedy("install libmetis-dev and build with the feature `metis`, or take another mapper"))
    }
}

/// The slot of each task by METIS's parts; what would be one to several, one to each, near it.
///
/// # Errors
/// What the library refused.
#[cfg(feature = "metis")]
pub fn partitioned(
    problem: &Problem,
    slots: &crate::slots::Slots,
    graph: &crate::graph::Graph,
    levels: &crate::levels::Levels,
) -> Result<Vec<usize>> {
    let mut wished = vec![0; slots.tasks()];
    // Subtrees to do: the level they are split at, their slots and tasks.
    let mut todo = vec![(0, 0..slots.len(), (0..slots.tasks()).collect::<Vec<usize>>())];
    while let Some((level, range, tasks)) = todo.pop() {
        // Below the last level but one all slots are equally far from each other.
        if level + 1 >= levels.depth() || tasks.len() <= 1 {
            tasks.iter().enumerate().for_each(|(at, &task)| wished[task] = range.start + at % range.len());
            continue;
        }
        let groups = &levels.groups[level];
        let first = groups.partition_point(|group| group.end <= range.start);
        let last = groups.partition_point(|group| group.start < range.end);
        let children = &groups[first..last];
        let sizes: Vec<usize> = children.iter().map(ExactSizeIterator::len).collect();
        let mut parts = vec![0; tasks.len()];
        if sizes.len() > 1 {
            parts = library::partition(graph, &tasks, &sizes, problem.options.seed)?;
            relieve(graph, &tasks, &sizes, &mut parts);
        }
        let mut members = vec![Vec::new(); children.len()];
        tasks.iter().zip(parts).for_each(|(&task, part)| members[part].push(task));
        todo.extend(children.iter().cloned().zip(members).map(|(range, tasks)| (level + 1, range, tasks)));
    }
    Ok(crate::partial_mapping::nearest_to(problem.topology, slots, &wished))
}

/// Moves what is too many in a part to parts with room, where that adds least to the cut.
#[cfg(feature = "metis")]
fn relieve(graph: &crate::graph::Graph, tasks: &[usize], sizes: &[usize], parts: &mut [usize]) {
    let mut room: Vec<isize> = sizes.iter().map(|&size| size as isize).collect();
    parts.iter().for_each(|&part| room[part] -= 1);
    let mut part_of = std::collections::HashMap::new();
    if room.iter().any(|&room| room < 0) {
        part_of.extend(tasks.iter().copied().zip(parts.iter().copied()));
    }
    while let Some(from) = room.iter().position(|&room| room < 0) {
        let mut best = None;
        for (at, &task) in tasks.iter().enumerate().filter(|&(at, _)| parts[at] == from) {
            let mut pull = vec![0_i128; sizes.len()];
            for (other, weight) in graph.row(task) {
                if let Some(&part) = part_of.get(&other) {
                    pull[part] += i128::from(weight);
                }
            }
            for to in (0..sizes.len()).filter(|&to| room[to] > 0) {
                best = best.max(Some((pull[to] - pull[from], std::cmp::Reverse((at, to)))));
            }
        }
        let Some((_, std::cmp::Reverse((at, to)))) = best else { break };
        parts[at] = to;
        part_of.insert(tasks[at], to);
        room[from] += 1;
        room[to] -= 1;
    }
}
