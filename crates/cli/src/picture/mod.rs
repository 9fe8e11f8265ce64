//! Pictures: what a profile or a machine looks like, in the terminal; the machine as SVG is cohabit_apply's.

pub mod events;
pub mod heatmap;
pub mod palette;
pub mod text;
mod topology_text;

pub use cohabit_model::topology::label;
pub use topology_text::topology_text;
