//! Tasks side by side in the order of their numbers: what `OMP_PROC_BIND=close` and most launchers do.

use crate::load::settled;
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::Result;

/// The mapper `packed`.
pub struct Packed;

impl Mapper for Packed {
    fn name(&self) -> &'static str {
        "packed"
    }

    fn about(&self) -> &'static str {
        "tasks side by side in the order of their numbers"
    }

    fn source(&self) -> &'static str {
        "OpenMP 5.2, proc_bind(close)"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("looks at no communication")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let mut partial = PartialMapping::new(&slots);
        partial.fill(partial.waiting(), 0..slots.len());
        settled(problem, &slots, &partial.finish())
    }
}
