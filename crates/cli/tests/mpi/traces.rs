//! The order of messages: which send and which receive are one, and who waits for them.

use super::*;

/// Messages and bytes of a trace, without those to oneself.
fn traced(trace: &Trace) -> Traffic {
    let mut traffic = Traffic::new();
    for message in trace.messages.iter().filter(|message| message.source != message.destination) {
        let pair = traffic.entry((message.source.into(), message.destination.into())).or_default();
        *pair = (pair.0 + 1, pair.1 + message.bytes);
    }
    traffic
}

/// The trace that a profile of a pattern has; none where it has none, or where the pattern cannot be run.
fn trace_of(room: &Room, mpi: &Mpi, options: &[&str], ranks: u32, pattern: &str) -> Option<(Profile, Option<Trace>)> {
    let ran = profile(room, mpi, options, ranks, &program(mpi, "patterns"), &[pattern]);
    if ran.status == Some(77) {
        println!("skipped: {pattern} with {}: {}", mpi.name, ran.stdout);
        return None;
    }
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{pattern}, {ranks} of {}", mpi.name);
    let profile = read_profile(&room.path("p.npz")).unwrap();
    let trace = profile.trace.clone();
    Some((profile, trace))
}

/// Checks that a message is posted once before it is waited for; that its source waits for it once at most; and that
/// its destination does once, or never where `waits` says so of its bytes.
fn check_trace(trace: &Trace, waits: impl Fn(u64) -> bool, what: &str) {
    trace.check().unwrap();
    let (mut posts, mut left, mut came) = (vec![0; trace.messages.len()], BTreeMap::new(), BTreeMap::new());
    for (task, operation) in (0..).zip(&trace.operations).flat_map(|(task, all)| all.iter().map(move |one| (task, one)))
    {
        let number = operation.message as usize;
        let message = trace.messages[number];
        match operation.does {
            Does::Send => {}
            Does::Post => posts[number] += 1,
            Does::Wait if message.destination == task => {
                assert_eq!(posts[number], 1, "{what}: {message:?} is waited for before it is posted");
                *came.entry(number).or_insert(0) += 1;
            }
            Does::Wait => *left.entry(number).or_insert(0) += 1,
        }
    }
    for (number, message) in trace.messages.iter().enumerate() {
        let of = |waits: &BTreeMap<usize, u32>| waits.get(&number).copied().unwrap_or(0);
        // Of a message to oneself both waits are the same task's.
        let most = if message.source == message.destination { 2 } else { 1 };
        let expected = if waits(message.bytes) { 1..=most } else { 0..=0 };
        assert_eq!(posts[number], 1, "{what}: posts of {message:?}");
        assert!(expected.contains(&of(&came)) && of(&left) <= 1, "{what}: waits for {message:?}");
    }
}

#[test]
fn every_message_of_a_trace_is_sent_received_and_waited_for() {
    for mpi in installed() {
        for (pattern, ranks) in [
            ("all_to_all", 5),
            ("every_send", 5),
            ("persistent", 8),
            ("split", 5),
            ("bcast", 5),
            ("bcast", 8),
            ("gather", 5),
            ("scatter", 8),
            ("scatterv", 5),
            ("allgather", 5),
            ("allreduce", 5),
            ("reduce", 8),
            ("reduce_scatter", 5),
            ("scan", 5),
            ("alltoall", 5),
            ("alltoallv", 5),
            ("neighbours", 5),
            ("ibcast", 5),
        ] {
            let room = Room::new();
            let what = format!("{pattern}, {ranks} ranks of {}", mpi.name);
            // Collectives are decomposed, as they are for the trace.
            let (profile, trace) = trace_of(&room, &mpi, &["--no-monitoring"], ranks, pattern).unwrap();
            let trace = trace.unwrap_or_else(|| panic!("{what}: no trace"));
            // Those of Ineighbor_alltoall have 70 bytes. When such collectives are over is not known.
            let waits = |bytes| pattern != "ibcast" && !(pattern == "neighbours" && bytes == 70);
            check_trace(&trace, waits, &what);
            let mut all = found(&profile);
            all.retain(|pair, _| pair.0 != pair.1);
            assert_eq!(traced(&trace), all, "{what}");
        }
    }
}

#[test]
fn messages_of_a_program_are_traced_beside_what_is_monitored() {
    for mpi in installed() {
        for pattern in ["ring", "phases", "persistent"] {
            let room = Room::new();
            let (profile, trace) = trace_of(&room, &mpi, &[], 5, pattern).unwrap();
            let trace = trace.unwrap_or_else(|| panic!("{pattern} of {}: no trace", mpi.name));
            check_trace(&trace, |_| true, pattern);
            assert_eq!(traced(&trace), found(&profile), "{pattern} of {}", mpi.name);
            // And estimates are made by it.
            room.file(
                "c.toml",
                "[[host]]\nnames = 'n[1-4]'\ntopology = 'core:2 pu:1'\n[[port]]\nof = 'n[1-4]'\nbandwidth = '1 MB/s'\n",
            );
            done(&room.run("map p.npz --topology c.toml --objective time -o m.json"));
            let ran = room.run("evaluate p.npz --topology c.toml --mapping m.json");
            assert!(ran.stdout.lines().next().unwrap().contains("; replayed by its trace;"), "{}", ran.stdout);
        }
    }
}

#[test]
fn what_has_no_one_order_has_no_trace() {
    for mpi in installed() {
        for pattern in ["threads", "one_sided"] {
            let found = trace_of(&Room::new(), &mpi, &["--no-monitoring"], 3, pattern);
            assert!(found.is_none_or(|(_, trace)| trace.is_none()), "{pattern} of {}", mpi.name);
        }
    }
}
