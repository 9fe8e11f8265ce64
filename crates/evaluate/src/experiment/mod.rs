//! The papers' experiments, done again in simulation: what is run, and what came out.
//!
//! A file of parameters (testdata/experiments, every value with its source) names programs, machines, ways to place
//! tasks (*arms*) and the paper's statements. It comes to *cells*: a program on a machine, its caches scaled or not,
//! under one arm, one draw. What cells found is joined to [`Results`], by which [`judge`] says of each statement
//! whether it came out.
//!
//! Nothing here runs a program, simulates or reads a file: `cli/src/experiment` does.

pub mod cells;
pub mod claims;
pub mod file;
pub mod pattern;
pub mod ranked;
pub mod results;
pub mod suite;
pub mod system;

pub use cells::{Cell, DETECTION, Part, cells};
pub use claims::{Judged, Verdict, judge};
pub use file::{Arm, By, EXPERIMENTS, Experiment, Take};
pub use results::{MEASURES, Results, Summary};
