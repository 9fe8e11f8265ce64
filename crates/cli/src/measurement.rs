//! What `cohabit measure` found, as tables and as JSON.

use crate::number;
use cohabit_model::launcher::Family;
use cohabit_observe::measure::Series;
use cohabit_observe::measure::hosts::Hosts;
use cohabit_observe::measure::memory::{Memory, Reading};
use cohabit_observe::measure::node::Node;
use serde_json::{Value, json};

/// PUs up to which the matrix of latencies is printed.
const TABLE: usize = 16;

/// The tables of a node.
pub fn node_text(node: &Node) -> String {
    let mut series = Vec::new();
    for at in &node.levels {
        series.extend([&at.one_way, &at.both_ways]);
        series.extend(at.several.iter().chain(&at.all));
    }
    let mut text = table(&series);
    if !node.latency_s.is_empty() && node.pus.len() <= TABLE {
        text += "\nA cache line from PU to PU, ns:\n      ";
        node.pus.iter().for_each(|pu| text += &format!("{:>7}", format!("P{pu}")));
        for (row, pu) in node.latency_s.chunks(node.pus.len()).zip(&node.pus) {
            text += &format!("\n{:>6}", format!("P{pu}"));
            let cell = |&seconds: &f64| if seconds > 0.0 { format!("{:.0}", seconds * 1e9) } else { "-".to_owned() };
            row.iter().for_each(|seconds| text += &format!("{:>7}", cell(seconds)));
        }
        text.push('\n');
    }
    text + &memory_text(&node.memory)
}

fn memory_text(memory: &Memory) -> String {
    let width = |of: fn(&Reading) -> &String, least: usize| {
        memory.readings.iter().map(|one| of(one).chars().count()).max().unwrap_or(0).max(least)
    };
    let (of, by) = (width(|one| &one.of, 4), width(|one| &one.by, 2));
    let mut text = match memory.readings[..] {
        [] => String::new(),
        _ => format!("\n{:<of$}  {:<by$}  threads        read\n", "read", "by"),
    };
    for one in &memory.readings {
        text += &format!("{:<of$}  {:<by$}  {:>7}  {:>10}\n", one.of, one.by, one.threads, rate(one.bandwidth));
    }
    memory.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

/// The table of a cluster.
pub fn hosts_text(hosts: &Hosts) -> String {
    table(&hosts.series.iter().collect::<Vec<_>>())
}

/// What to know, and to try, where messages of this length and more wait for those that come the other way.
pub fn one_at_a_time(length: u64, family: Family) -> String {
    let mut text = format!(
        "messages of {length} bytes and more wait for those that come the other way: estimates of exchanges are too low by up to two"
    );
    if family == Family::OpenMpi {
        text += ". Over TCP, Open MPI sends both ways at once with OMPI_MCA_btl_tcp_flags=send (docs/mpi.md)";
    }
    text
}

/// A line a series: latency of the shortest message, bandwidth of each length in each direction, of all pairs together.
fn table(series: &[&Series]) -> String {
    let between = series.iter().map(|series| series.between.chars().count()).max().unwrap_or(0).max(7);
    let mut text = format!("{:<between$}  {:<9}  pairs    latency", "between", "way");
    for point in series.first().map_or(&[][..], |series| &series.points) {
        text += &format!("  {:>10}", format!("{} B", point.length));
    }
    for series in series {
        let latency = series.points.first().map_or(0.0, |point| point.slowest());
        let head = (&series.between, series.way.name(), series.pairs, number::seconds(latency));
        text += &format!("\n{:<between$}  {:<9}  {:>5}  {:>9}", head.0, head.1, head.2, head.3);
        series.points.iter().for_each(|point| text += &format!("  {:>10}", rate(point.bandwidth())));
    }
    text + "\n"
}

/// `12.3 MB/s`.
fn rate(rate: f64) -> String {
    let units = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
    let (unit, name) = units.into_iter().find(|(unit, _)| rate >= *unit).unwrap_or((1.0, "B/s"));
    format!("{:.1} {name}", rate / unit)
}

/// The document of a node.
pub fn node_fields(node: &Node) -> Value {
    let level = |at: &cohabit_observe::measure::node::AtLevel| {
        let all = [Some(&at.one_way), Some(&at.both_ways), at.several.as_ref(), at.all.as_ref()];
        json!({ "level": at.level.name(), "series": all.into_iter().flatten().map(fields).collect::<Vec<_>>() })
    };
    let rows: Vec<Vec<f64>> =
        node.latency_s.chunks(node.pus.len().max(1)).map(|row| row.iter().map(|s| s * 1e9).collect()).collect();
    json!({
        "levels": node.levels.iter().map(level).collect::<Vec<_>>(),
        "pus": node.pus,
        "memory": node.memory.readings.iter().map(reading).collect::<Vec<_>>(),
        "not_measured": node.memory.notes,
        "busy": node.busy.warning(),
        "latency_ns": if rows.is_empty() { Value::Null } else { json!(rows) },
    })
}

fn reading(one: &Reading) -> Value {
    json!({ "of": one.of, "by": one.by, "threads": one.threads, "bandwidth": one.bandwidth })
}

/// The document of a cluster.
pub fn hosts_fields(hosts: &Hosts) -> Value {
    json!({ "ranks": hosts.ranks, "busy": hosts.busy, "one_at_a_time": hosts.one_at_a_time, "series": hosts.series.iter().map(fields).collect::<Vec<_>>() })
}

fn fields(series: &Series) -> Value {
    let points: Vec<Value> = series
        .points
        .iter()
        .map(|point| json!({ "length": point.length, "seconds": point.seconds, "bandwidth": point.bandwidth() }))
        .collect();
    json!({ "between": series.between, "way": series.way.name(), "pairs": series.pairs, "points": points })
}

#[cfg(test)]
mod tests {
    use cohabit_model::launcher::Family;

    #[test]
    fn what_open_mpi_can_be_told_is_said_of_open_mpi() {
        let said = |family| super::one_at_a_time(65536, family);
        assert!(said(Family::Mpich).starts_with("messages of 65536 bytes and more wait"));
        assert!(said(Family::OpenMpi).starts_with(&said(Family::Mpich)));
        assert!(said(Family::OpenMpi).contains("OMPI_MCA_btl_tcp_flags=send"));
        assert!(!said(Family::Mpich).contains("OMPI_"));
    }

    #[test]
    fn bandwidths_have_a_unit_that_fits() {
        for (rate, expected) in [(12.5e6, "12.5 MB/s"), (2.34e9, "2.3 GB/s"), (999.0, "999.0 B/s"), (1e3, "1.0 kB/s")] {
            assert_eq!(super::rate(rate), expected);
        }
    }
}
