//! likwid-pin(1) of LIKWID: `-c` with PUs by OS index, the main thread's first, then in the order threads are started.

use super::script::prefix;
use super::tasks::{joined, threads};
use super::{Exporter, Placement};
use cohabit_model::{Error, Result};

/// A script that starts a program under likwid-pin.
pub struct LikwidPin;

impl Exporter for LikwidPin {
    fn name(&self) -> &'static str {
        "likwid-pin"
    }
    fn about(&self) -> &'static str {
        "script that starts a program under likwid-pin: POSIX threads in the order they are started"
    }
    fn usage(&self) -> &'static str {
        "sh FILE CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let pus = threads(placement, self.name())?;
        // It drops repetitions from its list and begins again at its end.
        if let Some(pu) = (1..pus.len()).find(|&at| pus[..at].contains(&pus[at])).map(|at| pus[at]) {
            return Err(Error::new(format!(
                "several threads are on PU {pu}, and likwid-pin gives each one of its own"
            ))
            .remedy("export omp-places or taskset, or use `cohabit run --mapping`"));
        }
        Ok(prefix("CMD...", &format!("exec likwid-pin -q -c {} \"$@\"\n", joined(pus, ","))))
    }
}
