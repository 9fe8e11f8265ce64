//! OMP_PLACES and OMP_PROC_BIND (OpenMP API 5.2, sections 21.1.6 and 21.1.7): thread i of a team goes to place i. As
//! many places as threads, a PU that several threads share named several times.

use super::script::environment;
use super::tasks::threads;
use super::{Exporter, Placement};
use cohabit_model::Result;

/// A place a thread, for any OpenMP runtime.
pub struct OmpPlaces;

impl Exporter for OmpPlaces {
    fn name(&self) -> &'static str {
        "omp-places"
    }
    fn about(&self) -> &'static str {
        "OMP_PLACES and OMP_PROC_BIND for any OpenMP runtime: thread i on place i"
    }
    fn usage(&self) -> &'static str {
        ". ./FILE; CMD"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let places: Vec<String> = threads(placement, self.name())?.iter().map(|pu| format!("{{{pu}}}")).collect();
        Ok(environment(&[
            ("OMP_PLACES", &places.join(",")),
            ("OMP_PROC_BIND", "close"),
            ("OMP_NUM_THREADS", &places.len().to_string()),
        ]))
    }
}
