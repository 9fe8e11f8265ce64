//! Hand-worked cases, and a slow reference: where nothing is asked for and a message is in its port as a whole, each
//! port's work is known when that of those before it is, so that ports can be gone through one after another, without a
//! clock.

use super::*;
use cohabit_model::hct::Port;
use cohabit_model::pattern::Messages;
use proptest::prelude::*;

/// (source, destination, length, count, order).
type Row = (usize, usize, u32, u64, u32);

fn pattern(tasks: usize, rows: &[Row]) -> Pattern {
    let message = |&(source, destination, length, count, _): &Row| Messages {
        source,
        destination,
        length: f64::from(length),
        count,
    };
    Pattern {
        tasks,
        messages: rows.iter().map(message).collect(),
        order: rows.iter().map(|row| row.4).collect(),
        by: SentBy::Program,
    }
}

/// Tasks on processing elements of their own below one switch, with one kind of port.
fn star(tasks: usize, port: &Port) -> (Hct, Vec<usize>) {
    let mut hct = Hct::new(None).unwrap();
    let mapping = (0..tasks).map(|_| hct.add_processing(0, port.clone()).unwrap()).collect();
    (hct, mapping)
}

/// Seconds if all tasks begin at once.
fn in_step(hct: &Hct, mapping: &[usize], pattern: &Pattern) -> f64 {
    let (times, flows) = flows(pattern).unwrap();
    times * Network::new(hct, &flows, mapping, Ranks::default()).run()
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.max(1e-9), "{found} for {expected}");
}

#[test]
fn a_message_waits_for_those_before_it() {
    let (hct, mapping) = star(4, &Port::flat(100.0).unwrap());
    for (rows, seconds) in [
        // Out, and in.
        (&[(0, 1, 100, 1, 0)][..], 2.0),
        (&[(0, 1, 100, 5, 0)], 10.0),
        // One after the other out; the second comes in while nothing else does.
        (&[(0, 1, 100, 1, 0), (0, 2, 100, 1, 1)], 3.0),
        // Two to the same one: its port has both to take.
        (&[(0, 2, 100, 1, 0), (1, 2, 100, 1, 0)], 3.0),
        // All begin with the same one: the others' ports stand idle until it is over.
        (&[(0, 2, 100, 1, 0), (0, 3, 100, 1, 1), (1, 2, 100, 1, 0), (1, 3, 100, 1, 1)], 4.0),
        (&[(0, 2, 100, 1, 0), (0, 3, 100, 1, 1), (1, 3, 100, 1, 0), (1, 2, 100, 1, 1)], 3.0),
        // What comes half as often is half as long each time.
        (&[(0, 1, 100, 2, 0), (0, 2, 100, 1, 1)], 2.0 * 2.0),
        (&[(0, 1, 0, 3, 0)], 0.0),
    ] {
        assert_near(in_step(&hct, &mapping, &pattern(4, rows)), seconds);
    }
}

#[test]
fn a_task_alone_may_not_fill_a_port() {
    // Alone 50 bytes/s and a second of latency, all together 100.
    let port = Port { latency_s: 1.0, max_bandwidth: Some(100.0), ..Port::flat(50.0).unwrap() };
    let mut hct = Hct::new(None).unwrap();
    let host = hct.add_switch(0, port, None).unwrap();
    let far = hct.add_processing(0, Port::default()).unwrap();
    let on_host: Vec<usize> = (0..2).map(|_| hct.add_processing(host, Port::default()).unwrap()).collect();
    let mapping = [on_host[0], on_host[1], far];
    for (rows, seconds) in [
        (&[(0, 2, 100, 1, 0)][..], 3.0),
        (&[(0, 2, 100, 1, 0), (0, 2, 100, 1, 1)], 6.0),
        // The other's can begin when the first byte of the second half is not yet out.
        (&[(0, 2, 100, 1, 0), (1, 2, 100, 1, 0)], 4.0),
    ] {
        assert_near(in_step(&hct, &mapping, &pattern(3, rows)), seconds);
    }
}

#[test]
fn answers_wait_behind_what_goes_the_same_way() {
    let port = Port { asks_from: Some(10_000.0), ..Port::flat(1000.0).unwrap() };
    let (hct, mapping) = star(3, &port);
    let control = CONTROL / 1000.0;
    // A question and an answer, out and in each; then the message, in pieces that are out and in at once.
    let piece = 10_000.0 / 3.0 / 1000.0;
    assert_near(in_step(&hct, &mapping, &pattern(3, &[(0, 1, 10_000, 1, 0)])), 4.0 * control + 10.0 + piece);
    assert_near(in_step(&hct, &mapping, &pattern(3, &[(0, 1, 9_000, 1, 0)])), 9.0 + 3.0);
    // Task 0 sends something that it need not ask for as well: its answer to task 1 comes when that is in.
    let rows = [(1, 0, 10_000, 1, 0), (0, 1, 9_999, 1, 0)];
    assert_near(in_step(&hct, &mapping, &pattern(3, &rows)), 9.999 * 4.0 / 3.0 + control + 10.0 + piece);
    let (hct, mapping) = star(3, &Port::flat(1000.0).unwrap());
    assert_near(in_step(&hct, &mapping, &pattern(3, &rows)), 10.0 + piece);
}

#[test]
fn what_is_sent_later_waits_for_its_turn() {
    // Of a long message no more than a window is in the port: a short one that is sent after it need not wait for all
    // of it.
    let (hct, mapping) = star(3, &Port::flat(WINDOW).unwrap());
    let seconds = in_step(&hct, &mapping, &pattern(3, &[(0, 1, 8 * WINDOW as u32, 1, 0), (0, 2, 1000, 1, 1)]));
    assert!((8.0..8.6).contains(&seconds), "{seconds}");
    let (times, flows) = flows(&pattern(3, &[(0, 1, 8 * WINDOW as u32, 1, 0), (0, 2, 1000, 1, 1)])).unwrap();
    assert_eq!((times, flows.len(), flows[0].pieces()), (1.0, 2, MOST_PIECES));
    let mut network = Network::new(&hct, &flows, &mapping, Ranks::default());
    network.begin(0);
    assert_eq!((network.ways[0].left, network.ways[1].left), (14, 0), "two of sixteen pieces, and the short one");
}

#[test]
fn steps_wait_for_what_is_sent_and_for_what_comes() {
    let (hct, mapping) = star(4, &Port::flat(100.0).unwrap());
    let in_steps = |rows: &[Row]| {
        let (_, flows) = flows(&pattern(4, rows)).unwrap();
        Network::new(&hct, &flows, &mapping, Ranks { steps: true, ..Ranks::default() }).run()
    };
    // The second message begins when the first has come: nothing is on its way meanwhile.
    assert_near(in_steps(&[(0, 1, 100, 1, 0), (0, 2, 100, 1, 1)]), 4.0);
    // Around a ring of four, three times; then task 1's first message is as long as three.
    let ring = |first: u32| -> Vec<Row> {
        let row = |(source, step)| (source, (source + step as usize + 1) % 4, 100, 1, step);
        let mut rows: Vec<Row> = (0..4).flat_map(|source| (0..3).map(move |step| (source, step))).map(row).collect();
        rows.iter_mut().filter(|row| (row.0, row.4) == (1, 0)).for_each(|row| row.2 = first);
        rows
    };
    assert_near(in_steps(&ring(100)), 6.0);
    // Tasks 1 and 2 begin the second step after six seconds; who waits for them in the second begins the third then.
    assert_near(in_steps(&ring(300)), 6.0 + 2.0 + 2.0);
    // Through no port, however long: then the next step.
    let both = [mapping[0], mapping[0], mapping[1], mapping[2]];
    let rows = [(0, 1, 40 * WINDOW as u32, 1, 0), (0, 2, 100, 1, 1)];
    let (_, inside) = flows(&pattern(4, &rows)).unwrap();
    assert_near(Network::new(&hct, &inside, &both, Ranks { steps: true, ..Ranks::default() }).run(), 2.0);
    // A task that sends less than others, and one that sends nothing.
    assert_near(in_steps(&[(0, 1, 100, 1, 0), (0, 2, 100, 1, 1), (1, 0, 100, 1, 0)]), 4.0);
    let (_, two) = flows(&pattern(4, &ring(100))).unwrap();
    assert_eq!(steps(&two).1, (0..12).map(|flow| flow % 3).collect::<Vec<_>>());
}

#[test]
fn without_an_order_nothing_is_followed() {
    let (hct, mapping) = star(3, &Port::flat(100.0).unwrap());
    let ordered = pattern(3, &[(0, 1, 100, 1, 0)]);
    let unknown = Pattern { order: Vec::new(), ..ordered.clone() };
    let followed = follow(&hct, &ordered, &mapping).unwrap().unwrap();
    assert!(followed.seconds >= 2.0 && !followed.asks);
    let asking = star(3, &Port { asks_from: Some(100.0), ..Port::flat(100.0).unwrap() });
    assert!(follow(&asking.0, &ordered, &asking.1).unwrap().unwrap().asks);
    assert_eq!(follow(&hct, &unknown, &mapping).unwrap(), None);
    assert_eq!(follow(&hct, &Pattern { tasks: 3, ..Pattern::default() }, &mapping).unwrap(), None);
    assert!(follow(&hct, &ordered, &mapping[..1]).is_err());
    let phase = |pattern: &Pattern| Phase::new(1.0, pattern.clone());
    assert_eq!(work(&[phase(&unknown)]), 0.0);
    assert_eq!(work(&[phase(&unknown), phase(&ordered)]), RUNS as f64);
}

/// When a message comes to a port, how many it has behind it, and which flow it is of.
type Coming = (f64, usize, usize);

/// When all is through if ports are gone through one after another, outwards from the deepest, then inwards from the
/// highest.
fn one_port_after_another(hct: &Hct, flows: &[Flow], mapping: &[usize]) -> f64 {
    let mut coming: BTreeMap<(i64, usize), Vec<Coming>> = BTreeMap::new();
    let paths: Vec<Vec<(i64, usize)>> = flows
        .iter()
        .map(|flow| {
            let (ports, _) = hct.path(mapping[flow.source], mapping[flow.destination]);
            let depth = |element: usize| std::iter::successors(Some(element), |&at| hct.parent(at)).count() as i64;
            let rank = |&(element, direction): &(usize, Direction)| match direction {
                Direction::Out => (-depth(element), element),
                Direction::In => (depth(element), element),
            };
            let mut path: Vec<(i64, usize)> = ports.iter().map(rank).collect();
            path.sort_unstable();
            path
        })
        .collect();
    for (at, path) in paths.iter().enumerate() {
        if let Some(&first) = path.first() {
            coming.entry(first).or_default().push((0.0, 0, at));
        }
    }
    let mut last = 0.0f64;
    while let Some(((rank, element), mut pieces)) = coming.pop_first() {
        pieces.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let rate = hct.port(element).limit(if rank < 0 { Direction::Out } else { Direction::In });
        let mut free = 0.0f64;
        for (ready, hop, flow) in pieces {
            free = free.max(ready) + rate.map_or(0.0, |rate| flows[flow].length * flows[flow].count / rate);
            last = last.max(free);
            if let Some(&next) = paths[flow].get(hop + 1) {
                coming.entry(next).or_default().push((free, hop + 1, flow));
            }
        }
    }
    last
}

/// Three subnets of two hosts with two processing elements each; no two ports have the same rate, so that nothing comes
/// at the same time as something else.
fn cluster(rates: &[u32]) -> (Hct, Vec<usize>) {
    let mut hct = Hct::new(None).unwrap();
    let mut rates = rates.iter().zip(1..).map(|(&rate, number)| f64::from(rate) + 0.001 * f64::from(number));
    let mut port = || Port::flat(rates.next().unwrap()).unwrap();
    let mut leaves = Vec::new();
    for _ in 0..3 {
        let subnet = hct.add_switch(0, port(), None).unwrap();
        for _ in 0..2 {
            let host = hct.add_switch(subnet, port(), None).unwrap();
            leaves.extend((0..2).map(|_| hct.add_processing(host, port()).unwrap()));
        }
    }
    (hct, leaves)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn it_is_what_going_through_the_ports_says(
        rates in prop::collection::vec(50..500u32, 21),
        rows in prop::collection::vec((0..8usize, 0..8usize, 1..4000u32, 1..5u64, 0..6u32), 1..40),
        places in prop::collection::vec(0..12usize, 8),
    ) {
        let (hct, leaves) = cluster(&rates);
        let mapping: Vec<usize> = places.iter().map(|&place| leaves[place]).collect();
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.0 != row.1).collect();
        prop_assume!(!rows.is_empty());
        let pattern = pattern(8, &rows);
        let (times, flows) = flows(&pattern).unwrap();
        let found = Network::new(&hct, &flows, &mapping, Ranks::default()).run();
        let expected = one_port_after_another(&hct, &flows, &mapping);
        prop_assert!((found - expected).abs() <= 1e-9 * expected, "{found} for {expected}");
        // Late or not, as often as it comes it is never less than the last port has to do.
        let least = estimator::estimate(&hct, &pattern, &mapping).unwrap().seconds;
        prop_assert!(times * found >= least * (1.0 - 1e-9), "{found} for {least}");
        let late = follow(&hct, &pattern, &mapping).unwrap().unwrap();
        prop_assert!(late.seconds >= least && late == follow(&hct, &pattern, &mapping).unwrap().unwrap());
    }
}
