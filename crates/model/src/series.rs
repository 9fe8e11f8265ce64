//! The time series kept within bounds: where it has too many rows, windows are doubled and merged.

use crate::Profile;
use crate::profile::{Meta, SeriesRow, merge_series};

/// A window of a time series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// So many ns, at the same time for all tasks.
    Time(u64),
    /// So many instructions of each task by its own count. An event is in the window of the task that reads. Windows of
    /// one number are at the same time only as far as tasks get on alike.
    Instructions(u64),
}

impl Window {
    /// Its width, in its own unit.
    pub fn width(self) -> u64 {
        match self {
            Self::Time(width) | Self::Instructions(width) => width,
        }
    }
}

impl Meta {
    /// The window of the series.
    pub fn window(&self) -> Window {
        match self.window_instructions {
            0 => Window::Time(self.window_ns),
            instructions => Window::Instructions(instructions),
        }
    }

    /// Keeps the window that was asked for first, where windows are doubled.
    pub fn note_requested(&mut self, window: Window) {
        match window {
            Window::Time(ns) => self.requested_window_ns.get_or_insert(ns),
            Window::Instructions(instructions) => self.requested_window_instructions.get_or_insert(instructions),
        };
    }

    /// Makes that the window.
    pub fn set_window(&mut self, window: Window) {
        (self.window_ns, self.window_instructions) = match window {
            Window::Time(ns) => (ns, 0),
            Window::Instructions(instructions) => (0, instructions),
        };
    }
}

/// Most rows a series keeps unless told otherwise: half a GB in memory.
pub const DEFAULT_BOUND: usize = 16_000_000;

/// Merges the rows of equal (bin, source, destination), then doubles the window and merges again until at most `bound`
/// rows are left or every pair has only one. Returns the rows, sorted, and the window they are now in. Counts saturate.
pub fn bound_series(mut rows: Vec<SeriesRow>, mut width: u64, bound: usize) -> (Vec<SeriesRow>, u64) {
    merge_series(&mut rows);
    while rows.len() > bound && rows.iter().any(|row| row.bin != 0) && width <= u64::MAX / 2 {
        width *= 2;
        rows.iter_mut().for_each(|row| row.bin /= 2);
        merge_series(&mut rows);
    }
    (rows, width)
}

/// Bounds the series of `profile`, whose windows are `width` wide, in the unit of `meta`'s; where they were or are
/// doubled, `meta` gets the new width and keeps the one that was asked for ([`Meta::note_requested`]).
pub fn bound_profile_series(profile: &mut Profile, width: u64, bound: usize) {
    let requested = profile.meta.window();
    let (rows, width) = bound_series(std::mem::take(&mut profile.series), width, bound);
    profile.series = rows;
    if width != requested.width() {
        profile.meta.set_window(match requested {
            Window::Time(_) => Window::Time(width),
            Window::Instructions(_) => Window::Instructions(width),
        });
        profile.meta.note_requested(requested);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(bin: u64, source: u32, messages: u64) -> SeriesRow {
        SeriesRow { bin, source, destination: 9, messages, bytes: 8 * messages }
    }

    #[test]
    fn windows_double_until_the_rows_fit() {
        let rows = vec![row(3, 0, 1), row(0, 0, 2), row(2, 0, 4), row(1, 1, 8), row(0, 0, 16)];
        let cases = [
            (9, 100, vec![row(0, 0, 18), row(1, 1, 8), row(2, 0, 4), row(3, 0, 1)]),
            (3, 200, vec![row(0, 0, 18), row(0, 1, 8), row(1, 0, 5)]),
            (2, 400, vec![row(0, 0, 23), row(0, 1, 8)]),
            (1, 400, vec![row(0, 0, 23), row(0, 1, 8)]),
        ];
        for (bound, window_ns, expected) in cases {
            assert_eq!(bound_series(rows.clone(), 100, bound), (expected, window_ns), "bound {bound}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(rows in prop::collection::vec((0..100u64, 0..4u32, 0..1000u64), 0..200), bound in 0..50usize) {
            let rows: Vec<_> = rows.into_iter().map(|(bin, source, messages)| row(bin, source, messages)).collect();
            let (merged, window_ns) = bound_series(rows.clone(), 1, bound);
            let total = |rows: &[SeriesRow]| rows.iter().map(|row| (row.messages, row.bytes)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            prop_assert_eq!(total(&rows), total(&merged));
            prop_assert!(merged.len() <= bound.max(4));
            prop_assert!(window_ns.is_power_of_two());
            prop_assert!(merged.windows(2).all(|pair| (pair[0].bin, pair[0].source) < (pair[1].bin, pair[1].source)));
        }
    }
}
