//! One profile of the parts of all ranks.

use super::abi;
use super::files::Found;
use super::monitoring::Monitored;
use super::part::{Amount, Kind, Rank};
use super::worlds::Worlds;
use super::{phases, scale, sites, trace, visits};
use cohabit_model::profile::{Collectives, Kind as ProfileKind, Meta, SeriesRow, SizeRow, TaskKind, World};
use cohabit_model::series::{DEFAULT_BOUND, bound_profile_series};
use cohabit_model::{Error, Matrix, Profile, Result, Task};
use std::collections::{BTreeMap, HashMap};

/// Which figures of one ordered pair were found.
#[derive(Default)]
pub struct Pair {
    /// Messages of the program, by size class.
    pub sent: BTreeMap<u32, Amount>,
    /// One-sided ones, by size class.
    pub one_sided: BTreeMap<u32, Amount>,
    /// Of collectives, decomposed, by size class.
    pub collective: BTreeMap<u32, Amount>,
    /// By window.
    pub sent_series: BTreeMap<u64, Amount>,
    pub collective_series: BTreeMap<u64, Amount>,
}

/// How the run was, beside what its ranks left.
pub struct Run {
    /// The command line.
    pub command: Vec<String>,
    /// What Open MPI's monitoring says of ranks of the first world.
    pub monitored: HashMap<u32, Monitored>,
}

/// Makes the profile.
///
/// # Errors
/// There is no rank.
pub fn merge(found: Found, run: &Run) -> Result<Profile> {
    let Found { ranks, notes } = found;
    if ranks.is_empty() {
        return Err(Error::new("no MPI rank left anything").remedy("did the program reach MPI_Init?"));
    }
    let worlds = Worlds::of(&ranks);
    let shift = ranks.iter().map(widest).max().unwrap_or(0);
    let mut lost = 0;
    let mut pairs = collect(&ranks, &worlds, shift, &mut lost);
    let monitored = scale_collectives(&mut pairs, &ranks, &worlds, run);
    let mut meta = Meta::new(ProfileKind::Ranks, "mpi", tasks(&ranks, &worlds));
    describe(&mut meta, &ranks, &worlds, run, notes, monitored);
    meta.coverage.events_lost = lost;
    meta.coverage.exact &= lost == 0;
    meta.window_ns = ranks.iter().map(|rank| rank.head.window_ns).find(|&ns| ns > 0).unwrap_or(0) << shift;
    meta.sites = sites::heaviest(&ranks, &worlds);
    let mut profile = arrays(meta, &pairs, worlds.tasks());
    profile.phases = phases::of(&ranks, &worlds, &pairs);
    profile.trace = trace::of(&ranks, &worlds);
    (profile.meta.call_places, profile.visits) = visits::of(&ranks, &worlds);
    let each = |value: &dyn Fn(&Rank) -> u64| -> Vec<u64> {
        worlds.part_of.iter().map(|part| part.map_or(0, |part| value(&ranks[part]))).collect()
    };
    profile.mpi_ns = each(&|rank| rank.ns(rank.head.mpi_ticks));
    profile.run_ns = each(&|rank| rank.ns(rank.head.last_ticks.saturating_sub(rank.head.init_ticks)));
    let window_ns = profile.meta.window_ns;
    bound_profile_series(&mut profile, window_ns, DEFAULT_BOUND);
    Ok(profile)
}

/// The widest window that the rank's series has.
fn widest(rank: &Rank) -> u32 {
    rank.series.iter().map(|row| row.0).max().unwrap_or(0).min(40)
}

fn collect(ranks: &[Rank], worlds: &Worlds, shift: u32, lost: &mut u64) -> BTreeMap<(u32, u32), Pair> {
    let mut pairs: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        let own = worlds.task(ranks, at);
        let directed = |kind: Kind, other: u32| if kind == Kind::Got { (other, own) } else { (own, other) };
        *lost = lost.saturating_add(rank.head.events_lost).saturating_add(rank.head.unknown_peer_messages);
        for &(peer, class, amount) in &rank.cells {
            let Some(other) = worlds.peer(at, peer) else {
                *lost = lost.saturating_add(amount.messages);
                continue;
            };
            let pair = pairs.entry(directed(peer.kind, other)).or_default();
            let of = match peer.kind {
                Kind::Collective => &mut pair.collective,
                Kind::Sent => &mut pair.sent,
                Kind::Put | Kind::Got => &mut pair.one_sided,
            };
            of.entry(class).or_default().add(amount);
        }
        for &(page_shift, bin, peer, amount) in &rank.series {
            let Some(other) = worlds.peer(at, peer) else { continue };
            let pair = pairs.entry(directed(peer.kind, other)).or_default();
            let of = if peer.kind == Kind::Collective { &mut pair.collective_series } else { &mut pair.sent_series };
            of.entry(bin >> shift.saturating_sub(page_shift)).or_default().add(amount);
        }
    }
    pairs
}

/// Puts what was monitored in the place of what was decomposed; whether that was possible for every rank.
fn scale_collectives(pairs: &mut BTreeMap<(u32, u32), Pair>, ranks: &[Rank], worlds: &Worlds, run: &Run) -> bool {
    let (_, size) = worlds.ranges[0];
    let finished = |rank: u32| {
        worlds.part_of[rank as usize].is_some_and(|at| ranks[at].head.end == abi::COHABIT_MPI_END_FINALIZED)
    };
    let complete = (0..size).all(|rank| run.monitored.contains_key(&rank) && finished(rank));
    if !complete {
        return false;
    }
    for (&source, monitored) in run.monitored.iter().filter(|(source, _)| **source < size) {
        let windows = windows_of(pairs, ranks, worlds, source);
        for peer in 0..size {
            let nothing = (Amount::default(), BTreeMap::new());
            let (total, sizes) = monitored.peers.get(&peer).unwrap_or(&nothing);
            if *total == Amount::default() && !pairs.contains_key(&(source, peer)) {
                continue;
            }
            let pair = pairs.entry((source, peer)).or_default();
            let own: Vec<(u32, Amount)> = pair.sent.iter().map(|(&class, &amount)| (class, amount)).collect();
            let total = less(*total, &own);
            let known = sizes_less(sizes, &own);
            pair.collective = scale::classes(&pair.collective, total, known.as_ref());
            pair.collective_series = scale::windows(&pair.collective_series, total, &windows);
        }
    }
    true
}

/// When a rank sent anything at all: for messages of which only the number is known.
fn windows_of(
    pairs: &BTreeMap<(u32, u32), Pair>,
    ranks: &[Rank],
    worlds: &Worlds,
    source: u32,
) -> BTreeMap<u64, Amount> {
    let (mut collective, mut sent): (BTreeMap<u64, Amount>, BTreeMap<u64, Amount>) = Default::default();
    for (_, pair) in pairs.range((source, 0)..=(source, u32::MAX)) {
        pair.collective_series.iter().for_each(|(&bin, &amount)| collective.entry(bin).or_default().add(amount));
        pair.sent_series.iter().for_each(|(&bin, &amount)| sent.entry(bin).or_default().add(amount));
    }
    if !collective.is_empty() {
        return collective;
    }
    if sent.is_empty() {
        if let Some(head) = worlds.part_of[source as usize].map(|at| &ranks[at].head).filter(|head| head.window_ns > 0)
        {
            let bin = head.init_ns.saturating_sub(head.zero_ns) / (head.window_ns << head.window_shift.min(40));
            sent.insert(bin, Amount { messages: 1, bytes: 1 });
        }
    }
    sent
}

fn less(total: Amount, own: &[(u32, Amount)]) -> Amount {
    own.iter().fold(total, |left, (_, amount)| Amount {
        messages: left.messages.saturating_sub(amount.messages),
        bytes: left.bytes.saturating_sub(amount.bytes),
    })
}

/// Messages of each size less those that are known otherwise; none where that does not work out.
fn sizes_less(all: &BTreeMap<u32, u64>, own: &[(u32, Amount)]) -> Option<BTreeMap<u32, u64>> {
    let mut left = all.clone();
    for (class, amount) in own {
        let entry = left.entry(*class).or_default();
        *entry = entry.checked_sub(amount.messages)?;
    }
    left.retain(|_, count| *count > 0);
    Some(left)
}

fn arrays(meta: Meta, pairs: &BTreeMap<(u32, u32), Pair>, tasks: usize) -> Profile {
    let (mut messages, mut bytes) = (Vec::new(), Vec::new());
    let (mut sizes, mut series) = (Vec::new(), Vec::new());
    for (&(source, destination), pair) in pairs {
        let mut total = Amount::default();
        // Class 0 of the file holds empty messages and those of one byte.
        let mut classes: BTreeMap<u32, Amount> = BTreeMap::new();
        for (&class, &amount) in pair.sent.iter().chain(&pair.one_sided).chain(&pair.collective) {
            classes.entry(class.saturating_sub(1)).or_default().add(amount);
            total.add(amount);
        }
        let mut bins: BTreeMap<u64, Amount> = BTreeMap::new();
        for (&bin, &amount) in pair.sent_series.iter().chain(&pair.collective_series) {
            bins.entry(bin).or_default().add(amount);
        }
        messages.push((source, destination, total.messages));
        bytes.push((source, destination, total.bytes));
        sizes.extend(classes.into_iter().map(|(class, amount)| SizeRow {
            source,
            destination,
            class,
            messages: amount.messages,
            bytes: amount.bytes,
        }));
        series.extend(bins.into_iter().map(|(bin, amount)| SeriesRow {
            bin,
            source,
            destination,
            messages: amount.messages,
            bytes: amount.bytes,
        }));
    }
    series.sort_unstable();
    let matrix = |triplets| Matrix::from_triplets(tasks, triplets);
    let mut profile = Profile::new(meta, matrix(messages), matrix(bytes));
    profile.sizes = sizes;
    profile.series = series;
    profile
}

fn tasks(ranks: &[Rank], worlds: &Worlds) -> Vec<Task> {
    let mut tasks = Vec::with_capacity(worlds.tasks());
    for (number, &(first, size)) in worlds.ranges.iter().enumerate() {
        for rank in 0..size {
            let id = first + rank;
            let part = worlds.part_of[id as usize].map(|at| &ranks[at]);
            let name = if number == 0 { format!("rank {rank}") } else { format!("rank {rank} of world {number}") };
            tasks.push(Task {
                host: part.map(Rank::host).unwrap_or_default(),
                process: id,
                pid: part.map_or(0, |part| part.head.pid),
                tid: part.map_or(0, |part| part.head.pid),
                rank: Some(rank),
                world: number as u32,
                cpus: part.map(|part| cpus(&part.head.cpus)).unwrap_or_default(),
                ..Task::new(id, TaskKind::Rank, name)
            });
        }
    }
    tasks
}

/// A mask of processors as the kernel writes lists: `0-3,8`.
fn cpus(mask: &[u64]) -> String {
    let set: Vec<usize> = (0..mask.len() * 64).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in set {
        match ranges.last_mut() {
            Some(range) if range.1 + 1 == cpu => range.1 = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn describe(meta: &mut Meta, ranks: &[Rank], worlds: &Worlds, run: &Run, notes: Vec<String>, monitored: bool) {
    meta.command = run.command.clone();
    meta.created = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    meta.clock = "wall clock of each host since the start of the run; not stretched".into();
    for task in &meta.tasks {
        if !task.host.is_empty() && !meta.hosts.contains(&task.host) {
            meta.hosts.push(task.host.clone());
        }
    }
    let any = |flag| ranks.iter().any(|rank| rank.has(flag));
    let collectives = any(abi::COHABIT_MPI_FLAG_COLLECTIVES);
    meta.collectives = Some(if monitored { Collectives::Monitored } else { Collectives::Decomposed });
    meta.mpi_library = Some(ranks[0].library());
    meta.mpi_thread_level = ranks.iter().map(|rank| rank.head.thread_level).max();
    if worlds.ranges.len() > 1 {
        meta.worlds = worlds.ranges.iter().map(|&(first_task, tasks)| World { first_task, tasks }).collect();
    }
    let not_seen = &mut meta.coverage.not_seen;
    not_seen.extend(notes);
    let silent: Vec<String> =
        (0..worlds.tasks()).filter(|&task| worlds.part_of[task].is_none()).map(|task| task.to_string()).collect();
    if !silent.is_empty() {
        not_seen.push(format!("what ranks that left nothing sent: {}", silent.join(", ")));
    }
    let ended: Vec<&Rank> = ranks.iter().filter(|rank| rank.head.end != abi::COHABIT_MPI_END_FINALIZED).collect();
    if !ended.is_empty() {
        let names: Vec<String> = ended.iter().map(|rank| rank.head.rank.to_string()).collect();
        not_seen.push(format!("nothing after the end of ranks that did not reach MPI_Finalize: {}", names.join(", ")));
    }
    if any(abi::COHABIT_MPI_FLAG_NO_SPACE) {
        not_seen.push("what came after a rank's part could not grow: its disk is full".into());
    }
    if any(abi::COHABIT_MPI_FLAG_UNKNOWN_PEER) {
        not_seen.push("messages to processes that MPI_Comm_connect, accept or join made known".into());
    }
    match worlds.unseen(ranks) {
        0 => {}
        count => not_seen.push(format!(
            "the {count} processes that MPI_Comm_spawn started, and messages with them: the library was not in them \
             (Open MPI 5 starts them without it)"
        )),
    }
    meta.coverage.exact = not_seen.is_empty();
    if collectives && !monitored {
        meta.coverage.exact = false;
        let what = if any(abi::COHABIT_MPI_FLAG_APPROXIMATE) { ", between groups roughly" } else { "" };
        let ways = if ranks[0].library().contains("Open MPI") { ", which is not how Open MPI does" } else { what };
        not_seen.push(format!(
            "which messages collectives are made of: each call is decomposed as MPICH does on one node{ways}"
        ));
    }
}
