//! The trace of a run: which message each operation of the ranks (`native/mpi/trace.c`) is about, as far as they fit
//! together.
//!
//! MPI has messages of one sender, communicator and tag received in the order in which they are sent: the first that is
//! posted is the first that was sent. Ranks keep as many operations each, so that those with few go on when others have
//! ended: the trace ends where a rank would wait for what is not in it.

use super::abi;
use super::part::{self, Kind, Rank};
use super::worlds::Worlds;
use cohabit_model::Trace;
use cohabit_model::trace::{Does, Message, Operation};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// How much of what a pair exchanges has to be the same share of the trace and of the run, over all pairs, for the
/// trace to stand for it.
const ALIKE: f64 = 0.9;

/// Messages that are received in the order in which they are sent: source, destination, whether a collective sends
/// them, tag.
type Channel = (u32, u32, bool, u64);

/// The trace; none where ranks kept none, or what they kept is not like the whole run.
pub fn of(ranks: &[Rank], worlds: &Worlds) -> Option<Trace> {
    if ranks.iter().all(|rank| rank.operations.is_empty()) {
        return None;
    }
    let mut matching = Matching::default();
    let numbered: Vec<Vec<Option<u32>>> =
        ranks.iter().enumerate().map(|(at, rank)| matching.number(at, rank, worlds, ranks)).collect();
    matching.leave_out(ranks, worlds);
    let operations: Vec<Vec<Operation>> =
        ranks.iter().zip(&numbered).map(|(rank, numbers)| matching.operations(rank, numbers)).collect();
    let trace = cut(matching.messages, operations, ranks, worlds);
    (alike(&trace, ranks, worlds) >= ALIKE).then_some(trace)
}

/// Which send and which post are of one message.
#[derive(Default)]
struct Matching {
    messages: Vec<Message>,
    /// The same order: its channel, whether any rank sends it, and whether it is left out.
    channels: Vec<Channel>,
    sent: Vec<bool>,
    out: Vec<bool>,
    /// Without their posts, and the other way round.
    sends: HashMap<Channel, VecDeque<u32>>,
    posts: HashMap<Channel, VecDeque<u32>>,
}

impl Matching {
    /// The message of each operation that sends or posts one.
    fn number(&mut self, at: usize, rank: &Rank, worlds: &Worlds, ranks: &[Rank]) -> Vec<Option<u32>> {
        let own = worlds.task(ranks, at);
        let number = |operation: &part::Operation| {
            let other = worlds.peer(at, operation.peer?)?;
            let collective = operation.peer?.kind == Kind::Collective;
            let sends = operation.does & abi::COHABIT_MPI_DOES_SEND != 0;
            let (source, destination) = if sends { (own, other) } else { (other, own) };
            let channel = (source, destination, collective, operation.tag);
            let waiting = if sends { &mut self.posts } else { &mut self.sends };
            let number = waiting.get_mut(&channel).and_then(VecDeque::pop_front).unwrap_or_else(|| {
                let number = self.messages.len() as u32;
                self.messages.push(Message { source, destination, bytes: 0 });
                self.channels.push(channel);
                self.sent.push(false);
                self.out.push(false);
                let waiting = if sends { &mut self.sends } else { &mut self.posts };
                waiting.entry(channel).or_default().push_back(number);
                number
            });
            if sends {
                self.messages[number as usize].bytes = operation.bytes;
                self.sent[number as usize] = true;
            }
            Some(number)
        };
        rank.operations.iter().map(number).collect()
    }

    /// In a collective everything is posted that may be sent: what its sender, who took part in it, did not send is
    /// nothing.
    fn leave_out(&mut self, ranks: &[Rank], worlds: &Worlds) {
        let mut took_part: HashSet<(u32, u64)> = HashSet::new();
        let mut whole: HashSet<u32> = HashSet::new();
        for (at, rank) in ranks.iter().enumerate() {
            let own = worlds.task(ranks, at);
            let is_whole =
                !rank.has(abi::COHABIT_MPI_FLAG_TRACE_ENDED) && rank.head.end == abi::COHABIT_MPI_END_FINALIZED;
            if is_whole {
                whole.insert(own);
            }
            let is_collective =
                |operation: &&part::Operation| operation.peer.is_some_and(|peer| peer.kind == Kind::Collective);
            let tags = rank.operations.iter().filter(is_collective).map(|operation| operation.tag);
            // It may have ended in the middle of the last one.
            let last = tags.clone().next_back().filter(|_| !is_whole);
            took_part.extend(tags.filter(|&tag| Some(tag) != last).map(|tag| (own, tag)));
        }
        for (number, &(source, _, collective, tag)) in self.channels.iter().enumerate() {
            let would = whole.contains(&source) || took_part.contains(&(source, tag));
            self.out[number] = collective && !self.sent[number] && would;
        }
    }

    /// What a rank does, with each message waited for once.
    fn operations(&self, rank: &Rank, numbers: &[Option<u32>]) -> Vec<Operation> {
        let mut operations = Vec::with_capacity(2 * numbers.len());
        let mut waited = vec![false; numbers.len()];
        for (at, operation) in rank.operations.iter().enumerate() {
            let does = |bit: u32| operation.does & bit != 0;
            let is_wait = !does(abi::COHABIT_MPI_DOES_SEND | abi::COHABIT_MPI_DOES_POST);
            if let (Some(message), false) = (numbers[at], is_wait) {
                let sends = does(abi::COHABIT_MPI_DOES_SEND);
                if !self.out[message as usize] {
                    operations.push(Operation { does: if sends { Does::Send } else { Does::Post }, message });
                }
            }
            let waits_for = match (does(abi::COHABIT_MPI_DOES_WAIT), is_wait) {
                (false, _) => at..at,
                (true, false) => at..at + 1,
                (true, true) => {
                    let first = usize::try_from(operation.bytes).unwrap_or(at).min(at);
                    first..if does(abi::COHABIT_MPI_DOES_FROM) { at } else { (first + 1).min(at) }
                }
            };
            for other in waits_for {
                let message = numbers[other].filter(|&message| !self.out[message as usize]);
                if let (Some(message), false) = (message, std::mem::replace(&mut waited[other], true)) {
                    operations.push(Operation { does: Does::Wait, message });
                }
            }
        }
        operations
    }
}

/// Ends each task's operations where it would wait for ever, and leaves out messages that are not sent then.
fn cut(messages: Vec<Message>, of_ranks: Vec<Vec<Operation>>, ranks: &[Rank], worlds: &Worlds) -> Trace {
    let mut trace = Trace { messages, operations: vec![Vec::new(); worlds.tasks()] };
    for (at, own) in of_ranks.into_iter().enumerate() {
        trace.operations[worlds.task(ranks, at) as usize] = own;
    }
    let reached = trace.reach();
    trace.operations.iter_mut().zip(reached).for_each(|(operations, reached)| operations.truncate(reached));
    let mut sent = vec![false; trace.messages.len()];
    for operation in trace.operations.iter().flatten().filter(|operation| operation.does == Does::Send) {
        sent[operation.message as usize] = true;
    }
    let mut kept = Vec::new();
    let mut renumbered = vec![None; sent.len()];
    for number in (0..sent.len()).filter(|&number| sent[number]) {
        renumbered[number] = Some(kept.len() as u32);
        kept.push(trace.messages[number]);
    }
    for operations in &mut trace.operations {
        let renumber = |operation: &Operation| {
            renumbered[operation.message as usize].map(|message| Operation { message, ..*operation })
        };
        *operations = operations.iter().filter_map(renumber).collect();
    }
    Trace { messages: kept, ..trace }
}

/// Of all bytes, the share that every pair has both of the trace and of the run: 1 where they are alike.
fn alike(trace: &Trace, ranks: &[Rank], worlds: &Worlds) -> f64 {
    let mut pairs: BTreeMap<(u32, u32), [f64; 2]> = BTreeMap::new();
    for message in trace.messages.iter().filter(|message| message.source != message.destination) {
        pairs.entry((message.source, message.destination)).or_default()[0] += message.bytes as f64;
    }
    for (at, rank) in ranks.iter().enumerate() {
        let own = worlds.task(ranks, at);
        for &(peer, _, amount) in &rank.cells {
            let Some(other) = worlds.peer(at, peer).filter(|&other| other != own) else { continue };
            let pair = if peer.kind == Kind::Got { (other, own) } else { (own, other) };
            pairs.entry(pair).or_default()[1] += amount.bytes as f64;
        }
    }
    let [traced, all] = [0, 1].map(|of| pairs.values().map(|bytes| bytes[of]).sum::<f64>());
    match traced > 0.0 && all > 0.0 {
        true => pairs.values().map(|bytes| (bytes[0] / traced).min(bytes[1] / all)).sum(),
        false => 0.0,
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
