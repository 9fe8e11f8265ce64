//! The settings of the machine that cohabit changes: no others are ever written, whatever a ledger names.

use super::debugfs;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What is in debugfs, below `/`.
const DEBUGFS: &str = "sys/kernel/debug/";

/// One of them, in a ledger by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Setting {
    /// NUMA balancing's switch.
    #[serde(rename = "/proc/sys/kernel/numa_balancing")]
    NumaBalancing,
    /// How long after a task's start its memory is scanned first.
    #[serde(rename = "/sys/kernel/debug/sched/numa_balancing/scan_delay_ms")]
    ScanDelay,
    /// How often it is scanned, at most.
    #[serde(rename = "/sys/kernel/debug/sched/numa_balancing/scan_period_min_ms")]
    ScanPeriodMin,
    /// And at least.
    #[serde(rename = "/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms")]
    ScanPeriodMax,
}

impl Setting {
    /// Its path below `/`.
    const fn below_root(self) -> &'static str {
        match self {
            Setting::NumaBalancing => "proc/sys/kernel/numa_balancing",
            Setting::ScanDelay => "sys/kernel/debug/sched/numa_balancing/scan_delay_ms",
            Setting::ScanPeriodMin => "sys/kernel/debug/sched/numa_balancing/scan_period_min_ms",
            Setting::ScanPeriodMax => "sys/kernel/debug/sched/numa_balancing/scan_period_max_ms",
        }
    }

    /// Its path; `root` is `/`, but for tests. What is in debugfs is found where that is not mounted, too.
    pub fn path(self, root: &Path) -> PathBuf {
        match self.below_root().strip_prefix(DEBUGFS) {
            Some(inside) if root == Path::new("/") => debugfs::folder().join(inside),
            _ => self.usual_path(root),
        }
    }

    /// Its path where the machine has debugfs: what it is called.
    pub fn usual_path(self, root: &Path) -> PathBuf {
        root.join(self.below_root())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledgers_name_settings_by_their_paths_and_no_others() {
        let all = [Setting::NumaBalancing, Setting::ScanDelay, Setting::ScanPeriodMin, Setting::ScanPeriodMax];
        for setting in all {
            let text = serde_json::to_string(&setting).unwrap();
            assert_eq!(text, format!("{:?}", setting.usual_path(Path::new("/"))));
            assert_eq!(serde_json::from_str::<Setting>(&text).unwrap(), setting);
        }
        for other in ["/etc/passwd", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/../kernel/numa_balancing", ""] {
            assert!(serde_json::from_str::<Setting>(&format!("{other:?}")).is_err(), "{other}");
        }
    }
}
