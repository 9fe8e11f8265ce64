//! Recording what the tasks of a program do, for the simulator and for every detector that takes accesses.
//!
//! The client leaves a file for each program image (`native/recording_abi.h`); `image` reads it, and `collect` makes
//! one recording of them (`cohabit_access::file`).

#[allow(missing_docs, non_camel_case_types, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[rustfmt::skip]
pub(crate) mod abi;
mod collect;
mod image;
mod kept;
mod mpi_code;

pub(crate) use collect::{Parts, collect};
