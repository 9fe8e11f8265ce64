//! Phases of a run (IBM report, 3.2): the run as one, a phase for each turn where tasks take turns, or the bursts that
//! the time series shows.

use crate::turns::turns;
use cohabit_model::pattern::Messages;
use cohabit_model::profile::{Kind, NO_ORDER, PhaseRow, SentBy, SeriesRow, merge_series};
use cohabit_model::{Hct, Pattern};
use cohabit_model::{Profile, Result};
use cohabit_network::estimator::Growing;
use cohabit_network::{Phase, Replay, Traffic};

/// The share of all bytes that is in phases too small to be told apart, and of what is in a collective's but not sent
/// by it.
const ASIDE: f64 = 0.01;

/// What is sent in a run: its [`usual`] phases, and its trace where it has one.
pub fn traffic(profile: &Profile) -> Traffic {
    Traffic { phases: usual(profile), replay: Replay::of(profile) }
}

/// Where tasks take turns, a phase for each turn: messages of different turns never wait for one another.
///
/// Else the whole run as one phase, in which all messages may be on their way at once, and where the profile tells
/// phases apart also each of these, all with weight 1/2: the run takes at least as long as the one, if no port is ever
/// idle while it has to do, and as long as all the others together, if none begins before the one before it is over
/// everywhere. Ranks that go ahead of others are between the two.
pub fn usual(profile: &Profile) -> Vec<Phase> {
    let Some(turns) = turns(profile) else {
        let mut parts = told_apart(profile);
        return match parts.len() {
            0 => vec![Phase::new(1.0, Pattern::of(profile))],
            1 => vec![Phase::new(1.0, parts.remove(0))],
            _ => Phase::whole(Pattern::of(profile), parts),
        };
    };
    let last = turns.iter().max().copied().unwrap_or(0);
    let messages = Pattern::of(profile).messages;
    let phase = |turn: usize| {
        let pattern = match profile.phases.is_empty() {
            false => {
                let rows = profile.phases.iter().filter(|row| turns[row.size.source as usize] == turn);
                pattern(profile.tasks(), rows)
            }
            true => {
                let messages = messages.iter().filter(|messages| turns[messages.source] == turn).copied().collect();
                Pattern { tasks: profile.tasks(), messages, ..Pattern::default() }
            }
        };
        Phase::new(1.0, pattern)
    };
    (0..=last).map(phase).filter(|phase| !phase.pattern.messages.is_empty()).collect()
}

/// What these rows of phases say, with its order where that is known of all.
fn pattern<'a>(tasks: usize, rows: impl Iterator<Item = &'a PhaseRow> + Clone) -> Pattern {
    let order = rows.clone().map(|row| Some(row.order).filter(|&order| order != NO_ORDER));
    let order = order.collect::<Option<_>>().unwrap_or_default();
    let bytes = |by: &[SentBy]| -> f64 {
        rows.clone().filter(|row| by.contains(&row.by)).map(|row| row.size.bytes as f64).sum()
    };
    let (steps, at_once) = (bytes(&[SentBy::Steps]), bytes(&[SentBy::Collective]));
    let collective = steps + at_once;
    let by = match collective > 0.0 && bytes(&[SentBy::Program]) <= ASIDE * collective {
        false => SentBy::Program,
        true if at_once <= ASIDE * steps => SentBy::Steps,
        true => SentBy::Collective,
    };
    Pattern { tasks, messages: rows.map(|row| Messages::from(&row.size)).collect(), order, by }
}

/// How many phases these are of a run, each as often as it comes; the run as a whole is none of those that are told
/// apart.
pub fn count(phases: &[Phase]) -> f64 {
    match phases {
        [Phase { is_whole: true, .. }, parts @ ..] => parts.len() as f64,
        _ => phases.iter().map(|phase| phase.weight).sum(),
    }
}

/// The patterns of the profile's phases, in their order; those with the fewest bytes, [`ASIDE`] of all, are one, the
/// last.
fn told_apart(profile: &Profile) -> Vec<Pattern> {
    let bytes = |rows: &[PhaseRow]| rows.iter().map(|row| row.size.bytes as f64).sum::<f64>();
    let mut phases: Vec<(f64, &[PhaseRow])> =
        profile.phases.chunk_by(|a, b| a.phase == b.phase).map(|rows| (bytes(rows), rows)).collect();
    phases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let aside = ASIDE * phases.iter().map(|phase| phase.0).sum::<f64>();
    let mut so_far = 0.0;
    let small = phases.iter().take_while(|phase| {
        so_far += phase.0;
        so_far <= aside
    });
    let small = small.count();
    let (small, large) = phases.split_at_mut(small);
    large.sort_by_key(|(_, rows)| rows[0].phase);
    let tasks = profile.tasks();
    let mut patterns: Vec<Pattern> = large.iter().map(|(_, rows)| pattern(tasks, rows.iter())).collect();
    if !small.is_empty() {
        // Of different phases nothing is before anything else.
        let all = pattern(tasks, small.iter().flat_map(|(_, rows)| rows.iter()));
        patterns.push(Pattern { order: Vec::new(), ..all });
    }
    patterns
}

/// A phase for each burst: messages that are sent while others of it are still on their way, as the estimator has it
/// under `mapping` (`mapping[task]` is a processing element of `hct`), which the run is taken to have had. Messages of
/// different bursts never wait for one another. Where there are more than `most`, bursts are joined two by two until
/// they are no more than that. Bursts that are alike are one phase that comes as often. A message's length is the
/// average of its pair in the burst, for the series knows no sizes.
///
/// The phases are the [`usual`] ones where the profile has no time series of ranks (other series are stretched by what
/// observes), and where all messages are one burst: as when it was observed on a faster network than this.
///
/// # Errors
/// As for [`cohabit_network::estimate`].
pub fn bursts(profile: &Profile, hct: &Hct, mapping: &[usize], most: usize) -> Result<Vec<Phase>> {
    if profile.meta.kind != Kind::Ranks || profile.meta.window_ns == 0 {
        return Ok(usual(profile));
    }
    let mut series = numbered(profile, hct, mapping)?;
    while series.last().is_some_and(|row| row.bin > 0) {
        let phases = of_series(profile.tasks(), &series);
        if phases.len() <= most.max(1) {
            return Ok(phases);
        }
        series.iter_mut().for_each(|row| row.bin /= 2);
        merge_series(&mut series);
    }
    Ok(usual(profile))
}

/// The series with the number of its burst in the place of each row's window.
fn numbered(profile: &Profile, hct: &Hct, mapping: &[usize]) -> Result<Vec<SeriesRow>> {
    let mut series: Vec<SeriesRow> = profile.series.iter().filter(|row| row.messages > 0).cloned().collect();
    merge_series(&mut series);
    let window_s = profile.meta.window_ns as f64 * 1e-9;
    let mut growing = Growing::new(hct, profile.tasks(), mapping)?;
    let (mut burst, mut begun) = (0, None);
    for window in series.chunk_by_mut(|a, b| a.bin == b.bin) {
        let now = window[0].bin as f64 * window_s;
        let begin: f64 = *begun.get_or_insert(now);
        if now >= begin + growing.seconds() && growing.seconds() > 0.0 {
            burst += 1;
            begun = Some(now);
            growing.clear();
        }
        for row in window {
            growing.add(&messages(row));
            row.bin = burst;
        }
    }
    merge_series(&mut series);
    Ok(series)
}

/// The messages of a row, all of their average length.
fn messages(row: &SeriesRow) -> Messages {
    Messages {
        source: row.source as usize,
        destination: row.destination as usize,
        length: row.bytes as f64 / row.messages as f64,
        count: row.messages,
    }
}

fn of_series(tasks: usize, series: &[SeriesRow]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut at: std::collections::HashMap<Vec<(u32, u32, u64, u64)>, usize> = Default::default();
    for burst in series.chunk_by(|a, b| a.bin == b.bin) {
        let rows = burst.iter().map(|row| (row.source, row.destination, row.messages, row.bytes)).collect();
        if let Some(&known) = at.get(&rows) {
            phases[known].weight += 1.0;
            continue;
        }
        at.insert(rows, phases.len());
        let messages = burst.iter().map(messages).collect();
        phases.push(Phase::new(1.0, Pattern { tasks, messages, ..Pattern::default() }));
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::Matrix;
    use cohabit_model::hct::Port;
    use cohabit_model::profile::{Meta, SizeRow};

    /// A profile of four ranks with these rows (window, source, destination, bytes), a message each; windows of a
    /// second.
    fn profile(rows: &[(u64, u32, u32, u64)]) -> Profile {
        let matrix = |of: fn(u64) -> u64| Matrix::from_triplets(4, rows.iter().map(|row| (row.1, row.2, of(row.3))));
        let mut profile =
            Profile::new(Meta::new(Kind::Ranks, "test", Vec::new()), matrix(|_| 1), matrix(|bytes| bytes));
        profile.meta.window_ns = 1_000_000_000;
        let row = |&(bin, source, destination, bytes)| SeriesRow { bin, source, destination, messages: 1, bytes };
        profile.series = rows.iter().map(row).collect();
        profile
    }

    /// Four processors on one switch, 10 bytes/s each.
    fn network() -> (Hct, Vec<usize>) {
        let mut hct = Hct::new(None).unwrap();
        let mapping = (0..4).map(|_| hct.add_processing(0, Port::flat(10.0).unwrap()).unwrap()).collect();
        (hct, mapping)
    }

    /// (weight, messages) of each phase.
    fn found(profile: &Profile, most: usize) -> Vec<(f64, u64)> {
        let (hct, mapping) = network();
        let phases = bursts(profile, &hct, &mapping, most).unwrap();
        let count = |phase: &Phase| phase.pattern.messages.iter().map(|messages| messages.count).sum();
        phases.iter().map(|phase| (phase.weight, count(phase))).collect()
    }

    #[test]
    fn a_burst_lasts_while_messages_of_it_are_on_their_way() {
        for (rows, expected) in [
            // 20 bytes take two seconds: what is sent in the third begins another.
            (&[(0, 0, 1, 20), (1, 2, 3, 5), (2, 1, 0, 5)][..], vec![(1.0, 2), (1.0, 1)]),
            // What comes meanwhile makes it longer where the same port has to take it.
            (&[(0, 0, 1, 20), (1, 0, 1, 20), (3, 1, 0, 5)], vec![(1.0, 3)]),
            (&[(0, 0, 1, 20), (1, 0, 1, 20), (4, 1, 0, 5)], vec![(1.0, 2), (1.0, 1)]),
            // Gaps are no phases, and what is alike comes as often.
            (&[(3, 0, 1, 9), (5, 2, 3, 9), (9, 0, 1, 9)], vec![(2.0, 1), (1.0, 1)]),
            // What nobody sends is none, and what takes no time ends no burst.
            (&[(0, 1, 1, 0), (7, 0, 1, 9)], vec![(1.0, 2)]),
        ] {
            assert_eq!(found(&profile(rows), usize::MAX), expected, "{rows:?}");
        }
    }

    #[test]
    fn without_a_series_of_ranks_the_run_is_one_phase() {
        let rows = [(0, 0, 1, 9), (5, 2, 3, 9)];
        let all = vec![(1.0, 2)];
        assert_eq!(found(&profile(&rows), usize::MAX).len(), 2);
        let mut of_threads = profile(&rows);
        of_threads.meta.kind = Kind::Threads;
        let mut without = profile(&rows);
        without.series.clear();
        let mut unknown = profile(&rows);
        unknown.meta.window_ns = 0;
        for profile in [of_threads, without, unknown] {
            assert_eq!(found(&profile, usize::MAX), all);
        }
    }

    #[test]
    fn phases_that_are_told_apart_are_half_of_it() {
        let mut profile = profile(&[(0, 0, 1, 1000), (0, 1, 0, 1000), (0, 2, 3, 1000), (0, 3, 2, 9), (0, 3, 0, 9)]);
        let row = |phase, source, destination, bytes| PhaseRow {
            phase,
            order: NO_ORDER,
            by: SentBy::Program,
            size: SizeRow { source, destination, class: 0, messages: 1, bytes },
        };
        let one = usual(&profile);
        assert_eq!((one.len(), one[0].weight), (1, 1.0));
        profile.phases =
            vec![row(0, 3, 2, 9), row(1, 0, 1, 1000), row(1, 1, 0, 1000), row(4, 3, 0, 9), row(7, 2, 3, 1000)];
        let phases = usual(&profile);
        assert!(phases.iter().all(|phase| phase.weight == 0.5));
        assert_eq!((count(&one), count(&phases)), (1.0, 3.0));
        assert_eq!(phases[0].pattern, one[0].pattern);
        let pairs = |phase: &Phase| -> Vec<(usize, usize)> {
            phase.pattern.messages.iter().map(|messages| (messages.source, messages.destination)).collect()
        };
        let parts: Vec<_> = phases[1..].iter().map(pairs).collect();
        assert_eq!(parts, [vec![(0, 1), (1, 0)], vec![(2, 3)], vec![(3, 2), (3, 0)]], "what is small comes last");
        // At 10 bytes/s: into the first 1,009 bytes in the whole; then 1,000 twice, and 18 out of the last.
        let (hct, mapping) = network();
        let seconds =
            |phase: &Phase| phase.weight * cohabit_network::estimate(&hct, &phase.pattern, &mapping).unwrap().seconds;
        let total: f64 = phases.iter().map(seconds).sum();
        assert!((total - (100.9 + 100.0 + 100.0 + 1.8) / 2.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn a_phase_is_a_collective_s_where_nearly_all_of_it_is() {
        let row = |order, bytes, by| PhaseRow {
            phase: 0,
            order,
            by,
            size: SizeRow { source: 0, destination: 1, class: 0, messages: 1, bytes },
        };
        use SentBy::{Collective, Program, Steps};
        for (rows, order, by) in [
            (&[row(0, 1000, Collective), row(1, 9, Program)][..], &[0, 1][..], Collective),
            (&[row(0, 1000, Collective), row(1, 11, Program)], &[0, 1], Program),
            (&[row(1, 1000, Steps), row(0, 9, Collective)], &[1, 0], Steps),
            (&[row(1, 1000, Steps), row(0, 11, Collective)], &[1, 0], Collective),
            (&[row(1, 1000, Steps), row(NO_ORDER, 9, Program)], &[], Steps),
            (&[row(0, 0, Program)], &[0], Program),
        ] {
            let found = pattern(2, rows.iter());
            assert_eq!((&found.order[..], found.by, found.messages.len()), (order, by, rows.len()), "{rows:?}");
        }
        // The only phase of a run is the run, with its order.
        let mut profile = profile(&[(0, 0, 1, 1000)]);
        profile.phases = vec![row(0, 1000, Steps)];
        let phases = usual(&profile);
        assert_eq!((phases.len(), phases[0].weight, phases[0].is_whole), (1, 1.0, false));
        assert_eq!((&phases[0].pattern.order[..], phases[0].pattern.by), (&[0][..], Steps));
    }

    #[test]
    fn turns_are_phases() {
        let messages = |rows: &[(u64, u32, u32, u64)]| {
            usual(&profile(rows)).iter().map(|phase| phase.pattern.messages.len()).collect::<Vec<_>>()
        };
        assert_eq!(messages(&[(0, 0, 2, 9), (1, 1, 2, 9), (4, 2, 3, 9)]), [2, 1]);
        assert_eq!(messages(&[(0, 0, 2, 9), (4, 1, 2, 9), (4, 2, 0, 9)]), [3]);
    }

    #[test]
    fn too_many_phases_are_joined_two_by_two() {
        // Bursts of different lengths, far from one another.
        let rows: Vec<_> = (0..8).map(|number| (100 * number, 0, 1, 10 + number)).collect();
        for (most, phases) in [(8, 8), (7, 4), (3, 2), (1, 1), (0, 1)] {
            let found = found(&profile(&rows), most);
            assert_eq!((found.len(), found.iter().map(|phase| phase.1).sum::<u64>()), (phases, 8), "{most}");
        }
    }
}
