//! Puts tasks on their PUs.
//!
//! [`launch()`] starts an unmodified program with each thread on its PU before the thread's first instruction; it changes
//! the affinity of the launched threads and nothing else. [`online`] moves threads that run, and puts back what it changes.
//! [`export`] writes a mapping for launchers, as a file.

pub mod affinity;
pub mod export;
pub mod launch;
pub mod online;
pub mod ranks;

pub use affinity::{CpuMask, pu_allowed};
pub use export::svg::topology_svg;
pub use export::{EXPORTERS, Exporter, Placement, exporter};
pub use launch::plan::{Identify, LaunchPlan, Pinning, PlannedTask};
pub use launch::{
    BeforeStart, MapAnew, Method, Options, Outcome, PlacedReport, Refusal, Repinned, Status, UnknownThread, launch,
};
