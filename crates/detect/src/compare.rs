//! Detectors held against one another on one run.

use crate::work::Work;
use crate::{DETECTORS, Detected, Row, Setting};
use cohabit_access::Recording;
use cohabit_access::order::{Event, in_turns};
use cohabit_model::{Matrix, Result};

/// Accesses that a task makes before another has its turn: few against what a scheduler gives, many against a lock.
pub const TURN_ACCESSES: u64 = 64;

/// Accesses, of all tasks together, of a stretch that a sampled detector sees: many against a turn.
pub const STRETCH_ACCESSES: u64 = 10_000;

/// All detectors on one run.
pub struct Compared {
    /// What each found, in the table's order; then, where that is wanted, each sampled.
    pub found: Vec<Found>,
    /// How much each task accesses.
    pub work: Work,
}

/// A detector and what it found.
pub struct Found {
    /// Which detector.
    pub row: &'static Row,
    /// It saw one stretch in so many; none: all of the run.
    pub sampled: Option<u64>,
    /// What it found.
    pub detected: Detected,
    /// How its matrix, both directions summed, goes with exact communication over all pairs.
    pub with_communication: Agreement,
    /// The same with exact sharing.
    pub with_sharing: Agreement,
}

/// How two matrices agree, over unordered pairs of different tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Pearson's coefficient of correlation; none where one of them is the same for all pairs.
    pub correlation: Option<f64>,
    /// Spearman's coefficient, of the ranks.
    pub rank_correlation: Option<f64>,
}

/// Feeds one order of a recording's accesses to all detectors.
///
/// # Errors
/// The recording cannot be read, or its waits cannot be kept.
pub fn compare(recording: &dyn Recording, setting: &Setting) -> Result<Compared> {
    compare_some(recording, setting, &|_| true)
}

/// Feeds it to the detectors that are `wanted`, by name. Where exact communication or sharing is not among them,
/// nothing agrees with it.
///
/// # Errors
/// As [`compare`].
pub fn compare_some(recording: &dyn Recording, setting: &Setting, wanted: &dyn Fn(&str) -> bool) -> Result<Compared> {
    let rows = DETECTORS.iter().filter(|row| wanted(row.name));
    let mut running: Vec<_> = rows.clone().map(|row| (row, None, (row.make)(setting))).collect();
    if let Some(every) = setting.sampled {
        let cycles_per_access = setting.cycles_per_access * every as f64;
        let sparse = Setting { cycles_per_access, ..setting.clone() };
        running.extend(rows.map(|row| (row, Some(every), (row.make)(&sparse))));
    }
    let (mut accesses, mut work) = (0, Work::of(recording)?);
    in_turns(recording, TURN_ACCESSES, &mut |event| {
        let stretch = accesses / STRETCH_ACCESSES;
        if let Event::Access(access) = &event {
            accesses += 1;
            work.take(access);
        }
        // What is unmapped is known to who samples as well.
        let always = matches!(event, Event::Clear(_));
        for (_, sampled, detector) in &mut running {
            if always || sampled.is_none_or(|every| stretch % every == 0) {
                detector.take(&event);
            }
        }
        Ok(())
    })?;
    let detected: Vec<_> = running.into_iter().map(|(row, sampled, it)| (row, sampled, it.finish())).collect();
    let matrix = |name: &str| {
        let found = detected.iter().find(|(row, sampled, _)| row.name == name && sampled.is_none());
        found.map(|(_, _, found)| pairs(&found.matrix)).unwrap_or_default()
    };
    let (exact, sharing) = (matrix("exact"), matrix("sharing"));
    let found = detected.iter().map(|(row, sampled, detected)| {
        let own = pairs(&detected.matrix);
        Found {
            row,
            sampled: *sampled,
            detected: detected.clone(),
            with_communication: agreement(&own, &exact),
            with_sharing: agreement(&own, &sharing),
        }
    });
    Ok(Compared { found: found.collect(), work })
}

/// The sums of both directions of all unordered pairs.
fn pairs(matrix: &Matrix) -> Vec<f64> {
    let tasks = matrix.tasks();
    let mut sums = vec![0.0; tasks * tasks.saturating_sub(1) / 2];
    for (source, destination, count) in matrix.iter() {
        let (low, high) = (source.min(destination) as usize, source.max(destination) as usize);
        if low != high {
            sums[high * (high - 1) / 2 + low] += count as f64;
        }
    }
    sums
}

fn agreement(a: &[f64], b: &[f64]) -> Agreement {
    Agreement { correlation: correlation(a, b), rank_correlation: correlation(&ranks(a), &ranks(b)) }
}

fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        both += (x - mean_a) * (y - mean_b);
        of_a += (x - mean_a).powi(2);
        of_b += (y - mean_b).powi(2);
    }
    (of_a > 0.0 && of_b > 0.0).then(|| both / (of_a * of_b).sqrt())
}

/// Ranks, equal values sharing the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let equal = order[first..].iter().take_while(|&&at| values[at] == values[order[first]]).count();
        for &at in &order[first..first + equal] {
            ranks[at] = first as f64 + (equal - 1) as f64 / 2.0;
        }
        first += equal;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_pearson_s_and_spearman_s() {
        type Row = (&'static [f64], &'static [f64], Option<f64>, Option<f64>);
        let rows: [Row; 4] = [
            (&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0], Some(1.0), Some(1.0)),
            (&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0], Some(-1.0), Some(-1.0)),
            // Grows always, not evenly: (1, 2, 9) with (1, 2, 3).
            (&[1.0, 2.0, 9.0], &[1.0, 2.0, 3.0], Some(8.0 / (2.0 * 38.0_f64).sqrt()), Some(1.0)),
            (&[5.0, 5.0, 5.0], &[1.0, 2.0, 3.0], None, None),
        ];
        for (a, b, pearson, spearman) in rows {
            let found = agreement(a, b);
            for (found, wanted) in [(found.correlation, pearson), (found.rank_correlation, spearman)] {
                assert_eq!(found.is_some(), wanted.is_some(), "{a:?} {b:?}");
                assert!((found.unwrap_or(0.0) - wanted.unwrap_or(0.0)).abs() < 1e-12, "{a:?} {b:?}: {found:?}");
            }
        }
    }

    /// One stretch in so many: of two tasks that pass a line to and fro all the time, that part of what all of it
    /// shows.
    #[test]
    fn sampled_detectors_see_their_part() {
        let recording = cohabit_access::synthetic::parse("pairs:2:64:50").unwrap();
        let wanted = |name: &str| ["exact", "deloc"].contains(&name);
        let setting = |sampled| Setting { sampled, ..Setting::new(2) };
        let found = |sampled| compare_some(&recording, &setting(sampled), &wanted).unwrap().found;
        let (all, sampled) = (found(None), found(Some(4)));
        assert_eq!((all.len(), sampled.len()), (2, 4));
        for (one, same) in all.iter().zip(&sampled) {
            assert_eq!((&one.detected, one.sampled), (&same.detected, None));
        }
        for (part, whole) in sampled[2..].iter().zip(&all) {
            assert_eq!((part.sampled, part.row.name), (Some(4), whole.row.name));
            let share = part.detected.occasions as f64 / whole.detected.occasions as f64;
            assert!((0.2..0.35).contains(&share), "{share}");
            assert!(
                part.detected.matrix.total() * 2 < whole.detected.matrix.total() && part.detected.matrix.total() > 0
            );
        }
        let every = found(Some(1));
        assert!(every[..2].iter().zip(&every[2..]).all(|(whole, same)| whole.detected == same.detected));
    }

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[7.0, 1.0, 7.0, 0.0]), [2.5, 1.0, 2.5, 0.0]);
    }
}
