//! Pictures: what a profile or a machine looks like, in the terminal.

pub mod heatmap;
pub mod palette;
pub mod text;
