//! In which order the tasks of a heat map stand: by where they are placed, or those that communicate side by side.

use super::matrix::Order;
use cohabit_map::{Options, Problem, mapper};
use cohabit_model::{Mapping, Matrix, Result, Topology};

/// Levels of the tree that tasks are laid out in, from the leaves up.
const LEVELS: [&str; 6] = ["pu", "core", "l2", "l3", "pack", "group"];

/// The tasks as their PUs stand in the machine; groups are the parts of the outermost level that has several.
pub fn by_placement(mapping: &Mapping, topology: &Topology) -> Order {
    let pu = |task: usize| {
        let placed = &mapping.tasks[task];
        topology.pu_on(&placed.host, placed.pu).unwrap_or(usize::MAX)
    };
    let mut tasks: Vec<u32> = (0..mapping.tasks.len() as u32).collect();
    tasks.sort_by_key(|&task| pu(task as usize));
    let mut node = 0;
    while topology.nodes[node].children.len() == 1 {
        node = topology.nodes[node].children[0];
    }
    let parts = &topology.nodes[node].children;
    let part = |task: u32| parts.iter().position(|&part| topology.nodes[part].pus.contains(&pu(task as usize)));
    // Lines around every PU would part nothing.
    let are_pus = parts.iter().all(|&part| topology.nodes[part].pus.len() == 1);
    let new_part = |&row: &usize| !are_pus && part(tasks[row - 1]) != part(tasks[row]);
    let groups = (1..tasks.len()).filter(new_part).collect();
    Order { tasks, groups, name: "by placement" }
}

/// The tasks as they lie side by side in a binary tree of just enough leaves, to which `best` maps them.
///
/// # Errors
/// As the mapper.
pub fn by_cluster(matrix: &Matrix) -> Result<Order> {
    let tasks = matrix.tasks();
    let bits = tasks.max(2).next_power_of_two().trailing_zeros() as usize;
    let levels = bits.min(LEVELS.len());
    // Where there are more bits than levels, the outer levels have several.
    let bits_of = |level: usize| bits / levels + usize::from(level >= levels - bits % levels);
    let words = (0..levels).rev().map(|level| format!("{}:{}", LEVELS[level], 1_usize << bits_of(level)));
    let costs: Vec<u64> = (0..levels).rev().map(|level| 1 << (2 * level)).collect();
    let topology = Topology::load(&words.collect::<Vec<_>>().join(" "))?.with_level_costs(&costs)?;
    let options = Options { steps: Some(20_000), ..Options::default() };
    let placement = mapper("best")?.map(&Problem {
        weight: matrix,
        load: &[],
        periods: &[],
        topology: &topology,
        options: &options,
    })?;
    let mut tasks: Vec<u32> = (0..tasks as u32).collect();
    tasks.sort_by_key(|&task| placement[task as usize]);
    Ok(Order { tasks, groups: Vec::new(), name: "by cluster" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::mapping::Placed;
    use cohabit_model::profile::{Task, TaskKind};

    #[test]
    fn tasks_that_communicate_stand_side_by_side() {
        for tasks in [1, 2, 8, 12, 200] {
            // Task i has to do with the one that is half of all tasks further on.
            let half = tasks / 2;
            let matrix = Matrix::from_triplets(tasks as usize, (0..half).map(|task| (task, task + half, 100)));
            let order = by_cluster(&matrix).unwrap();
            let mut all = order.tasks.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..tasks), "every task once");
            let row = |task: u32| order.tasks.iter().position(|&found| found == task).unwrap();
            assert!((0..half).all(|task| row(task).abs_diff(row(task + half)) == 1), "{tasks}: {:?}", order.tasks);
        }
    }

    #[test]
    fn packages_part_a_placement() {
        let topology = Topology::load("pack:2 core:2 pu:1").unwrap();
        let mut mapping = serde_json::from_value::<Mapping>(serde_json::json!({
            "format": 1, "mapper": "best", "seed": 0, "weight": "messages", "objective": "distance", "level_costs": [],
            "topology": "", "tasks": [], "cost": {"distance": 0},
        }))
        .unwrap();
        let placed = |(id, pu)| Placed::new(&Task::new(id, TaskKind::Thread, ""), pu);
        mapping.tasks = [(0, 3), (1, 0), (2, 2)].map(placed).into();
        let order = by_placement(&mapping, &topology);
        assert_eq!((order.tasks, order.groups), (vec![1, 2, 0], vec![1]));
        let order = by_placement(&mapping, &Topology::load("pu:4").unwrap());
        assert_eq!((order.tasks, order.groups), (vec![1, 2, 0], vec![]));
    }
}
