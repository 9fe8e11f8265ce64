//! Puts tasks on their PUs.
//!
//! [`launch()`] starts an unmodified program with each thread on its PU before the thread's first instruction. What is
//! changed is the affinity of the launched threads and nothing else: no setting of the machine, nothing to put back.

pub mod affinity;
pub mod launch;

pub use affinity::{CpuMask, pu_allowed};
pub use launch::plan::{Identify, LaunchPlan, PlannedTask};
pub use launch::{
    LaunchError, Method, Options, Outcome, PlacedReport, Refusal, Repinned, Status, UnknownThread, launch,
};
