//! Programs watched while they run, and moved (CDSM; METHOD.md).
//!
//! `faults` watches programs: in the kernel through eBPF (`native/bpf`) or by perf events, with the same detector in
//! both languages (`faults::table`), sees what processes copy from one another, and takes the registers of tasks where
//! a timer interrupts them. `sampling` makes accesses and events of these, `watch` sets watchpoints, `allowance` holds
//! what is done to a share of the programs' time. `ways` has a row for each way of looking, by which it is asked for. All
//! that shows anything shows `evidence`, of which `weigh` makes one count; `sure` says how sure that is.
//!
//! `policy` decides when to move and whether it is worth it (CDSM, sections 3 and 4), on `aging`, `change`, `gain`,
//! `progress` and `interval`; all of these are pure. `placer` sets affinities, `settings` changes settings of the
//! machine (`setting` names them), and both write down first in the `ledger` what is to be put back; `inherited` finds
//! threads that have a PU from one that was moved.
//!
//! `perf_script` reads memory samples that perf(1) has taken.

pub mod aging;
pub mod allowance;
mod change;
pub mod debugfs;
pub mod evidence;
pub mod faults;
pub mod gain;
pub mod inherited;
pub mod interval;
pub mod ledger;
pub mod perf_script;
pub mod placer;
pub mod policy;
#[cfg(test)]
mod policy_tests;
pub mod progress;
pub mod recognise;
pub mod sampling;
pub mod setting;
pub mod settings;
pub mod sure;
pub mod threads;
pub mod watch;
pub mod ways;
pub mod weigh;
