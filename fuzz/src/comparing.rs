//! The files of `cohabit compare` that have to do with what it keeps.
#![allow(dead_code)]

#[path = "../../crates/cli/src/comparing/arms.rs"]
pub mod arms;
#[path = "../../crates/cli/src/comparing/results.rs"]
pub mod results;
