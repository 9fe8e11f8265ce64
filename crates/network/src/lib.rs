//! What messages take on a network: the IBM report's cost estimator ([`estimator`]), what the order of messages adds to
//! that ([`queues`]), a run done over again from its trace ([`replay`]), and what a whole run is estimated to take
//! ([`run`](mod@run)).
//!
//! Pure: nothing here starts a process, reads a clock or prints.

pub mod estimator;
pub mod queues;
pub mod replay;
pub mod run;
mod tcp;

pub use estimator::{Estimate, Total, estimate};
pub use replay::Replay;
pub use run::{Phase, Run, Traffic, run};
