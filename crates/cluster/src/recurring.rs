//! Windows in which the same pairs communicate, numbered in the order in which such windows first come: the phases of
//! an iterative program, found as phase trackers do (Sherwood, Sair and Calder, "Phase tracking and prediction", ISCA
//! 2003): the next window is of the known pattern nearest to it, or the first of a new one. Near is by Manhattan
//! distance of the shares that each task has with its partners.
//!
//! Where tasks share PUs, a short window has those tasks that ran in it, and is like few others, whatever the program
//! does. So windows are joined, two, four, eight at a time, until about as many tasks take part in a window as in one
//! four times as wide (what different tasks do by turns, one mapping serves as well), and of those widths that is taken
//! at which patterns are told apart best: by the simplified silhouette (Rousseeuw, "Silhouettes", J. Comput. Appl. Math. 20, 1987), how much nearer
//! windows are to their own pattern than to the next.

use cohabit_model::profile::SeriesRow;
use std::collections::HashMap;

/// Patterns that are told apart, at most; what differs from all of them is of the nearest.
const MOST: usize = 64;
/// Shares that differ by this much (2: no partner in common) are another pattern, where there are many events.
const ALIKE: f64 = 0.5;
/// Whatever chance may do to few events, what differs by so much is another pattern.
const LIMIT: f64 = 1.6;
/// Silhouettes of windows that make patterns; below it they are all of one. From 0.5 on a structure is called reasonable
/// (Kaufman and Rousseeuw, "Finding Groups in Data", 1990, table 4).
const REASONABLE: f64 = 0.5;
/// A silhouette that is better by less is no reason to join windows.
const BETTER: f64 = 0.1;
/// Tasks that take part in a window, of those that do in one [`WIDER`] steps wider, at least.
const TAKE_PART: f64 = 0.8;
const WIDER: usize = 2;
/// A pattern's share of all events, below which it is left out.
const NEGLIGIBLE: f64 = 0.01;
/// A window with fewer events than this share of its pattern's mean says nothing of what the program does.
const SPARSE: f64 = 0.1;
/// Windows that are left where they are joined, at least.
const FEWEST: usize = 4;

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

/// What happens in one window, or in several that are joined: events by pair, ascending.
#[derive(Debug, Clone)]
struct Window {
    bin: u64,
    events: Vec<(usize, f64)>,
    total: f64,
}

/// A pattern: events so far, by pair, and those that each task takes part in.
#[derive(Debug, Clone, Default)]
struct Pattern {
    events: Vec<f64>,
    tasks: Vec<f64>,
    total: f64,
    windows: usize,
}

impl Pattern {
    /// How differently tasks share out their events among partners (0 to 2), in the mean over events of those tasks that
    /// the pattern has: who does not run in a window is not another pattern for that. 0 where it has none of them.
    fn distance(&self, window: &Window, pairs: &[(u32, u32)]) -> f64 {
        let known = |task: u32| self.tasks.get(task as usize).copied().unwrap_or(0.0);
        let mut of_tasks: Vec<(u32, usize, f64)> = Vec::with_capacity(2 * window.events.len());
        let both = |&(pair, events): &(usize, f64)| [(pairs[pair].0, pair, events), (pairs[pair].1, pair, events)];
        of_tasks.extend(window.events.iter().flat_map(both).filter(|part| known(part.0) > 0.0));
        of_tasks.sort_unstable_by_key(|part| part.0);
        let (mut sum, mut all) = (0.0, 0.0);
        for part in of_tasks.chunk_by(|a, b| a.0 == b.0) {
            let total: f64 = part.iter().map(|part| part.2).sum();
            let (mut distance, mut met) = (0.0, 0.0);
            for &(task, pair, events) in part {
                let share = self.events.get(pair).copied().unwrap_or(0.0) / known(task);
                distance += (events / total - share).abs();
                met += share;
            }
            sum += total * (distance + (1.0 - met).max(0.0));
            all += total;
        }
        if all > 0.0 { sum / all } else { 0.0 }
    }

    fn add(&mut self, window: &Window, pairs: &[(u32, u32)]) {
        let put = |counts: &mut Vec<f64>, at: usize, events: f64| {
            if counts.len() <= at {
                counts.resize(at + 1, 0.0);
            }
            counts[at] += events;
        };
        self.total += window.total;
        self.windows += 1;
        for &(pair, events) in &window.events {
            put(&mut self.events, pair, events);
            put(&mut self.tasks, pairs[pair].0 as usize, events);
            put(&mut self.tasks, pairs[pair].1 as usize, events);
        }
    }
}

/// Windows of one width, and the pattern of each.
#[derive(Debug)]
struct Parted<'a> {
    pairs: &'a [(u32, u32)],
    shift: u32,
    windows: Vec<Window>,
    patterns: Vec<Pattern>,
    of: Vec<usize>,
}

impl<'a> Parted<'a> {
    fn new(windows: Vec<Window>, shift: u32, pairs: &'a [(u32, u32)]) -> Self {
        let (mut patterns, mut of): (Vec<Pattern>, _) = (Vec::new(), Vec::with_capacity(windows.len()));
        for window in &windows {
            // How far shares of so few events are from those that they are drawn with.
            let chance = (window.events.len() as f64 / window.total).sqrt();
            let at = match nearest(&patterns, window, pairs) {
                Some((at, distance)) if distance <= (ALIKE + chance).min(LIMIT) || patterns.len() == MOST => at,
                _ => {
                    patterns.push(Pattern::default());
                    patterns.len() - 1
                }
            };
            patterns[at].add(window, pairs);
            of.push(at);
        }
        let mut parted = Self { pairs, shift, windows, patterns, of };
        parted.leave_out_negligible();
        parted
    }

    /// Windows of patterns that have next to no events are of the nearest that has more: what a run begins and ends
    /// with, and windows in which one phase ends and another begins.
    fn leave_out_negligible(&mut self) {
        let all: f64 = self.patterns.iter().map(|pattern| pattern.total).sum();
        let mut stay = self.patterns.iter().map(|pattern| pattern.total >= NEGLIGIBLE * all);
        if stay.clone().all(|stays| stays) || !stay.any(|stays| stays) {
            return;
        }
        let mut place = vec![None; self.patterns.len()];
        let mut kept: Vec<Pattern> = Vec::new();
        for (at, pattern) in std::mem::take(&mut self.patterns).into_iter().enumerate() {
            if pattern.total >= NEGLIGIBLE * all {
                place[at] = Some(kept.len());
                kept.push(pattern);
            }
        }
        for (window, of) in self.windows.iter().zip(&mut self.of) {
            let nearest = || nearest(&kept, window, self.pairs).expect("one has more").0;
            *of = place[*of].unwrap_or_else(nearest);
        }
        self.patterns = kept;
    }

    /// The pattern of each window, where those in which next to nothing happens are of the one before, or at the
    /// beginning of the one behind.
    fn of_those_around(&self) -> Vec<usize> {
        let sparse = |(window, &of): (&Window, &usize)| {
            let pattern = &self.patterns[of];
            window.total < SPARSE * pattern.total / pattern.windows as f64
        };
        let mut of: Vec<Option<usize>> =
            self.windows.iter().zip(&self.of).map(|both| (!sparse(both)).then_some(*both.1)).collect();
        let mut last = of.iter().flatten().next().copied();
        for of in &mut of {
            last = of.or(last);
            *of = last;
        }
        of.into_iter().zip(&self.of).map(|(of, own)| of.unwrap_or(*own)).collect()
    }

    /// The mean over events of their windows' silhouettes: 1 where patterns are all their windows have in common, 0 of
    /// one that comes once, or where there is one alone.
    fn silhouette(&self) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for (window, &own) in self.windows.iter().zip(&self.of) {
            total += window.total;
            if self.patterns[own].windows < 2 {
                continue;
            }
            let (mut near, mut next) = (0.0, f64::INFINITY);
            for (at, pattern) in self.patterns.iter().enumerate() {
                let distance = pattern.distance(window, self.pairs);
                if at == own { near = distance } else { next = next.min(distance) }
            }
            if next.is_finite() && near.max(next) > 0.0 {
                sum += window.total * (next - near) / near.max(next);
            }
        }
        sum / total
    }
}

fn nearest(patterns: &[Pattern], window: &Window, pairs: &[(u32, u32)]) -> Option<(usize, f64)> {
    let distances = patterns.iter().enumerate().map(|(at, pattern)| (at, pattern.distance(window, pairs)));
    distances.reduce(|best, other| if other.1 < best.1 { other } else { best })
}

/// The patterns of a series that is sorted by window.
pub fn recurring(series: &[SeriesRow]) -> Recurring {
    let (windows, pairs) = windows_of(series);
    let mut widths = vec![windows.clone()];
    loop {
        let wider = joined(&widths[widths.len() - 1]);
        if wider.len() < FEWEST {
            break;
        }
        widths.push(wider);
    }
    let parts: Vec<f64> = widths.iter().map(|windows| tasks_that_take_part(windows, &pairs)).collect();
    let all_had_turns = |shift: usize| parts[shift] >= TAKE_PART * parts[(shift + WIDER).min(parts.len() - 1)];
    let first = (0..widths.len()).find(|&shift| all_had_turns(shift)).unwrap_or(0);
    let parted = (0..).zip(widths).skip(first).map(|(shift, windows)| Parted::new(windows, shift, &pairs));
    let found: Vec<(f64, Parted)> = parted.map(|parted| (parted.silhouette(), parted)).collect();
    let best = found.iter().map(|found| found.0).fold(0.0, f64::max);
    let good = |silhouette: f64| silhouette >= REASONABLE && silhouette >= best - BETTER;
    let Some((_, parted)) = found.into_iter().find(|found| good(found.0)) else {
        let all = windows.iter().map(|window| (window.bin, 0)).collect();
        return Recurring { patterns: usize::from(!windows.is_empty()), windows: all };
    };
    let of = parted.of_those_around();
    let place = |bin: u64| parted.windows.partition_point(|window| window.bin <= bin >> parted.shift) - 1;
    let mut numbers = vec![None; parted.patterns.len()];
    let mut patterns = 0;
    let numbered = windows.iter().map(|window| {
        let number = numbers[of[place(window.bin)]].get_or_insert_with(|| {
            patterns += 1;
            patterns - 1
        });
        (window.bin, *number)
    });
    let windows = numbered.collect();
    Recurring { patterns, windows }
}

/// Windows with events, and the pairs that these have numbers of.
fn windows_of(series: &[SeriesRow]) -> (Vec<Window>, Vec<(u32, u32)>) {
    let mut numbers: HashMap<(u32, u32), usize> = HashMap::new();
    let (mut windows, mut pairs) = (Vec::new(), Vec::new());
    for rows in series.chunk_by(|a, b| a.bin == b.bin) {
        let mut events: Vec<(usize, f64)> = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.messages > 0 && row.source != row.destination) {
            let pair = (row.source, row.destination);
            let number = *numbers.entry(pair).or_insert_with(|| {
                pairs.push(pair);
                pairs.len() - 1
            });
            events.push((number, row.messages as f64));
        }
        let total: f64 = events.iter().map(|pair| pair.1).sum();
        if total > 0.0 {
            events.sort_unstable_by_key(|pair| pair.0);
            windows.push(Window { bin: rows[0].bin, events, total });
        }
    }
    (windows, pairs)
}

/// How many tasks take part in what happens in a window, in the mean over events: the inverse of Simpson's index of
/// their shares, so that who has next to no part counts next to nothing.
fn tasks_that_take_part(windows: &[Window], pairs: &[(u32, u32)]) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    let mut parts: Vec<(u32, f64)> = Vec::new();
    for window in windows {
        parts.clear();
        let both = |&(pair, events): &(usize, f64)| [(pairs[pair].0, events), (pairs[pair].1, events)];
        parts.extend(window.events.iter().flat_map(both));
        parts.sort_unstable_by_key(|part| part.0);
        let share = |part: &[(u32, f64)]| part.iter().map(|part| part.1).sum::<f64>() / (2.0 * window.total);
        let squares: f64 = parts.chunk_by(|a, b| a.0 == b.0).map(|part| share(part).powi(2)).sum();
        sum += window.total / squares;
        total += window.total;
    }
    if total > 0.0 { sum / total } else { 0.0 }
}

/// Windows of twice the width.
fn joined(windows: &[Window]) -> Vec<Window> {
    let join = |both: &[Window]| {
        let mut events: Vec<(usize, f64)> = both.iter().flat_map(|window| window.events.iter().copied()).collect();
        events.sort_by_key(|pair| pair.0);
        events.dedup_by(|other, first| {
            let same = other.0 == first.0;
            first.1 += if same { other.1 } else { 0.0 };
            same
        });
        Window { bin: both[0].bin >> 1, events, total: both.iter().map(|window| window.total).sum() }
    };
    windows.chunk_by(|a, b| a.bin >> 1 == b.bin >> 1).map(join).collect()
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

    /// Eight tasks on two PUs: a window has the exchange of those two that ran in it.
    fn in_turns(windows: u64, partner: impl Fn(u64, u32) -> u32) -> Vec<SeriesRow> {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut series, mut turns) = (Vec::new(), [0, 1, 2, 3, 4, 5, 6, 7]);
        for bin in 0..windows {
            // A program's start: whoever begins touches something of another's, and next to nothing happens.
            let (pairs, messages) = if bin < 20 { (1, 2) } else { (2, 400 + random.u64(0..200)) };
            if bin % 4 == 0 {
                random.shuffle(&mut turns);
            }
            for &task in turns[(bin % 4 * 2) as usize..].iter().take(pairs) {
                series.push(row(bin, task, partner(bin, task), messages));
                series.push(row(bin, task, (task + 3) % 8, messages / 50));
            }
        }
        cohabit_model::profile::merge_series(&mut series);
        series
    }

    #[test]
    fn tasks_that_share_pus_make_no_patterns() {
        let found = recurring(&in_turns(1000, |_, task| (task + 1) % 8));
        assert_eq!((found.patterns, found.windows.len()), (1, 1000));
    }

    #[test]
    fn two_phases_are_two_patterns_though_tasks_share_pus() {
        let found = recurring(&in_turns(2000, |bin, task| if bin < 1000 { task ^ 1 } else { task ^ 2 }));
        assert_eq!(found.patterns, 2);
        let right = found.windows.iter().filter(|(bin, pattern)| *pattern == usize::from(*bin >= 1000)).count();
        assert!(right >= 1900, "{right}");
        let changes = found.windows.windows(2).filter(|both| both[0].1 != both[1].1).count();
        assert_eq!(changes, 1);
    }

    #[test]
    fn however_many_there_are_some_are_told_apart() {
        let window = |bin: u64, kinds: u64| {
            (0..99).map(move |task| row(bin, task, (task + 1 + (bin % kinds) as u32) % 99, u64::MAX >> 8))
        };
        let mut series: Vec<SeriesRow> = (0..300).flat_map(|bin| window(bin, 75)).collect();
        let found = recurring(&series);
        assert_eq!((found.patterns, found.windows.len()), (MOST, 300));
        // No window is like another: there is no pattern.
        series = (0..90).flat_map(|bin| window(bin, 90)).collect();
        assert_eq!(recurring(&series).patterns, 1);
    }
}
