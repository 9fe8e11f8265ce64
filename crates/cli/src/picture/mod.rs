//! Pictures: what a person looks at in the terminal or a browser.

mod label;
mod runs;
mod topology_svg;
mod topology_text;

pub use topology_svg::topology_svg;
pub use topology_text::topology_text;
