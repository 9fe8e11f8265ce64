//! Who communicates: programs run under the profiler, MPI ranks with our library, and what messages take, measured.

pub mod begin;
pub mod dbi;
pub mod hybrid;
pub mod measure;
pub mod mpi;
mod recording;
pub mod stream;
