//! A machine that is not at hand: caches, coherence, TLBs and NUMA memory, driven by a recording.
//!
//! [`simulate`] takes a [`cohabit_access::Recording`], a [`Machine`] and a mapping, and says what each task would have
//! met there ([`Report`]). It shares no code with the estimators. docs/simulator.md says what is modelled and what is
//! not.

mod balancing;
mod cache;
mod classify;
pub mod clock;
mod coherence;
mod core;
mod engine;
mod exchange;
mod fabric;
mod hash;
mod lines;
pub mod machine;
mod order;
mod pages;
mod queue;
mod replacement;
pub mod report;
pub mod sample;
mod scheduler;
pub mod series;
mod shadow;
mod task;
mod tlb;
mod waiting;
mod walk;

pub use engine::{Observer, Options, Unobserved, simulate, simulate_observed};
pub use exchange::Exchange;
pub use machine::Machine;
pub use pages::Placement;
pub use report::Report;
