//! Which thread of a rank sent messages, or fetched them: where threads are told apart (profiles of ranks and their
//! threads, with a level of thread support that lets several call MPI). Who receives is decided in MPI, and known of
//! one-sided calls only.

use super::part::{Kind, Rank};
use super::worlds::Worlds;

/// Messages of one size between two ranks of which one thread is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The sending rank's task.
    pub source: u32,
    /// The receiving one's.
    pub destination: u32,
    /// The size class, as the profile counts.
    pub class: u32,
    /// The thread that called MPI, by its thread id.
    pub tid: u32,
    /// Whether it is one of the sender's; else it fetched them.
    pub sends: bool,
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All of a run, in a fixed order.
pub fn called(ranks: &[Rank]) -> Vec<Called> {
    if ranks.iter().all(|rank| rank.callers.is_empty()) {
        return Vec::new();
    }
    let worlds = Worlds::of(ranks);
    let mut found = Vec::new();
    for (at, rank) in ranks.iter().enumerate() {
        let own = worlds.task(ranks, at);
        for &(tid, peer, class, amount) in &rank.callers {
            let Some(other) = worlds.peer(at, peer) else { continue };
            let sends = peer.kind != Kind::Got;
            let (source, destination) = if sends { (own, other) } else { (other, own) };
            let (messages, bytes) = (amount.messages, amount.bytes);
            // Class 0 of a profile holds empty messages and those of one byte.
            found.push(Called { source, destination, class: class.saturating_sub(1), tid, sends, messages, bytes });
        }
    }
    found.sort_by_key(|called| (called.source, called.destination, called.class, called.sends, called.tid));
    found
}
