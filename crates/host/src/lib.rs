//! What is asked of the machine under a program: where our parts are installed ([`install`]), signals that are passed
//! on ([`signals`]), names for addresses ([`symbols`]), what perf_event_open(2) gives ([`perf_event`]), which
//! events of PMUs sample memory ([`memory_events`]), pages that are shared with programs ([`page`]), affinities
//! ([`affinity`]) and cpusets ([`cpuset`]).

pub mod affinity;
pub mod cpuset;
pub mod install;
pub mod memory_events;
pub mod page;
pub mod perf_event;
pub mod signals;
pub mod symbols;

pub use affinity::{Allowed, CpuMask, pu_allowed};
