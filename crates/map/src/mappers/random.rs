//! Any mapping, every one as likely as another: what a placement without knowledge costs.

use crate::load::settled;
use crate::partial_mapping::PartialMapping;
use crate::slots::Slots;
use crate::{Mapper, Problem};
use cohabit_model::Result;

/// The mapper `random`.
pub struct Random;

impl Mapper for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn about(&self) -> &'static str {
        "any mapping, drawn with the seed"
    }

    fn source(&self) -> &'static str {
        "none; the baseline of the papers"
    }

    fn only_distance(&self) -> Option<&'static str> {
        Some("looks at no communication")
    }

    fn map(&self, problem: &Problem) -> Result<Vec<usize>> {
        let slots = Slots::new(problem)?;
        let mut random = crate::random::Random::new(problem.options.seed);
        let mut partial = PartialMapping::new(&slots);
        let (mut tasks, mut order) = (partial.waiting(), (0..slots.len()).collect::<Vec<_>>());
        random.shuffle(&mut tasks);
        random.shuffle(&mut order);
        partial.fill(tasks, order);
        settled(problem, &slots, &partial.finish())
    }
}
