//! Time as trace events, the JSON that Perfetto and chrome://tracing read ("Trace Event Format", Google, 2016):
//! counters (`C`), slices (`X`), moments (`i`) and names of tracks (`M`); times in microseconds.
//!
//! This is no exporter of `apply`: those write where tasks go, and this writes what happened when.

use crate::documents::run::Run;
use crate::picture::text::clean;
use crate::show::time;
use crate::words::noun;
use cohabit_model::{Profile, Timeline};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Slices of tasks at most: a viewer opens some hundred thousand events with ease.
const MOST_SLICES: usize = 200_000;

/// What has a time.
pub enum Source {
    /// A profile with a series, under its file's name.
    Profile(String, Box<Profile>, Timeline),
    /// A run that was watched.
    Run(String, Run),
}

/// A trace.
pub struct Trace {
    /// The document.
    pub text: String,
    /// How many events it has, names of tracks among them.
    pub events: usize,
    /// What is not in it, a line each.
    pub notes: Vec<String>,
}

/// All sources in one document, each as a process of its own or two.
pub fn trace(sources: &[Source]) -> Trace {
    let mut events = Events::default();
    for source in sources {
        match source {
            Source::Profile(name, profile, timeline) => of_profile(&mut events, name, profile, timeline),
            Source::Run(name, run) => of_run(&mut events, name, run),
        }
    }
    let Events { list, notes, .. } = events;
    let document = json!({ "traceEvents": list, "displayTimeUnit": "ms", "otherData": { "written_by": "cohabit" } });
    Trace { text: format!("{document}\n"), events: list.len(), notes }
}

#[derive(Default)]
struct Events {
    list: Vec<Value>,
    notes: Vec<String>,
    processes: u32,
}

impl Events {
    /// A group of tracks; its number.
    fn process(&mut self, name: &str) -> u32 {
        self.processes += 1;
        let process = self.processes;
        self.list.push(json!({ "ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": { "name": clean(name) } }));
        self.list.push(json!({ "ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "ts": 0, "args": { "sort_index": process } }));
        process
    }

    fn thread(&mut self, process: u32, thread: u32, name: &str) {
        self.list.push(json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": thread, "ts": 0, "args": { "name": clean(name) } }));
        self.list.push(json!({ "ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "ts": 0, "args": { "sort_index": thread } }));
    }

    fn slice(&mut self, (process, thread): (u32, u32), name: &str, [from_us, until_us]: [f64; 2], args: Value) {
        self.list.push(json!({
            "ph": "X", "name": clean(name), "cat": "cohabit", "pid": process, "tid": thread, "ts": from_us,
            "dur": until_us - from_us, "args": args,
        }));
    }

    fn counter(&mut self, process: u32, name: &str, at_us: f64, value: f64) {
        self.list
            .push(json!({ "ph": "C", "name": name, "pid": process, "tid": 0, "ts": at_us, "args": { name: value } }));
    }
}

/// Counters of all tasks, the parts of the run, and for each task the partner that it has most to do with.
fn of_profile(events: &mut Events, name: &str, profile: &Profile, timeline: &Timeline) {
    let window_us = profile.meta.window_ns as f64 * 1e-3;
    let at = |bin: u64| bin as f64 * window_us;
    let process = events.process(&format!("{name}: all {}", noun(profile.meta.kind)[1]));
    events.thread(process, 0, time::what(timeline.by));
    for (part, period) in timeline.periods.iter().enumerate() {
        let title = format!("{} {}", time::what(timeline.by), time::name(timeline, part));
        for span in &period.spans {
            events.slice((process, 0), &title, [at(span.start), at(span.end)], json!({}));
        }
    }
    let mut sums: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for row in &profile.series {
        let sum = sums.entry(row.bin).or_default();
        *sum = [sum[0] + row.messages as f64, sum[1] + row.bytes as f64];
    }
    for (&bin, &[messages, bytes]) in &sums {
        events.counter(process, "messages in a window", at(bin), messages);
        events.counter(process, "bytes in a window", at(bin), bytes);
        // A counter keeps its value until it is given another.
        if !sums.contains_key(&(bin + 1)) {
            events.counter(process, "messages in a window", at(bin + 1), 0.0);
            events.counter(process, "bytes in a window", at(bin + 1), 0.0);
        }
    }
    let slices = slices(profile);
    if slices.len() > MOST_SLICES {
        events.notes.push(format!(
            "{name}: {} slices of tasks are too many to be looked at, and left out; what all do together is there",
            slices.len()
        ));
        return;
    }
    let [one, several] = noun(profile.meta.kind);
    let process = events.process(&format!("{name}: {several}, each with its main partner"));
    for task in &profile.meta.tasks {
        let named =
            if task.name.is_empty() { format!("{one} {}", task.id) } else { format!("{} {}", task.id, task.name) };
        events.thread(process, task.id, &named);
    }
    for slice in slices {
        let args: Map<String, Value> = [("messages", slice.messages), ("bytes", slice.bytes)]
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .into_iter()
            .collect();
        let span = [at(slice.from), at(slice.until)];
        events.slice((process, slice.task), &format!("with {}", slice.partner), span, Value::Object(args));
    }
}

/// Windows in a row in which a task has to do with the same partner most.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    task: u32,
    partner: u32,
    from: u64,
    until: u64,
    /// With that partner, both ways.
    messages: f64,
    bytes: f64,
}

fn slices(profile: &Profile) -> Vec<Slice> {
    let mut open: BTreeMap<u32, Slice> = BTreeMap::new();
    let mut done = Vec::new();
    for window in profile.series.chunk_by(|a, b| a.bin == b.bin) {
        let bin = window[0].bin;
        let mut sums: BTreeMap<(u32, u32), [f64; 2]> = BTreeMap::new();
        for row in window.iter().filter(|row| row.source != row.destination) {
            for pair in [(row.source, row.destination), (row.destination, row.source)] {
                let sum = sums.entry(pair).or_default();
                *sum = [sum[0] + row.messages as f64, sum[1] + row.bytes as f64];
            }
        }
        let mut most: BTreeMap<u32, (u32, [f64; 2])> = BTreeMap::new();
        for ((task, partner), sum) in sums {
            let known = most.entry(task).or_insert((partner, sum));
            if sum[0] > known.1[0] {
                *known = (partner, sum);
            }
        }
        for (task, (partner, [messages, bytes])) in most {
            let new = Slice { task, partner, from: bin, until: bin + 1, messages, bytes };
            match open.get_mut(&task) {
                Some(slice) if slice.partner == partner && slice.until == bin => {
                    slice.until += 1;
                    slice.messages += messages;
                    slice.bytes += bytes;
                }
                _ => done.extend(open.insert(task, new)),
            }
        }
    }
    done.extend(open.into_values());
    done.sort_by_key(|slice| (slice.task, slice.from));
    done
}

/// Where tasks were held, and what was decided when.
fn of_run(events: &mut Events, name: &str, run: &Run) {
    let process = events.process(&format!("{name}: cohabit {}", run.command));
    events.thread(process, 0, "decisions");
    let us = |time_ms: u64| time_ms as f64 * 1e3;
    let last = run.log.iter().map(|entry| entry.time_ms).max().unwrap_or(0);
    let end = us(last).max(run.seconds * 1e6);
    let mut held: BTreeMap<u32, (u32, f64)> = BTreeMap::new();
    let mut slices: Vec<(u32, u32, [f64; 2])> = Vec::new();
    for entry in &run.log {
        events.list.push(json!({
            "ph": "i", "s": "p", "name": clean(&entry.what), "cat": "cohabit", "pid": process, "tid": 0,
            "ts": us(entry.time_ms), "args": { "text": clean(&entry.text) },
        }));
        for &(task, pu) in entry.moves.iter().filter(|_| entry.what != "would-move") {
            if let Some((before, from)) = held.remove(&task) {
                slices.push((task, before, [from, us(entry.time_ms)]));
            }
            if let Some(pu) = pu {
                held.insert(task, (pu, us(entry.time_ms)));
            }
        }
    }
    slices.extend(held.into_iter().map(|(task, (pu, from))| (task, pu, [from, end])));
    let process = events.process(&format!("{name}: tasks, each on the PU that it was moved to"));
    let mut tasks: BTreeMap<u32, &str> = slices.iter().map(|slice| (slice.0, "")).collect();
    tasks.extend(run.task_list.iter().map(|task| (task.task, task.name.as_str())));
    for (task, named) in tasks {
        events.thread(process, task, format!("{task} {named}").trim_end());
    }
    for (task, pu, span) in slices {
        events.slice((process, task), &format!("PU {pu}"), span, json!({ "pu": pu }));
    }
    if run.log_entries_dropped > 0 {
        events.notes.push(format!("{name}: its log has no room for {} entries", run.log_entries_dropped));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::run::{Entry, Followed};
    use cohabit_model::profile::{Kind, Meta, SeriesRow, Task};
    use cohabit_model::timeline::By;
    use cohabit_model::{Matrix, Period};

    /// What the format asks of each kind of event.
    fn check(trace: &Trace) -> Vec<Value> {
        let document: Value = serde_json::from_str(&trace.text).unwrap();
        assert!(["ms", "ns"].contains(&document["displayTimeUnit"].as_str().unwrap()));
        let events = document["traceEvents"].as_array().unwrap().clone();
        assert_eq!(events.len(), trace.events);
        for event in &events {
            let number = |key: &str| event[key].as_f64().unwrap_or_else(|| panic!("{key} of {event}"));
            assert!(
                event["name"].is_string() && number("pid") > 0.0 && number("tid") >= 0.0 && number("ts") >= 0.0,
                "{event}"
            );
            match event["ph"].as_str().unwrap() {
                "M" => match event["name"].as_str().unwrap() {
                    "process_name" | "thread_name" => assert!(event["args"]["name"].is_string(), "{event}"),
                    "process_sort_index" | "thread_sort_index" => {
                        assert!(event["args"]["sort_index"].is_number(), "{event}")
                    }
                    other => panic!("no such name of metadata: {other}"),
                },
                "X" => assert!(number("dur") >= 0.0, "{event}"),
                "C" => assert!(event["args"].as_object().unwrap().values().all(Value::is_number), "{event}"),
                "i" => assert!(["g", "p", "t"].contains(&event["s"].as_str().unwrap()), "{event}"),
                other => panic!("no such phase: {other}"),
            }
        }
        // Slices of one track never overlap without one being within the other.
        for a in events.iter().filter(|event| event["ph"] == "X") {
            let inside = events.iter().filter(|b| b["ph"] == "X" && (&b["pid"], &b["tid"]) == (&a["pid"], &a["tid"]));
            let span = |event: &Value| {
                [event["ts"].as_f64().unwrap(), event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap()]
            };
            let [from, until] = span(a);
            assert!(
                inside.map(span).all(|[other, end]| (other, end) == (from, until) || other >= until || end <= from)
            );
        }
        events
    }

    fn task(id: u32, name: &str) -> Task {
        serde_json::from_value(json!({ "id": id, "kind": "thread", "name": name })).unwrap()
    }

    #[test]
    fn a_series_is_counters_parts_and_partners() {
        let matrix = Matrix::zero(3);
        let tasks = vec![task(0, "main"), task(1, "</script>\u{1b}"), task(2, "")];
        let mut profile = Profile::new(Meta::new(Kind::Threads, "test", tasks), matrix.clone(), matrix.clone());
        profile.meta.window_ns = 2_000_000;
        let row =
            |bin, source, destination, messages| SeriesRow { bin, source, destination, messages, bytes: 8 * messages };
        profile.series = vec![row(0, 0, 1, 5), row(1, 1, 0, 2), row(1, 2, 0, 1), row(4, 0, 2, 3)];
        let period =
            Period { number: 0, spans: std::iter::once(0..2).collect(), messages: matrix.clone(), bytes: matrix };
        let timeline = Timeline {
            by: By::Clusters,
            window: cohabit_model::series::Window::Time(2_000_000),
            periods: vec![period],
        };
        let events = check(&trace(&[Source::Profile("p.npz".into(), Box::new(profile), timeline)]));
        let counts: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "C" && event["name"] == "messages in a window")
            .map(|event| (event["ts"].as_f64().unwrap(), event["args"]["messages in a window"].as_f64().unwrap()))
            .collect();
        assert_eq!(counts, [(0.0, 5.0), (2000.0, 3.0), (4000.0, 0.0), (8000.0, 3.0), (10000.0, 0.0)]);
        let slices = |task: u64| -> Vec<(String, f64, f64)> {
            let of = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == 2 && event["tid"] == task);
            let slice = |event: &Value| {
                (
                    event["name"].as_str().unwrap().to_owned(),
                    event["ts"].as_f64().unwrap(),
                    event["dur"].as_f64().unwrap(),
                )
            };
            of.map(slice).collect()
        };
        assert_eq!(slices(0), [("with 1".into(), 0.0, 4000.0), ("with 2".into(), 8000.0, 2000.0)]);
        assert_eq!(slices(2), [("with 0".into(), 2000.0, 2000.0), ("with 0".into(), 8000.0, 2000.0)]);
        assert!(events.iter().any(|event| event["name"] == "cluster 1" && event["dur"].as_f64() == Some(4000.0)));
    }

    #[test]
    fn a_watched_run_is_decisions_and_places() {
        let entry = |time_ms, what: &str, moves: Vec<(u32, Option<u32>)>| Entry {
            time_ms,
            what: what.into(),
            text: "why".into(),
            moves,
        };
        let run = Run {
            command: "run".into(),
            seconds: 2.0,
            task_list: vec![Followed { task: 3, name: "worker".into() }],
            log: vec![
                entry(10, "would-move", vec![(3, Some(9))]),
                entry(100, "moved", vec![(3, Some(1)), (4, Some(2))]),
                entry(500, "moved", vec![(3, Some(5)), (4, None)]),
            ],
            log_entries_dropped: 0,
        };
        let events = check(&trace(&[Source::Run("run.json".into(), run)]));
        let slices: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| {
                (
                    event["tid"].as_u64().unwrap(),
                    event["name"].as_str().unwrap(),
                    event["ts"].as_f64().unwrap(),
                    event["dur"].as_f64().unwrap(),
                )
            })
            .collect();
        assert_eq!(slices.len(), 3);
        for expected in [(3, "PU 1", 100e3, 400e3), (3, "PU 5", 500e3, 1500e3), (4, "PU 2", 100e3, 400e3)] {
            assert!(slices.contains(&expected), "{expected:?} in {slices:?}");
        }
        assert_eq!(events.iter().filter(|event| event["ph"] == "i").count(), 3);
    }
}
