//! The PUs that serve a task as well as its own, as mapping files list them (docs/formats.md, `pus`).

use cohabit_host::CpuMask;
use cohabit_model::{Error, Result};

/// The PUs (OS indices) in the list `pus` of a task whose PU is `pu`.
///
/// # Errors
/// It is no list, or lacks the PU.
pub fn listed(task: u32, pu: u32, pus: &str) -> Result<CpuMask> {
    CpuMask::parse(pus).filter(|listed| listed.contains(pu)).ok_or_else(|| {
        let cause = format!("the PUs {pus:?} of task {task} are no list with its PU {pu}");
        Error::new(cause).remedy("make the mapping again from its profile")
    })
}

/// That a task has a PU which is not among those `allowed`.
pub fn not_allowed(task: u32, pu: u32, allowed: &CpuMask) -> Error {
    Error::new(format!(
        "task {task} is to run on PU {pu}, but only PUs {allowed} are allowed here (cpuset, cgroup or taskset)"
    ))
    .remedy("map the profile again here (`cohabit map P --topology live`), or start cohabit with more PUs")
}
