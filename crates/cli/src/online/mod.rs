//! Online: detects, maps and moves while programs run. What `run` without a profile, `attach` and `top` have in common.

pub mod args;
pub mod beside;
mod ending;
mod extra;
pub mod following;
mod hints;
mod log;
mod messages;
pub mod node;
mod report;
pub mod screen;
mod session;
mod sources;
pub mod stop;
mod tasks;
mod words;

pub use log::Log;
pub use report::Report;
pub use session::{Session, Snapshot};
pub use words::restored_text;
