//! Operations of ranks, made here, and the trace that they are.

use super::super::part::{Amount, Peer, World};
use super::*;
use proptest::prelude::*;

fn operation(does: u32, peer: Option<u32>, bytes: u64, tag: u64) -> part::Operation {
    let peer = peer.map(|rank| Peer { world: 0, rank, kind: Kind::Sent });
    part::Operation { does, peer, bytes, tag }
}

fn send(peer: u32, tag: u64, bytes: u64) -> part::Operation {
    operation(abi::COHABIT_MPI_DOES_SEND, Some(peer), bytes, tag)
}

fn post(peer: u32, tag: u64) -> part::Operation {
    operation(abi::COHABIT_MPI_DOES_POST, Some(peer), 0, tag)
}

/// The same, and the rank waits for it at once.
fn at_once(operation: part::Operation) -> part::Operation {
    part::Operation { does: operation.does | abi::COHABIT_MPI_DOES_WAIT, ..operation }
}

fn wait(number: u64) -> part::Operation {
    operation(abi::COHABIT_MPI_DOES_WAIT, None, number, 0)
}

/// For all operations from that number on.
fn wait_since(number: u64) -> part::Operation {
    operation(abi::COHABIT_MPI_DOES_WAIT | abi::COHABIT_MPI_DOES_FROM, None, number, 0)
}

/// The same of a collective.
fn collective(operation: part::Operation) -> part::Operation {
    let peer = operation.peer.map(|peer| Peer { kind: Kind::Collective, ..peer });
    part::Operation { peer, ..operation }
}

/// A rank whose trace is whole, and of which nothing else is known.
fn rank(number: u32, size: u32, operations: &[part::Operation]) -> Rank {
    // SAFETY: integers, for which zeroes are values.
    let mut head: abi::cohabit_mpi_part_t = unsafe { std::mem::zeroed() };
    (head.rank, head.size, head.end) = (number, size, abi::COHABIT_MPI_END_FINALIZED);
    Rank {
        head,
        cells: Vec::new(),
        before: HashMap::new(),
        callers: Vec::new(),
        series: Vec::new(),
        sites: Vec::new(),
        operations: operations.to_vec(),
        worlds: Vec::new(),
        threads: Vec::new(),
        call_places: Vec::new(),
        visits: Vec::new(),
        phases: Vec::new(),
        maps: String::new(),
    }
}

fn ranks(did: &[&[part::Operation]]) -> Vec<Rank> {
    (0..).zip(did).map(|(number, operations)| rank(number, did.len() as u32, operations)).collect()
}

/// The ranks, and what they did after this is not known of one of them.
fn with_end(did: &[&[part::Operation]], ended: usize) -> Vec<Rank> {
    let mut ranks = ranks(did);
    ranks[ended].head.flags |= abi::COHABIT_MPI_FLAG_TRACE_ENDED;
    ranks
}

fn cell(peer: u32, kind: Kind, bytes: u64) -> (Peer, u32, Amount) {
    (Peer { world: 0, rank: peer, kind }, 0, Amount { messages: 1, bytes })
}

/// The trace as it is before it is compared with the run.
fn of_any(ranks: &[Rank], worlds: &Worlds) -> Trace {
    let mut matching = Matching::default();
    let each = ranks.iter().enumerate();
    let numbered: Vec<_> = each.map(|(at, rank)| matching.number(at, rank, worlds, ranks)).collect();
    matching.leave_out(ranks, worlds);
    let operations = ranks.iter().zip(&numbered).map(|(rank, numbers)| matching.operations(rank, numbers)).collect();
    cut(matching.messages, operations, ranks, worlds)
}

/// The trace of ranks, in the run of which there was nothing else.
fn of_all(mut ranks: Vec<Rank>) -> Option<Trace> {
    let worlds = Worlds::of(&ranks);
    for message in of_any(&ranks, &worlds).messages {
        let at = (0..ranks.len()).find(|&at| worlds.task(&ranks, at) == message.source).unwrap();
        let first = worlds.ranges[worlds.of_rank[at]].0;
        ranks[at].cells.push(cell(message.destination - first, Kind::Sent, message.bytes));
    }
    of_these(&ranks)
}

/// The trace of ranks, which is good where there is one.
fn of_these(ranks: &[Rank]) -> Option<Trace> {
    let trace = of(ranks, &Worlds::of(ranks))?;
    trace.check().unwrap();
    assert!(comes_to_its_end(&trace), "{trace:?}");
    Some(trace)
}

/// Whether no task waits for ever.
fn comes_to_its_end(trace: &Trace) -> bool {
    let mut sent = HashSet::new();
    let mut reached = vec![0; trace.operations.len()];
    loop {
        let before = reached.clone();
        for (task, operations) in trace.operations.iter().enumerate() {
            while let Some(&Operation { does, message }) = operations.get(reached[task]) {
                let comes = trace.messages[message as usize].destination as usize == task;
                if does == Does::Wait && comes && !sent.contains(&message) {
                    break;
                }
                sent.extend((does == Does::Send).then_some(message));
                reached[task] += 1;
            }
        }
        if reached == before {
            return reached.iter().zip(&trace.operations).all(|(&reached, operations)| reached == operations.len());
        }
    }
}

/// What each task does, with messages that their bytes tell apart.
fn told(trace: Option<Trace>) -> String {
    let Some(trace) = trace else { return "none".into() };
    let operation = |operation: &Operation| {
        let bytes = trace.messages[operation.message as usize].bytes;
        format!("{:?} {bytes}", operation.does).to_lowercase()
    };
    let task = |operations: &Vec<Operation>| operations.iter().map(operation).collect::<Vec<_>>().join(", ");
    trace.operations.iter().map(task).collect::<Vec<_>>().join(" | ")
}

#[track_caller]
fn assert_told(ranks: Vec<Rank>, expected: &str) {
    assert_eq!(told(of_all(ranks)), expected);
}

#[test]
fn messages_of_a_channel_are_received_as_they_are_sent() {
    let sends = |to| [send(to, 7, 100), send(to, 7, 200), send(to, 8, 300)];
    let posts = |of| [at_once(post(of, 8)), at_once(post(of, 7)), at_once(post(of, 7))];
    let [sent, received] =
        ["send 100, send 200, send 300", "post 300, wait 300, post 100, wait 100, post 200, wait 200"];
    assert_told(ranks(&[&sends(1), &posts(0)]), &format!("{sent} | {received}"));
    // Whichever rank comes first.
    assert_told(ranks(&[&posts(1), &sends(0)]), &format!("{received} | {sent}"));
    let trace = of_all(ranks(&[&posts(1), &sends(0)])).unwrap();
    assert!(trace.messages.iter().all(|message| (message.source, message.destination) == (1, 0)));
}

#[test]
fn collectives_and_other_ranks_are_channels_of_their_own() {
    let sends = [send(1, 7, 100), collective(send(1, 7, 200)), send(2, 7, 300)];
    let all = ranks(&[&sends, &[collective(post(0, 7)), post(2, 7), post(0, 7)], &[post(0, 7), send(1, 7, 400)]]);
    assert_told(all, "send 100, send 200, send 300 | post 200, post 400, post 100 | post 300, send 400");
}

#[test]
fn bytes_are_those_that_were_sent() {
    let post = part::Operation { bytes: 999, ..post(0, 7) };
    assert_told(ranks(&[&[send(1, 7, 100)], &[post]]), "send 100 | post 100");
    let post = part::Operation { peer: send(1, 7, 0).peer, ..post };
    assert_told(ranks(&[&[post], &[send(0, 7, 100)]]), "post 100 | send 100");
}

#[test]
fn what_is_waited_for() {
    let sends = [send(1, 7, 100), send(1, 7, 200), send(1, 7, 300)];
    let sent = "send 100, send 200, send 300";
    let posts = [post(0, 7), post(0, 7), post(0, 7)];
    let posted = "post 100, post 200, post 300";
    for (waits, expected) in [
        (vec![], ""),
        (vec![wait(1)], ", wait 200"),
        (vec![wait(2), wait(0)], ", wait 300, wait 100"),
        (vec![wait_since(1)], ", wait 200, wait 300"),
        (vec![wait_since(0)], ", wait 100, wait 200, wait 300"),
        // None is waited for twice.
        (vec![wait(1), wait(1)], ", wait 200"),
        (vec![wait(1), wait_since(0), wait(0)], ", wait 200, wait 100, wait 300"),
        // There is no such operation, or it is itself a wait.
        (vec![wait(3), wait(3), wait(99), wait(u64::MAX)], ""),
        (vec![wait_since(3), wait_since(99), wait_since(u64::MAX)], ""),
        // Nothing is done with it.
        (vec![operation(abi::COHABIT_MPI_DOES_FROM, None, 0, 0), operation(0, None, 0, 0)], ""),
    ] {
        let receiver = [&posts[..], &waits].concat();
        assert_told(ranks(&[&sends, &receiver]), &format!("{sent} | {posted}{expected}"));
        let sender = [&sends[..], &waits].concat();
        assert_told(ranks(&[&sender, &posts]), &format!("{sent}{expected} | {posted}"));
    }
    // At once, by both.
    let sender = [at_once(send(1, 7, 100)), wait(0), send(1, 7, 200), wait_since(0)];
    let receiver = [at_once(post(0, 7)), at_once(post(0, 7)), wait_since(0)];
    let expected = "send 100, wait 100, send 200, wait 200 | post 100, wait 100, post 200, wait 200";
    assert_told(ranks(&[&sender, &receiver]), expected);
    // What is sent and posted together.
    let both = |other: u32, bytes: u64| [post(other, 7), send(other, 7, bytes), wait(0), wait(1)];
    let expected = "post 200, send 100, wait 200, wait 100 | post 100, send 200, wait 100, wait 200";
    assert_told(ranks(&[&both(1, 100), &both(0, 200)]), expected);
}

#[test]
fn what_no_rank_sends_in_a_collective_is_left_out() {
    let gathers = [collective(post(1, 3)), collective(post(2, 3)), wait_since(0), send(1, 7, 500)];
    let gives = [collective(send(0, 3, 100)), post(0, 7)];
    let goes_on = "post 100, wait 100, send 500 | send 100, post 500 | ";
    assert_told(ranks(&[&gathers, &gives, &[]]), goes_on);
    // Of another collective there is something: not of this one.
    let later = [collective(send(1, 4, 50))];
    assert_told(ranks(&[&gathers, &gives, &later]), &format!("{goes_on}send 50"));
    // The rest of the rank's operations is not known, but it took part in that collective and in one after it.
    let took_part = [collective(send(1, 3, 50)), collective(send(1, 4, 60))];
    assert_told(with_end(&[&gathers, &gives, &took_part], 2), &format!("{goes_on}send 50, send 60"));
    // It may have sent something there: here the first rank's trace ends.
    let ends = "post 100, wait 100 | send 100 | ";
    assert_told(with_end(&[&gathers, &gives, &[]], 2), ends);
    assert_told(with_end(&[&gathers, &gives, &took_part[..1]], 2), &format!("{ends}send 50"));
    let earlier = [collective(send(1, 2, 50))];
    assert_told(with_end(&[&gathers, &gives, &earlier], 2), &format!("{ends}send 50"));
    for end in [abi::COHABIT_MPI_END_RUNNING, abi::COHABIT_MPI_END_ABORTED] {
        let mut killed = ranks(&[&gathers, &gives, &[]]);
        killed[2].head.end = end;
        assert_told(killed, ends);
    }
}

#[test]
fn a_trace_ends_where_a_rank_would_wait_for_what_is_not_in_it() {
    let waits = [at_once(post(2, 1)), send(1, 2, 200)];
    let between = [send(2, 5, 100), at_once(post(0, 2)), send(2, 6, 300)];
    let last = [at_once(post(1, 5)), post(1, 6), send(0, 3, 400)];
    let expected = " | send 100 | post 100, wait 100, send 400";
    assert_told(ranks(&[&waits, &between, &last]), expected);
    // As far as that of the program itself is known: it is not left out there.
    assert_told(with_end(&[&waits, &between, &last], 2), expected);
    // What is posted and neither sent nor waited for is nothing.
    assert_told(ranks(&[&[post(1, 9), send(1, 7, 100)], &[post(0, 7)]]), "send 100 | post 100");
    // Nor is there a wait for it where the message does not come in time.
    let [first, second] = [[at_once(post(1, 1)), send(1, 1, 100)], [at_once(post(0, 1)), send(0, 1, 200)]];
    assert_told(ranks(&[&first, &second, &[send(0, 2, 300)]]), " |  | send 300");
}

#[test]
fn ranks_that_wait_go_on_when_it_is_sent() {
    let pass_on = |from, to, bytes| [at_once(post(from, 1)), at_once(send(to, 1, bytes))];
    let (up, down) = (pass_on(0, 2, 200), pass_on(2, 0, 200));
    let passed = "post 100, wait 100, send 200, wait 200";
    let upwards = ranks(&[&[send(1, 1, 100)], &up, &[at_once(post(1, 1))]]);
    assert_told(upwards, &format!("send 100 | {passed} | post 200, wait 200"));
    let downwards = ranks(&[&[at_once(post(1, 1))], &down, &[send(1, 1, 100)]]);
    assert_told(downwards, &format!("post 200, wait 200 | {passed} | send 100"));
}

#[test]
fn a_message_that_is_never_posted_stays() {
    assert_told(ranks(&[&[at_once(send(1, 7, 100))], &[]]), "send 100, wait 100 | ");
    // As where its destination left nothing at all.
    let alone = vec![rank(2, 3, &[send(1, 7, 100)]), rank(0, 3, &[send(2, 7, 200)])];
    assert_told(alone, "send 200 |  | send 100");
}

#[test]
fn messages_to_oneself() {
    let both = [post(0, 7), send(0, 7, 100), wait_since(0), send(1, 7, 50)];
    assert_told(ranks(&[&both, &[]]), "post 100, send 100, wait 100, wait 100, send 50 | ");
    let late = [send(1, 7, 50), at_once(post(0, 7)), send(0, 7, 100)];
    assert_told(ranks(&[&late, &[]]), "send 50 | ");
    // They are not what the trace is compared by, and alone are none.
    assert_told(ranks(&[&[send(0, 7, 100)]]), "none");
}

#[test]
fn with_whom_was_never_known() {
    let nobody = |does| operation(does, None, 10, 7);
    let beyond = |does| operation(does, Some(u32::MAX), 10, 7);
    let elsewhere = |does| part::Operation { peer: Some(Peer { world: 1, rank: 0, kind: Kind::Sent }), ..nobody(does) };
    let [sends, posts] = [abi::COHABIT_MPI_DOES_SEND, abi::COHABIT_MPI_DOES_POST];
    for unknown in [nobody(sends), nobody(posts), beyond(sends), beyond(posts), elsewhere(sends), elsewhere(posts)] {
        let second = [at_once(unknown), wait(0), wait_since(0), send(0, 8, 50)];
        assert_told(ranks(&[&[send(1, 7, 100)], &second]), "send 100 | send 50");
    }
}

#[test]
fn messages_between_worlds() {
    let elsewhere = |operation: part::Operation| {
        let peer = operation.peer.map(|peer| Peer { world: 1, ..peer });
        part::Operation { peer, ..operation }
    };
    let mut parent = rank(0, 1, &[elsewhere(send(0, 7, 100)), elsewhere(at_once(post(0, 7)))]);
    let world = World { kind: abi::COHABIT_MPI_WORLD_SPAWNED, size: 1, known_ns: (10, 20), spawners: vec![0] };
    parent.worlds.push(world.clone());
    let mut spawned = rank(0, 1, &[elsewhere(at_once(post(0, 7))), elsewhere(send(0, 7, 200))]);
    (spawned.head.job, spawned.head.entered_ns) = (5, 15);
    spawned.worlds.push(World { kind: abi::COHABIT_MPI_WORLD_PARENT, spawners: Vec::new(), ..world });
    for (rank, bytes) in [(&mut parent, 100), (&mut spawned, 200)] {
        let (peer, class, amount) = cell(0, Kind::Sent, bytes);
        rank.cells.push((Peer { world: 1, ..peer }, class, amount));
    }
    let trace = of_these(&[parent, spawned]);
    assert_eq!(told(trace), "send 100, post 200, wait 200 | post 100, wait 100, send 200");
}

#[test]
fn ranks_that_kept_nothing_have_no_trace() {
    assert_eq!(of_all(Vec::new()), None);
    let mut all = ranks(&[&[], &[]]);
    all[0].cells.push(cell(1, Kind::Sent, 100));
    assert_eq!(of_these(&all), None);
}

#[test]
fn a_trace_that_is_unlike_the_run_is_none() {
    use Kind::{Collective, Got, Put, Sent};
    let sends = [send(1, 7, 100), send(0, 7, 70)];
    let kept = |first: &[(Peer, u32, Amount)], second: &[(Peer, u32, Amount)]| {
        let mut all = ranks(&[&sends, &[post(0, 7)], &[]]);
        (all[0].cells, all[1].cells) = (first.to_vec(), second.to_vec());
        of_these(&all).is_some()
    };
    assert!(kept(&[cell(1, Sent, 100)], &[]));
    // The beginning of a long run, and less than was traced.
    assert!(kept(&[cell(1, Sent, 100_000_000)], &[]));
    assert!(kept(&[cell(1, Sent, 1)], &[]));
    // Whoever sends it, and in whatever sizes.
    assert!(kept(&[cell(1, Sent, 40), cell(1, Collective, 500), cell(1, Put, 7)], &[cell(0, Got, 900)]));
    // Other pairs are a tenth of it at most.
    assert!(kept(&[cell(1, Sent, 90), cell(2, Sent, 10)], &[]));
    assert!(!kept(&[cell(1, Sent, 89), cell(2, Sent, 11)], &[]));
    assert!(!kept(&[cell(1, Sent, 89)], &[cell(0, Put, 11)]));
    assert!(!kept(&[cell(1, Sent, 89), cell(1, Got, 11)], &[]));
    // Nothing is of oneself, or of ranks that there are not.
    assert!(kept(&[cell(1, Sent, 100), cell(0, Sent, 5000), cell(9, Sent, 5000)], &[cell(1, Put, 5000)]));
    // There is nothing to compare.
    assert!(!kept(&[cell(1, Sent, 0)], &[]));
    assert!(!kept(&[], &[]));
    let mut empty = ranks(&[&[send(1, 7, 0)], &[post(0, 7)]]);
    empty[0].cells.push(cell(1, Sent, 100));
    assert_eq!(of_these(&empty), None);
    // Two pairs that are as they should be together, and the other way round.
    let mut two = ranks(&[&[send(1, 7, 30), send(2, 7, 70)], &[], &[]]);
    two[0].cells = vec![cell(1, Sent, 3000), cell(2, Sent, 7000)];
    assert!(of_these(&two).is_some());
    two[0].cells = vec![cell(1, Sent, 7000), cell(2, Sent, 3000)];
    assert!(of_these(&two).is_none());
}

/// Operations with any bits, peers, tags and numbers.
fn operations() -> impl Strategy<Value = Vec<part::Operation>> {
    let kind = prop::sample::select(vec![Kind::Sent, Kind::Sent, Kind::Collective, Kind::Put, Kind::Got]);
    let number = prop_oneof![8 => 0..4u32, 1 => Just(u32::MAX), 1 => any::<u32>()];
    let world = prop_oneof![8 => Just(0), 1 => 0..4u32];
    let peer = (world, number, kind).prop_map(|(world, rank, kind)| Peer { world, rank, kind });
    let does = prop_oneof![4 => 0..16u32, 1 => any::<u32>()];
    let bytes = prop_oneof![8 => 0..30u64, 1 => 0..1u64 << 40, 1 => any::<u64>()];
    let operation = (does, prop::option::weighted(0.9, peer), bytes, 0..3u64);
    prop::collection::vec(
        operation.prop_map(|(does, peer, bytes, tag)| part::Operation { does, peer, bytes, tag }),
        0..24,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_operations_are_a_good_trace_or_none(
        did in prop::collection::vec((operations(), 0..8u32, any::<bool>(), 0..3u32, 0..8u64), 1..5),
    ) {
        let size = did.len() as u32;
        let parts = (0..).zip(&did).map(|(number, (operations, other, ended, end, job))| {
            // Now and then the same rank twice, or one of another world.
            let mut rank = rank(if *other < size { *other } else { number }, size, operations);
            rank.head.flags = if *ended { abi::COHABIT_MPI_FLAG_TRACE_ENDED } else { 0 };
            (rank.head.end, rank.head.job) = (*end, u64::from(*job == 7));
            rank
        });
        let parts: Vec<Rank> = parts.collect();
        let worlds = Worlds::of(&parts);
        let any = of_any(&parts, &worlds);
        let between = |message: &Message| message.source != message.destination && message.bytes > 0;
        let trace = of_all(parts);
        prop_assert_eq!(trace, any.messages.iter().any(between).then_some(any));
    }

    #[test]
    fn the_beginning_of_what_ranks_do_is_the_beginning_of_the_trace(
        sent in prop::collection::vec((0..4u32, 0..4u32, 0..2u64, any::<bool>(), any::<bool>()), 1..40),
        lengths in prop::array::uniform4(0..40usize),
    ) {
        let mut did = vec![Vec::new(); 4];
        for (bytes, &(source, destination, tag, waits, is_collective)) in (1..).zip(&sent) {
            // Each collective sends one message.
            let tag = if is_collective { 10 + bytes } else { tag };
            let of = |operation| if is_collective { collective(operation) } else { operation };
            let sends = of(send(destination, tag, bytes));
            did[source as usize].push(if waits { at_once(sends) } else { sends });
            did[destination as usize].push(at_once(of(post(source, tag))));
        }
        let slices: Vec<&[part::Operation]> = did.iter().map(Vec::as_slice).collect();
        let worlds = Worlds::of(&ranks(&slices));
        let whole = of_any(&ranks(&slices), &worlds);
        whole.check().unwrap();
        prop_assert!(comes_to_its_end(&whole));
        prop_assert_eq!(whole.messages.len(), sent.len());
        let waited = sent.iter().filter(|message| message.3).count();
        prop_assert_eq!(whole.operations.iter().flatten().count(), 3 * sent.len() + waited);
        let mut cut: Vec<Rank> = ranks(&slices);
        for (rank, length) in cut.iter_mut().zip(lengths) {
            if length < rank.operations.len() {
                rank.operations.truncate(length);
                rank.head.flags = abi::COHABIT_MPI_FLAG_TRACE_ENDED;
            }
        }
        let beginning = of_any(&cut, &worlds);
        beginning.check().unwrap();
        prop_assert!(comes_to_its_end(&beginning));
        // Some of what is posted there is never sent.
        let is_less = |all: &[(Does, u64)], some: &[(Does, u64)]| {
            let mut all = all.iter().filter(|(does, _)| *does != Does::Post);
            some.iter().filter(|(does, _)| *does != Does::Post).all(|operation| all.next() == Some(operation))
        };
        let by_bytes = |trace: &Trace, task: usize| -> Vec<(Does, u64)> {
            let named = |operation: &Operation| (operation.does, trace.messages[operation.message as usize].bytes);
            trace.operations[task].iter().map(named).collect()
        };
        for task in 0..4 {
            prop_assert!(is_less(&by_bytes(&whole, task), &by_bytes(&beginning, task)), "{whole:?} {beginning:?}");
        }
    }
}
