//! The ranks among the tasks of an online run: rank by rank, each with its threads, and without what is no rank, as in
//! every other profile of ranks.

use cohabit_model::Task;
use cohabit_model::profile::SeriesRow;
use std::collections::BTreeMap;
use std::time::Duration;

/// A thread that communicates and runs less than this part of what the busiest of its process does is one of MPI's own,
/// or another that waits for something to do.
const NEXT_TO_NOTHING: f64 = 0.01;

/// Where there are ranks, leaves out the tasks that are none, and threads of ranks that do nothing, and numbers the
/// others again, by rank and thread; how many were left out. `ran` is how long each task has run, as far as that is
/// known.
pub(super) fn keep_ranks(
    tasks: &mut Vec<Task>,
    pairs: &mut BTreeMap<(u32, u32), u64>,
    series: &mut Vec<SeriesRow>,
    ran: &[Duration],
) -> u64 {
    let of_rank = processes_of_ranks(tasks, pairs);
    if of_rank.is_empty() {
        return 0;
    }
    let is_rank = |task: &Task| task.rank.is_some_and(|rank| of_rank[&rank] == task.process);
    let does_something = of_use(tasks, pairs, ran);
    let is_kept = |task: &&Task| is_rank(task) && (task.spawn_index == 0 || does_something(task));
    let mut kept: Vec<Task> = tasks.iter().filter(is_kept).cloned().collect();
    kept.sort_by_key(|task| (task.rank, task.spawn_index));
    let left_out = tasks.len() - kept.len();
    let mut number: Vec<Option<u32>> = vec![None; tasks.len()];
    kept.iter().enumerate().for_each(|(new, task)| number[task.id as usize] = Some(new as u32));
    for (new, task) in kept.iter_mut().enumerate() {
        task.id = new as u32;
        task.parent = task.parent.and_then(|parent| number[parent as usize]);
        // Processes in the order of their ranks.
        task.process = of_rank.keys().position(|rank| Some(*rank) == task.rank).unwrap_or_default() as u32;
    }
    let mut threads: BTreeMap<u32, u32> = BTreeMap::new();
    for task in &mut kept {
        let next = threads.entry(task.process).or_default();
        if std::mem::replace(&mut task.spawn_index, *next) != *next {
            task.name = format!("rank {}.{next}", task.rank.unwrap_or_default());
        }
        *next += 1;
    }
    *tasks = kept;
    let both = |a: u32, b: u32| Some((number[a as usize]?, number[b as usize]?));
    let renumbered = std::mem::take(pairs).into_iter();
    *pairs =
        renumbered.filter_map(|((a, b), events)| both(a, b).map(|(a, b)| ((a.min(b), a.max(b)), events))).collect();
    let renumbered = std::mem::take(series).into_iter();
    *series = renumbered
        .filter_map(|row| {
            both(row.source, row.destination).map(|(source, destination)| SeriesRow { source, destination, ..row })
        })
        .collect();
    series.sort_unstable();
    left_out as u64
}

/// Tells of threads whether they do anything.
fn of_use(tasks: &[Task], pairs: &BTreeMap<(u32, u32), u64>, ran: &[Duration]) -> impl Fn(&Task) -> bool + use<> {
    let mut does: Vec<[f64; 2]> =
        (0..tasks.len()).map(|task| [ran.get(task).map_or(0.0, Duration::as_secs_f64), 0.0]).collect();
    for (&(a, b), &events) in pairs {
        does[a as usize][1] += events as f64;
        does[b as usize][1] += events as f64;
    }
    let mut most: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for task in tasks {
        let most = most.entry(task.process).or_default();
        (0..2).for_each(|what| most[what] = most[what].max(does[task.id as usize][what]));
    }
    move |task| {
        let (does, most) = (does[task.id as usize], most[&task.process]);
        // Where it is not known who ran, nobody is left out.
        (0..2).any(|what| does[what] >= NEXT_TO_NOTHING * most[what] && (what == 0 || does[what] > 0.0))
    }
}

/// The process that each rank is. A launcher's script and the program that it starts both have the rank in their
/// environment: the one that communicates more is it.
fn processes_of_ranks(tasks: &[Task], pairs: &BTreeMap<(u32, u32), u64>) -> BTreeMap<u32, u32> {
    let mut events: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut add = |task: &Task, count: u64| {
        task.rank.iter().for_each(|&rank| *events.entry((rank, task.process)).or_default() += count);
    };
    tasks.iter().for_each(|task| add(task, 0));
    for (&(a, b), &count) in pairs {
        add(&tasks[a as usize], count);
        add(&tasks[b as usize], count);
    }
    let mut busiest: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    for (&(rank, process), &count) in &events {
        // Of equal ones the last: a script comes before its program.
        let best = busiest.entry(rank).or_insert((count, process));
        *best = (*best).max((count, process));
    }
    busiest.into_iter().map(|(rank, (_, process))| (rank, process)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Counters, Recorder, TaskEvent};
    use crate::evidence::{Evidence, Kind as Shown};
    use crate::weigh::Weights;
    use cohabit_model::profile::Kind;
    use std::time::Duration;

    #[test]
    fn a_rank_is_the_process_that_communicates() {
        let mut recorder = Recorder::new(Duration::from_millis(100));
        let started =
            |task: u32, tid: i32, process: i32, parent: Option<u32>| TaskEvent::Started { task, tid, process, parent };
        // A launcher; a script and its program of two threads as rank 1; another script and its program, as rank 0.
        let tasks = vec![
            started(0, 10, 10, None),
            started(1, 20, 20, Some(0)),
            started(2, 21, 21, Some(1)),
            started(3, 22, 21, Some(2)),
            started(4, 30, 30, Some(0)),
            started(5, 31, 31, Some(4)),
        ];
        let pairs = [(2, 3, 5), (0, 1, 1), (3, 5, 2)];
        let seen = pairs.map(|(a, b, used)| Evidence::of(Shown::Used, (a, b), used, Duration::ZERO));
        recorder.add_tasks(&tasks);
        recorder.add(&seen, &pairs, Counters::default(), Duration::from_millis(50));
        for (task, rank) in [(1, 1), (2, 1), (3, 1), (4, 0), (5, 0), (9, 1)] {
            recorder.rank(task, Some(rank));
        }
        let profile = recorder.profile(256, "page faults", &Weights::default());
        let tasks: Vec<_> =
            profile.meta.tasks.iter().map(|task| (task.id, task.rank, task.tid, task.process, task.parent)).collect();
        assert_eq!(tasks, [(0, Some(0), 31, 0, None), (1, Some(1), 21, 1, None), (2, Some(1), 22, 1, Some(1))]);
        let expected = [(0, 2, 2), (1, 2, 5), (2, 0, 2), (2, 1, 5)];
        assert_eq!(profile.messages.iter().collect::<Vec<_>>(), expected);
        let series: Vec<_> = profile.series.iter().map(|row| (row.source, row.destination, row.messages)).collect();
        assert_eq!(series, expected);
        assert_eq!(profile.meta.kind, Kind::Hybrid);
        assert!(profile.meta.coverage.not_seen.iter().any(|text| text.starts_with("3 tasks are of no rank")));
    }

    #[test]
    fn threads_of_ranks_that_do_nothing_are_left_out() {
        let of_ran = |ran: [u64; 5]| {
            let mut recorder = Recorder::new(Duration::from_millis(100));
            let started = |task: u32, process: i32| {
                let tid = 10 + task as i32;
                TaskEvent::Started { task, tid, process, parent: None }
            };
            // MPI's own thread; two of the program's, of which one communicates; another rank.
            recorder.add_tasks(&[started(0, 10), started(1, 10), started(2, 10), started(3, 10), started(4, 14)]);
            let of = |kind, other, count| Evidence::of(kind, (0, other), count, Duration::ZERO);
            let seen = [of(Shown::Sampled, 3, 9), of(Shown::Passed, 4, 3 << 20)];
            recorder.add(&seen, &[], Counters::default(), Duration::ZERO);
            for (task, ran) in ran.into_iter().enumerate() {
                recorder.ran(task as u32, Duration::from_millis(ran));
                recorder.rank(task as u32, Some(u32::from(task == 4)));
            }
            let profile = recorder.profile(256, "page faults", &Weights::default());
            let tasks: Vec<_> = profile.meta.tasks.iter().map(|task| (task.tid, task.spawn_index)).collect();
            (tasks, profile.messages.iter().filter(|(a, b, _)| a < b).map(|(_, _, events)| events).collect::<Vec<_>>())
        };
        assert_eq!(of_ran([1000, 5, 900, 5, 1000]), (vec![(10, 0), (12, 1), (13, 2), (14, 0)], vec![9, 3]));
        // Where it is not known who ran, all are kept.
        assert_eq!(of_ran([0; 5]).0.len(), 5);
    }
}
