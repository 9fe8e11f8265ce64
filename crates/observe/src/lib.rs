//! Who talks to whom: sources of events (a file or folder each) and the detectors that turn them into a profile.

pub mod allowance;
pub mod begin;
pub mod dbi;
pub mod faults;
pub mod hybrid;
pub mod import;
pub mod measure;
pub mod mpi;
pub mod npz;
pub mod perf_event;
mod recording;
pub mod sampling;
pub mod series;
pub mod stream;
pub mod watch;
pub mod weigh;
