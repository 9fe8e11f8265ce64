//! Puts tasks on their PUs.
//!
//! [`launch()`] starts an unmodified program with each thread on its PU before the thread's first instruction; it
//! changes the affinity of the launched threads and nothing else.
//! [`export`] writes a mapping for launchers, as a file. [`usage`] says what a program took.

pub mod export;
pub mod launch;
pub mod memory;
pub mod ranks;
mod room;
pub mod usage;

pub use export::svg::topology_svg;
pub use export::{EXPORTERS, Exporter, Placement, exporter};
pub use launch::phases::{Conductor, PhaseReport, PhaseSeat, PhasesReport};
pub use launch::plan::{Identify, LaunchPlan, Pinning, PlannedTask};
pub use launch::{
    BeforeStart, MapAgain, Method, Options, Outcome, PlacedReport, Refusal, Repinned, Status, UnknownThread, launch,
};
