//! Parts of a run by clusters, by windows that come again, and by the phases that the program names: a matrix each.

use crate::recurring::{Recurring, recurring};
use crate::{Clustering, Options, Windows, clusters};
use cohabit_model::profile::SeriesRow;
use cohabit_model::series::Window;
use cohabit_model::timeline::By;
use cohabit_model::{Error, Matrix, Period, Profile, Result, Timeline};

/// The run's clusters in time.
///
/// # Errors
/// The profile has no time series.
pub fn of_clusters(profile: &Profile, options: &Options) -> Result<(Windows, Clustering, Timeline)> {
    check(profile)?;
    let windows = Windows::of_series(&profile.series);
    let clustering = clusters(&windows, options);
    let periods = collect(profile, clustering.clusters, |bin| clustering.of(&windows, bin));
    let periods = numbered(periods, |at| at as u64);
    Ok((windows, clustering, Timeline { by: By::Clusters, window: profile.meta.window(), periods }))
}

/// Windows in which the same pairs communicate, as one part each; the numbers of those windows are in [`Recurring`].
///
/// # Errors
/// The profile has no time series.
pub fn of_recurring(profile: &Profile) -> Result<(Recurring, Timeline)> {
    check(profile)?;
    let found = recurring(&profile.series);
    let periods = collect(profile, found.patterns, |bin| found.of(bin));
    let periods = numbered(periods, |at| at as u64);
    Ok((found, Timeline { by: By::Recurring, window: profile.meta.window(), periods }))
}

/// The phases that the program says it is in; a window is of the phase that its middle lies in.
///
/// # Errors
/// The profile has no time series, or the program names no phases.
pub fn of_markers(profile: &Profile) -> Result<Timeline> {
    check(profile)?;
    let mut markers = profile.meta.markers.clone();
    markers.sort_by_key(|marker| marker.at_ns);
    if markers.is_empty() {
        let cause = "the profile has no phases of the program";
        return Err(Error::new(cause).remedy("mark them by cohabit_phase (include/cohabit.h) and profile again"));
    }
    let Window::Time(window_ns) = profile.meta.window() else {
        let cause = "phases of the program begin at a time, and the profile's windows are of instructions";
        return Err(Error::new(cause).remedy("profile with windows of time (--window 1ms), or look for clusters"));
    };
    let mut numbers: Vec<u64> = Vec::new();
    markers.iter().for_each(|marker| {
        if !numbers.contains(&marker.number) {
            numbers.push(marker.number);
        }
    });
    let place = |bin: u64| {
        let middle = bin.saturating_mul(window_ns).saturating_add(window_ns / 2);
        let at = markers.partition_point(|marker| marker.at_ns <= middle).checked_sub(1)?;
        numbers.iter().position(|&number| number == markers[at].number)
    };
    let periods = numbered(collect(profile, numbers.len(), place), |at| numbers[at]);
    Ok(Timeline { by: By::Markers, window: profile.meta.window(), periods })
}

/// Whether the program says what phase it is in at the times that the series is of.
pub fn names_phases(profile: &Profile) -> bool {
    !profile.meta.markers.is_empty() && matches!(profile.meta.window(), Window::Time(_))
}

/// The parts of a run that are preferred where nothing else is asked for (see [`cohabit_model::timeline`]).
///
/// # Errors
/// The profile has no time series.
pub fn preferred(profile: &Profile, options: &Options) -> Result<Timeline> {
    match names_phases(profile) {
        true => of_markers(profile),
        false => Ok(of_clusters(profile, options)?.2),
    }
}

/// The parts of a run that a mapping each is made for: the phases that the program names, windows of several patterns
/// where there are any, else clusters (docs/time.md has this order).
///
/// # Errors
/// The profile has no time series.
pub fn for_mappings(profile: &Profile, options: &Options) -> Result<Timeline> {
    if names_phases(profile) {
        return of_markers(profile);
    }
    let (found, timeline) = of_recurring(profile)?;
    match found.patterns > 1 {
        true => Ok(timeline),
        false => Ok(of_clusters(profile, options)?.2),
    }
}

/// The parts in the order in which they come, each as often as it comes: places in [`Timeline::periods`]. Phases that
/// the program names are in the order of its markers, also where they are shorter than a window; what is in no part is
/// left out.
pub fn order(profile: &Profile, timeline: &Timeline) -> Vec<usize> {
    let mut order: Vec<usize> = match timeline.by {
        By::Markers => {
            let mut markers = profile.meta.markers.clone();
            markers.sort_by_key(|marker| marker.at_ns);
            let place = |number| timeline.periods.iter().position(|period| period.number == number);
            markers.iter().filter_map(|marker| place(marker.number)).collect()
        }
        By::Clusters | By::Recurring | By::Calls => {
            let parts = timeline.periods.iter().enumerate();
            let mut spans: Vec<(u64, usize)> =
                parts.flat_map(|(at, period)| period.spans.iter().map(move |span| (span.start, at))).collect();
            spans.sort_unstable();
            spans.into_iter().map(|span| span.1).collect()
        }
    };
    order.dedup();
    order
}

pub(crate) fn check(profile: &Profile) -> Result<()> {
    if profile.series.is_empty() {
        let cause = "the profile has no time series";
        return Err(Error::new(cause)
            .remedy("profile the program with 'cohabit profile'; matrices of other tools have no series"));
    }
    Ok(())
}

/// What is exchanged in the windows of each part, and which these are. What a task sends to itself is exchanged with
/// nobody, and a window of nothing else has no events.
pub(crate) fn collect(
    profile: &Profile,
    count: usize,
    part_of: impl Fn(u64) -> Option<usize>,
) -> Vec<(Vec<std::ops::Range<u64>>, Matrix, Matrix)> {
    let tasks = profile.tasks();
    let mut spans = vec![Vec::new(); count];
    let mut rows: Vec<Vec<&SeriesRow>> = vec![Vec::new(); count];
    let mut last = None;
    let between = |row: &&SeriesRow| row.source != row.destination;
    for window in profile.series.chunk_by(|a, b| a.bin == b.bin) {
        let bin = window[0].bin;
        let part = part_of(bin);
        if !window.iter().any(|row| between(&row)) {
            continue;
        }
        if let Some(part) = part {
            rows[part].extend(window.iter().filter(between));
            let own: &mut Vec<std::ops::Range<u64>> = &mut spans[part];
            match own.last_mut() {
                // Windows without events in between part nothing.
                Some(span) if last == Some(part) => span.end = bin.saturating_add(1),
                _ => own.push(bin..bin.saturating_add(1)),
            }
        }
        last = part.or(None);
    }
    let matrix = |rows: &[&SeriesRow], value: fn(&SeriesRow) -> u64| {
        Matrix::from_triplets(tasks, rows.iter().map(|row| (row.source, row.destination, value(row))))
    };
    let parts = spans.into_iter().zip(rows);
    parts.map(|(spans, rows)| (spans, matrix(&rows, |row| row.messages), matrix(&rows, |row| row.bytes))).collect()
}

/// In the order of their first windows; those without any are left out.
pub(crate) fn numbered(
    parts: Vec<(Vec<std::ops::Range<u64>>, Matrix, Matrix)>,
    number: impl Fn(usize) -> u64,
) -> Vec<Period> {
    let parts = parts.into_iter().enumerate();
    let mut periods: Vec<Period> = parts
        .map(|(at, (spans, messages, bytes))| Period { number: number(at), spans, messages, bytes })
        .filter(|period| !period.spans.is_empty())
        .collect();
    periods.sort_by_key(|period| period.spans[0].start);
    periods
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::profile::{Kind, Marker, Meta, merge_series};

    /// Two bursts of one pair each, far apart, in windows of 10 ns.
    fn profile(rows: &[(u64, u32, u32, u64)]) -> Profile {
        let row = |&(bin, source, destination, messages): &(u64, u32, u32, u64)| SeriesRow {
            bin,
            source,
            destination,
            messages,
            bytes: 8 * messages,
        };
        let mut series: Vec<SeriesRow> = rows.iter().map(row).collect();
        merge_series(&mut series);
        let sum = Matrix::from_triplets(4, series.iter().map(|row| (row.source, row.destination, row.messages)));
        let meta = Meta { window_ns: 10, ..Meta::new(Kind::Threads, "test", Vec::new()) };
        Profile { series, ..Profile::new(meta, sum.clone(), sum) }
    }

    fn bursts() -> Profile {
        let first = (100..110).flat_map(|bin| [(bin, 0, 1, 5), (bin, 1, 0, 5)]);
        profile(&first.chain((500..510).map(|bin| (bin, 2, 3, 7))).collect::<Vec<_>>())
    }

    #[test]
    fn each_cluster_has_its_matrix() {
        let (windows, clustering, timeline) = of_clusters(&bursts(), &Options::default()).unwrap();
        assert_eq!((windows.len(), clustering.clusters, timeline.by), (20, 2, By::Clusters));
        let [first, second] = &timeline.periods[..] else { panic!("{timeline:?}") };
        assert_eq!([&first.spans, &second.spans].map(Vec::len), [1, 1]);
        assert_eq!((&first.spans[0], &second.spans[0]), (&(100..110), &(500..510)));
        assert_eq!((first.messages.total(), first.bytes.total(), second.messages.get(2, 3)), (100, 800, 70));
    }

    #[test]
    fn a_program_s_own_phases_go_first() {
        let mut profile = bursts();
        let marker = |number, at_ns| Marker { number, at_ns };
        profile.meta.markers = vec![marker(7, 1020), marker(3, 1060), marker(7, 5000), marker(9, 90_000)];
        let timeline = preferred(&profile, &Options::default()).unwrap();
        let found: Vec<(u64, Vec<u64>)> = timeline
            .periods
            .iter()
            .map(|period| (period.number, period.spans.iter().flat_map(|span| [span.start, span.end]).collect()))
            .collect();
        assert_eq!(found, [(7, vec![102, 106, 500, 510]), (3, vec![106, 110])]);
        assert_eq!(timeline.periods[0].messages.total(), 40 + 70);
        // They begin at a time, of which windows of instructions know nothing.
        profile.meta.set_window(Window::Instructions(1000));
        assert!(of_markers(&profile).unwrap_err().cause.contains("windows are of instructions"));
        for timeline in [preferred(&profile, &Options::default()), for_mappings(&profile, &Options::default())] {
            let timeline = timeline.unwrap();
            assert_eq!((timeline.by, timeline.window), (By::Clusters, Window::Instructions(1000)));
        }
        profile.meta.markers.clear();
        assert_eq!(preferred(&profile, &Options::default()).unwrap().by, By::Clusters);
        assert!(of_markers(&profile).unwrap_err().cause.contains("no phases of the program"));
    }

    #[test]
    fn what_mappings_are_made_for_is_in_the_order_of_the_run() {
        let mut marked = bursts();
        let marker = |number, at_ns| Marker { number, at_ns };
        // Phase 9 is shorter than a window, and nothing is seen of it.
        marked.meta.markers = vec![marker(7, 1000), marker(9, 1042), marker(3, 1043), marker(7, 5000)];
        let timeline = for_mappings(&marked, &Options::default()).unwrap();
        assert_eq!((timeline.by, order(&marked, &timeline)), (By::Markers, vec![0, 1, 0]));
        let pairs = |bin: u64| {
            if bin % 2 == 0 { [(bin, 0, 1, 40), (bin, 2, 3, 40)] } else { [(bin, 0, 2, 40), (bin, 1, 3, 40)] }
        };
        let again = profile(&(0..12).flat_map(pairs).collect::<Vec<_>>());
        let timeline = for_mappings(&again, &Options::default()).unwrap();
        assert_eq!(timeline.by, By::Recurring);
        assert_eq!(order(&again, &timeline), (0..12).map(|bin| bin % 2).collect::<Vec<_>>());
        let other = (0..40).flat_map(|bin| pairs(bin / 20).map(|row| (bin, row.1, row.2, row.3)));
        let other = profile(&other.collect::<Vec<_>>());
        let timeline = for_mappings(&other, &Options::default()).unwrap();
        assert_eq!((timeline.by, order(&other, &timeline)), (By::Recurring, vec![0, 1]));
        // Different tasks by turns: one mapping serves both.
        let timeline = for_mappings(&bursts(), &Options::default()).unwrap();
        assert_eq!((timeline.by, order(&bursts(), &timeline)), (By::Clusters, vec![0, 1]));
        // All windows are alike: bursts in time are all there is.
        let far = |start: u64| (start..start + 10).map(|bin| (bin, 0, 1, 5));
        let alike = profile(&far(100).chain(far(500)).collect::<Vec<_>>());
        let timeline = for_mappings(&alike, &Options::default()).unwrap();
        assert_eq!((timeline.by, order(&alike, &timeline)), (By::Clusters, vec![0, 1]));
    }

    #[test]
    fn without_a_series_it_is_refused() {
        let error = preferred(&profile(&[]), &Options::default()).unwrap_err();
        assert!(error.cause.contains("no time series") && error.remedy.is_some());
    }

    /// A task that sends to itself makes neither a cluster nor a pattern of its own, nor a part longer.
    #[test]
    fn what_a_task_sends_to_itself_is_no_event() {
        let marker = |number, at_ns| Marker { number, at_ns };
        let bursts = || (100..110).map(|bin| (bin, 0, 1, 5)).chain((500..510).map(|bin| (bin, 2, 3, 7)));
        let rows: Vec<_> = bursts().chain((0..600).map(|bin| (bin, 1, 1, 1000))).collect();
        let [mut without, mut with] = [profile(&bursts().collect::<Vec<_>>()), profile(&rows)];
        assert_eq!(Windows::of_series(&with.series), Windows::of_series(&without.series));
        let periods = |profile: &Profile| of_clusters(profile, &Options::default()).unwrap().2.periods;
        assert_eq!(periods(&with), periods(&without));
        assert_eq!(of_recurring(&with).unwrap().1.periods, of_recurring(&without).unwrap().1.periods);
        for profile in [&mut without, &mut with] {
            profile.meta.markers = vec![marker(1, 0), marker(2, 3000)];
        }
        assert_eq!(of_markers(&with).unwrap().periods, of_markers(&without).unwrap().periods);
    }

    #[test]
    fn what_comes_again_is_one() {
        let rows = (0..12).flat_map(|bin| match bin % 3 {
            0 => vec![(bin, 0, 1, 45), (bin, 1, 2, 10), (bin, 2, 3, 45)],
            _ => vec![(bin, 0, 2, 25), (bin, 3, 1, 25)],
        });
        let (found, timeline) = of_recurring(&profile(&rows.collect::<Vec<_>>())).unwrap();
        assert_eq!((found.patterns, timeline.periods.len()), (2, 2));
        assert_eq!(timeline.periods[0].spans, [0..1, 3..4, 6..7, 9..10]);
        assert_eq!(timeline.periods[1].messages.total(), 400);
    }
}
