//! The worlds of a run: the first one, and those that MPI_Comm_spawn started.
//!
//! A spawning rank knows when it spawned and how many; a spawned one when it began and by how many. That pairs them:
//! MPI says no more to a library that must not send messages of its own. Only two worlds of one size spawned by
//! different communicators within the same instant could be mistaken for one another.

use super::abi;
use super::part::{MOST_RANKS, Peer, Rank};
use std::collections::BTreeMap;

/// Tasks of all worlds, one after another.
pub struct Worlds {
    /// First task and size of each, the first world's being 0.
    pub ranges: Vec<(u32, u32)>,
    /// Which world each of the given ranks belongs to.
    pub of_rank: Vec<usize>,
    /// Index of the part of each task, where there is one.
    pub part_of: Vec<Option<usize>>,
    /// For each rank its other worlds: task of each of their ranks.
    others: Vec<Vec<Option<Vec<u32>>>>,
}

impl Worlds {
    /// Tells worlds apart and gives each rank its task.
    pub fn of(ranks: &[Rank]) -> Self {
        // By job; the first world's job is 0, the others follow in the order in which they began.
        let mut jobs: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for rank in ranks {
            let (began, size) = jobs.entry(rank.head.job).or_insert((u64::MAX, 0));
            *began = (*began).min(rank.head.init_ns);
            *size = (*size).max(rank.head.size.min(MOST_RANKS));
        }
        let mut order: Vec<(bool, u64, u64, u32)> =
            jobs.into_iter().map(|(job, (began, size))| (job != 0, began, job, size)).collect();
        order.sort_unstable();
        let mut ranges = Vec::new();
        let mut tasks = 0;
        for &(.., size) in &order {
            ranges.push((tasks, size));
            tasks += size;
        }
        let world_of = |rank: &Rank| order.iter().position(|world| world.2 == rank.head.job).unwrap_or(0);
        let of_rank: Vec<usize> = ranks.iter().map(world_of).collect();
        let mut part_of = vec![None; tasks as usize];
        for (at, rank) in ranks.iter().enumerate() {
            let (first, size) = ranges[of_rank[at]];
            if rank.head.rank < size {
                part_of[(first + rank.head.rank) as usize] = Some(at);
            }
        }
        let mut worlds = Self { ranges, of_rank, part_of, others: Vec::new() };
        worlds.others = ranks.iter().enumerate().map(|(at, rank)| worlds.resolve(ranks, at, rank)).collect();
        worlds
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.part_of.len()
    }

    /// The task of the `at`-th rank.
    pub fn task(&self, ranks: &[Rank], at: usize) -> u32 {
        self.ranges[self.of_rank[at]].0 + ranks[at].head.rank
    }

    /// The task of a peer of the `at`-th rank; none where its world is not known.
    pub fn peer(&self, at: usize, peer: Peer) -> Option<u32> {
        if peer.world == 0 {
            let (first, size) = self.ranges[self.of_rank[at]];
            return (peer.rank < size).then(|| first + peer.rank);
        }
        let other = self.others[at].get(peer.world as usize - 1)?.as_ref()?;
        other.get(peer.rank as usize).copied()
    }

    /// How many processes of spawned worlds left nothing: the library was not in them.
    pub fn unseen(&self, ranks: &[Rank]) -> u32 {
        let mut count: u32 = 0;
        for (rank, others) in ranks.iter().zip(&self.others) {
            for (world, tasks) in rank.worlds.iter().zip(others) {
                // Every rank of the communicator that spawned knows of it: its first one counts it.
                let counts = world.spawners.first().is_none_or(|&first| first == rank.head.rank);
                if world.kind == abi::COHABIT_MPI_WORLD_SPAWNED && tasks.is_none() && counts {
                    count = count.saturating_add(world.size);
                }
            }
        }
        count
    }

    fn resolve(&self, ranks: &[Rank], at: usize, rank: &Rank) -> Vec<Option<Vec<u32>>> {
        let own = self.of_rank[at];
        let resolve = |world: &super::part::World| match world.kind {
            abi::COHABIT_MPI_WORLD_SPAWNED => {
                let began = |other: &Rank| (world.known_ns.0..=world.known_ns.1).contains(&other.head.entered_ns);
                let found = (0..self.ranges.len()).find(|&other| {
                    let spawned = other != own && self.ranges[other].1 == world.size;
                    spawned && self.members(other).any(|member| began(&ranks[member]))
                })?;
                let (first, size) = self.ranges[found];
                Some((first..first + size).collect())
            }
            abi::COHABIT_MPI_WORLD_PARENT => self.spawners(ranks, own, rank, world.size),
            _ => None,
        };
        rank.worlds.iter().map(resolve).collect()
    }

    /// The tasks that spawned a rank's world, in the order of their communicator.
    fn spawners(&self, ranks: &[Rank], own: usize, rank: &Rank, size: u32) -> Option<Vec<u32>> {
        for (at, other) in ranks.iter().enumerate().filter(|&(at, _)| self.of_rank[at] != own) {
            let (first, world_size) = self.ranges[self.of_rank[at]];
            for world in other.worlds.iter().filter(|world| world.kind == abi::COHABIT_MPI_WORLD_SPAWNED) {
                let fits = world.size == self.ranges[own].1 && world.spawners.len() == size as usize;
                let then = (world.known_ns.0..=world.known_ns.1).contains(&rank.head.entered_ns);
                if fits && then && world.spawners.iter().all(|&spawner| spawner < world_size) {
                    return Some(world.spawners.iter().map(|&spawner| first + spawner).collect());
                }
            }
        }
        None
    }

    fn members(&self, world: usize) -> impl Iterator<Item = usize> + '_ {
        let (first, size) = self.ranges[world];
        self.part_of[first as usize..(first + size) as usize].iter().filter_map(|&part| part)
    }
}
