//! What can be asked of an online session.

use crate::number;
use cohabit_online::allowance::OVERHEAD_PERCENT;
use cohabit_online::evidence::Kind;
use std::path::PathBuf;
use std::time::Duration;

/// How to detect, and whether to move.
#[derive(clap::Args, Debug, Clone)]
pub struct OnlineArgs {
    /// Move whenever a mapping saves more than chance may, and do not undo what hurts (for experiments)
    #[arg(long)]
    pub always: bool,
    /// Say what would be moved, and move nothing
    #[arg(long, conflicts_with = "always")]
    pub dry_run: bool,
    /// Write what was seen to P as a profile
    #[arg(short, long, value_name = "P")]
    pub output: Option<PathBuf>,
    /// Bytes of memory in which two faults count as communication: a power of two from 16 to 2097152
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = block_bytes)]
    pub block: u32,
    /// Width of a bin of the profile's time series
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = number::duration)]
    pub window: Duration,
    /// What shows who shares memory, besides the program's own page faults
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = ExtraFaults::Auto)]
    pub faults: ExtraFaults,
    /// How much of the programs' CPU time detection may take, in percent, its start apart; 1 if not given
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub overhead: Option<f64>,
    /// Of the pages in use, how many extra faults a second the agent may cause, in percent; up to 500 for each task are
    /// allowed however little is in use, and all of it within --overhead
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub fault_budget: f64,
    /// Leave kinds of evidence out (for experiments: what each of them contributes)
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',', hide = true)]
    pub without: Vec<LeftOut>,
    /// End the observation, as Ctrl-C does, as soon as it is known of every pair of tasks whether it communicates
    #[arg(long)]
    pub until_sure: bool,
}

/// `--faults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExtraFaults {
    /// What works here
    Auto,
    /// Those of the kernel's NUMA balancing (root)
    Hint,
    /// Those that the preloaded agent makes possible: writes (run only)
    Agent,
    /// Samples: what tasks are about to read or write whenever a timer interrupts them; no extra faults
    Sample,
    /// Watchpoints: reads and writes, in the processor's debug registers; no extra faults
    Watch,
    /// Messages of MPI ranks, counted by a library in them; no extra faults (run only)
    Messages,
    /// None: the program's own faults only
    None,
}

/// `--without`: a kind of evidence by its name, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LeftOut {
    /// Hint faults and first touches
    Used,
    /// The agent's write protection
    Written,
    /// Watchpoints
    Watched,
    /// Samples as events; they still say where to watch
    Sampled,
    /// Of samples, those after switches
    Switches,
}

impl OnlineArgs {
    /// How much detection may take, in percent.
    pub fn overhead(&self) -> f64 {
        self.overhead.unwrap_or(OVERHEAD_PERCENT)
    }

    /// Whether something is not left out.
    pub fn has(&self, kind: LeftOut) -> bool {
        !self.without.contains(&kind)
    }

    /// Whether evidence of a kind counts.
    pub fn counts(&self, kind: Kind) -> bool {
        match kind {
            Kind::Used => self.has(LeftOut::Used),
            Kind::Written => self.has(LeftOut::Written),
            Kind::Watched => self.has(LeftOut::Watched),
            Kind::Sampled | Kind::Met => self.has(LeftOut::Sampled),
            Kind::Passed => true,
        }
    }
}

fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two() && (16..=1 << 21).contains(bytes));
    bytes.ok_or_else(|| "write a power of two from 16 to 2097152".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a number from 0 to 100".to_owned())
}
