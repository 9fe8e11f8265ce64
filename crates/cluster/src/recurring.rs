//! Windows in which the same pairs communicate, numbered in the order in which such windows first come: the phases of
//! an iterative program, found as phase trackers do (Sherwood, Sair and Calder, "Phase tracking and prediction", ISCA
//! 2003): the next window is of the known pattern nearest to it, by Manhattan distance of shares, or the first of a new
//! one.

use cohabit_model::profile::SeriesRow;
use std::collections::HashMap;

/// Patterns that are told apart, at most; what differs from all of them is of the nearest.
const MOST: usize = 64;
/// Shares that differ by this much in sum (2: no pair in common) are another pattern, where there are many events.
const ALIKE: f64 = 0.5;
/// Whatever chance may do to few events, what differs by so much is another pattern.
const LIMIT: f64 = 1.6;

/// Which windows have which pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recurring {
    /// How many patterns.
    pub patterns: usize,
    /// Every window with events, and its pattern; ascending.
    pub windows: Vec<(u64, usize)>,
}

impl Recurring {
    /// The pattern of a window; none where nothing happens in it.
    pub fn of(&self, bin: u64) -> Option<usize> {
        self.windows.binary_search_by_key(&bin, |window| window.0).ok().map(|at| self.windows[at].1)
    }
}

/// A pattern: events so far, by pair.
struct Pattern {
    events: Vec<f64>,
    total: f64,
}

impl Pattern {
    /// The distance of shares: of the pairs in the window, and of those that only the pattern has.
    fn distance(&self, window: &[(usize, f64)], total: f64) -> f64 {
        let share = |pair: usize| self.events.get(pair).copied().unwrap_or(0.0) / self.total;
        let (mut distance, mut met) = (0.0, 0.0);
        for &(pair, events) in window {
            distance += (events / total - share(pair)).abs();
            met += share(pair);
        }
        distance + (1.0 - met).max(0.0)
    }
}

/// The patterns of a series that is sorted by window.
pub fn recurring(series: &[SeriesRow]) -> Recurring {
    let mut pairs: HashMap<(u32, u32), usize> = HashMap::new();
    let mut patterns: Vec<Pattern> = Vec::new();
    let mut windows = Vec::new();
    for rows in series.chunk_by(|a, b| a.bin == b.bin) {
        let mut window: Vec<(usize, f64)> = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.messages > 0 && row.source != row.destination) {
            let next = pairs.len();
            window.push((*pairs.entry((row.source, row.destination)).or_insert(next), row.messages as f64));
        }
        let total: f64 = window.iter().map(|pair| pair.1).sum();
        if total == 0.0 {
            continue;
        }
        // How far shares of so few events are from those that they are drawn with.
        let chance = (window.len() as f64 / total).sqrt();
        let nearest = (0..patterns.len())
            .map(|at| (patterns[at].distance(&window, total), at))
            .reduce(|best, other| if other.0 < best.0 { other } else { best });
        let at = match nearest {
            Some((distance, at)) if distance <= (ALIKE + chance).min(LIMIT) || patterns.len() == MOST => at,
            _ => {
                patterns.push(Pattern { events: Vec::new(), total: 0.0 });
                patterns.len() - 1
            }
        };
        let pattern = &mut patterns[at];
        pattern.total += total;
        for (pair, events) in window {
            if pattern.events.len() <= pair {
                pattern.events.resize(pair + 1, 0.0);
            }
            pattern.events[pair] += events;
        }
        windows.push((rows[0].bin, at));
    }
    Recurring { patterns: patterns.len(), windows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bin: u64, source: u32, destination: u32, messages: u64) -> SeriesRow {
        SeriesRow { bin, source, destination, messages, bytes: messages }
    }

    #[test]
    fn patterns_are_told_apart_and_found_again() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut series = Vec::new();
        // A ring, then pairs, then all to one, over and over, with some of everything.
        for bin in 0..90 {
            for task in 0..6_u32 {
                let partner = match bin % 3 {
                    0 => (task + 1) % 6,
                    1 => task ^ 1,
                    _ => 5 * u32::from(task != 5),
                };
                series.push(row(bin, task, partner, 100 + random.u64(0..30)));
            }
            series.push(row(bin, random.u32(0..3), random.u32(3..5), 20));
        }
        cohabit_model::profile::merge_series(&mut series);
        let found = recurring(&series);
        assert_eq!(found.patterns, 3);
        assert!((0..90).all(|bin| found.of(bin) == Some(bin as usize % 3)));
        assert_eq!((found.of(90), recurring(&[]).patterns), (None, 0));
    }

    #[test]
    fn however_many_there_are_some_are_told_apart() {
        let series: Vec<SeriesRow> = (0..300).map(|bin| row(bin, bin as u32, 1000, u64::MAX)).collect();
        let found = recurring(&series);
        assert_eq!((found.patterns, found.windows.len()), (MOST, 300));
    }
}
