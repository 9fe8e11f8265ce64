//! Hand-worked cases; the slow reference is in `replay_reference_tests.rs`.

use super::*;
use crate::tcp::{FRAME, INITIAL};
use cohabit_model::hct::{Bandwidth, Port};
use cohabit_model::profile::{Kind, Meta};
use cohabit_model::trace::{Message, Trace};
use cohabit_model::{Matrix, Task};

/// (source, destination, bytes).
type Row = (u32, u32, u64);
/// Messages, what each of three tasks does, and seconds.
type Case<'a> = (&'a [Row], [&'a [Operation]; 3], f64);

pub(super) fn send(message: u32) -> Operation {
    Operation { does: Does::Send, message }
}

pub(super) fn post(message: u32) -> Operation {
    Operation { does: Does::Post, message }
}

pub(super) fn wait(message: u32) -> Operation {
    Operation { does: Does::Wait, message }
}

fn trace(rows: &[Row], operations: &[&[Operation]]) -> Trace {
    let message = |&(source, destination, bytes): &Row| Message { source, destination, bytes };
    let trace = Trace {
        messages: rows.iter().map(message).collect(),
        operations: operations.iter().map(|operations| operations.to_vec()).collect(),
    };
    trace.check().unwrap();
    trace
}

/// A profile of a run that had so many bytes in all.
pub(super) fn profile(trace: Trace, bytes: u64) -> Profile {
    let tasks = trace.operations.len();
    let meta = Meta::new(Kind::Ranks, "test", Vec::<Task>::new());
    let bytes = Matrix::from_triplets(tasks, [(0, 1, bytes)]);
    Profile { trace: Some(trace), ..Profile::new(meta, Matrix::zero(tasks), bytes) }
}

/// A replay of a run of which all is in the trace.
pub(super) fn replay(trace: Trace) -> Replay {
    let bytes = trace.bytes() as u64;
    Replay::of(&profile(trace, bytes)).unwrap()
}

/// Processing elements below one switch, with one kind of port. Of three and more no two ports are one wire.
fn star(elements: usize, port: &Port) -> (Hct, Vec<usize>) {
    let mut hct = Hct::new(None).unwrap();
    let mapping = (0..elements).map(|_| hct.add_processing(0, port.clone()).unwrap()).collect();
    (hct, mapping)
}

/// Hosts of two processing elements each below one switch.
fn cluster(hosts: usize, network: f64, inside: f64) -> (Hct, Vec<usize>) {
    let mut hct = Hct::new(None).unwrap();
    let mut leaves = Vec::new();
    for _ in 0..hosts {
        let host = hct.add_switch(0, Port::flat(network).unwrap(), None).unwrap();
        leaves.extend((0..2).map(|_| hct.add_processing(host, Port::flat(inside).unwrap()).unwrap()));
    }
    (hct, leaves)
}

/// Seconds where no task is late.
pub(super) fn exact(hct: &Hct, replay: &Replay, mapping: &[usize]) -> f64 {
    let mut ways = Ways::new(replay, hct, mapping);
    ways.late_s.fill(0.0);
    Network::new(replay, &ways, 0).run()
}

#[track_caller]
fn assert_exact(tree: &(Hct, Vec<usize>), rows: &[Row], operations: &[&[Operation]], expected: f64) {
    let replay = replay(trace(rows, operations));
    let found = exact(&tree.0, &replay, &tree.1[..operations.len()]);
    assert!((found - expected).abs() <= 1e-9 * expected.max(1e-9), "{found} for {expected}: {rows:?} {operations:?}");
}

#[test]
fn tasks_go_on_when_what_they_wait_for_has_come() {
    let tree = star(4, &Port::flat(1000.0).unwrap());
    let cases: &[Case] = &[
        // Out, and in.
        (&[(0, 1, 1000)], [&[send(0)], &[post(0), wait(0)], &[]], 2.0),
        // Whether anyone waits does not matter: it is over when all has come.
        (&[(0, 1, 1000)], [&[send(0)], &[], &[]], 2.0),
        // One after the other out; the second comes in while nothing else does.
        (&[(0, 1, 1000), (0, 2, 1000)], [&[send(0), send(1)], &[], &[]], 3.0),
        (&[(0, 1, 1000), (0, 1, 1000)], [&[send(0), send(1)], &[], &[]], 3.0),
        // What need not be asked for has left at once.
        (&[(0, 1, 1000), (0, 2, 1000)], [&[send(0), wait(0), send(1)], &[], &[]], 3.0),
        // Two to the same one: its port has both to take.
        (&[(0, 2, 1000), (1, 2, 1000)], [&[send(0)], &[send(1)], &[]], 3.0),
        // Both ways at once.
        (&[(0, 1, 1000), (1, 0, 1000)], [&[send(0), wait(1)], &[send(1), wait(0)], &[]], 2.0),
        // From one to the next, who sends when it has come, or before.
        (&[(0, 1, 1000), (1, 2, 1000)], [&[send(0)], &[wait(0), send(1)], &[wait(1)]], 4.0),
        (&[(0, 1, 1000), (1, 2, 1000)], [&[send(0)], &[send(1), wait(0)], &[wait(1)]], 2.0),
        // There and back, and there again.
        (
            &[(0, 1, 1000), (1, 0, 500), (0, 1, 100)],
            [&[send(0), wait(1), send(2)], &[wait(0), send(1), wait(2)], &[]],
            2.0 + 1.0 + 0.2,
        ),
        // In pieces, which are out and in at once.
        (&[(0, 1, 14_600)], [&[send(0)], &[wait(0)], &[]], 14.6 + 1.46),
        (&[(0, 1, 1461)], [&[send(0)], &[wait(0)], &[]], 1.461 * 1.5),
        // An empty one takes no time, but waits for its turn.
        (&[(0, 1, 0), (1, 2, 1000)], [&[send(0)], &[wait(0), send(1)], &[]], 2.0),
        (&[(0, 2, 1000), (0, 1, 0), (1, 2, 1000)], [&[send(0), send(1)], &[wait(1), send(2)], &[]], 3.0),
    ];
    for (rows, operations, seconds) in cases {
        assert_exact(&tree, rows, operations, *seconds);
    }
}

#[test]
fn latency_and_what_a_length_takes_longer_are_added_once() {
    let flat = Port::flat(1000.0).unwrap();
    let latent = star(3, &Port { latency_s: 0.5, ..flat.clone() });
    assert_exact(&latent, &[(0, 1, 1000)], &[&[send(0)], &[], &[]], 2.0 + 2.0 * 0.5);
    // The second does not wait for the first's latency in the port, task 1 does.
    assert_exact(&latent, &[(0, 1, 1000), (0, 2, 1000)], &[&[send(0), send(1)], &[], &[]], 3.0 + 1.0);
    assert_exact(&latent, &[(0, 1, 1000), (1, 2, 1000)], &[&[send(0)], &[wait(0), send(1)], &[]], 6.0);
    // A second alone, half of one among others: the port is free after half, and what is missing comes once at the end.
    let shared = star(3, &Port { max_bandwidth: Some(2000.0), ..flat });
    assert_exact(&shared, &[(0, 1, 1000)], &[&[send(0)], &[], &[]], 2.0 * 0.5 + 0.5);
    assert_exact(&shared, &[(0, 1, 1000), (0, 2, 1000)], &[&[send(0), send(1)], &[], &[]], 3.0 * 0.5 + 0.5);
    // Short messages at half the bandwidth, those of 1,000 bytes between: 10^3 is half-way from 10^2 to 10^4.
    let bandwidth = Bandwidth::new(vec![(100.0, 500.0), (10_000.0, 1000.0)]).unwrap();
    let by_length = star(3, &Port { out: bandwidth.clone(), inwards: bandwidth, ..Port::default() });
    assert_exact(&by_length, &[(0, 1, 100)], &[&[send(0)], &[], &[]], 2.0 * 0.1 + 0.1);
    assert_exact(&by_length, &[(0, 1, 1000)], &[&[send(0)], &[], &[]], 2.0 + 1000.0 / 750.0 - 1.0);
    assert_exact(&by_length, &[(0, 1, 10_000)], &[&[send(0)], &[], &[]], 10.0 + 10.0 / 7.0);
}

#[test]
fn only_ports_count_that_take_time() {
    // Tasks on one element reach each other for nothing, however long the message and whatever is asked for.
    let (hct, leaves) = star(3, &Port { asks_from: Some(1.0), latency_s: 1.0, ..Port::flat(1000.0).unwrap() });
    let together = (hct, vec![leaves[0], leaves[0], leaves[0]]);
    let rows = [(0, 1, 40 * INITIAL as u64), (1, 2, 1000)];
    assert_exact(&together, &rows, &[&[send(0), wait(0)], &[wait(0), send(1)], &[]], 0.0);
    let replay = replay(trace(&rows, &[&[send(0), wait(0)], &[wait(0), send(1)], &[]]));
    assert_eq!(replay.seconds(&together.0, &together.1).unwrap(), 0.0);
    let (hct, leaves) = star(3, &Port::flat(1000.0).unwrap());
    assert_exact(&(hct, vec![leaves[0], leaves[0], leaves[1]]), &rows, &[&[send(0)], &[wait(0), send(1)], &[]], 2.0);
    // Through a processing element's port, two of hosts, and another's.
    for (inside, seconds) in [(9000.0, 2.0), (8000.0, 2.0), (7000.0, 2.0 + 2.0 / 7.0), (500.0, 2.0 + 4.0)] {
        let (hct, leaves) = cluster(3, 1000.0, inside);
        let far = (hct, vec![leaves[0], leaves[2]]);
        assert_exact(&far, &[(0, 1, 1000)], &[&[send(0)], &[]], seconds);
        // Inside a host there are only these.
        assert_exact(&(far.0, leaves), &[(0, 1, 1000)], &[&[send(0)], &[]], 2000.0 / inside);
    }
    // What leaves one of two hosts enters the other: the same wire, but not the way back.
    let (hct, leaves) = cluster(2, 1000.0, 9000.0);
    let two = (hct, vec![leaves[0], leaves[2], leaves[1], leaves[3]]);
    assert_exact(&two, &[(0, 1, 1000)], &[&[send(0)], &[]], 1.0);
    assert_exact(&two, &[(0, 1, 1000), (2, 3, 1000)], &[&[send(0)], &[], &[send(1)], &[]], 2.0);
    assert_exact(&two, &[(0, 1, 1000), (1, 0, 1000)], &[&[send(0)], &[send(1)]], 1.0);
}

#[test]
fn what_is_asked_for_waits_for_its_answer() {
    let asking = Port { asks_from: Some(1000.0), ..Port::flat(1000.0).unwrap() };
    let tree = star(3, &asking);
    let control = CONTROL / 1000.0;
    let cases: &[Case] = &[
        // A question and an answer, out and in each; then the message. Who posts nothing is always ready.
        (&[(0, 1, 1000)], [&[send(0)], &[post(0), wait(0)], &[]], 4.0 * control + 2.0),
        (&[(0, 1, 1000)], [&[send(0)], &[wait(0)], &[]], 4.0 * control + 2.0),
        (&[(0, 1, 999)], [&[send(0)], &[post(0), wait(0)], &[]], 2.0 * 0.999),
        // Task 1 is ready when something else has come; the question has been there for long.
        (
            &[(0, 1, 1000), (2, 1, 999)],
            [&[send(0)], &[wait(1), post(0), wait(0)], &[send(1)]],
            2.0 * 0.999 + 2.0 * control + 2.0,
        ),
        // The same, but it is ready before: the message is out while the other comes in.
        (
            &[(0, 1, 1000), (2, 1, 999)],
            [&[send(0)], &[post(0), wait(1), wait(0)], &[send(1)]],
            (2.0 * 0.999f64).max(4.0 * control + 1.0) + 1.0,
        ),
        // Who waits for it goes on when it has left the first port, not when it has come.
        (
            &[(0, 1, 1000), (0, 2, 999)],
            [&[send(0), wait(0), send(1)], &[post(0)], &[]],
            4.0 * control + 1.0 + 2.0 * 0.999,
        ),
        // Who does not lets the other go behind the question.
        (&[(0, 1, 1000), (0, 2, 999)], [&[send(0), send(1)], &[post(0)], &[]], control + 0.999 + 2.0),
        // The answer waits behind what task 1 sends: nothing of the message is out before.
        (&[(0, 1, 1000), (1, 2, 999)], [&[send(0)], &[post(0), send(1)], &[]], 0.999 + 2.0 * control + 2.0),
        // Shorter ones go at once.
        (&[(0, 1, 999)], [&[send(0), wait(0)], &[wait(0), post(0)], &[]], 2.0 * 0.999),
    ];
    for (rows, operations, seconds) in cases {
        assert_exact(&tree, rows, operations, *seconds);
    }
    // One port of the way is enough, and the lowest length of the ports counts.
    let mut hct = Hct::new(None).unwrap();
    let ports = [Port::flat(1000.0).unwrap(), asking.clone(), Port { asks_from: Some(500.0), ..asking }];
    let leaves = ports.map(|port| hct.add_processing(0, port).unwrap());
    for (mapping, bytes, asks) in
        [([0, 1], 1000, true), ([1, 0], 1000, true), ([0, 1], 999, false), ([1, 2], 500, true), ([1, 2], 499, false)]
    {
        let mapping = mapping.map(|leaf| leaves[leaf]);
        let seconds = bytes as f64 / 500.0 + if asks { 4.0 * control } else { 0.0 };
        assert_exact(&(hct.clone(), mapping.to_vec()), &[(0, 1, bytes)], &[&[send(0)], &[]], seconds);
    }
}

#[test]
fn what_tasks_would_wait_for_for_ever_is_sent_all_the_same() {
    let flat = Port::flat(1000.0).unwrap();
    let asking = star(3, &Port { asks_from: Some(1000.0), ..flat.clone() });
    let control = CONTROL / 1000.0;
    let rows = [(0, 1, 1000), (1, 0, 1000)];
    let second = [send(1), wait(1), post(0), wait(0)];
    // Both wait for the other to be ready: both questions are answered when nothing else happens any more.
    let head_to_head: [&[Operation]; 2] = [&[send(0), wait(0), post(1), wait(1)], &second];
    assert_exact(&asking, &rows, &head_to_head, 4.0 * control + 2.0);
    // Nothing is asked for: nothing is waited for.
    assert_exact(&star(3, &flat), &rows, &head_to_head, 2.0);
    // One of them is ready first: the other can be when its own has left, and its answer waits behind that.
    let one_first: [&[Operation]; 2] = [&[post(1), send(0), wait(0), wait(1)], &second];
    assert_exact(&asking, &rows, &one_first, 4.0 * control + 2.0 + control + 2.0);
}

#[test]
fn what_goes_before_a_short_message_is_what_is_in_the_port() {
    // A round trip takes so long here that no more than two frames are left in a port once one is known; a frame a
    // second.
    let tree = star(4, &Port::flat(FRAME).unwrap());
    let (long, short) = (30 * FRAME as u64, FRAME as u64);
    // Who has the short one sends something so long that it comes last: it says when the short one came.
    let answered = 30.0 + 1.0;
    // Sent at the same time: what may be on its way before anything is acknowledged goes first.
    let rows = [(0, 1, long), (0, 3, short), (3, 2, long)];
    let operations: [&[Operation]; 4] = [&[send(0), send(1)], &[], &[], &[wait(1), send(2)]];
    assert_exact(&tree, &rows, &operations, 10.0 + 1.0 + 1.0 + answered);
    // Sent when what task 2 sent has come, in twelve pieces: twelve frames of the long one are out, and two more in the
    // port.
    let rows = [(0, 1, long), (0, 3, short), (3, 2, long), (2, 0, 23 * short / 2)];
    let operations: [&[Operation]; 4] = [&[send(0), wait(3), send(1)], &[], &[send(3)], &[wait(1), send(2)]];
    assert_exact(&tree, &rows, &operations, 14.0 + 1.0 + 1.0 + answered);
    // To the same task all of the long one is before it.
    let rows = [(0, 1, long), (0, 1, short), (1, 2, long)];
    let operations: [&[Operation]; 3] = [&[send(0), send(1)], &[wait(1), send(2)], &[]];
    assert_exact(&tree, &rows, &operations, 30.0 + 1.0 + 1.0 + answered);
}

#[test]
fn who_waits_goes_on_when_its_message_is_in_the_buffer() {
    // Asked for and answered: then 31.6 of its frames fit into the buffer, more with each that is acknowledged.
    let port = Port { asks_from: Some(2000.0), ..Port::flat(FRAME).unwrap() };
    let tree = star(3, &port);
    let control = CONTROL / FRAME;
    for (frames, waits_s) in [(31.0, 0.0), (32.0, 2.0)] {
        let bytes = (frames * FRAME) as u64;
        let rows = [(0, 1, bytes)];
        let (hct, mapping) = &tree;
        let replay = replay(trace(&rows, &[&[send(0), wait(0)], &[post(0)], &[]]));
        let mut ways = Ways::new(&replay, hct, mapping);
        ways.late_s.fill(0.0);
        let mut network = Network::new(&replay, &ways, 0);
        network.go_on(0);
        network.go_on(1);
        while network.at[0] < 2 {
            let Some(Reverse(Planned { at_s, event, .. })) = network.events.pop() else { panic!("{frames}") };
            network.now_s = at_s;
            network.happen(event);
        }
        assert!((network.now_s - 4.0 * control - waits_s).abs() < 1e-9, "{frames}: {}", network.now_s);
    }
}

#[test]
fn what_is_not_in_the_trace_takes_as_long() {
    let (hct, mapping) = star(3, &Port::flat(1000.0).unwrap());
    let trace = trace(&[(0, 1, 1000)], &[&[send(0)], &[wait(0)], &[]]);
    let seconds = |bytes| Replay::of(&profile(trace.clone(), bytes)).unwrap().seconds(&hct, &mapping).unwrap();
    let once = seconds(1000);
    // Later than 2 seconds by what each of the runs draws, up to a frame's time.
    assert!(once > 2.0 && once < 2.0 + 1.46, "{once}");
    assert_eq!(seconds(2000), 2.0 * once);
    assert_eq!(seconds(500), once, "a profile that counts less than its trace is no shorter run");
    assert_eq!(seconds(1000), once, "the same again");
    let replay = replay(trace);
    let ways = Ways::new(&replay, &hct, &mapping);
    let draws = [0, 1].map(|run| Network::new(&replay, &ways, run).run());
    assert!(draws[0] != draws[1] && draws.iter().all(|&seconds| seconds > 2.0 && seconds < 3.46), "{draws:?}");
}

#[test]
fn of_large_traces_less_is_followed() {
    let sent = |bytes| Sent { connection: 0, destination: 1, bytes, is_posted: false };
    for (bytes, most, pieces) in [
        (0.0, 128.0, 1.0),
        (1460.0, 128.0, 1.0),
        (1461.0, 128.0, 2.0),
        (128.0 * 1460.0, 128.0, 128.0),
        (1e12, 128.0, 128.0),
        (1e12, 1.0, 1.0),
    ] {
        assert_eq!(sent(bytes).pieces(most), pieces, "{bytes} {most}");
    }
    let long = 128 * 1460;
    for (count, bytes, most_of_one, runs) in [
        (1, long, 128.0, 4),
        // A quarter of a million pieces four times, then fewer times.
        (250_000, 1460, 128.0, 4),
        (250_001, 1460, 128.0, 3),
        (7812, long, 128.0, 1),
        (7813, long, 64.0, 1),
        (3906, long, 128.0, 2),
        // No message is less than one piece.
        (1_000_001, 1460, 1.0, 1),
        (2_000_000, long, 1.0, 1),
    ] {
        let message = Message { source: 0, destination: 1, bytes };
        let operations = vec![(0..count as u32).map(send).collect(), vec![wait(0)]];
        let replay = replay(Trace { messages: vec![message; count], operations });
        assert_eq!((replay.most_of_one, replay.runs), (most_of_one, runs), "{count} of {bytes}");
        let pieces = if bytes == long { most_of_one } else { 1.0 };
        assert_eq!(replay.work(), runs as f64 * (count as f64 * (pieces + 1.0) + 1.0), "{count} of {bytes}");
    }
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let (hct, mapping) = star(3, &Port::flat(1000.0).unwrap());
    let found = replay(trace(&[(0, 1, 1000)], &[&[send(0)], &[], &[]]));
    assert!(found.seconds(&hct, &mapping[..2]).is_err(), "a task too few");
    assert!(found.seconds(&hct, &[mapping[0], 0, mapping[1]]).is_err(), "a task on the switch");
    assert!(found.seconds(&hct, &[mapping[0], 9, mapping[1]]).is_err(), "a task on nothing");
    let full = profile(trace(&[(0, 1, 0)], &[&[send(0)], &[]]), 1000);
    assert_eq!(Replay::of(&full), None, "nothing but empty messages");
    assert_eq!(Replay::of(&Profile { trace: None, ..full }), None);
}

#[test]
fn of_ports_of_one_wire_the_slowest_counts() {
    // A processing element's port that limits nothing, and its host's: the same messages go through both.
    let hosts = |rates: &[f64], latency_s: f64, each: usize| {
        let mut hct = Hct::new(None).unwrap();
        let mut leaves = Vec::new();
        for &rate in rates {
            let host = hct.add_switch(0, Port { latency_s, ..Port::flat(rate).unwrap() }, None).unwrap();
            leaves.extend((0..each).map(|_| hct.add_processing(host, Port::default()).unwrap()));
        }
        (hct, leaves)
    };
    assert_exact(&hosts(&[1000.0; 3], 0.0, 1), &[(0, 1, 1000)], &[&[send(0)], &[]], 2.0);
    // What leaves one of two enters the other.
    let (hct, leaves) = hosts(&[1000.0, 100.0], 0.5, 2);
    let two = (hct, vec![leaves[0], leaves[2]]);
    assert_exact(&two, &[(0, 1, 1000)], &[&[send(0)], &[]], 10.0 + 2.0 * 0.5);
}

#[test]
fn without_a_bandwidth_there_is_still_a_question() {
    let tree = star(3, &Port { asks_from: Some(1.0), latency_s: 1.0, ..Port::default() });
    let receives = [post(0), wait(0)];
    assert_exact(&tree, &[(0, 1, 1000)], &[&[send(0), wait(0)], &receives], 6.0);
    // The source goes on when the answer has come.
    assert_exact(&tree, &[(0, 1, 1000), (0, 2, 0)], &[&[send(0), wait(0), send(1)], &receives, &[]], 6.0);
}

#[test]
fn a_fast_port_counts_where_many_share_it() {
    // Three subnets of 20 tasks each, whose ports are a tenth as fast as those between.
    let mut hct = Hct::new(None).unwrap();
    let mut leaves = Vec::new();
    for _ in 0..3 {
        let subnet = hct.add_switch(0, Port::flat(10_000.0).unwrap(), None).unwrap();
        leaves.extend((0..20).map(|_| hct.add_processing(subnet, Port::flat(1000.0).unwrap()).unwrap()));
    }
    let rows: Vec<Row> = (0..20).map(|task| (task, task + 20, 10_000)).collect();
    let sends: Vec<[Operation; 1]> = (0..20).map(|task| [send(task)]).collect();
    let operations: Vec<&[Operation]> = sends.iter().map(|one| &one[..]).chain((0..20).map(|_| &[][..])).collect();
    let seconds = exact(&hct, &replay(trace(&rows, &operations)), &leaves[..40]);
    assert!((20.0..24.0).contains(&seconds), "{seconds}");
}
