//! The calls of libmetis 5 that the mapper needs (METIS 5.1 manual, chapter 5).

use crate::graph::{Graph, scaled};
use cohabit_model::{Error, Result};
use std::ffi::c_int;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// `idx_t` of Debian's library, which has IDXTYPEWIDTH 32.
type Index = i32;

// SAFETY: as metis.h of METIS 5.1 declares them, with its 32-bit `idx_t` and `real_t`.
unsafe extern "C" {
    fn METIS_SetDefaultOptions(options: *mut Index) -> c_int;
    fn METIS_PartGraphRecursive(
        vertices: *mut Index,
        constraints: *mut Index,
        starts: *mut Index,
        neighbours: *mut Index,
        vertex_weights: *mut Index,
        vertex_sizes: *mut Index,
        weights: *mut Index,
        parts: *mut Index,
        shares: *mut f32,
        imbalance: *mut f32,
        options: *mut Index,
        cut: *mut Index,
        part: *mut Index,
    ) -> c_int;
}

/// METIS_NOPTIONS, METIS_OK and the places of two options in their array.
const OPTIONS: usize = 40;
const OK: c_int = 1;
const SEED: usize = 8;

/// Parts the given tasks into sets of the given sizes: for each task its part.
///
/// # Errors
/// What the library refused.
pub fn partition(graph: &Graph, tasks: &[usize], sizes: &[usize], seed: u64) -> Result<Vec<usize>> {
    // METIS keeps its random numbers and its error handling in variables of the whole process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if sizes.len() > 2 && tasks.len() < FEW * sizes.len() {
        return in_halves(graph, tasks, sizes, seed);
    }
    let (mut starts, mut neighbours, mut weights) = arrays(graph, tasks)?;
    let mut part = vec![0; tasks.len()];
    if neighbours.is_empty() {
        return Ok(dealt(tasks.len(), sizes));
    }
    let total: usize = sizes.iter().sum();
    let mut shares: Vec<f32> = sizes.iter().map(|&size| size as f32 / total as f32).collect();
    let mut options = [0; OPTIONS];
    let (mut vertices, mut constraints, mut parts) = (tasks.len() as Index, 1, sizes.len() as Index);
    let mut imbalance = 1.001;
    let mut cut = 0;
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: every array has the length that the manual asks for, and outlives the call.
    let status = unsafe {
        METIS_SetDefaultOptions(options.as_mut_ptr());
        options[SEED] = (seed & 0x7fff_ffff) as Index;
        METIS_PartGraphRecursive(
            &mut vertices,
            &mut constraints,
            starts.as_mut_ptr(),
            neighbours.as_mut_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            weights.as_mut_ptr(),
            &mut parts,
            shares.as_mut_ptr(),
            &mut imbalance,
            options.as_mut_ptr(),
            &mut cut,
            part.as_mut_ptr(),
        )
    };
    if status != OK {
        return Err(failed(&format!("it returned {status}")));
    }
    Ok(part.into_iter().map(|part| part as usize).collect())
}

/// Tasks a part below which METIS is asked for two parts at a time: where it divides further itself it may come to a
/// side without any task, and says so on the program's standard output.
const FEW: usize = 4;

/// What METIS does itself for more than two parts, half of the parts at a time.
fn in_halves(graph: &Graph, tasks: &[usize], sizes: &[usize], seed: u64) -> Result<Vec<usize>> {
    let (left, right) = sizes.split_at(sizes.len() / 2);
    let sides = partition(graph, tasks, &[left.iter().sum(), right.iter().sum()], seed)?;
    let mut parts = vec![0; tasks.len()];
    for (side, sizes) in [left, right].into_iter().enumerate() {
        let places: Vec<usize> = (0..tasks.len()).filter(|&at| sides[at] == side).collect();
        let members: Vec<usize> = places.iter().map(|&at| tasks[at]).collect();
        let within = if sizes.len() > 1 { partition(graph, &members, sizes, seed)? } else { vec![0; places.len()] };
        places.iter().zip(within).for_each(|(&at, part)| parts[at] = side * left.len() + part);
    }
    Ok(parts)
}

/// The graph between the given tasks.
fn arrays(graph: &Graph, tasks: &[usize]) -> Result<(Vec<Index>, Vec<Index>, Vec<Index>)> {
    if graph.pairs() > (1 << 29) {
        return Err(failed("the graph is too large for its 32-bit numbers"));
    }
    let shift = graph.shift(1, 29);
    let mut place = vec![Index::MAX; graph.tasks()];
    tasks.iter().enumerate().for_each(|(at, &task)| place[task] = at as Index);
    let (mut starts, mut neighbours, mut weights) = (vec![0], Vec::new(), Vec::new());
    for &task in tasks {
        for (other, weight) in graph.row(task).filter(|&(other, weight)| weight > 0 && place[other] != Index::MAX) {
            neighbours.push(place[other]);
            weights.push(scaled(weight, shift) as Index);
        }
        starts.push(neighbours.len() as Index);
    }
    Ok((starts, neighbours, weights))
}

/// Tasks that do not communicate, part by part in proportion to the sizes.
fn dealt(tasks: usize, sizes: &[usize]) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    let mut ends = sizes.iter().scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    let mut end = ends.next().unwrap_or(total);
    let mut part = 0;
    let of = |task: usize| {
        while task * total / tasks.max(1) >= end {
            part += 1;
            end = ends.next().unwrap_or(usize::MAX);
        }
        part
    };
    (0..tasks).map(of).collect()
}

fn failed(why: &str) -> Error {
    Error::new(format!("METIS cannot map this problem: {why}")).remedy("take the mapper `best`")
}
