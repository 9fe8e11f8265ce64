//! GOMP_CPU_AFFINITY (GNU libgomp manual, section "GOMP_CPU_AFFINITY"): a PU a thread; LLVM's runtime reads it, too.

use super::script::environment;
use super::tasks::{joined, threads};
use super::{Exporter, Placement};
use cohabit_model::Result;

/// A PU a thread, for GNU's OpenMP runtime.
pub struct GompCpuAffinity;

impl Exporter for GompCpuAffinity {
    fn name(&self) -> &'static str {
        "gomp-cpu-affinity"
    }
    fn about(&self) -> &'static str {
        "GOMP_CPU_AFFINITY for programs that gcc compiled"
    }
    fn usage(&self) -> &'static str {
        ". ./FILE; CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let pus = threads(placement, self.name())?;
        let count = pus.len().to_string();
        Ok(environment(&[("GOMP_CPU_AFFINITY", &joined(pus, " ")), ("OMP_NUM_THREADS", &count)]))
    }
}
