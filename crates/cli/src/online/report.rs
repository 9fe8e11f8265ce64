//! How an online session went, for people and for programs.

use super::Log;
use super::ending::Ending;
use super::following::Followed;
use cohabit_model::{Profile, Task, counted};
use cohabit_observe::mpi;
use cohabit_online::evidence::{KINDS, Kind};
use cohabit_online::faults::Counters;
use cohabit_online::sure::Sureness;
use cohabit_online::watch;
use cohabit_online::weigh::Weights;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Of the samples, those of tasks that wait in a loop.
const WORTH_SAYING: f64 = 0.1;

/// How a session went.
pub struct Report {
    /// What was seen.
    pub profile: Profile,
    /// Who the tasks were, by the numbers that the log has for them: the first of many.
    pub tasks: Vec<Task>,
    /// How many there were.
    pub task_count: usize,
    /// What happened.
    pub log: Log,
    /// What came of recognising phases, where that was asked for.
    pub followed: Option<Followed>,
    /// Sums.
    pub counters: Counters,
    /// What the faults came from.
    pub source: &'static str,
    /// What was seen of each kind, in its own unit, and what that counts.
    pub of_kinds: BTreeMap<Kind, u64>,
    /// See there.
    pub weights: Weights,
    /// How sure it was in the end who communicates, and when it was first known of all pairs.
    pub sure: Sureness,
    /// See there.
    pub sure_at: Option<Duration>,
    /// Tasks moved, and moves undone.
    pub moves: u64,
    /// Decisions that were undone.
    pub undone: u64,
    /// Whether there was anything to gain.
    pub ending: Ending,
    /// How long it was.
    pub time: Duration,
    /// CPU time of this process.
    pub own_cpu: Duration,
    /// Pages that were write-protected.
    pub pages_protected: u64,
    /// Places that were watched.
    pub watched: watch::Sums,
    /// Programs whose agent answered.
    pub programs_with_agent: u64,
    /// Between MPI ranks, as they count them.
    pub messages: mpi::Amount,
}

/// CPU time of this process so far, children set aside.
pub fn own_cpu() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    usage.map_or(Duration::ZERO, |usage| {
        let time = |value: nix::sys::time::TimeVal| {
            Duration::from_secs(value.tv_sec() as u64) + Duration::from_micros(value.tv_usec() as u64)
        };
        time(usage.user_time()) + time(usage.system_time())
    })
}

impl Report {
    /// For `--json`.
    pub fn fields(&self) -> Value {
        let counters = self.counters;
        let mut fields = json!({
            "source": self.source,
            "tasks": self.task_count,
            "seconds": self.time.as_secs_f64(),
            "own_cpu_seconds": self.own_cpu.as_secs_f64(),
            "faults": counters.faults, "faults_of_code": counters.code, "faults_on_private_memory": counters.private,
            "events": counters.events, "events_lost": counters.events_lost, "evictions": counters.evictions,
            "tasks_lost": counters.tasks_lost, "tasks_not_sampled": counters.tasks_not_sampled,
            "tasks_without_pmu": counters.tasks_without_pmu,
            "pages_protected": self.pages_protected, "programs_with_agent": self.programs_with_agent,
            "windows_watched": self.watched.windows, "places_watched": self.watched.places,
            "places_used": self.watched.used, "events_watched": self.watched.events,
            "bytes_copied": counters.copied, "messages": self.messages.messages, "bytes_of_messages": self.messages.bytes,
            "moves": self.moves, "undone": self.undone,
            "verdict": self.ending,
            "evidence": self.evidence(),
            "pairs": self.sure.pairs, "pairs_told_apart": self.sure.told,
            "sure_after_seconds": self.sure_at.map(|at| at.as_secs_f64()),
            "coverage": self.profile.meta.coverage,
            "task_list": self.task_list(),
            "log": self.log.entries, "log_entries_dropped": self.log.dropped,
        });
        if let (Value::Object(fields), Value::Object(samples)) = (&mut fields, self.samples()) {
            fields.extend(samples);
        }
        fields
    }

    /// What samples have shown.
    fn samples(&self) -> Value {
        let sampled = self.counters.sampled;
        json!({
            "samples": sampled.samples, "samples_telling": sampled.telling, "samples_waiting": sampled.waiting,
            "samples_after_switches": sampled.after_switches,
            "samples_after_switches_telling": sampled.telling_after_switches,
            "samples_by_pmu": sampled.by_pmu, "samples_by_pmu_telling": sampled.telling_by_pmu,
            "samples_from_another_core": sampled.from_another,
            "accesses_sampled": sampled.accesses, "events_sampled": sampled.events,
        })
    }

    /// Of each kind that there is any of, how much, and what one counts.
    fn evidence(&self) -> Value {
        let of_kind = |row: &cohabit_online::evidence::Row| {
            let count = *self.of_kinds.get(&row.kind)?;
            let weight = row.of_an_event.map_or(0.0, |of_one| self.weights.of(row.kind) / of_one as f64);
            Some((row.name.to_owned(), json!({ "count": count, "events_each": weight })))
        };
        Value::Object(KINDS.iter().filter_map(of_kind).collect())
    }

    /// Who the tasks were: the first of many.
    fn task_list(&self) -> Vec<Value> {
        let tasks = self.tasks.iter();
        tasks
            .map(|task| {
                json!({
                    "task": task.id, "name": task.name, "rank": task.rank, "thread": task.spawn_index,
                    "pid": task.pid, "tid": task.tid,
                })
            })
            .collect()
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let counters = self.counters;
        let waiting = counters.sampled.waiting as f64 / counters.sampled.samples.max(1) as f64;
        let waited = if waiting < WORTH_SAYING {
            String::new()
        } else {
            format!("; tasks spent {:.0} % of their time in loops that wait for others", 100.0 * waiting)
        };
        let sent = match self.messages {
            mpi::Amount { messages: 0, .. } => String::new(),
            mpi::Amount { messages, bytes } => {
                format!(
                    ", {} of MPI ranks ({:.1} MiB)",
                    counted(messages as usize, "message"),
                    bytes as f64 / f64::from(1 << 20)
                )
            }
        };
        format!(
            "{}, {} ({:.0} a second), {}{sent}, {}; {:.2} s of CPU time used by cohabit in {:.1} s{waited}{}",
            counted(self.task_count, "task"),
            counted(counters.faults as usize, "page fault"),
            counters.faults as f64 / self.time.as_secs_f64().max(0.001),
            counted(counters.events as usize, "communication event"),
            counted(self.moves as usize, "move"),
            self.own_cpu.as_secs_f64(),
            self.time.as_secs_f64(),
            told(self.sure),
        )
    }
}

/// How sure it is who communicates; nothing where there is nobody to communicate, or nothing was seen.
fn told(sure: Sureness) -> String {
    match sure {
        Sureness { told: 0, .. } | Sureness { pairs: 0, .. } => String::new(),
        Sureness { told, pairs, .. } => format!("; {told} of {pairs} pairs told apart"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_told_apart_where_any_are() {
        let of = |told, pairs| super::told(Sureness { told, pairs, seconds_left: None });
        assert_eq!((of(0, 0), of(0, 6)), (String::new(), String::new()));
        assert_eq!(of(5, 6), "; 5 of 6 pairs told apart");
    }
}
