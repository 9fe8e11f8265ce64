//! Cases worked by hand, and a slow reference.

use super::*;
use cohabit_model::hct::{Bandwidth, Port};
use cohabit_model::pattern::Messages;
use proptest::prelude::*;

/// Hosts of two processors each below one switch: flat bandwidths of the hosts' ports and, inside, of the processors'.
fn cluster(hosts: usize, network: f64, inside: f64, switch: Option<f64>) -> (Hct, Vec<usize>) {
    let mut hct = Hct::new(switch).unwrap();
    let mut processors = Vec::new();
    for _ in 0..hosts {
        let host = hct.add_switch(0, Port::flat(network).unwrap(), None).unwrap();
        processors.extend((0..2).map(|_| hct.add_processing(host, Port::flat(inside).unwrap()).unwrap()));
    }
    (hct, processors)
}

/// Source, destination, length, count.
type Row = (usize, usize, f64, u64);

fn pattern(tasks: usize, messages: &[Row]) -> Pattern {
    let messages =
        messages.iter().map(|&(source, destination, length, count)| Messages { source, destination, length, count });
    Pattern { tasks, messages: messages.collect(), ..Pattern::default() }
}

#[track_caller]
fn assert_seconds(hct: &Hct, pattern: &Pattern, mapping: &[usize], expected: f64) {
    let found = estimate(hct, pattern, mapping).unwrap().seconds;
    assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found} for {expected}");
}

#[test]
fn cases_worked_by_hand() {
    // 100 bytes/s between hosts, 1,000 inside.
    let (hct, cpu) = cluster(4, 100.0, 1000.0, None);
    let rows: [(&[Row], f64); 6] = [
        // One task: its messages one after another, as often as they are sent.
        (&[(0, 2, 50.0, 4)], 2.0),
        // The same inside a host.
        (&[(0, 1, 50.0, 4)], 0.2),
        // Both ways at once cost as much as one.
        (&[(0, 2, 50.0, 4), (2, 0, 50.0, 4)], 2.0),
        // Pairs that share no port go at once.
        (&[(0, 2, 50.0, 4), (4, 6, 50.0, 4)], 2.0),
        // Two tasks through one port have its maximum between them.
        (&[(0, 2, 50.0, 4), (1, 4, 50.0, 4)], 4.0),
        // What a task sends itself takes nothing.
        (&[(3, 3, 1e9, 9)], 0.0),
    ];
    for (messages, expected) in rows {
        assert_seconds(&hct, &pattern(8, messages), &cpu, expected);
    }
}

#[test]
fn a_shared_port_bounds_what_each_alone_does_not() {
    // Each pair alone gets 100 bytes/s, all together 150: 400 bytes take 2.67 s, and one alone 2.
    let port = Port { max_bandwidth: Some(150.0), ..Port::flat(100.0).unwrap() };
    let mut hct = Hct::new(None).unwrap();
    let host = hct.add_switch(0, port, None).unwrap();
    let near: Vec<usize> = (0..2).map(|_| hct.add_processing(host, Port::default()).unwrap()).collect();
    let far: Vec<usize> = (0..2).map(|_| hct.add_processing(0, Port::default()).unwrap()).collect();
    let mapping = [near[0], near[1], far[0], far[1]];
    assert_seconds(&hct, &pattern(4, &[(0, 2, 200.0, 1)]), &mapping, 2.0);
    assert_seconds(&hct, &pattern(4, &[(0, 2, 200.0, 1), (1, 3, 200.0, 1)]), &mapping, 400.0 / 150.0);
    // As printed, the figure lets a long task go for nothing after a short one: 300 bytes at 100 are 3 s, whatever
    // else.
    let uneven = pattern(4, &[(0, 2, 30.0, 10), (1, 3, 1.0, 1)]);
    assert_seconds(&hct, &uneven, &mapping, 3.0);
}

#[test]
fn a_switch_bounds_all_its_ports() {
    let (hct, cpu) = cluster(4, 100.0, 1000.0, Some(150.0));
    let messages = pattern(8, &[(0, 2, 100.0, 2), (4, 6, 100.0, 2)]);
    assert_seconds(&hct, &messages, &cpu, 400.0 / 150.0);
    assert_eq!(estimate(&hct, &messages, &cpu).unwrap().bottleneck, Some(Resource::Switch(0)));
}

#[test]
fn a_wire_counts_once_in_the_norm() {
    // Two hosts below one switch: what leaves one, 3 s, enters the other, 2 s there, through a switch of 1 s.
    let (mut hct, port) = (Hct::new(Some(600.0)).unwrap(), |rate| Port::flat(rate).unwrap());
    let hosts = [200.0, 300.0].map(|rate| hct.add_switch(0, port(rate), None).unwrap());
    let cpu = hosts.map(|host| hct.add_processing(host, Port::default()).unwrap());
    let found = estimate(&hct, &pattern(2, &[(0, 1, 600.0, 1)]), &cpu).unwrap();
    assert_eq!((found.seconds, found.bottleneck), (3.0, Some(Resource::Port(hosts[0], Direction::Out))));
    assert!((found.norm_s.powi(4) - (3.0f64.powi(4) + 1.0)).abs() < 1e-9, "{}", found.norm_s);
}

#[test]
fn length_and_latency_count() {
    let table = Bandwidth::new(vec![(64.0, 10.0), (6400.0, 100.0)]).unwrap();
    let port =
        Port { out: table.clone(), inwards: table, latency_s: 0.5, max_bandwidth: Some(1000.0), ..Port::default() };
    let mut hct = Hct::new(None).unwrap();
    let cpu: Vec<usize> = (0..2).map(|_| hct.add_processing(0, port.clone()).unwrap()).collect();
    // 640 bytes are in the middle: 55 bytes/s.
    for (length, count, expected) in
        [(64.0, 2, 2.0 * 6.9), (6400.0, 1, 64.5), (640.0, 1, 640.0 / 55.0 + 0.5), (0.0, 4, 2.0)]
    {
        assert_seconds(&hct, &pattern(2, &[(0, 1, length, count)]), &cpu, expected);
    }
}

#[test]
fn a_mapping_that_does_not_fit_is_refused() {
    let (hct, cpu) = cluster(2, 1.0, 1.0, None);
    let messages = pattern(4, &[(0, 3, 1.0, 1)]);
    assert!(estimate(&hct, &messages, &cpu[..3]).is_err());
    assert!(estimate(&hct, &messages, &[cpu[0], cpu[1], cpu[2], 0]).is_err());
    assert!(estimate(&hct, &pattern(4, &[(0, 4, 1.0, 1)]), &cpu).is_err());
}

/// The definition: for each port and switch, over all tasks and all their messages, whether the path has it. The
/// seconds of each.
fn slow(hct: &Hct, pattern: &Pattern, mapping: &[usize]) -> Vec<f64> {
    let mut busy = Vec::new();
    for element in 0..hct.elements() {
        for direction in [Direction::Out, Direction::In] {
            let port = hct.port(element);
            let through = |messages: &Messages| {
                let path = hct.path(mapping[messages.source], mapping[messages.destination]);
                path.0.contains(&(element, direction))
            };
            let (mut bytes, mut longest) = (0.0, 0.0f64);
            for task in 0..pattern.tasks {
                let mut seconds = 0.0;
                for messages in pattern.messages.iter().filter(|m| m.source == task && through(m)) {
                    let rate = port.towards(direction).at(messages.length).unwrap_or(f64::INFINITY);
                    seconds += messages.count as f64 * (messages.length / rate + port.latency_s);
                    bytes += messages.count as f64 * messages.length;
                }
                longest = longest.max(seconds);
            }
            busy.push(longest.max(bytes / port.limit(direction).unwrap_or(f64::INFINITY)));
        }
        let crosses = |m: &&Messages| hct.path(mapping[m.source], mapping[m.destination]).1.contains(&element);
        let bytes: f64 = pattern.messages.iter().filter(crosses).map(|m| m.count as f64 * m.length).sum();
        busy.push(bytes / hct.max_bandwidth(element).unwrap_or(f64::INFINITY));
    }
    busy
}

proptest! {
    #[test]
    fn as_slow_as_the_definition_and_blind_to_order(
        messages in prop::collection::vec((0..8usize, 0..8usize, 0..5000u32, 0..20u64), 0..40),
        placed in prop::collection::vec(0..8usize, 8),
        switch in prop::option::of(50.0..500.0f64),
    ) {
        let (hct, cpu) = cluster(4, 100.0, 700.0, switch);
        let mapping: Vec<usize> = placed.iter().map(|&at| cpu[at]).collect();
        let rows: Vec<_> = messages.iter().map(|&(s, d, length, count)| (s, d, f64::from(length), count)).collect();
        let Estimate { seconds: found, norm_s, .. } = estimate(&hct, &pattern(8, &rows), &mapping).unwrap();
        let busy = slow(&hct, &pattern(8, &rows), &mapping);
        let expected = busy.iter().fold(0.0, |a: f64, &b| a.max(b));
        prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{} for {}", found, expected);
        // No two of these ports are of one wire.
        let expected = busy.iter().map(|seconds| seconds.powi(4)).sum::<f64>().sqrt().sqrt();
        prop_assert!((norm_s - expected).abs() <= 1e-9 * expected.max(1.0), "norm {} for {}", norm_s, expected);
        // Message by message as well.
        let mut growing = Growing::new(&hct, 8, &mapping).unwrap();
        pattern(8, &rows).messages.iter().rev().for_each(|messages| growing.add(messages));
        prop_assert!((growing.seconds() - found).abs() <= 1e-9 * found.max(1.0), "{} for {}", growing.seconds(), found);
        growing.clear();
        prop_assert_eq!(growing.seconds(), 0.0);
        // Other numbers for the same tasks, and messages in another order: as long.
        let renamed: Vec<_> = rows.iter().rev().map(|&(s, d, length, count)| (7 - s, 7 - d, length, count)).collect();
        let turned: Vec<usize> = mapping.iter().rev().copied().collect();
        let again = estimate(&hct, &pattern(8, &renamed), &turned).unwrap().seconds;
        prop_assert!((found - again).abs() <= 1e-9 * found.max(1.0));
        // More messages never take less, but for rounding: sums are made in another order.
        let mut more = rows.clone();
        more.push((0, 7, 100.0, 3));
        let longer = estimate(&hct, &pattern(8, &more), &mapping).unwrap().seconds;
        prop_assert!(longer >= found - 1e-9 * found.max(1.0), "{} after {}", longer, found);
    }
}
