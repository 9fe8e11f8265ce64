//! What is noted while the intervals of a sample are simulated, and what the whole run did by that.

use super::{Sample, Sampled};
use crate::clock::Time;
use crate::report::{CacheReport, Report, ServerReport, TaskReport};
use std::sync::Arc;

/// What all tasks share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Common {
    pub caches: Vec<CacheReport>,
    pub servers: Vec<ServerReport>,
    pub switches: u64,
}

/// A task at its latest mark, and what it does in the whole run.
#[derive(Debug, Clone, Default)]
struct Noted {
    report: TaskReport,
    time: Time,
    whole: TaskReport,
    /// How long it takes in the intervals in which it does something, in the whole run.
    end: f64,
}

/// The notes of one simulation.
#[derive(Debug)]
pub(crate) struct Cuts {
    sample: Arc<Sample>,
    weights: Vec<f64>,
    tasks: Vec<Noted>,
    /// Of the mark that the last task has not come to: who has, and when the latest did.
    at_mark: Vec<(usize, Time)>,
    common: Common,
    whole: Common,
    durations: Vec<Time>,
}

impl Cuts {
    pub fn new(sample: Arc<Sample>, tasks: usize) -> Self {
        let weights = sample.weights();
        let at_mark = vec![(0, 0); weights.len()];
        let (common, whole) = (Common::default(), Common::default());
        Self { sample, weights, tasks: vec![Noted::default(); tasks], at_mark, common, whole, durations: Vec::new() }
    }

    /// A task comes to a mark. True where it is the last one.
    pub fn note(&mut self, task: usize, number: u64, time: Time, report: TaskReport) -> bool {
        let number = number as usize;
        let weight = number.checked_sub(1).map_or(0.0, |before| self.weights[before]);
        let noted = &mut self.tasks[task];
        if weight > 0.0 {
            noted.whole.add_part(&noted.report, &report, weight);
            noted.whole.running_fs += scaled(time - noted.time, weight);
        }
        (noted.report, noted.time) = (report, time);
        let (come, latest) = &mut self.at_mark[number];
        (*come, *latest) = (*come + 1, time.max(*latest));
        *come == self.tasks.len()
    }

    /// All tasks have come to a mark.
    pub fn note_common(&mut self, number: u64, common: Common) {
        let number = number as usize;
        if let Some(before) = number.checked_sub(1).filter(|&before| self.weights[before] > 0.0) {
            let weight = self.weights[before];
            // Tasks that came later to the mark before may have gone on from this one earlier.
            let duration = self.at_mark[number].1.saturating_sub(self.at_mark[before].1);
            self.durations.push(duration);
            let interval = self.sample.measured[before].expect("what has a weight is measured");
            for (task, noted) in self.tasks.iter_mut().enumerate() {
                if interval == 0 || self.sample.goes_on_behind(interval - 1, task) {
                    noted.end += duration as f64 * weight;
                }
            }
            self.whole.add_part(&self.common, &common, weight);
        }
        self.common = common;
    }

    /// The report of the whole run. `report` is that of what was simulated.
    pub fn whole(self, report: Report, cycle: Time) -> Report {
        let durations: Vec<f64> = self.durations.iter().map(|&time| time as f64).collect();
        let time = self.sample.estimate(&durations);
        let task = |(noted, found): (Noted, TaskReport)| {
            let mut whole = TaskReport { name: found.name, pu: found.pu, ..noted.whole };
            // What it did between its marks, without what it waited.
            whole.end_fs = whole.running_fs;
            whole.finish(cycle);
            whole.end_fs = noted.end.round() as Time;
            // Where all have stopped at a cut, nobody has to wait for who is behind: that is no part of what was noted.
            let known = [whole.running_fs, whole.polling_fs, whole.idle_fs, whole.queued_fs];
            whole.waiting_fs = known.into_iter().fold(whole.end_fs, u64::saturating_sub);
            whole
        };
        let tasks: Vec<TaskReport> = self.tasks.into_iter().zip(report.tasks).map(task).collect();
        let mut total = TaskReport { name: report.total.name, ..TaskReport::default() };
        tasks.iter().for_each(|task| total.add(task));
        total.set_rate(cycle);
        Report {
            time_fs: time.value.round() as Time,
            tasks,
            total,
            caches: self.whole.caches,
            servers: self.whole.servers,
            switches: self.whole.switches,
            exchanges: report.exchanges,
            series: None,
            sampled: Some(Sampled {
                intervals: self.sample.intervals(),
                measured: self.sample.measured(),
                share: self.sample.share(),
                margin_fs: time.margin.round() as Time,
                durations_fs: self.durations,
            }),
        }
    }
}

impl Common {
    /// Adds what came between two notes, so many times.
    fn add_part(&mut self, before: &Self, now: &Self, weight: f64) {
        if self.caches.is_empty() {
            let none =
                |cache: &CacheReport| CacheReport { level: cache.level, number: cache.number, ..Default::default() };
            self.caches = now.caches.iter().map(none).collect();
            let none = |server: &ServerReport| ServerReport { name: server.name.clone(), ..Default::default() };
            self.servers = now.servers.iter().map(none).collect();
        }
        let add = |sum: &mut u64, before: u64, now: u64| *sum += scaled(now.saturating_sub(before), weight);
        for ((sum, before), now) in self.caches.iter_mut().zip(&before.caches).zip(&now.caches) {
            add(&mut sum.fills, before.fills, now.fills);
            add(&mut sum.evictions, before.evictions, now.evictions);
            add(&mut sum.write_backs, before.write_backs, now.write_backs);
            add(&mut sum.invalidations, before.invalidations, now.invalidations);
            add(&mut sum.back_invalidations, before.back_invalidations, now.back_invalidations);
        }
        for ((sum, before), now) in self.servers.iter_mut().zip(&before.servers).zip(&now.servers) {
            let (sum, before, now) = (&mut sum.usage, &before.usage, &now.usage);
            add(&mut sum.requests, before.requests, now.requests);
            add(&mut sum.bytes, before.bytes, now.bytes);
            add(&mut sum.wait_fs, before.wait_fs, now.wait_fs);
            add(&mut sum.busy_fs, before.busy_fs, now.busy_fs);
        }
        add(&mut self.switches, before.switches, now.switches);
    }
}

/// So many times as much.
pub(crate) fn scaled(count: u64, weight: f64) -> u64 {
    (count as f64 * weight).round() as u64
}
