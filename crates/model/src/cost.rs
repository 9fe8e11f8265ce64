//! The distance cost J of a mapping.

use crate::{Matrix, Topology};

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
