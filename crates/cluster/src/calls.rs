//! Parts of a run of MPI that begin where ranks come to certain call sites.
//!
//! Parts are the patterns that windows have ([`recurring`]). A call site is one at which a part begins where nearly all
//! of its calls are in that part; and a part is one that a run can know again where each rank comes to such a site
//! soon after each of its beginnings. Windows are then of the part that most ranks take them for, who know the call
//! sites alone: what cannot be known again is of the part before it.

use crate::periods::{check, collect, numbered};
use crate::recurring::recurring;
use cohabit_model::calls::Visit;
use cohabit_model::series::Window;
use cohabit_model::timeline::By;
use cohabit_model::{Error, Profile, Result, Timeline};
use std::collections::BTreeMap;

/// How much of a call site's calls have to be in a part for it to begin there: windows end where they do, and ranks are
/// not all as far.
const NEARLY_ALL: f64 = 0.9;
/// How much of a part may be over, on the average of all times that it comes, when a rank comes to a call site of it.
const SOON: f64 = 0.25;
/// A visit's calls are taken to be at so many times, all as far from one another.
const POINTS: u64 = 32;

/// Parts, and where each begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The parts.
    pub timeline: Timeline,
    /// Of each, the call sites at which it begins: indices into
    /// [`Meta::call_places`](cohabit_model::profile::Meta::call_places), ascending.
    pub places: Vec<Vec<u32>>,
}

/// A stretch of windows of one pattern.
#[derive(Debug, Clone, Copy)]
struct Run {
    begin_ns: u64,
    end_ns: u64,
    pattern: usize,
}

/// The parts of a run that begin at call sites.
///
/// # Errors
/// The profile does not say when ranks called from where, the run has one pattern, or no part begins at call sites of
/// its own.
pub fn of_calls(profile: &Profile) -> Result<Called> {
    check(profile)?;
    let Window::Time(window_ns) = profile.meta.window() else {
        return Err(Error::new("calls are known by time, and the profile's windows are of instructions"));
    };
    if profile.visits.is_empty() {
        let cause = "the profile does not say when ranks called MPI from where";
        return Err(Error::new(cause).remedy("profile MPI ranks with this version (cohabit profile -- mpirun ...)"));
    }
    let found = recurring(&profile.series);
    if found.patterns < 2 {
        return Err(Error::new("the run has one pattern").remedy("make one mapping for all of it"));
    }
    let runs = runs(&found.windows, window_ns);
    let begins = begins(&profile.visits, &runs, profile.meta.call_places.len());
    let mut places = vec![Vec::new(); found.patterns];
    for (place, pattern) in (0..).zip(&begins) {
        pattern.iter().for_each(|&pattern| places[pattern].push(place));
    }
    let known: Vec<bool> = (0..found.patterns).map(|pattern| is_known(pattern, profile, &runs, &begins)).collect();
    if !known.contains(&true) {
        return Err(Error::new("no pattern of the run begins at a call site that is not called in others, too")
            .remedy("call MPI from another place in each phase"));
    }
    let begins: Vec<Option<usize>> =
        begins.into_iter().map(|begins| begins.filter(|&pattern| known[pattern])).collect();
    let in_effect = in_effect(profile, &begins, found.windows.iter().map(|window| window.0), window_ns);
    let of = |bin: u64| in_effect[in_effect.binary_search_by_key(&bin, |window| window.0).ok()?].1;
    let mut periods = numbered(collect(profile, found.patterns, of), |pattern| pattern as u64);
    let places = periods.iter().map(|period| std::mem::take(&mut places[period.number as usize])).collect();
    periods.iter_mut().zip(0..).for_each(|(period, number)| period.number = number);
    Ok(Called { timeline: Timeline { by: By::Calls, window: profile.meta.window(), periods }, places })
}

/// Windows in a row that have one pattern.
fn runs(windows: &[(u64, usize)], window_ns: u64) -> Vec<Run> {
    let of = |windows: &[(u64, usize)]| Run {
        begin_ns: windows[0].0.saturating_mul(window_ns),
        end_ns: windows[windows.len() - 1].0.saturating_add(1).saturating_mul(window_ns),
        pattern: windows[0].1,
    };
    windows.chunk_by(|a, b| a.1 == b.1).map(of).collect()
}

/// The pattern that a run has at a time.
fn pattern_at(runs: &[Run], at_ns: u64) -> Option<usize> {
    let run = runs[runs.partition_point(|run| run.begin_ns <= at_ns).checked_sub(1)?];
    (at_ns < run.end_ns).then_some(run.pattern)
}

/// Which pattern begins at each place, where one does.
fn begins(visits: &[Visit], runs: &[Run], places: usize) -> Vec<Option<usize>> {
    let patterns = runs.iter().map(|run| run.pattern + 1).max().unwrap_or(0);
    let mut calls = vec![vec![0.0; patterns]; places];
    for visit in visits {
        let length = u128::from(visit.end_ns - visit.begin_ns);
        for point in 0..POINTS {
            let at = visit.begin_ns + (length * u128::from(2 * point + 1) / u128::from(2 * POINTS)) as u64;
            if let Some(pattern) = pattern_at(runs, at) {
                calls[visit.place as usize][pattern] += visit.calls as f64;
            }
        }
    }
    let most = |calls: &Vec<f64>| {
        let all: f64 = calls.iter().sum();
        calls.iter().position(|&own| own > 0.0 && own >= NEARLY_ALL * all)
    };
    calls.iter().map(most).collect()
}

/// Whether every rank comes to a place at which the pattern begins soon after each of its beginnings.
fn is_known(pattern: usize, profile: &Profile, runs: &[Run], begins: &[Option<usize>]) -> bool {
    let own: Vec<&Run> = runs.iter().filter(|run| run.pattern == pattern).collect();
    let all: u64 = own.iter().map(|run| run.end_ns - run.begin_ns).sum();
    let mut of_task: Vec<Vec<&Visit>> = vec![Vec::new(); profile.tasks()];
    for visit in profile.visits.iter().filter(|visit| begins[visit.place as usize] == Some(pattern)) {
        of_task[visit.task as usize].push(visit);
    }
    of_task.iter_mut().all(|visits| {
        visits.sort_unstable_by_key(|visit| visit.begin_ns);
        // By when all up to each of them are over: the first one that is not over then has the least beginning.
        let mut over: Vec<u64> = visits.iter().map(|visit| visit.end_ns).collect();
        (1..over.len()).for_each(|at| over[at] = over[at].max(over[at - 1]));
        let late = |run: &&Run| {
            let first = visits.get(over.partition_point(|&over| over < run.begin_ns));
            first.map_or(run.end_ns, |visit| visit.begin_ns).clamp(run.begin_ns, run.end_ns) - run.begin_ns
        };
        own.iter().map(late).sum::<u64>() as f64 <= SOON * all as f64
    })
}

/// The part that most ranks take each window for, in its middle; none before the first.
fn in_effect(
    profile: &Profile,
    begins: &[Option<usize>],
    bins: impl Iterator<Item = u64> + Clone,
    window_ns: u64,
) -> Vec<(u64, Option<usize>)> {
    let mut votes: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); bins.clone().count()];
    for visits in profile.visits.chunk_by(|a, b| a.task == b.task) {
        let mut changes = changes(visits, begins).into_iter().peekable();
        let mut present = None;
        for (bin, votes) in bins.clone().zip(&mut votes) {
            let middle = bin.saturating_mul(window_ns).saturating_add(window_ns / 2);
            while let Some(change) = changes.next_if(|change| change.0 <= middle) {
                present = Some(change.1);
            }
            if let Some(part) = present {
                *votes.entry(part).or_default() += 1;
            }
        }
    }
    let most = |votes: BTreeMap<usize, usize>| votes.into_iter().max_by_key(|vote| vote.1).map(|vote| vote.0);
    bins.zip(votes.into_iter().map(most)).collect()
}

/// When a rank comes to which part: at the beginning of a visit, and, where that was within another, back at its end.
fn changes(visits: &[Visit], begins: &[Option<usize>]) -> Vec<(u64, usize)> {
    let of = |visit: &Visit| Some((visit.begin_ns, visit.end_ns, begins[visit.place as usize]?));
    let mut visits: Vec<(u64, u64, usize)> = visits.iter().filter_map(of).collect();
    visits.sort_unstable();
    let mut changes: Vec<(u64, usize)> = Vec::new();
    let mut open: Vec<(u64, usize)> = Vec::new();
    for (begin, end, part) in visits.into_iter().chain([(u64::MAX, u64::MAX, usize::MAX)]) {
        while let Some(&(over, _)) = open.last().filter(|open| open.0 < begin) {
            open.pop();
            changes.extend(open.last().filter(|around| around.0 > over).map(|around| (over, around.1)));
        }
        if part != usize::MAX {
            changes.push((begin, part));
            open.push((end, part));
        }
    }
    changes.sort_by_key(|change| change.0);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohabit_model::calls::CallPlace;
    use cohabit_model::profile::{Kind, Meta, SeriesRow};
    use cohabit_model::{Matrix, Period};

    const WINDOW_NS: u64 = 1000;
    const TASKS: u32 = 4;

    /// Windows of ranks that exchange with one neighbour (`n`), with another (`f`), or with both after a while (`d`).
    fn profile(windows: &str, visits: &[(u32, u32, u64, u64)]) -> Profile {
        let partner = |kind, task: u32| match kind {
            'n' => task ^ 1,
            'f' => task ^ 2,
            _ => task ^ 3,
        };
        let row = |(bin, kind)| {
            (0..TASKS).map(move |task| SeriesRow {
                bin,
                source: task,
                destination: partner(kind, task),
                messages: 50,
                bytes: 400,
            })
        };
        let series: Vec<SeriesRow> = (0..).zip(windows.chars()).flat_map(row).collect();
        let rows = || series.iter().map(|row| (row.source, row.destination, row.messages));
        let matrix = Matrix::from_triplets(TASKS as usize, rows());
        let place = |offset| CallPlace { module: "solver".into(), offset };
        let visit = |&(task, place, begin, end): &(u32, u32, u64, u64)| Visit {
            task,
            place,
            begin_ns: begin * WINDOW_NS / 10,
            end_ns: end * WINDOW_NS / 10,
            calls: 100,
        };
        let call_places = (0..4).map(place).collect();
        let meta = Meta { window_ns: WINDOW_NS, call_places, ..Meta::new(Kind::Ranks, "test", Vec::new()) };
        let mut visits: Vec<Visit> = visits.iter().map(visit).collect();
        visits.sort_unstable();
        Profile { series, visits, ..Profile::new(meta, matrix.clone(), matrix) }
    }

    /// The same of each rank.
    fn each(visits: &[(u32, u64, u64)]) -> Vec<(u32, u32, u64, u64)> {
        (0..TASKS).flat_map(|task| visits.iter().map(move |&(place, begin, end)| (task, place, begin, end))).collect()
    }

    fn spans(called: &Called) -> Vec<Vec<(u64, u64)>> {
        let of = |period: &Period| period.spans.iter().map(|span| (span.start, span.end)).collect();
        called.timeline.periods.iter().map(of).collect()
    }

    #[test]
    fn parts_begin_at_the_places_that_are_theirs_alone() {
        // Times in tenths of windows. Place 2 is called in both, and place 0 a little after its part has ended.
        let visits = each(&[(0, 0, 102), (1, 103, 200), (2, 0, 200), (0, 200, 300)]);
        let profile = profile("nnnnnnnnnnffffffffffnnnnnnnnnn", &visits);
        let called = of_calls(&profile).unwrap();
        assert_eq!(called.places, [vec![0], vec![1]]);
        assert_eq!(spans(&called), [vec![(0, 10), (20, 30)], vec![(10, 20)]]);
        let numbers: Vec<u64> = called.timeline.periods.iter().map(|period| period.number).collect();
        assert_eq!((called.timeline.by, numbers), (By::Calls, vec![0, 1]));
        assert_eq!(called.timeline.periods[1].messages.get(0, 2), (500));
        assert_eq!(crate::periods::order(&profile, &called.timeline), [0, 1, 0]);
    }

    /// A run takes it for the part before.
    #[test]
    fn what_no_call_site_begins_is_of_the_part_before() {
        let windows = "nnnnnnnnnnddddddddddffffffffff";
        for (visits, expected) in [
            // Nothing but place 2, which is called everywhere, in the middle.
            (each(&[(0, 0, 100), (2, 0, 300), (1, 200, 300)]), vec![vec![(0, 20)], vec![(20, 30)]]),
            // Place 3 is the middle's own, but one rank never comes there.
            (
                [each(&[(0, 0, 100), (1, 200, 300)]), vec![(0, 3, 100, 200), (1, 3, 100, 200), (2, 3, 100, 200)]]
                    .concat(),
                vec![vec![(0, 20)], vec![(20, 30)]],
            ),
            // Or when it is nearly over.
            (each(&[(0, 0, 100), (3, 180, 200), (1, 200, 300)]), vec![vec![(0, 20)], vec![(20, 30)]]),
            (each(&[(0, 0, 100), (3, 110, 200), (1, 200, 300)]), vec![vec![(0, 11)], vec![(11, 20)], vec![(20, 30)]]),
            // What is before the first place is of no part.
            (each(&[(2, 0, 300), (1, 200, 300)]), vec![vec![(20, 30)]]),
        ] {
            assert_eq!(spans(&of_calls(&profile(windows, &visits)).unwrap()), expected, "{visits:?}");
        }
    }

    /// Windows in which ranks do something else for a while are no change: a run does not know of them.
    #[test]
    fn parts_are_as_ranks_take_them_for() {
        let visits = each(&[(0, 0, 100), (1, 100, 200)]);
        let profile = profile("nnnnnfnnnnffffnfffff", &visits);
        let called = of_calls(&profile).unwrap();
        assert_eq!(spans(&called), [vec![(0, 10)], vec![(10, 20)]]);
        assert_eq!(called.timeline.periods[0].messages.total(), 10 * 200);
        let visit = |place, begin_ns, end_ns| Visit { task: 0, place, begin_ns, end_ns, calls: 1 };
        let begins = [Some(7), Some(8), None];
        for (visits, expected) in [
            (vec![visit(0, 0, 10), visit(1, 11, 20)], vec![(0, 7), (11, 8)]),
            // Within another one, and back.
            (vec![visit(0, 0, 10), visit(1, 3, 4), visit(2, 5, 6)], vec![(0, 7), (3, 8), (4, 7)]),
            (vec![visit(0, 0, 10), visit(1, 5, 20)], vec![(0, 7), (5, 8)]),
        ] {
            assert_eq!(changes(&visits, &begins), expected, "{visits:?}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        let all = each(&[(2, 0, 300)]);
        for (windows, visits, expected) in [
            ("nnnnnnnnnnffffffffff", &all[..], "no pattern of the run begins at a call site"),
            ("nnnnnnnnnnffffffffff", &[], "does not say when ranks called MPI"),
            ("nnnnnnnnnn", &all[..], "one pattern"),
            ("", &all[..], "no time series"),
        ] {
            let error = of_calls(&profile(windows, visits)).unwrap_err();
            assert!(error.cause.contains(expected) && error.remedy.is_some(), "{windows}: {}", error.cause);
        }
    }
}
