//! Phases (IBM report, 3.2: an application communication pattern may be one of several, each with its weight), from
//! what ranks send between two waits.
//!
//! The library calls that a round (`native/mpi/abi.h`): messages of one may all be on their way at once, those of the
//! next are sent when some of these have come. Ranks of a program run the same code, so rounds of different ranks are
//! at the same time where they come from the same places in the code. Places that share a round on any rank belong
//! together (at the edge of a grid a rank has fewer neighbours). From the same places a rank may have several rounds,
//! with one peer after the other, as in a butterfly: where all ranks have as many of them, the first of all is a phase,
//! the second another. That one comes after another is only known of what has a rank in common: what different ranks
//! exchange (two programs of one job) is one phase.

use super::abi;
use super::merge::Pair;
use super::part::{Amount, Kind, Rank};
use super::scale::share;
use super::worlds::Worlds;
use cohabit_model::profile::{NO_ORDER, PhaseRow, SentBy, SizeRow};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Phases told apart. Beyond, those with the fewest bytes are one.
const MOST: usize = 64;

/// A round of a rank.
#[derive(Default)]
struct Round {
    first: u32,
    places: BTreeSet<u64>,
    bytes: u64,
    /// Tasks that it was exchanged with.
    others: BTreeSet<u32>,
}

/// What is taken to be sent at the same time.
#[derive(Clone)]
struct Together {
    /// By when all of them had sent something, in the order of what each first did.
    first: u32,
    bytes: u64,
    /// Which rank's rounds.
    rounds: Vec<(usize, u32)>,
    /// The tasks that send or receive.
    tasks: BTreeSet<u32>,
}

/// The phase of each rank's rounds, and how many there are; what cannot be told is of the one after the last.
struct Phases {
    of: Vec<HashMap<u32, u32>>,
    rest: u32,
}

/// What is sent in a phase, by one task to another in messages of one size class, and when.
#[derive(Debug, Clone, Copy)]
struct Sent {
    amount: Amount,
    order: Order,
    by: SentBy,
}

/// When a rank first sends something of a round: which of its call sites does, and how many messages after the first of
/// that call.
type Order = (u32, u32);

/// It is not known.
const UNKNOWN: Order = (u32::MAX, u32::MAX);

/// By phase, source, destination and size class.
#[derive(Default)]
struct Found(BTreeMap<(u32, u32, u32, u32), Sent>);

impl Found {
    fn add(&mut self, key: (u32, u32, u32, u32), other: Sent) {
        let none = Sent { amount: Amount::default(), order: UNKNOWN, by: other.by };
        let sent = self.0.entry(key).or_insert(none);
        sent.amount.add(other.amount);
        sent.order = sent.order.min(other.order);
        // Of the program, then of what is sent at once, where it is of several.
        sent.by = sent.by.min(other.by);
    }
}

/// What the collectives of a rank sent.
#[derive(Default)]
struct Collectives {
    /// Messages by size class and phase.
    messages: BTreeMap<u32, BTreeMap<u32, u64>>,
    /// The first call site by phase.
    sites: BTreeMap<u32, u32>,
}

/// What each pair sent in each phase: of all phases as much as the pair's figures say.
pub fn of(ranks: &[Rank], worlds: &Worlds, pairs: &BTreeMap<(u32, u32), Pair>) -> Vec<PhaseRow> {
    let phases = told_apart(ranks, worlds);
    let mut found = Found::default();
    // Of the program's own messages: what each phase has, and by pair and size class how much that is.
    let mut known: HashMap<(u32, u32, u32), Amount> = HashMap::new();
    let before = before(ranks, worlds);
    let mut collectives: Vec<Collectives> = ranks.iter().map(|_| Collectives::default()).collect();
    for (at, rank) in ranks.iter().enumerate() {
        let own = worlds.task(ranks, at);
        for site in &rank.sites {
            let phase = phases.of[at].get(&site.round).copied().unwrap_or(phases.rest);
            if site.peer.kind == Kind::Collective {
                let Collectives { messages, sites } = &mut collectives[at];
                let sum = messages.entry(site.class).or_default().entry(phase).or_default();
                *sum = sum.saturating_add(site.amount.messages);
                let first = sites.entry(phase).or_insert(site.order);
                *first = site.order.min(*first);
                continue;
            }
            let Some(other) = worlds.peer(at, site.peer) else { continue };
            let (source, destination) = if site.peer.kind == Kind::Got { (other, own) } else { (own, other) };
            let order = if site.peer.kind == Kind::Got { UNKNOWN } else { (site.order, 0) };
            let sent = Sent { amount: site.amount, order, by: SentBy::Program };
            found.add((phase, source, destination, site.class), sent);
            known.entry((source, destination, site.class)).or_default().add(site.amount);
        }
    }
    for (&(source, destination), pair) in pairs {
        for (&class, &amount) in pair.sent.iter().chain(&pair.one_sided) {
            // Usually all of it is known.
            let left = known.get(&(source, destination, class)).map_or(amount, |&known| less(amount, known));
            if left != Amount::default() {
                let sent = Sent { amount: left, order: UNKNOWN, by: SentBy::Program };
                found.add((phases.rest, source, destination, class), sent);
            }
        }
        let of_source = worlds.part_of[source as usize].map(|at| &collectives[at]);
        for (&class, &amount) in &pair.collective {
            let before = before.get(&(source, destination, class)).or_else(|| before.get(&(source, destination, ANY)));
            for (phase, amount) in shared(of_source.map(|own| &own.messages), class, amount, phases.rest) {
                let site = of_source.and_then(|own| own.sites.get(&phase));
                let order =
                    site.zip(before).map_or(UNKNOWN, |(&site, &before)| (site, before & !abi::COHABIT_MPI_STEPS));
                let steps = before.is_some_and(|before| before & abi::COHABIT_MPI_STEPS != 0);
                let by = if steps { SentBy::Steps } else { SentBy::Collective };
                found.add((phase, source, destination, class), Sent { amount, order, by });
            }
        }
    }
    rows(found)
}

/// In the place of a size class: whichever.
const ANY: u32 = u32::MAX;

/// How many messages ranks had sent in the round before their collectives sent the first of a size class, or the first
/// of any, to each other task.
fn before(ranks: &[Rank], worlds: &Worlds) -> HashMap<(u32, u32, u32), u32> {
    let mut found = HashMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        let own = worlds.task(ranks, at);
        for (&(peer, class), &before) in &rank.before {
            let Some(other) = worlds.peer(at, peer) else { continue };
            for class in [class, ANY] {
                let least = found.entry((own, other, class)).or_insert(before);
                *least = before.min(*least);
            }
        }
    }
    found
}

/// A pair's messages of a class that collectives sent, in the proportion in which the sender's collectives sent such
/// messages in each phase, or messages at all where it knows of none such: which ones, the monitoring does not say.
fn shared(
    collective: Option<&BTreeMap<u32, BTreeMap<u32, u64>>>,
    class: u32,
    amount: Amount,
    rest: u32,
) -> Vec<(u32, Amount)> {
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    if let Some(collective) = collective {
        match collective.get(&class) {
            Some(of_class) => weights.clone_from(of_class),
            None => collective.values().flatten().for_each(|(&phase, &messages)| {
                let sum = weights.entry(phase).or_default();
                *sum = sum.saturating_add(messages);
            }),
        }
    }
    if weights.is_empty() {
        return vec![(rest, amount)];
    }
    let by: Vec<u64> = weights.values().copied().collect();
    let shares = share(amount.messages, &by).into_iter().zip(share(amount.bytes, &by));
    weights.into_keys().zip(shares.map(|(messages, bytes)| Amount { messages, bytes })).collect()
}

fn less(all: Amount, part: Amount) -> Amount {
    Amount { messages: all.messages.saturating_sub(part.messages), bytes: all.bytes.saturating_sub(part.bytes) }
}

/// Rows of what was found, phases and places among what each task sends numbered without gaps.
fn rows(found: Found) -> Vec<PhaseRow> {
    let mut merged = Found::default();
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for ((phase, source, destination, class), sent) in found.0 {
        if sent.amount.messages > 0 {
            let next = numbers.len() as u32;
            let phase = *numbers.entry(phase).or_insert(next);
            // Class 0 of a profile holds empty messages and those of one byte.
            merged.add((phase, source, destination, class.saturating_sub(1)), sent);
        }
    }
    let mut orders: BTreeMap<(u32, u32), BTreeSet<Order>> = BTreeMap::new();
    for (&(phase, source, ..), sent) in &merged.0 {
        orders.entry((phase, source)).or_default().insert(sent.order);
    }
    let places: HashMap<(u32, u32, Order), u32> = orders
        .iter()
        .flat_map(|(&(phase, source), orders)| (0..).zip(orders).map(move |(at, &order)| ((phase, source, order), at)))
        .collect();
    let row = |((phase, source, destination, class), sent): ((u32, u32, u32, u32), Sent)| {
        let Amount { messages, bytes } = sent.amount;
        let order = if sent.order == UNKNOWN { NO_ORDER } else { places[&(phase, source, sent.order)] };
        let size = SizeRow { source, destination, class, messages, bytes };
        PhaseRow { phase, size, order, by: sent.by }
    };
    merged.0.into_iter().map(row).collect()
}

fn told_apart(ranks: &[Rank], worlds: &Worlds) -> Phases {
    let rounds: Vec<BTreeMap<u32, Round>> = (0..ranks.len()).map(|at| rounds(ranks, worlds, at)).collect();
    let together = together(rounds.iter().flat_map(|rounds| rounds.values().map(|round| &round.places)));
    // For each set of places the rounds of each rank, in their order.
    let mut by_set: BTreeMap<u64, BTreeMap<usize, Vec<(u32, u32)>>> = BTreeMap::new();
    for (at, rounds) in rounds.iter().enumerate() {
        for (&number, round) in rounds {
            let Some(set) = round.places.first().map(|place| together[place]) else { continue };
            by_set.entry(set).or_default().entry(at).or_default().push((round.first, number));
        }
    }
    let mut phases: Vec<Together> = Vec::new();
    for mut ranks_of_set in by_set.into_values() {
        ranks_of_set.values_mut().for_each(|numbers| numbers.sort_unstable());
        let count = ranks_of_set.values().next().map_or(0, Vec::len);
        let told = count <= MOST && ranks_of_set.values().all(|numbers| numbers.len() == count);
        let none = Together { first: 0, bytes: 0, rounds: Vec::new(), tasks: BTreeSet::new() };
        let mut of_set = vec![none; if told { count } else { 1 }];
        for (at, numbers) in ranks_of_set {
            for (place, (first, number)) in numbers.into_iter().enumerate() {
                let (phase, round) = (&mut of_set[if told { place } else { 0 }], &rounds[at][&number]);
                phase.first = phase.first.max(first);
                phase.bytes = phase.bytes.saturating_add(round.bytes);
                phase.rounds.push((at, number));
                phase.tasks.insert(worlds.task(ranks, at));
                phase.tasks.extend(&round.others);
            }
        }
        phases.append(&mut of_set);
    }
    let mut phases = without_order(phases);
    if phases.len() > MOST {
        phases.truncate(MOST - 1);
    }
    phases.sort_by_key(|phase| phase.first);
    let mut of = vec![HashMap::new(); ranks.len()];
    for (number, phase) in phases.iter().enumerate() {
        phase.rounds.iter().for_each(|&(at, round)| {
            of[at].insert(round, number as u32);
        });
    }
    Phases { of, rest: phases.len() as u32 }
}

/// Makes one phase of those that have no task in common, from the one with the most bytes on; sorted by falling bytes.
fn without_order(mut phases: Vec<Together>) -> Vec<Together> {
    phases.sort_by_key(|phase| std::cmp::Reverse(phase.bytes));
    let mut found: Vec<Together> = Vec::new();
    for mut phase in phases {
        match found.iter_mut().find(|other| other.tasks.is_disjoint(&phase.tasks)) {
            Some(other) => {
                other.first = other.first.max(phase.first);
                other.bytes = other.bytes.saturating_add(phase.bytes);
                other.rounds.append(&mut phase.rounds);
                other.tasks.append(&mut phase.tasks);
            }
            None => found.push(phase),
        }
    }
    found.sort_by_key(|phase| std::cmp::Reverse(phase.bytes));
    found
}

/// The rounds of a rank; what has none is left out.
fn rounds(ranks: &[Rank], worlds: &Worlds, at: usize) -> BTreeMap<u32, Round> {
    let mut rounds: BTreeMap<u32, Round> = BTreeMap::new();
    for site in ranks[at].sites.iter().filter(|site| site.round != 0) {
        let round = rounds.entry(site.round).or_insert(Round { first: u32::MAX, ..Round::default() });
        round.first = round.first.min(site.order);
        round.places.insert(site.place);
        round.bytes = round.bytes.saturating_add(site.amount.bytes);
        if site.peer.kind != Kind::Collective {
            round.others.extend(worlds.peer(at, site.peer));
        }
    }
    rounds
}

/// For each place the smallest of those that it shares rounds with, directly or by others.
fn together<'a>(rounds: impl Iterator<Item = &'a BTreeSet<u64>>) -> HashMap<u64, u64> {
    let mut with: HashMap<u64, u64> = HashMap::new();
    fn least(with: &HashMap<u64, u64>, mut place: u64) -> u64 {
        while let Some(&next) = with.get(&place).filter(|&&next| next != place) {
            place = next;
        }
        place
    }
    for places in rounds {
        for &place in places {
            with.entry(place).or_insert(place);
            let (a, b) = (least(&with, places.first().copied().unwrap_or(place)), least(&with, place));
            with.insert(a.max(b), a.min(b));
        }
    }
    let places: Vec<u64> = with.keys().copied().collect();
    places.into_iter().map(|place| (place, least(&with, place))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::many_tests::part_of;
    use super::super::part;
    use super::super::part::{Peer, Site};
    use super::*;

    /// Rows of one rank: (place, peer, bytes, round), a message each, in this order.
    type Rows<'a> = &'a [(u64, u32, u64, u32)];

    /// Ranks that sent these messages, by call site and in all.
    fn ranks(of: &[Rows]) -> (Vec<Rank>, BTreeMap<(u32, u32), Pair>) {
        let mut pairs: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
        let rank = |(at, rows): (usize, &Rows)| {
            let mut rank = part::read(&part_of(at as u32, &[])).unwrap().unwrap();
            for (order, &(place, peer, bytes, round)) in rows.iter().enumerate() {
                let amount = Amount { messages: 1, bytes };
                let peer = Peer { world: 0, rank: peer, kind: Kind::Sent };
                let (class, order) = (super::super::scale::class_of(bytes), order as u32);
                rank.sites.push(Site { peer, class, address: place, place, order, round, amount });
                let pair = pairs.entry((at as u32, peer.rank)).or_default();
                pair.sent.entry(class).or_default().add(amount);
            }
            rank
        };
        (of.iter().enumerate().map(rank).collect(), pairs)
    }

    /// The pairs and bytes of each phase.
    fn found(ranks: &[Rank], pairs: &BTreeMap<(u32, u32), Pair>) -> Vec<(Vec<(u32, u32)>, u64)> {
        let rows = of(ranks, &Worlds::of(ranks), pairs);
        let phase = |rows: &[PhaseRow]| {
            let pairs = rows.iter().map(|row| (row.size.source, row.size.destination)).collect();
            (pairs, rows.iter().map(|row| row.size.bytes).sum())
        };
        rows.chunk_by(|a, b| a.phase == b.phase).map(phase).collect()
    }

    #[test]
    fn places_that_share_a_round_are_one_phase() {
        // A row of three: only the middle one sends from both places in one round. Then all from a third place.
        let (ranks, pairs) = ranks(&[
            &[(10, 1, 9, 1), (30, 1, 5, 2)],
            &[(10, 2, 9, 1), (20, 0, 9, 1), (30, 2, 5, 2)],
            &[(20, 1, 9, 1), (30, 0, 5, 2)],
        ]);
        let both = vec![(0, 1), (1, 0), (1, 2), (2, 1)];
        assert_eq!(found(&ranks, &pairs), [(both, 36), (vec![(0, 1), (1, 2), (2, 0)], 15)]);
    }

    #[test]
    fn one_peer_after_the_other_is_as_many_phases_where_all_have_as_many() {
        let four: [Rows; 4] = [
            &[(10, 1, 9, 1), (10, 2, 9, 2)],
            &[(10, 0, 9, 1), (10, 3, 9, 2)],
            &[(10, 3, 9, 1), (10, 0, 9, 2)],
            &[(10, 2, 9, 1), (10, 1, 9, 2)],
        ];
        let (butterfly, pairs) = ranks(&four);
        let first = vec![(0, 1), (1, 0), (2, 3), (3, 2)];
        let second = vec![(0, 2), (1, 3), (2, 0), (3, 1)];
        assert_eq!(found(&butterfly, &pairs), [(first, 36), (second, 36)]);
        let (some, pairs) = ranks(&[four[0], four[1], four[2], &[(10, 2, 9, 1)]]);
        let all = vec![(0, 1), (0, 2), (1, 0), (1, 3), (2, 0), (2, 3), (3, 2)];
        assert_eq!(found(&some, &pairs), [(all, 63)]);
    }

    /// Source, destination and place of what is sent in a phase.
    fn orders(ranks: &[Rank], pairs: &BTreeMap<(u32, u32), Pair>, phase: u32) -> Vec<(u32, u32, u32)> {
        let rows = of(ranks, &Worlds::of(ranks), pairs);
        let rows = rows.iter().filter(|row| row.phase == phase);
        rows.map(|row| (row.size.source, row.size.destination, row.order)).collect()
    }

    #[test]
    fn what_a_rank_sends_at_a_time_has_its_place() {
        // From two places in one round, and then the other way round.
        let (one, of_one) =
            ranks(&[&[(10, 2, 9, 1), (11, 1, 9, 1), (20, 1, 9, 2), (20, 2, 9, 2)], &[(10, 0, 9, 1)], &[(11, 0, 9, 1)]]);
        assert_eq!(orders(&one, &of_one, 0), [(0, 1, 1), (0, 2, 0), (1, 0, 0), (2, 0, 0)]);
        assert_eq!(orders(&one, &of_one, 1), [(0, 1, 0), (0, 2, 1)]);
        // A message of the program's, then a collective: rank 0's goes to 2 first, and in another size to 1.
        let (mut some, mut pairs) = ranks(&[&[(10, 1, 9, 1)], &[], &[]]);
        let peer = |rank| Peer { world: 0, rank, kind: Kind::Collective };
        let amount = Amount { messages: 4, bytes: 400 };
        let site = |class, order| Site { peer: peer(0), class, address: 20, place: 20, order, round: 1, amount };
        some[0].sites.extend([site(7, 1), site(6, 2)]);
        some[0].before.extend([((peer(2), 7), 1), ((peer(1), 6), 2), ((peer(1), 7), 2)]);
        for (other, class) in [(1, 7), (1, 6), (2, 7)] {
            pairs.entry((0, other)).or_default().collective.insert(class, amount);
        }
        let sent = |class: u32| (0, 1, if class == 3 { 0 } else { 2 });
        assert_eq!(orders(&some, &pairs, 0), [sent(3), sent(5), sent(6), (0, 2, 1)]);
        // In a size that no call was decomposed into: the peer's place in whichever; with a peer of which nothing is
        // known: none.
        some[0].before.remove(&(peer(1), 6));
        some[0].before.remove(&(peer(2), 7));
        assert_eq!(orders(&some, &pairs, 0), [(0, 1, 0), (0, 1, 1), (0, 1, 1), (0, 2, NO_ORDER)]);
        // Who sends it: the program, a collective, and one that goes step by step.
        let by = |ranks: &[Rank]| -> Vec<SentBy> {
            of(ranks, &Worlds::of(ranks), &pairs).iter().map(|row| row.by).collect()
        };
        assert_eq!(by(&some), [SentBy::Program, SentBy::Collective, SentBy::Collective, SentBy::Collective]);
        some[0].before.values_mut().for_each(|before| *before |= abi::COHABIT_MPI_STEPS);
        assert_eq!(by(&some), [SentBy::Program, SentBy::Steps, SentBy::Steps, SentBy::Collective]);
        assert_eq!(orders(&some, &pairs, 0), [(0, 1, 0), (0, 1, 1), (0, 1, 1), (0, 2, NO_ORDER)]);
        // What one gets from another is at no place among what that sends.
        some[0].sites[0].peer.kind = Kind::Got;
        assert_eq!(orders(&some, &pairs, 0).last(), Some(&(1, 0, NO_ORDER)));
    }

    #[test]
    fn two_programs_of_one_job_run_at_the_same_time() {
        // 0 and 1 run one program, 2 and 3 another; then the two exchange something.
        let of: [Rows; 4] = [
            &[(10, 1, 9, 1), (11, 1, 5, 2), (30, 2, 7, 3)],
            &[(10, 0, 9, 1), (11, 0, 5, 2)],
            &[(20, 3, 8, 1), (21, 3, 4, 2), (30, 0, 7, 3)],
            &[(20, 2, 8, 1), (21, 2, 4, 2)],
        ];
        let (ranks, pairs) = ranks(&of);
        let both = vec![(0, 1), (1, 0), (2, 3), (3, 2)];
        assert_eq!(found(&ranks, &pairs), [(both.clone(), 34), (both, 18), (vec![(0, 2), (2, 0)], 14)]);
    }

    #[test]
    fn what_is_not_known_is_a_phase_of_its_own() {
        let (mut ranks, mut pairs) = ranks(&[&[(10, 1, 9, 1), (20, 1, 9, 0)], &[]]);
        assert_eq!(found(&ranks, &pairs), [(vec![(0, 1)], 9), (vec![(0, 1)], 9)], "no room for its round");
        ranks[0].sites.pop();
        assert_eq!(found(&ranks, &pairs), [(vec![(0, 1)], 9), (vec![(0, 1)], 9)], "nor for its call site");
        // Of collectives the pair's figures count, whatever the calls were decomposed into.
        let collective = |round, class, messages| {
            let peer = Peer { world: 0, rank: 0, kind: Kind::Collective };
            let place = u64::from(round) * 10;
            let amount = Amount { messages, bytes: 0 };
            Site { peer, class, address: place, place, order: round, round, amount }
        };
        ranks[0].sites.extend([collective(3, 7, 1), collective(4, 7, 3), collective(4, 5, 1)]);
        let mut of_class = |class, messages, bytes| {
            pairs.insert((0, 1), Pair { collective: [(class, Amount { messages, bytes })].into(), ..Pair::default() });
            found(&ranks, &pairs).into_iter().map(|phase| phase.1).collect::<Vec<_>>()
        };
        assert_eq!(of_class(7, 8, 800), [9, 200, 600]);
        assert_eq!(of_class(5, 8, 160), [9, 160]);
        assert_eq!(of_class(9, 5, 1500), [9, 300, 1200]);
    }

    #[test]
    fn no_more_than_so_many_are_told_apart() {
        let rows: Vec<_> = (1..=100).map(|round| (u64::from(round), 1, u64::from(round), round)).collect();
        let (ranks, pairs) = ranks(&[&rows, &[]]);
        let phases = found(&ranks, &pairs);
        assert_eq!((phases.len(), phases[0].1, phases[62].1), (64, 38, 100));
        assert_eq!(phases[63].1, (1..38).sum::<u64>());
    }
}
