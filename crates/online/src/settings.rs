//! NUMA balancing (kernel.numa_balancing; Documentation/admin-guide/sysctl/kernel.rst): the kernel takes the pages of a
//! process away a part at a time and sees by the fault who uses them: the extra faults that CDSM's module makes. On one
//! NUMA node too.
//!
//! Users have lost much by somebody else's turning it off or on: it is read first, written down, and put back.

use super::debugfs;
use super::ledger::Ledger;
use super::setting::Setting;
use cohabit_model::{Error, Result};
use nix::unistd::{AccessFlags, access};
use std::fs;

const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
/// Bit of the switch: balancing as such; other bits are memory tiering's.
const NORMAL: u32 = 1;
/// What to do where it cannot be written.
const MAY_CHANGE: &str = "run as root, or have the administrator set kernel.numa_balancing=1";
const MAY_SWITCH: &str = "run as root, or leave --numa-balancing out";
/// Where the rates are, in debugfs.
const RATES: &str = "sched/numa_balancing";
/// What the machine has seen, a line each.
const EVENTS: &str = "/proc/vmstat";
/// How often a process's memory is scanned, at most and at least: not so rarely that nothing is seen.
const RATE_SETTINGS: [(Setting, &str); 3] =
    [(Setting::ScanDelay, "100"), (Setting::ScanPeriodMin, "500"), (Setting::ScanPeriodMax, "2000")];

/// How hinting faults were had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintFaults {
    /// It was on already.
    pub was_on: bool,
    /// Whether the scan rate was set; else why it could not be.
    pub rate: Result<(), String>,
}

impl HintFaults {
    /// How many hint faults the machine has had, all programs together (`/proc/vmstat`); none where that is not told.
    pub fn so_far() -> Option<u64> {
        let text = fs::read_to_string(EVENTS).ok()?;
        text.lines().find_map(|line| line.strip_prefix("numa_hint_faults ")?.trim().parse().ok())
    }

    /// Stops them for a while, or goes on. Only where cohabit has turned them on, and for nobody but this one: whether
    /// it is so now.
    ///
    /// # Errors
    /// Where the switch cannot be read or written.
    pub fn pause(ledger: &mut Ledger, paused: bool) -> Result<bool> {
        match ledger.entry.settings.get(&Setting::NumaBalancing) {
            Some(changed) if !changed.before.parse().is_ok_and(is_normal) => {
                ledger.pause(Setting::NumaBalancing, paused)
            }
            _ => Ok(false),
        }
    }
}

/// Whether hint faults can be had, without turning them on.
///
/// # Errors
/// Where the kernel has none, or this user may not change it.
pub fn can_have_hint_faults() -> Result<()> {
    if is_normal(read_switch()?) {
        return Ok(());
    }
    access(SWITCH, AccessFlags::W_OK)
        .map_err(|error| Error::new(format!("writing {SWITCH}: {error}")).remedy(MAY_CHANGE))
}

/// Turns NUMA balancing on, where it is not, and sets the scan rate where debugfs is open.
///
/// # Errors
/// As [`can_have_hint_faults`].
pub fn enable_hint_faults(ledger: &mut Ledger) -> Result<HintFaults> {
    let now = read_switch()?;
    let set = ledger.set(Setting::NumaBalancing, &(now | NORMAL).to_string());
    set.map_err(|error| error.remedy(MAY_CHANGE))?;
    Ok(HintFaults { was_on: is_normal(now), rate: set_rates(ledger) })
}

/// Turns NUMA balancing on or off for what is compared; it is put back with the ledger. Memory tiering's bits stay.
///
/// # Errors
/// As [`can_have_hint_faults`].
pub fn switch_balancing(ledger: &mut Ledger, on: bool) -> Result<()> {
    let now = read_switch()?;
    let wanted = if on { now | NORMAL } else { now & !NORMAL };
    ledger.set(Setting::NumaBalancing, &wanted.to_string()).map_err(|error| error.remedy(MAY_SWITCH))
}

fn read_switch() -> Result<u32> {
    let now = fs::read_to_string(SWITCH).map_err(|_| {
        Error::new("this kernel has no NUMA balancing").remedy("a kernel built with CONFIG_NUMA_BALANCING=y has it")
    })?;
    Ok(now.trim().parse().unwrap_or(0))
}

fn is_normal(switch: u32) -> bool {
    switch & NORMAL != 0
}

fn set_rates(ledger: &mut Ledger) -> Result<(), String> {
    for (setting, value) in RATE_SETTINGS {
        let set = ledger.set(setting, value);
        set.map_err(|error| {
            closed(debugfs::folder().join(RATES).exists(), &lockdown()).map_or(error.cause, str::to_owned)
        })?;
    }
    Ok(())
}

fn lockdown() -> String {
    fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default()
}

/// Why the rates cannot be set, and what to do, where that is known.
fn closed(is_there: bool, lockdown: &str) -> Option<&'static str> {
    let is_locked = ["[integrity]", "[confidentiality]"].iter().any(|locked| lockdown.contains(locked));
    match (is_there, is_locked) {
        (_, true) => Some("the kernel is locked down, which closes debugfs; boot without lockdown to have it set"),
        (false, false) => Some("no debugfs here: mount -t debugfs none /sys/kernel/debug"),
        (true, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_debugfs_has_a_reason() {
        for (is_there, lockdown, reason) in [
            (true, "none [integrity] confidentiality", Some("locked down")),
            (false, "none integrity [confidentiality]", Some("locked down")),
            (false, "[none] integrity confidentiality", Some("mount -t debugfs")),
            (true, "", None),
        ] {
            let found = closed(is_there, lockdown);
            assert_eq!(found.is_some(), reason.is_some(), "{lockdown}");
            assert!(found.is_none_or(|text| text.contains(reason.unwrap_or(""))), "{lockdown}: {found:?}");
        }
    }
}
