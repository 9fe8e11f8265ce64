//! Matrices of other tools, turned into profiles.

pub mod number;
