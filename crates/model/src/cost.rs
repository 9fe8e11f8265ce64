//! The distance cost J of a mapping.

use crate::{Matrix, Topology};
use std::time::Duration;

/// What the transfer of a cache line over the machine's longest distance takes: some 100 ns between the packages of a
/// server.
pub const FARTHEST_TRANSFER: Duration = Duration::from_nanos(100);
/// What moving a task to another PU costs: its caches fill again. Between some microseconds and more than a thousand,
/// by how much of them the task uses (Li, Ding and Shen, "Quantifying the cost of context switch", ExpCS 2007).
pub const MOVE: Duration = Duration::from_micros(500);

/// J = sum over ordered pairs i != j of `weight[i][j]` * distance(pu(i), pu(j)).
///
/// `placement[task]` is an index into [`Topology::pus`], not an OS index. The sum is exact: entries near `u64::MAX`
/// times distances do not overflow `u128` for fewer than 2^32 entries and distances below 2^32.
///
/// # Panics
/// If `placement` does not have one entry a task, or names a PU the topology lacks.
pub fn distance_cost(weight: &Matrix, topology: &Topology, placement: &[usize]) -> u128 {
    assert_eq!(placement.len(), weight.tasks(), "one PU for every task");
    let pair = |(source, destination, value): (u32, u32, u64)| {
        let distance = topology.distance(placement[source as usize], placement[destination as usize]);
        if source == destination { 0 } else { u128::from(value) * u128::from(distance) }
    };
    weight.iter().map(pair).sum()
}

/// What J stands for of the tasks' time, all tasks together: a unit of it is a line that comes over a unit of distance,
/// where the longest takes [`FARTHEST_TRANSFER`]. `lines` is how many lines a unit of weight is. 0 where no PU is away
/// from another.
pub fn seconds_of_distance(topology: &Topology, lines: f64) -> f64 {
    match topology.farthest() {
        0 => 0.0,
        farthest => FARTHEST_TRANSFER.as_secs_f64() * lines / farthest as f64,
    }
}
