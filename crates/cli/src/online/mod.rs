//! Online: detects, maps and moves while programs run. What `run` without a profile, `attach` and `top` have in common.

pub mod args;
mod log;
pub mod screen;
mod session;
pub mod stop;
mod tasks;

pub use log::Log;
pub use session::{Report, Session, Snapshot, restored_text};
