//! TLBs of data: loads of one line a page take longer from the number of pages on that a TLB does not hold, by what the
//! next one takes, and then by what walking the page table does.

use super::super::busy::Busy;
use super::super::pages::{PAGE, Pages};
use super::chase::{LINE, ROUNDS, keep_least, lines_of, load_seconds};
use std::io;
use std::time::Duration;

/// Pages of 4 KiB: fewer than of a first TLB, and more than of most second ones.
const PAGES: std::ops::RangeInclusive<u32> = 16..=8192;

/// What was found of the TLBs of a core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tlbs {
    /// Pages of the first.
    pub entries: u64,
    /// Pages of the second, and ns more that a load found there takes; none where none was seen.
    pub second: Option<(u64, f64)>,
    /// ns more than that (than the first, where there is no second) that a load takes whose page no TLB has.
    pub walk_ns: f64,
}

/// ns by number of pages, ascending.
type Curve = Vec<(u64, f64)>;

/// Measures; none where no number of pages made a difference.
///
/// # Errors
/// Memory that cannot be had.
pub(super) fn measure(time: Duration, cycle_ns: f64, busy: &mut Busy) -> io::Result<Option<Tlbs>> {
    let most = *PAGES.end() as usize;
    let mut pages = Pages::small((most * PAGE) as u64)?;
    let mut dense = Pages::new((most * LINE) as u64, None)?;
    let mut round = || -> (Curve, Curve) {
        let of = |count: usize| {
            // The lines of all pages lie in all sets of a cache, as the same number of neighbouring lines do: what is
            // different is the pages.
            let places: Vec<usize> =
                (0..count).map(|page| (page * PAGE + page * LINE % PAGE) / size_of::<u64>()).collect();
            let spread = load_seconds(pages.words_mut(), &places, time, busy);
            let near = load_seconds(dense.words_mut(), &lines_of(count * LINE), time, busy);
            ((count as u64, spread * 1e9), (count as u64, near * 1e9))
        };
        counts().into_iter().map(of).unzip()
    };
    let (mut spread, mut near) = round();
    for _ in 1..ROUNDS {
        let again = round();
        keep_least(&mut spread, &again.0);
        keep_least(&mut near, &again.1);
    }
    let curve: Curve = spread.iter().zip(&near).map(|(spread, near)| (spread.0, spread.1 - near.1)).collect();
    Ok(read_curve(&curve, cycle_ns))
}

/// Powers of two and what is between them by quarters.
fn counts() -> Vec<usize> {
    let mut found = Vec::new();
    let (mut octave, last) = (*PAGES.start() as usize, *PAGES.end() as usize);
    while octave < last {
        found.extend((4..8).map(|quarter| octave * quarter / 4));
        octave *= 2;
    }
    found.push(last);
    found
}

/// Of (pages, ns more than without them, ascending by pages).
fn read_curve(curve: &[(u64, f64)], cycle_ns: f64) -> Option<Tlbs> {
    let curve = smooth(curve);
    let least = 2.0 * cycle_ns;
    let above = |from: usize, ns: f64| (from..curve.len()).find(|&at| curve[at].1 > ns);
    let between =
        |from: u64, to: u64| median(curve.iter().filter(|one| (from..=to).contains(&one.0)).map(|one| one.1).collect());
    let first = above(0, least).filter(|&at| at > 0)?;
    let after_first = between(curve[first].0 * 3 / 2, curve[first].0 * 4)?;
    let entries = size_at(&curve, above(0, after_first / 2.0).filter(|&at| at > 0)?);
    let Some(second) = above(first, 2.0 * after_first + least).filter(|&at| curve[at].0 > 4 * entries) else {
        return Some(Tlbs { entries, second: None, walk_ns: after_first });
    };
    let after_second = between(curve[second].0 * 5 / 4, curve[second].0 * 5 / 2).unwrap_or(curve[second].1);
    let at = above(first, (after_first + after_second) / 2.0).unwrap_or(second);
    let walk_ns = after_second - after_first;
    Some(Tlbs { entries, second: Some((size_at(&curve, at), after_first)), walk_ns })
}

/// Each the median of itself and its neighbours: a figure that was disturbed is no step.
fn smooth(curve: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let around = |at: usize| &curve[at.saturating_sub(1)..curve.len().min(at + 2)];
    let of = |at: usize| match around(at) {
        [_, _, _] => median(around(at).iter().map(|one| one.1).collect()).unwrap_or(curve[at].1),
        _ => curve[at].1,
    };
    (0..curve.len()).map(|at| (curve[at].0, of(at))).collect()
}

/// How many pages a TLB has that too few pages were at `at`: other pages are used meanwhile, so it may be that number
/// itself. TLBs have powers of two, or one and a half times as many.
fn size_at(curve: &[(u64, f64)], at: usize) -> u64 {
    let (holds, too_many) = (curve[at - 1].0, curve[at].0);
    let usual =
        |factor: u64| (holds..=too_many).find(|pages| pages % factor == 0 && (pages / factor).is_power_of_two());
    usual(1).or_else(|| usual(3)).unwrap_or(too_many)
}

fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(of: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
        counts().into_iter().map(|count| (count as u64, of(count as u64))).collect()
    }

    #[test]
    fn steps_of_the_curve_are_tlbs() {
        let two = curve(|pages| {
            if pages <= 64 {
                0.1
            } else if pages <= 2048 {
                2.4
            } else {
                11.0
            }
        });
        let found = read_curve(&two, 0.3).unwrap();
        assert_eq!((found.entries, found.second), (64, Some((2048, 2.4))));
        assert!((found.walk_ns - 8.6).abs() < 1e-9, "{found:?}");
        let one = curve(|pages| if pages <= 48 { 0.0 } else { 9.0 });
        assert_eq!(read_curve(&one, 0.3), Some(Tlbs { entries: 48, second: None, walk_ns: 9.0 }));
    }

    #[test]
    fn one_figure_that_was_disturbed_is_no_step_and_a_flat_curve_has_none() {
        let disturbed = curve(|pages| {
            if pages == 28 {
                50.0
            } else if pages <= 64 {
                0.1
            } else {
                2.4
            }
        });
        assert_eq!(read_curve(&disturbed, 0.3).map(|found| found.entries), Some(64));
        assert_eq!(read_curve(&curve(|_| 0.2), 0.3), None);
        assert_eq!(read_curve(&[], 0.3), None);
    }
}
