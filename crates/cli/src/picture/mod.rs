//! Pictures: what a profile or a machine looks like, in the terminal and as SVG.

pub mod heatmap;
pub mod label;
pub mod palette;
mod runs;
pub mod text;
mod topology_svg;
mod topology_text;

pub use topology_svg::topology_svg;
pub use topology_text::topology_text;
