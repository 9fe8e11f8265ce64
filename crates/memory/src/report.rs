//! What a simulation found, as plain numbers. Times are in fs ([`crate::clock`]).

use crate::sample::{Sampled, scaled};
use crate::series::{ByPlace, Series};
use serde::Serialize;

/// Where an access was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Served {
    /// The L1, or a line on its way to it.
    L1,
    /// A line that an access before had asked for already.
    FillBuffer,
    /// The level-2 cache.
    L2,
    /// The level-3 cache.
    L3,
    /// A cache further out.
    L4,
    /// Another core's caches, the last cache being the same.
    NearCache,
    /// Caches behind another last cache.
    FarCache,
    /// Memory of the core's own node.
    LocalMemory,
    /// Memory of another node.
    RemoteMemory,
}

impl Served {
    /// All, nearest first.
    pub const ALL: [Self; 9] = [
        Self::L1,
        Self::FillBuffer,
        Self::L2,
        Self::L3,
        Self::L4,
        Self::NearCache,
        Self::FarCache,
        Self::LocalMemory,
        Self::RemoteMemory,
    ];

    /// Its name as a key.
    pub fn key(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::FillBuffer => "fill_buffer",
            Self::L2 => "l2",
            Self::L3 => "l3",
            Self::L4 => "l4",
            Self::NearCache => "near_cache",
            Self::FarCache => "far_cache",
            Self::LocalMemory => "local_memory",
            Self::RemoteMemory => "remote_memory",
        }
    }

    /// The cache of a level.
    pub(crate) fn level(number: u8) -> Self {
        match number {
            1 => Self::L1,
            2 => Self::L2,
            3 => Self::L3,
            _ => Self::L4,
        }
    }
}

/// Accesses to lines by where they were served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ServedCounts {
    /// The L1.
    pub l1: u64,
    /// Lines that an access before had asked for already.
    pub fill_buffer: u64,
    /// The level-2 cache.
    pub l2: u64,
    /// The level-3 cache.
    pub l3: u64,
    /// A cache further out.
    pub l4: u64,
    /// Another core's caches, the last cache being the same.
    pub near_cache: u64,
    /// Caches behind another last cache.
    pub far_cache: u64,
    /// Memory of the core's own node.
    pub local_memory: u64,
    /// Memory of another node.
    pub remote_memory: u64,
}

impl ServedCounts {
    /// The count of one place.
    pub fn at(&mut self, served: Served) -> &mut u64 {
        match served {
            Served::L1 => &mut self.l1,
            Served::FillBuffer => &mut self.fill_buffer,
            Served::L2 => &mut self.l2,
            Served::L3 => &mut self.l3,
            Served::L4 => &mut self.l4,
            Served::NearCache => &mut self.near_cache,
            Served::FarCache => &mut self.far_cache,
            Served::LocalMemory => &mut self.local_memory,
            Served::RemoteMemory => &mut self.remote_memory,
        }
    }

    /// All together.
    pub fn total(mut self) -> u64 {
        Served::ALL.into_iter().map(|served| *self.at(served)).sum()
    }
}

/// Misses by why the line was not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MissKinds {
    /// Nobody had touched the line before.
    pub compulsory: u64,
    /// It was never here, or had made room for others.
    pub replacement: u64,
    /// It was lost to a write of others.
    pub coherence: u64,
}

impl MissKinds {
    /// All together.
    pub fn total(self) -> u64 {
        self.compulsory + self.replacement + self.coherence
    }
}

/// Misses of one level's caches by kind ([`crate::Options::classify`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LevelMisses {
    /// The level.
    pub level: u8,
    /// The cache was never asked for the line before.
    pub compulsory: u64,
    /// A fully associative LRU cache of the same size would not have it either.
    pub capacity: u64,
    /// That would have it.
    pub conflict: u64,
    /// The line was lost to a write of others.
    pub coherence: u64,
    /// The same misses by the kinds of the TLB paper.
    pub by_copies: ByCopies,
}

impl LevelMisses {
    /// None yet.
    pub(crate) fn new(level: u8) -> Self {
        Self { level, ..Self::default() }
    }

    /// All together.
    pub fn total(self) -> u64 {
        self.compulsory + self.capacity + self.conflict + self.coherence
    }
}

/// Misses by the kinds of the TLB paper (III-A-1), which are read so: each miss is of one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ByCopies {
    /// What was looked for had been taken away: a line by a write of others, a page of a TLB because its memory was
    /// given back or moved.
    pub invalidation: u64,
    /// Not that, and no other cache of the level has it: it is looked for the first time, or had to make room.
    pub capacity: u64,
    /// Not taken away, and another cache of the level has it: it will be in more than one.
    pub replication: u64,
}

impl ByCopies {
    /// All together.
    pub fn total(self) -> u64 {
        self.invalidation + self.capacity + self.replication
    }

    fn with_each(&mut self, other: Self, each: &mut dyn FnMut(&mut u64, u64)) {
        each(&mut self.invalidation, other.invalidation);
        each(&mut self.capacity, other.capacity);
        each(&mut self.replication, other.replication);
    }
}

/// What one task did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Where it began: an index into the topology's PUs.
    pub pu: usize,
    /// When it ended.
    pub end_fs: u64,
    /// Instructions, polling not counted.
    pub instructions: u64,
    /// How long it ran: until its end, without what it waited, polled, was idle or queued.
    pub running_fs: u64,
    /// Instructions a cycle of that time; 0 where it never ran.
    pub instructions_per_cycle: f64,
    /// Loads of lines, read-modify-writes not counted.
    pub loads: u64,
    /// Stores to lines, read-modify-writes counted.
    pub stores: u64,
    /// Where loads were served.
    pub loads_served: ServedCounts,
    /// Where stores were served.
    pub stores_served: ServedCounts,
    /// How long loads that missed the L1 took, together.
    pub load_latency_fs: u64,
    /// How many of them took up to 2^n ns (the last: all others).
    pub load_latency: [u64; 16],
    /// The same by where they were served; nothing of the L1 and of lines that were on their way.
    pub load_latency_by_place: ByPlace<[u64; 16]>,
    /// Accesses that the core's own caches could not serve, by why.
    pub private_misses: MissKinds,
    /// Accesses that no cache behind the core's last cache could serve, by why.
    pub last_misses: MissKinds,
    /// Misses of each level's caches by kind; empty where that is not found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<LevelMisses>,
    /// Misses of the first TLB of data by kind; all 0 where that is not found out.
    #[serde(skip_serializing_if = "is_none")]
    pub data_tlb: ByCopies,
    /// Misses of the first TLB of code.
    #[serde(skip_serializing_if = "is_none")]
    pub code_tlb: ByCopies,
    /// Stores to lines that others could read too.
    pub upgrades: u64,
    /// Copies in other cores' caches that its stores took away.
    pub invalidations: u64,
    /// Copies that others' stores took away from its core while it ran there.
    pub copies_lost: u64,
    /// Caches asked on its behalf.
    pub snoops: u64,
    /// Pages not found in the first TLB of data.
    pub data_tlb_misses: u64,
    /// Pages not found in the first TLB of code.
    pub code_tlb_misses: u64,
    /// Walks of the page table.
    pub page_walks: u64,
    /// Pages that it was the first to touch.
    pub first_touches: u64,
    /// Faults that it took on pages that were unmapped for sampling.
    pub hint_faults: u64,
    /// Pages that it had moved to its node by these.
    pub page_migrations: u64,
    /// Held up by loads, full fill buffers and the page table.
    pub stalled_fs: u64,
    /// Waiting for other tasks, asleep.
    pub waiting_fs: u64,
    /// Waiting for other tasks, polling.
    pub polling_fs: u64,
    /// Polls that found the line changed.
    pub polls: u64,
    /// Polls of the recorded run, in whose place those are.
    pub polls_recorded: u64,
    /// Asleep for what is not recorded.
    pub idle_fs: u64,
    /// Ready to run, another task being on its PU.
    pub queued_fs: u64,
    /// How often it was moved to another PU.
    pub moves: u64,
}

impl TaskReport {
    /// Notes what a load that missed the L1 took.
    pub(crate) fn note_latency(&mut self, served: Served, latency_fs: u64) {
        self.load_latency_fs += latency_fs;
        let ns = latency_fs.div_ceil(crate::clock::NS).max(1);
        let bucket = (u64::BITS - (ns - 1).leading_zeros()) as usize;
        self.load_latency_by_place.0[served as usize][bucket.min(15)] += 1;
    }

    /// What follows from counts and times, once all are known; a cycle takes `cycle_fs`.
    pub(crate) fn finish(&mut self, cycle_fs: u64) {
        for counts in &self.load_latency_by_place.0 {
            self.load_latency.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let away =
            [self.waiting_fs, self.polling_fs, self.idle_fs, self.queued_fs].into_iter().fold(0, u64::saturating_add);
        self.running_fs = self.end_fs.saturating_sub(away);
        self.set_rate(cycle_fs);
    }

    /// Instructions a cycle from what is known.
    pub(crate) fn set_rate(&mut self, cycle_fs: u64) {
        let cycles = self.running_fs as f64 / cycle_fs.max(1) as f64;
        self.instructions_per_cycle = if self.running_fs == 0 { 0.0 } else { self.instructions as f64 / cycles };
    }

    /// Adds another's counts; the end is the later one. Instructions a cycle are left as they are.
    pub fn add(&mut self, other: &Self) {
        self.end_fs = self.end_fs.max(other.end_fs);
        self.with_each(other, &mut |sum, count| *sum += count);
    }

    /// Adds what came between two reports of the same task, so many times.
    pub(crate) fn add_part(&mut self, before: &Self, now: &Self, weight: f64) {
        let mut part = now.clone();
        part.with_each(before, &mut |now, before| *now = now.saturating_sub(before));
        self.with_each(&part, &mut |sum, count| *sum += scaled(count, weight));
    }

    /// Each count with that of another.
    fn with_each(&mut self, other: &Self, each: &mut dyn FnMut(&mut u64, u64)) {
        for (sum, counts) in
            [(&mut self.loads_served, other.loads_served), (&mut self.stores_served, other.stores_served)]
        {
            let mut counts = counts;
            Served::ALL.into_iter().for_each(|served| each(sum.at(served), *counts.at(served)));
        }
        for (sum, kinds) in
            [(&mut self.private_misses, other.private_misses), (&mut self.last_misses, other.last_misses)]
        {
            each(&mut sum.compulsory, kinds.compulsory);
            each(&mut sum.replacement, kinds.replacement);
            each(&mut sum.coherence, kinds.coherence);
        }
        if self.misses.is_empty() {
            self.misses = other.misses.iter().map(|misses| LevelMisses::new(misses.level)).collect();
        }
        for (sum, misses) in self.misses.iter_mut().zip(&other.misses) {
            each(&mut sum.compulsory, misses.compulsory);
            each(&mut sum.capacity, misses.capacity);
            each(&mut sum.conflict, misses.conflict);
            each(&mut sum.coherence, misses.coherence);
            sum.by_copies.with_each(misses.by_copies, each);
        }
        let by_place = self.load_latency_by_place.0.iter_mut().zip(&other.load_latency_by_place.0);
        by_place.for_each(|(sum, counts)| sum.iter_mut().zip(counts).for_each(|(sum, &count)| each(sum, count)));
        self.data_tlb.with_each(other.data_tlb, each);
        self.code_tlb.with_each(other.code_tlb, each);
        self.load_latency.iter_mut().zip(other.load_latency).for_each(|(sum, count)| each(sum, count));
        for (sum, count) in [
            (&mut self.instructions, other.instructions),
            (&mut self.running_fs, other.running_fs),
            (&mut self.loads, other.loads),
            (&mut self.stores, other.stores),
            (&mut self.load_latency_fs, other.load_latency_fs),
            (&mut self.upgrades, other.upgrades),
            (&mut self.invalidations, other.invalidations),
            (&mut self.copies_lost, other.copies_lost),
            (&mut self.snoops, other.snoops),
            (&mut self.data_tlb_misses, other.data_tlb_misses),
            (&mut self.code_tlb_misses, other.code_tlb_misses),
            (&mut self.page_walks, other.page_walks),
            (&mut self.first_touches, other.first_touches),
            (&mut self.hint_faults, other.hint_faults),
            (&mut self.page_migrations, other.page_migrations),
            (&mut self.stalled_fs, other.stalled_fs),
            (&mut self.waiting_fs, other.waiting_fs),
            (&mut self.polling_fs, other.polling_fs),
            (&mut self.polls, other.polls),
            (&mut self.polls_recorded, other.polls_recorded),
            (&mut self.idle_fs, other.idle_fs),
            (&mut self.queued_fs, other.queued_fs),
            (&mut self.moves, other.moves),
        ] {
            each(sum, count);
        }
    }
}

fn is_none(kinds: &ByCopies) -> bool {
    *kinds == ByCopies::default()
}

/// What one server of requests did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time that they waited, together.
    pub wait_fs: u64,
    /// Time that it was at work.
    pub busy_fs: u64,
}

impl Usage {
    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.wait_fs += other.wait_fs;
        self.busy_fs += other.busy_fs;
    }
}

/// A controller, a direction of a link, or the bus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// What it is: `memory 0.1` is controller 1 of node 0, `package 1 out` the way out of package 1.
    pub name: String,
    /// What it did.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CacheReport {
    /// Its level.
    pub level: u8,
    /// Its number among those of the level.
    pub number: usize,
    /// Lines that came in.
    pub fills: u64,
    /// Lines that made room for others.
    pub evictions: u64,
    /// Of these and of lines given away, those written to the next level or to memory.
    pub write_backs: u64,
    /// Lines taken away by writes of others.
    pub invalidations: u64,
    /// Lines taken away because a cache that holds all that this one holds dropped them.
    pub back_invalidations: u64,
}

/// What a simulation found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// When the last task ended.
    pub time_fs: u64,
    /// The tasks.
    pub tasks: Vec<TaskReport>,
    /// All together.
    pub total: TaskReport,
    /// The caches, level by level.
    pub caches: Vec<CacheReport>,
    /// Controllers, links, bus.
    pub servers: Vec<ServerReport>,
    /// Changes from one task to another on a PU.
    pub switches: u64,
    /// How often the operating system let two PUs change places.
    pub exchanges: u64,
    /// The run over time, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// That all of it is estimated from a sample of the run; none where all of the run was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

impl Report {
    /// Lines that came from another core's caches.
    pub fn cache_to_cache(&self) -> u64 {
        let served = |counts: ServedCounts| counts.near_cache + counts.far_cache;
        served(self.total.loads_served) + served(self.total.stores_served)
    }

    /// Lines that came from behind another last cache, or from another node's memory.
    pub fn remote(&self) -> u64 {
        let served = |counts: ServedCounts| counts.remote_memory + counts.far_cache;
        served(self.total.loads_served) + served(self.total.stores_served)
    }

    /// Misses of all caches of a level: what was served further out. What another core behind the same last cache gives
    /// is no miss of the last cache, which knows of it.
    pub fn misses(&self, level: u8) -> u64 {
        let is_last = self.caches.last().is_some_and(|cache| cache.level == level);
        let beyond = |served: &Served| match served {
            Served::L1 | Served::FillBuffer => false,
            Served::NearCache => !is_last,
            served => *served > Served::level(level),
        };
        let of = |mut counts: ServedCounts| -> u64 {
            Served::ALL.into_iter().filter(beyond).map(|served| *counts.at(served)).sum()
        };
        of(self.total.loads_served) + of(self.total.stores_served)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_go_to_powers_of_two() {
        for (ns, bucket) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (65, 7), (1 << 40, 15)] {
            let mut report = TaskReport::default();
            report.note_latency(Served::L2, ns * crate::clock::NS);
            report.finish(1);
            assert_eq!(report.load_latency, *report.load_latency_by_place.at(Served::L2));
            assert_eq!(report.load_latency.iter().position(|&count| count == 1), Some(bucket), "{ns} ns");
        }
    }
}
