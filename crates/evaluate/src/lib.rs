//! What a mapping is worth.
//!
//! `hct` is the hardware communication topology of the IBM report (section 3.1), `pattern` the application communication
//! pattern (3.2), `estimator` the cost estimator (section 5, Figure 4) with what docs/estimator.md changes in it.

pub mod estimator;
pub mod hct;
pub mod pattern;

pub use estimator::{Estimate, estimate, estimate_phases, predicted_gain};
pub use hct::{Bandwidth, Hct, Port};
pub use pattern::{Messages, Pattern};
