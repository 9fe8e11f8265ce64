//! The nouns every stage shares: what was observed ([`profile`]), what the machine looks like ([`topology`]), where
//! tasks should run ([`mapping`]) and what that costs ([`cost`]).
//!
//! Plain data: nothing here starts a process, reads a clock or prints.

pub mod calls;
pub mod command;
pub mod cost;
pub mod count;
pub mod data;
pub mod error;
pub mod file;
pub mod hct;
pub mod latitude;
pub mod launcher;
pub mod mapping;
pub mod mapping_file;
pub mod matrix;
pub mod metrics;
pub mod pattern;
pub mod private;
pub mod profile;
pub mod series;
pub mod timeline;
pub mod topology;
pub mod trace;

pub use count::counted;
pub use error::{Error, Result};
pub use hct::Hct;
pub use mapping::Mapping;
pub use matrix::Matrix;
pub use pattern::Pattern;
pub use profile::{Profile, Task};
pub use timeline::{Period, Timeline};
pub use topology::Topology;
pub use trace::Trace;
