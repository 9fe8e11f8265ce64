//! Kinds of cores (performance and efficiency cores, big and little): ranked from the slowest, as hwloc ranks them
//! (hwloc 2.9 manual, "Kinds of CPU cores"), with their relative speed.

use super::Topology;
use super::cpuset::CpuSet;
use std::collections::BTreeSet;

/// One kind: its PUs and what is known about its speed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CpuKind {
    /// PUs by OS index.
    pub cpuset: CpuSet,
    /// What the user or the system says of its rank: larger is faster.
    pub forced_efficiency: Option<u64>,
    /// The kernel's `cpu_capacity` (Arm and others).
    pub linux_capacity: Option<u64>,
    /// Whether Intel calls it a Core (P) and not an Atom (E).
    pub intel_core: Option<bool>,
    /// Highest frequency, in MHz.
    pub max_mhz: Option<u64>,
    /// Base frequency, in MHz.
    pub base_mhz: Option<u64>,
}

impl CpuKind {
    fn mhz(&self) -> Option<u64> {
        self.max_mhz.or(self.base_mhz)
    }
}

/// Gives each PU its kind and capacity. PUs of no kind stay what they are.
pub(super) fn apply(kinds: Vec<CpuKind>, topology: &mut Topology) {
    if kinds.len() < 2 {
        return;
    }
    let speed = known_of_all(&kinds, |kind| kind.linux_capacity).or_else(|| known_of_all(&kinds, CpuKind::mhz));
    let fastest = speed.as_ref().and_then(|speed| speed.iter().copied().max()).unwrap_or(0);
    let rank = ranks(&kinds);
    for pu in &mut topology.pus {
        let Some(kind) = kinds.iter().position(|kind| kind.cpuset.contains(pu.os_index)) else { continue };
        pu.core_kind = rank[kind];
        if let Some(speed) = speed.as_ref().filter(|_| fastest > 0) {
            pu.capacity = speed[kind].max(1) as f64 / fastest as f64;
        }
    }
}

/// The rank of each kind, 0 the slowest: by the first of efficiency, capacity, Intel's type with frequency, and
/// frequency that is known of all. Kinds alike in that have the same rank, and all have where nothing is known of all:
/// the order that they are given in says nothing (hwloc 2.9 manual, "Kinds of CPU cores").
fn ranks(kinds: &[CpuKind]) -> Vec<u32> {
    let key = known_of_all(kinds, |kind| kind.forced_efficiency)
        .or_else(|| known_of_all(kinds, |kind| kind.linux_capacity))
        .map(|keys| keys.into_iter().map(|key| (false, key)).collect())
        .or_else(|| known_of_all(kinds, |kind| Some((kind.intel_core?, kind.mhz().unwrap_or(0)))))
        .or_else(|| known_of_all(kinds, |kind| Some((false, kind.mhz()?))));
    let Some(keys) = key else { return vec![0; kinds.len()] };
    let slower: BTreeSet<(bool, u64)> = keys.iter().copied().collect();
    keys.iter().map(|key| slower.range(..key).count() as u32).collect()
}

fn known_of_all<T>(kinds: &[CpuKind], of: impl Fn(&CpuKind) -> Option<T>) -> Option<Vec<T>> {
    kinds.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cpuset: &str) -> CpuKind {
        let cpuset = CpuSet::parse(cpuset).unwrap();
        CpuKind {
            cpuset,
            forced_efficiency: None,
            linux_capacity: None,
            intel_core: None,
            max_mhz: None,
            base_mhz: None,
        }
    }

    #[test]
    fn kinds_are_ranked_by_what_is_known_of_all() {
        let fast = |mut kind: CpuKind, set: fn(&mut CpuKind)| {
            set(&mut kind);
            kind
        };
        let (a, b) = (|| kind("0x1"), || kind("0x2"));
        for (kinds, expected) in [
            (vec![a(), b()], [(0, 1.0), (0, 1.0)]),
            (
                vec![fast(a(), |k| k.linux_capacity = Some(1024)), fast(b(), |k| k.linux_capacity = Some(512))],
                [(1, 1.0), (0, 0.5)],
            ),
            (
                // An E core may reach a higher base frequency than a P core.
                vec![
                    fast(a(), |k| (k.intel_core, k.max_mhz) = (Some(true), Some(3000))),
                    fast(b(), |k| (k.intel_core, k.max_mhz) = (Some(false), Some(4000))),
                ],
                [(1, 0.75), (0, 1.0)],
            ),
            (
                vec![fast(a(), |k| k.forced_efficiency = Some(9)), fast(b(), |k| k.forced_efficiency = Some(0))],
                [(1, 1.0), (0, 1.0)],
            ),
            (vec![fast(a(), |k| k.base_mhz = Some(0)), fast(b(), |k| k.base_mhz = Some(0))], [(0, 1.0), (0, 1.0)]),
            (vec![a()], [(0, 1.0), (0, 1.0)]),
        ] {
            let mut topology = Topology::load("core:2 pu:1").unwrap();
            apply(kinds.clone(), &mut topology);
            let got = [0, 1].map(|pu| (topology.pus[pu].core_kind, topology.pus[pu].capacity));
            assert_eq!(got, expected, "{kinds:?}");
        }
    }
}
