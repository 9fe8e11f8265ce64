//! KMP_AFFINITY with an explicit list (LLVM/OpenMP runtimes, "KMP_AFFINITY"; Intel's is the same).

use super::script::environment;
use super::tasks::{joined, threads};
use super::{Exporter, Placement};
use cohabit_model::Result;

/// A PU a thread, for LLVM's and Intel's OpenMP runtimes.
pub struct KmpAffinity;

impl Exporter for KmpAffinity {
    fn name(&self) -> &'static str {
        "kmp-affinity"
    }
    fn about(&self) -> &'static str {
        "KMP_AFFINITY for programs that clang or Intel's compilers compiled"
    }
    fn usage(&self) -> &'static str {
        ". ./FILE; CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let pus = threads(placement, self.name())?;
        let count = pus.len().to_string();
        let affinity = format!("granularity=fine,proclist=[{}],explicit", joined(pus, ","));
        Ok(environment(&[("KMP_AFFINITY", &affinity), ("OMP_NUM_THREADS", &count)]))
    }
}
