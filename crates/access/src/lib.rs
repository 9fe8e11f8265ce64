//! What tasks do to memory, one after another.
//!
//! A [`Recording`] has a sequence of [`Step`]s for each task, and in them the order among tasks that the program forces
//! ([`Step::Wait`]), no more: the simulator takes them in its own time, detectors in one of the orders that they allow
//! ([`order`]).

mod access;
pub mod check;
mod coding;
mod excerpt;
pub mod file;
mod flow;
mod forced;
pub mod hashing;
pub mod locks;
mod looking;
mod looks;
pub mod order;
pub mod outline;
mod polls;
mod recording;
mod scoreboard;
pub mod segment;
mod sieve;
mod stage;
mod step;
pub mod synthetic;

pub use access::{Access, AccessKind};
pub use excerpt::{Excerpt, Part};
pub use outline::Outline;
pub use recording::{InMemory, Recording, Steps, TaskInfo};
pub use scoreboard::{Dependences, PARTS_OF_A_CYCLE};
pub use sieve::{Sieve, Told};
pub use step::{Reason, Step, StridedAccess};

/// Bytes of memory in which the recorder keeps order, as a shift.
pub(crate) const BLOCK_SHIFT: u32 = 6;
