//! What a program took: time, and what the system and the processor counted of it and of all that it started.
//!
//! Times, switches and faults are the kernel's (getrusage(2), `RUSAGE_CHILDREN`), and so those of processes that were
//! waited for, here; [`events`] are perf events, [`energy`] is the counters of powercap. What is not known here is said
//! with its reason.

mod energy;
mod events;

use cohabit_model::{Error, Result};
use energy::Zones;
use events::Events;
use nix::sys::resource::{Usage as Rusage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// What a program took, all its processes together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// From its start to its end.
    pub wall_s: f64,
    /// CPU time of its own code.
    pub user_s: f64,
    /// CPU time of the kernel on its behalf.
    pub system_s: f64,
    /// How often one of its threads waited.
    pub voluntary_switches: u64,
    /// How often one was made to wait.
    pub involuntary_switches: u64,
    /// Page faults that were answered from memory.
    pub minor_faults: u64,
    /// Page faults that were answered from a disk.
    pub major_faults: u64,
    /// What was counted besides, by name: `migrations`, `instructions` and others.
    #[serde(default)]
    pub counts: BTreeMap<String, f64>,
    /// Energy of the whole machine meanwhile, in joules, by the part of it: `package-0`, `dram-0`.
    #[serde(default)]
    pub energy_j: BTreeMap<String, f64>,
    /// Why something was not counted, by name.
    #[serde(default)]
    pub not_known: BTreeMap<String, String>,
}

impl Usage {
    /// CPU time, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// Measures one program, which is started after this and waited for before [`Meter::stop`]: nothing else may be
/// meanwhile.
#[derive(Debug)]
pub struct Meter {
    events: Events,
    zones: Zones,
    before: Rusage,
    began: Instant,
}

impl Meter {
    /// Begins. What the calling thread starts from now on is counted from its `execve` on.
    ///
    /// # Errors
    /// Where the kernel does not tell what was used.
    pub fn start() -> Result<Self> {
        let (events, zones) = (Events::open(), Zones::read());
        Ok(Self { events, zones, before: of_children()?, began: Instant::now() })
    }

    /// Ends, and says what was used.
    ///
    /// # Errors
    /// As [`Meter::start`].
    pub fn stop(mut self) -> Result<Usage> {
        let wall_s = self.began.elapsed().as_secs_f64();
        let (before, after) = (self.before, of_children()?);
        let seconds = |of: fn(&Rusage) -> TimeVal| in_seconds(of(&after)) - in_seconds(of(&before));
        let count = |of: fn(&Rusage) -> i64| u64::try_from(of(&after) - of(&before)).unwrap_or(0);
        let mut usage = Usage {
            wall_s,
            user_s: seconds(Rusage::user_time),
            system_s: seconds(Rusage::system_time),
            voluntary_switches: count(Rusage::voluntary_context_switches),
            involuntary_switches: count(Rusage::involuntary_context_switches),
            minor_faults: count(Rusage::minor_page_faults),
            major_faults: count(Rusage::major_page_faults),
            ..Usage::default()
        };
        self.events.tell(&mut usage);
        self.zones.tell(&mut usage);
        Ok(usage)
    }
}

fn of_children() -> Result<Rusage> {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| Error::new(format!("getrusage: {error}")))
}

fn in_seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// One test: children of the process are all counted together.
    #[test]
    fn what_a_program_took_is_counted_and_what_is_not_known_has_a_reason() {
        let meter = Meter::start().unwrap();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05; sh -c true";
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
        let usage = meter.stop().unwrap();
        assert!(usage.wall_s > 0.05 && usage.cpu_s() > 0.0 && usage.cpu_s() < 10.0 * usage.wall_s, "{usage:?}");
        assert!(usage.voluntary_switches > 0 && usage.minor_faults > 0, "{usage:?}");
        for name in events::names() {
            let (counted, reason) = (usage.counts.get(name), usage.not_known.get(name));
            assert!(counted.is_some() != reason.is_some(), "{name}: {usage:?}");
            assert!(reason.is_none_or(|reason| !reason.is_empty()));
        }
        assert!(usage.energy_j.is_empty() == usage.not_known.contains_key("energy"), "{usage:?}");
        let text = serde_json::to_string(&usage).unwrap();
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage);
    }
}
