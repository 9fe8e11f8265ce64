//! Energy counters of the machine (Documentation/power/powercap/powercap.rst): of everything that runs on it meanwhile.

use super::Usage;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/sys/class/powercap";
/// No part of a machine draws more, in watts: in a longer time a counter may have gone round more than once.
const MOST_W: f64 = 500.0;

/// The zones whose counters can be read, with what they were at.
#[derive(Debug)]
pub(super) struct Zones(Result<Vec<Zone>, String>);

#[derive(Debug)]
struct Zone {
    name: String,
    folder: PathBuf,
    before_uj: u64,
    range_uj: u64,
}

impl Zones {
    /// As they are now.
    pub(super) fn read() -> Self {
        Self::below(Path::new(FOLDER))
    }

    fn below(folder: &Path) -> Self {
        let entries =
            fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>());
        let mut folders = entries.unwrap_or_default();
        folders.retain(|zone| zone.join("energy_uj").exists());
        folders.sort();
        if folders.is_empty() {
            return Self(Err("this machine tells no energy (no counter below /sys/class/powercap)".to_owned()));
        }
        let zones: Vec<Zone> = folders.into_iter().filter_map(Zone::read).collect();
        Self(match zones.is_empty() {
            true => Err("not permitted: only root may read /sys/class/powercap".to_owned()),
            false => Ok(zones),
        })
    }

    /// What was used since.
    pub(super) fn tell(self, usage: &mut Usage) {
        let told = self.0.and_then(|zones| {
            let used = zones.iter().filter_map(|zone| Some((zone.name.clone(), zone.used_j(usage.wall_s)?)));
            Some(used.collect::<Vec<_>>())
                .filter(|used| !used.is_empty())
                .ok_or_else(|| "the run was so long that the counters may have gone round more than once".to_owned())
        });
        match told {
            Ok(used) => usage.energy_j.extend(used),
            Err(reason) => drop(usage.not_known.insert("energy".to_owned(), reason)),
        }
    }
}

impl Zone {
    fn read(folder: PathBuf) -> Option<Self> {
        let before_uj = number(&folder.join("energy_uj"))?;
        let range_uj = number(&folder.join("max_energy_range_uj"))?;
        let kind = fs::read_to_string(folder.join("name")).ok()?.trim().to_owned();
        // `package-0` is named so, `dram` for each package alike: its folder is `intel-rapl:0:1`.
        let package = folder.file_name()?.to_string_lossy().split(':').nth(1).map(str::to_owned).unwrap_or_default();
        let name = if kind.contains('-') { kind } else { format!("{kind}-{package}") };
        Some(Self { name, folder, before_uj, range_uj })
    }

    fn used_j(&self, wall_s: f64) -> Option<f64> {
        let after_uj = number(&self.folder.join("energy_uj"))?;
        let used_uj = match after_uj >= self.before_uj {
            true => after_uj - self.before_uj,
            false => (after_uj + self.range_uj).checked_sub(self.before_uj)?,
        };
        (wall_s * MOST_W < self.range_uj as f64 * 1e-6).then_some(used_uj as f64 * 1e-6)
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_zone_and_go_round() {
        let root = tempfile::tempdir().unwrap();
        let zone = |folder: &str, name: &str, energy: &str| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("name", name), ("energy_uj", energy), ("max_energy_range_uj", "1000000000")] {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        };
        zone("intel-rapl:0", "package-0", "5000000");
        zone("intel-rapl:0:1", "dram", "999000000");
        let before = Zones::below(root.path());
        zone("intel-rapl:0", "package-0", "7500000");
        zone("intel-rapl:0:1", "dram", "1000000");
        let mut usage = Usage { wall_s: 1.0, ..Usage::default() };
        before.tell(&mut usage);
        let found: Vec<_> = usage.energy_j.iter().map(|(name, joules)| (name.as_str(), *joules)).collect();
        assert_eq!(found, [("dram-0", 2.0), ("package-0", 2.5)]);
        let mut long = Usage { wall_s: 100.0, ..Usage::default() };
        Zones::below(root.path()).tell(&mut long);
        assert!(long.energy_j.is_empty() && long.not_known["energy"].contains("more than once"));
        let mut none = Usage::default();
        Zones::below(Path::new("/nowhere")).tell(&mut none);
        assert!(none.not_known["energy"].contains("no counter"));
    }
}
