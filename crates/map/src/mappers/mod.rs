//! The table of mappers: a file and a row each.

pub mod balance;
pub mod best;
pub mod complace;
pub mod deloc;
pub mod exact;
pub mod hct_greedy;
pub mod matching;
pub mod metis;
pub mod packed;
pub mod random;
pub mod scatter;
pub mod scotch;
pub mod treematch;

use crate::Mapper;
use cohabit_model::{Error, Result};

/// Every mapper there is. Names, help, documentation and the contract tests iterate it.
pub static MAPPERS: &[&dyn Mapper] = &[
    &best::Best { context: best::context::Context::DEFAULT },
    &packed::Packed,
    &scatter::Scatter,
    &random::Random,
    &balance::Balance,
    &complace::Complace,
    &deloc::DeLoc,
    &hct_greedy::HctGreedy,
    &matching::Matching,
    &treematch::TreeMatch,
    &metis::Metis,
    &scotch::Scotch,
    &exact::Exact,
];

/// The mapper of a name.
///
/// # Errors
/// That there is none, with the names there are.
pub fn mapper(name: &str) -> Result<&'static dyn Mapper> {
    let names = || MAPPERS.iter().map(|mapper| mapper.name()).collect::<Vec<_>>().join(", ");
    let found = MAPPERS.iter().copied().find(|mapper| mapper.name() == name);
    found.ok_or_else(|| Error::new(format!("there is no mapper {name:?}")).remedy(format!("one of: {}", names())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_unknown_ones_answered_with_the_list() {
        for row in MAPPERS {
            assert_eq!(mapper(row.name()).unwrap().name(), row.name());
            assert!(!row.about().is_empty() && !row.source().is_empty() && !row.about().contains('\n'));
        }
        let error = mapper("pakced").err().unwrap();
        assert!(error.remedy.unwrap().contains("packed, scatter"), "{}", error.cause);
    }
}
