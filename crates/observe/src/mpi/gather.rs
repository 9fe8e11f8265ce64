//! The messages that gathering the parts takes (`native/mpi/gather.c`): Open MPI's monitoring counts them for the
//! program's own.

use super::abi;
use super::part::{Amount, Rank};
use super::scale::class_of;
use super::worlds::Worlds;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a piece.
const PIECE_BYTES: u64 = 256 << 10;

/// What each rank of the first world sent to each other in gathering, by size class.
pub fn messages(ranks: &[Rank], worlds: &Worlds) -> HashMap<(u32, u32), BTreeMap<u32, Amount>> {
    let (_, size) = worlds.ranges[0];
    let used = |rank: u32| worlds.part_of[rank as usize].map_or(0, |at| ranks[at].head.used);
    let mut found: HashMap<(u32, u32), BTreeMap<u32, Amount>> = HashMap::new();
    let mut add = |from: u32, to: u32, bytes: u64, messages: u64| {
        let amount = Amount { messages, bytes: bytes * messages };
        found.entry((from, to)).or_default().entry(class_of(bytes)).or_default().add(amount);
    };
    // A child's subtree is the ranks up to its lowest bit.
    for child in 1..size {
        let parent = child & (child - 1);
        // Asked, and told the end.
        add(parent, child, 1, 2);
        for rank in child..(child + (child & child.wrapping_neg())).min(size) {
            let bytes = used(rank);
            add(child, parent, PIECE_BYTES, bytes / PIECE_BYTES);
            add(child, parent, bytes % PIECE_BYTES, u64::from(bytes % PIECE_BYTES > 0));
        }
        add(child, parent, 0, 1);
    }
    found
}

const _: () = assert!(abi::COHABIT_MPI_PIECE_BYTES as u64 == PIECE_BYTES);
