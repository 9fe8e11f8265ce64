//! What a mapping is worth.
//!
//! The hardware communication topology, the application communication pattern, the cost estimator of the IBM report and
//! estimates of whole runs are `cohabit_model`'s, for mappers use them, too (docs/estimator.md). Here is what is said
//! with them of whole runs: `phases` of a profile (3.2; `turns` finds programs that go step by step), and mappings
//! compared (`comparison`; 7.1). `verdict` says whether anything can be gained at all, by the distance cost. Of runs
//! that were measured, `compare` says what differs and `tune` which is best (docs/compare.md).

pub mod compare;
pub mod comparison;
pub mod experiment;
pub mod phases;
pub mod tune;
pub mod turns;
pub mod verdict;

pub use comparison::{Cost, Prediction, advised, cost, largest, mpi_share};
