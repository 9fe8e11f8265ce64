//! OS indices of a synthetic level (hwloc's `indexes` attribute): a list `0,2,1,3`; loops `2*2:1*2`, each a step and a
//! count, the fastest first; or loops over levels, `numa:core`, round-robin over the first, then the second.

use super::level_named;
use crate::topology::Level;
use crate::{Error, Result};

/// A loop: positions `step` apart count up, `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Loop {
    step: u64,
    count: u64,
}

/// The OS indices of the nodes of the last level in `shape` (level and number of nodes, from the root down).
pub(super) fn parse(text: &str, shape: &[(Level, u64)]) -> Result<Vec<u32>> {
    let width = shape.last().map_or(0, |last| last.1);
    let bad = || {
        Error::new(format!("indexes={text} do not number {width} nodes"))
            .remedy("list all OS indices (0,2,1,3), or give loops over levels, the fastest first (pack:core)")
    };
    let indices = if text.contains('*') {
        let parsed = text.split(':').map(explicit).collect::<Option<Vec<_>>>();
        run(parsed.ok_or_else(bad)?, width).ok_or_else(bad)?
    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
        text.split(',').map(|word| word.parse().ok()).collect::<Option<Vec<u32>>>().ok_or_else(bad)?
    } else {
        run(over_levels(text, shape).ok_or_else(bad)?, width).ok_or_else(bad)?
    };
    let mut sorted = indices.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() as u64 == width { Ok(indices) } else { Err(bad()) }
}

fn explicit(word: &str) -> Option<Loop> {
    let (step, count) = word.split_once('*')?;
    let (step, count) = (step.parse().ok()?, count.parse().ok()?);
    (step > 0 && count > 0).then_some(Loop { step, count })
}

/// Each level named runs within the nearest named one above it.
fn over_levels(text: &str, shape: &[(Level, u64)]) -> Option<Vec<Loop>> {
    let depth = |name: &str| {
        let level = level_named(name)??;
        shape.iter().position(|&(other, _)| other == level)
    };
    let depths = text.split(':').map(depth).collect::<Option<Vec<_>>>()?;
    let width = shape.last()?.1;
    let one = |&own: &usize| {
        let above = depths.iter().filter(|&&other| other < own).max();
        let outer = above.map_or(1, |&above| shape[above].1);
        Loop { step: width / shape[own].1, count: shape[own].1 / outer }
    };
    Some(depths.iter().map(one).collect())
}

/// The index each position gets; none where the loops do not cover them all. A last loop over what lies below the
/// finest step may be left out.
fn run(mut loops: Vec<Loop>, width: u64) -> Option<Vec<u32>> {
    let covered = loops.iter().try_fold(1u64, |product, one| product.checked_mul(one.count))?;
    let finest = loops.iter().map(|one| one.step).min()?;
    if covered != width {
        if covered.checked_mul(finest) != Some(width) {
            return None;
        }
        loops.push(Loop { step: 1, count: finest });
    }
    let index = |position: u64| {
        let mut place = 1;
        let mut index = 0;
        for one in &loops {
            index += position / one.step % one.count * place;
            place *= one.count;
        }
        index as u32
    };
    Some((0..width).map(index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: [(Level, u64); 4] = [(Level::Package, 2), (Level::Numa, 4), (Level::Core, 8), (Level::Pu, 16)];

    /// Expected figures are those of lstopo 2.9 for the same strings.
    #[test]
    fn loops_number_as_hwloc_does() {
        for (text, expected) in [
            ("pack:core", [0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15]),
            ("numa:pack", [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]),
            ("2*8", [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]),
            ("2*8:1*2", [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]),
        ] {
            assert_eq!(parse(text, &MACHINE).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("7,3", &[(Level::Pu, 2)]), Ok(vec![7, 3]));
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for text in ["", "x", "core:x", "0,1", "1*3", "0*2", "2*0", "1*16:1*16", "18446744073709551615*2:3*3", "9,9"] {
            assert!(parse(text, &MACHINE).is_err(), "{text}");
        }
        assert!(parse("1,1", &[(Level::Pu, 2)]).is_err());
    }
}
