//! Moving the threads of programs that run (CDSM, sections 3 and 4): when, whether it is worth it, and putting everything
//! back.
//!
//! `policy` decides, on `aging`, `change`, `gain`, `progress` and `interval`; all of these are pure. `placer` sets affinities,
//! `settings` changes settings of the machine (`setting` names them), and both write down first in the `ledger` what is to be put back.

pub mod aging;
mod change;
pub mod gain;
pub mod interval;
pub mod ledger;
pub mod placer;
pub mod policy;
#[cfg(test)]
mod policy_tests;
pub mod progress;
pub mod setting;
pub mod settings;
pub mod threads;
