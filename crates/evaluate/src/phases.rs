//! Phases of a run (IBM report, 3.2): the run as one, or a phase for each window of the profile's time series.

use cohabit_model::pattern::Messages;
use cohabit_model::profile::{SeriesRow, merge_series};
use cohabit_model::{Pattern, Profile};

/// A phase, and how often it comes.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// How often.
    pub weight: f64,
    /// What is sent in it.
    pub pattern: Pattern,
}

/// The whole run as one phase: all messages may be on their way at once.
pub fn whole(profile: &Profile) -> Vec<Phase> {
    vec![Phase { weight: 1.0, pattern: Pattern::of(profile) }]
}

/// A phase for each window of the series in which anything was sent: messages of different windows are never on their way
/// at once. Windows that are alike are one phase that comes as often. A message's length is the average of its pair in that
/// window, for the series knows no sizes.
pub fn windows(profile: &Profile) -> Vec<Phase> {
    of_series(profile.tasks(), &profile.series)
}

/// As [`windows`], at most so many: windows are joined two by two until the phases are no more than that. What is sent in
/// joined windows may be on its way at once.
pub fn windows_at_most(profile: &Profile, most: usize) -> Vec<Phase> {
    let mut series = profile.series.clone();
    loop {
        let phases = of_series(profile.tasks(), &series);
        if phases.len() <= most.max(1) {
            return phases;
        }
        series.iter_mut().for_each(|row| row.bin /= 2);
        merge_series(&mut series);
    }
}

fn of_series(tasks: usize, series: &[SeriesRow]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut at: std::collections::HashMap<Vec<(u32, u32, u64, u64)>, usize> = Default::default();
    for window in series.chunk_by(|a, b| a.bin == b.bin) {
        let rows = window.iter().filter(|row| row.messages > 0);
        let rows: Vec<_> = rows.map(|row| (row.source, row.destination, row.messages, row.bytes)).collect();
        if rows.is_empty() {
            continue;
        }
        if let Some(&known) = at.get(&rows) {
            phases[known].weight += 1.0;
            continue;
        }
        let messages = |&(source, destination, count, bytes): &(u32, u32, u64, u64)| Messages {
            source: source as usize,
            destination: destination as usize,
            length: bytes as f64 / count as f64,
            count,
        };
        let pattern = Pattern { tasks, messages: rows.iter().map(messages).collect() };
        at.insert(rows, phases.len());
        phases.push(Phase { weight: 1.0, pattern });
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;
    use cohabit_model::profile::{Kind, Meta};

    #[test]
    fn windows_that_are_alike_are_one_phase() {
        let matrix = Matrix::from_triplets(2, [(0, 1, 5)]);
        let mut profile = Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), matrix.clone(), matrix);
        let row = |bin, messages, bytes| SeriesRow { bin, source: 0, destination: 1, messages, bytes };
        profile.series = vec![row(0, 2, 20), row(3, 1, 64), row(4, 2, 20), row(9, 0, 0)];
        let found: Vec<_> = windows(&profile)
            .into_iter()
            .map(|phase| (phase.weight, phase.pattern.messages[0].length, phase.pattern.messages[0].count))
            .collect();
        assert_eq!(found, [(2.0, 10.0, 2), (1.0, 64.0, 1)]);
        assert_eq!(whole(&profile).len(), 1);
    }
    #[test]
    fn too_many_phases_are_joined_two_by_two() {
        let matrix = Matrix::from_triplets(2, [(0, 1, 5)]);
        let mut profile = Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), matrix.clone(), matrix);
        let row = |bin| SeriesRow { bin, source: 0, destination: 1, messages: 1 + bin, bytes: 10 * (1 + bin) };
        profile.series = (0..8).map(row).collect();
        for (most, counts) in [
            (8, vec![1, 2, 3, 4, 5, 6, 7, 8]),
            (7, vec![1 + 2, 3 + 4, 5 + 6, 7 + 8]),
            (3, vec![1 + 2 + 3 + 4, 5 + 6 + 7 + 8]),
            (1, vec![36]),
            (0, vec![36]),
        ] {
            let found = windows_at_most(&profile, most);
            assert_eq!(found.iter().map(|phase| phase.pattern.messages[0].count).collect::<Vec<_>>(), counts);
            assert!(found.iter().all(|phase| phase.weight == 1.0));
        }
    }
}
