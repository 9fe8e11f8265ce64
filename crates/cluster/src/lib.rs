//! When tasks communicate: clusters of a profile's time series (DeLoc, section II-C), windows that come again, those
//! that begin at call sites of MPI, and the phases that a program names, each with a matrix. Plain data in and out; it imports nouns only.

pub mod calls;
pub mod kmeans;
mod noise;
mod optimum;
pub mod periods;
pub mod recurring;
pub mod windows;

pub use kmeans::{Clustering, Options, Run, clusters};
pub use windows::Windows;
