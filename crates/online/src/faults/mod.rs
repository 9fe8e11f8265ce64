//! Online detection from page faults (CDSM, sections 2 to 4): who of the followed tasks touches the memory that another
//! has touched, while the program runs.
//!
//! `bpf` is the source for root: the detector in the kernel (`native/bpf`). `perf` is the one for everybody, with the
//! same detector in Rust (`table`). Beside either, `pmu` has a PMU sample accesses. `agent` makes programs fault again that preload `native/agent`, as far as `budget`
//! allows and where `sample` says. `mappings` finds the memory that processes share.

#[allow(missing_docs, non_camel_case_types, dead_code, clippy::all)]
#[rustfmt::skip]
pub(crate) mod abi;
mod agent;
mod bpf;
mod budget;
mod follow;
mod kernel;
pub mod mappings;
mod object;
mod perf;
mod pmu;
mod progress;
mod ranks;
mod record;
mod ring;
mod sample;
pub mod table;
#[cfg(test)]
mod tests;

pub use agent::{Agent, EVERY as ARM_EVERY, kernel_check as agent_kernel_check};
pub use bpf::BpfFaults;
pub use budget::{HintBudget, LEAST_A_TASK, Others, PageAllowance, PageBudget, Watched};
pub use follow::check_process;
pub use object::{OBJECT, copies_check, load_check};
pub use perf::PerfFaults;
pub use pmu::check as pmu_check;
pub use progress::ProgressPage;
pub use record::Recorder;

use crate::evidence::Evidence;
use crate::sampling::{Sighting, Sums};
use cohabit_host::memory_events::MemoryEvents;
use std::collections::BTreeSet;

/// How faults are turned into events. CDSM's Table 1 has the defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Bytes of a block: a power of two from 16 to 2 MiB.
    pub block_bytes: u32,
    /// Blocks that are remembered; rounded up to a power of two.
    pub blocks: u32,
    /// Pairs of tasks that can be counted between two readings, which cost in proportion.
    pub pairs: u32,
    /// Whether tasks are sampled too, and of what they run, how many percent detection may take.
    pub sampling: Option<f64>,
    /// By which PMU's events their accesses are sampled as well, if any are.
    pub measuring: Option<Measuring>,
}

/// Events of PMUs by which accesses are sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Measuring {
    /// Which.
    pub events: MemoryEvents,
    /// Of what tasks run, how many percent they may take.
    pub percent: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { block_bytes: 256, blocks: 1 << 20, pairs: 1 << 15, sampling: None, measuring: None }
    }
}

/// What became of the faults since the source was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Page faults of followed tasks.
    pub faults: u64,
    /// Those that fetched code, which is not counted.
    pub code: u64,
    /// Those on memory that cannot be shared: of a process with one thread, in no shared mapping.
    pub private: u64,
    /// Communication events: pairs credited.
    pub events: u64,
    /// Blocks seen for the first time, or again after they were pushed out.
    pub new_blocks: u64,
    /// Blocks pushed out of the table.
    pub evictions: u64,
    /// Events lost: the matrix was full, a block was fought over, or the source could not keep up.
    pub events_lost: u64,
    /// Tasks that could not be followed, or whose end was not seen.
    pub tasks_lost: u64,
    /// Tasks that are followed, and not sampled though the source samples; what they start neither.
    pub tasks_not_sampled: u64,
    /// Those whose accesses no PMU samples though that was asked for; of what they start none either.
    pub tasks_without_pmu: u64,
    /// Bytes that tasks copied from or to other processes, where that can be seen.
    pub copied: Option<u64>,
    /// What samples of tasks have shown; the events are among `events`.
    pub sampled: Sums,
}

/// Something that happened to a task. Tasks are numbered from 0 in the order in which they are first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEvent {
    /// It is followed from now on.
    Started {
        /// Its number.
        task: u32,
        /// Thread id.
        tid: i32,
        /// Process id.
        process: i32,
        /// The task that created it; none where it was there when following began.
        parent: Option<u32>,
    },
    /// It has ended.
    Ended {
        /// Its number.
        task: u32,
    },
    /// Its process runs another program now; the other threads have ended.
    Exec {
        /// Its number.
        task: u32,
        /// Its thread id from now on: the process id.
        tid: i32,
    },
}

/// What a source has seen since it was last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Tasks that came and went, in that order.
    pub tasks: Vec<TaskEvent>,
    /// What was seen of two tasks; a pair may be there more than once.
    pub seen: Vec<Evidence>,
    /// Since the source was started.
    pub counters: Counters,
}

/// A source of faults that follows tasks.
pub trait Source {
    /// What it is, for the user: a few words.
    fn name(&self) -> &'static str;

    /// Whether it samples tasks by a timer, too.
    fn samples(&self) -> bool;

    /// Follows all threads of a process, and all that they start from now on.
    ///
    /// # Errors
    /// Where the process is gone, or is not this user's.
    fn follow(&mut self, process: i32) -> cohabit_model::Result<()>;

    /// What was seen since the last call; `now` is since following began. Without `with_pairs`, which costs more, who
    /// came and went at least.
    ///
    /// # Errors
    /// Where the source has broken down.
    fn read(&mut self, now: std::time::Duration, with_pairs: bool) -> cohabit_model::Result<Reading>;

    /// Waits for tasks to come or go, and this long at most.
    fn wait(&self, at_most: std::time::Duration);

    /// Looks again at what the processes share; to be called a few times a second.
    ///
    /// # Errors
    /// Where the source has broken down.
    fn refresh(&mut self) -> cohabit_model::Result<()>;

    /// Samples tasks shortly after switches to them, too, or no longer; whether it does.
    ///
    /// # Errors
    /// Where the kernel does not take it.
    fn sample_switches(&mut self, wanted: bool) -> cohabit_model::Result<bool>;

    /// Sees from now on what processes copy from and to one another's memory, too (process_vm_readv(2)).
    ///
    /// # Errors
    /// Where the source cannot, or the kernel refuses it; the rest goes on.
    fn see_copies(&mut self) -> cohabit_model::Result<()>;

    /// Where tasks were seen by samples since the last call: the latest ones.
    fn take_sightings(&mut self) -> Vec<Sighting>;

    /// Tasks communicate otherwise than before: samples taken until now tell nothing any more.
    fn forget_samples(&mut self);
}

/// The tasks that have ended.
fn ended(events: &[TaskEvent]) -> BTreeSet<u32> {
    let ended = |event: &TaskEvent| if let TaskEvent::Ended { task } = event { Some(*task) } else { None };
    events.iter().filter_map(ended).collect()
}
