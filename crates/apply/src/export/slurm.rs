//! srun(1) of Slurm: `--distribution=arbitrary` with SLURM_HOSTFILE, and `--cpu-bind`. Its lists give the n-th task of
//! every node the n-th element.

use super::hosts::{names, same_on_each};
use super::tasks::ranks;
use super::{Exporter, Placement};
use cohabit_model::Result;

/// SLURM_HOSTFILE: the host of each rank, one a line.
pub struct HostFile;

impl Exporter for HostFile {
    fn name(&self) -> &'static str {
        "slurm-hosts"
    }
    fn about(&self) -> &'static str {
        "SLURM_HOSTFILE for --distribution=arbitrary: the host of each rank; PUs are slurm-map-cpu's"
    }
    fn usage(&self) -> &'static str {
        "SLURM_HOSTFILE=FILE srun --distribution=arbitrary -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        Ok(names(placement.topology, &ranks)?.iter().map(|host| format!("{host}\n")).collect())
    }
}

/// `--cpu-bind=map_cpu:` with a PU a rank.
pub struct MapCpu;

impl Exporter for MapCpu {
    fn name(&self) -> &'static str {
        "slurm-map-cpu"
    }
    fn about(&self) -> &'static str {
        "--cpu-bind=map_cpu:... of srun: a PU a rank"
    }
    fn usage(&self) -> &'static str {
        "srun $(cat FILE) -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        let pus = ranks.iter().map(|rank| rank.pu(self.name())).collect::<Result<Vec<_>>>()?;
        let pus = same_on_each(&ranks, &pus, self.name())?;
        Ok(format!("--cpu-bind=map_cpu:{}\n", super::tasks::joined(pus, ",")))
    }
}

/// `--cpu-bind=mask_cpu:` with a set of PUs a rank.
pub struct MaskCpu;

impl Exporter for MaskCpu {
    fn name(&self) -> &'static str {
        "slurm-mask-cpu"
    }
    fn about(&self) -> &'static str {
        "--cpu-bind=mask_cpu:... of srun: a set of PUs a rank"
    }
    fn usage(&self) -> &'static str {
        "srun $(cat FILE) -n N CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let ranks = ranks(placement, self.name())?;
        let masks: Vec<String> = ranks.iter().map(|rank| mask(&rank.room)).collect();
        Ok(format!("--cpu-bind=mask_cpu:{}\n", same_on_each(&ranks, &masks, self.name())?.join(",")))
    }
}

/// The set in hexadecimal, the highest PU first.
fn mask(pus: &[u32]) -> String {
    let highest = pus.iter().copied().max().unwrap_or(0);
    let digit = |digit: u32| (0..4).filter(|bit| pus.contains(&(digit * 4 + bit))).map(|bit| 1u32 << bit).sum::<u32>();
    let digits = (0..=highest / 4).rev().map(|at| char::from_digit(digit(at), 16).unwrap_or('0'));
    std::iter::once("0x".to_owned()).chain(digits.map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn masks_are_as_wide_as_they_must_be() {
        for (pus, mask) in [(&[0][..], "0x1"), (&[1, 3], "0xa"), (&[4], "0x10"), (&[0, 70], "0x400000000000000001")] {
            assert_eq!(super::mask(pus), mask);
        }
    }
}
